/* Backward of linear attention, block by block; linear.h describes blocks and shifts.
 *
 * With weights a_ij = phi(q_i).phi(k_j), d_i their sum over the keys that i sees,
 * G_i = dO_i / d_i and h_i = -(dO_i . o_i) / d_i, the derivative by a weight is
 * da_ij = G_i.v_j + h_i. Values get a last column of 1 and G a last column h, so
 * that da = G v^T, and the sums carry z and its like as a last row. Then
 *
 *   dphi(q_i) = sum_j da_ij phi(k_j)      G_i times the sum S^T over keys before
 *   dphi(k_j) = sum_i da_ij phi(q_i)      v_j times the sum T^T over rows after
 *   dv_j      = sum_i a_ij G_i            phi(k_j) times T
 *
 * each with the pairs inside a block added. A forward sweep computes dq, a
 * backward sweep dk and dv. The sums are transposed, [M+1][ld]: both products read them
 * by rows.
 */
#include <math.h>
#include <string.h>

#include "attention/linear.h"

typedef struct {
  linear_scratch w;
  int wide, ldg;        /* M + 1, and in whole lanes */
  float *sum, *part;    /* [M+1][ld] */
  bool non_finite_keys; /* a feature of the block is NaN or infinite */
  float m;              /* of the sum, -inf: empty */
  float *v, *v_t;       /* [PANEL][ldg] values and a 1; [ldg][PANEL] */
  float *g, *g_t;       /* [LINEAR_ROWS][ldg] G and h; [ldg][LINEAR_ROWS] */
  float *d_o;           /* [LINEAR_ROWS][ldv] */
  float *da, *a_t;      /* [LINEAR_ROWS][PANEL]; [PANEL][LINEAR_ROWS] */
  float *dphi;          /* [PANEL][ld] of rows or of keys */
  float *dx;            /* [PANEL][ldk] */
  float *dv, *dv_t;     /* [PANEL][ldv]; [ldv][PANEL] */
  float *ends;          /* [blocks] the largest shift up to each block's end */
} workspace;

static size_t workspace_cut(const attend_plan *p, arena a, workspace *r) {
  size_t f = sizeof(float), ld = (size_t)p->map.ld, ldv = (size_t)p->ldv;
  a.used = linear_cut(p, a, &r->w);
  r->wide = p->desc.dim_v + 1;
  r->ldg = (int)round_up((size_t)r->wide, LANES);
  size_t ldg = (size_t)r->ldg, rows = LINEAR_ROWS;
  r->sum = arena_cut(&a, SIZE_PRODUCT((size_t)r->wide, ld, f));
  r->part = arena_cut(&a, SIZE_PRODUCT((size_t)r->wide, ld, f));
  r->v = arena_cut(&a, SIZE_PRODUCT(PANEL, ldg, f));
  r->v_t = arena_cut(&a, SIZE_PRODUCT(PANEL, ldg, f));
  r->g = arena_cut(&a, SIZE_PRODUCT(rows, ldg, f));
  r->g_t = arena_cut(&a, SIZE_PRODUCT(rows, ldg, f));
  r->d_o = arena_cut(&a, SIZE_PRODUCT(rows, ldv, f));
  r->da = arena_cut(&a, SIZE_PRODUCT(rows, PANEL, f));
  r->a_t = arena_cut(&a, SIZE_PRODUCT(rows, PANEL, f));
  r->dphi = arena_cut(&a, SIZE_PRODUCT(PANEL, ld, f));
  r->dx = arena_cut(&a, SIZE_PRODUCT(PANEL, (size_t)p->ldk, f));
  r->dv = arena_cut(&a, SIZE_PRODUCT(PANEL, ldv, f));
  r->dv_t = arena_cut(&a, SIZE_PRODUCT(PANEL, ldv, f));
  r->ends = arena_cut(&a, size_times((size_t)(p->desc.kv_len / PANEL + 1), f));
  return a.used;
}

size_t linear_backward_bytes(const attend_plan *p) {
  workspace r;
  return workspace_cut(p, (arena){NULL, 0}, &r);
}

/* ---- a block of keys, a tile of rows --------------------------------------------- */

static void read_block(const call *c, int b, int g, int64_t index, workspace *r) {
  const attend_plan *p = c->plan;
  linear_block *k = &r->w.keys;
  linear_read(c, b, g, index, &r->w);
  r->non_finite_keys = !p->kn->all_finite(k->phi, (size_t)k->n * (size_t)p->map.ld);
  memset(r->v, 0, PANEL * (size_t)r->ldg * sizeof *r->v);
  for (int j = 0; j < k->n; j++) {
    float *row = r->v + (size_t)j * (size_t)r->ldg;
    memcpy(row, k->v + (size_t)j * (size_t)p->ldv, (size_t)p->desc.dim_v * sizeof *row);
    row[p->desc.dim_v] = 1.0f;
  }
  p->kn->transpose(PANEL, r->ldg, r->v, r->ldg, r->v_t, PANEL);
}

/* d_i relative to the row's shifts, from lse; 0 where the row saw nothing. */
static float row_denominator(const attend_plan *p, float lse, float shift, float top) {
  if (top == -INFINITY) return 0.0f;
  double gone = ((double)shift + (double)top) * LN2 + p->map.log_factor;
  if (attend_form_signed(&p->desc.form)) return (float)((double)lse * exp(-gone));
  return lse == -INFINITY ? 0.0f : (float)exp((double)lse - gone);
}

static void make_g(const call *c, tile t, workspace *r) {
  const attend_plan *p = c->plan;
  linear_tile *x = &r->w.tile;
  float delta[LINEAR_ROWS];
  rows_load(c, &c->d_o, t, p->desc.dim_v, p->ldv, true, r->d_o);
  rows_load(c, &c->o, t, p->desc.dim_v, p->ldv, true, x->o);
  p->kn->row_dots(t.rows, p->desc.dim_v, r->d_o, x->o, p->ldv, delta);
  memset(r->g, 0, LINEAR_ROWS * (size_t)r->ldg * sizeof *r->g);
  for (int i = 0; i < t.rows; i++) {
    float den = row_denominator(p, c->lse_in[row_index(c, t, i)], x->shift[i], x->top[i]);
    if (den == 0.0f) continue;
    float *row = r->g + (size_t)i * (size_t)r->ldg;
    const float *d_o = r->d_o + (size_t)i * (size_t)p->ldv;
    for (int m = 0; m < p->desc.dim_v; m++) row[m] = d_o[m] / den;
    row[p->desc.dim_v] = -delta[i] / den;
  }
}

/* Features, tops, G and da of the rows; m is the largest shift before the block. */
static void read_rows(const call *c, tile t, float m, workspace *r) {
  const attend_plan *p = c->plan;
  linear_tile *x = &r->w.tile;
  float unused[LINEAR_ROWS];
  int64_t before = r->w.keys.index * PANEL;
  for (int i = 0; i < t.rows; i++)
    x->visible[i] = (int32_t)(linear_row_end(c, t.b, t.row + i) - before);
  rows_load(c, &c->q, t, p->desc.dim, p->ldk, true, x->x);
  features_rows(p, false, t.rows, x->x, x->phi, x->shift, r->w.work);
  linear_tops(p, t, &r->w.keys, m, x);
  make_g(c, t, r);
  p->kn->matmul(t.rows, PANEL, r->wide, r->g, r->ldg, r->v_t, PANEL, r->da, PANEL, false);
  p->kn->pair_rows(t.rows, PANEL, p->map.shifts ? r->w.keys.shift : NULL, x->top, x->visible, r->da,
                   PANEL, unused, NULL);
}

static void store_dq(const call *c, tile t, int i, const float *dx) {
  const attend_plan *p = c->plan;
  target to = {row_address(c, &c->dq, t.b, t.g, t.row + i), p->desc.dtype, 0, c->dq.stride[3]};
  rows_store(p, dx, p->ldk, 1, p->desc.dim, to);
}

/* dphi of the rows takes the keys of the block; those that are NaN or infinite
 * must not reach rows that do not see them. */
static void seen_keys(const attend_plan *p, tile t, workspace *r) {
  const linear_block *k = &r->w.keys;
  int ld = p->map.ld;
  if (!r->non_finite_keys) {
    p->kn->matmul(t.rows, ld, k->n, r->da, PANEL, k->phi, ld, r->dphi, ld, true);
    return;
  }
  for (int i = 0; i < t.rows; i++)
    p->kn->matmul(1, ld, r->w.tile.visible[i], r->da + (size_t)i * PANEL, PANEL, k->phi, ld,
                  r->dphi + (size_t)i * (size_t)ld, ld, true);
}

/* to[PANEL][n] += a_t x[rows][n], where a_t[j] is 0 for rows that do not see key
 * j: those come first. */
static void seeing_rows(const attend_plan *p, tile t, int n, const float *x, int ldx,
                        bool non_finite, float *to, int ld_to, workspace *r) {
  const int32_t *visible = r->w.tile.visible;
  if (!non_finite) {
    p->kn->matmul(PANEL, n, t.rows, r->a_t, LINEAR_ROWS, x, ldx, to, ld_to, true);
    return;
  }
  for (int j = 0, first = 0; j < PANEL; j++) {
    while (first < t.rows && visible[first] <= j) first++;
    p->kn->matmul(1, n, t.rows - first, r->a_t + j * LINEAR_ROWS + first, LINEAR_ROWS,
                  x + (size_t)first * (size_t)ldx, ldx, to + (size_t)j * (size_t)ld_to, ld_to,
                  true);
  }
}

/* ---- forward sweep: dq ----------------------------------------------------------- */

static void rows_dq(const call *c, tile t, workspace *r) {
  const attend_plan *p = c->plan;
  int ld = p->map.ld;
  linear_tile *x = &r->w.tile;
  read_rows(c, t, r->m, r);
  if (r->m > -INFINITY) {
    p->kn->matmul(t.rows, ld, r->wide, r->g, r->ldg, r->sum, ld, r->dphi, ld, false);
    p->kn->scale_rows(t.rows, ld, x->scale, r->dphi, ld);
  }
  if (r->m == -INFINITY) memset(r->dphi, 0, (size_t)t.rows * (size_t)ld * sizeof *r->dphi);
  seen_keys(p, t, r);
  features_backward(p, false, t.rows, x->x, x->phi, r->dphi, r->dx, r->w.work);
  for (int i = 0; i < t.rows; i++) {
    float *dx = r->dx + (size_t)i * (size_t)p->ldk;
    if (x->top[i] == -INFINITY) memset(dx, 0, (size_t)p->ldk * sizeof *dx);
    store_dq(c, t, i, dx);
  }
}

/* sum += part: [M+1][ld], relative to m and part_m. */
static void join_part(const attend_plan *p, float part_m, workspace *r) {
  size_t n = (size_t)r->wide * (size_t)p->map.ld;
  if (part_m == -INFINITY) return;
  float top = r->m > part_m ? r->m : part_m;
  if (r->m == -INFINITY)
    memcpy(r->sum, r->part, n * sizeof *r->sum);
  else
    p->kn->join_all(n, power_of_two(r->m - top), power_of_two(part_m - top), r->part, r->sum);
  r->m = top;
}

/* Adds the block to the sum; destroys its values. */
static void fold_keys(const attend_plan *p, workspace *r) {
  const linear_block *k = &r->w.keys;
  float factor[PANEL], m = k->n ? k->before[k->n - 1] : -INFINITY;
  linear_factors(k, m, factor);
  if (p->map.shifts) p->kn->scale_columns(r->ldg, PANEL, factor, r->v_t, PANEL);
  p->kn->matmul(r->wide, p->map.ld, k->n, r->v_t, PANEL, k->phi, p->map.ld, r->part, p->map.ld,
                false);
  join_part(p, m, r);
}

static void sweep_forward(const call *c, int b, int g, workspace *r) {
  int row = 0, end = c->n * c->plan->group;
  int64_t last = linear_last_block(c, b);
  r->m = -INFINITY;
  while (row < end && linear_row_block(c, b, row) < 0) {
    tile t = linear_run(c, b, g, row, end);
    for (int i = 0; i < t.rows; i++) store_dq(c, t, i, NULL);
    row += t.rows;
  }
  for (int64_t own = 0; own <= last; own++) {
    read_block(c, b, g, own, r);
    while (row < end && linear_row_block(c, b, row) == own) {
      tile t = linear_run(c, b, g, row, end);
      rows_dq(c, t, r);
      row += t.rows;
    }
    fold_keys(c->plan, r);
    r->ends[own] = r->m;
  }
}

/* ---- backward sweep: dk, dv ------------------------------------------------------ */

/* Contributions of the rows of later blocks: sum is theirs, relative to 2^-m. */
static void from_later(const attend_plan *p, workspace *r) {
  const linear_block *k = &r->w.keys;
  int ld = p->map.ld;
  float factor[PANEL];
  memset(r->dphi, 0, PANEL * (size_t)ld * sizeof *r->dphi);
  memset(r->dv, 0, PANEL * (size_t)p->ldv * sizeof *r->dv);
  if (r->m == -INFINITY) return;
  linear_factors(k, r->m, factor);
  p->kn->matmul(PANEL, ld, r->wide, r->v, r->ldg, r->sum, ld, r->dphi, ld, false);
  p->kn->scale_rows(PANEL, ld, factor, r->dphi, ld);
  memset(r->dv_t, 0, PANEL * (size_t)p->ldv * sizeof *r->dv_t);
  p->kn->matmul(p->desc.dim_v, PANEL, ld, r->sum, ld, k->phi_t, PANEL, r->dv_t, PANEL, false);
  p->kn->transpose(p->ldv, PANEL, r->dv_t, PANEL, r->dv, p->ldv);
  p->kn->scale_rows(PANEL, p->ldv, factor, r->dv, p->ldv);
}

/* Rows of the block itself. */
static void from_rows(const call *c, tile t, float before, workspace *r) {
  const attend_plan *p = c->plan;
  linear_tile *x = &r->w.tile;
  int ld = p->map.ld;
  float unused[LINEAR_ROWS];
  size_t rest = (size_t)(LINEAR_ROWS - t.rows) * PANEL * sizeof(float);
  read_rows(c, t, before, r);
  memset(r->da + (size_t)t.rows * PANEL, 0, rest);
  p->kn->transpose(LINEAR_ROWS, PANEL, r->da, PANEL, r->a_t, LINEAR_ROWS);
  bool non_finite = !p->kn->all_finite(x->phi, (size_t)t.rows * (size_t)ld) ||
                    !p->kn->all_finite(r->g, LINEAR_ROWS * (size_t)r->ldg);
  seeing_rows(p, t, ld, x->phi, ld, non_finite, r->dphi, ld, r);
  p->kn->matmul(t.rows, PANEL, ld, x->phi, ld, r->w.keys.phi_t, PANEL, x->a, PANEL, false);
  p->kn->pair_rows(t.rows, PANEL, p->map.shifts ? r->w.keys.shift : NULL, x->top, x->visible, x->a,
                   PANEL, unused, NULL);
  memset(x->a + (size_t)t.rows * PANEL, 0, rest);
  p->kn->transpose(LINEAR_ROWS, PANEL, x->a, PANEL, r->a_t, LINEAR_ROWS);
  seeing_rows(p, t, p->ldv, r->g, r->ldg, non_finite, r->dv, p->ldv, r);
}

/* The rows join the sum for earlier blocks, which is relative to `before`. */
static void fold_rows(const attend_plan *p, tile t, float before, workspace *r) {
  const linear_tile *x = &r->w.tile;
  float factor[LINEAR_ROWS] = {0};
  if (before == -INFINITY) return;
  for (int i = 0; i < t.rows; i++)
    factor[i] = x->top[i] == -INFINITY ? 0.0f
                : p->map.shifts        ? power_of_two(before - x->top[i])
                                       : 1.0f;
  p->kn->transpose(LINEAR_ROWS, r->ldg, r->g, r->ldg, r->g_t, LINEAR_ROWS);
  p->kn->scale_columns(r->ldg, LINEAR_ROWS, factor, r->g_t, LINEAR_ROWS);
  p->kn->matmul(r->wide, p->map.ld, t.rows, r->g_t, LINEAR_ROWS, x->phi, p->map.ld, r->part,
                p->map.ld, true);
}

static void store_keys(const call *c, int b, int g, int64_t first, int n, const workspace *r) {
  const attend_plan *p = c->plan;
  const attend_dtype dtype = p->desc.dtype;
  const size_t size = attend_dtype_size(dtype);
  rows_store(p, r->dx, p->ldk, n, p->desc.dim,
             (target){view_at(&c->dk, size, b, g, first), dtype, c->dk.stride[2], c->dk.stride[3]});
  rows_store(p, r->dv, p->ldv, n, p->desc.dim_v,
             (target){view_at(&c->dv, size, b, g, first), dtype, c->dv.stride[2], c->dv.stride[3]});
}

/* Keys that are padding get zeros whatever their map's derivative is. */
static void keys_backward(const call *c, workspace *r) {
  const attend_plan *p = c->plan;
  const linear_block *k = &r->w.keys;
  features_backward(p, true, k->n, k->x, k->phi, r->dphi, r->dx, r->w.work);
  for (int j = 0; j < k->n; j++) {
    if (k->shift[j] > -INFINITY) continue;
    memset(r->dx + (size_t)j * (size_t)p->ldk, 0, (size_t)p->ldk * sizeof(float));
    memset(r->dv + (size_t)j * (size_t)p->ldv, 0, (size_t)p->ldv * sizeof(float));
  }
  store_keys(c, k->b, k->g, k->index * PANEL, k->n, r);
}

/* Keys that no row sees. */
static void zero_keys(const call *c, int b, int g, int64_t first, workspace *r) {
  const attend_plan *p = c->plan;
  memset(r->dx, 0, PANEL * (size_t)p->ldk * sizeof *r->dx);
  memset(r->dv, 0, PANEL * (size_t)p->ldv * sizeof *r->dv);
  for (; first < p->desc.kv_len; first += PANEL)
    store_keys(c, b, g, first, (int)min64(PANEL, p->desc.kv_len - first), r);
}

static void sweep_backward(const call *c, int b, int g, workspace *r) {
  const attend_plan *p = c->plan;
  size_t sums = (size_t)r->wide * (size_t)p->map.ld;
  int64_t last = linear_last_block(c, b);
  int end = (int)min64(c->n, call_queries(c, b)) * p->group;
  r->m = -INFINITY;
  zero_keys(c, b, g, linear_last_key(c, b), r);
  for (int64_t own = last; own >= 0; own--) {
    float before = own ? r->ends[own - 1] : -INFINITY;
    read_block(c, b, g, own, r);
    from_later(p, r);
    memset(r->part, 0, sums * sizeof *r->part);
    while (end > 0 && linear_row_block(c, b, end - 1) == own) {
      tile t = linear_run_before(c, b, g, end);
      from_rows(c, t, before, r);
      fold_rows(p, t, before, r);
      end -= t.rows;
    }
    keys_backward(c, r);
    if (before == -INFINITY) { /* no earlier key is visible */
      r->m = -INFINITY;
      continue;
    }
    if (r->m > -INFINITY)
      p->kn->join_all(sums, power_of_two(before - r->m), 1.0f, r->part, r->sum);
    else
      memcpy(r->sum, r->part, sums * sizeof *r->sum);
    r->m = before;
  }
}

static void stack_item(const void *args, int64_t i, int worker) {
  const call *c = args;
  int heads = c->plan->desc.kv_heads, b = (int)(i / heads), g = (int)(i % heads);
  workspace r;
  workspace_cut(c->plan, plan_thread_arena(c->plan, worker), &r);
  sweep_forward(c, b, g, &r);
  sweep_backward(c, b, g, &r);
}

attend_status linear_backward(call *c) {
  const attend_desc *d = &c->plan->desc;
  STREAM_ADD(plan_stream(c->plan), d->batch * d->kv_heads, stack_item, *c);
  return ATTEND_OK;
}
