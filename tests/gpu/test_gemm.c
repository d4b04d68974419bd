/* Products on the GPU's tensor cores against sums in double; the bits of a row alone and in batches. */
#include "gpu.h"
#include "layers/linear.h"

typedef struct {
  attend_dtype type;
  int m, n, k;
  bool a_columns, b_columns;
  int pad; /* elements behind each row in memory, NaN */
} problem;

/* An operand's numbers, rounded to its type: as [outer][k], and on the GPU in their layout. */
typedef struct {
  float *x;
  void *data;
  int64_t ld;
} operand;

static operand operand_of(attend_dtype type, int outer, int k, bool columns, int pad,
                          uint64_t stream) {
  const size_t n = (size_t)outer * k;
  const int rows = columns ? k : outer, ld = (columns ? outer : k) + pad;
  const size_t all = (size_t)rows * ld, size = attend_dtype_size(type);
  operand o = {malloc(n * sizeof(float)), NULL, ld};
  float *laid = malloc(all * sizeof *laid);
  void *narrow = malloc(all * size);
  attend_random_normal((attend_random){11, stream}, 0, n, o.x);
  attend_convert_from_f32(type, o.x, n, narrow);
  attend_convert_to_f32(type, narrow, n, o.x);
  for (size_t i = 0; i < all; i++) laid[i] = NAN;
  for (int i = 0; i < outer; i++)
    for (int j = 0; j < k; j++)
      laid[columns ? (size_t)j * ld + i : (size_t)i * ld + j] = o.x[(size_t)i * k + j];
  attend_convert_from_f32(type, laid, all, narrow);
  o.data = cuda->alloc(gpu, all * size);
  cuda->write(gpu, o.data, narrow, all * size);
  free(laid), free(narrow);
  return o;
}
static void operand_free(operand *o) { free(o->x), cuda->free(gpu, o->data); }

typedef struct {
  problem p;
  operand a, b;
  double *sum, *size; /* [m][n]: the product; of absolute values */
} data;

static data data_of(problem p) {
  data d = {p, operand_of(p.type, p.m, p.k, p.a_columns, p.pad, 1),
            operand_of(p.type, p.n, p.k, p.b_columns, p.pad, 2),
            calloc((size_t)p.m * p.n, sizeof(double)), calloc((size_t)p.m * p.n, sizeof(double))};
  for (int i = 0; i < p.m; i++)
    for (int j = 0; j < p.n; j++) {
      const float *a = d.a.x + (size_t)i * p.k, *b = d.b.x + (size_t)j * p.k;
      double sum = 0, size = 0;
      for (int k = 0; k < p.k; k++)
        sum += (double)a[k] * (double)b[k], size += fabs((double)a[k] * (double)b[k]);
      d.sum[(size_t)i * p.n + j] = sum, d.size[(size_t)i * p.n + j] = size;
    }
  return d;
}
static void data_free(data *d) {
  operand_free(&d->a), operand_free(&d->b);
  free(d->sum), free(d->size);
}

static struct cuda_product call_of(const data *d) {
  const problem *p = &d->p;
  return (struct cuda_product){.type = p->type,
                               .m = p->m,
                               .n = p->n,
                               .k = p->k,
                               .a_type = p->type,
                               .b_type = p->type,
                               .a = d->a.data,
                               .b = d->b.data,
                               .lda = d->a.ld,
                               .ldb = d->b.ld,
                               .a_columns = p->a_columns,
                               .b_columns = p->b_columns};
}

static void run(const struct cuda_product *c) {
  cuda->product(gpu, c);
  CHECK(!cuda->error(gpu));
}

/* A tensor core drops what is below the last bits of its largest term: about 2^-22 of the terms. */
static void check_sums(const char *what, const data *d, const float *got, int64_t ld) {
  double worst = 0;
  for (int i = 0; i < d->p.m; i++)
    for (int j = 0; j < d->p.n; j++) {
      const size_t at = (size_t)i * d->p.n + j;
      const double off = fabs((double)got[i * ld + j] - d->sum[at]) / (d->size[at] + 1e-30);
      if (!(off <= worst)) worst = off;
    }
  if (!(worst <= 2e-6))
    CHECK_FAIL("%s %d x %d x %d, type %d, layouts %d %d: error %g", what, d->p.m, d->p.n, d->p.k,
               (int)d->p.type, d->p.a_columns, d->p.b_columns, worst);
}

TEST(layouts_and_tails) {
  static const int sizes[][4] = {{64, 64, 64, 0},   {1, 8, 16, 0},      {150, 300, 200, 8},
                                 {129, 257, 65, 3}, {300, 70, 333, 1},  {130, 520, 776, 0},
                                 {7, 1000, 40, 0},  {700, 900, 64, 24}, {257, 3, 1, 0}};
  for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
    for (int kind = 0; kind < 12; kind++) {
      data d = data_of((problem){kind % 3 == 0   ? ATTEND_BF16
                                 : kind % 3 == 1 ? ATTEND_F16
                                                 : ATTEND_F32,
                                 sizes[s][0], sizes[s][1], sizes[s][2], kind / 3 % 2 != 0,
                                 kind / 6 != 0, sizes[s][3]});
      twin c = normals((size_t)d.p.m * (d.p.n + 1), 3, NAN);
      struct cuda_product call = call_of(&d);
      call.c_type = ATTEND_F32, call.c = c.at[1], call.ldc = d.p.n + 1;
      run(&call);
      float *got = fetched(&c);
      check_sums("product", &d, got, d.p.n + 1);
      for (int i = 0; i < d.p.m; i++) CHECK(isnan(got[(size_t)i * (d.p.n + 1) + d.p.n]));
      free(got), twin_free(&c), data_free(&d);
    }
}

/* All rows of `rows` at once, then each alone and in batches: equal bits. */
TEST(rows_alone_and_in_batches) {
  static const int batches[] = {1,  2,  5,   8,   9,   16,  17,  32, 33,
                                64, 65, 100, 128, 129, 200, 256, 257};
  for (int kind = 0; kind < 6; kind++) {
    const attend_dtype type = kind / 2 == 0 ? ATTEND_BF16 : kind / 2 == 1 ? ATTEND_F16 : ATTEND_F32;
    data d = data_of(
        (problem){type, 300, kind % 2 ? 1416 : 136, kind % 2 ? 456 : 1352, false, false, 0});
    const size_t n = d.p.n, size = attend_dtype_size(type);
    twin all = normals(300 * n, 3, NAN), part = normals(300 * n, 4, NAN);
    struct cuda_product call = call_of(&d);
    call.c_type = ATTEND_F32, call.c = all.at[1], call.ldc = d.p.n;
    run(&call);
    float *want = fetched(&all);
    check_sums("rows", &d, want, d.p.n);
    call.c = part.at[1];
    for (size_t i = 0; i < sizeof batches / sizeof *batches; i++)
      for (int first = 0; first < 43; first += 21) {
        call.m = batches[i];
        call.a = (char *)d.a.data + (size_t)(first * d.p.k) * size;
        run(&call);
        float *got = fetched(&part);
        if (memcmp(got, want + (size_t)first * n, (size_t)call.m * n * sizeof *got))
          CHECK_FAIL("%d rows from %d of type %d have other bits (n %d)", call.m, first, (int)type,
                     d.p.n);
        free(got);
      }
    free(want), twin_free(&all), twin_free(&part), data_free(&d);
  }
}

static double applied(attend_activation f, double x) {
  switch (f) {
    case ATTEND_RELU:
      return x > 0 ? x : 0;
    case ATTEND_GELU:
      return 0.5 * x * (1 + erf(x / sqrt(2)));
    case ATTEND_GELU_TANH:
      return 0.5 * x * (1 + tanh(sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x)));
    case ATTEND_SILU:
      return x / (1 + exp(-x));
    case ATTEND_TANH:
      return tanh(x);
    default:
      return x;
  }
}
static double slope_of(attend_activation f, double x) {
  if (f == ATTEND_RELU) return x > 0;
  return (applied(f, x + 1e-5) - applied(f, x - 1e-5)) / 2e-5;
}

/* Normal numbers in a type. */
static twin typed(attend_dtype type, size_t n, uint64_t stream) {
  twin wide = normals(n, stream, 1);
  void *narrow = malloc(n * attend_dtype_size(type));
  attend_convert_from_f32(type, wide.at[0], n, narrow);
  twin t = twin_of(narrow, n * attend_dtype_size(type));
  twin_free(&wide), free(narrow);
  return t;
}
static double value_at(attend_dtype type, const void *x, size_t i) {
  float y;
  attend_convert_to_f32(type, (const char *)x + i * attend_dtype_size(type), 1, &y);
  return (double)y;
}

typedef struct {
  bool scale, bias, add, slope, before, onto, from;
  attend_activation f;
} ending;

static void check_ending(const ending *e, int m, int odd, attend_dtype type) {
  data d = data_of((problem){ATTEND_BF16, m, 300, 96, false, false, 0});
  const int n = d.p.n, ld = n + (odd ? 1 : 4);
  const size_t all = (size_t)m * ld;
  twin c = typed(type, all, 3), before = typed(type, all, 4), slope = typed(type, all, 5);
  twin onto = normals(all, 6, 1), from = normals(all, 7, 1);
  twin bias = normals(n, 8, 1), scale = normals(n, 9, 1);
  struct cuda_product call = call_of(&d);
  call.c = c.at[1], call.ldc = ld, call.c_type = type, call.add = e->add, call.f = e->f;
  if (e->scale) call.scale = scale.at[1];
  if (e->bias) call.bias = bias.at[1];
  if (e->slope) call.slope = slope.at[1], call.ld_slope = ld, call.slope_type = type;
  if (e->before) call.before = before.at[1], call.ld_before = ld, call.before_type = type;
  if (e->onto) call.onto = onto.at[1], call.ld_onto = ld;
  if (e->from) call.from = from.at[1], call.ld_from = ld;
  run(&call);
  void *got = fetched(&c), *got_before = fetched(&before);
  float *got_onto = fetched(&onto);
  const double off = type == ATTEND_F32 ? 0 : 0x1p-8;
  for (int i = 0; i < m; i++)
    for (int j = 0; j < n; j++) {
      const size_t at = (size_t)i * ld + j;
      double x = d.sum[(size_t)i * n + j];
      if (e->scale) x *= (double)((float *)scale.at[0])[j];
      if (e->bias) x += (double)((float *)bias.at[0])[j];
      if (e->add) x += value_at(type, c.at[0], at);
      if (e->slope) x *= slope_of(e->f, value_at(type, slope.at[0], at));
      if (e->before) CHECK_NEAR(value_at(type, got_before, at), x, off * fabs(x) + 1e-4);
      if (!e->slope) x = applied(e->f, x);
      if (!e->onto) CHECK_NEAR(value_at(type, got, at), x, off * fabs(x) + 1e-4);
      if (e->onto)
        CHECK_NEAR(got_onto[at], x + (double)((float *)(e->from ? from : onto).at[0])[at], 1e-4);
    }
  free(got), free(got_before), free(got_onto);
  twin_free(&c), twin_free(&before), twin_free(&slope), twin_free(&onto), twin_free(&from);
  twin_free(&bias), twin_free(&scale), data_free(&d);
}

/* What follows the sums, with few rows and many, aligned or not. */
TEST(endings) {
  static const ending list[] = {
      {.bias = true},
      {.scale = true, .bias = true},
      {.add = true},
      {.bias = true, .before = true, .f = ATTEND_GELU},
      {.slope = true, .f = ATTEND_GELU},
      {.slope = true, .f = ATTEND_GELU_TANH},
      {.bias = true, .f = ATTEND_RELU},
      {.f = ATTEND_GELU_TANH},
      {.f = ATTEND_SILU},
      {.f = ATTEND_TANH},
      {.slope = true, .f = ATTEND_SILU},
      {.slope = true, .f = ATTEND_TANH},
      {.bias = true, .onto = true},
      {.scale = true, .bias = true, .add = true, .onto = true, .from = true},
  };
  for (size_t i = 0; i < sizeof list / sizeof *list; i++)
    for (int kind = 0; kind < 8; kind++)
      check_ending(&list[i], kind & 1 ? 20 : 150, (kind & 2) != 0,
                   kind & 4 ? ATTEND_BF16 : ATTEND_F32);
}

/* Gradients of weights: both operands in columns, chunks of k, added to what is there. */
TEST(chunks_of_k) {
  for (int kind = 0; kind < 4; kind++) {
    const int odd = kind % 2;
    data d =
        data_of((problem){kind / 2 ? ATTEND_F32 : ATTEND_BF16, 72, 136 + odd, 5000, true, true, 0});
    const size_t n = (size_t)d.p.m * d.p.n;
    float *first = NULL;
    for (int again = 0; again < 2; again++) {
      twin c = normals(n, 3, 1);
      struct cuda_product call = call_of(&d);
      call.c_type = ATTEND_F32, call.c = c.at[1], call.ldc = d.p.n, call.add = true;
      call.split = true;
      run(&call);
      float *got = fetched(&c);
      if (!again) {
        first = malloc(n * sizeof *got);
        memcpy(first, got, n * sizeof *got);
      }
      CHECK(!memcmp(first, got, n * sizeof *got));
      for (size_t i = 0; i < n; i++)
        CHECK_NEAR(got[i] - ((float *)c.at[0])[i], d.sum[i], 2e-6 * d.size[i] + 1e-5);
      free(got), twin_free(&c);
    }
    free(first), data_free(&d);
  }
}

/* f32 is rounded, int8 widened: the bits of operands that are bf16. */
TEST(types) {
  data d = data_of((problem){ATTEND_BF16, 37, 90, 120, false, false, 0});
  const size_t n = (size_t)d.p.m * d.p.n, k = d.p.k;
  twin c = normals(n, 3, NAN), wide = twin_of(d.a.x, d.p.m * k * sizeof(float));
  int8_t *w = malloc(d.p.n * k);
  float *f = malloc(d.p.n * k * sizeof *f);
  uint16_t *narrow = malloc(d.p.n * k * sizeof *narrow);
  for (size_t i = 0; i < d.p.n * k; i++) w[i] = (int8_t)(i * 37 % 255 - 127), f[i] = w[i];
  attend_convert_from_f32(ATTEND_BF16, f, d.p.n * k, narrow);
  twin bytes = twin_of(w, d.p.n * k), words = twin_of(narrow, d.p.n * k * 2);
  struct cuda_product call = call_of(&d);
  call.c_type = ATTEND_F32, call.c = c.at[1], call.ldc = d.p.n, call.b = words.at[1];
  run(&call);
  float *want = fetched(&c);
  for (int rows = 1; rows <= d.p.m; rows += 36) {
    call.m = rows, call.a = wide.at[1], call.a_type = ATTEND_F32;
    call.b = bytes.at[1], call.b_int8 = true;
    run(&call);
    float *got = fetched(&c);
    CHECK(!memcmp(got, want, (size_t)rows * d.p.n * sizeof *got));
    free(got);
  }
  free(want), free(w), free(f), free(narrow);
  twin_free(&c), twin_free(&wide), twin_free(&bytes), twin_free(&words), data_free(&d);
}

/* ---- ops ------------------------------------------------------------------------------- */

static float rounded(float x) {
  uint16_t narrow;
  attend_convert_from_f32(ATTEND_BF16, &x, 1, &narrow);
  attend_convert_to_f32(ATTEND_BF16, &narrow, 1, &x);
  return x;
}

/* A layer of the GPU, packed from f32; w: its weights as they multiply. */
static attend_linear layer_of(attend_weights kind, int outputs, int inputs, const twin *w,
                              const twin *b) {
  const size_t n = (size_t)outputs * inputs;
  attend_linear l = {.kind = kind,
                     .inputs = inputs,
                     .outputs = outputs,
                     .weights = cuda->alloc(gpu, n * sizeof(float)),
                     .scale = cuda->alloc(gpu, outputs * sizeof(float)),
                     .bias = cuda->alloc(gpu, outputs * sizeof(float))};
  const attend_linear_part part = {.weight = w->at[1],
                                   .outputs = outputs,
                                   .output_stride = inputs,
                                   .input_stride = 1,
                                   .bias = b->at[1]};
  cuda->pack(gpu, &l, &part, 0);
  float *x = w->at[0];
  for (int o = 0; o < outputs; o++) {
    float max = 0;
    for (int i = 0; i < inputs; i++) max = fmaxf(max, fabsf(x[(size_t)o * inputs + i]));
    for (int i = 0; i < inputs; i++) {
      float *at = &x[(size_t)o * inputs + i];
      *at = kind == ATTEND_WEIGHTS_I8 ? rintf(*at / (max / 127)) * (max / 127) : rounded(*at);
    }
  }
  return l;
}

TEST(linear_layers) {
  enum { MOST = 150, IN = 200, LD = 208 };
  static const attend_weights kinds[] = {ATTEND_WEIGHTS_BF16, ATTEND_WEIGHTS_I8,
                                         ATTEND_WEIGHTS_MIXED};
  static const int batches[] = {1, 3, 8, 40, 64, 65, 128};
  for (int kind = 0; kind < 6; kind++) {
    const int out = kind < 3 ? 83 : 336;
    twin x = normals(MOST * LD, 1, 1), w = normals((size_t)out * IN, 2, 1), b = normals(out, 3, 1);
    attend_linear l = layer_of(kinds[kind % 3], out, IN, &w, &b);
    const int ld = (out + 15) / 16 * 16;
    twin y = normals((size_t)MOST * ld, 4, 1), one = normals((size_t)MOST * ld, 5, 1);
    struct op_linear op = {
        .linear = &l, .rows = MOST, .x = x.at[1], .ldx = LD, .y = y.at[1], .ldy = ld};
    cuda->linear(gpu, &op);
    CHECK(!cuda->error(gpu));
    float *want = fetched(&y);
    for (int r = 0; r < MOST; r++)
      for (int o = 0; o < ld; o++) {
        double sum = o < out ? (double)((float *)b.at[0])[o] : 0;
        for (int i = 0; i < IN && o < out; i++)
          sum += (double)rounded(((float *)x.at[0])[r * LD + i]) *
                 (double)((float *)w.at[0])[(size_t)o * IN + i];
        CHECK_NEAR(want[r * ld + o], sum, 2e-4);
      }
    for (size_t i = 0; i < sizeof batches / sizeof *batches; i++) {
      op.rows = batches[i], op.x = (float *)x.at[1] + 5 * LD, op.y = one.at[1];
      cuda->linear(gpu, &op);
      float *got = fetched(&one);
      CHECK(!memcmp(got, want + 5 * ld, (size_t)op.rows * ld * sizeof *got));
      free(got);
    }
    free(want);
    cuda->free(gpu, l.weights), cuda->free(gpu, l.scale), cuda->free(gpu, l.bias);
    twin_free(&x), twin_free(&w), twin_free(&b), twin_free(&y), twin_free(&one);
  }
}

TEST(gradients_of_layers) {
  enum { ROWS = 700, OUT = 70, IN = 90, LD = 96 };
  for (int mixed = 0; mixed < 2; mixed++) {
    twin x = normals(ROWS * LD, 1, 1), dy = normals(ROWS * LD, 2, 1);
    twin dw = normals(OUT * IN, 3, 1), db = normals(OUT, 4, 1);
    const struct op_linear_grad op = {.kind = mixed ? ATTEND_WEIGHTS_MIXED : ATTEND_WEIGHTS_F32,
                                      .rows = ROWS,
                                      .outputs = OUT,
                                      .inputs = IN,
                                      .dy = dy.at[1],
                                      .lddy = LD,
                                      .x = x.at[1],
                                      .ldx = LD,
                                      .dw = dw.at[1],
                                      .db = db.at[1]};
    cuda->linear_grad(gpu, &op);
    CHECK(!cuda->error(gpu));
    float *got = fetched(&dw), *got_b = fetched(&db);
    for (int o = 0; o < OUT; o++) {
      double sum = (double)((float *)db.at[0])[o];
      for (int r = 0; r < ROWS; r++) sum += (double)((float *)dy.at[0])[r * LD + o];
      CHECK_NEAR(got_b[o], sum, 2e-5);
      for (int i = 0; i < IN; i++) {
        sum = (double)((float *)dw.at[0])[o * IN + i];
        for (int r = 0; r < ROWS; r++) {
          float a = ((float *)dy.at[0])[r * LD + o], c = ((float *)x.at[0])[r * LD + i];
          sum += mixed ? (double)rounded(a) * (double)rounded(c) : (double)a * (double)c;
        }
        CHECK_NEAR(got[o * IN + i], sum, 1e-3);
      }
    }
    free(got), free(got_b);
    twin_free(&x), twin_free(&dy), twin_free(&dw), twin_free(&db);
  }
}

/* Two parts of a layer, in either layout, forward and backward. */
TEST(packing) {
  enum { IN = 70, OUT = 45, PARTS = 2, ALL = OUT * PARTS };
  for (int kind = 0; kind < 8; kind++) {
    const bool narrow = kind & 1, backward = kind & 2, across = kind & 4;
    attend_linear l = {.kind = narrow ? ATTEND_WEIGHTS_BF16 : ATTEND_WEIGHTS_F32,
                       .backward = backward,
                       .inputs = backward ? ALL : IN,
                       .outputs = backward ? IN : ALL,
                       .weights = cuda->alloc(gpu, ALL * IN * sizeof(float)),
                       .bias = cuda->alloc(gpu, ALL * sizeof(float))};
    twin w[PARTS];
    for (int i = 0; i < PARTS; i++) {
      w[i] = normals(OUT * IN, (uint64_t)i + 1, 1);
      const attend_linear_part part = {.weight = w[i].at[1],
                                       .outputs = OUT,
                                       .output_stride = across ? 1 : IN,
                                       .input_stride = across ? OUT : 1};
      cuda->pack(gpu, &l, &part, i * OUT);
    }
    char got[ALL * IN * sizeof(float)];
    cuda->read(gpu, got, l.weights, sizeof got);
    CHECK(!cuda->error(gpu));
    for (int o = 0; o < ALL; o++)
      for (int i = 0; i < IN; i++) {
        const float *from = w[o / OUT].at[0],
                    x = from[across ? i * OUT + o % OUT : o % OUT * IN + i];
        CHECK(value_at(narrow ? ATTEND_BF16 : ATTEND_F32, got,
                       (size_t)(backward ? i * ALL + o : o * IN + i)) ==
              (double)(narrow ? rounded(x) : x));
      }
    for (int i = 0; i < PARTS; i++) twin_free(&w[i]);
    cuda->free(gpu, l.weights), cuda->free(gpu, l.bias);
  }
}
