/* Softmax attention tiled over keys, as FlashAttention (Dao et al. 2022): memory linear
 * in length. The plan's choice for softmax, and for argmax with a temperature; poly
 * and gaussian run on the same code.
 *
 * A tile of rows iterates over the blocks of keys that it sees. On each block a group of
 * rows computes scores, turns them into weights relative to the block's maximum, and
 * adds the weighted values to its running output, rescaled by powers of two: the online
 * softmax (Milakov and Gimelshein 2018). With fewer tiles than threads (decoding) the
 * keys are split over threads, as in Flash-Decoding, and partial results are joined in
 * the order of the blocks: the same operations, so the same bits.
 */
#include <math.h>
#include <string.h>

#include "attention/engine.h"
#include "attention/blocks.h"

static const char *applicable(const attend_context *ctx, const attend_desc *d) {
  (void)ctx;
  if (d->form.kind == ATTEND_SOFTMAX) return NULL;
  if (d->form.kind != ATTEND_ARGMAX) return "the form is not softmax";
  if (d->form.temperature > 0) return NULL;
  return "argmax without a temperature is not soft";
}

/* ---- workspace ------------------------------------------------------------------- */

/* Splitting pays with few tiles for the threads. A slot is the partial result of one
 * (tile, block): m and l of each row, then o. */
static bool wants_split(const attend_plan *p, int64_t tiles) {
  return p->threads > 1 && tiles < 4 * p->threads;
}
static int slot_rows(const call *c) {
  return (int)min64(c->plan->tile, (int64_t)c->n * c->plan->group);
}
static size_t slot_floats(const call *c) {
  return size_times((size_t)slot_rows(c), (size_t)(c->plan->ldv + 3));
}

/* Slots for n queries a sequence: eight blocks a thread, in 1 MiB a thread. */
static size_t slot_bytes(attend_plan *p, int n) {
  call c = {.plan = p, .n = n};
  int64_t tiles = max64(call_tiles(&c), 1);
  if (!wants_split(p, tiles)) return 0;
  size_t all =
      SIZE_PRODUCT((size_t)tiles, (size_t)(8 * p->threads + 1), slot_floats(&c), sizeof(float));
  size_t max = (size_t)p->threads << 20;
  return all < max ? all : max;
}

static void softmax_size(attend_plan *p) {
  scratch w;
  p->tile = tile_rows(p);
  p->thread_bytes = scratch_cut(p, (arena){NULL, 0}, &w);
  p->slot_bytes = slot_bytes(p, p->desc.q_len);
  if (p->desc.purpose & ATTEND_FOR_EXTEND)
    p->slot_bytes = (size_t)max64((int64_t)p->slot_bytes, (int64_t)slot_bytes(p, 1));
  p->shared_bytes = size_add(round_up(bias_shared_bytes(p), 64), p->slot_bytes);
  if (p->desc.purpose & ATTEND_FOR_BACKWARD) softmax_backward_size(p);
}

/* ---- one tile -------------------------------------------------------------------- */

/* Rows in a tile from which bounding its scores by |q| |k| pays. */
enum { BOUNDED_ROWS = 48 };

static void group_block(const call *c, tile g, int at, scratch *w) {
  const attend_plan *p = c->plan;
  int j0, j1;
  if (!tile_scores(c, g, at, &j0, &j1, w)) return;
  bool bounded = tile_bounded(c, g, at, j0, j1, w);
  if (is_poly(p))
    p->kn->join_sums(g.rows, j0, j1, w->s, w->m + at, w->l + 2 * at, w->alpha, w->beta);
  else
    c->on->softmax(&(struct block_soft){g.rows, j0, j1, call_factor(c), bounded, w->s, w->p,
                                        w->m + at, w->l + 2 * at, w->alpha, w->beta});
  group_weigh(c, g, &w->keys, j0, j1, w->p, p->ldv, w->alpha, w->beta, w->o + (size_t)at * p->ldv);
}

/* Each group prefetches its share of the next block. */
static void tile_block(const call *c, tile t, int64_t start, span visible, scratch *w) {
  int keys = c->on->keys;
  int64_t next = start + keys, last = min64(visible.hi, next + keys);
  if (c->state && t.rows <= c->on->rows)
    pages_prefetch(c, t.b, t.g, (span){max64(start, visible.lo), min64(next, visible.hi)});
  if (!seen_block_load(c, t, start / keys, visible, &w->keys)) return;
  if (t.rows >= BOUNDED_ROWS && !is_gaussian(c->plan) && !is_poly(c->plan))
    block_longest(c, visible, &w->keys);
  if (c->on->overlap) {
    overlap_block(c, t, w);
    return;
  }
  int groups = (t.rows + c->on->rows - 1) / c->on->rows;
  int64_t share = (keys + groups - 1) / groups;
  for (int i = 0; i < t.rows; i += c->on->rows, next += share) {
    if (next < last) keys_prefetch(c, t.b, t.g, next, min64(share, last - next));
    group_block(c, tile_group(c->on->rows, t, i), i, w);
  }
}

/* lse of row i of a tile; poly's is the denominator itself. The query of a row that saw
 * no key is not read. */
static float row_lse(const call *c, tile t, int i, float m, const float l[2]) {
  if (is_poly(c->plan)) return l[0];
  if (l[1] == 0.0f) return -INFINITY;
  double sum = (double)m * LN2 + log((double)l[1]);
  return (float)(sum - query_norm(c, t, i));
}

/* See attend_plan_weak_rows: poly has the sum of absolute weights in l[1]. Gaussian's weights are
 * relative to the largest, so their sum is 0 only if every distance overflows f32. */
static bool row_is_lost(const call *c, const float l[2]) {
  const attend_plan *p = c->plan;
  if (is_poly(p)) return is_lost(l[0], l[1]) || isinf(l[1]);
  return is_gaussian(p) && p->desc.bias.kind == ATTEND_NO_BIAS && l[1] == 0;
}

static void tile_end(const call *c, tile t, const float *o, const float *m, const float *l) {
  const attend_plan *p = c->plan;
  target out = {.dtype = p->desc.dtype, .row = 0, .col = c->o.stride[3]};
  int64_t weak = 0;
  for (int i = 0; i < t.rows; i++) {
    int row = t.row + i;
    weak += row_is_lost(c, l + 2 * i) && row_sees(c, t.b, row);
    out.data = row_address(c, &c->o, t.b, t.g, row);
    p->kn->store_rows(o + (size_t)i * p->ldv, p->ldv, 1, p->desc.dim_v, l + 2 * i, out);
    if (c->lse) c->lse[row_index(c, t, i)] = row_lse(c, t, i, m[i], l + 2 * i);
  }
  plan_weak(c->plan, weak);
}

/* ---- forward --------------------------------------------------------------------- */

static void whole_tile(const call *c, tile t, scratch *w) {
  span visible = rows_see(c, t.b, t.row, t.rows);
  tile_begin(c, t, w);
  tile_clear(c->plan, t.rows, w);
  for (int64_t i = first_block(c, visible); i < end_block(c, visible); i++)
    tile_block(c, t, i * c->on->keys, visible, w);
  tile_end(c, t, w->o, w->m, w->l);
}

static void tile_item(const void *args, int64_t i, int worker) {
  const call *c = args;
  scratch w;
  scratch_open(c->plan, worker, &w);
  whole_tile(c, call_tile(c, i), &w);
  c->plan->fast->end();
}

/* ---- forward, keys split over threads -------------------------------------------- */

typedef struct {
  float *data;
  int rows, count; /* of a slot; slots a tile */
  int64_t longest; /* blocks of the tile that sees most */
} split;

static float *slot_of(const call *c, const split *s, int64_t tile_index, int slot) {
  return s->data + ((size_t)tile_index * (size_t)s->count + (size_t)slot) * slot_floats(c);
}

/* Slot 0 is the tile's running result; each wave fills the others. */
static void split_block(const call *c, const split *s, int64_t tile_index, int64_t wave, int slot,
                        scratch *w) {
  const attend_plan *p = c->plan;
  tile t = call_tile(c, tile_index);
  span visible = rows_see(c, t.b, t.row, t.rows);
  int64_t i = first_block(c, visible) + wave + slot;
  if (i >= end_block(c, visible)) return;
  tile_begin(c, t, w);
  tile_clear(p, t.rows, w);
  tile_block(c, t, i * c->on->keys, visible, w);
  float *out = slot_of(c, s, tile_index, slot + 1);
  size_t rows = (size_t)t.rows;
  memcpy(out, w->m, rows * sizeof *out);
  memcpy(out + s->rows, w->l, 2 * rows * sizeof *out);
  memcpy(out + 3 * s->rows, w->o, rows * (size_t)p->ldv * sizeof *out);
}

static void join_wave(const call *c, const split *s, int64_t tile_index, int64_t wave) {
  const attend_plan *p = c->plan;
  tile t = call_tile(c, tile_index);
  span visible = rows_see(c, t.b, t.row, t.rows);
  int64_t left = end_block(c, visible) - first_block(c, visible) - wave;
  float *m = slot_of(c, s, tile_index, 0), *l = m + s->rows, *o = l + 2 * s->rows;
  if (wave == 0) tile_clear(p, t.rows, &(scratch){.o = o, .m = m, .l = l});
  for (int slot = 1; slot <= min64(s->count - 1, left); slot++) {
    const float *from = slot_of(c, s, tile_index, slot);
    p->kn->join_rows(t.rows, p->ldv, from, from + s->rows, from + 3 * s->rows, m, l, o);
  }
  if (wave + s->count - 1 >= s->longest) tile_end(c, t, o, m, l);
}

static int64_t longest_tile(const call *c) {
  int64_t longest = 1;
  for (int64_t i = 0; i < call_tiles(c); i++) {
    tile t = call_tile(c, i);
    span visible = rows_see(c, t.b, t.row, t.rows);
    longest = max64(longest, end_block(c, visible) - first_block(c, visible));
  }
  return longest;
}

/* Returns false if the call should run by tiles. */
static bool split_make(const call *c, split *s) {
  const attend_plan *p = c->plan;
  int64_t tiles = call_tiles(c);
  if (tiles == 0 || !wants_split(p, tiles)) return false;
  arena a = plan_shared_arena(p);
  arena_cut(&a, bias_shared_bytes(p));
  s->data = arena_cut(&a, p->slot_bytes);
  s->rows = slot_rows(c);
  s->longest = longest_tile(c);
  size_t fit = p->slot_bytes / ((size_t)tiles * slot_floats(c) * sizeof(float));
  s->count = (int)min64((int64_t)fit, s->longest + 1);
  return s->count > 2;
}

typedef struct {
  call c;
  split s;
  int64_t first, blocks; /* of the wave */
} split_wave;

static void split_item(const void *args, int64_t i, int worker) {
  const split_wave *x = args;
  scratch w;
  scratch_open(x->c.plan, worker, &w);
  split_block(&x->c, &x->s, i / x->blocks, x->first, (int)(i % x->blocks), &w);
  x->c.plan->fast->end();
}

static void join_item(const void *args, int64_t i, int worker) {
  const split_wave *x = args;
  (void)worker;
  join_wave(&x->c, &x->s, i, x->first);
}

static void forward_split(const call *c, const split *s) {
  attend_stream *on = plan_stream(c->plan);
  int64_t tiles = call_tiles(c), wide = s->count - 1;
  split_wave x = {*c, *s, 0, 0};
  stream_enter(on);
  for (; x.first < s->longest; x.first += wide) {
    x.blocks = min64(wide, s->longest - x.first);
    STREAM_ADD(on, tiles * x.blocks, split_item, x);
    STREAM_ADD(on, tiles, join_item, x);
  }
  stream_leave(on);
}

static attend_status softmax_forward(call *c) {
  split s;
  c->raw = true;
  call_begin(c);
  if (split_make(c, &s))
    forward_split(c, &s);
  else
    STREAM_ADD(plan_stream(c->plan), call_tiles(c), tile_item, *c);
  return ATTEND_OK;
}

const attend_engine engine_softmax = {
    .name = "softmax-tiled",
    .states = &state_kv_cache,
    .applicable = applicable,
    .cost = flops_of_pairs,
    .size = softmax_size,
    .forward = softmax_forward,
    .backward = softmax_backward,
    .observe = observe_tiled,
};

/* ---- poly and gaussian, pair by pair --------------------------------------------- */

/* Exact, memory linear in length. The plan's choice for gaussian without random features,
 * and for poly where its feature map would cost more. Only the step from scores to weights
 * differs from softmax.
 *
 *   gaussian  -|q - k|^2 / 2 = q.k - |k|^2 / 2 - |q|^2 / 2: a softmax of scale 1 / sigma^2
 *             with a bias for each key (block_norms). The last term cancels in every
 *             weight and is taken from lse at the end. A narrow gaussian weighs keys near
 *             the query, where these terms are large and their sum is small: it is
 *             computed from q - k (by_differences), at half the speed of the products.
 *   poly      (a q.k + c)^p, with no exponential and no maximum. Weights may be negative,
 *             so l is a plain sum, m is 0 from the first block on, and lse is the
 *             denominator. In bf16 it uses the f32 kernels: weights that cancel need the
 *             precision. */

static const char *direct_applicable(const attend_context *ctx, const attend_desc *d) {
  (void)ctx;
  if (d->form.kind == ATTEND_GAUSSIAN)
    return d->form.features > 0 ? "the form has random features: the linear engine supports it"
                                : NULL;
  if (d->form.kind != ATTEND_POLY) return "the form is not poly or gaussian";
  if (d->bias.kind == ATTEND_NO_BIAS) return NULL;
  return "biases multiply poly's weights: the definition supports them";
}

/* At softmax's own width, dim^(1/4), and beyond, rounding in the norms is what
 * it is in softmax's scores at their usual scale. */
static bool is_narrow(const attend_desc *d) {
  double square = (double)d->form.sigma * (double)d->form.sigma;
  return square < 0.99 * sqrt((double)d->dim);
}

static void direct_size(attend_plan *p) {
  bool poly = p->desc.form.kind == ATTEND_POLY;
  p->by_differences = !poly && is_narrow(&p->desc);
  if (poly || p->by_differences) p->fast = p->kn->block[ATTEND_F32];
  softmax_size(p);
}

const attend_engine engine_direct = {
    .name = "kernel-direct",
    .states = &state_kv_cache,
    .applicable = direct_applicable,
    .cost = flops_of_pairs,
    .size = direct_size,
    .forward = softmax_forward,
    .backward = softmax_backward,
    .observe = observe_tiled,
};
