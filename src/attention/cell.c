/* P and dS of a tile of rows on a block of keys. */
#include "attention/cell.h"

#include <string.h>

size_t cell_scratch_cut(const attend_plan *p, arena a, cell_scratch *w) {
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

/* ---- loading ---------------------------------------------------------------------- */

tile cell_tile(const call *c, int64_t stack, int64_t i) {
  const attend_plan *p = c->plan;
  tile t = {.b = (int)(stack / p->desc.kv_heads),
            .g = (int)(stack % p->desc.kv_heads),
            .row = (int)(i * ROWS)};
  t.rows = (int)min64(ROWS, (int64_t)c->n * p->group - t.row);
  return t;
}

void cell_rows_prepare(const call *c, tile t, const cell_shared *s,
                       cell_scratch *w) {
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

void cell_rows_load(const call *c, tile t, const cell_shared *s,
                    cell_scratch *w) {
  const attend_plan *p = c->plan;
  rows_load(c, &c->d_o, t, p->desc.dim_v, p->ldv, true, w->d_o);
  rows_load(c, &c->q, t, p->desc.dim, p->ldk, true, w->q);
  for (int i = 0; i < t.rows; i++) {
    size_t row = row_index(c, t, i);
    w->delta[i] = s->delta[row];
    w->lse2[i] = s->lse2      ? s->lse2[row]
                 : is_poly(p) ? c->lse_in[row]
                              : row_lse2(c, t, i);
  }
}

bool cell_keys_load(const call *c, int b, int g, int64_t start, span seen,
                    cell_scratch *w) {
  if (!block_load(c, b, g, start, seen, &w->keys)) return false;
  block_norms(c, seen, &w->keys);
  return true;
}

/* ---- P and dS --------------------------------------------------------------------- */

/* Scores of the group; with a soft cap its products are kept. */
static void cell_scores(const call *c, tile g, int at, int j0, int j1,
                        cell_scratch *w, float *s) {
  const attend_plan *p = c->plan;
  group_products(c, g, w->q + (size_t)at * (size_t)p->ldk, &w->keys, j0, j1, s);
  if (w->raw)
    for (int r = 0; r < g.rows; r++)
      memcpy(w->raw + (at + r) * BLOCK + j0, s + r * BLOCK + j0,
             (size_t)(j1 - j0) * sizeof *s);
  group_finish(c, g, &w->keys, j0, j1, s);
}

static void cell_group(const call *c, tile g, int at, int j0, int j1,
                       cell_scratch *w) {
  const attend_plan *p = c->plan;
  const attend_desc *d = &p->desc;
  const block *k = &w->keys;
  float *s = w->p + at * BLOCK, *dp = w->ds + at * BLOCK;
  cell_scores(c, g, at, j0, j1, w, s);
  for (int j = j0; j < j1;) {
    int base = j / PANEL * PANEL, end = base + PANEL < j1 ? base + PANEL : j1;
    p->kn->scores(g.rows, d->dim_v, w->d_o + (size_t)at * (size_t)p->ldv,
                  p->ldv, k->v_lanes + (size_t)base * (size_t)d->dim_v,
                  j - base, end - base, dp + base);
    j = end;
  }
  if (is_poly(p))
    p->kn->power_grad(g.rows, j0, j1, d->form.a, d->form.c, d->form.degree, s,
                      dp, w->lse2 + at, w->delta + at);
  else
    p->kn->softmax_grad(g.rows, j0, j1, call_factor(c), s, dp, w->lse2 + at,
                        w->delta + at);
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
void cell_compute(const call *c, tile t, int j0, int j1, cell_scratch *w) {
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

void cell_uncap(const call *c, tile t, int j0, int j1, cell_scratch *w) {
  const attend_plan *p = c->plan;
  if (w->raw) p->kn->soft_cap_grad(t.rows, j0, j1, p->cap_in, w->raw, w->ds);
}
