/* Confidence intervals of means: the percentile bootstrap (Efron, 1979).
 *
 * Each resample has its own stream of random numbers, so that threads may take them
 * in any order.
 */
#include <stdlib.h>

#include "base/options.h"
#include "base/parallel.h"
#include "score/score.h"

static int rising(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

typedef struct {
  uint64_t seed;
  size_t n, columns;
  const double *values;
  size_t stride; /* between the means of two columns */
  double *means;
} resampling;

/* The means of one resample's columns. */
static void resample(const void *args, int64_t number, int worker) {
  const resampling *x = args;
  attend_random r = {x->seed, (uint64_t)number};
  double *means = x->means + number;
  uint32_t draw[4];
  (void)worker;
  for (size_t c = 0; c < x->columns; c++) means[c * x->stride] = 0;
  for (size_t i = 0; i < x->n; i++) {
    if (i % 4 == 0) attend_random_block(r, i / 4, draw);
    size_t chosen = (size_t)((uint64_t)draw[i % 4] * x->n >> 32);
    for (size_t c = 0; c < x->columns; c++)
      means[c * x->stride] += x->values[chosen * x->columns + c];
  }
  for (size_t c = 0; c < x->columns; c++) means[c * x->stride] /= (double)x->n;
}

/* Linear interpolation between order statistics. */
static double percentile(const double *sorted, int count, double share) {
  double at = share * (count - 1);
  int below = (int)at;
  if (below >= count - 1) return sorted[count - 1];
  return sorted[below] + (at - below) * (sorted[below + 1] - sorted[below]);
}

static double mean_of(size_t n, size_t columns, const double *values) {
  double sum = 0;
  for (size_t i = 0; i < n; i++) sum += values[i * columns];
  return sum / (double)n;
}

static attend_status check(attend_context *ctx, size_t n, const attend_bootstrap_options *o) {
  ATTEND_CHECK(ctx, n > 0, "there is nothing to resample");
  ATTEND_CHECK(ctx, n < UINT32_MAX, "%zu values are too many to resample", n);
  ATTEND_CHECK(ctx, o->resamples >= 1 && o->resamples <= 1 << 24,
               "%d resamples: choose from 1 to 2^24", o->resamples);
  ATTEND_CHECK(ctx, o->confidence > 0 && o->confidence < 1,
               "confidence %g: choose one between 0 and 1", o->confidence);
  return ATTEND_OK;
}

attend_status attend_bootstrap(attend_context *ctx, size_t n, size_t columns, const double *values,
                               const attend_bootstrap_options *options,
                               attend_interval *intervals) {
  attend_bootstrap_options o;
  ATTEND_TRY(OPTIONS_READ(ctx, attend_bootstrap_options, options, &o));
  if (!o.resamples) o.resamples = 1000;
  if (o.confidence == 0) o.confidence = 0.95;
  ATTEND_TRY(check(ctx, n, &o));
  size_t count = (size_t)o.resamples;
  double *means, tail = (1 - o.confidence) / 2;
  size_t bytes = SIZE_PRODUCT(count, columns, sizeof *means);
  ATTEND_CHECK(ctx, bytes <= PTRDIFF_MAX, "%zu columns are too many to resample", columns);
  ATTEND_TRY(ctx_alloc(ctx, bytes, "resamples", &means));
  resampling r = {o.seed, n, columns, values, count, means};
  PARALLEL_FOR(ctx, ctx->threads, o.resamples, resample, r);
  for (size_t c = 0; c < columns; c++) {
    double *sorted = means + c * count;
    qsort(sorted, count, sizeof *sorted, rising);
    intervals[c] = (attend_interval){
        mean_of(n, columns, values + c), percentile(sorted, o.resamples, tail),
        percentile(sorted, o.resamples, 0.5), percentile(sorted, o.resamples, 1 - tail)};
  }
  ctx_free(ctx, means);
  return ATTEND_OK;
}
