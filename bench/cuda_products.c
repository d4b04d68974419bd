/* Times products of libattend-cuda: a line of JSON for each; against_cuda.py reads them. */
#include "cuda_times.h"

/* y = x W^T: what is read in which layout, and what is written. */
typedef struct {
  const char *name;
  int m, n, k;
  bool a_columns, b_columns, split;
  attend_dtype out;
  attend_activation f;
  enum { BF16, INT8, F32 } kind; /* of the weights */
} problem;

enum { MAX_SETS = 64 };

static void time_product(const problem *p) {
  /* few rows: weights of several sets, together larger than the cache */
  const size_t weights = (size_t)p->n * p->k, size = p->kind == F32 ? 4 : p->kind == INT8 ? 1 : 2;
  size_t sets = p->m > 64 ? 1 : ((size_t)256 << 20) / (weights * size) + 1;
  if (sets > MAX_SETS) sets = MAX_SETS;
  void *a = random_tensor((size_t)p->m * p->k * 2, 1), *b[MAX_SETS];
  for (size_t i = 0; i < sets; i++) b[i] = random_tensor(weights * size / 2, 2 + i);
  void *c = cuda->alloc(gpu, (size_t)p->m * p->n * sizeof(float));
  void *bias = cuda->alloc(gpu, (size_t)p->n * sizeof(float));
  cuda->zero(gpu, c, (size_t)p->m * p->n * sizeof(float));
  cuda->zero(gpu, bias, (size_t)p->n * sizeof(float));
  const attend_dtype type = p->kind == F32 ? ATTEND_F32 : ATTEND_BF16;
  struct cuda_product call = {.type = type,
                              .m = p->m,
                              .n = p->n,
                              .k = p->k,
                              .a_type = type,
                              .b_type = type,
                              .b_int8 = p->kind == INT8,
                              .scale = p->kind == INT8 ? bias : NULL,
                              .a = a,
                              .lda = p->a_columns ? p->m : p->k,
                              .ldb = p->b_columns ? p->n : p->k,
                              .a_columns = p->a_columns,
                              .b_columns = p->b_columns,
                              .c_type = p->out,
                              .c = c,
                              .ldc = p->n,
                              .bias = p->f ? bias : NULL,
                              .f = p->f,
                              .add = p->split,
                              .split = p->split};
  double all[RUNS];
  const double flops = 2.0 * p->m * p->n * p->k;
  const bool few = p->m <= 64;
  const int inner = few ? 2 * (int)sets : 1 + (int)((p->kind == F32 ? 1e11 : 2e12) / flops);
  struct cuda_recording *recordings[2] = {NULL, NULL};
  for (int r = -4; r < RUNS; r++) {
    double start = now();
    for (int i = 0; i < inner; i++) {
      const size_t set = (size_t)i % sets;
      /* graphs of `sets` calls: the host prepares one while the GPU runs the other */
      if (few && set == 0) cuda->record_begin(gpu, &recordings[(size_t)i / sets % 2]);
      call.b = b[set];
      cuda->product(gpu, &call);
      if (few && set == sets - 1) cuda->record_end(gpu);
    }
    cuda->wait(gpu);
    if (r >= 0) all[r] = (now() - start) / inner;
  }
  for (int i = 0; i < 2; i++) cuda->record_free(gpu, recordings[i]);
  qsort(all, RUNS, sizeof *all, by_value);
  const double s = all[RUNS / 2];
  static const char *const kinds[] = {"bf16", "int8", "f32"};
  printf(
      "{\"what\": \"%s\", \"weights\": \"%s\", \"m\": %d, \"n\": %d, \"k\": %d, \"a_columns\": %d, "
      "\"b_columns\": %d, \"ms\": %.5f, \"flops\": %.0f, \"tflops\": %.2f, \"tbytes_per_s\": "
      "%.3f}\n",
      p->name, kinds[p->kind], p->m, p->n, p->k, p->a_columns, p->b_columns, s * 1e3, flops,
      flops / s * 1e-12, (double)(weights * size) / s * 1e-12);
  fflush(stdout);
  cuda->free(gpu, a), cuda->free(gpu, c), cuda->free(gpu, bias);
  for (size_t i = 0; i < sets; i++) cuda->free(gpu, b[i]);
}

TEST(times) {
  const attend_dtype bf16 = ATTEND_BF16, f32 = ATTEND_F32;
  const problem list[] = {
      {"square", 8192, 8192, 8192, false, false, false, bf16, 0, BF16},
      {"qkv", 32768, 2304, 768, false, false, false, bf16, 0, BF16},
      {"out", 32768, 768, 768, false, false, false, bf16, 0, BF16},
      {"up", 32768, 3072, 768, false, false, false, bf16, 0, BF16},
      {"up, gelu", 32768, 3072, 768, false, false, false, bf16, ATTEND_GELU_TANH, BF16},
      {"up, f32", 32768, 3072, 768, false, false, false, f32, 0, BF16},
      {"down", 32768, 768, 3072, false, false, false, bf16, 0, BF16},
      {"head", 8192, 50304, 768, false, false, false, bf16, 0, BF16},
      {"qkv dx", 32768, 768, 2304, false, true, false, bf16, 0, BF16},
      {"up dx", 32768, 768, 3072, false, true, false, bf16, 0, BF16},
      {"down dx", 32768, 3072, 768, false, true, false, bf16, 0, BF16},
      {"head dx", 8192, 768, 50304, false, true, false, bf16, 0, BF16},
      {"qkv dW", 2304, 768, 32768, true, true, true, f32, 0, BF16},
      {"out dW", 768, 768, 32768, true, true, true, f32, 0, BF16},
      {"up dW", 3072, 768, 32768, true, true, true, f32, 0, BF16},
      {"down dW", 768, 3072, 32768, true, true, true, f32, 0, BF16},
      {"head dW", 50304, 768, 8192, true, true, true, f32, 0, BF16},
      {"plain", 4096, 4096, 4096, false, false, false, f32, 0, F32},
      {"plain up", 8192, 3072, 768, false, false, false, f32, 0, F32},
      {"plain dW", 3072, 768, 8192, true, true, true, f32, 0, F32},
      {"prefill 512", 512, 2304, 768, false, false, false, bf16, 0, BF16},
  };
  for (size_t i = 0; i < sizeof list / sizeof *list; i++) time_product(&list[i]);
  static const int shapes[][2] = {{2304, 768}, {768, 768}, {3072, 768}, {768, 3072}, {50304, 768}};
  static const int rows[] = {1, 8, 32};
  for (int kind = BF16; kind <= F32; kind++)
    for (int r = 0; r < 3; r++)
      for (int s = 0; s < 5; s++)
        time_product(&(problem){.name = "rows",
                                .m = rows[r],
                                .n = shapes[s][0],
                                .k = shapes[s][1],
                                .out = kind == F32 ? f32 : bf16,
                                .kind = kind});
}
