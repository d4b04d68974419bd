/* Bounds on the error of a linear form in f32 against the definition.
 *
 * A weight a_ij = phi(q_i).phi(k_j) is rounded relative to its size s_ij, the
 * sum of |phi_c(q)| |phi_c(k)|, and a feature that is a function of w.x relative
 * to the length of that sum: e_ij counts both. With u_ij = (1 + e_ij) s_ij /
 * |denominator| an output may err by
 *
 *   OFTEN eps sum_j u_ij (|v_j| + |o_i|)
 *
 * and gradients by the same sums over their terms. OFTEN is the number of
 * roundings of one term: products, two chains of 64 (whose errors grow like the
 * square root), joins, a division. */
#ifndef TESTS_LINEAR_BOUNDS_H
#define TESTS_LINEAR_BOUNDS_H

#include "attend/problem.h"
#include "linear_fixtures.h"

enum { OFTEN = 8 };
static const double unit_roundoff = 0x1p-24;

typedef struct {
  attend_desc d; /* complete */
  double unit;   /* x' = unit x */
  float *q, *k, *v, *d_o;
  double *weight;       /* [rows][S] */
  double *size;         /* [rows][S] u_ij */
  double *o, *lse;      /* the truth */
  double *dq, *dk, *dv; /* or NULL */
  double *row;          /* [rows] sum of u_ij */
  double half;          /* roundoff of the storage */
} bounds;

static inline double sum_products(const float *a, const float *b, int n) {
  double sum = 0;
  for (int i = 0; i < n; i++) sum += fabs((double)a[i] * (double)b[i]);
  return sum;
}

static inline int trigonometric(const attend_form *f) {
  return f->kind == ATTEND_FOURIER ||
         (f->kind == ATTEND_GAUSSIAN && f->map == ATTEND_TRIGONOMETRIC);
}
static inline int has_directions(const attend_form *f) {
  return f->kind == ATTEND_FAVOR || f->kind == ATTEND_FOURIER || f->kind == ATTEND_GAUSSIAN;
}

/* log s_ij, where the sign of terms lets them cancel. */
static inline double log_size(const bounds *x, const float *q, const float *k) {
  const attend_form *f = &x->d.form;
  int dim = x->d.dim;
  if (trigonometric(f)) {
    if (f->kind == ATTEND_GAUSSIAN) return 0;
    return x->unit * x->unit / 2 * (sum_products(q, q, dim) + sum_products(k, k, dim));
  }
  if (f->kind == ATTEND_POLY)
    return f->degree *
           log(fabs((double)f->a) * sum_products(q, k, dim) + fabs((double)f->c) + 1e-300);
  return -INFINITY; /* positive terms: the weight is the size */
}

/* e_ij: an error of w.x' and of |x'|^2 is one of the exponent or the angle. */
static inline double exponents(const bounds *x, const float *q, const float *k) {
  if (!has_directions(&x->d.form)) return 0;
  double qq = x->unit * x->unit * sum_products(q, q, x->d.dim);
  double kk = x->unit * x->unit * sum_products(k, k, x->d.dim);
  return (sqrt(x->d.dim) + 2) * (sqrt(qq) + sqrt(kk)) / 2 + (qq + kk) / 2;
}

/* The size of the derivative by q[i], over s_ij; of keys with q and k swapped. */
static inline double slope(const bounds *x, const float *q, const float *k, int i) {
  const attend_form *f = &x->d.form;
  double qi = fabs((double)q[i]), ki = (double)k[i];
  if (has_directions(f)) return x->unit * 4 + 2 * x->unit * x->unit * qi;
  if (f->kind == ATTEND_POLY)
    return f->degree * fabs((double)f->a * ki) /
           (fabs((double)f->a) * sum_products(q, k, x->d.dim) + fabs((double)f->c) + 1e-300);
  return 1 + 2 * qi; /* elu and bent: not more than the weight itself */
}

static inline double *doubles(size_t n) { return zeroed_block(n, sizeof(double)); }

static inline const float *key_row(const bounds *x, const float *keys, size_t r, size_t j,
                                   int width, size_t *at) {
  size_t T = (size_t)x->d.q_len, S = (size_t)x->d.kv_len;
  size_t head = r / T, b = head / (size_t)x->d.heads;
  size_t g = head % (size_t)x->d.heads / (size_t)(x->d.heads / x->d.kv_heads);
  *at = (b * (size_t)x->d.kv_heads + g) * S + j;
  return keys + *at * (size_t)width;
}

static inline void bounds_sizes(bounds *x) {
  size_t S = (size_t)x->d.kv_len, D = (size_t)x->d.dim, at;
  int is_signed = attend_form_signed(&x->d.form);
  for (size_t r = 0; r < rows_of(&x->d); r++)
    for (size_t j = 0; j < S; j++) {
      double w = x->weight[r * S + j];
      if (w == 0 && !(is_signed && x->lse[r] != 0)) continue;
      int b = (int)(r / (size_t)(x->d.heads * x->d.q_len));
      if (!attend_visible(&x->d, b, (int)(r % (size_t)x->d.q_len), (int)j)) continue;
      const float *q = x->q + r * D, *k = key_row(x, x->k, r, j, (int)D, &at);
      double log_den = is_signed ? log(fabs(x->lse[r])) : x->lse[r];
      double size = fmax(exp(log_size(x, q, k) - log_den), fabs(w));
      x->size[r * S + j] = size * (1 + exponents(x, q, k));
      x->row[r] += x->size[r * S + j];
    }
}

static inline void bounds_open(attend_context *ctx, const attend_tensors *t, bounds *x) {
  *x = (bounds){.d = t->desc};
  OK(ctx, attend_desc_complete(ctx, &x->d));
  const attend_desc *d = &x->d;
  size_t rows = rows_of(d), keys = keys_of(d), D = (size_t)d->dim;
  size_t S = (size_t)d->kv_len, M = (size_t)d->dim_v;
  x->unit = d->form.kind == ATTEND_GAUSSIAN ? 1 / (double)d->form.sigma : sqrt((double)d->scale);
  x->half = d->dtype == ATTEND_F32 ? 0 : d->dtype == ATTEND_F16 ? 0x1p-11 : 0x1p-8;
  x->q = widened(d->dtype, t->q.data, rows * D);
  x->k = widened(d->dtype, t->k.data, keys * D);
  x->v = widened(d->dtype, t->v.data, keys * M);
  x->weight = doubles(rows * S);
  x->size = doubles(rows * S);
  x->o = doubles(rows * M);
  x->lse = doubles(rows);
  x->row = doubles(rows);
  OK(ctx, attend_definition_forward(ctx, d, t->q, t->k, t->v, x->o, x->lse));
  OK(ctx, attend_definition_weights(ctx, d, t->q, t->k, x->weight));
  bounds_sizes(x);
  if (!(d->purpose & ATTEND_FOR_BACKWARD)) return;
  x->d_o = widened(d->dtype, t->d_o.data, rows * M);
  x->dq = doubles(rows * D);
  x->dk = doubles(keys * D);
  x->dv = doubles(keys * M);
  OK(ctx, attend_definition_backward(ctx, d, t->q, t->k, t->v, t->d_o, x->dq, x->dk, x->dv, NULL));
}

static inline void bounds_free(bounds *x) {
  free(x->q), free(x->k), free(x->v), free(x->d_o), free(x->weight);
  free(x->size), free(x->o), free(x->lse), free(x->row);
  free(x->dq), free(x->dk), free(x->dv);
}

/* The worst error over its bound, kept for those who print it. */
static double bounds_worst;

static inline void within(const char *name, const char *what, size_t at, double got, double want,
                          double may) {
  double error = fabs(got - want);
  if (got == want) return; /* infinities too */
  if (may > 0 && error / may > bounds_worst) bounds_worst = error / may;
  if (!(error <= may))
    CHECK_FAIL("%s: %s[%zu] is %.9g, not %.9g: errs by %.3g, may by %.3g", name, what, at, got,
               want, error, may);
}

/* A denominator that is all rounding says nothing about the row. */
static inline int row_is_sound(const bounds *x, size_t r) {
  return OFTEN * unit_roundoff * x->row[r] < 0.01;
}

/* Storage of 16 bits rounds once more, f16 near 0 by a fixed step. */
static inline double stored(const bounds *x, double value) {
  double step = x->d.dtype == ATTEND_F16 ? 0x1p-25 : 0;
  return x->half * fabs(value) + step + 1e-30;
}

static inline void check_forward(const bounds *x, const float *o, const float *lse,
                                 const char *name) {
  size_t S = (size_t)x->d.kv_len, M = (size_t)x->d.dim_v, at;
  double eps = OFTEN * unit_roundoff;
  for (size_t r = 0; r < rows_of(&x->d); r++) {
    if (!row_is_sound(x, r)) continue;
    for (size_t m = 0; m < M; m++) {
      double truth = x->o[r * M + m], may = 0;
      for (size_t j = 0; j < S; j++)
        if (x->size[r * S + j] > 0)
          may += x->size[r * S + j] *
                 (fabs((double)key_row(x, x->v, r, j, (int)M, &at)[m]) + fabs(truth));
      within(name, "o", r * M + m, (double)o[r * M + m], truth, eps * may + stored(x, truth));
    }
    double times = attend_form_signed(&x->d.form) ? fabs(x->lse[r]) : 1;
    within(name, "lse", r, (double)lse[r], x->lse[r], eps * (x->row[r] * times + fabs(x->lse[r])));
  }
}

/* |da_ij| times the denominator: what is made of dO.v and of dO.o; and what the
 * rounding of a stored o does to the latter. */
static inline double da_size(const bounds *x, size_t r, const float *v, double eps) {
  size_t M = (size_t)x->d.dim_v;
  double sum = 0;
  for (size_t m = 0; m < M; m++) {
    double d_o = fabs((double)x->d_o[r * M + m]), o = fabs(x->o[r * M + m]);
    sum += d_o * (fabs((double)v[m]) + o + o * x->half / eps);
  }
  return sum;
}

/* The denominator comes back from lse, a float: log'ed it is good to |lse|. */
static inline double row_trust(const bounds *x, size_t r) {
  double lse = attend_form_signed(&x->d.form) ? 0 : fabs(x->lse[r]);
  return 1 + x->row[r] + lse / OFTEN;
}

static inline void check_backward(const bounds *x, const float *dq, const float *dk,
                                  const float *dv, const char *name) {
  size_t S = (size_t)x->d.kv_len, D = (size_t)x->d.dim, M = (size_t)x->d.dim_v;
  size_t keys = keys_of(&x->d), at;
  double eps = OFTEN * unit_roundoff;
  double *may_q = doubles(D), *may_k = doubles(keys * D);
  double *may_v = doubles(keys * M);
  for (size_t r = 0; r < rows_of(&x->d); r++) {
    memset(may_q, 0, D * sizeof *may_q);
    for (size_t j = 0; j < S; j++) {
      if (x->size[r * S + j] == 0) continue;
      const float *q = x->q + r * D, *k = key_row(x, x->k, r, j, (int)D, &at);
      const float *v = x->v + at * M;
      double trust = x->size[r * S + j] * row_trust(x, r);
      if (!row_is_sound(x, r)) trust = 1e300; /* nor about its keys */
      double da = trust * da_size(x, r, v, eps);
      for (size_t i = 0; i < D; i++) {
        may_q[i] += da * slope(x, q, k, (int)i);
        may_k[at * D + i] += da * slope(x, k, q, (int)i);
      }
      for (size_t m = 0; m < M; m++) may_v[at * M + m] += trust * fabs((double)x->d_o[r * M + m]);
    }
    for (size_t i = 0; i < D && row_is_sound(x, r); i++)
      within(name, "dq", r * D + i, (double)dq[r * D + i], x->dq[r * D + i],
             eps * may_q[i] + stored(x, x->dq[r * D + i]));
  }
  for (size_t n = 0; n < keys * D; n++)
    within(name, "dk", n, (double)dk[n], x->dk[n], eps * may_k[n] + stored(x, x->dk[n]));
  for (size_t n = 0; n < keys * M; n++)
    within(name, "dv", n, (double)dv[n], x->dv[n], eps * may_v[n] + stored(x, x->dv[n]));
  free(may_q), free(may_k), free(may_v);
}

/* An outcome against the definition. */
static inline void check_outcome(attend_context *ctx, const attend_tensors *t, const outcome *out,
                                 const char *name) {
  bounds x;
  float *part[OUT_PARTS] = {0};
  bounds_open(ctx, t, &x);
  for (int n = 0; n < OUT_PARTS; n++) {
    attend_dtype dtype = n == OUT_LSE ? ATTEND_F32 : x.d.dtype;
    if (out->part[n])
      part[n] = widened(dtype, out->part[n], out->bytes[n] / attend_dtype_size(dtype));
  }
  check_forward(&x, part[OUT_O], part[OUT_LSE], name);
  if (out->part[OUT_DQ]) check_backward(&x, part[OUT_DQ], part[OUT_DK], part[OUT_DV], name);
  for (int n = 0; n < OUT_PARTS; n++) free(part[n]);
  bounds_free(&x);
}

#endif
