/* CUDA as a device, shared by cuda.c (memory, weights, ops), cuda_attention.c and
 * cuda_linear.c (engines) and cuda_cache.c (the KV cache).
 */
#ifndef DEVICE_CUDA_DEVICE_H
#define DEVICE_CUDA_DEVICE_H

#include <pthread.h>

#include "attention/state.h"
#include "device/bridge.h"
#include "device/cuda/cuda.h"
#include "device/device.h"

enum { CUDA_ENGINES = 4 };

typedef struct {
  pthread_mutex_t lock; /* one thread at a time, from an op's first kernel to its last */
  void *library;
  const struct cuda_table *table;
  cuda_gpu *gpu;
  bridge host;
  state_kind cache;
  attend_engine engine[CUDA_ENGINES];
  const attend_engine *list[CUDA_ENGINES + BRIDGE_ENGINES + 1];
} cuda_device;

static inline cuda_device *device_of(const attend_context *ctx) { return ctx->device_memory; }

/* Between these the GPU is the calling thread's; they nest. */
cuda_gpu *cuda_lock(const attend_context *ctx);
void cuda_unlock(const attend_context *ctx);

/* CALL(ctx, zero, to, bytes): a function of the table, on the context's GPU. */
#define CALL(ctx, name, ...)                                  \
  do {                                                        \
    device_of(ctx)->table->name(cuda_lock(ctx), __VA_ARGS__); \
    cuda_unlock(ctx);                                         \
  } while (0)

/* The first error of the GPU, which stays, as a sentence. */
attend_status cuda_check(attend_context *ctx);

/* Fills d->engine and returns their number; the cache's kind is set before. */
int cuda_engines_make(cuda_device *d);
void cuda_cache_make(cuda_device *d);

/* What a plan keeps on the GPU: the first member of own_data of each engine of a GPU. */
typedef struct {
  void *work; /* as large as any call needed so far */
  size_t bytes;
  int64_t *weak; /* rows that attend_plan_weak_rows counts */
} cuda_plan;

static inline cuda_plan *cuda_plan_of(const attend_plan *p) { return p->own_data; }

/* own_data of `bytes`, zeroed, with a counter; freed by cuda_plan_free. */
attend_status cuda_plan_make(attend_plan *p, size_t bytes);
void cuda_plan_free(attend_plan *p);
attend_status cuda_plan_work(attend_plan *p, size_t bytes);
void cuda_plan_reset_weak(attend_plan *p);
int64_t cuda_plan_weak_rows(attend_plan *p);
/* A call for the kernels, without pages and workspace. */
struct cuda_attention cuda_attention_of(const call *c);

/* Linear forms by their feature maps: cuda_linear.c. */
extern const attend_engine engine_cuda_linear;

/* A copy on the GPU of a feature map that is not MAP_CALLER; free it also where making it failed. */
attend_status cuda_map_make(attend_context *ctx, const attend_desc *d, const feature_map *map,
                            struct cuda_map *out);
void cuda_map_free(const attend_context *ctx, struct cuda_map *map);

/* What a kernel reads of a state. New pages are made known to the GPU first. */
attend_status cuda_cache_pages(attend_context *ctx, const attend_state *s,
                               struct cuda_pages *pages);

#endif
