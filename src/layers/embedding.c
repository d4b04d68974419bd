/* Embedding lookup and its gradient. Tables keep their stored type and may lie in a mapped
 * file.
 */
#include <string.h>

#include "layers/layers.h"

typedef struct {
  struct op_embed o;
  const struct kernels *kn;
  int parts;
} embed_job;

static void embed_row(const embed_job *j, int32_t id, float *y) {
  const struct op_embed *o = &j->o;
  const attend_table *t = &o->table;
  if (id < 0 || id >= t->entries) {
    if (!o->add) memset(y, 0, (size_t)o->width * sizeof *y);
    return;
  }
  size_t row = (size_t)o->width * attend_dtype_size(t->dtype);
  j->kn->embed_row(t->dtype, (const char *)t->data + (size_t)id * row, o->width, o->factor, o->add,
                   y);
}

static int32_t id_of(const int32_t *ids, int offset, int r) {
  if (!ids) return offset;
  return ids[r] < 0 ? -1 : ids[r] + offset;
}

static void embed_part(const void *args, int64_t p, int worker) {
  const embed_job *j = args;
  const struct op_embed *o = &j->o;
  (void)worker;
  PART_ROWS(o->rows, j->parts, p);
  for (; r0 < r1; r0++, at++) embed_row(j, id_of(o->ids, o->offset, r0), ROW_AT(o->y, o->ldy));
}

void cpu_embed(attend_context *ctx, const struct op_embed *o) {
  double work = (double)o->rows * o->width;
  embed_job j = {*o, ctx->kernels, parts_of(ctx, o->rows, work)};
  PARALLEL_FOR(ctx, j.parts, j.parts, embed_part, j);
}

void attend_embed(attend_context *ctx, const attend_table *table, int rows, int n,
                  const int32_t *ids, float factor, int add, float *y, int ldy) {
  cpu_embed(ctx, &(struct op_embed){*table, rows, n, ids, 0, factor, add != 0, y, ldy});
}

typedef struct {
  struct op_embed_back o;
  const struct kernels *kn;
  int parts;
} embed_back_job;

/* Rows may have the same id: a part has some columns and takes all rows in
 * order. */
static void embed_back_part(const void *args, int64_t p, int worker) {
  const embed_back_job *j = args;
  const struct op_embed_back *o = &j->o;
  int n = o->width, lanes = (n + LANES - 1) / LANES;
  int j0 = part_begin(lanes, j->parts, p) * LANES;
  int j1 = (int)min64(n, part_begin(lanes, j->parts, p + 1) * (int64_t)LANES);
  (void)worker;
  for (int r = 0; r < o->rows; r++) {
    int32_t id = id_of(o->ids, o->offset, r);
    if (id < 0 || id >= o->entries) continue;
    j->kn->embed_row(ATTEND_F32, o->dy + (size_t)r * (size_t)o->lddy + j0, j1 - j0, o->factor, true,
                     o->dtable + (size_t)id * (size_t)n + j0);
  }
}

void cpu_embed_back(attend_context *ctx, const struct op_embed_back *o) {
  int lanes = (o->width + LANES - 1) / LANES;
  embed_back_job j = {*o, ctx->kernels, parts_of(ctx, lanes, (double)o->rows * o->width)};
  PARALLEL_FOR(ctx, j.parts, j.parts, embed_back_part, j);
}

void attend_embed_back(attend_context *ctx, int rows, int n, const int32_t *ids, float factor,
                       const float *dy, int lddy, int entries, float *dtable) {
  cpu_embed_back(ctx, &(struct op_embed_back){rows, n, entries, ids, 0, factor, dy, lddy, dtable});
}

/* ---- rows by number ------------------------------------------------------------------ */

typedef struct {
  struct op_gather o;
  int parts;
} rows_job;

static void rows_part(const void *args, int64_t p, int worker) {
  const rows_job *j = args;
  const struct op_gather *o = &j->o;
  (void)worker;
  for (int i = part_begin(o->rows, j->parts, p); i < part_begin(o->rows, j->parts, p + 1); i++) {
    size_t by = (size_t)(o->index ? o->index[i] : i), row = (size_t)i;
    const float *x = o->x + (o->scatter ? row : by) * (size_t)o->ldx;
    float *y = o->y + (o->scatter ? by : row) * (size_t)o->ldy;
    for (int k = 0; k < o->width; k++) y[k] = o->factor * x[k];
  }
}

void cpu_gather(attend_context *ctx, const struct op_gather *o) {
  rows_job j = {*o, parts_of(ctx, o->rows, (double)o->rows * o->width)};
  PARALLEL_FOR(ctx, j.parts, j.parts, rows_part, j);
}
