/* A tile of rows: its queries, its running result, one block of keys. Shared by softmax,
 * argmax, the direct forms and observe.
 */
#ifndef ATTENTION_TILE_H
#define ATTENTION_TILE_H

#include "attention/blocks.h"

typedef struct {
  block keys;
  unsigned char *q; /* groups of packed queries */
  size_t group_bytes;
  float *longest;           /* of each group, the largest |q|^2 */
  float *o, *m, *l;         /* running result: [tile][ldv], [tile], [tile][2] */
  float *s, *p;             /* scores and weights of a group; f32: the same */
  float *spare_s, *spare_p; /* of the group before or after, with overlap */
  float alpha[GROUP], beta[GROUP];
} scratch;

size_t scratch_cut(const attend_plan *p, arena a, scratch *w);
/* One thread's scratch; p->fast->end() closes it. */
void scratch_open(const attend_plan *p, int thread, scratch *w);
int tile_rows(const attend_plan *p); /* rows that a tile should have */

void tile_begin(const call *c, tile t, scratch *w);          /* packs the queries; uses o */
void tile_clear(const attend_plan *p, int rows, scratch *w); /* nothing seen */

/* The packed queries of the group that starts at row `at`. */
void *tile_queries(const call *c, int at, const scratch *w);

/* Scores of the group that starts at row `at` of its tile on the loaded block,
 * -inf where a row does not see; for poly their powers, 0 where it does not.
 * False if the group sees none of it. */
bool tile_scores(const call *c, tile g, int at, int *j0, int *j1, scratch *w);

/* Whether all of [j0, j1) is visible and |scores| are below BOUND, by |q| |k|. */
bool tile_bounded(const call *c, tile g, int at, int j0, int j1, const scratch *w);

/* A group on a block, its scores in w->s as tile_scores leaves them. */
typedef struct {
  const call *c;
  tile g;
  int at; /* the group's first row in the tile */
  int j0, j1;
  scratch *w;
} visit;

/* Visits every group of the tile on every block that it sees, blocks first. */
void tile_visit(const call *c, tile t, scratch *w, void (*f)(const visit *v, void *with),
                void *with);

/* All groups of the tile on the loaded block, the softmax of one overlapped with the
 * products of others (overlap.c); for kernels that can. */
void overlap_block(const call *c, tile t, scratch *w);

/* Blocks of c->on->keys keys: the first that is seen, and the end. */
static inline int64_t first_block(const call *c, span seen) { return seen.lo / c->on->keys; }
static inline int64_t end_block(const call *c, span seen) {
  if (seen.hi <= seen.lo) return first_block(c, seen);
  return (seen.hi + c->on->keys - 1) / c->on->keys;
}
/* Block i of them, as far as it is seen. */
static inline bool seen_block_load(const call *c, tile t, int64_t i, span seen, block *out) {
  int64_t start = i * c->on->keys;
  seen.hi = min64(seen.hi, start + c->on->keys);
  if (!block_load(c, t.b, t.g, start, seen, out)) return false;
  block_norms(c, seen, out);
  return true;
}

/* ---- calls of the tiled engines: softmax.c, softmax_backward.c, observe.c ------- */

void softmax_size(attend_plan *p);
attend_status softmax_forward(call *c);
void softmax_backward_size(attend_plan *p); /* adds to the plan's bytes */
attend_status softmax_backward(call *c);
void dense_clear(const call *c); /* dbias of a dense bias: zeros */

attend_status observe_tiled(call *c);
/* Fails unless the observation's rows and keys exist. */
attend_status check_observed_rows(const call *c);

#endif
