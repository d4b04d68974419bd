/* Which files of a repository are pulled. */
#include "pull/choice.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attend/json.h"

#define WEIGHTS "*.safetensors"
#define INDEX "*.safetensors.index.json"

/* Weights in other formats, which nothing here reads, are skipped. */
static const char *const needed[] = {
    "config.json", "generation_config.json",
    /* the tokenizer */
    "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json",
    "vocab.json", "merges.txt", "vocab.txt", "tokenizer.model", "spiece.model",
    "sentencepiece.bpe.model", "chat_template.jinja",
    /* sentence-transformers: pooling of sentence vectors */
    "modules.json", "config_sentence_transformers.json", "sentence_bert_config.json",
    "[0-9]_*/config.json", "[0-9]_*/model.safetensors",
    /* the weights */
    WEIGHTS, INDEX};
enum { NEEDED = sizeof needed / sizeof *needed };

static bool fits(const char *pattern, const char *name) {
  return !fnmatch(pattern, name, FNM_PATHNAME);
}

bool is_index(const char *name) { return fits(INDEX, name); }

static bool is_needed(const char *name, bool indexed) {
  if (indexed && fits(WEIGHTS, name)) return false;
  for (int i = 0; i < NEEDED; i++)
    if (fits(needed[i], name)) return true;
  return false;
}

static int choose_needed(const names *files, bool *chosen) {
  bool indexed = false, any = false;
  for (size_t i = 0; i < files->count; i++) indexed |= is_index(files->name[i]);
  for (size_t i = 0; i < files->count; i++) any |= chosen[i] = is_needed(files->name[i], indexed);
  if (any) return EXIT_OK;
  complain(
      "none of its %zu files is one that a model needs here: name files, "
      "or take --all",
      files->count);
  return EXIT_FAILED;
}

/* An argument is a name or a glob pattern. */
static int choose_named(const char *pattern, const names *files, bool *chosen) {
  bool any = false;
  for (size_t i = 0; i < files->count; i++) {
    const char *name = files->name[i];
    if (strcmp(pattern, name) && fnmatch(pattern, name, 0)) continue;
    chosen[i] = any = true;
  }
  if (any) return EXIT_OK;
  complain("none of its %zu files is called %s: check the spelling", files->count, pattern);
  return EXIT_FAILED;
}

int choose_files(const pull_request *request, const names *files, bool *chosen) {
  if (request->all) memset(chosen, true, files->count * sizeof *chosen);
  if (!request->all && !request->count) return choose_needed(files, chosen);
  for (int i = 0; i < request->count; i++) {
    int code = choose_named(request->files[i], files, chosen);
    if (code) return code;
  }
  return EXIT_OK;
}

/* ---- shards -------------------------------------------------------------------- */

static attend_json *read_json(attend_context *ctx, const char *path) {
  int64_t size = file_bytes(path);
  FILE *f = size >= 0 ? fopen(path, "r") : NULL;
  attend_json *root = NULL;
  if (!f) {
    complain("%s cannot be opened: %s", path, strerror(errno));
    return NULL;
  }
  char *text = need((size_t)size, 1);
  size_t length = fread(text, 1, (size_t)size, f);
  fclose(f);
  if (attend_json_parse(ctx, path, text, length, &root)) {
    complain("%s", attend_message(ctx));
    root = NULL;
  }
  free(text);
  return root;
}

static bool mark(const char *name, const names *files, bool *chosen) {
  for (size_t i = 0; name && i < files->count; i++)
    if (!strcmp(name, files->name[i])) return chosen[i] = true;
  return false;
}

int choose_shards(const pull_request *request, const char *path, const names *files, bool *chosen) {
  attend_json *root = read_json(request->ctx, path);
  const attend_json *map = attend_json_get(root, "weight_map");
  int code = root ? EXIT_OK : EXIT_FAILED;
  for (size_t i = 0; !code && i < attend_json_count(map); i++) {
    const char *name = attend_json_string(attend_json_at(map, i), NULL);
    if (mark(name, files, chosen)) continue;
    complain("%s names the weights %.80s, which are not there: %s", path, name ? name : "(no text)",
             request->offline ? "pull without --offline" : "the repository lacks them");
    code = EXIT_FAILED;
  }
  attend_json_free(root);
  return code;
}
