/* Products in f32 by fma: one chain over k in order for each element, whatever the tile. A tile of
 * 128 x 128 with 8 x 8 sums a thread; for few rows a kernel that streams b through shared memory.
 */
#ifndef DEVICE_CUDA_GEMM_PLAIN_CUH
#define DEVICE_CUDA_GEMM_PLAIN_CUH

#include "device/cuda/gemm.cuh"

enum { PLAIN = 128, PLAIN_K = 16, PLAIN_THREADS = 256 };

struct plain_call {
  cuda_product p;
  int splits, depth; /* chunks of k, and their length: whole tiles of k */
  bool a_aligned, b_aligned;
};

struct plain_tiles {
  float a[2][PLAIN_K][PLAIN + 4], b[2][PLAIN_K][PLAIN + 4];
};

/* A thread's part of a tile: two pieces of 4 neighbours in memory. */
struct plain_piece {
  float4 at[2];
};
/* Piece i of a thread: 4 of k of a row, or (COLUMNS) 4 rows of one k. */
template <bool COLUMNS>
__device__ inline void plain_place(int i, int &row, int &k) {
  const int n = threadIdx.x + i * PLAIN_THREADS;
  row = COLUMNS ? n % 32 * 4 : n / 4;
  k = COLUMNS ? n / 32 : n % 4 * 4;
}
template <bool COLUMNS>
__device__ inline plain_piece plain_load(const float *x, int64_t ld, int rows, int row0, int k0,
                                         int k_end, bool aligned) {
  plain_piece piece;
#pragma unroll
  for (int i = 0; i < 2; i++) {
    int row, k;
    plain_place<COLUMNS>(i, row, k);
    row += row0, k += k0;
    const float *from = x + (COLUMNS ? k * ld + row : row * ld + k);
    const int left = COLUMNS ? (k < k_end ? rows - row : 0) : (row < rows ? k_end - k : 0);
    if (aligned && left >= 4)
      piece.at[i] = *(const float4 *)from;
    else
      piece.at[i] = {left > 0 ? from[0] : 0.f, left > 1 ? from[1] : 0.f, left > 2 ? from[2] : 0.f,
                     left > 3 ? from[3] : 0.f};
  }
  return piece;
}
template <bool COLUMNS>
__device__ inline void plain_store(float (&tile)[PLAIN_K][PLAIN + 4], const plain_piece &piece) {
#pragma unroll
  for (int i = 0; i < 2; i++) {
    int row, k;
    plain_place<COLUMNS>(i, row, k);
    const float4 x = piece.at[i];
    if (COLUMNS)
      *(float4 *)&tile[k][row] = x;
    else
      tile[k][row] = x.x, tile[k + 1][row] = x.y, tile[k + 2][row] = x.z, tile[k + 3][row] = x.w;
  }
}

/* sum[i][j] += the products of a tile: rows 4 ty + i, and 64 further for i > 3; columns likewise. */
__device__ inline void plain_multiply(const float (&a)[PLAIN_K][PLAIN + 4],
                                      const float (&b)[PLAIN_K][PLAIN + 4], int ty, int tx,
                                      float (&sum)[8][8]) {
#pragma unroll
  for (int k = 0; k < PLAIN_K; k++) {
    float x[8], y[8];
    *(float4 *)x = *(const float4 *)&a[k][4 * ty];
    *(float4 *)(x + 4) = *(const float4 *)&a[k][64 + 4 * ty];
    *(float4 *)y = *(const float4 *)&b[k][4 * tx];
    *(float4 *)(y + 4) = *(const float4 *)&b[k][64 + 4 * tx];
#pragma unroll
    for (int i = 0; i < 8; i++)
#pragma unroll
      for (int j = 0; j < 8; j++) sum[i][j] = fmaf(x[i], y[j], sum[i][j]);
  }
}

__device__ inline void finish_sum(const cuda_product &p, int row, int column, float x) {
  if (p.scale) x *= p.scale[column];
  if (p.bias) x += p.bias[column];
  finish_one(p, row, column, x);
}

template <bool TA, bool TB>
__global__ void __launch_bounds__(PLAIN_THREADS, 2) gemm_plain_kernel(const plain_call c) {
  __shared__ plain_tiles t;
  const int row0 = blockIdx.y * PLAIN, column0 = blockIdx.x * PLAIN;
  const int first = blockIdx.z * c.depth, end = min(c.p.k, first + c.depth);
  const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
  const float *a = (const float *)c.p.a, *b = (const float *)c.p.b;
  float sum[8][8] = {};
  const auto load_a = [&](int k) {
    return plain_load<TA>(a, c.p.lda, c.p.m, row0, k, end, c.a_aligned);
  };
  const auto load_b = [&](int k) {
    return plain_load<TB>(b, c.p.ldb, c.p.n, column0, k, end, c.b_aligned);
  };
  plain_store<TA>(t.a[0], load_a(first));
  plain_store<TB>(t.b[0], load_b(first));
  __syncthreads();
  for (int k = first, at = 0; k < end; k += PLAIN_K, at ^= 1) {
    const plain_piece next_a = load_a(k + PLAIN_K), next_b = load_b(k + PLAIN_K);
    plain_multiply(t.a[at], t.b[at], ty, tx, sum);
    plain_store<TA>(t.a[at ^ 1], next_a);
    plain_store<TB>(t.b[at ^ 1], next_b);
    __syncthreads();
  }
  cuda_product p = c.p;
  if (c.splits > 1) p.c = (float *)p.c + (int64_t)blockIdx.z * p.m * p.ldc;
  /* through shared memory, so that one copy of what follows serves all sums */
  float *staging = (float *)&t;
#pragma unroll 1
  for (int i = 0; i < 8; i++) {
#pragma unroll
    for (int s = 0; s < 8; s++)
      if (s == i)
#pragma unroll
        for (int j = 0; j < 8; j++) staging[ty * PLAIN + 4 * tx + (j < 4 ? j : 60 + j)] = sum[s][j];
    __syncthreads();
    for (int e = threadIdx.x; e < 16 * PLAIN; e += PLAIN_THREADS) {
      const int row = row0 + e / PLAIN * 4 + (i < 4 ? i : 60 + i), column = column0 + e % PLAIN;
      if (row < p.m && column < p.n) finish_sum(p, row, column, staging[e]);
    }
    __syncthreads();
  }
}

/* ---- few rows -------------------------------------------------------------------------- */

/* A CTA has FEW_OUT outputs and all rows; a thread one output and the rows r, r + 8, .. of it. b
 * comes through a ring of tiles of FEW_K of k. */
enum { FEW_OUT = 16, FEW_K = 128, FEW_STAGES = 4, FEW_THREADS = 128, FEW_LD = FEW_K + 4 };

__device__ inline void copy_16(void *to, const void *from, bool real) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)), "l"(from),
               "r"(real ? 16 : 0)
               : "memory");
}

/* Rows of x, from k on, as a tile. */
__device__ inline void few_load(float *tile, const float *x, int64_t ld, int rows, int all, int k0,
                                int k_end) {
  for (int i = threadIdx.x; i < all * (FEW_K / 4); i += FEW_THREADS) {
    const int r = i / (FEW_K / 4), k = i % (FEW_K / 4) * 4;
    const bool real = r < rows && k0 + k < k_end;
    copy_16(&tile[r * FEW_LD + k], real ? x + r * ld + k0 + k : x, real);
  }
}

/* Needs operands in rows, k and the strides multiples of 4, and aligned. */
template <int ROWS>
__global__ void __launch_bounds__(FEW_THREADS) gemm_few_kernel(const cuda_product p) {
  extern __shared__ float4 few_memory[];
  constexpr int tile = (FEW_OUT + ROWS) * FEW_LD;
  float *memory = (float *)few_memory;
  const int out = threadIdx.x % FEW_OUT, row = threadIdx.x / FEW_OUT, first = blockIdx.x * FEW_OUT;
  const float *b = (const float *)p.b + first * p.ldb;
  const int tiles = (p.k + FEW_K - 1) / FEW_K;
  float sum[ROWS / 8] = {};
  const auto load = [&](int i) {
    float *to = memory + i % FEW_STAGES * tile;
    if (i < tiles) {
      few_load(to, b, p.ldb, p.n - first, FEW_OUT, i * FEW_K, p.k);
      few_load(to + FEW_OUT * FEW_LD, (const float *)p.a, p.lda, p.m, ROWS, i * FEW_K, p.k);
    }
    asm volatile("cp.async.commit_group;" ::: "memory");
  };
  for (int i = 0; i < FEW_STAGES - 1; i++) load(i);
  for (int i = 0; i < tiles; i++) {
    asm volatile("cp.async.wait_group %0;" ::"n"(FEW_STAGES - 2) : "memory");
    __syncthreads();
    load(i + FEW_STAGES - 1);
    const float *w = memory + i % FEW_STAGES * tile + out * FEW_LD;
    const float *x = memory + i % FEW_STAGES * tile + (FEW_OUT + row) * FEW_LD;
#pragma unroll 8
    for (int k = 0; k < FEW_K; k += 4) { /* past the end zeros are added */
      const float4 y = *(const float4 *)(w + k);
#pragma unroll
      for (int r = 0; r < ROWS / 8; r++) {
        const float4 z = *(const float4 *)(x + 8 * r * FEW_LD + k);
        sum[r] = fmaf(z.x, y.x, sum[r]);
        sum[r] = fmaf(z.y, y.y, sum[r]);
        sum[r] = fmaf(z.z, y.z, sum[r]);
        sum[r] = fmaf(z.w, y.w, sum[r]);
      }
    }
  }
#pragma unroll
  for (int r = 0; r < ROWS / 8; r++)
    if (row + 8 * r < p.m && first + out < p.n) finish_sum(p, row + 8 * r, first + out, sum[r]);
}

#endif
