#include "device/cuda/softmax_launch.cuh"

void softmax_width_256(cuda_gpu *gpu, const forward_call &c, forward_choice how) {
  launch_width<256, 64, 2, 2, 2, 3>(gpu, c, how);
}
