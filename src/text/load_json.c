/* Reading a tokenizer.json (Hugging Face tokenizers): model, added tokens,
 * normalizer, pre-tokenizer, post-processor, decoder.
 */
#include <math.h>

#include "text/loader.h"

/* ---- vocabularies --------------------------------------------------------------------- */

attend_status read_vocab_object(attend_tokenizer *t, const char *what, const attend_json *j) {
  if (attend_json_kind_of(j) != ATTEND_JSON_OBJECT)
    return fail(t->ctx, ATTEND_IO, "%s: the model's vocab is not an object of pieces and ids",
                what);
  t->vocab.listed += attend_json_count(j);
  for (size_t i = 0; i < attend_json_count(j); i++) {
    const attend_json *member = attend_json_at(j, i);
    size_t length;
    int64_t id;
    const char *name = attend_json_name(member, &length);
    if (!attend_json_integer(member, &id))
      return fail(t->ctx, ATTEND_IO, "%s: the id of \"%.60s\" is no number", what, name);
    ATTEND_TRY(vocab_put(t, id, name, length, 0, PIECE_NORMAL));
  }
  return vocab_index(t);
}

static attend_status read_vocab_list(attend_tokenizer *t, const char *what, const attend_json *j) {
  float min = 0;
  for (size_t i = 0; i < attend_json_count(j); i++) {
    const attend_json *pair = attend_json_at(j, i);
    size_t length;
    const char *name = attend_json_string(attend_json_at(pair, 0), &length);
    double score = attend_json_number(attend_json_at(pair, 1), NAN);
    if (!name || !isfinite((float)score))
      return fail(t->ctx, ATTEND_IO,
                  "%s: entry %zu of the model's vocab is not a piece and a "
                  "score",
                  what, i);
    if ((float)score < min) min = (float)score;
    ATTEND_TRY(vocab_put(t, (int64_t)i, name, length, (float)score, PIECE_NORMAL));
  }
  t->model.unk_score = min - 10; /* as SentencePiece has it */
  return vocab_index(t);
}

/* ---- merges ------------------------------------------------------------------------------ */

static attend_status put_merge(attend_tokenizer *t, const char *what, uint32_t rank, chars a,
                               chars b) {
  char joined[LONGEST_PIECE];
  size_t skip = t->model.prefix.length;
  int32_t left = vocab_name(&t->vocab, a.bytes, a.length);
  int32_t right = vocab_name(&t->vocab, b.bytes, b.length);
  if (b.length < skip) skip = b.length;
  if (a.length + b.length - skip > sizeof joined)
    return fail(t->ctx, ATTEND_IO, "%s: merge %u is too long", what, rank);
  memcpy(joined, a.bytes, a.length);
  memcpy(joined + a.length, b.bytes + skip, b.length - skip);
  int32_t made = vocab_name(&t->vocab, joined, a.length + b.length - skip);
  if (left < 0 || right < 0 || made < 0)
    return fail(t->ctx, ATTEND_IO,
                "%s: merge %u, of \"%.40s\" and \"%.40s\", is not about pieces "
                "of the vocabulary",
                what, rank, a.bytes, b.bytes);
  merges_put(&t->model, left, right, made, rank);
  return ATTEND_OK;
}

/* "a b"; a and b have no spaces. */
attend_status put_merge_text(attend_tokenizer *t, const char *what, uint32_t rank, const char *text,
                             size_t length) {
  const char *space = memchr(text, ' ', length);
  if (!space)
    return fail(t->ctx, ATTEND_IO, "%s: merge %u, \"%.40s\", is not two pieces", what, rank, text);
  size_t first = (size_t)(space - text);
  return put_merge(t, what, rank, (chars){text, first}, (chars){space + 1, length - first - 1});
}

static attend_status read_merges(attend_tokenizer *t, const char *what, const attend_json *j) {
  size_t count = attend_json_count(j);
  ATTEND_TRY(merges_reserve(t->ctx, &t->model, count));
  for (size_t i = 0; i < count; i++) {
    const attend_json *entry = attend_json_at(j, i);
    chars a, b;
    const char *text = attend_json_string(entry, &a.length);
    if (text) {
      ATTEND_TRY(put_merge_text(t, what, (uint32_t)i, text, a.length));
      continue;
    }
    a.bytes = attend_json_string(attend_json_at(entry, 0), &a.length);
    b.bytes = attend_json_string(attend_json_at(entry, 1), &b.length);
    if (!a.bytes || !b.bytes)
      return fail(t->ctx, ATTEND_IO, "%s: merge %zu is not two pieces", what, i);
    ATTEND_TRY(put_merge(t, what, (uint32_t)i, a, b));
  }
  return ATTEND_OK;
}

/* ---- models --------------------------------------------------------------------------- */

static attend_status keep_member(attend_tokenizer *t, const attend_json *j, const char *name,
                                 chars *kept) {
  size_t length;
  const char *text = attend_json_string(attend_json_get(j, name), &length);
  return text ? text_keep(t, text, length, kept) : ATTEND_OK;
}

static int32_t unk_of(const attend_tokenizer *t, const attend_json *j) {
  size_t length;
  const char *unk = attend_json_string(attend_json_get(j, "unk_token"), &length);
  return unk ? vocab_name(&t->vocab, unk, length) : -1;
}

static attend_status read_bpe(attend_tokenizer *t, const char *what, const attend_json *j) {
  model *m = &t->model;
  m->kind = MODEL_BPE;
  t->kind = m->byte_level ? "byte-level BPE" : "BPE";
  if (attend_json_number(attend_json_get(j, "dropout"), 0) > 0)
    return fail(t->ctx, ATTEND_UNSUPPORTED,
                "%s: the model drops merges at random, which makes ids that "
                "cannot be repeated: set dropout to null",
                what);
  ATTEND_TRY(keep_member(t, j, "continuing_subword_prefix", &m->prefix));
  ATTEND_TRY(keep_member(t, j, "end_of_word_suffix", &m->suffix));
  m->fuse_unk = flag(j, "fuse_unk", false);
  m->byte_fallback = flag(j, "byte_fallback", false);
  m->ignore_merges = flag(j, "ignore_merges", false);
  ATTEND_TRY(read_vocab_object(t, what, attend_json_get(j, "vocab")));
  m->unk = unk_of(t, j);
  ATTEND_TRY(read_merges(t, what, attend_json_get(j, "merges")));
  bool whole = !t->splitters.count && !m->prefix.length && !m->suffix.length && !m->ignore_merges;
  return whole ? cut_at_marks(t, "\xe2\x96\x81") : ATTEND_OK;
}

static uint32_t node_behind(const trie *t, chars prefix) {
  uint32_t node = 0;
  for (size_t i = 0; i < prefix.length; i++) {
    const trie_edge *e = trie_step(t, node, (unsigned char)prefix.bytes[i]);
    if (!e) return 0;
    node = e->child;
  }
  return node;
}

attend_status finish_wordpiece(attend_tokenizer *t) {
  t->kind = "WordPiece";
  ATTEND_TRY(build_trie(t));
  t->model.inside = node_behind(&t->model.trie, t->model.prefix);
  return ATTEND_OK;
}

static attend_status read_wordpiece(attend_tokenizer *t, const char *what, const attend_json *j) {
  model *m = &t->model;
  int64_t longest = 100;
  m->kind = MODEL_WORDPIECE;
  m->prefix = (chars){"##", 2};
  ATTEND_TRY(keep_member(t, j, "continuing_subword_prefix", &m->prefix));
  attend_json_integer(attend_json_get(j, "max_input_chars_per_word"), &longest);
  m->longest = longest > 0 ? (size_t)longest : 0;
  ATTEND_TRY(read_vocab_object(t, what, attend_json_get(j, "vocab")));
  m->unk = unk_of(t, j);
  return finish_wordpiece(t);
}

static attend_status read_unigram(attend_tokenizer *t, const char *what, const attend_json *j) {
  model *m = &t->model;
  int64_t unk = -1;
  m->kind = MODEL_UNIGRAM;
  m->fuse_unk = true;
  t->kind = "unigram";
  m->byte_fallback = flag(j, "byte_fallback", false);
  ATTEND_TRY(read_vocab_list(t, what, attend_json_get(j, "vocab")));
  attend_json_integer(attend_json_get(j, "unk_id"), &unk);
  if (unk >= (int64_t)t->vocab.count)
    return fail(t->ctx, ATTEND_IO, "%s: unk_id %lld is beyond the vocabulary", what,
                (long long)unk);
  m->unk = unk < 0 ? -1 : (int32_t)unk;
  return build_trie(t);
}

/* Older files do not name the model type: its members tell. */
static attend_status read_model(attend_tokenizer *t, const char *what, const attend_json *j) {
  const char *type = attend_json_string(attend_json_get(j, "type"), NULL);
  const attend_json *v = attend_json_get(j, "vocab");
  if (!type && attend_json_get(j, "merges")) type = "BPE";
  if (!type && attend_json_kind_of(v) == ATTEND_JSON_ARRAY) type = "Unigram";
  if (!type && v) type = "WordPiece";
  if (!type)
    return fail(t->ctx, ATTEND_IO, "%s has no model with a vocabulary: it is not a tokenizer.json",
                what);
  if (!strcmp(type, "BPE")) return read_bpe(t, what, j);
  if (!strcmp(type, "WordPiece")) return read_wordpiece(t, what, j);
  if (!strcmp(type, "Unigram")) return read_unigram(t, what, j);
  return fail(t->ctx, ATTEND_UNSUPPORTED,
              "%s: the model \"%.40s\" is not known here: BPE, WordPiece and "
              "Unigram are",
              what, type);
}

/* ---- normalizers and pre-tokenizers -------------------------------------- */

/* Reads a step, or those of a Sequence, whose member `list` has them. An unknown step is an
 * error that names it: leaving it out would silently give other ids. */
typedef attend_status step_reader(attend_tokenizer *t, const char *what, const attend_json *j,
                                  const char *type);
static attend_status each_step(attend_tokenizer *t, const char *what, const attend_json *j,
                               const char *list, step_reader *read) {
  if (json_is_none(j)) return ATTEND_OK;
  if (strcmp(step_type(j), "Sequence")) return read(t, what, j, step_type(j));
  const attend_json *items = attend_json_get(j, list);
  for (size_t i = 0; i < attend_json_count(items); i++)
    ATTEND_TRY(each_step(t, what, attend_json_at(items, i), list, read));
  return ATTEND_OK;
}

static attend_status keep_text(attend_tokenizer *t, const char *what, const attend_json *j,
                               const char *name, chars *kept) {
  size_t length;
  const char *text = attend_json_string(attend_json_get(j, name), &length);
  if (text) return text_keep(t, text, length, kept);
  return fail(t->ctx, ATTEND_IO, "%s: %s has no \"%s\"", what, step_type(j), name);
}

/* {"String": ..}, {"Regex": ..}, or a string. */
static attend_status read_pattern(attend_tokenizer *t, const char *what, const attend_json *j,
                                  pattern **p) {
  const attend_json *from = attend_json_get(j, "pattern");
  size_t length;
  const char *text = attend_json_string(from, &length);
  *p = NULL;
  if (!text) text = attend_json_string(attend_json_get(from, "String"), &length);
  if (text) return pattern_string(t, text, length, p);
  text = attend_json_string(attend_json_get(from, "Regex"), &length);
  if (text) return pattern_regex(t, text, length, p);
  return fail(t->ctx, ATTEND_IO, "%s: %s has no pattern", what, step_type(j));
}

/* ---- normalizers ------------------------------------------------------------------------ */

static int base64_digit(char c) {
  static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const char *found = c ? strchr(digits, c) : NULL;
  return found ? (int)(found - digits) : -1;
}

/* Decodes into `out`, which has room for 3/4 of the length. */
static bool base64(const char *text, size_t length, char *out, size_t *n) {
  uint32_t bits = 0;
  int have = 0;
  *n = 0;
  while (length && text[length - 1] == '=') length--;
  for (size_t i = 0; i < length; i++) {
    int digit = base64_digit(text[i]);
    if (digit < 0) return false;
    bits = bits << 6 | (uint32_t)digit;
    have += 6;
    if (have < 8) continue;
    have -= 8;
    out[(*n)++] = (char)(bits >> have);
  }
  return true;
}

static attend_status read_charsmap(attend_tokenizer *t, const char *what, const attend_json *j,
                                   step *st) {
  size_t length, n;
  char *raw;
  chars kept = {0};
  const char *text = attend_json_string(attend_json_get(j, "precompiled_charsmap"), &length);
  if (!text) return ATTEND_OK; /* null: nothing is replaced */
  ATTEND_TRY(ctx_alloc(t->ctx, length + 1, "a table", &raw));
  bool good = base64(text, length, raw, &n);
  attend_status status = ATTEND_OK;
  if (!good) status = fail(t->ctx, ATTEND_IO, "%s: precompiled_charsmap is not base64", what);
  if (!status) status = text_keep(t, raw, n, &kept);
  ctx_free(t->ctx, raw);
  ATTEND_TRY(status);
  return charsmap_check(t->ctx, what, kept.bytes, kept.length, &st->map);
}

static attend_status read_bert(attend_tokenizer *t, const attend_json *j) {
  steps *n = &t->normalizers;
  bool lower = flag(j, "lowercase", true);
  if (flag(j, "clean_text", true)) ATTEND_TRY(step_add(t, n, (step){.kind = STEP_CLEAN}));
  if (flag(j, "handle_chinese_chars", true))
    ATTEND_TRY(step_add(t, n, (step){.kind = STEP_CHINESE}));
  if (flag(j, "strip_accents", lower)) {
    ATTEND_TRY(step_add(t, n, (step){.kind = STEP_NFD}));
    ATTEND_TRY(step_add(t, n, (step){.kind = STEP_DROP_NONSPACING}));
  }
  return lower ? step_add(t, n, (step){.kind = STEP_LOWERCASE}) : ATTEND_OK;
}

static const struct {
  const char *type;
  step_kind kind;
} simple[] = {{"NFC", STEP_NFC},
              {"NFD", STEP_NFD},
              {"NFKC", STEP_NFKC},
              {"NFKD", STEP_NFKD},
              {"Lowercase", STEP_LOWERCASE},
              {"StripAccents", STEP_DROP_MARKS},
              {"Nmt", STEP_NMT},
              {"Replace", STEP_REPLACE},
              {"Prepend", STEP_PREPEND},
              {"Strip", STEP_STRIP},
              {"Precompiled", STEP_CHARSMAP},
              {"Whitespace", STEP_WHITESPACE},
              {"WhitespaceSplit", STEP_WHITESPACE_SPLIT},
              {"BertPreTokenizer", STEP_BERT_SPLIT},
              {"ByteLevel", STEP_BYTE_LEVEL},
              {"Metaspace", STEP_METASPACE},
              {"Digits", STEP_DIGITS},
              {"Punctuation", STEP_PUNCTUATION},
              {"Split", STEP_SPLIT},
              {"CharDelimiterSplit", STEP_SPLIT}};

static bool find_kind(const char *type, bool normalizer, step_kind *kind) {
  for (size_t i = 0; i < sizeof simple / sizeof *simple; i++) {
    bool early = simple[i].kind < STEP_NORMALIZERS;
    if (early != normalizer || strcmp(simple[i].type, type)) continue;
    *kind = simple[i].kind;
    return true;
  }
  return false;
}

/* Members of a normalizer besides its type. */
static attend_status read_normalizer_members(attend_tokenizer *t, const char *what,
                                             const attend_json *j, step *st) {
  if (st->kind == STEP_REPLACE) {
    ATTEND_TRY(keep_text(t, what, j, "content", &st->text));
    return read_pattern(t, what, j, &st->pattern);
  }
  if (st->kind == STEP_PREPEND) return keep_text(t, what, j, "prepend", &st->text);
  if (st->kind == STEP_CHARSMAP) return read_charsmap(t, what, j, st);
  st->left = flag(j, "strip_left", true);
  st->right = flag(j, "strip_right", true);
  return ATTEND_OK;
}

static attend_status read_normalizer(attend_tokenizer *t, const char *what, const attend_json *j,
                                     const char *type) {
  step st = {0};
  if (!strcmp(type, "BertNormalizer")) return read_bert(t, j);
  if (!find_kind(type, true, &st.kind))
    return fail(t->ctx, ATTEND_UNSUPPORTED, "%s: the normalizer \"%.40s\" is not known here", what,
                type);
  attend_status status = read_normalizer_members(t, what, j, &st);
  if (!status) return step_add(t, &t->normalizers, st);
  pattern_free(t->ctx, st.pattern);
  return status;
}

/* ---- pre-tokenizers --------------------------------------------------------------------- */

static attend_status read_behaviour(attend_tokenizer *t, const char *what, const attend_json *j,
                                    cut_behaviour *how) {
  static const char *const names[] = {[CUT_REMOVED] = "Removed",
                                      [CUT_ISOLATED] = "Isolated",
                                      [CUT_WITH_PREVIOUS] = "MergedWithPrevious",
                                      [CUT_WITH_NEXT] = "MergedWithNext",
                                      [CUT_CONTIGUOUS] = "Contiguous"};
  const char *name = attend_json_string(attend_json_get(j, "behavior"), NULL);
  *how = CUT_ISOLATED;
  if (!name) return ATTEND_OK;
  for (int i = 0; i <= CUT_CONTIGUOUS; i++) {
    *how = (cut_behaviour)i;
    if (!strcmp(names[i], name)) return ATTEND_OK;
  }
  return fail(t->ctx, ATTEND_UNSUPPORTED,
              "%s: %s has the behavior \"%.40s\", which is not known here", what, step_type(j),
              name);
}

/* Newer files have a scheme, older ones a flag. */
static attend_status read_metaspace(attend_tokenizer *t, const char *what, const attend_json *j,
                                    step *st) {
  const char *scheme = attend_json_string(attend_json_get(j, "prepend_scheme"), NULL);
  st->text = (chars){"\xe2\x96\x81", 3};
  if (attend_json_get(j, "replacement"))
    ATTEND_TRY(keep_text(t, what, j, "replacement", &st->text));
  st->prepend = flag(j, "add_prefix_space", true) ? PREPEND_ALWAYS : PREPEND_NEVER;
  if (scheme)
    st->prepend = !strcmp(scheme, "always")  ? PREPEND_ALWAYS
                  : !strcmp(scheme, "first") ? PREPEND_FIRST
                                             : PREPEND_NEVER;
  st->cut = flag(j, "split", true);
  st->behaviour = CUT_WITH_NEXT;
  return pattern_string(t, st->text.bytes, st->text.length, &st->pattern);
}

static attend_status read_delimiter(attend_tokenizer *t, const char *what, const attend_json *j,
                                    step *st) {
  ATTEND_TRY(keep_text(t, what, j, "delimiter", &st->text));
  st->behaviour = CUT_REMOVED;
  return pattern_string(t, st->text.bytes, st->text.length, &st->pattern);
}

static attend_status read_splitter_members(attend_tokenizer *t, const char *what,
                                           const attend_json *j, step *st) {
  if (st->kind == STEP_METASPACE) return read_metaspace(t, what, j, st);
  if (st->kind == STEP_PUNCTUATION) return read_behaviour(t, what, j, &st->behaviour);
  if (st->kind == STEP_SPLIT && attend_json_get(j, "delimiter"))
    return read_delimiter(t, what, j, st);
  if (st->kind == STEP_SPLIT) {
    st->invert = flag(j, "invert", false);
    ATTEND_TRY(read_behaviour(t, what, j, &st->behaviour));
    return read_pattern(t, what, j, &st->pattern);
  }
  st->each = flag(j, "individual_digits", false);
  st->prefix = flag(j, "add_prefix_space", true);
  st->cut = flag(j, "use_regex", true);
  return ATTEND_OK;
}

/* ByteLevel replaces bytes by characters of another alphabet, which a later step
 * would see; here it would not. */
static attend_status check_order(attend_tokenizer *t, const char *what) {
  const steps *list = &t->splitters;
  for (size_t i = 0; i + 1 < list->count; i++)
    if (list->step[i].kind == STEP_BYTE_LEVEL)
      return fail(t->ctx, ATTEND_UNSUPPORTED,
                  "%s: a pre-tokenizer follows ByteLevel, which must be the "
                  "last",
                  what);
  t->model.byte_level = list->count && list->step[list->count - 1].kind == STEP_BYTE_LEVEL;
  return ATTEND_OK;
}

static attend_status read_splitter(attend_tokenizer *t, const char *what, const attend_json *j,
                                   const char *type) {
  step st = {0};
  if (!find_kind(type, false, &st.kind))
    return fail(t->ctx, ATTEND_UNSUPPORTED, "%s: the pre-tokenizer \"%.40s\" is not known here",
                what, type);
  attend_status status = read_splitter_members(t, what, j, &st);
  if (status) {
    pattern_free(t->ctx, st.pattern);
    return status;
  }
  ATTEND_TRY(step_add(t, &t->splitters, st));
  return check_order(t, what);
}

/* ---- post-processor and detokenizer -------------------------------------- */

/* ---- templates: special tokens around a text --------------------------------------------- */

static void put(template *to, int32_t id, int32_t type) {
  if (id == -1 - TEMPLATE_MOST) return;
  to->id[to->count] = id;
  to->type[to->count++] = type;
  to->specials += id >= 0;
  to->times[0] += id == TEMPLATE_A;
  to->times[1] += id == TEMPLATE_B;
}

static attend_status template_put(attend_tokenizer *t, const char *what, template *to, int64_t id,
                                  int64_t type) {
  if (to->count == TEMPLATE_MOST)
    return fail(t->ctx, ATTEND_UNSUPPORTED, "%s: the template has more than %d entries", what,
                TEMPLATE_MOST);
  if (id >= (int64_t)t->vocab.count || type < 0 || type > INT32_MAX ||
      (id >= 0 && !t->vocab.piece[id].kind))
    return fail(t->ctx, ATTEND_IO, "%s: the template names the id %lld, which has no piece", what,
                (long long)id);
  put(to, (int32_t)id, (int32_t)type);
  return ATTEND_OK;
}

static attend_status put_special(attend_tokenizer *t, const char *what, const attend_json *specials,
                                 const attend_json *item, int64_t type, template *to) {
  const char *name = attend_json_string(attend_json_get(item, "id"), NULL);
  const attend_json *ids = name ? attend_json_get(attend_json_get(specials, name), "ids") : NULL;
  for (size_t i = 0; i < attend_json_count(ids); i++) {
    int64_t id;
    if (!attend_json_integer(attend_json_at(ids, i), &id) || id < 0)
      return fail(t->ctx, ATTEND_IO, "%s: a special token has a bad id", what);
    ATTEND_TRY(template_put(t, what, to, id, type));
  }
  if (attend_json_count(ids)) return ATTEND_OK;
  return fail(t->ctx, ATTEND_IO, "%s: the template's special token \"%.40s\" has no ids", what,
              name ? name : "");
}

static attend_status read_entries(attend_tokenizer *t, const char *what, const attend_json *list,
                                  const attend_json *specials, template *to) {
  for (size_t i = 0; i < attend_json_count(list); i++) {
    const attend_json *entry = attend_json_at(list, i);
    const attend_json *special = attend_json_get(entry, "SpecialToken");
    const attend_json *sequence = attend_json_get(entry, "Sequence");
    int64_t type = 0;
    attend_json_integer(attend_json_get(special ? special : sequence, "type_id"), &type);
    const char *id = attend_json_string(attend_json_get(sequence, "id"), NULL);
    if (special)
      ATTEND_TRY(put_special(t, what, specials, special, type, to));
    else if (id && (!strcmp(id, "A") || !strcmp(id, "B")))
      ATTEND_TRY(template_put(t, what, to, *id == 'A' ? TEMPLATE_A : TEMPLATE_B, type));
    else
      return fail(t->ctx, ATTEND_IO, "%s: entry %zu of a template is not understood", what, i);
  }
  return ATTEND_OK;
}

/* before A after [middle] B after; -1 leaves out. */
void template_around(attend_tokenizer *t, int32_t before, int32_t after, int32_t middle,
                     int32_t type_b) {
  enum { NOTHING = -1 - TEMPLATE_MOST };
  int32_t b = before < 0 ? NOTHING : before, a = after < 0 ? NOTHING : after;
  template *two[] = {&t->single, &t->pair};
  for (int i = 0; i < 2; i++) {
    *two[i] = (template){0};
    put(two[i], b, 0);
    put(two[i], TEMPLATE_A, 0);
    put(two[i], a, 0);
  }
  if (middle >= 0) put(&t->pair, middle, 0);
  put(&t->pair, TEMPLATE_B, type_b);
  put(&t->pair, a, type_b);
}

/* ["[SEP]", 102] */
static attend_status pair_id(attend_tokenizer *t, const char *what, const attend_json *j,
                             const char *name, int32_t *id) {
  int64_t n;
  if (!attend_json_integer(attend_json_at(attend_json_get(j, name), 1), &n) || n < 0 ||
      n >= (int64_t)t->vocab.count || !t->vocab.piece[n].kind)
    return fail(t->ctx, ATTEND_IO, "%s: %s has no \"%s\" with an id", what, step_type(j), name);
  *id = (int32_t)n;
  return ATTEND_OK;
}

static attend_status read_cls_sep(attend_tokenizer *t, const char *what, const attend_json *j,
                                  bool roberta) {
  int32_t cls = -1, sep = -1;
  ATTEND_TRY(pair_id(t, what, j, "cls", &cls));
  ATTEND_TRY(pair_id(t, what, j, "sep", &sep));
  template_around(t, cls, sep, roberta ? sep : -1, roberta ? 0 : 1);
  if (roberta) t->trim = flag(j, "trim_offsets", true);
  return ATTEND_OK;
}

static attend_status read_template(attend_tokenizer *t, const char *what, const attend_json *j,
                                   const char *type) {
  if (!strcmp(type, "ByteLevel")) {
    t->trim = flag(j, "trim_offsets", true);
    return ATTEND_OK;
  }
  /* Hugging Face passes the parts that the first made to the second as separate
   * texts, and fails on all but one or two. */
  if (t->single.count || t->pair.count)
    return fail(t->ctx, ATTEND_UNSUPPORTED,
                "%s: more than one post-processor puts special tokens around a "
                "text: leave one",
                what);
  if (!strcmp(type, "TemplateProcessing")) {
    const attend_json *specials = attend_json_get(j, "special_tokens");
    ATTEND_TRY(read_entries(t, what, attend_json_get(j, "single"), specials, &t->single));
    return read_entries(t, what, attend_json_get(j, "pair"), specials, &t->pair);
  }
  if (!strcmp(type, "BertProcessing")) return read_cls_sep(t, what, j, false);
  if (!strcmp(type, "RobertaProcessing")) return read_cls_sep(t, what, j, true);
  return fail(t->ctx, ATTEND_UNSUPPORTED, "%s: the post-processor \"%.40s\" is not known here",
              what, type);
}

/* ---- the decoder --------------------------------------------------------------------------- */

static attend_status keep(attend_tokenizer *t, const attend_json *j, const char *otherwise,
                          chars *kept) {
  size_t length = strlen(otherwise);
  const char *text = attend_json_string(j, &length);
  if (!text) {
    text = otherwise;
    length = strlen(otherwise);
  }
  return text_keep(t, text, length, kept);
}

static attend_status read_strip(attend_tokenizer *t, const char *what, const attend_json *j,
                                decode_step *st) {
  int64_t start = 0, stop = 0;
  attend_json_integer(attend_json_get(j, "start"), &start);
  attend_json_integer(attend_json_get(j, "stop"), &stop);
  bool fused = false;
  for (int i = 0; i < t->decodes; i++) fused |= t->decode[i].kind == DECODE_FUSE;
  if (start < 0 || stop < 0 || start > 1 << 20 || stop > 1 << 20 || (fused && stop))
    return fail(t->ctx, ATTEND_UNSUPPORTED,
                "%s: the decoder strips the end of a text, which cannot be "
                "done token by token",
                what);
  st->start = (int)start;
  st->stop = (int)stop;
  return keep(t, attend_json_get(j, "content"), " ", &st->text);
}

static attend_status read_replace(attend_tokenizer *t, const char *what, const attend_json *j,
                                  decode_step *st) {
  const attend_json *from = attend_json_get(j, "pattern");
  const attend_json *text =
      attend_json_kind_of(from) == ATTEND_JSON_STRING ? from : attend_json_get(from, "String");
  if (!text)
    return fail(t->ctx, ATTEND_UNSUPPORTED,
                "%s: the decoder replaces a regular expression: only strings "
                "are known here",
                what);
  ATTEND_TRY(keep(t, text, "", &st->text));
  return keep(t, attend_json_get(j, "content"), "", &st->with);
}

static attend_status read_decoder_metaspace(attend_tokenizer *t, const attend_json *j,
                                            decode_step *st) {
  const char *scheme = attend_json_string(attend_json_get(j, "prepend_scheme"), NULL);
  st->prepend = scheme ? strcmp(scheme, "never") != 0 : flag(j, "add_prefix_space", true);
  return keep(t, attend_json_get(j, "replacement"), "\xe2\x96\x81", &st->text);
}

static attend_status read_members(attend_tokenizer *t, const char *what, const attend_json *j,
                                  decode_step *st) {
  switch (st->kind) {
    case DECODE_STRIP:
      return read_strip(t, what, j, st);
    case DECODE_REPLACE:
      return read_replace(t, what, j, st);
    case DECODE_METASPACE:
      return read_decoder_metaspace(t, j, st);
    case DECODE_WORDPIECE:
      st->cleanup = flag(j, "cleanup", true);
      return keep(t, attend_json_get(j, "prefix"), "##", &st->text);
    case DECODE_SUFFIX:
      return keep(t, attend_json_get(j, "suffix"), "</w>", &st->text);
    default:
      return ATTEND_OK;
  }
}

static attend_status read_decoder(attend_tokenizer *t, const char *what, const attend_json *j,
                                  const char *type) {
  static const char *const names[] = {[DECODE_REPLACE] = "Replace",
                                      [DECODE_BYTES] = "ByteFallback",
                                      [DECODE_FUSE] = "Fuse",
                                      [DECODE_STRIP] = "Strip",
                                      [DECODE_WORDPIECE] = "WordPiece",
                                      [DECODE_METASPACE] = "Metaspace",
                                      [DECODE_BYTE_LEVEL] = "ByteLevel",
                                      [DECODE_SUFFIX] = "BPEDecoder"};
  for (int kind = 0; kind <= DECODE_SUFFIX; kind++) {
    decode_step st = {.kind = (decode_kind)kind};
    if (strcmp(names[kind], type)) continue;
    ATTEND_TRY(read_members(t, what, j, &st));
    return decode_add(t, st);
  }
  return fail(t->ctx, ATTEND_UNSUPPORTED, "%s: the decoder \"%.40s\" is not known here", what,
              type);
}

/* ---- the file --------------------------------------------------------------------------- */

static attend_status read_added(attend_tokenizer *t, const char *what, const attend_json *j) {
  t->vocab.listed += attend_json_count(j);
  for (size_t i = 0; i < attend_json_count(j); i++) {
    const attend_json *a = attend_json_at(j, i);
    added_token token = {0};
    int64_t id;
    token.content.bytes = attend_json_string(attend_json_get(a, "content"), &token.content.length);
    if (!token.content.bytes || !token.content.length ||
        !attend_json_integer(attend_json_get(a, "id"), &id))
      return fail(t->ctx, ATTEND_IO, "%s: added token %zu has no content or no id", what, i);
    token_flags(a, &token);
    token.normalized = flag(a, "normalized", !token.special);
    ATTEND_TRY(put_added(t, what, id, token));
  }
  return vocab_index(t);
}

attend_status load_tokenizer_json(attend_tokenizer *t, const char *what, const attend_json *root) {
  ATTEND_TRY(
      each_step(t, what, attend_json_get(root, "normalizer"), "normalizers", read_normalizer));
  ATTEND_TRY(
      each_step(t, what, attend_json_get(root, "pre_tokenizer"), "pretokenizers", read_splitter));
  ATTEND_TRY(read_model(t, what, attend_json_get(root, "model")));
  ATTEND_TRY(read_added(t, what, attend_json_get(root, "added_tokens")));
  ATTEND_TRY(
      each_step(t, what, attend_json_get(root, "post_processor"), "processors", read_template));
  return each_step(t, what, attend_json_get(root, "decoder"), "decoders", read_decoder);
}
