/* Embedding lookup and its gradient. Tables keep their stored type and may lie in a mapped
 * file.
 */
#include "layers/layers.h"

static int32_t id_of(const int32_t *ids, int offset, int r) {
  if (!ids) return offset;
  return ids[r] < 0 ? -1 : ids[r] + offset;
}

static void embed_rows(const struct kernels *kn, const void *op, int r0, int r1) {
  const struct op_embed *o = op;
  const attend_table *t = &o->table;
  const size_t bytes = (size_t)o->width * attend_dtype_size(t->dtype);
  for (int r = r0; r < r1; r++) {
    float *y = ROW_F32(o->y, r, o->ldy);
    int32_t id = id_of(o->ids, o->offset, r);
    if (id >= 0 && id < t->entries)
      kn->embed_row(t->dtype, (const char *)t->data + (size_t)id * bytes, o->width, o->factor,
                    o->add, y);
    else if (!o->add)
      memset(y, 0, (size_t)o->width * sizeof *y);
  }
}

void cpu_embed(attend_context *ctx, const struct op_embed *o) {
  FOR_ROWS(ctx, o->rows, (double)o->rows * o->width, embed_rows, *o);
}

void attend_embed(attend_context *ctx, const attend_table *table, int rows, int n,
                  const int32_t *ids, float factor, int add, float *y, int ldy) {
  cpu_embed(ctx, &(struct op_embed){.table = *table,
                                    .rows = rows,
                                    .width = n,
                                    .ids = ids,
                                    .factor = factor,
                                    .add = add != 0,
                                    .y = y,
                                    .ldy = ldy});
}

/* Rows may have the same id: a thread has some lanes of columns and takes all rows in order. */
static void embed_lanes_backward(const struct kernels *kn, const void *op, int lane, int end) {
  const struct op_embed_backward *o = op;
  const int n = o->width, j0 = lane * LANES, j1 = lanes_end(n, end);
  for (int r = 0; r < o->rows; r++) {
    int32_t id = id_of(o->ids, o->offset, r);
    if (id < 0 || id >= o->entries) continue;
    kn->embed_row(ATTEND_F32, ROW_F32(o->dy, r, o->lddy) + j0, j1 - j0, o->factor, true,
                  ROW(o->dtable, id, n) + j0);
  }
}

void cpu_embed_backward(attend_context *ctx, const struct op_embed_backward *o) {
  FOR_ROWS(ctx, lanes_of(o->width), (double)o->rows * o->width, embed_lanes_backward, *o);
}

void attend_embed_backward(attend_context *ctx, int rows, int n, const int32_t *ids, float factor,
                           const float *dy, int lddy, int entries, float *dtable) {
  cpu_embed_backward(ctx, &(struct op_embed_backward){.rows = rows,
                                                      .width = n,
                                                      .entries = entries,
                                                      .ids = ids,
                                                      .factor = factor,
                                                      .dy = dy,
                                                      .lddy = lddy,
                                                      .dtable = dtable});
}
