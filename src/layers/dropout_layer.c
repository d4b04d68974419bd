/* Dropout.
 *
 * Place: layers/ - spreads rows over threads; kernels/cpu/dropout.c draws. Which
 * elements stay depends on their places in a stream alone, so nothing is kept
 * for backward: it asks again.
 */
#include <math.h>

#include "layers/layers.h"

void attend_dropout(attend_context *ctx, attend_random random, uint64_t first,
                    float p, int rows, int n, const float *x, int ldx, float *y,
                    int ldy) {
  /* An element stays if its uniform number, of 24 bits, is p or more. */
  uint32_t least = p > 0 ? (uint32_t)ceil(fmin((double)p, 1) * 0x1p24) : 0;
  float factor = p < 1 ? (float)(1 / (1 - (p > 0 ? (double)p : 0))) : 0.0f;
  int parts = parts_of(ctx, rows, (double)rows * n * 4);
#pragma omp parallel for num_threads(parts) if (parts > 1) schedule(static)
  for (int r = 0; r < rows; r++)
    ctx->kernels->drop_row(random, first + (uint64_t)r * (uint64_t)n, least,
                           factor, n, x + (size_t)r * (size_t)ldx,
                           y + (size_t)r * (size_t)ldy);
}
