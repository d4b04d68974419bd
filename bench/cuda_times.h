/* Clocks and random numbers of the benchmarks of libattend-cuda. */
#ifndef BENCH_CUDA_TIMES_H
#define BENCH_CUDA_TIMES_H

#include <stdint.h>
#include <time.h>

#include "../tests/gpu/gpu.h"

enum { RUNS = 15 };

static inline double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static inline int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* bf16 normals on the GPU: a block of numbers, from another place on for each stream, repeated. */
static inline void *random_tensor(size_t n, uint64_t stream) {
  enum { BLOCK_OF = 1 << 20 };
  static float x[BLOCK_OF];
  static uint16_t block[2 * BLOCK_OF];
  const uint16_t *y = block + stream * 4096 % BLOCK_OF;
  char *to = cuda->alloc(gpu, n * 2);
  if (!block[0]) {
    attend_random_normal((attend_random){5, 1}, 0, BLOCK_OF, x);
    attend_convert_from_f32(ATTEND_BF16, x, BLOCK_OF, block);
    memcpy(block + BLOCK_OF, block, BLOCK_OF * sizeof *block);
  }
  for (size_t i = 0; i < n; i += BLOCK_OF)
    cuda->write(gpu, to + i * 2, y, (n - i < BLOCK_OF ? n - i : BLOCK_OF) * 2);
  return to;
}

#endif
