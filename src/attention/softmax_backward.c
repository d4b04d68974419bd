/* Backward of softmax attention, from (o, lse) alone.
 *
 * The other half of softmax.c.
 *
 *   P = exp(S - lse)      dP = dO V^T      dS = P (dP - rowsum(dO o))
 *   dV = P^T dO           dK = scale dS^T Q           dQ = scale dS K
 *
 * An item is a block of keys of one stack. Its thread owns dK and dV and walks
 * the tiles of rows downwards, adding to dQ as it goes. dQ of a tile must take
 * the blocks in their order, whoever computes them: before a cell (block, tile)
 * is begun, the block before it must have passed that tile. Items are handed
 * out in order, so the one that is waited for is always under way. Five
 * products instead of the seven of a pass for dK, dV and one for dQ, no
 * atomics on floats, and the same bits for any number of threads.
 *
 * Poly has another P and dS: with w = (a s + c)^p and den = sum w,
 *   P = w / den       dS = (dP - rowsum(dO o)) a p (a s + c)^(p-1) / den
 * A soft cap c has dS (1 - tanh^2(s / c)) for dQ and dK, and dS for the bias, which
 * is added after it.
 * Gaussian has dS (k - q) for dQ and dS (q - k) for dK: by differences, or with
 * norms as products less q rowsum(dS) and k colsum(dS). rowsum(dS) is 0 but for
 * the rounding of o, which must not pull dQ along k alone.
 */
#include <sched.h>
#include <string.h>

#include "attention/cell.h"
#include "attention/softmax.h"

/* ---- workspace ------------------------------------------------------------------- */

static size_t shared_cut(const attend_plan *p, arena a, cell_shared *s) {
  size_t items = size_times((size_t)stacks(p), (size_t)key_blocks(p));
  arena_cut(&a, walk_shared_bytes(p));
  size_t rows = SIZE_PRODUCT((size_t)p->desc.batch, (size_t)p->desc.heads,
                             (size_t)p->desc.q_len);
  s->delta = arena_cut(&a, size_times(rows, sizeof *s->delta));
  s->lse2 = NULL; /* a norm of q is worth keeping, a logarithm is not */
  if (p->desc.form.kind == ATTEND_GAUSSIAN)
    s->lse2 = arena_cut(&a, size_times(rows, sizeof *s->lse2));
  s->next = arena_cut(&a, sizeof *s->next);
  s->passed = arena_cut(&a, size_times(items, sizeof *s->passed));
  s->bias = arena_cut(&a, SIZE_PRODUCT(items, (size_t)p->group, bias_entries(p),
                                       sizeof *s->bias));
  s->dq = NULL;
  if (p->desc.dtype != ATTEND_F32)
    s->dq =
        arena_cut(&a, SIZE_PRODUCT(rows, (size_t)p->desc.dim, sizeof *s->dq));
  return a.used;
}

void softmax_backward_size(attend_plan *p) {
  cell_scratch w;
  cell_shared s;
  size_t bytes = cell_scratch_cut(p, (arena){NULL, 0}, &w);
  if (bytes > p->thread_bytes) p->thread_bytes = bytes;
  bytes = shared_cut(p, (arena){NULL, 0}, &s);
  if (bytes > p->shared_bytes) p->shared_bytes = bytes;
}

/* ---- what a cell gives -------------------------------------------------------------- */

/* What is left to multiply: ds is by the exponent, or by poly's base. */
static float score_slope(const attend_plan *p) {
  if (is_poly(p)) return p->desc.form.a;
  return p->score_to2 / (float)LOG2E;
}

static void gaps_to_keys(const attend_plan *p, tile t, int j0, int j1,
                         cell_scratch *w) {
  for (int j = j0; j < j1; j++) {
    size_t at = (size_t)j * (size_t)p->ldk;
    p->kn->weigh_gaps(t.rows, w->ds + j, BLOCK, w->q, p->ldk,
                      w->keys.k_rows + at, w->dk + at);
  }
}

/* Onto w->o; a row takes exactly the keys that it sees, so that no NaN meets a
 * weight of 0. */
static void gaps_to_rows(const call *c, tile t, int j0, int j1,
                         cell_scratch *w) {
  const attend_plan *p = c->plan;
  for (int r = 0; r < t.rows; r++) {
    span seen = rows_see(c, t.b, t.row + r, 1);
    int lo = (int)max64(j0, seen.lo - w->keys.start);
    int hi = (int)min64(j1, seen.hi - w->keys.start);
    size_t at = (size_t)r * (size_t)p->ldk;
    if (lo < hi)
      p->kn->weigh_gaps(hi - lo, w->ds + r * BLOCK + lo, 1,
                        w->keys.k_rows + (size_t)lo * (size_t)p->ldk, p->ldk,
                        w->q + at, w->o + at);
  }
}

static void products_to_rows(const call *c, tile t, int j0, int j1,
                             cell_scratch *w) {
  const attend_plan *p = c->plan;
  float one[GROUP], none[GROUP];
  for (int i = 0; i < GROUP; i++) one[i] = 1.0f, none[i] = 0.0f;
  for (int i = 0; i < t.rows; i += p->kn->rows)
    group_weigh(c, tile_group(p->kn->rows, t, i), &w->keys, j0, j1,
                w->ds + i * BLOCK, p->ldk, none, one,
                w->o + (size_t)i * p->ldk);
}

/* A sum of 0 may stand by a row or a key that was not loaded. */
static void pull(const attend_plan *p, const float *from, float sum,
                 float *row) {
  if (sum == 0.0f) return;
  target to = {row, ATTEND_F32, 0, 1};
  p->kn->add_rows(from, p->ldk, 1, p->desc.dim, -sum, to);
}

static void pull_rows(const attend_plan *p, tile t, int j0, int j1,
                      cell_scratch *w) {
  float sums[ROWS];
  p->kn->sum_rows(t.rows, j1 - j0, w->ds + j0, BLOCK, sums);
  for (int r = 0; r < t.rows; r++) {
    size_t at = (size_t)r * (size_t)p->ldk;
    pull(p, w->q + at, sums[r], w->o + at);
  }
}

static void add_dq(const call *c, tile t, int j0, int j1, const cell_shared *s,
                   cell_scratch *w) {
  const attend_plan *p = c->plan;
  const attend_desc *d = &p->desc;
  float factor = score_slope(p);
  memset(w->o, 0, (size_t)t.rows * (size_t)p->ldk * sizeof(float));
  if (p->by_gaps)
    gaps_to_rows(c, t, j0, j1, w);
  else
    products_to_rows(c, t, j0, j1, w);
  if (takes_norms(p)) pull_rows(p, t, j0, j1, w);
  for (int i = 0; i < t.rows; i++) {
    target out = {.dtype = ATTEND_F32, .col = c->dq.stride[3]};
    out.data = row_address(c, &c->dq, t.b, t.g, t.row + i);
    if (s->dq) {
      out.data = s->dq + row_index(c, t, i) * (size_t)d->dim;
      out.col = 1;
    }
    p->kn->add_rows(w->o + (size_t)i * p->ldk, p->ldk, 1, d->dim, factor, out);
  }
}

/* ---- items ----------------------------------------------------------------------------- */

static void wait_for(const int *passed, int tiles) {
  for (int spins = 0; __atomic_load_n(passed, __ATOMIC_ACQUIRE) < tiles;)
    if (++spins > 64) sched_yield();
}

static void pull_keys(const attend_plan *p, int n, cell_scratch *w) {
  for (int j = 0; j < n; j++) {
    size_t at = (size_t)j * (size_t)p->ldk;
    pull(p, w->keys.k_rows + at, w->sums[j], w->dk + at);
  }
}

static void store_keys(const call *c, int b, int g, int64_t start,
                       cell_scratch *w) {
  const attend_plan *p = c->plan;
  const attend_desc *d = &p->desc;
  float ones[KEYS];
  int n = (int)min64(KEYS, d->kv_len - start);
  size_t size = attend_dtype_size(d->dtype);
  for (int i = 0; i < n; i++) ones[i] = 1.0f;
  if (takes_norms(p)) pull_keys(p, n, w);
  p->kn->scale_all(w->dk, (size_t)n * (size_t)p->ldk, score_slope(p), w->dk);
  target dk = {view_at(&c->dk, size, b, g, start), d->dtype, c->dk.stride[2],
               c->dk.stride[3]};
  target dv = {view_at(&c->dv, size, b, g, start), d->dtype, c->dv.stride[2],
               c->dv.stride[3]};
  p->kn->store_rows(w->dk, p->ldk, n, d->dim, ones, dk);
  p->kn->store_rows(w->dv, p->ldv, n, d->dim_v, ones, dv);
}

static void cell(const call *c, tile t, const cell_shared *s, double *sums,
                 const int *before, int tile_index, cell_scratch *w) {
  const attend_plan *p = c->plan;
  span seen = rows_see(c, t.b, t.row, t.rows);
  int j0, j1;
  seen.hi = min64(seen.hi, w->keys.start + KEYS);
  if (!block_part(seen, w->keys.start, &j0, &j1)) return;
  cell_rows_load(c, t, s, w);
  cell_compute(c, t, j0, j1, w);
  if (c->dbias && bias_entries(p)) bias_gather(c, t, j0, j1, w, sums);
  cell_uncap(c, t, j0, j1, w);
  p->kn->weigh_keys(t.rows, j0, j1, w->p, w->d_o, p->ldv, w->dv);
  if (p->by_gaps)
    gaps_to_keys(p, t, j0, j1, w);
  else
    p->kn->weigh_keys(t.rows, j0, j1, w->ds, w->q, p->ldk, w->dk);
  if (takes_norms(p)) p->kn->column_sums(t.rows, j0, j1, w->ds, w->sums);
  if (before) wait_for(before, tile_index + 1);
  add_dq(c, t, j0, j1, s, w);
}

static void item(const call *c, int64_t index, const cell_shared *s,
                 cell_scratch *w) {
  const attend_plan *p = c->plan;
  int64_t stack = index % stacks(p), at = index / stacks(p);
  int *passed = s->passed + stack * key_blocks(p) + at;
  size_t numbers = (size_t)p->group * bias_entries(p);
  double *sums = s->bias + (size_t)(stack * key_blocks(p) + at) * numbers;
  tile all = cell_tile(c, stack, 0);
  span seen = rows_see(c, all.b, 0, c->n * p->group);
  seen.lo = max64(seen.lo, at * KEYS);
  seen.hi = min64(seen.hi, (at + 1) * KEYS);
  memset(sums, 0, numbers * sizeof *sums);
  memset(w->dk, 0, KEYS * (size_t)p->ldk * sizeof(float));
  memset(w->dv, 0, KEYS * (size_t)p->ldv * sizeof(float));
  memset(w->sums, 0, KEYS * sizeof(float));
  if (seen.lo < seen.hi && cell_keys_load(c, all.b, all.g, at * KEYS, seen, w))
    for (int i = 0; i < row_tiles(p); i++) {
      cell(c, cell_tile(c, stack, i), s, sums, at ? passed - 1 : NULL, i, w);
      if (!at || __atomic_load_n(passed - 1, __ATOMIC_ACQUIRE) > i)
        __atomic_store_n(passed, i + 1, __ATOMIC_RELEASE);
    }
  store_keys(c, all.b, all.g, at * KEYS, w);
  if (at) wait_for(passed - 1, (int)row_tiles(p));
  __atomic_store_n(passed, (int)row_tiles(p), __ATOMIC_RELEASE);
}

/* ---- dQ before and after ------------------------------------------------------------------ */

typedef struct {
  call c;
  cell_shared s;
} gradient;

/* dQ of one head; in 16 bits it is summed in the workspace. */
static void clear_item(const void *args, int64_t head, int worker) {
  const gradient *x = args;
  const call *c = &x->c;
  const attend_desc *d = &c->plan->desc;
  static const float zero[1];
  (void)worker;
  if (x->s.dq) {
    size_t n = (size_t)c->n * (size_t)d->dim;
    memset(x->s.dq + (size_t)head * n, 0, n * sizeof(float));
    return;
  }
  for (int i = 0; i < c->n; i++) {
    target out = {
        view_at(&c->dq, sizeof(float), head / d->heads, head % d->heads, i),
        ATTEND_F32, 0, c->dq.stride[3]};
    c->plan->kn->store_rows(zero, 0, 1, d->dim, zero, out); /* by 0: zeros */
  }
}

static void round_item(const void *args, int64_t head, int worker) {
  const gradient *x = args;
  const call *c = &x->c;
  const attend_desc *d = &c->plan->desc;
  const float *from = x->s.dq + head * c->n * d->dim;
  static const float one[1] = {1.0f};
  (void)worker;
  for (int i = 0; i < c->n; i++, from += d->dim) {
    target out = {view_at(&c->dq, 2, head / d->heads, head % d->heads, i),
                  d->dtype, 0, c->dq.stride[3]};
    c->plan->kn->store_rows(from, d->dim, 1, d->dim, one, out);
  }
}

/* ---- backward ---------------------------------------------------------------------------------- */

static void start_item(const void *args, int64_t i, int worker) {
  const gradient *x = args;
  const attend_plan *p = x->c.plan;
  (void)i, (void)worker;
  memset(x->s.passed, 0,
         (size_t)(stacks(p) * key_blocks(p)) * sizeof *x->s.passed);
  *x->s.next = 0;
}

static void rows_item(const void *args, int64_t i, int worker) {
  const gradient *x = args;
  const attend_plan *p = x->c.plan;
  cell_scratch w;
  cell_scratch_cut(p, plan_thread_arena(p, worker), &w);
  cell_rows_prepare(&x->c, cell_tile(&x->c, i % stacks(p), i / stacks(p)),
                    &x->s, &w);
}

/* Blocks of keys wait for those before them, so all take them in one order. */
static void blocks_item(const void *args, int64_t lane, int worker) {
  const gradient *x = args;
  const attend_plan *p = x->c.plan;
  int64_t blocks = stacks(p) * key_blocks(p);
  cell_scratch w;
  (void)lane;
  cell_scratch_cut(p, plan_thread_arena(p, worker), &w);
  for (int64_t i;
       (i = __atomic_fetch_add(x->s.next, 1, __ATOMIC_RELAXED)) < blocks;)
    item(&x->c, i, &x->s, &w);
}

attend_status softmax_backward(call *c) {
  attend_plan *p = c->plan;
  gradient x;
  attend_stream *on = plan_stream(p);
  int64_t heads = (int64_t)p->desc.batch * p->desc.heads;
  c->raw = true;
  x.c = *c;
  shared_cut(p, plan_shared_arena(p), &x.s);
  call_begin(c);
  stream_enter(on);
  STREAM_ADD(on, heads, clear_item, x);
  STREAM_ADD(on, 1, start_item, x);
  STREAM_ADD(on, stacks(p) * row_tiles(p), rows_item, x);
  STREAM_ADD(on, min64(p->threads, stacks(p) * key_blocks(p)), blocks_item, x);
  if (x.s.dq) STREAM_ADD(on, heads, round_item, x);
  stream_leave(on);
  if (c->dbias) {
    plan_wait(p);
    bias_finish(c, &x.s);
  }
  return ATTEND_OK;
}
