/* What a plan will cost: operations, bytes, and pairs that see each other.
 *
 * Place: attention/ - behind attend_plan_cost; the program's explain and bench
 * divide by it.
 */
#include "attention/engine.h"
#include "attention/walk.h"

/* Counted row by row: the mask is a rule, so that is cheap. */
static double visible_pairs(const attend_plan *p) {
  attend_plan all = *p;
  all.desc.mask.lengths = NULL;
  call c = {.plan = &all, .n = p->desc.q_len};
  double pairs = 0;
  for (int64_t i = 0; i < c.n; i++) {
    span s = call_sees(&c, 0, call_position(&c, 0) + i);
    pairs += (double)(s.hi - s.lo);
  }
  return pairs * p->desc.batch * p->desc.heads;
}

/* Scores and weighted values; backward redoes the scores and adds dP, dQ, dK
 * and dV. */
static double flops(const attend_desc *d, double pairs) {
  double forward = pairs * 2 * (d->dim + d->dim_v);
  if (!(d->purpose & ATTEND_FOR_BACKWARD)) return forward;
  return forward + pairs * 2 * (3.0 * d->dim + 2.0 * d->dim_v);
}

static double bytes(const attend_desc *d) {
  double rows = (double)d->batch * d->heads * d->q_len;
  double keys = (double)d->batch * d->kv_heads * d->kv_len;
  double wide = (double)d->dim + d->dim_v;
  double size = (double)attend_dtype_size(d->dtype);
  double once = (rows + keys) * wide * size + rows * 4;
  if (!(d->purpose & ATTEND_FOR_BACKWARD)) return once;
  /* backward reads q, k, v, o, do and lse, and writes dq, dk and dv */
  return once + (2 * (rows + keys) * wide + rows * d->dim_v) * size + rows * 4;
}

attend_status attend_plan_cost(const attend_plan *plan, attend_cost *cost) {
  double pairs = visible_pairs(plan);
  *cost = (attend_cost){.engine = plan->engine->name,
                        .flops = flops(&plan->desc, pairs),
                        .bytes = bytes(&plan->desc),
                        .visible = pairs,
                        .workspace_bytes = attend_plan_workspace(plan)};
  return ATTEND_OK;
}
