/* How layers spread their rows over threads.
 *
 * Place: layers/ - included by every layer; kernels take the rows of one part.
 */
#ifndef LAYERS_LAYERS_H
#define LAYERS_LAYERS_H

#include "kernels/kernels.h"

/* Below this many elements waking the threads costs more than they save. */
enum { WORTH_THREADS = 1 << 15 };

static inline int parts_of(const attend_context *ctx, int units, double work) {
  if (work < WORTH_THREADS) return 1;
  return units < ctx->threads ? units : ctx->threads;
}

/* Where part p of `parts` begins. */
static inline int part_begin(int units, int parts, int p) {
  return (int)((int64_t)units * p / parts);
}

/* The rows [r0, r1) of part p, and x's row r0. */
#define PART_ROWS(rows, parts, p)          \
  int r0 = part_begin(rows, parts, p);     \
  int r1 = part_begin(rows, parts, p + 1); \
  size_t at = (size_t)r0
#define ROW_AT(x, ld) ((x) + at * (size_t)(ld))

#endif
