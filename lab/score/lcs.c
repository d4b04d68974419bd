/* Longest common subsequences, bit-parallel (Hyyro, 2004).
 *
 * A row of the length table rises by 0 or 1 from one position of `a` to the next: a
 * bit each, 0 where it rises. The row after one more id of `b` is
 * (v + (v & match)) | (v & ~match), a sum over all words of the row, where match has
 * the positions of a with that id. Positions are stored as chains, so that memory is
 * linear; words before the first match do not change.
 *
 * Backtracking needs all rows: some are stored as checkpoints and those between them
 * recomputed, so that memory grows with sqrt(b).
 */
#include <math.h>
#include <string.h>

#include "score/score.h"

typedef struct {
  uint32_t *first; /* [kinds] 1 + the last position of a with the id; 0: none */
  uint32_t *next;  /* [n] 1 + the position before it */
  uint64_t *match; /* [words] zeros between rows */
  uint64_t *row;   /* [words] */
  size_t words;    /* of the a that is set */
} matcher;

static size_t words_of(size_t n) { return (n + 63) / 64; }

static attend_status matcher_take(attend_context *ctx, size_t kinds, size_t n, matcher *m) {
  size_t words = words_of(n);
  unsigned char *block;
  ATTEND_TRY(ctx_alloc_zeroed(ctx, 2 * words * sizeof(uint64_t) + (kinds + n) * sizeof(uint32_t),
                              "common subsequences", &block));
  m->match = (uint64_t *)(void *)block;
  m->row = m->match + words;
  m->first = (uint32_t *)(void *)(m->row + words);
  m->next = m->first + kinds;
  return ATTEND_OK;
}

static void matcher_set(matcher *m, const uint32_t *a, size_t n) {
  m->words = words_of(n);
  memset(m->row, 0xFF, m->words * sizeof *m->row);
  for (size_t i = 0; i < n; i++) {
    m->next[i] = m->first[a[i]];
    m->first[a[i]] = (uint32_t)i + 1;
  }
}

static void matcher_unset(const matcher *m, const uint32_t *a, size_t n) {
  for (size_t i = 0; i < n; i++) m->first[a[i]] = 0;
}

/* The row after one more id of b. */
static void advance(const matcher *m, uint32_t id) {
  uint32_t chain = m->first[id], lowest = 0;
  uint64_t carry = 0;
  if (!chain) return;
  size_t last = (chain - 1) / 64;
  for (uint32_t p = chain; p; p = m->next[p - 1]) {
    m->match[(p - 1) / 64] |= UINT64_C(1) << (p - 1) % 64;
    lowest = p - 1;
  }
  for (size_t w = lowest / 64; w < m->words && (w <= last || carry); w++) {
    uint64_t v = m->row[w], hit = v & m->match[w];
    uint64_t part = v + hit, sum = part + carry;
    carry = (part < v) | (sum < part);
    m->row[w] = sum | (v & ~hit);
    m->match[w] = 0;
  }
}

static size_t count_zeros(const matcher *m) {
  size_t sum = 0;
  for (size_t w = 0; w < m->words; w++) sum += (size_t)__builtin_popcountll(~m->row[w]);
  return sum;
}

/* ---- the length ---------------------------------------------------------------------- */

attend_status lcs_length(attend_context *ctx, size_t kinds, size_t n, const uint32_t *a, size_t m,
                         const uint32_t *b, size_t *length) {
  size_t same = 0;
  matcher t;
  for (; n && m && *a == *b; a++, b++, n--, m--) same++;
  for (; n && m && a[n - 1] == b[m - 1]; n--, m--) same++;
  *length = same;
  if (!n || !m) return ATTEND_OK;
  bool swap = m < n;
  const uint32_t *few = swap ? b : a, *many = swap ? a : b;
  size_t n_few = swap ? m : n, n_many = swap ? n : m;
  ATTEND_TRY(matcher_take(ctx, kinds, n_few, &t));
  matcher_set(&t, few, n_few);
  for (size_t j = 0; j < n_many; j++) advance(&t, many[j]);
  *length += count_zeros(&t);
  ctx_free(ctx, t.match);
  return ATTEND_OK;
}

/* ---- the places ------------------------------------------------------------------------- */

typedef struct {
  matcher m;
  uint64_t *kept;  /* [stride, words] rows before every stride-th id */
  uint64_t *block; /* [stride, words] those after each id of a stretch */
  size_t stride;
} backtrack;

static size_t stride_of(size_t m) { return (size_t)sqrt((double)m) + 1; }

static void keep_rows(const backtrack *t, size_t m, const uint32_t *b) {
  size_t bytes = t->m.words * sizeof(uint64_t);
  memset(t->m.row, 0xFF, bytes);
  for (size_t j = 0; j < m; j++) {
    if (j % t->stride == 0) memcpy(t->kept + j / t->stride * t->m.words, t->m.row, bytes);
    advance(&t->m, b[j]);
  }
}

static void fill_block(const backtrack *t, size_t from, size_t end, const uint32_t *b) {
  size_t words = t->m.words, bytes = words * sizeof(uint64_t);
  memcpy(t->m.row, t->kept + from / t->stride * words, bytes);
  for (size_t j = from; j < end; j++) {
    advance(&t->m, b[j]);
    memcpy(t->block + (j - from) * words, t->m.row, bytes);
  }
}

/* Marks the places of one longest common subsequence of a and b. */
static void trace_backward(const backtrack *t, size_t n, const uint32_t *a, size_t m,
                           const uint32_t *b, unsigned char *in_any) {
  size_t i = n, j = m;
  keep_rows(t, m, b);
  while (i && j) {
    size_t from = (j - 1) / t->stride * t->stride;
    fill_block(t, from, j, b);
    while (i && j > from) {
      const uint64_t *row = t->block + (j - 1 - from) * t->m.words;
      bool rises = !(row[(i - 1) / 64] >> (i - 1) % 64 & 1);
      if (a[i - 1] == b[j - 1]) {
        in_any[--i] = 1;
        j--;
      } else if (rises) {
        j--;
      } else {
        i--;
      }
    }
  }
}

static size_t line_end(const word_list *l, size_t from) {
  size_t end = from;
  while (end < l->count && l->line[end] == l->line[from]) end++;
  return end;
}

static size_t longest_line(const word_list *l) {
  size_t max = 0;
  for (size_t from = 0, end; from < l->count; from = end) {
    end = line_end(l, from);
    if (end - from > max) max = end - from;
  }
  return max;
}

attend_status lcs_union(attend_context *ctx, size_t kinds, const word_list *a, const word_list *b,
                        unsigned char *in_any) {
  backtrack t = {0};
  size_t n = longest_line(a), words = words_of(n);
  t.stride = stride_of(longest_line(b));
  memset(in_any, 0, a->count);
  ATTEND_TRY(matcher_take(ctx, kinds, n, &t.m));
  attend_status status = ctx_alloc(ctx, 2 * t.stride * words * sizeof(uint64_t), "lines", &t.kept);
  if (status) {
    ctx_free(ctx, t.m.match);
    return status;
  }
  t.block = t.kept + t.stride * words;
  for (size_t i = 0, end; i < a->count; i = end) {
    end = line_end(a, i);
    matcher_set(&t.m, a->id + i, end - i);
    for (size_t j = 0, stop; j < b->count; j = stop) {
      stop = line_end(b, j);
      trace_backward(&t, end - i, a->id + i, stop - j, b->id + j, in_any + i);
    }
    matcher_unset(&t.m, a->id + i, end - i);
  }
  ctx_free(ctx, t.kept);
  ctx_free(ctx, t.m.match);
  return ATTEND_OK;
}
