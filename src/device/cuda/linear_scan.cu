/* Launching linear_elu.cuh and linear_favor.cuh. */
#include "device/cuda/linear_elu_backward.cuh"
#include "device/cuda/linear_favor.cuh"

static bool rows16(const attend_view &v) {
  return v.stride[3] == 1 && (uintptr_t)v.data % 16 == 0 && v.stride[0] % 8 == 0 &&
         v.stride[1] % 8 == 0 && v.stride[2] % 8 == 0;
}

bool linear_scan_fits(const linear_call &c, attend_dtype dtype) {
  const bool favor = c.map.kind == CUDA_MAP_POSITIVE && c.map.dirs == FAVOR_DIRS && !c.map.pairs;
  return (favor || c.map.kind == CUDA_MAP_ELU) && dtype == ATTEND_BF16 && c.dim == 64 &&
         c.dim_v == 64 && c.causal && !c.state && rows16(c.q) && rows16(c.k) && rows16(c.v) &&
         rows16(c.o);
}

static void allow(cuda_gpu *gpu, const void *kernel, int shared) {
  gpu_check(gpu, cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared),
            "linear attention");
}

void linear_scan_forward(cuda_gpu *gpu, linear_call &c, int64_t chunks) {
  enum { STAGES = 3, ELU_SUMS = STAGES * 2 * SCAN_TILE + 1024 };
  const int elu = sizeof(elu_memory) + 1024, favor = sizeof(favor_memory) + 1024;
  const unsigned supers = (unsigned)((chunks + SUPER - 1) / SUPER), stacks = c.batch * c.kv_heads;
  const int floats = c.shifts ? (int)FAVOR_FLOATS : (int)PART;
  const dim3 sums(supers - 1, stacks), rows(supers, c.batch * c.heads);
  c.wave = supers;
  allow(gpu, (const void *)elu_sums<STAGES>, ELU_SUMS);
  allow(gpu, (const void *)elu_rows, elu);
  allow(gpu, (const void *)favor_sums, favor);
  allow(gpu, (const void *)favor_rows, favor);
  if (supers > 1 && c.shifts) LAUNCH(gpu, favor_sums, sums, 256, favor, c);
  if (supers > 1 && !c.shifts) LAUNCH(gpu, elu_sums<STAGES>, sums, 128, ELU_SUMS, c);
  LAUNCH(gpu, scan_prefix, dim3((floats + 255) / 256, stacks), 256, 0, c, floats);
  if (c.shifts)
    LAUNCH(gpu, favor_rows, rows, 384, favor, c);
  else
    LAUNCH(gpu, elu_rows, rows, 256, elu, c);
}

/* ---- backward -------------------------------------------------------------------------- */

bool linear_scan_fits_backward(const linear_call &c, attend_dtype dtype,
                               const linear_sequence *host) {
  bool from_start = c.map.kind == CUDA_MAP_ELU && c.group == 1 && c.n == c.real_stride;
  for (int b = 0; b < c.batch; b++) from_start = from_start && host[b].position == 0;
  return from_start && linear_scan_fits(c, dtype) && rows16(c.d_o) && rows16(c.dq) &&
         rows16(c.dk) && rows16(c.dv);
}

void linear_scan_backward(cuda_gpu *gpu, linear_call &c) {
  enum { STAGES = 3 };
  const int sums = STAGES * 2 * SCAN_TILE + 1024, dq = sizeof(elu_dq_memory) + 1024;
  const int row_sums = sizeof(elu_row_sums_memory<STAGES>) + 1024;
  const int dkv = sizeof(elu_dkv_memory) + 1024;
  const unsigned supers = (unsigned)((c.n + CHUNK * SUPER - 1) / (CHUNK * SUPER));
  const unsigned stacks = c.batch * c.heads;
  c.wave = supers;
  allow(gpu, (const void *)elu_sums<STAGES>, sums);
  allow(gpu, (const void *)elu_dq, dq);
  allow(gpu, (const void *)elu_row_sums<STAGES>, row_sums);
  allow(gpu, (const void *)elu_dk_dv, dkv);
  if (supers > 1) LAUNCH(gpu, elu_sums<STAGES>, dim3(supers - 1, stacks), 128, sums, c);
  LAUNCH(gpu, scan_prefix, dim3((PART + 255) / 256, stacks), 256, 0, c, (int)PART);
  LAUNCH(gpu, elu_dq, dim3(supers, stacks), 256, dq, c);
  if (supers > 1)
    LAUNCH(gpu, elu_row_sums<STAGES>, dim3(supers - 1, stacks), 128, row_sums, c, (int)supers);
  LAUNCH(gpu, scan_prefix_rows, dim3((PART + 255) / 256, stacks), 256, 0, c, (int)supers);
  LAUNCH(gpu, elu_dk_dv, dim3(supers, stacks), 256, dkv, c, (int)supers);
}
