/* Backward of tiled attention, from (o, lse) alone.
 *
 *   P = exp(S - lse)      dP = dO V^T      dS = P (dP - rowsum(dO o))
 *   dV = P^T dO           dK = scale dS^T Q           dQ = scale dS K
 *
 * as in FlashAttention (Dao et al. 2022). A cell is a tile of rows on a block of keys:
 * P and dS of a cell fit the cache. An item is a block of keys of one stack. Its thread
 * owns dK and dV and iterates over the tiles of rows, adding to dQ. dQ of a tile must
 * take the blocks in their order, whichever thread computes them: before a cell (block,
 * tile) is begun, the block before it must have passed that tile. Items are handed out
 * in order, so the one that is waited for is always under way. Five products instead of
 * the seven of one pass for dK and dV and another for dQ, no atomics on floats, and the
 * same bits for any number of threads.
 *
 * Poly has another P and dS: with w = (a s + c)^p and den = sum w,
 *   P = w / den       dS = (dP - rowsum(dO o)) a p (a s + c)^(p-1) / den
 * A soft cap c has dS (1 - tanh^2(s / c)) for dQ and dK, and dS for the bias, which is
 * added after it.
 * Gaussian has dS (k - q) for dQ and dS (q - k) for dK: by differences, or with norms as
 * products less q rowsum(dS) and k colsum(dS). rowsum(dS) is 0 but for the rounding of
 * o, which must not pull dQ along k alone.
 */
#include <sched.h>
#include <string.h>

#include "attention/blocks.h"

enum { KEYS = BLOCK, ROWS = 96 }; /* 2 x 96 KiB of P and dS */

/* A thread's own. */
typedef struct {
  block keys;
  float *q, *d_o;      /* rows of the tile: [ROWS][ldk], [ROWS][ldv] */
  float *p, *ds;       /* [ROWS][BLOCK] */
  float *raw;          /* [ROWS][BLOCK] q.k, 0 where not seen: with a soft cap */
  float *lse2, *delta; /* [ROWS]; poly: lse2 is the denominator */
  float *o;            /* rows of o, or of dQ */
  float *dk, *dv;      /* [KEYS][ldk], [KEYS][ldv] */
  float *sums;         /* [KEYS], of dS over the rows: for norms */
} cell_scratch;

/* What the threads share: dO.o and lse2 of every row, how far each item has
 * come, the sums for dbias, and dQ in f32 where the caller's is shorter. */
typedef struct {
  float *delta, *lse2; /* [B,H,T]; lse2 of gaussian alone */
  int64_t *next;
  int *passed;  /* [stacks][blocks] tiles */
  double *bias; /* [stacks][blocks][group * entries] */
  float *dq;    /* [B,H,T,D] */
} cell_shared;

static inline int64_t stacks(const attend_plan *p) {
  return (int64_t)p->desc.batch * p->desc.kv_heads;
}
static inline int64_t key_blocks(const attend_plan *p) {
  return ((int64_t)p->desc.kv_len + KEYS - 1) / KEYS;
}
static inline int64_t row_tiles(const attend_plan *p) {
  return ((int64_t)p->desc.q_len * p->group + ROWS - 1) / ROWS;
}

static size_t cell_scratch_cut(const attend_plan *p, arena a, cell_scratch *w) {
  size_t ldk = (size_t)p->ldk, ldv = (size_t)p->ldv, f = sizeof(float);
  size_t wide = ldk > ldv ? ldk : ldv;
  block_cut(p, &a, true, &w->keys);
  w->q = arena_cut(&a, SIZE_PRODUCT(ROWS, ldk, f));
  w->d_o = arena_cut(&a, SIZE_PRODUCT(ROWS, ldv, f));
  w->p = arena_cut(&a, SIZE_PRODUCT(ROWS, BLOCK, f));
  w->ds = arena_cut(&a, SIZE_PRODUCT(ROWS, BLOCK, f));
  w->raw = is_capped(p) ? arena_cut(&a, SIZE_PRODUCT(ROWS, BLOCK, f)) : NULL;
  w->lse2 = arena_cut(&a, size_times(ROWS, f));
  w->delta = arena_cut(&a, size_times(ROWS, f));
  w->o = arena_cut(&a, SIZE_PRODUCT(ROWS, wide, f));
  w->dk = arena_cut(&a, SIZE_PRODUCT(KEYS, ldk, f));
  w->dv = arena_cut(&a, SIZE_PRODUCT(KEYS, ldv, f));
  w->sums = arena_cut(&a, size_times(KEYS, f));
  return a.used;
}

/* ---- loading --------------------------------------------------------------------- */

static tile cell_tile(const call *c, int64_t stack, int64_t i) {
  const attend_plan *p = c->plan;
  tile t = {.b = (int)(stack / p->desc.kv_heads),
            .g = (int)(stack % p->desc.kv_heads),
            .row = (int)(i * ROWS)};
  t.rows = (int)min64(ROWS, (int64_t)c->n * p->group - t.row);
  return t;
}

static void cell_rows_prepare(const call *c, tile t, const cell_shared *s, cell_scratch *w) {
  const attend_plan *p = c->plan;
  rows_load(c, &c->o, t, p->desc.dim_v, p->ldv, true, w->o);
  rows_load(c, &c->d_o, t, p->desc.dim_v, p->ldv, true, w->d_o);
  p->kn->row_dots(t.rows, p->ldv, w->d_o, w->o, p->ldv, w->delta);
  for (int i = 0; i < t.rows; i++) {
    size_t row = row_index(c, t, i);
    s->delta[row] = w->delta[i];
    if (s->lse2) s->lse2[row] = row_lse2(c, t, i);
  }
}

static void cell_rows_load(const call *c, tile t, const cell_shared *s, cell_scratch *w) {
  const attend_plan *p = c->plan;
  rows_load(c, &c->d_o, t, p->desc.dim_v, p->ldv, true, w->d_o);
  rows_load(c, &c->q, t, p->desc.dim, p->ldk, true, w->q);
  for (int i = 0; i < t.rows; i++) {
    size_t row = row_index(c, t, i);
    w->delta[i] = s->delta[row];
    w->lse2[i] = s->lse2 ? s->lse2[row] : is_poly(p) ? c->lse_in[row] : row_lse2(c, t, i);
  }
}

static bool cell_keys_load(const call *c, int b, int g, int64_t start, span visible,
                           cell_scratch *w) {
  if (!block_load(c, b, g, start, visible, &w->keys)) return false;
  block_norms(c, visible, &w->keys);
  return true;
}

/* ---- P and dS -------------------------------------------------------------------- */

/* Scores of the group; with a soft cap its products are kept. */
static void cell_scores(const call *c, tile g, int at, int j0, int j1, cell_scratch *w, float *s) {
  const attend_plan *p = c->plan;
  group_products(c, g, w->q + (size_t)at * (size_t)p->ldk, &w->keys, j0, j1, s);
  if (w->raw)
    for (int r = 0; r < g.rows; r++)
      memcpy(w->raw + (at + r) * BLOCK + j0, s + r * BLOCK + j0, (size_t)(j1 - j0) * sizeof *s);
  group_finish(c, g, &w->keys, j0, j1, s);
}

static void cell_group(const call *c, tile g, int at, int j0, int j1, cell_scratch *w) {
  const attend_plan *p = c->plan;
  const attend_desc *d = &p->desc;
  const block *k = &w->keys;
  float *s = w->p + at * BLOCK, *dp = w->ds + at * BLOCK;
  cell_scores(c, g, at, j0, j1, w, s);
  for (int j = j0; j < j1;) {
    int base = j / PANEL * PANEL, end = base + PANEL < j1 ? base + PANEL : j1;
    p->kn->scores(g.rows, d->dim_v, w->d_o + (size_t)at * (size_t)p->ldv, p->ldv,
                  k->v_lanes + (size_t)base * (size_t)d->dim_v, j - base, end - base, dp + base);
    j = end;
  }
  if (is_poly(p))
    p->kn->power_grad(g.rows, j0, j1, d->form.a, d->form.c, d->form.degree, s, dp, w->lse2 + at,
                      w->delta + at);
  else
    p->kn->softmax_grad(g.rows, j0, j1, call_factor(c), s, dp, w->lse2 + at, w->delta + at);
  if (group_sees(c, g, k, j0, j1)) return;
  group_mask(c, g, k, j0, j1, 0.0f, s);
  group_mask(c, g, k, j0, j1, 0.0f, dp);
  if (w->raw) group_mask(c, g, k, j0, j1, 0.0f, w->raw + at * BLOCK);
}

static void clear_columns(float *s, int rows, int j0, int j1) {
  for (int r = 0; r < rows && j0 < j1; r++)
    memset(s + r * BLOCK + j0, 0, (size_t)(j1 - j0) * sizeof *s);
}

/* Groups of a cell that see less than the others hold zeros there, so that the
 * keys can take the rows of the tile in one run. */
static void cell_compute(const call *c, tile t, int j0, int j1, cell_scratch *w) {
  int step = c->plan->kn->rows;
  for (int i = 0; i < t.rows; i += step) {
    tile g = tile_group(step, t, i);
    int from = j0, to = j0;
    block_part(rows_see(c, g.b, g.row, g.rows), w->keys.start, &from, &to);
    if (to > j1) to = j1;
    if (from < j0) from = j0;
    if (from > to) from = to;
    float *all[3] = {w->p, w->ds, w->raw};
    for (int k = 0; k < 3 && all[k]; k++) {
      clear_columns(all[k] + i * BLOCK, g.rows, j0, from);
      clear_columns(all[k] + i * BLOCK, g.rows, to, j1);
    }
    if (from < to) cell_group(c, g, i, from, to, w);
  }
}

/* ---- the gradient of the bias -------------------------------------------------------
 *
 * ALiBi's slopes and T5's buckets are summed in double by each block of keys, and the
 * blocks are joined in order. A dense bias has a gradient for each pair: its tiles of
 * rows compute their cells again. */

/* Numbers of bias that one head has. */
static size_t bias_entries(const attend_plan *p) {
  if (p->desc.bias.kind == ATTEND_ALIBI) return 1;
  return p->desc.bias.kind == ATTEND_BUCKETS ? (size_t)p->desc.bias.buckets : 0;
}

/* Onto the sums of this item: [group][entries]. */
static void bias_gather(const call *c, tile t, int j0, int j1, const cell_scratch *w,
                        double *sums) {
  const attend_plan *p = c->plan;
  const attend_bias *bias = &p->desc.bias;
  size_t entries = bias_entries(p);
  for (int r = 0; r < t.rows; r++) {
    double *mine = sums + (size_t)((t.row + r) % p->group) * entries;
    int64_t distance = w->keys.start - call_position(c, t.b) - (t.row + r) / p->group;
    for (int j = j0; j < j1; j++) {
      double ds = (double)w->ds[r * BLOCK + j];
      int64_t far = distance + j;
      if (ds == 0.0) continue;
      if (bias->kind == ATTEND_ALIBI)
        mine[0] -= ds * (double)(far < 0 ? -far : far);
      else
        mine[attend_bucket(bias, far)] += ds;
    }
  }
}

/* Sums of all items in their order: [entries, H] as the caller's table lies. */
static void sum_dbias(const call *c, const cell_shared *s) {
  const attend_plan *p = c->plan;
  size_t entries = bias_entries(p), group = (size_t)p->group;
  for (int h = 0; h < p->desc.heads; h++)
    for (size_t e = 0; e < entries; e++) {
      double sum = 0;
      for (int b = 0; b < p->desc.batch; b++) {
        int64_t stack = (int64_t)b * p->desc.kv_heads + h / p->group;
        for (int64_t at = 0; at < key_blocks(p); at++)
          sum += s->bias[(((size_t)(stack * key_blocks(p) + at)) * group + (size_t)(h % p->group)) *
                             entries +
                         e];
      }
      c->dbias[e * (size_t)p->desc.heads + (size_t)h] = (float)(sum * (double)p->bias_to2 / LOG2E);
    }
}

static attend_view dense_view(const call *c) {
  const attend_desc *d = &c->plan->desc;
  attend_view v = view_complete(d->bias.dense, d->heads, c->n, d->kv_len);
  v.data = c->dbias;
  return v;
}

void dense_clear(const call *c) {
  const attend_desc *d = &c->plan->desc;
  attend_view view = dense_view(c), *v = &view;
  for (int b = 0; b < (v->stride[0] ? d->batch : 1); b++)
    for (int h = 0; h < (v->stride[1] ? d->heads : 1); h++)
      for (int i = 0; i < (v->stride[2] ? c->n : 1); i++)
        for (int64_t j = 0; j < (v->stride[3] ? d->kv_len : 1); j++)
          ((float *)view_at(v, sizeof(float), b, h, i))[j * v->stride[3]] = 0;
}

/* One tile of rows of one stack: dS is the gradient of its scores. */
static void dense_tile(const call *c, tile t, const cell_shared *s, const attend_view *v,
                       cell_scratch *w) {
  const attend_plan *p = c->plan;
  float factor = p->bias_to2 / (float)LOG2E;
  cell_rows_load(c, t, s, w);
  span rows = rows_see(c, t.b, t.row, t.rows);
  for (int64_t at = rows.lo / KEYS * KEYS; at < rows.hi; at += KEYS) {
    span visible = {max64(rows.lo, at), min64(rows.hi, at + KEYS)};
    int j0, j1;
    if (!cell_keys_load(c, t.b, t.g, at, visible, w)) continue;
    if (!block_part(visible, at, &j0, &j1)) continue;
    cell_compute(c, t, j0, j1, w);
    int end = (int)min64(j1, visible.hi - at);
    for (int r = 0; r < t.rows; r++) {
      float *out =
          view_at(v, sizeof(float), t.b, row_head(p, t.g, t.row + r), (t.row + r) / p->group);
      for (int j = j0; j < end; j++) out[(at + j) * v->stride[3]] += factor * w->ds[r * BLOCK + j];
    }
  }
}

/* Owned by tiles of rows; batch and heads come in order, since a broadcast
 * bias sums over them. A bias that is broadcast over queries has one owner, and
 * so has one broadcast over heads where tiles cut the heads of a query apart. */
typedef struct {
  call c;
  cell_shared s;
  attend_view to;
  int64_t tiles; /* of an item: all, if the bias has one owner */
} dense_sum;

static void dense_item(const void *args, int64_t item, int worker) {
  const dense_sum *x = args;
  const attend_plan *p = x->c.plan;
  cell_scratch w;
  cell_scratch_cut(p, plan_thread_arena(p, worker), &w);
  for (int64_t i = item * x->tiles; i < (item + 1) * x->tiles; i++)
    for (int64_t stack = 0; stack < stacks(p); stack++)
      dense_tile(&x->c, cell_tile(&x->c, stack, i), &x->s, &x->to, &w);
}

static void dense_dbias(const call *c, const cell_shared *s) {
  attend_plan *p = c->plan;
  attend_view v = dense_view(c);
  bool alone = v.stride[2] && (v.stride[1] || ROWS % p->group == 0);
  dense_sum x = {*c, *s, v, alone ? 1 : row_tiles(p)};
  dense_clear(c);
  STREAM_ADD(plan_stream(p), alone ? row_tiles(p) : 1, dense_item, x);
}

/* ---- workspace ------------------------------------------------------------------- */

static size_t shared_cut(const attend_plan *p, arena a, cell_shared *s) {
  size_t items = size_times((size_t)stacks(p), (size_t)key_blocks(p));
  arena_cut(&a, bias_shared_bytes(p));
  size_t rows = SIZE_PRODUCT((size_t)p->desc.batch, (size_t)p->desc.heads, (size_t)p->desc.q_len);
  s->delta = arena_cut(&a, size_times(rows, sizeof *s->delta));
  s->lse2 = NULL; /* a norm of q is worth keeping, a logarithm is not */
  if (p->desc.form.kind == ATTEND_GAUSSIAN)
    s->lse2 = arena_cut(&a, size_times(rows, sizeof *s->lse2));
  s->next = arena_cut(&a, sizeof *s->next);
  s->passed = arena_cut(&a, size_times(items, sizeof *s->passed));
  s->bias = arena_cut(&a, SIZE_PRODUCT(items, (size_t)p->group, bias_entries(p), sizeof *s->bias));
  s->dq = NULL;
  if (p->desc.dtype != ATTEND_F32)
    s->dq = arena_cut(&a, SIZE_PRODUCT(rows, (size_t)p->desc.dim, sizeof *s->dq));
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

/* ---- contributions of a cell ----------------------------------------------------- */

/* What is left to multiply: ds is by the exponent, or by poly's base. */
static float score_slope(const attend_plan *p) {
  if (is_poly(p)) return p->desc.form.a;
  return p->score_to2 / (float)LOG2E;
}

static void differences_to_keys(const attend_plan *p, tile t, int j0, int j1, cell_scratch *w) {
  for (int j = j0; j < j1; j++) {
    size_t at = (size_t)j * (size_t)p->ldk;
    p->kn->weigh_differences(t.rows, w->ds + j, BLOCK, w->q, p->ldk, w->keys.k_rows + at,
                             w->dk + at);
  }
}

/* Onto w->o; a row takes exactly the keys that it sees, so that no NaN meets a weight of 0. */
static void differences_to_rows(const call *c, tile t, int j0, int j1, cell_scratch *w) {
  const attend_plan *p = c->plan;
  for (int r = 0; r < t.rows; r++) {
    span visible = rows_see(c, t.b, t.row + r, 1);
    int lo = (int)max64(j0, visible.lo - w->keys.start);
    int hi = (int)min64(j1, visible.hi - w->keys.start);
    size_t at = (size_t)r * (size_t)p->ldk;
    if (lo < hi)
      p->kn->weigh_differences(hi - lo, w->ds + r * BLOCK + lo, 1,
                               w->keys.k_rows + (size_t)lo * (size_t)p->ldk, p->ldk, w->q + at,
                               w->o + at);
  }
}

static void products_to_rows(const call *c, tile t, int j0, int j1, cell_scratch *w) {
  const attend_plan *p = c->plan;
  float one[GROUP], none[GROUP];
  for (int i = 0; i < GROUP; i++) one[i] = 1.0f, none[i] = 0.0f;
  for (int i = 0; i < t.rows; i += p->kn->rows)
    group_weigh(c, tile_group(p->kn->rows, t, i), &w->keys, j0, j1, w->ds + i * BLOCK, p->ldk, none,
                one, w->o + (size_t)i * p->ldk);
}

/* A sum of 0 may stand by a row or a key that was not loaded. */
static void pull(const attend_plan *p, const float *from, float sum, float *row) {
  if (sum == 0.0f) return;
  target to = {row, ATTEND_F32, 0, 1};
  p->kn->add_rows(from, p->ldk, 1, p->desc.dim, -sum, to);
}

static void pull_rows(const attend_plan *p, tile t, int j0, int j1, cell_scratch *w) {
  float sums[ROWS];
  p->kn->sum_rows(t.rows, j1 - j0, w->ds + j0, BLOCK, sums);
  for (int r = 0; r < t.rows; r++) {
    size_t at = (size_t)r * (size_t)p->ldk;
    pull(p, w->q + at, sums[r], w->o + at);
  }
}

static void add_dq(const call *c, tile t, int j0, int j1, const cell_shared *s, cell_scratch *w) {
  const attend_plan *p = c->plan;
  const attend_desc *d = &p->desc;
  float factor = score_slope(p);
  memset(w->o, 0, (size_t)t.rows * (size_t)p->ldk * sizeof(float));
  if (p->by_differences)
    differences_to_rows(c, t, j0, j1, w);
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

/* ---- items ----------------------------------------------------------------------- */

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

static void store_keys(const call *c, int b, int g, int64_t start, cell_scratch *w) {
  const attend_plan *p = c->plan;
  const attend_desc *d = &p->desc;
  float ones[KEYS];
  int n = (int)min64(KEYS, d->kv_len - start);
  size_t size = attend_dtype_size(d->dtype);
  for (int i = 0; i < n; i++) ones[i] = 1.0f;
  if (takes_norms(p)) pull_keys(p, n, w);
  p->kn->scale_all(w->dk, (size_t)n * (size_t)p->ldk, score_slope(p), w->dk);
  target dk = {view_at(&c->dk, size, b, g, start), d->dtype, c->dk.stride[2], c->dk.stride[3]};
  target dv = {view_at(&c->dv, size, b, g, start), d->dtype, c->dv.stride[2], c->dv.stride[3]};
  p->kn->store_rows(w->dk, p->ldk, n, d->dim, ones, dk);
  p->kn->store_rows(w->dv, p->ldv, n, d->dim_v, ones, dv);
}

static void cell(const call *c, tile t, const cell_shared *s, double *sums, const int *before,
                 int tile_index, cell_scratch *w) {
  const attend_plan *p = c->plan;
  span visible = rows_see(c, t.b, t.row, t.rows);
  int j0, j1;
  visible.hi = min64(visible.hi, w->keys.start + KEYS);
  if (!block_part(visible, w->keys.start, &j0, &j1)) return;
  cell_rows_load(c, t, s, w);
  cell_compute(c, t, j0, j1, w);
  if (c->dbias && bias_entries(p)) bias_gather(c, t, j0, j1, w, sums);
  if (w->raw) p->kn->soft_cap_grad(t.rows, j0, j1, p->cap_in, w->raw, w->ds);
  p->kn->weigh_keys(t.rows, j0, j1, w->p, w->d_o, p->ldv, w->dv);
  if (p->by_differences)
    differences_to_keys(p, t, j0, j1, w);
  else
    p->kn->weigh_keys(t.rows, j0, j1, w->ds, w->q, p->ldk, w->dk);
  if (takes_norms(p)) p->kn->column_sums(t.rows, j0, j1, w->ds, w->sums);
  if (before) wait_for(before, tile_index + 1);
  add_dq(c, t, j0, j1, s, w);
}

static void item(const call *c, int64_t index, const cell_shared *s, cell_scratch *w) {
  const attend_plan *p = c->plan;
  int64_t stack = index % stacks(p), at = index / stacks(p);
  int *passed = s->passed + stack * key_blocks(p) + at;
  size_t numbers = (size_t)p->group * bias_entries(p);
  double *sums = s->bias + (size_t)(stack * key_blocks(p) + at) * numbers;
  tile all = cell_tile(c, stack, 0);
  span visible = rows_see(c, all.b, 0, c->n * p->group);
  visible.lo = max64(visible.lo, at * KEYS);
  visible.hi = min64(visible.hi, (at + 1) * KEYS);
  memset(sums, 0, numbers * sizeof *sums);
  memset(w->dk, 0, KEYS * (size_t)p->ldk * sizeof(float));
  memset(w->dv, 0, KEYS * (size_t)p->ldv * sizeof(float));
  memset(w->sums, 0, KEYS * sizeof(float));
  if (visible.lo < visible.hi && cell_keys_load(c, all.b, all.g, at * KEYS, visible, w))
    for (int i = 0; i < row_tiles(p); i++) {
      cell(c, cell_tile(c, stack, i), s, sums, at ? passed - 1 : NULL, i, w);
      if (!at || __atomic_load_n(passed - 1, __ATOMIC_ACQUIRE) > i)
        __atomic_store_n(passed, i + 1, __ATOMIC_RELEASE);
    }
  store_keys(c, all.b, all.g, at * KEYS, w);
  if (at) wait_for(passed - 1, (int)row_tiles(p));
  __atomic_store_n(passed, (int)row_tiles(p), __ATOMIC_RELEASE);
}

/* ---- dQ before and after --------------------------------------------------------- */

typedef struct {
  call c;
  cell_shared s;
} gradient;

/* Where dQ of a head is. */
static target head_dq(const call *c, int64_t head) {
  const attend_desc *d = &c->plan->desc;
  void *first = view_at(&c->dq, attend_dtype_size(d->dtype), head / d->heads, head % d->heads, 0);
  return (target){first, d->dtype, c->dq.stride[2], c->dq.stride[3]};
}

/* dQ of one head; in 16 bits it is summed in the workspace. */
static void clear_item(const void *args, int64_t head, int worker) {
  const gradient *x = args;
  const call *c = &x->c;
  const int dim = c->plan->desc.dim;
  const size_t n = (size_t)c->n * (size_t)dim;
  (void)worker;
  if (x->s.dq)
    memset(x->s.dq + (size_t)head * n, 0, n * sizeof(float));
  else
    rows_store(c->plan, NULL, 0, c->n, dim, head_dq(c, head));
}

static void round_item(const void *args, int64_t head, int worker) {
  const gradient *x = args;
  const call *c = &x->c;
  const int dim = c->plan->desc.dim;
  (void)worker;
  rows_store(c->plan, x->s.dq + head * c->n * dim, dim, c->n, dim, head_dq(c, head));
}

/* ---- backward -------------------------------------------------------------------- */

static void start_item(const void *args, int64_t i, int worker) {
  const gradient *x = args;
  const attend_plan *p = x->c.plan;
  (void)i, (void)worker;
  memset(x->s.passed, 0, (size_t)(stacks(p) * key_blocks(p)) * sizeof *x->s.passed);
  *x->s.next = 0;
}

static void rows_item(const void *args, int64_t i, int worker) {
  const gradient *x = args;
  const attend_plan *p = x->c.plan;
  cell_scratch w;
  cell_scratch_cut(p, plan_thread_arena(p, worker), &w);
  cell_rows_prepare(&x->c, cell_tile(&x->c, i % stacks(p), i / stacks(p)), &x->s, &w);
}

/* Blocks of keys wait for those before them, so all take them in one order. */
static void blocks_item(const void *args, int64_t lane, int worker) {
  const gradient *x = args;
  const attend_plan *p = x->c.plan;
  int64_t blocks = stacks(p) * key_blocks(p);
  cell_scratch w;
  (void)lane;
  cell_scratch_cut(p, plan_thread_arena(p, worker), &w);
  for (int64_t i; (i = __atomic_fetch_add(x->s.next, 1, __ATOMIC_RELAXED)) < blocks;)
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
    if (bias_entries(p)) sum_dbias(c, &x.s);
    if (p->desc.bias.kind == ATTEND_DENSE) dense_dbias(c, &x.s);
  }
  return ATTEND_OK;
}
