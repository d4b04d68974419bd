/* The naive run's backward pass: one key of one row after another.
 *
 * After naive.c has computed a row's weights. With features the gradient of a weight
 * goes to the two rows of features (naive_features.c) instead of to q and k.
 */
#include <math.h>

#include "verify/naive.h"

static void add_row(gradients *g, int out, size_t at, float factor, double size, const float *row,
                    int width) {
  float *sum = g->sum[out] + at;
  double *absolute = g->size[out] + at;
  for (int x = 0; x < width; x++) {
    sum[x] += factor * row[x];
    absolute[x] += size * fabs((double)row[x]);
  }
}

static void through_bias(const pass *p, gradients *g, int j, float ds, double size) {
  const attend_desc *d = p->d;
  int64_t ahead = j - naive_position(d, p->i);
  size_t at = 0;
  float factor = 1;
  switch (d->bias.kind) {
    case ATTEND_NO_BIAS:
      return;
    case ATTEND_ALIBI:
      at = (size_t)p->h;
      factor = -fabsf((float)ahead);
      break;
    case ATTEND_BUCKETS:
      at = (size_t)(attend_bucket(&d->bias, ahead) * d->heads + p->h);
      break;
    case ATTEND_DENSE:
      at = (size_t)dense_at(d, p->b, p->h, p->i, j);
      break;
  }
  g->sum[ATTEND_OUT_DBIAS][at] += ds * factor;
  g->size[ATTEND_OUT_DBIAS][at] += size * fabs((double)factor);
}

static void through_gaussian(const pass *p, gradients *g, size_t q_at, size_t k_at, float ds,
                             double size) {
  const attend_desc *d = p->d;
  float inverse = 1 / (d->form.sigma * d->form.sigma);
  for (int x = 0; x < d->dim; x++) {
    float gap = p->k[k_at + (size_t)x] - p->q[q_at + (size_t)x];
    float step = ds * gap * inverse;
    double absolute = size * fabs((double)(gap * inverse));
    g->sum[ATTEND_OUT_DQ][q_at + (size_t)x] += step;
    g->sum[ATTEND_OUT_DK][k_at + (size_t)x] -= step;
    g->size[ATTEND_OUT_DQ][q_at + (size_t)x] += absolute;
    g->size[ATTEND_OUT_DK][k_at + (size_t)x] += absolute;
  }
}

/* Of the soft cap. */
static float cap_slope(const attend_desc *d, const float *q, const float *k) {
  float size, t;
  if (d->soft_cap == 0) return 1;
  t = tanhf(d->scale * naive_dot(q, k, d->dim, &size) / d->soft_cap);
  return 1 - t * t;
}

/* The factor between a score's derivative and that of q.k, and its size: a
 * power's rounding is relative to the power of absolute values. */
static float slope(const pass *p, int s, const float *q, const float *k, double *size) {
  const attend_desc *d = p->d;
  float absolute, temperature = d->form.temperature, a = d->form.a;
  *size = fabs((double)(d->scale / (temperature > 0 ? temperature : 1)));
  if (d->form.kind == ATTEND_SOFTMAX) return d->scale * cap_slope(d, q, k);
  if (d->form.kind == ATTEND_ARGMAX) return d->scale / temperature * cap_slope(d, q, k);
  float base = a * naive_dot(q, k, d->dim, &absolute) + d->form.c;
  float factor = expf(naive_bias(p, p->visible[s])) * (float)d->form.degree * a;
  absolute = fabsf(a) * absolute + fabsf(d->form.c);
  *size = fabs((double)factor * naive_power(absolute, d->form.degree - 1) / p->denominator);
  return factor * naive_power(base, d->form.degree - 1) / p->denominator;
}

static void through_product(const pass *p, gradients *g, int s, size_t q_at, size_t k_at, float gap,
                            double gap_size) {
  const attend_desc *d = p->d;
  bool poly = d->form.kind == ATTEND_POLY;
  double size = naive_weight_size(p, s) * gap_size;
  double f_size;
  float f = slope(p, s, p->q + q_at, p->k + k_at, &f_size);
  float factor = poly ? f * gap : f * (p->weight[s] * gap);
  double absolute = f_size * (poly ? gap_size : size);
  if (poly) absolute += fabs((double)factor) * p->condition;
  add_row(g, ATTEND_OUT_DQ, q_at, factor, absolute, p->k + k_at, d->dim);
  add_row(g, ATTEND_OUT_DK, k_at, factor, absolute, p->q + q_at, d->dim);
}

static void through_key(pass *p, gradients *g, int s, float gap, double gap_size) {
  const attend_desc *d = p->d;
  int j = p->visible[s];
  size_t q_at = naive_query_at(p, d->dim), k_at = naive_key_at(p, j, d->dim);
  float ds = p->weight[s] * gap;
  double size = naive_weight_size(p, s) * gap_size;
  if (p->features)
    naive_features_add(p, s, gap, gap_size);
  else if (d->form.kind == ATTEND_GAUSSIAN)
    through_gaussian(p, g, q_at, k_at, ds, size);
  else
    through_product(p, g, s, q_at, k_at, gap, gap_size);
  float t = d->form.kind == ATTEND_ARGMAX ? d->form.temperature : 1;
  through_bias(p, g, j, ds / t, size / (double)t);
}

/* A signed denominator may nearly cancel: a weight then carries its rounding,
 * beside its own. */
static double after_division(const pass *p) {
  return p->is_signed && p->condition > 1 ? p->condition : 1;
}

/* And so does o, with which delta is made. */
static double delta_carries(const pass *p, const float *d_o) {
  double sum = 0;
  if (p->d->form.kind != ATTEND_POLY) return 0;
  for (int x = 0; x < p->d->dim_v; x++) sum += fabs((double)d_o[x]) * p->o_size[x];
  return sum;
}

void naive_backward_row(pass *p, gradients *g) {
  const attend_desc *d = p->d;
  const float *d_o = p->d_o + naive_query_at(p, d->dim_v);
  float delta_size, size;
  float delta = naive_dot(d_o, p->o, d->dim_v, &delta_size);
  if (!p->n_visible || p->denominator == 0) return;
  double worse = after_division(p), carries = delta_carries(p, d_o);
  for (int s = 0; s < p->n_visible; s++) {
    size_t at = naive_key_at(p, p->visible[s], d->dim_v);
    double carried = fabs((double)p->weight[s]) * (worse - 1);
    add_row(g, ATTEND_OUT_DV, at, p->weight[s], naive_weight_size(p, s) + carried, d_o, d->dim_v);
    if (naive_is_hard(d)) continue;
    float dp = naive_dot(d_o, p->v + at, d->dim_v, &size);
    through_key(p, g, s, dp - delta, (double)size + (double)delta_size + carries);
  }
  if (p->features) naive_features_query(p, g);
}
