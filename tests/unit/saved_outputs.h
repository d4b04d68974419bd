/* Saved outputs and gradients of a problem, for bitwise comparison. */
#ifndef TESTS_SAVED_OUTPUTS_H
#define TESTS_SAVED_OUTPUTS_H

#include "attend/problem.h"
#include "attention_fixtures.h"

enum { OUT_O, OUT_LSE, OUT_DQ, OUT_DK, OUT_DV, OUT_DBIAS, OUT_PARTS };

typedef struct {
  char *part[OUT_PARTS]; /* NULL where there is none */
  size_t bytes[OUT_PARTS];
} outcome;

static inline void outcome_keep(outcome *out, int part, const void *from, size_t n, size_t size) {
  out->bytes[part] = n * size;
  out->part[part] = copy_of(from, n * size);
}

/* Forward and, if the tensors are made for it, backward, into the tensors. */
static inline outcome outcome_of(attend_context *ctx, const attend_tensors *t) {
  attend_plan *plan = make_plan(ctx, &t->desc);
  const attend_desc *d = attend_plan_desc(plan);
  size_t size = attend_dtype_size(d->dtype), D = (size_t)d->dim;
  size_t M = (size_t)d->dim_v;
  outcome out = {{0}, {0}};
  OK(ctx, attend_forward(plan, t->q, t->k, t->v, t->o, t->lse));
  outcome_keep(&out, OUT_O, t->o.data, rows_of(d) * M, size);
  outcome_keep(&out, OUT_LSE, t->lse, rows_of(d), sizeof(float));
  if (d->purpose & ATTEND_FOR_BACKWARD) {
    OK(ctx, attend_backward(plan, t->q, t->k, t->v, t->o, t->lse, t->d_o, t->dq, t->dk, t->dv,
                            t->dbias));
    outcome_keep(&out, OUT_DQ, t->dq.data, rows_of(d) * D, size);
    outcome_keep(&out, OUT_DK, t->dk.data, keys_of(d) * D, size);
    outcome_keep(&out, OUT_DV, t->dv.data, keys_of(d) * M, size);
    if (t->dbias) outcome_keep(&out, OUT_DBIAS, t->dbias, t->dbias_count, sizeof(float));
  }
  attend_plan_free(plan);
  return out;
}

static inline void outcome_free(outcome *out) {
  for (int n = 0; n < OUT_PARTS; n++) free(out->part[n]);
}

#define CHECK_SAME(a, b, name)                                                            \
  do {                                                                                    \
    static const char *const parts_[OUT_PARTS] = {"o", "lse", "dq", "dk", "dv", "dbias"}; \
    for (int n_ = 0; n_ < OUT_PARTS; n_++)                                                \
      if ((a).part[n_] && memcmp((a).part[n_], (b).part[n_], (a).bytes[n_]))              \
        CHECK_FAIL("%s: %s has other bits", name, parts_[n_]);                            \
  } while (0)

/* Forward on keys [from, to), seen through strides. */
static inline void forward_part(attend_context *ctx, const attend_tensors *t, int from, int to,
                                float *o, float *lse) {
  attend_desc d = t->desc;
  ptrdiff_t S = d.kv_len, D = d.dim, M = d.dim_v, G = d.kv_heads;
  attend_view k = {(float *)t->k.data + from * D, {G * S * D, S * D, D, 1}};
  attend_view v = {(float *)t->v.data + from * M, {G * S * M, S * M, M, 1}};
  d.kv_len = to - from;
  attend_plan *plan = make_plan(ctx, &d);
  OK(ctx, attend_forward(plan, t->q, k, v, attend_bhtd(o), lse));
  attend_plan_free(plan);
}

#endif
