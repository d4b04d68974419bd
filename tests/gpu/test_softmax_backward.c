/* Gradients of softmax on the GPU against the definition in double, and their bits: again, alone, in
 * another layout.
 */
#include "attend/problem.h"
#include "gpu.h"

typedef struct {
  int batch, heads, kv_heads, q_len, kv_len, dim, dim_v;
  bool causal, transposed; /* transposed: [B,T,H,D] */
  attend_dtype dtype;
} problem;

enum { Q, K, V, O, D_O, DQ, DK, DV, TENSORS };

typedef struct {
  problem p;
  twin of[TENSORS], lse;
} tensors;

static int width_of(const problem *p, int which) {
  return which == Q || which == K || which == DQ || which == DK ? p->dim : p->dim_v;
}
static bool is_keys(int which) { return which == K || which == V || which == DK || which == DV; }
static size_t count_of(const problem *p, int which) {
  const int rows = is_keys(which) ? p->kv_heads * p->kv_len : p->heads * p->q_len;
  return (size_t)p->batch * (size_t)rows * (size_t)width_of(p, which);
}

static twin narrow_normals(const problem *p, int which, float factor) {
  const size_t n = count_of(p, which);
  float *x = malloc(n * sizeof *x);
  uint16_t *y = malloc(n * sizeof *y);
  attend_random_normal((attend_random){4, (uint64_t)which}, 0, n, x);
  for (size_t i = 0; i < n; i++) x[i] *= factor;
  attend_convert_from_f32(p->dtype, x, n, y);
  twin t = twin_of(y, n * sizeof *y);
  free(x), free(y);
  return t;
}

static tensors make(problem p, float factor) {
  tensors t = {.p = p};
  for (int i = 0; i < TENSORS; i++)
    t.of[i] = narrow_normals(&p, i, i == Q || i == K ? factor : i >= DQ ? NAN : 1);
  t.lse = normals((size_t)p.batch * p.heads * p.q_len, 1, NAN);
  return t;
}
static void release(tensors *t) {
  for (int i = 0; i < TENSORS; i++) twin_free(&t->of[i]);
  twin_free(&t->lse);
}

/* From batch entry `from` on. */
static struct cuda_tensor tensor_of(const tensors *t, int which, int from) {
  const problem *p = &t->p;
  const int heads = is_keys(which) ? p->kv_heads : p->heads, width = width_of(p, which);
  const int length = is_keys(which) ? p->kv_len : p->q_len;
  struct cuda_tensor x = {
      .stride = {(int64_t)heads * length * width, (int64_t)length * width, width}, .width = width};
  if (p->transposed) x.stride[1] = width, x.stride[2] = (int64_t)heads * width;
  x.data = (uint16_t *)t->of[which].at[1] + from * x.stride[0];
  return x;
}

static struct cuda_softmax call_of(const tensors *t, int from) {
  const problem *p = &t->p;
  return (struct cuda_softmax){.dtype = p->dtype,
                               .batch = p->batch - from,
                               .heads = p->heads,
                               .kv_heads = p->kv_heads,
                               .q_len = p->q_len,
                               .kv_len = p->kv_len,
                               .q = tensor_of(t, Q, from),
                               .k = tensor_of(t, K, from),
                               .v = tensor_of(t, V, from),
                               .o = tensor_of(t, O, from),
                               .d_o = tensor_of(t, D_O, from),
                               .dq = tensor_of(t, DQ, from),
                               .dk = tensor_of(t, DK, from),
                               .dv = tensor_of(t, DV, from),
                               .lse = (float *)t->lse.at[1] + (size_t)from * p->heads * p->q_len,
                               .scale = 1 / sqrtf((float)p->dim),
                               .causal = p->causal,
                               .offset = p->kv_len - p->q_len};
}

static void run_forward(const tensors *t) {
  struct cuda_softmax c = call_of(t, 0);
  c.work = cuda->alloc(gpu, cuda->softmax_bytes(gpu, &c));
  cuda->softmax_forward(gpu, &c);
  cuda->free(gpu, c.work);
}
static void run_backward(const tensors *t, int from) {
  struct cuda_softmax c = call_of(t, from);
  const char *refusal = cuda->softmax_backward_refusal(gpu, &c);
  if (refusal) CHECK_FAIL("refused: %s", refusal);
  for (int i = DQ; i < TENSORS; i++)
    cuda->write(gpu, t->of[i].at[1], t->of[i].at[0], t->of[i].bytes);
  c.work = cuda->alloc(gpu, cuda->softmax_backward_bytes(gpu, &c));
  cuda->softmax_backward(gpu, &c);
  cuda->free(gpu, c.work);
  CHECK(!cuda->error(gpu));
}

static void check_definition(const tensors *t) {
  const problem *p = &t->p;
  const attend_desc d = {ATTEND_INIT(attend_desc),
                         .batch = p->batch,
                         .heads = p->heads,
                         .kv_heads = p->kv_heads,
                         .q_len = p->q_len,
                         .kv_len = p->kv_len,
                         .dim = p->dim,
                         .dim_v = p->dim_v,
                         .mask.causal = p->causal ? ATTEND_CAUSAL_BOTTOM : ATTEND_NOT_CAUSAL,
                         .dtype = p->dtype};
  const double bound = p->dtype == ATTEND_F16 ? 2e-3 : 1e-2;
  double *want[3];
  for (int i = 0; i < 3; i++) want[i] = malloc(count_of(p, DQ + i) * sizeof(double));
  CHECK_EQ(
      attend_definition_backward(host(), &d, attend_bhtd(t->of[Q].at[0]),
                                 attend_bhtd(t->of[K].at[0]), attend_bhtd(t->of[V].at[0]),
                                 attend_bhtd(t->of[D_O].at[0]), want[0], want[1], want[2], NULL),
      ATTEND_OK);
  for (int i = 0; i < 3; i++) {
    const size_t n = count_of(p, DQ + i);
    double off = 0, all = 0;
    float *got = malloc(n * sizeof *got);
    void *narrow = fetched(&t->of[DQ + i]);
    attend_convert_to_f32(p->dtype, narrow, n, got);
    for (size_t j = 0; j < n; j++) {
      off += ((double)got[j] - want[i][j]) * ((double)got[j] - want[i][j]);
      all += want[i][j] * want[i][j];
    }
    /* With a single key dq and dk are zero: the rounding of o is left, some 2^-8 of d_o.v. */
    const double size = all > 0 ? sqrt(all) : 4 * sqrt((double)n);
    if (!(sqrt(off) <= bound * size))
      CHECK_FAIL("d%c, T %d S %d D %d M %d causal %d: relative error %g", "qkv"[i], p -> q_len,
                 p -> kv_len, p -> dim, p -> dim_v, p -> causal, sqrt(off / all));
    free(got), free(narrow), free(want[i]);
  }
}

/* The gradients in `was` again, from batch entry `from` on. */
static void check_bits(const tensors *t, uint16_t *const *was, int from, const char *what) {
  run_backward(t, from);
  for (int i = DQ; i < TENSORS; i++) {
    const size_t n = count_of(&t->p, i), first = n / (size_t)t->p.batch * (size_t)from;
    uint16_t *now = fetched(&t->of[i]);
    if (memcmp(now + first, was[i - DQ] + first, (n - first) * 2))
      CHECK_FAIL("T %d S %d D %d causal %d: other bits %s", t->p.q_len, t->p.kv_len, t->p.dim,
                 t->p.causal, what);
    free(now);
  }
}

/* [B,H,T,D] to [B,T,H,D], or back. */
static void permute(const problem *p, int which, const uint16_t *from, uint16_t *to, bool back) {
  const int heads = is_keys(which) ? p->kv_heads : p->heads, width = width_of(p, which);
  const int length = is_keys(which) ? p->kv_len : p->q_len;
  for (int b = 0; b < p->batch; b++)
    for (int h = 0; h < heads; h++)
      for (int t = 0; t < length; t++) {
        const size_t x = ((size_t)(b * heads + h) * length + t) * width;
        const size_t y = ((size_t)(b * length + t) * heads + h) * width;
        memcpy(to + (back ? x : y), from + (back ? y : x), (size_t)width * 2);
      }
}

/* The same numbers with heads inside rows. */
static void check_layout(const tensors *t, uint16_t *const *was) {
  tensors other = make(t->p, 1);
  other.p.transposed = true;
  for (int i = Q; i < DQ; i++) {
    uint16_t *x = fetched(&t->of[i]), *y = malloc(t->of[i].bytes);
    permute(&t->p, i, x, y, false);
    cuda->write(gpu, other.of[i].at[1], y, t->of[i].bytes);
    free(x), free(y);
  }
  cuda->copy_now(gpu, other.lse.at[1], t->lse.at[1], t->lse.bytes);
  run_backward(&other, 0);
  for (int i = DQ; i < TENSORS; i++) {
    uint16_t *x = fetched(&other.of[i]), *y = malloc(other.of[i].bytes);
    permute(&t->p, i, x, y, true);
    if (memcmp(y, was[i - DQ], t->of[i].bytes)) CHECK_FAIL("other bits in another layout");
    free(x), free(y);
  }
  release(&other);
}

static void check_problem(problem p, float factor) {
  tensors t = make(p, factor);
  uint16_t *was[3];
  run_forward(&t);
  run_backward(&t, 0);
  check_definition(&t);
  for (int i = 0; i < 3; i++) was[i] = fetched(&t.of[DQ + i]);
  check_bits(&t, was, 0, "again");
  check_bits(&t, was, p.batch - 1, "alone");
  check_layout(&t, was);
  for (int i = 0; i < 3; i++) free(was[i]);
  release(&t);
}

TEST(gradients) {
  static const int shapes[][7] = {{1, 1, 1, 64, 64, 64, 64},    {1, 2, 1, 200, 200, 64, 64},
                                  {2, 4, 2, 77, 333, 128, 128}, {1, 2, 2, 300, 100, 64, 64},
                                  {1, 2, 1, 129, 700, 128, 64}, {1, 1, 1, 1, 1, 8, 8},
                                  {2, 2, 1, 65, 500, 80, 40},   {3, 4, 4, 200, 300, 64, 128}};
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
    for (int j = 0; j < 4; j++) {
      const int *s = shapes[i];
      check_problem((problem){s[0], s[1], s[2], s[3], s[4], s[5], s[6], j & 1, false,
                              j & 2 ? ATTEND_F16 : ATTEND_BF16},
                    i % 3 ? 1.5f : 1);
    }
}

/* More items than multiprocessors, so that blocks of keys wait for each other. */
TEST(many_blocks) {
  for (int j = 0; j < 4; j++) {
    problem p = {2,     16,    4,          1200, 1200, j & 2 ? 128 : 64, j & 2 ? 128 : 64,
                 j & 1, false, ATTEND_BF16};
    tensors t = make(p, 1);
    uint16_t *was[3];
    run_forward(&t);
    run_backward(&t, 0);
    for (int i = 0; i < 3; i++) was[i] = fetched(&t.of[DQ + i]);
    for (int i = 0; i < 5; i++) check_bits(&t, was, i % 2, "again");
    for (int i = 0; i < 3; i++) free(was[i]);
    release(&t);
  }
}

TEST(refusals) {
  tensors t = make((problem){1, 1, 1, 8, 8, 64, 64, false, false, ATTEND_BF16}, 1);
  struct cuda_softmax c = call_of(&t, 0);
  CHECK(!cuda->softmax_backward_refusal(gpu, &c));
  c.dk.stride[2] = 65;
  CHECK_SAYS(cuda->softmax_backward_refusal(gpu, &c), "multiples of 16 bytes");
  c.dtype = ATTEND_F32;
  CHECK_SAYS(cuda->softmax_backward_refusal(gpu, &c), "bf16 and f16");
  release(&t);
}
