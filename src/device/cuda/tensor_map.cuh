/* Tensor maps: what TMA needs to know of a tensor in device memory. */
#ifndef DEVICE_CUDA_TENSOR_MAP_CUH
#define DEVICE_CUDA_TENSOR_MAP_CUH

#include "device/cuda/gpu.cuh"
#include "device/cuda/hopper.cuh"

typedef CUresult (*encode_tiled)(CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *,
                                 const cuuint64_t *, const cuuint64_t *, const cuuint32_t *,
                                 const cuuint32_t *, CUtensorMapInterleave, CUtensorMapSwizzle,
                                 CUtensorMapL2promotion, CUtensorMapFloatOOBfill);

/* The driver's function: nothing is linked against the driver. */
static inline encode_tiled encoder() {
  void *f = NULL;
  cudaDriverEntryPointQueryResult found;
  if (cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &f, 12000, cudaEnableDefault,
                                       &found))
    return NULL;
  return (encode_tiled)f;
}

/* Slabs of 64 columns of `rows` rows of `heads` heads. */
static inline CUtensorMap map_of(cuda_gpu *gpu, attend_dtype dtype, const cuda_tensor &x, int batch,
                                 int heads, int length, int rows, int box_heads) {
  CUtensorMap map = {};
  const cuuint64_t shape[4] = {(cuuint64_t)x.width, (cuuint64_t)length, (cuuint64_t)heads,
                               (cuuint64_t)batch};
  const cuuint64_t stride[3] = {(cuuint64_t)x.stride[2] * 2, (cuuint64_t)x.stride[1] * 2,
                                (cuuint64_t)x.stride[0] * 2};
  const cuuint32_t box[4] = {SLAB, (cuuint32_t)rows, (cuuint32_t)box_heads, 1};
  const cuuint32_t dense[4] = {1, 1, 1, 1};
  static const encode_tiled encode = encoder();
  const CUtensorMapDataType type =
      dtype == ATTEND_BF16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 : CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
  if (!encode || encode(&map, type, 4, x.data, shape, stride, box, dense,
                        CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                        CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE))
    gpu_check(gpu, cudaErrorInvalidValue, "cuTensorMapEncodeTiled");
  return map;
}

static inline bool fits_tma(const cuda_tensor &x) {
  return (uintptr_t)x.data % 16 == 0 && x.stride[0] % 8 == 0 && x.stride[1] % 8 == 0 &&
         x.stride[2] % 8 == 0 && x.stride[2] > 0;
}

#endif
