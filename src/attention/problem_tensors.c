/* The tensors of a problem, in one block and filled from Philox: for `attend verify`,
 * `attend bench` and tests.
 *
 * An element's value depends on the seed, the tensor and its index [b, h, i, x]
 * alone: the same problem in another layout holds the same numbers, and in
 * another dtype the same numbers rounded.
 */
#include <string.h>

#include "attention/desc.h"
#include "attention/problem.h"

typedef enum { /* streams of random numbers; the order is part of the values */
               STREAM_Q = 1,
               STREAM_K,
               STREAM_V,
               STREAM_D_O,
               STREAM_TABLE,
               STREAM_DENSE
} stream;

/* The pieces in the order in which they are cut. */
typedef struct {
  int32_t *lengths;
  uint8_t *key_mask;
  float *slopes, *table, *dense;
} extras;

static size_t extent(int a, int b, int c, int d) {
  return SIZE_PRODUCT((size_t)a, (size_t)b, (size_t)c, (size_t)d);
}

static attend_view cut_view(arena *a, const attend_problem *p, int heads, int length, int width) {
  size_t count = extent(p->desc.batch, heads, length, width);
  void *data = arena_cut(a, size_times(count, attend_dtype_size(p->desc.dtype)));
  return p->bthd ? attend_bthd(data, heads, length, width) : attend_bhtd(data);
}

/* Gradients exist for a backward problem only. */
static void cut_tensors(arena *a, const attend_problem *p, attend_tensors *t) {
  const attend_desc *d = &p->desc;
  t->q = cut_view(a, p, d->heads, d->q_len, d->dim);
  t->k = cut_view(a, p, d->kv_heads, d->kv_len, d->dim);
  t->v = cut_view(a, p, d->kv_heads, d->kv_len, d->dim_v);
  t->o = cut_view(a, p, d->heads, d->q_len, d->dim_v);
  size_t rows = extent(d->batch, d->heads, d->q_len, 1);
  t->lse = arena_cut(a, size_times(rows, sizeof(float)));
  if (p->op != ATTEND_OP_BACKWARD) return;
  t->d_o = cut_view(a, p, d->heads, d->q_len, d->dim_v);
  t->dq = cut_view(a, p, d->heads, d->q_len, d->dim);
  t->dk = cut_view(a, p, d->kv_heads, d->kv_len, d->dim);
  t->dv = cut_view(a, p, d->kv_heads, d->kv_len, d->dim_v);
  t->dbias_count = desc_bias_count(d);
  if (t->dbias_count) t->dbias = arena_cut(a, size_times(t->dbias_count, sizeof(float)));
}

static void cut_extras(arena *a, const attend_problem *p, extras *x) {
  const attend_desc *d = &p->desc;
  size_t keys = extent(d->batch, d->kv_len, 1, 1);
  size_t bias = size_times(desc_bias_count(d), sizeof(float));
  *x = (extras){0};
  if (p->pad == ATTEND_PAD_LENGTHS)
    x->lengths = arena_cut(a, size_times((size_t)d->batch, sizeof(int32_t)));
  if (p->pad == ATTEND_PAD_LEFT || p->pad == ATTEND_PAD_RIGHT) x->key_mask = arena_cut(a, keys);
  if (d->bias.kind == ATTEND_ALIBI) x->slopes = arena_cut(a, bias);
  if (d->bias.kind == ATTEND_BUCKETS) x->table = arena_cut(a, bias);
  if (d->bias.kind == ATTEND_DENSE) x->dense = arena_cut(a, bias);
}

/* ---- filling --------------------------------------------------------------------- */

enum { PIECE = 256 };

static void fill_row(attend_random r, uint64_t first, attend_dtype dtype, int width,
                     unsigned char *row) {
  float piece[PIECE];
  for (int x = 0; x < width; x += PIECE) {
    size_t n = (size_t)min64(PIECE, width - x);
    attend_random_normal(r, first + (uint64_t)x, n, piece);
    attend_convert_from_f32(dtype, piece, n, row + (size_t)x * attend_dtype_size(dtype));
  }
}

static void fill_view(attend_random r, const attend_desc *d, attend_view view, int heads,
                      int length, int width) {
  view = view_complete(view, heads, length, width);
  uint64_t first = 0;
  for (int b = 0; b < d->batch; b++)
    for (int h = 0; h < heads; h++)
      for (int i = 0; i < length; i++) {
        fill_row(r, first, d->dtype, width, view_at(&view, attend_dtype_size(d->dtype), b, h, i));
        first += (uint64_t)width;
      }
}

static void fill_tensors(uint64_t seed, const attend_desc *d, const attend_tensors *t) {
  fill_view((attend_random){seed, STREAM_Q}, d, t->q, d->heads, d->q_len, d->dim);
  fill_view((attend_random){seed, STREAM_K}, d, t->k, d->kv_heads, d->kv_len, d->dim);
  fill_view((attend_random){seed, STREAM_V}, d, t->v, d->kv_heads, d->kv_len, d->dim_v);
  if (t->d_o.data)
    fill_view((attend_random){seed, STREAM_D_O}, d, t->d_o, d->heads, d->q_len, d->dim_v);
}

/* Some keys, all, none, and again: batch 1 has padding, 2 has a full entry
 * beside it, 3 a dead one. */
static void fill_lengths(const attend_desc *d, int32_t *lengths) {
  for (int b = 0; b < d->batch; b++) {
    int64_t some = min64(d->kv_len, (int64_t)d->kv_len * 5 / 8 + 1 + b / 3);
    lengths[b] = b % 3 == 0 ? (int32_t)some : b % 3 == 1 ? d->kv_len : 0;
  }
}

/* Each entry pads one key more than the one before, past a third of them, and
 * keeps at least one. */
static void fill_key_mask(const attend_problem *p, uint8_t *mask) {
  int64_t keys = p->desc.kv_len;
  for (int64_t b = 0; b < p->desc.batch; b++)
    for (int64_t j = 0; j < keys; j++) {
      int64_t padded = (keys / 3 + 1 + b) % keys;
      bool left = p->pad == ATTEND_PAD_LEFT;
      mask[b * keys + j] = left ? j >= padded : j < keys - padded;
    }
}

static void fill_extras(uint64_t seed, const attend_problem *p, const extras *x) {
  size_t count = desc_bias_count(&p->desc);
  if (x->lengths) fill_lengths(&p->desc, x->lengths);
  if (x->key_mask) fill_key_mask(p, x->key_mask);
  if (x->slopes) attend_alibi_slopes(p->desc.heads, x->slopes);
  if (x->dense) attend_random_normal((attend_random){seed, STREAM_DENSE}, 0, count, x->dense);
  if (!x->table) return;
  attend_random_normal((attend_random){seed, STREAM_TABLE}, 0, count, x->table);
  for (size_t n = 0; n < count; n++) x->table[n] *= 0.5f;
}

/* ---- the public calls ------------------------------------------------------------ */

/* What the block adds up to must fit too; each piece alone does already. */
static attend_status check_total(attend_context *ctx, const attend_desc *d) {
  size_t bias = desc_bias_count(d);
  double queries = 5.0 * d->batch * d->heads * d->q_len;
  double keys = 5.0 * d->batch * d->kv_heads * d->kv_len;
  double width = (double)d->dim + d->dim_v + 1;
  double bytes = 4 * ((queries + keys) * width + 2 * (double)bias);
  ATTEND_CHECK(ctx, bytes < 0.5 * (double)PTRDIFF_MAX,
               "the tensors of the problem take about %.3g bytes: choose smaller sizes", bytes);
  return ATTEND_OK;
}

static attend_status make_tensors(attend_context *ctx, attend_problem *p, uint64_t seed,
                                  attend_tensors *tensors) {
  extras x;
  ATTEND_CHECK(ctx, p->op != ATTEND_OP_SGEMM,
               "sgemm has no queries, keys and values: make its three matrices from m, n and k");
  p->desc.size = sizeof p->desc;
  ATTEND_TRY(desc_complete(ctx, &p->desc));
  ATTEND_TRY(check_total(ctx, &p->desc));
  arena a = {0};
  cut_tensors(&a, p, tensors);
  cut_extras(&a, p, &x);
  tensors->bytes = a.used;
  ATTEND_TRY(ctx_alloc_zeroed(ctx, a.used, "the tensors of a problem", &tensors->block));
  a = (arena){tensors->block, 0};
  cut_tensors(&a, p, tensors);
  cut_extras(&a, p, &x);
  fill_tensors(seed, &p->desc, tensors);
  fill_extras(seed, p, &x);
  tensors->desc = p->desc;
  tensors->desc.mask.lengths = x.lengths;
  tensors->desc.mask.key_mask = x.key_mask;
  tensors->desc.bias.slopes = x.slopes;
  tensors->desc.bias.table = x.table;
  tensors->desc.bias.dense = attend_bhtd(x.dense);
  return ATTEND_OK;
}

attend_status attend_problem_tensors(attend_context *ctx, const attend_problem *problem,
                                     uint64_t seed, attend_tensors *tensors) {
  attend_problem p;
  attend_tensors t = {0};
  ATTEND_TRY(OPTIONS_READ(ctx, attend_tensors, tensors, &t));
  t = (attend_tensors){ATTEND_INIT(attend_tensors)};
  options_write(&t, sizeof t, tensors);
  ATTEND_TRY(OPTIONS_READ(ctx, attend_problem, problem, &p));
  attend_status status = make_tensors(ctx, &p, seed, &t);
  if (!status) options_write(&t, sizeof t, tensors);
  if (!status) tensors->desc.size = desc_room(tensors->size, offsetof(attend_tensors, desc));
  return status;
}
void attend_tensors_free(attend_context *ctx, attend_tensors *tensors) {
  if (!tensors) return;
  ctx_free(ctx, tensors->block);
  tensors->block = NULL;
}
