/* Gradients of activations, embeddings, positions and the loss against double,
 * and dropout, on every instruction set that runs here. */
#include "attend/layers.h"
#include "kernel_fixtures.h"

#define FOR_EACH_CONTEXT(ctx) \
  FOR_EACH_ISA(isa_)          \
  for (attend_context *ctx = open_context(isa_, 2, NULL); ctx; attend_context_free(ctx), ctx = NULL)

static const double pi = 3.14159265358979323846;
static const int lengths[] = {1, 2, 7, 15, 16, 17, 31, 100, 513};
enum { LENGTHS = sizeof lengths / sizeof *lengths, LD = 520 };

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

static double slope(int kind, double x) {
  double u = sqrt(2 / pi) * (x + 0.044715 * x * x * x);
  double du = sqrt(2 / pi) * (1 + 3 * 0.044715 * x * x);
  double s = 1 / (1 + exp(-x)), t = 1 / (1 + exp(-2 * u));
  switch (kind) {
    case ATTEND_RELU:
      return x > 0;
    case ATTEND_GELU:
      return 0.5 * erfc(-x * sqrt(0.5)) + x * exp(-x * x / 2) / sqrt(2 * pi);
    case ATTEND_GELU_TANH:
      return t + 2 * x * du * t / (1 + exp(2 * u));
    case ATTEND_SILU:
      return s + x * s / (1 + exp(x));
    case ATTEND_TANH:
      return 1 / (cosh(x) * cosh(x));
    default:
      return 1;
  }
}

TEST(slopes_are_finite_differences) {
  for (int kind = 0; kind <= ATTEND_TANH; kind++)
    for (int i = -400; i <= 400; i++) {
      double x = i * 0.0301 + 1e-3, h = 1e-5;
      double up = activation(kind, x + h), down = activation(kind, x - h);
      CHECK_NEAR(slope(kind, x), (up - down) / (2 * h), 1e-8);
    }
}

/* The bounds that kernels/cpu/activations.c states; relative for tanh. */
static const double bounds[] = {0, 0, 2.4e-7, 2.4e-7, 2.4e-7, 1.3e-6};

TEST(slopes_keep_their_bounds) {
  enum { N = 1000 };
  static float x[N], one[N], dx[N];
  for (int i = 0; i < N; i++) one[i] = 1;
  FOR_EACH_CONTEXT(ctx)
  for (int kind = 0; kind <= ATTEND_TANH; kind++)
    for (int c = 0; c < (light() ? 8 : 200); c++) {
      double wide = c % 4 == 0 ? 1 : c % 4 == 1 ? 6 : c % 4 == 2 ? 15 : 120;
      attend_random_uniform((attend_random){84, (uint64_t)c}, 0, N, x);
      for (int i = 0; i < N; i++) x[i] = (x[i] - 0.5f) * (float)(2 * wide);
      attend_activate_backward(ctx, (attend_activation)kind, 10, 97, x, 100, one, 100, dx, 100);
      for (int i = 0; i < N; i++) {
        double want = slope(kind, (double)x[i]), may = bounds[kind];
        if (kind == ATTEND_TANH) may = may * want + 1e-30;
        if (i % 100 < 97) CHECK_NEAR((double)dx[i], want, may);
      }
    }
}

TEST(slopes_of_what_is_no_number) {
  static const float at[] = {NAN, INFINITY, 3e38f, -3e38f, -INFINITY, 0, 0};
  FOR_EACH_CONTEXT(ctx)
  for (int kind = ATTEND_RELU; kind <= ATTEND_TANH; kind++) {
    float dx[7], dy[7] = {2, 2, 2, 2, 2, 2, NAN};
    float right = kind == ATTEND_TANH ? 0 : 2;
    attend_activate_backward(ctx, (attend_activation)kind, 1, 7, at, 7, dy, 7, dx, 7);
    if (kind != ATTEND_RELU) CHECK(isnan(dx[0]) && isnan(dx[6]));
    CHECK(dx[1] == right && dx[2] == right && dx[3] == 0 && dx[4] == 0);
    CHECK(dx[5] == (kind == ATTEND_RELU ? 0 : kind == ATTEND_TANH ? 2 : 1));
  }
}

/* Rows of any width, in place or not, alone or among others. */
TEST(activations_and_gates) {
  enum { ROWS = 5 };
  static float a[ROWS * LD], b[ROWS * LD], dy[ROWS * LD];
  static float da[ROWS * LD], db[ROWS * LD], y[ROWS * LD], dx[ROWS * LD];
  refill(1);
  memcpy(a, pool, sizeof a);
  memcpy(b, pool + 9999, sizeof b);
  memcpy(dy, pool + 20000, sizeof dy);
  FOR_EACH_CONTEXT(ctx)
  for (int t = 0; t < LENGTHS * 6; t++) {
    attend_activation kind = (attend_activation)(t / LENGTHS);
    int n = lengths[t % LENGTHS];
    for (int i = 0; i < ROWS * LD; i++) da[i] = db[i] = dx[i] = -77;
    attend_activate_backward(ctx, kind, ROWS, n, a, LD, dy, LD, dx, LD);
    attend_gate_backward(ctx, kind, ROWS, n, a, LD, b, LD, dy, LD, da, LD, db, LD);
    attend_activate(ctx, kind, ROWS, n, a, LD, y, LD);
    for (int i = 0; i < ROWS * LD; i++) {
      double s = slope((int)kind, (double)a[i]), d = (double)dy[i];
      if (i % LD >= n) CHECK(da[i] == -77 && db[i] == -77 && dx[i] == -77);
      if (i % LD >= n) continue;
      CHECK_NEAR((double)dx[i], s * d, 8e-7 * fabs(d));
      CHECK_NEAR((double)da[i], s * d * (double)b[i], 8e-7 * fabs(d * (double)b[i]));
      CHECK(same(db[i], y[i] * dy[i]));
    }
    float p[2][LD], g[LD]; /* one row: dx onto dy; da onto a, db onto b */
    memcpy(g, dy + LD, sizeof g);
    attend_activate_backward(ctx, kind, 1, n, a + LD, LD, g, LD, g, LD);
    CHECK(!memcmp(g, dx + LD, (size_t)n * sizeof *g));
    memcpy(p[0], a + LD, sizeof p[0]), memcpy(p[1], b + LD, sizeof p[1]);
    attend_gate_backward(ctx, kind, 1, n, p[0], LD, p[1], LD, dy + LD, LD, p[0], LD, p[1], LD);
    CHECK(!memcmp(p[0], da + LD, (size_t)n * sizeof *g));
    CHECK(!memcmp(p[1], db + LD, (size_t)n * sizeof *g));
  }
}

/* ---- embeddings and positions --------------------------------------------------------- */

TEST(embeddings) {
  enum { ENTRIES = 9, ROWS = 300 };
  int32_t ids[ROWS];
  static float dy[ROWS * LD], table[ENTRIES * LD];
  refill(5);
  for (int i = 0; i < ROWS * LD; i++) dy[i] = pool[i * 3 % 65536];
  for (int r = 0; r < ROWS; r++) ids[r] = r * 5 % 11 - 1; /* -1 .. 9 */
  FOR_EACH_CONTEXT(ctx)
  for (int t = 0; t < LENGTHS; t++) {
    int n = lengths[t];
    memcpy(table, pool, sizeof table);
    attend_embed_backward(ctx, ROWS, n, ids, 1.5f, dy, LD, ENTRIES, table);
    for (int e = 0; e < ENTRIES; e++)
      for (int j = 0; j < n; j += 1 + n / 40) {
        double sum = (double)pool[e * n + j], size = fabs(sum);
        for (int r = 0; r < ROWS; r++)
          if (ids[r] == e) {
            sum += 1.5 * (double)dy[r * LD + j];
            size += 1.5 * fabs((double)dy[r * LD + j]);
          }
        CHECK_NEAR((double)table[e * n + j], sum, 8 * eps * size);
      }
    CHECK(same(table[ENTRIES * n], pool[ENTRIES * n]));
  }
}

/* The transpose: <turn x, y> = <x, turn_back y>; and without a stretch the
 * inverse. */
TEST(rotary_turns_backward) {
  enum { ROWS = 4, MOST = 300, HEADS = 3, SIZE = ROWS * (HEADS * MOST + 1) };
  static const int dims[] = {2, 6, 16, 34, 64, 128, 300};
  static const int32_t positions[ROWS] = {0, 1, 4095, 1000000};
  static float x[SIZE], y[SIZE], z[SIZE];
  refill(6);
  FOR_EACH_CONTEXT(ctx)
  for (int t = 0; t < 7; t++) {
    int dim = dims[t], ld = HEADS * dim + 1;
    double f[MOST / 2], longer;
    attend_rope_frequencies(&(attend_rope){.theta = 1e4}, dim, f, &longer);
    memcpy(x, pool, sizeof x);
    memcpy(y, pool + 9000, sizeof y);
    attend_rope_rotate(ctx, f, 1.25, ROWS, HEADS, dim, positions, x, ld);
    attend_rope_rotate_backward(ctx, f, 1.25, ROWS, HEADS, dim, positions, y, ld);
    for (int r = 0; r < ROWS; r++) {
      double there = 0, backward = 0, size = 0;
      for (int i = r * ld; i < r * ld + HEADS * dim; i++) {
        there += (double)x[i] * (double)pool[9000 + i];
        backward += (double)pool[i] * (double)y[i];
        size += fabs((double)pool[i] * (double)y[i]);
      }
      CHECK_NEAR(there, backward, 8 * eps * size);
      CHECK(same(y[r * ld + ld - 1], pool[9000 + r * ld + ld - 1]));
    }
    memcpy(z, pool, sizeof z);
    attend_rope_rotate(ctx, f, 1, ROWS, HEADS, dim, positions, z, ld);
    attend_rope_rotate_backward(ctx, f, 1, ROWS, HEADS, dim, positions, z, ld);
    for (int i = 0; i < ROWS * ld; i++) CHECK_NEAR((double)z[i], (double)pool[i], 16 * eps * 5);
  }
}

/* ---- loss ---------------------------------------------------------------------------- */

static double smooth_loss(int n, const double *x, int right, double s) {
  double sum = 0, max = x[0], mean = 0;
  for (int j = 0; j < n; j++) max = fmax(max, x[j]);
  for (int j = 0; j < n; j++) sum += exp(x[j] - max), mean += x[j] / n;
  return log(sum) + max - (1 - s) * x[right] - s * mean;
}

TEST(losses_and_their_gradients) {
  enum { ROWS = 6, N = 5001 };
  static float x[ROWS * N], dx[ROWS * N];
  static double v[N];
  static const int lens[] = {1, 2, 15, 17, 513, N};
  refill(7);
  for (int i = 0; i < ROWS * N; i++) x[i] = pool[i % 65000] * (float)(1 + i / N * 4);
  FOR_EACH_CONTEXT(ctx)
  for (int t = 0; t < 12; t++) {
    int n = lens[t % 6];
    float s = t < 6 ? 0 : 0.1f, loss[ROWS], again[ROWS], plain[ROWS];
    int32_t targets[ROWS] = {0, n - 1, -1, n / 2, -100, n}, best[ROWS];
    attend_cross_entropy_smooth(ctx, ROWS, n, x, N, targets, s, again, best);
    attend_cross_entropy(ctx, ROWS, n, x, N, targets, plain, NULL);
    for (int i = 0; i < ROWS * N; i++) dx[i] = -77;
    attend_cross_entropy_backward(ctx, ROWS, n, x, N, targets, s, 0.25f, loss, dx, N);
    for (int r = 0; r < ROWS; r++) {
      float *d = dx + r * N;
      CHECK(same(loss[r], again[r]));
      if (t < 6) CHECK(same(loss[r], plain[r]));
      if (n < N) CHECK(d[n] == -77);
      for (int j = 0; j < n && targets[r] < 0; j++) CHECK(d[j] == 0);
      for (int j = 0; j < n && targets[r] >= n; j++) CHECK(isnan(d[j]));
      if (targets[r] < 0) CHECK(loss[r] == 0);
      if (targets[r] >= n) CHECK(isnan(loss[r]));
      if (targets[r] < 0 || targets[r] >= n) continue;
      for (int j = 0; j < n; j++) v[j] = (double)x[r * N + j];
      double want = smooth_loss(n, v, targets[r], (double)s);
      CHECK_NEAR((double)loss[r], want, 1e-6 + 2 * eps * fabs(want));
      for (int j = 0; j < n; j += 1 + n / 20) {
        double h = 1e-4, at = v[j];
        v[j] = at + h, want = smooth_loss(n, v, targets[r], (double)s);
        v[j] = at - h, want -= smooth_loss(n, v, targets[r], (double)s);
        v[j] = at;
        CHECK_NEAR((double)d[j], 0.25 * want / (2 * h), 2e-7);
      }
    }
    float in_place[N];
    memcpy(in_place, x + 3 * N, sizeof in_place);
    attend_cross_entropy_backward(ctx, 1, n, in_place, N, targets + 3, s, 0.25f, NULL, in_place, N);
    CHECK(!memcmp(in_place, dx + 3 * N, (size_t)n * sizeof *dx));
  }
}

/* Ignored rows are not looked at; infinite logits are no trouble. */
TEST(losses_at_the_ends) {
  FOR_EACH_CONTEXT(ctx) {
    float x[4][3] = {{NAN, 1, INFINITY}, {1e38f, -1e38f, 0}, {0, -INFINITY, 0}, {1, NAN, 2}},
          loss[4];
    int32_t targets[4] = {-1, 1, 2, 0};
    attend_cross_entropy_backward(ctx, 4, 3, x[0], 3, targets, 0, 2, loss, x[0], 3);
    for (int j = 0; j < 3; j++) CHECK(x[0][j] == 0 && isnan(x[3][j]));
    CHECK(x[1][0] == 2 && x[1][1] == -2 && x[1][2] == 0);
    CHECK_NEAR((double)x[2][0], 1, 1e-6);
    CHECK_NEAR((double)x[2][2], -1, 1e-6);
    CHECK(x[2][1] == 0 && loss[0] == 0 && loss[1] == 2e38f && isnan(loss[3]));
  }
}

/* ---- dropout --------------------------------------------------------------------------- */

TEST(dropout_asks_the_stream) {
  enum { ROWS = 7 };
  static float x[ROWS * LD], y[ROWS * LD], u[ROWS * LD];
  static const float ps[] = {0, 0.1f, 0.5f, 0.9f, 1, 0x1p-24f};
  attend_random random = {1234567890123456789u, 987654321987654321u};
  uint64_t firsts[] = {0, 1, 2, 3, 4099, UINT64_MAX / 2, 0x3fffffffdu};
  refill(8);
  memcpy(x, pool, sizeof x);
  FOR_EACH_CONTEXT(ctx)
  for (int t = 0; t < LENGTHS * 42; t++) {
    int n = lengths[t % LENGTHS], kept = 0;
    float p = ps[t / LENGTHS % 6];
    uint64_t first = firsts[t / LENGTHS / 6];
    for (int i = 0; i < ROWS * LD; i++) y[i] = -77;
    attend_dropout(ctx, random, first, p, ROWS, n, x, LD, y, LD);
    attend_random_uniform(random, first, (size_t)(ROWS * n), u);
    for (int i = 0; i < ROWS * LD; i++) {
      int stays = i % LD < n && u[i / LD * n + i % LD] >= p;
      kept += stays;
      if (i % LD >= n) CHECK(y[i] == -77);
      if (i % LD < n && !stays) CHECK(y[i] == 0);
      if (stays)
        CHECK_NEAR((double)y[i], (double)x[i] / (1 - (double)p), 2 * eps * fabs((double)y[i]));
    }
    if (n > 100) CHECK_NEAR(kept, (1 - (double)p) * ROWS * n, 5 * sqrt(0.25 * ROWS * n));
    float row[LD]; /* in place, alone */
    memcpy(row, x + 2 * LD, sizeof row);
    attend_dropout(ctx, random, first + (uint64_t)(2 * n), p, 1, n, row, LD, row, LD);
    CHECK(!memcmp(row, y + 2 * LD, (size_t)n * sizeof *row));
  }
}

/* ---- the same bits on every set with fma, and on any number of threads ----------------- */

static uint64_t mix(uint64_t sum, const void *data, size_t bytes) {
  const unsigned char *p = data;
  for (size_t i = 0; i < bytes; i++) sum = (sum ^ p[i]) * UINT64_C(1099511628211);
  return sum;
}

enum { B_ROWS = 90, B_N = 500 };

static uint64_t gradient_bits(attend_context *ctx, const float *x, float *y, float *z) {
  uint64_t sum = UINT64_C(14695981039346656037);
  size_t bytes = B_ROWS * B_N * sizeof *y;
  float loss[B_ROWS], dw[B_N] = {0}, db[B_N] = {0};
  static float table[9 * B_N], work[4 * B_N], dx[B_ROWS * B_N];
  int32_t targets[B_ROWS], ids[B_ROWS];
  for (int r = 0; r < B_ROWS; r++) targets[r] = r * 5, ids[r] = r % 8;
  for (int kind = 0; kind <= ATTEND_TANH; kind++) {
    attend_gate_backward(ctx, (attend_activation)kind, B_ROWS, B_N, x, B_N, x, B_N, x, B_N, y, B_N,
                         z, B_N);
    sum = mix(mix(sum, y, bytes), z, bytes);
  }
  attend_layer_norm_backward(ctx, B_ROWS, B_N, x, B_N, z, 1e-5f, y, B_N, 0, dx, B_N, dw, db, work);
  sum = mix(mix(mix(sum, dx, bytes), dw, sizeof dw), db, sizeof db);
  attend_rms_norm_backward(ctx, B_ROWS, B_N, x, B_N, z, 1e-5f, y, B_N, 1, dx, B_N, dw, work);
  sum = mix(mix(sum, dx, bytes), dw, sizeof dw);
  attend_cross_entropy_backward(ctx, B_ROWS, B_N, x, B_N, targets, 0.1f, 0.5f, loss, y, B_N);
  sum = mix(mix(sum, y, bytes), loss, sizeof loss);
  memset(table, 0, sizeof table);
  attend_embed_backward(ctx, B_ROWS, B_N, ids, 0.3f, y, B_N, 9, table);
  attend_dropout(ctx, (attend_random){3, 4}, 5, 0.3f, B_ROWS, B_N, x, B_N, y, B_N);
  return mix(mix(sum, y, bytes), table, sizeof table);
}

/* Computed with AVX2. */
static const uint64_t known = UINT64_C(0x26255a9ec1231e18);

TEST(sets_and_threads_give_the_same_bits) {
  static float x[B_ROWS * B_N], y[B_ROWS * B_N], z[B_ROWS * B_N];
  attend_random_uniform((attend_random){82, 1}, 0, B_ROWS * B_N, x);
  for (int i = 0; i < B_ROWS * B_N; i++) x[i] = (x[i] - 0.5f) * 20;
  FOR_EACH_CONTEXT(ctx) {
    uint64_t first = gradient_bits(ctx, x, y, z);
    if (strcmp(ctx->isa, "scalar")) CHECK_BITS(first, known, ctx->kernels);
    for (int threads = 1; threads <= 7; threads += threads == 3 ? 4 : 1) {
      OK(ctx, attend_context_set_threads(ctx, threads));
      CHECK(gradient_bits(ctx, x, y, z) == first);
    }
  }
}
