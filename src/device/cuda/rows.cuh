/* Rows of f32 or bf16. A thread moves a piece of N neighbours at a time: PIECE where rows are whole
 * pieces that lie on 16 bytes, else 1. */
#ifndef DEVICE_CUDA_ROWS_CUH
#define DEVICE_CUDA_ROWS_CUH

#include "device/cuda/gpu.cuh"

enum { PIECE = 8, THREADS = 256 };

template <int N>
__device__ inline void get(const void *data, attend_dtype type, size_t i, float (&x)[N]) {
  if constexpr (N == 1) {
    x[0] = element_of(data, type, i);
  } else if (type == ATTEND_F32) {
    const float4 *from = (const float4 *)((const float *)data + i);
    const float4 a = from[0], b = from[1];
    x[0] = a.x, x[1] = a.y, x[2] = a.z, x[3] = a.w;
    x[4] = b.x, x[5] = b.y, x[6] = b.z, x[7] = b.w;
  } else {
    const uint4 a = *(const uint4 *)((const __nv_bfloat16 *)data + i);
    const uint32_t pair[4] = {a.x, a.y, a.z, a.w};
#pragma unroll
    for (int k = 0; k < 4; k++) {
      x[2 * k] = __uint_as_float(pair[k] << 16);
      x[2 * k + 1] = __uint_as_float(pair[k] & 0xffff0000u);
    }
  }
}

__device__ inline uint32_t pair_of(float a, float b) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(a, b);
  return *(const uint32_t *)&pair;
}

template <int N>
__device__ inline void put(void *data, attend_dtype type, size_t i, const float (&x)[N]) {
  if constexpr (N == 1) {
    set_element(data, type, i, x[0]);
  } else if (type == ATTEND_F32) {
    float4 *to = (float4 *)((float *)data + i);
    to[0] = make_float4(x[0], x[1], x[2], x[3]);
    to[1] = make_float4(x[4], x[5], x[6], x[7]);
  } else {
    *(uint4 *)((__nv_bfloat16 *)data + i) = make_uint4(pair_of(x[0], x[1]), pair_of(x[2], x[3]),
                                                       pair_of(x[4], x[5]), pair_of(x[6], x[7]));
  }
}

/* Pieces of rows x width: row r, from column j on. */
#define EACH_PIECE(N, r, j, rows, width)                                                       \
  EACH(at_##r, (size_t)(rows) * (size_t)((width) / N))                                         \
  if (const size_t r =                                                                         \
          N > 1 ? (uint32_t)at_##r / (uint32_t)((width) / N) : at_##r / (size_t)((width) / N), \
      j = N * (at_##r - r * (size_t)((width) / N));                                            \
      true)

/* Whether rows that are ld apart begin on 16 bytes; NULL does. */
static inline bool on_pieces(const void *data, int ld, attend_dtype type) {
  const size_t size = type == ATTEND_F32 ? 4 : 2;
  return !data || (((uintptr_t)data | ((size_t)ld * size)) & 15) == 0;
}

/* Launches one of two kernels on rows x width: by whole pieces, or element by element. */
#define LAUNCH_EITHER(gpu, pieces, elements, whole, rows, width, ...)                    \
  do {                                                                                   \
    const size_t count_ = (size_t)(rows) * (size_t)(width);                              \
    if (!count_) break;                                                                  \
    if ((whole) && (width) % PIECE == 0 && count_ / PIECE < (size_t)1 << 32)             \
      LAUNCH(gpu, pieces, blocks_for(count_ / PIECE, THREADS), THREADS, 0, __VA_ARGS__); \
    else                                                                                 \
      LAUNCH(gpu, elements, blocks_for(count_, THREADS), THREADS, 0, __VA_ARGS__);       \
  } while (0)
#define LAUNCH_PIECES(gpu, name, whole, rows, width, ...) \
  LAUNCH_EITHER(gpu, name##_kernel<PIECE>, name##_kernel<1>, whole, rows, width, __VA_ARGS__)

#endif
