/* One GPU: its stream, its errors, launching kernels; shared by every .cu of this directory. */
#ifndef DEVICE_CUDA_GPU_CUH
#define DEVICE_CUDA_GPU_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <math.h>
#include <stdint.h>
#include <tuple>
#include <type_traits>

extern "C" {
#include "device/cuda/cuda.h"
}

struct cuda_recording;

struct cuda_gpu {
  int index, processors;
  int capability; /* 90: Hopper */
  char name[256];
  cudaStream_t stream;
  cudaError_t error; /* the first */
  const char *where; /* it came from */
  /* Host numbers that ops read: copied through pinned memory that is used in turns. */
  unsigned char *staging, *staged; /* host, device */
  size_t at;
  cudaEvent_t half[2]; /* each half of the staging memory was read */
  bool waits[2];
  cuda_recording *recording; /* between record_begin and record_end: graph.cu */
  bool written;              /* perhaps weights, since few rows were multiplied */
  void *scratch;             /* of a call; grows */
  size_t scratch_bytes;
  unsigned *counter; /* [2] on the device, zeros between kernels */
};

static inline void gpu_check(cuda_gpu *gpu, cudaError_t error, const char *where) {
  if (!error || gpu->error) return;
  gpu->error = error;
  gpu->where = where;
}

/* A copy of host numbers on the device, valid for the kernels that are launched next; NULL on error.
 * In a recording the address is that of the last time. */
void *gpu_stage(cuda_gpu *gpu, const void *host, size_t bytes);
/* Memory of the GPU until the next call of this. */
void *gpu_scratch(cuda_gpu *gpu, size_t bytes);

/* A kernel with its arguments, ready to be launched. */
struct gpu_kernel {
  const void *function;
  const char *name;
  bool early;
  dim3 grid, block;
  size_t shared;
  int count;
  void **argument; /* [count] */
  const size_t *size, *align;
};
/* Launches it, or adds it to the recording. */
void gpu_submit(cuda_gpu *gpu, const gpu_kernel &kernel);
/* Launches what a recording holds back: before anything that is not a kernel. */
void gpu_flush(cuda_gpu *gpu);

template <typename... P, typename... A>
void gpu_launch(cuda_gpu *gpu, const char *name, bool early, void (*function)(P...), dim3 grid,
                dim3 block, size_t shared, A &&...given) {
  static_assert(sizeof...(P) == sizeof...(A), "arguments of the kernel");
  constexpr size_t sizes[] = {sizeof(P)..., 0}, aligns[] = {alignof(P)..., 0};
  std::tuple<std::remove_cv_t<P>...> values(static_cast<std::remove_cv_t<P>>(given)...);
  std::apply(
      [&](auto &...value) {
        void *pointers[] = {(void *)&value..., nullptr};
        gpu_submit(gpu, {(const void *)function, name, early, grid, block, shared,
                         (int)sizeof...(P), pointers, sizes, aligns});
      },
      values);
}

#define LAUNCH(gpu, kernel, blocks, threads, shared, ...) \
  gpu_launch(gpu, #kernel, false, kernel, dim3(blocks), dim3(threads), shared, __VA_ARGS__)

/* The kernel may start before the one before it has ended: it calls wait_for_inputs before it reads
 * or writes anything but weights. let_next_start: the next one may be such a kernel. */
#define LAUNCH_EARLY(gpu, kernel, blocks, threads, shared, ...) \
  gpu_launch(gpu, #kernel, true, kernel, dim3(blocks), dim3(threads), shared, __VA_ARGS__)
__device__ inline void wait_for_inputs() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
__device__ inline void let_next_start() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}

/* Blocks of `threads` for n items, a loop over the grid taking the rest. */
static inline unsigned blocks_for(size_t n, int threads) {
  size_t blocks = (n + (size_t)threads - 1) / (size_t)threads;
  return (unsigned)(blocks < 1 ? 1 : blocks > 65535 * 16 ? 65535 * 16 : blocks);
}
#define EACH(i, n)                                                                \
  for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < (size_t)(n); \
       i += (size_t)gridDim.x * blockDim.x)

/* Element i of numbers in any type. */
__device__ inline float element_of(const void *data, attend_dtype dtype, size_t i) {
  if (dtype == ATTEND_F32) return ((const float *)data)[i];
  if (dtype == ATTEND_F16) return __half2float(((const __half *)data)[i]);
  return __bfloat162float(((const __nv_bfloat16 *)data)[i]);
}
__device__ inline void set_element(void *data, attend_dtype dtype, size_t i, float x) {
  if (dtype == ATTEND_F32)
    ((float *)data)[i] = x;
  else if (dtype == ATTEND_F16)
    ((__half *)data)[i] = __float2half_rn(x);
  else
    ((__nv_bfloat16 *)data)[i] = __float2bfloat16_rn(x);
}

/* Sums of a warp and of a block in a fixed order; every thread gets the result. */
template <typename T>
__device__ inline T warp_sum(T x) {
#pragma unroll
  for (int step = 16; step; step /= 2) x += __shfl_xor_sync(~0u, x, step);
  return x;
}
__device__ inline float warp_max(float x) {
#pragma unroll
  for (int step = 16; step; step /= 2) x = fmaxf(x, __shfl_xor_sync(~0u, x, step));
  return x;
}
template <typename T, int WARPS>
__device__ inline T block_sum(T x) {
  __shared__ T part[WARPS];
  x = warp_sum(x);
  __syncthreads();
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = x;
  __syncthreads();
  T sum = 0;
#pragma unroll
  for (int i = 0; i < WARPS; i++) sum += part[i];
  return sum;
}
template <int WARPS>
__device__ inline float block_max(float x) {
  __shared__ float part[WARPS];
  x = warp_max(x);
  __syncthreads();
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = x;
  __syncthreads();
  float max = part[0];
#pragma unroll
  for (int i = 1; i < WARPS; i++) max = fmaxf(max, part[i]);
  return max;
}

#endif
