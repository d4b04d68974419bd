/* Launching products of few rows. */
#include "device/cuda/gemm_rows.cuh"

#include <algorithm>

enum { MOST_BYTES = 227 << 10, RING_BYTES = 136 << 10 };

template <typename T, int NT, bool INT8>
static bool launch(cuda_gpu *gpu, const cuda_product &p) {
  constexpr int step = INT8 ? 128 : 64, rows = 8 * NT;
  auto kernel = gemm_rows_kernel<T, NT, INT8>;
  rows_call c = {};
  const int slabs = (p.k + step - 1) / step, steps = (slabs + ROWS_SLABS - 1) / ROWS_SLABS;
  c.p = p;
  c.ld = slabs * step + 8;
  c.tiles = (p.n + ROWS_OUT - 1) / ROWS_OUT;
  const int ctas = std::min(gpu->processors, c.tiles);
  c.warps = std::min((int)ROWS_WARPS, (c.tiles + ctas - 1) / ctas);
  const int fixed = rows * c.ld * 2 + c.warps * rows * ROWS_OUT * 4 + 1024;
  const int most = (c.tiles + ctas * c.warps - 1) / (ctas * c.warps) * steps; /* of a warp */
  const int room = std::min(MOST_BYTES - fixed, (int)RING_BYTES);
  c.stages = std::min(room / (c.warps * (ROWS_STAGE + 8)), most);
  if (c.stages < std::min(2, most)) return false;
  const int bytes = fixed + c.warps * c.stages * (ROWS_STAGE + 8);
  c.b = gemm_map(gpu, INT8 ? 1 : 2, p.b, p.k, p.n, p.ldb, ROWS_OUT);
  gpu_check(gpu,
            cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, MOST_BYTES),
            "gemm_rows_kernel");
  if (gpu->written) /* weights that the kernel before may have written */
    LAUNCH(gpu, kernel, ctas, 32 * ROWS_WARPS, bytes, c);
  else
    LAUNCH_EARLY(gpu, kernel, ctas, 32 * ROWS_WARPS, bytes, c);
  gpu->written = false;
  return true;
}

template <typename T, bool INT8>
static bool launch_rows(cuda_gpu *gpu, const cuda_product &p) {
  if (p.m <= 8) return launch<T, 1, INT8>(gpu, p);
  if (p.m <= 16) return launch<T, 2, INT8>(gpu, p);
  if (p.m <= 32) return launch<T, 4, INT8>(gpu, p);
  return launch<T, 8, INT8>(gpu, p);
}

bool gemm_rows(cuda_gpu *gpu, const cuda_product &p) {
  if (p.m > 64 || p.a_columns || p.b_columns || p.split) return false;
  if (p.a_type != ATTEND_F32 && p.a_type != p.type) return false;
  if (p.b_type != p.type && !p.b_int8) return false;
  if (!gemm_fits_tma(p.b, p.b_int8 ? 1 : 2, p.ldb)) return false;
  if (p.type == ATTEND_F16) return p.b_int8 ? false : launch_rows<__half, false>(gpu, p);
  return p.b_int8 ? launch_rows<__nv_bfloat16, true>(gpu, p)
                  : launch_rows<__nv_bfloat16, false>(gpu, p);
}
