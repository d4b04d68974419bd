/* Products of few rows a, bound by the bytes of b: mma.sync with b as the left operand, 16 of its
 * rows a warp, so that many CTAs stream them. Each warp has a ring of tiles that TMA fills, and waits
 * for nobody; a lies in shared memory. The chain over k is that of gemm.cuh and gives the same bits.
 * int8 is widened to bf16 in registers.
 */
#ifndef DEVICE_CUDA_GEMM_ROWS_CUH
#define DEVICE_CUDA_GEMM_ROWS_CUH

#include "device/cuda/gemm.cuh"

enum {
  ROWS_WARPS = 8,
  ROWS_OUT = 16,
  ROWS_SLAB = ROWS_OUT * SLAB_BYTES,
  ROWS_SLABS = 4, /* of a stage */
  ROWS_STAGE = ROWS_SLABS * ROWS_SLAB
};

struct rows_call {
  CUtensorMap b; /* boxes of 16 rows of 128 bytes */
  cuda_product p;
  int stages, warps; /* of a ring; that multiply */
  int tiles;         /* of 16 rows of b */
  int ld;            /* of a in shared memory, in elements */
};

__device__ inline void mma(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1,
                           __nv_bfloat16) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
__device__ inline void mma(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1,
                           __half) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
/* Four matrices of 8 x 8; lane l has the address of row l % 8 of matrix l / 8. */
__device__ inline void load_matrices(uint32_t (&r)[4], const void *row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(row))
               : "memory");
}

/* Eight numbers of a row of a, or what is left of it and zeros. */
template <typename T>
__device__ inline void load_piece(const cuda_product &p, int row, int k, T (&x)[8]) {
#pragma unroll
  for (int j = 0; j < 8; j++)
    x[j] = (T)(k + j < p.k ? element_of(p.a, p.a_type, row * p.lda + k + j) : 0.f);
}

/* a in shared memory; k past the end is zeros, rows past the end are left as they are: they multiply
 * into results that nobody reads. Copies and loads are under way together. */
template <typename T>
__device__ inline void rows_load(const cuda_product &p, T *to, int ld) {
  const int pieces = ld / 8, count = p.m * pieces;
  const bool aligned = (uintptr_t)p.a % 16 == 0 && p.lda % 8 == 0;
  const bool copied = p.a_type != ATTEND_F32 && aligned;
  enum { BATCH = 4 };
  for (int first = threadIdx.x; first < count; first += BATCH * blockDim.x) {
    float4 y[BATCH][2];
#pragma unroll
    for (int b = 0; b < BATCH; b++) {
      const int i = first + b * blockDim.x, row = i / pieces, k = i % pieces * 8;
      if (i >= count || !aligned || k + 8 > p.k) continue;
      if (copied) {
        asm volatile(
            "cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(to + row * ld + k)),
            "l"((const T *)p.a + row * p.lda + k)
            : "memory");
      } else {
        const float4 *from = (const float4 *)((const float *)p.a + row * p.lda + k);
        y[b][0] = from[0], y[b][1] = from[1];
      }
    }
#pragma unroll
    for (int b = 0; b < BATCH; b++) {
      const int i = first + b * blockDim.x, row = i / pieces, k = i % pieces * 8;
      const bool whole = aligned && k + 8 <= p.k;
      if (i >= count || (copied && whole)) continue;
      T x[8];
      if (whole) {
        const float z[8] = {y[b][0].x, y[b][0].y, y[b][0].z, y[b][0].w,
                            y[b][1].x, y[b][1].y, y[b][1].z, y[b][1].w};
#pragma unroll
        for (int j = 0; j < 8; j++) x[j] = (T)z[j];
      } else {
        load_piece(p, row, k, x);
      }
      *(uint4 *)(to + row * ld + k) = *(const uint4 *)x;
    }
  }
  asm volatile("cp.async.wait_all;" ::: "memory");
}

/* Two bytes as two bf16, exactly: 128 + the lower 7 bits, less 256 or 128, the sign being the bit
 * that makes 128 into 256. */
__device__ inline uint32_t widened(const unsigned char *at) {
  const uint32_t x = __byte_perm(*(const uint16_t *)at, 0, 0x4140);
  const uint32_t number = (x & 0x007f007f) | 0x43004300, sign = (x & 0x00800080) | 0x43004300;
  const __nv_bfloat162 y =
      __hsub2(*(const __nv_bfloat162 *)&number, *(const __nv_bfloat162 *)&sign);
  return *(const uint32_t *)&y;
}

/* 16 columns of k, number i of a tile: the left operand. */
template <typename T, bool INT8>
__device__ inline void rows_fragment(const unsigned char *tile, int i, int lane, uint32_t (&a)[4]) {
  if (INT8) {
    const int row = lane / 4;
    const unsigned char *at = tile + row * SLAB_BYTES + (i ^ row) * 16 + lane % 4 * 2;
    a[0] = widened(at), a[1] = widened(at + 8 * SLAB_BYTES);
    a[2] = widened(at + 8), a[3] = widened(at + 8 * SLAB_BYTES + 8);
  } else {
    const int row = lane % 16;
    load_matrices(a, tile + row * SLAB_BYTES + ((2 * i + lane / 16) ^ row % 8) * 16);
  }
}

/* d += the products of a slab of b with the rows x of a. */
template <typename T, int NT, bool INT8>
__device__ inline void rows_multiply(float (&d)[NT][4], const unsigned char *slab, const T *x,
                                     int ld, int lane) {
#pragma unroll
  for (int i = 0; i < (INT8 ? 8 : 4); i += 2) {
    uint32_t w[2][4];
    rows_fragment<T, INT8>(slab, i, lane, w[0]);
    rows_fragment<T, INT8>(slab, i + 1, lane, w[1]);
#pragma unroll
    for (int j = 0; j < NT; j++) {
      uint32_t b[4];
      load_matrices(b, x + 8 * j * ld + 16 * i);
      mma(d[j], w[0], b[0], b[1], T());
      mma(d[j], w[1], b[2], b[3], T());
    }
  }
}

template <typename T, int NT, bool INT8>
__global__ void __launch_bounds__(32 * ROWS_WARPS)
    gemm_rows_kernel(const __grid_constant__ rows_call c) {
  constexpr int STEP = INT8 ? 128 : 64, ROWS = 8 * NT; /* k of a slab; rows of a */
  extern __shared__ unsigned char raw[];
  unsigned char *memory = (unsigned char *)(((uintptr_t)raw + 1023) & ~(uintptr_t)1023);
  const cuda_product &p = c.p;
  const int warp = __shfl_sync(~0u, (int)threadIdx.x / 32, 0), lane = threadIdx.x % 32;
  unsigned char *ring = memory + warp * c.stages * ROWS_STAGE;
  T *a = (T *)(memory + c.warps * c.stages * ROWS_STAGE);
  float *results = (float *)(a + ROWS * c.ld), *staging = results + warp * ROWS * ROWS_OUT;
  uint64_t *full = (uint64_t *)(results + c.warps * ROWS * ROWS_OUT) + warp * c.stages;
  const int slabs = (p.k + STEP - 1) / STEP, steps = (slabs + ROWS_SLABS - 1) / ROWS_SLABS;
  const int id = blockIdx.x + gridDim.x * warp, stride = gridDim.x * c.warps;
  const int mine = warp < c.warps && id < c.tiles ? (c.tiles - id + stride - 1) / stride : 0;
  const int all = mine * steps;
  int loaded = 0, load_tile = id, load_slab = 0;
  const auto load =
      [&](int stage) { /* the next slabs of b, a lane each */
                       const int count = min((int)ROWS_SLABS, slabs - load_slab);
                       if (lane == 0) barrier_expect(&full[stage], count * ROWS_SLAB);
                       __syncwarp();
                       if (lane < count)
                         tma_load_2d(&c.b, ring + stage * ROWS_STAGE + lane * ROWS_SLAB,
                                     &full[stage], (load_slab + lane) * STEP, load_tile * ROWS_OUT);
                       load_slab += ROWS_SLABS;
                       if (load_slab >= slabs) load_slab = 0, load_tile += stride;
                       loaded++;
      };
  if (mine) {
    for (int s = lane; s < c.stages; s += 32) barrier_init(&full[s], 1);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    fence_shared();
    __syncwarp();
    for (int s = 0; s < c.stages && loaded < all; s++) load(s);
  }
  let_next_start();
  wait_for_inputs(); /* b is under way */
  rows_load<T>(p, a, c.ld);
  __syncthreads();
  int stage = 0, phase = 0;
  for (int t = 0; t < mine; t++) {
    const int column = (id + t * stride) * ROWS_OUT + lane % 16;
    const float scale = p.scale && column < p.n ? p.scale[column] : 1.f;
    const float bias = p.bias && column < p.n ? p.bias[column] : 0.f;
    const T *x = a + lane % 8 * c.ld + lane / 8 * 8;
    float d[NT][4] = {};
    for (int s = 0; s < slabs; s += ROWS_SLABS) {
      const unsigned char *tile = ring + stage * ROWS_STAGE;
      barrier_wait(&full[stage], phase);
      if (s + ROWS_SLABS <= slabs) {
#pragma unroll
        for (int i = 0; i < ROWS_SLABS; i++)
          rows_multiply<T, NT, INT8>(d, tile + i * ROWS_SLAB, x + (s + i) * STEP, c.ld, lane);
      } else {
#pragma unroll 1
        for (int i = 0; i < slabs - s; i++)
          rows_multiply<T, NT, INT8>(d, tile + i * ROWS_SLAB, x + (s + i) * STEP, c.ld, lane);
      }
      __syncwarp();
      if (loaded < all) load(stage);
      if (++stage == c.stages) stage = 0, phase ^= 1;
    }
#pragma unroll
    for (int j = 0; j < NT; j++)
#pragma unroll
      for (int e = 0; e < 4; e++)
        staging[(8 * j + lane % 4 * 2 + e % 2) * ROWS_OUT + lane / 4 + e / 2 * 8] = d[j][e];
    __syncwarp();
#pragma unroll 1
    for (int row = lane / 16; row < min(ROWS, p.m); row += 2) {
      float y = staging[row * ROWS_OUT + lane % 16];
      if (p.scale) y *= scale;
      if (p.bias) y += bias;
      if (column < p.n) finish_one(p, row, column, y);
    }
    __syncwarp();
  }
}

#endif
