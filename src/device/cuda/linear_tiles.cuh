/* Products of 64-row tiles in shared memory, for the linear forms. A CTA has four warps of 16 rows;
 * results lie in registers as mma.sync m16n8 leaves them: register 4 j + i of thread t of a warp has
 * row t / 4 + 8 (i / 2) and column 8 j + 2 (t % 4) + i % 2.
 *
 * E is float: chains of fma in the order of k; or bf16: tensor cores, 16 of k at a time.
 */
#ifndef DEVICE_CUDA_LINEAR_TILES_CUH
#define DEVICE_CUDA_LINEAR_TILES_CUH

#include "device/cuda/gpu.cuh"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

typedef __nv_bfloat16 bf16;

__device__ inline float number(float x) { return x; }
__device__ inline float number(bf16 x) { return __bfloat162float(x); }
__device__ inline float number(__half x) { return __half2float(x); }
template <typename E>
__device__ inline E narrow(float x);
template <>
__device__ inline float narrow<float>(float x) {
  return x;
}
template <>
__device__ inline bf16 narrow<bf16>(float x) {
  return __float2bfloat16_rn(x);
}
template <>
__device__ inline __half narrow<__half>(float x) {
  return __float2half_rn(x);
}

/* Padding of rows in shared memory, against bank conflicts. */
template <typename E>
struct padding {
  static constexpr int elements = sizeof(E) == 4 ? 4 : 8;
};

/* ---- tensor cores -------------------------------------------------------------------- */

__device__ inline void mma16(float *d, const uint32_t *a, uint32_t b0, uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
template <bool TRANSPOSED>
__device__ inline void load4(uint32_t (&r)[4], const bf16 *p) {
  const uint32_t at = (uint32_t)__cvta_generic_to_shared(p);
  if (TRANSPOSED)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(at)
                 : "memory");
  else
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(at)
                 : "memory");
}

/* A 16 x 16 from rows [m][k], or from [k][m]. */
__device__ inline void load_a(uint32_t (&a)[4], const bf16 *x, int ld, int m, int k) {
  const int l = threadIdx.x % 32;
  load4<false>(a, x + (m + l % 16) * ld + k + l / 16 * 8);
}
__device__ inline void load_a_columns(uint32_t (&a)[4], const bf16 *x, int ld, int m, int k) {
  const int l = threadIdx.x % 32;
  load4<true>(a, x + (k + l % 8 + l / 16 * 8) * ld + m + l / 8 % 2 * 8);
}
/* B 16 x 16: two tiles of eight columns, b[0], b[1] and b[2], b[3]; from [n][k], or from [k][n]. */
__device__ inline void load_b(uint32_t (&b)[4], const bf16 *x, int ld, int n, int k) {
  const int l = threadIdx.x % 32;
  load4<false>(b, x + (n + l % 8 + l / 16 * 8) * ld + k + l / 8 % 2 * 8);
}
__device__ inline void load_b_columns(uint32_t (&b)[4], const bf16 *x, int ld, int n, int k) {
  const int l = threadIdx.x % 32;
  load4<true>(b, x + (k + l % 16) * ld + n + l / 16 * 8);
}

/* d (+)= A B of 16 of k. The last eight columns of N = 16 i + 8 load past their end: rows have
 * padding for it. */
template <int N, bool B_ROWS>
__device__ inline void multiply16(float (&d)[N / 2], const uint32_t (&a)[4], const bf16 *b, int ldb,
                                  int k) {
#pragma unroll
  for (int n = 0; n < N; n += 16) {
    uint32_t x[4];
    if (B_ROWS)
      load_b(x, b, ldb, n, k);
    else
      load_b_columns(x, b, ldb, n, k);
    mma16(d + n / 2, a, x[0], x[1]);
    if (n + 8 < N) mma16(d + n / 2 + 4, a, x[2], x[3]);
  }
}

/* ---- products ------------------------------------------------------------------------ */

/* d += A B over k < K, K a multiple of 16. A [64][K] in rows; B [N][K] in rows. */
template <int N>
__device__ inline void product_rows(float (&d)[N / 2], const bf16 *a, int lda, const bf16 *b,
                                    int ldb, int K) {
  const int m = threadIdx.x / 32 * 16;
  for (int k = 0; k < K; k += 16) {
    uint32_t x[4];
    load_a(x, a, lda, m, k);
    multiply16<N, true>(d, x, b, ldb, k);
  }
}
/* B [K][N]. */
template <int N>
__device__ inline void product_columns(float (&d)[N / 2], const bf16 *a, int lda, const bf16 *b,
                                       int ldb, int K) {
  const int m = threadIdx.x / 32 * 16;
  for (int k = 0; k < K; k += 16) {
    uint32_t x[4];
    load_a(x, a, lda, m, k);
    multiply16<N, false>(d, x, b, ldb, k);
  }
}
/* A stored [K][64], B [K][N]. */
template <int N>
__device__ inline void product_transposed(float (&d)[N / 2], const bf16 *a, int lda, const bf16 *b,
                                          int ldb, int K) {
  const int m = threadIdx.x / 32 * 16;
  for (int k = 0; k < K; k += 16) {
    uint32_t x[4];
    load_a_columns(x, a, lda, m, k);
    multiply16<N, false>(d, x, b, ldb, k);
  }
}

/* ---- the same in f32 ----------------------------------------------------------------- */

__device__ inline void fma4(float *d, float a0, float a1, float b0, float b1) {
  d[0] = fmaf(a0, b0, d[0]), d[1] = fmaf(a0, b1, d[1]);
  d[2] = fmaf(a1, b0, d[2]), d[3] = fmaf(a1, b1, d[3]);
}

template <int N>
__device__ inline void product_rows(float (&d)[N / 2], const float *a, int lda, const float *b,
                                    int ldb, int K) {
  const int t = threadIdx.x % 32, m = threadIdx.x / 32 * 16 + t / 4;
  for (int k = 0; k < K; k += 4) {
    const float4 x = *(const float4 *)(a + m * lda + k),
                 y = *(const float4 *)(a + (m + 8) * lda + k);
#pragma unroll
    for (int j = 0; j < N / 8; j++) {
      const float *row = b + (8 * j + t % 4 * 2) * ldb + k;
      const float4 u = *(const float4 *)row, v = *(const float4 *)(row + ldb);
      fma4(d + 4 * j, x.x, y.x, u.x, v.x);
      fma4(d + 4 * j, x.y, y.y, u.y, v.y);
      fma4(d + 4 * j, x.z, y.z, u.z, v.z);
      fma4(d + 4 * j, x.w, y.w, u.w, v.w);
    }
  }
}
template <int N>
__device__ inline void product_columns(float (&d)[N / 2], const float *a, int lda, const float *b,
                                       int ldb, int K) {
  const int t = threadIdx.x % 32, m = threadIdx.x / 32 * 16 + t / 4;
  for (int k = 0; k < K; k++) {
    const float x = a[m * lda + k], y = a[(m + 8) * lda + k];
#pragma unroll
    for (int j = 0; j < N / 8; j++) {
      const float2 u = *(const float2 *)(b + k * ldb + 8 * j + t % 4 * 2);
      fma4(d + 4 * j, x, y, u.x, u.y);
    }
  }
}
template <int N>
__device__ inline void product_transposed(float (&d)[N / 2], const float *a, int lda,
                                          const float *b, int ldb, int K) {
  const int t = threadIdx.x % 32, m = threadIdx.x / 32 * 16 + t / 4;
  for (int k = 0; k < K; k++) {
    const float x = a[k * lda + m], y = a[k * lda + m + 8];
#pragma unroll
    for (int j = 0; j < N / 8; j++) {
      const float2 u = *(const float2 *)(b + k * ldb + 8 * j + t % 4 * 2);
      fma4(d + 4 * j, x, y, u.x, u.y);
    }
  }
}

/* Registers to rows of shared memory, each pair of columns through f(row, column, value). */
template <int N, typename F>
__device__ inline void each_of(const float (&d)[N], F f) {
  const int t = threadIdx.x % 32, m = threadIdx.x / 32 * 16 + t / 4;
#pragma unroll
  for (int i = 0; i < N; i++) f(m + i / 2 % 2 * 8, i / 4 * 8 + t % 4 * 2 + i % 2, d[i]);
}
/* The largest or the sum of a row whose parts four neighbouring threads have. */
__device__ inline float quad_max(float x) {
  x = fmaxf(x, __shfl_xor_sync(~0u, x, 1));
  return fmaxf(x, __shfl_xor_sync(~0u, x, 2));
}
__device__ inline float quad_sum(float x) {
  x += __shfl_xor_sync(~0u, x, 1);
  return x + __shfl_xor_sync(~0u, x, 2);
}

#endif
