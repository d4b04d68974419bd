/* Softmax on tensor cores against the definition in double, and its bits: alone, in a batch, in
 * another batch's head, by chains of keys, with NaN where nothing is visible.
 */
#include "attend/problem.h"
#include "gpu.h"

typedef struct {
  int batch, heads, kv_heads, q_len, kv_len, dim, dim_v;
  attend_causal causal;
  attend_dtype dtype;
  int window;
  bool lengths, padded;
  attend_bias_kind bias;
  float cap;
} problem;

enum { MOST_BATCH = 4 };

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

typedef struct {
  problem p;
  twin q, k, v, o, lse, bias;
  int32_t lengths[MOST_BATCH];
  uint8_t *key_mask;
} tensors;

static size_t bias_count(const problem *p) {
  if (p->bias == ATTEND_ALIBI) return (size_t)p->heads;
  if (p->bias == ATTEND_BUCKETS) return 32 * (size_t)p->heads;
  return p->bias ? (size_t)p->batch * p->heads * p->q_len * p->kv_len : 1;
}

static tensors make(problem p, uint64_t stream, float factor) {
  const size_t rows = (size_t)p.batch * p.heads * p.q_len,
               keys = (size_t)p.batch * p.kv_heads * p.kv_len, marks = (size_t)p.batch * p.kv_len;
  tensors t = {p,
               narrow_normals(p.dtype, rows * p.dim, stream, factor),
               narrow_normals(p.dtype, keys * p.dim, stream + 1, factor),
               narrow_normals(p.dtype, keys * p.dim_v, stream + 2, 1),
               narrow_normals(p.dtype, rows * p.dim_v, stream + 3, NAN),
               normals(rows, stream + 4, NAN),
               normals(bias_count(&p), stream + 5, p.bias == ATTEND_ALIBI ? 0.1f : 1),
               {0},
               malloc(marks)};
  for (int b = 0; b < p.batch; b++)
    t.lengths[b] = (p.kv_len * (b + 1) / p.batch + 7 * b) % (p.kv_len + 1);
  for (size_t i = 0; i < marks; i++) t.key_mask[i] = i * 7 % 11 > 3;
  return t;
}

static void release(tensors *t) {
  twin_free(&t->q), twin_free(&t->k), twin_free(&t->v), twin_free(&t->o), twin_free(&t->lse);
  twin_free(&t->bias);
  free(t->key_mask);
}

/* side 0: with the host's numbers, 1: the GPU's. */
static attend_desc desc_of(const tensors *t, int side) {
  const problem *p = &t->p;
  attend_desc d = {ATTEND_INIT(attend_desc),
                   .batch = p->batch,
                   .heads = p->heads,
                   .kv_heads = p->kv_heads,
                   .q_len = p->q_len,
                   .kv_len = p->kv_len,
                   .dim = p->dim,
                   .dim_v = p->dim_v,
                   .mask = {.causal = p->causal,
                            .window = p->window,
                            .lengths = p->lengths ? t->lengths : NULL,
                            .key_mask = p->padded ? t->key_mask : NULL},
                   .bias.kind = p->bias,
                   .soft_cap = p->cap,
                   .dtype = p->dtype};
  float *numbers = t->bias.at[side];
  if (p->bias == ATTEND_ALIBI) d.bias.slopes = numbers;
  if (p->bias == ATTEND_BUCKETS) d.bias.table = numbers;
  if (p->bias == ATTEND_DENSE) d.bias.dense = attend_bhtd(numbers);
  CHECK(!attend_desc_complete(host(), &d));
  return d;
}

static struct cuda_attention call_of(const tensors *t, const attend_desc *d) {
  return (struct cuda_attention){.desc = d,
                                 .n = d->q_len,
                                 .q = attend_bhtd(t->q.at[1]),
                                 .k = attend_bhtd(t->k.at[1]),
                                 .v = attend_bhtd(t->v.at[1]),
                                 .o = attend_bhtd(t->o.at[1]),
                                 .lse = t->lse.at[1]};
}

static void run(struct cuda_attention c) {
  const char *refusal = cuda->attention_refusal(gpu, c.desc);
  if (refusal) CHECK_FAIL("refused: %s", refusal);
  c.work = cuda->alloc(gpu, cuda->attention_bytes(gpu, &c));
  cuda->attention_forward(gpu, &c);
  cuda->free(gpu, c.work);
  if (cuda->error(gpu)) CHECK_FAIL("%s", cuda->error(gpu));
}

static void run_all(const tensors *t) {
  const attend_desc d = desc_of(t, 1);
  run(call_of(t, &d));
}

static const char *name_of(const problem *p) {
  static char name[256];
  snprintf(
      name, sizeof name,
      "B %d H %d G %d T %d S %d D %d M %d causal %d window %d lengths %d padded %d bias %d cap "
      "%g %s",
      p->batch, p->heads, p->kv_heads, p->q_len, p->kv_len, p->dim, p->dim_v, p->causal, p->window,
      p->lengths, p->padded, p->bias, (double)p->cap, attend_dtype_name(p->dtype));
  return name;
}

static bool same_kind(double x, double y) {
  return isnan(x) ? isnan(y) : isinf(x) ? x == y : isfinite(y);
}

static void check_definition(const tensors *t) {
  const problem *p = &t->p;
  const attend_desc d = desc_of(t, 0);
  const size_t rows = (size_t)p->batch * p->heads * p->q_len, n = rows * p->dim_v;
  double *o = malloc(n * sizeof *o), *lse = malloc(rows * sizeof *lse), off = 0, all = 1e-20;
  CHECK_EQ(attend_definition_forward(host(), &d, attend_bhtd(t->q.at[0]), attend_bhtd(t->k.at[0]),
                                     attend_bhtd(t->v.at[0]), o, lse),
           ATTEND_OK);
  float *got = malloc(n * sizeof *got), *got_lse = fetched(&t->lse);
  void *narrow = fetched(&t->o);
  attend_convert_to_f32(p->dtype, narrow, n, got);
  for (size_t i = 0; i < n; i++) {
    if (!same_kind(o[i], (double)got[i]))
      CHECK_FAIL("%s: element %zu is %g for %g", name_of(p), i, (double)got[i], o[i]);
    if (!isfinite(o[i])) continue;
    off += ((double)got[i] - o[i]) * ((double)got[i] - o[i]);
    all += o[i] * o[i];
  }
  if (!(sqrt(off) <= 4e-3 * sqrt(all)))
    CHECK_FAIL("%s: relative error %g", name_of(p), sqrt(off / all));
  for (size_t i = 0; i < rows; i++)
    if (isinf(lse[i]) ? (double)got_lse[i] != lse[i] : !(fabs((double)got_lse[i] - lse[i]) < 2e-4))
      CHECK_FAIL("%s: lse %zu is %g for %g", name_of(p), i, (double)got_lse[i], lse[i]);
  free(o), free(lse), free(got), free(got_lse), free(narrow);
}

/* The last rows of the first batch entry's first kv head, alone. */
static void check_alone(const tensors *t, int tail) {
  const problem *p = &t->p;
  const int group = p->heads / p->kv_heads, width = p->dim_v;
  const size_t n = (size_t)group * tail * width;
  if (tail > p->q_len || p->causal != ATTEND_CAUSAL_BOTTOM) return;
  twin alone = narrow_normals(p->dtype, n, 99, NAN);
  attend_desc d = desc_of(t, 1);
  const int skipped = p->q_len - tail;
  struct cuda_attention c = call_of(t, &d);
  c.q = (attend_view){(uint16_t *)t->q.at[1] + (size_t)skipped * p->dim,
                      {0, (ptrdiff_t)p->q_len * p->dim, p->dim, 1}};
  c.o = attend_bhtd(alone.at[1]);
  c.lse = NULL;
  if (p->bias == ATTEND_DENSE)
    d.bias.dense = (attend_view){(float *)t->bias.at[1] + (size_t)skipped * p->kv_len,
                                 {0, (ptrdiff_t)p->q_len * p->kv_len, p->kv_len, 1}};
  if (p->bias == ATTEND_BUCKETS && group != p->heads) return; /* its table is [buckets,H] */
  d.batch = 1, d.heads = group, d.kv_heads = 1, d.q_len = c.n = tail;
  run(c);
  uint16_t *got = fetched(&alone), *want = fetched(&t->o);
  for (int h = 0; h < group; h++)
    if (memcmp(got + (size_t)h * tail * width, want + ((size_t)h * p->q_len + skipped) * width,
               (size_t)tail * width * 2))
      CHECK_FAIL("%s: the last %d rows of head %d have other bits alone", name_of(p), tail, h);
  free(got), free(want);
  twin_free(&alone);
}

static void check_problem(problem p, float factor) {
  static const int tails[] = {1, 2, 16, 33, 64, 100};
  tensors t = make(p, 10, factor);
  run_all(&t);
  check_definition(&t);
  for (size_t i = 0; i < sizeof tails / sizeof *tails; i++) check_alone(&t, tails[i]);
  release(&t);
}

static problem shaped(const int *s, int variant) {
  return (problem){s[0],
                   s[1],
                   s[2],
                   s[3],
                   s[4],
                   s[5],
                   s[6],
                   variant & 1 ? ATTEND_CAUSAL_BOTTOM : ATTEND_NOT_CAUSAL,
                   variant & 2 ? ATTEND_F16 : ATTEND_BF16,
                   0,
                   false,
                   false,
                   ATTEND_NO_BIAS,
                   0};
}

TEST(forward) {
  static const int shapes[][7] = {
      {1, 1, 1, 64, 64, 64, 64},    {1, 2, 1, 200, 200, 64, 64},   {2, 4, 2, 77, 333, 128, 128},
      {1, 2, 2, 300, 100, 64, 64},  {1, 2, 1, 129, 2500, 128, 64}, {1, 1, 1, 1, 1, 8, 8},
      {2, 2, 1, 65, 1100, 80, 40},  {1, 4, 4, 200, 1300, 64, 128}, {1, 6, 2, 40, 1300, 64, 64},
      {2, 7, 1, 9, 2100, 128, 128}, {1, 3, 1, 150, 140, 128, 32}};
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
    for (int j = 0; j < 4; j++) check_problem(shaped(shapes[i], j), i % 3 ? 1.5f : 1);
}

TEST(widths) {
  static const int shapes[][7] = {{2, 2, 1, 130, 1300, 96, 96},   {1, 2, 2, 200, 200, 192, 128},
                                  {1, 4, 2, 3, 2100, 256, 256},   {1, 2, 1, 150, 1200, 256, 256},
                                  {1, 2, 1, 70, 1100, 160, 24},   {1, 2, 2, 30, 90, 32, 32},
                                  {1, 2, 1, 140, 1050, 192, 192}, {1, 3, 1, 20, 30, 33, 5}};
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
    for (int j = 0; j < 4; j++) check_problem(shaped(shapes[i], j), 1);
}

static const int mask_shapes[][7] = {{2, 4, 2, 5, 1500, 64, 64},
                                     {3, 2, 1, 150, 1300, 128, 128},
                                     {2, 3, 3, 400, 400, 64, 64},
                                     {2, 4, 1, 130, 90, 128, 64}};
enum { MASK_SHAPES = sizeof mask_shapes / sizeof *mask_shapes };

TEST(masks) {
  static const attend_causal causal[] = {ATTEND_NOT_CAUSAL, ATTEND_CAUSAL_TOP,
                                         ATTEND_CAUSAL_BOTTOM};
  for (int i = 0; i < MASK_SHAPES; i++)
    for (int j = 0; j < 36; j++) {
      problem p = shaped(mask_shapes[i], j & 2);
      p.causal = causal[j % 3];
      p.window = j / 3 % 3 == 0 ? 0 : j / 3 % 3 == 1 ? 17 : 300;
      p.lengths = j / 9 & 1, p.padded = j / 18;
      check_problem(p, 1);
    }
}

TEST(biases) {
  for (int i = 0; i < MASK_SHAPES; i++)
    for (int bias = 0; bias < 4; bias++)
      for (int j = 0; j < 4; j++) {
        problem p = shaped(mask_shapes[i], j);
        p.bias = (attend_bias_kind)bias;
        p.cap = j / 2 ? 5 : 0;
        p.padded = j == 3;
        p.window = j == 2 ? 200 : 0;
        check_problem(p, 1.5f);
      }
}

/* ---- values that are not finite -------------------------------------------------------- */

static void spoil(const twin *t, size_t element, uint16_t bits) {
  ((uint16_t *)t->at[0])[element] = bits;
  cuda->write(gpu, (uint16_t *)t->at[1] + element, &bits, sizeof bits);
}

/* Keys and values that no row sees become NaN and infinite: not a bit changes. */
static void check_hidden(problem p) {
  tensors t = make(p, 30, 1);
  const attend_desc d = desc_of(&t, 0);
  const uint16_t bad[] = {p.dtype == ATTEND_F16 ? 0x7e00 : 0x7fc0,
                          p.dtype == ATTEND_F16 ? 0x7c00 : 0x7f80};
  run_all(&t);
  uint16_t *want = fetched(&t.o);
  for (int b = 0; b < p.batch; b++)
    for (int j = 0; j < p.kv_len; j++) {
      bool seen = false;
      for (int i = 0; i < p.q_len && !seen; i++) seen = attend_visible(&d, b, i, j);
      if (seen) continue;
      for (int g = 0; g < p.kv_heads; g++) {
        const size_t row = (size_t)(b * p.kv_heads + g) * p.kv_len + j;
        spoil(&t.k, row * p.dim + (size_t)j % p.dim, bad[j & 1]);
        spoil(&t.v, row * p.dim_v + (size_t)j % p.dim_v, bad[j >> 1 & 1]);
      }
    }
  run_all(&t);
  uint16_t *got = fetched(&t.o);
  if (memcmp(got, want, t.o.bytes)) CHECK_FAIL("%s: hidden values changed bits", name_of(&p));
  check_definition(&t);
  free(want), free(got);
  release(&t);
}

/* Some rows see the value, others do not: each element as the definition has it, and those that do
 * not see it bit by bit as before. */
static void check_seen(problem p) {
  tensors t = make(p, 40, 1);
  const attend_desc d = desc_of(&t, 0);
  const int keys[] = {p.kv_len / 2, p.kv_len / 3, p.kv_len - 2}, column = p.dim_v / 2;
  const uint16_t bad[] = {0x7fc0, 0x7f80, 0xff80}, bad16[] = {0x7e00, 0x7c00, 0xfc00};
  run_all(&t);
  uint16_t *want = fetched(&t.o);
  for (int x = 0; x < 3; x++)
    for (int g = 0; g < p.kv_heads; g++)
      spoil(&t.v, ((size_t)g * p.kv_len + (size_t)keys[x]) * p.dim_v + (size_t)(column - x),
            (p.dtype == ATTEND_F16 ? bad16 : bad)[x]);
  run_all(&t);
  uint16_t *got = fetched(&t.o);
  check_definition(&t);
  for (int h = 0; h < p.heads; h++)
    for (int i = 0; i < p.q_len; i++)
      for (int c = 0; c < p.dim_v; c++) {
        const size_t at = ((size_t)h * p.q_len + i) * p.dim_v + (size_t)c;
        const int x = column - c;
        if (x >= 0 && x < 3 && attend_visible(&d, 0, i, keys[x])) continue;
        if (got[at] != want[at])
          CHECK_FAIL("%s: head %d row %d column %d has other bits", name_of(&p), h, i, c);
      }
  for (int tail = 1; tail < 100; tail = tail * 4 + 1) check_alone(&t, tail);
  free(want), free(got);
  release(&t);
}

TEST(not_finite) {
  for (int i = 0; i < MASK_SHAPES; i++)
    for (int j = 0; j < 8; j++) {
      problem p = shaped(mask_shapes[i], j & 3);
      p.window = j & 4 ? 30 : 0;
      p.lengths = j & 2, p.padded = j & 4;
      check_hidden(p);
      if (p.q_len > 1) check_seen(p);
      p.bias = ATTEND_ALIBI;
      check_hidden(p);
    }
}

TEST(views) {
  /* Rows that TMA cannot read are copied. */
  const problem p = shaped((int[]){2, 2, 1, 70, 300, 64, 64}, 1);
  tensors t = make(p, 50, 1);
  run_all(&t);
  uint16_t *want = fetched(&t.o);
  const size_t rows = (size_t)p.batch * p.heads * p.q_len, wide = 67;
  uint16_t *far = calloc(rows * wide, sizeof *far);
  for (size_t i = 0; i < rows; i++) memcpy(far + i * wide, (uint16_t *)t.q.at[0] + i * 64, 128);
  twin q = twin_of(far, rows * wide * 2), o = twin_of(far, rows * wide * 2);
  const attend_desc d = desc_of(&t, 1);
  struct cuda_attention c = call_of(&t, &d);
  const ptrdiff_t w = (ptrdiff_t)wide;
  c.q = (attend_view){q.at[1], {p.heads * p.q_len * w, p.q_len * w, w, 1}};
  c.o = (attend_view){o.at[1], {p.heads * p.q_len * w, p.q_len * w, w, 1}};
  run(c);
  uint16_t *got = fetched(&o);
  for (size_t i = 0; i < rows; i++) CHECK(!memcmp(got + i * wide, want + i * 64, 128));
  free(want), free(got), free(far);
  twin_free(&q), twin_free(&o);
  release(&t);
}

TEST(refusals) {
  tensors t = make((problem){1, 1, 1, 8, 8, 64, 64, ATTEND_NOT_CAUSAL, ATTEND_BF16, 0, false, false,
                             ATTEND_NO_BIAS, 0},
                   1, 1);
  attend_desc d = desc_of(&t, 1);
  CHECK(!cuda->attention_refusal(gpu, &d));
  d.dim = 300;
  CHECK_SAYS(cuda->attention_refusal(gpu, &d), "up to 256");
  d.dtype = ATTEND_F32;
  CHECK_SAYS(cuda->attention_refusal(gpu, &d), "bf16 and f16");
  release(&t);
}
