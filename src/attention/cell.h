/* Backward's unit of work: a tile of rows on a block of keys.
 *
 * cell.c computes P and dS of a cell, softmax_backward.c walks the cells and sums dQ,
 * dK and dV, cell_bias.c sums dbias.
 */
#ifndef ATTENTION_CELL_H
#define ATTENTION_CELL_H

#include "attention/walk.h"

enum { KEYS = BLOCK, ROWS = 96 }; /* 2 x 96 KiB of P and dS */

/* A thread's own. */
typedef struct {
  block keys;
  float *q, *d_o; /* rows of the tile: [ROWS][ldk], [ROWS][ldv] */
  float *p, *ds;  /* [ROWS][BLOCK] */
  float *raw;     /* [ROWS][BLOCK] q.k, 0 where not seen: with a soft cap */
  float *lse2, *delta; /* [ROWS]; poly: lse2 is the denominator */
  float *o;            /* rows of o, or of dQ */
  float *dk, *dv;      /* [KEYS][ldk], [KEYS][ldv] */
  float *sums;         /* [KEYS], of dS over the rows: for norms */
} cell_scratch;

/* What the threads share: dO.o and lse2 of every row, how far each item has
 * come, the sums for dbias, and dQ in f32 where the caller's is shorter. */
typedef struct {
  float *delta, *lse2; /* [B,H,T]; lse2 of gaussian alone */
  int64_t *next;
  int *passed;  /* [stacks][blocks] tiles */
  double *bias; /* [stacks][blocks][group * entries] */
  float *dq;    /* [B,H,T,D] */
} cell_shared;

static inline int64_t stacks(const attend_plan *p) {
  return (int64_t)p->desc.batch * p->desc.kv_heads;
}
static inline int64_t key_blocks(const attend_plan *p) {
  return ((int64_t)p->desc.kv_len + KEYS - 1) / KEYS;
}
static inline int64_t row_tiles(const attend_plan *p) {
  return ((int64_t)p->desc.q_len * p->group + ROWS - 1) / ROWS;
}

size_t cell_scratch_cut(const attend_plan *p, arena a, cell_scratch *w);

/* Tile i of the rows of a stack. */
tile cell_tile(const call *c, int64_t stack, int64_t i);
/* Of the tile's rows: delta and lse2, once; then what cells take of them. */
void cell_rows_prepare(const call *c, tile t, const cell_shared *s,
                       cell_scratch *w);
void cell_rows_load(const call *c, tile t, const cell_shared *s,
                    cell_scratch *w);
/* The block of keys; false if none of them is real. */
bool cell_keys_load(const call *c, int b, int g, int64_t start, span seen,
                    cell_scratch *w);
/* P and dS of the loaded rows on [j0, j1) of the loaded block. */
void cell_compute(const call *c, tile t, int j0, int j1, cell_scratch *w);
/* From dS, which is by the exponent, to what q and k get of it: through the soft
 * cap, where there is one. */
void cell_uncap(const call *c, tile t, int j0, int j1, cell_scratch *w);

/* Numbers of bias that one head has, but for a dense one. */
size_t bias_entries(const attend_plan *p);
/* A cell's dS onto the sums of its block: [group][entries]. */
void bias_gather(const call *c, tile t, int j0, int j1, const cell_scratch *w,
                 double *sums);
/* dbias from the sums of all blocks; or, of a dense bias, from cells anew. */
void bias_finish(const call *c, const cell_shared *s);

#endif
