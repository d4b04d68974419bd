/* Activations and gates, and their gradients.
 *
 * Place: layers/ - element by element; the functions are in
 * kernels/cpu/activations.c.
 */
#include "layers/layers.h"

const char *attend_activation_name(attend_activation activation) {
  static const char *const names[] = {"identity",  "relu", "gelu",
                                      "gelu-tanh", "silu", "tanh"};
  return (unsigned)activation < 6 ? names[activation] : "?";
}

void attend_activate(attend_context *ctx, attend_activation activation,
                     int rows, int n, const float *x, int ldx, float *y,
                     int ldy) {
  int parts = parts_of(ctx, rows, (double)rows * n * 4);
#pragma omp parallel for num_threads(parts) if (parts > 1) schedule(static)
  for (int p = 0; p < parts; p++) {
    PART_ROWS(rows, parts, p);
    ctx->kernels->activate(activation, r1 - r0, n, ROW_AT(x, ldx), ldx, NULL, 0,
                           ROW_AT(y, ldy), ldy);
  }
}

void attend_gate(attend_context *ctx, attend_activation activation, int rows,
                 int n, const float *a, int lda, const float *b, int ldb,
                 float *y, int ldy) {
  int parts = parts_of(ctx, rows, (double)rows * n * 4);
#pragma omp parallel for num_threads(parts) if (parts > 1) schedule(static)
  for (int p = 0; p < parts; p++) {
    PART_ROWS(rows, parts, p);
    ctx->kernels->activate(activation, r1 - r0, n, ROW_AT(a, lda), lda,
                           ROW_AT(b, ldb), ldb, ROW_AT(y, ldy), ldy);
  }
}

void attend_activate_back(attend_context *ctx, attend_activation activation,
                          int rows, int n, const float *x, int ldx,
                          const float *dy, int lddy, float *dx, int lddx) {
  int parts = parts_of(ctx, rows, (double)rows * n * 4);
#pragma omp parallel for num_threads(parts) if (parts > 1) schedule(static)
  for (int p = 0; p < parts; p++) {
    PART_ROWS(rows, parts, p);
    ctx->kernels->activate_back(activation, r1 - r0, n, ROW_AT(x, ldx), ldx,
                                NULL, 0, ROW_AT(dy, lddy), lddy,
                                ROW_AT(dx, lddx), lddx, NULL, 0);
  }
}

void attend_gate_back(attend_context *ctx, attend_activation activation,
                      int rows, int n, const float *a, int lda, const float *b,
                      int ldb, const float *dy, int lddy, float *da, int ldda,
                      float *db, int lddb) {
  int parts = parts_of(ctx, rows, (double)rows * n * 8);
#pragma omp parallel for num_threads(parts) if (parts > 1) schedule(static)
  for (int p = 0; p < parts; p++) {
    PART_ROWS(rows, parts, p);
    ctx->kernels->activate_back(activation, r1 - r0, n, ROW_AT(a, lda), lda,
                                ROW_AT(b, ldb), ldb, ROW_AT(dy, lddy), lddy,
                                ROW_AT(da, ldda), ldda, ROW_AT(db, lddb), lddb);
  }
}
