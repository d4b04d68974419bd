/* Loading a tokenizer: detecting the file, and the steps common to all formats. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

#include "text/loader.h"
#include "text/pattern.h"

/* ---- common to all formats ------------------------------------------------------------ */

attend_status text_keep(attend_tokenizer *t, const char *bytes, size_t length, chars *kept) {
  kept->length = length;
  return pool_copy(t->ctx, &t->pool, bytes, length, &kept->bytes);
}

attend_status step_add(attend_tokenizer *t, steps *list, step st) {
  attend_status status = list->count < STEPS_MOST
                             ? plain_find(t, &st)
                             : fail(t->ctx, ATTEND_UNSUPPORTED,
                                    "the tokenizer's normalizer or pre-tokenizer has more than "
                                    "%d steps",
                                    STEPS_MOST);
  if (!status)
    status =
        grow(t->ctx, &list->step, &list->capacity, list->count + 1, sizeof *list->step, "steps");
  if (status) {
    pattern_free(t->ctx, st.pattern);
    return status;
  }
  list->step[list->count++] = st;
  return ATTEND_OK;
}

attend_status decode_add(attend_tokenizer *t, decode_step st) {
  if (t->decodes == DECODE_MOST)
    return fail(t->ctx, ATTEND_UNSUPPORTED, "the tokenizer's decoder has more than %d steps",
                DECODE_MOST);
  t->decode[t->decodes++] = st;
  return ATTEND_OK;
}

attend_status build_trie(attend_tokenizer *t) {
  const vocab *v = &t->vocab;
  ATTEND_TRY(trie_start(t->ctx, &t->model.trie));
  for (size_t i = 0; i < v->count; i++) {
    const piece *p = &v->piece[i];
    int32_t *value;
    if (p->kind != PIECE_NORMAL || !p->key.length) continue;
    ATTEND_TRY(trie_put(t->ctx, &t->model.trie, p->key.bytes, p->key.length, &value));
    *value = (int32_t)i;
  }
  ATTEND_TRY(take(t->ctx, v->count * sizeof *t->model.scores, "scores", &t->model.scores));
  for (size_t i = 0; i < v->count; i++) t->model.scores[i] = v->piece[i].score;
  return ATTEND_OK;
}

attend_status put_added(attend_tokenizer *t, const char *what, int64_t id, added_token token) {
  const chars *c = &token.content;
  int32_t known = vocab_name(&t->vocab, c->bytes, c->length);
  if (known >= 0) id = known;
  if (known < 0 && (size_t)id < t->vocab.count && id >= 0 && t->vocab.piece[id].kind &&
      (t->vocab.piece[id].name.length != c->length ||
       memcmp(t->vocab.piece[id].name.bytes, c->bytes, c->length)))
    return fail(t->ctx, ATTEND_IO, "%s: the added token \"%.60s\" wants the id %lld of \"%.60s\"",
                what, c->bytes, (long long)id, t->vocab.piece[id].name.bytes);
  if (known < 0) ATTEND_TRY(vocab_put(t, id, c->bytes, c->length, 0, PIECE_HIDDEN));
  if (known < 0) t->vocab.piece[id].key = t->vocab.piece[id].name;
  if (token.special) t->vocab.piece[id].special = true;
  token.id = (int32_t)id;
  return added_put(t, &token);
}

/* ---- which file ------------------------------------------------------------------------ */

/* path with its ending replaced, if that file exists. */
static bool sibling(const char *path, const char *end, const char *other, char *out, size_t size) {
  struct stat info;
  size_t stem = strlen(path) - strlen(end);
  int n = snprintf(out, size, "%.*s%s", (int)stem, path, other);
  return n > 0 && (size_t)n < size && !stat(out, &info);
}

static attend_status load_pair(attend_tokenizer *t, const char *path, const char *end,
                               const char *other) {
  char beside[LONGEST_PATH];
  bool is_vocab = name_ends(path, "vocab.json");
  if (!sibling(path, end, other, beside, sizeof beside))
    return fail(t->ctx, ATTEND_IO, "%s needs a file whose name ends in %s beside it", path, other);
  return is_vocab ? load_vocab_merges(t, path, beside) : load_vocab_merges(t, beside, path);
}

static attend_status load_json_file(attend_tokenizer *t, const char *path, bool *whole) {
  attend_json *root;
  if (name_ends(path, "vocab.json")) return load_pair(t, path, "vocab.json", "merges.txt");
  ATTEND_TRY(json_read(t->ctx, path, &root));
  *whole = true;
  attend_status status = load_tokenizer_json(t, path, root);
  attend_json_free(root);
  return status;
}

static attend_status load_file(attend_tokenizer *t, const char *path, const char *folder,
                               bool *whole) {
  if (name_ends(path, ".json")) return load_json_file(t, path, whole);
  if (name_ends(path, "merges.txt")) return load_pair(t, path, "merges.txt", "vocab.json");
  if (name_ends(path, ".txt")) return load_vocab_txt(t, path, folder);
  if (name_ends(path, ".model")) return load_sentencepiece(t, path, folder);
  if (name_ends(path, ".bin")) return load_llama2c(t, path);
  return fail(t->ctx, ATTEND_INVALID,
              "%s: the name does not say which kind of tokenizer it is: it "
              "must end in .json, .txt, .model or .bin",
              path);
}

/* A llama2.c vocabulary: tok512.bin and its like. */
static bool find_bin(const char *folder, char *path, size_t size) {
  DIR *d = opendir(folder);
  const struct dirent *entry;
  bool found = false;
  while (d && !found && (entry = readdir(d)))
    found = !strncmp(entry->d_name, "tok", 3) && name_ends(entry->d_name, ".bin") &&
            file_beside(folder, entry->d_name, path, size);
  if (d) closedir(d);
  return found;
}

static attend_status load_folder(attend_tokenizer *t, const char *folder, bool *whole) {
  static const char *const names[] = {"tokenizer.json",
                                      "tokenizer.model",
                                      "spiece.model",
                                      "sentencepiece.bpe.model",
                                      "vocab.json",
                                      "vocab.txt",
                                      NULL};
  char path[LONGEST_PATH];
  for (int i = 0; names[i]; i++)
    if (file_beside(folder, names[i], path, sizeof path)) return load_file(t, path, folder, whole);
  if (find_bin(folder, path, sizeof path)) return load_llama2c(t, path);
  return fail(t->ctx, ATTEND_IO,
              "%s has no tokenizer: no tokenizer.json, tokenizer.model, "
              "vocab.json with merges.txt, vocab.txt or tok*.bin",
              folder);
}

/* ---- public functions -------------------------------------------------------------------- */

/* Completes the tokenizer after the main file was read. */
static attend_status complete(attend_tokenizer *t, const char *what, const char *folder,
                              bool whole) {
  ATTEND_TRY(read_settings(t, folder, whole));
  t->vocab.real = t->vocab.count;
  if (!t->vocab.real) return fail(t->ctx, ATTEND_IO, "%s: the vocabulary is empty", what);
  ATTEND_TRY(vocab_index(t)); /* including those that the settings added */
  if (t->model.from_scores) ATTEND_TRY(merges_from_scores(t));
  ATTEND_TRY(added_finish(t));
  t->chunked = may_chunk(t);
  return ATTEND_OK;
}

static attend_status load(attend_tokenizer *t, const char *path) {
  struct stat info;
  bool whole = false;
  if (stat(path, &info))
    return fail(t->ctx, ATTEND_IO, "%s cannot be opened: %s", path, strerror(errno));
  bool is_folder = S_ISDIR(info.st_mode);
  const char *folder = is_folder ? path : NULL;
  ATTEND_TRY(is_folder ? load_folder(t, path, &whole) : load_file(t, path, NULL, &whole));
  return complete(t, path, folder, whole);
}

static attend_status parse(attend_tokenizer *t, const char *what, const char *json, size_t length) {
  attend_json *root;
  ATTEND_TRY(attend_json_parse(t->ctx, what, json, length, &root));
  attend_status status = load_tokenizer_json(t, what, root);
  attend_json_free(root);
  return status ? status : complete(t, what, NULL, true);
}

static attend_status start(attend_context *ctx, attend_tokenizer **t) {
  ATTEND_TRY(take_zeroed(ctx, sizeof **t, "a tokenizer", t));
  (*t)->ctx = ctx;
  (*t)->model.unk = -1;
  (*t)->vocab.hash = hash_key_draw();
  for (int i = 0; i < ATTEND_SPECIALS; i++) (*t)->special[i] = -1;
  return ATTEND_OK;
}

attend_status attend_tokenizer_load(attend_context *ctx, const char *path,
                                    attend_tokenizer **tokenizer) {
  attend_tokenizer *t;
  *tokenizer = NULL;
  ATTEND_TRY(start(ctx, &t));
  attend_status status = load(t, path);
  if (status)
    attend_tokenizer_free(t);
  else
    *tokenizer = t;
  return status;
}

attend_status tokenizer_parse(attend_context *ctx, const char *what, const char *json,
                              size_t length, attend_tokenizer **tokenizer) {
  attend_tokenizer *t;
  *tokenizer = NULL;
  ATTEND_TRY(start(ctx, &t));
  attend_status status = parse(t, what, json, length);
  if (status)
    attend_tokenizer_free(t);
  else
    *tokenizer = t;
  return status;
}

static void steps_free(const attend_context *ctx, steps *list) {
  for (size_t i = 0; i < list->count; i++) pattern_free(ctx, list->step[i].pattern);
  give(ctx, list->step);
}

void attend_tokenizer_free(attend_tokenizer *t) {
  if (!t) return;
  steps_free(t->ctx, &t->normalizers);
  steps_free(t->ctx, &t->splitters);
  give(t->ctx, t->model.merges);
  trie_free(t->ctx, &t->model.trie);
  give(t->ctx, t->model.scores);
  added_free(t->ctx, &t->added);
  vocab_free(t->ctx, &t->vocab);
  pool_free(t->ctx, &t->pool);
  give(t->ctx, t);
}
