/* Plans: choosing an engine, owning the workspace, and the public calls. Of the engines
 * that apply the first of least cost is chosen.
 */
#include <math.h>
#include <string.h>

#include "attention/engine.h"
#include "base/options.h"

const attend_engine *const cpu_engines[] = {&engine_softmax, &engine_argmax,     &engine_direct,
                                            &engine_linear,  &engine_definition, NULL};

bool attend_plan_candidate(const attend_plan *plan, int index, const char **name,
                           const char **refusal) {
  const attend_engine *const *engines = plan->ctx->engines;
  int count = 0;
  while (engines[count]) count++;
  if (index < 0 || index >= count) return 0;
  *name = engines[index]->name;
  *refusal = engines[index]->applicable(plan->ctx, &plan->desc);
  return 1;
}

/* ---- creating -------------------------------------------------------------------- */

bool engine_is_called(const attend_engine *e, const char *name) {
  static const char host[] = "host:";
  const bool bridged = !strncmp(e->name, host, sizeof host - 1);
  return !strcmp(name, e->name) || (bridged && !strcmp(name, e->name + sizeof host - 1));
}

static attend_status choose_named(attend_plan *p) {
  const char *wanted = p->desc.engine, *refusal = NULL;
  for (const attend_engine *const *e = p->ctx->engines; *e; e++) {
    if (!engine_is_called(*e, wanted)) continue;
    const char *why = (*e)->applicable(p->ctx, &p->desc);
    if (!why) {
      p->engine = *e;
      return ATTEND_OK;
    }
    if (!refusal) refusal = why;
  }
  if (!refusal) return fail(p->ctx, ATTEND_UNSUPPORTED, "no engine is called \"%.40s\"", wanted);
  return fail(p->ctx, ATTEND_UNSUPPORTED,
              "engine %s does not apply: %s; leave the engine out and the plan will choose", wanted,
              refusal);
}

/* The last engine supports everything that the others do not, so its refusal is the reason. */
static attend_status choose(attend_plan *p) {
  const char *refusal = NULL;
  double min = 0;
  if (p->desc.engine) return choose_named(p);
  for (const attend_engine *const *e = p->ctx->engines; *e; e++) {
    refusal = (*e)->applicable(p->ctx, &p->desc);
    if (refusal) continue;
    double cost = (*e)->cost(&p->desc);
    if (p->engine && !(cost < min)) continue;
    p->engine = *e;
    min = cost;
  }
  if (p->engine) return ATTEND_OK;
  return fail(p->ctx, ATTEND_UNSUPPORTED, "%s", refusal);
}

static void derive(attend_plan *p) {
  const attend_desc *d = &p->desc;
  p->kn = p->ctx->kernels;
  p->fast = p->kn->block[d->dtype];
  p->threads = p->ctx->threads;
  p->own = stream_on(p->ctx, p->threads);
  p->group = d->heads / d->kv_heads;
  p->ldk = (int)round_up((size_t)d->dim, LANES);
  p->ldv = (int)round_up((size_t)d->dim_v, LANES);
  bool exponential =
      d->form.kind == ATTEND_SOFTMAX || d->form.kind == ATTEND_GAUSSIAN || d->form.temperature > 0;
  double unit = exponential ? LOG2E : 1.0;
  double scale = (double)d->scale;
  if (d->form.kind == ATTEND_GAUSSIAN) scale = 1 / ((double)d->form.sigma * (double)d->form.sigma);
  if (d->form.kind == ATTEND_POLY) scale = 1; /* its scale is a */
  if (d->form.temperature > 0) unit /= (double)d->form.temperature;
  p->score_to2 = (float)(scale * unit);
  p->bias_to2 = (float)unit;
  if (d->soft_cap > 0) {
    p->cap_in = (float)(scale / (double)d->soft_cap);
    p->cap_out = (float)((double)d->soft_cap * unit);
  }
}

static attend_status check_purpose(const attend_plan *p) {
  const attend_desc *d = &p->desc;
  if (!(d->purpose & ATTEND_FOR_EXTEND) || d->bias.kind != ATTEND_DENSE) return ATTEND_OK;
  return fail(p->ctx, ATTEND_UNSUPPORTED,
              "a state grows, so that it supports no dense bias: choose "
              "ALiBi or buckets, or attend_forward");
}

/* Rows of a stack; the end of a tile beyond the last is still an int. */
enum { MOST_ROWS = INT32_MAX - (1 << 12) };

static attend_status make(attend_plan *p) {
  ATTEND_TRY(desc_complete(p->ctx, &p->desc));
  ATTEND_CHECK(p->ctx, (int64_t)p->desc.q_len * (p->desc.heads / p->desc.kv_heads) <= MOST_ROWS,
               "%d queries of %d heads share a kv head: cut the queries into several calls",
               p->desc.q_len, p->desc.heads / p->desc.kv_heads);
  derive(p);
  ATTEND_CHECK(p->ctx, p->desc.form.kind != ATTEND_GAUSSIAN || isfinite(p->score_to2),
               "sigma %g makes scores overflow f32: choose a larger one",
               (double)p->desc.form.sigma);
  ATTEND_CHECK(p->ctx, isfinite(p->cap_in) && isfinite(p->cap_out),
               "scale %g, soft_cap %g and temperature %g make scores "
               "overflow f32: choose a soft_cap nearer to the scores",
               (double)p->desc.scale, (double)p->desc.soft_cap, (double)p->desc.form.temperature);
  ATTEND_CHECK(p->ctx, isfinite(p->score_to2) && isfinite(p->bias_to2),
               "scale %g and temperature %g make scores overflow f32: "
               "choose a smaller scale or a higher temperature",
               (double)p->desc.scale, (double)p->desc.form.temperature);
  ATTEND_TRY(check_purpose(p));
  ATTEND_TRY(choose(p));
  if (p->engine->prepare) ATTEND_TRY(p->engine->prepare(p));
  p->engine->size(p);
  return ctx_alloc(p->ctx, attend_plan_workspace(p), "a plan's workspace", &p->workspace);
}

attend_status attend_plan_create(attend_context *ctx, const attend_desc *desc, attend_plan **plan) {
  *plan = NULL;
  attend_plan *p;
  ATTEND_TRY(ctx_alloc_zeroed(ctx, sizeof *p, "a plan", &p));
  p->ctx = ctx;
  attend_status status = OPTIONS_READ(ctx, attend_desc, desc, &p->desc);
  if (!status) status = make(p);
  if (status == ATTEND_OK)
    *plan = p;
  else
    attend_plan_free(p);
  return status;
}

void attend_plan_free(attend_plan *plan) {
  if (!plan) return;
  ctx_free(plan->ctx, plan->workspace);
  if (plan->engine && plan->engine->release) plan->engine->release(plan);
  ctx_free(plan->ctx, plan);
}

int64_t attend_plan_weak_rows(const attend_plan *plan) {
  const attend_engine *e = plan->engine;
  return e->weak_rows ? e->weak_rows((attend_plan *)plan) : plan->weak_rows;
}

attend_status attend_plan_redraw(attend_plan *p, uint64_t redraw) {
  ATTEND_CHECK(p->ctx, p->map.dirs > 0,
               "this plan has no random directions to redraw: choose favor, "
               "fourier, or gaussian with features");
  p->desc.form.redraw = redraw;
  return features_draw(p->ctx, &p->desc, &p->map);
}

const attend_desc *attend_plan_desc(const attend_plan *plan) { return &plan->desc; }

const char *attend_plan_engine(const attend_plan *plan) { return plan->engine->name; }

size_t attend_plan_workspace(const attend_plan *plan) {
  return size_add(size_times(plan->thread_bytes, (size_t)plan->threads), plan->shared_bytes);
}

void attend_plan_set_padding(attend_plan *plan, const int32_t *lengths, const uint8_t *key_mask) {
  plan->desc.mask.lengths = lengths;
  plan->desc.mask.key_mask = key_mask;
}

/* ---- calls ----------------------------------------------------------------------- */

/* A tensor of a call. */
typedef struct {
  const char *name;
  attend_view *view;
  int heads, length, width;
  bool output;
} operand;

/* Completes and checks them: a tensor of no elements may have no address. */
static attend_status complete_all(const attend_plan *p, int n, const operand *all /* [n] */) {
  for (const operand *x = all; x < all + n; x++) {
    ATTEND_CHECK(p->ctx, x->view->data || x->length == 0, "%s is NULL: give its address", x->name);
    *x->view = view_complete(*x->view, x->heads, x->length, x->width);
    if (x->output)
      ATTEND_TRY(
          desc_check_output(p->ctx, &p->desc, x->name, x->view, x->heads, x->length, x->width));
  }
  return desc_check_pointers(p->ctx, &p->desc);
}

static attend_status check_lse(const attend_plan *p, const float *lse) {
  ATTEND_CHECK(p->ctx, lse || p->desc.q_len == 0,
               "lse is NULL: give the one that attend_forward wrote");
  return ATTEND_OK;
}

attend_status attend_forward(attend_plan *p, attend_view q, attend_view k, attend_view v,
                             attend_view o, float *lse) {
  const attend_desc *d = &p->desc;
  const int H = d->heads, G = d->kv_heads, T = d->q_len, S = d->kv_len;
  call c = {.plan = p, .on = p->fast, .n = T, .q = q, .k = k, .v = v, .o = o, .lse = lse};
  const operand all[] = {{"q", &c.q, H, T, d->dim, false},
                         {"k", &c.k, G, S, d->dim, false},
                         {"v", &c.v, G, S, d->dim_v, false},
                         {"o", &c.o, H, T, d->dim_v, true}};
  ATTEND_TRY(complete_all(p, 4, all));
  if (p->engine->at_once) plan_wait(p);
  return p->engine->forward(&c);
}

attend_status attend_backward(attend_plan *p, attend_view q, attend_view k, attend_view v,
                              attend_view o, const float *lse, attend_view d_o, attend_view dq,
                              attend_view dk, attend_view dv, float *dbias) {
  const attend_desc *d = &p->desc;
  const int H = d->heads, G = d->kv_heads, T = d->q_len, S = d->kv_len;
  ATTEND_CHECK(p->ctx, d->purpose & ATTEND_FOR_BACKWARD,
               "this plan supports forward only: set ATTEND_FOR_BACKWARD in the description's "
               "purpose");
  ATTEND_CHECK(p->ctx, !dbias || d->bias.kind != ATTEND_NO_BIAS,
               "dbias was given, but the description has no bias");
  call c = {.plan = p, .on = p->kn->block[ATTEND_F32], .n = T, .lse_in = lse, .dbias = dbias};
  c.q = q, c.k = k, c.v = v, c.o = o, c.d_o = d_o, c.dq = dq, c.dk = dk, c.dv = dv;
  const operand all[] = {
      {"q", &c.q, H, T, d->dim, false},       {"k", &c.k, G, S, d->dim, false},
      {"v", &c.v, G, S, d->dim_v, false},     {"o", &c.o, H, T, d->dim_v, false},
      {"d_o", &c.d_o, H, T, d->dim_v, false}, {"dq", &c.dq, H, T, d->dim, true},
      {"dk", &c.dk, G, S, d->dim, true},      {"dv", &c.dv, G, S, d->dim_v, true}};
  ATTEND_TRY(complete_all(p, 8, all));
  ATTEND_TRY(check_lse(p, lse));
  if (p->engine->at_once) plan_wait(p);
  return p->engine->backward(&c);
}

attend_status attend_observe(attend_plan *p, attend_view q, attend_view k, const float *lse,
                             const attend_observation *observation) {
  const attend_desc *d = &p->desc;
  attend_observation obs;
  ATTEND_TRY(OPTIONS_READ(p->ctx, attend_observation, observation, &obs));
  call c = {.plan = p, .on = p->fast, .n = d->q_len, .q = q, .k = k, .lse_in = lse};
  const operand all[] = {{"q", &c.q, d->heads, d->q_len, d->dim, false},
                         {"k", &c.k, d->kv_heads, d->kv_len, d->dim, false}};
  ATTEND_TRY(complete_all(p, 2, all));
  ATTEND_TRY(check_lse(p, lse));
  c.obs = observation ? &obs : NULL;
  if (p->engine->at_once) plan_wait(p);
  attend_status status = p->engine->observe(&c);
  plan_wait(p);
  return status;
}
/* ---- merging --------------------------------------------------------------------- */

/* Outputs of two disjoint sets of keys, for callers that split keys over calls, files or machines.
 * lse is the log of the denominator, so (o, lse) determines each side's share of the weight. */

typedef struct {
  double first, second; /* shares of the weight, or 0 and 0 */
  double lse;
} shares;

static shares share_soft(double a, double b) {
  double top = a > b ? a : b;
  if (top == -INFINITY) return (shares){0, 0, -INFINITY};
  double x = exp(a - top), y = exp(b - top);
  return (shares){x / (x + y), y / (x + y), top + log(x + y)};
}

/* Ties go to the first side, or half to each: the number of tied keys is not known. */
static shares share_hard(double a, double b, attend_ties ties) {
  if (a == b && a > -INFINITY && ties == ATTEND_TIES_AVERAGE) return (shares){0.5, 0.5, a};
  if (b > a) return (shares){0, 1, b};
  return (shares){a > -INFINITY, 0, a};
}

/* Here lse is the denominator itself, which may be negative. */
static shares share_signed(double a, double b) {
  if (a + b == 0) return (shares){0, 0, 0};
  return (shares){a / (a + b), b / (a + b), a + b};
}

static shares share_of(const attend_form *f, double a, double b) {
  if (f->kind == ATTEND_ARGMAX && f->temperature == 0)
    return isnan(a) || isnan(b) ? (shares){NAN, NAN, NAN} : share_hard(a, b, f->ties);
  if (attend_form_signed(f)) return share_signed(a, b);
  return isnan(a) || isnan(b) ? (shares){NAN, NAN, NAN} : share_soft(a, b);
}

static float read_one(attend_dtype dtype, const void *p) {
  float x;
  attend_convert_to_f32(dtype, p, 1, &x);
  return x;
}

/* A side without a share is not read: its zeros are not values. */
static void merge_row(attend_dtype dtype, shares s, int width, char *o, ptrdiff_t col,
                      const char *o2, ptrdiff_t col2) {
  ptrdiff_t size = (ptrdiff_t)attend_dtype_size(dtype);
  for (int i = 0; i < width; i++) {
    double sum = 0;
    if (s.first != 0) sum += s.first * (double)read_one(dtype, o + i * col * size);
    if (s.second != 0) sum += s.second * (double)read_one(dtype, o2 + i * col2 * size);
    float x = (float)sum;
    attend_convert_from_f32(dtype, &x, 1, o + i * col * size);
  }
}

typedef struct {
  const attend_desc *d;
  attend_view o, o2;
  float *lse;
  const float *lse2;
} merging;

/* All queries of one head. */
static void merge_head(const void *args, int64_t head, int worker) {
  const merging *m = args;
  const attend_desc *d = m->d;
  size_t size = attend_dtype_size(d->dtype);
  int64_t b = head / d->heads, h = head % d->heads;
  (void)worker;
  for (int64_t i = 0; i < d->q_len; i++) {
    int64_t r = head * d->q_len + i;
    shares s = share_of(&d->form, (double)m->lse[r], (double)m->lse2[r]);
    merge_row(d->dtype, s, d->dim_v, view_at(&m->o, size, b, h, i), m->o.stride[3],
              view_at(&m->o2, size, b, h, i), m->o2.stride[3]);
    m->lse[r] = (float)s.lse;
  }
}

attend_status attend_merge(attend_plan *p, attend_view o, float *lse, attend_view o2,
                           const float *lse2) {
  const attend_desc *d = &p->desc;
  ATTEND_CHECK(p->ctx, d->q_len == 0 || (o.data && lse && o2.data && lse2),
               "merging needs o and lse of both sides: one of them is NULL");
  o = view_complete(o, d->heads, d->q_len, d->dim_v);
  ATTEND_TRY(desc_check_output(p->ctx, d, "o", &o, d->heads, d->q_len, d->dim_v));
  o2 = view_complete(o2, d->heads, d->q_len, d->dim_v);
  merging m = {d, o, o2, lse, lse2};
  STREAM_ADD(plan_stream(p), (int64_t)d->batch * d->heads, merge_head, m);
  return ATTEND_OK;
}
