#include "device/cuda/softmax_launch.cuh"

void softmax_width_64(cuda_gpu *gpu, const forward_call &c, forward_choice how) {
  launch_width<64, 128, 3, 2, 2, 6>(gpu, c, how);
}
