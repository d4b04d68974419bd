/* Byte pair encoding (Sennrich et al. 2016): merge the neighbours whose merge has the
 * lowest rank, until no merge applies.
 *
 * Input is one word of the pre-tokenizer; ids go to s->word.
 *
 * A short word rescans its pairs after each merge, which is faster than any queue. A
 * long one (text that no pre-tokenizer splits) keeps its pairs in a heap and its
 * symbols in a linked list. Both take the lowest rank, leftmost first, and give the
 * same ids.
 */
#include <stdlib.h>

#include "text/tokenizer.h"

enum { SHORT = 48 }; /* symbols; above this a heap is faster (measured) */

/* ---- the symbols to start from -------------------------------------------------- */

static attend_status put_symbol(scratch *s, size_t *count, int32_t id, size_t end) {
  ATTEND_TRY(
      grow(s->ctx, &s->symbols, &s->symbol_capacity, *count + 1, sizeof *s->symbols, "a word"));
  s->symbols[*count] = (symbol){id, (int32_t)*count - 1, (int32_t)*count + 1, (uint32_t)end};
  *count += 1;
  return ATTEND_OK;
}

static attend_status start_bytes(const attend_tokenizer *t, scratch *s, const char *word,
                                 size_t length, size_t *count) {
  for (size_t i = 0; i < length; i++) {
    int32_t id = t->vocab.byte[(unsigned char)word[i]];
    if (id < 0) id = t->model.unk;
    if (id >= 0) ATTEND_TRY(put_symbol(s, count, id, i + 1));
  }
  return ATTEND_OK;
}

/* The piece of one character, with the prefix or suffix of its position in the word. */
static int32_t find_char(const attend_tokenizer *t, const char *at, size_t n, bool first,
                         bool last) {
  const model *m = &t->model;
  char name[256];
  size_t length = 0;
  bool marked = (!first && m->prefix.length) || (last && m->suffix.length);
  if (!marked) return vocab_key(&t->vocab, at, n);
  if (m->prefix.length + n + m->suffix.length > sizeof name) return -1;
  if (!first && m->prefix.length) {
    memcpy(name, m->prefix.bytes, m->prefix.length);
    length = m->prefix.length;
  }
  memcpy(name + length, at, n);
  length += n;
  if (last && m->suffix.length) {
    memcpy(name + length, m->suffix.bytes, m->suffix.length);
    length += m->suffix.length;
  }
  return vocab_key(&t->vocab, name, length);
}

/* Byte fallback, if there is a piece for each byte; *done says. */
static attend_status start_fallback(const attend_tokenizer *t, scratch *s, const char *word,
                                    size_t start, size_t end, size_t *count, bool *done) {
  *done = t->model.byte_fallback;
  for (size_t i = start; i < end && *done; i++) *done = t->vocab.byte[(unsigned char)word[i]] >= 0;
  for (size_t i = start; i < end && *done; i++)
    ATTEND_TRY(put_symbol(s, count, t->vocab.byte[(unsigned char)word[i]], i + 1));
  return ATTEND_OK;
}

static attend_status start_unknown(const attend_tokenizer *t, scratch *s, const char *word,
                                   size_t start, size_t end, size_t *count) {
  bool done;
  ATTEND_TRY(start_fallback(t, s, word, start, end, count, &done));
  if (done || t->model.unk < 0) return ATTEND_OK;
  symbol *before = *count ? &s->symbols[*count - 1] : NULL;
  if (t->model.fuse_unk && before && before->id == t->model.unk) {
    before->end = (uint32_t)end;
    return ATTEND_OK;
  }
  return put_symbol(s, count, t->model.unk, end);
}

static attend_status start_chars(const attend_tokenizer *t, scratch *s, const char *word,
                                 size_t length, size_t *count) {
  uint32_t c;
  for (size_t i = 0, n; i < length; i += n) {
    n = utf8_next(word + i, length - i, &c);
    int32_t id = find_char(t, word + i, n, i == 0, i + n == length);
    if (id >= 0)
      ATTEND_TRY(put_symbol(s, count, id, i + n));
    else
      ATTEND_TRY(start_unknown(t, s, word, i, i + n, count));
  }
  return ATTEND_OK;
}

/* ---- short words ---------------------------------------------------------------- */

static uint32_t rank_of(const model *m, const symbol *a) {
  const merge *found = merges_find(m, a[0].id, a[1].id);
  return found ? found->rank : UINT32_MAX;
}

static size_t merge_short(const model *m, symbol *a, size_t n) {
  uint32_t rank[SHORT];
  for (size_t i = 0; i + 1 < n; i++) rank[i] = rank_of(m, a + i);
  while (n > 1) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < n; i++)
      if (rank[i] < rank[best]) best = i;
    if (rank[best] == UINT32_MAX) break;
    a[best].id = merges_find(m, a[best].id, a[best + 1].id)->made;
    a[best].end = a[best + 1].end;
    n--;
    memmove(a + best + 1, a + best + 2, (n - best - 1) * sizeof *a);
    if (n > best + 1) memmove(rank + best, rank + best + 1, (n - best - 1) * sizeof *rank);
    if (best + 1 < n) rank[best] = rank_of(m, a + best);
    if (best) rank[best - 1] = rank_of(m, a + best - 1);
  }
  return n;
}

/* ---- long words ----------------------------------------------------------------- */

static bool is_before(const candidate *a, const candidate *b) {
  return a->rank != b->rank ? a->rank < b->rank : a->at < b->at;
}

static void heap_up(candidate *heap, size_t at) {
  candidate c = heap[at];
  for (; at && is_before(&c, &heap[(at - 1) / 2]); at = (at - 1) / 2) heap[at] = heap[(at - 1) / 2];
  heap[at] = c;
}

static candidate heap_pop(candidate *heap, size_t *count) {
  candidate top = heap[0], c = heap[--*count];
  size_t at = 0;
  for (size_t child; (child = 2 * at + 1) < *count; at = child) {
    if (child + 1 < *count && is_before(&heap[child + 1], &heap[child])) child++;
    if (!is_before(&heap[child], &c)) break;
    heap[at] = heap[child];
  }
  heap[at] = c;
  return top;
}

/* The pair that starts at symbol `at`, if it is one. */
static void offer(const model *m, scratch *s, size_t *count, int32_t at, size_t n) {
  if (at < 0 || (size_t)s->symbols[at].next >= n) return;
  const symbol *a = &s->symbols[at], *b = &s->symbols[a->next];
  const merge *found = merges_find(m, a->id, b->id);
  if (!found) return;
  s->heap[*count] = (candidate){found->rank, (uint32_t)at, a->id, b->id, found->made};
  heap_up(s->heap, (*count)++);
}

/* Merges a candidate, unless one of its two symbols has changed since. */
static bool join(scratch *s, const candidate *c, size_t n) {
  symbol *a = &s->symbols[c->at];
  if (a->id != c->left || (size_t)a->next >= n) return false;
  symbol *b = &s->symbols[a->next];
  if (b->id != c->right) return false;
  a->id = c->made;
  a->end = b->end;
  a->next = b->next;
  if ((size_t)b->next < n) s->symbols[b->next].previous = (int32_t)c->at;
  b->id = -1; /* dead: no candidate refers to it */
  return true;
}

static attend_status merge_long(const attend_tokenizer *t, scratch *s, size_t *n) {
  size_t count = 0, kept = 0;
  ATTEND_TRY(grow(s->ctx, &s->heap, &s->heap_capacity, 3 * *n, sizeof *s->heap, "a word"));
  for (size_t i = 0; i + 1 < *n; i++) offer(&t->model, s, &count, (int32_t)i, *n);
  while (count) {
    candidate c = heap_pop(s->heap, &count);
    if (!join(s, &c, *n)) continue;
    offer(&t->model, s, &count, s->symbols[c.at].previous, *n);
    offer(&t->model, s, &count, (int32_t)c.at, *n);
  }
  for (size_t i = 0; i < *n; i++)
    if (s->symbols[i].id >= 0) s->symbols[kept++] = s->symbols[i];
  *n = kept;
  return ATTEND_OK;
}

/* ---- a word --------------------------------------------------------------------- */

static attend_status put_symbols(const attend_tokenizer *t, scratch *s, const char *word,
                                 size_t count) {
  size_t start = 0;
  for (size_t i = 0; i < count; i++) {
    const symbol *a = &s->symbols[i];
    if (t->vocab.piece[a->id].kind == PIECE_PHANTOM)
      ATTEND_TRY(put_unknown(t, s, word, start, a->end));
    else
      ATTEND_TRY(put_token(s, a->id, a->end));
    start = a->end;
  }
  return ATTEND_OK;
}

attend_status bpe_encode(const attend_tokenizer *t, scratch *s, const char *word, size_t length) {
  const model *m = &t->model;
  size_t count = 0;
  if (m->ignore_merges) {
    int32_t whole = vocab_key(&t->vocab, word, length);
    if (whole >= 0) return put_token(s, whole, length);
  }
  ATTEND_TRY(m->byte_level ? start_bytes(t, s, word, length, &count)
                           : start_chars(t, s, word, length, &count));
  if (count > SHORT)
    ATTEND_TRY(merge_long(t, s, &count));
  else
    count = merge_short(m, s->symbols, count);
  return put_symbols(t, s, word, count);
}

/* ---- the table of merges ------------------------------------------------- */

/* Merges: from a pair of ids to the id that replaces it. Built while loading.
 *
 * tokenizer.json and merges.txt list merges in order. SentencePiece lists none: it
 * merges any two neighbours whose concatenation is a piece, the best score first.
 * That is the same table, where the rank of a merge is the rank of its result's
 * score; equal scores have equal ranks.
 *
 * The hash is keyed, so that no file can choose pairs that collide. */

/* For merges from scores: bytes of a piece, and merges in total; a vocabulary of
 * 256,000 pieces has a million. */
enum { LONGEST_CUT = 1024, MOST_CUTS = 1 << 22 };

static size_t slot_of(const model *m, int32_t left, int32_t right) {
  uint64_t key = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
  size_t at = (size_t)hash_word(m->merge_hash, key) & m->merge_mask;
  while (m->merges[at].left >= 0 && (m->merges[at].left != left || m->merges[at].right != right))
    at = (at + 1) & m->merge_mask;
  return at;
}

attend_status merges_reserve(attend_context *ctx, model *m, size_t count) {
  size_t slots = 64;
  while (slots < 2 * count) slots *= 2;
  m->merge_hash = hash_key_draw();
  ATTEND_TRY(ctx_alloc(ctx, slots * sizeof *m->merges, "merges", &m->merges));
  for (size_t i = 0; i < slots; i++) m->merges[i].left = -1;
  m->merge_mask = slots - 1;
  return ATTEND_OK;
}

/* Of two merges of the same pair the first wins. */
void merges_put(model *m, int32_t left, int32_t right, int32_t made, uint32_t rank) {
  size_t at = slot_of(m, left, right);
  if (m->merges[at].left < 0) m->merges[at] = (merge){left, right, made, rank};
}

const merge *merges_find(const model *m, int32_t left, int32_t right) {
  if (!m->merge_mask) return NULL;
  const merge *found = &m->merges[slot_of(m, left, right)];
  return found->left >= 0 ? found : NULL;
}

/* ---- from scores ------------------------------------------------------------- */

typedef struct {
  float score;
  int32_t id;
  uint32_t rank;
} scored;

static int by_score(const void *a, const void *b) {
  const scored *x = a, *y = b;
  if (x->score != y->score) return x->score > y->score ? -1 : 1;
  return x->id < y->id ? -1 : x->id > y->id;
}

/* Ranks by id: 0 for the best score. */
static void rank_scores(const vocab *v, scored *list, uint32_t *rank) {
  size_t n = v->count;
  for (size_t i = 0; i < n; i++) list[i] = (scored){v->piece[i].score, (int32_t)i, 0};
  qsort(list, n, sizeof *list, by_score);
  for (size_t i = 0; i < n; i++) {
    bool tie = i && list[i].score == list[i - 1].score;
    list[i].rank = tie ? list[i - 1].rank : (uint32_t)i;
    rank[list[i].id] = list[i].rank;
  }
}

/* Characters that occur in pieces but are not pieces take part in merges too: they
 * get ids after all others. */
static attend_status add_phantoms(attend_tokenizer *t, size_t real) {
  for (size_t id = 0; id < real; id++) {
    chars key = t->vocab.piece[id].key;
    uint32_t c;
    if (t->vocab.piece[id].kind != PIECE_NORMAL) continue;
    for (size_t i = 0, n; i < key.length; i += n) {
      n = utf8_next(key.bytes + i, key.length - i, &c);
      if (vocab_key(&t->vocab, key.bytes + i, n) >= 0) continue;
      ATTEND_TRY(vocab_put_phantom(t, key.bytes + i, n));
    }
  }
  return ATTEND_OK;
}

/* Splitting a piece at every position takes time quadratic in its length. */
static attend_status check_lengths(attend_tokenizer *t) {
  for (size_t id = 0; id < t->vocab.count; id++)
    if (t->vocab.piece[id].key.length > LONGEST_CUT)
      return fail(t->ctx, ATTEND_IO,
                  "piece %zu of the vocabulary has %zu bytes: %d are the most "
                  "that can be merged",
                  id, t->vocab.piece[id].key.length, LONGEST_CUT);
  return ATTEND_OK;
}

/* Counts the merges, or stores them where rank is given. */
static size_t put_cuts(attend_tokenizer *t, const uint32_t *rank) {
  vocab *v = &t->vocab;
  size_t count = 0;
  for (size_t id = 0; id < v->count; id++) {
    chars key = v->piece[id].key;
    if (v->piece[id].kind != PIECE_NORMAL) continue;
    for (size_t i = 1; i < key.length; i++) {
      if (((unsigned char)key.bytes[i] & 0xc0) == 0x80) continue;
      int32_t left = vocab_key(v, key.bytes, i);
      if (left < 0) continue;
      int32_t right = vocab_key(v, key.bytes + i, key.length - i);
      if (right < 0) continue;
      count++;
      if (rank) merges_put(&t->model, left, right, (int32_t)id, rank[id]);
    }
  }
  return count;
}

attend_status merges_from_scores(attend_tokenizer *t) {
  size_t real = t->vocab.count;
  scored *list = NULL;
  uint32_t *rank = NULL;
  ATTEND_TRY(check_lengths(t));
  ATTEND_TRY(add_phantoms(t, real));
  attend_status status = ctx_alloc(t->ctx, t->vocab.count * sizeof *list, "merges", &list);
  if (!status) status = ctx_alloc(t->ctx, t->vocab.count * sizeof *rank, "merges", &rank);
  if (!status) rank_scores(&t->vocab, list, rank);
  size_t cuts = put_cuts(t, NULL);
  if (!status && cuts > MOST_CUTS)
    status = fail(t->ctx, ATTEND_IO,
                  "the pieces of the vocabulary can be merged in %zu ways: %d "
                  "are the most",
                  cuts, MOST_CUTS);
  if (!status) status = merges_reserve(t->ctx, &t->model, cuts);
  if (!status) put_cuts(t, rank);
  ctx_free(t->ctx, list);
  ctx_free(t->ctx, rank);
  return status;
}
