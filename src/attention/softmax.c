/* Softmax attention, tiled over keys: memory linear in length.
 *
 * Place: attention/ - the plan's first choice for softmax, and for argmax with
 * a temperature.
 *
 * A tile of rows walks the blocks of keys that it sees. On each block a group
 * of rows computes scores, turns them into weights relative to the block's
 * maximum, and adds the weighted values to what it has, rescaled by powers of
 * two. When there are fewer tiles than threads (decoding), blocks are handed
 * out instead and their partial results joined in the order of the blocks:
 * the same operations, so the same bits.
 *
 * Backward is in softmax_backward.c.
 */
#include <math.h>
#include <omp.h>
#include <string.h>

#include "attention/softmax.h"
#include "attention/walk.h"

static const char *applicable(const attend_desc *d) {
  if (d->form.kind == ATTEND_SOFTMAX) return NULL;
  if (d->form.kind != ATTEND_ARGMAX) return "the form is not softmax";
  if (d->form.temperature > 0) return NULL;
  return "argmax without a temperature is not soft";
}

/* ---- workspace ----------------------------------------------------------------- */

typedef struct {
  block keys;
  float *q;           /* groups of packed queries */
  float *o, *m, *l;   /* running result of the tile's rows */
  float *s;           /* scores of a group */
  float alpha[GROUP], beta[GROUP];
} scratch;

static size_t scratch_cut(const attend_plan *p, arena a, scratch *w) {
  size_t rows = (size_t)p->tile, f = sizeof(float);
  block_cut(p, &a, false, &w->keys);
  w->q = arena_cut(&a, rows * (size_t)p->desc.dim * f);
  size_t wide = (size_t)(p->ldv > p->ldk ? p->ldv : p->ldk);
  w->o = arena_cut(&a, rows * wide * f);
  w->m = arena_cut(&a, rows * f);
  w->l = arena_cut(&a, rows * f);
  w->s = arena_cut(&a, GROUP * BLOCK * f);
  return a.used;
}

/* Partial results of one (tile, block): m and l of each row, then o. */
static size_t slot_floats(const attend_plan *p) {
  return (size_t)p->tile * (size_t)(p->ldv + 2);
}

/* Wide rows take more of the cache, so fewer of them share a tile. A plan of
 * few rows makes its tiles no larger than what it has. */
static int tile_rows(const attend_plan *p) {
  int64_t group = p->kn->rows, wide = p->ldk + p->ldv;
  int64_t rows = 192 * 128 / max64(wide, 128);
  int64_t stack = (int64_t)p->desc.q_len * p->group;
  int64_t stacks = (int64_t)p->desc.batch * p->desc.kv_heads;
  int64_t shares = (4 * p->threads + stacks - 1) / stacks;
  rows = min64(rows, max64(stack / shares, 48));
  rows = min64(rows, max64(stack, 1));
  return (int)((rows + group - 1) / group * group);
}

static void size(attend_plan *p) {
  scratch w;
  p->tile = tile_rows(p);
  p->thread_bytes = scratch_cut(p, (arena){NULL, 0}, &w);
  p->shared_bytes = round_up(walk_shared_bytes(p), 64);
  /* Splitting pays while there are fewer tiles than threads want; the slots of
   * all tiles stay within 1 MiB a thread. */
  call c = {.plan = p, .n = p->desc.q_len};
  int64_t tiles = max64(call_tiles(&c), 1);
  int64_t most = (int64_t)p->threads << 20;
  int64_t slots = most / (tiles * (int64_t)(slot_floats(p) * sizeof(float)));
  p->slots = 0;
  if (p->threads > 1 && tiles < 4 * p->threads)
    p->slots = (int)min64(slots, 8 * p->threads + 1);
  p->shared_bytes += (size_t)p->slots * (size_t)tiles * slot_floats(p) *
                     sizeof(float);
  if (p->desc.purpose & ATTEND_FOR_BACKWARD) softmax_backward_size(p);
}

/* ---- one tile ------------------------------------------------------------------ */

static void tile_begin(const call *c, tile t, scratch *w) {
  const attend_plan *p = c->plan;
  rows_load(c, &c->q, t, p->desc.dim, p->ldk, false, w->o);
  for (int i = 0; i < t.rows; i += p->kn->rows) {
    int n = tile_group(p, t, i).rows;
    p->kn->pack_group(w->o + (size_t)i * p->ldk, p->ldk, n, p->desc.dim,
                      p->score_to2, w->q + (size_t)i * p->desc.dim);
  }
}

static void tile_clear(const attend_plan *p, int rows, scratch *w) {
  memset(w->o, 0, (size_t)rows * (size_t)p->ldv * sizeof(float));
  for (int i = 0; i < rows; i++) w->m[i] = -INFINITY, w->l[i] = 0.0f;
}

static void group_block(const call *c, tile g, int at, scratch *w) {
  const attend_plan *p = c->plan;
  const block *k = &w->keys;
  int j0, j1;
  if (!block_part(rows_see(c, g.b, g.row, g.rows), k->start, &j0, &j1)) return;
  group_scores(c, g, w->q + (size_t)at * p->desc.dim, k, j0, j1, w->s);
  if (!group_sees(c, g, k, j0, j1))
    group_mask(c, g, k, j0, j1, -INFINITY, w->s);
  p->kn->softmax(g.rows, j0, j1, w->s, w->m + at, w->l + at, w->alpha, w->beta);
  group_weigh(c, g, k, j0, j1, w->s, p->ldv, w->alpha, w->beta,
              w->o + (size_t)at * p->ldv);
}

static void tile_block(const call *c, tile t, int64_t start, span seen,
                       scratch *w) {
  if (!block_load(c, t.b, t.g, start, seen, &w->keys)) return;
  for (int i = 0; i < t.rows; i += c->plan->kn->rows)
    group_block(c, tile_group(c->plan, t, i), i, w);
}

static float log_sum(float m, float l) {
  if (l == 0.0f) return -INFINITY;
  return (float)((double)m * 0.69314718055994530942 + log((double)l));
}

static void tile_end(const call *c, tile t, const float *o, const float *m,
                     const float *l) {
  const attend_plan *p = c->plan;
  target out = {.dtype = p->desc.dtype, .row = 0, .col = c->o.stride[3]};
  for (int i = 0; i < t.rows; i++) {
    int row = t.row + i;
    out.data = row_address(c, &c->o, t.b, t.g, row);
    p->kn->store_rows(o + (size_t)i * p->ldv, p->ldv, 1, p->desc.dim_v, l + i,
                      out);
    if (c->lse) c->lse[row_index(c, t, i)] = log_sum(m[i], l[i]);
  }
}

/* ---- forward ------------------------------------------------------------------- */

static int64_t first_block(span seen) { return seen.lo / BLOCK; }
static int64_t end_block(span seen) {
  return seen.hi > seen.lo ? (seen.hi + BLOCK - 1) / BLOCK : first_block(seen);
}

static void whole_tile(const call *c, tile t, scratch *w) {
  span seen = rows_see(c, t.b, t.row, t.rows);
  tile_begin(c, t, w);
  tile_clear(c->plan, t.rows, w);
  for (int64_t i = first_block(seen); i < end_block(seen); i++)
    tile_block(c, t, i * BLOCK, seen, w);
  tile_end(c, t, w->o, w->m, w->l);
}

static void forward_tiles(const call *c) {
  const attend_plan *p = c->plan;
  int64_t tiles = call_tiles(c);
#pragma omp parallel num_threads(p->threads) if (tiles > 1)
  {
    scratch w;
    scratch_cut(p, plan_thread_arena(p, omp_get_thread_num()), &w);
#pragma omp for schedule(dynamic, 1)
    for (int64_t i = 0; i < tiles; i++) whole_tile(c, call_tile(c, i), &w);
  }
}

/* ---- forward, keys split over threads ---------------------------------------------- */

static float *slot_of(const attend_plan *p, int64_t tile_index, int slot) {
  arena a = plan_shared_arena(p);
  arena_cut(&a, walk_shared_bytes(p));
  float *slots = arena_cut(&a, 0);
  return slots + ((size_t)tile_index * (size_t)p->slots + (size_t)slot) *
                     slot_floats(p);
}

/* Slot 0 is the tile's running result; a wave fills the others. */
static void split_block(const call *c, int64_t tile_index, int64_t wave,
                        int slot, scratch *w) {
  const attend_plan *p = c->plan;
  tile t = call_tile(c, tile_index);
  span seen = rows_see(c, t.b, t.row, t.rows);
  int64_t i = first_block(seen) + wave + slot;
  if (i >= end_block(seen)) return;
  tile_begin(c, t, w);
  tile_clear(p, t.rows, w);
  tile_block(c, t, i * BLOCK, seen, w);
  float *out = slot_of(p, tile_index, slot + 1);
  size_t rows = (size_t)t.rows;
  memcpy(out, w->m, rows * sizeof *out);
  memcpy(out + p->tile, w->l, rows * sizeof *out);
  memcpy(out + 2 * p->tile, w->o, rows * (size_t)p->ldv * sizeof *out);
}

static void join_wave(const call *c, int64_t tile_index, int64_t wave,
                      int64_t longest) {
  const attend_plan *p = c->plan;
  tile t = call_tile(c, tile_index);
  span seen = rows_see(c, t.b, t.row, t.rows);
  int64_t left = end_block(seen) - first_block(seen) - wave;
  float *m = slot_of(p, tile_index, 0), *l = m + p->tile, *o = l + p->tile;
  if (wave == 0) tile_clear(p, t.rows, &(scratch){.o = o, .m = m, .l = l});
  for (int slot = 1; slot <= min64(p->slots - 1, left); slot++) {
    const float *from = slot_of(p, tile_index, slot);
    p->kn->join_rows(t.rows, p->ldv, from, from + p->tile, from + 2 * p->tile,
                     m, l, o);
  }
  if (wave + p->slots - 1 >= longest) tile_end(c, t, o, m, l);
}

static int64_t longest_tile(const call *c) {
  int64_t longest = 1;
  for (int64_t i = 0; i < call_tiles(c); i++) {
    tile t = call_tile(c, i);
    span seen = rows_see(c, t.b, t.row, t.rows);
    longest = max64(longest, end_block(seen) - first_block(seen));
  }
  return longest;
}

static void forward_split(const call *c, int64_t longest) {
  const attend_plan *p = c->plan;
  int64_t tiles = call_tiles(c), wide = p->slots - 1;
#pragma omp parallel num_threads(p->threads)
  {
    scratch w;
    scratch_cut(p, plan_thread_arena(p, omp_get_thread_num()), &w);
    for (int64_t wave = 0; wave < longest; wave += wide) {
      int64_t blocks = min64(wide, longest - wave);
#pragma omp for schedule(dynamic, 1)
      for (int64_t i = 0; i < tiles * blocks; i++)
        split_block(c, i / blocks, wave, (int)(i % blocks), &w);
#pragma omp for schedule(static)
      for (int64_t i = 0; i < tiles; i++) join_wave(c, i, wave, longest);
    }
  }
}

static attend_status forward(call *c) {
  const attend_plan *p = c->plan;
  bias_prepare(c);
  int64_t tiles = call_tiles(c);
  int64_t longest = p->slots > 2 && tiles < 4 * p->threads ? longest_tile(c) : 1;
  if (longest > 1)
    forward_split(c, longest);
  else
    forward_tiles(c);
  return ATTEND_OK;
}

const attend_engine engine_softmax = {
    .name = "softmax-tiled",
    .applicable = applicable,
    .size = size,
    .forward = forward,
    .backward = softmax_backward,
    .observe = observe_tiled,
};
