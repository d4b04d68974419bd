/* Activations and gates (GLU), and their gradients; kernels/cpu/activations.c computes. */
#include "layers/layers.h"

const char *attend_activation_name(attend_activation activation) {
  static const char *const names[] = {"identity", "relu", "gelu", "gelu-tanh", "silu", "tanh"};
  return (unsigned)activation < 6 ? names[activation] : "?";
}

typedef struct {
  struct op_activate o;
  const struct kernels *kn;
  int parts;
} forward_job;

static void forward_part(const void *args, int64_t p, int worker) {
  const forward_job *j = args;
  const struct op_activate *o = &j->o;
  (void)worker;
  PART_ROWS(o->rows, j->parts, p);
  j->kn->activate(o->f, r1 - r0, o->width, ROW_AT(o->a, o->lda), o->lda, ROW_OR_NULL(o->b, o->ldb),
                  o->ldb, ROW_AT(o->y, o->ldy), o->ldy);
}

void cpu_activate(attend_context *ctx, const struct op_activate *o) {
  double work = (double)o->rows * o->width * 4;
  forward_job j = {*o, ctx->kernels, parts_of(ctx, o->rows, work)};
  PARALLEL_FOR(ctx, j.parts, j.parts, forward_part, j);
}

typedef struct {
  struct op_activate_back o;
  const struct kernels *kn;
  int parts;
} back_job;

static void back_part(const void *args, int64_t p, int worker) {
  const back_job *j = args;
  const struct op_activate_back *o = &j->o;
  (void)worker;
  PART_ROWS(o->rows, j->parts, p);
  j->kn->activate_back(o->f, r1 - r0, o->width, ROW_AT(o->a, o->lda), o->lda,
                       ROW_OR_NULL(o->b, o->ldb), o->ldb, ROW_AT(o->dy, o->lddy), o->lddy,
                       ROW_AT(o->da, o->ldda), o->ldda, ROW_OR_NULL(o->db, o->lddb), o->lddb);
}

void cpu_activate_back(attend_context *ctx, const struct op_activate_back *o) {
  double work = (double)o->rows * o->width * (o->b ? 8 : 4);
  back_job j = {*o, ctx->kernels, parts_of(ctx, o->rows, work)};
  PARALLEL_FOR(ctx, j.parts, j.parts, back_part, j);
}

/* ---- on memory of the caller's -------------------------------------------------- */

void attend_gate(attend_context *ctx, attend_activation activation, int rows, int n, const float *a,
                 int lda, const float *b, int ldb, float *y, int ldy) {
  cpu_activate(ctx, &(struct op_activate){activation, rows, n, a, lda, b, ldb, y, ldy});
}

void attend_activate(attend_context *ctx, attend_activation activation, int rows, int n,
                     const float *x, int ldx, float *y, int ldy) {
  attend_gate(ctx, activation, rows, n, x, ldx, NULL, 0, y, ldy);
}

void attend_gate_back(attend_context *ctx, attend_activation activation, int rows, int n,
                      const float *a, int lda, const float *b, int ldb, const float *dy, int lddy,
                      float *da, int ldda, float *db, int lddb) {
  cpu_activate_back(ctx, &(struct op_activate_back){activation, rows, n, a, lda, b, ldb, dy, lddy,
                                                    da, ldda, db, lddb});
}

void attend_activate_back(attend_context *ctx, attend_activation activation, int rows, int n,
                          const float *x, int ldx, const float *dy, int lddy, float *dx, int lddx) {
  attend_gate_back(ctx, activation, rows, n, x, ldx, NULL, 0, dy, lddy, dx, lddx, NULL, 0);
}
