/* What the GPU can do at best: bytes of a copy, multiply-adds in f32, exponentials, products of bf16 on
 * tensor cores. Each is a loop of a few milliseconds, timed by events; the best of several tries counts.
 */
#include "device/cuda/gpu.cuh"
#include "device/cuda/hopper.cuh"

enum { TRIES = 5 };

static const size_t COPIED = (size_t)512 << 20; /* bytes, many times the L2 cache */

/* ---- kernels ------------------------------------------------------------------------------ */

enum { COPY_THREADS = 512, COPY_EACH = 4 };

__global__ void copy_all(const uint4 *__restrict__ from, uint4 *__restrict__ to) {
  const size_t first = blockIdx.x * (size_t)(COPY_THREADS * COPY_EACH) + threadIdx.x;
  uint4 x[COPY_EACH];
#pragma unroll
  for (int i = 0; i < COPY_EACH; i++) x[i] = __ldcs(from + first + i * COPY_THREADS);
#pragma unroll
  for (int i = 0; i < COPY_EACH; i++) __stcs(to + first + i * COPY_THREADS, x[i]);
}

enum { SPIN_THREADS = 512, CHAINS = 16 };

__global__ void spin_fma(int rounds, float *out) {
  float x[CHAINS], a = 1 + 1e-7f * threadIdx.x, b = 1e-7f * blockIdx.x;
#pragma unroll
  for (int i = 0; i < CHAINS; i++) x[i] = i;
  for (int r = 0; r < rounds; r++)
#pragma unroll
    for (int i = 0; i < CHAINS; i++) x[i] = fmaf(x[i], a, b);
  float sum = 0;
#pragma unroll
  for (int i = 0; i < CHAINS; i++) sum += x[i];
  if (sum == 12345) *out = sum; /* never: the loop must not be optimized away */
}

/* Beside a multiply-add each, as a scaled score has. */
__global__ void spin_exponentials(int rounds, float *out) {
  float x[CHAINS];
#pragma unroll
  for (int i = 0; i < CHAINS; i++) x[i] = -1e-3f * threadIdx.x - i;
  for (int r = 0; r < rounds; r++)
#pragma unroll
    for (int i = 0; i < CHAINS; i++) {
      const float y = fmaf(x[i], 0.5f, -0.25f);
      asm volatile("ex2.approx.ftz.f32 %0, %1;" : "=f"(x[i]) : "f"(y));
    }
  float sum = 0;
#pragma unroll
  for (int i = 0; i < CHAINS; i++) sum += x[i];
  if (sum == 12345) *out = sum;
}

/* Two bf16 in about (-2, 2), as random data: zeros would draw less power and run faster. */
__device__ inline uint32_t noise(uint32_t i) {
  i = (i ^ 61) ^ (i >> 16);
  i *= 9;
  i ^= i >> 4;
  i *= 0x27d4eb2d;
  i ^= i >> 15;
  return (i & 0x807f807f) | 0x3f803f80;
}

enum { SPIN_K = 4, SPIN_N = 128, SPIN_SLAB = SPIN_K * 16 * SLAB_BYTES };

/* Each warpgroup: [64, 64] of its registers by [64, 128] of shared memory, again and again. */
__global__ void __launch_bounds__(SPIN_THREADS) spin_wgmma(int rounds, float *out) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  __shared__ __align__(1024) uint32_t b[2 * SPIN_SLAB / 4];
  uint32_t a[SPIN_K][4];
  float d[SPIN_N / 2];
  for (int i = threadIdx.x; i < 2 * SPIN_SLAB / 4; i += SPIN_THREADS) b[i] = noise(i);
#pragma unroll
  for (int k = 0; k < SPIN_K; k++)
#pragma unroll
    for (int i = 0; i < 4; i++) a[k][i] = noise((threadIdx.x * SPIN_K + k) * 4 + i);
#pragma unroll
  for (int i = 0; i < SPIN_N / 2; i++) d[i] = 0;
  fence_shared();
  __syncthreads();
  for (int r = 0; r < rounds; r++) {
    wgmma_hold(d);
    wgmma_begin();
#pragma unroll
    for (int k = 0; k < SPIN_K; k++)
      wgmma<__nv_bfloat16, SPIN_N>::of_registers(
          d, a[k], operand_columns((const char *)b + k * 16 * SLAB_BYTES, SPIN_SLAB), 1);
    wgmma_commit();
    wgmma_wait<0>();
    wgmma_hold(d);
  }
  float sum = 0;
#pragma unroll
  for (int i = 0; i < SPIN_N / 2; i++) sum += d[i];
  if (sum == 12345) *out = sum;
#endif
}

enum { SPIN_TILES = 8 };

/* Each warp: [16, 16] by [16, 8], for GPUs before Hopper. */
__global__ void __launch_bounds__(SPIN_THREADS) spin_mma(int rounds, float *out) {
  uint32_t a[4], b[2];
  float d[SPIN_TILES][4] = {};
#pragma unroll
  for (int i = 0; i < 4; i++) a[i] = noise(threadIdx.x * 4 + i);
  b[0] = noise(threadIdx.x + 7777), b[1] = noise(threadIdx.x + 9999);
  for (int r = 0; r < rounds; r++)
#pragma unroll
    for (int t = 0; t < SPIN_TILES; t++)
      asm volatile(
          "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
          "{%8,%9}, {%0,%1,%2,%3};"
          : "+f"(d[t][0]), "+f"(d[t][1]), "+f"(d[t][2]), "+f"(d[t][3])
          : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  float sum = 0;
#pragma unroll
  for (int t = 0; t < SPIN_TILES; t++) sum += d[t][0] + d[t][1] + d[t][2] + d[t][3];
  if (sum == 12345) *out = sum;
}

/* ---- timing ------------------------------------------------------------------------------- */

/* Seconds of the fastest run; 0 where something failed. */
template <typename Work>
static double best_seconds(cuda_gpu *gpu, const Work &work) {
  cudaEvent_t begin, end;
  float best = 0;
  gpu_check(gpu, cudaEventCreate(&begin), "an event");
  gpu_check(gpu, cudaEventCreate(&end), "an event");
  for (int i = 0; i <= TRIES && !gpu->error; i++) {
    float ms = 0;
    cudaEventRecord(begin, gpu->stream);
    work();
    cudaEventRecord(end, gpu->stream);
    gpu_check(gpu, cudaEventSynchronize(end), "a measurement");
    cudaEventElapsedTime(&ms, begin, end);
    if (i && (best == 0 || ms < best)) best = ms; /* the first warms up */
  }
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  return gpu->error ? 0 : best * 1e-3;
}

static double rate(double amount, double seconds) { return seconds > 0 ? amount / seconds : 0; }

static double copy_rate(cuda_gpu *gpu, uint4 *from) {
  uint4 *to = from + COPIED / sizeof *from;
  const unsigned blocks = COPIED / sizeof *from / (COPY_THREADS * COPY_EACH);
  cudaMemsetAsync(from, 0x5a, COPIED, gpu->stream);
  const double ours =
      best_seconds(gpu, [&] { LAUNCH(gpu, copy_all, blocks, COPY_THREADS, 0, from, to); });
  const double theirs = best_seconds(
      gpu, [&] { cudaMemcpyAsync(to, from, COPIED, cudaMemcpyDeviceToDevice, gpu->stream); });
  return rate(2.0 * COPIED, ours < theirs ? ours : theirs);
}

void cuda_ceilings(cuda_gpu *gpu, struct cuda_ceilings *c) {
  enum { FMA_ROUNDS = 1 << 15, PRODUCT_ROUNDS = 1 << 13 };
  const int blocks = gpu->processors;
  void *work = NULL;
  *c = (struct cuda_ceilings){};
  c->processors = blocks;
  if (cudaMallocAsync(&work, 2 * COPIED, gpu->stream)) {
    cudaGetLastError();
    return;
  }
  float *out = (float *)work;
  c->copy = copy_rate(gpu, (uint4 *)work);
  const double fma = best_seconds(
      gpu, [&] { LAUNCH(gpu, spin_fma, 4 * blocks, SPIN_THREADS, 0, FMA_ROUNDS / 4, out); });
  c->f32 = rate(2.0 * blocks * SPIN_THREADS * CHAINS * FMA_ROUNDS, fma);
  const double exponentials = best_seconds(gpu, [&] {
    LAUNCH(gpu, spin_exponentials, 4 * blocks, SPIN_THREADS, 0, FMA_ROUNDS / 16, out);
  });
  c->exponentials = rate(1.0 * blocks * SPIN_THREADS * CHAINS * FMA_ROUNDS / 4, exponentials);
  if (gpu->capability == 90) {
    const double s = best_seconds(
        gpu, [&] { LAUNCH(gpu, spin_wgmma, blocks, SPIN_THREADS, 0, PRODUCT_ROUNDS, out); });
    c->bf16 =
        rate(2.0 * blocks * PRODUCT_ROUNDS * (SPIN_THREADS / 128) * 64 * SPIN_N * 16 * SPIN_K, s);
  } else {
    const double s = best_seconds(
        gpu, [&] { LAUNCH(gpu, spin_mma, blocks, SPIN_THREADS, 0, PRODUCT_ROUNDS, out); });
    c->bf16 =
        rate(2.0 * blocks * PRODUCT_ROUNDS * (SPIN_THREADS / 32) * 16 * 8 * 16 * SPIN_TILES, s);
  }
  cudaFreeAsync(work, gpu->stream);
}
