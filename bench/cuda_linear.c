/* Times linear forms of libattend-cuda: one line of JSON for each problem; against_cuda.py reads
 * them. */
#include <stdint.h>
#include <time.h>

#include "../tests/gpu/linear_map.h"
#include "attend/problem.h"

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
static void *random_tensor(attend_dtype dtype, size_t n, uint64_t stream) {
  enum { BLOCK_OF = 1 << 20 };
  static float x[BLOCK_OF], y[BLOCK_OF];
  const size_t size = attend_dtype_size(dtype);
  char *to = cuda->alloc(gpu, n * size);
  if (!to) exit(1);
  attend_random_normal((attend_random){5, stream}, 0, BLOCK_OF, x);
  attend_convert_from_f32(dtype, x, BLOCK_OF, y);
  for (size_t i = 0; i < n; i += BLOCK_OF)
    cuda->write(gpu, to + i * size, y, (n - i < BLOCK_OF ? n - i : BLOCK_OF) * size);
  return to;
}

enum { RUNS = 9 };

static double seconds(const struct cuda_linear_call *c,
                      void (*f)(cuda_gpu *, const struct cuda_linear_call *), int inner) {
  double all[RUNS];
  for (int r = -2; r < RUNS; r++) {
    double start = now();
    for (int i = 0; i < inner; i++) f(gpu, c);
    cuda->wait(gpu);
    if (r >= 0) all[r] = (now() - start) / inner;
  }
  qsort(all, RUNS, sizeof *all, by_value);
  return all[RUNS / 2];
}

/* Bytes of q, k, v, o once; products of scores inside a chunk, sums and outputs. */
static double limit(const attend_desc *d) {
  const double rows = (double)d->batch * d->heads * d->q_len,
               keys = (double)d->batch * d->kv_heads * d->kv_len,
               c = (double)attend_form_features(&d->form, d->dim);
  const double bytes = (rows + keys) * (d->dim + d->dim_v) * (double)attend_dtype_size(d->dtype);
  const double flops =
      2 * rows * (c * d->dim_v + 64 * (c + d->dim_v) / 2) + 2 * keys * c * d->dim_v;
  const double a = bytes / 4.18e12, b = flops / 600e12;
  return a > b ? a : b;
}

static void time_problem(const char *text, bool backward) {
  attend_problem p = {ATTEND_INIT(attend_problem)};
  if (attend_problem_parse(host(), text, &p)) exit(1);
  attend_desc *d = &p.desc;
  if (attend_desc_complete(host(), d)) exit(1);
  const size_t q = (size_t)d->batch * d->heads * d->q_len,
               k = (size_t)d->batch * d->kv_heads * d->kv_len;
  void *t[9];
  const size_t counts[] = {q * d->dim,   k * d->dim, k * d->dim_v, q * d->dim_v,
                           q * d->dim_v, q * d->dim, k * d->dim,   k * d->dim_v};
  for (int i = 0; i < 8; i++)
    t[i] = i < 4 || backward ? random_tensor(d->dtype, counts[i], i) : NULL;
  t[8] = cuda->alloc(gpu, q * sizeof(float));
  struct cuda_linear_call c = {
      .call = {.desc = d,
               .n = d->q_len,
               .q = view_complete(attend_bhtd(t[0]), d->heads, d->q_len, d->dim),
               .k = view_complete(attend_bhtd(t[1]), d->kv_heads, d->kv_len, d->dim),
               .v = view_complete(attend_bhtd(t[2]), d->kv_heads, d->kv_len, d->dim_v),
               .o = view_complete(attend_bhtd(t[3]), d->heads, d->q_len, d->dim_v),
               .d_o = view_complete(attend_bhtd(t[4]), d->heads, d->q_len, d->dim_v),
               .dq = view_complete(attend_bhtd(t[5]), d->heads, d->q_len, d->dim),
               .dk = view_complete(attend_bhtd(t[6]), d->kv_heads, d->kv_len, d->dim),
               .dv = view_complete(attend_bhtd(t[7]), d->kv_heads, d->kv_len, d->dim_v),
               .lse = t[8]},
      .map = linear_map(d)};
  c.call.work = cuda->alloc(gpu, cuda->linear_bytes(gpu, &c));
  double s = seconds(&c, cuda->linear_forward, 4);
  if (backward) s = seconds(&c, cuda->linear_backward, 4);
  printf(
      "{\"problem\": \"%s\", \"backward\": %s, \"batch\": %d, \"heads\": %d, \"kv_heads\": %d, "
      "\"q_len\": %d, \"dim\": %d, \"causal\": %s, \"ms\": %.4f, \"of_limit\": %.3f}\n",
      text, backward ? "true" : "false", d->batch, d->heads, d->kv_heads, d->q_len, d->dim,
      d->mask.causal ? "true" : "false", s * 1e3, limit(d) * (backward ? 2.5 : 1) / s);
  if (cuda->error(gpu)) printf("error: %s\n", cuda->error(gpu));
  fflush(stdout);
  cuda->free(gpu, c.call.work);
  linear_map_free(&c.map);
  for (int i = 0; i < 9; i++) cuda->free(gpu, t[i]);
}

static const char *const forward[] = {
    "elu:b1h32n16384d64:causal:bf16",
    "elu:b4h32n4096d64:causal:bf16",
    "elu:b1h32n16384d64:bf16",
    "elu:b1h16n16384d128:causal:bf16",
    "elu:b1h32n16384d64:causal",
    "favor(m=256):b1h32n16384d64:causal:bf16",
    "favor(m=256):b1h8n65536d64:causal:bf16",
    "elu:b1h1n1000000d64:causal:bf16",
    "elu:b1h12n1000000d64:causal:bf16",
};
static const char *const backward[] = {"elu:b1h32n16384d64:causal:bf16:bwd",
                                       "elu:b1h12n16384d64:causal:bf16:bwd",
                                       "favor(m=256):b1h8n65536d64:causal:bf16:bwd"};

TEST(forward_times) {
  for (size_t i = 0; i < sizeof forward / sizeof *forward && (!i || !getenv("BENCH_FIRST")); i++)
    time_problem(forward[i], false);
}
TEST(backward_times) {
  for (size_t i = 0; i < sizeof backward / sizeof *backward; i++) time_problem(backward[i], true);
}
