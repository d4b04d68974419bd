/* Launching the forward kernels of one width: softmax_width_*.cu, which compile side by side. */
#ifndef DEVICE_CUDA_SOFTMAX_LAUNCH_CUH
#define DEVICE_CUDA_SOFTMAX_LAUNCH_CUH

#include <algorithm>

#include "device/cuda/softmax_forward.cuh"

struct forward_choice {
  bool bf16, split, biased;
};
void softmax_width_64(cuda_gpu *gpu, const forward_call &c, forward_choice how);
void softmax_width_96(cuda_gpu *gpu, const forward_call &c, forward_choice how);
void softmax_width_128(cuda_gpu *gpu, const forward_call &c, forward_choice how);
void softmax_width_192(cuda_gpu *gpu, const forward_call &c, forward_choice how);
void softmax_width_256(cuda_gpu *gpu, const forward_call &c, forward_choice how);

/* Starts before the kernel before it has ended, and waits for it; in a recording, behind it. */
template <class L>
static void launch_join(cuda_gpu *gpu, const forward_call &c) {
  const int64_t threads = (int64_t)c.batch * c.heads * c.n * ((L::DV + 31) / 32 * 32);
  const unsigned blocks = (unsigned)((threads + 127) / 128);
  if (gpu->recording) {
    LAUNCH(gpu, (softmax_join<L>), blocks, 128, 0, c);
    return;
  }
  cudaLaunchConfig_t how = {};
  how.gridDim = dim3(blocks), how.blockDim = dim3(128);
  how.stream = gpu->stream;
  cudaLaunchAttribute early = {};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  how.attrs = &early, how.numAttrs = 1;
  if (!gpu->error) gpu_check(gpu, cudaLaunchKernelEx(&how, softmax_join<L>, c), "softmax_join");
}

template <class L>
static void launch(cuda_gpu *gpu, const forward_call &c) {
  static bool ready[64];
  auto kernel = softmax_forward<L>;
  if (!ready[gpu->index % 64])
    gpu_check(gpu,
              cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, L::bytes),
              "softmax_forward");
  ready[gpu->index % 64] = true;
  LAUNCH(gpu, kernel, std::min(gpu->processors, c.items), 128 * (L::WGS + 1), L::bytes, c);
  if (L::SPLIT) launch_join<L>(gpu, c);
}

template <typename T, int D, int KEYS, int WGS, int STAGES, int SPLIT_STAGES, bool BIASED>
static void launch_either(cuda_gpu *gpu, const forward_call &c, bool split) {
  if (split)
    launch<forward_kind<T, D, D, KEYS, 1, SPLIT_STAGES, true, BIASED>>(gpu, c);
  else
    launch<forward_kind<T, D, D, KEYS, WGS, STAGES, false, BIASED>>(gpu, c);
}

/* WGS, BIASED_WGS: warpgroups of tiles of rows. */
template <int D, int KEYS, int WGS, int BIASED_WGS, int STAGES, int SPLIT_STAGES>
static void launch_width(cuda_gpu *gpu, const forward_call &c, forward_choice how) {
  using B = __nv_bfloat16;
  using H = __half;
  constexpr int S = STAGES, P = SPLIT_STAGES;
  if (how.bf16 && !how.biased) launch_either<B, D, KEYS, WGS, S, P, false>(gpu, c, how.split);
  if (how.bf16 && how.biased) launch_either<B, D, KEYS, BIASED_WGS, S, P, true>(gpu, c, how.split);
  if (!how.bf16 && !how.biased) launch_either<H, D, KEYS, WGS, S, P, false>(gpu, c, how.split);
  if (!how.bf16 && how.biased) launch_either<H, D, KEYS, BIASED_WGS, S, P, true>(gpu, c, how.split);
}

#endif
