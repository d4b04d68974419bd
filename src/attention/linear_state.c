/* The recurrent state of linear attention: sums over whole blocks of keys, and the
 * incomplete block. Its size is constant, and so is the cost of a token.
 */
#include "attention/linear.h"
#include "attention/state.h"

#include <math.h>
#include <string.h>

typedef struct { /* one kv head of one sequence */
  float *data;   /* all of it: sums, then the open block */
  linear_sum sum;
  linear_block open;
  int64_t folded; /* blocks in the sum */
} linear_stack;

typedef struct {
  attend_state state;
  int ld, ldv;         /* of a row of features, of values */
  size_t stack_floats; /* of one stack's data */
  linear_stack *stack; /* [batch][G] */
} linear_state;

static linear_stack *stack_of(const attend_state *s, int b, int g) {
  return &((const linear_state *)s)->stack[b * s->desc.kv_heads + g];
}

/* ---- memory ---------------------------------------------------------------------- */

/* A stack is one block of floats, so that it can be copied; returns their number. */
static size_t stack_point(const linear_state *s, float *data, linear_stack *x) {
  size_t ld = (size_t)s->ld, ldv = (size_t)s->ldv;
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
  x->open.non_finite = false;
  x->folded = 0;
}

static size_t bytes(const attend_state *s) {
  return SIZE_PRODUCT((size_t)s->batch, (size_t)s->desc.kv_heads,
                      ((const linear_state *)s)->stack_floats, sizeof(float));
}

static attend_status take_stacks(linear_state *s) {
  attend_context *ctx = s->state.ctx;
  linear_stack none;
  size_t stacks = (size_t)(s->state.batch * s->state.desc.kv_heads);
  size_t head = round_up(size_times(stacks, sizeof(linear_stack)), 64);
  s->stack_floats = stack_point(s, NULL, &none);
  ATTEND_TRY(cache_take(ctx, bytes(&s->state), "a linear state"));
  attend_status status =
      ctx_alloc_zeroed(ctx, size_add(head, bytes(&s->state)), "a linear state", &s->stack);
  if (status) {
    cache_give(ctx, bytes(&s->state));
    return status;
  }
  float *data = (float *)((unsigned char *)s->stack + head);
  for (size_t i = 0; i < stacks; i++, data += s->stack_floats) {
    stack_point(s, data, &s->stack[i]);
    stack_clear(&s->stack[i]);
  }
  return ATTEND_OK;
}

static attend_status make(attend_context *ctx, const attend_desc *desc, attend_state **out) {
  linear_state *s;
  ATTEND_TRY(state_make(ctx, desc, sizeof *s, &s));
  s->ld = features_row(desc);
  s->ldv = state_layout_of(ctx, desc).ldv;
  attend_status status = take_stacks(s);
  if (status == ATTEND_OK)
    *out = &s->state;
  else
    ctx_free(ctx, s);
  return status;
}

static void free_stacks(attend_state *s) {
  cache_give(s->ctx, bytes(s));
  ctx_free(s->ctx, ((linear_state *)s)->stack);
}

static void stack_copy(const linear_stack *from, size_t floats, linear_stack *to) {
  memcpy(to->data, from->data, floats * sizeof(float));
  to->open.n = from->open.n;
  to->open.non_finite = from->open.non_finite;
  to->folded = from->folded;
}

static attend_status copy(const attend_state *from, int b, attend_state *to, int to_b) {
  size_t floats = ((const linear_state *)from)->stack_floats;
  for (int g = 0; g < from->desc.kv_heads; g++)
    stack_copy(stack_of(from, b, g), floats, stack_of(to, to_b, g));
  to->length[to_b] = from->length[b];
  return ATTEND_OK;
}

/* Sums cannot be shared. */
static attend_status reorder(attend_state *s, const int32_t *parents) {
  attend_state *old;
  ATTEND_TRY(attend_state_fork(s, &old));
  for (int b = 0; b < s->batch; b++)
    if (parents[b] != b) copy(old, parents[b], s, b);
  attend_state_free(old);
  return ATTEND_OK;
}

static attend_status truncate_to(attend_state *s, int b, int64_t length) {
  int64_t summed = stack_of(s, b, 0)->folded * PANEL;
  ATTEND_CHECK(s->ctx, length == 0 || length > summed,
               "a linear state holds sums, from which no key can be removed: "
               "sequence %d can be truncated to 0 or to %lld and more, not to "
               "%lld; fork the state before the keys that may be removed",
               b, (long long)summed + 1, (long long)length);
  for (int g = 0; g < s->desc.kv_heads; g++) {
    linear_stack *x = stack_of(s, b, g);
    if (length == 0) stack_clear(x);
    if (length == 0) continue;
    x->open.n = (int)(length - summed);
    for (int j = x->open.n; j < PANEL; j++) x->open.shift[j] = -INFINITY;
  }
  s->length[b] = length;
  return ATTEND_OK;
}

/* ---- appending and querying ------------------------------------------------------ */

static void fold_open(const attend_plan *p, linear_stack *x, linear_scratch *w) {
  if (x->open.n < PANEL) return;
  linear_block_sum(p, &x->open, w->part, w->scaled);
  linear_join(p, x->sum, w->part);
  x->open.n = 0;
  x->folded++;
}

/* Appends keys [at, at + n) of the call to the open block. */
static void put_keys(const call *c, int b, int g, int at, int n, linear_stack *x,
                     linear_scratch *w) {
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

static void query_rows(const call *c, int b, int g, int row, int end, const linear_stack *x,
                       linear_scratch *w) {
  for (; row < end; row += LINEAR_ROWS) {
    tile t = {b, g, row, (int)min64(LINEAR_ROWS, end - row)};
    linear_rows(c, t, x->folded * PANEL, &x->open, x->sum, w);
  }
}

/* With a causal mask rows are computed when their own key is the last one: later keys
 * are not in the sums yet. */
static void extend_stack(const call *c, int b, int g, bool queries, linear_stack *x,
                         linear_scratch *w) {
  const attend_plan *p = c->plan;
  int count = call_queries(c, b), group = p->group;
  bool causal = p->desc.mask.causal != ATTEND_NOT_CAUSAL;
  for (int done = 0; done < count;) {
    fold_open(p, x, w);
    int n = (int)min64(PANEL - x->open.n, count - done);
    put_keys(c, b, g, done, n, x, w);
    if (queries && causal) query_rows(c, b, g, done * group, (done + n) * group, x, w);
    done += n;
  }
  if (!queries) return;
  int seeing = causal ? count * group : 0;
  query_rows(c, b, g, seeing, c->n * group, x, w);
}

typedef struct {
  call c;
  attend_state *state;
  bool append, queries;
} extension;

static void stack_item(const void *args, int64_t i, int worker) {
  const extension *e = args;
  const call *c = &e->c;
  int heads = c->plan->desc.kv_heads, b = (int)(i / heads), g = (int)(i % heads);
  linear_scratch w;
  linear_cut(c->plan, plan_thread_arena(c->plan, worker), &w);
  if (e->append)
    extend_stack(c, b, g, e->queries, stack_of(e->state, b, g), &w);
  else
    query_rows(c, b, g, 0, c->n * c->plan->group, stack_of(e->state, b, g), &w);
  plan_weak(c->plan, w.weak);
}

static void run_stacks(call *c, attend_state *s, bool append, bool queries) {
  extension e = {*c, s, append, queries};
  call_begin(c);
  STREAM_ADD(plan_stream(c->plan), (int64_t)s->batch * c->plan->desc.kv_heads, stack_item, e);
}

/* Queries are at the positions of the new keys. */
static attend_status add_keys(call *c, attend_state *s, bool queries) {
  for (int b = 0; b < s->batch; b++) {
    s->before[b] = s->length[b];
    s->length[b] += call_queries(c, b);
  }
  run_stacks(c, s, true, queries);
  return ATTEND_OK;
}

static attend_status append(call *c, attend_state *s) { return add_keys(c, s, false); }
static attend_status extend(call *c, attend_state *s) { return add_keys(c, s, true); }

static attend_status query(call *c, attend_state *s) {
  const bool causal = c->plan->desc.mask.causal != ATTEND_NOT_CAUSAL;
  if (causal) plan_wait(c->plan); /* for folded */
  for (int b = 0; b < s->batch; b++) {
    int64_t summed = stack_of(s, b, 0)->folded * PANEL;
    ATTEND_CHECK(c->plan->ctx, !causal || call_queries(c, b) == 0 || c->before[b] >= summed,
                 "a linear state holds sums: the last %lld positions of sequence %d can still be "
                 "queried, not %d; query in attend_extend, or without a causal mask",
                 (long long)(s->length[b] - summed), b, call_queries(c, b));
  }
  run_stacks(c, s, false, true);
  return ATTEND_OK;
}

/* ---- files ----------------------------------------------------------------------- */

static attend_status put(attend_draft *f, const attend_state *s, int b) {
  size_t floats = ((const linear_state *)s)->stack_floats;
  for (int g = 0; g < s->desc.kv_heads; g++) {
    const linear_stack *x = stack_of(s, b, g);
    ATTEND_TRY(state_put_number(f, x->folded));
    ATTEND_TRY(state_put_number(f, x->open.n));
    ATTEND_TRY(state_put_number(f, x->open.non_finite));
    ATTEND_TRY(attend_draft_put(f, x->data, floats * sizeof(float)));
  }
  return ATTEND_OK;
}

static attend_status get_stack(state_reader *f, int64_t length, size_t floats, linear_stack *x) {
  int64_t folded = length ? (length - 1) / PANEL : 0;
  int64_t left = length - folded * PANEL, open, non_finite;
  ATTEND_TRY(state_get_number(f, folded, folded, "number of blocks", &x->folded));
  ATTEND_TRY(state_get_number(f, left, left, "open block", &open));
  ATTEND_TRY(state_get_number(f, 0, 1, "mark of a block", &non_finite));
  x->open.n = (int)open;
  x->open.non_finite = non_finite != 0;
  return state_get(f, x->data, floats * sizeof(float));
}

static attend_status get(state_reader *f, attend_state *s, int b, int64_t length) {
  size_t floats = ((const linear_state *)s)->stack_floats;
  for (int g = 0; g < s->desc.kv_heads; g++)
    ATTEND_TRY(get_stack(f, length, floats, stack_of(s, b, g)));
  return ATTEND_OK;
}

const state_kind state_linear = {
    .make = make,
    .free = free_stacks,
    .copy = copy,
    .reorder = reorder,
    .truncate = truncate_to,
    .bytes = bytes,
    .append = append,
    .extend = extend,
    .query = query,
    .put = put,
    .get = get,
};
