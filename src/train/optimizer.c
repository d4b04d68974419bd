/* Optimizers: AdamW (Loshchilov and Hutter 2019) and SGD with momentum.
 *
 * Sums run over ranges of fixed length that are joined in order, so no bit depends on
 * the number of threads.
 */
#include <math.h>

#include "base/options.h"
#include "train/trainer.h"

struct attend_optimizer {
  attend_context *ctx;
  attend_trainer *trainer;
  attend_optimizer_options options;
  mirror moment[2];         /* SGD: momentum alone */
  double *sums, *host_sums; /* [ranges], of the device and of the host */
  struct step_span *spans;  /* of the device: trained parameters */
  int n_spans;
  uint64_t step;
};

static attend_status check(attend_context *ctx, const attend_optimizer_options *o) {
  ATTEND_CHECK(ctx, o->beta1 >= 0 && o->beta1 < 1 && o->beta2 >= 0 && o->beta2 < 1 && o->clip >= 0,
               "an optimizer of beta1 %g, beta2 %g, clip %g: betas are from 0 "
               "to below 1, the others not negative",
               (double)o->beta1, (double)o->beta2, (double)o->clip);
  for (int i = 0; i < ATTEND_GROUPS; i++)
    ATTEND_CHECK(ctx, o->decay[i] >= 0 && o->decay[i] < INFINITY,
                 "a weight decay of %g: choose 0 or more", (double)o->decay[i]);
  return ATTEND_OK;
}

static attend_status take_moments(attend_optimizer *o) {
  static const char what[] = "an optimizer";
  const size_t count = o->trainer->count;
  const size_t bytes = stretches_of(count) * sizeof *o->sums;
  ATTEND_TRY(mirror_make(o->ctx, count, what, &o->moment[0]));
  if (o->options.kind == ATTEND_ADAMW) ATTEND_TRY(mirror_make(o->ctx, count, what, &o->moment[1]));
  ATTEND_TRY(device_alloc(o->ctx, bytes, what, &o->sums));
  return ctx_alloc(o->ctx, bytes, what, &o->host_sums);
}

/* Neighbours that decay alike are one span. */
static attend_status take_spans(attend_optimizer *o) {
  const attend_trainer *tr = o->trainer;
  struct step_span *list;
  ATTEND_TRY(ctx_alloc(o->ctx, tr->n_entries * sizeof *list, "an optimizer", &list));
  for (size_t i = 0; i < tr->n_entries; i++) {
    const trainer_entry *e = &tr->entries[i];
    const float decay = o->options.decay[group_of(e->p)];
    struct step_span *last = o->n_spans ? &list[o->n_spans - 1] : NULL;
    if (e->p->fixed) continue;
    if (last && last->end == e->at && last->decay == decay)
      last->end += e->count;
    else
      list[o->n_spans++] = (struct step_span){e->at, e->at + e->count, decay};
  }
  const size_t bytes = (size_t)o->n_spans * sizeof *list;
  attend_status status = device_alloc(o->ctx, bytes, "an optimizer", &o->spans);
  if (!status) o->ctx->device->write(o->ctx, o->spans, list, bytes);
  ctx_free(o->ctx, list);
  return status;
}

static void complete(float *x, float usual) {
  if (*x == 0)
    *x = usual;
  else if (*x == ATTEND_ZERO)
    *x = 0;
}

static attend_status read_options(attend_context *ctx, const attend_optimizer_options *options,
                                  attend_optimizer_options *o) {
  ATTEND_TRY(OPTIONS_READ(ctx, attend_optimizer_options, options, o));
  complete(&o->beta1, 0.9f);
  complete(&o->beta2, 0.999f);
  complete(&o->eps, 1e-8f);
  complete(&o->decay[ATTEND_MATRICES], 0.01f);
  complete(&o->decay[ATTEND_TABLES], 0.01f);
  complete(&o->decay[ATTEND_VECTORS], 0);
  complete(&o->clip, 1);
  return check(ctx, o);
}

attend_status attend_optimizer_create(attend_trainer *trainer,
                                      const attend_optimizer_options *options,
                                      attend_optimizer **optimizer) {
  attend_context *ctx = trainer->ctx;
  attend_optimizer *o;
  *optimizer = NULL;
  ATTEND_TRY(ctx_alloc_zeroed(ctx, sizeof *o, "an optimizer", &o));
  o->ctx = ctx;
  o->trainer = trainer;
  attend_status status = read_options(ctx, options, &o->options);
  if (!status) status = take_moments(o);
  if (!status) status = take_spans(o);
  if (status)
    attend_optimizer_free(o);
  else
    *optimizer = o;
  return status;
}

void attend_optimizer_free(attend_optimizer *o) {
  if (!o) return;
  mirror_free(o->ctx, &o->moment[0]);
  mirror_free(o->ctx, &o->moment[1]);
  device_free(o->ctx, o->sums);
  device_free(o->ctx, o->spans);
  ctx_free(o->ctx, o->host_sums);
  ctx_free(o->ctx, o);
}

/* ---- the gradient's norm ---------------------------------------------------------- */

static double norm_of(const attend_optimizer *o) {
  const size_t n = stretches_of(o->trainer->count);
  double sum = 0;
  OP(o->ctx, sum_squares, .n = o->trainer->count, .x = o->trainer->gradients.device,
     .sums = o->sums);
  o->ctx->device->read(o->ctx, o->host_sums, o->sums, n * sizeof *o->sums);
  for (size_t i = 0; i < n; i++) sum += o->host_sums[i];
  return sqrt(sum);
}

/* ---- a step ------------------------------------------------------------------------- */

static void push_back(attend_optimizer *o) {
  mirror_backward(o->ctx, &o->trainer->values);
  mirror_backward(o->ctx, &o->trainer->gradients);
  mirror_backward(o->ctx, &o->moment[0]);
  mirror_backward(o->ctx, &o->moment[1]);
}

attend_status attend_optimizer_step(attend_optimizer *o, float rate, double *norm) {
  push_back(o);
  double length = norm_of(o), t = (double)(o->step + 1);
  const attend_optimizer_options *p = &o->options;
  const attend_trainer *tr = o->trainer;
  if (norm) *norm = length;
  ATTEND_CHECK(o->ctx, isfinite(length),
               "the gradient is not finite: choose a smaller rate, or check "
               "the data");
  const float shrink =
      p->clip > 0 && length > (double)p->clip ? (float)((double)p->clip / (length + 1e-6)) : 1;
  OP(o->ctx, step, .n = tr->count, .values = tr->values.device, .gradients = tr->gradients.device,
     .first = o->moment[0].device, .second = o->moment[1].device, .rate = rate, .shrink = shrink,
     .beta1 = p->beta1, .beta2 = p->beta2, .eps = p->eps,
     .fix1 = (float)(1 / (1 - pow((double)p->beta1, t))),
     .fix2 = (float)(1 / (1 - pow((double)p->beta2, t))), .momentum = p->momentum,
     .spans = o->spans, .n_spans = o->n_spans);
  mirror_changed(&o->trainer->values);
  mirror_changed(&o->moment[0]);
  mirror_changed(&o->moment[1]);
  o->step++;
  return model_repack(&o->trainer->model);
}

uint64_t attend_optimizer_steps(const attend_optimizer *o) { return o->step; }
void attend_optimizer_set_steps(attend_optimizer *o, uint64_t steps) { o->step = steps; }
float *attend_optimizer_moments(const attend_optimizer *o, int which) {
  mirror *m = (mirror *)&o->moment[which & 1];
  return which >> 1 || !m->device ? NULL : mirror_out(o->ctx, m);
}

/* ---- schedules ------------------------------------------------------------------------ */

double attend_schedule_at(const attend_schedule *s, uint64_t step) {
  double t = (double)step, warm = (double)s->warmup, all = (double)s->steps;
  static const double PI = 3.14159265358979323846;
  if (t < warm) return s->rate * (t + 1) / warm;
  double done = all > warm ? fmin(1, (t - warm) / (all - warm)) : 1;
  if (s->kind == ATTEND_LINEAR_RATE) return s->rate + (s->min - s->rate) * done;
  if (s->kind == ATTEND_COSINE_RATE) return s->min + (s->rate - s->min) * (1 + cos(PI * done)) / 2;
  return s->rate;
}
