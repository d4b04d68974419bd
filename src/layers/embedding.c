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

void attend_embed(attend_context *ctx, const attend_table *table, int rows,
                  int n, const int32_t *ids, float factor, int add, float *y,
                  int ldy) {
  int parts = parts_of(ctx, rows, (double)rows * n);
#pragma omp parallel for num_threads(parts) if (parts > 1) schedule(static)
  for (int r = 0; r < rows; r++)
    embed(ctx, table, n, ids[r], factor, add != 0, y + (size_t)r * (size_t)ldy);
}

/* Rows may have the same id: a thread has some columns and takes all rows in
 * order. */
void attend_embed_back(attend_context *ctx, int rows, int n, const int32_t *ids,
                       float factor, const float *dy, int lddy, int entries,
                       float *dtable) {
  int lanes = (n + LANES - 1) / LANES;
  int parts = parts_of(ctx, lanes, (double)rows * n);
#pragma omp parallel for num_threads(parts) if (parts > 1) schedule(static)
  for (int p = 0; p < parts; p++) {
    int j0 = part_begin(lanes, parts, p) * LANES;
    int j1 = (int)min64(n, part_begin(lanes, parts, p + 1) * (int64_t)LANES);
    for (int r = 0; r < rows; r++)
      if (ids[r] >= 0 && ids[r] < entries)
        ctx->kernels->embed_row(ATTEND_F32, dy + (size_t)r * (size_t)lddy + j0,
                                j1 - j0, factor, true,
                                dtable + (size_t)ids[r] * (size_t)n + j0);
  }
}
