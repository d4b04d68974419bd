/* The GPU under test, and arrays that exist on both sides. A test without a GPU fails. */
#ifndef TESTS_GPU_H
#define TESTS_GPU_H

#include <dlfcn.h>
#include <stdlib.h>

#include "check.h"
#include "device/cuda/cuda.h"

static const struct cuda_table *cuda;
static cuda_gpu *gpu;

__attribute__((constructor)) static void open_gpu(void) {
  char message[256] = "";
  const char *path = getenv("ATTEND_CUDA_LIBRARY");
  void *library = dlopen(path ? path : "build/libattend-cuda.so", RTLD_NOW);
  void *symbol = library ? dlsym(library, CUDA_TABLE_SYMBOL) : NULL;
  cuda_table_get get;
  memcpy(&get, &symbol, sizeof get);
  if (get) cuda = get();
  if (cuda && cuda->size == sizeof *cuda) gpu = cuda->open(0, message, sizeof message);
  if (gpu) return;
  const char *why = !library              ? dlerror()
                    : cuda && !message[0] ? "the library is of another version"
                                          : message;
  printf("0 passed, 1 failed: no GPU: %s\n", why);
  exit(1);
}

static inline attend_context *host(void) {
  static attend_context *ctx;
  if (!ctx && attend_context_create(NULL, &ctx)) exit(1);
  return ctx;
}

/* An array on the host and on the GPU, with the same values at first. */
typedef struct {
  void *at[2];
  size_t bytes;
} twin;

static inline twin twin_of(const void *values, size_t bytes) {
  twin t = {{malloc(bytes ? bytes : 1), cuda->alloc(gpu, bytes)}, bytes};
  memcpy(t.at[0], values, bytes);
  cuda->write(gpu, t.at[1], values, bytes);
  return t;
}

/* n normal numbers times `factor`; stream: which. */
static inline twin normals(size_t n, uint64_t stream, float factor) {
  float *x = malloc((n ? n : 1) * sizeof *x);
  attend_random_normal((attend_random){7, stream}, 0, n, x);
  for (size_t i = 0; i < n; i++) x[i] *= factor;
  twin t = twin_of(x, n * sizeof *x);
  free(x);
  return t;
}

static inline twin integers(size_t n, uint64_t stream, int below) {
  float *u = malloc(n * sizeof *u);
  int32_t *x = malloc(n * sizeof *x);
  attend_random_uniform((attend_random){7, stream}, 0, n, u);
  for (size_t i = 0; i < n; i++) x[i] = (int32_t)(u[i] * (float)below);
  twin t = twin_of(x, n * sizeof *x);
  free(u), free(x);
  return t;
}

/* The GPU's values; free them. */
static inline void *fetched(const twin *t) {
  void *x = malloc(t->bytes ? t->bytes : 1);
  cuda->read(gpu, x, t->at[1], t->bytes);
  return x;
}

static inline void twin_free(twin *t) {
  free(t->at[0]);
  cuda->free(gpu, t->at[1]);
}

#endif
