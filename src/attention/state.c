/* States: checks of their public calls, and their files.
 *
 * What a state does is in the table of its kind (state.h): kv_cache.c, linear_state.c.
 */
#include "attention/state.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "attention/features.h"
#include "base/files.h"
#include "base/options.h"

/* ---- creating, forking ----------------------------------------------------------- */

state_layout state_layout_of(const attend_context *ctx, const attend_desc *desc) {
  const struct block_kernels *on = ctx->kernels->block[desc->dtype];
  return (state_layout){(int)round_up((size_t)desc->dim_v, LANES),
                        (int)round_up((size_t)desc->dim, (size_t)on->step), on->pair};
}

attend_status state_make(attend_context *ctx, const attend_desc *desc, size_t bytes, void *out) {
  attend_state *s;
  size_t batch = (size_t)desc->batch, head = round_up(bytes, 64);
  ATTEND_TRY(ctx_alloc_zeroed(ctx, size_add(head, SIZE_PRODUCT(2, batch, sizeof *s->length)),
                              "a state", &s));
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

static attend_status check_purpose(const attend_plan *plan) {
  ATTEND_CHECK(plan->ctx, plan->desc.purpose & ATTEND_FOR_EXTEND,
               "this plan was not made for states: set ATTEND_FOR_EXTEND in the description's "
               "purpose");
  return ATTEND_OK;
}

attend_status attend_state_create(attend_plan *plan, attend_state **state) {
  *state = NULL;
  ATTEND_TRY(check_purpose(plan));
  return make_empty(plan->engine->states, plan->ctx, &plan->desc, state);
}

void attend_state_free(attend_state *s) {
  if (!s) return;
  s->kind->free(s);
  ctx_free(s->ctx, s);
}

attend_status attend_state_fork(const attend_state *state, attend_state **copy) {
  attend_state *s;
  attend_status status = ATTEND_OK;
  *copy = NULL;
  ATTEND_TRY(make_empty(state->kind, state->ctx, &state->desc, &s));
  for (int b = 0; b < s->batch && status == ATTEND_OK; b++) status = s->kind->copy(state, b, s, b);
  if (status == ATTEND_OK)
    *copy = s;
  else
    attend_state_free(s);
  return status;
}

attend_status attend_state_reorder(attend_state *s, const int32_t *parents) {
  for (int b = 0; b < s->batch; b++)
    ATTEND_CHECK(s->ctx, parents[b] >= 0 && parents[b] < s->batch,
                 "parent %d of sequence %d is not a sequence: choose 0 to %d", (int)parents[b], b,
                 s->batch - 1);
  return s->kind->reorder(s, parents);
}

attend_status attend_state_truncate(attend_state *s, int b, int64_t length) {
  ATTEND_CHECK(s->ctx, b >= 0 && b < s->batch, "the state has no sequence %d: choose 0 to %d", b,
               s->batch - 1);
  ATTEND_CHECK(s->ctx, length >= 0 && length <= s->length[b],
               "sequence %d has %lld keys and cannot be cut to %lld", b, (long long)s->length[b],
               (long long)length);
  return s->kind->truncate(s, b, length);
}

int64_t attend_state_length(const attend_state *s, int b) {
  return b >= 0 && b < s->batch ? s->length[b] : 0;
}

/* ---- memory ---------------------------------------------------------------------- */

static attend_status check_limit(attend_context *ctx, size_t held, size_t bytes, const char *what) {
  if (size_add(held, bytes) <= ctx->cache_limit) return ATTEND_OK;
  return fail(ctx, ATTEND_NO_MEMORY,
              "%s needs %zu bytes beside the %zu that the context's states hold, and its "
              "cache_limit is %zu: raise the limit or store fewer keys",
              what, bytes, held, ctx->cache_limit);
}

attend_status cache_take(attend_context *ctx, size_t bytes, const char *what) {
  size_t held = cache_held(ctx);
  do {
    ATTEND_TRY(check_limit(ctx, held, bytes, what));
  } while (!__atomic_compare_exchange_n(&context_root(ctx)->cache_bytes, &held, held + bytes, true,
                                        __ATOMIC_RELAXED, __ATOMIC_RELAXED));
  return ATTEND_OK;
}

size_t attend_state_bytes(const attend_state *s) { return s->kind->bytes(s); }

size_t attend_state_reserve_bytes(const attend_state *s, int keys) {
  return s->kind->reserve_bytes ? s->kind->reserve_bytes(s, keys) : 0;
}

attend_status attend_state_reserve(attend_state *s, int keys) {
  char what[64];
  ATTEND_CHECK(s->ctx, keys >= 0, "%d keys cannot be reserved", keys);
  snprintf(what, sizeof what, "a reserve of %d keys for %d sequences", keys, s->batch);
  ATTEND_TRY(check_limit(s->ctx, cache_held(s->ctx), attend_state_reserve_bytes(s, keys), what));
  return s->kind->reserve ? s->kind->reserve(s, keys) : ATTEND_OK;
}

/* ---- compatibility of plans and states ------------------------------------------- */

static bool same_map(const attend_form *a, const attend_form *b) {
  return a->kind == b->kind && a->degree == b->degree && a->a == b->a && a->c == b->c &&
         a->sigma == b->sigma && a->features == b->features && a->seed == b->seed &&
         a->redraw == b->redraw && a->draw == b->draw && a->pairs == b->pairs && a->map == b->map &&
         a->phi == b->phi && a->user == b->user;
}

/* elu has nothing to set; only favor and fourier have a scale. */
static bool same_features(const attend_desc *a, const attend_desc *b) {
  if (a->form.kind != b->form.kind) return false;
  if (a->form.kind == ATTEND_ELU) return true;
  bool scaled = a->form.kind == ATTEND_FAVOR || a->form.kind == ATTEND_FOURIER;
  return same_map(&a->form, &b->form) && (!scaled || a->scale == b->scale);
}

static bool same_shape(const attend_desc *a, const attend_desc *b) {
  return a->kv_heads == b->kv_heads && a->dim == b->dim && a->dim_v == b->dim_v &&
         a->dtype == b->dtype;
}

static attend_status check_call(const attend_plan *p, const attend_state *s, int n) {
  const attend_desc *a = &p->desc, *b = &s->desc;
  ATTEND_TRY(check_purpose(p));
  ATTEND_CHECK(p->ctx, p->ctx == s->ctx,
               "the state belongs to another context: use a plan of that one");
  ATTEND_CHECK(p->ctx, a->batch == b->batch && same_shape(a, b),
               "the state was made for another shape: use a plan with the same "
               "batch, kv heads, widths and dtype");
  ATTEND_CHECK(p->ctx, p->engine->states == s->kind && (s->kind->has_keys || same_features(a, b)),
               "the state was made for another form or other features: use a "
               "plan with the same form, features, seed and redraw");
  ATTEND_CHECK(p->ctx, n >= 0, "%d rows in one call: choose 0 or more", n);
  for (int i = 0; a->mask.lengths && i < a->batch; i++)
    ATTEND_CHECK(p->ctx, a->mask.lengths[i] >= 0 && a->mask.lengths[i] <= n,
                 "lengths[%d] is %d, but the call has %d rows", i, (int)a->mask.lengths[i], n);
  ATTEND_CHECK(p->ctx, a->bias.kind != ATTEND_ALIBI || a->bias.slopes,
               "the bias is ALiBi but slopes is NULL: give [heads] slopes");
  ATTEND_CHECK(p->ctx, a->bias.kind != ATTEND_BUCKETS || a->bias.table,
               "the bias has buckets but table is NULL: give [buckets, heads]");
  return ATTEND_OK;
}

attend_status attend_state_copy(const attend_state *from, int b, attend_state *to, int to_b) {
  bool fits = b >= 0 && b < from->batch && to_b >= 0 && to_b < to->batch &&
              context_root(from->ctx) == context_root(to->ctx) && from->kind == to->kind &&
              same_shape(&from->desc, &to->desc) &&
              (to->kind->has_keys || same_features(&from->desc, &to->desc));
  ATTEND_CHECK(to->ctx, fits,
               "sequence %d cannot become sequence %d of a state of another shape or form", b,
               to_b);
  return to->kind->copy(from, b, to, to_b);
}

/* ---- calls ----------------------------------------------------------------------- */

static call state_call(attend_plan *p, attend_state *s, int n) {
  return (call){.plan = p, .on = p->fast, .state = s, .before = s->before, .n = n};
}

/* New keys and values. */
static attend_status set_keys(call *c, attend_view k, attend_view v) {
  const attend_desc *d = &c->plan->desc;
  ATTEND_CHECK(c->plan->ctx, c->n == 0 || (k.data && v.data),
               "k or v is NULL: give the new keys and values");
  c->k = view_complete(k, d->kv_heads, c->n, d->dim);
  c->v = view_complete(v, d->kv_heads, c->n, d->dim_v);
  return ATTEND_OK;
}

static void set_queries(call *c, attend_view q, attend_view o, float *lse) {
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

static attend_status check_query(const attend_plan *p, int n, attend_view q, attend_view o) {
  ATTEND_CHECK(p->ctx, n == 0 || (q.data && o.data),
               "q or o is NULL: give the queries and memory for the outputs");
  ATTEND_TRY(check_rows(p, n));
  attend_view out = view_complete(o, p->desc.heads, n, p->desc.dim_v);
  return desc_check_output(p->ctx, &p->desc, "o", &out, p->desc.heads, n, p->desc.dim_v);
}

static void place_last(const attend_plan *p, attend_state *s, int n) {
  for (int b = 0; b < s->batch; b++) s->before[b] = s->length[b] - new_keys(p, b, n);
}

attend_status attend_state_append(attend_plan *p, attend_state *s, int n, attend_view k,
                                  attend_view v) {
  ATTEND_TRY(check_call(p, s, n));
  call c = state_call(p, s, n);
  ATTEND_TRY(set_keys(&c, k, v));
  return s->kind->append(&c, s);
}

attend_status attend_state_query(attend_plan *p, attend_state *s, int n, attend_view q,
                                 attend_view o, float *lse) {
  ATTEND_TRY(check_call(p, s, n));
  ATTEND_TRY(check_query(p, n, q, o));
  call c = state_call(p, s, n);
  set_queries(&c, q, o, lse);
  place_last(p, s, n);
  return s->kind->query(&c, s);
}

attend_status attend_extend(attend_plan *p, attend_state *s, int n, attend_view q, attend_view k,
                            attend_view v, attend_view o, float *lse) {
  ATTEND_TRY(check_query(p, n, q, o));
  ATTEND_TRY(check_call(p, s, n));
  call c = state_call(p, s, n);
  set_queries(&c, q, o, lse);
  ATTEND_TRY(set_keys(&c, k, v));
  return s->kind->extend(&c, s);
}

attend_status attend_state_observe(attend_plan *p, attend_state *s, int n, attend_view q,
                                   const float *lse, const attend_observation *observation) {
  attend_observation obs;
  ATTEND_TRY(OPTIONS_READ(p->ctx, attend_observation, observation, &obs));
  ATTEND_TRY(check_call(p, s, n));
  ATTEND_CHECK(p->ctx, s->kind->has_keys,
               "a linear state holds sums and no keys to observe: store the "
               "keys and use attend_observe");
  ATTEND_CHECK(p->ctx, n == 0 || (q.data && lse), "q or lse is NULL: give those of attend_extend");
  ATTEND_TRY(check_rows(p, n));
  place_last(p, s, n);
  call c = state_call(p, s, n);
  c.q = view_complete(q, p->desc.heads, n, p->desc.dim);
  c.lse_in = lse;
  c.obs = observation ? &obs : NULL;
  if (p->engine->at_once) plan_wait(p);
  attend_status status = p->engine->observe(&c);
  plan_wait(p);
  return status;
}

/* ==== files =================================================================
 *
 * A file begins with everything that the plan must share with it, then holds the
 * sequences. Numbers are in the byte order of the machine that wrote them, which is
 * checked. The file is renamed into place once all of it is on disk. */

static const char MAGIC[16] = "attend-state 1\n";
static const int64_t BYTE_ORDER_MARK = 0x0102030405060708, END_MARK = 0x646e65;

enum { SHAPE_FIELDS = 22 };

typedef struct {
  const char *name;
  int64_t value;
} field;

/* Stored with a sign. */
static int64_t signed_bits(float x) { return (int32_t)float_bits(x); }

/* What must be equal in file and plan. */
static void shape_of(const attend_state *s, field f[SHAPE_FIELDS]) {
  const attend_desc *d = &s->desc;
  const attend_form *m = &d->form;
  const bool linear = !s->kind->has_keys;
  const state_layout at = linear ? state_layout_of(s->ctx, d) : kv_cache_of(s)->layout;
  const field all[SHAPE_FIELDS] = {
      {"byte order", BYTE_ORDER_MARK},
      {"batch", d->batch},
      {"kv_heads", d->kv_heads},
      {"dim", d->dim},
      {"dim_v", d->dim_v},
      {"dtype", d->dtype},
      {"kind of state (linear or not)", linear},
      {"layout of values", at.ldv},
      {"layout of keys", at.width},
      {"pairing of elements", at.pair},
      {"form", linear ? (int64_t)m->kind : 0},
      {"row of features", linear ? features_row(d) : 0},
      {"number of features", linear ? m->features : 0},
      {"degree", linear ? m->degree : 0},
      {"a", linear ? signed_bits(m->a) : 0},
      {"c", linear ? signed_bits(m->c) : 0},
      {"sigma", linear ? signed_bits(m->sigma) : 0},
      {"scale", linear ? signed_bits(d->scale) : 0},
      {"seed", linear ? (int64_t)m->seed : 0},
      {"redraw", linear ? (int64_t)m->redraw : 0},
      {"draw", linear ? (int64_t)m->draw : 0},
      {"map", linear ? 2 * (int64_t)m->map + (m->pairs != 0) : 0},
  };
  memcpy(f, all, sizeof all);
}

/* ---- writing --------------------------------------------------------------------- */

attend_status state_put_number(attend_draft *f, int64_t x) {
  return attend_draft_put(f, &x, sizeof x);
}

static attend_status put_state(attend_draft *f, void *user) {
  const attend_state *s = user;
  field shape[SHAPE_FIELDS];
  shape_of(s, shape);
  ATTEND_TRY(attend_draft_put(f, MAGIC, sizeof MAGIC));
  for (int i = 0; i < SHAPE_FIELDS; i++) ATTEND_TRY(state_put_number(f, shape[i].value));
  for (int b = 0; b < s->batch; b++) {
    ATTEND_TRY(state_put_number(f, s->length[b]));
    ATTEND_TRY(s->kind->put(f, s, b));
  }
  return state_put_number(f, END_MARK);
}

attend_status attend_state_save(const attend_state *s, const char *path) {
  return draft_write(s->ctx, path, put_state, (void *)s, NULL);
}

/* ---- reading --------------------------------------------------------------------- */

static attend_status file_failed(const state_reader *f, const char *what) {
  return fail(f->ctx, ATTEND_IO, "%s \"%.200s\" failed: %s", what, f->path,
              errno ? strerror(errno) : "unknown cause");
}

attend_status state_get(state_reader *f, void *data, size_t bytes) {
  errno = 0;
  if (!bytes || fread(data, 1, bytes, f->file) == bytes) return ATTEND_OK;
  if (ferror(f->file)) return file_failed(f, "reading the state from");
  return fail(f->ctx, ATTEND_IO,
              "\"%.200s\" ends in the middle of a state: it was cut off, save it again", f->path);
}

attend_status state_get_number(state_reader *f, int64_t min, int64_t max, const char *what,
                               int64_t *x) {
  ATTEND_TRY(state_get(f, x, sizeof *x));
  if (*x >= min && *x <= max) return ATTEND_OK;
  return fail(f->ctx, ATTEND_IO, "\"%.200s\" is damaged: its %s is %lld; save it again", f->path,
              what, (long long)*x);
}

static attend_status get_shape(state_reader *f, const attend_state *s) {
  field shape[SHAPE_FIELDS];
  char magic[sizeof MAGIC];
  int64_t x;
  shape_of(s, shape);
  ATTEND_TRY(state_get(f, magic, sizeof magic));
  if (memcmp(magic, MAGIC, sizeof MAGIC))
    return fail(f->ctx, ATTEND_IO, "\"%.200s\" is not a state that attend saved", f->path);
  for (int i = 0; i < SHAPE_FIELDS; i++) {
    ATTEND_TRY(state_get(f, &x, sizeof x));
    ATTEND_CHECK(f->ctx, x == shape[i].value,
                 "\"%.200s\" was saved with another %s (%lld) than the plan's "
                 "(%lld): make the plan that it was saved with",
                 f->path, shape[i].name, (long long)x, (long long)shape[i].value);
  }
  return ATTEND_OK;
}

static attend_status get_sequence(state_reader *f, attend_state *s, int b) {
  int64_t length;
  ATTEND_TRY(state_get_number(f, 0, (int64_t)1 << 48, "number of keys", &length));
  ATTEND_TRY(s->kind->get(f, s, b, length));
  s->length[b] = length;
  return ATTEND_OK;
}

static attend_status get_state(state_reader *f, attend_state *s) {
  int64_t end;
  ATTEND_TRY(get_shape(f, s));
  for (int b = 0; b < s->batch; b++) ATTEND_TRY(get_sequence(f, s, b));
  return state_get_number(f, END_MARK, END_MARK, "end", &end);
}

attend_status attend_state_load(attend_plan *plan, const char *path, attend_state **state) {
  attend_state *s;
  *state = NULL;
  ATTEND_TRY(attend_state_create(plan, &s));
  errno = 0;
  state_reader f = {plan->ctx, path, fopen(path, "rb")};
  attend_status status = f.file ? get_state(&f, s) : file_failed(&f, "opening");
  if (f.file) fclose(f.file);
  if (status == ATTEND_OK)
    *state = s;
  else
    attend_state_free(s);
  return status;
}
