/* States: a KV cache in pages, that grows without copying and can fork.
 *
 * Place: attention/ - pages.c has the pages. attend_extend appends here and then lets the plan's
 * engine look, with keys read from pages. Memory is taken first, then written:
 * a call that fails leaves every sequence as long as it was.
 */
#include "attention/linear_state.h"

#include <math.h>
#include <string.h>

/* ---- making, forking ------------------------------------------------------------ */

static attend_status state_make(attend_context *ctx, const attend_desc *desc,
                                int features_ld, attend_state **out) {
  attend_state *s;
  const struct block_kernels *on = ctx->kernels->block[desc->dtype];
  size_t batch = (size_t)desc->batch, element = attend_dtype_size(desc->dtype);
  ATTEND_TRY(take_zeroed(
      ctx,
      size_add(sizeof *s,
               size_times(batch, sizeof(sequence) + sizeof(int64_t))),
      "a state", &s));
  s->ctx = ctx;
  s->desc = *desc;
  s->batch = desc->batch;
  s->ldv = (int)round_up((size_t)desc->dim_v, LANES);
  s->pair = on->pair;
  s->width = (int)round_up((size_t)desc->dim, (size_t)on->step);
  s->keys_bytes = round_up(SIZE_PRODUCT(PANEL, (size_t)s->width, element), 64);
  s->head_bytes =
      size_add(s->keys_bytes,
               round_up(SIZE_PRODUCT(PANEL, (size_t)s->ldv, element), 64));
  s->sequence = (sequence *)(s + 1);
  s->before = (int64_t *)(s->sequence + batch);
  s->features_ld = features_ld;
  attend_status status = features_ld ? linear_state_make(s) : ATTEND_OK;
  if (status == ATTEND_OK)
    *out = s;
  else
    give(ctx, s);
  return status;
}

attend_status attend_state_create(attend_plan *plan, attend_state **state) {
  *state = NULL;
  ATTEND_CHECK(plan->ctx, plan->desc.purpose & ATTEND_FOR_EXTEND,
               "this plan was not made for states: set ATTEND_FOR_EXTEND in "
               "the description's purpose");
  bool linear = plan->engine == &engine_linear;
  return state_make(plan->ctx, &plan->desc, linear ? plan->map.ld : 0, state);
}

void attend_state_free(attend_state *s) {
  if (!s) return;
  for (int b = 0; b < s->batch; b++) sequence_drop(s, &s->sequence[b]);
  if (s->linear) s->ctx->cache_bytes -= attend_state_bytes(s);
  give(s->ctx, s->linear);
  give(s->ctx, s);
}

attend_status attend_state_fork(const attend_state *state,
                                attend_state **copy) {
  attend_state *s;
  *copy = NULL;
  ATTEND_TRY(state_make(state->ctx, &state->desc, state->features_ld, &s));
  for (int b = 0; b < s->batch; b++) {
    if (s->linear) {
      linear_state_copy(state, b, s, b);
      continue;
    }
    attend_status status =
        sequence_share(s, &state->sequence[b], &s->sequence[b]);
    if (status != ATTEND_OK) {
      attend_state_free(s);
      return status;
    }
  }
  *copy = s;
  return ATTEND_OK;
}

static attend_status share_parents(attend_state *s, const int32_t *parents,
                                   sequence *next) {
  for (int b = 0; b < s->batch; b++) {
    ATTEND_CHECK(s->ctx, parents[b] >= 0 && parents[b] < s->batch,
                 "parent %d of sequence %d is not a sequence: choose 0 to %d",
                 (int)parents[b], b, s->batch - 1);
    if (parents[b] != b)
      ATTEND_TRY(sequence_share(s, &s->sequence[parents[b]], &next[b]));
  }
  return ATTEND_OK;
}

/* A linear state has nothing to share: it is copied. */
static attend_status reorder_linear(attend_state *s, const int32_t *parents) {
  attend_state *old;
  for (int b = 0; b < s->batch; b++)
    ATTEND_CHECK(s->ctx, parents[b] >= 0 && parents[b] < s->batch,
                 "parent %d of sequence %d is not a sequence: choose 0 to %d",
                 (int)parents[b], b, s->batch - 1);
  ATTEND_TRY(attend_state_fork(s, &old));
  for (int b = 0; b < s->batch; b++)
    if (parents[b] != b) linear_state_copy(old, parents[b], s, b);
  attend_state_free(old);
  return ATTEND_OK;
}

attend_status attend_state_reorder(attend_state *s, const int32_t *parents) {
  if (s->linear) return reorder_linear(s, parents);
  sequence *next;
  ATTEND_TRY(take_zeroed(s->ctx, size_times((size_t)s->batch, sizeof *next),
                         "the reordered sequences", &next));
  attend_status status = share_parents(s, parents, next);
  for (int b = 0; b < s->batch; b++) {
    if (status != ATTEND_OK) {
      sequence_drop(s, &next[b]);
    } else if (parents[b] != b) {
      sequence_drop(s, &s->sequence[b]);
      s->sequence[b] = next[b];
    }
  }
  give(s->ctx, next);
  return status;
}

attend_status attend_state_truncate(attend_state *s, int b, int64_t length) {
  ATTEND_CHECK(s->ctx, b >= 0 && b < s->batch,
               "the state has no sequence %d: choose 0 to %d", b, s->batch - 1);
  ATTEND_CHECK(s->ctx, length >= 0 && length <= s->sequence[b].length,
               "sequence %d has %lld keys and cannot be cut to %lld", b,
               (long long)s->sequence[b].length, (long long)length);
  if (s->linear) return linear_state_truncate(s, b, length);
  s->sequence[b].length = length;
  return ATTEND_OK;
}

int64_t attend_state_length(const attend_state *s, int b) {
  return b >= 0 && b < s->batch ? s->sequence[b].length : 0;
}

/* ---- appending -------------------------------------------------------------------- */

/* Copies one element without looking at it; says whether it is finite. */
static bool copy_element(attend_dtype dtype, const void *src, void *dst) {
  if (dtype == ATTEND_F32) {
    memcpy(dst, src, 4);
    return isfinite(*(float *)dst);
  }
  memcpy(dst, src, 2);
  uint16_t exponent = dtype == ATTEND_F16 ? 0x7c00 : 0x7f80;
  return (*(uint16_t *)dst & exponent) != exponent;
}

static void append_key(const attend_state *s, const char *src, ptrdiff_t col,
                       page *to, int g, int slot) {
  size_t element = attend_dtype_size(s->desc.dtype);
  char *dst = page_keys(s, to, g);
  for (int i = 0; i < s->desc.dim; i++)
    copy_element(s->desc.dtype, src + (ptrdiff_t)element * i * col,
                 dst + panel_key_at(s->pair, s->width, slot, i) * element);
}

static bool append_value(const attend_state *s, const char *src, ptrdiff_t col,
                         page *to, int g, int slot) {
  size_t element = attend_dtype_size(s->desc.dtype);
  char *dst = page_values(s, to, g);
  bool finite = true;
  for (int i = 0; i < s->desc.dim_v; i++)
    finite &=
        copy_element(s->desc.dtype, src + (ptrdiff_t)element * i * col,
                     dst + panel_value_at(s->pair, s->ldv, slot, i) * element);
  return finite;
}

/* Padding is not read: its place in the page is cleared. */
static void clear_key(const attend_state *s, page *to, int g, int slot) {
  static const float zero;
  append_key(s, (const char *)&zero, 0, to, g, slot);
  append_value(s, (const char *)&zero, 0, to, g, slot);
}

typedef struct {
  attend_view k, v;
  const uint8_t *key_mask; /* [B,n] or NULL */
  int n;
} chunk;

static void append_head(const attend_state *s, const chunk *x, int b, int g,
                        int count) {
  const sequence *q = &s->sequence[b];
  size_t element = attend_dtype_size(s->desc.dtype);
  for (int i = 0; i < count; i++) {
    int64_t at = q->start + i;
    page *to = q->page[at / PANEL];
    int slot = (int)(at % PANEL);
    if (x->key_mask && !x->key_mask[(size_t)b * (size_t)x->n + (size_t)i]) {
      clear_key(s, to, g, slot);
      continue;
    }
    append_key(s, view_at(&x->k, element, b, g, i), x->k.stride[3], to, g,
               slot);
    if (!append_value(s, view_at(&x->v, element, b, g, i), x->v.stride[3], to,
                      g, slot)) {
      __atomic_store_n(&to->wild, true, __ATOMIC_RELAXED); /* by any head */
    }
  }
}

static void append_padding(attend_state *s, const chunk *x, int b, int count) {
  sequence *q = &s->sequence[b];
  for (int i = 0; i < count; i++) {
    int64_t at = q->length + i;
    page *to = q->page[at / PANEL];
    bool real =
        !x->key_mask || x->key_mask[(size_t)b * (size_t)x->n + (size_t)i];
    to->real[at % PANEL] = real;
    to->padded |= !real;
  }
  q->start = q->length;
  q->length += count;
}

typedef struct {
  attend_state *state;
  chunk x;
  const int32_t *lengths; /* [batch] real keys, or NULL: all */
} appending;

static void append_item(const void *args, int64_t i, int worker) {
  const appending *a = args;
  int heads = a->state->desc.kv_heads, b = (int)(i / heads);
  (void)worker;
  append_head(a->state, &a->x, b, (int)(i % heads),
              a->lengths ? a->lengths[b] : a->x.n);
}

static int new_keys(const attend_plan *p, int b, int n) {
  return p->desc.mask.lengths ? p->desc.mask.lengths[b] : n;
}

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
  ATTEND_CHECK(
      p->ctx,
      (p->engine == &engine_linear) == (s->linear != NULL) &&
          (!s->linear || (s->features_ld == p->map.ld && same_features(a, b))),
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

/* New keys for a linear state: queries stand where they go. */
static call linear_call(attend_plan *p, attend_state *s, int n, attend_view k,
                        attend_view v) {
  call c = {.plan = p, .on = p->fast, .state = s, .before = s->before, .n = n};
  c.k = view_complete(k, p->desc.kv_heads, n, p->desc.dim);
  c.v = view_complete(v, p->desc.kv_heads, n, p->desc.dim_v);
  for (int b = 0; b < s->batch; b++) s->before[b] = s->sequence[b].length;
  return c;
}

attend_status attend_state_append(attend_plan *p, attend_state *s, int n,
                                  attend_view k, attend_view v) {
  ATTEND_TRY(check_call(p, s, n));
  ATTEND_CHECK(p->ctx, n == 0 || (k.data && v.data),
               "k or v is NULL: give the new keys and values");
  const attend_desc *d = &p->desc;
  if (s->linear) {
    call c = linear_call(p, s, n, k, v);
    linear_extend(&c, s, false);
    return ATTEND_OK;
  }
  for (int b = 0; b < s->batch; b++) {
    sequence *q = &s->sequence[b];
    int64_t keys = q->length + new_keys(p, b, n);
    ATTEND_TRY(sequence_reserve(s, q, keys));
    if (keys > q->length) ATTEND_TRY(sequence_own(s, q, keys));
  }
  chunk x = {view_complete(k, d->kv_heads, n, d->dim),
             view_complete(v, d->kv_heads, n, d->dim_v), d->mask.key_mask, n};
  appending a = {s, x, d->mask.lengths};
  for (int b = 0; b < s->batch; b++)
    append_padding(s, &x, b, new_keys(p, b, n));
  PARALLEL_FOR(p->ctx, p->threads, (int64_t)s->batch * d->kv_heads, append_item,
               a);
  return ATTEND_OK;
}

attend_status attend_state_copy(const attend_state *from, int b,
                                attend_state *to, int to_b) {
  sequence copy;
  bool fits = b >= 0 && b < from->batch && to_b >= 0 && to_b < to->batch &&
              from->ctx == to->ctx && from->features_ld == to->features_ld &&
              same_shape(&from->desc, &to->desc) &&
              (!to->linear || same_features(&from->desc, &to->desc));
  ATTEND_CHECK(to->ctx, fits,
               "sequence %d cannot become sequence %d of a state of another "
               "shape or form",
               b, to_b);
  if (to->linear) return linear_state_copy(from, b, to, to_b), ATTEND_OK;
  ATTEND_TRY(sequence_share(to, &from->sequence[b], &copy));
  sequence_drop(to, &to->sequence[to_b]);
  to->sequence[to_b] = copy;
  return ATTEND_OK;
}

/* ---- looking ---------------------------------------------------------------------- */

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

static call look_call(attend_plan *p, attend_state *s, int n, attend_view q) {
  call c = {.plan = p, .on = p->fast, .state = s, .before = s->before, .n = n};
  c.q = view_complete(q, p->desc.heads, n, p->desc.dim);
  return c;
}

static attend_status look(attend_plan *p, attend_state *s, int n, attend_view q,
                          attend_view o, float *lse) {
  call c = look_call(p, s, n, q);
  c.o = view_complete(o, p->desc.heads, n, p->desc.dim_v);
  c.lse = lse;
  if (p->engine->at_once) plan_wait(p);
  return s->linear ? linear_look(&c, s) : p->engine->forward(&c);
}

static void stand_last(const attend_plan *p, attend_state *s, int n) {
  for (int b = 0; b < s->batch; b++)
    s->before[b] = s->sequence[b].length - new_keys(p, b, n);
}

attend_status attend_state_look(attend_plan *p, attend_state *s, int n,
                                attend_view q, attend_view o, float *lse) {
  ATTEND_TRY(check_call(p, s, n));
  ATTEND_TRY(check_looking(p, n, q, o));
  stand_last(p, s, n);
  return look(p, s, n, q, o, lse);
}

attend_status attend_extend(attend_plan *p, attend_state *s, int n,
                            attend_view q, attend_view k, attend_view v,
                            attend_view o, float *lse) {
  ATTEND_TRY(check_looking(p, n, q, o));
  if (s->linear) {
    ATTEND_TRY(check_call(p, s, n));
    ATTEND_CHECK(p->ctx, n == 0 || (k.data && v.data),
                 "k or v is NULL: give the new keys and values");
    call c = linear_call(p, s, n, k, v);
    c.q = view_complete(q, p->desc.heads, n, p->desc.dim);
    c.o = view_complete(o, p->desc.heads, n, p->desc.dim_v);
    c.lse = lse;
    linear_extend(&c, s, true);
    return ATTEND_OK;
  }
  ATTEND_TRY(attend_state_append(p, s, n, k, v));
  stand_last(p, s, n);
  return look(p, s, n, q, o, lse);
}

attend_status attend_state_observe(attend_plan *p, attend_state *s, int n,
                                   attend_view q, const float *lse,
                                   const attend_look *what) {
  ATTEND_TRY(check_call(p, s, n));
  ATTEND_CHECK(p->ctx, !s->linear,
               "a linear state holds sums and no keys to look at: keep the "
               "keys and use attend_observe");
  ATTEND_CHECK(p->ctx, n == 0 || (q.data && lse),
               "q or lse is NULL: give what attend_extend took and wrote");
  ATTEND_TRY(check_rows(p, n));
  stand_last(p, s, n);
  call c = look_call(p, s, n, q);
  c.lse_in = lse;
  c.look = what;
  if (p->engine->at_once) plan_wait(p);
  attend_status status = p->engine->observe(&c);
  plan_wait(p);
  return status;
}
