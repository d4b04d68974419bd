/* A software pipeline over the groups of a tile: while one group's exponentials run, the
 * scores of the next and the weighted values of the last are computed (as FlashAttention-3
 * overlaps softmax and products).
 *
 * softmax.c calls it where the kernels can overlap: AMX's tiles work beside the vector
 * units. Groups at an edge of the mask are computed step by step between the others. The
 * operations on a row and their order are those of the plain loop, so the bits are too.
 */
#include "attention/tile.h"

typedef struct {
  tile g;
  int at, j0, j1;
  bool live; /* sees some of the block */
  bool full; /* a whole group that sees all of it, with raw scores */
} stage;

static stage stage_of(const call *c, tile t, int at, const scratch *w) {
  stage s = {.at = at};
  if (at >= t.rows) return s;
  const block *k = &w->keys;
  s.g = tile_group(c->on->rows, t, at);
  span seen = rows_see(c, t.b, s.g.row, s.g.rows);
  seen.hi = min64(seen.hi, k->start + c->on->keys);
  s.live = block_part(seen, k->start, &s.j0, &s.j1);
  s.full = s.live && s.g.rows == c->on->rows && s.j0 == 0 && s.j1 == c->on->keys &&
           call_factor(c) == c->plan->score_to2 && !call_adds(c) &&
           group_sees(c, s.g, k, s.j0, s.j1);
  return s;
}

/* Double buffering: a group's softmax uses one set while the products use the other. */
typedef struct {
  float *s, *p;
  float alpha[GROUP], beta[GROUP];
} buffers;

static void weigh_now(const call *c, const stage *x, const buffers *b, const scratch *w) {
  int ld = c->plan->ldv;
  group_weigh(c, x->g, &w->keys, x->j0, x->j1, b->p, ld, b->alpha, b->beta,
              w->o + (size_t)x->at * (size_t)ld);
}

static void score_now(const call *c, stage *x, const buffers *b, scratch *w) {
  w->s = b->s;
  tile_scores(c, x->g, x->at, &x->j0, &x->j1, w);
}

static void step(const call *c, const stage *last, const stage *now, const stage *next,
                 buffers *mine, const buffers *other, const scratch *w) {
  int ld = c->plan->ldv;
  struct block_products ride = {.width = c->plan->desc.dim, .ld = ld};
  if (next->full) {
    ride.q = tile_queries(c, next->at, w);
    ride.k = w->keys.k;
    ride.s = other->s;
  }
  if (last->full) {
    ride.p = other->p;
    ride.v = w->keys.rows;
    ride.alpha = other->alpha;
    ride.beta = other->beta;
    ride.o = w->o + (size_t)last->at * (size_t)ld;
  }
  struct block_soft soft = {now->g.rows,
                            now->j0,
                            now->j1,
                            call_factor(c),
                            now->live && tile_bounded(c, now->g, now->at, now->j0, now->j1, w),
                            mine->s,
                            mine->p,
                            w->m + now->at,
                            w->l + 2 * now->at,
                            mine->alpha,
                            mine->beta};
  c->on->overlap(now->live ? &soft : NULL, &ride);
}

void overlap_block(const call *c, tile t, scratch *w) {
  buffers both[2] = {{.s = w->s, .p = w->p}, {.s = w->spare_s, .p = w->spare_p}};
  float *first = w->s;
  stage last = {0}, now = stage_of(c, t, 0, w);
  int turn = 0;
  if (now.live) score_now(c, &now, &both[0], w);
  for (int at = 0; at < t.rows; at += c->on->rows, turn ^= 1) {
    stage next = stage_of(c, t, at + c->on->rows, w);
    step(c, &last, &now, &next, &both[turn], &both[!turn], w);
    if (next.live && !next.full) score_now(c, &next, &both[!turn], w);
    if (now.live && !now.full) weigh_now(c, &now, &both[turn], w);
    last = now;
    now = next;
  }
  if (last.full) weigh_now(c, &last, &both[!turn], w);
  w->s = first;
}
