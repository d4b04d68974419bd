/* Attention in plain float loops: the reference that an engine's error is bounded by.
 *
 * Scores, their maximum subtracted, expf, sums in plain order; results are stored
 * through the problem's dtype. None of it is shared with the engines. Beside every sum
 * runs the sum of its absolute values: what rounding is relative to.
 */
#include "verify/naive.h"

#include <math.h>

bool rounds_weights(const attend_context *ctx, const attend_desc *d) {
  bool soft = d->form.kind == ATTEND_SOFTMAX ||
              (d->form.kind == ATTEND_GAUSSIAN && d->form.features == 0) ||
              (d->form.kind == ATTEND_ARGMAX && !naive_is_hard(d));
  return soft && d->dtype == ATTEND_BF16 && !strcmp(attend_context_isa(ctx), "amx");
}

int64_t naive_position(const attend_desc *d, int64_t i) {
  bool bottom = d->mask.causal == ATTEND_CAUSAL_BOTTOM;
  return i + (bottom ? (int64_t)d->kv_len - d->q_len : 0);
}

size_t naive_query_at(const pass *p, int width) {
  const attend_desc *d = p->d;
  size_t head = (size_t)p->b * (size_t)d->heads + (size_t)p->h;
  return (head * (size_t)d->q_len + (size_t)p->i) * (size_t)width;
}

size_t naive_key_at(const pass *p, int j, int width) {
  const attend_desc *d = p->d;
  size_t head = (size_t)p->b * (size_t)d->kv_heads + (size_t)p->g;
  return (head * (size_t)d->kv_len + (size_t)j) * (size_t)width;
}

/* ---- score ------------------------------------------------------------------- */

float naive_dot(const float *a, const float *b, int n, float *size) {
  float sum = 0, absolute = 0;
  for (int x = 0; x < n; x++) {
    sum += a[x] * b[x];
    absolute += fabsf(a[x] * b[x]);
  }
  *size = absolute;
  return sum;
}

float naive_bias(const pass *p, int j) {
  const attend_desc *d = p->d;
  int64_t ahead = j - naive_position(d, p->i);
  switch (d->bias.kind) {
    case ATTEND_NO_BIAS:
      break;
    case ATTEND_ALIBI:
      return -d->bias.slopes[p->h] * fabsf((float)ahead);
    case ATTEND_BUCKETS:
      return d->bias.table[attend_bucket(&d->bias, ahead) * d->heads + p->h];
    case ATTEND_DENSE:
      return ((const float *)d->bias.dense.data)[dense_at(d, p->b, p->h, p->i, j)];
  }
  return 0;
}

float naive_power(float base, int degree) {
  float product = 1;
  for (; degree; degree /= 2, base *= base)
    if (degree % 2) product *= base;
  return product;
}

static float squared_distance(const float *a, const float *b, int n) {
  float sum = 0;
  for (int x = 0; x < n; x++) sum += (a[x] - b[x]) * (a[x] - b[x]);
  return sum;
}

/* log sim, or sim itself for poly; *size bounds what its rounding is. */
static float similarity(const pass *p, const float *q, const float *k, int j, float *size) {
  const attend_desc *d = p->d;
  float bias = naive_bias(p, j), absolute;
  float product = naive_dot(q, k, d->dim, &absolute);
  if (d->form.kind == ATTEND_POLY) {
    float e = expf(bias), base = fabsf(d->form.a) * absolute;
    *size = naive_power(base + fabsf(d->form.c), d->form.degree) * e;
    return naive_power(d->form.a * product + d->form.c, d->form.degree) * e;
  }
  float score = d->scale * product;
  if (d->soft_cap > 0) score = d->soft_cap * tanhf(score / d->soft_cap);
  *size = fabsf(d->scale) * absolute + fabsf(bias);
  if (d->form.kind == ATTEND_GAUSSIAN) {
    score = -squared_distance(q, k, d->dim) / (2 * d->form.sigma * d->form.sigma);
    *size = fabsf(score) + fabsf(bias);
  }
  score += bias;
  bool soft = d->form.kind == ATTEND_ARGMAX && !naive_is_hard(d);
  if (soft) *size /= d->form.temperature;
  return soft ? score / d->form.temperature : score;
}

/* ---- forward ------------------------------------------------------------------ */

static void score_visible(pass *p) {
  const attend_desc *d = p->d;
  const float *q = p->q + naive_query_at(p, d->dim);
  p->n_visible = 0;
  for (int j = 0; j < d->kv_len; j++)
    if (attend_visible(d, p->b, p->i, j)) p->visible[p->n_visible++] = j;
  if (p->features) {
    naive_features_score(p);
    return;
  }
  for (int s = 0; s < p->n_visible; s++) {
    int j = p->visible[s];
    const float *k = p->k + naive_key_at(p, j, d->dim);
    p->score[s] = similarity(p, q, k, j, &p->size[s]);
  }
}

static float largest(const float *x, int n) {
  float best = -INFINITY;
  for (int s = 0; s < n; s++)
    if (x[s] > best) best = x[s];
  return best;
}

static void choose(pass *p, float best) {
  bool first = p->d->form.ties == ATTEND_TIES_FIRST, taken = false;
  for (int s = 0; s < p->n_visible; s++) {
    bool is_best = p->score[s] == best && !(first && taken);
    p->weight[s] = is_best ? 1 : 0;
    taken = taken || is_best;
  }
}

/* Of similarities that are no logarithms: lse, and the size of the numbers it
 * was made from. */
static float weigh_direct(pass *p, float *lse_size) {
  float sum = 0, size = 0;
  for (int s = 0; s < p->n_visible; s++) {
    p->weight[s] = p->score[s];
    sum += p->weight[s];
    size += p->size[s];
  }
  p->denominator = sum;
  p->condition = (double)size / fabs((double)sum);
  *lse_size = p->is_signed ? size * expf(p->shift) : 1 + p->args;
  if (p->is_signed) return sum * expf(p->shift);
  return p->n_visible ? p->shift + logf(sum) : -INFINITY;
}

/* Weights not yet divided; returns lse as the library defines it, and the
 * size of the numbers it was made from. */
float naive_weigh(pass *p, float *lse_size) {
  const attend_desc *d = p->d;
  score_visible(p);
  if (p->direct) return weigh_direct(p, lse_size);
  float best = largest(p->score, p->n_visible), sum = 0;
  *lse_size = 0;
  for (int s = 0; s < p->n_visible; s++)
    if (p->size[s] > *lse_size) *lse_size = p->size[s];
  if (naive_is_hard(d)) choose(p, best);
  float best2 = best * 1.442695041f;
  p->below = exp2f(best2 - ceilf(best2));
  for (int s = 0; s < p->n_visible; s++) {
    if (!naive_is_hard(d)) p->weight[s] = expf(p->score[s] - best);
    sum += p->weight[s];
  }
  p->denominator = sum;
  if (!p->n_visible) return -INFINITY;
  if (naive_is_hard(d)) return best;
  *lse_size += 1; /* what is relative in a sum is absolute in its logarithm */
  return best + logf(sum);
}

static float stored(attend_dtype dtype, float x) {
  uint32_t bits;
  attend_convert_from_f32(dtype, &x, 1, &bits);
  attend_convert_to_f32(dtype, &bits, 1, &x);
  return x;
}

/* The rounding of a sum of products is relative to the sum of absolute values.
 * An exponential turns the rounding of a score, half an eps of its size, into
 * as much of the weight: more than 4 eps beyond 8. */
double naive_weight_size(const pass *p, int s) {
  double weight = fabs((double)p->weight[s]), size = (double)p->size[s];
  if (p->direct) return size / fabs((double)p->denominator);
  return naive_is_hard(p->d) || size < 8 ? weight : weight * size / 8;
}

static void add_values(pass *p) {
  const attend_desc *d = p->d;
  float divisor = 0; /* the sum of the rounded weights: what rounding took cancels */
  for (int x = 0; x < d->dim_v; x++) p->o[x] = 0, p->o_size[x] = 0;
  for (int s = 0; s < p->n_visible; s++) {
    const float *v = p->v + naive_key_at(p, p->visible[s], d->dim_v);
    float w = p->weight[s];
    if (p->rounded) w = stored(ATTEND_BF16, w * p->below);
    for (int x = 0; x < d->dim_v; x++) p->o[x] += w * v[x];
    divisor += w;
  }
  bool any = p->n_visible && p->denominator != 0;
  for (int s = 0; s < p->n_visible; s++) p->weight[s] = any ? p->weight[s] / p->denominator : 0;
  for (int x = 0; x < d->dim_v; x++) p->o[x] = any ? stored(d->dtype, p->o[x] / divisor) : 0;
  for (int s = 0; any && s < p->n_visible; s++) {
    const float *v = p->v + naive_key_at(p, p->visible[s], d->dim_v);
    double w = naive_weight_size(p, s);
    for (int x = 0; x < d->dim_v; x++)
      p->o_size[x] += w * (fabs((double)v[x]) + (p->is_signed ? fabs((double)p->o[x]) : 0));
  }
}

/* ---- the whole ---------------------------------------------------------------- */

static attend_status widen(memory *m, attend_view view, const attend_desc *d, int heads, int length,
                           int width, float **all) {
  size_t n = (size_t)d->batch * (size_t)heads * (size_t)length * (size_t)width;
  double *wide;
  TAKE(m, all, n);
  ATTEND_TRY(take(m->ctx, size_times(n, sizeof *wide), "verifying", &wide));
  view_read(view, d->dtype, d->batch, heads, length, width, wide);
  for (size_t i = 0; i < n; i++) (*all)[i] = (float)wide[i];
  give(m->ctx, wide);
  return ATTEND_OK;
}

attend_status naive_open(attend_context *ctx, const inputs *in, pass *p) {
  const attend_desc *d = in->desc;
  *p = (pass){
      .memory = {.ctx = ctx}, .d = d, .rounded = in->round_weights, .undecided = in->undecided};
  memory *m = &p->memory;
  ATTEND_TRY(widen(m, in->q, d, d->heads, d->q_len, d->dim, &p->q));
  ATTEND_TRY(widen(m, in->k, d, d->kv_heads, d->kv_len, d->dim, &p->k));
  ATTEND_TRY(widen(m, in->v, d, d->kv_heads, d->kv_len, d->dim_v, &p->v));
  if (in->d_o.data) ATTEND_TRY(widen(m, in->d_o, d, d->heads, d->q_len, d->dim_v, &p->d_o));
  TAKE(m, &p->score, d->kv_len);
  TAKE(m, &p->weight, d->kv_len);
  TAKE(m, &p->size, d->kv_len);
  TAKE(m, &p->factor, d->kv_len);
  TAKE(m, &p->visible, d->kv_len);
  TAKE(m, &p->o, d->dim_v);
  TAKE(m, &p->o_size, d->dim_v);
  ATTEND_TRY(naive_features_open(p));
  p->is_signed = attend_form_signed(&d->form);
  p->direct = p->is_signed || p->features;
  return ATTEND_OK;
}

void naive_close(pass *p) { memory_free(&p->memory); }

void naive_at(pass *p, int b, int h, int i) {
  p->b = b;
  p->h = h;
  p->g = h / (p->d->heads / p->d->kv_heads);
  p->i = i;
}

static void take_largest(double *most, double x) {
  if (x > *most) *most = x;
}

static void run_row(pass *p, gradients *g, outputs *out, double *magnitude) {
  const attend_desc *d = p->d;
  float lse_size;
  size_t row = naive_query_at(p, 1);
  bool counts = !p->undecided || !p->undecided[row];
  out->at[ATTEND_OUT_LSE][row] = naive_weigh(p, &lse_size);
  add_values(p);
  take_largest(&magnitude[ATTEND_OUT_LSE], lse_size);
  for (int x = 0; x < d->dim_v; x++) {
    out->at[ATTEND_OUT_O][row * (size_t)d->dim_v + (size_t)x] = p->o[x];
    if (counts) take_largest(&magnitude[ATTEND_OUT_O], p->o_size[x]);
  }
  if (p->d_o) naive_backward_row(p, g);
}

static void store_gradients(const attend_desc *d, const gradients *g, outputs *out,
                            double *magnitude) {
  for (int x = ATTEND_OUT_DQ; x < ATTEND_OUTPUTS; x++)
    for (size_t n = 0; n < out->count[x]; n++) {
      float sum = g->sum[x][n];
      out->at[x][n] = x == ATTEND_OUT_DBIAS ? sum : stored(d->dtype, sum);
      take_largest(&magnitude[x], g->size[x][n]);
    }
}

static attend_status run_rows(pass *p, outputs *out, double *magnitude) {
  const attend_desc *d = p->d;
  gradients g = {0};
  for (int x = ATTEND_OUT_DQ; x < ATTEND_OUTPUTS; x++) {
    TAKE(&p->memory, &g.sum[x], out->count[x]);
    TAKE(&p->memory, &g.size[x], out->count[x]);
  }
  for (int b = 0; b < d->batch; b++)
    for (int h = 0; h < d->heads; h++)
      for (int i = 0; i < d->q_len; i++) {
        naive_at(p, b, h, i);
        run_row(p, &g, out, magnitude);
      }
  if (p->d_o && p->features) naive_features_keys(p, &g);
  if (p->d_o) store_gradients(d, &g, out, magnitude);
  return ATTEND_OK;
}

attend_status run_naive(attend_context *ctx, const inputs *in, outputs *out,
                        double magnitude[ATTEND_OUTPUTS]) {
  pass p;
  for (int x = 0; x < ATTEND_OUTPUTS; x++) magnitude[x] = 0;
  attend_status status = naive_open(ctx, in, &p);
  if (!status) status = run_rows(&p, out, magnitude);
  naive_close(&p);
  return status;
}
