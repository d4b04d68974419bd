/* Running the library on a problem's tensors. */
#include "verify/engine_run.h"

#include <stdlib.h>
#include <string.h>

enum { PIECE = 1024 }; /* keys appended in one call */

/* The rows [from, from + n) of the key padding, [B,n]. */
static uint8_t *cut_mask(const attend_desc *d, int from, int n) {
  if (!d->mask.key_mask) return NULL;
  uint8_t *mask = need((size_t)d->batch * (size_t)n, 1);
  for (int b = 0; b < d->batch; b++)
    memcpy(mask + (ptrdiff_t)b * n,
           d->mask.key_mask + (ptrdiff_t)b * d->kv_len + from, (size_t)n);
  return mask;
}

static attend_status append(engine_run *run, attend_plan *plan, int from,
                            int n) {
  attend_tensors *t = run->tensors;
  const attend_desc *d = &t->desc;
  attend_view k = view_strided(t->k, d->kv_heads, d->kv_len, d->dim);
  attend_view v = view_strided(t->v, d->kv_heads, d->kv_len, d->dim_v);
  uint8_t *mask = cut_mask(d, from, n);
  attend_plan_set_padding(plan, NULL, mask);
  attend_status status = attend_state_append(
      plan, run->state, n, view_from(k, d->dtype, 0, 0, from),
      view_from(v, d->dtype, 0, 0, from));
  attend_plan_set_padding(plan, NULL, NULL);
  free(mask);
  return status;
}

/* All keys but the last, through a plan that takes many at a time: the one
 * that decodes takes one. */
static attend_status fill_state(engine_run *run, attend_desc d) {
  attend_plan *filler = NULL;
  int keys = d.kv_len;
  attend_status status = attend_state_create(run->plan, &run->state);
  if (!status) status = attend_state_reserve(run->state, keys);
  d.q_len = PIECE;
  if (!status) status = attend_plan_create(run->ctx, &d, &filler);
  for (int from = 0; from < keys - 1 && !status; from += PIECE) {
    int left = keys - 1 - from;
    status = append(run, filler, from, left < PIECE ? left : PIECE);
  }
  attend_plan_free(filler);
  run->new_mask = cut_mask(&run->tensors->desc, keys - 1, 1);
  attend_plan_set_padding(run->plan, NULL, run->new_mask);
  return status;
}

attend_status engine_open(attend_context *ctx, const attend_problem *problem,
                          attend_tensors *tensors, engine_run *run) {
  *run = (engine_run){.ctx = ctx, .problem = *problem, .tensors = tensors};
  attend_desc d = tensors->desc;
  if (problem->op == ATTEND_OP_BACKWARD) d.purpose |= ATTEND_FOR_BACKWARD;
  if (problem->op == ATTEND_OP_DECODE) {
    d.purpose |= ATTEND_FOR_EXTEND;
    d.mask.key_mask = NULL;
    d.mask.lengths = NULL;
  }
  attend_status status = attend_plan_create(ctx, &d, &run->plan);
  if (!status && problem->op == ATTEND_OP_DECODE) status = fill_state(run, d);
  return status;
}

void engine_close(engine_run *run) {
  attend_state_free(run->state);
  attend_plan_free(run->plan);
  free(run->new_mask);
  *run = (engine_run){0};
}

static attend_status extend_once(engine_run *run) {
  attend_tensors *t = run->tensors;
  const attend_desc *d = &t->desc;
  int last = d->kv_len - 1;
  attend_view k = view_strided(t->k, d->kv_heads, d->kv_len, d->dim);
  attend_view v = view_strided(t->v, d->kv_heads, d->kv_len, d->dim_v);
  return attend_extend(run->plan, run->state, 1, t->q,
                       view_from(k, d->dtype, 0, 0, last),
                       view_from(v, d->dtype, 0, 0, last), t->o, t->lse);
}

attend_status engine_once(engine_run *run) {
  attend_tensors *t = run->tensors;
  if (run->problem.op == ATTEND_OP_DECODE) return extend_once(run);
  attend_status status =
      attend_forward(run->plan, t->q, t->k, t->v, t->o, t->lse);
  if (status || run->problem.op != ATTEND_OP_BACKWARD) return status;
  return attend_backward(run->plan, t->q, t->k, t->v, t->o, t->lse, t->d_o,
                         t->dq, t->dk, t->dv, t->dbias);
}

attend_status engine_rewind(engine_run *run) {
  const attend_desc *d = &run->tensors->desc;
  attend_status status = ATTEND_OK;
  if (run->problem.op != ATTEND_OP_DECODE) return status;
  for (int b = 0; b < d->batch && !status; b++)
    status = attend_state_truncate(run->state, b, d->kv_len - 1);
  return status;
}

outputs engine_read(const engine_run *run) {
  const attend_tensors *t = run->tensors;
  const attend_desc *d = &t->desc;
  bool gradients = run->problem.op == ATTEND_OP_BACKWARD;
  outputs out = outputs_for(d, gradients);
  view_read(t->o, d->dtype, d->batch, d->heads, d->q_len, d->dim_v,
            out.at[OUT_O]);
  for (size_t n = 0; n < out.count[OUT_LSE]; n++)
    out.at[OUT_LSE][n] = t->lse[n];
  if (!gradients) return out;
  view_read(t->dq, d->dtype, d->batch, d->heads, d->q_len, d->dim,
            out.at[OUT_DQ]);
  view_read(t->dk, d->dtype, d->batch, d->kv_heads, d->kv_len, d->dim,
            out.at[OUT_DK]);
  view_read(t->dv, d->dtype, d->batch, d->kv_heads, d->kv_len, d->dim_v,
            out.at[OUT_DV]);
  for (size_t n = 0; n < out.count[OUT_DBIAS]; n++)
    out.at[OUT_DBIAS][n] = t->dbias[n];
  return out;
}

/* A decode's plan has the number of keys that are held, the new one included. */
attend_status engine_cost(const engine_run *run, attend_cost *cost) {
  return attend_plan_cost(run->plan, cost);
}
