/* Times ops of libattend-cuda at the sizes of GPT-2 124M's training step, 32 texts of 1024 tokens:
 * microseconds, and bytes that must move over them. */
#include <time.h>

#include "../tests/gpu/gpu.h"

enum {
  ROWS = 32768,
  F = 768,
  MLP = 3072,
  V = 50257,
  LDV = 50272,
  HEAD = 8192,
  RUNS = 9,
  INNER = 8
};

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* Normals on the GPU; large arrays repeat a block of numbers. */
static void *numbers(size_t n, attend_dtype type, uint64_t stream) {
  enum { BLOCK_OF = 1 << 20 };
  static float x[BLOCK_OF], y[BLOCK_OF];
  const size_t size = attend_dtype_size(type);
  char *to = cuda->alloc(gpu, n * size);
  attend_random_normal((attend_random){5, stream}, 0, BLOCK_OF, x);
  attend_convert_from_f32(type, x, BLOCK_OF, y);
  for (size_t i = 0; i < n; i += BLOCK_OF)
    cuda->write(gpu, to + i * size, y, (n - i < BLOCK_OF ? n - i : BLOCK_OF) * size);
  return to;
}

static double times[RUNS];
#define TIME(what, bytes, name, ...)                                          \
  do {                                                                        \
    const struct op_##name op = {__VA_ARGS__};                                \
    for (int r = -2; r < RUNS; r++) {                                         \
      const double start = now();                                             \
      for (int i = 0; i < INNER; i++) cuda->name(gpu, &op);                   \
      cuda->wait(gpu);                                                        \
      if (r >= 0) times[r] = (now() - start) / INNER;                         \
    }                                                                         \
    qsort(times, RUNS, sizeof *times, by_value);                              \
    printf("{\"op\": \"%s\", \"us\": %.1f, \"tbytes_per_s\": %.2f}\n", what,  \
           times[RUNS / 2] * 1e6, (double)(bytes) / times[RUNS / 2] * 1e-12); \
    if (cuda->error(gpu)) printf("%s\n", cuda->error(gpu));                   \
    fflush(stdout);                                                           \
  } while (0)

TEST(ops_of_a_training_step) {
  const attend_dtype T = ATTEND_BF16;
  const size_t n = (size_t)ROWS * F;
  float *x = numbers(n, ATTEND_F32, 1), *dx = numbers(n, ATTEND_F32, 2);
  float *w = numbers(F, ATTEND_F32, 3), *dw = numbers(2 * F, ATTEND_F32, 4);
  void *h = numbers(n, T, 5), *work = cuda->alloc(gpu, attend_norm_back_bytes(ROWS, F));
  void *up = numbers(4 * n, T, 6), *act = numbers(4 * n, T, 7), *d = numbers(4 * n, T, 8);
  TIME("norm", 6 * n, norm, .rows = ROWS, .width = F, .x = x, .ldx = F, .weight = w, .bias = w,
       .eps = 1e-5f, .y = h, .ldy = F, .y_type = T);
  TIME("norm_backward", 14 * n, norm_backward, .add = true, .rows = ROWS, .width = F, .x = x,
       .ldx = F, .weight = w, .eps = 1e-5f, .dy = h, .lddy = F, .dx = dx, .lddx = F, .dweight = dw,
       .dbias = dw + F, .work = work, .dy_type = T);
  TIME("copy to bf16", 6 * n, gather, .rows = ROWS, .width = F, .factor = 1, .x = x, .ldx = F,
       .y = h, .ldy = F, .y_type = T);
  TIME("add", 12 * n, add, .rows = ROWS, .width = F, .a = x, .lda = F, .b = dx, .ldb = F, .y = dx,
       .ldy = F);
  TIME("activate", 16 * n, activate, .f = ATTEND_GELU_TANH, .rows = ROWS, .width = MLP, .a = up,
       .lda = MLP, .y = act, .ldy = MLP, .a_type = T, .y_type = T);
  TIME("activate_backward", 24 * n, activate_backward, .f = ATTEND_GELU_TANH, .rows = ROWS,
       .width = MLP, .a = up, .lda = MLP, .dy = act, .lddy = MLP, .da = d, .ldda = MLP, .a_type = T,
       .dy_type = T, .da_type = T);
  TIME("activate_backward and again", 32 * n, activate_backward, .f = ATTEND_GELU_TANH,
       .rows = ROWS, .width = MLP, .a = up, .lda = MLP, .dy = act, .lddy = MLP, .da = act,
       .ldda = MLP, .y = d, .ldy = MLP, .a_type = T, .dy_type = T, .da_type = T);
  TIME("dropout", 8 * n, dropout, .random = {1, 2}, .p = 0.1f, .rows = ROWS, .width = F, .x = x,
       .ldx = F);
  cuda->free(gpu, up), cuda->free(gpu, act), cuda->free(gpu, d);
  const size_t logits = (size_t)HEAD * LDV;
  int32_t *ids = malloc(ROWS * sizeof *ids);
  for (int i = 0; i < ROWS; i++) /* a fifth of a text is a word */
    ids[i] = (int32_t)(V * pow((i * 7919 % ROWS + 0.5) / ROWS, 7));
  int32_t *targets = cuda->alloc(gpu, ROWS * sizeof *ids);
  cuda->write(gpu, targets, ids, ROWS * sizeof *ids);
  void *l = numbers(logits, T, 9), *wide = numbers(logits, ATTEND_F32, 10);
  TIME("loss", 4 * (size_t)HEAD * V, loss, .rows = HEAD, .width = V, .x = l, .ldx = LDV,
       .targets = targets, .scale = 1, .loss = dw, .x_type = T);
  TIME("loss in f32", 8 * (size_t)HEAD * V, loss, .rows = HEAD, .width = V, .x = wide, .ldx = LDV,
       .targets = targets, .scale = 1, .loss = dw);
  cuda->free(gpu, l), cuda->free(gpu, wide);
  float *table = numbers((size_t)V * F, ATTEND_F32, 11),
        *m = numbers((size_t)V * F, ATTEND_F32, 12);
  float *v = numbers((size_t)V * F, ATTEND_F32, 13), *g = numbers((size_t)V * F, ATTEND_F32, 14);
  void *sort = cuda->alloc(gpu, embed_backward_bytes(ROWS, F));
  TIME("embed", 4 * n + 4 * n, embed, .table = {.data = table, .entries = V}, .rows = ROWS,
       .width = F, .ids = targets, .factor = 1, .y = x, .ldy = F);
  TIME("embed_backward", 4 * n, embed_backward, .rows = ROWS, .width = F, .entries = V,
       .ids = targets, .factor = 1, .dy = x, .lddy = F, .dtable = g, .work = sort);
  const size_t p = (size_t)V * F;
  double *sums = cuda->alloc(gpu, stretches_of(p) * sizeof *sums);
  TIME("step", 28 * p, step, .n = p, .values = table, .gradients = g, .first = m, .second = v,
       .rate = 1e-6f, .beta1 = 0.9f, .beta2 = 0.95f, .eps = 1e-8f, .shrink = 1, .fix1 = 1,
       .fix2 = 1);
  TIME("sum_squares", 4 * p, sum_squares, .n = p, .x = g, .sums = sums);
}
