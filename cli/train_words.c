/* The words that a run was begun with, kept and read again.
 *
 * Place: cli/ - see train.h. A run that goes on is parsed twice: the words that it
 * was begun with (run.json), then those that are given now.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attend/file.h"
#include "attend/json.h"
#include "folders.h"
#include "input.h"
#include "json_members.h"
#include "train.h"

/* The words of out/run.json: *words [n + 1]; they live as long as the program. */
static int read_words(const char *out, int *n, char ***words) {
  attend_context *ctx;
  attend_json *json = NULL;
  size_t length;
  int code = EXIT_OK;
  char *path = path_of("%s/run.json", out);
  FILE *file = fopen(path, "rb");
  *n = 0;
  if (file) {
    options none = {0};
    char *text = input_all(file, path, &length, &code);
    fclose(file);
    ctx = code ? NULL : options_context(&none, NULL, &code);
    if (ctx && attend_json_parse(ctx, path, text, length, &json))
      code = complain_status(ctx, ATTEND_IO);
    const attend_json *list_of = attend_json_get(json, "words");
    size_t count = attend_json_count(list_of);
    *words = need(count + 2, sizeof **words);
    (*words)[(*n)++] = need_copy("attend train");
    for (size_t i = 0; i < count; i++) {
      const char *word = attend_json_string(attend_json_at(list_of, i), NULL);
      if (word) (*words)[(*n)++] = need_copy(word);
    }
    attend_json_free(json);
    attend_context_free(ctx);
    free(text);
  }
  free(path);
  return code;
}

int train_parse(int argc, char **argv, train_settings *s) {
  int n;
  char **words;
  *s = train_defaults();
  s->round = 1;
  argp_parse(&train_argp, argc, argv, 0, NULL, s);
  if (s->resume && s->out) {
    const char *out = s->out;
    int code = read_words(out, &n, &words);
    if (code) return code;
    if (n) {
      *s = train_defaults();
      argp_parse(&train_argp, n, words, 0, NULL, s);
      s->round = 1;
      argp_parse(&train_argp, argc, argv, 0, NULL, s);
    }
  }
  if (!s->out) {
    complain("say --out DIR: where the run is kept");
    return EXIT_USAGE;
  }
  if (!s->data.count) {
    complain("say --data FILE: what to learn from");
    return EXIT_USAGE;
  }
  if (s->model && s->is_made) {
    complain(
        "%s has its own family and sizes: give a model, or --family and "
        "sizes of a new one",
        s->model);
    return EXIT_USAGE;
  }
  return EXIT_OK;
}

/* Words that name files must lead there from anywhere. */
static void put_word(attend_json_writer *w, const char *before,
                     const char *word) {
  static const char *const paths[] = {"--data", "--valid", "--tokenizer"};
  bool is_path = false;
  char *full;
  for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
    size_t n = strlen(paths[i]);
    is_path |= before && !strcmp(before, paths[i]);
    if (strncmp(word, paths[i], n) || word[n] != '=') continue;
    full = realpath(word + n + 1, NULL);
    char *joined = path_of("%s=%s", paths[i], full ? full : word + n + 1);
    attend_json_put_string(w, joined);
    free(joined);
    free(full);
    return;
  }
  full = is_path || word[0] != '-' ? realpath(word, NULL) : NULL;
  attend_json_put_string(w,
                         full && (is_path || strchr(word, '/')) ? full : word);
  free(full);
}

attend_status train_keep_words(attend_context *ctx, const train_settings *s,
                               int argc, char **argv) {
  char *path = path_of("%s/run.json", s->out);
  attend_json_writer w = attend_json_writer_text(ctx);
  attend_json_indent(&w, true);
  attend_json_open(&w, '{');
  json_text(&w, "version", attend_version());
  attend_json_member(&w, "words");
  attend_json_open(&w, '[');
  for (int i = 1; i < argc; i++)
    if (strcmp(argv[i], "--resume"))
      put_word(&w, i > 1 ? argv[i - 1] : NULL, argv[i]);
  attend_json_close(&w, ']');
  attend_json_close(&w, '}');
  attend_status status = attend_json_finish(&w);
  if (!status) status = attend_file_write(ctx, path, w.text, w.length);
  attend_json_writer_free(&w);
  free(path);
  return status;
}
