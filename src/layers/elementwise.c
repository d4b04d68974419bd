/* Activations and gates (GLU), addition, scaling, the soft cap of logits c tanh(x / c)
 * (Gemma 2), dropout, and copying of rows by number; with their gradients.
 * kernels/cpu/activations.c and layers.c compute.
 */
#include <math.h>
#include <stdalign.h>

#include "layers/layers.h"

/* ---- rows over threads ----------------------------------------------------------- */

typedef struct {
  const struct kernels *kn;
  rows_body body;
  int rows, parts;
  alignas(16) unsigned char op[ROWS_OP];
} rows_job;

static void rows_part(const void *args, int64_t p, int worker) {
  const rows_job *j = args;
  (void)worker;
  j->body(j->kn, j->op, part_begin(j->rows, j->parts, p), part_begin(j->rows, j->parts, p + 1));
}

void for_rows(attend_context *ctx, int rows, double work, rows_body body, const void *op,
              size_t size) {
  rows_job j = {ctx->kernels, body, rows, parts_of(ctx, rows, work), {0}};
  memcpy(j.op, op, size);
  PARALLEL_FOR(ctx, j.parts, j.parts, rows_part, j);
}

/* ---- activations and gates ------------------------------------------------------- */

const char *attend_activation_name(attend_activation activation) {
  static const char *const names[] = {"identity", "relu", "gelu", "gelu-tanh", "silu", "tanh"};
  return (unsigned)activation < 6 ? names[activation] : "?";
}

static void activate_rows(const struct kernels *kn, const void *op, int r0, int r1) {
  const struct op_activate *o = op;
  kn->activate(o->f, r1 - r0, o->width, ROW_F32(o->a, r0, o->lda), o->lda,
               ROW_F32(o->b, r0, o->ldb), o->ldb, ROW_F32(o->y, r0, o->ldy), o->ldy);
}

void cpu_activate(attend_context *ctx, const struct op_activate *o) {
  FOR_ROWS(ctx, o->rows, (double)o->rows * o->width * 4, activate_rows, *o);
}

static void activate_rows_backward(const struct kernels *kn, const void *op, int r0, int r1) {
  const struct op_activate_backward *o = op;
  if (o->y)
    kn->activate(o->f, r1 - r0, o->width, ROW_F32(o->a, r0, o->lda), o->lda,
                 ROW_F32(o->b, r0, o->ldb), o->ldb, ROW_F32(o->y, r0, o->ldy), o->ldy);
  kn->activate_backward(o->f, r1 - r0, o->width, ROW_F32(o->a, r0, o->lda), o->lda,
                        ROW_F32(o->b, r0, o->ldb), o->ldb, ROW_F32(o->dy, r0, o->lddy), o->lddy,
                        ROW_F32(o->da, r0, o->ldda), o->ldda, ROW_F32(o->db, r0, o->lddb), o->lddb);
}

void cpu_activate_backward(attend_context *ctx, const struct op_activate_backward *o) {
  double work = (double)o->rows * o->width * (o->b ? 8 : 4);
  FOR_ROWS(ctx, o->rows, work, activate_rows_backward, *o);
}

void attend_gate(attend_context *ctx, attend_activation activation, int rows, int n, const float *a,
                 int lda, const float *b, int ldb, float *y, int ldy) {
  cpu_activate(ctx, &(struct op_activate){.f = activation,
                                          .rows = rows,
                                          .width = n,
                                          .a = a,
                                          .lda = lda,
                                          .b = b,
                                          .ldb = ldb,
                                          .y = y,
                                          .ldy = ldy});
}

void attend_activate(attend_context *ctx, attend_activation activation, int rows, int n,
                     const float *x, int ldx, float *y, int ldy) {
  attend_gate(ctx, activation, rows, n, x, ldx, NULL, 0, y, ldy);
}

void attend_gate_backward(attend_context *ctx, attend_activation activation, int rows, int n,
                          const float *a, int lda, const float *b, int ldb, const float *dy,
                          int lddy, float *da, int ldda, float *db, int lddb) {
  cpu_activate_backward(ctx, &(struct op_activate_backward){.f = activation,
                                                            .rows = rows,
                                                            .width = n,
                                                            .a = a,
                                                            .lda = lda,
                                                            .b = b,
                                                            .ldb = ldb,
                                                            .dy = dy,
                                                            .lddy = lddy,
                                                            .da = da,
                                                            .ldda = ldda,
                                                            .db = db,
                                                            .lddb = lddb});
}

void attend_activate_backward(attend_context *ctx, attend_activation activation, int rows, int n,
                              const float *x, int ldx, const float *dy, int lddy, float *dx,
                              int lddx) {
  attend_gate_backward(ctx, activation, rows, n, x, ldx, NULL, 0, dy, lddy, dx, lddx, NULL, 0);
}

/* ---- addition, scaling, copying -------------------------------------------------- */

static void add_rows(const struct kernels *kn, const void *op, int r0, int r1) {
  const struct op_add *o = op;
  kn->add_both(r1 - r0, o->width, ROW_F32(o->a, r0, o->lda), o->lda, ROW_F32(o->b, r0, o->ldb),
               o->ldb, ROW_F32(o->y, r0, o->ldy), o->ldy);
}

void cpu_add(attend_context *ctx, const struct op_add *o) {
  FOR_ROWS(ctx, o->rows, (double)o->rows * o->width / 2, add_rows, *o);
}

void attend_add(attend_context *ctx, int rows, int n, const float *a, int lda, const float *b,
                int ldb, float *y, int ldy) {
  cpu_add(
      ctx,
      &(struct op_add){
          .rows = rows, .width = n, .a = a, .lda = lda, .b = b, .ldb = ldb, .y = y, .ldy = ldy});
}

static void scale_rows(const struct kernels *kn, const void *op, int r0, int r1) {
  const struct op_scale *o = op;
  (void)kn;
  for (int r = r0; r < r1; r++) {
    float *x = ROW_F32(o->x, r, o->ldx);
    for (int i = 0; i < o->width; i++)
      x[i] = o->divisor != 0 ? x[i] / o->divisor : x[i] * o->factor;
  }
}

void cpu_scale(attend_context *ctx, const struct op_scale *o) {
  FOR_ROWS(ctx, o->rows, (double)o->rows * o->width, scale_rows, *o);
}

/* y = factor x between any two types, a stretch at a time. */
static void copy_row(const struct kernels *kn, const struct op_gather *o, int from, int to) {
  enum { STRETCH = 256 };
  const size_t x_size = attend_dtype_size(o->x_type), y_size = attend_dtype_size(o->y_type);
  const char *x = ROW((const char *)o->x, from, (size_t)o->ldx * x_size);
  char *y = ROW((char *)o->y, to, (size_t)o->ldy * y_size);
  const float one = 1;
  float wide[STRETCH];
  for (int k = 0; k < o->width; k += STRETCH) {
    const int n = (int)min64(STRETCH, o->width - k);
    const target into = {y + (size_t)k * y_size, o->y_type, 0, 1};
    kn->embed_row(o->x_type, x + (size_t)k * x_size, n, o->factor, false, wide);
    kn->store_rows(wide, STRETCH, 1, n, &one, into);
  }
}

static void gather_rows(const struct kernels *kn, const void *op, int r0, int r1) {
  const struct op_gather *o = op;
  for (int i = r0; i < r1; i++) {
    int by = o->index ? o->index[i] : i;
    copy_row(kn, o, o->scatter ? i : by, o->scatter ? by : i);
  }
}

void cpu_gather(attend_context *ctx, const struct op_gather *o) {
  FOR_ROWS(ctx, o->rows, (double)o->rows * o->width, gather_rows, *o);
}

/* ---- the soft cap ---------------------------------------------------------------- */

static void cap_rows(const struct kernels *kn, const void *op, int r0, int r1) {
  const struct op_soft_cap *o = op;
  for (int r = r0; r < r1; r++) {
    float *x = ROW_F32(o->x, r, o->ldx);
    for (int i = 0; i < o->width; i++) x[i] /= o->cap;
    kn->activate(ATTEND_TANH, 1, o->width, x, o->ldx, NULL, 0, x, o->ldx);
    for (int i = 0; i < o->width; i++) x[i] *= o->cap;
  }
}

void cpu_soft_cap(attend_context *ctx, const struct op_soft_cap *o) {
  FOR_ROWS(ctx, o->rows, (double)o->rows * o->width * 4, cap_rows, *o);
}

static void cap_rows_backward(const struct kernels *kn, const void *op, int r0, int r1) {
  const struct op_soft_cap_backward *o = op;
  (void)kn;
  for (int r = r0; r < r1; r++) {
    const float *y = ROW_F32(o->y, r, o->ldy);
    float *dx = ROW_F32(o->dx, r, o->lddx);
    for (int i = 0; i < o->width; i++) {
      float t = y[i] / o->cap;
      dx[i] *= 1 - t * t;
    }
  }
}

void cpu_soft_cap_backward(attend_context *ctx, const struct op_soft_cap_backward *o) {
  FOR_ROWS(ctx, o->rows, (double)o->rows * o->width, cap_rows_backward, *o);
}

/* ---- dropout --------------------------------------------------------------------- */

/* The mask depends on the position in a random stream alone, so backward draws it again and
 * nothing is stored. */
typedef struct {
  attend_random random;
  uint64_t first;
  uint32_t min;
  float factor;
  int n, ldx, ldy;
  const float *x;
  float *y;
} dropping;

static void drop_some(const struct kernels *kn, const void *op, int r0, int r1) {
  const dropping *d = op;
  for (int r = r0; r < r1; r++)
    kn->drop_row(d->random, d->first + (uint64_t)r * (uint64_t)d->n, d->min, d->factor, d->n,
                 ROW(d->x, r, d->ldx), ROW(d->y, r, d->ldy));
}

void attend_dropout(attend_context *ctx, attend_random random, uint64_t first, float p, int rows,
                    int n, const float *x, int ldx, float *y, int ldy) {
  /* An element stays if its uniform number, of 24 bits, is p or more. */
  uint32_t min = p > 0 ? (uint32_t)ceil(fmin((double)p, 1) * 0x1p24) : 0;
  float factor = p < 1 ? (float)(1 / (1 - (p > 0 ? (double)p : 0))) : 0.0f;
  dropping d = {random, first, min, factor, n, ldx, ldy, x, y};
  FOR_ROWS(ctx, rows, (double)rows * n * 4, drop_some, d);
}

void cpu_dropout(attend_context *ctx, const struct op_dropout *o) {
  attend_dropout(ctx, o->random, o->first, o->p, o->rows, o->width, o->x, o->ldx, o->x, o->ldx);
}
