/* Loading a tokenizer: detecting the file, the plain vocabulary files, and the files
 * beside the main one. load_json.c and load_sentencepiece.c have the other formats.
 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "text/loader.h"

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
  ATTEND_TRY(ctx_alloc(t->ctx, v->count * sizeof *t->model.scores, "scores", &t->model.scores));
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

/* ---- plain vocabulary files -------------------------------------------------------- */

/* What such files leave open (lower case, template) is in the settings beside them, or is
 * the default of the original models. */

static attend_status read_merge_lines(attend_tokenizer *t, const char *what, const char *text,
                                      size_t length) {
  size_t lines = 0;
  uint32_t rank = 0;
  for (size_t i = 0; i < length; i++) lines += text[i] == '\n';
  ATTEND_TRY(merges_reserve(t->ctx, &t->model, lines + 1));
  for (size_t at = 0, end; at < length; at = end + 1) {
    const char *stop = memchr(text + at, '\n', length - at);
    end = stop ? (size_t)(stop - text) : length;
    size_t n = end - at;
    if (n && text[end - 1] == '\r') n--;
    if (!n || (!at && !strncmp(text, "#version", 8))) continue;
    ATTEND_TRY(put_merge_text(t, what, rank++, text + at, n));
  }
  return ATTEND_OK;
}

static attend_status load_vocab_merges(attend_tokenizer *t, const char *vocab_path,
                                       const char *merges_path) {
  attend_json *root;
  char *text;
  size_t length;
  t->model.kind = MODEL_BPE;
  t->model.byte_level = true;
  t->kind = "byte-level BPE";
  ATTEND_TRY(step_add(t, &t->splitters, (step){.kind = STEP_BYTE_LEVEL, .cut = true}));
  ATTEND_TRY(decode_add(t, (decode_step){.kind = DECODE_BYTE_LEVEL}));
  ATTEND_TRY(json_read(t->ctx, vocab_path, &root));
  attend_status status = read_vocab_object(t, vocab_path, root);
  attend_json_free(root);
  ATTEND_TRY(status);
  ATTEND_TRY(file_read(t->ctx, merges_path, &text, &length));
  status = read_merge_lines(t, merges_path, text, length);
  ctx_free(t->ctx, text);
  return status;
}

static attend_status read_lines(attend_tokenizer *t, const char *text, size_t length) {
  int64_t id = 0;
  for (size_t at = 0, end; at < length; at = end + 1) {
    const char *stop = memchr(text + at, '\n', length - at);
    end = stop ? (size_t)(stop - text) : length;
    size_t n = end - at;
    if (n && text[end - 1] == '\r') n--;
    ATTEND_TRY(vocab_put(t, id++, text + at, n, 0, PIECE_NORMAL));
  }
  return vocab_index(t);
}

static attend_status add_bert_steps(attend_tokenizer *t, bool lower, bool chinese, bool strip) {
  steps *n = &t->normalizers;
  ATTEND_TRY(step_add(t, n, (step){.kind = STEP_CLEAN}));
  if (chinese) ATTEND_TRY(step_add(t, n, (step){.kind = STEP_CHINESE}));
  if (strip) ATTEND_TRY(step_add(t, n, (step){.kind = STEP_NFD}));
  if (strip) ATTEND_TRY(step_add(t, n, (step){.kind = STEP_DROP_NONSPACING}));
  if (lower) ATTEND_TRY(step_add(t, n, (step){.kind = STEP_LOWERCASE}));
  ATTEND_TRY(step_add(t, &t->splitters, (step){.kind = STEP_BERT_SPLIT}));
  return decode_add(t, (decode_step){.kind = DECODE_WORDPIECE, .text = {"##", 2}, .cleanup = true});
}

/* A vocabulary that has "The" is cased. */
static attend_status read_bert_settings(attend_tokenizer *t, const char *folder) {
  char path[LONGEST_PATH];
  attend_json *root = NULL;
  bool lower = vocab_name(&t->vocab, "The", 3) < 0;
  if (folder && file_beside(folder, "tokenizer_config.json", path, sizeof path))
    ATTEND_TRY(json_read(t->ctx, path, &root));
  lower = flag(root, "do_lower_case", lower);
  bool chinese = flag(root, "tokenize_chinese_chars", true);
  bool strip = flag(root, "strip_accents", lower);
  attend_json_free(root);
  return add_bert_steps(t, lower, chinese, strip);
}

static attend_status load_vocab_txt(attend_tokenizer *t, const char *path, const char *folder) {
  char *text;
  size_t length;
  model *m = &t->model;
  m->kind = MODEL_WORDPIECE;
  m->prefix = (chars){"##", 2};
  m->longest = 100;
  ATTEND_TRY(file_read(t->ctx, path, &text, &length));
  attend_status status = read_lines(t, text, length);
  ctx_free(t->ctx, text);
  ATTEND_TRY(status);
  m->unk = vocab_name(&t->vocab, "[UNK]", 5);
  if (m->unk < 0)
    return fail(t->ctx, ATTEND_IO, "%s has no [UNK]: it is not a WordPiece vocabulary", path);
  ATTEND_TRY(finish_wordpiece(t));
  return read_bert_settings(t, folder);
}

/* ---- the files beside the main one ------------------------------------------------- */

/* A tokenizer.json is complete; the settings only say which of its tokens are bos, eos
 * and so on. The other formats also get their added tokens and template from here. */

typedef struct {
  attend_json *config, *map, *added, *model; /* each may be NULL */
} settings;

const char *const special_names[ATTEND_SPECIALS] = {
    "bos_token", "eos_token", "unk_token", "pad_token", "cls_token", "sep_token", "mask_token"};

/* Default names; the first that exists is used. */
static const char *const usual[ATTEND_SPECIALS][4] = {
    {"<s>", "<|begin_of_text|>", "<bos>", "<|endoftext|>"},
    {"</s>", "<|end_of_text|>", "<eos>", "<|endoftext|>"},
    {"<unk>", "[UNK]", "<|endoftext|>", NULL},
    {"<pad>", "[PAD]", NULL, NULL},
    {"[CLS]", "<cls>", NULL, NULL},
    {"[SEP]", "<sep>", NULL, NULL},
    {"[MASK]", "<mask>", NULL, NULL}};

static attend_status read_one(attend_context *ctx, const char *folder, const char *name,
                              attend_json **root) {
  char path[LONGEST_PATH];
  if (!file_beside(folder, name, path, sizeof path)) return ATTEND_OK;
  return json_read(ctx, path, root);
}

static attend_status open_all(attend_context *ctx, const char *folder, settings *s) {
  if (!folder) return ATTEND_OK;
  ATTEND_TRY(read_one(ctx, folder, "tokenizer_config.json", &s->config));
  ATTEND_TRY(read_one(ctx, folder, "special_tokens_map.json", &s->map));
  ATTEND_TRY(read_one(ctx, folder, "added_tokens.json", &s->added));
  return read_one(ctx, folder, "config.json", &s->model);
}

static void close_all(const settings *s) {
  attend_json_free(s->config);
  attend_json_free(s->map);
  attend_json_free(s->added);
  attend_json_free(s->model);
}

static bool names(const char *text, const char *const list[]) {
  for (int i = 0; text && list[i]; i++)
    if (strstr(text, list[i])) return true;
  return false;
}

static bool is_one_of(const settings *s, const char *const classes[]) {
  return names(attend_json_string(attend_json_get(s->config, "tokenizer_class"), NULL), classes) ||
         names(attend_json_string(attend_json_get(s->model, "model_type"), NULL), classes);
}

static const char *const fairseq_models[] = {"XLMRoberta", "xlm-roberta", NULL};

attend_status settings_fairseq(attend_context *ctx, const char *folder, bool *fairseq) {
  settings s = {0};
  attend_status status = open_all(ctx, folder, &s);
  *fairseq = !status && is_one_of(&s, fairseq_models);
  close_all(&s);
  return status;
}

/* ---- added tokens ------------------------------------------------------------------------ */

/* tokenizer_config.json: {"id": {"content": .., "special": ..}} */
static attend_status add_from_config(attend_tokenizer *t, const settings *s) {
  const attend_json *list = attend_json_get(s->config, "added_tokens_decoder");
  t->vocab.listed += attend_json_count(list);
  for (size_t i = 0; i < attend_json_count(list); i++) {
    const attend_json *j = attend_json_at(list, i);
    const char *name = attend_json_name(j, NULL);
    char *end = NULL;
    long long id = name ? strtoll(name, &end, 10) : -1;
    added_token a = {.normalized = flag(j, "normalized", false) && !t->model.single};
    token_flags(j, &a);
    a.content.bytes = attend_json_string(attend_json_get(j, "content"), &a.content.length);
    if (!a.content.bytes || !a.content.length || id < 0 || !end || *end)
      return fail(t->ctx, ATTEND_IO,
                  "tokenizer_config.json: an entry of added_tokens_decoder has "
                  "no content or no id");
    ATTEND_TRY(put_added(t, "tokenizer_config.json", id, a));
  }
  return ATTEND_OK;
}

/* added_tokens.json: {"content": id} */
static attend_status add_from_list(attend_tokenizer *t, const settings *s) {
  t->vocab.listed += attend_json_count(s->added);
  for (size_t i = 0; i < attend_json_count(s->added); i++) {
    const attend_json *j = attend_json_at(s->added, i);
    added_token a = {0};
    int64_t id;
    a.content.bytes = attend_json_name(j, &a.content.length);
    if (!a.content.bytes || !a.content.length || !attend_json_integer(j, &id))
      return fail(t->ctx, ATTEND_IO, "added_tokens.json is not an object of tokens and ids");
    ATTEND_TRY(put_added(t, "added_tokens.json", id, a));
  }
  return ATTEND_OK;
}

/* ---- special tokens ---------------------------------------------------------------------- */

/* A string, or an object with content. */
static int32_t id_of(const attend_tokenizer *t, const attend_json *j) {
  size_t length;
  const char *text = attend_json_string(j, &length);
  if (!text) text = attend_json_string(attend_json_get(j, "content"), &length);
  return text ? vocab_name(&t->vocab, text, length) : -1;
}

static int32_t usual_id(const attend_tokenizer *t, int which) {
  for (int i = 0; i < 4 && usual[which][i]; i++) {
    const char *name = usual[which][i];
    int32_t id = vocab_name(&t->vocab, name, strlen(name));
    if (id >= 0) return id;
  }
  return -1;
}

/* A special token in a text is matched as that token, as in Hugging Face; not in
 * SentencePiece models, where it is plain text, except XLM-R's. */
static attend_status mark_special(attend_tokenizer *t, int32_t id) {
  piece *p = &t->vocab.piece[id];
  added_token a = {.content = p->name, .id = id, .special = true};
  p->special = true;
  for (size_t i = 0; i < t->added.count; i++)
    if (t->added.token[i].id == id) return ATTEND_OK;
  return added_put(t, &a);
}

static attend_status find_specials(attend_tokenizer *t, const settings *s, bool whole) {
  bool plain = t->model.single && !is_one_of(s, fairseq_models);
  for (int i = 0; i < ATTEND_SPECIALS; i++) {
    int32_t id = id_of(t, attend_json_get(s->config, special_names[i]));
    if (id < 0) id = id_of(t, attend_json_get(s->map, special_names[i]));
    if (id < 0) id = t->special[i];
    if (id < 0 && i == ATTEND_SPECIAL_UNK) id = t->model.unk;
    if (id < 0) id = usual_id(t, i);
    t->special[i] = id;
    if (id >= 0 && !whole && !plain) ATTEND_TRY(mark_special(t, id));
  }
  return ATTEND_OK;
}

/* ---- templates: special tokens around a text ----------------------------------------------- */

static void surround_sentencepiece(attend_tokenizer *t, const settings *s) {
  static const char *const encoders[] = {"T5", "t5", "Pegasus", "pegasus", NULL};
  int32_t bos = t->special[ATTEND_SPECIAL_BOS];
  int32_t eos = t->special[ATTEND_SPECIAL_EOS];
  bool ends = is_one_of(s, encoders) || bos < 0;
  bool before = flag(s->config, "add_bos_token", !ends);
  bool after = flag(s->config, "add_eos_token", ends);
  template_around(t, before ? bos : -1, after ? eos : -1, -1, 0);
}

/* RoBERTa's template; or, for newer models, a begin token and no end. */
static void surround_bytes(attend_tokenizer *t, const settings *s) {
  static const char *const roberta[] = {"Roberta",    "roberta", "Bart", "bart",
                                        "Longformer", "LED",     NULL};
  int32_t bos = t->special[ATTEND_SPECIAL_BOS];
  int32_t eos = t->special[ATTEND_SPECIAL_EOS];
  bool masks = t->special[ATTEND_SPECIAL_MASK] >= 0;
  bool both = bos >= 0 && eos >= 0 && bos != eos;
  bool first = bos >= 0 && flag(s->config, "add_bos_token", false);
  if (both && (is_one_of(s, roberta) || (masks && !first)))
    template_around(t, bos, eos, eos, 0);
  else if (first)
    template_around(t, bos, -1, bos, 1);
}

static void surround(attend_tokenizer *t, const settings *s) {
  int32_t cls = t->special[ATTEND_SPECIAL_CLS];
  int32_t sep = t->special[ATTEND_SPECIAL_SEP];
  int32_t bos = t->special[ATTEND_SPECIAL_BOS];
  int32_t eos = t->special[ATTEND_SPECIAL_EOS];
  if (t->model.single && is_one_of(s, fairseq_models)) {
    template_around(t, bos, eos, eos, 0);
  } else if (t->model.kind == MODEL_WORDPIECE && cls >= 0 && sep >= 0) {
    template_around(t, cls, sep, -1, 1);
  } else if (t->model.byte_level) {
    surround_bytes(t, s);
  } else if (t->model.single && cls >= 0 && sep >= 0) {
    template_around(t, cls, sep, -1, 1);
  } else if (t->model.single) {
    surround_sentencepiece(t, s);
  }
}

static attend_status apply(attend_tokenizer *t, const settings *s, bool whole) {
  if (!whole) ATTEND_TRY(add_from_list(t, s));
  if (!whole) ATTEND_TRY(add_from_config(t, s));
  ATTEND_TRY(vocab_index(t));
  ATTEND_TRY(find_specials(t, s, whole));
  if (!whole) surround(t, s);
  if (!whole && t->model.byte_level && flag(s->config, "add_prefix_space", false))
    t->splitters.step[0].prefix = true;
  return ATTEND_OK;
}

static attend_status read_settings(attend_tokenizer *t, const char *folder, bool whole) {
  settings s = {0};
  attend_status status = open_all(t->ctx, folder, &s);
  if (!status) status = apply(t, &s, whole);
  close_all(&s);
  return status;
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
  ATTEND_TRY(ctx_alloc_zeroed(ctx, sizeof **t, "a tokenizer", t));
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
  ctx_free(ctx, list->step);
}

void attend_tokenizer_free(attend_tokenizer *t) {
  if (!t) return;
  steps_free(t->ctx, &t->normalizers);
  steps_free(t->ctx, &t->splitters);
  ctx_free(t->ctx, t->model.merges);
  trie_free(t->ctx, &t->model.trie);
  ctx_free(t->ctx, t->model.scores);
  added_free(t->ctx, &t->added);
  vocab_free(t->ctx, &t->vocab);
  pool_free(t->ctx, &t->pool);
  ctx_free(t->ctx, t);
}
