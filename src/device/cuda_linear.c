/* The linear engine on a GPU and its state, a block of constant size. The kernels are
 * libattend-cuda's (device/cuda/linear_forms.cu); feature maps are those of attention/features.c,
 * uploaded.
 */
#include "device/crossing.h"
#include "device/cuda_device.h"

/* The variables of each monomial, in the order of feature_map: x_i times those of the degree below
 * whose first variable is i or later. */
static void list_variables(const feature_map *map, int dim, int degree, uint16_t *out) {
  for (size_t i = 0; i < (size_t)map->count * (size_t)degree; i++) out[i] = (uint16_t)dim;
  for (int i = 0; i < dim && degree >= 1; i++) out[(size_t)(1 + i) * (size_t)degree] = (uint16_t)i;
  for (int d = 2; d <= degree; d++)
    for (int i = 0; i < dim; i++) {
      const int32_t *below = map->start + (size_t)(d - 2) * (size_t)(dim + 1);
      for (int j = 0; j < below[dim] - below[i]; j++) {
        uint16_t *to = out + (size_t)(below[dim + 1 + i] + j) * (size_t)degree;
        memcpy(to, out + (size_t)(below[i] + j) * (size_t)degree, (size_t)degree * sizeof *to);
        to[d - 1] = (uint16_t)i;
      }
    }
}

static attend_status upload(attend_context *ctx, const void *from, size_t bytes, const void **to) {
  void *copy;
  ATTEND_TRY(ctx->device->alloc(ctx, bytes, "a feature map on the GPU", &copy));
  ctx->device->write(ctx, copy, from, bytes);
  *to = copy;
  return ATTEND_OK;
}

static attend_status upload_monomials(attend_context *ctx, const attend_desc *d,
                                      const feature_map *map, struct cuda_map *out) {
  const size_t bytes = SIZE_PRODUCT((size_t)map->count, (size_t)d->form.degree, sizeof(uint16_t));
  const void *coef = NULL, *list = NULL;
  uint16_t *variables;
  ATTEND_TRY(ctx_alloc(ctx, bytes, "a list of monomials", &variables));
  list_variables(map, d->dim, d->form.degree, variables);
  attend_status status = upload(ctx, variables, bytes, &list);
  ctx_free(ctx, variables);
  out->variables = list;
  if (!status) status = upload(ctx, map->coef, (size_t)map->count * sizeof(float), &coef);
  out->coef = coef;
  return status;
}

/* Rows of w without their padding. */
static attend_status upload_directions(attend_context *ctx, const attend_desc *d,
                                       const feature_map *map, struct cuda_map *out) {
  const size_t dim = (size_t)d->dim, ldk = round_up(dim, LANES), dirs = (size_t)map->dirs;
  const void *w = NULL;
  float *rows;
  ATTEND_TRY(ctx_alloc(ctx, SIZE_PRODUCT(dirs, dim, sizeof *rows), "directions", &rows));
  for (size_t r = 0; r < dirs; r++) memcpy(rows + r * dim, map->w + r * ldk, dim * sizeof *rows);
  attend_status status = upload(ctx, rows, dirs * dim * sizeof *rows, &w);
  ctx_free(ctx, rows);
  out->w = w;
  return status;
}

attend_status cuda_map_make(attend_context *ctx, const attend_desc *d, const feature_map *map,
                            struct cuda_map *out) {
  static const enum cuda_map_kind kinds[] = {[MAP_POLY] = CUDA_MAP_POLY,
                                             [MAP_ELU] = CUDA_MAP_ELU,
                                             [MAP_POSITIVE] = CUDA_MAP_POSITIVE,
                                             [MAP_TRIG] = CUDA_MAP_TRIG};
  *out = (struct cuda_map){.kind = kinds[map->kind],
                           .count = map->count,
                           .dirs = map->dirs,
                           .pairs = map->pairs,
                           .norm = map->norm,
                           .log_factor = map->log_factor,
                           .degree = d->form.degree};
  if (map->kind == MAP_POLY) return upload_monomials(ctx, d, map, out);
  return map->dirs ? upload_directions(ctx, d, map, out) : ATTEND_OK;
}

void cuda_map_free(const attend_context *ctx, struct cuda_map *map) {
  ctx->device->free(ctx, (void *)map->w);
  ctx->device->free(ctx, (void *)map->coef);
  ctx->device->free(ctx, (void *)map->variables);
  *map = (struct cuda_map){0};
}

/* ---- plans -------------------------------------------------------------------------- */

typedef struct {
  cuda_plan common;
  struct cuda_map map;
  uint64_t redraw; /* of the map's directions */
} plan_memory;

static const char *applicable(const attend_context *ctx, const attend_desc *d) {
  const char *refusal = device_of(ctx)->table->linear_refusal(cuda_lock(ctx), d);
  cuda_unlock(ctx);
  return refusal;
}

/* Sums are cheap where pairs are many; a state's constant size decides. */
static double cost(const attend_desc *d) {
  if (d->purpose & ATTEND_FOR_EXTEND) return engine_linear.cost(d);
  return flops_of_sums(d) * 1e-3;
}

static attend_status prepare(attend_plan *p) {
  ATTEND_TRY(cuda_plan_make(p, sizeof(plan_memory)));
  plan_memory *m = p->own_data;
  ATTEND_TRY(features_make(p->ctx, &p->desc, &p->map));
  m->redraw = p->desc.form.redraw;
  return cuda_map_make(p->ctx, &p->desc, &p->map, &m->map);
}

static void release(attend_plan *p) {
  plan_memory *m = p->own_data;
  if (!m) return;
  cuda_map_free(p->ctx, &m->map);
  cuda_plan_free(p);
  features_free(p->ctx, &p->map);
}

/* The host's, for observe. */
static void size(attend_plan *p) { engine_linear.size(p); }

/* ---- calls -------------------------------------------------------------------------- */

typedef struct { /* one sequence after the other, on the GPU */
  attend_state state;
  unsigned char *data;
  size_t bytes; /* of a sequence */
} gpu_state;

/* Directions that attend_plan_redraw has drawn. */
static attend_status renew_map(attend_plan *p) {
  plan_memory *m = p->own_data;
  if (m->redraw == p->desc.form.redraw) return ATTEND_OK;
  m->redraw = p->desc.form.redraw;
  cuda_map_free(p->ctx, &m->map);
  return cuda_map_make(p->ctx, &p->desc, &p->map, &m->map);
}

/* length: keys of a state before the call. */
static attend_status run_there(call *c, const int64_t *length, bool backward) {
  attend_context *ctx = c->plan->ctx;
  const struct cuda_table *t = device_of(ctx)->table;
  cuda_gpu *gpu = cuda_lock(ctx);
  attend_status status = renew_map(c->plan);
  struct cuda_linear_call a = {.call = cuda_attention_of(c),
                               .map = ((plan_memory *)c->plan->own_data)->map,
                               .state = c->state ? ((gpu_state *)c->state)->data : NULL,
                               .length = length};
  if (!status) status = cuda_plan_work(c->plan, t->linear_bytes(gpu, &a));
  a.call.work = cuda_plan_of(c->plan)->work;
  if (!status) (backward ? t->linear_backward : t->linear_forward)(gpu, &a);
  if (!status) status = cuda_check(ctx);
  cuda_unlock(ctx);
  return status;
}

static attend_status run(call *c, const int64_t *length, bool backward) {
  crossing x;
  crossing_of(c, c->state ? c->n : c->plan->desc.kv_len, TO_DEVICE, &x);
  attend_status status = crossing_go(&x);
  if (!status) status = run_there(c, length, backward);
  crossing_return(&x, status);
  return status;
}

static attend_status forward(call *c) {
  cuda_plan_reset_weak(c->plan);
  return run(c, NULL, false);
}
static attend_status backward(call *c) { return run(c, NULL, true); }

/* Weights are computed on the host. */
static attend_status observe(call *c) {
  crossing x;
  crossing_of(c, c->plan->desc.kv_len, TO_HOST, &x);
  attend_status status = crossing_go(&x);
  if (!status) status = engine_linear.observe(c);
  plan_wait(c->plan);
  crossing_return(&x, status);
  return status;
}

/* ---- the state ---------------------------------------------------------------------- */

static gpu_state *state_of(const attend_state *s) { return (gpu_state *)s; }

static size_t bytes(const attend_state *s) {
  return size_times(state_of(s)->bytes, (size_t)s->batch);
}

static attend_status make(attend_context *ctx, const attend_desc *desc, attend_state **out) {
  gpu_state *s;
  ATTEND_TRY(state_make(ctx, desc, sizeof *s, &s));
  s->bytes = device_of(ctx)->table->linear_state_bytes(cuda_lock(ctx), desc);
  cuda_unlock(ctx);
  attend_status status = cache_take(ctx, bytes(&s->state), "a linear state");
  if (!status) {
    status = device_alloc(ctx, bytes(&s->state), "a linear state", &s->data);
    if (status) cache_give(ctx, bytes(&s->state));
  }
  if (status)
    ctx_free(ctx, s);
  else
    *out = &s->state;
  return status;
}

static void free_state(attend_state *s) {
  cache_give(s->ctx, bytes(s));
  device_free(s->ctx, state_of(s)->data);
}

static unsigned char *sequence_at(const attend_state *s, int b) {
  return state_of(s)->data + state_of(s)->bytes * (size_t)b;
}

static attend_status copy(const attend_state *from, int b, attend_state *to, int to_b) {
  attend_context *ctx = to->ctx;
  cuda_gpu *gpu = cuda_lock(ctx);
  device_of(ctx)->table->wait(gpu); /* what a recording holds back comes before the copy */
  device_of(ctx)->table->copy_now(gpu, sequence_at(to, to_b), sequence_at(from, b),
                                  state_of(from)->bytes);
  cuda_unlock(ctx);
  to->length[to_b] = from->length[b];
  return cuda_check(ctx);
}

/* Sums cannot be shared. */
static attend_status reorder(attend_state *s, const int32_t *parents) {
  attend_state *old;
  attend_status status = ATTEND_OK;
  ATTEND_TRY(attend_state_fork(s, &old));
  for (int b = 0; b < s->batch && !status; b++)
    if (parents[b] != b) status = copy(old, parents[b], s, b);
  attend_state_free(old);
  return status;
}

static int64_t summed_keys(int64_t length) {
  return length ? (length - 1) / ATTEND_PAGE * ATTEND_PAGE : 0;
}

static attend_status truncate_to(attend_state *s, int b, int64_t length) {
  const int64_t summed = summed_keys(s->length[b]);
  ATTEND_CHECK(s->ctx, length == 0 || length > summed,
               "a linear state holds sums, from which no key can be removed: "
               "sequence %d can be truncated to 0 or to %lld and more, not to "
               "%lld; fork the state before the keys that may be removed",
               b, (long long)summed + 1, (long long)length);
  s->length[b] = length;
  return ATTEND_OK;
}

static attend_status add_keys(call *c, attend_state *s) {
  attend_status status;
  for (int b = 0; b < s->batch; b++) s->before[b] = s->length[b];
  cuda_plan_reset_weak(c->plan);
  status = run(c, s->before, false);
  for (int b = 0; b < s->batch && !status; b++) s->length[b] += new_keys(c->plan, b, c->n);
  return status;
}

static attend_status query(call *c, attend_state *s) {
  const bool causal = c->plan->desc.mask.causal != ATTEND_NOT_CAUSAL;
  for (int b = 0; b < s->batch; b++) {
    const int64_t summed = summed_keys(s->length[b]);
    const int queries = new_keys(c->plan, b, c->n);
    ATTEND_CHECK(c->plan->ctx, !causal || queries == 0 || c->before[b] >= summed,
                 "a linear state holds sums: the last %lld positions of sequence %d can still be "
                 "queried, not %d; query in attend_extend, or without a causal mask",
                 (long long)(s->length[b] - summed), b, queries);
  }
  cuda_plan_reset_weak(c->plan);
  return run(c, s->length, false);
}

/* In files: its bytes, after their number, which a state of the CPU does not have there. */
static attend_status put(attend_draft *f, const attend_state *s, int b) {
  const size_t n = state_of(s)->bytes;
  void *host;
  ATTEND_TRY(ctx_alloc(s->ctx, n, "a linear state", &host));
  s->ctx->device->read(s->ctx, host, sequence_at(s, b), n);
  attend_status status = state_put_number(f, (int64_t)n);
  if (!status) status = attend_draft_put(f, host, n);
  ctx_free(s->ctx, host);
  return status;
}

static attend_status get(state_reader *f, attend_state *s, int b, int64_t length) {
  const size_t n = state_of(s)->bytes;
  int64_t given;
  void *host;
  (void)length;
  ATTEND_TRY(state_get_number(f, (int64_t)n, (int64_t)n, "size of a GPU's linear state", &given));
  ATTEND_TRY(ctx_alloc(s->ctx, n, "a linear state", &host));
  attend_status status = state_get(f, host, n);
  if (!status) s->ctx->device->write(s->ctx, sequence_at(s, b), host, n);
  ctx_free(s->ctx, host);
  return status;
}

static const state_kind state_cuda_linear = {
    .make = make,
    .free = free_state,
    .copy = copy,
    .reorder = reorder,
    .truncate = truncate_to,
    .bytes = bytes,
    .append = add_keys,
    .extend = add_keys,
    .query = query,
    .put = put,
    .get = get,
};

const attend_engine engine_cuda_linear = {
    .name = "linear",
    .states = &state_cuda_linear,
    .by_sums = true,
    .applicable = applicable,
    .cost = cost,
    .prepare = prepare,
    .release = release,
    .size = size,
    .forward = forward,
    .backward = backward,
    .observe = observe,
    .weak_rows = cuda_plan_weak_rows,
};
