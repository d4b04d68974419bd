/* Backward of softmax attention, from (o, lse) alone.
 *
 * Place: attention/ - the other half of softmax.c.
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
 */
#include <math.h>
#include <omp.h>
#include <sched.h>
#include <string.h>

#include "attention/softmax.h"
#include "attention/walk.h"

enum { KEYS = BLOCK, ROWS = 96 }; /* a cell: 2 x 96 KiB of P and dS */

/* ---- workspace ------------------------------------------------------------------- */

typedef struct {
  block keys;
  float *q, *d_o;      /* rows of the tile: [ROWS][ldk], [ROWS][ldv] */
  float *p, *ds;       /* [ROWS][BLOCK] */
  float *lse2, *delta; /* [ROWS] */
  float *o;            /* rows of o, or of dQ */
  float *dk, *dv;      /* [KEYS][ldk], [KEYS][ldv] */
} scratch;

static size_t scratch_cut(const attend_plan *p, arena a, scratch *w) {
  size_t ldk = (size_t)p->ldk, ldv = (size_t)p->ldv, f = sizeof(float);
  size_t wide = ldk > ldv ? ldk : ldv;
  block_cut(p, &a, true, &w->keys);
  w->q = arena_cut(&a, ROWS * ldk * f);
  w->d_o = arena_cut(&a, ROWS * ldv * f);
  w->p = arena_cut(&a, ROWS * BLOCK * f);
  w->ds = arena_cut(&a, ROWS * BLOCK * f);
  w->lse2 = arena_cut(&a, ROWS * f);
  w->delta = arena_cut(&a, ROWS * f);
  w->o = arena_cut(&a, ROWS * wide * f);
  w->dk = arena_cut(&a, KEYS * ldk * f);
  w->dv = arena_cut(&a, KEYS * ldv * f);
  return a.used;
}

/* What the threads share: dO.o of every row, how far each item has come, the
 * sums for dbias, and dQ in f32 where the caller's is shorter. */
typedef struct {
  float *delta; /* [B,H,T] */
  int64_t *next;
  int *passed;  /* [stacks][blocks] tiles */
  double *bias; /* [stacks][blocks][group * entries] */
  float *dq;    /* [B,H,T,D] */
} shared;

static int64_t stacks(const attend_plan *p) {
  return (int64_t)p->desc.batch * p->desc.kv_heads;
}
static int64_t key_blocks(const attend_plan *p) {
  return (p->desc.kv_len + KEYS - 1) / KEYS;
}
static int64_t row_tiles(const attend_plan *p) {
  return ((int64_t)p->desc.q_len * p->group + ROWS - 1) / ROWS;
}

/* Numbers of bias that one head has. */
static size_t bias_entries(const attend_plan *p) {
  if (p->desc.bias.kind == ATTEND_ALIBI) return 1;
  return p->desc.bias.kind == ATTEND_BUCKETS ? (size_t)p->desc.bias.buckets : 0;
}

static size_t shared_cut(const attend_plan *p, arena a, shared *s) {
  size_t items = (size_t)(stacks(p) * key_blocks(p));
  arena_cut(&a, walk_shared_bytes(p));
  size_t rows =
      (size_t)p->desc.batch * (size_t)p->desc.heads * (size_t)p->desc.q_len;
  s->delta = arena_cut(&a, rows * sizeof *s->delta);
  s->next = arena_cut(&a, sizeof *s->next);
  s->passed = arena_cut(&a, items * sizeof *s->passed);
  s->bias = arena_cut(
      &a, items * (size_t)p->group * bias_entries(p) * sizeof *s->bias);
  s->dq = NULL;
  if (p->desc.dtype != ATTEND_F32)
    s->dq = arena_cut(&a, rows * (size_t)p->desc.dim * sizeof *s->dq);
  return a.used;
}

void softmax_backward_size(attend_plan *p) {
  scratch w;
  shared s;
  size_t bytes = scratch_cut(p, (arena){NULL, 0}, &w);
  if (bytes > p->thread_bytes) p->thread_bytes = bytes;
  bytes = shared_cut(p, (arena){NULL, 0}, &s);
  if (bytes > p->shared_bytes) p->shared_bytes = bytes;
}

/* ---- a cell: P and dS of a tile of rows on a block of keys ------------------------- */

static tile tile_at(const call *c, int64_t stack, int64_t i) {
  const attend_plan *p = c->plan;
  tile t = {.b = (int)(stack / p->desc.kv_heads),
            .g = (int)(stack % p->desc.kv_heads),
            .row = (int)(i * ROWS)};
  t.rows = (int)min64(ROWS, (int64_t)c->n * p->group - t.row);
  return t;
}

static void tile_delta(const call *c, tile t, const shared *s, scratch *w) {
  const attend_plan *p = c->plan;
  rows_load(c, &c->o, t, p->desc.dim_v, p->ldv, true, w->o);
  rows_load(c, &c->d_o, t, p->desc.dim_v, p->ldv, true, w->d_o);
  p->kn->row_dots(t.rows, p->ldv, w->d_o, w->o, p->ldv, w->delta);
  for (int i = 0; i < t.rows; i++) s->delta[row_index(c, t, i)] = w->delta[i];
}

static void tile_load(const call *c, tile t, const shared *s, scratch *w) {
  const attend_plan *p = c->plan;
  rows_load(c, &c->d_o, t, p->desc.dim_v, p->ldv, true, w->d_o);
  rows_load(c, &c->q, t, p->desc.dim, p->ldk, true, w->q);
  for (int i = 0; i < t.rows; i++) {
    size_t row = row_index(c, t, i);
    float lse = c->lse_in[row];
    w->delta[i] = s->delta[row];
    /* A row that saw nothing: every weight is 2^-inf. */
    w->lse2[i] = lse == -INFINITY
                     ? INFINITY
                     : (float)((double)lse * 1.44269504088896340736);
  }
}

static void cell_group(const call *c, tile g, int at, int j0, int j1,
                       scratch *w) {
  const attend_plan *p = c->plan;
  const attend_desc *d = &p->desc;
  const block *k = &w->keys;
  float *s = w->p + at * BLOCK, *dp = w->ds + at * BLOCK;
  group_scores(c, g, w->q + (size_t)at * (size_t)p->ldk, k, j0, j1, s);
  for (int j = j0; j < j1;) {
    int base = j / PANEL * PANEL, end = base + PANEL < j1 ? base + PANEL : j1;
    p->kn->scores(g.rows, d->dim_v, w->d_o + (size_t)at * (size_t)p->ldv,
                  p->ldv, k->v_lanes + (size_t)base * (size_t)d->dim_v,
                  j - base, end - base, dp + base);
    j = end;
  }
  p->kn->softmax_grad(g.rows, j0, j1, call_factor(c), s, dp, w->lse2 + at,
                      w->delta + at);
  if (group_sees(c, g, k, j0, j1)) return;
  group_mask(c, g, k, j0, j1, 0.0f, s);
  group_mask(c, g, k, j0, j1, 0.0f, dp);
}

static void clear_columns(float *s, int rows, int j0, int j1) {
  for (int r = 0; r < rows && j0 < j1; r++)
    memset(s + r * BLOCK + j0, 0, (size_t)(j1 - j0) * sizeof *s);
}

/* Groups of a cell that see less than the others hold zeros there, so that the
 * keys can take the rows of the tile in one run. */
static void cell_compute(const call *c, tile t, int j0, int j1, scratch *w) {
  int step = c->plan->kn->rows;
  for (int i = 0; i < t.rows; i += step) {
    tile g = tile_group(step, t, i);
    int from = j0, to = j0;
    block_part(rows_see(c, g.b, g.row, g.rows), w->keys.start, &from, &to);
    if (to > j1) to = j1;
    if (from < j0) from = j0;
    if (from > to) from = to;
    float *both[2] = {w->p + i * BLOCK, w->ds + i * BLOCK};
    for (int k = 0; k < 2; k++) {
      clear_columns(both[k], g.rows, j0, from);
      clear_columns(both[k], g.rows, to, j1);
    }
    if (from < to) cell_group(c, g, i, from, to, w);
  }
}

/* ---- what a cell gives -------------------------------------------------------------- */

static void add_dq(const call *c, tile t, int j0, int j1, const shared *s,
                   scratch *w) {
  const attend_plan *p = c->plan;
  const attend_desc *d = &p->desc;
  float one[GROUP], none[GROUP];
  for (int i = 0; i < GROUP; i++) one[i] = 1.0f, none[i] = 0.0f;
  float factor = p->score_to2 / 1.44269504088896340736f;
  memset(w->o, 0, (size_t)t.rows * (size_t)p->ldk * sizeof(float));
  for (int i = 0; i < t.rows; i += p->kn->rows)
    group_weigh(c, tile_group(p->kn->rows, t, i), &w->keys, j0, j1,
                w->ds + i * BLOCK, p->ldk, none, one,
                w->o + (size_t)i * p->ldk);
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

/* Onto the sums of this item: [group][entries]. */
static void add_dbias(const call *c, tile t, int j0, int j1, const scratch *w,
                      double *sums) {
  const attend_plan *p = c->plan;
  const attend_bias *bias = &p->desc.bias;
  size_t entries = bias_entries(p);
  for (int r = 0; r < t.rows; r++) {
    double *mine = sums + (size_t)((t.row + r) % p->group) * entries;
    int64_t distance =
        w->keys.start - call_position(c, t.b) - (t.row + r) / p->group;
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

/* ---- items ----------------------------------------------------------------------------- */

static void wait_for(const int *passed, int tiles) {
  for (int spins = 0; __atomic_load_n(passed, __ATOMIC_ACQUIRE) < tiles;)
    if (++spins > 64) sched_yield();
}

static void store_keys(const call *c, int b, int g, int64_t start, scratch *w) {
  const attend_plan *p = c->plan;
  const attend_desc *d = &p->desc;
  float ones[KEYS];
  int n = (int)min64(KEYS, d->kv_len - start);
  size_t size = attend_dtype_size(d->dtype);
  for (int i = 0; i < n; i++) ones[i] = 1.0f;
  p->kn->scale_all(w->dk, (size_t)n * (size_t)p->ldk,
                   p->score_to2 / 1.44269504088896340736f, w->dk);
  target dk = {view_at(&c->dk, size, b, g, start), d->dtype, c->dk.stride[2],
               c->dk.stride[3]};
  target dv = {view_at(&c->dv, size, b, g, start), d->dtype, c->dv.stride[2],
               c->dv.stride[3]};
  p->kn->store_rows(w->dk, p->ldk, n, d->dim, ones, dk);
  p->kn->store_rows(w->dv, p->ldv, n, d->dim_v, ones, dv);
}

static void cell(const call *c, tile t, const shared *s, double *sums,
                 const int *before, int tile_index, scratch *w) {
  const attend_plan *p = c->plan;
  span seen = rows_see(c, t.b, t.row, t.rows);
  int j0, j1;
  seen.hi = min64(seen.hi, w->keys.start + KEYS);
  if (!block_part(seen, w->keys.start, &j0, &j1)) return;
  tile_load(c, t, s, w);
  cell_compute(c, t, j0, j1, w);
  p->kn->weigh_keys(t.rows, j0, j1, w->p, w->d_o, p->ldv, w->dv);
  p->kn->weigh_keys(t.rows, j0, j1, w->ds, w->q, p->ldk, w->dk);
  if (c->dbias && bias_entries(p)) add_dbias(c, t, j0, j1, w, sums);
  if (before) wait_for(before, tile_index + 1);
  add_dq(c, t, j0, j1, s, w);
}

static void item(const call *c, int64_t index, const shared *s, scratch *w) {
  const attend_plan *p = c->plan;
  int64_t stack = index % stacks(p), at = index / stacks(p);
  int *passed = s->passed + stack * key_blocks(p) + at;
  size_t numbers = (size_t)p->group * bias_entries(p);
  double *sums = s->bias + (size_t)(stack * key_blocks(p) + at) * numbers;
  tile all = tile_at(c, stack, 0);
  span seen = rows_see(c, all.b, 0, c->n * p->group);
  seen.lo = max64(seen.lo, at * KEYS);
  seen.hi = min64(seen.hi, (at + 1) * KEYS);
  memset(sums, 0, numbers * sizeof *sums);
  memset(w->dk, 0, KEYS * (size_t)p->ldk * sizeof(float));
  memset(w->dv, 0, KEYS * (size_t)p->ldv * sizeof(float));
  if (seen.lo < seen.hi &&
      block_load(c, all.b, all.g, at * KEYS, seen, &w->keys))
    for (int i = 0; i < row_tiles(p); i++) {
      cell(c, tile_at(c, stack, i), s, sums, at ? passed - 1 : NULL, i, w);
      if (!at || __atomic_load_n(passed - 1, __ATOMIC_ACQUIRE) > i)
        __atomic_store_n(passed, i + 1, __ATOMIC_RELEASE);
    }
  store_keys(c, all.b, all.g, at * KEYS, w);
  if (at) wait_for(passed - 1, (int)row_tiles(p));
  __atomic_store_n(passed, (int)row_tiles(p), __ATOMIC_RELEASE);
}

/* ---- dQ before and after ------------------------------------------------------------------ */

static void clear_dq(const call *c, const shared *s) {
  const attend_plan *p = c->plan;
  const attend_desc *d = &p->desc;
  static const float zero[1];
  int64_t rows = (int64_t)d->batch * d->heads * c->n;
#pragma omp parallel for num_threads(p->threads)
  for (int64_t i = 0; i < rows; i++) {
    int64_t head = i / c->n;
    if (s->dq) {
      memset(s->dq + i * d->dim, 0, (size_t)d->dim * sizeof(float));
      continue;
    }
    target out = {view_at(&c->dq, sizeof(float), head / d->heads,
                          head % d->heads, i % c->n),
                  ATTEND_F32, 0, c->dq.stride[3]};
    p->kn->store_rows(zero, 0, 1, d->dim, zero, out); /* by 0: zeros */
  }
}

static void round_dq(const call *c, const shared *s) {
  const attend_plan *p = c->plan;
  const attend_desc *d = &p->desc;
  static const float one[1] = {1.0f};
  int64_t rows = (int64_t)d->batch * d->heads * c->n;
#pragma omp parallel for num_threads(p->threads)
  for (int64_t i = 0; i < rows; i++) {
    int64_t head = i / c->n;
    target out = {
        view_at(&c->dq, 2, head / d->heads, head % d->heads, i % c->n),
        d->dtype, 0, c->dq.stride[3]};
    p->kn->store_rows(s->dq + i * d->dim, d->dim, 1, d->dim, one, out);
  }
}

/* ---- biases ---------------------------------------------------------------------------------- */

/* Sums of all items in their order: [entries, H] as the caller's table lies. */
static void sum_dbias(const call *c, const shared *s) {
  const attend_plan *p = c->plan;
  size_t entries = bias_entries(p), group = (size_t)p->group;
  for (int h = 0; h < p->desc.heads; h++)
    for (size_t e = 0; e < entries; e++) {
      double sum = 0;
      for (int b = 0; b < p->desc.batch; b++) {
        int64_t stack = (int64_t)b * p->desc.kv_heads + h / p->group;
        for (int64_t at = 0; at < key_blocks(p); at++)
          sum += s->bias[(((size_t)(stack * key_blocks(p) + at)) * group +
                          (size_t)(h % p->group)) *
                             entries +
                         e];
      }
      c->dbias[e * (size_t)p->desc.heads + (size_t)h] =
          (float)(sum * (double)p->bias_to2 / 1.44269504088896340736);
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
static void dense_tile(const call *c, tile t, const shared *s,
                       const attend_view *v, scratch *w) {
  const attend_plan *p = c->plan;
  float factor = p->bias_to2 / 1.44269504088896340736f;
  tile_load(c, t, s, w);
  span rows = rows_see(c, t.b, t.row, t.rows);
  for (int64_t at = rows.lo / KEYS * KEYS; at < rows.hi; at += KEYS) {
    span seen = {max64(rows.lo, at), min64(rows.hi, at + KEYS)};
    int j0, j1;
    if (!block_load(c, t.b, t.g, at, seen, &w->keys)) continue;
    if (!block_part(seen, at, &j0, &j1)) continue;
    cell_compute(c, t, j0, j1, w);
    int end = (int)min64(j1, seen.hi - at);
    for (int r = 0; r < t.rows; r++) {
      float *out = view_at(v, sizeof(float), t.b, row_head(p, t.g, t.row + r),
                           (t.row + r) / p->group);
      for (int j = j0; j < end; j++)
        out[(at + j) * v->stride[3]] += factor * w->ds[r * BLOCK + j];
    }
  }
}

/* Owned by tiles of rows; batch and heads come in order, since a broadcast
 * bias sums over them. A bias that is broadcast over queries has one owner, and
 * so has one broadcast over heads where tiles cut the heads of a query apart. */
static void dense_dbias(const call *c, const shared *s) {
  const attend_plan *p = c->plan;
  attend_view v = dense_view(c);
  bool alone = v.stride[2] && (v.stride[1] || ROWS % p->group == 0);
  int threads = alone ? p->threads : 1;
  dense_clear(c);
#pragma omp parallel num_threads(threads)
  {
    scratch w;
    scratch_cut(p, plan_thread_arena(p, omp_get_thread_num()), &w);
#pragma omp for schedule(dynamic, 1)
    for (int64_t i = 0; i < row_tiles(p); i++)
      for (int64_t stack = 0; stack < stacks(p); stack++)
        dense_tile(c, tile_at(c, stack, i), s, &v, &w);
  }
}

/* ---- backward ---------------------------------------------------------------------------------- */

attend_status softmax_backward(call *c) {
  const attend_plan *p = c->plan;
  shared s;
  c->raw = true;
  shared_cut(p, plan_shared_arena(p), &s);
  int64_t items = stacks(p) * key_blocks(p), tiles = stacks(p) * row_tiles(p);
  bias_prepare(c);
  clear_dq(c, &s);
  memset(s.passed, 0, (size_t)items * sizeof *s.passed);
  *s.next = 0;
#pragma omp parallel num_threads(p->threads) if (items > 1)
  {
    scratch w;
    scratch_cut(p, plan_thread_arena(p, omp_get_thread_num()), &w);
#pragma omp for schedule(static)
    for (int64_t i = 0; i < tiles; i++)
      tile_delta(c, tile_at(c, i % stacks(p), i / stacks(p)), &s, &w);
    for (int64_t i;
         (i = __atomic_fetch_add(s.next, 1, __ATOMIC_RELAXED)) < items;)
      item(c, i, &s, &w);
  }
  if (s.dq) round_dq(c, &s);
  if (c->dbias && bias_entries(p)) sum_dbias(c, &s);
  if (c->dbias && p->desc.bias.kind == ATTEND_DENSE) dense_dbias(c, &s);
  return ATTEND_OK;
}
