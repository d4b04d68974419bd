/* run.json: the command lines of a run, saved and parsed again.
 *
 * It holds the words that began the run, and those of each --resume. Resuming parses all
 * of them in order, and then the current command line.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attend/file.h"
#include "attend/json.h"
#include "base/json_write.h"
#include "table.h"
#include "text.h"
#include "train/train.h"

/* ---- reading them --------------------------------------------------------------- */

/* *json: out/run.json, or NULL if there is none. An exit code. */
static int read_run(attend_context *ctx, const char *out, attend_json **json) {
  size_t length;
  char *path = path_of("%s/run.json", out);
  char *text = file_bytes(path) >= 0 ? input_file(path, &length) : NULL;
  int code = file_bytes(path) >= 0 && !text ? EXIT_FAILED : EXIT_OK;
  *json = NULL;
  if (text && attend_json_parse(ctx, path, text, length, json))
    code = complain_status(ctx, ATTEND_IO);
  free(text);
  free(path);
  return code;
}

static void parse_list(const attend_json *list, train_settings *s) {
  size_t count = attend_json_count(list), first = s->kept.count;
  names_add(&s->kept, "attend train");
  for (size_t i = 0; i < count; i++) {
    const char *word = attend_json_string(attend_json_at(list, i), NULL);
    if (word) names_add(&s->kept, word);
  }
  size_t n = s->kept.count - first;
  char **words = need(n + 1, sizeof *words); /* argp moves them about */
  memcpy(words, s->kept.name + first, n * sizeof *words);
  s->data.replace = s->valid.replace = true;
  options_read(&verb_train, (int)n, words, s);
  free(words);
}

static int parse_kept(const char *out, train_settings *s) {
  attend_json *run = NULL;
  attend_context *ctx;
  attend_status status = options_reader(&ctx);
  int code = status ? complain_status(ctx, status) : read_run(ctx, out, &run);
  if (!code && run) {
    const attend_json *later = attend_json_get(run, "later");
    train_forget(s);
    *s = train_defaults();
    parse_list(attend_json_get(run, "words"), s);
    for (size_t i = 0; i < attend_json_count(later); i++) parse_list(attend_json_at(later, i), s);
  }
  attend_json_free(run);
  attend_context_free(ctx);
  return code;
}

/* ---- parsing ---------------------------------------------------------------------- */

static int check_words(const train_settings *s) {
  if (!s->out)
    complain("name the run's folder with --out DIR");
  else if (s->model && file_bytes(s->model) >= 0)
    complain("%s is a file, and no model: --data %s trains on it", s->model, s->model);
  else if (!s->data.count && s->resume)
    complain("%s holds no training to go on with: --data FILE begins one", s->out);
  else if (!s->data.count)
    complain("name the texts to train on with --data FILE");
  else if (s->roles && !s->made.attention)
    complain("--attention-roles needs a form: add --attention FORM");
  else if (s->model && s->is_made)
    complain(
        "%s has its own family and sizes: give a model, or --family and "
        "sizes of a new one",
        s->model);
  else
    return EXIT_OK;
  return EXIT_USAGE;
}

void train_forget(train_settings *s) {
  free(s->data.text);
  free(s->valid.text);
  names_free(&s->kept);
}

static bool is_same_text(const char *a, const char *b) { return a && b ? !strcmp(a, b) : a == b; }

static bool is_same_model(const train_settings *a, const train_settings *b) {
  const attend_architecture *x = &a->made, *y = &b->made;
  return is_same_text(x->family, y->family) && is_same_text(x->attention, y->attention) &&
         is_same_text(a->roles, b->roles) && x->layers == y->layers &&
         x->decoder_layers == y->decoder_layers && x->width == y->width && x->heads == y->heads &&
         x->kv_heads == y->kv_heads && x->mlp == y->mlp && x->decoder_width == y->decoder_width &&
         x->decoder_heads == y->decoder_heads && x->decoder_mlp == y->decoder_mlp &&
         x->positions == y->positions && x->vocab == y->vocab && x->untied == y->untied &&
         x->copy == y->copy;
}

int train_parse(int argc, char **argv, train_settings *s) {
  *s = train_defaults();
  options_read(&verb_train, argc, argv, s);
  if (s->resume && s->out) {
    int code = parse_kept(s->out, s);
    if (code) return code;
    const train_settings kept = *s;
    s->data.replace = s->valid.replace = true;
    options_read(&verb_train, argc, argv, s);
    s->is_other = !is_same_model(&kept, s);
  }
  return check_words(s);
}

/* ---- keeping them ----------------------------------------------------------------- */

/* Whether a word is that option, perhaps shortened: it was parsed, so it cannot
 * mean another. *value is what stands behind a '=', or NULL. */
static bool is_option(const char *word, const char *name, const char **value) {
  size_t n = strcspn(word, "=");
  *value = word[n] ? word + n + 1 : NULL;
  return n > 3 && !strncmp(word, name, n);
}

static bool names_path(const char *word, const char **value) {
  return is_option(word, "--data", value) || is_option(word, "--valid", value) ||
         is_option(word, "--tokenizer", value);
}

/* Paths become absolute, so that the run resumes from any directory. To be freed. */
static char *lasting(const char *before, const char *word) {
  const char *value, *none;
  bool named = names_path(word, &value) && value;
  bool is_path = before && names_path(before, &none) && !none;
  char *full = NULL, *to;
  if (named)
    full = realpath(value, NULL);
  else if (is_path || (word[0] != '-' && strchr(word, '/')))
    full = realpath(word, NULL);
  to = !full   ? need_copy(word)
       : named ? path_of("%.*s%s", (int)(value - word), word, full)
               : need_copy(full);
  free(full);
  return to;
}

/* Of one process, not of the run. */
static bool is_transient(const char *word) {
  const char *value;
  return is_option(word, "--resume", &value) || is_option(word, "--json", &value) ||
         !strcmp(word, "-j");
}

/* The command line without --out and options of one process. */
static names given_words(int argc, char **argv) {
  names list = {0};
  const char *value;
  for (int i = 1; i < argc; i++) {
    if (is_transient(argv[i])) continue;
    if (is_option(argv[i], "--out", &value) || is_option(argv[i], "--resume-from", &value)) {
      if (!value) i++;
      continue;
    }
    char *word = lasting(i > 1 ? argv[i - 1] : NULL, argv[i]);
    names_add(&list, word);
    free(word);
  }
  return list;
}

static bool is_same(const attend_json *list, const names *words) {
  if (attend_json_count(list) != words->count) return false;
  for (size_t i = 0; i < words->count; i++) {
    const char *word = attend_json_string(attend_json_at(list, i), NULL);
    if (!word || strcmp(word, words->name[i])) return false;
  }
  return true;
}

static void put_words(json_writer *w, const names *words) {
  json_open(w, '[');
  for (size_t i = 0; i < words->count; i++) json_put_string(w, words->name[i]);
  json_close(w, ']');
}

/* old NULL: the run begins. */
static void put_run(json_writer *w, const attend_json *old, const names *words) {
  const attend_json *later = attend_json_get(old, "later");
  json_indent(w, true);
  json_open(w, '{');
  json_member_string(w, "version", attend_version());
  json_member(w, "words");
  if (old)
    json_put_value(w, attend_json_get(old, "words"));
  else
    put_words(w, words);
  if (old) {
    json_member(w, "later");
    json_open(w, '[');
    for (size_t i = 0; i < attend_json_count(later); i++)
      json_put_value(w, attend_json_at(later, i));
    put_words(w, words);
    json_close(w, ']');
  }
  json_close(w, '}');
}

static attend_status write_run(attend_context *ctx, const char *out, const attend_json *old,
                               const names *words) {
  char *path = path_of("%s/run.json", out);
  json_writer w = json_writer_text(ctx);
  put_run(&w, old, words);
  attend_status status = json_finish(&w);
  if (!status) status = attend_file_write(ctx, path, w.text, w.length);
  json_writer_free(&w);
  free(path);
  return status;
}

attend_status train_keep_words(attend_context *ctx, const train_settings *s, int argc,
                               char **argv) {
  attend_json *old = NULL;
  names words = given_words(argc, argv);
  if (s->resume && read_run(ctx, s->out, &old)) return ATTEND_IO;
  const attend_json *later = attend_json_get(old, "later");
  size_t n = attend_json_count(later);
  const attend_json *last = n ? attend_json_at(later, n - 1) : attend_json_get(old, "words");
  attend_status status = ATTEND_OK;
  if (!old || (words.count && !is_same(last, &words))) status = write_run(ctx, s->out, old, &words);
  attend_json_free(old);
  names_free(&words);
  return status;
}
