/* A GPU: opening it, its memory, copies; and the table of the library. */
#include "device/cuda/gpu.cuh"

#include <new>
#include <stdio.h>
#include <string.h>

/* ---- opening ------------------------------------------------------------------------- */

enum { STAGING = 4 << 20, SMALL = 1 << 16 }; /* bytes of host numbers on their way; a few */

static cudaError_t start(cuda_gpu *gpu) {
  cudaDeviceProp p;
  cudaError_t e = cudaSetDevice(gpu->index);
  if (!e) e = cudaGetDeviceProperties(&p, gpu->index);
  if (e) return e;
  gpu->processors = p.multiProcessorCount;
  gpu->capability = 10 * p.major + p.minor;
  snprintf(gpu->name, sizeof gpu->name, "%s", p.name);
  /* Memory that is given back stays with the process: taking it from the system again is slow. */
  cudaMemPool_t pool;
  uint64_t all = UINT64_MAX;
  e = cudaDeviceGetDefaultMemPool(&pool, gpu->index);
  if (!e) e = cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &all);
  if (!e) e = cudaStreamCreateWithFlags(&gpu->stream, cudaStreamNonBlocking);
  for (int i = 0; i < 2 && !e; i++)
    e = cudaEventCreateWithFlags(&gpu->half[i], cudaEventDisableTiming);
  if (!e) e = cudaMallocHost(&gpu->staging, STAGING);
  if (!e) e = cudaMalloc(&gpu->staged, STAGING);
  if (!e) e = cudaMalloc(&gpu->counter, 2 * sizeof *gpu->counter);
  if (!e) e = cudaMemset(gpu->counter, 0, 2 * sizeof *gpu->counter);
  return e;
}

static void gpu_close(cuda_gpu *gpu) {
  if (!gpu) return;
  cudaSetDevice(gpu->index);
  if (gpu->stream) cudaStreamSynchronize(gpu->stream);
  cudaFree(gpu->staged);
  cudaFree(gpu->scratch);
  cudaFree(gpu->counter);
  cudaFreeHost(gpu->staging);
  for (cudaEvent_t e : gpu->half)
    if (e) cudaEventDestroy(e);
  if (gpu->stream) cudaStreamDestroy(gpu->stream);
  delete gpu;
}

static cuda_gpu *gpu_open(int index, char *message, size_t size) {
  int count = 0;
  cudaError_t e = cudaGetDeviceCount(&count);
  if (e || !count) {
    snprintf(message, size, "there is no GPU that CUDA can use: %s",
             e ? cudaGetErrorString(e) : "none was found");
    return NULL;
  }
  if (index < 0 || index >= count) {
    snprintf(message, size, "there is no GPU %d: choose 0 to %d", index, count - 1);
    return NULL;
  }
  cuda_gpu *gpu = new (std::nothrow) cuda_gpu{};
  if (!gpu) {
    snprintf(message, size, "no memory for a GPU's state");
    return NULL;
  }
  gpu->index = index;
  e = start(gpu);
  if (!e) return gpu;
  snprintf(message, size, "GPU %d cannot be used: %s", index, cudaGetErrorString(e));
  gpu_close(gpu);
  return NULL;
}

static const char *gpu_error(const cuda_gpu *gpu) {
  return gpu->error ? cudaGetErrorString(gpu->error) : NULL;
}
static const char *gpu_name(const cuda_gpu *gpu) { return gpu->name; }

void *recording_stage(cuda_gpu *gpu, const void *host, size_t bytes);
void record_begin(cuda_gpu *gpu, cuda_recording **recording);
void record_end(cuda_gpu *gpu);
void record_free(cuda_gpu *gpu, cuda_recording *recording);
int record_graphs(const cuda_recording *recording);

/* ---- memory -------------------------------------------------------------------------- */

static void *gpu_alloc(cuda_gpu *gpu, size_t bytes) {
  void *block = NULL;
  cudaSetDevice(gpu->index);
  if (cudaMallocAsync(&block, bytes ? bytes : 1, gpu->stream)) {
    cudaGetLastError(); /* out of memory is the caller's to report */
    return NULL;
  }
  return block;
}

static void gpu_free(cuda_gpu *gpu, void *block) {
  if (block) gpu_flush(gpu); /* held kernels may use it */
  if (block) gpu_check(gpu, cudaFreeAsync(block, gpu->stream), "cudaFreeAsync");
}

/* Of any pool of the GPU. */
static bool gpu_owns(cuda_gpu *, const void *address) {
  cudaPointerAttributes a;
  if (!address || cudaPointerGetAttributes(&a, address)) {
    cudaGetLastError();
    return false;
  }
  return a.type == cudaMemoryTypeDevice;
}

static void gpu_zero_now(cuda_gpu *gpu, void *to, size_t bytes) {
  if (bytes) gpu_check(gpu, cudaMemsetAsync(to, 0, bytes, gpu->stream), "cudaMemsetAsync");
}

__global__ static void zero_kernel(unsigned char *to, size_t bytes) { EACH(i, bytes) to[i] = 0; }
__global__ static void copy_kernel(unsigned char *to, const unsigned char *from, size_t bytes) {
  EACH(i, bytes) to[i] = from[i];
}

/* Kernels may be recorded, other work may not. */
static void gpu_zero(cuda_gpu *gpu, void *to, size_t bytes) {
  if (gpu->recording && bytes <= SMALL)
    LAUNCH(gpu, zero_kernel, blocks_for(bytes, 256), 256, 0, (unsigned char *)to, bytes);
  else
    gpu_flush(gpu), gpu_zero_now(gpu, to, bytes);
}

static void gpu_wait(cuda_gpu *gpu) {
  gpu_flush(gpu);
  gpu_check(gpu, cudaStreamSynchronize(gpu->stream), "the GPU's work");
}

static void gpu_held(cuda_gpu *gpu, size_t *bytes, size_t *most, bool reset) {
  cudaMemPool_t pool;
  uint64_t now = 0, high = 0, zero = 0;
  *bytes = *most = 0;
  gpu_wait(gpu);
  if (cudaDeviceGetDefaultMemPool(&pool, gpu->index)) return;
  cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &now);
  cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemHigh, &high);
  if (reset) cudaMemPoolSetAttribute(pool, cudaMemPoolAttrUsedMemHigh, &zero);
  *bytes = now, *most = high;
}

/* from may change afterwards: a copy from pageable memory returns when it was read. */
static void gpu_write(cuda_gpu *gpu, void *to, const void *from, size_t bytes) {
  if (!bytes) return;
  gpu->written = true;
  if (bytes <= SMALL) {
    const unsigned char *staged = (const unsigned char *)gpu_stage(gpu, from, bytes);
    LAUNCH(gpu, copy_kernel, blocks_for(bytes, 256), 256, 0, (unsigned char *)to, staged, bytes);
    return;
  }
  gpu_flush(gpu);
  gpu_check(gpu, cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, gpu->stream), "a copy");
  gpu_wait(gpu);
}

static void gpu_read(cuda_gpu *gpu, void *to, const void *from, size_t bytes) {
  if (!bytes) return;
  gpu_flush(gpu);
  gpu_check(gpu, cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, gpu->stream), "a copy");
  gpu_wait(gpu);
}

/* The memory is used from its start to its end, then again: a half is written when what read it
 * before has ended. */
static void *stage_now(cuda_gpu *gpu, const void *host, size_t bytes) {
  const size_t half = STAGING / 2, need = (bytes + 255) / 256 * 256;
  if (need > half) {
    gpu_check(gpu, cudaErrorInvalidValue, "numbers of the host");
    return gpu->staged;
  }
  const int before = (int)(gpu->at / half);
  size_t at = gpu->at;
  if (at % half + need > half) at = (at / half + 1) * half;
  if (at >= STAGING) at = 0;
  const int now = (int)(at / half);
  if (now != before) { /* the half that was left is read when this event is past */
    gpu_check(gpu, cudaEventRecord(gpu->half[before], gpu->stream), "an event");
    gpu->waits[before] = true;
    if (gpu->waits[now]) gpu_check(gpu, cudaEventSynchronize(gpu->half[now]), "an event");
  }
  gpu->at = at + need == STAGING ? STAGING - 1 : at + need;
  memcpy(gpu->staging + at, host, bytes);
  gpu_check(gpu,
            cudaMemcpyAsync(gpu->staged + at, gpu->staging + at, bytes, cudaMemcpyHostToDevice,
                            gpu->stream),
            "a copy");
  return gpu->staged + at;
}

void *gpu_stage(cuda_gpu *gpu, const void *host, size_t bytes) {
  void *at = recording_stage(gpu, host, bytes);
  return at ? at : stage_now(gpu, host, bytes);
}

static void gpu_copy_now(cuda_gpu *gpu, void *to, const void *from, size_t bytes) {
  if (bytes)
    gpu_check(gpu, cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, gpu->stream),
              "a copy");
}

static void gpu_write_now(cuda_gpu *gpu, void *to, const void *from, size_t bytes) {
  if (bytes) gpu_copy_now(gpu, to, stage_now(gpu, from, bytes), bytes);
}

static void gpu_use(cuda_gpu *gpu) { gpu_check(gpu, cudaSetDevice(gpu->index), "cudaSetDevice"); }

/* Freed in the stream's order: kernels that were launched may still use the memory before. */
void *gpu_scratch(cuda_gpu *gpu, size_t bytes) {
  if (bytes <= gpu->scratch_bytes) return gpu->scratch;
  const size_t rounded = (bytes + (1 << 20)) / (1 << 20) << 20;
  gpu_free(gpu, gpu->scratch);
  gpu->scratch = gpu_alloc(gpu, rounded);
  gpu->scratch_bytes = gpu->scratch ? rounded : 0;
  if (!gpu->scratch) gpu_check(gpu, cudaErrorMemoryAllocation, "scratch memory");
  return gpu->scratch;
}

/* ---- the table ----------------------------------------------------------------------- */

#define X(name) void cuda_##name(cuda_gpu *gpu, const struct op_##name *op);
OPS(X)
#undef X
const char *cuda_softmax_refusal(const cuda_gpu *gpu, const cuda_softmax *call);
size_t cuda_softmax_bytes(const cuda_gpu *gpu, const cuda_softmax *call);
void cuda_softmax_forward(cuda_gpu *gpu, const cuda_softmax *call);
const char *cuda_softmax_backward_refusal(const cuda_gpu *gpu, const cuda_softmax *call);
size_t cuda_softmax_backward_bytes(const cuda_gpu *gpu, const cuda_softmax *call);
void cuda_softmax_backward(cuda_gpu *gpu, const cuda_softmax *call);
const char *cuda_attention_refusal(const cuda_gpu *gpu, const attend_desc *desc);
size_t cuda_attention_bytes(cuda_gpu *gpu, const cuda_attention *call);
void cuda_attention_forward(cuda_gpu *gpu, const cuda_attention *call);
void cuda_pages_append(cuda_gpu *gpu, const cuda_append *append);
const char *cuda_pairs_refusal(const cuda_gpu *gpu, const attend_desc *desc);
size_t cuda_pairs_bytes(cuda_gpu *gpu, const cuda_attention *call);
void cuda_pairs_forward(cuda_gpu *gpu, const cuda_attention *call);
void cuda_ceilings(cuda_gpu *gpu, struct cuda_ceilings *ceilings);
size_t cuda_pairs_backward_bytes(cuda_gpu *gpu, const cuda_attention *call);
void cuda_pairs_backward(cuda_gpu *gpu, const cuda_attention *call);
size_t cuda_observe_bytes(cuda_gpu *gpu, const cuda_attention *call);
void cuda_observe(cuda_gpu *gpu, const cuda_attention *call);
const char *cuda_linear_refusal(const cuda_gpu *gpu, const attend_desc *desc);
size_t cuda_linear_bytes(const cuda_gpu *gpu, const cuda_linear_call *call);
size_t cuda_linear_state_bytes(const cuda_gpu *gpu, const attend_desc *desc);
void cuda_linear_forward(cuda_gpu *gpu, const cuda_linear_call *call);
void cuda_linear_backward(cuda_gpu *gpu, const cuda_linear_call *call);
void cuda_pack(cuda_gpu *gpu, attend_linear *linear, const attend_linear_part *part, int first);
void cuda_product_run(cuda_gpu *gpu, const cuda_product *call);

static const cuda_table table = {sizeof(cuda_table),
                                 gpu_open,
                                 gpu_close,
                                 gpu_error,
                                 gpu_name,
                                 gpu_alloc,
                                 gpu_free,
                                 gpu_owns,
                                 gpu_zero,
                                 gpu_write,
                                 gpu_read,
                                 gpu_zero_now,
                                 gpu_copy_now,
                                 gpu_write_now,
                                 gpu_use,
                                 record_begin,
                                 record_end,
                                 record_free,
                                 record_graphs,
                                 gpu_wait,
                                 gpu_held,
                                 cuda_ceilings,
                                 cuda_pack,
                                 cuda_product_run,
#define X(name) cuda_##name,
                                 OPS(X)
#undef X
                                     cuda_softmax_refusal,
                                 cuda_softmax_bytes,
                                 cuda_softmax_forward,
                                 cuda_softmax_backward_refusal,
                                 cuda_softmax_backward_bytes,
                                 cuda_softmax_backward,
                                 cuda_attention_refusal,
                                 cuda_attention_bytes,
                                 cuda_attention_forward,
                                 cuda_pages_append,
                                 cuda_pairs_refusal,
                                 cuda_pairs_bytes,
                                 cuda_pairs_forward,
                                 cuda_pairs_backward_bytes,
                                 cuda_pairs_backward,
                                 cuda_observe_bytes,
                                 cuda_observe,
                                 cuda_linear_refusal,
                                 cuda_linear_bytes,
                                 cuda_linear_state_bytes,
                                 cuda_linear_forward,
                                 cuda_linear_backward};

extern "C" __attribute__((visibility("default"))) const cuda_table *attend_cuda_table(void) {
  return &table;
}
