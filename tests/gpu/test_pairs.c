/* Attention pair by pair on the GPU against the definition in double, and its bits: alone, in a
 * batch, from pages of a KV cache, with keys split among CTAs or not.
 */
#include "attend/problem.h"
#include "gpu.h"

/* ---- problems on the GPU -------------------------------------------------------------- */

/* The tensors of a problem, and a copy of their block on the GPU. */
typedef struct {
  attend_tensors t;
  char *block;
  int64_t *weak;
} problem;

static void *there(const problem *p, const void *host_address) {
  if (!host_address) return NULL;
  return p->block + ((const char *)host_address - (const char *)p->t.block);
}
static attend_view view_there(const problem *p, attend_view v) {
  v.data = there(p, v.data);
  return v;
}

static problem problem_make(const char *text) {
  attend_problem parsed = {ATTEND_INIT(attend_problem)};
  problem p = {.t = {ATTEND_INIT(attend_tensors)}};
  if (attend_problem_parse(host(), text, &parsed) ||
      attend_problem_tensors(host(), &parsed, 5, &p.t)) {
    printf("%s: %s\n", text, attend_message(host()));
    exit(1);
  }
  p.block = cuda->alloc(gpu, p.t.bytes);
  p.weak = cuda->alloc(gpu, sizeof *p.weak);
  cuda->write(gpu, p.block, p.t.block, p.t.bytes);
  cuda->zero(gpu, p.weak, sizeof *p.weak);
  return p;
}

static void problem_free(problem *p) {
  cuda->free(gpu, p->block), cuda->free(gpu, p->weak);
  attend_tensors_free(host(), &p->t);
}

static attend_desc desc_there(const problem *p) {
  attend_desc d = p->t.desc;
  d.bias.slopes = there(p, d.bias.slopes);
  d.bias.table = there(p, d.bias.table);
  d.bias.dense = view_there(p, d.bias.dense);
  return d;
}

static struct cuda_attention call_of(const problem *p, const attend_desc *d) {
  const attend_tensors *t = &p->t;
  return (struct cuda_attention){.desc = d,
                                 .n = d->q_len,
                                 .q = view_there(p, t->q),
                                 .k = view_there(p, t->k),
                                 .v = view_there(p, t->v),
                                 .o = view_there(p, t->o),
                                 .d_o = view_there(p, t->d_o),
                                 .dq = view_there(p, t->dq),
                                 .dk = view_there(p, t->dk),
                                 .dv = view_there(p, t->dv),
                                 .lse = there(p, t->lse),
                                 .dbias = there(p, t->dbias),
                                 .weak_rows = p->weak};
}

static void forward(struct cuda_attention c) {
  const char *refusal = cuda->pairs_refusal(gpu, c.desc);
  if (refusal) CHECK_FAIL("refused: %s", refusal);
  c.work = cuda->alloc(gpu, cuda->pairs_bytes(gpu, &c));
  cuda->pairs_forward(gpu, &c);
  cuda->free(gpu, c.work);
  CHECK(!cuda->error(gpu));
}

/* Everything that the GPU wrote, over the host's block. */
static void fetch(problem *p) {
  cuda->read(gpu, p->t.block, p->block, p->t.bytes);
  CHECK(!cuda->error(gpu));
}

/* Element [b, h, i, x] of a view; all strides 0: contiguous. */
static size_t element_at(const attend_view *v, int heads, int rows, int width, int b, int h, int i,
                         int x) {
  const ptrdiff_t *s = v->stride;
  if (!s[0] && !s[1] && !s[2] && !s[3])
    return (((size_t)b * heads + h) * rows + i) * (size_t)width + x;
  return (size_t)(b * s[0] + h * s[1] + i * s[2] + x * s[3]);
}

/* The view's numbers, contiguous in double. */
static double *numbers_of(const attend_view *v, attend_dtype dtype, int batch, int heads, int rows,
                          int width) {
  double *out = malloc(((size_t)batch * heads * rows * width + 1) * sizeof *out), *to = out;
  for (int b = 0; b < batch; b++)
    for (int h = 0; h < heads; h++)
      for (int i = 0; i < rows; i++)
        for (int x = 0; x < width; x++) {
          float f;
          attend_convert_to_f32(dtype,
                                (char *)v->data + element_at(v, heads, rows, width, b, h, i, x) *
                                                      attend_dtype_size(dtype),
                                1, &f);
          *to++ = f;
        }
  return out;
}

/* |got - want| <= tolerance |want|, over all of them and, loosely, each. */
static void check_close(const char *text, const char *what, const double *got, const double *want,
                        size_t n, double tolerance) {
  double off = 0, all = 0, worst = 0;
  for (size_t i = 0; i < n; i++) {
    const double e = fabs(got[i] - want[i]);
    off += e * e;
    all += want[i] * want[i];
    if (!(e <= worst)) worst = e;
  }
  const double rms = n ? sqrt(all / (double)n) : 0;
  if (!(sqrt(off) <= tolerance * sqrt(all)) || !(worst <= 30 * tolerance * rms))
    CHECK_FAIL("%s: %s: relative error %.3g, worst %.3g of %.3g", text, what, sqrt(off / all),
               worst, rms);
}

static double tolerance_of(attend_dtype dtype) {
  return dtype == ATTEND_F32 ? 3e-6 : dtype == ATTEND_F16 ? 6e-4 : 5e-3;
}

static void check_lse(const char *text, const problem *p, const double *want) {
  const attend_desc *d = &p->t.desc;
  const size_t rows = (size_t)d->batch * d->heads * d->q_len;
  const double tolerance = d->form.kind == ATTEND_POLY ? 2e-5 : 4e-6;
  for (size_t i = 0; i < rows; i++)
    if (!(p->t.lse[i] == (float)want[i] ||
          fabs(p->t.lse[i] - want[i]) <= tolerance * (1 + fabs(want[i])))) {
      CHECK_FAIL("%s: lse of row %d is %.9g, not %.9g", text, (int)i, (double)p->t.lse[i], want[i]);
      return;
    }
}

static void check_forward(const char *text, const problem *p) {
  const attend_tensors *t = &p->t;
  const attend_desc *d = &t->desc;
  const size_t rows = (size_t)d->batch * d->heads * d->q_len, n = rows * d->dim_v;
  double *o = malloc((n + 1) * sizeof *o), *lse = malloc((rows + 1) * sizeof *lse);
  CHECK_EQ(attend_definition_forward(host(), d, t->q, t->k, t->v, o, lse), ATTEND_OK);
  double *got = numbers_of(&t->o, d->dtype, d->batch, d->heads, d->q_len, d->dim_v);
  const bool cancels = d->form.kind == ATTEND_POLY && d->form.degree % 2;
  if (!cancels) check_close(text, "o", got, o, n, tolerance_of(d->dtype));
  if (!cancels) check_lse(text, p, lse);
  free(o), free(lse), free(got);
}

/* ---- forward -------------------------------------------------------------------------- */

static const char *const forms[] = {"softmax",
                                    "argmax",
                                    "argmax(ties=average)",
                                    "argmax(t=0.7)",
                                    "poly(p=2)",
                                    "poly(p=4,a=0.5,c=1)",
                                    "gaussian",
                                    "gaussian(sigma=0.7)",
                                    "elu"};
static const char *const shapes[] = {"b2h4g2n70x130d16v24", "b1h2n65d64",     "b3h3n33x300d40v8",
                                     "b1h4g1n3x700d128",    "b2h2n80d65v130", "b1h2n20x90d520v3"};
static const char *const masks[] = {"",
                                    ":bottom",
                                    ":top:window=19",
                                    ":lengths:window=40",
                                    ":padleft",
                                    ":bottom:padright:window=70"};
static const char *const biases[] = {"", ":alibi", ":buckets", ":buckets1", ":dense"};
static const char *const types[] = {":f32", ":f16:bthd", ":bf16", ":f32:bthd"};
enum {
  FORMS = sizeof forms / sizeof *forms,
  SHAPES = sizeof shapes / sizeof *shapes,
  MASKS = sizeof masks / sizeof *masks,
  BIASES = sizeof biases / sizeof *biases,
  TYPES = sizeof types / sizeof *types
};

/* Problem number i of a walk through all of them, none twice before all have come. */
static void problem_text(int i, const char *more, char *text, size_t size) {
  snprintf(text, size, "%s:%s%s%s%s%s", forms[i % FORMS], shapes[i % SHAPES],
           masks[i / FORMS % MASKS], biases[i / SHAPES % BIASES], types[i / 5 % TYPES], more);
}

TEST(forward_is_the_definition) {
  char text[200];
  for (int i = 0; i < 270; i++) {
    problem_text(i, "", text, sizeof text);
    problem p = problem_make(text);
    const attend_desc d = desc_there(&p);
    forward(call_of(&p, &d));
    fetch(&p);
    check_forward(text, &p);
    problem_free(&p);
  }
}

TEST(soft_caps_and_scales) {
  static const char *const some[] = {"softmax:b1h2n70d32:causal:cap=2",
                                     "softmax:b1h2n70d32:causal:cap=2:alibi:scale=0.3",
                                     "softmax:b1h2n70d32:scale=-0.3", "softmax:b1h2n70d32:scale=9",
                                     "argmax(t=0.5):b1h2n70d32:cap=1.5"};
  for (size_t i = 0; i < sizeof some / sizeof *some; i++) {
    problem p = problem_make(some[i]);
    const attend_desc d = desc_there(&p);
    forward(call_of(&p, &d));
    fetch(&p);
    check_forward(some[i], &p);
    problem_free(&p);
  }
}

/* A key and its value that a row cannot see change nothing, whatever they are. */
TEST(hidden_keys_are_not_read) {
  problem p = problem_make("softmax:b1h2n90d16:causal"),
          whole = problem_make("softmax:b1h2n90d16:causal");
  const attend_desc d = desc_there(&p);
  for (int h = 0; h < 2; h++)
    for (int x = 0; x < 16; x++) {
      ((float *)p.t.k.data)[(h * 90 + 50) * 16 + x] = NAN;
      ((float *)p.t.v.data)[(h * 90 + 50) * 16 + x] = INFINITY;
    }
  cuda->write(gpu, p.block, p.t.block, p.t.bytes);
  const attend_desc same = desc_there(&whole);
  forward(call_of(&p, &d));
  forward(call_of(&whole, &same));
  fetch(&p), fetch(&whole);
  const float *got = p.t.o.data, *want = whole.t.o.data;
  for (int h = 0; h < 2; h++) {
    CHECK(!memcmp(got + (size_t)h * 90 * 16, want + (size_t)h * 90 * 16, 50 * 16 * sizeof *got));
    CHECK(isnan(got[(h * 90 + 50) * 16]) && isnan(got[(h * 90 + 89) * 16]));
  }
  problem_free(&p), problem_free(&whole);
}

/* ---- the same bits -------------------------------------------------------------------- */

/* Rows of width dim_v of the kv head's group: [group][tail]. */
static void compare_rows(const char *text, const char *what, const problem *p, const void *alone,
                         int b, int g, int tail) {
  const attend_desc *d = &p->t.desc;
  const size_t size = attend_dtype_size(d->dtype), row = (size_t)d->dim_v * size;
  const int group = d->heads / d->kv_heads;
  for (int h = 0; h < group; h++)
    for (int i = 0; i < tail; i++) {
      const char *want =
          (char *)p->t.o.data + size * element_at(&p->t.o, d->heads, d->q_len, d->dim_v, b,
                                                  g * group + h, d->q_len - tail + i, 0);
      if (memcmp((const char *)alone + ((size_t)h * tail + i) * row, want, row)) {
        CHECK_FAIL("%s: row %d of the last %d of head %d has other bits %s", text, i, tail, h,
                   what);
        return;
      }
    }
}

/* Pages of one kv head of one sequence. */
typedef struct {
  void *block, **page, **there;
  int64_t length, before;
  struct cuda_pages pages;
} cache;

static cache cache_make(const problem *p, int b, int g) {
  const attend_desc *d = &p->t.desc;
  const int size = (int)attend_dtype_size(d->dtype), count = (d->kv_len + 63) / 64;
  const size_t k = cuda_page_part((size_t)size, d->dim), v = cuda_page_part((size_t)size, d->dim_v),
               bytes = (k + v + 64 + 1023) / 1024 * 1024;
  char *all = malloc(bytes * (size_t)count);
  cache c = {.block = cuda->alloc(gpu, bytes * (size_t)count),
             .page = malloc((size_t)count * sizeof(void *)),
             .there = cuda->alloc(gpu, (size_t)count * sizeof(void *)),
             .length = d->mask.lengths ? d->mask.lengths[b] : d->kv_len};
  memset(all, 0xff, bytes * (size_t)count); /* NaN */
  for (int j = 0; j < d->kv_len; j++) {
    char *page = all + bytes * (size_t)(j / 64);
    for (int x = 0; x < d->dim; x++)
      memcpy(page + size * cuda_page_at(size, d->dim, j % 64, x),
             (char *)p->t.k.data +
                 (size_t)size * element_at(&p->t.k, d->kv_heads, d->kv_len, d->dim, b, g, j, x),
             (size_t)size);
    for (int x = 0; x < d->dim_v; x++)
      memcpy(page + k + size * cuda_page_at(size, d->dim_v, j % 64, x),
             (char *)p->t.v.data +
                 (size_t)size * element_at(&p->t.v, d->kv_heads, d->kv_len, d->dim_v, b, g, j, x),
             (size_t)size);
    page[k + v + (size_t)(j % 64)] =
        d->mask.key_mask ? (char)d->mask.key_mask[b * d->kv_len + j] : 1;
  }
  for (int i = 0; i < count; i++) c.page[i] = (char *)c.block + bytes * (size_t)i;
  cuda->write(gpu, c.block, all, bytes * (size_t)count);
  cuda->write(gpu, c.there, c.page, (size_t)count * sizeof(void *));
  c.pages = (struct cuda_pages){(void *const *)c.there, count, NULL, d->mask.key_mask != NULL};
  free(all);
  return c;
}

static void cache_free(cache *c) {
  cuda->free(gpu, c->block), cuda->free(gpu, c->there);
  free(c->page);
}

/* The last rows of one kv head of the last sequence, alone: from views and from pages. */
static void check_alone(const char *text, const problem *p, int tail) {
  attend_desc d = desc_there(p);
  const attend_tensors *t = &p->t;
  const int b = d.batch - 1, g = d.kv_heads - 1, group = d.heads / d.kv_heads, T = d.q_len;
  const size_t size = attend_dtype_size(d.dtype), n = (size_t)group * tail * d.dim_v;
  if (tail > T) return;
  void *nans = memset(malloc(n * size), 0xff, n * size);
  twin o = twin_of(nans, n * size);
  struct cuda_attention c = call_of(p, &d);
  attend_view q = t->q, k = t->k, v = t->v;
#define MOVE(view, heads, rows, width, h, i)                                       \
  do {                                                                             \
    const size_t at_ = element_at(&view, heads, rows, width, b, h, i, 0);          \
    if (!view.stride[3])                                                           \
      view = (attend_view){view.data, {0, (ptrdiff_t)(rows) * (width), width, 1}}; \
    view.data = (char *)there(p, view.data) + at_ * size;                          \
  } while (0)
  MOVE(q, d.heads, T, d.dim, g * group, T - tail);
  MOVE(k, d.kv_heads, d.kv_len, d.dim, g, 0);
  MOVE(v, d.kv_heads, d.kv_len, d.dim_v, g, 0);
#undef MOVE
  c.q = q, c.k = k, c.v = v, c.o = attend_bhtd(o.at[1]);
  c.lse = NULL;
  c.n = d.q_len = tail;
  d.batch = d.kv_heads = 1, d.heads = group;
  if (d.bias.slopes) d.bias.slopes += g * group;
  if (d.mask.lengths) d.mask.lengths += b;
  if (d.mask.key_mask) d.mask.key_mask += b * d.kv_len;
  const bool can_move = d.mask.causal == ATTEND_CAUSAL_BOTTOM || (!d.mask.window && !d.bias.kind);
  if (can_move || tail == T) {
    forward(c);
    void *got = fetched(&o);
    compare_rows(text, "alone", p, got, b, g, tail);
    free(got);
  }
  cache pages = cache_make(p, b, g);
  const int64_t before =
      (d.mask.causal == ATTEND_CAUSAL_BOTTOM ? d.kv_len - T : 0) + (int64_t)T - tail;
  const int64_t length = pages.length;
  d.mask.lengths = NULL, d.mask.key_mask = NULL;
  d.kv_len = 0;
  pages.pages.length = &length;
  c.pages = &pages.pages;
  c.before = &before;
  forward(c);
  void *got = fetched(&o);
  compare_rows(text, "from pages", p, got, b, g, tail);
  free(got);
  cache_free(&pages);
  twin_free(&o), free(nans);
}

TEST(bits) {
  static const int tails[] = {1, 2, 16, 33, 64, 100};
  static const char *const some[] = {"softmax:b2h4g2n70x930d16v24:bottom",
                                     "softmax:b40h8n101x600d64:bottom",
                                     "softmax:b2h2g1n333d128:causal:window=200",
                                     "softmax:b2h6g2n101x1300d40:alibi:bottom",
                                     "argmax:b2h4g2n70x930d16v24:bottom",
                                     "argmax(ties=average):b1h2n70x300d4:bottom",
                                     "poly(p=2):b2h2n101x600d24:bottom",
                                     "gaussian:b2h2n101x600d24:bottom",
                                     "softmax:b2h2n40x400d136v200:padleft",
                                     "softmax:b2h2n64x700d64:lengths:cap=3",
                                     "elu:b2h2n101x600d24:bottom"};
  static const char *const kinds[] = {"", ":bf16", ":f16:bthd"};
  char text[200];
  for (size_t i = 0; i < sizeof some / sizeof *some; i++)
    for (int kind = 0; kind < 3; kind++) {
      snprintf(text, sizeof text, "%s%s", some[i], kinds[kind]);
      problem p = problem_make(text);
      const attend_desc d = desc_there(&p);
      forward(call_of(&p, &d));
      fetch(&p);
      for (size_t j = 0; j < sizeof tails / sizeof *tails; j++) check_alone(text, &p, tails[j]);
      problem_free(&p);
    }
}

TEST(refusals) {
  attend_desc d = {ATTEND_INIT(attend_desc), .form.kind = ATTEND_FAVOR};
  CHECK_SAYS(cuda->pairs_refusal(gpu, &d), "random features");
  d.form.kind = ATTEND_CUSTOM;
  CHECK_SAYS(cuda->pairs_refusal(gpu, &d), "host");
}
