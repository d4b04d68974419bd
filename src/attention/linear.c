/* Linear attention (Katharopoulos et al. 2020), full or causal: the plan's choice for
 * forms with a feature map. linear.h describes the algorithm.
 */
#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "attention/engine.h"
#include "attention/linear.h"

/* ---- workspace ------------------------------------------------------------------- */

static size_t linear_sum_floats(const attend_plan *p) {
  return size_add(size_times((size_t)p->map.ld, (size_t)(p->ldv + 1)), LANES);
}

/* Cuts s, z and m out of a block of linear_sum_floats. */
static linear_sum linear_sum_at(const attend_plan *p, float *data) {
  size_t ld = (size_t)p->map.ld;
  if (!data) return (linear_sum){0}; /* while sizing the workspace */
  float *z = data + ld * (size_t)p->ldv;
  return (linear_sum){data, z, z + ld};
}

static void block_cut_linear(const attend_plan *p, arena *a, linear_block *k) {
  size_t f = sizeof(float), ld = (size_t)p->map.ld;
  *k = (linear_block){.b = -1};
  k->x = arena_cut(a, SIZE_PRODUCT(PANEL, (size_t)p->ldk, f));
  k->phi = arena_cut(a, SIZE_PRODUCT(PANEL, ld, f));
  k->phi_t = arena_cut(a, SIZE_PRODUCT(PANEL, ld, f));
  k->v = arena_cut(a, SIZE_PRODUCT(PANEL, (size_t)p->ldv, f));
  k->shift = arena_cut(a, SIZE_PRODUCT(2, PANEL, f));
  k->before = k->shift ? k->shift + PANEL : NULL;
}

size_t linear_cut(const attend_plan *p, arena a, linear_scratch *w) {
  size_t f = sizeof(float), rows = LINEAR_ROWS;
  block_cut_linear(p, &a, &w->keys);
  size_t sums = size_times(linear_sum_floats(p), f);
  w->sum = linear_sum_at(p, arena_cut(&a, sums));
  w->part = linear_sum_at(p, arena_cut(&a, sums));
  w->tile.x = arena_cut(&a, SIZE_PRODUCT(rows, (size_t)p->ldk, f));
  w->tile.phi = arena_cut(&a, SIZE_PRODUCT(rows, (size_t)p->map.ld, f));
  w->tile.o = arena_cut(&a, SIZE_PRODUCT(rows, (size_t)p->ldv, f));
  w->tile.a = arena_cut(&a, SIZE_PRODUCT(rows, PANEL, f));
  w->work = arena_cut(&a, size_times(features_work(&p->map, LINEAR_ROWS), f));
  w->scaled = arena_cut(&a, SIZE_PRODUCT(PANEL, (size_t)p->ldv, f));
  w->keys_t = arena_cut(&a, SIZE_PRODUCT(PANEL, (size_t)p->ldk, f));
  w->scores = arena_cut(&a, SIZE_PRODUCT(rows, PANEL, f));
  w->weak = 0;
  return a.used;
}

/* ---- blocks of keys -------------------------------------------------------------- */

/* Columns [at, at + n) of phi_t; whole blocks by the kernel. */
static void put_columns(const attend_plan *p, int at, int n, const float *phi, linear_block *k) {
  size_t ld = (size_t)p->map.ld;
  if (at == 0 && n == PANEL) {
    p->kn->transpose(PANEL, p->map.ld, phi, p->map.ld, k->phi_t, PANEL);
    return;
  }
  for (int i = 0; i < n; i++)
    for (size_t c = 0; c < ld; c++)
      k->phi_t[c * PANEL + (size_t)(at + i)] = phi[(size_t)i * ld + c];
}

/* Padding has shift -inf and zero features. */
static void put_shifts(const attend_plan *p, int n, const uint8_t *real, linear_block *k) {
  size_t ld = (size_t)p->map.ld;
  for (int i = k->n; i < k->n + n; i++) {
    if (real && !real[i - k->n]) {
      memset(k->phi + (size_t)(i - k->n) * ld, 0, ld * sizeof(float));
      k->shift[i] = -INFINITY;
    }
    float last = i ? k->before[i - 1] : -INFINITY;
    k->before[i] = k->shift[i] > last ? k->shift[i] : last;
  }
}

void linear_put(const attend_plan *p, int n, const float *x, const float *v, const uint8_t *real,
                linear_block *k, float *work) {
  int at = k->n;
  if (at == 0) {
    k->non_finite = false;
    if (n < PANEL) memset(k->phi_t, 0, PANEL * (size_t)p->map.ld * sizeof *v);
    memset(k->v, 0, PANEL * (size_t)p->ldv * sizeof *v);
    for (int i = 0; i < PANEL; i++) k->shift[i] = -INFINITY;
  }
  features_rows(p, true, n, x, k->phi, k->shift + at, work);
  put_shifts(p, n, real, k);
  put_columns(p, at, n, k->phi, k);
  size_t floats = (size_t)n * (size_t)p->ldv;
  memcpy(k->v + (size_t)at * (size_t)p->ldv, v, floats * sizeof *v);
  k->non_finite |= !p->kn->all_finite(v, floats);
  k->n = at + n;
}

void linear_read(const call *c, int b, int g, int64_t index, linear_scratch *w) {
  const attend_plan *p = c->plan;
  linear_block *k = &w->keys;
  int64_t first = index * PANEL;
  int n = (int)max64(0, min64(PANEL, linear_last_key(c, b) - first));
  if (k->b == b && k->g == g && k->index == index && k->n == n) return;
  const uint8_t *real = p->desc.mask.key_mask;
  if (real) real += (size_t)b * (size_t)p->desc.kv_len + (size_t)first;
  p->kn->pack_rows(call_source(c, &c->k, b, g, first), real, n, p->desc.dim, k->x, p->ldk);
  if (c->v.data) /* observing needs no values */
    p->kn->pack_rows(call_source(c, &c->v, b, g, first), real, n, p->desc.dim_v, w->scaled, p->ldv);
  else
    memset(w->scaled, 0, PANEL * (size_t)p->ldv * sizeof *w->scaled);
  k->n = 0;
  linear_put(p, n, k->x, w->scaled, real, k, w->work);
  k->b = b;
  k->g = g;
  k->index = index;
}

/* ---- sums ------------------------------------------------------------------------ */

void linear_factors(const linear_block *k, float m, float factor[PANEL]) {
  for (int j = 0; j < PANEL; j++)
    factor[j] = j < k->n && k->shift[j] > -INFINITY ? power_of_two(k->shift[j] - m) : 0.0f;
}

void linear_block_sum(const attend_plan *p, const linear_block *k, linear_sum part, float *scaled) {
  float factor[PANEL], m = k->n ? k->before[k->n - 1] : -INFINITY;
  size_t ldv = (size_t)p->ldv;
  *part.m = m;
  if (m == -INFINITY) return;
  linear_factors(k, m, factor);
  const float *v = k->v;
  if (p->map.shifts) {
    memcpy(scaled, k->v, PANEL * ldv * sizeof *scaled);
    p->kn->scale_rows(PANEL, p->ldv, factor, scaled, p->ldv);
    v = scaled;
  }
  p->kn->matmul(p->map.ld, p->ldv, PANEL, k->phi_t, PANEL, v, p->ldv, part.s, p->ldv, false);
  p->kn->dot_rows(p->map.ld, PANEL, k->phi_t, PANEL, factor, part.z, NULL);
}

void linear_join(const attend_plan *p, linear_sum sum, linear_sum part) {
  size_t n = (size_t)p->map.ld * (size_t)(p->ldv + 1); /* z lies behind s */
  if (*part.m == -INFINITY) return;
  float m = *sum.m, top = m > *part.m ? m : *part.m;
  if (m == -INFINITY)
    memcpy(sum.s, part.s, n * sizeof(float));
  else
    p->kn->join_all(n, power_of_two(m - top), power_of_two(*part.m - top), part.s, sum.s);
  *sum.m = top;
}

/* ---- rows ------------------------------------------------------------------------ */

int64_t linear_row_end(const call *c, int b, int row) {
  const attend_plan *p = c->plan;
  int query = row / p->group;
  int64_t keys = call_keys(c, b);
  if (query >= call_queries(c, b)) return 0;
  if (p->desc.mask.causal == ATTEND_NOT_CAUSAL) return keys;
  return max64(0, min64(keys, call_position(c, b) + query + 1));
}

int64_t linear_row_block(const call *c, int b, int row) {
  int64_t end = linear_row_end(c, b, row);
  return end > 0 ? (end - 1) / PANEL : -1;
}

void linear_tops(const attend_plan *p, tile t, const linear_block *k, float m, linear_tile *w) {
  for (int i = 0; i < t.rows; i++) {
    float last = w->visible[i] ? k->before[w->visible[i] - 1] : -INFINITY;
    w->top[i] = last > m ? last : m;
    if (w->visible[i] == 0) w->top[i] = -INFINITY; /* not a row, or it sees none */
    w->scale[i] = m == -INFINITY || w->top[i] == -INFINITY ? 0.0f : power_of_two(m - w->top[i]);
    if (!p->map.shifts && w->top[i] > -INFINITY) w->top[i] = 0;
  }
}

/* Weights of up to twelve rows inside the block, only as far as they see. */
static int group_pairs(const attend_plan *p, int at, int rows, const linear_block *k, bool sizes,
                       linear_tile *w) {
  const feature_map *map = &p->map;
  float *a = w->a + (size_t)at * PANEL, sum[LINEAR_GROUP], size[LINEAR_GROUP];
  int max = 0;
  for (int i = at; i < at + rows; i++) max = w->visible[i] > max ? w->visible[i] : max;
  int wide = (int)round_up((size_t)max, LANES);
  p->kn->matmul(rows, wide, map->ld, w->phi + (size_t)at * (size_t)map->ld, map->ld, k->phi_t,
                PANEL, a, PANEL, false);
  p->kn->pair_rows(rows, wide, map->shifts ? k->shift : NULL, w->top + at, w->visible + at, a,
                   PANEL, sum, sizes ? size : NULL);
  for (int i = 0; i < rows; i++) {
    w->den[at + i] += sum[i];
    if (sizes) w->size[at + i] += size[i];
  }
  return max;
}

/* Features, shifts, and the denominators' part from the sums. */
static void weigh_sums(const call *c, tile t, const linear_block *k, linear_sum sum,
                       linear_scratch *w) {
  const attend_plan *p = c->plan;
  linear_tile *x = &w->tile;
  bool sizes = attend_form_signed(&p->desc.form);
  rows_load(c, &c->q, t, p->desc.dim, p->ldk, true, x->x);
  features_rows(p, false, t.rows, x->x, x->phi, x->shift, w->work);
  linear_tops(p, t, k, *sum.m, x);
  memset(x->den, 0, sizeof x->den);
  memset(x->size, 0, sizeof x->size);
  if (*sum.m == -INFINITY) return;
  p->kn->dot_rows(t.rows, p->map.ld, x->phi, p->map.ld, sum.z, x->den, sizes ? x->size : NULL);
  for (int i = 0; i < t.rows; i++) {
    x->den[i] *= x->scale[i];
    x->size[i] *= x->scale[i];
  }
}

/* A value that is not finite must not reach rows that do not see it. */
static void group_values(const attend_plan *p, int at, int rows, int max, const linear_block *k,
                         linear_tile *w) {
  float *o = w->o + (size_t)at * (size_t)p->ldv, *a = w->a + (size_t)at * PANEL;
  if (!k->non_finite) {
    p->kn->matmul(rows, p->ldv, max, a, PANEL, k->v, p->ldv, o, p->ldv, true);
    return;
  }
  for (int i = 0; i < rows; i++)
    p->kn->matmul(1, p->ldv, w->visible[at + i], a + i * PANEL, PANEL, k->v, p->ldv,
                  o + (size_t)i * (size_t)p->ldv, p->ldv, true);
}

static float lse_of(const attend_plan *p, float den, float shift, float top) {
  if (attend_form_signed(&p->desc.form)) {
    if (den == 0.0f || top == -INFINITY) return 0.0f;
    return (float)((double)den * exp2((double)shift + (double)top + p->map.log_factor * LOG2E));
  }
  if (den == 0.0f) return -INFINITY;
  return (float)(log((double)den) + p->map.log_factor + ((double)shift + (double)top) * LN2);
}

/* Heads of a group lie apart; the rows of one head are stored together. */
static void store_outputs(const call *c, tile t, const linear_tile *x) {
  const attend_plan *p = c->plan;
  int together = p->group == 1 ? t.rows : 1;
  target out = {.dtype = p->desc.dtype, .row = c->o.stride[2], .col = c->o.stride[3]};
  for (int i = 0; i < t.rows; i += together) {
    out.data = row_address(c, &c->o, t.b, t.g, t.row + i);
    p->kn->store_rows(x->o + (size_t)i * (size_t)p->ldv, p->ldv, together, p->desc.dim_v,
                      x->den + i, out);
  }
}

static void store_rows(const call *c, tile t, linear_scratch *w) {
  const attend_plan *p = c->plan;
  linear_tile *x = &w->tile;
  bool is_signed = attend_form_signed(&p->desc.form);
  for (int i = 0; i < t.rows; i++) {
    /* Without a shift: padding is not visible, a key that overflows f32 is. A state has not
     * stored which. */
    bool sees = x->top[i] > -INFINITY || (!c->state && row_sees(c, t.b, t.row + i));
    if (x->top[i] == -INFINITY) x->den[i] = 0.0f;
    float den = x->den[i], lse = 0.0f;
    if (c->lse || is_signed) lse = lse_of(p, den, x->shift[i], x->top[i]);
    if (c->lse) c->lse[row_index(c, t, i)] = lse;
    w->weak += sees && (is_lost(den, x->size[i]) || (is_signed && isinf(lse)));
  }
  store_outputs(c, t, x);
}

void linear_rows(const call *c, tile t, int64_t before, const linear_block *k, linear_sum sum,
                 linear_scratch *w) {
  const attend_plan *p = c->plan;
  linear_tile *x = &w->tile;
  for (int i = 0; i < t.rows; i++)
    x->visible[i] = (int32_t)max64(0, linear_row_end(c, t.b, t.row + i) - before);
  weigh_sums(c, t, k, sum, w);
  if (*sum.m > -INFINITY) {
    p->kn->matmul(t.rows, p->ldv, p->map.ld, x->phi, p->map.ld, sum.s, p->ldv, x->o, p->ldv, false);
    p->kn->scale_rows(t.rows, p->ldv, x->scale, x->o, p->ldv);
  } else {
    memset(x->o, 0, (size_t)t.rows * (size_t)p->ldv * sizeof *x->o);
  }
  bool sizes = attend_form_signed(&p->desc.form);
  for (int at = 0; at < t.rows; at += LINEAR_GROUP) {
    int rows = (int)min64(LINEAR_GROUP, t.rows - at);
    int max = group_pairs(p, at, rows, k, sizes, x);
    group_values(p, at, rows, max, k, x);
  }
  store_rows(c, t, w);
}

/* Bisection: the last block of a row rises with the row, until padding begins. */
tile linear_run(const call *c, int b, int g, int row, int end) {
  int64_t own = linear_row_block(c, b, row);
  int max = (int)min64(end, row + LINEAR_ROWS), min = row + 1;
  while (min < max && linear_row_block(c, b, max - 1) != own) {
    int mid = min + (max - min) / 2;
    if (linear_row_block(c, b, mid - 1) == own && mid > min)
      min = mid;
    else
      max = mid > min ? mid : max - 1;
  }
  return (tile){b, g, row, max - row};
}

tile linear_run_before(const call *c, int b, int g, int end) {
  int64_t own = linear_row_block(c, b, end - 1);
  int row = (int)max64(0, end - LINEAR_ROWS);
  while (linear_row_block(c, b, row) != own) row++;
  return (tile){b, g, row, end - row};
}

/* Later rows see at least as many keys. */
int64_t linear_last_key(const call *c, int b) {
  int rows = (int)min64(c->n, call_queries(c, b)) * c->plan->group;
  return rows ? linear_row_end(c, b, rows - 1) : 0;
}

int64_t linear_last_block(const call *c, int b) {
  int64_t end = linear_last_key(c, b);
  return end ? (end - 1) / PANEL : -1;
}

/* Zeros for rows that see nothing. */
static void linear_dead_rows(const call *c, tile t, linear_scratch *w) {
  linear_tile *x = &w->tile;
  memset(x->o, 0, (size_t)t.rows * (size_t)c->plan->ldv * sizeof *x->o);
  for (int i = 0; i < t.rows; i++) x->top[i] = -INFINITY, x->shift[i] = 0;
  store_rows(c, t, w);
}

/* ---- the engine ------------------------------------------------------------------ */

/* With enough stacks (kv heads of the batch) for all threads, each thread processes whole stacks.
 * Otherwise blocks go in waves, a chunked scan: the sums of a wave's blocks in parallel, their
 * prefix sums in order, then its rows. The operations on a row are the same. */

static const char *applicable(const attend_context *ctx, const attend_desc *d) {
  (void)ctx;
  int64_t count = attend_form_features(&d->form, d->dim);
  if (count == 0) return "the form has no feature map";
  if (count > MOST_FEATURES) return "the feature map has more than a million entries";
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

/* ---- workspace ------------------------------------------------------------------- */

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

/* ---- one stack after the other --------------------------------------------------- */

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

/* ---- waves of blocks ------------------------------------------------------------- */

typedef struct wave wave;
typedef void (*wave_step)(const wave *x, int64_t item, linear_scratch *w);

struct wave {
  call c;
  wave_step step; /* of this phase */
  float *data;    /* [stacks][blocks + 1] sums: slot 0 is what came before */
  size_t slot;    /* floats */
  int64_t blocks; /* of a wave */
  int64_t first;  /* block of this wave */
  int64_t tiles;  /* that its rows are */
  int stacks;
};

static linear_sum wave_slot(const wave *x, int64_t stack, int64_t slot) {
  size_t index = (size_t)stack * (size_t)(x->blocks + 1) + (size_t)slot;
  return linear_sum_at(x->c.plan, x->data + index * x->slot);
}

/* Slot k + 1 = the sum of block k of the wave. */
static void wave_sum(const wave *x, int64_t item, linear_scratch *w) {
  const call *c = &x->c;
  int stack = (int)(item / x->blocks), k = (int)(item % x->blocks);
  int b = stack / c->plan->desc.kv_heads, g = stack % c->plan->desc.kv_heads;
  linear_sum slot = wave_slot(x, stack, k + 1);
  *slot.m = -INFINITY;
  if (x->first + k >= linear_last_block(c, b)) return;
  linear_read(c, b, g, x->first + k, w);
  linear_block_sum(c->plan, &w->keys, slot, w->scaled);
}

/* Slot k = the sum of all blocks before block k of the wave: slot 0 holds those
 * before the wave, and the sums run down. */
static void wave_prefix(const wave *x, int64_t stack, linear_scratch *w) {
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
static int first_row(const call *c, int b, int64_t min) {
  int lo = 0, hi = c->n * c->plan->group;
  int real = (int)min64(hi, (int64_t)call_queries(c, b) * c->plan->group);
  for (hi = real; lo < hi;) {
    int mid = lo + (hi - lo) / 2;
    if (linear_row_block(c, b, mid) >= min)
      hi = mid;
    else
      lo = mid + 1;
  }
  return lo;
}

/* Rows of a tile among those that end in this wave. */
static void wave_tile(const wave *x, int64_t item, linear_scratch *w) {
  const call *c = &x->c;
  int stack = (int)(item / x->tiles);
  int b = stack / c->plan->desc.kv_heads, g = stack % c->plan->desc.kv_heads;
  int64_t from = first_row(c, b, x->first);
  int64_t end = first_row(c, b, x->first + x->blocks);
  int64_t row = from + item % x->tiles * LINEAR_ROWS;
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
  int64_t max = 0;
  for (int b = 0; b < x->c.plan->desc.batch; b++)
    max = max64(max, first_row(&x->c, b, x->first + x->blocks) - first_row(&x->c, b, x->first));
  return (max + LINEAR_ROWS - 1) / LINEAR_ROWS;
}

/* Rows that see no key, or are padding. */
static void wave_dead(const wave *x, int64_t stack, linear_scratch *w) {
  const call *c = &x->c;
  int b = (int)stack / c->plan->desc.kv_heads, g = (int)stack % c->plan->desc.kv_heads;
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

/* The last prefix becomes the next wave's first. */
static void wave_next(const wave *x, int64_t stack, linear_scratch *w) {
  (void)w;
  memcpy(wave_slot(x, stack, 0).s, wave_slot(x, stack, x->blocks).s, x->slot * sizeof(float));
}

static void wave_item(const void *args, int64_t i, int worker) {
  const wave *x = args;
  linear_scratch w;
  linear_cut(x->c.plan, plan_thread_arena(x->c.plan, worker), &w);
  x->step(x, i, &w);
  plan_weak(x->c.plan, w.weak);
}

static void wave_queue(wave *x, int64_t n, wave_step step) {
  x->step = step;
  STREAM_ADD(plan_stream(x->c.plan), n, wave_item, *x);
}

static void forward_waves(const call *c, int64_t blocks) {
  attend_plan *p = c->plan;
  int stacks = p->desc.batch * p->desc.kv_heads;
  size_t slot = round_up(linear_sum_floats(p) * sizeof(float), 64) / sizeof(float);
  wave x = {*c, NULL, (float *)plan_shared_arena(p).base, slot, blocks, 0, 0, stacks};
  int64_t last = -1;
  for (int b = 0; b < p->desc.batch; b++) last = max64(last, linear_last_block(c, b));
  for (int i = 0; i < stacks; i++) *wave_slot(&x, i, 0).m = -INFINITY;
  stream_enter(plan_stream(p));
  wave_queue(&x, stacks, wave_dead);
  for (; x.first <= last; x.first += blocks) {
    x.tiles = wave_tiles(&x);
    wave_queue(&x, stacks * blocks, wave_sum);
    wave_queue(&x, stacks, wave_prefix);
    wave_queue(&x, stacks * x.tiles, wave_tile);
    wave_queue(&x, stacks, wave_next);
  }
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
