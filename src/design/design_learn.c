/* The learned twin: the same shapes, trained on the same task.
 *
 * Place: design/ - from random numbers to weights, by AdamW on cross-entropy.
 *
 * With few inputs every step sees them all; with more it draws some. attend's
 * learners (train/) are for whole models; a few hundred numbers need no more than
 * what stands here.
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
  float *w, *g, *m, *v; /* [count] weights, gradients, moments */
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

/* What the readout does not see stays 0. */
static void forget_unread(const attend_design *d, float *all) {
  float *readout = all + readout_part(d)->at;
  for (int f = 0; f < d->features; f++)
    for (int a = 0; a < d->answers && !d->is_read[f]; a++)
      readout[f * d->answers + a] = 0;
}

/* ---- a step -------------------------------------------------------------------------- */

/* All of them, or as many as fit, drawn evenly; the stream is the step's. */
static void put_batch(studying *s, int step) {
  for (int b = 0; b < s->pass->batch; b++) {
    uint32_t block[4];
    uint64_t index = (uint64_t)b;
    if (s->total > (uint64_t)s->pass->batch) {
      attend_random r = {s->o.seed, UINT64_C(1) << 32 | (uint64_t)step};
      attend_random_block(r, (uint64_t)b, block);
      index = ((uint64_t)block[0] << 32 | block[1]) % s->total;
    } else if (step > 0) {
      continue; /* they are all there */
    }
    pass_put_number(s->pass, b, index);
  }
}

/* Cross-entropy of a row, and its gradient times `scale`. */
static double row_loss(const float *logits, int n, int wanted, double scale,
                       float *dlogits) {
  double most = (double)logits[0], sum = 0;
  for (int a = 1; a < n; a++)
    if ((double)logits[a] > most) most = (double)logits[a];
  for (int a = 0; a < n; a++) sum += exp((double)logits[a] - most);
  for (int a = 0; a < n; a++) {
    double share = exp((double)logits[a] - most) / sum;
    dlogits[a] = (float)(scale * (share - (a == wanted)));
  }
  return log(sum) + most - (double)logits[wanted];
}

static void find_loss(studying *s) {
  const attend_design *d = s->d;
  design_pass *p = s->pass;
  int rows = p->batch * d->places, asked = 0;
  for (int r = 0; r < rows; r++) asked += p->wanted[r] >= 0;
  s->loss = 0;
  memset(p->dlogits, 0, (size_t)rows * (size_t)d->answers * sizeof *p->dlogits);
  for (int r = 0; r < rows; r++)
    if (p->wanted[r] >= 0)
      s->loss += row_loss(p->logits + r * d->answers, d->answers, p->wanted[r],
                          1.0 / asked, p->dlogits + r * d->answers) /
                 asked;
}

static attend_status gradient(studying *s, int step) {
  put_batch(s, step);
  ATTEND_TRY(pass_forward(s->pass, s->w));
  find_loss(s);
  memset(s->g, 0, s->d->count * sizeof *s->g);
  ATTEND_TRY(pass_backward(s->pass, s->w, s->g));
  forget_unread(s->d, s->g);
  return ATTEND_OK;
}

static void adam(studying *s, int step) {
  const double beta1 = 0.9, beta2 = 0.99, eps = 1e-8;
  double norm = 0, t = step + 1;
  attend_schedule schedule = {ATTEND_COSINE_RATE, s->o.rate, s->o.rate / 20, 20,
                              (uint64_t)s->o.steps};
  float rate = (float)attend_schedule_at(&schedule, (uint64_t)step);
  for (size_t i = 0; i < s->d->count; i++)
    norm += (double)s->g[i] * (double)s->g[i];
  float shrink = norm > 1 ? (float)(1 / sqrt(norm)) : 1;
  float fix1 = (float)(1 / (1 - pow(beta1, t)));
  float fix2 = (float)(1 / (1 - pow(beta2, t)));
  for (size_t i = 0; i < s->d->count; i++) {
    float x = s->g[i] * shrink;
    s->m[i] = (float)beta1 * s->m[i] + (float)(1 - beta1) * x;
    s->v[i] = (float)beta2 * s->v[i] + (float)(1 - beta2) * x * x;
    s->w[i] -= rate * (float)s->o.decay * s->w[i];
    s->w[i] -= rate * s->m[i] * fix1 / (sqrtf(s->v[i] * fix2) + (float)eps);
  }
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
    adam(s, step);
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

static attend_status begin(studying *s, float **block) {
  size_t n = s->d->count;
  ATTEND_TRY(complete(s));
  ATTEND_TRY(pass_create(s->d, 1, s->o.batch, true, &s->pass));
  ATTEND_TRY(take_zeroed(s->d->ctx, 3 * n * sizeof(float), "moments", block));
  s->g = *block;
  s->m = *block + n;
  s->v = *block + 2 * n;
  return take_zeroed(s->d->ctx, n * sizeof(float), "a learned twin", &s->w);
}

attend_status attend_design_learn(attend_design *d,
                                  const attend_twin_options *options,
                                  attend_curve *curve) {
  studying s = {.d = d};
  float *block = NULL;
  if (options) s.o = *options;
  if (curve) *curve = (attend_curve){0};
  attend_status status = begin(&s, &block);
  if (!status) {
    draw(&s);
    forget_unread(d, s.w);
  }
  if (!status) status = study(&s, curve);
  if (curve) curve->steps = s.o.steps;
  pass_free(s.pass);
  give(d->ctx, block);
  if (status) {
    give(d->ctx, s.w);
    return status;
  }
  give(d->ctx, d->weights[ATTEND_LEARNED]);
  d->weights[ATTEND_LEARNED] = s.w;
  return ATTEND_OK;
}
