/* The parts of linear attention (linear.h): blocks of keys, their sums, tiles of rows. */
#include <math.h>
#include <string.h>

#include "attention/linear.h"

/* ---- workspace ----------------------------------------------------------------- */

size_t linear_sum_floats(const attend_plan *p) {
  return size_add(size_times((size_t)p->map.ld, (size_t)(p->ldv + 1)), LANES);
}

linear_sum linear_sum_at(const attend_plan *p, float *data) {
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

/* ---- sums --------------------------------------------------------------------------- */

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

/* ---- rows ---------------------------------------------------------------------------- */

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
    float last = w->seen[i] ? k->before[w->seen[i] - 1] : -INFINITY;
    w->top[i] = last > m ? last : m;
    if (w->seen[i] == 0) w->top[i] = -INFINITY; /* not a row, or it sees none */
    w->scale[i] = m == -INFINITY || w->top[i] == -INFINITY ? 0.0f : power_of_two(m - w->top[i]);
    if (!p->map.shifts && w->top[i] > -INFINITY) w->top[i] = 0;
  }
}

/* Weights of up to twelve rows inside the block, only as far as they see. */
static int group_pairs(const attend_plan *p, int at, int rows, const linear_block *k, bool sizes,
                       linear_tile *w) {
  const feature_map *map = &p->map;
  float *a = w->a + (size_t)at * PANEL, sum[LINEAR_GROUP], size[LINEAR_GROUP];
  int most = 0;
  for (int i = at; i < at + rows; i++) most = w->seen[i] > most ? w->seen[i] : most;
  int wide = (int)round_up((size_t)most, LANES);
  p->kn->matmul(rows, wide, map->ld, w->phi + (size_t)at * (size_t)map->ld, map->ld, k->phi_t,
                PANEL, a, PANEL, false);
  p->kn->pair_rows(rows, wide, map->shifts ? k->shift : NULL, w->top + at, w->seen + at, a, PANEL,
                   sum, sizes ? size : NULL);
  for (int i = 0; i < rows; i++) {
    w->den[at + i] += sum[i];
    if (sizes) w->size[at + i] += size[i];
  }
  return most;
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
static void group_values(const attend_plan *p, int at, int rows, int most, const linear_block *k,
                         linear_tile *w) {
  float *o = w->o + (size_t)at * (size_t)p->ldv, *a = w->a + (size_t)at * PANEL;
  if (!k->non_finite) {
    p->kn->matmul(rows, p->ldv, most, a, PANEL, k->v, p->ldv, o, p->ldv, true);
    return;
  }
  for (int i = 0; i < rows; i++)
    p->kn->matmul(1, p->ldv, w->seen[at + i], a + i * PANEL, PANEL, k->v, p->ldv,
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

/* Whether a row without a shift sees a key: padding is not visible, a key that
 * overflows f32 is. A state has not stored which. */
static bool sees_keys(const call *c, tile t, int i) {
  return !c->state && row_sees(c, t.b, t.row + i);
}

static void store_rows(const call *c, tile t, linear_scratch *w) {
  const attend_plan *p = c->plan;
  linear_tile *x = &w->tile;
  bool is_signed = attend_form_signed(&p->desc.form);
  for (int i = 0; i < t.rows; i++) {
    bool sees = x->top[i] > -INFINITY || sees_keys(c, t, i);
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
    x->seen[i] = (int32_t)max64(0, linear_row_end(c, t.b, t.row + i) - before);
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
    int most = group_pairs(p, at, rows, k, sizes, x);
    group_values(p, at, rows, most, k, x);
  }
  store_rows(c, t, w);
}

/* Bisection: the last block of a row rises with the row, until padding begins. */
tile linear_run(const call *c, int b, int g, int row, int end) {
  int64_t own = linear_row_block(c, b, row);
  int most = (int)min64(end, row + LINEAR_ROWS), least = row + 1;
  while (least < most && linear_row_block(c, b, most - 1) != own) {
    int mid = least + (most - least) / 2;
    if (linear_row_block(c, b, mid - 1) == own && mid > least)
      least = mid;
    else
      most = mid > least ? mid : most - 1;
  }
  return (tile){b, g, row, most - row};
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

void linear_dead_rows(const call *c, tile t, linear_scratch *w) {
  linear_tile *x = &w->tile;
  memset(x->o, 0, (size_t)t.rows * (size_t)c->plan->ldv * sizeof *x->o);
  for (int i = 0; i < t.rows; i++) x->top[i] = -INFINITY, x->shift[i] = 0;
  store_rows(c, t, w);
}
