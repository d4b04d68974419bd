/* Embedding lookup and its gradient. For the gradient, rows are sorted by id: a stable radix sort,
 * eight bits at a time, so that a block sums the rows of an id in order.
 */
#include "device/cuda/rows.cuh"

__device__ static int64_t id_of(const int32_t *ids, int offset, size_t r) {
  if (!ids) return offset;
  return ids[r] < 0 ? -1 : (int64_t)ids[r] + offset;
}

template <int N>
__global__ void embed_kernel(op_embed o) {
  EACH_PIECE(N, r, j, o.rows, o.width) {
    const int64_t id = id_of(o.ids, o.offset, r);
    const bool known = id >= 0 && id < o.table.entries;
    float x[N], y[N];
    if (!known && o.add) continue;
    if (known) get(o.table.data, o.table.dtype, (size_t)id * o.width + j, x);
    if (o.add) get(o.y, o.y_type, r * o.ldy + j, y);
#pragma unroll
    for (int i = 0; i < N; i++) x[i] = known ? o.factor * x[i] + (o.add ? y[i] : 0.f) : 0.f;
    put(o.y, o.y_type, r * o.ldy + j, x);
  }
}

/* ---- sorting ----------------------------------------------------------------------------- */

enum { TILE = EMBED_SORT_TILE, DIGITS = EMBED_SORT_DIGITS, TILE_WARPS = TILE / 32 };

/* Keys are ids, or `entries` for rows without one. */
__global__ void keys_kernel(op_embed_backward o, uint32_t *key, uint32_t *row) {
  EACH(r, o.rows) {
    const int64_t id = id_of(o.ids, o.offset, r);
    key[r] = id >= 0 && id < o.entries ? (uint32_t)id : (uint32_t)o.entries;
    row[r] = (uint32_t)r;
  }
}

/* count[digit][tile] */
__global__ void __launch_bounds__(TILE)
    count_kernel(int rows, int shift, const uint32_t *key, int *count) {
  __shared__ int sum[DIGITS];
  const int i = blockIdx.x * TILE + threadIdx.x;
  for (int d = threadIdx.x; d < DIGITS; d += TILE) sum[d] = 0;
  __syncthreads();
  if (i < rows) atomicAdd(&sum[key[i] >> shift & (DIGITS - 1)], 1); /* of integers: any order */
  __syncthreads();
  for (int d = threadIdx.x; d < DIGITS; d += TILE) count[d * gridDim.x + blockIdx.x] = sum[d];
}

/* Each count becomes the sum of those before it; one block. */
__global__ void __launch_bounds__(1024) scan_kernel(int n, int *count) {
  __shared__ int total[1024];
  const int each = (n + 1023) / 1024, begin = min(n, (int)threadIdx.x * each);
  const int end = min(n, begin + each);
  int sum = 0;
  for (int i = begin; i < end; i++) sum += count[i];
  total[threadIdx.x] = sum;
  for (int step = 1; step < 1024; step *= 2) {
    __syncthreads();
    const int before = (int)threadIdx.x >= step ? total[threadIdx.x - step] : 0;
    __syncthreads();
    total[threadIdx.x] += before;
  }
  sum = total[threadIdx.x] - sum;
  for (int i = begin; i < end; i++) {
    const int here = count[i];
    count[i] = sum;
    sum += here;
  }
}

__global__ void __launch_bounds__(TILE)
    place_kernel(int rows, int shift, const int *before, const uint32_t *key, const uint32_t *row,
                 uint32_t *to_key, uint32_t *to_row) {
  __shared__ int sum[TILE_WARPS][DIGITS]; /* of each warp, then of those before it */
  const int i = blockIdx.x * TILE + threadIdx.x, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  for (int k = threadIdx.x; k < TILE_WARPS * DIGITS; k += TILE) sum[k / DIGITS][k % DIGITS] = 0;
  __syncthreads();
  const uint32_t k = i < rows ? key[i] : 0;
  const int digit = i < rows ? (int)(k >> shift & (DIGITS - 1)) : DIGITS;
  const uint32_t same = __match_any_sync(~0u, digit);
  const int rank = __popc(same & ((1u << lane) - 1));
  if (rank == 0 && i < rows) sum[warp][digit] = __popc(same);
  __syncthreads();
  for (int d = threadIdx.x; d < DIGITS; d += TILE)
    for (int w = 0, all = before[d * gridDim.x + blockIdx.x]; w < TILE_WARPS; w++) {
      const int here = sum[w][d];
      sum[w][d] = all;
      all += here;
    }
  __syncthreads();
  if (i >= rows) return;
  const int to = sum[warp][digit] + rank;
  to_key[to] = k;
  to_row[to] = row[i];
}

/* ---- sums -------------------------------------------------------------------------------- */

struct sorted_rows {
  const uint32_t *key, *row; /* [rows] */
  float *sums;               /* [stretches][2][width]: of the first and of the last id */
};

/* A block has a stretch of sorted rows. An id's sum goes to the table if the id is in no other
 * stretch; else it is kept: as the first's if the id comes from the stretch before. */
template <int N>
__global__ void sum_stretch_kernel(op_embed_backward o, sorted_rows t) {
  enum { AT_ONCE = 8 };
  const int begin = blockIdx.x * EMBED_STRETCH, end = min(begin + EMBED_STRETCH, o.rows);
  for (int i = begin, next; i < end && t.key[i] < (uint32_t)o.entries; i = next) {
    const uint32_t id = t.key[i];
    for (next = i + 1; next < end && t.key[next] == id;) next++;
    const bool came = i == begin && i > 0 && t.key[i - 1] == id;
    const bool goes = next == end && end < o.rows && t.key[end] == id;
    float *to = came || goes ? t.sums + (2 * (size_t)blockIdx.x + !came) * o.width
                             : o.dtable + (size_t)id * o.width;
    for (int j = N * threadIdx.x; j < o.width; j += N * blockDim.x) {
      float sum[N] = {}, dy[AT_ONCE][N];
      if (!came && !goes) get(to, ATTEND_F32, j, sum);
      for (int r = i; r < next; r += AT_ONCE) {
#pragma unroll
        for (int k = 0; k < AT_ONCE; k++)
          if (r + k < next) get(o.dy, o.dy_type, (size_t)t.row[r + k] * o.lddy + j, dy[k]);
#pragma unroll
        for (int k = 0; k < AT_ONCE; k++)
          for (int e = 0; e < N && r + k < next; e++) sum[e] = fmaf(o.factor, dy[k][e], sum[e]);
      }
      put(to, ATTEND_F32, j, sum);
    }
  }
}

/* The block of the stretch where a longer id begins joins its sums in order. */
template <int N>
__global__ void join_stretches_kernel(op_embed_backward o, sorted_rows t) {
  enum { AT_ONCE = 8 };
  const int end = (blockIdx.x + 1) * EMBED_STRETCH, stretches = gridDim.x;
  if (end >= o.rows) return;
  const uint32_t id = t.key[end];
  const bool begins =
      t.key[end - EMBED_STRETCH] != id || blockIdx.x == 0 || t.key[end - EMBED_STRETCH - 1] != id;
  if (id == (uint32_t)o.entries || t.key[end - 1] != id || !begins) return;
  for (int j = N * threadIdx.x; j < o.width; j += N * blockDim.x) {
    float sum[N], part[AT_ONCE][N];
    bool more[AT_ONCE] = {true};
    get(t.sums, ATTEND_F32, (2 * (size_t)blockIdx.x + 1) * o.width + j, part[0]);
    get(o.dtable, ATTEND_F32, (size_t)id * o.width + j, sum);
    for (int e = 0; e < N; e++) sum[e] += part[0][e];
    for (int s = blockIdx.x + 1; more[0]; s += AT_ONCE) {
#pragma unroll
      for (int k = 0; k < AT_ONCE; k++) {
        more[k] = s + k < stretches && t.key[(s + k) * EMBED_STRETCH] == id;
        if (more[k]) get(t.sums, ATTEND_F32, 2 * (size_t)(s + k) * o.width + j, part[k]);
      }
#pragma unroll
      for (int k = 0; k < AT_ONCE; k++)
        for (int e = 0; e < N && more[k]; e++) sum[e] += part[k][e];
    }
    put(o.dtable, ATTEND_F32, (size_t)id * o.width + j, sum);
  }
}

/* ---- launching --------------------------------------------------------------------------- */

void cuda_embed(cuda_gpu *gpu, const op_embed *o) {
  const bool whole = o->table.dtype != ATTEND_F16 && on_pieces(o->y, o->ldy, o->y_type) &&
                     on_pieces(o->table.data, o->width, o->table.dtype);
  LAUNCH_PIECES(gpu, embed, whole, o->rows, o->width, *o);
}

template <int N>
static void sum_rows(cuda_gpu *gpu, const op_embed_backward *o, const sorted_rows &t) {
  const int stretches = (o->rows + EMBED_STRETCH - 1) / EMBED_STRETCH, threads = 128;
  LAUNCH(gpu, sum_stretch_kernel<N>, stretches, threads, 0, *o, t);
  LAUNCH(gpu, join_stretches_kernel<N>, stretches, threads, 0, *o, t);
}

void cuda_embed_backward(cuda_gpu *gpu, const op_embed_backward *o) {
  const int rows = o->rows, wide = (rows + 3) / 4 * 4, tiles = (rows + TILE - 1) / TILE;
  uint32_t *work = (uint32_t *)o->work, *key[2] = {work, work + wide};
  uint32_t *row[2] = {work + 2 * wide, work + 3 * wide};
  int *count = (int *)(work + 4 * wide), now = 0;
  float *sums = (float *)work + embed_sort_numbers((size_t)rows);
  if (!rows) return;
  LAUNCH(gpu, keys_kernel, blocks_for(rows, THREADS), THREADS, 0, *o, key[0], row[0]);
  for (int shift = 0; shift < 31 && o->entries >> shift; shift += 8, now = !now) {
    LAUNCH(gpu, count_kernel, tiles, TILE, 0, rows, shift, key[now], count);
    LAUNCH(gpu, scan_kernel, 1, 1024, 0, DIGITS * tiles, count);
    LAUNCH(gpu, place_kernel, tiles, TILE, 0, rows, shift, count, key[now], row[now], key[!now],
           row[!now]);
  }
  const sorted_rows t = {key[now], row[now], sums};
  if (o->width % PIECE == 0 && on_pieces(o->dy, o->lddy, o->dy_type) &&
      on_pieces(o->dtable, o->width, ATTEND_F32) && on_pieces(sums, o->width, ATTEND_F32))
    sum_rows<PIECE>(gpu, o, t);
  else
    sum_rows<1>(gpu, o, t);
}
