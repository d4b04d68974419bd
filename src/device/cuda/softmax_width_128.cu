#include "device/cuda/softmax_launch.cuh"

void softmax_width_128(cuda_gpu *gpu, const forward_call &c, forward_choice how) {
  launch_width<128, 128, 2, 2, 2, 3>(gpu, c, how);
}
