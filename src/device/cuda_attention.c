/* Attention engines on a GPU: softmax on tensor cores, and every form pair by pair in f32. The
 * kernels are libattend-cuda's (device/cuda). Tensors in the host's memory are copied there and back.
 */
#include "device/crossing.h"
#include "device/cuda_device.h"

typedef size_t (*bytes_function)(const cuda_device *d, const struct cuda_attention *a);
typedef void (*run_function)(const cuda_device *d, const struct cuda_attention *a);

/* ---- plans -------------------------------------------------------------------------- */

attend_status cuda_plan_make(attend_plan *p, size_t bytes) {
  cuda_plan *m;
  ATTEND_TRY(ctx_alloc_zeroed(p->ctx, bytes, "a plan", &m));
  p->own_data = m;
  return device_alloc(p->ctx, sizeof *m->weak, "a plan's counter", &m->weak);
}

void cuda_plan_free(attend_plan *p) {
  cuda_plan *m = cuda_plan_of(p);
  if (!m) return;
  device_free(p->ctx, m->work);
  device_free(p->ctx, m->weak);
  ctx_free(p->ctx, m);
}

attend_status cuda_plan_work(attend_plan *p, size_t bytes) {
  cuda_plan *m = cuda_plan_of(p);
  if (bytes <= m->bytes) return ATTEND_OK;
  device_free(p->ctx, m->work);
  m->work = NULL;
  m->bytes = 0;
  ATTEND_TRY(p->ctx->device->alloc(p->ctx, bytes, "a plan's workspace on the GPU", &m->work));
  m->bytes = bytes;
  return ATTEND_OK;
}

void cuda_plan_reset_weak(attend_plan *p) {
  p->ctx->device->zero(p->ctx, cuda_plan_of(p)->weak, sizeof(int64_t));
}

int64_t cuda_plan_weak_rows(attend_plan *p) {
  int64_t rows;
  p->ctx->device->read(p->ctx, &rows, cuda_plan_of(p)->weak, sizeof rows);
  return rows;
}

static attend_status prepare(attend_plan *p) { return cuda_plan_make(p, sizeof(cuda_plan)); }

static void size(attend_plan *p) { p->tile = 1; }

/* ---- calls -------------------------------------------------------------------------- */

struct cuda_attention cuda_attention_of(const call *c) {
  return (struct cuda_attention){.desc = &c->plan->desc,
                                 .n = c->n,
                                 .q = c->q,
                                 .k = c->k,
                                 .v = c->v,
                                 .o = c->o,
                                 .d_o = c->d_o,
                                 .dq = c->dq,
                                 .dk = c->dk,
                                 .dv = c->dv,
                                 .lse = c->lse ? c->lse : (float *)c->lse_in,
                                 .dbias = c->dbias,
                                 .observation = c->obs,
                                 .before = c->before,
                                 .weak_rows = cuda_plan_of(c->plan)->weak};
}

static attend_status run_there(call *c, bytes_function bytes, run_function run) {
  attend_context *ctx = c->plan->ctx;
  struct cuda_attention a = cuda_attention_of(c);
  struct cuda_pages pages;
  attend_status status = ATTEND_OK;
  cuda_lock(ctx);
  if (c->state) {
    status = cuda_cache_pages(ctx, c->state, &pages);
    a.pages = &pages;
  }
  if (!status) status = cuda_plan_work(c->plan, bytes(device_of(ctx), &a));
  a.work = cuda_plan_of(c->plan)->work;
  if (!status) run(device_of(ctx), &a);
  if (!status) status = cuda_check(ctx);
  cuda_unlock(ctx);
  return status;
}

static attend_status run(call *c, bytes_function bytes, run_function function) {
  crossing x;
  crossing_of(c, c->state ? 0 : c->plan->desc.kv_len, TO_DEVICE, &x);
  attend_status status = crossing_go(&x);
  if (!status) status = run_there(c, bytes, function);
  crossing_return(&x, status);
  return status;
}

/* Functions of the table, as run takes them. */
#define T(name, bytes, function)                                                     \
  static size_t name##_bytes(const cuda_device *d, const struct cuda_attention *a) { \
    return d->table->bytes(d->gpu, a);                                               \
  }                                                                                  \
  static void run_##name(const cuda_device *d, const struct cuda_attention *a) {     \
    d->table->function(d->gpu, a);                                                   \
  }
T(softmax, attention_bytes, attention_forward)
T(pairs, pairs_bytes, pairs_forward)
T(pairs_backward, pairs_backward_bytes, pairs_backward)
T(observe, observe_bytes, observe)
#undef T

/* ---- pair by pair ------------------------------------------------------------------- */

static const char *pairs_applicable(const attend_context *ctx, const attend_desc *d) {
  return device_of(ctx)->table->pairs_refusal(device_of(ctx)->gpu, d);
}
/* More than tensor cores, less than the host's. */
static double pairs_cost(const attend_desc *d) { return flops_of_pairs(d) * 1e-3; }

static attend_status pairs_forward(call *c) {
  const attend_form_kind form = c->plan->desc.form.kind;
  if (form != ATTEND_SOFTMAX && form != ATTEND_ARGMAX) /* whose rows are never weak */
    cuda_plan_reset_weak(c->plan);
  return run(c, pairs_bytes, run_pairs);
}

static attend_status pairs_backward(call *c) {
  return run(c, pairs_backward_bytes, run_pairs_backward);
}

/* ---- softmax on tensor cores -------------------------------------------------------- */

static struct cuda_tensor tensor_of(const attend_view *v, int width) {
  return (struct cuda_tensor){v->data, {v->stride[0], v->stride[1], v->stride[2]}, width};
}

static struct cuda_softmax softmax_of(const struct cuda_attention *a) {
  const attend_desc *d = a->desc;
  return (struct cuda_softmax){.dtype = d->dtype,
                               .batch = d->batch,
                               .heads = d->heads,
                               .kv_heads = d->kv_heads,
                               .q_len = d->q_len,
                               .kv_len = d->kv_len,
                               .q = tensor_of(&a->q, d->dim),
                               .k = tensor_of(&a->k, d->dim),
                               .v = tensor_of(&a->v, d->dim_v),
                               .o = tensor_of(&a->o, d->dim_v),
                               .d_o = tensor_of(&a->d_o, d->dim_v),
                               .dq = tensor_of(&a->dq, d->dim),
                               .dk = tensor_of(&a->dk, d->dim),
                               .dv = tensor_of(&a->dv, d->dim_v),
                               .lse = a->lse,
                               .scale = d->scale,
                               .causal = d->mask.causal != ATTEND_NOT_CAUSAL,
                               .offset = (int)desc_position(d, 0),
                               .work = a->work};
}

/* Backward reads neither a bias, nor a soft cap, nor a window. */
static const char *softmax_applicable(const attend_context *ctx, const attend_desc *d) {
  const cuda_device *device = device_of(ctx);
  const attend_view view = {NULL, {8, 8, 8, 1}};
  const struct cuda_attention shape = {.desc = d,
                                       .q = view,
                                       .k = view,
                                       .v = view,
                                       .o = view,
                                       .d_o = view,
                                       .dq = view,
                                       .dk = view,
                                       .dv = view};
  const struct cuda_softmax s = softmax_of(&shape);
  const char *refusal = device->table->attention_refusal(device->gpu, d);
  if (refusal || !(d->purpose & ATTEND_FOR_BACKWARD)) return refusal;
  if (d->bias.kind != ATTEND_NO_BIAS || d->soft_cap > 0) return "adds no bias and caps no score";
  if (d->mask.window) return "takes no window";
  return device->table->softmax_backward_refusal(device->gpu, &s);
}

static double softmax_cost(const attend_desc *d) { return flops_of_pairs(d) * 1e-5; }

/* Padding and tensors out of TMA's reach go to the other kernels. */
static bool fits(const call *c, const struct cuda_softmax *s) {
  const cuda_device *d = device_of(c->plan->ctx);
  const attend_mask *m = &c->plan->desc.mask;
  const attend_view *views[] = {&c->q, &c->k, &c->v, &c->o, &c->d_o, &c->dq, &c->dk, &c->dv};
  if (m->lengths || m->key_mask) return false;
  for (int i = 0; i < 8; i++)
    if (views[i]->data && views[i]->stride[3] != 1) return false;
  return !d->table->softmax_backward_refusal(d->gpu, s);
}

static attend_status softmax_forward(call *c) { return run(c, softmax_bytes, run_softmax); }

static size_t softmax_backward_bytes(const cuda_device *d, const struct cuda_attention *a) {
  const struct cuda_softmax s = softmax_of(a);
  return d->table->softmax_backward_bytes(d->gpu, &s);
}
static void run_softmax_backward(const cuda_device *d, const struct cuda_attention *a) {
  const struct cuda_softmax s = softmax_of(a);
  d->table->softmax_backward(d->gpu, &s);
}

static attend_status softmax_backward(call *c) {
  crossing x;
  crossing_of(c, c->plan->desc.kv_len, TO_DEVICE, &x);
  attend_status status = crossing_go(&x);
  const struct cuda_attention a = cuda_attention_of(c);
  const struct cuda_softmax s = softmax_of(&a);
  if (!status)
    status = fits(c, &s) ? run_there(c, softmax_backward_bytes, run_softmax_backward)
                         : run_there(c, pairs_backward_bytes, run_pairs_backward);
  crossing_return(&x, status);
  return status;
}

/* ---- observing ---------------------------------------------------------------------- */

/* The caller's function sees rows that the GPU computed, some at a time. */
static attend_status each_row(call *c, const attend_observation *all, float *weights, int row,
                              int slot) {
  const attend_desc *d = &c->plan->desc;
  const int64_t width = call_width(c), to = all->key_to ? min64(all->key_to, width) : width;
  const int32_t one = row;
  const attend_observation rows = {ATTEND_INIT(attend_observation), .rows = &one, .n_rows = 1,
                                   .weights = weights};
  call part = *c;
  attend_observation copy = rows;
  part.obs = &copy;
  ATTEND_TRY(run(&part, observe_bytes, run_observe));
  for (int b = 0; b < d->batch && to > all->key_from; b++)
    for (int h = 0; h < d->heads; h++) {
      const float *line = weights + ((size_t)b * (size_t)d->heads + (size_t)h) * (size_t)width;
      const attend_weight_span span = {.b = b,
                                       .h = h,
                                       .row = row,
                                       .slot = slot,
                                       .key = (int)all->key_from,
                                       .n = (int)(to - all->key_from),
                                       .weights = line + all->key_from};
      all->each(&span, all->user);
    }
  return ATTEND_OK;
}

static attend_status each(call *c) {
  const attend_observation all = *c->obs;
  const attend_desc *d = &c->plan->desc;
  const int n = all.rows ? all.n_rows : c->n;
  attend_status status = ATTEND_OK;
  float *weights;
  ATTEND_TRY(ctx_alloc(
      c->plan->ctx,
      SIZE_PRODUCT((size_t)d->batch, (size_t)d->heads, (size_t)call_width(c), sizeof *weights),
      "rows of weights", &weights));
  for (int i = 0; i < n && !status; i++)
    status = each_row(c, &all, weights, all.rows ? all.rows[i] : i, i);
  ctx_free(c->plan->ctx, weights);
  return status;
}

static attend_status observe(call *c) {
  if (!c->obs) return ATTEND_OK;
  attend_observation o = *c->obs;
  if (o.each) ATTEND_TRY(each(c));
  o.each = NULL;
  if (!o.weights && !o.top && !o.entropy && !o.mass && !o.softmax_gap) return ATTEND_OK;
  c->obs = &o;
  return run(c, observe_bytes, run_observe);
}

int cuda_engines_make(cuda_device *d) {
  const attend_engine base = {.states = &d->cache,
                              .prepare = prepare,
                              .release = cuda_plan_free,
                              .size = size,
                              .observe = observe,
                              .weak_rows = cuda_plan_weak_rows};
  attend_engine *softmax = &d->engine[0], *pairs = &d->engine[1];
  *softmax = *pairs = base;
  softmax->name = "softmax";
  softmax->applicable = softmax_applicable;
  softmax->cost = softmax_cost;
  softmax->forward = softmax_forward;
  softmax->backward = softmax_backward;
  pairs->name = "pairs";
  pairs->applicable = pairs_applicable;
  pairs->cost = pairs_cost;
  pairs->forward = pairs_forward;
  pairs->backward = pairs_backward;
  d->engine[2] = engine_cuda_linear;
  return 3;
}
