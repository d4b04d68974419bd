/* Activations, norms, embeddings, positions and losses against double, on every
 * instruction set that runs here. */
#include "attend/layers.h"
#include "kernel_fixtures.h"

#define FOR_EACH_CONTEXT(ctx) \
  FOR_EACH_ISA(isa_)          \
  for (attend_context *ctx = open_context(isa_, 2, NULL); ctx; attend_context_free(ctx), ctx = NULL)

static const double pi = 3.14159265358979323846;
static const int lengths[] = {1, 2, 7, 15, 16, 17, 31, 100, 768};
enum { LENGTHS = sizeof lengths / sizeof *lengths, LONGEST = 768, LD = 784 };

/* ---- activations ------------------------------------------------------------------- */

static double activation(int kind, double x) {
  double u = sqrt(2 / pi) * (x + 0.044715 * x * x * x);
  switch (kind) {
    case ATTEND_RELU:
      return x > 0 ? x : 0;
    case ATTEND_GELU:
      return x * 0.5 * erfc(-x * sqrt(0.5));
    case ATTEND_GELU_TANH:
      return x / (1 + exp(-2 * u));
    case ATTEND_SILU:
      return x / (1 + exp(-x));
    case ATTEND_TANH:
      return tanh(x);
    default:
      return x;
  }
}

typedef struct {
  int kind;
  double from, to, relative; /* 0: relative to |x| is all that is promised */
} stretch;

/* The bounds that kernels/cpu/activations.c states. */
static const stretch stretches[] = {
    {ATTEND_GELU, -13, -5, 1.6e-6},   {ATTEND_GELU, -5, 0, 5.6e-7},
    {ATTEND_GELU, 0, 90, 5.6e-7},     {ATTEND_GELU_TANH, -5, 0, 2.6e-6},
    {ATTEND_GELU_TANH, 0, 90, 2e-7},  {ATTEND_SILU, -87, -20, 1.5e-6},
    {ATTEND_SILU, -20, 90, 4.6e-7},   {ATTEND_TANH, -20, 0, 2.1e-7},
    {ATTEND_TANH, 0, 90, 2.1e-7},     {ATTEND_TANH, -1e-3, 1e-3, 2.1e-7},
    {ATTEND_GELU_TANH, -12, -5, 0},   {ATTEND_GELU, -200, -13, 0},
    {ATTEND_SILU, -200, -87, 0},      {ATTEND_IDENTITY, -9, 9, 1e-30},
    {ATTEND_GELU_TANH, -200, -12, 0}, {ATTEND_RELU, -9, 9, 1e-30},
    {ATTEND_TANH, -200, -20, 2.1e-7},
};

static void check_stretch(attend_context *ctx, const stretch *s) {
  static float x[1000], y[1000];
  int chunks = light() ? 4 : 100;
  for (int c = 0; c < chunks; c++) {
    for (int i = 0; i < 1000; i++)
      x[i] = (float)(s->from + (s->to - s->from) * (c * 1000 + i) / (chunks * 1000));
    attend_activate(ctx, (attend_activation)s->kind, 10, 97, x, 100, y, 100);
    for (int i = 0; i < 1000; i++) {
      double a = (double)x[i], want = activation(s->kind, a);
      double may = s->relative ? s->relative * fabs(want) : 1.9e-7 * fabs(a);
      if (i % 100 < 97) CHECK_NEAR((double)y[i], want, may + 1e-37);
      if (i % 100 < 97) CHECK_NEAR((double)y[i], want, 2.1e-7 * fabs(a));
    }
  }
}

TEST(activations_keep_their_bounds) {
  FOR_EACH_CONTEXT(ctx)
  for (size_t i = 0; i < sizeof stretches / sizeof *stretches; i++)
    check_stretch(ctx, &stretches[i]);
}

TEST(activations_of_what_is_no_number) {
  static const float at[] = {NAN, INFINITY, 3e38f, -3e38f, 0, -INFINITY};
  FOR_EACH_CONTEXT(ctx)
  for (int kind = 0; kind <= ATTEND_TANH; kind++) {
    float y[6];
    attend_activate(ctx, (attend_activation)kind, 1, 6, at, 6, y, 6);
    CHECK(isnan(y[0]));
    CHECK(y[1] == (kind == ATTEND_TANH ? 1 : INFINITY));
    CHECK(y[2] == (kind == ATTEND_TANH ? 1 : 3e38f));
    CHECK(y[3] == (kind == ATTEND_TANH ? -1 : kind == ATTEND_IDENTITY ? -3e38f : 0));
    CHECK(y[4] == 0);
    if (kind == ATTEND_TANH) CHECK(y[5] == -1);
    if (kind == ATTEND_GELU || kind == ATTEND_RELU) CHECK(y[5] == 0);
    CHECK(strlen(attend_activation_name((attend_activation)kind)) > 3);
  }
}

/* A gate is the activation times b, in place or not, alone or among others. */
TEST(gates) {
  static float a[5 * LD], b[5 * LD], y[5 * LD], z[5 * LD];
  refill(1);
  memcpy(a, pool, sizeof a);
  memcpy(b, pool + 9999, sizeof b);
  FOR_EACH_CONTEXT(ctx)
  for (int n = 0; n < LENGTHS * 6; n++) {
    attend_activation kind = (attend_activation)(n / LENGTHS);
    int wide = lengths[n % LENGTHS];
    for (int i = 0; i < 5 * LD; i++) y[i] = z[i] = -77;
    attend_activate(ctx, kind, 5, wide, a, LD, y, LD);
    memcpy(z, b, sizeof z);
    attend_gate(ctx, kind, 5, wide, a, LD, z, LD, z, LD);
    for (int i = 0; i < 5 * LD; i++) {
      int in = i % LD < wide;
      CHECK(same(z[i], in ? y[i] * b[i] : b[i]));
      if (!in) CHECK(y[i] == -77);
    }
    memcpy(z, a, sizeof z);
    attend_activate(ctx, kind, 1, wide, z + LD, LD, z + LD, LD);
    CHECK(!memcmp(z + LD, y + LD, (size_t)wide * 4));
  }
}

/* ---- norms ------------------------------------------------------------------------- */

static void check_norm(const float *x, int n, const float *w, const float *b, int centre,
                       const float *y) {
  double mean = 0, variance = 0, max = 0;
  for (int i = 0; i < n && centre; i++) mean += (double)x[i] / n;
  for (int i = 0; i < n; i++) {
    double d = (double)x[i] - mean;
    variance += d * d / n;
    max = fmax(max, fabs((double)x[i]));
  }
  double f = 1 / sqrt(variance + 1e-5);
  for (int i = 0; i < n; i++) {
    double weight = w ? (double)w[i] : 1, bias = b ? (double)b[i] : 0;
    double d = ((double)x[i] - mean) * f;
    CHECK_NEAR((double)y[i], d * weight + bias,
               8 * eps * ((fabs(d) + max * f) * fabs(weight) + fabs(bias)));
    if (n == 1 && centre) CHECK(y[i] == (float)bias);
  }
}

TEST(norms_of_rows) {
  static float x[5 * LD], y[5 * LD], z[LD];
  refill(2);
  const float *weight = pool + 20000, *bias = pool + 30000;
  FOR_EACH_CONTEXT(ctx)
  for (int t = 0; t < LENGTHS * 8; t++) {
    int n = lengths[t % LENGTHS], way = t / LENGTHS, centre = way & 1;
    const float *w = way & 2 ? weight : NULL;
    const float *b = way & 4 && centre ? bias : NULL;
    for (int i = 0; i < 5 * LD; i++) {
      x[i] = pool[i] * 2 + (i < LD ? 0 : 30); /* far from 0: no cancelling */
      y[i] = -77;
    }
    if (centre)
      attend_layer_norm(ctx, 5, n, x, LD, w, b, 1e-5f, y, LD);
    else
      attend_rms_norm(ctx, 5, n, x, LD, w, 1e-5f, y, LD);
    for (int r = 0; r < 5; r++) {
      check_norm(x + r * LD, n, w, b, centre, y + r * LD);
      CHECK(y[r * LD + n] == -77);
    }
    memcpy(z, x + LD, sizeof z); /* alone and in place */
    if (centre)
      attend_layer_norm(ctx, 1, n, z, LD, w, b, 1e-5f, z, LD);
    else
      attend_rms_norm(ctx, 1, n, z, LD, w, 1e-5f, z, LD);
    CHECK(!memcmp(z, y + LD, (size_t)n * 4));
  }
}

TEST(norms_of_columns) {
  enum { ROWS = 700, N = 37, WIDE = 40 };
  static float x[ROWS * WIDE], y[ROWS * WIDE];
  refill(3);
  const float *weight = pool + 40000, *bias = pool + 41000;
  for (int i = 0; i < ROWS * WIDE; i++) x[i] = pool[i] * 3 + (float)(i % WIDE);
  FOR_EACH_CONTEXT(ctx) {
    float mean[N + 1] = {0}, variance[N + 1] = {0};
    mean[N] = variance[N] = -77;
    attend_batch_moments(ctx, ROWS, N, x, WIDE, mean, variance);
    CHECK(mean[N] == -77 && variance[N] == -77);
    for (int j = 0; j < N; j++) {
      double m = 0, v = 0;
      for (int r = 0; r < ROWS; r++) m += (double)x[r * WIDE + j] / ROWS;
      for (int r = 0; r < ROWS; r++) v += pow((double)x[r * WIDE + j] - m, 2) / ROWS;
      CHECK_NEAR((double)mean[j], m, 1e-6 * (fabs(m) + 3));
      CHECK_NEAR((double)variance[j], v, 2e-6 * v);
    }
    for (int way = 0; way < 4; way++) {
      const float *w = way & 1 ? weight : NULL, *b = way & 2 ? bias : NULL;
      for (int i = 0; i < ROWS * WIDE; i++) y[i] = -77;
      attend_batch_norm(ctx, ROWS, N, x, WIDE, mean, variance, w, b, 1e-3f, y, WIDE);
      for (int i = 0; i < ROWS * WIDE; i++) {
        int j = i % WIDE;
        if (j >= N) CHECK(y[i] == -77);
        if (j >= N) continue;
        double d = ((double)x[i] - (double)mean[j]) / sqrt((double)variance[j] + 1e-3) *
                   (w ? (double)w[j] : 1);
        CHECK_NEAR((double)y[i], d + (b ? (double)b[j] : 0), 8 * eps * (fabs(d) + 4));
      }
    }
  }
}

TEST(sums) {
  float y[3 * 20];
  refill(4);
  FOR_EACH_CONTEXT(ctx)
  for (int n = 1; n <= 19; n++) {
    for (int i = 0; i < 60; i++) y[i] = pool[i];
    attend_add(ctx, 3, n, y, 20, pool + 100, 20, y, 20);
    for (int i = 0; i < 60; i++) CHECK(same(y[i], i % 20 < n ? pool[i] + pool[100 + i] : pool[i]));
  }
}

/* ---- embeddings and positions ------------------------------------------------------- */

TEST(embeddings) {
  enum { ENTRIES = 9, N = 71, ROWS = 6 };
  static const int32_t ids[ROWS] = {8, -1, 0, 9, 8, INT32_MAX};
  static char block[ENTRIES * N * 4 + 16];
  refill(5);
  FOR_EACH_CONTEXT(ctx)
  for (int way = 0; way < 3 * 2 * 2; way++) {
    attend_dtype dtype = (attend_dtype)(way % 3);
    size_t size = attend_dtype_size(dtype);
    char *data = block + (way / 3 % 2 ? 1 : 0); /* a file may lie anyhow */
    int add = way / 6;
    float y[ROWS * 80], was[ROWS * 80];
    for (int i = 0; i < ENTRIES * N; i++) {
      char one[4];
      attend_convert_from_f32(dtype, pool + i, 1, one);
      memcpy(data + (size_t)i * size, one, size);
    }
    memcpy(y, pool + 5000, sizeof y);
    memcpy(was, y, sizeof y);
    attend_table table = {data, dtype, ENTRIES};
    attend_embed(ctx, &table, ROWS, N, ids, 1.5f, add, y, 80);
    for (int i = 0; i < ROWS * 80; i++) {
      int id = ids[i / 80], j = i % 80;
      float entry = 0;
      char one[4];
      if (id >= 0 && id < ENTRIES && j < N) {
        memcpy(one, data + (size_t)(id * N + j) * size, size);
        attend_convert_to_f32(dtype, one, 1, &entry);
      }
      double want = 1.5 * (double)entry + (add ? (double)was[i] : 0);
      if (j >= N) CHECK(same(y[i], was[i]));
      if (j < N) CHECK_NEAR((double)y[i], want, 4 * eps * (fabs(want) + 4));
      if (j < N && id < 0) CHECK(y[i] == (add ? was[i] : 0));
    }
  }
}

TEST(sinusoidal_positions) {
  float y[12];
  for (int64_t t = 0; t < 100000; t = t * 3 + 1) {
    attend_sinusoidal(t, 11, y);
    for (int i = 0; i < 11; i++) {
      double angle = (double)t * pow(10000.0, -(double)(i / 2 * 2) / 11);
      CHECK_NEAR((double)y[i], i % 2 ? cos(angle) : sin(angle), 1e-7);
    }
  }
}

/* What transformers' modeling_rope_utils computes, its formulas run in double. */
TEST(rotary_frequencies) {
  static const attend_rope ropes[] = {
      {.theta = 1e4},
      {.theta = 1e4, .scaling = ATTEND_ROPE_LINEAR, .factor = 4},
      {5e5, ATTEND_ROPE_LLAMA3, 8, 1, 4, 8192, 0},
      {.theta = 1e6, .scaling = ATTEND_ROPE_YARN, .factor = 4, .context = 32768},
      {1e4, ATTEND_ROPE_YARN, 16, 1, 32, 4096, 0.75},
  };
  static const double want[5][8] = {
      {1, 0.31622776601683794, 0.1, 0.031622776601683794, 0.01, 0.0031622776601683794, 0.001,
       0.00031622776601683794},
      {.25, 0.079056941504209485, 0.025, 0.0079056941504209485, 0.0025, 0.00079056941504209485,
       0.00025, 0.000079056941504209485},
      {1.0, 0.19392274474868576, 0.03760603093086393, 0.0072926647372171085, 0.0005248461609929547,
       3.428102195952591e-05, 6.647869871181236e-06, 1.2891731721515574e-06},
      {1.0, 0.17782794100389226, 0.03162277660168379, 0.004217559938927618, 0.0005,
       4.445698525097307e-05, 7.905694150420949e-06, 1.4058533129758728e-06},
      {1.0, 0.31622776601683794, 0.1, 0.024211188335664154, 0.0053125, 0.0009388011803624875,
       6.25e-05, 1.976423537605237e-05},
  };
  static const double stretches_of[5] = {1, 1, 1, 1.138629436111989, 0.75};
  for (int n = 0; n < 5; n++) {
    double frequency[8], longer;
    attend_rope_frequencies(&ropes[n], 16, frequency, &longer);
    CHECK_NEAR(longer, stretches_of[n], 1e-14);
    for (int i = 0; i < 8; i++) CHECK_NEAR(frequency[i], want[n][i], 1e-13 * want[n][i]);
  }
}

TEST(rotary_turns) {
  enum { ROWS = 4, MOST = 300, HEADS = 3 };
  static const int dims[] = {2, 6, 16, 34, 64, 128, 300};
  static const int32_t positions[ROWS] = {0, 1, 4095, 1000000};
  static float x[ROWS * (HEADS * MOST + 1)], was[ROWS * (HEADS * MOST + 1)];
  const attend_rope rope = {.theta = 1e4};
  refill(6);
  FOR_EACH_CONTEXT(ctx)
  for (int t = 0; t < 7; t++) {
    int dim = dims[t], half = dim / 2, ld = HEADS * dim + 1;
    double f[MOST / 2], longer;
    attend_rope_frequencies(&rope, dim, f, &longer);
    memcpy(x, pool, sizeof x);
    memcpy(was, x, sizeof x);
    attend_rope_rotate(ctx, f, 1.25, ROWS, HEADS, dim, positions, x, ld);
    for (int i = 0; i < ROWS * ld; i++) {
      int j = i % ld % dim, r = i / ld;
      if (i % ld == ld - 1) CHECK(same(x[i], was[i]));
      if (i % ld == ld - 1) continue;
      double angle = positions[r] * f[j % half], a = (double)was[i];
      double b = (double)was[j < half ? i + half : i - half];
      double want = 1.25 * (a * cos(angle) + (j < half ? -1 : 1) * b * sin(angle));
      CHECK_NEAR((double)x[i], want, 6 * eps * (fabs(a) + fabs(b)));
    }
  }
}

/* ---- loss ---------------------------------------------------------------------------- */

TEST(cross_entropy) {
  enum { ROWS = 6, N = 9001 };
  static float x[ROWS * N];
  static const int lens[] = {1, 2, 15, 17, 1000, N};
  for (int i = 0; i < ROWS * N; i += 50000)
    attend_random_normal((attend_random){5, (uint64_t)i}, 0,
                         ROWS * N - i < 50000 ? (size_t)(ROWS * N - i) : 50000, x + i);
  for (int i = 0; i < ROWS * N; i++) x[i] *= (float)(1 + i / N * 20);
  FOR_EACH_CONTEXT(ctx)
  for (int t = 0; t < 6; t++) {
    int n = lens[t];
    int32_t targets[ROWS] = {0, n - 1, -1, n / 2, -100, n}, best[ROWS];
    float loss[ROWS], again[ROWS];
    attend_cross_entropy(ctx, ROWS, n, x, N, targets, loss, best);
    attend_cross_entropy(ctx, ROWS, n, x, N, targets, again, NULL);
    for (int r = 0; r < ROWS; r++) {
      const float *row = x + r * N;
      double sum = 0, max = -INFINITY;
      int at = 0;
      for (int j = 0; j < n; j++)
        if ((double)row[j] > max) max = (double)row[j], at = j;
      for (int j = 0; j < n; j++) sum += exp((double)row[j] - max);
      CHECK_EQ(best[r], at);
      CHECK(same(loss[r], again[r]));
      if (targets[r] < 0) CHECK(loss[r] == 0);
      if (targets[r] >= n) CHECK(isnan(loss[r]));
      if (targets[r] < 0 || targets[r] >= n) continue;
      double want = log(sum) + max - (double)row[targets[r]];
      CHECK_NEAR((double)loss[r], want, 4e-7 + 2 * eps * fabs(want));
    }
  }
}

TEST(cross_entropy_at_the_ends) {
  float x[4][5] = {{1e38f, 0, -1e38f, 3, 4},
                   {-1e30f, -1e30f, -1e30f, -1e30f, -1e30f},
                   {0, -INFINITY, -INFINITY, -INFINITY, 0},
                   {1, NAN, 2, 0, 0}};
  int32_t targets[4] = {0, 2, 4, 0}, best[4];
  float loss[4];
  FOR_EACH_CONTEXT(ctx) {
    attend_cross_entropy(ctx, 4, 5, x[0], 5, targets, loss, best);
    CHECK(loss[0] == 0);
    CHECK_NEAR((double)loss[1], log(5), 1e-6);
    CHECK_NEAR((double)loss[2], log(2), 1e-6);
    CHECK(isnan(loss[3]));
    CHECK(best[0] == 0 && best[1] == 0 && best[2] == 0 && best[3] == 2);
  }
}

/* ---- the same bits on every set with fma, and on any number of threads ----------------- */

static uint64_t mix(uint64_t sum, const void *data, size_t bytes) {
  const unsigned char *p = data;
  for (size_t i = 0; i < bytes; i++) sum = (sum ^ p[i]) * UINT64_C(1099511628211);
  return sum;
}

enum { B_ROWS = 90, B_N = 500 };

static uint64_t layer_bits(attend_context *ctx, const float *x, float *y) {
  uint64_t sum = UINT64_C(14695981039346656037);
  size_t bytes = B_ROWS * B_N * sizeof *y;
  const float *w = x + 1000;
  float mean[B_N], variance[B_N], loss[B_ROWS];
  int32_t positions[B_ROWS], targets[B_ROWS];
  double f[50], longer;
  for (int r = 0; r < B_ROWS; r++) targets[r] = positions[r] = r * 5;
  for (int kind = 0; kind <= ATTEND_TANH; kind++) {
    attend_activate(ctx, (attend_activation)kind, B_ROWS, B_N, x, B_N, y, B_N);
    sum = mix(sum, y, bytes);
  }
  attend_layer_norm(ctx, B_ROWS, B_N, x, B_N, w, w, 1e-5f, y, B_N);
  sum = mix(sum, y, bytes);
  attend_rms_norm(ctx, B_ROWS, B_N, x, B_N, w, 1e-5f, y, B_N);
  sum = mix(sum, y, bytes);
  attend_batch_moments(ctx, B_ROWS, B_N, x, B_N, mean, variance);
  attend_batch_norm(ctx, B_ROWS, B_N, x, B_N, mean, variance, w, w, 1e-5f, y, B_N);
  sum = mix(sum, y, bytes);
  attend_rope_frequencies(&(attend_rope){.theta = 1e4}, 100, f, &longer);
  attend_rope_rotate(ctx, f, 1, B_ROWS, 5, 100, positions, y, B_N);
  sum = mix(sum, y, bytes);
  attend_cross_entropy(ctx, B_ROWS, B_N, x, B_N, targets, loss, NULL);
  return mix(sum, loss, sizeof loss);
}

/* Computed with AVX2. */
static const uint64_t known_layers = UINT64_C(0x8b2ffefd5a58899b);

TEST(sets_and_threads_give_the_same_bits) {
  static float x[B_ROWS * B_N], y[B_ROWS * B_N];
  attend_random_uniform((attend_random){82, 1}, 0, B_ROWS * B_N, x);
  for (int i = 0; i < B_ROWS * B_N; i++) x[i] = (x[i] - 0.5f) * 20;
  FOR_EACH_CONTEXT(ctx) {
    uint64_t first = layer_bits(ctx, x, y);
    if (strcmp(ctx->isa, "scalar")) CHECK_BITS(first, known_layers, ctx->kernels);
    for (int threads = 1; threads <= 3; threads += 2) {
      OK(ctx, attend_context_set_threads(ctx, threads));
      CHECK(layer_bits(ctx, x, y) == first);
    }
  }
}

/* ---- rows of logits ------------------------------------------------------------- */

TEST(the_k_largest_come_first_and_ties_by_index) {
  const float x[] = {1, 5, -INFINITY, 5, 3, 2};
  int32_t index[6];
  CHECK_EQ(attend_top_k(6, x, 3, index), 3);
  CHECK(index[0] == 1 && index[1] == 3 && index[2] == 4);
  CHECK_EQ(attend_top_k(6, x, 1, index), 1);
  CHECK_EQ(index[0], 1);
  CHECK_EQ(attend_top_k(2, x, 6, index), 2);
  CHECK(index[0] == 1 && index[1] == 0);
  CHECK_EQ(attend_top_k(0, x, 6, index), 0);
}

TEST(log_sum_exp_does_not_overflow) {
  const float x[] = {1000, 1000, -INFINITY};
  CHECK(fabs(attend_log_sum_exp(3, x) - (1000 + log(2))) < 1e-9);
}
