/* Norms of rows and of columns, and sums of two.
 *
 * Place: layers/ - spreads rows over threads; kernels/cpu/layer_rows.c computes.
 * Moments of columns are spread over columns, so that their sums do not depend
 * on the number of threads.
 */
#include "layers/layers.h"

static void norm(attend_context *ctx, bool centre, int rows, int n,
                 const float *x, int ldx, const float *weight,
                 const float *bias, float eps, float *y, int ldy) {
  int parts = parts_of(ctx, rows, (double)rows * n);
#pragma omp parallel for num_threads(parts) if (parts > 1) schedule(static)
  for (int p = 0; p < parts; p++) {
    PART_ROWS(rows, parts, p);
    ctx->kernels->norm_rows(centre, r1 - r0, n, ROW_AT(x, ldx), ldx, weight,
                            bias, eps, ROW_AT(y, ldy), ldy);
  }
}

void attend_layer_norm(attend_context *ctx, int rows, int n, const float *x,
                       int ldx, const float *weight, const float *bias,
                       float eps, float *y, int ldy) {
  norm(ctx, true, rows, n, x, ldx, weight, bias, eps, y, ldy);
}

void attend_rms_norm(attend_context *ctx, int rows, int n, const float *x,
                     int ldx, const float *weight, float eps, float *y,
                     int ldy) {
  norm(ctx, false, rows, n, x, ldx, weight, NULL, eps, y, ldy);
}

void attend_batch_norm(attend_context *ctx, int rows, int n, const float *x,
                       int ldx, const float *mean, const float *variance,
                       const float *weight, const float *bias, float eps,
                       float *y, int ldy) {
  int parts = parts_of(ctx, rows, (double)rows * n);
#pragma omp parallel for num_threads(parts) if (parts > 1) schedule(static)
  for (int p = 0; p < parts; p++) {
    PART_ROWS(rows, parts, p);
    ctx->kernels->norm_columns(r1 - r0, n, ROW_AT(x, ldx), ldx, mean, variance,
                               weight, bias, eps, ROW_AT(y, ldy), ldy);
  }
}

void attend_batch_moments(attend_context *ctx, int rows, int n, const float *x,
                          int ldx, float *mean, float *variance) {
  int lanes = (n + LANES - 1) / LANES;
  int parts = parts_of(ctx, lanes, (double)rows * n);
#pragma omp parallel for num_threads(parts) if (parts > 1) schedule(static)
  for (int p = 0; p < parts; p++) {
    int j0 = part_begin(lanes, parts, p) * LANES;
    int j1 = (int)min64(n, part_begin(lanes, parts, p + 1) * (int64_t)LANES);
    ctx->kernels->column_moments(rows, j1 - j0, x + j0, ldx, mean + j0,
                                 variance + j0);
  }
}

void attend_add(attend_context *ctx, int rows, int n, const float *a, int lda,
                const float *b, int ldb, float *y, int ldy) {
  int parts = parts_of(ctx, rows, (double)rows * n / 2);
#pragma omp parallel for num_threads(parts) if (parts > 1) schedule(static)
  for (int p = 0; p < parts; p++) {
    PART_ROWS(rows, parts, p);
    ctx->kernels->add_both(r1 - r0, n, ROW_AT(a, lda), lda, ROW_AT(b, ldb), ldb,
                           ROW_AT(y, ldy), ldy);
  }
}
