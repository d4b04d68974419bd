/* Cross entropy and its gradient, in place. A block has a row, which it reads once and keeps in
 * shared memory where it fits.
 */
#include "device/cuda/rows.cuh"

#include <float.h>

enum { ROW_THREADS = 512, ROW_WARPS = ROW_THREADS / 32 };

/* A row of logits: pieces, the last of which may be short. */
struct logits {
  void *data;
  attend_dtype type;
  bool whole; /* pieces lie on 16 bytes */
  size_t at;  /* element where the row begins */
  int n;

  __device__ void load(int j, float (&x)[PIECE]) const {
    if (whole && j + PIECE <= n) {
      get(data, type, at + j, x);
      return;
    }
#pragma unroll
    for (int i = 0; i < PIECE; i++)
      x[i] = j + i < n ? element_of(data, type, at + j + i) : -INFINITY;
  }
  __device__ void store(int j, const float (&x)[PIECE]) const {
    if (whole && j + PIECE <= n) {
      put(data, type, at + j, x);
      return;
    }
#pragma unroll
    for (int i = 0; i < PIECE; i++)
      if (j + i < n) set_element(data, type, at + j + i, x[i]);
  }
};

/* Exponentials of bf16 logits need not be closer than the logits. */
__device__ static float exponential(attend_dtype type, float x) {
  return type == ATTEND_F32 ? expf(x) : __expf(x);
}

#define EACH_LOGIT(j, n) for (int j = threadIdx.x * PIECE; j < (n); j += ROW_THREADS * PIECE)

/* The largest of some logits, the sum of e^(x - max), and the sum of x. */
struct row_sums {
  float max, sum, all;
  __device__ void add(attend_dtype type, const float (&x)[PIECE], int count) {
    float now = max;
    for (float v : x) now = fmaxf(now, v);
    if (now > max) sum *= exponential(type, max - now); /* e^-inf: 0 */
    max = now;
    for (float v : x) sum += exponential(type, v - max);
#pragma unroll
    for (int i = 0; i < PIECE; i++) all += i < count ? x[i] : 0.f;
  }
};

template <bool NEAR>
__global__ void __launch_bounds__(ROW_THREADS, 2) loss_kernel(op_loss o, bool whole) {
  extern __shared__ uint4 memory[];
  const size_t r = blockIdx.x;
  const int n = o.width, right = o.targets[r];
  const logits row = {o.x, o.x_type, whole, r * o.ldx, n};
  /* whole pieces: -inf behind the end */
  const logits near = {memory, o.x_type, true, 0, (n + PIECE - 1) / PIECE * PIECE};
  float x[PIECE];
  if (right < 0 || right >= n) {
    const float fill = right < 0 ? 0.f : NAN;
    for (float &v : x) v = fill;
    EACH_LOGIT(j, n) row.store(j, x);
    if (threadIdx.x == 0) o.loss[r] = fill;
    return;
  }
  row_sums own = {-FLT_MAX, 0, 0};
  EACH_LOGIT(j, n) {
    row.load(j, x);
    own.add(o.x_type, x, n - j);
    if (NEAR) near.store(j, x);
  }
  const float max = block_max<ROW_WARPS>(own.max);
  own.sum *= exponential(o.x_type, own.max - max);
  const double sum = block_sum<double, ROW_WARPS>((double)own.sum), s = o.smoothing;
  const double all = s == 0 ? 0 : block_sum<double, ROW_WARPS>((double)own.all);
  if (threadIdx.x == 0) {
    const double at = element_of(o.x, o.x_type, r * o.ldx + right);
    o.loss[r] = (float)(log(sum) + (double)max - (1 - s) * at - s * all / n);
  }
  __syncthreads();
  const float factor = (float)((double)o.scale / sum), off = o.scale * o.smoothing / (float)n;
  EACH_LOGIT(j, n) { /* each thread reads what it wrote */
    (NEAR ? near : row).load(j, x);
#pragma unroll
    for (int i = 0; i < PIECE; i++) {
      x[i] = fmaf(exponential(o.x_type, x[i] - max), factor, -off);
      if (j + i == right) x[i] -= o.scale * (1 - o.smoothing);
    }
    row.store(j, x);
  }
}

void cuda_loss(cuda_gpu *gpu, const op_loss *o) {
  enum { FIT = 112 << 10 }; /* two blocks on a multiprocessor */
  const size_t row =
      (size_t)(o->width + PIECE - 1) / PIECE * PIECE * (o->x_type == ATTEND_F32 ? 4 : 2);
  const bool whole = on_pieces(o->x, o->ldx, o->x_type);
  if (!o->rows) return;
  if (row > FIT) {
    LAUNCH(gpu, loss_kernel<false>, o->rows, ROW_THREADS, 0, *o, whole);
    return;
  }
  gpu_check(
      gpu,
      cudaFuncSetAttribute(loss_kernel<true>, cudaFuncAttributeMaxDynamicSharedMemorySize, FIT),
      "loss_kernel");
  LAUNCH(gpu, loss_kernel<true>, o->rows, ROW_THREADS, row, *o, whole);
}
