/* New keys and values into the pages of a state. */
#include "device/cuda/gpu.cuh"

#include <algorithm>
#include <string.h>

namespace {

struct sequence_rows {
  int64_t before; /* slot of the first row, counted over pages */
  int rows;
};

struct strided {
  const void *data;
  int64_t stride[4];
};

struct append_call {
  strided from[2]; /* keys, values: [B,G,n,width] */
  int width[2];
  int64_t part[2];               /* elements of a head's keys, values in a page */
  int pieces[2];                 /* of 16 bytes in a row of a page */
  int n, kv_heads, first, batch; /* sequences [first, first + batch) */
  void *const *page;
  int64_t stride;
  const sequence_rows *sequence; /* [batch] */
  const uint8_t *key_mask;       /* [batch][n] or NULL */
};

/* A row of keys or values, one piece of 16 bytes a thread; rows that are not there are zeros. */
template <typename T>
__device__ inline uint4 piece_of(const strided &x, int b, int g, int i, int column, int width) {
  constexpr int WIDE = 16 / sizeof(T);
  const T *from = (const T *)x.data + b * x.stride[0] + g * x.stride[1] + i * x.stride[2] +
                  column * x.stride[3];
  union {
    uint4 all;
    T one[WIDE];
  } y = {};
  if (x.stride[3] == 1 && column + WIDE <= width && (uintptr_t)from % 16 == 0) {
    y.all = *(const uint4 *)from;
  } else {
#pragma unroll
    for (int k = 0; k < WIDE; k++)
      if (column + k < width) y.one[k] = from[k * x.stride[3]];
  }
  return y.all;
}

/* A page whose first key is appended is written whole: what follows the last key becomes zeros. */
template <typename T>
__global__ void append_rows(const append_call c) {
  constexpr int WIDE = 16 / sizeof(T);
  const int pieces = c.pieces[0] + c.pieces[1], each = c.kv_heads * pieces;
  const int64_t all = (int64_t)c.batch * (c.n + ATTEND_PAGE - 1) * each;
  for (int64_t at = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; at < all;
       at += (int64_t)gridDim.x * blockDim.x) {
    const int in = (int)(at % each), g = in / pieces;
    const int i = (int)(at / each % (c.n + ATTEND_PAGE - 1));
    const int b = (int)(at / each / (c.n + ATTEND_PAGE - 1));
    const sequence_rows s = c.sequence[b];
    const int64_t key = s.before + i, end = s.before + s.rows;
    if (!s.rows || key >= (end + ATTEND_PAGE - 1) / ATTEND_PAGE * ATTEND_PAGE) continue;
    if (i >= s.rows && key / ATTEND_PAGE * ATTEND_PAGE < s.before) continue;
    const bool real = i < s.rows && (!c.key_mask || c.key_mask[(int64_t)b * c.n + i]);
    const int kind = in % pieces >= c.pieces[0], piece = in % pieces - kind * c.pieces[0];
    const int slot = (int)(key % ATTEND_PAGE), column = piece * WIDE;
    T *page = (T *)c.page[(c.first + b) * c.stride + key / ATTEND_PAGE];
    T *to = page + g * (c.part[0] + c.part[1]) + kind * c.part[0];
    uint4 x = {};
    if (real) x = piece_of<T>(c.from[kind], c.first + b, g, i, column, c.width[kind]);
    *(uint4 *)(to + cuda_page_at(sizeof(T), c.width[kind], slot, column)) = x;
    if (in == 0) ((uint8_t *)(page + c.kv_heads * (c.part[0] + c.part[1])))[slot] = real;
  }
}

strided strided_of(const attend_view &x, int heads, int rows, int width) {
  strided y = {x.data, {x.stride[0], x.stride[1], x.stride[2], x.stride[3]}};
  if (x.stride[0] || x.stride[1] || x.stride[2] || x.stride[3]) return y;
  return {x.data, {(int64_t)heads * rows * width, (int64_t)rows * width, width, 1}};
}

/* Sequences [first, first + batch): their numbers fit the staging memory. */
void append_batch(cuda_gpu *gpu, const cuda_append *a, append_call c, bool wide) {
  enum { AT_ONCE = 1024 };
  sequence_rows sequence[AT_ONCE];
  const attend_mask &mask = a->desc->mask;
  for (int b = 0; b < c.batch; b++)
    sequence[b] = {a->before[c.first + b], mask.lengths ? mask.lengths[c.first + b] : c.n};
  c.sequence = (const sequence_rows *)gpu_stage(gpu, sequence, sizeof *sequence * (size_t)c.batch);
  if (mask.key_mask)
    c.key_mask = (const uint8_t *)gpu_stage(gpu, mask.key_mask + (int64_t)c.first * c.n,
                                            (size_t)c.batch * (size_t)c.n);
  const size_t all = (size_t)c.batch * (size_t)(c.n + ATTEND_PAGE - 1) * (size_t)c.kv_heads *
                     (size_t)(c.pieces[0] + c.pieces[1]);
  if (wide)
    LAUNCH(gpu, (append_rows<float>), blocks_for(all, 256), 256, 0, c);
  else
    LAUNCH(gpu, (append_rows<uint16_t>), blocks_for(all, 256), 256, 0, c);
}

}  // namespace

void cuda_pages_append(cuda_gpu *gpu, const cuda_append *a) {
  const attend_desc *d = a->desc;
  const size_t element = d->dtype == ATTEND_F32 ? 4 : 2;
  append_call c = {};
  if (a->n <= 0) return;
  c.from[0] = strided_of(a->k, d->kv_heads, a->n, d->dim);
  c.from[1] = strided_of(a->v, d->kv_heads, a->n, d->dim_v);
  c.width[0] = d->dim, c.width[1] = d->dim_v;
  for (int i = 0; i < 2; i++) {
    c.part[i] = (int64_t)(cuda_page_part(element, c.width[i]) / element);
    c.pieces[i] = (int)(cuda_page_width(element, c.width[i]) * element / 16);
  }
  c.n = a->n, c.kv_heads = d->kv_heads;
  c.page = a->pages.page, c.stride = a->pages.stride;
  const int most = d->mask.key_mask ? std::max(1, std::min(1024, (1 << 20) / a->n)) : 1024;
  for (c.first = 0; c.first < d->batch; c.first += c.batch) {
    c.batch = std::min(most, d->batch - c.first);
    append_batch(gpu, a, c, element == 4);
  }
}
