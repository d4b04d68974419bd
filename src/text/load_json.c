/* Reading a tokenizer.json.
 *
 * A loader: the model and the added tokens; load_steps.c and load_ends.c read the
 * rest.
 */
#include "text/loader.h"

#include <math.h>

/* ---- vocabularies --------------------------------------------------------------------- */

attend_status read_vocab_object(attend_tokenizer *t, const char *what,
                                const attend_json *j) {
  if (attend_json_kind_of(j) != ATTEND_JSON_OBJECT)
    return fail(t->ctx, ATTEND_IO,
                "%s: the model's vocab is not an object of pieces and ids",
                what);
  t->vocab.listed += attend_json_count(j);
  for (size_t i = 0; i < attend_json_count(j); i++) {
    const attend_json *member = attend_json_at(j, i);
    size_t length;
    int64_t id;
    const char *name = attend_json_name(member, &length);
    if (!attend_json_integer(member, &id))
      return fail(t->ctx, ATTEND_IO, "%s: the id of \"%.60s\" is no number",
                  what, name);
    ATTEND_TRY(vocab_put(t, id, name, length, 0, PIECE_NORMAL));
  }
  return vocab_index(t);
}

static attend_status read_vocab_list(attend_tokenizer *t, const char *what,
                                     const attend_json *j) {
  float least = 0;
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
    if ((float)score < least) least = (float)score;
    ATTEND_TRY(
        vocab_put(t, (int64_t)i, name, length, (float)score, PIECE_NORMAL));
  }
  t->model.unk_score = least - 10; /* as SentencePiece has it */
  return vocab_index(t);
}

/* ---- merges ------------------------------------------------------------------------------ */

static attend_status put_merge(attend_tokenizer *t, const char *what,
                               uint32_t rank, chars a, chars b) {
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
attend_status put_merge_text(attend_tokenizer *t, const char *what,
                             uint32_t rank, const char *text, size_t length) {
  const char *space = memchr(text, ' ', length);
  if (!space)
    return fail(t->ctx, ATTEND_IO, "%s: merge %u, \"%.40s\", is not two pieces",
                what, rank, text);
  size_t first = (size_t)(space - text);
  return put_merge(t, what, rank, (chars){text, first},
                   (chars){space + 1, length - first - 1});
}

static attend_status read_merges(attend_tokenizer *t, const char *what,
                                 const attend_json *j) {
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
      return fail(t->ctx, ATTEND_IO, "%s: merge %zu is not two pieces", what,
                  i);
    ATTEND_TRY(put_merge(t, what, (uint32_t)i, a, b));
  }
  return ATTEND_OK;
}

/* ---- models --------------------------------------------------------------------------- */

static attend_status keep_member(attend_tokenizer *t, const attend_json *j,
                                 const char *name, chars *kept) {
  size_t length;
  const char *text = attend_json_string(attend_json_get(j, name), &length);
  return text ? text_keep(t, text, length, kept) : ATTEND_OK;
}

static int32_t unk_of(const attend_tokenizer *t, const attend_json *j) {
  size_t length;
  const char *unk =
      attend_json_string(attend_json_get(j, "unk_token"), &length);
  return unk ? vocab_name(&t->vocab, unk, length) : -1;
}

static attend_status read_bpe(attend_tokenizer *t, const char *what,
                              const attend_json *j) {
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
  m->fuse_unk = attend_json_boolean(attend_json_get(j, "fuse_unk"), false);
  m->byte_fallback =
      attend_json_boolean(attend_json_get(j, "byte_fallback"), false);
  m->ignore_merges =
      attend_json_boolean(attend_json_get(j, "ignore_merges"), false);
  ATTEND_TRY(read_vocab_object(t, what, attend_json_get(j, "vocab")));
  m->unk = unk_of(t, j);
  ATTEND_TRY(read_merges(t, what, attend_json_get(j, "merges")));
  bool whole = !t->splitters.count && !m->prefix.length && !m->suffix.length &&
               !m->ignore_merges;
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

static attend_status read_wordpiece(attend_tokenizer *t, const char *what,
                                    const attend_json *j) {
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

static attend_status read_unigram(attend_tokenizer *t, const char *what,
                                  const attend_json *j) {
  model *m = &t->model;
  int64_t unk = -1;
  m->kind = MODEL_UNIGRAM;
  m->fuse_unk = true;
  t->kind = "unigram";
  m->byte_fallback =
      attend_json_boolean(attend_json_get(j, "byte_fallback"), false);
  ATTEND_TRY(read_vocab_list(t, what, attend_json_get(j, "vocab")));
  attend_json_integer(attend_json_get(j, "unk_id"), &unk);
  if (unk >= (int64_t)t->vocab.count)
    return fail(t->ctx, ATTEND_IO, "%s: unk_id %lld is beyond the vocabulary",
                what, (long long)unk);
  m->unk = unk < 0 ? -1 : (int32_t)unk;
  return build_trie(t);
}

/* Older files do not name the model: its members do. */
static attend_status read_model(attend_tokenizer *t, const char *what,
                                const attend_json *j) {
  const char *type = attend_json_string(attend_json_get(j, "type"), NULL);
  const attend_json *v = attend_json_get(j, "vocab");
  if (!type && attend_json_get(j, "merges")) type = "BPE";
  if (!type && attend_json_kind_of(v) == ATTEND_JSON_ARRAY) type = "Unigram";
  if (!type && v) type = "WordPiece";
  if (!type)
    return fail(t->ctx, ATTEND_IO,
                "%s has no model with a vocabulary: it is not a tokenizer.json",
                what);
  if (!strcmp(type, "BPE")) return read_bpe(t, what, j);
  if (!strcmp(type, "WordPiece")) return read_wordpiece(t, what, j);
  if (!strcmp(type, "Unigram")) return read_unigram(t, what, j);
  return fail(t->ctx, ATTEND_UNSUPPORTED,
              "%s: the model \"%.40s\" is not known here: BPE, WordPiece and "
              "Unigram are",
              what, type);
}

/* ---- the file --------------------------------------------------------------------------- */

static attend_status read_added(attend_tokenizer *t, const char *what,
                                const attend_json *j) {
  t->vocab.listed += attend_json_count(j);
  for (size_t i = 0; i < attend_json_count(j); i++) {
    const attend_json *a = attend_json_at(j, i);
    added_token token = {0};
    int64_t id;
    token.content.bytes = attend_json_string(attend_json_get(a, "content"),
                                             &token.content.length);
    if (!token.content.bytes || !token.content.length ||
        !attend_json_integer(attend_json_get(a, "id"), &id))
      return fail(t->ctx, ATTEND_IO,
                  "%s: added token %zu has no content or no id", what, i);
    token.single_word =
        attend_json_boolean(attend_json_get(a, "single_word"), false);
    token.lstrip = attend_json_boolean(attend_json_get(a, "lstrip"), false);
    token.rstrip = attend_json_boolean(attend_json_get(a, "rstrip"), false);
    token.special = attend_json_boolean(attend_json_get(a, "special"), false);
    token.normalized =
        attend_json_boolean(attend_json_get(a, "normalized"), !token.special);
    ATTEND_TRY(put_added(t, what, id, token));
  }
  return vocab_index(t);
}

attend_status load_tokenizer_json(attend_tokenizer *t, const char *what,
                                  const attend_json *root) {
  ATTEND_TRY(load_normalizer(t, what, attend_json_get(root, "normalizer")));
  ATTEND_TRY(load_splitter(t, what, attend_json_get(root, "pre_tokenizer")));
  ATTEND_TRY(read_model(t, what, attend_json_get(root, "model")));
  ATTEND_TRY(read_added(t, what, attend_json_get(root, "added_tokens")));
  ATTEND_TRY(load_template(t, what, attend_json_get(root, "post_processor")));
  return load_decoder(t, what, attend_json_get(root, "decoder"));
}
