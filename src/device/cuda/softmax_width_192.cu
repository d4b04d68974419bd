#include "device/cuda/softmax_launch.cuh"

void softmax_width_192(cuda_gpu *gpu, const forward_call &c, forward_choice how) {
  launch_width<192, 64, 2, 2, 2, 4>(gpu, c, how);
}
