/* What the kernels rely on: a row and a column get the same bits from every tensor core instruction,
 * whatever its shape, operands in shared memory or registers, and roles; and from no other order.
 */
#include "device/cuda/hopper.cuh"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEPTH = 768, ROWS = 64, COLUMNS = 8, VARIANTS = 4, SIZE = ROWS * COLUMNS };
typedef __nv_bfloat16 bf16;

/* Element (row, k) of slabs of `rows` rows, swizzled. */
__device__ static void put(unsigned char *tile, int rows, int row, int k, bf16 x) {
  const int column = k % SLAB;
  *(bf16 *)(tile + (k / SLAB * rows + row) * SLAB_BYTES + ((column / 8) ^ (row % 8)) * 16 +
            column % 8 * 2) = x;
}

__device__ static void mma(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

/* Two neighbours of row `row`, k and k + 1. */
__device__ static uint32_t pair_at(const bf16 *x, int row, int k) {
  return *(const uint32_t *)&x[row * DEPTH + k];
}

/* out[VARIANTS][ROWS][COLUMNS] = a b^T; a [ROWS][DEPTH], b [ROWS][DEPTH], of which COLUMNS rows. */
__global__ void products(const bf16 *a, const bf16 *b, float *out) {
  extern __shared__ unsigned char raw[];
  unsigned char *a_tile = (unsigned char *)(((uintptr_t)raw + 1023) & ~(uintptr_t)1023);
  unsigned char *b_tile = a_tile + ROWS * DEPTH * 2;
  const int t = threadIdx.x, warp = t / 32, lane = t % 32;
  const int row = 16 * warp + lane / 4, column = 2 * (lane % 4);
  float d[32], e[4] = {}, f[2][4] = {};
  for (int i = t; i < ROWS * DEPTH; i += 128) {
    put(a_tile, ROWS, i / DEPTH, i % DEPTH, a[i]);
    put(b_tile, ROWS, i / DEPTH, i % DEPTH, b[i]);
  }
  fence_shared();
  __syncthreads();
  wgmma_begin();
  for (int i = 0; i < DEPTH / 16; i++) {
    const uint64_t at = (uint64_t)(i / 4 * ROWS * SLAB_BYTES + i % 4 * 32) >> 4;
    wgmma<bf16, 64>::of_shared(d, operand_rows(a_tile) + at, operand_rows(b_tile) + at, i > 0);
  }
  wgmma_commit();
  wgmma_wait<0>();
  wgmma_hold(d);
  for (int i = 0; i < 4; i++) out[(row + 8 * (i / 2)) * COLUMNS + column + i % 2] = d[i];
  __syncthreads(); /* values: the rows of b are k */
  for (int i = t; i < ROWS * DEPTH; i += 128) put(b_tile, DEPTH, i % DEPTH, i / DEPTH, b[i]);
  fence_shared();
  __syncthreads();
  for (int i = 0; i < DEPTH / 16; i++) {
    const int k = 16 * i + column;
    const uint32_t part[4] = {pair_at(a, row, k), pair_at(a, row + 8, k), pair_at(a, row, k + 8),
                              pair_at(a, row + 8, k + 8)};
    wgmma_begin();
    wgmma<bf16, 64>::of_registers(
        d, part, operand_columns(b_tile, DEPTH * SLAB_BYTES) + (i * 16 * SLAB_BYTES >> 4), i > 0);
    wgmma_commit();
    wgmma_wait<0>();
    wgmma_hold(d);
  }
  for (int i = 0; i < 4; i++) out[SIZE + (row + 8 * (i / 2)) * COLUMNS + column + i % 2] = d[i];
  for (int i = 0; i < DEPTH / 16; i++) { /* mma.sync, then with the roles exchanged */
    const int k = 16 * i + column, c = lane / 4;
    const uint32_t columns[2] = {pair_at(b, c, k), pair_at(b, c, k + 8)};
    mma(e,
        {pair_at(a, row, k), pair_at(a, row + 8, k), pair_at(a, row, k + 8),
         pair_at(a, row + 8, k + 8)},
        columns);
    for (int half = 0; half < 2; half++)
      mma(f[half], {columns[0], 0, columns[1], 0},
          {pair_at(a, 16 * warp + 8 * half + c, k), pair_at(a, 16 * warp + 8 * half + c, k + 8)});
  }
  for (int i = 0; i < 4; i++) out[2 * SIZE + (row + 8 * (i / 2)) * COLUMNS + column + i % 2] = e[i];
  for (int i = 0; i < 4; i++)
    out[3 * SIZE + (16 * warp + 8 * (i / 2) + column + i % 2) * COLUMNS + lane / 4] =
        f[i / 2][i % 2];
}

int main() {
  static const char *const names[] = {"wgmma, operands in shared memory", "wgmma, A in registers",
                                      "mma.sync", "mma.sync, roles exchanged"};
  static bf16 a[ROWS * DEPTH], b[ROWS * DEPTH];
  static float out[VARIANTS * SIZE];
  const int bytes = 2 * ROWS * DEPTH * 2 + 1024;
  bf16 *da, *db;
  float *d_out;
  int failed = 0;
  for (int i = 0; i < ROWS * DEPTH; i++) {
    a[i] = __float2bfloat16((float)rand() / (float)RAND_MAX - 0.5f);
    b[i] = __float2bfloat16((float)rand() / (float)RAND_MAX - 0.5f);
  }
  cudaMalloc(&da, sizeof a), cudaMalloc(&db, sizeof b), cudaMalloc(&d_out, sizeof out);
  cudaMemcpy(da, a, sizeof a, cudaMemcpyHostToDevice);
  cudaMemcpy(db, b, sizeof b, cudaMemcpyHostToDevice);
  cudaFuncSetAttribute(products, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  products<<<1, 128, bytes>>>(da, db, d_out);
  cudaError_t e = cudaMemcpy(out, d_out, sizeof out, cudaMemcpyDeviceToHost);
  if (e) {
    printf("no GPU: %s\n0 passed, 1 failed\n", cudaGetErrorString(e));
    return 1;
  }
  for (int v = 0; v < VARIANTS; v++) {
    bool bad = memcmp(out, out + v * SIZE, sizeof(float) * SIZE) != 0;
    for (int i = 0; i < SIZE && !v; i++) {
      double sum = 0;
      for (int k = 0; k < DEPTH; k++)
        sum += (double)__bfloat162float(a[i / COLUMNS * DEPTH + k]) *
               (double)__bfloat162float(b[i % COLUMNS * DEPTH + k]);
      if (!(sum - out[i] < 1e-4 && out[i] - sum < 1e-4)) bad = true;
    }
    if (bad) printf("FAILED %s\n", names[v]);
    failed += bad;
  }
  printf("%d passed, %d failed\n", VARIANTS - failed, failed);
  return failed > 0;
}
