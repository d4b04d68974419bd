/* Launching products in f32. */
#include "device/cuda/gemm_plain.cuh"

#include <algorithm>

static bool aligned(const void *x, int64_t ld) { return (uintptr_t)x % 16 == 0 && ld % 4 == 0; }

template <int ROWS>
static void launch_few(cuda_gpu *gpu, const cuda_product &p) {
  constexpr int bytes = FEW_STAGES * (FEW_OUT + ROWS) * FEW_LD * (int)sizeof(float);
  auto kernel = gemm_few_kernel<ROWS>;
  gpu_check(gpu, cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes),
            "gemm_few_kernel");
  LAUNCH(gpu, kernel, (p.n + FEW_OUT - 1) / FEW_OUT, FEW_THREADS, bytes, p);
}

template <bool TA, bool TB>
static void launch(cuda_gpu *gpu, const plain_call &c) {
  const dim3 grid((c.p.n + PLAIN - 1) / PLAIN, (c.p.m + PLAIN - 1) / PLAIN, c.splits);
  LAUNCH(gpu, (gemm_plain_kernel<TA, TB>), grid, PLAIN_THREADS, 0, c);
}

/* Chunks of k: enough for all multiprocessors to have work, and to end together. */
static int splits_of(const cuda_gpu *gpu, const cuda_product &p) {
  const int64_t tiles = (int64_t)((p.n + PLAIN - 1) / PLAIN) * ((p.m + PLAIN - 1) / PLAIN);
  const int64_t wanted = 8 * gpu->processors / std::max(tiles, (int64_t)1);
  return p.split ? (int)std::max((int64_t)1, std::min(wanted, (int64_t)p.k / 512)) : 1;
}

void gemm_plain(cuda_gpu *gpu, const cuda_product &call) {
  cuda_product p = call;
  gemm_operand a = gemm_operand_of(p.type, p.a_type, false, p.a, p.lda, p.m, p.k, p.a_columns);
  gemm_operand b = gemm_operand_of(p.type, p.b_type, p.b_int8, p.b, p.ldb, p.n, p.k, p.b_columns);
  int splits = splits_of(gpu, p);
  const int depth = ((p.k + splits - 1) / splits + PLAIN_K - 1) / PLAIN_K * PLAIN_K;
  splits = (p.k + depth - 1) / depth;
  const size_t parts = splits > 1 ? (size_t)splits * p.m * p.n * sizeof(float) : 0;
  unsigned char *scratch = NULL;
  if (a.bytes || b.bytes || parts) {
    scratch = (unsigned char *)gpu_scratch(gpu, a.bytes + b.bytes + parts);
    if (!scratch) return;
  }
  float *part = (float *)gemm_align(gpu, p.type, b, gemm_align(gpu, p.type, a, scratch));
  p.a = a.data, p.lda = a.ld, p.b = b.data, p.ldb = b.ld;
  const bool a_aligned = aligned(p.a, p.lda), b_aligned = aligned(p.b, p.ldb);
  if (p.m <= 32 && !p.a_columns && !p.b_columns && a_aligned && b_aligned && p.k % 4 == 0) {
    if (p.m <= 8) return launch_few<8>(gpu, p);
    return p.m <= 16 ? launch_few<16>(gpu, p) : launch_few<32>(gpu, p);
  }
  plain_call c = {p, splits, depth, a_aligned, b_aligned};
  if (parts) c.p.c = part, c.p.ldc = p.n, c.p.add = false;
  if (p.a_columns)
    p.b_columns ? launch<true, true>(gpu, c) : launch<true, false>(gpu, c);
  else
    p.b_columns ? launch<false, true>(gpu, c) : launch<false, false>(gpu, c);
  if (parts) gemm_join(gpu, p, part, p.n, splits);
}
