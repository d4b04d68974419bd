/* States: what their public calls check, and the table of a state's kind that
 * does the rest.
 *
 * Over kv_cache.c and linear_state.c; state.h has the table.
 */
#include "attention/state.h"

#include <stdio.h>

/* ---- making, forking ------------------------------------------------------------ */

state_layout state_layout_of(const attend_context *ctx,
                             const attend_desc *desc) {
  const struct block_kernels *on = ctx->kernels->block[desc->dtype];
  return (state_layout){(int)round_up((size_t)desc->dim_v, LANES),
                        (int)round_up((size_t)desc->dim, (size_t)on->step),
                        on->pair};
}

attend_status state_make(attend_context *ctx, const attend_desc *desc,
                         size_t bytes, void *out) {
  attend_state *s;
  size_t batch = (size_t)desc->batch, head = round_up(bytes, 64);
  ATTEND_TRY(take_zeroed(
      ctx, size_add(head, SIZE_PRODUCT(2, batch, sizeof *s->length)), "a state",
      &s));
  s->ctx = ctx;
  s->desc = *desc;
  s->batch = desc->batch;
  s->length = (int64_t *)((unsigned char *)s + head);
  s->before = s->length + batch;
  *(void **)out = s;
  return ATTEND_OK;
}

static attend_status make_empty(const state_kind *kind, attend_context *ctx,
                                const attend_desc *desc, attend_state **out) {
  ATTEND_TRY(kind->make(ctx, desc, out));
  (*out)->kind = kind;
  return ATTEND_OK;
}

attend_status attend_state_create(attend_plan *plan, attend_state **state) {
  *state = NULL;
  ATTEND_CHECK(plan->ctx, plan->desc.purpose & ATTEND_FOR_EXTEND,
               "this plan was not made for states: set ATTEND_FOR_EXTEND in "
               "the description's purpose");
  return make_empty(plan->engine->states, plan->ctx, &plan->desc, state);
}

void attend_state_free(attend_state *s) {
  if (!s) return;
  s->kind->free(s);
  give(s->ctx, s);
}

attend_status attend_state_fork(const attend_state *state,
                                attend_state **copy) {
  attend_state *s;
  attend_status status = ATTEND_OK;
  *copy = NULL;
  ATTEND_TRY(make_empty(state->kind, state->ctx, &state->desc, &s));
  for (int b = 0; b < s->batch && status == ATTEND_OK; b++)
    status = s->kind->copy(state, b, s, b);
  if (status == ATTEND_OK)
    *copy = s;
  else
    attend_state_free(s);
  return status;
}

attend_status attend_state_reorder(attend_state *s, const int32_t *parents) {
  for (int b = 0; b < s->batch; b++)
    ATTEND_CHECK(s->ctx, parents[b] >= 0 && parents[b] < s->batch,
                 "parent %d of sequence %d is not a sequence: choose 0 to %d",
                 (int)parents[b], b, s->batch - 1);
  return s->kind->reorder(s, parents);
}

attend_status attend_state_truncate(attend_state *s, int b, int64_t length) {
  ATTEND_CHECK(s->ctx, b >= 0 && b < s->batch,
               "the state has no sequence %d: choose 0 to %d", b, s->batch - 1);
  ATTEND_CHECK(s->ctx, length >= 0 && length <= s->length[b],
               "sequence %d has %lld keys and cannot be cut to %lld", b,
               (long long)s->length[b], (long long)length);
  return s->kind->truncate(s, b, length);
}

int64_t attend_state_length(const attend_state *s, int b) {
  return b >= 0 && b < s->batch ? s->length[b] : 0;
}

/* ---- memory ------------------------------------------------------------------------ */

static attend_status check_limit(attend_context *ctx, size_t held, size_t bytes,
                                 const char *what) {
  if (size_add(held, bytes) <= ctx->cache_limit) return ATTEND_OK;
  return fail(ctx, ATTEND_NO_MEMORY,
              "%s needs %zu bytes beside the %zu that the context's states "
              "hold, and its cache_limit is %zu: raise the limit or keep fewer "
              "keys",
              what, bytes, held, ctx->cache_limit);
}

attend_status cache_check(attend_context *ctx, size_t bytes, const char *what) {
  return check_limit(ctx, cache_held(ctx), bytes, what);
}

attend_status cache_take(attend_context *ctx, size_t bytes, const char *what) {
  size_t held = cache_held(ctx);
  do {
    ATTEND_TRY(check_limit(ctx, held, bytes, what));
  } while (!__atomic_compare_exchange_n(&context_root(ctx)->cache_bytes, &held,
                                        held + bytes, true, __ATOMIC_RELAXED,
                                        __ATOMIC_RELAXED));
  return ATTEND_OK;
}

size_t attend_state_bytes(const attend_state *s) { return s->kind->bytes(s); }

size_t attend_state_reserve_bytes(const attend_state *s, int keys) {
  return s->kind->reserve_bytes(s, keys);
}

attend_status attend_state_reserve(attend_state *s, int keys) {
  char what[64];
  ATTEND_CHECK(s->ctx, keys >= 0, "%d keys cannot be reserved", keys);
  snprintf(what, sizeof what, "a reserve of %d keys for %d sequences", keys,
           s->batch);
  ATTEND_TRY(cache_check(s->ctx, attend_state_reserve_bytes(s, keys), what));
  return s->kind->reserve(s, keys);
}

/* ---- what fits ---------------------------------------------------------------------- */

static bool same_map(const attend_form *a, const attend_form *b) {
  return a->kind == b->kind && a->degree == b->degree && a->a == b->a &&
         a->c == b->c && a->sigma == b->sigma && a->features == b->features &&
         a->seed == b->seed && a->redraw == b->redraw && a->draw == b->draw &&
         a->pairs == b->pairs && a->map == b->map && a->phi == b->phi &&
         a->user == b->user;
}

/* elu has nothing to set; only favor and fourier have a scale. */
static bool same_features(const attend_desc *a, const attend_desc *b) {
  if (a->form.kind != b->form.kind) return false;
  if (a->form.kind == ATTEND_ELU) return true;
  bool scaled = a->form.kind == ATTEND_FAVOR || a->form.kind == ATTEND_FOURIER;
  return same_map(&a->form, &b->form) && (!scaled || a->scale == b->scale);
}

static bool same_shape(const attend_desc *a, const attend_desc *b) {
  return a->kv_heads == b->kv_heads && a->dim == b->dim &&
         a->dim_v == b->dim_v && a->dtype == b->dtype;
}

static attend_status check_call(const attend_plan *p, const attend_state *s,
                                int n) {
  const attend_desc *a = &p->desc, *b = &s->desc;
  ATTEND_CHECK(p->ctx, a->purpose & ATTEND_FOR_EXTEND,
               "this plan was not made for states: set ATTEND_FOR_EXTEND in "
               "the description's purpose");
  ATTEND_CHECK(p->ctx, p->ctx == s->ctx,
               "the state belongs to another context: use a plan of that one");
  ATTEND_CHECK(p->ctx, a->batch == b->batch && same_shape(a, b),
               "the state was made for another shape: use a plan with the same "
               "batch, kv heads, widths and dtype");
  ATTEND_CHECK(p->ctx,
               p->engine->states == s->kind &&
                   (s->kind->has_keys || same_features(a, b)),
               "the state was made for another form or other features: use a "
               "plan with the same form, features, seed and redraw");
  ATTEND_CHECK(p->ctx, n >= 0, "%d rows in one call: choose 0 or more", n);
  for (int i = 0; a->mask.lengths && i < a->batch; i++)
    ATTEND_CHECK(p->ctx, a->mask.lengths[i] >= 0 && a->mask.lengths[i] <= n,
                 "lengths[%d] is %d, but the call has %d rows", i,
                 (int)a->mask.lengths[i], n);
  ATTEND_CHECK(p->ctx, a->bias.kind != ATTEND_ALIBI || a->bias.slopes,
               "the bias is ALiBi but slopes is NULL: give [heads] slopes");
  ATTEND_CHECK(p->ctx, a->bias.kind != ATTEND_BUCKETS || a->bias.table,
               "the bias has buckets but table is NULL: give [buckets, heads]");
  return ATTEND_OK;
}

attend_status attend_state_copy(const attend_state *from, int b,
                                attend_state *to, int to_b) {
  bool fits = b >= 0 && b < from->batch && to_b >= 0 && to_b < to->batch &&
              context_root(from->ctx) == context_root(to->ctx) &&
              from->kind == to->kind && same_shape(&from->desc, &to->desc) &&
              (to->kind->has_keys || same_features(&from->desc, &to->desc));
  ATTEND_CHECK(to->ctx, fits,
               "sequence %d cannot become sequence %d of a state of another "
               "shape or form",
               b, to_b);
  return to->kind->copy(from, b, to, to_b);
}

/* ---- calls -------------------------------------------------------------------------- */

static call state_call(attend_plan *p, attend_state *s, int n) {
  return (call){
      .plan = p, .on = p->fast, .state = s, .before = s->before, .n = n};
}

/* New keys and values. */
static attend_status give_keys(call *c, attend_view k, attend_view v) {
  const attend_desc *d = &c->plan->desc;
  ATTEND_CHECK(c->plan->ctx, c->n == 0 || (k.data && v.data),
               "k or v is NULL: give the new keys and values");
  c->k = view_complete(k, d->kv_heads, c->n, d->dim);
  c->v = view_complete(v, d->kv_heads, c->n, d->dim_v);
  return ATTEND_OK;
}

static void give_queries(call *c, attend_view q, attend_view o, float *lse) {
  const attend_desc *d = &c->plan->desc;
  c->q = view_complete(q, d->heads, c->n, d->dim);
  c->o = view_complete(o, d->heads, c->n, d->dim_v);
  c->lse = lse;
}

static attend_status check_rows(const attend_plan *p, int n) {
  ATTEND_CHECK(p->ctx, n <= p->desc.q_len,
               "%d queries in one call, but the plan was made for at most %d "
               "(q_len): cut the call or make a larger plan",
               n, p->desc.q_len);
  return ATTEND_OK;
}

static attend_status check_looking(const attend_plan *p, int n, attend_view q,
                                   attend_view o) {
  ATTEND_CHECK(p->ctx, n == 0 || (q.data && o.data),
               "q or o is NULL: give the queries and room for the outputs");
  ATTEND_TRY(check_rows(p, n));
  attend_view out = view_complete(o, p->desc.heads, n, p->desc.dim_v);
  return desc_check_output(p->ctx, &p->desc, "o", &out, p->desc.heads, n,
                           p->desc.dim_v);
}

static void stand_last(const attend_plan *p, attend_state *s, int n) {
  for (int b = 0; b < s->batch; b++)
    s->before[b] = s->length[b] - new_keys(p, b, n);
}

attend_status attend_state_append(attend_plan *p, attend_state *s, int n,
                                  attend_view k, attend_view v) {
  ATTEND_TRY(check_call(p, s, n));
  call c = state_call(p, s, n);
  ATTEND_TRY(give_keys(&c, k, v));
  return s->kind->append(&c, s);
}

attend_status attend_state_query(attend_plan *p, attend_state *s, int n,
                                 attend_view q, attend_view o, float *lse) {
  ATTEND_TRY(check_call(p, s, n));
  ATTEND_TRY(check_looking(p, n, q, o));
  call c = state_call(p, s, n);
  give_queries(&c, q, o, lse);
  stand_last(p, s, n);
  return s->kind->look(&c, s);
}

attend_status attend_extend(attend_plan *p, attend_state *s, int n,
                            attend_view q, attend_view k, attend_view v,
                            attend_view o, float *lse) {
  ATTEND_TRY(check_looking(p, n, q, o));
  ATTEND_TRY(check_call(p, s, n));
  call c = state_call(p, s, n);
  give_queries(&c, q, o, lse);
  ATTEND_TRY(give_keys(&c, k, v));
  return s->kind->extend(&c, s);
}

attend_status attend_state_observe(attend_plan *p, attend_state *s, int n,
                                   attend_view q, const float *lse,
                                   const attend_observation *what) {
  ATTEND_TRY(check_call(p, s, n));
  ATTEND_CHECK(p->ctx, s->kind->has_keys,
               "a linear state holds sums and no keys to look at: keep the "
               "keys and use attend_observe");
  ATTEND_CHECK(p->ctx, n == 0 || (q.data && lse),
               "q or lse is NULL: give what attend_extend took and wrote");
  ATTEND_TRY(check_rows(p, n));
  stand_last(p, s, n);
  call c = state_call(p, s, n);
  c.q = view_complete(q, p->desc.heads, n, p->desc.dim);
  c.lse_in = lse;
  c.look = what;
  if (p->engine->at_once) plan_wait(p);
  attend_status status = p->engine->observe(&c);
  plan_wait(p);
  return status;
}
