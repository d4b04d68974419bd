/* Attention patterns that a hook has edited (model/hooks.c): heads' outputs and gradients.
 * The weights W [B,H,T,S] exist, so o = W v is computed directly, without the engines.
 */
#include <math.h>

#include "layers/layers.h"

static float *at(const attend_view *v, int b, int h, int i) {
  return view_at(v, sizeof(float), b, h, i);
}

static float dot(int n, const float *a, const float *b) {
  float sum = 0;
  for (int i = 0; i < n; i++) sum += a[i] * b[i];
  return sum;
}

static void add_times(int n, float factor, const float *x, float *y) {
  for (int i = 0; i < n; i++) y[i] += factor * x[i];
}

static void clear(int n, float *y) { memset(y, 0, (size_t)n * sizeof *y); }

/* Row (b, h, i) of a tensor [B,H,T,S]. */
static size_t row_at(const struct op_pattern *o, int b, int h, int i) {
  return (((size_t)b * (size_t)o->heads + (size_t)h) * (size_t)o->n + (size_t)i) * (size_t)o->keys;
}

static void apply_head(const void *args, int64_t item, int worker) {
  const struct op_pattern *o = args;
  const int b = (int)(item / o->heads), h = (int)(item % o->heads);
  const int g = h / (o->heads / o->kv_heads);
  (void)worker;
  for (int i = 0; i < o->n; i++) {
    const float *w = o->weights + row_at(o, b, h, i);
    float *to = at(&o->o, b, h, i);
    clear(o->width, to);
    for (int j = 0; j < o->keys; j++)
      if (w[j] != 0) add_times(o->width, w[j], at(&o->v, b, g, j), to);
  }
}

void cpu_pattern(attend_context *ctx, const struct op_pattern *o) {
  int n = o->batch * o->heads;
  double work = (double)n * o->n * o->keys * o->width;
  PARALLEL_FOR(ctx, parts_of(ctx, n, work), n, apply_head, *o);
}

/* ---- gradients ------------------------------------------------------------------- */

static void rows_grad(const void *args, int64_t item, int worker) {
  const struct op_pattern *o = args;
  const int b = (int)(item / o->heads), h = (int)(item % o->heads);
  const int g = h / (o->heads / o->kv_heads);
  (void)worker;
  for (int i = 0; i < o->n; i++) {
    float *d = o->d_weights + row_at(o, b, h, i);
    for (int j = 0; j < o->keys; j++) d[j] = dot(o->width, at(&o->o, b, h, i), at(&o->v, b, g, j));
  }
}

void cpu_pattern_grad(attend_context *ctx, const struct op_pattern_grad *o) {
  int n = o->p.batch * o->p.heads;
  double work = (double)n * o->p.n * o->p.keys * o->p.width;
  PARALLEL_FOR(ctx, parts_of(ctx, n, work), n, rows_grad, o->p);
}

/* Softmax: dS = P (dP - sum of P dP). Heads that share keys add in order. */
static void row_backward(const struct op_pattern_backward *o, int b, int h, int i) {
  const struct op_pattern *p = &o->p;
  const int g = h / (p->heads / p->kv_heads);
  const size_t row = row_at(p, b, h, i);
  const float *w = o->before + row, *edited = p->weights + row;
  const float *dw = p->d_weights + row, *q = at(&o->q, b, h, i);
  float *dq = at(&o->dq, b, h, i);
  const float sum = dot(p->keys, w, dw);
  clear(o->dim, dq);
  for (int j = 0; j < p->keys; j++) {
    float ds = o->scale * w[j] * (dw[j] - sum);
    if (ds != 0) {
      add_times(o->dim, ds, at(&o->k, b, g, j), dq);
      add_times(o->dim, ds, q, at(&o->dk, b, g, j));
    }
    if (edited[j] != 0) add_times(p->width, edited[j], at(&p->o, b, h, i), at(&o->dv, b, g, j));
  }
}

static void keys_backward(const void *args, int64_t item, int worker) {
  const struct op_pattern_backward *o = args;
  const struct op_pattern *p = &o->p;
  const int b = (int)(item / p->kv_heads), g = (int)(item % p->kv_heads);
  const int group = p->heads / p->kv_heads;
  (void)worker;
  for (int j = 0; j < p->keys; j++) {
    clear(o->dim, at(&o->dk, b, g, j));
    clear(p->width, at(&o->dv, b, g, j));
  }
  for (int h = g * group; h < (g + 1) * group; h++)
    for (int i = 0; i < p->n; i++) row_backward(o, b, h, i);
}

void cpu_pattern_backward(attend_context *ctx, const struct op_pattern_backward *o) {
  int n = o->p.batch * o->p.kv_heads;
  double work = (double)o->p.batch * o->p.heads * o->p.n * o->p.keys * o->dim;
  PARALLEL_FOR(ctx, parts_of(ctx, n, work), n, keys_backward, *o);
}

/* ---- denominators ---------------------------------------------------------------- */

static void divide_head(const void *args, int64_t item, int worker) {
  const struct op_divide *o = args;
  const int b = (int)(item / o->heads), h = (int)(item % o->heads);
  (void)worker;
  for (int i = 0; i < o->n; i++) {
    size_t row = (size_t)item * (size_t)o->n + (size_t)i;
    float *x = at(&o->o, b, h, i);
    float less = o->before[row] - o->after[row];
    if (less == 0 || isnan(less)) continue; /* no key: -inf - -inf */
    float factor = expf(less);
    for (int j = 0; j < o->width; j++) x[j] *= factor;
  }
}

void cpu_divide(attend_context *ctx, const struct op_divide *o) {
  int n = o->batch * o->heads;
  PARALLEL_FOR(ctx, parts_of(ctx, n, (double)n * o->n * o->width), n, divide_head, *o);
}
