/* For tests of states: tensors fed in chunks, and comparison of the outputs. */
#ifndef TESTS_STATE_FIXTURES_H
#define TESTS_STATE_FIXTURES_H

#include "attend/problem.h"
#include "attention_fixtures.h"

/* n positions of a contiguous [B,H,length,width] from `at` on. */
static inline attend_view part(attend_view whole, const attend_desc *d, int heads, int length,
                               int width, int at) {
  ptrdiff_t row = width, head = (ptrdiff_t)length * width;
  attend_view v = {(char *)whole.data + (size_t)(at * width) * attend_dtype_size(d->dtype),
                   {heads * head, head, row, 1}};
  return v;
}

typedef struct {
  char *o;    /* [B,H,T,M] in the dtype */
  float *lse; /* [B,H,T] */
} answer;

static inline answer answer_for(const attend_desc *d) {
  answer a = {zeroed_block(rows_of(d) * (size_t)d->dim_v, 4),
              zeroed_block(rows_of(d), sizeof(float))};
  return a;
}
static inline void answer_free(answer *a) { free(a->o), free(a->lse); }

/* Feeds positions [from, from + n) of the tensors; results to out's rows that
 * start at `to`. The padding of the whole is cut along with the tensors. */
static inline attend_status feed_to(attend_plan *plan, attend_state *state, const attend_tensors *t,
                                    int from, int n, int to, answer *out) {
  const attend_desc *d = &t->desc;
  int B = d->batch, H = d->heads, T = d->q_len;
  int32_t lengths[8];
  uint8_t *mask = zeroed_block((size_t)(B * n), 1);
  float *lse = zeroed_block((size_t)(B * H * n), sizeof *lse);
  for (int b = 0; b < B; b++) {
    int left = d->mask.lengths ? d->mask.lengths[b] - from : n;
    lengths[b] = left < 0 ? 0 : left > n ? n : left;
    for (int i = 0; d->mask.key_mask && i < n; i++)
      mask[b * n + i] = d->mask.key_mask[b * T + from + i];
  }
  attend_plan_set_padding(plan, d->mask.lengths ? lengths : NULL, d->mask.key_mask ? mask : NULL);
  attend_status status = attend_extend(plan, state, n, part(t->q, d, H, T, d->dim, from),
                                       part(t->k, d, d->kv_heads, T, d->dim, from),
                                       part(t->v, d, d->kv_heads, T, d->dim_v, from),
                                       part(attend_bhtd(out->o), d, H, T, d->dim_v, to), lse);
  for (int i = 0; !status && i < B * H * n; i++) out->lse[i / n * T + to + i % n] = lse[i];
  free(mask);
  free(lse);
  return status;
}

static inline void feed(attend_plan *plan, attend_state *state, const attend_tensors *t, int from,
                        int n, answer *out) {
  attend_status status = feed_to(plan, state, t, from, n, from, out);
  if (status) CHECK_FAIL("%d keys from %d: status %d", n, from, (int)status);
}

static inline attend_plan *plan_for(attend_context *ctx, const attend_tensors *t, int max) {
  attend_desc d = t->desc;
  d.q_len = max;
  d.kv_len = 0;
  d.mask.lengths = NULL;
  d.mask.key_mask = NULL;
  if (d.mask.causal) d.mask.causal = ATTEND_CAUSAL_BOTTOM;
  d.purpose = ATTEND_FOR_EXTEND;
  return make_plan(ctx, &d);
}

static inline attend_state *state_for(attend_plan *plan) {
  attend_state *s;
  if (attend_state_create(plan, &s)) exit(1);
  return s;
}

static inline answer forward(attend_context *ctx, const attend_tensors *t) {
  answer a = answer_for(&t->desc);
  attend_plan *plan = make_plan(ctx, &t->desc);
  OK(ctx, attend_forward(plan, t->q, t->k, t->v, attend_bhtd(a.o), a.lse));
  attend_plan_free(plan);
  return a;
}

/* Rows [from, to) of sequence b have the same bits in both. */
static inline int same_rows(const attend_desc *d, const answer *a, const answer *b, int sequence,
                            int from, int to) {
  size_t row = (size_t)d->dim_v * attend_dtype_size(d->dtype);
  for (int h = 0; h < d->heads; h++)
    for (int i = from; i < to; i++) {
      size_t at = (size_t)((sequence * d->heads + h) * d->q_len + i);
      if (memcmp(a->o + at * row, b->o + at * row, row)) return 0;
      if (memcmp(a->lse + at, b->lse + at, sizeof(float))) return 0;
    }
  return 1;
}

#endif
