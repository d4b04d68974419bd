/* One input, and everything that was computed on the way.
 *
 * Place: design/ - what pictures, pages and people look at.
 */
#include <string.h>

#include "design/design.h"

struct attend_design_run {
  attend_context *ctx;
  attend_design_result result;
  attend_design_inside heads[MOST_HEADS];
  int32_t tokens[MOST_PLACES], given[MOST_PLACES], wanted[MOST_PLACES];
  float *block, *next; /* of all numbers; what is left of it */
};

/* ---- what is kept ------------------------------------------------------------------ */

/* Rows of the device, without what is between them. */
static const float *keep(attend_design_run *r, const design_pass *p,
                         const float *from, int ld, int width) {
  float *to = r->next;
  attend_context *ctx = p->p.ctx;
  for (int i = 0; i < r->result.length; i++, r->next += width)
    ctx->device->read(ctx, r->next, from + (size_t)i * (size_t)ld,
                      (size_t)width * sizeof *to);
  return to;
}

/* Weights come as [T][places]; what is kept is [T][T]. */
static attend_status keep_head(attend_design_run *r, const design_pass *p,
                               int head) {
  const design_head *h = &p->d->heads[head];
  const activations *a = &p->at[head];
  const int n = r->result.length, ld = padded(qkv_width(h));
  float *w = r->next;
  ATTEND_TRY(pass_attention(p, head, n, w));
  for (int i = 1; i < n; i++)
    memmove(w + i * n, w + i * p->d->places, (size_t)n * sizeof *w);
  r->next += n * p->d->places;
  r->heads[head] = (attend_design_inside){
      .q = keep(r, p, a->qkv, ld, h->dim),
      .k = keep(r, p, a->qkv + h->dim, ld, h->dim),
      .v = keep(r, p, a->qkv + 2 * h->dim, ld, h->dim_v),
      .attention = w,
      .out = keep(r, p, a->heads, padded(h->dim_v), h->dim_v)};
  return ATTEND_OK;
}

static attend_status keep_all(attend_design_run *r, const design_pass *p) {
  const attend_design *d = p->d;
  attend_design_result *to = &r->result;
  int row = d->features + d->answers; /* numbers of a place */
  for (int i = 0; i < d->n_heads; i++)
    row += qkv_width(&d->heads[i]) + d->heads[i].dim_v + d->places;
  ATTEND_TRY(take_zeroed(d->ctx, (size_t)(row * d->places) * sizeof *r->block,
                         "a run", &r->block));
  r->next = r->block;
  for (int i = 0; i < to->length; i++) {
    r->tokens[i] = p->ids[i];
    r->given[i] = r->wanted[i] < 0 && d->task
                      ? ATTEND_NOT_ASKED
                      : pass_answer(d, logits_at(p, 0, i), r->wanted[i], NULL);
  }
  to->tokens = r->tokens;
  to->given = r->given;
  to->wanted = r->wanted;
  to->x = keep(r, p, p->readout.x, p->readout.ld, d->features);
  to->logits = keep(r, p, p->readout.logits, padded(d->answers), d->answers);
  for (int i = 0; i < d->n_heads; i++) ATTEND_TRY(keep_head(r, p, i));
  return ATTEND_OK;
}

/* ---- a run --------------------------------------------------------------------------- */

static attend_status run_input(attend_design_run *r, const attend_design *d,
                               attend_way way, const char *input) {
  const reading as = {.d = (attend_design *)d, .what = d->name};
  uint8_t letter[MOST_PLACES];
  int n;
  design_pass *p;
  ATTEND_TRY(design_has(d, way.twin));
  ATTEND_TRY(spec_input(&as, input, letter, &n));
  ATTEND_TRY(pass_create(d, d->weights[way.twin], way.sharpness, 1, false, &p));
  pass_put(p, 0, letter, n);
  design_wanted(d, letter, n, r->wanted);
  r->result.length = p->lengths[0];
  attend_status status = pass_forward(p);
  if (!status) status = keep_all(r, p);
  pass_free(p);
  return status;
}

attend_status attend_design_run_create(const attend_design *d, attend_way way,
                                       const char *input,
                                       attend_design_run **run) {
  attend_design_run *r;
  *run = NULL;
  ATTEND_TRY(take_zeroed(d->ctx, sizeof *r, "a run", &r));
  r->ctx = d->ctx;
  attend_status status = run_input(r, d, way, input);
  if (status)
    attend_design_run_free(r);
  else
    *run = r;
  return status;
}

void attend_design_run_free(attend_design_run *r) {
  if (!r) return;
  give(r->ctx, r->block);
  give(r->ctx, r);
}

attend_design_result attend_design_run_result(const attend_design_run *r) {
  return r->result;
}

attend_design_inside attend_design_run_head(const attend_design_run *r,
                                            int head) {
  return r->heads[head];
}
