/* Layer norm, RMS norm, batch norm, their gradients, and addition. Kernels:
 * kernels/cpu/layer_rows.c, layer_back.c. Sums over rows are spread over columns, or
 * summed by chunks of STRETCH rows that are joined in order, so that no sum depends on
 * the number of threads.
 */
#include <string.h>

#include "layers/layers.h"

typedef struct { /* of columns, forward and back */
  const struct kernels *kn;
  bool add;
  int rows, n, parts;
  const float *x, *weight, *bias, *mean, *variance, *dy;
  float *y, *dx, *dweight, *dbias;
  int ldx, ldy, lddy, lddx;
  float eps;
} norming;

typedef struct {
  struct op_norm o;
  const struct kernels *kn;
  int parts;
} norm_job;

static void norm_part(const void *args, int64_t p, int worker) {
  const norm_job *j = args;
  const struct op_norm *o = &j->o;
  (void)worker;
  PART_ROWS(o->rows, j->parts, p);
  if (!o->groups) {
    j->kn->norm_rows(!o->rms, r1 - r0, o->width, ROW_AT(o->x, o->ldx), o->ldx, o->weight, o->bias,
                     o->eps, ROW_AT(o->y, o->ldy), o->ldy);
    return;
  }
  for (; r0 < r1; r0++, at++)
    j->kn->norm_rows(!o->rms, o->groups, o->width, ROW_AT(o->x, o->ldx), o->width, o->weight,
                     o->bias, o->eps, ROW_AT(o->y, o->ldy), o->width);
}

static int groups_of(int groups) { return groups ? groups : 1; }

void cpu_norm(attend_context *ctx, const struct op_norm *o) {
  double work = (double)o->rows * groups_of(o->groups) * o->width;
  norm_job j = {*o, ctx->kernels, parts_of(ctx, o->rows, work)};
  PARALLEL_FOR(ctx, j.parts, j.parts, norm_part, j);
}

void attend_layer_norm(attend_context *ctx, int rows, int n, const float *x, int ldx,
                       const float *weight, const float *bias, float eps, float *y, int ldy) {
  cpu_norm(ctx, &(struct op_norm){false, rows, 0, n, x, ldx, weight, bias, eps, y, ldy});
}

void attend_rms_norm(attend_context *ctx, int rows, int n, const float *x, int ldx,
                     const float *weight, float eps, float *y, int ldy) {
  cpu_norm(ctx, &(struct op_norm){true, rows, 0, n, x, ldx, weight, NULL, eps, y, ldy});
}

typedef struct {
  int j0, j1;
} columns;

/* Whole lanes of columns for part p. */
static columns part_columns(int n, int parts, int64_t p) {
  int lanes = (n + LANES - 1) / LANES;
  return (columns){part_begin(lanes, parts, p) * LANES,
                   (int)min64(n, part_begin(lanes, parts, p + 1) * (int64_t)LANES)};
}

static int column_parts(const attend_context *ctx, int rows, int n) {
  return parts_of(ctx, (n + LANES - 1) / LANES, (double)rows * n);
}

static void sum_part(const void *args, int64_t p, int worker) {
  const norming *o = args;
  columns c = part_columns(o->n, o->parts, p);
  (void)worker;
  o->kn->add_columns(o->rows, c.j1 - c.j0, o->x + c.j0, o->ldx, o->add, o->y + c.j0);
}

void sum_columns(attend_context *ctx, int rows, int n, const float *x, int ldx, bool add,
                 float *out) {
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

static int stretches(int rows) { return (int)(((int64_t)rows + STRETCH - 1) / STRETCH); }

size_t attend_norm_back_bytes(int rows, int n) {
  return SIZE_PRODUCT((size_t)stretches(rows), 2, (size_t)n, sizeof(float));
}

typedef struct {
  struct op_norm_back o;
  const struct kernels *kn;
} norm_back_job;

/* Rows and their groups are counted together; a group's row is of n floats. */
static void norm_back_stretch(const void *args, int64_t s, int worker) {
  const norm_back_job *j = args;
  const struct op_norm_back *o = &j->o;
  const int groups = groups_of(o->groups);
  const size_t wide = (size_t)o->width;
  int at = (int)s * STRETCH, all = o->rows * groups;
  int end = (int)min64(at + STRETCH, all);
  float *w = o->dweight ? (float *)o->work + (size_t)s * 2 * wide : NULL;
  float *b = o->dbias ? (float *)o->work + ((size_t)s * 2 + 1) * wide : NULL;
  (void)worker;
  if (w) memset(w, 0, wide * sizeof *w);
  if (b) memset(b, 0, wide * sizeof *b);
  while (at < end) { /* as many as lie at one distance */
    int row = at / groups, first = at % groups;
    int n = groups == 1 ? end - at : (int)min64(groups - first, end - at);
    size_t r = (size_t)row, g = (size_t)first * wide;
    bool whole = groups == 1;
    j->kn->norm_rows_back(!o->rms, n, o->width, o->x + r * (size_t)o->ldx + g,
                          whole ? o->ldx : o->width, o->weight, o->eps,
                          o->dy + r * (size_t)o->lddy + g, whole ? o->lddy : o->width, o->add,
                          o->dx + r * (size_t)o->lddx + g, whole ? o->lddx : o->width, w, b);
    at += n;
  }
}

void cpu_norm_back(attend_context *ctx, const struct op_norm_back *o) {
  const int n = o->width, all = o->rows * groups_of(o->groups);
  const int units = stretches(all);
  int parts = parts_of(ctx, units, (double)all * n * 2);
  float *work = o->work;
  norm_back_job j = {*o, ctx->kernels};
  PARALLEL_FOR(ctx, parts, units, norm_back_stretch, j);
  if (o->dweight) sum_columns(ctx, units, n, work, 2 * n, true, o->dweight);
  if (o->dbias) sum_columns(ctx, units, n, work + n, 2 * n, true, o->dbias);
}

void attend_layer_norm_back(attend_context *ctx, int rows, int n, const float *x, int ldx,
                            const float *weight, float eps, const float *dy, int lddy, int add,
                            float *dx, int lddx, float *dweight, float *dbias, void *work) {
  cpu_norm_back(ctx, &(struct op_norm_back){false, add != 0, rows, 0, n, x, ldx, weight, eps, dy,
                                            lddy, dx, lddx, dweight, dbias, work});
}

void attend_rms_norm_back(attend_context *ctx, int rows, int n, const float *x, int ldx,
                          const float *weight, float eps, const float *dy, int lddy, int add,
                          float *dx, int lddx, float *dweight, void *work) {
  cpu_norm_back(ctx, &(struct op_norm_back){true, add != 0, rows, 0, n, x, ldx, weight, eps, dy,
                                            lddy, dx, lddx, dweight, NULL, work});
}

static void batch_part(const void *args, int64_t p, int worker) {
  const norming *o = args;
  (void)worker;
  PART_ROWS(o->rows, o->parts, p);
  o->kn->norm_columns(r1 - r0, o->n, ROW_AT(o->x, o->ldx), o->ldx, o->mean, o->variance, o->weight,
                      o->bias, o->eps, ROW_AT(o->y, o->ldy), o->ldy);
}

void attend_batch_norm(attend_context *ctx, int rows, int n, const float *x, int ldx,
                       const float *mean, const float *variance, const float *weight,
                       const float *bias, float eps, float *y, int ldy) {
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
  o->kn->column_moments(o->rows, c.j1 - c.j0, o->x + c.j0, o->ldx, o->y + c.j0, o->dx + c.j0);
}

void attend_batch_moments(attend_context *ctx, int rows, int n, const float *x, int ldx,
                          float *mean, float *variance) {
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
  o->kn->norm_columns_back(o->rows, c.j1 - j, o->x + j, o->ldx, o->mean + j, o->variance + j,
                           o->weight ? o->weight + j : NULL, o->eps, o->dy + j, o->lddy, o->add,
                           o->dx + j, o->lddx, o->dweight ? o->dweight + j : NULL,
                           o->dbias ? o->dbias + j : NULL);
}

void attend_batch_norm_back(attend_context *ctx, int rows, int n, const float *x, int ldx,
                            const float *mean, const float *variance, const float *weight,
                            float eps, const float *dy, int lddy, int add, float *dx, int lddx,
                            float *dweight, float *dbias) {
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

/* ---- element by element ------------------------------------------------------------- */

typedef struct {
  struct op_add o;
  const struct kernels *kn;
  int parts;
} add_job;

static void add_part(const void *args, int64_t p, int worker) {
  const add_job *j = args;
  const struct op_add *o = &j->o;
  (void)worker;
  PART_ROWS(o->rows, j->parts, p);
  j->kn->add_both(r1 - r0, o->width, ROW_AT(o->a, o->lda), o->lda, ROW_AT(o->b, o->ldb), o->ldb,
                  ROW_AT(o->y, o->ldy), o->ldy);
}

void cpu_add(attend_context *ctx, const struct op_add *o) {
  double work = (double)o->rows * o->width / 2;
  add_job j = {*o, ctx->kernels, parts_of(ctx, o->rows, work)};
  PARALLEL_FOR(ctx, j.parts, j.parts, add_part, j);
}

void attend_add(attend_context *ctx, int rows, int n, const float *a, int lda, const float *b,
                int ldb, float *y, int ldy) {
  cpu_add(ctx, &(struct op_add){rows, n, a, lda, b, ldb, y, ldy});
}
