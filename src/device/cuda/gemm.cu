/* Launching products on tensor cores: operands that TMA can read, the tile, chunks of k. */
#include "device/cuda/gemm.cuh"
#include "device/cuda/tensor_map.cuh"

#include <algorithm>

/* ---- operands -------------------------------------------------------------------------- */

/* bf16 and f16 are moved alike. */
CUtensorMap gemm_map(cuda_gpu *gpu, int size, const void *x, int width, int length, int64_t ld,
                     int rows, int parts) {
  CUtensorMap map = {};
  const cuuint64_t shape[3] = {(cuuint64_t)width, (cuuint64_t)length, (cuuint64_t)parts};
  const cuuint64_t stride[2] = {(cuuint64_t)ld * size, (cuuint64_t)ld * size * length};
  const cuuint32_t box[3] = {(cuuint32_t)(SLAB_BYTES / size), (cuuint32_t)rows, 1};
  const cuuint32_t dense[3] = {1, 1, 1};
  static const encode_tiled encode = encoder();
  const CUtensorMapDataType to = size == 4   ? CU_TENSOR_MAP_DATA_TYPE_FLOAT32
                                 : size == 2 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16
                                             : CU_TENSOR_MAP_DATA_TYPE_UINT8;
  if (!encode || encode(&map, to, parts ? 3 : 2, (void *)x, shape, stride, box, dense,
                        CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                        CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE))
    gpu_check(gpu, cudaErrorInvalidValue, "cuTensorMapEncodeTiled");
  return map;
}

template <typename X>
struct alignas(sizeof(X) == 1 ? 8 : 16) gemm_eight {
  X x[8];
};

/* Rows of numbers as TMA wants them, `ldy` being whole pieces of 8; `aligned`: so are x's rows. */
template <typename X, typename Y>
__global__ void gemm_convert_kernel(const X *x, int rows, int width, int64_t ld, bool aligned, Y *y,
                                    int64_t ldy) {
  EACH(i, (size_t)rows * (ldy / 8)) {
    const int64_t r = (int64_t)(i / (ldy / 8)), j = (int64_t)(i % (ldy / 8)) * 8;
    const X *from = x + r * ld + j;
    gemm_eight<X> in;
    gemm_eight<Y> out;
    if (aligned && j + 8 <= width)
      in = *(const gemm_eight<X> *)from;
    else
#pragma unroll
      for (int k = 0; k < 8; k++) in.x[k] = j + k < width ? from[k] : X(0);
#pragma unroll
    for (int k = 0; k < 8; k++) out.x[k] = (Y)(float)in.x[k];
    *(gemm_eight<Y> *)(y + r * ldy + j) = out;
  }
}

gemm_operand gemm_operand_of(attend_dtype to, attend_dtype from, bool int8, const void *x,
                             int64_t ld, int outer, int k, bool columns) {
  gemm_operand o = {x, ld, columns ? k : outer, columns ? outer : k, from, int8, 0};
  const int size = to == ATTEND_F32 ? 4 : 2;
  if (int8 || from != to || (size == 2 && !gemm_fits_tma(x, 2, ld)))
    o.bytes = ((size_t)o.rows * ((o.width + 7) / 8 * 8) * size + 255) / 256 * 256;
  return o;
}

template <typename X, typename Y>
static void convert(cuda_gpu *gpu, const gemm_operand &o, Y *y, int64_t ldy) {
  const size_t whole = 8 * sizeof(X) < 16 ? 8 * sizeof(X) : 16;
  const bool aligned = (uintptr_t)o.data % whole == 0 && o.ld * sizeof(X) % whole == 0;
  LAUNCH(gpu, (gemm_convert_kernel<X, Y>), blocks_for((size_t)o.rows * (ldy / 8), 256), 256, 0,
         (const X *)o.data, o.rows, o.width, o.ld, aligned, y, ldy);
}
template <typename Y>
static void convert_to(cuda_gpu *gpu, const gemm_operand &o, Y *y, int64_t ldy) {
  if (o.int8) return convert<int8_t>(gpu, o, y, ldy);
  if (o.type == ATTEND_F32) return convert<float>(gpu, o, y, ldy);
  if (o.type == ATTEND_F16) return convert<__half>(gpu, o, y, ldy);
  convert<__nv_bfloat16>(gpu, o, y, ldy);
}

unsigned char *gemm_align(cuda_gpu *gpu, attend_dtype to, gemm_operand &o, unsigned char *scratch) {
  if (!o.bytes) return scratch;
  const int64_t ld = (o.width + 7) / 8 * 8;
  if (to == ATTEND_F32) convert_to(gpu, o, (float *)scratch, ld);
  if (to == ATTEND_F16) convert_to(gpu, o, (__half *)scratch, ld);
  if (to == ATTEND_BF16) convert_to(gpu, o, (__nv_bfloat16 *)scratch, ld);
  o.data = scratch, o.ld = ld;
  return scratch + o.bytes;
}

/* ---- tiles ----------------------------------------------------------------------------- */

/* A shape of tiles, and the cycles that a tile takes for 64 of k and behind its last one. */
struct gemm_shape {
  int rows, columns, cluster, cycles, after;
};
enum { SHAPES = 4, SHAPES_F16 = 2 };
static const gemm_shape shapes[SHAPES] = {{128, 256, 2, 1060, 6000},
                                          {64, 64, 1, 240, 1500},
                                          {128, 128, 2, 560, 4000},
                                          {128, 256, 1, 1100, 5000}};

struct gemm_plan {
  int shape, splits, steps;
};

/* The shape and the number of chunks that should take least time. */
static gemm_plan plan_of(const cuda_gpu *gpu, const cuda_product &p) {
  const int all = std::max(1, (p.k + SLAB - 1) / SLAB);
  gemm_plan best = {0, 1, all};
  double least = INFINITY;
  for (int s = 0; s < (p.type == ATTEND_BF16 ? SHAPES : SHAPES_F16); s++) {
    const gemm_shape &h = shapes[s];
    const double tiles = (double)((p.m + h.rows * h.cluster - 1) / (h.rows * h.cluster)) *
                         h.cluster * ((p.n + h.columns - 1) / h.columns);
    for (int splits = 1; splits <= (p.split ? 32 : 1); splits++) {
      const int steps = (all + splits - 1) / splits, real = (all + steps - 1) / steps;
      if (real != splits) continue;
      const double rounds = ceil(tiles * splits / gpu->processors);
      double cycles = rounds * ((double)h.cycles * steps + h.after);
      if (splits > 1) cycles += 4000 + (double)p.m * p.n * (splits + 2) * 4 / 2000;
      if (cycles < least) least = cycles, best = {s, splits, steps};
    }
  }
  return best;
}

template <typename T, int WGS, int BN, int STAGES, int CLUSTER, bool TA, bool TB>
static void launch(cuda_gpu *gpu, gemm_call &c, const gemm_operand &a, const gemm_operand &b) {
  using L = gemm_layout<WGS, BN, STAGES>;
  auto kernel = gemm_kernel<T, WGS, BN, STAGES, CLUSTER, TA, TB>;
  const cuda_product &p = c.p;
  c.a = gemm_map(gpu, 2, a.data, a.width, a.rows, a.ld, TA ? 64 : L::rows);
  c.b = gemm_map(gpu, 2, b.data, b.width, b.rows, b.ld, TB ? 64 : BN / CLUSTER);
  const int size = p.c_type == ATTEND_F32 ? 4 : 2;
  /* TMA writes whole pieces of 16 bytes; chunks' sums have room for them */
  const int64_t width = c.splits > 1 ? p.ldc : p.n;
  c.stored = !p.add && !p.slope && !p.before && !p.onto && gemm_fits_tma(p.c, size, p.ldc) &&
             width * size % 16 == 0 && (!p.f || (!TA && !TB));
  if (c.stored) c.c = gemm_map(gpu, size, p.c, (int)width, p.m, p.ldc, 64, c.splits);
  c.blocks = (p.m + L::rows * CLUSTER - 1) / (L::rows * CLUSTER);
  c.columns = (p.n + BN - 1) / BN;
  c.group = 16 / CLUSTER;
  c.items = c.blocks * c.columns * c.splits;
  gpu_check(gpu,
            cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, L::bytes),
            "gemm_kernel");
  LAUNCH(gpu, kernel, std::min(gpu->processors / CLUSTER, c.items) * CLUSTER, 128 * (WGS + 1),
         L::bytes, c);
}

template <typename T, bool TA, bool TB>
static void launch_shape(cuda_gpu *gpu, int shape, gemm_call &c, const gemm_operand &a,
                         const gemm_operand &b) {
  if (shape == 0) launch<T, 2, 256, 4, 2, TA, TB>(gpu, c, a, b);
  if (shape == 1) launch<T, 1, 64, 8, 1, TA, TB>(gpu, c, a, b);
  if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    if (shape == 2) launch<T, 2, 128, 6, 2, TA, TB>(gpu, c, a, b);
    if (shape == 3) launch<T, 2, 256, 4, 1, TA, TB>(gpu, c, a, b);
  }
}

template <typename T>
static void launch_layout(cuda_gpu *gpu, int shape, gemm_call &c, const gemm_operand &a,
                          const gemm_operand &b) {
  if (!c.p.a_columns && !c.p.b_columns) launch_shape<T, false, false>(gpu, shape, c, a, b);
  if (!c.p.a_columns && c.p.b_columns) launch_shape<T, false, true>(gpu, shape, c, a, b);
  if (c.p.a_columns && !c.p.b_columns) launch_shape<T, true, false>(gpu, shape, c, a, b);
  if (c.p.a_columns && c.p.b_columns) launch_shape<T, true, true>(gpu, shape, c, a, b);
}

/* c += the chunks' sums, in order. */
__global__ void gemm_join_kernel(const float *part, int splits, int m, int n, int64_t ld, float *c,
                                 int64_t ldc) {
  EACH(i, (size_t)m * n) {
    const size_t row = i / n, column = i % n;
    float sum = part[row * ld + column];
    for (int s = 1; s < splits; s++) sum += part[((size_t)s * m + row) * ld + column];
    c[row * ldc + column] += sum;
  }
}
/* The same for rows without gaps, of whole pieces of 4. */
__global__ void gemm_join_4_kernel(const float4 *part, int splits, size_t n, float4 *c) {
  EACH(i, n) {
    float4 sum = part[i];
    for (int s = 1; s < splits; s++) {
      const float4 x = part[s * n + i];
      sum.x += x.x, sum.y += x.y, sum.z += x.z, sum.w += x.w;
    }
    float4 y = c[i];
    y.x += sum.x, y.y += sum.y, y.z += sum.z, y.w += sum.w;
    c[i] = y;
  }
}
void gemm_join(cuda_gpu *gpu, const cuda_product &p, const float *part, int64_t ld, int splits) {
  const size_t n = (size_t)p.m * p.n;
  if (p.n % 4 == 0 && p.ldc == p.n && ld == p.n && (uintptr_t)p.c % 16 == 0)
    LAUNCH(gpu, gemm_join_4_kernel, blocks_for(n / 4, 256), 256, 0, (const float4 *)part, splits,
           n / 4, (float4 *)p.c);
  else
    LAUNCH(gpu, gemm_join_kernel, blocks_for(n, 256), 256, 0, part, splits, p.m, p.n, ld,
           (float *)p.c, p.ldc);
}

/* ---- the call -------------------------------------------------------------------------- */

void cuda_product_run(cuda_gpu *gpu, const cuda_product *call) {
  const cuda_product &p = *call;
  if (!p.m || !p.n || !p.k) return;
  if (p.type == ATTEND_F32) return gemm_plain(gpu, p);
  if (gemm_rows(gpu, p)) return;
  const gemm_plan plan = plan_of(gpu, p);
  gemm_call c = {};
  gemm_operand a = gemm_operand_of(p.type, p.a_type, false, p.a, p.lda, p.m, p.k, p.a_columns);
  gemm_operand b = gemm_operand_of(p.type, p.b_type, p.b_int8, p.b, p.ldb, p.n, p.k, p.b_columns);
  const int64_t ld = (p.n + 3) / 4 * 4;
  const size_t parts = plan.splits > 1 ? (size_t)plan.splits * p.m * ld * sizeof(float) : 0;
  unsigned char *scratch = NULL;
  if (a.bytes || b.bytes || parts) {
    scratch = (unsigned char *)gpu_scratch(gpu, a.bytes + b.bytes + parts);
    if (!scratch) return;
  }
  float *part = (float *)gemm_align(gpu, p.type, b, gemm_align(gpu, p.type, a, scratch));
  c.p = p, c.splits = plan.splits, c.steps = plan.steps;
  if (parts) c.p.c = part, c.p.ldc = ld, c.p.add = false;
  if (p.type == ATTEND_BF16) launch_layout<__nv_bfloat16>(gpu, plan.shape, c, a, b);
  if (p.type == ATTEND_F16) launch_layout<__half>(gpu, plan.shape, c, a, b);
  if (parts) gemm_join(gpu, p, part, ld, plan.splits);
}
