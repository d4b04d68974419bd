/* Hooks: the caller's functions that read or edit tensors during a forward or
 * backward pass (attend/hooks.h has the points).
 *
 * Called by transformer.c, session.c and session_logits.c. Without hooks nothing here runs.
 *
 * Callers see f32 in host memory: the tensor itself where device memory is host memory, else
 * a copy that is written back after an edit. Attention rows (the pattern) are
 * recomputed from queries and keys. A KV cache has the keys; a linear state has only
 * sums, so while a hook reads its rows, a KV cache is kept beside it from the first
 * token on.
 */
#include "base/options.h"
#include "model/transformer.h"

#include <string.h>

#include "attention/state.h"
#include "base/parallel.h"

/* ---- the list -------------------------------------------------------------------- */

void hooks_free(const attend_context *ctx, hooks *h) {
  ctx_free(ctx, h->list);
  ctx_free(ctx, h->layers);
  ctx_free(ctx, h->stage);
  *h = (hooks){0};
}

static attend_status check_hook(attend_context *ctx, int i, const attend_hook *x) {
  const unsigned none = ATTEND_AT_DENOMINATOR | ATTEND_AT_ENTROPY;
  ATTEND_CHECK(ctx, x->read || x->edit || x->read_gradient,
               "hook %d neither reads nor edits: give it a function", i);
  ATTEND_CHECK(ctx, !x->read_gradient || !(x->points & none),
               "hook %d reads gradients of denominators or entropies, which are not computed", i);
  ATTEND_CHECK(ctx, x->points && !(x->points >> ATTEND_POINTS),
               "hook %d has points %#x: choose some of attend_point", i, x->points);
  ATTEND_CHECK(ctx, !x->edit || !(x->points & ATTEND_AT_ENTROPY),
               "hook %d edits entropies, which nothing is computed from: edit the pattern", i);
  ATTEND_CHECK(ctx, x->n_layers >= 0 && (x->layers || !x->n_layers),
               "hook %d has a list of %d layers that is NULL", i, x->n_layers);
  return ATTEND_OK;
}

/* The caller's hooks are as far apart as the first one is large. */
static attend_status read_hooks(attend_context *ctx, hooks *x, const attend_hook *list) {
  size_t layers = 0;
  for (int i = 0; i < x->n; i++) {
    attend_hook *own = &x->list[i];
    ATTEND_TRY(OPTIONS_READ(ctx, attend_hook, (const char *)list + (size_t)i * list->size, own));
    ATTEND_TRY(check_hook(ctx, i, own));
    layers += (size_t)own->n_layers;
    x->points |= own->points;
    if (own->edit) x->edits |= own->points;
    if (own->edit_gradient || own->read_gradient) x->gradients |= own->points;
  }
  ATTEND_TRY(ctx_alloc(ctx, size_times(layers, sizeof *x->layers), "hooks", &x->layers));
  int *to = x->layers;
  for (int i = 0; i < x->n; i++) {
    attend_hook *own = &x->list[i];
    if (own->n_layers) memcpy(to, own->layers, (size_t)own->n_layers * sizeof *to);
    own->layers = own->n_layers ? to : NULL;
    to += own->n_layers;
  }
  return ATTEND_OK;
}

attend_status hooks_set(attend_context *ctx, hooks *h, int n, const attend_hook *list) {
  hooks x = {.n = n};
  ATTEND_CHECK(ctx, n >= 0 && (list || !n), "%d hooks in a list that is NULL", n);
  if (!n) { /* removing them needs no memory and cannot fail */
    hooks_free(ctx, h);
    return ATTEND_OK;
  }
  ATTEND_TRY(ctx_alloc(ctx, size_times((size_t)n, sizeof *x.list), "hooks", &x.list));
  attend_status status = read_hooks(ctx, &x, list);
  if (status) {
    hooks_free(ctx, &x);
    return status;
  }
  hooks_free(ctx, h);
  *h = x;
  return ATTEND_OK;
}

static bool stands_at(const attend_hook *x, const attend_hooked *at) {
  if (!(x->points & at->point)) return false;
  if (x->roles && !(x->roles & 1u << at->role)) return false;
  for (int i = 0; i < x->n_layers; i++)
    if (x->layers[i] == at->layer) return true;
  return !x->n_layers;
}

static unsigned hooks_asked(const pass *p, const attend_hooked *at) {
  unsigned what = 0;
  if (!p->hooks || !(p->hooks->points & at->point)) return 0;
  for (int i = 0; i < p->hooks->n; i++) {
    const attend_hook *x = &p->hooks->list[i];
    if (!stands_at(x, at)) continue;
    what |= (x->read && !p->again ? HOOK_READS : 0u) | (x->edit ? HOOK_EDITS : 0u) |
            ((x->edit && x->edit_gradient) || x->read_gradient ? HOOK_GRADIENTS : 0u);
  }
  return what;
}

bool hooks_edit(const hooks *h, unsigned points) { return h && h->edits & points; }
bool hooks_have_gradients(const hooks *h, unsigned points) { return h && h->gradients & points; }

/* ---- calling them ---------------------------------------------------------------- */

/* Floats from the tensor's first element to its last. */
static size_t extent(const attend_hooked *at) {
  ptrdiff_t last = 0;
  for (int i = 0; i < 4; i++) {
    if (at->shape[i] < 1) return 0;
    last += (at->shape[i] - 1) * at->view.stride[i];
  }
  return (size_t)last + 1;
}

static attend_status reserve_stage(const pass *p, size_t bytes) {
  hooks *h = p->hooks;
  if (bytes <= h->stage_bytes) return ATTEND_OK;
  ctx_free(p->ctx, h->stage);
  h->stage = NULL;
  h->stage_bytes = 0;
  ATTEND_TRY(ctx_alloc(p->ctx, bytes, "a tensor that is hooked", &h->stage));
  h->stage_bytes = bytes;
  return ATTEND_OK;
}

/* The host's view of it, in f32; behind it in the stage, a tensor of another type as it is. */
static attend_status read_hooked(const pass *p, const attend_hooked *at, attend_dtype type,
                                 bool on_host, float **data) {
  const size_t n = extent(at), size = attend_dtype_size(type);
  *data = (float *)at->view.data;
  if (on_host && !type) return ATTEND_OK;
  ATTEND_TRY(reserve_stage(p, n * (sizeof **data + (type ? size : 0))));
  *data = p->hooks->stage;
  void *as_it_is = type ? *data + n : *data;
  p->ctx->device->read(p->ctx, as_it_is, at->view.data, n * size);
  if (type) attend_convert_to_f32(type, as_it_is, n, *data);
  return ATTEND_OK;
}

static void put_back(const pass *p, const attend_hooked *at, attend_dtype type, float *data) {
  const size_t n = extent(at);
  if (data == at->view.data) return;
  void *as_it_is = type ? data + n : data;
  if (type) attend_convert_from_f32(type, data, n, as_it_is);
  p->ctx->device->write(p->ctx, (void *)at->view.data, as_it_is, n * attend_dtype_size(type));
}

static void call_all(const pass *p, const attend_hooked *at, unsigned which, float *data) {
  attend_hooked t = *at;
  t.view.data = data;
  for (int i = 0; i < p->hooks->n; i++) {
    const attend_hook *x = &p->hooks->list[i];
    if (!stands_at(x, at)) continue;
    if (which & HOOK_READS && x->read) x->read(&t, x->user);
    if (which & HOOK_EDITS && x->edit) x->edit(&t, data, x->user);
    if (which & HOOK_GRADIENTS && x->read_gradient) x->read_gradient(&t, x->user);
    if (which & HOOK_GRADIENTS && x->edit && x->edit_gradient) x->edit_gradient(&t, data, x->user);
  }
}

attend_status hook_at(const pass *p, const attend_hooked *at, unsigned which) {
  const bool on_host = p->ctx->device->host || which & HOOK_ON_HOST;
  const attend_dtype type = which & HOOK_TYPED ? p->type : ATTEND_F32;
  float *data;
  which &= hooks_asked(p, at);
  if (!which) return ATTEND_OK;
  int depth = stream_suspend(&p->ctx->stream); /* everything queued before has run */
  attend_status status = read_hooked(p, at, type, on_host, &data);
  if (!status) call_all(p, at, which, data);
  if (!status && which & ~(unsigned)HOOK_READS) put_back(p, at, type, data);
  stream_resume(&p->ctx->stream, depth);
  return status;
}

attend_status hook_stream(const pass *p, attend_point point, int layer, void *x, unsigned which) {
  const int width = p->side->shape->width, ld = padded(width);
  if (!p->hooks) return ATTEND_OK;
  attend_hooked at = {.point = point,
                      .role = self_role(p),
                      .layer = layer,
                      .shape = {p->count, 1, p->n, width},
                      .lengths = p->lengths,
                      .first = p->session ? p->session->before : NULL,
                      .view = {x, {(ptrdiff_t)p->n * ld, 0, ld, 1}}};
  return hook_at(p, &at, which);
}

/* ---- stopping -------------------------------------------------------------------- */

attend_status hook_stop(attend_session *r) {
  if (!r->stop) return ATTEND_OK;
  int depth = stream_suspend(&r->ctx->stream); /* the layers before have run */
  bool stop = r->stop(r->stop_user);
  stream_resume(&r->ctx->stream, depth);
  if (!stop) return ATTEND_OK;
  return fail(r->ctx, ATTEND_STOPPED, "stopped before it was done");
}

/* ---- how much it would be -------------------------------------------------------- */

/* Of attention between T queries and S keys. */
static double attention_floats(const attend_stack *s, unsigned points, double T, double S) {
  double H = s->heads, G = s->kv_heads, sum = 0;
  if (points & ATTEND_AT_QUERY) sum += H * T * s->dim;
  if (points & ATTEND_AT_KEY) sum += G * S * s->dim;
  if (points & ATTEND_AT_VALUE) sum += G * S * s->dim_v;
  if (points & ATTEND_AT_HEAD_OUTPUT) sum += H * T * s->dim_v;
  if (points & ATTEND_AT_PATTERN) sum += H * T * S;
  if (points & ATTEND_AT_DENOMINATOR) sum += H * T;
  if (points & ATTEND_AT_ENTROPY) sum += H * T;
  return sum * s->layers;
}

static double side_floats(const attend_stack *s, unsigned points, double T) {
  double rows = 0;
  if (points & ATTEND_AT_RESIDUAL) rows += T * (s->layers + 1);
  if (points & ATTEND_AT_RESIDUAL_MIDDLE) rows += T * s->layers;
  if (points & ATTEND_AT_MLP) rows += T * s->layers;
  return attention_floats(s, points, T, T) + rows * s->width;
}

/* In double, which cannot overflow here; SIZE_MAX if it does not fit a size. */
size_t attend_model_trace_bytes(const attend_model *m, unsigned points, int64_t encoder,
                                int64_t decoder) {
  const attend_config *c = &m->config;
  double S = (double)encoder, T = (double)decoder, floats = 0;
  if (c->encoder.layers) floats += side_floats(&c->encoder, points, S);
  if (c->decoder.layers) floats += side_floats(&c->decoder, points, T);
  if (c->parts == ATTEND_BOTH) floats += attention_floats(&c->decoder, points, T, S);
  if (points & ATTEND_AT_LOGITS) floats += (c->decoder.layers ? T : S) * c->vocab;
  if (floats >= 0x1p63) return SIZE_MAX;
  return size_times(floats > 0 ? (size_t)floats : 0, sizeof(float));
}

/* ---- at attention ---------------------------------------------------------------- */

/* [count, heads, n, width]; a view without strides is contiguous. */
static attend_hooked place_of(const pass *p, const layer_attention *m, attend_point point,
                              int heads, int n, int width, attend_view view) {
  attend_hooked at = {.point = point,
                      .role = m->role,
                      .layer = m->layer,
                      .shape = {p->count, heads, n, width},
                      .lengths = p->lengths,
                      .first = p->session ? p->session->before : NULL};
  view = view_complete(view, heads, n, width);
  at.view.data = view.data;
  memcpy(at.view.stride, view.stride, sizeof view.stride);
  return at;
}

/* The hooks at queries, keys, values and outputs of heads, which have the pass's type. */
static attend_status hook_view(const pass *p, const attend_hooked *at, unsigned which) {
  return hook_at(p, at, which | HOOK_TYPED);
}

static unsigned hooked_at(const pass *p, const layer_attention *m, attend_point point) {
  attend_hooked at = place_of(p, m, point, 0, 0, 0, (attend_view){0});
  return hooks_asked(p, &at);
}

/* ---- keys beside linear states --------------------------------------------------- */

static int cache_kind(const layer_attention *m) { return m->role == ATTEND_CROSS; }

static bool keeps_keys(const pass *p, const layer_attention *m) {
  if (!m->state || attend_state_has_keys(m->state)) return false;
  return hooked_at(p, m, ATTEND_AT_PATTERN) || hooked_at(p, m, ATTEND_AT_ENTROPY);
}

static attend_status open_cache(const pass *p, const layer_attention *m) {
  attend_session *r = p->session;
  const int kind = cache_kind(m);
  attend_desc d = *attend_plan_desc(m->plan);
  d.engine = "definition"; /* any form, by its keys */
  if (!r->cache_plan[kind]) ATTEND_TRY(attend_plan_create(p->ctx, &d, &r->cache_plan[kind]));
  if (!r->caches[kind])
    ATTEND_TRY(states_make(p->ctx, NULL, r->model->config.decoder.layers, "keys that are hooked",
                           &r->caches[kind]));
  attend_state **state = &r->caches[kind][m->layer];
  return *state ? ATTEND_OK : attend_state_create(r->cache_plan[kind], state);
}

attend_status hook_keep(const pass *p, const layer_attention *m, int n, const int32_t *lengths,
                        attend_view k, attend_view v) {
  const int kind = cache_kind(m);
  if (!p->hooks || !keeps_keys(p, m)) return ATTEND_OK;
  ATTEND_TRY(open_cache(p, m));
  attend_plan *plan = p->session->cache_plan[kind];
  attend_plan_set_padding(plan, lengths, NULL);
  return attend_state_append(plan, p->session->caches[kind][m->layer], n, k, v);
}

/* The plan and state to observe: the pass's own, or the KV cache beside it. */
static attend_status observed(const pass *p, const layer_attention *m, layer_attention *by) {
  *by = *m;
  if (!m->state || attend_state_has_keys(m->state)) return ATTEND_OK;
  attend_session *r = p->session;
  const int kind = cache_kind(m);
  by->state = r->caches[kind] ? r->caches[kind][m->layer] : NULL;
  by->plan = r->cache_plan[kind];
  for (int b = 0; b < p->count; b++)
    ATTEND_CHECK(p->ctx,
                 by->state && attend_state_length(by->state, b) == attend_state_length(m->state, b),
                 "a linear form keeps no keys: hook its attention from the first token on");
  attend_plan_set_padding(by->plan, p->lengths, NULL);
  return ATTEND_OK;
}

static attend_status observe_rows(const pass *p, const layer_attention *by,
                                  const attention_tensors *t, const float *lse,
                                  const attend_observation *what) {
  if (!by->state) return attend_observe(by->plan, t->q, t->k, lse, what);
  return attend_state_observe(by->plan, by->state, p->n, t->q, lse, what);
}

attend_status caches_reorder(attend_session *r, const int32_t *parents) {
  for (int i = 0; i < 2 * r->model->config.decoder.layers; i++) {
    attend_state **of = r->caches[i % 2];
    if (of && of[i / 2]) ATTEND_TRY(attend_state_reorder(of[i / 2], parents));
  }
  return ATTEND_OK;
}

void caches_truncate(attend_session *r, int b, int64_t length) {
  for (int i = 0; r->caches[0] && i < r->model->config.decoder.layers; i++)
    if (r->caches[0][i] && attend_state_length(r->caches[0][i], b) > length)
      attend_state_truncate(r->caches[0][i], b, length);
}

void caches_free(attend_session *r) {
  for (int kind = 0; kind < 2; kind++) {
    attend_plan_free(r->cache_plan[kind]);
    states_free(r->ctx, r->model->config.decoder.layers, r->caches[kind]);
    r->cache_plan[kind] = NULL;
    r->caches[kind] = NULL;
  }
}

/* ---- attention rows -------------------------------------------------------------- */

/* The rows of one layer's attention, as numbers. */
typedef struct {
  const pass *p;
  layer_attention by; /* plan and state to observe */
  const attend_desc *d;
  int keys;           /* of the longest sequence */
  float *weights;     /* [batch, H, n, keys] */
  attend_view values; /* [batch, G, keys, M], or none */
  blocks memory;
} pattern;

static void pattern_free(pattern *x) {
  stream_wait(&x->p->ctx->stream);
  blocks_free(x->p->ctx, &x->memory);
}

static attend_status take_weights(pattern *x, float **weights) {
  return blocks_add(x->p->ctx, &x->memory, ON_DEVICE,
                    SIZE_PRODUCT((size_t)x->d->batch, (size_t)x->d->heads, (size_t)x->p->n,
                                 (size_t)x->keys, sizeof **weights),
                    "attention that is hooked", weights);
}

/* Must be freed, whatever the status. */
static attend_status pattern_make(pattern *x, const layer_attention *m, const attention_tensors *t,
                                  const float *lse) {
  const pass *p = x->p;
  int32_t *rows;
  x->d = attend_plan_desc(m->plan);
  ATTEND_TRY(observed(p, m, &x->by));
  x->keys = m->role == ATTEND_CROSS ? p->encoded_n : p->n;
  if (m->state) x->keys = 0;
  for (int b = 0; m->state && b < p->session->batch; b++)
    x->keys = (int)max64(x->keys, attend_state_length(m->state, b));
  ATTEND_TRY(blocks_add(p->ctx, &x->memory, ON_HOST, size_times((size_t)p->n, sizeof *rows),
                        "attention that is hooked", &rows));
  for (int i = 0; i < p->n; i++) rows[i] = i;
  ATTEND_TRY(take_weights(x, &x->weights));
  attend_observation all = {ATTEND_INIT(attend_observation), .rows = rows, .n_rows = p->n,
                            .weights = x->weights};
  return observe_rows(p, &x->by, t, lse, &all);
}

/* Ops on patterns are in f32: heads side by side, of n rows a sequence, as they are or copied. */
typedef struct {
  int heads, n, width;
} view_shape;

static matrix rows_of(attend_view v, attend_dtype type) {
  return (matrix){(void *)v.data, (int)v.stride[2], type};
}

static attend_status copy_view(const pass *p, blocks *memory, view_shape s, attend_view from,
                               attend_view *to) {
  const int width = s.heads * s.width, rows = p->count * s.n;
  float *copy;
  *to = from;
  if (!p->type) return ATTEND_OK;
  ATTEND_TRY(blocks_add(p->ctx, memory, ON_DEVICE,
                        SIZE_PRODUCT((size_t)rows, (size_t)width, sizeof *copy),
                        "attention that is hooked", &copy));
  *to = heads_at(copy, s.n, width, s.width);
  copy_rows_to(p, rows, width, rows_of(from, p->type), rows_of(*to, ATTEND_F32));
  return ATTEND_OK;
}

/* What an op wrote into a copy, to where it is from. */
static void return_view(const pass *p, view_shape s, attend_view copy, attend_view to) {
  if (copy.data != to.data)
    copy_rows_to(p, p->count * s.n, s.heads * s.width, rows_of(copy, ATTEND_F32),
                 rows_of(to, p->type));
}

static view_shape query_shape(const pattern *x, int width) {
  return (view_shape){x->d->heads, x->p->n, width};
}
static view_shape key_shape(const pattern *x, int width) {
  return (view_shape){x->d->kv_heads, x->keys, width};
}

static attend_hooked pattern_place(const pattern *x, float *weights) {
  return place_of(x->p, &x->by, ATTEND_AT_PATTERN, x->d->heads, x->p->n, x->keys,
                  (attend_view){.data = weights});
}

/* The values of all keys, in place or copied from a cache. */
static attend_status pattern_values(pattern *x, attend_view v) {
  const pass *p = x->p;
  const attend_state *s = x->by.state;
  const size_t width = (size_t)x->d->kv_heads * (size_t)x->d->dim_v;
  const size_t stride = (size_t)x->keys * width;
  float *copies;
  if (!s) return copy_view(p, &x->memory, key_shape(x, x->d->dim_v), v, &x->values);
  ATTEND_TRY(blocks_add(p->ctx, &x->memory, ON_DEVICE,
                        SIZE_PRODUCT((size_t)p->count, stride, sizeof *copies),
                        "values that are hooked", &copies));
  for (int b = 0; b < p->count; b++)
    ATTEND_TRY(s->kind->values(s, b, attend_state_length(s, b), copies + (size_t)b * stride));
  x->values = (attend_view){copies, {(ptrdiff_t)stride, x->d->dim_v, (ptrdiff_t)width, 1}};
  return ATTEND_OK;
}

static struct op_pattern pattern_op(const pattern *x, attend_view o) {
  return (struct op_pattern){.batch = x->p->count,
                             .heads = x->d->heads,
                             .kv_heads = x->d->kv_heads,
                             .n = x->p->n,
                             .keys = x->keys,
                             .width = x->d->dim_v,
                             .weights = x->weights,
                             .v = x->values,
                             .o = o};
}

static attend_status call_pattern(pattern *x, const attention_tensors *t, unsigned which) {
  attend_hooked at = pattern_place(x, x->weights);
  ATTEND_TRY(hook_at(x->p, &at, which));
  if (!(which & HOOK_EDITS)) return ATTEND_OK;
  const view_shape outputs = query_shape(x, x->d->dim_v);
  attend_view o;
  ATTEND_TRY(pattern_values(x, t->v));
  ATTEND_TRY(copy_view(x->p, &x->memory, outputs, t->heads, &o));
  struct op_pattern op = pattern_op(x, o);
  x->p->ctx->device->pattern(x->p->ctx, &op);
  return_view(x->p, outputs, o, t->heads);
  return ATTEND_OK;
}

static attend_status hook_pattern(const pass *p, const layer_attention *m,
                                  const attention_tensors *t, const float *lse) {
  pattern x = {.p = p};
  unsigned which = hooked_at(p, m, ATTEND_AT_PATTERN) & HOOK_FORWARD;
  if (!which) return ATTEND_OK;
  attend_status status = pattern_make(&x, m, t, lse);
  if (!status) status = call_pattern(&x, t, which);
  pattern_free(&x);
  return status;
}

/* ---- denominators and entropies -------------------------------------------------- */

/* One number for each query of each head: [B,H,n,1]. */
static attend_hooked row_place(const pass *p, const layer_attention *m, attend_point point,
                               float *numbers) {
  return place_of(p, m, point, attend_plan_desc(m->plan)->heads, p->n, 1,
                  (attend_view){.data = numbers});
}

static attend_status hook_entropy(const pass *p, const layer_attention *m,
                                  const attention_tensors *t, const float *lse) {
  const attend_desc *d = attend_plan_desc(m->plan);
  float *entropy;
  layer_attention by;
  if (!hooked_at(p, m, ATTEND_AT_ENTROPY)) return ATTEND_OK;
  ATTEND_TRY(observed(p, m, &by));
  ATTEND_TRY(device_alloc(
      p->ctx, SIZE_PRODUCT((size_t)d->batch, (size_t)d->heads, (size_t)p->n, sizeof *entropy),
      "entropy that is hooked", &entropy));
  attend_observation what = {ATTEND_INIT(attend_observation), .entropy = entropy};
  attend_hooked at = row_place(p, m, ATTEND_AT_ENTROPY, entropy);
  attend_status status = observe_rows(p, &by, t, lse, &what);
  if (!status) status = hook_at(p, &at, HOOK_FORWARD);
  device_free(p->ctx, entropy);
  return status;
}

/* Recomputes `heads` from edited denominators, in a copy. In backward nothing is read again. */
static attend_status hook_denominator(const pass *p, const layer_attention *m, attend_view heads,
                                      const float *lse, unsigned which) {
  const attend_desc *d = attend_plan_desc(m->plan);
  attend_hooked at = row_place(p, m, ATTEND_AT_DENOMINATOR, (float *)lse);
  const view_shape outputs = {d->heads, p->n, d->dim_v};
  const int all = p->count * d->heads * p->n;
  blocks memory = NULL;
  float *edited;
  attend_view o;
  if (!(which & hooks_asked(p, &at) & HOOK_EDITS)) return hook_at(p, &at, which);
  attend_status status = blocks_add(p->ctx, &memory, ON_DEVICE, (size_t)all * sizeof *edited,
                                    "denominators that are hooked", &edited);
  if (!status) status = copy_view(p, &memory, outputs, heads, &o);
  if (!status) {
    OP(p->ctx, gather, .rows = 1, .width = all, .factor = 1, .x = lse, .ldx = all, .y = edited,
       .ldy = all);
    at.view.data = edited;
    status = hook_at(p, &at, which);
  }
  if (!status) {
    OP(p->ctx, divide, .batch = p->count, .heads = d->heads, .n = p->n, .width = d->dim_v,
       .before = lse, .after = edited, .o = o);
    return_view(p, outputs, o, heads);
  }
  stream_wait(&p->ctx->stream);
  blocks_free(p->ctx, &memory);
  return status;
}

/* ---- a layer's attention --------------------------------------------------------- */

attend_status hook_keys(const pass *p, const layer_attention *m, int n, const int32_t *lengths,
                        attend_view k, attend_view v, unsigned which) {
  const attend_desc *d = attend_plan_desc(m->plan);
  if (!p->hooks) return ATTEND_OK;
  attend_hooked at = place_of(p, m, ATTEND_AT_KEY, d->kv_heads, n, d->dim, k);
  at.lengths = lengths;
  ATTEND_TRY(hook_view(p, &at, which));
  at = place_of(p, m, ATTEND_AT_VALUE, d->kv_heads, n, d->dim_v, v);
  at.lengths = lengths;
  return hook_view(p, &at, which);
}

attend_status hook_before_attention(const pass *p, const layer_attention *m,
                                    const attention_tensors *t, unsigned which) {
  const attend_desc *d = attend_plan_desc(m->plan);
  attend_hooked at = place_of(p, m, ATTEND_AT_QUERY, d->heads, p->n, d->dim, t->q);
  ATTEND_TRY(hook_view(p, &at, which));
  if (m->role != ATTEND_CROSS) return hook_keys(p, m, p->n, p->lengths, t->k, t->v, which);
  if (m->state) return ATTEND_OK; /* hooked when they were appended */
  return hook_keys(p, m, p->encoded_n, p->encoded_lengths, t->k, t->v, which);
}

static attend_status hook_heads(const pass *p, const layer_attention *m, attend_view heads,
                                unsigned which) {
  const attend_desc *d = attend_plan_desc(m->plan);
  attend_hooked at = place_of(p, m, ATTEND_AT_HEAD_OUTPUT, d->heads, p->n, d->dim_v, heads);
  return hook_view(p, &at, which);
}

attend_status hook_after_attention(const pass *p, const layer_attention *m,
                                   const attention_tensors *t, const float *lse) {
  stream_wait(&p->ctx->stream);
  if (m->state && m->role == ATTEND_DECODER_SELF)
    ATTEND_TRY(hook_keep(p, m, p->n, p->lengths, t->k, t->v));
  ATTEND_TRY(hook_pattern(p, m, t, lse));
  ATTEND_TRY(hook_entropy(p, m, t, lse));
  ATTEND_TRY(hook_denominator(p, m, t->heads, lse, HOOK_FORWARD));
  return hook_heads(p, m, t->heads, HOOK_FORWARD);
}

static attend_status copy_tensors(pattern *x, const attention_tensors *from,
                                  attention_tensors *to) {
  const pass *p = x->p;
  const int dim = x->d->dim, dim_v = x->d->dim_v;
  *to = *from;
  ATTEND_TRY(copy_view(p, &x->memory, query_shape(x, dim), from->q, &to->q));
  ATTEND_TRY(copy_view(p, &x->memory, key_shape(x, dim), from->k, &to->k));
  ATTEND_TRY(copy_view(p, &x->memory, key_shape(x, dim_v), from->v, &to->v));
  return copy_view(p, &x->memory, query_shape(x, dim_v), from->o, &to->o);
}

/* Gradients of attention whose rows were edited: from the edited rows. */
static attend_status back_from(pattern *x, const attention_tensors *t, const attention_tensors *g) {
  const pass *p = x->p;
  const int rows = p->count * x->d->heads * p->n;
  float *edited, *d_weights;
  ATTEND_TRY(take_weights(x, &edited));
  ATTEND_TRY(take_weights(x, &d_weights));
  OP(p->ctx, gather, .rows = rows, .width = x->keys, .factor = 1, .x = x->weights, .ldx = x->keys,
     .y = edited, .ldy = x->keys);
  attend_hooked at = pattern_place(x, edited);
  ATTEND_TRY(hook_at(p, &at, HOOK_EDITS));
  attention_tensors f, d;
  ATTEND_TRY(copy_tensors(x, t, &f));
  ATTEND_TRY(copy_tensors(x, g, &d));
  x->values = f.v;
  struct op_pattern op = pattern_op(x, d.o);
  op.weights = edited;
  op.d_weights = d_weights;
  OP(p->ctx, pattern_grad, .p = op);
  at = pattern_place(x, d_weights);
  ATTEND_TRY(hook_at(p, &at, HOOK_GRADIENTS));
  OP(p->ctx, pattern_backward, .p = op, .dim = x->d->dim, .scale = x->d->scale,
     .before = x->weights, .q = f.q, .k = f.k, .dq = d.q, .dk = d.k, .dv = d.v);
  return_view(p, query_shape(x, x->d->dim), d.q, g->q);
  return_view(p, key_shape(x, x->d->dim), d.k, g->k);
  return_view(p, key_shape(x, x->d->dim_v), d.v, g->v);
  return ATTEND_OK;
}

static attend_status pattern_backward(const pass *p, const layer_attention *m,
                                      const attention_tensors *t, const attention_tensors *g,
                                      const float *lse) {
  const attend_desc *d = attend_plan_desc(m->plan);
  pattern x = {.p = p};
  ATTEND_CHECK(p->ctx, d->form.kind == ATTEND_SOFTMAX && !d->bias.kind && !d->soft_cap,
               "gradients through edited attention rows are those of plain "
               "softmax: train other forms without such hooks");
  attend_status status = pattern_make(&x, m, t, lse);
  if (!status) status = back_from(&x, t, g);
  pattern_free(&x);
  return status;
}

/* The gradient of attention rows that are not edited, for hooks that read it. */
static attend_status pattern_gradient(const pass *p, const layer_attention *m,
                                      const attention_tensors *t, const attention_tensors *g,
                                      const float *lse) {
  pattern x = {.p = p};
  float *d_weights = NULL;
  attend_status status = pattern_make(&x, m, t, lse);
  attend_view d_o;
  if (!status) status = take_weights(&x, &d_weights);
  if (!status) status = pattern_values(&x, t->v);
  if (!status) status = copy_view(p, &x.memory, query_shape(&x, x.d->dim_v), g->o, &d_o);
  if (!status) {
    struct op_pattern op = pattern_op(&x, d_o);
    op.d_weights = d_weights;
    OP(p->ctx, pattern_grad, .p = op);
    attend_hooked at = pattern_place(&x, d_weights);
    status = hook_at(p, &at, HOOK_GRADIENTS);
  }
  pattern_free(&x);
  return status;
}

attend_status hook_attention_backward(const pass *p, const layer_attention *m,
                                      const attention_tensors *t, const attention_tensors *g,
                                      const float *lse, float *d_bias) {
  ATTEND_TRY(hook_heads(p, m, g->o, HOOK_GRADIENTS));
  if (p->direct) return ATTEND_OK;
  ATTEND_TRY(hook_denominator(p, m, g->o, lse, HOOK_EDITS));
  const unsigned at_pattern = hooked_at(p, m, ATTEND_AT_PATTERN);
  if ((at_pattern & (HOOK_EDITS | HOOK_GRADIENTS)) == HOOK_GRADIENTS)
    ATTEND_TRY(pattern_gradient(p, m, t, g, lse));
  if (at_pattern & HOOK_EDITS)
    ATTEND_TRY(pattern_backward(p, m, t, g, lse));
  else
    ATTEND_TRY(
        attend_backward(m->plan, t->q, t->k, t->v, t->o, lse, g->o, g->q, g->k, g->v, d_bias));
  return hook_before_attention(p, m, g, HOOK_GRADIENTS);
}
