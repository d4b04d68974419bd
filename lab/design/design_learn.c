/* The learned twin: the same shapes, trained on the same task.
 *
 * Place: design/ - from random numbers to weights, by AdamW on cross-entropy.
 *
 * With few inputs every step sees them all; with more it draws some. Learners
 * (train/) learn checkpoints; a design's pass has its weights in memory.
 */
#include <math.h>
#include <string.h>

#include "attend/train.h"
#include "design/design.h"

typedef struct {
  attend_design *d;
  attend_twin_options o;
  design_pass *pass;
  uint64_t total;
  float *w;       /* [count] all parts */
  float *moments; /* [2][learned] of the device */
  double *sums;   /* of squares, of the device */
  double loss;
} studying;

static attend_status complete(studying *s) {
  const attend_design *d = s->d;
  attend_twin_options *o = &s->o;
  if (!o->steps) o->steps = d->steps;
  if (!o->batch) o->batch = d->batch;
  if (!(o->rate > 0)) o->rate = d->rate;
  if (!(o->decay > 0)) o->decay = d->decay;
  if (!o->has_seed) o->seed = d->seed;
  ATTEND_CHECK(d->ctx, o->steps > 0 && o->steps <= MOST_STEPS,
               "%d steps: choose 1 to %d", o->steps, MOST_STEPS);
  ATTEND_CHECK(d->ctx, o->batch > 0 && o->batch <= 4096,
               "a batch of %d: choose 1 to 4096", o->batch);
  s->total = design_total(d, d->longest);
  if ((uint64_t)o->batch > s->total) o->batch = (int)s->total;
  return ATTEND_OK;
}

/* ---- the start ---------------------------------------------------------------------- */

/* Normal, so that rows of one-hots give values of about size 1. */
static void draw(studying *s) {
  const attend_design *d = s->d;
  for (int i = 0; i < d->n_parts; i++) {
    const attend_design_part *p = &d->parts[i];
    size_t n = (size_t)p->rows * (size_t)p->columns;
    attend_random_normal((attend_random){s->o.seed, (uint64_t)i}, 0, n,
                         s->w + p->at);
    for (size_t j = 0; j < n; j++) s->w[p->at + j] *= 0.5f;
  }
}

/* ---- a step -------------------------------------------------------------------------- */

/* All of them, or as many as fit, drawn evenly; the stream is the step's. */
static void put_batch(studying *s, int step) {
  for (int b = 0; b < s->pass->p.count; b++) {
    uint32_t block[4];
    uint64_t index = (uint64_t)b;
    if (s->total > (uint64_t)s->pass->p.count) {
      attend_random r = {s->o.seed, UINT64_C(1) << 32 | (uint64_t)step};
      attend_random_block(r, (uint64_t)b, block);
      index = ((uint64_t)block[0] << 32 | block[1]) % s->total;
    } else if (step > 0) {
      continue; /* they are all there */
    }
    pass_put_number(s->pass, b, index);
  }
}

/* What is 0 and stays 0, in values and gradients: in the readout the features that
 * it does not see, in tables those that heads write. */
static void clear_fixed(const design_pass *p, float *all) {
  const attend_design *d = p->d;
  for (int f = 0; f < d->features; f++)
    if (!d->is_read[f])
      OP(p->p.ctx, scale, .rows = d->answers, .width = 1, .factor = 0,
         .x = all + readout_part(d)->at + f, .ldx = d->features);
  if (p->learned == p->count)
    OP(p->p.ctx, scale, .rows = d->embedded, .width = d->features - d->embedded,
       .factor = 0, .x = all + tables_at(d) + d->embedded, .ldx = d->features);
}

static attend_status gradient(studying *s, int step) {
  put_batch(s, step);
  ATTEND_TRY(pass_forward(s->pass));
  s->loss = pass_loss(s->pass);
  ATTEND_TRY(pass_backward(s->pass));
  clear_fixed(s->pass, s->pass->gradients);
  return ATTEND_OK;
}

static double squares(const studying *s) {
  const design_pass *p = s->pass;
  attend_context *ctx = p->p.ctx;
  double sum = 0, part;
  OP(ctx, sum_squares, .n = p->learned, .x = p->gradients, .sums = s->sums);
  for (size_t i = 0; i < stretches_of(p->learned); i++) {
    ctx->device->read(ctx, &part, s->sums + i, sizeof part);
    sum += part;
  }
  return sum;
}

static attend_status adam(studying *s, int step) {
  const double beta1 = 0.9, beta2 = 0.99, t = step + 1, square = squares(s);
  design_pass *p = s->pass;
  attend_schedule schedule = {ATTEND_COSINE_RATE, s->o.rate, s->o.rate / 20, 20,
                              (uint64_t)s->o.steps};
  OP(p->p.ctx, step, .n = p->learned, .values = p->values,
     .gradients = p->gradients, .first = s->moments,
     .second = s->moments + p->learned,
     .rate = (float)attend_schedule_at(&schedule, (uint64_t)step),
     .decay = (float)s->o.decay,
     .shrink = square > 1 ? (float)(1 / sqrt(square)) : 1,
     .beta1 = (float)beta1, .beta2 = (float)beta2, .eps = 1e-8f,
     .fix1 = (float)(1 / (1 - pow(beta1, t))),
     .fix2 = (float)(1 / (1 - pow(beta2, t))));
  return model_repack(&p->model);
}

/* ---- all of them --------------------------------------------------------------------- */

static void note_loss(const studying *s, int step, attend_curve *c) {
  int every = (s->o.steps + ATTEND_CURVE - 1) / ATTEND_CURVE;
  if (!c || step % every || c->points == ATTEND_CURVE) return;
  c->step[c->points] = step;
  c->loss[c->points++] = s->loss;
}

static attend_status study(studying *s, attend_curve *curve) {
  attend_context *ctx = s->d->ctx;
  for (int step = 0; step < s->o.steps; step++) {
    ATTEND_TRY(gradient(s, step));
    note_loss(s, step, curve);
    ATTEND_TRY(adam(s, step));
    if (!isfinite(s->loss))
      return fail(ctx, ATTEND_INVALID,
                  "the loss is not finite after %d steps: take a smaller rate",
                  step);
    if (s->o.progress &&
        s->o.progress((uint64_t)step + 1, (uint64_t)s->o.steps, s->o.user))
      return fail(ctx, ATTEND_STOPPED, "learning was stopped");
  }
  ATTEND_TRY(gradient(s, s->o.steps));
  if (curve) curve->last = s->loss;
  return ATTEND_OK;
}

static attend_status begin(studying *s) {
  ATTEND_TRY(complete(s));
  ATTEND_TRY(take_zeroed(s->d->ctx, s->d->count * sizeof *s->w,
                         "a learned twin", &s->w));
  draw(s);
  ATTEND_TRY(pass_create(s->d, s->w, 1, s->o.batch, true, &s->pass));
  attend_model *m = &s->pass->model;
  size_t n = s->pass->learned;
  ATTEND_TRY(model_keep(m, 2 * n * sizeof *s->moments, &s->moments));
  ATTEND_TRY(model_keep(m, stretches_of(n) * sizeof *s->sums, &s->sums));
  clear_fixed(s->pass, s->pass->values);
  return model_repack(m);
}

attend_status attend_design_learn(attend_design *d,
                                  const attend_twin_options *options,
                                  attend_curve *curve) {
  studying s = {.d = d};
  if (options) s.o = *options;
  if (curve) *curve = (attend_curve){0};
  attend_status status = begin(&s);
  if (!status) status = study(&s, curve);
  if (!status) status = pass_parts(s.pass, s.pass->values, s.w);
  if (curve) curve->steps = s.o.steps;
  pass_free(s.pass);
  float *old = d->weights[ATTEND_LEARNED];
  if (!status) d->weights[ATTEND_LEARNED] = s.w;
  give(d->ctx, status ? s.w : old);
  return status;
}
