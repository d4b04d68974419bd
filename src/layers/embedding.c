/* Embeddings: rows looked up in a table, and gradients that go to its rows.
 *
 * Place: layers/ - the first layer of a model; tables stay as they are stored,
 * in a file that is mapped perhaps.
 */
#include <string.h>

#include "layers/layers.h"

static void embed(const attend_context *ctx, const attend_table *table, int n,
                  int32_t id, float factor, bool add, float *y) {
  if (id < 0 || id >= table->entries) {
    if (!add) memset(y, 0, (size_t)n * sizeof *y);
    return;
  }
  size_t row = (size_t)n * attend_dtype_size(table->dtype);
  ctx->kernels->embed_row(table->dtype,
                          (const char *)table->data + (size_t)id * row, n,
                          factor, add, y);
}

typedef struct {
  const attend_context *ctx;
  attend_table table; /* backward: data is dy, entries those of dtable */
  int rows, parts, n, ld;
  const int32_t *ids;
  float factor;
  bool add;
  float *y; /* or dtable */
} embedding;

static void embed_part(const void *args, int64_t p, int worker) {
  const embedding *e = args;
  (void)worker;
  PART_ROWS(e->rows, e->parts, p);
  for (; r0 < r1; r0++, at++)
    embed(e->ctx, &e->table, e->n, e->ids[r0], e->factor, e->add,
          ROW_AT(e->y, e->ld));
}

void attend_embed(attend_context *ctx, const attend_table *table, int rows,
                  int n, const int32_t *ids, float factor, int add, float *y,
                  int ldy) {
  int parts = parts_of(ctx, rows, (double)rows * n);
  embedding e = {ctx, *table, rows, parts, n, ldy, ids, factor, add != 0, y};
  PARALLEL_FOR(ctx, parts, parts, embed_part, e);
}

/* Rows may have the same id: a part has some columns and takes all rows in
 * order. */
static void embed_back_part(const void *args, int64_t p, int worker) {
  const embedding *e = args;
  int lanes = (e->n + LANES - 1) / LANES, n = e->n;
  int j0 = part_begin(lanes, e->parts, p) * LANES;
  int j1 = (int)min64(n, part_begin(lanes, e->parts, p + 1) * (int64_t)LANES);
  const float *dy = e->table.data;
  (void)worker;
  for (int r = 0; r < e->rows; r++)
    if (e->ids[r] >= 0 && e->ids[r] < e->table.entries)
      e->ctx->kernels->embed_row(
          ATTEND_F32, dy + (size_t)r * (size_t)e->ld + j0, j1 - j0, e->factor,
          true, e->y + (size_t)e->ids[r] * (size_t)n + j0);
}

void attend_embed_back(attend_context *ctx, int rows, int n, const int32_t *ids,
                       float factor, const float *dy, int lddy, int entries,
                       float *dtable) {
  int lanes = (n + LANES - 1) / LANES;
  int parts = parts_of(ctx, lanes, (double)rows * n);
  embedding e = {
      ctx,   {dy, ATTEND_F32, entries}, rows, parts, n, lddy, ids, factor, true,
      dtable};
  PARALLEL_FOR(ctx, parts, parts, embed_back_part, e);
}
