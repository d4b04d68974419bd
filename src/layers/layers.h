/* Spreading the rows of a layer over threads; included by every layer. */
#ifndef LAYERS_LAYERS_H
#define LAYERS_LAYERS_H

#include "base/parallel.h"
#include "kernels/kernels.h"
#include "layers/ops.h"

/* Rows of one partial sum over rows: fixed, so that sums do not depend on the number of
 * threads. */
enum { STRETCH = 64 };

/* Below this many elements waking the threads costs more than they save. */
enum { WORTH_THREADS = 1 << 15 };

static inline int parts_of(const attend_context *ctx, int units, double work) {
  if (work < WORTH_THREADS) return 1;
  return units < ctx->threads ? units : ctx->threads;
}

/* Where part p of `parts` begins. */
static inline int part_begin(int units, int parts, int64_t p) { return (int)(units * p / parts); }

/* The rows [r0, r1) of part p, and x's row r0. */
#define PART_ROWS(rows, parts, p)          \
  int r0 = part_begin(rows, parts, p);     \
  int r1 = part_begin(rows, parts, p + 1); \
  size_t at = (size_t)r0
#define ROW_AT(x, ld) ((x) + at * (size_t)(ld))
#define ROW_OR_NULL(x, ld) ((x) ? ROW_AT(x, ld) : NULL)

/* out (+)= the sums of x's columns, in an order that is fixed (norm.c). */
void sum_columns(attend_context *ctx, int rows, int n, const float *x, int ldx, bool add,
                 float *out);

/* sum_j exp(x[j] - largest) over x [n] (logits.c). */
double exp_sum(int n, const float *x, float largest);

/* A product's threads as a grid over its rows and lanes (linear.c), in
 * units of kernels/cpu/dense.c: tiles of 12 rows and 2 lanes, blocks
 * of 192 rows. Up to FEW_ROWS rows use single lanes, so that threads read equally
 * many. */
enum { TILE_ROWS = 12, TILE_LANES = 2, ROW_BLOCK = 192, FEW_ROWS = 8 };

typedef struct {
  int by_rows, by_lanes;
  int unit; /* lanes */
} grid;
typedef struct {
  int r0, r1, t0, t1; /* rows [r0, r1) and lanes [t0, t1); perhaps none */
} cell;

grid choose_grid(const attend_context *ctx, int rows, int depth, int lanes);
cell grid_cell(grid g, int64_t p, int rows, int lanes);

#endif
