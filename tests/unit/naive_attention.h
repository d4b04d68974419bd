/* Naive attention in float. The error bound of an engine is twice the error of this. */
#ifndef TESTS_NAIVE_ATTENTION_H
#define TESTS_NAIVE_ATTENTION_H

#include "attend/problem.h"
#include "attention_fixtures.h"

typedef struct { /* contiguous [B,H,T,D] and so on */
  const float *q, *k, *v, *d_o;
  float *o, *lse, *dq, *dk, *dv; /* gradients may be NULL */
  double size[5];                /* of each: the largest sum of absolute terms, which is what
                     rounding is relative to where terms cancel */
} plain_data;

/* log sim; or sim itself for poly. */
static inline float plain_score(const attend_desc *d, const float *q, const float *k) {
  float dot = 0, far = 0, power = 1;
  for (int x = 0; x < d->dim; x++) {
    dot += q[x] * k[x];
    far += (q[x] - k[x]) * (q[x] - k[x]);
  }
  if (d->form.kind == ATTEND_GAUSSIAN) return -far / (2 * d->form.sigma * d->form.sigma);
  if (d->form.kind == ATTEND_POLY) {
    for (int n = 0; n < d->form.degree; n++) power *= d->form.a * dot + d->form.c;
    return power;
  }
  float score = d->scale * dot, cap = d->soft_cap;
  if (cap > 0) score = cap * tanhf(score / cap);
  return score / (d->form.temperature > 0 ? d->form.temperature : 1.0f);
}

/* d score / d q.k, without a temperature. */
static inline float plain_slope(const attend_desc *d, const float *q, const float *k) {
  float dot = 0;
  for (int x = 0; x < d->dim; x++) dot += q[x] * k[x];
  float t = d->soft_cap > 0 ? tanhf(d->scale * dot / d->soft_cap) : 0;
  return d->scale * (1 - t * t);
}

/* Weights of one row over its visible keys, others 0; returns lse. */
static inline float plain_row(const attend_desc *d, int b, int i, const float *q, const float *k,
                              float *w) {
  int poly = d->form.kind == ATTEND_POLY, n = 0, best_at = -1;
  int hard = d->form.kind == ATTEND_ARGMAX && d->form.temperature == 0;
  float best = -INFINITY, sum = 0;
  for (int j = 0; j < d->kv_len; j++) {
    w[j] = 0;
    if (!attend_visible(d, b, i, j)) continue;
    w[j] = plain_score(d, q, k + (size_t)j * (size_t)d->dim);
    n++;
    if (w[j] > best) best = w[j], best_at = j;
  }
  for (int j = 0; j < d->kv_len; j++) {
    if (!attend_visible(d, b, i, j)) continue;
    if (hard)
      w[j] = d->form.ties == ATTEND_TIES_FIRST ? j == best_at : w[j] == best;
    else if (!poly)
      w[j] = expf(w[j] - best);
    sum += w[j];
  }
  for (int j = 0; j < d->kv_len && sum != 0; j++) w[j] /= sum;
  if (poly) return sum;
  return n ? hard ? best : best + logf(sum) : -INFINITY;
}

/* Of a row of softmax: dv and, through dw, dq and dk. */
static inline void plain_row_backward(const attend_desc *d, const float *w, const float *q,
                                      const float *k, const float *v, const float *d_o, float *dq,
                                      float *dk, float *dv, double *dq_size, double *dk_size) {
  size_t D = (size_t)d->dim, M = (size_t)d->dim_v;
  float mean = 0, *dw = zeroed_block((size_t)d->kv_len, sizeof *dw);
  for (size_t j = 0; j < (size_t)d->kv_len; j++) {
    for (size_t x = 0; x < M; x++) dw[j] += d_o[x] * v[j * M + x];
    mean += w[j] * dw[j];
  }
  for (size_t j = 0; j < (size_t)d->kv_len; j++) {
    float ds = plain_slope(d, q, k + j * D) * w[j] * (dw[j] - mean);
    double size = (double)(d->scale * w[j] * (fabsf(dw[j]) + fabsf(mean)));
    for (size_t x = 0; x < M; x++) dv[j * M + x] += w[j] * d_o[x];
    for (size_t x = 0; x < D; x++) {
      dq[x] += ds * k[j * D + x];
      dk[j * D + x] += ds * q[x];
      dq_size[x] += size * (double)fabsf(k[j * D + x]);
      dk_size[j * D + x] += size * (double)fabsf(q[x]);
    }
  }
  free(dw);
}

static inline double plain_largest(const float *x, const double *y, size_t n) {
  double max = 0;
  for (size_t i = 0; (x || y) && i < n; i++) {
    double size = x ? (double)fabsf(x[i]) : y[i];
    if (isfinite(size) && size > max) max = size;
  }
  return max;
}

/* d is complete (attend_plan_desc); biases are not known here. */
static inline void plain_run(const attend_desc *d, plain_data *p) {
  size_t T = (size_t)d->q_len, S = (size_t)d->kv_len;
  size_t D = (size_t)d->dim, M = (size_t)d->dim_v;
  float *w = zeroed_block(S, sizeof *w);
  double *dq_size = zeroed_block(rows_of(d) * D, sizeof *dq_size);
  double *dk_size = zeroed_block(keys_of(d) * D, sizeof *dk_size);
  for (size_t r = 0; r < rows_of(d); r++) {
    size_t head = r / T, b = head / (size_t)d->heads;
    size_t g = head % (size_t)d->heads / (size_t)(d->heads / d->kv_heads);
    size_t at = (b * (size_t)d->kv_heads + g) * S;
    const float *q = p->q + r * D, *k = p->k + at * D, *v = p->v + at * M;
    p->lse[r] = plain_row(d, (int)b, (int)(r % T), q, k, w);
    for (size_t x = 0; x < M; x++) {
      float sum = 0;
      for (size_t j = 0; j < S; j++) sum += w[j] != 0 ? w[j] * v[j * M + x] : 0;
      p->o[r * M + x] = sum;
    }
    if (p->dq)
      plain_row_backward(d, w, q, k, v, p->d_o + r * M, p->dq + r * D, p->dk + at * D,
                         p->dv + at * M, dq_size + r * D, dk_size + at * D);
  }
  p->size[0] = plain_largest(p->o, NULL, rows_of(d) * M);
  p->size[1] = plain_largest(p->lse, NULL, rows_of(d));
  p->size[2] = plain_largest(NULL, dq_size, rows_of(d) * D);
  p->size[3] = plain_largest(NULL, dk_size, keys_of(d) * D);
  p->size[4] = plain_largest(p->dv, NULL, keys_of(d) * M);
  free(w);
  free(dq_size);
  free(dk_size);
}

/* Within twice the plain run's error, plus a few roundings where that run
 * happens to be exact: 4 FLT_EPSILON of the largest result at most, or where all
 * results are 0 (the gradients of a single key), of the terms that cancelled. */
static inline void check_budget(const char *name, const char *what, const float *got,
                                const float *plain, const double *truth, size_t n, double size) {
  double error = 0, budget = 0, largest = 0, rounding = 2 * 0x1p-24 * size;
  for (size_t i = 0; i < n; i++) {
    if (isfinite(truth[i])) largest = fmax(largest, fabs(truth[i]));
    if ((double)got[i] == truth[i]) continue; /* infinities too */
    double e = fabs((double)got[i] - truth[i]);
    if (!(e <= error)) error = e; /* NaN stays */
    if (isfinite(truth[i])) budget = fmax(budget, fabs((double)plain[i] - truth[i]));
  }
  if (largest > 0) rounding = fmin(rounding, 8 * 0x1p-24 * largest);
  budget = 2 * budget + rounding;
  if (!(error <= budget)) CHECK_FAIL("%s: %s errs by %.3g, may by %.3g", name, what, error, budget);
}

#endif
