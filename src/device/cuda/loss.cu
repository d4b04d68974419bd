/* Cross entropy and its gradient, in place. A block has a row, which it reads once and keeps in
 * shared memory where it fits.
 */
#include "device/cuda/rows.cuh"

#include <float.h>

enum { ROW_THREADS = 512, ROW_WARPS = ROW_THREADS / 32, SPAN = ROW_THREADS * PIECE };

/* Logits in the log2 domain: exponentials are powers of two. */
static const float LOG2E = 1.4426950408889634f;

/* Of bf16 logits need not be closer than the logits. */
template <attend_dtype T>
__device__ static float power(float x) {
  if constexpr (T == ATTEND_F32) return exp2f(x);
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

/* A row of logits: pieces, the last of which may be short. */
template <attend_dtype T>
struct logits {
  void *data;
  bool whole; /* pieces lie on 16 bytes */
  size_t at;  /* element where the row begins */
  int n;

  __device__ void load(int j, float (&x)[PIECE]) const {
    if (whole && j + PIECE <= n) {
      get(data, T, at + j, x);
      return;
    }
#pragma unroll
    for (int i = 0; i < PIECE; i++) x[i] = j + i < n ? element_of(data, T, at + j + i) : -INFINITY;
  }
  __device__ void store(int j, const float (&x)[PIECE]) const {
    if (whole && j + PIECE <= n) {
      put(data, T, at + j, x);
      return;
    }
#pragma unroll
    for (int i = 0; i < PIECE; i++)
      if (j + i < n) set_element(data, T, at + j + i, x[i]);
  }
};

/* The largest of some logits times LOG2E, the sum of 2^(that - max), and the sum of the logits. */
template <attend_dtype T>
struct row_sums {
  float max, sum, all;
  __device__ void add(const float (&x)[PIECE], int count, bool smooth) {
    float now = x[0];
#pragma unroll
    for (int i = 1; i < PIECE; i++) now = fmaxf(now, x[i]);
    now = fmaxf(max, now * LOG2E);
    if (now > max) sum *= power<T>(max - now);
    max = now;
#pragma unroll
    for (int i = 0; i < PIECE; i++) sum += power<T>(fmaf(x[i], LOG2E, -now));
    if (!smooth) return;
#pragma unroll
    for (int i = 0; i < PIECE; i++) all += i < count ? x[i] : 0.f;
  }
};

template <attend_dtype T, bool NEAR>
__global__ void __launch_bounds__(ROW_THREADS, 2) loss_kernel(op_loss o, bool whole) {
  enum { AT_ONCE = T == ATTEND_F32 ? 2 : 3 };
  extern __shared__ uint4 memory[];
  const size_t r = blockIdx.x;
  const int n = o.width, right = o.targets[r], begin = threadIdx.x * PIECE;
  const logits<T> row = {o.x, whole, r * o.ldx, n};
  /* whole pieces: -inf behind the end */
  const logits<T> near = {memory, true, 0, (n + PIECE - 1) / PIECE * PIECE};
  if (right < 0 || right >= n) {
    const float fill = right < 0 ? 0.f : NAN;
    const float x[PIECE] = {fill, fill, fill, fill, fill, fill, fill, fill};
    for (int j = begin; j < n; j += SPAN) row.store(j, x);
    if (threadIdx.x == 0) o.loss[r] = fill;
    return;
  }
  row_sums<T> own = {-FLT_MAX, 0, 0};
  for (int first = begin; first < n; first += AT_ONCE * SPAN) {
    float x[AT_ONCE][PIECE];
#pragma unroll
    for (int k = 0; k < AT_ONCE; k++)
      if (first + k * SPAN < n) row.load(first + k * SPAN, x[k]);
#pragma unroll
    for (int k = 0; k < AT_ONCE; k++) {
      const int j = first + k * SPAN;
      if (j >= n) break;
      own.add(x[k], n - j, o.smoothing != 0);
      if (NEAR) near.store(j, x[k]);
    }
  }
  const float max = block_max<ROW_WARPS>(own.max);
  own.sum *= power<T>(own.max - max);
  const double sum = block_sum<double, ROW_WARPS>((double)own.sum), s = o.smoothing;
  const double all = s == 0 ? 0 : block_sum<double, ROW_WARPS>((double)own.all);
  if (threadIdx.x == 0) {
    const double at = element_of(o.x, T, r * o.ldx + right);
    o.loss[r] = (float)(log(sum) + (double)max / (double)LOG2E - (1 - s) * at - s * all / n);
  }
  __syncthreads();
  const float factor = (float)((double)o.scale / sum), off = o.scale * o.smoothing / (float)n;
  const logits<T> from = NEAR ? near : row;
  for (int j = begin; j < n; j += SPAN) { /* each thread reads what it wrote */
    float x[PIECE];
    from.load(j, x);
#pragma unroll
    for (int i = 0; i < PIECE; i++) x[i] = fmaf(power<T>(fmaf(x[i], LOG2E, -max)), factor, -off);
    if (j == right / PIECE * PIECE)
#pragma unroll
      for (int i = 0; i < PIECE; i++)
        if (j + i == right) x[i] -= o.scale * (1 - o.smoothing);
    row.store(j, x);
  }
}

template <attend_dtype T>
static void launch(cuda_gpu *gpu, const op_loss *o) {
  enum { FIT = 112 << 10 }; /* two blocks on a multiprocessor */
  const size_t row = (size_t)(o->width + PIECE - 1) / PIECE * PIECE * (T == ATTEND_F32 ? 4 : 2);
  const bool whole = on_pieces(o->x, o->ldx, T);
  if (row > FIT) {
    LAUNCH(gpu, (loss_kernel<T, false>), o->rows, ROW_THREADS, 0, *o, whole);
    return;
  }
  const cudaError_t error =
      cudaFuncSetAttribute(loss_kernel<T, true>, cudaFuncAttributeMaxDynamicSharedMemorySize, FIT);
  gpu_check(gpu, error, "loss_kernel");
  LAUNCH(gpu, (loss_kernel<T, true>), o->rows, ROW_THREADS, row, *o, whole);
}

void cuda_loss(cuda_gpu *gpu, const op_loss *o) {
  if (!o->rows) return;
  if (o->x_type == ATTEND_F32)
    launch<ATTEND_F32>(gpu, o);
  else
    launch<ATTEND_BF16>(gpu, o);
}
