/* Norms of rows and of columns, their gradients, and sums of two.
 *
 * Place: layers/ - spreads rows over threads; kernels/cpu/layer_rows.c and
 * layer_back.c compute. What is summed over rows is spread over columns, or
 * summed by stretches of STRETCH rows that are joined in order, so that no sum
 * depends on the number of threads.
 */
#include <string.h>

#include "layers/layers.h"

typedef struct { /* of rows or of columns, forward and back */
  const struct kernels *kn;
  bool centre, add;
  int rows, n, parts;
  const float *x, *weight, *bias, *mean, *variance, *dy;
  float *y, *dx, *dweight, *dbias;
  int ldx, ldy, lddy, lddx;
  float eps;
  float *work;
} norming;

static void norm_part(const void *args, int64_t p, int worker) {
  const norming *o = args;
  (void)worker;
  PART_ROWS(o->rows, o->parts, p);
  o->kn->norm_rows(o->centre, r1 - r0, o->n, ROW_AT(o->x, o->ldx), o->ldx,
                   o->weight, o->bias, o->eps, ROW_AT(o->y, o->ldy), o->ldy);
}

static void norm(attend_context *ctx, bool centre, int rows, int n,
                 const float *x, int ldx, const float *weight,
                 const float *bias, float eps, float *y, int ldy) {
  int parts = parts_of(ctx, rows, (double)rows * n);
  norming o = {.kn = ctx->kernels,
               .centre = centre,
               .rows = rows,
               .n = n,
               .parts = parts,
               .x = x,
               .ldx = ldx,
               .weight = weight,
               .bias = bias,
               .eps = eps,
               .y = y,
               .ldy = ldy};
  PARALLEL_FOR(ctx, parts, parts, norm_part, o);
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
static columns part_columns(int n, int parts, int64_t p) {
  int lanes = (n + LANES - 1) / LANES;
  return (columns){
      part_begin(lanes, parts, p) * LANES,
      (int)min64(n, part_begin(lanes, parts, p + 1) * (int64_t)LANES)};
}

static int column_parts(const attend_context *ctx, int rows, int n) {
  return parts_of(ctx, (n + LANES - 1) / LANES, (double)rows * n);
}

static void sum_part(const void *args, int64_t p, int worker) {
  const norming *o = args;
  columns c = part_columns(o->n, o->parts, p);
  (void)worker;
  o->kn->add_columns(o->rows, c.j1 - c.j0, o->x + c.j0, o->ldx, o->add,
                     o->y + c.j0);
}

void sum_columns(attend_context *ctx, int rows, int n, const float *x, int ldx,
                 bool add, float *out) {
  int parts = column_parts(ctx, rows, n);
  norming o = {.kn = ctx->kernels,
               .rows = rows,
               .n = n,
               .parts = parts,
               .x = x,
               .ldx = ldx,
               .add = add,
               .y = out};
  PARALLEL_FOR(ctx, parts, parts, sum_part, o);
}

static int stretches(int rows) {
  return (int)(((int64_t)rows + STRETCH - 1) / STRETCH);
}

size_t attend_norm_back_bytes(int rows, int n) {
  return SIZE_PRODUCT((size_t)stretches(rows), 2, (size_t)n, sizeof(float));
}

static void norm_back_stretch(const void *args, int64_t s, int worker) {
  const norming *o = args;
  size_t at = (size_t)s * STRETCH, wide = (size_t)o->n;
  int here = (int)min64(STRETCH, o->rows - (int64_t)at);
  float *w = o->dweight ? o->work + (size_t)s * 2 * wide : NULL;
  float *b = o->dbias ? o->work + ((size_t)s * 2 + 1) * wide : NULL;
  (void)worker;
  if (w) memset(w, 0, wide * sizeof *w);
  if (b) memset(b, 0, wide * sizeof *b);
  o->kn->norm_rows_back(o->centre, here, o->n, ROW_AT(o->x, o->ldx), o->ldx,
                        o->weight, o->eps, ROW_AT(o->dy, o->lddy), o->lddy,
                        o->add, ROW_AT(o->dx, o->lddx), o->lddx, w, b);
}

static void norm_back(attend_context *ctx, bool centre, int rows, int n,
                      const float *x, int ldx, const float *weight, float eps,
                      const float *dy, int lddy, bool add, float *dx, int lddx,
                      float *dweight, float *dbias, float *work) {
  int units = stretches(rows);
  int parts = parts_of(ctx, units, (double)rows * n * 2);
  norming o = {.kn = ctx->kernels,
               .centre = centre,
               .add = add,
               .rows = rows,
               .n = n,
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
               .work = work};
  PARALLEL_FOR(ctx, parts, units, norm_back_stretch, o);
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

static void batch_part(const void *args, int64_t p, int worker) {
  const norming *o = args;
  (void)worker;
  PART_ROWS(o->rows, o->parts, p);
  o->kn->norm_columns(r1 - r0, o->n, ROW_AT(o->x, o->ldx), o->ldx, o->mean,
                      o->variance, o->weight, o->bias, o->eps,
                      ROW_AT(o->y, o->ldy), o->ldy);
}

void attend_batch_norm(attend_context *ctx, int rows, int n, const float *x,
                       int ldx, const float *mean, const float *variance,
                       const float *weight, const float *bias, float eps,
                       float *y, int ldy) {
  int parts = parts_of(ctx, rows, (double)rows * n);
  norming o = {.kn = ctx->kernels,
               .rows = rows,
               .n = n,
               .parts = parts,
               .x = x,
               .ldx = ldx,
               .mean = mean,
               .variance = variance,
               .weight = weight,
               .bias = bias,
               .eps = eps,
               .y = y,
               .ldy = ldy};
  PARALLEL_FOR(ctx, parts, parts, batch_part, o);
}

/* y is the mean, dx the variance. */
static void moments_part(const void *args, int64_t p, int worker) {
  const norming *o = args;
  columns c = part_columns(o->n, o->parts, p);
  (void)worker;
  o->kn->column_moments(o->rows, c.j1 - c.j0, o->x + c.j0, o->ldx, o->y + c.j0,
                        o->dx + c.j0);
}

void attend_batch_moments(attend_context *ctx, int rows, int n, const float *x,
                          int ldx, float *mean, float *variance) {
  int parts = column_parts(ctx, rows, n);
  norming o = {.kn = ctx->kernels,
               .rows = rows,
               .n = n,
               .parts = parts,
               .x = x,
               .ldx = ldx,
               .y = mean,
               .dx = variance};
  PARALLEL_FOR(ctx, parts, parts, moments_part, o);
}

static void batch_back_part(const void *args, int64_t p, int worker) {
  const norming *o = args;
  columns c = part_columns(o->n, o->parts, p);
  int j = c.j0;
  (void)worker;
  o->kn->norm_columns_back(o->rows, c.j1 - j, o->x + j, o->ldx, o->mean + j,
                           o->variance + j, o->weight ? o->weight + j : NULL,
                           o->eps, o->dy + j, o->lddy, o->add, o->dx + j,
                           o->lddx, o->dweight ? o->dweight + j : NULL,
                           o->dbias ? o->dbias + j : NULL);
}

void attend_batch_norm_back(attend_context *ctx, int rows, int n,
                            const float *x, int ldx, const float *mean,
                            const float *variance, const float *weight,
                            float eps, const float *dy, int lddy, int add,
                            float *dx, int lddx, float *dweight, float *dbias) {
  int parts = column_parts(ctx, rows, n);
  norming o = {.kn = ctx->kernels,
               .add = add != 0,
               .rows = rows,
               .n = n,
               .parts = parts,
               .x = x,
               .ldx = ldx,
               .mean = mean,
               .variance = variance,
               .weight = weight,
               .eps = eps,
               .dy = dy,
               .lddy = lddy,
               .dx = dx,
               .lddx = lddx,
               .dweight = dweight,
               .dbias = dbias};
  PARALLEL_FOR(ctx, parts, parts, batch_back_part, o);
}

/* x + dy -> y. */
static void add_part(const void *args, int64_t p, int worker) {
  const norming *o = args;
  (void)worker;
  PART_ROWS(o->rows, o->parts, p);
  o->kn->add_both(r1 - r0, o->n, ROW_AT(o->x, o->ldx), o->ldx,
                  ROW_AT(o->dy, o->lddy), o->lddy, ROW_AT(o->y, o->ldy),
                  o->ldy);
}

void attend_add(attend_context *ctx, int rows, int n, const float *a, int lda,
                const float *b, int ldb, float *y, int ldy) {
  int parts = parts_of(ctx, rows, (double)rows * n / 2);
  norming o = {.kn = ctx->kernels,
               .rows = rows,
               .n = n,
               .parts = parts,
               .x = a,
               .ldx = lda,
               .dy = b,
               .lddy = ldb,
               .y = y,
               .ldy = ldy};
  PARALLEL_FOR(ctx, parts, parts, add_part, o);
}
