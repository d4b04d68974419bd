/* One attention as the library computes it: forward, observed weights, gradients.
 */
#include "studies/study.h"

typedef struct {
  const attend_desc *desc;
  float *weights; /* [B,H,T,S] */
} weight_sheet;

static void keep_stretch(const attend_weight_span *s, void *user) {
  const weight_sheet *w = user;
  const attend_desc *d = w->desc;
  size_t row = ((size_t)s->b * (size_t)d->heads + (size_t)s->h) * (size_t)d->q_len + (size_t)s->row;
  memcpy(w->weights + row * (size_t)d->kv_len + (size_t)s->key, s->weights,
         (size_t)s->n * sizeof *s->weights);
}

static attend_status look(attend_plan *plan, const study_pass *p) {
  const attend_desc *d = attend_plan_desc(plan);
  weight_sheet sheet = {d, p->weights};
  memset(p->weights, 0,
         (size_t)d->batch * (size_t)d->heads * (size_t)d->q_len * (size_t)d->kv_len *
             sizeof *p->weights);
  return attend_observe(
      plan, attend_bhtd_input(p->q), attend_bhtd_input(p->k), p->lse,
      &(attend_observation){ATTEND_INIT(attend_observation), .each = keep_stretch, .user = &sheet});
}

static attend_status pass(attend_plan *plan, const study_pass *p) {
  attend_view q = attend_bhtd_input(p->q), k = attend_bhtd_input(p->k), v = attend_bhtd_input(p->v),
              o = attend_bhtd(p->o);
  TRY(attend_forward(plan, q, k, v, o, p->lse));
  if (p->weights) TRY(look(plan, p));
  if (!p->d_o) return ATTEND_OK;
  return attend_backward(plan, q, k, v, o, p->lse, attend_bhtd_input(p->d_o), attend_bhtd(p->dq),
                         attend_bhtd(p->dk), attend_bhtd(p->dv), p->dbias);
}

attend_status study_attend(study_run *r, const attend_desc *desc, const study_pass *p) {
  attend_desc d = *desc;
  attend_plan *plan;
  if (p->d_o) d.purpose |= ATTEND_FOR_BACKWARD;
  TRY(attend_plan_create(r->ctx, &d, &plan));
  attend_status status = pass(plan, p);
  attend_plan_free(plan);
  return status;
}
