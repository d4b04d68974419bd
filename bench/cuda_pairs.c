/* Times attention pair by pair of libattend-cuda: a line for each problem (attend/problem.h). */
#include <time.h>

#include "../tests/gpu/gpu.h"
#include "attend/problem.h"

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

enum { RUNS = 7 };

/* Normals on the GPU; large arrays repeat a block of numbers. */
static attend_view random_view(attend_dtype dtype, size_t n, uint64_t stream) {
  enum { BLOCK_OF = 1 << 20 };
  static float x[BLOCK_OF], y[BLOCK_OF];
  const size_t size = attend_dtype_size(dtype);
  char *to = cuda->alloc(gpu, n * size);
  attend_random_normal((attend_random){5, stream}, 0, BLOCK_OF, x);
  attend_convert_from_f32(dtype, x, BLOCK_OF, y);
  for (size_t i = 0; i < n; i += BLOCK_OF)
    cuda->write(gpu, to + i * size, y, (n - i < BLOCK_OF ? n - i : BLOCK_OF) * size);
  return attend_bhtd(to);
}

typedef size_t (*bytes_function)(cuda_gpu *gpu, const struct cuda_attention *a);
typedef void (*run_function)(cuda_gpu *gpu, const struct cuda_attention *a);

/* Median seconds of a call. */
static double seconds(bytes_function bytes, run_function run, struct cuda_attention c) {
  double all[RUNS];
  c.work = cuda->alloc(gpu, bytes(gpu, &c));
  for (int r = -1, inner = 1; r < RUNS; r++) {
    const double start = now();
    for (int i = 0; i < inner; i++) run(gpu, &c);
    cuda->wait(gpu);
    const double each = (now() - start) / inner;
    if (r >= 0) all[r] = each;
    inner = each < 1e-3 ? 20 : 2;
  }
  cuda->free(gpu, c.work);
  return attend_median(all, RUNS);
}

static void print(const char *text, const char *what, const attend_desc *d, double s) {
  const double part = d->mask.causal && d->q_len > 1 ? 0.5 : 1;
  const double pairs = part * d->batch * d->heads * d->q_len * d->kv_len;
  const double keys = (double)d->batch * d->kv_heads * d->kv_len * (d->dim + d->dim_v);
  printf("%-44s %-8s %9.1f us %7.2f TFLOP/s %6.3f TB/s of keys\n", text, what, s * 1e6,
         2 * pairs * (d->dim + d->dim_v) * (*what == 'b' ? 2.5 : 1) / s * 1e-12,
         keys * (double)attend_dtype_size(d->dtype) / s * 1e-12);
  fflush(stdout);
}

static void time_problem(const char *text) {
  attend_problem p = {ATTEND_INIT(attend_problem)};
  attend_desc *d = &p.desc;
  if (attend_problem_parse(host(), text, &p) || attend_desc_complete(host(), d)) {
    CHECK_FAIL("%s: %s", text, attend_message(host()));
    return;
  }
  const size_t rows = (size_t)d->batch * d->heads * d->q_len;
  const size_t keys = (size_t)d->batch * d->kv_heads * d->kv_len;
  float *lse = cuda->alloc(gpu, rows * sizeof *lse);
  if (d->bias.kind == ATTEND_ALIBI)
    d->bias.slopes = random_view(ATTEND_F32, (size_t)d->heads, 9).data;
  struct cuda_attention c = {.desc = d, .n = d->q_len, .lse = lse};
  attend_view *const of[8] = {&c.q, &c.k, &c.v, &c.o, &c.d_o, &c.dq, &c.dk, &c.dv};
  for (int i = 0; i < (p.op == ATTEND_OP_BACKWARD ? 8 : 4); i++) {
    const bool key = of[i] == &c.k || of[i] == &c.v || of[i] == &c.dk || of[i] == &c.dv;
    *of[i] = random_view(d->dtype, (key ? keys : rows) * (d->dim > d->dim_v ? d->dim : d->dim_v),
                         (uint64_t)i + 1);
  }
  print(text, "forward", d, seconds(cuda->pairs_bytes, cuda->pairs_forward, c));
  if (p.op == ATTEND_OP_BACKWARD)
    print(text, "backward", d, seconds(cuda->pairs_backward_bytes, cuda->pairs_backward, c));
  CHECK(!cuda->error(gpu));
  for (int i = 0; i < 8; i++)
    if (of[i]->data) cuda->free(gpu, of[i]->data);
  cuda->free(gpu, lse), cuda->free(gpu, (void *)d->bias.slopes);
}

TEST(times) {
  static const char *const all[] = {"softmax:b1h32n4096d64",
                                    "softmax:b1h32n4096d64:causal",
                                    "softmax:b1h16n4096d128",
                                    "softmax:b1h16n4096d128:causal",
                                    "softmax:b1h8n4096d256",
                                    "softmax:b1h32n4096d64:bf16",
                                    "poly:b1h32n4096d64",
                                    "gaussian:b1h32n4096d64",
                                    "argmax:b1h32n4096d64",
                                    "softmax:b32h12n128d64",
                                    "softmax:b1h12n512d64:causal:bwd",
                                    "softmax:b8h12n1024d64:causal:bwd",
                                    "softmax:b8h6n1024d128:causal:bwd",
                                    "softmax:b8h12n1024d64:causal:alibi:bwd",
                                    "softmax:b1h32n65536d128:decode",
                                    "softmax:b1h32g8n65536d128:decode",
                                    "softmax:b1h32g1n65536d128:decode",
                                    "softmax:b1h32n65536d128:decode:bf16",
                                    "softmax:b1h32g8n65536d128:decode:bf16",
                                    "softmax:b1h12n1024d64:decode",
                                    "softmax:b32h12n1024d64:decode"};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) time_problem(all[i]);
}
