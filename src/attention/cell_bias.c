/* The gradient of the bias.
 *
 * ALiBi's slopes and buckets are summed by the blocks of keys as they go, in double,
 * and joined in their order. A dense bias has a gradient for each pair: its tiles of
 * rows go over their cells again.
 */

#include "attention/cell.h"
#include "attention/softmax.h"

/* Numbers of bias that one head has. */
size_t bias_entries(const attend_plan *p) {
  if (p->desc.bias.kind == ATTEND_ALIBI) return 1;
  return p->desc.bias.kind == ATTEND_BUCKETS ? (size_t)p->desc.bias.buckets : 0;
}

/* Onto the sums of this item: [group][entries]. */
void bias_gather(const call *c, tile t, int j0, int j1, const cell_scratch *w,
                 double *sums) {
  const attend_plan *p = c->plan;
  const attend_bias *bias = &p->desc.bias;
  size_t entries = bias_entries(p);
  for (int r = 0; r < t.rows; r++) {
    double *mine = sums + (size_t)((t.row + r) % p->group) * entries;
    int64_t distance =
        w->keys.start - call_position(c, t.b) - (t.row + r) / p->group;
    for (int j = j0; j < j1; j++) {
      double ds = (double)w->ds[r * BLOCK + j];
      int64_t far = distance + j;
      if (ds == 0.0) continue;
      if (bias->kind == ATTEND_ALIBI)
        mine[0] -= ds * (double)(far < 0 ? -far : far);
      else
        mine[attend_bucket(bias, far)] += ds;
    }
  }
}

/* Sums of all items in their order: [entries, H] as the caller's table lies. */
static void sum_dbias(const call *c, const cell_shared *s) {
  const attend_plan *p = c->plan;
  size_t entries = bias_entries(p), group = (size_t)p->group;
  for (int h = 0; h < p->desc.heads; h++)
    for (size_t e = 0; e < entries; e++) {
      double sum = 0;
      for (int b = 0; b < p->desc.batch; b++) {
        int64_t stack = (int64_t)b * p->desc.kv_heads + h / p->group;
        for (int64_t at = 0; at < key_blocks(p); at++)
          sum += s->bias[(((size_t)(stack * key_blocks(p) + at)) * group +
                          (size_t)(h % p->group)) *
                             entries +
                         e];
      }
      c->dbias[e * (size_t)p->desc.heads + (size_t)h] =
          (float)(sum * (double)p->bias_to2 / LOG2E);
    }
}

static attend_view dense_view(const call *c) {
  const attend_desc *d = &c->plan->desc;
  attend_view v = view_complete(d->bias.dense, d->heads, c->n, d->kv_len);
  v.data = c->dbias;
  return v;
}

void dense_clear(const call *c) {
  const attend_desc *d = &c->plan->desc;
  attend_view view = dense_view(c), *v = &view;
  for (int b = 0; b < (v->stride[0] ? d->batch : 1); b++)
    for (int h = 0; h < (v->stride[1] ? d->heads : 1); h++)
      for (int i = 0; i < (v->stride[2] ? c->n : 1); i++)
        for (int64_t j = 0; j < (v->stride[3] ? d->kv_len : 1); j++)
          ((float *)view_at(v, sizeof(float), b, h, i))[j * v->stride[3]] = 0;
}

/* One tile of rows of one stack: dS is the gradient of its scores. */
static void dense_tile(const call *c, tile t, const cell_shared *s,
                       const attend_view *v, cell_scratch *w) {
  const attend_plan *p = c->plan;
  float factor = p->bias_to2 / (float)LOG2E;
  cell_rows_load(c, t, s, w);
  span rows = rows_see(c, t.b, t.row, t.rows);
  for (int64_t at = rows.lo / KEYS * KEYS; at < rows.hi; at += KEYS) {
    span seen = {max64(rows.lo, at), min64(rows.hi, at + KEYS)};
    int j0, j1;
    if (!cell_keys_load(c, t.b, t.g, at, seen, w)) continue;
    if (!block_part(seen, at, &j0, &j1)) continue;
    cell_compute(c, t, j0, j1, w);
    int end = (int)min64(j1, seen.hi - at);
    for (int r = 0; r < t.rows; r++) {
      float *out = view_at(v, sizeof(float), t.b, row_head(p, t.g, t.row + r),
                           (t.row + r) / p->group);
      for (int j = j0; j < end; j++)
        out[(at + j) * v->stride[3]] += factor * w->ds[r * BLOCK + j];
    }
  }
}

/* Owned by tiles of rows; batch and heads come in order, since a broadcast
 * bias sums over them. A bias that is broadcast over queries has one owner, and
 * so has one broadcast over heads where tiles cut the heads of a query apart. */
typedef struct {
  call c;
  cell_shared s;
  attend_view to;
  int64_t tiles; /* of an item: all, if the bias has one owner */
} dense_sum;

static void dense_item(const void *args, int64_t item, int worker) {
  const dense_sum *x = args;
  const attend_plan *p = x->c.plan;
  cell_scratch w;
  cell_scratch_cut(p, plan_thread_arena(p, worker), &w);
  for (int64_t i = item * x->tiles; i < (item + 1) * x->tiles; i++)
    for (int64_t stack = 0; stack < stacks(p); stack++)
      dense_tile(&x->c, cell_tile(&x->c, stack, i), &x->s, &x->to, &w);
}

static void dense_dbias(const call *c, const cell_shared *s) {
  attend_plan *p = c->plan;
  attend_view v = dense_view(c);
  bool alone = v.stride[2] && (v.stride[1] || ROWS % p->group == 0);
  dense_sum x = {*c, *s, v, alone ? 1 : row_tiles(p)};
  dense_clear(c);
  STREAM_ADD(plan_stream(p), alone ? row_tiles(p) : 1, dense_item, x);
}

void bias_finish(const call *c, const cell_shared *s) {
  if (bias_entries(c->plan)) sum_dbias(c, s);
  if (c->plan->desc.bias.kind == ATTEND_DENSE) dense_dbias(c, s);
}
