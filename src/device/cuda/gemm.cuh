/* Products on Hopper's tensor cores: a persistent grid whose CTAs compute tiles of 64 rows for each
 * of WGS consumer warpgroups and BN columns. A producer thread loads with TMA into a ring of STAGES
 * tiles of 64 columns of k; with CLUSTER 2 two CTAs, whose tiles are below each other, load half of
 * b's tile each, for both. Results go through shared memory, so that all of global memory is read
 * and written in whole lines.
 */
#ifndef DEVICE_CUDA_GEMM_CUH
#define DEVICE_CUDA_GEMM_CUH

#include "device/cuda/activations.cuh"
#include "device/cuda/gpu.cuh"
#include "device/cuda/hopper.cuh"

struct gemm_call {
  CUtensorMap a, b, c; /* c: [splits][m][n] */
  cuda_product p;
  bool stored;         /* c is written by TMA: nothing is read behind a sum but scale and bias */
  int blocks, columns; /* tiles: of all CLUSTER 64 WGS rows, of BN columns */
  int group;           /* blocks whose tiles of a column follow each other */
  int splits, steps;   /* chunks of k; each has so many tiles of 64 */
  int items;
};

struct gemm_item {
  int row, column, first, end, split; /* [first, end): tiles of k */
};

/* Slabs of 128 bytes and `rows` rows of x [length][width], of elements of `size` bytes, or of
 * [parts][length][width]. What is past the end reads as zeros and is not written. */
CUtensorMap gemm_map(cuda_gpu *gpu, int size, const void *x, int width, int length, int64_t ld,
                     int rows, int parts = 0);
static inline bool gemm_fits_tma(const void *x, int size, int64_t ld) {
  return (uintptr_t)x % 16 == 0 && ld * size % 16 == 0;
}
/* An operand as the kernels read it: of another type, or where TMA cannot read it, a copy in scratch
 * memory. gemm_align makes it, and returns the scratch behind it. */
struct gemm_operand {
  const void *data;
  int64_t ld;
  int rows, width;
  attend_dtype type;
  bool int8;
  size_t bytes; /* of the copy; 0: none is needed */
};
gemm_operand gemm_operand_of(attend_dtype to, attend_dtype from, bool int8, const void *x,
                             int64_t ld, int outer, int k, bool columns);
unsigned char *gemm_align(cuda_gpu *gpu, attend_dtype to, gemm_operand &o, unsigned char *scratch);

/* gemm_rows.cu: false if the call is not for it. */
bool gemm_rows(cuda_gpu *gpu, const cuda_product &p);
/* gemm_plain.cu: products in f32. */
void gemm_plain(cuda_gpu *gpu, const cuda_product &p);
/* c += chunks' sums [splits][m][ld], in order. */
void gemm_join(cuda_gpu *gpu, const cuda_product &p, const float *part, int64_t ld, int splits);

template <int WGS, int BN, int STAGES>
struct gemm_layout {
  static constexpr int rows = 64 * WGS, a_bytes = rows * SLAB_BYTES, b_bytes = BN * SLAB_BYTES;
  static constexpr int stage_bytes = a_bytes + b_bytes, staging_at = STAGES * stage_bytes;
  static constexpr int staging_bytes = 64 * 64 * 4; /* of a warpgroup */
  static constexpr int barriers_at = staging_at + WGS * staging_bytes;
  static constexpr int bytes = barriers_at + 16 * STAGES + 1024;
};

/* ---- PTX ------------------------------------------------------------------------------- */

__device__ inline int cluster_rank() {
  uint32_t rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return (int)rank;
}
__device__ inline void cluster_sync() {
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::
                   : "memory");
}
/* Arrives at the barrier of CTA `rank` that is where this one is. Releases nothing: a release to the
 * cluster waits for all of the thread's memory traffic, which costs a sixth of the speed. */
__device__ inline void barrier_arrive_at(uint64_t *barrier, int rank) {
  asm volatile(
      "{\n.reg .b32 remote;\n"
      "mapa.shared::cluster.u32 remote, %0, %1;\n"
      "mbarrier.arrive.shared::cluster.b64 _, [remote];\n}\n" ::"r"(shared_address(barrier)),
      "r"(rank)
      : "memory");
}
__device__ inline void tma_load_2d(const CUtensorMap *map, void *to, uint64_t *barrier, int column,
                                   int row) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%3, %4}], [%2];" ::"r"(shared_address(to)),
      "l"((uint64_t)map), "r"(shared_address(barrier)), "r"(column), "r"(row)
      : "memory");
}
/* Into both CTAs of the cluster, and onto the barriers of both. */
__device__ inline void tma_load_both(const CUtensorMap *map, void *to, uint64_t *barrier,
                                     int column, int row) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
      ".multicast::cluster [%0], [%1, {%3, %4}], [%2], %5;" ::"r"(shared_address(to)),
      "l"((uint64_t)map), "r"(shared_address(barrier)), "r"(column), "r"(row), "h"((uint16_t)3)
      : "memory");
}

__device__ inline void tma_store_3d(const CUtensorMap *map, const void *from, int column, int row,
                                    int part) {
  asm volatile(
      "cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [%0, {%2, %3, %4}], [%1];" ::"l"(
          (uint64_t)map),
      "r"(shared_address(from)), "r"(column), "r"(row), "r"(part)
      : "memory");
}
/* All stores but the last have been read from shared memory. */
__device__ inline void tma_store_wait_but_1() {
  asm volatile("cp.async.bulk.wait_group.read 1;" ::: "memory");
}
/* Four matrices of 8 x 8; lane l has the address of row l % 8 of matrix l / 8. */
__device__ inline void store_matrices(void *row, uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
  asm volatile(
      "stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1,%2,%3,%4};" ::"r"(shared_address(row)),
      "r"(a), "r"(b), "r"(c), "r"(d)
      : "memory");
}

/* d[64][N] (+)= a b of shared memory; COLUMNS 1: MN-major. add 0: d is overwritten. */
template <typename T, int N>
struct gemm_product;
#define GEMM_PRODUCT(T, TYPE, N, REGS, LIST, A, B, P, TA, TB)                                \
  template <>                                                                                \
  struct gemm_product<T, N> {                                                                \
    template <int A_COLUMNS, int B_COLUMNS>                                                  \
    static __device__ inline void run(float (&d)[N / 2], uint64_t a, uint64_t b, int add) {  \
      asm volatile("{ .reg .pred p; setp.ne.b32 p, %" P                                      \
                   ", 0;\n"                                                                  \
                   "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." TYPE "." TYPE " {" REGS \
                   "}, %" A ", %" B ", p, 1, 1, %" TA ", %" TB "; }\n"                       \
                   : LIST                                                                    \
                   : "l"(a), "l"(b), "r"(add), "n"(A_COLUMNS), "n"(B_COLUMNS));              \
    }                                                                                        \
  };
#define GEMM_PRODUCTS(T, TYPE)                                          \
  GEMM_PRODUCT(T, TYPE, 64, R32, D32(0), "32", "33", "34", "35", "36")  \
  GEMM_PRODUCT(T, TYPE, 128, R64, D64(0), "64", "65", "66", "67", "68") \
  GEMM_PRODUCT(T, TYPE, 256, R128, D128(0), "128", "129", "130", "131", "132")
GEMM_PRODUCTS(__nv_bfloat16, "bf16")
GEMM_PRODUCTS(__half, "f16")
#undef GEMM_PRODUCTS
#undef GEMM_PRODUCT

/* ---- numbers of any type --------------------------------------------------------------- */

__device__ inline uint32_t pack_2(float x, float y, __nv_bfloat16) {
  const __nv_bfloat162 z = __floats2bfloat162_rn(x, y);
  return *(const uint32_t *)&z;
}
__device__ inline uint32_t pack_2(float x, float y, __half) {
  const __half2 z = __floats2half2_rn(x, y);
  return *(const uint32_t *)&z;
}
/* Four that follow each other, aligned. */
__device__ inline void set_4(void *x, attend_dtype type, int64_t i, const float (&v)[4]) {
  if (type == ATTEND_F32) {
    *(float4 *)((float *)x + i) = {v[0], v[1], v[2], v[3]};
  } else if (type == ATTEND_F16) {
    __half2 y[2] = {__floats2half2_rn(v[0], v[1]), __floats2half2_rn(v[2], v[3])};
    *(uint2 *)((__half *)x + i) = *(const uint2 *)y;
  } else {
    __nv_bfloat162 y[2] = {__floats2bfloat162_rn(v[0], v[1]), __floats2bfloat162_rn(v[2], v[3])};
    *(uint2 *)((__nv_bfloat16 *)x + i) = *(const uint2 *)y;
  }
}
__device__ inline void get_4(const void *x, attend_dtype type, int64_t i, float (&v)[4]) {
  if (type == ATTEND_F32) {
    const float4 y = *(const float4 *)((const float *)x + i);
    v[0] = y.x, v[1] = y.y, v[2] = y.z, v[3] = y.w;
  } else {
    const uint2 y = *(const uint2 *)((const uint16_t *)x + i);
#pragma unroll
    for (int j = 0; j < 4; j++) v[j] = element_of(&y, type, j);
  }
}

/* ---- what follows a sum ---------------------------------------------------------------- */

/* One element; scale and bias are in x. */
__device__ inline void finish_one(const cuda_product &p, int row, int column, float x) {
  if (p.add) x += element_of(p.c, p.c_type, row * p.ldc + column);
  if (p.slope)
    x *= activation_slope(p.f, element_of(p.slope, p.slope_type, row * p.ld_slope + column));
  if (p.before) set_element(p.before, p.before_type, row * p.ld_before + column, x);
  if (!p.slope) x = activation(p.f, x);
  if (p.onto)
    p.onto[row * p.ld_onto + column] =
        (p.from ? p.from[row * p.ld_from + column] : p.onto[row * p.ld_onto + column]) + x;
  else
    set_element(p.c, p.c_type, row * p.ldc + column, x);
}
/* Four of a row, aligned in every tensor: the same bits. */
__device__ inline void finish_4(const cuda_product &p, int row, int column, float (&x)[4]) {
  float y[4];
  if (p.add) {
    get_4(p.c, p.c_type, row * p.ldc + column, y);
#pragma unroll
    for (int i = 0; i < 4; i++) x[i] += y[i];
  }
  if (p.slope) {
    get_4(p.slope, p.slope_type, row * p.ld_slope + column, y);
#pragma unroll
    for (int i = 0; i < 4; i++) x[i] *= activation_slope(p.f, y[i]);
  }
  if (p.before) set_4(p.before, p.before_type, row * p.ld_before + column, x);
  if (p.f && !p.slope) {
#pragma unroll
    for (int i = 0; i < 4; i++) x[i] = activation(p.f, x[i]);
  }
  if (!p.onto) return set_4(p.c, p.c_type, row * p.ldc + column, x);
  if (p.from)
    get_4(p.from, ATTEND_F32, row * p.ld_from + column, y);
  else
    get_4(p.onto, ATTEND_F32, row * p.ld_onto + column, y);
#pragma unroll
  for (int i = 0; i < 4; i++) y[i] += x[i];
  set_4(p.onto, ATTEND_F32, row * p.ld_onto + column, y);
}

/* ---- tiles ----------------------------------------------------------------------------- */

template <int WGS, int BN, int CLUSTER>
__device__ inline gemm_item gemm_item_at(const gemm_call &c, int item, int rank) {
  const int tiles = c.blocks * c.columns, split = item / tiles, t = item % tiles;
  const int from = t / (c.group * c.columns) * c.group, rest = t - from * c.columns;
  const int wide = min(c.group, c.blocks - from), all = (c.p.k + SLAB - 1) / SLAB;
  const int block = from + rest % wide, first = split * c.steps;
  return {(block * CLUSTER + rank) * 64 * WGS, rest / wide * BN, first, min(all, first + c.steps),
          split};
}

template <int WGS, int BN, int STAGES, int CLUSTER, bool TA, bool TB>
__device__ inline void gemm_produce(const gemm_call &c, unsigned char *memory, uint64_t *full,
                                    uint64_t *empty) {
  using L = gemm_layout<WGS, BN, STAGES>;
  const int rank = CLUSTER > 1 ? cluster_rank() : 0;
  int stage = 0, phase = 1;
  for (int i = blockIdx.x / CLUSTER; i < c.items; i += gridDim.x / CLUSTER) {
    const gemm_item at = gemm_item_at<WGS, BN, CLUSTER>(c, i, rank);
    for (int step = at.first; step < at.end; step++) {
      unsigned char *a = memory + stage * L::stage_bytes, *b = a + L::a_bytes;
      const int k = step * SLAB;
      barrier_wait(&empty[stage], phase);
      barrier_expect(&full[stage], L::stage_bytes);
      if (!TA) tma_load_2d(&c.a, a, &full[stage], k, at.row);
#pragma unroll
      for (int s = 0; s < (TA ? WGS : 0); s++)
        tma_load_2d(&c.a, a + s * 64 * SLAB_BYTES, &full[stage], at.row + 64 * s, k);
      if (!TB && CLUSTER == 1) tma_load_2d(&c.b, b, &full[stage], k, at.column);
      if (!TB && CLUSTER == 2)
        tma_load_both(&c.b, b + rank * (BN / 2) * SLAB_BYTES, &full[stage], k,
                      at.column + rank * (BN / 2));
#pragma unroll
      for (int s = 0; s < (TB ? BN / 64 / CLUSTER : 0); s++) {
        const int slab = rank * (BN / 64 / CLUSTER) + s;
        unsigned char *to = b + slab * 64 * SLAB_BYTES;
        if (CLUSTER == 1)
          tma_load_2d(&c.b, to, &full[stage], at.column + 64 * slab, k);
        else
          tma_load_both(&c.b, to, &full[stage], at.column + 64 * slab, k);
      }
      if (++stage == STAGES) stage = 0, phase ^= 1;
    }
  }
}

/* 64 columns of a warpgroup's results in shared memory: rows of 16 pieces of 4, permuted so that
 * neither side meets bank conflicts. */
__device__ inline int staged_at(int row, int piece) { return row * 64 + (piece ^ 2 * row % 8) * 4; }

template <int CHUNK, int N>
__device__ inline void stage_results(float *staging, int thread, const float (&d)[N]) {
  if (32 * CHUNK >= N) return;
  const int row = 16 * (thread / 32) + thread % 32 / 4;
#pragma unroll
  for (int j = 0; j < 8; j++)
#pragma unroll
    for (int r = 0; r < 2; r++)
      *(float2 *)&staging[staged_at(row + 8 * r, 2 * j + thread % 4 / 2) + thread % 2 * 2] = {
          d[(32 * CHUNK + 4 * j + 2 * r) % N], d[(32 * CHUNK + 4 * j + 2 * r + 1) % N]};
}

__device__ inline void finish_rows(const cuda_product &p, const float *staging, int thread,
                                   int row0, int column, bool aligned) {
  const int piece = thread % 16;
  const bool whole = aligned && column + 4 * piece + 4 <= p.n;
  float scale[4] = {1, 1, 1, 1}, bias[4] = {};
  column += 4 * piece;
  if (column >= p.n) return;
  const int rows = min(64, p.m - row0);
  if (!whole) { /* one by one */
#pragma unroll 1
    for (int i = thread / 16 * 4; i < rows * 4; i = i % 4 == 3 ? i + 29 : i + 1)
      if (column + i % 4 < p.n) {
        float x = staging[staged_at(i / 4, piece) + i % 4];
        if (p.scale) x *= p.scale[column + i % 4];
        if (p.bias) x += p.bias[column + i % 4];
        finish_one(p, row0 + i / 4, column + i % 4, x);
      }
    return;
  }
#pragma unroll
  for (int i = 0; i < 4; i++) {
    if (p.scale) scale[i] = p.scale[column + i];
    if (p.bias) bias[i] = p.bias[column + i];
  }
  const auto sum_of = [&](int r, float(&x)[4]) {
    const float4 d = *(const float4 *)&staging[staged_at(r, piece)];
    x[0] = d.x, x[1] = d.y, x[2] = d.z, x[3] = d.w;
    if (p.scale) {
#pragma unroll
      for (int i = 0; i < 4; i++) x[i] *= scale[i];
    }
    if (p.bias) {
#pragma unroll
      for (int i = 0; i < 4; i++) x[i] += bias[i];
    }
  };
  float x[4];
#pragma unroll 2
  for (int r = thread / 16; r < rows; r += 8) {
    sum_of(r, x);
    finish_4(p, row0 + r, column, x);
  }
}

/* 64 columns of results, scaled and with their bias. */
template <int N>
__device__ inline void take_chunk(const cuda_product &p, int chunk, int column, const float (&d)[N],
                                  float (&v)[32]) {
#pragma unroll
  for (int c = 0; c < N / 32; c++)
    if (c == chunk)
#pragma unroll
      for (int i = 0; i < 32; i++) v[i] = d[32 * c + i];
  column += threadIdx.x % 4 * 2;
  if (!p.scale && !p.bias) return;
#pragma unroll
  for (int i = 0; i < 16; i++) {
    const int at = min(column + i / 2 * 8 + i % 2, p.n - 1), e = i / 2 * 4 + i % 2;
    const float scale = p.scale ? p.scale[at] : 1.f, bias = p.bias ? p.bias[at] : 0.f;
    if (p.scale) v[e] *= scale, v[e + 2] *= scale;
    if (p.bias) v[e] += bias, v[e + 2] += bias;
  }
}

template <attend_activation F>
__device__ inline void activate_chunk(float (&v)[32]) {
#pragma unroll
  for (int i = 0; i < 32; i++) v[i] = activation(F, v[i]);
}
__device__ inline void activate_chunk(attend_activation f, float (&v)[32]) {
  if (f == ATTEND_RELU) activate_chunk<ATTEND_RELU>(v);
  if (f == ATTEND_GELU) activate_chunk<ATTEND_GELU>(v);
  if (f == ATTEND_GELU_TANH) activate_chunk<ATTEND_GELU_TANH>(v);
  if (f == ATTEND_SILU) activate_chunk<ATTEND_SILU>(v);
  if (f == ATTEND_TANH) activate_chunk<ATTEND_TANH>(v);
}

/* Slabs of 64 rows of 128 bytes: 64 columns of 2 bytes, packed in pairs, or 32 of f32. */
template <int SLAB_AT, int N>
__device__ inline void write_slab(unsigned char *slab, int thread, const uint32_t (&packed)[N]) {
  const int lane = thread % 32, row = 16 * (thread / 32) + lane % 16;
  unsigned char *to = slab + row * SLAB_BYTES;
#pragma unroll
  for (int j = 0; j < 8; j += 2)
    store_matrices(to + ((j + lane / 16) ^ row % 8) * 16, packed[16 * SLAB_AT + 2 * j],
                   packed[16 * SLAB_AT + 2 * j + 1], packed[16 * SLAB_AT + 2 * j + 2],
                   packed[16 * SLAB_AT + 2 * j + 3]);
}
__device__ inline void write_slab_f32(unsigned char *slab, int thread, int half,
                                      const float (&v)[32]) {
  const int row = 16 * (thread / 32) + thread % 32 / 4;
#pragma unroll
  for (int j = 0; j < 4; j++)
#pragma unroll
    for (int r = 0; r < 2; r++)
      *(float2 *)(slab + (row + 8 * r) * SLAB_BYTES + ((2 * j + thread % 4 / 2) ^ row % 8) * 16 +
                  thread % 2 * 8) = half ? float2{v[16 + 4 * j + 2 * r], v[17 + 4 * j + 2 * r]}
                                         : float2{v[4 * j + 2 * r], v[4 * j + 2 * r + 1]};
}

/* Where a warpgroup's rows of c go. Slabs of 8 KiB in shared memory take turns. */
struct gemm_target {
  unsigned char *staging;
  int barrier, row, column, split;
};
__device__ inline unsigned char *slab_begin(const gemm_target &t, int i, int thread) {
  if (thread == 0) tma_store_wait_but_1();
  named_sync(t.barrier, 128);
  return t.staging + i % 2 * 64 * SLAB_BYTES;
}
__device__ inline void slab_end(const gemm_call &c, const gemm_target &t, unsigned char *slab,
                                int column, int thread) {
  fence_shared();
  named_sync(t.barrier, 128);
  if (thread) return;
  tma_store_3d(&c.c, slab, column, t.row, t.split);
  tma_store_commit();
}

/* f32: at once. */
template <bool ACTIVATE, int N>
__device__ inline void store_wide(const gemm_call &c, const gemm_target &t, int thread,
                                  const float (&d)[N]) {
  float v[32];
#pragma unroll 1
  for (int i = 0; i < N / 16; i++) {
    const int at = t.column + 32 * i;
    if (at >= c.p.n) break;
    if (i % 2 == 0) {
      take_chunk(c.p, i / 2, at, d, v);
      if (ACTIVATE) activate_chunk(c.p.f, v);
    }
    unsigned char *slab = slab_begin(t, i, thread);
    write_slab_f32(slab, thread, i % 2, v);
    slab_end(c, t, slab, at, thread);
  }
}

/* bf16 and f16: packed at once, stored slab by slab while the next tile is multiplied. */
template <typename T, bool ACTIVATE, int N>
__device__ inline void pack_results(const gemm_call &c, const gemm_target &t, const float (&d)[N],
                                    uint32_t (&packed)[N / 2]) {
#pragma unroll
  for (int i = 0; i < N / 32; i++) {
    float v[32];
    take_chunk(c.p, i, t.column + 64 * i, d, v);
    if (ACTIVATE) activate_chunk(c.p.f, v);
#pragma unroll
    for (int j = 0; j < 16; j++)
      packed[16 * i + j] = c.p.c_type == ATTEND_BF16
                               ? pack_2(v[2 * j], v[2 * j + 1], __nv_bfloat16())
                               : pack_2(v[2 * j], v[2 * j + 1], __half());
  }
}
/* Frees the registers for what came before. */
template <int N>
__device__ inline void clear_packed(uint32_t (&packed)[N]) {
#pragma unroll
  for (int i = 0; i < N; i++) packed[i] = 0;
}
template <int N>
__device__ inline void store_packed(const gemm_call &c, const gemm_target &t, int i, int thread,
                                    const uint32_t (&packed)[N]) {
  const int at = t.column + 64 * i;
  if (at >= c.p.n || t.row >= c.p.m) return;
  unsigned char *slab = slab_begin(t, i, thread);
  if (i == 0) write_slab<0>(slab, thread, packed);
  if (N > 16 && i == 1) write_slab<N / 16 - 1 < 1 ? 0 : 1>(slab, thread, packed);
  if (N > 32 && i == 2) write_slab<N / 16 - 1 < 2 ? 0 : 2>(slab, thread, packed);
  if (N > 32 && i == 3) write_slab<N / 16 - 1 < 3 ? 0 : 3>(slab, thread, packed);
  slab_end(c, t, slab, at, thread);
}

/* Rows of 4-element pieces are aligned in all tensors. */
__device__ inline bool gemm_aligned(const cuda_product &p) {
  const auto odd = [](const void *x, attend_dtype type, int64_t ld) {
    return x && ((uintptr_t)x % (type == ATTEND_F32 ? 16 : 8) || ld % 4);
  };
  return !odd(p.c, p.c_type, p.ldc) && !odd(p.slope, p.slope_type, p.ld_slope) &&
         !odd(p.before, p.before_type, p.ld_before) && !odd(p.onto, ATTEND_F32, p.ld_onto) &&
         !odd(p.from, ATTEND_F32, p.ld_from);
}

template <typename T, int WGS, int BN, int STAGES, int CLUSTER, bool TA, bool TB>
__device__ inline void gemm_consume(const gemm_call &c, unsigned char *memory, uint64_t *full,
                                    uint64_t *empty) {
  using L = gemm_layout<WGS, BN, STAGES>;
  const int wg = __shfl_sync(~0u, (int)threadIdx.x / 128, 0) - 1, thread = threadIdx.x % 128;
  const int rank = CLUSTER > 1 ? cluster_rank() : 0;
  const bool aligned = gemm_aligned(c.p);
  float *staging = (float *)(memory + L::staging_at + wg * L::staging_bytes);
  const auto release = [&](int stage) {
    if (CLUSTER == 1 && thread == 0) barrier_arrive(&empty[stage]);
    if (CLUSTER > 1 && thread < CLUSTER) barrier_arrive_at(&empty[stage], thread);
  };
  constexpr int SLABS = BN / 64;
  gemm_target target = {(unsigned char *)staging, 1 + wg, 0, 0, 0};
  uint32_t packed[BN / 4];
  int stage = 0, phase = 0, stored = SLABS; /* slabs of the tile before */
  float d[BN / 2];
  for (int item = blockIdx.x / CLUSTER; item < c.items; item += gridDim.x / CLUSTER) {
    const gemm_item at = gemm_item_at<WGS, BN, CLUSTER>(c, item, rank);
    int before = stage;
    for (int step = at.first; step < at.end; step++) {
      const unsigned char *a = memory + stage * L::stage_bytes + wg * 64 * SLAB_BYTES;
      const unsigned char *b = memory + stage * L::stage_bytes + L::a_bytes;
      const uint64_t a_at = operand_rows(a); /* of a single slab: either layout */
      const uint64_t b_at = TB ? operand_columns(b, 64 * SLAB_BYTES) : operand_rows(b);
      barrier_wait(&full[stage], phase);
      wgmma_begin();
#pragma unroll
      for (int i = 0; i < SLAB / 16; i++)
        gemm_product<T, BN>::template run<TA, TB>(d, a_at + (i * (TA ? 16 * SLAB_BYTES : 32) >> 4),
                                                  b_at + (i * (TB ? 16 * SLAB_BYTES : 32) >> 4),
                                                  step > at.first || i > 0);
      wgmma_commit();
      if (stored < SLABS) store_packed(c, target, stored++, thread, packed);
      if (step > at.first) {
        wgmma_wait<1>();
        release(before);
      }
      before = stage;
      if (++stage == STAGES) stage = 0, phase ^= 1;
    }
    wgmma_wait<0>();
    wgmma_hold(d);
    release(before);
    const int row0 = at.row + 64 * wg;
    if (c.stored) {
      while (stored < SLABS) store_packed(c, target, stored++, thread, packed);
      target.row = row0, target.column = at.column, target.split = at.split;
      if (row0 >= c.p.m) continue;
      if (c.p.c_type == ATTEND_F32) {
        store_wide<!TA && !TB>(c, target, thread, d);
        clear_packed(packed);
      } else {
        pack_results<T, !TA && !TB>(c, target, d, packed);
        stored = 0;
      }
      continue;
    }
    const cuda_product &p = c.p;
#pragma unroll 1
    for (int chunk = 0; chunk < BN / 64; chunk++) {
      if (row0 >= p.m || at.column + 64 * chunk >= p.n) break;
      named_sync(1 + wg, 128); /* what was staged before has been read */
      if (chunk == 0) stage_results<0>(staging, thread, d);
      if (chunk == 1) stage_results<1>(staging, thread, d);
      if (chunk == 2) stage_results<2>(staging, thread, d);
      if (chunk == 3) stage_results<3>(staging, thread, d);
      named_sync(1 + wg, 128);
      finish_rows(p, staging, thread, row0, at.column + 64 * chunk, aligned);
    }
    clear_packed(packed);
  }
  while (stored < SLABS) store_packed(c, target, stored++, thread, packed);
  if (c.stored && thread == 0) tma_store_wait();
}

template <typename T, int WGS, int BN, int STAGES, int CLUSTER, bool TA, bool TB>
__global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(128 * (WGS + 1), 1)
    gemm_kernel(const __grid_constant__ gemm_call c) {
  using L = gemm_layout<WGS, BN, STAGES>;
  extern __shared__ unsigned char raw[];
  unsigned char *memory = (unsigned char *)(((uintptr_t)raw + 1023) & ~(uintptr_t)1023);
  uint64_t *full = (uint64_t *)(memory + L::barriers_at), *empty = full + STAGES;
  if (threadIdx.x == 0) {
    for (int i = 0; i < STAGES; i++)
      barrier_init(&full[i], 1), barrier_init(&empty[i], WGS * CLUSTER);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  if (CLUSTER > 1) cluster_sync();
  __syncthreads();
  if (__shfl_sync(~0u, (int)threadIdx.x / 128, 0) == 0) {
    if (WGS == 2) registers_lower<24>();
    if (threadIdx.x == 0) gemm_produce<WGS, BN, STAGES, CLUSTER, TA, TB>(c, memory, full, empty);
  } else {
    if (WGS == 2) registers_raise<240>();
    gemm_consume<T, WGS, BN, STAGES, CLUSTER, TA, TB>(c, memory, full, empty);
  }
  if (CLUSTER > 1) cluster_sync(); /* a CTA ends when nothing arrives at it any more */
}

#endif
