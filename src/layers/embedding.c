/* Embeddings: rows looked up in a table.
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
