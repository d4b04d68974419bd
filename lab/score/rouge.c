/* ROUGE (Lin, 2004) and novelty: the overlap of two texts.
 *
 * Words and bigrams are keys that are sorted; merging the two lists finds the shared
 * ones.
 */
#include <stdlib.h>

#include "base/options.h"
#include "score/score.h"

/* ---- keys ------------------------------------------------------------------------------ */

static int by_key(const void *a, const void *b) {
  uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return (x > y) - (x < y);
}

/* The n-gram at each position, sorted; returns how many. n is 1 or 2. */
static size_t make_keys(const word_list *l, size_t n, uint64_t *keys) {
  if (l->count < n) return 0;
  size_t count = l->count - n + 1;
  for (size_t i = 0; i < count; i++)
    keys[i] = n == 1 ? l->id[i] : (uint64_t)l->id[i] << 32 | l->id[i + 1];
  qsort(keys, count, sizeof *keys, by_key);
  return count;
}

typedef struct {
  size_t shared, count[2];
} overlap;

/* Keys of the first text that the second has; with `once`, each key of the second
 * matches one. */
static attend_status overlap_of(attend_context *ctx, const word_pair *w, size_t n, bool once,
                                overlap *out) {
  uint64_t *a, *b;
  ATTEND_TRY(ctx_alloc(ctx, (w->list[0].count + w->list[1].count) * sizeof *a,
                       "the words of two texts", &a));
  b = a + w->list[0].count;
  *out = (overlap){.count = {make_keys(&w->list[0], n, a), make_keys(&w->list[1], n, b)}};
  for (size_t i = 0, j = 0; i < out->count[0]; i++) {
    while (j < out->count[1] && b[j] < a[i]) j++;
    if (j == out->count[1] || b[j] != a[i]) continue;
    out->shared++;
    if (once) j++;
  }
  ctx_free(ctx, a);
  return ATTEND_OK;
}

/* ---- scores ------------------------------------------------------------------------------ */

static attend_score score_of(size_t shared, size_t summary, size_t reference) {
  attend_score s = {0};
  if (summary) s.precision = (double)shared / (double)summary;
  if (reference) s.recall = (double)shared / (double)reference;
  if (shared) s.f1 = 2 * s.precision * s.recall / (s.precision + s.recall);
  return s;
}

static attend_status score_keys(attend_context *ctx, const word_pair *w, size_t n,
                                attend_score *out) {
  overlap o;
  ATTEND_TRY(overlap_of(ctx, w, n, true, &o));
  *out = score_of(o.shared, o.count[0], o.count[1]);
  return ATTEND_OK;
}

static attend_status score_whole(attend_context *ctx, const word_pair *w, attend_score *out) {
  const word_list *s = &w->list[0], *r = &w->list[1];
  size_t shared;
  ATTEND_TRY(lcs_length(ctx, w->kinds, s->count, s->id, r->count, r->id, &shared));
  *out = score_of(shared, s->count, r->count);
  return ATTEND_OK;
}

/* A word of the reference may belong to several lines' subsequences, but is not
 * counted more often than the summary has it. */
static attend_status score_lines(attend_context *ctx, const word_pair *w, attend_score *out) {
  const word_list *s = &w->list[0], *r = &w->list[1];
  unsigned char *in_any;
  uint32_t *left;
  size_t shared = 0;
  ATTEND_TRY(ctx_alloc_zeroed(ctx, w->kinds * sizeof *left + r->count, "lines", &left));
  in_any = (unsigned char *)(left + w->kinds);
  attend_status status = lcs_union(ctx, w->kinds, r, s, in_any);
  for (size_t i = 0; i < s->count; i++) left[s->id[i]]++;
  for (size_t i = 0; i < r->count; i++) {
    if (!in_any[i] || !left[r->id[i]]) continue;
    left[r->id[i]]--;
    shared++;
  }
  ctx_free(ctx, left);
  *out = score_of(shared, s->count, r->count);
  return status;
}

static attend_status score_all(attend_context *ctx, const word_pair *w, bool lines,
                               attend_rouge_scores *out) {
  ATTEND_TRY(score_keys(ctx, w, 1, &out->rouge1));
  ATTEND_TRY(score_keys(ctx, w, 2, &out->rouge2));
  ATTEND_TRY(score_whole(ctx, w, &out->rougeL));
  out->rougeLsum = out->rougeL;
  return lines ? score_lines(ctx, w, &out->rougeLsum) : ATTEND_OK;
}

/* ---- calls --------------------------------------------------------------------------- */

attend_status attend_rouge(attend_context *ctx, const char *summary, size_t length,
                           const char *reference, size_t reference_length,
                           const attend_rouge_options *options, attend_rouge_scores *scores) {
  attend_rouge_options o;
  word_pair w;
  *scores = (attend_rouge_scores){0};
  ATTEND_TRY(OPTIONS_READ(ctx, attend_rouge_options, options, &o));
  ATTEND_TRY(
      words_read(ctx, (span[2]){{summary, length}, {reference, reference_length}}, o.stem, &w));
  attend_status status = score_all(ctx, &w, o.lines, scores);
  words_free(ctx, &w);
  return status;
}

static void take_better(attend_score *best, attend_score other) {
  if (other.f1 > best->f1) *best = other;
}

void attend_rouge_best(size_t n, const attend_rouge_scores *scores, attend_rouge_scores *best) {
  *best = scores[0];
  for (size_t i = 1; i < n; i++) {
    take_better(&best->rouge1, scores[i].rouge1);
    take_better(&best->rouge2, scores[i].rouge2);
    take_better(&best->rougeL, scores[i].rougeL);
    take_better(&best->rougeLsum, scores[i].rougeLsum);
  }
}

attend_status attend_novelty_count(attend_context *ctx, const char *summary, size_t length,
                                   const char *source, size_t source_length,
                                   const attend_rouge_options *options, attend_novelty *novelty) {
  overlap one = {0}, two = {0};
  attend_rouge_options o;
  word_pair w;
  *novelty = (attend_novelty){0};
  ATTEND_TRY(OPTIONS_READ(ctx, attend_rouge_options, options, &o));
  ATTEND_TRY(words_read(ctx, (span[2]){{summary, length}, {source, source_length}}, o.stem, &w));
  attend_status status = overlap_of(ctx, &w, 1, false, &one);
  if (!status) status = overlap_of(ctx, &w, 2, false, &two);
  words_free(ctx, &w);
  *novelty = (attend_novelty){one.count[0], one.count[0] - one.shared, two.count[0],
                              two.count[0] - two.shared};
  return status;
}

size_t attend_word_count(const char *text, size_t length) {
  size_t count = 0;
  bool open = false;
  for (size_t i = 0; i < length; i++) {
    bool space = text[i] == ' ' || (text[i] >= '\t' && text[i] <= '\r');
    count += !space && !open;
    open = !space;
  }
  return count;
}
