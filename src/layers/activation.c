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

typedef struct { /* y = f(a), or f(a) b where b is given */
  const struct kernels *kn;
  attend_activation f;
  int rows, parts, n;
  const float *a, *b;
  int lda, ldb;
  float *y;
  int ldy;
  const float *dy; /* backward: da and db from dy */
  int lddy;
  float *da, *db;
  int ldda, lddb;
} activating;

static void forward_part(const void *args, int64_t p, int worker) {
  const activating *x = args;
  (void)worker;
  PART_ROWS(x->rows, x->parts, p);
  x->kn->activate(x->f, r1 - r0, x->n, ROW_AT(x->a, x->lda), x->lda,
                  ROW_OR_NULL(x->b, x->ldb), x->ldb, ROW_AT(x->y, x->ldy),
                  x->ldy);
}

static void back_part(const void *args, int64_t p, int worker) {
  const activating *x = args;
  (void)worker;
  PART_ROWS(x->rows, x->parts, p);
  x->kn->activate_back(x->f, r1 - r0, x->n, ROW_AT(x->a, x->lda), x->lda,
                       ROW_OR_NULL(x->b, x->ldb), x->ldb,
                       ROW_AT(x->dy, x->lddy), x->lddy, ROW_AT(x->da, x->ldda),
                       x->ldda, ROW_OR_NULL(x->db, x->lddb), x->lddb);
}

void attend_gate(attend_context *ctx, attend_activation activation, int rows,
                 int n, const float *a, int lda, const float *b, int ldb,
                 float *y, int ldy) {
  int parts = parts_of(ctx, rows, (double)rows * n * 4);
  activating x = {.kn = ctx->kernels,
                  .f = activation,
                  .rows = rows,
                  .parts = parts,
                  .n = n,
                  .a = a,
                  .lda = lda,
                  .b = b,
                  .ldb = ldb,
                  .y = y,
                  .ldy = ldy};
  PARALLEL_FOR(ctx, parts, parts, forward_part, x);
}

void attend_activate(attend_context *ctx, attend_activation activation,
                     int rows, int n, const float *x, int ldx, float *y,
                     int ldy) {
  attend_gate(ctx, activation, rows, n, x, ldx, NULL, 0, y, ldy);
}

void attend_gate_back(attend_context *ctx, attend_activation activation,
                      int rows, int n, const float *a, int lda, const float *b,
                      int ldb, const float *dy, int lddy, float *da, int ldda,
                      float *db, int lddb) {
  int parts = parts_of(ctx, rows, (double)rows * n * (b ? 8 : 4));
  activating x = {.kn = ctx->kernels,
                  .f = activation,
                  .rows = rows,
                  .parts = parts,
                  .n = n,
                  .a = a,
                  .lda = lda,
                  .b = b,
                  .ldb = ldb,
                  .dy = dy,
                  .lddy = lddy,
                  .da = da,
                  .ldda = ldda,
                  .db = db,
                  .lddb = lddb};
  PARALLEL_FOR(ctx, parts, parts, back_part, x);
}

void attend_activate_back(attend_context *ctx, attend_activation activation,
                          int rows, int n, const float *x, int ldx,
                          const float *dy, int lddy, float *dx, int lddx) {
  attend_gate_back(ctx, activation, rows, n, x, ldx, NULL, 0, dy, lddy, dx,
                   lddx, NULL, 0);
}
