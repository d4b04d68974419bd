/* Attention on the host for other devices; see bridge.h. */
#include "device/bridge.h"

#include "base/parallel.h"
#include "device/device.h"

/* ---- what a call reads and writes ------------------------------------------------- */

/* A pointer of the call into the device's memory, and the bytes around it that are used. */
typedef struct {
  void **pointer;
  char *device; /* its value */
  char *from, *to;
  int region;
  bool written;
} crossing;

/* Spans that overlap, such as rows of q, k and v side by side, are one region: what is written back
 * must not restore what another tensor wrote. */
typedef struct {
  char *from, *to, *host;
  bool written;
} region;

enum { MOST_CROSSINGS = 24 };

typedef struct {
  attend_context *ctx;
  crossing all[MOST_CROSSINGS];
  region regions[MOST_CROSSINGS];
  int n, n_regions;
} crossings;

static void cross(crossings *x, void *pointer /* T ** */, ptrdiff_t low, ptrdiff_t high,
                  bool written) {
  void **slot = pointer;
  char *at = *slot;
  if (!at || high <= low || !x->ctx->device->owns(x->ctx, at)) return;
  x->all[x->n++] = (crossing){slot, at, at + low, at + high, 0, written};
}

static void cross_array(crossings *x, void *pointer /* T ** */, size_t bytes, bool written) {
  cross(x, pointer, 0, (ptrdiff_t)bytes, written);
}

static void cross_view(crossings *x, attend_view *v, int batch, int heads, int64_t rows, int width,
                       size_t element, bool written) {
  const int64_t last[4] = {batch - 1, heads - 1, rows - 1, width - 1};
  ptrdiff_t low = 0, high = (ptrdiff_t)element;
  if (batch <= 0 || rows <= 0) return;
  for (int i = 0; i < 4; i++) {
    ptrdiff_t reach = (ptrdiff_t)last[i] * v->stride[i] * (ptrdiff_t)element;
    *(reach < 0 ? &low : &high) += reach;
  }
  cross(x, &v->data, low, high, written);
}

static void join_regions(crossings *x) {
  for (int i = 0; i < x->n; i++) {
    region now = {x->all[i].from, x->all[i].to, NULL, x->all[i].written};
    int kept = 0;
    for (int r = 0; r < x->n_regions; r++) {
      const region old = x->regions[r];
      if (old.to <= now.from || now.to <= old.from) {
        x->regions[kept++] = old;
        continue;
      }
      if (old.from < now.from) now.from = old.from;
      if (old.to > now.to) now.to = old.to;
      now.written |= old.written;
    }
    x->regions[kept] = now;
    x->n_regions = kept + 1;
  }
}

/* Copies every region to the host and points the call at the copies. */
static attend_status cross_over(crossings *x) {
  join_regions(x);
  for (region *r = x->regions; r < x->regions + x->n_regions; r++) {
    ATTEND_TRY(ctx_alloc(x->ctx, (size_t)(r->to - r->from), "tensors on the host", &r->host));
    x->ctx->device->read(x->ctx, r->host, r->from, (size_t)(r->to - r->from));
  }
  for (crossing *c = x->all; c < x->all + x->n; c++)
    for (region *r = x->regions; r < x->regions + x->n_regions; r++)
      if (c->from >= r->from && c->to <= r->to) *c->pointer = r->host + (c->device - r->from);
  return ATTEND_OK;
}

static void cross_back(crossings *x, attend_status status) {
  for (crossing *c = x->all; c < x->all + x->n; c++) *c->pointer = c->device;
  for (region *r = x->regions; r < x->regions + x->n_regions; r++) {
    if (r->written && r->host && !status)
      x->ctx->device->write(x->ctx, r->from, r->host, (size_t)(r->to - r->from));
    ctx_free(x->ctx, r->host);
  }
}

/* ---- the tensors of a call --------------------------------------------------------- */

static void cross_bias(crossings *x, call *c) {
  attend_desc *d = &c->plan->desc;
  const size_t f = sizeof(float);
  if (d->bias.kind == ATTEND_ALIBI)
    cross_array(x, (void *)&d->bias.slopes, (size_t)d->heads * f, false);
  if (d->bias.kind == ATTEND_BUCKETS)
    cross_array(x, (void *)&d->bias.table,
                SIZE_PRODUCT((size_t)d->bias.buckets, (size_t)d->heads, f), false);
  if (d->bias.kind == ATTEND_DENSE)
    cross_view(x, &d->bias.dense, d->batch, d->heads, d->q_len, d->kv_len, f, false);
}

static void cross_dbias(crossings *x, call *c) {
  const attend_desc *d = &c->plan->desc;
  if (d->bias.kind == ATTEND_DENSE) {
    attend_view v = d->bias.dense;
    v.data = c->dbias;
    cross_view(x, &v, d->batch, d->heads, d->q_len, d->kv_len, sizeof(float), true);
    if (x->n && x->all[x->n - 1].pointer == &v.data) x->all[x->n - 1].pointer = (void **)&c->dbias;
  } else {
    cross_array(x, &c->dbias, desc_bias_count(d) * sizeof(float), true);
  }
}

static void cross_observation(crossings *x, call *c) {
  const attend_desc *d = &c->plan->desc;
  attend_observation *o = (attend_observation *)c->obs; /* the public call's own copy */
  const size_t heads = (size_t)d->batch * (size_t)d->heads, f = sizeof(float);
  const size_t rows = heads * (size_t)c->n, width = (size_t)call_width(c);
  if (!o) return;
  cross_array(x, &o->weights, SIZE_PRODUCT(heads, (size_t)o->n_rows, width, f), true);
  cross_array(x, &o->top_index, rows * (size_t)o->top * sizeof(int32_t), true);
  cross_array(x, &o->top_weight, rows * (size_t)o->top * f, true);
  cross_array(x, &o->entropy, rows * f, true);
  cross_array(x, &o->mass, heads * width * f, true);
  cross_array(x, &o->softmax_gap, rows * f, true);
}

/* keys: rows of k and v. */
static void cross_call(crossings *x, call *c, int64_t keys) {
  const attend_desc *d = &c->plan->desc;
  const int B = d->batch, H = d->heads, G = d->kv_heads, D = d->dim, M = d->dim_v;
  const size_t e = attend_dtype_size(d->dtype);
  const size_t rows = (size_t)B * (size_t)H * (size_t)c->n;
  cross_view(x, &c->q, B, H, c->n, D, e, false);
  cross_view(x, &c->k, B, G, keys, D, e, false);
  cross_view(x, &c->v, B, G, keys, M, e, false);
  cross_view(x, &c->o, B, H, c->n, M, e, true);
  cross_array(x, &c->lse, rows * sizeof(float), true);
  cross_array(x, (void *)&c->lse_in, rows * sizeof(float), false);
  cross_view(x, &c->d_o, B, H, c->n, M, e, false);
  cross_view(x, &c->dq, B, H, c->n, D, e, true);
  cross_view(x, &c->dk, B, G, keys, D, e, true);
  cross_view(x, &c->dv, B, G, keys, M, e, true);
  cross_bias(x, c);
  if (c->dbias) cross_dbias(x, c);
  cross_observation(x, c);
}

/* ---- engines ----------------------------------------------------------------------- */

static const bridge_engine *bridge_of(const call *c) {
  return (const bridge_engine *)c->plan->engine;
}

#define ON_HOST_COPIES(c, keys, work)    \
  crossings x = {.ctx = (c)->plan->ctx}; \
  cross_call(&x, c, keys);               \
  attend_status status = cross_over(&x); \
  if (!status) status = (work);          \
  plan_wait((c)->plan);                  \
  cross_back(&x, status);                \
  return status

#define E(name)                                                            \
  static attend_status bridge_##name(call *c) {                            \
    ON_HOST_COPIES(c, c->plan->desc.kv_len, bridge_of(c)->inner->name(c)); \
  }
E(forward)
E(backward)
E(observe)
#undef E

#define S(name)                                                       \
  static attend_status bridge_##name(call *c, attend_state *s) {      \
    ON_HOST_COPIES(c, c->n, bridge_of(c)->inner->states->name(c, s)); \
  }
S(append)
S(extend)
S(query)
#undef S

/* Values go to the host's memory or the device's. */
static void bridge_values(const attend_state *s, int b, int64_t n, float *to) {
  const bridge_engine *e =
      (const bridge_engine *)((const char *)s->kind - offsetof(bridge_engine, states));
  const size_t width = (size_t)s->desc.kv_heads * (size_t)s->desc.dim_v;
  float *copy = to;
  const bool there = s->ctx->device->owns(s->ctx, to);
  if (there && ctx_alloc(s->ctx, SIZE_PRODUCT((size_t)n, width, sizeof *to), "values", &copy))
    return;
  e->inner->states->values(s, b, n, copy);
  if (!there) return;
  s->ctx->device->write(s->ctx, to, copy, (size_t)n * width * sizeof *to);
  ctx_free(s->ctx, copy);
}

void bridge_make(bridge *b) {
  for (b->count = 0; cpu_engines[b->count] && b->count < BRIDGE_ENGINES; b->count++) {
    bridge_engine *t = &b->engine[b->count];
    const attend_engine *inner = t->inner = cpu_engines[b->count];
    t->engine = *inner;
    t->engine.forward = bridge_forward;
    t->engine.backward = bridge_backward;
    t->engine.observe = bridge_observe;
    int first = 0; /* engines that share a kind of states still do */
    while (cpu_engines[first]->states != inner->states) first++;
    t->states = *inner->states;
    t->states.append = bridge_append;
    t->states.extend = bridge_extend;
    t->states.query = bridge_query;
    if (t->states.values) t->states.values = bridge_values;
    t->engine.states = &b->engine[first].states;
  }
}
