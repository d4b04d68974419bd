/* Where a text may be cut into words although nothing says so.
 *
 * Made while loading, for models that would take a text as a whole: SentencePiece's,
 * and those of a tokenizer.json without pre-tokenizers.
 *
 * A merge makes a piece, and a piece holds what it was made from; so where two
 * letters are side by side in no piece, nothing joins over them, and the parts
 * give the ids of the whole. Words that are short come again and are
 * remembered.
 */
#include "text/loader.h"

enum { JOINS = 128 * 128 / 8 };

static bool crosses(chars key, chars mark) {
  for (size_t i = 1; i + mark.length <= key.length; i++) {
    if (memcmp(key.bytes + i, mark.bytes, mark.length)) continue;
    if (i < mark.length ||
        memcmp(key.bytes + i - mark.length, mark.bytes, mark.length))
      return true;
  }
  return false;
}

/* ---- letters side by side --------------------------------------------------------- */

static void put_join(unsigned char *joins, unsigned char a, unsigned char b) {
  joins[a << 4 | b >> 3] |= (unsigned char)(1 << (b & 7));
}

/* Whether some merge takes the piece of a lone byte. */
static bool merges_bytes(const attend_tokenizer *t) {
  const model *m = &t->model;
  for (size_t i = 0; m->merge_mask && i <= m->merge_mask; i++) {
    if (m->merges[i].left < 0) continue;
    const chars *a = &t->vocab.piece[m->merges[i].left].name;
    const chars *b = &t->vocab.piece[m->merges[i].right].name;
    if (byte_piece(a->bytes, a->length) >= 0 ||
        byte_piece(b->bytes, b->length) >= 0)
      return true;
  }
  return false;
}

/* What is not known may become one token with its neighbour. */
static void put_unknowns(const attend_tokenizer *t, unsigned char *joins) {
  bool bytes = t->model.byte_fallback && !merges_bytes(t);
  for (int c = 0; c < 128; c++) {
    char letter = (char)c;
    if (vocab_key(&t->vocab, &letter, 1) >= 0) continue;
    if (bytes && t->vocab.byte[c] >= 0) continue;
    for (int other = 0; other < 128; other++) {
      put_join(joins, (unsigned char)c, (unsigned char)other);
      put_join(joins, (unsigned char)other, (unsigned char)c);
    }
  }
}

static attend_status find_joins(attend_tokenizer *t,
                                const unsigned char **kept) {
  unsigned char joins[JOINS] = {0};
  const char *copy;
  for (size_t id = 0; id < t->vocab.count; id++) {
    const piece *p = &t->vocab.piece[id];
    if (p->kind != PIECE_NORMAL) continue;
    for (size_t i = 1; i < p->key.length; i++) {
      unsigned char a = (unsigned char)p->key.bytes[i - 1];
      unsigned char b = (unsigned char)p->key.bytes[i];
      if ((a | b) < 0x80) put_join(joins, a, b);
    }
  }
  put_unknowns(t, joins);
  ATTEND_TRY(pool_copy(t->ctx, &t->pool, (const char *)joins, JOINS, &copy));
  *kept = (const unsigned char *)copy;
  return ATTEND_OK;
}

/* ---- the step --------------------------------------------------------------------- */

/* Unigram models are cut at marks alone: there a cut must carry the score. */
attend_status cut_at_marks(attend_tokenizer *t, const char *mark) {
  step st = {.kind = STEP_AT_MARKS, .text = {mark, strlen(mark)}};
  if (vocab_key(&t->vocab, mark, st.text.length) < 0) return ATTEND_OK;
  for (size_t i = 0; i < t->vocab.count; i++)
    if (t->vocab.piece[i].kind == PIECE_NORMAL &&
        crosses(t->vocab.piece[i].key, st.text))
      return ATTEND_OK;
  if (t->model.kind == MODEL_BPE) ATTEND_TRY(find_joins(t, &st.joins));
  return step_add(t, &t->splitters, st);
}
