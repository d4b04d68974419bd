/* Spreading the rows of a layer over threads; included by every layer. */
#ifndef LAYERS_LAYERS_H
#define LAYERS_LAYERS_H

#include "base/parallel.h"
#include "kernels/kernels.h"
#include "layers/ops.h"

/* Rows of one partial sum over rows: fixed, so that sums do not depend on the number of threads. */
enum { ROWS_PER_CHUNK = 64 };

/* Below this many elements waking the threads costs more than they save. */
enum { WORTH_THREADS = 1 << 15 };

static inline int parts_of(const attend_context *ctx, int units, double work) {
  if (work < WORTH_THREADS) return 1;
  return units < ctx->threads ? units : ctx->threads;
}

/* Where part p of `parts` begins. */
static inline int part_begin(int units, int parts, int64_t p) { return (int)(units * p / parts); }

/* Row r of x; NULL where there is no x. */
#define ROW(x, r, ld) ((x) ? (x) + (size_t)(r) * (size_t)(ld) : NULL)
/* The same of an operand whose type is f32. */
#define ROW_F32(x, r, ld) ROW((float *)(x), r, ld)

/* Lanes of 16 columns, and where the columns before lane `end` end. */
static inline int lanes_of(int n) { return (n + LANES - 1) / LANES; }
static inline int lanes_end(int n, int end) { return (int)min64(n, (int64_t)end * LANES); }

/* Spreads the rows of an op, or its lanes of columns, over threads if `work`, about the
 * elements that are read, is worth it. The op is copied. */
typedef void (*rows_body)(const struct kernels *kn, const void *op, int r0, int r1);
enum { ROWS_OP = 128 };
void for_rows(attend_context *ctx, int rows, double work, rows_body body, const void *op,
              size_t size);
#define FOR_ROWS(ctx, rows, work, body, op)                         \
  do {                                                              \
    _Static_assert(sizeof(op) <= ROWS_OP, "too many for FOR_ROWS"); \
    for_rows(ctx, rows, work, body, &(op), sizeof(op));             \
  } while (0)

/* out (+)= the sums of x's columns, in an order that is fixed (norm.c). */
void sum_columns(attend_context *ctx, int rows, int n, const float *x, int ldx, bool add,
                 float *out);

/* sum_j exp(x[j] - largest) over x [n] (loss.c). */
double exp_sum(int n, const float *x, float largest);

/* A product's threads as a grid over its rows and lanes (linear.c), in units of
 * kernels/cpu/dense.c: tiles of 12 rows and 2 lanes, blocks of 192 rows. Up to FEW_ROWS
 * rows use single lanes, so that threads read equally many. */
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
