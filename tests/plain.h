/* Attention as anyone would write it first, in float: the yardstick. An engine
 * may err twice as much as this does. */
#ifndef TESTS_PLAIN_H
#define TESTS_PLAIN_H

#include "world.h"

typedef struct { /* contiguous [B,H,T,D] and so on */
  const float *q, *k, *v, *d_o;
  float *o, *lse, *dq, *dk, *dv; /* gradients may be NULL */
} plain_data;

/* log sim; or sim itself for poly. */
static inline float plain_score(const attend_desc *d, const float *q,
                                const float *k) {
  float dot = 0, far = 0, power = 1;
  for (int x = 0; x < d->dim; x++) {
    dot += q[x] * k[x];
    far += (q[x] - k[x]) * (q[x] - k[x]);
  }
  if (d->form.kind == ATTEND_GAUSSIAN)
    return -far / (2 * d->form.sigma * d->form.sigma);
  if (d->form.kind == ATTEND_POLY) {
    for (int n = 0; n < d->form.degree; n++)
      power *= d->form.a * dot + d->form.c;
    return power;
  }
  return d->scale * dot /
         (d->form.temperature > 0 ? d->form.temperature : 1.0f);
}

/* Weights of one row over its visible keys, others 0; returns lse. */
static inline float plain_row(const attend_desc *d, int b, int i,
                              const float *q, const float *k, float *w) {
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
static inline void plain_row_backward(const attend_desc *d, const float *w,
                                      const float *q, const float *k,
                                      const float *v, const float *d_o,
                                      float *dq, float *dk, float *dv) {
  size_t D = (size_t)d->dim, M = (size_t)d->dim_v;
  float mean = 0, *dw = room_for((size_t)d->kv_len, sizeof *dw);
  for (size_t j = 0; j < (size_t)d->kv_len; j++) {
    for (size_t x = 0; x < M; x++) dw[j] += d_o[x] * v[j * M + x];
    mean += w[j] * dw[j];
  }
  for (size_t j = 0; j < (size_t)d->kv_len; j++) {
    float ds = d->scale * w[j] * (dw[j] - mean);
    for (size_t x = 0; x < M; x++) dv[j * M + x] += w[j] * d_o[x];
    for (size_t x = 0; x < D; x++) {
      dq[x] += ds * k[j * D + x];
      dk[j * D + x] += ds * q[x];
    }
  }
  free(dw);
}

/* d is complete (attend_plan_desc); biases are not known here. */
static inline void plain_run(const attend_desc *d, const plain_data *p) {
  size_t T = (size_t)d->q_len, S = (size_t)d->kv_len;
  size_t D = (size_t)d->dim, M = (size_t)d->dim_v;
  float *w = room_for(S, sizeof *w);
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
      plain_row_backward(d, w, q, k, v, p->d_o + r * M, p->dq + r * D,
                         p->dk + at * D, p->dv + at * M);
  }
  free(w);
}

/* Within twice the plain run's error, and `floor_eps` roundings of the largest
 * number for where the plain run happens to be exact. */
static inline void check_budget(const char *name, const char *what,
                                const float *got, const float *plain,
                                const double *truth, size_t n,
                                double floor_eps) {
  double error = 0, budget = 0, largest = 0;
  for (size_t i = 0; i < n; i++) {
    if ((double)got[i] == truth[i]) continue; /* infinities too */
    double e = fabs((double)got[i] - truth[i]);
    if (!(e <= error)) error = e; /* NaN stays */
  }
  for (size_t i = 0; i < n; i++) {
    if (isfinite(truth[i])) {
      budget = fmax(budget, fabs((double)plain[i] - truth[i]));
      largest = fmax(largest, fabs(truth[i]));
    }
  }
  budget = 2 * budget + floor_eps * 0x1p-24 * largest;
  if (!(error <= budget))
    CHECK_FAIL("%s: %s errs by %.3g, may by %.3g", name, what, error, budget);
}

#endif
