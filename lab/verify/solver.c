/* Running the library on a problem's tensors. */
#include "verify/verify.h"

enum { CHUNK = 1024 }; /* keys appended in one call */

struct attend_solver {
  attend_context *ctx;
  attend_problem problem;
  attend_tensors *tensors; /* the caller's */
  attend_plan *plan;
  attend_state *state; /* of a decode: all keys but the last */
  uint8_t *new_mask;   /* [B] whether a decode's last key is real */
};

/* The columns [from, from + n) of the key mask, [B,n]; NULL where there is none. */
static attend_status mask_chunk(attend_context *ctx, const attend_desc *d, int from, int n,
                                uint8_t **mask) {
  *mask = NULL;
  if (!d->mask.key_mask) return ATTEND_OK;
  ATTEND_TRY(take(ctx, (size_t)d->batch * (size_t)n, "a key mask", mask));
  for (int b = 0; b < d->batch; b++)
    memcpy(*mask + (ptrdiff_t)b * n, d->mask.key_mask + (ptrdiff_t)b * d->kv_len + from, (size_t)n);
  return ATTEND_OK;
}

static attend_status append(attend_solver *s, attend_plan *plan, int from, int n) {
  attend_tensors *t = s->tensors;
  const attend_desc *d = &t->desc;
  attend_view k = view_complete(t->k, d->kv_heads, d->kv_len, d->dim);
  attend_view v = view_complete(t->v, d->kv_heads, d->kv_len, d->dim_v);
  uint8_t *mask;
  ATTEND_TRY(mask_chunk(s->ctx, d, from, n, &mask));
  attend_plan_set_padding(plan, NULL, mask);
  attend_status status = attend_state_append(plan, s->state, n, view_from(k, d->dtype, 0, 0, from),
                                             view_from(v, d->dtype, 0, 0, from));
  attend_plan_set_padding(plan, NULL, NULL);
  give(s->ctx, mask);
  return status;
}

/* All keys but the last, through a plan that takes many at a time: the one
 * that decodes takes one. */
static attend_status fill_state(attend_solver *s, attend_desc d) {
  attend_plan *filler = NULL;
  int keys = d.kv_len;
  ATTEND_TRY(attend_state_create(s->plan, &s->state));
  ATTEND_TRY(attend_state_reserve(s->state, keys));
  ATTEND_TRY(mask_chunk(s->ctx, &s->tensors->desc, keys - 1, 1, &s->new_mask));
  d.q_len = CHUNK;
  attend_status status = attend_plan_create(s->ctx, &d, &filler);
  for (int from = 0; from < keys - 1 && !status; from += CHUNK) {
    int left = keys - 1 - from;
    status = append(s, filler, from, left < CHUNK ? left : CHUNK);
  }
  attend_plan_free(filler);
  attend_plan_set_padding(s->plan, NULL, s->new_mask);
  return status;
}

static attend_status open_solver(attend_solver *s) {
  attend_desc d = s->tensors->desc;
  bool decode = s->problem.op == ATTEND_OP_DECODE;
  if (s->problem.op == ATTEND_OP_BACKWARD) d.purpose |= ATTEND_FOR_BACKWARD;
  if (decode) {
    d.purpose |= ATTEND_FOR_EXTEND;
    d.mask.key_mask = NULL;
    d.mask.lengths = NULL;
  }
  ATTEND_TRY(attend_plan_create(s->ctx, &d, &s->plan));
  return decode ? fill_state(s, d) : ATTEND_OK;
}

attend_status attend_solver_create(attend_context *ctx, const attend_problem *problem,
                                   attend_tensors *tensors, attend_solver **solver) {
  attend_solver *s;
  *solver = NULL;
  ATTEND_TRY(take_zeroed(ctx, sizeof *s, "a solver", &s));
  s->ctx = ctx;
  s->problem = *problem;
  s->tensors = tensors;
  attend_status status = open_solver(s);
  if (status)
    attend_solver_free(s);
  else
    *solver = s;
  return status;
}

void attend_solver_free(attend_solver *s) {
  if (!s) return;
  attend_state_free(s->state);
  attend_plan_free(s->plan);
  give(s->ctx, s->new_mask);
  give(s->ctx, s);
}

attend_plan *attend_solver_plan(const attend_solver *s) { return s->plan; }

static attend_status extend_once(attend_solver *s) {
  attend_tensors *t = s->tensors;
  const attend_desc *d = &t->desc;
  int last = d->kv_len - 1;
  attend_view k = view_complete(t->k, d->kv_heads, d->kv_len, d->dim);
  attend_view v = view_complete(t->v, d->kv_heads, d->kv_len, d->dim_v);
  return attend_extend(s->plan, s->state, 1, t->q, view_from(k, d->dtype, 0, 0, last),
                       view_from(v, d->dtype, 0, 0, last), t->o, t->lse);
}

attend_status attend_solver_run(attend_solver *s) {
  attend_tensors *t = s->tensors;
  if (s->problem.op == ATTEND_OP_DECODE) return extend_once(s);
  ATTEND_TRY(attend_forward(s->plan, t->q, t->k, t->v, t->o, t->lse));
  if (s->problem.op != ATTEND_OP_BACKWARD) return ATTEND_OK;
  return attend_backward(s->plan, t->q, t->k, t->v, t->o, t->lse, t->d_o, t->dq, t->dk, t->dv,
                         t->dbias);
}

attend_status attend_solver_rewind(attend_solver *s) {
  const attend_desc *d = &s->tensors->desc;
  if (s->problem.op != ATTEND_OP_DECODE) return ATTEND_OK;
  for (int b = 0; b < d->batch; b++) ATTEND_TRY(attend_state_truncate(s->state, b, d->kv_len - 1));
  return ATTEND_OK;
}
