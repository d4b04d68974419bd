/* Hooks at a layer's attention: queries, keys, values, rows, denominators, outputs.
 *
 * Place: model/ - beside hooks.c, called by layer.c where a pass has hooks. Rows are
 * computed again from queries and keys. A cache has the keys; a linear state has sums
 * of them alone, so while its rows are asked for, a cache stands beside it, from the
 * first token on.
 */
#include <string.h>

#include "attention/state.h"
#include "base/parallel.h"
#include "model/hooks.h"

/* ---- keys beside linear states ----------------------------------------------------- */

static int cache_kind(const mixing *m) { return m->role == ATTEND_CROSS; }

static bool keeps_keys(const pass *p, const mixing *m) {
  hook_place at = {
      .point = ATTEND_AT_PATTERN, .role = m->role, .layer = m->layer};
  if (!m->state || attend_state_has_keys(m->state)) return false;
  unsigned pattern = hooks_asked(p, &at);
  at.point = ATTEND_AT_ENTROPY;
  return pattern || hooks_asked(p, &at);
}

static attend_status open_cache(const pass *p, const mixing *m) {
  attend_session *r = p->session;
  const int kind = cache_kind(m);
  attend_desc d = *attend_plan_desc(m->plan);
  d.engine = "definition"; /* any form, by its keys */
  if (!r->cache_plan[kind])
    ATTEND_TRY(attend_plan_create(p->ctx, &d, &r->cache_plan[kind]));
  if (!r->caches[kind])
    ATTEND_TRY(states_make(p->ctx, NULL, r->model->config.decoder.layers,
                           "keys that are hooked", &r->caches[kind]));
  attend_state **state = &r->caches[kind][m->layer];
  return *state ? ATTEND_OK : attend_state_create(r->cache_plan[kind], state);
}

attend_status hook_keep(const pass *p, const mixing *m, int n,
                        const int32_t *lengths, attend_view k, attend_view v) {
  const int kind = cache_kind(m);
  if (!p->hooks || !keeps_keys(p, m)) return ATTEND_OK;
  ATTEND_TRY(open_cache(p, m));
  attend_plan *plan = p->session->cache_plan[kind];
  attend_plan_set_padding(plan, lengths, NULL);
  return attend_state_append(plan, p->session->caches[kind][m->layer], n, k, v);
}

/* What can be looked into: the pass's own plan and state, or those beside it. */
static attend_status observed(const pass *p, const mixing *m, mixing *by) {
  *by = *m;
  if (!m->state || attend_state_has_keys(m->state)) return ATTEND_OK;
  attend_session *r = p->session;
  const int kind = cache_kind(m);
  by->state = r->caches[kind] ? r->caches[kind][m->layer] : NULL;
  by->plan = r->cache_plan[kind];
  for (int b = 0; b < p->count; b++)
    ATTEND_CHECK(p->ctx,
                 by->state && attend_state_length(by->state, b) ==
                                  attend_state_length(m->state, b),
                 "a linear form keeps no keys: hook its attention from the "
                 "first token on");
  attend_plan_set_padding(by->plan, p->lengths, NULL);
  return ATTEND_OK;
}

static attend_status look(const pass *p, const mixing *by,
                          const attention_tensors *t, const float *lse,
                          const attend_look *what) {
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

/* ---- attention rows ---------------------------------------------------------------- */

/* The rows of one layer's attention, as numbers. */
typedef struct {
  const pass *p;
  mixing by; /* where they are looked at */
  const attend_desc *d;
  int keys;           /* of the longest sequence */
  int32_t *rows;      /* [n]: all of them, of the host */
  float *weights;     /* [batch, H, n, keys], zeroed */
  attend_view values; /* [batch, G, keys, M], or none */
  float *value_block; /* that they were copied to, or NULL */
} pattern;

static int longest(const pass *p, const attend_state *state) {
  int64_t most = 0;
  for (int b = 0; b < p->session->batch; b++)
    most = max64(most, attend_state_length(state, b));
  return (int)most;
}

static void pattern_free(pattern *x) {
  stream_wait(&x->p->ctx->stream);
  give(x->p->ctx, x->rows);
  device_give(x->p->ctx, x->weights);
  device_give(x->p->ctx, x->value_block);
}

static size_t pattern_bytes(const pattern *x) {
  return SIZE_PRODUCT((size_t)x->d->batch, (size_t)x->d->heads, (size_t)x->p->n,
                      (size_t)x->keys, sizeof *x->weights);
}

static attend_status pattern_make(const pass *p, const mixing *m,
                                  const attention_tensors *t, const float *lse,
                                  pattern *x) {
  *x = (pattern){.p = p, .d = attend_plan_desc(m->plan)};
  ATTEND_TRY(observed(p, m, &x->by));
  x->keys = m->state                  ? longest(p, m->state)
            : m->role == ATTEND_CROSS ? p->encoded_n
                                      : p->n;
  ATTEND_TRY(take(p->ctx, size_times((size_t)p->n, sizeof *x->rows),
                  "attention that is hooked", &x->rows));
  for (int i = 0; i < p->n; i++) x->rows[i] = i;
  attend_status status = device_take(p->ctx, pattern_bytes(x),
                                     "attention that is hooked", &x->weights);
  attend_look all = {.rows = x->rows, .n_rows = p->n, .weights = x->weights};
  if (!status) status = look(p, &x->by, t, lse, &all);
  if (status) pattern_free(x);
  return status;
}

static hook_place pattern_place(const pattern *x, float *weights) {
  const ptrdiff_t row = x->keys, head = row * x->p->n;
  return (hook_place){.point = ATTEND_AT_PATTERN,
                      .role = x->by.role,
                      .layer = x->by.layer,
                      .shape = {x->p->count, x->d->heads, x->p->n, x->keys},
                      .lengths = x->p->lengths,
                      .view = {weights, {head * x->d->heads, head, row, 1}}};
}

/* The values of all keys, where they are or copied from a cache. */
static attend_status pattern_values(pattern *x, attend_view v) {
  const pass *p = x->p;
  const attend_state *s = x->by.state;
  const size_t width = (size_t)x->d->kv_heads * (size_t)x->d->dim_v;
  const size_t room = (size_t)x->keys * width;
  x->values = v;
  if (!s) return ATTEND_OK;
  ATTEND_TRY(device_take(
      p->ctx, SIZE_PRODUCT((size_t)p->count, room, sizeof *x->value_block),
      "values that are hooked", &x->value_block));
  for (int b = 0; b < p->count; b++)
    s->kind->values(s, b, attend_state_length(s, b),
                    x->value_block + (size_t)b * room);
  x->values = (attend_view){
      x->value_block, {(ptrdiff_t)room, x->d->dim_v, (ptrdiff_t)width, 1}};
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

static attend_status hook_pattern(const pass *p, const mixing *m,
                                  const attention_tensors *t,
                                  const float *lse) {
  pattern x;
  hook_place at = {
      .point = ATTEND_AT_PATTERN, .role = m->role, .layer = m->layer};
  unsigned what = hooks_asked(p, &at) & (HOOK_READS | HOOK_EDITS);
  if (!what) return ATTEND_OK;
  ATTEND_TRY(pattern_make(p, m, t, lse, &x));
  at = pattern_place(&x, x.weights);
  attend_status status = hooks_call(p, &at, what);
  if (!status && what & HOOK_EDITS) status = pattern_values(&x, t->v);
  if (!status && what & HOOK_EDITS) {
    struct op_pattern op = pattern_op(&x, t->heads);
    p->ctx->device->pattern(p->ctx, &op);
  }
  pattern_free(&x);
  return status;
}

/* ---- denominators and entropies --------------------------------------------------------------- */

/* One number for each query of each head: [B,H,n,1]. */
static hook_place row_place(const pass *p, const mixing *m, attend_point point,
                            float *numbers) {
  const attend_desc *d = attend_plan_desc(m->plan);
  return (hook_place){
      .point = point,
      .role = m->role,
      .layer = m->layer,
      .shape = {p->count, d->heads, p->n, 1},
      .lengths = p->lengths,
      .view = {numbers, {(ptrdiff_t)d->heads * p->n, p->n, 1, 1}}};
}

static attend_status hook_entropy(const pass *p, const mixing *m,
                                  const attention_tensors *t,
                                  const float *lse) {
  const attend_desc *d = attend_plan_desc(m->plan);
  hook_place at = row_place(p, m, ATTEND_AT_ENTROPY, NULL);
  float *entropy;
  if (!hooks_asked(p, &at)) return ATTEND_OK;
  mixing by;
  ATTEND_TRY(observed(p, m, &by));
  ATTEND_TRY(device_take(p->ctx,
                         SIZE_PRODUCT((size_t)d->batch, (size_t)d->heads,
                                      (size_t)p->n, sizeof *entropy),
                         "entropy that is hooked", &entropy));
  attend_look what = {.entropy = entropy};
  attend_status status = look(p, &by, t, lse, &what);
  at.view.data = entropy;
  if (!status) status = hook_at(p, &at);
  device_give(p->ctx, entropy);
  return status;
}

/* Edited, in a copy: `heads` are divided anew. Gradients too: then nobody reads. */
static attend_status hook_denominator(const pass *p, const mixing *m,
                                      attend_view heads, const float *lse,
                                      unsigned which) {
  const attend_desc *d = attend_plan_desc(m->plan);
  hook_place at = row_place(p, m, ATTEND_AT_DENOMINATOR, (float *)lse);
  const int all = p->count * d->heads * p->n;
  float *edited;
  which &= hooks_asked(p, &at);
  if (!(which & HOOK_EDITS)) return hooks_call(p, &at, which);
  ATTEND_TRY(device_take(p->ctx, (size_t)all * sizeof *edited,
                         "denominators that are hooked", &edited));
  OP(p->ctx, gather, .rows = 1, .width = all, .factor = 1, .x = lse, .ldx = all,
     .y = edited, .ldy = all);
  at.view.data = edited;
  attend_status status = hooks_call(p, &at, which);
  if (!status)
    OP(p->ctx, divide, .batch = p->count, .heads = d->heads, .n = p->n,
       .width = d->dim_v, .before = lse, .after = edited, .o = heads);
  stream_wait(&p->ctx->stream);
  device_give(p->ctx, edited);
  return status;
}

/* ---- a layer's attention ------------------------------------------------------------------------- */

/* Queries; keys and values where they are of this pass. */
static attend_status hook_inputs(const pass *p, const mixing *m,
                                 const attention_tensors *t,
                                 attend_status (*at)(const pass *,
                                                     const hook_place *)) {
  const attend_desc *d = attend_plan_desc(m->plan);
  const bool own = m->role != ATTEND_CROSS, keys = own || !m->state;
  const int S = own ? p->n : p->encoded_n;
  const hook_place all[3] = {{ATTEND_AT_QUERY,
                              m->role,
                              m->layer,
                              {p->count, d->heads, p->n, d->dim},
                              p->lengths,
                              t->q,
                              false},
                             {ATTEND_AT_KEY,
                              m->role,
                              m->layer,
                              {p->count, d->kv_heads, S, d->dim},
                              own ? p->lengths : p->encoded_lengths,
                              t->k,
                              false},
                             {ATTEND_AT_VALUE,
                              m->role,
                              m->layer,
                              {p->count, d->kv_heads, S, d->dim_v},
                              own ? p->lengths : p->encoded_lengths,
                              t->v,
                              false}};
  for (int i = 0; i < (keys ? 3 : 1); i++) ATTEND_TRY(at(p, &all[i]));
  return ATTEND_OK;
}

static hook_place heads_place(const pass *p, const mixing *m,
                              attend_view heads) {
  const attend_desc *d = attend_plan_desc(m->plan);
  return (hook_place){.point = ATTEND_AT_HEAD_OUTPUT,
                      .role = m->role,
                      .layer = m->layer,
                      .shape = {p->count, d->heads, p->n, d->dim_v},
                      .lengths = p->lengths,
                      .view = heads};
}

attend_status hook_before_attention(const pass *p, const mixing *m,
                                    const attention_tensors *t) {
  return hook_inputs(p, m, t, hook_at);
}

attend_status hook_after_attention(const pass *p, const mixing *m,
                                   const attention_tensors *t,
                                   const float *lse) {
  stream_wait(&p->ctx->stream);
  if (m->state && m->role == ATTEND_DECODER_SELF)
    ATTEND_TRY(hook_keep(p, m, p->n, p->lengths, t->k, t->v));
  ATTEND_TRY(hook_pattern(p, m, t, lse));
  ATTEND_TRY(hook_entropy(p, m, t, lse));
  ATTEND_TRY(hook_denominator(p, m, t->heads, lse, HOOK_READS | HOOK_EDITS));
  hook_place at = heads_place(p, m, t->heads);
  return hook_at(p, &at);
}

/* Attention's gradients with rows that were edited: from rows as numbers. */
static attend_status pattern_back(const pass *p, const mixing *m,
                                  const attention_tensors *t,
                                  const attention_tensors *g,
                                  const float *lse) {
  const attend_desc *d = attend_plan_desc(m->plan);
  ATTEND_CHECK(p->ctx,
               d->form.kind == ATTEND_SOFTMAX && !d->bias.kind && !d->soft_cap,
               "gradients through edited attention rows are those of plain "
               "softmax: train other forms without such hooks");
  pattern x;
  float *edited;
  ATTEND_TRY(pattern_make(p, m, t, lse, &x));
  size_t bytes = pattern_bytes(&x);
  attend_status status = device_take(p->ctx, size_times(2, bytes),
                                     "attention that is hooked", &edited);
  if (!status) {
    const int rows = p->count * d->heads * p->n;
    float *d_weights = edited + bytes / sizeof *edited;
    OP(p->ctx, gather, .rows = rows, .width = x.keys, .factor = 1,
       .x = x.weights, .ldx = x.keys, .y = edited, .ldy = x.keys);
    hook_place at = pattern_place(&x, edited);
    status = hooks_call(p, &at, HOOK_EDITS);
    x.values = t->v;
    struct op_pattern op = pattern_op(&x, g->o);
    op.weights = edited;
    op.d_weights = d_weights;
    OP(p->ctx, pattern_grad, .p = op);
    at = pattern_place(&x, d_weights);
    if (!status) status = hook_gradient_at(p, &at);
    OP(p->ctx, pattern_back, .p = op, .dim = d->dim, .scale = d->scale,
       .before = x.weights, .q = t->q, .k = t->k, .dq = g->q, .dk = g->k,
       .dv = g->v);
    stream_wait(&p->ctx->stream);
    device_give(p->ctx, edited);
  }
  pattern_free(&x);
  return status;
}

attend_status hook_attention_back(const pass *p, const mixing *m,
                                  const attention_tensors *t,
                                  const attention_tensors *g, const float *lse,
                                  float *d_bias) {
  hook_place at = heads_place(p, m, g->o);
  if (p->hooks) {
    ATTEND_TRY(hook_gradient_at(p, &at));
    ATTEND_TRY(hook_denominator(p, m, g->o, lse, HOOK_EDITS));
    at.point = ATTEND_AT_PATTERN;
  }
  if (p->hooks && hooks_asked(p, &at) & HOOK_EDITS)
    ATTEND_TRY(pattern_back(p, m, t, g, lse));
  else
    ATTEND_TRY(attend_backward(m->plan, t->q, t->k, t->v, t->o, lse, g->o, g->q,
                               g->k, g->v, d_bias));
  return p->hooks ? hook_inputs(p, m, g, hook_gradient_at) : ATTEND_OK;
}

/* Keys and values of cross-attention, n of them, that a state is about to get. */
attend_status hook_cross(const pass *p, const mixing *m, int n,
                         const int32_t *lengths, attend_view k, attend_view v) {
  const attend_desc *d = attend_plan_desc(m->plan);
  hook_place at = {ATTEND_AT_KEY, ATTEND_CROSS,
                   m->layer,      {p->count, d->kv_heads, n, d->dim},
                   lengths,       k,
                   false};
  if (!p->hooks) return ATTEND_OK;
  ATTEND_TRY(hook_at(p, &at));
  at.point = ATTEND_AT_VALUE;
  at.shape[3] = d->dim_v;
  at.view = v;
  return hook_at(p, &at);
}
