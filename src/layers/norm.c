/* Layer norm, RMS norm, batch norm and their gradients; kernels/cpu/layers.c computes.
 * Sums over rows are spread over columns, or summed by chunks of ROWS_PER_CHUNK rows that are
 * joined in order, so that no sum depends on the number of threads.
 */
#include "layers/layers.h"

/* ---- norms of rows --------------------------------------------------------------- */

static void norm_rows(const struct kernels *kn, const void *op, int r0, int r1) {
  const struct op_norm *o = op;
  if (!o->groups) {
    kn->norm_rows(!o->rms, r1 - r0, o->width, ROW_F32(o->x, r0, o->ldx), o->ldx, o->weight, o->bias,
                  o->eps, ROW_F32(o->y, r0, o->ldy), o->ldy);
    return;
  }
  for (int r = r0; r < r1; r++)
    kn->norm_rows(!o->rms, o->groups, o->width, ROW_F32(o->x, r, o->ldx), o->width, o->weight,
                  o->bias, o->eps, ROW_F32(o->y, r, o->ldy), o->width);
}

static int groups_of(int groups) { return groups ? groups : 1; }

void cpu_norm(attend_context *ctx, const struct op_norm *o) {
  FOR_ROWS(ctx, o->rows, (double)o->rows * groups_of(o->groups) * o->width, norm_rows, *o);
}

void attend_layer_norm(attend_context *ctx, int rows, int n, const float *x, int ldx,
                       const float *weight, const float *bias, float eps, float *y, int ldy) {
  cpu_norm(ctx, &(struct op_norm){.rows = rows,
                                  .width = n,
                                  .x = x,
                                  .ldx = ldx,
                                  .weight = weight,
                                  .bias = bias,
                                  .eps = eps,
                                  .y = y,
                                  .ldy = ldy});
}

void attend_rms_norm(attend_context *ctx, int rows, int n, const float *x, int ldx,
                     const float *weight, float eps, float *y, int ldy) {
  cpu_norm(ctx, &(struct op_norm){.rms = true,
                                  .rows = rows,
                                  .width = n,
                                  .x = x,
                                  .ldx = ldx,
                                  .weight = weight,
                                  .eps = eps,
                                  .y = y,
                                  .ldy = ldy});
}

typedef struct {
  int rows, n, ldx;
  bool add;
  const float *x;
  float *out;
} column_sums;

static void sum_lanes(const struct kernels *kn, const void *op, int lane, int end) {
  const column_sums *o = op;
  const int j = lane * LANES;
  kn->add_columns(o->rows, lanes_end(o->n, end) - j, o->x + j, o->ldx, o->add, o->out + j);
}

void sum_columns(attend_context *ctx, int rows, int n, const float *x, int ldx, bool add,
                 float *out) {
  column_sums o = {rows, n, ldx, add, x, out};
  FOR_ROWS(ctx, lanes_of(n), (double)rows * n, sum_lanes, o);
}

static int chunks(int rows) { return (int)(((int64_t)rows + ROWS_PER_CHUNK - 1) / ROWS_PER_CHUNK); }

size_t attend_norm_back_bytes(int rows, int n) {
  return SIZE_PRODUCT((size_t)chunks(rows), 2, (size_t)n, sizeof(float));
}

typedef struct {
  struct op_norm_backward o;
  const struct kernels *kn;
} norm_back_job;

/* Rows and their groups are counted together; a group's row is of n floats. */
static void norm_back_chunk(const void *args, int64_t s, int worker) {
  const norm_back_job *j = args;
  const struct op_norm_backward *o = &j->o;
  const int groups = groups_of(o->groups);
  const size_t wide = (size_t)o->width;
  int at = (int)s * ROWS_PER_CHUNK, all = o->rows * groups;
  int end = (int)min64(at + ROWS_PER_CHUNK, all);
  float *w = o->dweight ? (float *)o->work + (size_t)s * 2 * wide : NULL;
  float *b = o->dbias ? (float *)o->work + ((size_t)s * 2 + 1) * wide : NULL;
  (void)worker;
  if (w) memset(w, 0, wide * sizeof *w);
  if (b) memset(b, 0, wide * sizeof *b);
  while (at < end) { /* as many as lie at one distance */
    int row = at / groups, first = at % groups;
    int n = groups == 1 ? end - at : (int)min64(groups - first, end - at);
    size_t g = (size_t)first * wide;
    bool whole = groups == 1;
    j->kn->norm_rows_backward(!o->rms, n, o->width, ROW_F32(o->x, row, o->ldx) + g,
                              whole ? o->ldx : o->width, o->weight, o->eps, o->linear,
                              ROW_F32(o->dy, row, o->lddy) + g, whole ? o->lddy : o->width, o->add,
                              ROW_F32(o->dx, row, o->lddx) + g, whole ? o->lddx : o->width, w, b);
    at += n;
  }
}

void cpu_norm_backward(attend_context *ctx, const struct op_norm_backward *o) {
  const int n = o->width, all = o->rows * groups_of(o->groups);
  const int units = chunks(all);
  int parts = parts_of(ctx, units, (double)all * n * 2);
  float *work = o->work;
  norm_back_job j = {*o, ctx->kernels};
  PARALLEL_FOR(ctx, parts, units, norm_back_chunk, j);
  if (o->dweight) sum_columns(ctx, units, n, work, 2 * n, true, o->dweight);
  if (o->dbias) sum_columns(ctx, units, n, work + n, 2 * n, true, o->dbias);
}

void attend_layer_norm_backward(attend_context *ctx, int rows, int n, const float *x, int ldx,
                                const float *weight, float eps, const float *dy, int lddy, int add,
                                float *dx, int lddx, float *dweight, float *dbias, void *work) {
  cpu_norm_backward(ctx, &(struct op_norm_backward){.add = add != 0,
                                                    .rows = rows,
                                                    .width = n,
                                                    .x = x,
                                                    .ldx = ldx,
                                                    .weight = weight,
                                                    .eps = eps,
                                                    .dy = dy,
                                                    .lddy = lddy,
                                                    .dx = dx,
                                                    .lddx = lddx,
                                                    .dweight = dweight,
                                                    .dbias = dbias,
                                                    .work = work});
}

void attend_rms_norm_backward(attend_context *ctx, int rows, int n, const float *x, int ldx,
                              const float *weight, float eps, const float *dy, int lddy, int add,
                              float *dx, int lddx, float *dweight, void *work) {
  cpu_norm_backward(ctx, &(struct op_norm_backward){.rms = true,
                                                    .add = add != 0,
                                                    .rows = rows,
                                                    .width = n,
                                                    .x = x,
                                                    .ldx = ldx,
                                                    .weight = weight,
                                                    .eps = eps,
                                                    .dy = dy,
                                                    .lddy = lddy,
                                                    .dx = dx,
                                                    .lddx = lddx,
                                                    .dweight = dweight,
                                                    .work = work});
}

/* ---- batch norm ------------------------------------------------------------------ */

typedef struct {
  bool add;
  int rows, n, ldx, ldy, lddy, lddx;
  float eps;
  const float *x, *mean, *variance, *weight, *bias;
  float *y;        /* forward */
  const float *dy; /* backward */
  float *dx, *dweight, *dbias;
} batch_norm;

static void batch_rows(const struct kernels *kn, const void *op, int r0, int r1) {
  const batch_norm *o = op;
  kn->norm_columns(r1 - r0, o->n, ROW(o->x, r0, o->ldx), o->ldx, o->mean, o->variance, o->weight,
                   o->bias, o->eps, ROW(o->y, r0, o->ldy), o->ldy);
}

void attend_batch_norm(attend_context *ctx, int rows, int n, const float *x, int ldx,
                       const float *mean, const float *variance, const float *weight,
                       const float *bias, float eps, float *y, int ldy) {
  batch_norm o = {.rows = rows,
                  .n = n,
                  .ldx = ldx,
                  .ldy = ldy,
                  .eps = eps,
                  .x = x,
                  .mean = mean,
                  .variance = variance,
                  .weight = weight,
                  .bias = bias,
                  .y = y};
  FOR_ROWS(ctx, rows, (double)rows * n, batch_rows, o);
}

typedef struct {
  int rows, n;
  const float *x;
  int ldx;
  float *mean, *variance;
} moments;

static void moment_lanes(const struct kernels *kn, const void *op, int lane, int end) {
  const moments *o = op;
  const int j = lane * LANES;
  kn->column_moments(o->rows, lanes_end(o->n, end) - j, o->x + j, o->ldx, o->mean + j,
                     o->variance + j);
}

void attend_batch_moments(attend_context *ctx, int rows, int n, const float *x, int ldx,
                          float *mean, float *variance) {
  moments o = {rows, n, x, ldx, mean, variance};
  FOR_ROWS(ctx, lanes_of(n), (double)rows * n, moment_lanes, o);
}

static void batch_lanes_backward(const struct kernels *kn, const void *op, int lane, int end) {
  const batch_norm *o = op;
  const int j = lane * LANES;
  kn->norm_columns_backward(o->rows, lanes_end(o->n, end) - j, o->x + j, o->ldx, o->mean + j,
                            o->variance + j, o->weight ? o->weight + j : NULL, o->eps, o->dy + j,
                            o->lddy, o->add, o->dx + j, o->lddx, o->dweight ? o->dweight + j : NULL,
                            o->dbias ? o->dbias + j : NULL);
}

void attend_batch_norm_backward(attend_context *ctx, int rows, int n, const float *x, int ldx,
                                const float *mean, const float *variance, const float *weight,
                                float eps, const float *dy, int lddy, int add, float *dx, int lddx,
                                float *dweight, float *dbias) {
  batch_norm o = {.add = add != 0,
                  .rows = rows,
                  .n = n,
                  .ldx = ldx,
                  .lddy = lddy,
                  .lddx = lddx,
                  .eps = eps,
                  .x = x,
                  .mean = mean,
                  .variance = variance,
                  .weight = weight,
                  .dy = dy,
                  .dx = dx,
                  .dweight = dweight,
                  .dbias = dbias};
  FOR_ROWS(ctx, lanes_of(n), (double)rows * n, batch_lanes_backward, o);
}
