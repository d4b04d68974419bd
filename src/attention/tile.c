/* A tile of rows: its size, its workspace, its queries and scores. */
#include "attention/tile.h"

#include <math.h>
#include <string.h>

enum { TILE_ROWS = 16 };

void *tile_queries(const call *c, int at, const scratch *w) {
  return w->q + (size_t)(at / c->on->rows) * w->group_bytes;
}

size_t scratch_cut(const attend_plan *p, arena a, scratch *w) {
  size_t rows = (size_t)p->tile, f = sizeof(float);
  size_t wide = (size_t)(p->ldv > p->ldk ? p->ldv : p->ldk);
  block_cut(p, &a, false, &w->keys);
  w->group_bytes = p->fast->query_bytes(p->fast->rows, p->desc.dim);
  w->q = arena_cut(&a, size_times(rows / (size_t)p->fast->rows, w->group_bytes));
  w->longest = arena_cut(&a, size_times(rows / (size_t)p->fast->rows, f));
  w->o = arena_cut(&a, SIZE_PRODUCT(rows, wide, f));
  w->m = arena_cut(&a, size_times(rows, f));
  w->l = arena_cut(&a, SIZE_PRODUCT(2, rows, f));
  size_t scores = SIZE_PRODUCT((size_t)p->fast->rows, BLOCK, f);
  w->s = w->p = arena_cut(&a, scores);
  w->spare_s = w->spare_p = NULL;
  if (p->fast->pair == 1) return a.used;
  /* A tile of weights is read whole, from any row on. */
  size_t weights =
      SIZE_PRODUCT((size_t)(p->fast->rows + TILE_ROWS), (size_t)p->fast->keys, sizeof(uint16_t));
  w->p = arena_cut(&a, weights);
  w->spare_s = arena_cut(&a, scores);
  w->spare_p = arena_cut(&a, weights);
  return a.used;
}

void scratch_open(const attend_plan *p, int thread, scratch *w) {
  scratch_cut(p, plan_thread_arena(p, thread), w);
  p->fast->begin();
}

/* Rows of a tile share loaded keys, so more rows mean less memory traffic: q and o of a
 * tile take half of the L2 cache. With too few tiles for the threads, tiles are smaller.
 * No result depends on it. */
int tile_rows(const attend_plan *p) {
  int64_t group = p->fast->rows, wide = p->ldk + p->ldv;
  int64_t rows = (int64_t)p->ctx->near_bytes / 2 / (4 * wide);
  rows = max64(96, min64(rows, 1024));
  int64_t stack = (int64_t)p->desc.q_len * p->group;
  int64_t stacks = (int64_t)p->desc.batch * p->desc.kv_heads;
  int64_t shares = (4 * p->threads + stacks - 1) / stacks;
  rows = min64(rows, max64(stack / shares, 48));
  rows = min64(rows, max64(stack, 1));
  return (int)((rows + group - 1) / group * group);
}

void tile_begin(const call *c, tile t, scratch *w) {
  const attend_plan *p = c->plan;
  rows_load(c, &c->q, t, p->desc.dim, p->ldk, false, w->o);
  for (int i = 0; i < t.rows; i += c->on->rows) {
    const float *rows = w->o + (size_t)i * p->ldk;
    int n = tile_group(c->on->rows, t, i).rows;
    c->on->pack_queries(rows, p->ldk, n, p->desc.dim, tile_queries(c, i, w));
    float square[GROUP], top = 0;
    p->kn->row_dots(n, p->desc.dim, rows, rows, p->ldk, square);
    for (int r = 0; r < n; r++)
      if (square[r] > top) top = square[r];
    w->longest[i / c->on->rows] = top;
  }
}

/* |q.k| <= |q| |k|. */
bool tile_bounded(const call *c, tile g, int at, int j0, int j1, const scratch *w) {
  const attend_plan *p = c->plan;
  if (call_adds(c) || p->by_differences || call_factor(c) != p->score_to2) return false;
  float product = w->longest[at / c->on->rows] * w->keys.longest;
  float most = BOUND / p->score_to2;
  return product < most * most && group_sees(c, g, &w->keys, j0, j1);
}

void tile_clear(const attend_plan *p, int rows, scratch *w) {
  memset(w->o, 0, (size_t)rows * (size_t)p->ldv * sizeof(float));
  memset(w->l, 0, 2 * (size_t)rows * sizeof(float));
  for (int i = 0; i < rows; i++) w->m[i] = -INFINITY;
}

bool tile_scores(const call *c, tile g, int at, int *j0, int *j1, scratch *w) {
  const block *k = &w->keys;
  span seen = rows_see(c, g.b, g.row, g.rows);
  seen.hi = min64(seen.hi, k->start + c->on->keys);
  if (!block_part(seen, k->start, j0, j1)) return false;
  group_scores(c, g, tile_queries(c, at, w), k, *j0, *j1, w->s);
  const attend_form *f = &c->plan->desc.form;
  bool poly = is_poly(c->plan);
  if (poly) c->plan->kn->power(g.rows, *j0, *j1, f->a, f->c, f->degree, w->s);
  if (!group_sees(c, g, k, *j0, *j1)) group_mask(c, g, k, *j0, *j1, poly ? 0.0f : -INFINITY, w->s);
  return true;
}

void tile_visit(const call *c, tile t, scratch *w, void (*f)(const visit *v, void *with),
                void *with) {
  span seen = rows_see(c, t.b, t.row, t.rows);
  int64_t first = first_block(c, seen), end = end_block(c, seen);
  if (c->key_to) {
    first = max64(first, c->key_from / c->on->keys);
    end = min64(end, (c->key_to + c->on->keys - 1) / c->on->keys);
  }
  for (int64_t i = first; i < end; i++) {
    if (!seen_block_load(c, t, i, seen, &w->keys)) continue;
    for (int at = 0; at < t.rows; at += c->on->rows) {
      visit v = {c, tile_group(c->on->rows, t, at), at, 0, 0, w};
      if (tile_scores(c, v.g, at, &v.j0, &v.j1, w)) f(&v, with);
    }
  }
}
