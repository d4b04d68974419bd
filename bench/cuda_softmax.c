/* Times softmax of libattend-cuda: one line of JSON for each problem; against_cuda.py reads them. */
#include "cuda_times.h"

enum { SETS = 8 };

static struct cuda_tensor tensor(void *data, int heads, int length, int width) {
  return (struct cuda_tensor){
      data, {(int64_t)heads * length * width, (int64_t)length * width, width}, width};
}

typedef void (*kernel)(cuda_gpu *gpu, const struct cuda_softmax *call);

/* Median seconds of a call; the keys and values of SETS sets take turns, so that they are not read
 * from the cache. */
static double seconds(kernel run, size_t work, struct cuda_softmax c, int sets, void *const *k,
                      void *const *v, int inner) {
  double all[RUNS];
  c.work = cuda->alloc(gpu, work);
  for (int r = -2; r < RUNS; r++) {
    double start = now();
    for (int i = 0; i < inner; i++) {
      c.k.data = k[i % sets], c.v.data = v[i % sets];
      run(gpu, &c);
    }
    cuda->wait(gpu);
    if (r >= 0) all[r] = (now() - start) / inner;
  }
  cuda->free(gpu, c.work);
  qsort(all, RUNS, sizeof *all, by_value);
  return all[RUNS / 2];
}

static void print(const char *what, const struct cuda_softmax *c, double s) {
  const double per = c->causal && c->q_len > 1 ? 0.5 : 1;
  const double flops = 4.0 * c->batch * c->heads * c->q_len * c->kv_len * c->q.width * per *
                       (strcmp(what, "backward") ? 1 : 2.5);
  const double bytes = 4.0 * c->batch * c->kv_heads * c->kv_len * c->q.width;
  printf(
      "{\"what\": \"%s\", \"batch\": %d, \"heads\": %d, \"kv_heads\": %d, \"q_len\": %d, "
      "\"kv_len\": %d, \"dim\": %d, \"causal\": %s, \"ms\": %.4f, \"tflops\": %.1f, "
      "\"tbytes_per_s\": %.3f}\n",
      what, c->batch, c->heads, c->kv_heads, c->q_len, c->kv_len, c->q.width,
      c->causal ? "true" : "false", s * 1e3, flops / s * 1e-12, bytes / s * 1e-12);
  fflush(stdout);
}

/* Gradients of what forward gave. */
static void time_backward(struct cuda_softmax c, void *k, void *v, int inner) {
  const size_t rows = (size_t)c.batch * c.heads * c.q_len;
  const size_t keys = (size_t)c.batch * c.kv_heads * c.kv_len;
  void *of[4] = {random_tensor(rows * c.q.width, 40)};
  for (int i = 1; i < 4; i++) of[i] = cuda->alloc(gpu, (i == 1 ? rows : keys) * c.q.width * 2);
  c.k.data = k, c.v.data = v;
  c.lse = cuda->alloc(gpu, rows * sizeof *c.lse);
  c.d_o = c.o, c.dq = c.q, c.dk = c.k, c.dv = c.v;
  c.d_o.data = of[0], c.dq.data = of[1], c.dk.data = of[2], c.dv.data = of[3];
  cuda->softmax_forward(gpu, &c);
  print(
      "backward", &c,
      seconds(cuda->softmax_backward, cuda->softmax_backward_bytes(gpu, &c), c, 1, &k, &v, inner));
  for (int i = 0; i < 4; i++) cuda->free(gpu, of[i]);
  cuda->free(gpu, c.lse);
}

static void time_problem(int batch, int heads, int kv_heads, int q_len, int kv_len, int dim,
                         bool causal, int sets, int inner) {
  const size_t rows = (size_t)batch * heads * q_len * dim,
               keys = (size_t)batch * kv_heads * kv_len * dim;
  void *q = random_tensor(rows, 1), *o = random_tensor(rows, 2), *k[SETS], *v[SETS];
  for (int i = 0; i < sets; i++)
    k[i] = random_tensor(keys, 3 + i), v[i] = random_tensor(keys, 20 + i);
  struct cuda_softmax c = {.dtype = ATTEND_BF16,
                           .batch = batch,
                           .heads = heads,
                           .kv_heads = kv_heads,
                           .q_len = q_len,
                           .kv_len = kv_len,
                           .q = tensor(q, heads, q_len, dim),
                           .k = tensor(NULL, kv_heads, kv_len, dim),
                           .v = tensor(NULL, kv_heads, kv_len, dim),
                           .o = tensor(o, heads, q_len, dim),
                           .scale = 1 / sqrtf((float)dim),
                           .causal = causal,
                           .offset = kv_len - q_len};
  print("forward", &c,
        seconds(cuda->softmax_forward, cuda->softmax_bytes(gpu, &c), c, sets, k, v, inner));
  if (q_len > 1) time_backward(c, k[0], v[0], inner / 2);
  cuda->free(gpu, q), cuda->free(gpu, o);
  for (int i = 0; i < sets; i++) cuda->free(gpu, k[i]), cuda->free(gpu, v[i]);
}

/* Decoding over pages, which lie in memory in another order than in their sequence. */
static void time_pages(int heads, int kv_heads, int keys, int dim, int sets, int inner) {
  const size_t part = cuda_page_part(2, dim), page = 2 * part * (size_t)kv_heads + 1024;
  const int pages = keys / ATTEND_PAGE;
  void **table = malloc((size_t)(sets * pages) * sizeof *table), *memory[SETS];
  for (int s = 0; s < sets; s++) {
    memory[s] = random_tensor(page / 2 * (size_t)pages, 40 + (uint64_t)s);
    for (int i = 0; i < pages; i++)
      table[s * pages + i] = (char *)memory[s] + page * (size_t)(i * 5 % pages);
  }
  void **there = cuda->alloc(gpu, (size_t)(sets * pages) * sizeof *table);
  cuda->write(gpu, there, table, (size_t)(sets * pages) * sizeof *table);
  void *q = random_tensor((size_t)(heads * dim), 1), *o = random_tensor((size_t)(heads * dim), 2);
  attend_desc d = {ATTEND_INIT(attend_desc),
                   .heads = heads,
                   .kv_heads = kv_heads,
                   .q_len = 1,
                   .dim = dim,
                   .mask.causal = ATTEND_CAUSAL_BOTTOM,
                   .dtype = ATTEND_BF16,
                   .purpose = ATTEND_FOR_EXTEND};
  CHECK(!attend_desc_complete(host(), &d));
  const int64_t length = keys, before = keys - 1;
  struct cuda_pages at = {there, pages, &length, false};
  struct cuda_attention c = {.desc = &d,
                             .n = 1,
                             .q = attend_bhtd(q),
                             .o = attend_bhtd(o),
                             .pages = &at,
                             .before = &before};
  c.work = cuda->alloc(gpu, cuda->attention_bytes(gpu, &c));
  double all[RUNS];
  for (int r = -2; r < RUNS; r++) {
    double start = now();
    for (int i = 0; i < inner; i++) {
      at.page = there + i % sets * pages;
      cuda->attention_forward(gpu, &c);
    }
    cuda->wait(gpu);
    if (r >= 0) all[r] = (now() - start) / inner;
  }
  qsort(all, RUNS, sizeof *all, by_value);
  printf(
      "{\"batch\": 1, \"heads\": %d, \"kv_heads\": %d, \"q_len\": 1, \"kv_len\": %d, \"dim\": %d, "
      "\"causal\": true, \"paged\": true, \"ms\": %.4f, \"tbytes_per_s\": %.3f}\n",
      heads, kv_heads, keys, dim, all[RUNS / 2] * 1e3,
      4.0 * kv_heads * keys * dim / all[RUNS / 2] * 1e-12);
  fflush(stdout);
  for (int s = 0; s < sets; s++) cuda->free(gpu, memory[s]);
  cuda->free(gpu, there), cuda->free(gpu, q), cuda->free(gpu, o), cuda->free(gpu, c.work);
  free(table);
}

TEST(times) {
  const char *only = getenv("ONLY"); /* decode: not the tiles */
  for (int d = 64; d <= 128 && !only; d *= 2)
    for (int causal = 0; causal < 2; causal++)
      for (int n = 1024; n <= 16384; n *= 4)
        time_problem(16384 / n, 2048 / d, 2048 / d, n, n, d, causal, 1, 8);
  for (int g = 32; g >= 1; g = g == 32 ? 8 : g == 8 ? 1 : 0) {
    time_problem(1, 32, g, 1, 65536, 128, true, g == 32 ? 2 : SETS, 64);
    time_pages(32, g, 65536, 128, g == 32 ? 2 : SETS, 64);
  }
}
