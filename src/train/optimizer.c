/* Steps along gradients: AdamW and SGD.
 *
 * Place: train/ - between a learner's gradients and its values. Sums run over
 * stretches of fixed length that join in order, so no bit depends on the number
 * of threads.
 */
#include <math.h>

#include "base/parallel.h"
#include "train/learner.h"

struct attend_optimizer {
  attend_context *ctx;
  attend_learner *learner;
  attend_optimizer_options options;
  float *first, *second; /* [count] moments; SGD: momentum, NULL */
  double *sums;          /* [stretches] */
  size_t count;
  uint64_t step;
};

enum { STRETCH = 4096 };

static size_t stretches(const attend_optimizer *o) {
  return (o->count + STRETCH - 1) / STRETCH;
}

static attend_status check(attend_context *ctx,
                           const attend_optimizer_options *o) {
  ATTEND_CHECK(ctx,
               o->beta1 >= 0 && o->beta1 < 1 && o->beta2 >= 0 && o->beta2 < 1 &&
                   o->clip >= 0,
               "an optimizer of beta1 %g, beta2 %g, clip %g: betas are from 0 "
               "to below 1, the others not negative",
               (double)o->beta1, (double)o->beta2, (double)o->clip);
  for (int i = 0; i < ATTEND_GROUPS; i++)
    ATTEND_CHECK(ctx, o->decay[i] >= 0 && o->decay[i] < INFINITY,
                 "a weight decay of %g: choose 0 or more", (double)o->decay[i]);
  return ATTEND_OK;
}

static attend_status take_moments(attend_optimizer *o) {
  size_t bytes = o->count * sizeof(float);
  ATTEND_TRY(take_zeroed(o->ctx, bytes, "an optimizer", &o->first));
  if (o->options.kind == ATTEND_ADAMW)
    ATTEND_TRY(take_zeroed(o->ctx, bytes, "an optimizer", &o->second));
  return take(o->ctx, stretches(o) * sizeof *o->sums, "an optimizer", &o->sums);
}

attend_optimizer_options attend_optimizer_defaults(void) {
  return (attend_optimizer_options){.kind = ATTEND_ADAMW,
                                    .beta1 = 0.9f,
                                    .beta2 = 0.999f,
                                    .eps = 1e-8f,
                                    .decay = {0.01f, 0.01f, 0},
                                    .clip = 1};
}

attend_status attend_optimizer_create(attend_learner *learner,
                                      const attend_optimizer_options *options,
                                      attend_optimizer **optimizer) {
  attend_context *ctx = learner->ctx;
  attend_optimizer *o;
  *optimizer = NULL;
  ATTEND_TRY(take_zeroed(ctx, sizeof *o, "an optimizer", &o));
  o->ctx = ctx;
  o->learner = learner;
  o->options = options ? *options : attend_optimizer_defaults();
  o->count = learner->count;
  attend_status status = check(ctx, &o->options);
  if (!status) status = take_moments(o);
  if (status)
    attend_optimizer_free(o);
  else
    *optimizer = o;
  return status;
}

void attend_optimizer_free(attend_optimizer *o) {
  if (!o) return;
  give(o->ctx, o->first);
  give(o->ctx, o->second);
  give(o->ctx, o->sums);
  give(o->ctx, o);
}

/* ---- how long the gradient is ----------------------------------------------------- */

static void norm_part(const void *args, int64_t i, int worker) {
  const attend_optimizer *o = args;
  const float *g = o->learner->gradients;
  size_t from = (size_t)i * STRETCH,
         to = from + STRETCH < o->count ? from + STRETCH : o->count;
  double part = 0;
  (void)worker;
  for (size_t j = from; j < to; j++) part += (double)g[j] * (double)g[j];
  o->sums[i] = part;
}

static double norm_of(const attend_optimizer *o) {
  double sum = 0;
  long n = (long)stretches(o);
  PARALLEL_FOR(o->ctx, o->ctx->threads, n, norm_part, *o);
  for (long i = 0; i < n; i++) sum += o->sums[i];
  return sqrt(sum);
}

/* ---- a step ------------------------------------------------------------------------- */

typedef struct {
  float rate, shrink; /* shrink: of the gradient, by clipping */
  float fix1, fix2;   /* bias corrections */
} stride;

static void adam(attend_optimizer *o, const stride *s, float decay, size_t from,
                 size_t to) {
  const attend_optimizer_options *p = &o->options;
  float *w = o->learner->values, *m = o->first, *v = o->second;
  const float *g = o->learner->gradients;
  for (size_t i = from; i < to; i++) {
    float x = g[i] * s->shrink;
    m[i] = p->beta1 * m[i] + (1 - p->beta1) * x;
    v[i] = p->beta2 * v[i] + (1 - p->beta2) * x * x;
    float root = sqrtf(v[i] * s->fix2) + p->eps;
    w[i] -= s->rate * decay * w[i];
    w[i] -= s->rate * (m[i] * s->fix1) / root;
  }
}

static void sgd(attend_optimizer *o, const stride *s, float decay, size_t from,
                size_t to) {
  float *w = o->learner->values, *m = o->first;
  const float *g = o->learner->gradients;
  for (size_t i = from; i < to; i++) {
    float x = g[i] * s->shrink + decay * w[i];
    m[i] = o->options.momentum * m[i] + x;
    w[i] -= s->rate * m[i];
  }
}

typedef struct {
  attend_optimizer *o;
  const stride *s;
  float decay;
  size_t at, count;
} entry_step;

static void step_part(const void *args, int64_t i, int worker) {
  const entry_step *e = args;
  size_t from = (size_t)i * STRETCH;
  size_t to = from + STRETCH < e->count ? from + STRETCH : e->count;
  (void)worker;
  if (e->o->options.kind == ATTEND_ADAMW)
    adam(e->o, e->s, e->decay, e->at + from, e->at + to);
  else
    sgd(e->o, e->s, e->decay, e->at + from, e->at + to);
}

static void step_entry(attend_optimizer *o, const stride *s,
                       const attend_learnt *x) {
  size_t at = (size_t)(x->value - o->learner->values);
  size_t count = (size_t)x->count;
  long n = (long)((count + STRETCH - 1) / STRETCH);
  entry_step e = {o, s, o->options.decay[x->group], at, count};
  PARALLEL_FOR(o->ctx, n > 4 ? o->ctx->threads : 1, n, step_part, e);
}

attend_status attend_optimizer_step(attend_optimizer *o, float rate,
                                    double *norm) {
  double length = norm_of(o), t = (double)(o->step + 1);
  const attend_optimizer_options *p = &o->options;
  if (norm) *norm = length;
  ATTEND_CHECK(o->ctx, isfinite(length),
               "the gradient is not finite: take a smaller rate, or look for "
               "what is wrong in the data");
  stride s = {.rate = rate,
              .shrink = p->clip > 0 && length > (double)p->clip
                            ? (float)((double)p->clip / (length + 1e-6))
                            : 1,
              .fix1 = (float)(1 / (1 - pow((double)p->beta1, t))),
              .fix2 = (float)(1 / (1 - pow((double)p->beta2, t)))};
  attend_learnt x;
  for (size_t i = 0; attend_learner_get(o->learner, i, &x); i++)
    if (!x.fixed) step_entry(o, &s, &x);
  o->step++;
  return attend_learner_refresh(o->learner);
}

uint64_t attend_optimizer_steps(const attend_optimizer *o) { return o->step; }
void attend_optimizer_set_steps(attend_optimizer *o, uint64_t steps) {
  o->step = steps;
}
float *attend_optimizer_moments(const attend_optimizer *o, int which) {
  return which == 0 ? o->first : which == 1 ? o->second : NULL;
}

/* ---- rates over time ------------------------------------------------------------------- */

double attend_schedule_at(const attend_schedule *s, uint64_t step) {
  double t = (double)step, warm = (double)s->warmup, all = (double)s->steps;
  static const double PI = 3.14159265358979323846;
  if (t < warm) return s->rate * (t + 1) / warm;
  double done = all > warm ? fmin(1, (t - warm) / (all - warm)) : 1;
  if (s->kind == ATTEND_LINEAR_RATE)
    return s->rate + (s->least - s->rate) * done;
  if (s->kind == ATTEND_COSINE_RATE)
    return s->least + (s->rate - s->least) * (1 + cos(PI * done)) / 2;
  return s->rate;
}
