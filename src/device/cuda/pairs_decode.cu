/* Few queries over many keys, pair by pair: bound by the bytes of keys and values.
 *
 * A CTA has all rows of a stack, at most ROWS, and some joins of panels in a row; the keys and the
 * values of panels come through a ring of STAGES parts of shared memory by asynchronous copies, as
 * they are stored. The sums of each join go to the workspace, where pairs_join_kernel adds them in
 * order. What is computed of a row, and in which order, is that of pairs_forward_kernel: the same
 * bits.
 */
#include "device/cuda/pairs_tiles.cuh"

#include <algorithm>
#include <limits.h>

enum { STAGES = 2 };

/* A part: PANEL keys of W columns, in pieces of 16 bytes that are permuted by the key. */
template <typename E, int W>
__device__ static inline int part_at(int slot, int i) {
  constexpr int N = 16 / sizeof(E);
  return slot * W + ((i / N) ^ (slot % 8)) * N + i % N;
}

/* 16 bytes, or zeros. */
__device__ static inline void copy_piece(void *to, const void *from, bool there) {
  const uint32_t at = (uint32_t)__cvta_generic_to_shared(to);
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(at), "l"(from),
               "r"(there ? 16 : 0));
}

/* Whole pieces, also where the width ends in one. */
template <typename E, int W>
__device__ static inline void load_part(const pairs_call &c, const pairs_view &v, size_t part,
                                        int b, int g, int panel, int lo, int hi, int width, E *to) {
  constexpr int N = 16 / sizeof(E), PIECES = W / N, STEP = THREADS / PIECES;
  const int first = panel * PANEL, j0 = threadIdx.x / PIECES, i = threadIdx.x % PIECES * N;
  const uint8_t *real = reals_of(c, b, panel);
  const bool paged = c.pages;
  const int64_t stride = paged ? (width + 3) / 4 * 4 : v.stride[2];
  const E *base;
  if (paged)
    base = (const E *)((const char *)c.pages[b * c.pages_stride + panel] +
                       g * (c.part_k + c.part_v) + part);
  else
    base = (const E *)v.data + b * v.stride[0] + g * v.stride[1] + first * stride;
  const E *from = base + j0 * stride + i;
#pragma unroll
  for (int n = 0; n < PANEL / STEP; n++) {
    const int j = j0 + n * STEP;
    const bool there = i < width && first + j >= lo && first + j < hi && !(real && !real[j]);
    if (paged && sizeof(E) == 2) from = base + cuda_page_at(2, W, j, i);
    copy_piece(to + part_at<E, W>(j, i), there ? from : base, there);
    from += STEP * stride;
  }
}

template <typename E>
__device__ static inline void widen_piece(const E *p, float (&x)[16 / sizeof(E)]) {
  *(float4 *)x = widen4(p);
  if (sizeof(E) == 2) *(float4 *)(x + 4) = widen4(p + 4);
}

/* The products of rows first, first + 4, .. and one key. */
template <typename E, int W, int N, pairs_form FORM>
__device__ static inline void multiply_key(const float *q, int ldq, const E *k, int slot, int width,
                                           float (&s)[N]) {
  constexpr int P = 16 / sizeof(E);
#pragma unroll 4
  for (int i = 0; i < width; i += P) {
    float y[P];
    widen_piece<E>(k + part_at<E, W>(slot, i), y);
    if (i + P > width)
#pragma unroll
      for (int e = 0; e < P; e++) y[e] = i + e < width ? y[e] : 0;
    if (FORM == ELU)
#pragma unroll
      for (int e = 0; e < P; e++) y[e] = i + e < width ? (y[e] > 0 ? y[e] + 1 : expf(y[e])) : 0.f;
#pragma unroll
    for (int r = 0; r < N; r++) {
      float z[P];
#pragma unroll
      for (int e = 0; e < P; e += 4)
        *(float4 *)(z + e) = *(const float4 *)(q + 4 * r * ldq + i + e);
#pragma unroll
      for (int e = 0; e < P; e++) {
        const float d = FORM == GAUSSIAN ? z[e] - y[e] : z[e];
        s[r] = fmaf(d, FORM == GAUSSIAN ? d : y[e], s[r]);
      }
    }
  }
}

/* o += p v over the panel, for N rows `groups` apart. careful: what a row does not see may not be
 * finite. */
template <typename E, int W, int N>
__device__ static inline void weigh_values(const float *p, int ldp, int groups, const E *v,
                                           int column, bool careful, float (&o)[N][4]) {
#pragma unroll 2
  for (int j = 0; j < PANEL; j += 4) {
    float4 y[4];
#pragma unroll
    for (int e = 0; e < 4; e++) y[e] = widen4(v + part_at<E, W>(j + e, column));
#pragma unroll
    for (int i = 0; i < N; i++) {
      const float4 w4 = *(const float4 *)(p + i * groups * ldp + j);
      const float w[4] = {w4.x, w4.y, w4.z, w4.w};
#pragma unroll
      for (int e = 0; e < 4; e++) {
        if (careful && w[e] == 0) continue;
        o[i][0] = fmaf(w[e], y[e].x, o[i][0]);
        o[i][1] = fmaf(w[e], y[e].y, o[i][1]);
        o[i][2] = fmaf(w[e], y[e].z, o[i][2]);
        o[i][3] = fmaf(w[e], y[e].w, o[i][3]);
      }
    }
  }
}

/* A CTA has ROWS rows, of which c.n c.group exist. */
template <typename E, int W, int ROWS>
__global__ void __launch_bounds__(THREADS, ROWS > 8 ? 2 : 3)
    pairs_decode_kernel(const __grid_constant__ pairs_call c) {
  extern __shared__ float4 shared[];
  constexpr int LDP = PANEL + 4, MINE = ROWS < 16 ? 1 : ROWS / 16, LDQ = W + 4;
  constexpr int UNITS = W / 4, GROUPS = THREADS / UNITS; /* of columns, of rows */
  constexpr int OWN = ROWS < GROUPS ? 1 : ROWS / GROUPS, KEYED = ROWS < 4 ? 1 : ROWS / 4;
  const int rows = c.n * c.group;
  E *ring = (E *)shared;
  float *q = (float *)(ring + STAGES * PANEL * W), *s = q + ROWS * LDQ, *factor = s + ROWS * LDP;
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
  load_queries<W>(c, c.q, t, row, ROWS, 0, c.dim, c.form == ELU, q, LDQ);

  /* Steps: the keys, then the values of each panel. */
  const int panel0 = max(lo / PANEL, first_join * JOIN);
  const int panel1 = lo < hi ? min((hi + PANEL - 1) / PANEL, end_join * JOIN) : panel0;
  const int steps = max(0, 2 * (panel1 - panel0));
  auto load = [&](int step) {
    E *to = ring + step % STAGES * PANEL * W;
    if (step < steps && step % 2 == 0)
      load_part<E, W>(c, c.k, 0, t.b, t.g, panel0 + step / 2, lo, hi, c.dim, to);
    else if (step < steps)
      load_part<E, W>(c, c.v, c.part_k, t.b, t.g, panel0 + step / 2, lo, hi, c.dim_v, to);
    asm volatile("cp.async.commit_group;");
  };

  /* Scores: a thread has a key and every fourth row. Weights: 16 threads have a row. Values: a
   * thread has 4 columns of some rows. */
  const int slot = threadIdx.x % PANEL, quarter = threadIdx.x / PANEL;
  const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
  const int column = threadIdx.x % UNITS * 4, group = threadIdx.x / UNITS;
  const bool careful = c.n > 1;
  row_sums sums[MINE];
  float o[OWN][4] = {};
#pragma unroll
  for (int i = 0; i < MINE; i++) sums[i] = no_sums(c);

  /* The sums of a join are complete. */
  auto end = [&](int join) {
    const int64_t to = (int64_t)stack * rows * c.splits + join;
#pragma unroll
    for (int i = 0; i < MINE; i++) {
      if (tx == 0 && ty + 16 * i < rows)
        *(row_sums *)(c.part + 3 * (to + (int64_t)(ty + 16 * i) * c.splits)) = sums[i];
      sums[i] = no_sums(c);
    }
#pragma unroll
    for (int i = 0; i < OWN; i++) {
      const int r = group + GROUPS * i;
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
    const E *k = ring + step % STAGES * PANEL * W, *v = ring + (step + 1) % STAGES * PANEL * W;
    const uint8_t *real = reals_of(c, t.b, panel);

    asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2));
    __syncthreads();
    load(step + STAGES - 1);
    if (quarter < rows) {
      float x[KEYED] = {};
      if (c.form == GAUSSIAN)
        multiply_key<E, W, KEYED, GAUSSIAN>(q + quarter * LDQ, LDQ, k, slot, c.dim, x);
      else if (c.form == ELU)
        multiply_key<E, W, KEYED, ELU>(q + quarter * LDQ, LDQ, k, slot, c.dim, x);
      else if (rows <= 4)
        multiply_key<E, W, 1, SOFT>(q + quarter * LDQ, LDQ, k, slot, c.dim, *(float(*)[1])x);
      else
        multiply_key<E, W, KEYED, SOFT>(q + quarter * LDQ, LDQ, k, slot, c.dim, x);
#pragma unroll
      for (int i = 0; i < KEYED; i++) {
        const int r = quarter + 4 * i;
        const bool seen = r < rows && sees(row[r], first + slot, real);
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
#pragma unroll
      for (int j = 0; j < 4; j++) s[r * LDP + tx + 16 * j] = x[j];
      if (tx == 0) factor[r] = f;
    }

    asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2));
    __syncthreads();
    load(step + STAGES);
    if (group < rows && column < c.dim_v) {
#pragma unroll
      for (int i = 0; i < OWN; i++) {
        const float f = factor[group + GROUPS * i];
#pragma unroll
        for (int e = 0; e < 4; e++) o[i][e] = c.form == HARD && f == 0 ? 0.f : o[i][e] * f;
      }
      weigh_values<E, W, OWN>(s + group * LDP, LDP, GROUPS, v, column, careful, o);
    }
    if (panel % JOIN == JOIN - 1 || panel + 1 == panel1) end(panel / JOIN);
  }
  for (int join = max(first_join, (panel1 + JOIN - 1) / JOIN); join < end_join; join++) end(join);
}

/* ---- launching ----------------------------------------------------------------------- */

template <typename E, int W, int ROWS>
static void decode(cuda_gpu *gpu, pairs_call &c) {
  auto kernel = pairs_decode_kernel<E, W, ROWS>;
  const size_t bytes = sizeof(E) * STAGES * PANEL * W +
                       sizeof(float) * ROWS * (W + 4 + PANEL + 4 + 1) + sizeof(pairs_row) * ROWS;
  const int stacks = c.batch * c.kv_heads, at_once = ROWS > 8 ? 2 : 3;
  c.tiles = std::max(1, std::min(c.splits, gpu->processors * at_once / stacks));
  gpu_check(gpu,
            cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes),
            "pairs_decode_kernel");
  LAUNCH(gpu, kernel, (unsigned)(stacks * c.tiles), THREADS, bytes, c);
}

template <typename E>
static void decode_shape(cuda_gpu *gpu, pairs_call &c) {
  const bool few = c.n * c.group <= 8, narrow = c.dim <= 64 && c.dim_v <= 64;
  if (narrow)
    few ? decode<E, 64, 8>(gpu, c) : decode<E, 64, 32>(gpu, c);
  else
    few ? decode<E, 128, 8>(gpu, c) : decode<E, 128, 32>(gpu, c);
}

static bool can_copy(attend_dtype dtype, attend_view given, int heads, int rows, int width) {
  const int size = dtype == ATTEND_F32 ? 4 : 2;
  const pairs_view v = pairs_view_of(dtype, given, heads, rows, width);
  return (uintptr_t)v.data % 16 == 0 && v.stride[3] == 1 && width * size % 16 == 0 &&
         v.stride[0] * size % 16 == 0 && v.stride[1] * size % 16 == 0 &&
         v.stride[2] * size % 16 == 0;
}

bool pairs_decodes(const cuda_attention *a) {
  const attend_desc *d = a->desc;
  const int64_t rows = (int64_t)a->n * (d->heads / d->kv_heads);
  if (rows > 32 || d->dim > 128 || d->dim_v > 128) return false;
  return a->pages || (can_copy(d->dtype, a->k, d->kv_heads, d->kv_len, d->dim) &&
                      can_copy(d->dtype, a->v, d->kv_heads, d->kv_len, d->dim_v));
}

void pairs_decode(cuda_gpu *gpu, const pairs_call *given) {
  pairs_call c = *given;
  if (c.dtype == ATTEND_F32)
    decode_shape<float>(gpu, c);
  else if (c.dtype == ATTEND_F16)
    decode_shape<__half>(gpu, c);
  else
    decode_shape<__nv_bfloat16>(gpu, c);
}
