/* Attention on the host for other devices; see bridge.h. */
#include "device/bridge.h"

#include <stdio.h>

#include "base/parallel.h"
#include "device/crossing.h"
#include "device/device.h"

/* ---- engines ----------------------------------------------------------------------- */

static const bridge_engine *bridge_of(const call *c) {
  return (const bridge_engine *)c->plan->engine;
}

#define ON_HOST_COPIES(c, keys, work) \
  crossing x;                         \
  attend_status status;               \
  crossing_of(c, keys, TO_HOST, &x);  \
  status = crossing_go(&x);           \
  if (!status) status = (work);       \
  plan_wait((c)->plan);               \
  crossing_return(&x, status);        \
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
static attend_status bridge_values(const attend_state *s, int b, int64_t n, float *to) {
  const bridge_engine *e =
      (const bridge_engine *)((const char *)s->kind - offsetof(bridge_engine, states));
  const size_t width = (size_t)s->desc.kv_heads * (size_t)s->desc.dim_v;
  const size_t bytes = SIZE_PRODUCT((size_t)n, width, sizeof *to);
  float *copy;
  if (!s->ctx->device->owns(s->ctx, to)) return e->inner->states->values(s, b, n, to);
  ATTEND_TRY(ctx_alloc(s->ctx, bytes, "values", &copy));
  attend_status status = e->inner->states->values(s, b, n, copy);
  if (!status) s->ctx->device->write(s->ctx, to, copy, bytes);
  ctx_free(s->ctx, copy);
  return status;
}

void bridge_make(bridge *b) {
  for (b->count = 0; cpu_engines[b->count] && b->count < BRIDGE_ENGINES; b->count++) {
    bridge_engine *t = &b->engine[b->count];
    const attend_engine *inner = t->inner = cpu_engines[b->count];
    t->engine = *inner;
    snprintf(t->name, sizeof t->name, "host:%s", inner->name);
    t->engine.name = t->name;
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
