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

/* |got - want| <= tolerance |want|, over all of them and, loosely, each; sums that are 0 but for
 * rounding are small. */
static void check_close(const char *text, const char *what, const double *got, const double *want,
                        size_t n, double tolerance) {
  double off = 0, all = 0, worst = 0;
  for (size_t i = 0; i < n; i++) {
    const double e = fabs(got[i] - want[i]);
    off += e * e;
    all += want[i] * want[i];
    if (!(e <= worst)) worst = e;
  }
  const double rms = n ? fmax(sqrt(all / (double)n), 0.1) : 0;
  if (!(sqrt(off) <= tolerance * rms * sqrt((double)n)) || !(worst <= 30 * tolerance * rms))
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

/* Problem number i of a scan through all of them, none twice before all have come. */
static void problem_text(int i, const char *more, char *text, size_t size) {
  snprintf(text, size, "%s:%s%s%s%s%s", forms[i % FORMS], shapes[i % SHAPES],
           masks[i / FORMS % MASKS], biases[i / SHAPES % BIASES], types[i / 5 % TYPES], more);
}

/* Under a sanitizer: fewer. */
static int step(void) {
  const char *set = getenv("ATTEND_TEST_LIGHT");
  return set && *set ? 23 : 1;
}

TEST(forward_is_the_definition) {
  char text[200];
  for (int i = 0; i < 270; i += step()) {
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

/* Denominators that cancel, or of which nothing is left. */
TEST(weak_rows) {
  static const char *const some[] = {"poly(p=1):b1h2n6d16", "gaussian:b1h2n6d16",
                                     "softmax:b1h2n6d16"};
  static const int64_t weak[] = {12, 12, 0};
  for (int i = 0; i < 3; i++) {
    problem p = problem_make(some[i]);
    const attend_desc d = desc_there(&p);
    float *k = p.t.k.data;
    int64_t count = 0;
    for (int h = 0; h < 2; h++)
      for (int j = 0; j < 6; j++)
        for (int x = 0; x < 16; x++) {
          float *at = k + (h * 6 + j) * 16 + x;
          *at = i == 1 ? 1e25f : j % 2 ? -at[-16] : *at;
        }
    cuda->write(gpu, p.block, p.t.block, p.t.bytes);
    forward(call_of(&p, &d));
    cuda->read(gpu, &count, p.weak, sizeof count);
    CHECK_EQ(count, weak[i]);
    problem_free(&p);
  }
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
  for (size_t i = 0; i < sizeof some / sizeof *some; i += (size_t)(step() > 1 ? 3 : 1))
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

/* ---- backward ------------------------------------------------------------------------- */

static void backward(struct cuda_attention c) {
  forward(c);
  c.work = cuda->alloc(gpu, cuda->pairs_backward_bytes(gpu, &c));
  cuda->pairs_backward(gpu, &c);
  cuda->free(gpu, c.work);
  CHECK(!cuda->error(gpu));
}

static size_t bias_count(const attend_desc *d) {
  if (d->bias.kind == ATTEND_ALIBI) return (size_t)d->heads;
  if (d->bias.kind == ATTEND_BUCKETS) return (size_t)d->bias.buckets * d->heads;
  return d->bias.kind ? (size_t)d->batch * d->heads * d->q_len * d->kv_len : 0;
}

/* Sums a gradient [B,H,T,S] over what the dense bias repeats, in place. */
static void sum_repeated(const attend_desc *d, const ptrdiff_t *stride, double *x) {
  const size_t n = bias_count(d);
  double *sum = calloc(n + 1, sizeof *sum);
  size_t at = 0;
  for (int pass = 0; pass < 2; pass++, at = 0)
    for (int b = 0; b < d->batch; b++)
      for (int h = 0; h < d->heads; h++)
        for (int i = 0; i < d->q_len; i++)
          for (int j = 0; j < d->kv_len; j++, at++) {
            double *to = sum + (b * stride[0] + h * stride[1] + i * stride[2] + j * stride[3]);
            if (pass)
              x[at] = *to;
            else
              *to += x[at];
          }
  free(sum);
}

static void check_backward(const char *text, const problem *p, const attend_desc *meant) {
  const attend_tensors *t = &p->t;
  const attend_desc *d = &t->desc;
  const size_t rows = (size_t)d->batch * d->heads * d->q_len,
               keys = (size_t)d->batch * d->kv_heads * d->kv_len, nb = bias_count(d);
  double *dq = calloc(rows * d->dim + 1, 8), *dk = calloc(keys * d->dim + 1, 8),
         *dv = calloc(keys * d->dim_v + 1, 8), *db = calloc(nb + 1, 8);
  attend_desc same = *d;
  const ptrdiff_t *stride = meant->bias.dense.stride;
  const bool repeats = d->bias.kind == ATTEND_DENSE && (stride[0] || stride[1] || stride[2]);
  if (repeats) memcpy(same.bias.dense.stride, stride, sizeof same.bias.dense.stride);
  CHECK_EQ(attend_definition_backward(host(), &same, t->q, t->k, t->v, t->d_o, dq, dk, dv,
                                      nb ? db : NULL),
           ATTEND_OK);
  double *got_dq = numbers_of(&t->dq, d->dtype, d->batch, d->heads, d->q_len, d->dim),
         *got_dk = numbers_of(&t->dk, d->dtype, d->batch, d->kv_heads, d->kv_len, d->dim),
         *got_dv = numbers_of(&t->dv, d->dtype, d->batch, d->kv_heads, d->kv_len, d->dim_v);
  const double off = d->dtype == ATTEND_F32 ? 2e-5 : d->dtype == ATTEND_F16 ? 3e-3 : 2e-2;
  const bool poly = d->form.kind == ATTEND_POLY; /* weights far above and below */
  check_close(text, "dq", got_dq, dq, rows * d->dim, poly ? 10 * off : off);
  check_close(text, "dk", got_dk, dk, keys * d->dim, poly ? 10 * off : off);
  check_close(text, "dv", got_dv, dv, keys * d->dim_v, off);
  if (repeats) sum_repeated(d, stride, db);
  double *got = malloc((nb + 1) * sizeof *got);
  for (size_t at = 0; at < nb; at++) {
    const size_t S = (size_t)d->kv_len, T = (size_t)d->q_len, H = (size_t)d->heads;
    got[at] = t->dbias[!repeats ? at
                                : at / S / T / H * (size_t)stride[0] +
                                      at / S / T % H * (size_t)stride[1] +
                                      at / S % T * (size_t)stride[2] + at % S * (size_t)stride[3]];
  }
  check_close(text, "dbias", got, db, nb, 30 * off);
  free(dq), free(dk), free(dv), free(db), free(got_dq), free(got_dk), free(got_dv), free(got);
}

TEST(backward_is_the_definition) {
  char text[200];
  for (int i = 0; i < 270; i += step()) {
    problem_text(i, ":bwd", text, sizeof text);
    if (strstr(text, "x700")) continue; /* the definition is slow */
    problem p = problem_make(text);
    const attend_desc d = desc_there(&p);
    backward(call_of(&p, &d));
    fetch(&p);
    check_backward(text, &p, &d);
    problem_free(&p);
  }
}

TEST(backward_of_soft_caps) {
  static const char *const some[] = {"softmax:b1h2n70d32:causal:cap=2:bwd",
                                     "softmax:b1h2n70d32:causal:cap=2:alibi:scale=0.3:bwd",
                                     "argmax(t=0.5):b1h2n70d32:cap=1.5:bwd"};
  for (size_t i = 0; i < sizeof some / sizeof *some; i++) {
    problem p = problem_make(some[i]);
    const attend_desc d = desc_there(&p);
    backward(call_of(&p, &d));
    fetch(&p);
    check_backward(some[i], &p, &d);
    problem_free(&p);
  }
}

/* A dense bias whose strides repeat it over batch entries, heads, rows or keys. */
TEST(repeated_biases) {
  enum { T = 70, S = 90 };
  static const ptrdiff_t strides[][4] = {{0, T * S, S, 1}, {0, 0, S, 1}, {T * S, 0, S, 1},
                                         {0, S, 0, 1},     {0, T, 1, 0}, {0, 1, 0, 0}};
  for (size_t i = 0; i < sizeof strides / sizeof *strides; i++) {
    problem p = problem_make("softmax:b3h4g2n70x90d16:bottom:dense:bwd");
    attend_desc d = desc_there(&p);
    memcpy(d.bias.dense.stride, strides[i], sizeof strides[i]);
    memcpy(p.t.desc.bias.dense.stride, strides[i], sizeof strides[i]);
    backward(call_of(&p, &d));
    fetch(&p);
    check_forward("a repeated bias", &p);
    check_backward("a repeated bias", &p, &d);
    problem_free(&p);
  }
}

/* Gradients of a kv head's group have the same bits alone and in a batch. */
TEST(backward_bits) {
  static const char *const some[] = {"softmax:b3h4g2n101x230d16v24:bottom:bwd",
                                     "softmax:b2h2n80d128:causal:bf16:bwd",
                                     "gaussian:b2h4g2n70x130d64:bwd", "elu:b2h2n70d16:causal:bwd",
                                     "argmax:b2h4g2n70d8:causal:bwd"};
  for (size_t i = 0; i < sizeof some / sizeof *some; i++) {
    problem p = problem_make(some[i]);
    attend_desc d = desc_there(&p);
    const attend_tensors *t = &p.t;
    backward(call_of(&p, &d));
    fetch(&p);
    const size_t size = attend_dtype_size(d.dtype), group = (size_t)(d.heads / d.kv_heads);
    const size_t head = (size_t)(d.batch * d.kv_heads - 1), T = (size_t)d.q_len,
                 S = (size_t)d.kv_len, q = head * group * T, k = head * S;
    struct cuda_attention c = call_of(&p, &d);
    twin dq = normals(group * T * d.dim, 1, NAN), dk = normals(S * d.dim, 1, NAN),
         dv = normals(S * d.dim_v, 1, NAN);
    c.q.data = (char *)c.q.data + q * d.dim * size;
    c.k.data = (char *)c.k.data + k * d.dim * size;
    c.v.data = (char *)c.v.data + k * d.dim_v * size;
    c.o.data = (char *)c.o.data + q * d.dim_v * size;
    c.d_o.data = (char *)c.d_o.data + q * d.dim_v * size;
    c.lse += q;
    c.dq.data = dq.at[1], c.dk.data = dk.at[1], c.dv.data = dv.at[1];
    d.batch = d.kv_heads = 1, d.heads = (int)group;
    backward(c);
    char *got_dq = fetched(&dq), *got_dk = fetched(&dk), *got_dv = fetched(&dv);
    CHECK(!memcmp(got_dq, (char *)t->dq.data + q * d.dim * size, group * T * d.dim * size));
    CHECK(!memcmp(got_dk, (char *)t->dk.data + k * d.dim * size, S * d.dim * size));
    CHECK(!memcmp(got_dv, (char *)t->dv.data + k * d.dim_v * size, S * d.dim_v * size));
    free(got_dq), free(got_dk), free(got_dv);
    twin_free(&dq), twin_free(&dk), twin_free(&dv);
    problem_free(&p);
  }
}

/* ---- observing ------------------------------------------------------------------------ */

enum { TOP = 5 };
static const int32_t listed[] = {0, 3, 31, 2};
enum { LISTED = sizeof listed / sizeof *listed };

typedef struct {
  twin weights, index, weight, entropy, mass, gap;
  attend_observation o;
} sight;

static sight sight_make(const attend_desc *d, size_t width) {
  const size_t heads = (size_t)d->batch * d->heads, rows = heads * d->q_len;
  sight s = {normals(heads * LISTED * width, 1, NAN),
             integers(rows * TOP, 1, 9),
             normals(rows * TOP, 1, NAN),
             normals(rows, 1, NAN),
             normals(heads * width, 1, NAN),
             normals(rows, 1, NAN),
             {ATTEND_INIT(attend_observation)}};
  s.o = (attend_observation){ATTEND_INIT(attend_observation),
                             .rows = listed,
                             .n_rows = LISTED,
                             .weights = s.weights.at[1],
                             .top = TOP,
                             .top_index = s.index.at[1],
                             .top_weight = s.weight.at[1],
                             .entropy = s.entropy.at[1],
                             .mass = s.mass.at[1],
                             .softmax_gap = s.gap.at[1]};
  return s;
}
static void sight_free(sight *s) {
  twin_free(&s->weights), twin_free(&s->index), twin_free(&s->weight), twin_free(&s->entropy);
  twin_free(&s->mass), twin_free(&s->gap);
}

static void observe(struct cuda_attention c, const sight *s) {
  c.observation = &s->o;
  c.work = cuda->alloc(gpu, cuda->observe_bytes(gpu, &c));
  cuda->observe(gpu, &c);
  cuda->free(gpu, c.work);
  CHECK(!cuda->error(gpu));
}

/* Row by row, for the top list: the weight of each index is the definition's, none is missed. */
static void check_top(const char *text, const double *w, int keys, const int32_t *index,
                      const float *weight) {
  for (int i = 0; i < TOP; i++) {
    int larger = 0, seen = 0;
    for (int j = 0; j < keys; j++) larger += w[j] > weight[i] + 1e-5, seen += w[j] != 0;
    const bool right = index[i] < 0 ? weight[i] == 0 && seen <= i
                                    : fabs(w[index[i]] - weight[i]) <= 1e-5 && larger <= i;
    if (right) continue;
    CHECK_FAIL("%s: top %d is key %d with weight %g", text, i, (int)index[i], (double)weight[i]);
    return;
  }
}

static void check_sight(const char *text, const problem *p, const sight *s) {
  const attend_desc *d = &p->t.desc;
  const int T = d->q_len, S = d->kv_len, heads = d->batch * d->heads;
  double *w = malloc((size_t)heads * T * S * sizeof *w), *sums = calloc((size_t)S, sizeof *sums);
  float *rows = fetched(&s->weights), *weight = fetched(&s->weight),
        *entropy = fetched(&s->entropy), *mass = fetched(&s->mass), *gap = fetched(&s->gap);
  int32_t *index = fetched(&s->index);
  CHECK_EQ(attend_definition_weights(host(), d, p->t.q, p->t.k, w), ATTEND_OK);
  for (int h = 0; h < heads; h++) {
    memset(sums, 0, (size_t)S * sizeof *sums);
    for (int i = 0; i < T; i++) {
      const double *line = w + ((size_t)h * T + i) * S;
      double sum = 0;
      for (int j = 0; j < S; j++) {
        sums[j] += line[j];
        if (line[j] > 0) sum -= line[j] * log(line[j]);
      }
      CHECK_NEAR(entropy[h * T + i], sum, 1e-4);
      CHECK_EQ(gap[h * T + i] != 0, 0);
      check_top(text, line, S, index + (h * T + i) * TOP, weight + (h * T + i) * TOP);
    }
    for (int j = 0; j < S; j++) CHECK_NEAR(mass[h * S + j], sums[j], 1e-4);
    for (int r = 0; r < LISTED; r++)
      for (int j = 0; j < S; j++)
        CHECK_NEAR(rows[(h * LISTED + r) * S + j], w[((size_t)h * T + listed[r]) * S + j], 1e-5);
  }
  free(w), free(sums), free(rows), free(weight), free(entropy), free(mass), free(gap), free(index);
}

TEST(observed_weights_are_the_definitions) {
  static const char *const some[] = {
      "softmax:b2h4g2n70x130d16:bottom:alibi", "softmax:b1h2n65d128:causal:bf16",
      "softmax:b3h2n40x90d20:lengths:cap=2",   "argmax:b2h2n40x70d8:bottom",
      "argmax(ties=average):b1h2n40d4:causal", "poly(p=2):b1h2n40d8:causal",
      "gaussian:b1h2n70d16:padleft",           "elu:b1h2n70d16:causal"};
  for (size_t i = 0; i < sizeof some / sizeof *some; i++) {
    problem p = problem_make(some[i]);
    const attend_desc d = desc_there(&p);
    sight s = sight_make(&d, (size_t)d.kv_len);
    forward(call_of(&p, &d));
    observe(call_of(&p, &d), &s);
    fetch(&p);
    check_sight(some[i], &p, &s);
    sight_free(&s);
    problem_free(&p);
  }
}

/* A state's pages give the weights of views, and rows of weights as wide as the longest. */
TEST(observed_pages) {
  problem p = problem_make("softmax:b1h2g1n33x200d16:bottom:bf16");
  attend_desc d = desc_there(&p);
  cache pages = cache_make(&p, 0, 0);
  const int64_t before = 200 - 33, length = 200;
  sight s = sight_make(&d, 200);
  forward(call_of(&p, &d));
  struct cuda_attention c = call_of(&p, &d);
  pages.pages.length = &length;
  c.pages = &pages.pages;
  c.before = &before;
  d.kv_len = 0;
  observe(c, &s);
  fetch(&p);
  check_sight("pages", &p, &s);
  sight_free(&s);
  cache_free(&pages);
  problem_free(&p);
}

TEST(refusals) {
  attend_desc d = {ATTEND_INIT(attend_desc), .form.kind = ATTEND_FAVOR};
  CHECK_SAYS(cuda->pairs_refusal(gpu, &d), "random features");
  d.form.kind = ATTEND_CUSTOM;
  CHECK_SAYS(cuda->pairs_refusal(gpu, &d), "host");
}
