/* Byte pair encoding: join the neighbours that come first in the list, until
 * none is left.
 *
 * Words go in, ids come out into s->word.
 *
 * A short word scans its pairs each time: that beats any queue. A long one
 * (a text that nothing cuts) keeps pairs in a heap and its symbols in a list;
 * both take the lowest rank, leftmost first, and so agree.
 */
#include "text/tokenizer.h"

enum { SHORT = 48 }; /* symbols; measured: a heap wins beyond */

/* ---- the symbols to start from -------------------------------------------------- */

static attend_status put_symbol(scratch *s, size_t *count, int32_t id,
                                size_t end) {
  ATTEND_TRY(grow(s->ctx, &s->symbols, &s->symbol_capacity, *count + 1,
                  sizeof *s->symbols, "a word"));
  s->symbols[*count] =
      (symbol){id, (int32_t)*count - 1, (int32_t)*count + 1, (uint32_t)end};
  *count += 1;
  return ATTEND_OK;
}

static attend_status start_bytes(const attend_tokenizer *t, scratch *s,
                                 const char *word, size_t length,
                                 size_t *count) {
  for (size_t i = 0; i < length; i++) {
    int32_t id = t->vocab.byte[(unsigned char)word[i]];
    if (id < 0) id = t->model.unk;
    if (id >= 0) ATTEND_TRY(put_symbol(s, count, id, i + 1));
  }
  return ATTEND_OK;
}

/* The piece of one character, with what marks its place in a word. */
static int32_t find_char(const attend_tokenizer *t, const char *at, size_t n,
                         bool first, bool last) {
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

/* Bytes, if there is a piece for each; *done says. */
static attend_status start_fallback(const attend_tokenizer *t, scratch *s,
                                    const char *word, size_t start, size_t end,
                                    size_t *count, bool *done) {
  *done = t->model.byte_fallback;
  for (size_t i = start; i < end && *done; i++)
    *done = t->vocab.byte[(unsigned char)word[i]] >= 0;
  for (size_t i = start; i < end && *done; i++)
    ATTEND_TRY(
        put_symbol(s, count, t->vocab.byte[(unsigned char)word[i]], i + 1));
  return ATTEND_OK;
}

static attend_status start_unknown(const attend_tokenizer *t, scratch *s,
                                   const char *word, size_t start, size_t end,
                                   size_t *count) {
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

static attend_status start_chars(const attend_tokenizer *t, scratch *s,
                                 const char *word, size_t length,
                                 size_t *count) {
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
    if (n > best + 1)
      memmove(rank + best, rank + best + 1, (n - best - 1) * sizeof *rank);
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
  for (; at && is_before(&c, &heap[(at - 1) / 2]); at = (at - 1) / 2)
    heap[at] = heap[(at - 1) / 2];
  heap[at] = c;
}

static candidate heap_pop(candidate *heap, size_t *count) {
  candidate top = heap[0], c = heap[--*count];
  size_t at = 0;
  for (size_t child; (child = 2 * at + 1) < *count; at = child) {
    if (child + 1 < *count && is_before(&heap[child + 1], &heap[child]))
      child++;
    if (!is_before(&heap[child], &c)) break;
    heap[at] = heap[child];
  }
  heap[at] = c;
  return top;
}

/* The pair that starts at symbol `at`, if it is one. */
static void offer(const model *m, scratch *s, size_t *count, int32_t at,
                  size_t n) {
  if (at < 0 || (size_t)s->symbols[at].next >= n) return;
  const symbol *a = &s->symbols[at], *b = &s->symbols[a->next];
  const merge *found = merges_find(m, a->id, b->id);
  if (!found) return;
  s->heap[*count] =
      (candidate){found->rank, (uint32_t)at, a->id, b->id, found->made};
  heap_up(s->heap, (*count)++);
}

/* Joins what a candidate names, unless one of the two has changed since. */
static bool join(scratch *s, const candidate *c, size_t n) {
  symbol *a = &s->symbols[c->at];
  if (a->id != c->left || (size_t)a->next >= n) return false;
  symbol *b = &s->symbols[a->next];
  if (b->id != c->right) return false;
  a->id = c->made;
  a->end = b->end;
  a->next = b->next;
  if ((size_t)b->next < n) s->symbols[b->next].previous = (int32_t)c->at;
  b->id = -1; /* dead: no candidate names it */
  return true;
}

static attend_status merge_long(const attend_tokenizer *t, scratch *s,
                                size_t *n) {
  size_t count = 0, kept = 0;
  ATTEND_TRY(grow(s->ctx, &s->heap, &s->heap_capacity, 3 * *n, sizeof *s->heap,
                  "a word"));
  for (size_t i = 0; i + 1 < *n; i++)
    offer(&t->model, s, &count, (int32_t)i, *n);
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

static attend_status put_symbols(const attend_tokenizer *t, scratch *s,
                                 const char *word, size_t count) {
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

attend_status bpe_encode(const attend_tokenizer *t, scratch *s,
                         const char *word, size_t length) {
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
