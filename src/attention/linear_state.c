/* A linear form's state: sums over whole blocks, and the open block.
 *
 * Place: attention/ - state.c hands extend, append and look over to here where
 * the plan's engine is linear. A state has a fixed size: decoding the millionth
 * token costs what the hundredth did.
 */
#include "attention/linear_state.h"

#include <math.h>
#include <string.h>

/* ---- memory --------------------------------------------------------------------- */

/* Everything that a stack holds lies in one piece, so that it can be copied.
 * Returns the floats of it. */
static size_t stack_point(const attend_state *s, float *data, linear_stack *x) {
  size_t ld = (size_t)s->features_ld, ldv = (size_t)s->ldv;
  arena a = {(unsigned char *)data, 0};
  size_t f = sizeof(float);
  x->data = data;
  x->sum.s = arena_cut(&a, SIZE_PRODUCT(ld, ldv + 1, f));
  x->sum.z = data ? x->sum.s + ld * ldv : NULL; /* linear_join counts on it */
  x->sum.m = arena_cut(&a, f);
  x->open.phi_t = arena_cut(&a, SIZE_PRODUCT(PANEL, ld, f));
  x->open.v = arena_cut(&a, SIZE_PRODUCT(PANEL, ldv, f));
  x->open.shift = arena_cut(&a, size_times(PANEL, f));
  x->open.before = arena_cut(&a, size_times(PANEL, f));
  return a.used / f;
}

static void stack_clear(linear_stack *x) {
  *x->sum.m = -INFINITY;
  x->open.n = 0;
  x->open.wild = false;
  x->folded = 0;
}

attend_status linear_state_make(attend_state *s) {
  linear_stack none;
  size_t stacks = (size_t)(s->batch * s->desc.kv_heads);
  size_t floats = stack_point(s, NULL, &none);
  size_t head = round_up(size_times(stacks, sizeof(linear_stack)), 64);
  size_t bytes = SIZE_PRODUCT(stacks, floats, sizeof(float));
  ATTEND_TRY(cache_check(s->ctx, bytes, "a linear state"));
  ATTEND_TRY(
      take_zeroed(s->ctx, size_add(head, bytes), "a linear state", &s->linear));
  s->ctx->cache_bytes += bytes;
  s->stack_floats = floats;
  float *data = (float *)((unsigned char *)s->linear + head);
  for (size_t i = 0; i < stacks; i++, data += floats) {
    stack_point(s, data, &s->linear[i]);
    stack_clear(&s->linear[i]);
  }
  return ATTEND_OK;
}

static void stack_copy(const attend_state *s, const linear_stack *from,
                       linear_stack *to) {
  memcpy(to->data, from->data, s->stack_floats * sizeof(float));
  to->open.n = from->open.n;
  to->open.wild = from->open.wild;
  to->folded = from->folded;
}

/* Sequence `to` of one state becomes sequence `from` of another. */
void linear_state_copy(const attend_state *from, int b, attend_state *to,
                       int to_b) {
  int heads = from->desc.kv_heads;
  for (int g = 0; g < heads; g++)
    stack_copy(from, &from->linear[b * heads + g],
               &to->linear[to_b * heads + g]);
  to->sequence[to_b].length = from->sequence[b].length;
}

attend_status linear_state_truncate(attend_state *s, int b, int64_t length) {
  int heads = s->desc.kv_heads;
  int64_t summed = s->linear[b * heads].folded * PANEL;
  ATTEND_CHECK(s->ctx, length == 0 || length > summed,
               "a linear state holds sums, from which nothing can be taken "
               "back: sequence %d can be cut to 0 or to %lld and more, not to "
               "%lld; fork the state before what may be undone",
               b, (long long)summed + 1, (long long)length);
  for (int g = 0; g < heads; g++) {
    linear_stack *x = &s->linear[b * heads + g];
    if (length == 0) stack_clear(x);
    if (length == 0) continue;
    x->open.n = (int)(length - summed);
    for (int j = x->open.n; j < PANEL; j++) x->open.shift[j] = -INFINITY;
  }
  s->sequence[b].length = length;
  return ATTEND_OK;
}

/* ---- appending and looking --------------------------------------------------------- */

static void fold_open(const attend_plan *p, linear_stack *x,
                      linear_scratch *w) {
  if (x->open.n < PANEL) return;
  linear_block_sum(p, &x->open, w->part, w->scaled);
  linear_join(p, x->sum, w->part);
  x->open.n = 0;
  x->folded++;
}

/* Keys [at, at + n) of the call go behind those of the open block. */
static void put_keys(const call *c, int b, int g, int at, int n,
                     linear_stack *x, linear_scratch *w) {
  const attend_plan *p = c->plan;
  const uint8_t *real = p->desc.mask.key_mask;
  if (real) real += (size_t)b * (size_t)c->n + (size_t)at;
  source k = call_source(c, &c->k, b, g, at);
  source v = call_source(c, &c->v, b, g, at);
  p->kn->pack_rows(k, real, n, p->desc.dim, w->keys.x, p->ldk);
  p->kn->pack_rows(v, real, n, p->desc.dim_v, w->scaled, p->ldv);
  x->open.phi = w->keys.phi;
  linear_put(p, n, w->keys.x, w->scaled, real, &x->open, w->work);
}

static void look_rows(const call *c, int b, int g, int row, int end,
                      const linear_stack *x, linear_scratch *w) {
  for (; row < end; row += LINEAR_ROWS) {
    tile t = {b, g, row, (int)min64(LINEAR_ROWS, end - row)};
    linear_rows(c, t, x->folded * PANEL, &x->open, x->sum, w);
  }
}

/* With a causal mask, rows look when their own key is the last: what comes
 * after is not in the sums yet. */
static void extend_stack(const call *c, int b, int g, bool queries,
                         linear_stack *x, linear_scratch *w) {
  const attend_plan *p = c->plan;
  int count = call_queries(c, b), group = p->group;
  bool causal = p->desc.mask.causal != ATTEND_NOT_CAUSAL;
  for (int done = 0; done < count;) {
    fold_open(p, x, w);
    int n = (int)min64(PANEL - x->open.n, count - done);
    put_keys(c, b, g, done, n, x, w);
    if (queries && causal)
      look_rows(c, b, g, done * group, (done + n) * group, x, w);
    done += n;
  }
  if (!queries) return;
  int seeing = causal ? count * group : 0;
  look_rows(c, b, g, seeing, c->n * group, x, w);
}

typedef struct {
  call c;
  attend_state *state;
  bool append, queries;
} extension;

static void stack_item(const void *args, int64_t i, int worker) {
  const extension *e = args;
  const call *c = &e->c;
  int heads = c->plan->desc.kv_heads, b = (int)(i / heads),
      g = (int)(i % heads);
  linear_scratch w;
  linear_cut(c->plan, plan_thread_arena(c->plan, worker), &w);
  if (e->append)
    extend_stack(c, b, g, e->queries, &e->state->linear[i], &w);
  else
    look_rows(c, b, g, 0, c->n * c->plan->group, &e->state->linear[i], &w);
  plan_weak(c->plan, w.weak);
}

static void run_stacks(call *c, attend_state *s, bool append, bool queries) {
  extension e = {*c, s, append, queries};
  c->plan->weak_rows = 0;
  STREAM_ADD(plan_stream(c->plan), PHASE_STATIC,
             (int64_t)s->batch * c->plan->desc.kv_heads, stack_item, e);
}

void linear_extend(call *c, attend_state *s, bool queries) {
  for (int b = 0; b < s->batch; b++)
    s->sequence[b].length += call_queries(c, b);
  run_stacks(c, s, true, queries);
}

attend_status linear_look(call *c, attend_state *s) {
  const attend_desc *d = &c->plan->desc;
  if (d->mask.causal != ATTEND_NOT_CAUSAL) plan_wait(c->plan); /* for folded */
  for (int b = 0; b < s->batch; b++) {
    int64_t summed = s->linear[b * d->kv_heads].folded * PANEL;
    bool causal = d->mask.causal != ATTEND_NOT_CAUSAL;
    ATTEND_CHECK(c->plan->ctx,
                 !causal || call_queries(c, b) == 0 || c->before[b] >= summed,
                 "a linear state holds sums: the last %lld positions of "
                 "sequence %d can still be looked at, not %d; look in "
                 "attend_extend, or without a causal mask",
                 (long long)(s->sequence[b].length - summed), b,
                 call_queries(c, b));
  }
  run_stacks(c, s, false, true);
  return ATTEND_OK;
}
