/* Softmax on the GPU against the definition in double, and its bits: alone, in a batch, in another
 * batch's head, by chains of keys.
 */
#include "attend/problem.h"
#include "gpu.h"

typedef struct {
  int batch, heads, kv_heads, q_len, kv_len, dim, dim_v;
  bool causal;
  attend_dtype dtype;
} problem;

/* Normal numbers in the problem's dtype. */
static twin narrow_normals(attend_dtype dtype, size_t n, uint64_t stream, float factor) {
  float *x = malloc(n * sizeof *x);
  uint16_t *y = malloc(n * sizeof *y);
  attend_random_normal((attend_random){3, stream}, 0, n, x);
  for (size_t i = 0; i < n; i++) x[i] *= factor;
  attend_convert_from_f32(dtype, x, n, y);
  twin t = twin_of(y, n * sizeof *y);
  free(x), free(y);
  return t;
}

/* Rows from `row` on of heads from `head` on; dense [B,H,T,width]. */
static struct cuda_tensor tensor_of(const twin *t, int heads, int length, int width, int row) {
  return (struct cuda_tensor){(uint16_t *)t->at[1] + (size_t)row * (size_t)width,
                              {(int64_t)heads * length * width, (int64_t)length * width, width},
                              width};
}

typedef struct {
  problem p;
  twin q, k, v, o, lse;
} tensors;

static tensors make(problem p, uint64_t stream, float factor) {
  const size_t rows = (size_t)p.batch * p.heads * p.q_len,
               keys = (size_t)p.batch * p.kv_heads * p.kv_len;
  tensors t = {p,
               narrow_normals(p.dtype, rows * p.dim, stream, factor),
               narrow_normals(p.dtype, keys * p.dim, stream + 1, factor),
               narrow_normals(p.dtype, keys * p.dim_v, stream + 2, 1),
               narrow_normals(p.dtype, rows * p.dim_v, stream + 3, NAN),
               normals(rows, stream + 4, NAN)};
  return t;
}

static void release(tensors *t) {
  twin_free(&t->q), twin_free(&t->k), twin_free(&t->v), twin_free(&t->o), twin_free(&t->lse);
}

static struct cuda_softmax call_of(const tensors *t) {
  const problem *p = &t->p;
  return (struct cuda_softmax){.dtype = p->dtype,
                               .batch = p->batch,
                               .heads = p->heads,
                               .kv_heads = p->kv_heads,
                               .q_len = p->q_len,
                               .kv_len = p->kv_len,
                               .q = tensor_of(&t->q, p->heads, p->q_len, p->dim, 0),
                               .k = tensor_of(&t->k, p->kv_heads, p->kv_len, p->dim, 0),
                               .v = tensor_of(&t->v, p->kv_heads, p->kv_len, p->dim_v, 0),
                               .o = tensor_of(&t->o, p->heads, p->q_len, p->dim_v, 0),
                               .lse = t->lse.at[1],
                               .scale = 1 / sqrtf((float)p->dim),
                               .causal = p->causal,
                               .offset = p->kv_len - p->q_len};
}

static void run(struct cuda_softmax c) {
  const char *refusal = cuda->softmax_refusal(gpu, &c);
  if (refusal) CHECK_FAIL("refused: %s", refusal);
  c.work = cuda->alloc(gpu, cuda->softmax_bytes(gpu, &c));
  cuda->softmax_forward(gpu, &c);
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
  const size_t rows = (size_t)p->batch * p->heads * p->q_len, n = rows * p->dim_v;
  double *o = malloc(n * sizeof *o), *lse = malloc(rows * sizeof *lse), off = 0, all = 0;
  CHECK_EQ(attend_definition_forward(host(), &d, attend_bhtd(t->q.at[0]), attend_bhtd(t->k.at[0]),
                                     attend_bhtd(t->v.at[0]), o, lse),
           ATTEND_OK);
  float *got = malloc(n * sizeof *got), *got_lse = fetched(&t->lse);
  void *narrow = fetched(&t->o);
  attend_convert_to_f32(p->dtype, narrow, n, got);
  for (size_t i = 0; i < n; i++) {
    off += ((double)got[i] - o[i]) * ((double)got[i] - o[i]);
    all += o[i] * o[i];
  }
  if (!(sqrt(off) <= 4e-3 * sqrt(all)))
    CHECK_FAIL("T %d S %d D %d causal %d: relative error %g", p->q_len, p->kv_len, p->dim,
               p->causal, sqrt(off / all));
  for (size_t i = 0; i < rows; i++) CHECK_NEAR((double)got_lse[i], lse[i], 1e-4);
  free(o), free(lse), free(got), free(got_lse), free(narrow);
}

/* The last rows of the first batch entry's first kv head, alone. */
static void check_alone(const tensors *t, int tail) {
  const problem *p = &t->p;
  const int group = p->heads / p->kv_heads, width = p->dim_v;
  const size_t n = (size_t)group * tail * width;
  if (tail > p->q_len) return;
  twin alone = narrow_normals(p->dtype, n, 99, NAN);
  struct cuda_softmax c = call_of(t);
  c.batch = 1, c.heads = group, c.kv_heads = 1, c.q_len = tail;
  c.q = tensor_of(&t->q, p->heads, p->q_len, p->dim, p->q_len - tail);
  c.o = tensor_of(&alone, group, tail, width, 0);
  c.lse = NULL;
  c.offset = p->kv_len - tail;
  run(c);
  uint16_t *got = fetched(&alone), *want = fetched(&t->o);
  for (int h = 0; h < group; h++)
    if (memcmp(got + (size_t)h * tail * width,
               want + ((size_t)h * p->q_len + p->q_len - tail) * width, (size_t)tail * width * 2))
      CHECK_FAIL("T %d S %d D %d causal %d: the last %d rows of head %d have other bits alone",
                 p->q_len, p->kv_len, p->dim, p->causal, tail, h);
  free(got), free(want);
  twin_free(&alone);
}

static void check_problem(problem p, float factor) {
  static const int tails[] = {1, 2, 16, 33, 64, 100};
  tensors t = make(p, 10, factor);
  run(call_of(&t));
  check_definition(&t);
  for (size_t i = 0; i < sizeof tails / sizeof *tails; i++) check_alone(&t, tails[i]);
  release(&t);
}

TEST(forward) {
  static const int shapes[][7] = {{1, 1, 1, 64, 64, 64, 64},     {1, 2, 1, 200, 200, 64, 64},
                                  {2, 4, 2, 77, 333, 128, 128},  {1, 2, 2, 300, 100, 64, 64},
                                  {1, 2, 1, 129, 2500, 128, 64}, {1, 1, 1, 1, 1, 8, 8},
                                  {2, 2, 1, 65, 1100, 80, 40},   {1, 4, 4, 200, 1300, 64, 128}};
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
    for (int j = 0; j < 4; j++) {
      const int *s = shapes[i];
      check_problem((problem){s[0], s[1], s[2], s[3], s[4], s[5], s[6], j & 1,
                              j & 2 ? ATTEND_F16 : ATTEND_BF16},
                    i % 3 ? 1.5f : 1);
    }
}

TEST(refusals) {
  tensors t = make((problem){1, 1, 1, 8, 8, 64, 64, false, ATTEND_BF16}, 1, 1);
  struct cuda_softmax c = call_of(&t);
  CHECK(!cuda->softmax_refusal(gpu, &c));
  c.q.stride[2] = 65;
  CHECK_SAYS(cuda->softmax_refusal(gpu, &c), "multiples of 16 bytes");
  c.dtype = ATTEND_F32;
  CHECK_SAYS(cuda->softmax_refusal(gpu, &c), "bf16 and f16");
  release(&t);
}
