/* AdamW, SGD with momentum, and the norm of a gradient; train/optimizer.c chooses. Sums run
 * over chunks of fixed length that join in order, so no bit depends on the number of
 * threads.
 */
#include <math.h>

#include "layers/layers.h"

static size_t stretch_end(int64_t i, size_t n) {
  size_t end = ((size_t)i + 1) * SQUARES_STRETCH;
  return end < n ? end : n;
}

static void squares_part(const void *args, int64_t i, int worker) {
  const struct op_sum_squares *o = args;
  double part = 0;
  (void)worker;
  for (size_t j = (size_t)i * SQUARES_STRETCH; j < stretch_end(i, o->n); j++)
    part += (double)o->x[j] * (double)o->x[j];
  o->sums[i] = part;
}

void cpu_sum_squares(attend_context *ctx, const struct op_sum_squares *o) {
  PARALLEL_FOR(ctx, ctx->threads, (int64_t)stretches_of(o->n), squares_part, *o);
}

static void adam(const struct op_step *o, size_t from, size_t to) {
  float *w = o->values, *m = o->first, *v = o->second;
  for (size_t i = from; i < to; i++) {
    float x = o->gradients[i] * o->shrink;
    m[i] = o->beta1 * m[i] + (1 - o->beta1) * x;
    v[i] = o->beta2 * v[i] + (1 - o->beta2) * x * x;
    float root = sqrtf(v[i] * o->fix2) + o->eps;
    w[i] -= o->rate * o->decay * w[i];
    w[i] -= o->rate * (m[i] * o->fix1) / root;
  }
}

static void sgd(const struct op_step *o, size_t from, size_t to) {
  float *w = o->values, *m = o->first;
  for (size_t i = from; i < to; i++) {
    float x = o->gradients[i] * o->shrink + o->decay * w[i];
    m[i] = o->momentum * m[i] + x;
    w[i] -= o->rate * m[i];
  }
}

static void step_range(const struct op_step *o, size_t from, size_t to) {
  if (o->second)
    adam(o, from, to);
  else
    sgd(o, from, to);
}

/* The first span that ends behind `at`. */
static int span_after(const struct op_step *o, size_t at) {
  int low = 0, high = o->n_spans;
  while (low < high) {
    const int middle = (low + high) / 2;
    if (o->spans[middle].end > at)
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

static void step_part(const void *args, int64_t i, int worker) {
  struct op_step o = *(const struct op_step *)args;
  const size_t from = (size_t)i * SQUARES_STRETCH, to = stretch_end(i, o.n);
  (void)worker;
  if (!o.spans) step_range(&o, from, to);
  for (int s = o.spans ? span_after(&o, from) : 0; s < o.n_spans && o.spans[s].begin < to; s++) {
    const struct step_span *x = &o.spans[s];
    o.decay = x->decay;
    step_range(&o, x->begin > from ? x->begin : from, x->end < to ? x->end : to);
  }
}

void cpu_step(attend_context *ctx, const struct op_step *o) {
  int64_t n = (int64_t)stretches_of(o->n);
  PARALLEL_FOR(ctx, n > 4 ? ctx->threads : 1, n, step_part, *o);
}
