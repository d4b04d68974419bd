/* Norms of rows and of columns, their gradients, and sums of two.
 *
 * Place: layers/ - spreads rows over threads; kernels/cpu/layer_rows.c and
 * layer_back.c compute. What is summed over rows is spread over columns, or
 * summed by stretches of STRETCH rows that are joined in order, so that no sum
 * depends on the number of threads.
 */
#include <string.h>

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

typedef struct {
  int j0, j1;
} columns;

/* Whole lanes of columns for part p. */
static columns part_columns(int n, int parts, int p) {
  int lanes = (n + LANES - 1) / LANES;
  return (columns){
      part_begin(lanes, parts, p) * LANES,
      (int)min64(n, part_begin(lanes, parts, p + 1) * (int64_t)LANES)};
}

static int column_parts(const attend_context *ctx, int rows, int n) {
  return parts_of(ctx, (n + LANES - 1) / LANES, (double)rows * n);
}

void sum_columns(const attend_context *ctx, int rows, int n, const float *x,
                 int ldx, bool add, float *out) {
  int parts = column_parts(ctx, rows, n);
#pragma omp parallel for num_threads(parts) if (parts > 1) schedule(static)
  for (int p = 0; p < parts; p++) {
    columns c = part_columns(n, parts, p);
    ctx->kernels->add_columns(rows, c.j1 - c.j0, x + c.j0, ldx, add,
                              out + c.j0);
  }
}

static int stretches(int rows) {
  return (int)(((int64_t)rows + STRETCH - 1) / STRETCH);
}

size_t attend_norm_back_bytes(int rows, int n) {
  return SIZE_PRODUCT((size_t)stretches(rows), 2, (size_t)n, sizeof(float));
}

static void norm_back(attend_context *ctx, bool centre, int rows, int n,
                      const float *x, int ldx, const float *weight, float eps,
                      const float *dy, int lddy, bool add, float *dx, int lddx,
                      float *dweight, float *dbias, float *work) {
  int units = stretches(rows);
  int parts = parts_of(ctx, units, (double)rows * n * 2);
#pragma omp parallel for num_threads(parts) if (parts > 1) schedule(static)
  for (int s = 0; s < units; s++) {
    size_t at = (size_t)s * STRETCH, wide = (size_t)n;
    int here = (int)min64(STRETCH, rows - (int64_t)at);
    float *w = dweight ? work + (size_t)s * 2 * wide : NULL;
    float *b = dbias ? work + ((size_t)s * 2 + 1) * wide : NULL;
    if (w) memset(w, 0, wide * sizeof *w);
    if (b) memset(b, 0, wide * sizeof *b);
    ctx->kernels->norm_rows_back(centre, here, n, ROW_AT(x, ldx), ldx, weight,
                                 eps, ROW_AT(dy, lddy), lddy, add,
                                 ROW_AT(dx, lddx), lddx, w, b);
  }
  if (dweight) sum_columns(ctx, units, n, work, 2 * n, true, dweight);
  if (dbias) sum_columns(ctx, units, n, work + n, 2 * n, true, dbias);
}

void attend_layer_norm_back(attend_context *ctx, int rows, int n,
                            const float *x, int ldx, const float *weight,
                            float eps, const float *dy, int lddy, int add,
                            float *dx, int lddx, float *dweight, float *dbias,
                            void *work) {
  norm_back(ctx, true, rows, n, x, ldx, weight, eps, dy, lddy, add != 0, dx,
            lddx, dweight, dbias, work);
}

void attend_rms_norm_back(attend_context *ctx, int rows, int n, const float *x,
                          int ldx, const float *weight, float eps,
                          const float *dy, int lddy, int add, float *dx,
                          int lddx, float *dweight, void *work) {
  norm_back(ctx, false, rows, n, x, ldx, weight, eps, dy, lddy, add != 0, dx,
            lddx, dweight, NULL, work);
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
  int parts = column_parts(ctx, rows, n);
#pragma omp parallel for num_threads(parts) if (parts > 1) schedule(static)
  for (int p = 0; p < parts; p++) {
    columns c = part_columns(n, parts, p);
    ctx->kernels->column_moments(rows, c.j1 - c.j0, x + c.j0, ldx, mean + c.j0,
                                 variance + c.j0);
  }
}

void attend_batch_norm_back(attend_context *ctx, int rows, int n,
                            const float *x, int ldx, const float *mean,
                            const float *variance, const float *weight,
                            float eps, const float *dy, int lddy, int add,
                            float *dx, int lddx, float *dweight, float *dbias) {
  int parts = column_parts(ctx, rows, n);
#pragma omp parallel for num_threads(parts) if (parts > 1) schedule(static)
  for (int p = 0; p < parts; p++) {
    columns c = part_columns(n, parts, p);
    int j = c.j0;
    ctx->kernels->norm_columns_back(
        rows, c.j1 - j, x + j, ldx, mean + j, variance + j,
        weight ? weight + j : NULL, eps, dy + j, lddy, add != 0, dx + j, lddx,
        dweight ? dweight + j : NULL, dbias ? dbias + j : NULL);
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
