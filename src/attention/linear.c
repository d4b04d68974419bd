/* Linear attention (Katharopoulos et al. 2020), full or causal: the plan's choice for
 * forms with a feature map. linear.h describes the algorithm.
 *
 * With enough stacks (kv heads of the batch) for all threads, each thread processes
 * whole stacks. Otherwise blocks go in waves, a chunked scan: the sums of a wave's
 * blocks in parallel, their prefix sums in order, then its rows. The operations on a
 * row are the same.
 */
#include "attention/linear.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "attention/engine.h"

static const char *applicable(const attend_desc *d) {
  int64_t count = attend_form_features(&d->form, d->dim);
  if (count == 0) return "the form has no feature map";
  if (count > 1 << 20) return "the feature map has more than a million entries";
  if (d->form.kind == ATTEND_POLY && d->form.degree > 8)
    return "monomials of a degree above 8 overflow f32 easily";
  if (d->mask.window) return "a sum over keys cannot drop keys: no window";
  if (d->bias.kind != ATTEND_NO_BIAS)
    return "a bias belongs to a pair, and this engine computes no pairs";
  return NULL;
}

/* Poly is cheaper by pairs on short sequences. For states the constant size decides. */
static double cost(const attend_desc *d) {
  if (!(d->purpose & ATTEND_FOR_EXTEND)) return flops_of_sums(d);
  int64_t features = attend_form_features(&d->form, d->dim);
  return features <= 1 << 14 ? -INFINITY : INFINITY;
}

static attend_status prepare(attend_plan *p) { return features_make(p->ctx, &p->desc, &p->map); }

static void release(attend_plan *p) { features_free(p->ctx, &p->map); }

/* ---- workspace ------------------------------------------------------------------ */

/* Blocks of a wave for each stack: about four tasks a thread. */
static int64_t wave_blocks(const attend_plan *p) {
  int64_t stacks = (int64_t)p->desc.batch * p->desc.kv_heads;
  if (p->threads == 1 || stacks >= 2 * p->threads) return 0;
  return (4 * p->threads + stacks - 1) / stacks;
}

static void size(attend_plan *p) {
  linear_scratch w;
  int64_t stacks = (int64_t)p->desc.batch * p->desc.kv_heads;
  p->tile = LINEAR_ROWS;
  p->thread_bytes = linear_cut(p, (arena){NULL, 0}, &w);
  p->slot_bytes = SIZE_PRODUCT((size_t)stacks, (size_t)(wave_blocks(p) + 1),
                               round_up(size_times(linear_sum_floats(p), sizeof(float)), 64));
  p->shared_bytes = wave_blocks(p) ? p->slot_bytes : 0;
  if (!(p->desc.purpose & ATTEND_FOR_BACKWARD)) return;
  size_t backward = linear_backward_bytes(p);
  if (backward > p->thread_bytes) p->thread_bytes = backward;
}

/* ---- one stack after the other --------------------------------------------------------- */

static void whole_stack(const call *c, int b, int g, linear_scratch *w) {
  const attend_plan *p = c->plan;
  int end = c->n * p->group;
  int64_t at = 0; /* blocks in the sum */
  *w->sum.m = -INFINITY;
  for (int row = 0; row < end;) {
    tile t = linear_run(c, b, g, row, end);
    int64_t own = linear_row_block(c, b, row);
    for (; at < own; at++) {
      linear_read(c, b, g, at, w);
      linear_block_sum(p, &w->keys, w->part, w->scaled);
      linear_join(p, w->sum, w->part);
    }
    row += t.rows;
    if (own < 0) {
      linear_dead_rows(c, t, w);
      continue;
    }
    linear_read(c, b, g, own, w);
    linear_rows(c, t, own * PANEL, &w->keys, w->sum, w);
  }
}

static void stack_item(const void *args, int64_t i, int worker) {
  const call *c = args;
  int heads = c->plan->desc.kv_heads;
  linear_scratch w;
  linear_cut(c->plan, plan_thread_arena(c->plan, worker), &w);
  whole_stack(c, (int)(i / heads), (int)(i % heads), &w);
  plan_weak(c->plan, w.weak);
}

/* ---- waves of blocks --------------------------------------------------------------------- */

typedef struct {
  call c;
  float *data;    /* [stacks][blocks + 1] sums: slot 0 is what came before */
  size_t slot;    /* floats */
  int64_t blocks; /* of a wave */
  int64_t first;  /* block of this wave */
  int64_t tiles;  /* that its rows are */
  int stacks;
} wave;

static linear_sum wave_slot(const wave *x, int stack, int64_t slot) {
  size_t index = (size_t)stack * (size_t)(x->blocks + 1) + (size_t)slot;
  return linear_sum_at(x->c.plan, x->data + index * x->slot);
}

/* Slot k + 1 = the sum of block k of the wave. */
static void wave_sum(const wave *x, int stack, int64_t k, linear_scratch *w) {
  const call *c = &x->c;
  int b = stack / c->plan->desc.kv_heads, g = stack % c->plan->desc.kv_heads;
  linear_sum slot = wave_slot(x, stack, k + 1);
  *slot.m = -INFINITY;
  if (x->first + k >= linear_last_block(c, b)) return;
  linear_read(c, b, g, x->first + k, w);
  linear_block_sum(c->plan, &w->keys, slot, w->scaled);
}

/* Slot k = the sum of all blocks before block k of the wave: slot 0 holds those
 * before the wave, and the sums run down. */
static void wave_prefix(const wave *x, int stack, linear_scratch *w) {
  const attend_plan *p = x->c.plan;
  size_t bytes = x->slot * sizeof(float);
  for (int64_t k = 1; k <= x->blocks; k++) {
    linear_sum now = wave_slot(x, stack, k), last = wave_slot(x, stack, k - 1);
    memcpy(w->part.s, now.s, bytes);
    memcpy(now.s, last.s, bytes);
    linear_join(p, now, w->part);
  }
}

/* The first row whose keys end in block `least` or later. */
static int first_row(const call *c, int b, int64_t least) {
  int lo = 0, hi = c->n * c->plan->group;
  int real = (int)min64(hi, (int64_t)call_queries(c, b) * c->plan->group);
  for (hi = real; lo < hi;) {
    int mid = lo + (hi - lo) / 2;
    if (linear_row_block(c, b, mid) >= least)
      hi = mid;
    else
      lo = mid + 1;
  }
  return lo;
}

/* Rows of tile k among those that end in this wave. */
static void wave_tile(const wave *x, int stack, int64_t k, linear_scratch *w) {
  const call *c = &x->c;
  int b = stack / c->plan->desc.kv_heads, g = stack % c->plan->desc.kv_heads;
  int64_t from = first_row(c, b, x->first);
  int64_t end = first_row(c, b, x->first + x->blocks);
  int64_t row = from + k * LINEAR_ROWS;
  end = min64(end, row + LINEAR_ROWS);
  while (row < end) {
    tile t = linear_run(c, b, g, (int)row, (int)end);
    int64_t own = linear_row_block(c, b, (int)row);
    linear_read(c, b, g, own, w);
    linear_rows(c, t, own * PANEL, &w->keys, wave_slot(x, stack, own - x->first), w);
    row += t.rows;
  }
}

static int64_t wave_tiles(const wave *x) {
  int64_t most = 0;
  for (int b = 0; b < x->c.plan->desc.batch; b++)
    most = max64(most, first_row(&x->c, b, x->first + x->blocks) - first_row(&x->c, b, x->first));
  return (most + LINEAR_ROWS - 1) / LINEAR_ROWS;
}

/* Rows that see no key, or are padding. */
static void wave_dead(const wave *x, int stack, linear_scratch *w) {
  const call *c = &x->c;
  int b = stack / c->plan->desc.kv_heads, g = stack % c->plan->desc.kv_heads;
  int end = c->n * c->plan->group, live = first_row(c, b, 0);
  int real = (int)min64(end, (int64_t)call_queries(c, b) * c->plan->group);
  for (int row = 0; row < end;) {
    if (row >= live && row < real) row = real;
    int stop = row < live ? live : end;
    tile t = {b, g, row, (int)min64(LINEAR_ROWS, stop - row)};
    if (t.rows <= 0) break;
    linear_dead_rows(c, t, w);
    row += t.rows;
  }
}

static void sum_item(const void *args, int64_t i, int worker) {
  const wave *x = args;
  linear_scratch w;
  linear_cut(x->c.plan, plan_thread_arena(x->c.plan, worker), &w);
  wave_sum(x, (int)(i / x->blocks), i % x->blocks, &w);
}

static void prefix_item(const void *args, int64_t i, int worker) {
  const wave *x = args;
  linear_scratch w;
  linear_cut(x->c.plan, plan_thread_arena(x->c.plan, worker), &w);
  wave_prefix(x, (int)i, &w);
}

static void wave_item(const void *args, int64_t i, int worker) {
  const wave *x = args;
  linear_scratch w;
  linear_cut(x->c.plan, plan_thread_arena(x->c.plan, worker), &w);
  wave_tile(x, (int)(i / x->tiles), i % x->tiles, &w);
  plan_weak(x->c.plan, w.weak);
}

/* The last prefix becomes the next wave's first. */
static void next_item(const void *args, int64_t i, int worker) {
  const wave *x = args;
  (void)worker;
  memcpy(wave_slot(x, (int)i, 0).s, wave_slot(x, (int)i, x->blocks).s, x->slot * sizeof(float));
}

static void dead_item(const void *args, int64_t i, int worker) {
  const wave *x = args;
  linear_scratch w;
  linear_cut(x->c.plan, plan_thread_arena(x->c.plan, worker), &w);
  wave_dead(x, (int)i, &w);
}

static void wave_add(wave *x) {
  attend_stream *on = plan_stream(x->c.plan);
  x->tiles = wave_tiles(x);
  STREAM_ADD(on, x->stacks * x->blocks, sum_item, *x);
  STREAM_ADD(on, x->stacks, prefix_item, *x);
  STREAM_ADD(on, x->stacks * x->tiles, wave_item, *x);
  STREAM_ADD(on, x->stacks, next_item, *x);
}

static void forward_waves(const call *c, int64_t blocks) {
  attend_plan *p = c->plan;
  int stacks = p->desc.batch * p->desc.kv_heads;
  size_t slot = round_up(linear_sum_floats(p) * sizeof(float), 64) / sizeof(float);
  wave x = {*c, (float *)plan_shared_arena(p).base, slot, blocks, 0, 0, stacks};
  int64_t last = -1;
  for (int b = 0; b < p->desc.batch; b++) last = max64(last, linear_last_block(c, b));
  for (int i = 0; i < stacks; i++) *wave_slot(&x, i, 0).m = -INFINITY;
  stream_enter(plan_stream(p));
  STREAM_ADD(plan_stream(p), stacks, dead_item, x);
  for (; x.first <= last; x.first += blocks) wave_add(&x);
  stream_leave(plan_stream(p));
}

static attend_status forward(call *c) {
  int64_t blocks = wave_blocks(c->plan);
  const attend_desc *d = &c->plan->desc;
  call_begin(c);
  if (blocks)
    forward_waves(c, blocks);
  else
    STREAM_ADD(plan_stream(c->plan), d->batch * d->kv_heads, stack_item, *c);
  return ATTEND_OK;
}

const attend_engine engine_linear = {
    .name = "linear",
    .states = &state_linear,
    .by_sums = true,
    .applicable = applicable,
    .cost = cost,
    .prepare = prepare,
    .release = release,
    .size = size,
    .forward = forward,
    .backward = linear_backward,
    .observe = linear_observe,
};
