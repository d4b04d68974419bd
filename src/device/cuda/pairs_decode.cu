/* Few queries over many keys, pair by pair: bound by the bytes of keys and values.
 *
 * A CTA has all rows of a stack, at most ROWS, and some joins of panels in a row; the keys and the
 * values of panels come through a ring of STAGES parts of shared memory by asynchronous copies, as
 * they are stored. The sums of each join go to the workspace, where pairs_join_kernel adds them in
 * order. What is computed of a row, and in which order, is that of pairs_forward_kernel: the same
 * bits.
 */
#include "device/cuda/pairs.cuh"

#include <algorithm>
#include <limits.h>

enum { STAGES = 4 };

/* Element i of key `slot` of a part: pieces of 16 bytes permuted by the key, as in pages. */
template <typename E>
__host__ __device__ static inline int part_width(int width) {
  const int unit = sizeof(E) == 4 ? 32 : 64;
  return (width + unit - 1) / unit * unit;
}
template <typename E>
__device__ static inline int part_at(int width, int slot, int i) {
  if (sizeof(E) == 2) return cuda_page_at(2, width, slot, i);
  return slot * part_width<E>(width) + (((i / 4) ^ (slot % 8)) * 4 + i % 4);
}

/* 16 bytes, or zeros. */
__device__ static inline void copy_piece(void *to, const void *from, bool there) {
  const uint32_t at = (uint32_t)__cvta_generic_to_shared(to);
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(at), "l"(from),
               "r"(there ? 16 : 0));
}

template <typename E>
__device__ static inline void load_part(const pairs_call &c, const pairs_view &v, size_t part,
                                        int b, int g, int panel, int lo, int hi, int width, E *to) {
  constexpr int N = 16 / sizeof(E);
  const int pieces = (width + N - 1) / N, first = panel * PANEL;
  const uint8_t *real = reals_of(c, b, panel);
  const E *base;
  if (c.pages)
    base = (const E *)((const char *)c.pages[b * c.pages_stride + panel] +
                       g * (c.part_k + c.part_v) + part);
  else
    base = (const E *)v.data + b * v.stride[0] + g * v.stride[1] + first * v.stride[2];
  for (int u = threadIdx.x; u < PANEL * pieces; u += THREADS) {
    const int j = u / pieces, i = u % pieces * N;
    const bool there = first + j >= lo && first + j < hi && !(real && !real[j]);
    const E *from =
        c.pages ? base + cuda_page_at(sizeof(E), width, j, i) : base + j * v.stride[2] + i;
    copy_piece(to + part_at<E>(width, j, i), there ? from : base, there);
  }
}

template <typename E>
__device__ static inline void widen_piece(const E *p, float (&x)[16 / sizeof(E)]) {
  *(float4 *)x = widen4(p);
  if (sizeof(E) == 2) *(float4 *)(x + 4) = widen4(p + 4);
}

/* The scores of rows first, first + 4, .. on one key. */
template <typename E, int N>
__device__ static inline void score_key(const pairs_call &c, const float *q, int ldq, const E *k,
                                        int slot, int first, int rows, float (&s)[N]) {
  constexpr int P = 16 / sizeof(E);
#pragma unroll
  for (int r = 0; r < N; r++) s[r] = 0;
#pragma unroll 4
  for (int i = 0; i < c.dim; i += P) {
    float y[P];
    widen_piece<E>(k + part_at<E>(c.dim, slot, i), y);
#pragma unroll
    for (int e = 0; e < P; e++)
      if (i + e >= c.dim)
        y[e] = 0;
      else if (c.form == ELU)
        y[e] = y[e] > 0 ? y[e] + 1 : expf(y[e]);
#pragma unroll
    for (int r = 0; r < N; r++) {
      if (first + 4 * r >= rows) break;
      const float *x = q + (first + 4 * r) * ldq + i;
      float z[P];
#pragma unroll
      for (int e = 0; e < P; e += 4) *(float4 *)(z + e) = *(const float4 *)(x + e);
#pragma unroll
      for (int e = 0; e < P; e++)
        if (c.form == GAUSSIAN) {
          const float d = z[e] - y[e];
          s[r] = fmaf(d, d, s[r]);
        } else {
          s[r] = fmaf(z[e], y[e], s[r]);
        }
    }
  }
}

template <typename E, int ROWS>
__global__ void __launch_bounds__(THREADS)
    pairs_decode_kernel(const __grid_constant__ pairs_call c) {
  extern __shared__ float4 shared[];
  constexpr int LDP = PANEL + 4, MINE = ROWS < 16 ? 1 : ROWS / 16;
  const int rows = c.n * c.group, ldq = (c.dim + 63) / 64 * 64 + 4;
  const int width = max(part_width<E>(c.dim), part_width<E>(c.dim_v));
  E *ring = (E *)shared;
  float *q = (float *)(ring + STAGES * PANEL * width), *s = q + ROWS * ldq,
        *factor = s + ROWS * LDP;
  pairs_row *row = (pairs_row *)(factor + ROWS);
  const int stacks = c.batch * c.kv_heads, stack = blockIdx.x % stacks, share = blockIdx.x / stacks;
  pairs_tile t = {stack / c.kv_heads, stack % c.kv_heads, 0, c.group, 0, rows, NULL};
  t.head = t.g * c.group;
  const int first_join = (int)((int64_t)c.splits * share / c.tiles);
  const int end_join = (int)((int64_t)c.splits * (share + 1) / c.tiles);

  for (int r = threadIdx.x; r < ROWS; r += THREADS) row[r] = row_of(c, t, r);
  __syncthreads();
  int lo = INT_MAX, hi = 0;
  for (int r = 0; r < rows; r++)
    if (row[r].lo < row[r].hi) lo = min(lo, row[r].lo), hi = max(hi, row[r].hi);
  for (int i = 0; i < c.dim; i += 64)
    load_queries<64>(c, c.q, t, row, rows, i, c.dim, c.form == ELU, q + i, ldq);

  /* Steps: the keys, then the values of each panel. */
  const int panel0 = max(lo / PANEL, first_join * JOIN);
  const int panel1 = lo < hi ? min((hi + PANEL - 1) / PANEL, end_join * JOIN) : panel0;
  const int steps = max(0, 2 * (panel1 - panel0));
  auto load = [&](int step) {
    E *to = ring + step % STAGES * PANEL * width;
    if (step < steps && step % 2 == 0)
      load_part<E>(c, c.k, 0, t.b, t.g, panel0 + step / 2, lo, hi, c.dim, to);
    else if (step < steps)
      load_part<E>(c, c.v, c.part_k, t.b, t.g, panel0 + step / 2, lo, hi, c.dim_v, to);
    asm volatile("cp.async.commit_group;");
  };

  /* Scores: a thread has a key and every fourth row. Weights: 16 threads have a row. Values: a
   * thread has 4 columns of some rows. */
  const int slot = threadIdx.x % PANEL, quarter = threadIdx.x / PANEL;
  const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
  const int units = c.dim_v <= 64 ? 16 : 32, column = threadIdx.x % units * 4;
  const int group = threadIdx.x / units, groups = THREADS / units;
  row_sums sums[MINE];
  float o[ROWS / 8][4] = {};
#pragma unroll
  for (int i = 0; i < MINE; i++) sums[i] = no_sums(c);

  auto end = [&](int join) { /* its sums are complete */
                             const int64_t to = (int64_t)stack * rows * c.splits + join;
#pragma unroll
                             for (int i = 0; i < MINE; i++) {
                               if (tx == 0 && ty + 16 * i < rows)
                                 *(row_sums *)(c.part + 3 * (to + (int64_t)(ty + 16 * i) *
                                                                      c.splits)) = sums[i];
                               sums[i] = no_sums(c);
                             }
#pragma unroll
                             for (int i = 0; i < ROWS / 8; i++) {
                               const int r = group + groups * i;
                               float *line = c.part_o + (to + (int64_t)r * c.splits) * c.dim_v;
#pragma unroll
                               for (int e = 0; e < 4; e++) {
                                 if (r < rows && column + e < c.dim_v) line[column + e] = o[i][e];
                                 o[i][e] = 0;
                               }
                             }
  };

  for (int join = first_join; join < min(end_join, panel0 / JOIN); join++) end(join);
  for (int i = 0; i < STAGES - 1; i++) load(i);
  for (int panel = panel0; panel < panel1; panel++) {
    const int step = 2 * (panel - panel0), first = panel * PANEL;
    const E *k = ring + step % STAGES * PANEL * width;
    const E *v = ring + (step + 1) % STAGES * PANEL * width;
    const uint8_t *real = reals_of(c, t.b, panel);

    asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2));
    __syncthreads();
    load(step + STAGES - 1);
    if (quarter < rows) {
      float x[ROWS / 4];
      score_key<E>(c, q, ldq, k, slot, quarter, rows, x);
#pragma unroll
      for (int i = 0; i < ROWS / 4; i++) {
        const int r = quarter + 4 * i;
        if (r >= rows) break;
        const bool seen = sees(row[r], first + slot, real);
        s[r * LDP + slot] = seen             ? score_of(c, row[r], first + slot, x[i])
                            : c.form == POLY ? 0.f
                                             : -INFINITY;
      }
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < MINE; i++) {
      const int r = ty + 16 * i;
      if (r - ty % 2 >= rows) break; /* with the other row of the warp */
      float x[4];
#pragma unroll
      for (int j = 0; j < 4; j++) x[j] = s[r * LDP + tx + 16 * j];
      const float f = weigh_row(c, first + tx, x, sums[i]);
      __syncwarp();
      if (r < rows) {
#pragma unroll
        for (int j = 0; j < 4; j++) s[r * LDP + tx + 16 * j] = x[j];
        if (tx == 0) factor[r] = f;
      }
    }

    asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2));
    __syncthreads();
    load(step + STAGES);
    if (group < rows) {
#pragma unroll
      for (int i = 0; i < ROWS / 8; i++) {
        const int r = group + groups * i;
        if (r >= rows) break;
        const float f = factor[r];
#pragma unroll
        for (int e = 0; e < 4; e++) o[i][e] = c.form == HARD && f == 0 ? 0.f : o[i][e] * f;
      }
#pragma unroll 2
      for (int j = 0; j < PANEL; j += 4) {
        float4 y[4];
#pragma unroll
        for (int e = 0; e < 4; e++) y[e] = widen4(v + part_at<E>(c.dim_v, j + e, column));
#pragma unroll
        for (int i = 0; i < ROWS / 8; i++) {
          const int r = group + groups * i;
          if (r >= rows) break;
          const float4 w = *(const float4 *)(s + r * LDP + j);
          const float p[4] = {w.x, w.y, w.z, w.w};
#pragma unroll
          for (int e = 0; e < 4; e++) {
            if (p[e] == 0) continue; /* what a row does not see may not be finite */
            o[i][0] = fmaf(p[e], y[e].x, o[i][0]);
            o[i][1] = fmaf(p[e], y[e].y, o[i][1]);
            o[i][2] = fmaf(p[e], y[e].z, o[i][2]);
            o[i][3] = fmaf(p[e], y[e].w, o[i][3]);
          }
        }
      }
    }
    if (panel % JOIN == JOIN - 1 || panel + 1 == panel1) end(panel / JOIN);
  }
  for (int join = max(first_join, (panel1 + JOIN - 1) / JOIN); join < end_join; join++) end(join);
}

/* ---- launching ----------------------------------------------------------------------- */

template <typename E, int ROWS>
static size_t shared_of(const pairs_call &c) {
  const int width = std::max(part_width<E>(c.dim), part_width<E>(c.dim_v));
  return sizeof(E) * STAGES * PANEL * width +
         sizeof(float) * ROWS * ((c.dim + 63) / 64 * 64 + 4 + PANEL + 4 + 1) +
         sizeof(pairs_row) * ROWS;
}

template <typename E, int ROWS>
static void decode(cuda_gpu *gpu, pairs_call &c) {
  auto kernel = pairs_decode_kernel<E, ROWS>;
  const size_t bytes = shared_of<E, ROWS>(c);
  const int stacks = c.batch * c.kv_heads, at_once = bytes > 112 << 10  ? 1
                                                     : bytes > 74 << 10 ? 2
                                                                        : 3;
  c.tiles = std::max(1, std::min(c.splits, gpu->processors * at_once / stacks));
  gpu_check(gpu,
            cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes),
            "pairs_decode_kernel");
  LAUNCH(gpu, kernel, (unsigned)(stacks * c.tiles), THREADS, bytes, c);
}

template <typename E>
static void decode_rows(cuda_gpu *gpu, pairs_call &c) {
  if (c.n * c.group <= 8)
    decode<E, 8>(gpu, c);
  else
    decode<E, 32>(gpu, c);
}

bool pairs_decodes(const cuda_attention *a) {
  const attend_desc *d = a->desc;
  const int size = d->dtype == ATTEND_F32 ? 4 : 2;
  const int64_t rows = (int64_t)a->n * (d->heads / d->kv_heads);
  if (rows > 32 || d->dim > 128 || d->dim_v > 128) return false;
  if (a->pages) return true;
  for (int i = 0; i < 2; i++) {
    const int width = i ? d->dim_v : d->dim;
    const pairs_view v = pairs_view_of(d->dtype, i ? a->v : a->k, d->kv_heads, d->kv_len, width);
    if ((uintptr_t)v.data % 16 || v.stride[3] != 1 || width * size % 16) return false;
    for (int s = 0; s < 3; s++)
      if (v.stride[s] * size % 16) return false;
  }
  return true;
}

void pairs_decode(cuda_gpu *gpu, const pairs_call *given) {
  pairs_call c = *given;
  if (c.dtype == ATTEND_F32)
    decode_rows<float>(gpu, c);
  else if (c.dtype == ATTEND_F16)
    decode_rows<__half>(gpu, c);
  else
    decode_rows<__nv_bfloat16>(gpu, c);
}
