/* Cross entropy of logits.
 *
 * Place: layers/ - the last layer of training and of perplexity. The largest
 * logit is subtracted before the exponentials, so that none overflows; the sum
 * and its logarithm are in double.
 */
#include <math.h>

#include "layers/layers.h"

static float row_loss(const attend_context *ctx, int n, const float *x,
                      int32_t right, int32_t *best) {
  int at = ctx->kernels->largest_at(n, x);
  if (best) *best = at;
  if (right < 0) return 0.0f;
  if (right >= n) return NAN; /* no such class: better seen than averaged */
  double sum = ctx->kernels->sum_exp(n, x, x[at]);
  return (float)(log(sum) + ((double)x[at] - (double)x[right]));
}

void attend_cross_entropy(attend_context *ctx, int rows, int n, const float *x,
                          int ldx, const int32_t *targets, float *loss,
                          int32_t *best) {
  int parts = parts_of(ctx, rows, (double)rows * n * 2);
#pragma omp parallel for num_threads(parts) if (parts > 1) schedule(static)
  for (int r = 0; r < rows; r++)
    loss[r] = row_loss(ctx, n, x + (size_t)r * (size_t)ldx, targets[r],
                       best ? best + r : NULL);
}
