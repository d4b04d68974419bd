/* Gradients of norms against double and against finite differences, on every
 * instruction set that runs here. */
#include "attend/layers.h"
#include "kernel_fixtures.h"

#define FOR_EACH_CONTEXT(ctx) \
  FOR_EACH_ISA(isa_)          \
  for (attend_context *ctx = open_context(isa_, 2, NULL); ctx; attend_context_free(ctx), ctx = NULL)

enum { MOST_ROWS = 300, MOST = 513, LD = MOST + 2 };
static const int lengths[] = {1, 2, 15, 16, 17, 100, 513};
static const int counts[] = {1, 7, 300};
#define EPS 1e-5f

typedef enum { LAYER, RMS, BATCH } kind_of_norm;

static float x[MOST_ROWS * LD], dy[MOST_ROWS * LD], dx[MOST_ROWS * LD];
static float was[MOST_ROWS * LD], dw[MOST], db[MOST], w_was[MOST];
static float mean[MOST], variance[MOST];
static float work[MOST_ROWS * MOST]; /* more than any of these asks for */

static void prepare(uint64_t stream) {
  refill(stream);
  for (int i = 0; i < MOST_ROWS * LD; i++) {
    x[i] = pool[i % 60000] * 2 + (i < LD ? 0 : 3); /* not centred */
    dy[i] = pool[(i * 7 + 11) % 65536];
    was[i] = pool[(i * 3 + 5) % 65536];
  }
  memcpy(w_was, pool + 100, sizeof w_was);
}

/* ---- the definition, in double --------------------------------------------------------- */

typedef struct {
  double mean, factor;
} moments;

/* Of one row or column: n elements that lie `step` apart. */
static moments moments_of(bool centre, int n, int step, const double *v) {
  moments m = {0, 0};
  for (int i = 0; i < n && centre; i++) m.mean += v[i * step] / n;
  for (int i = 0; i < n; i++) m.factor += pow(v[i * step] - m.mean, 2) / n;
  m.factor = 1 / sqrt(m.factor + (double)EPS);
  return m;
}

/* A loss of one row or column: sum of dy weight (x - mean) factor. */
static double loss_of(bool centre, int n, const double *v, const double *g) {
  moments m = moments_of(centre, n, 1, v);
  double sum = 0;
  for (int i = 0; i < n; i++) sum += g[i] * (v[i] - m.mean) * m.factor;
  return sum;
}

/* dx of it, g being dy weight. */
static double slope_of(bool centre, int n, const double *v, const double *g, int at) {
  moments m = moments_of(centre, n, 1, v);
  double sum = 0, dot = 0;
  for (int i = 0; i < n; i++) {
    sum += centre ? g[i] / n : 0;
    dot += g[i] * (v[i] - m.mean) * m.factor / n;
  }
  return m.factor * (g[at] - sum - (v[at] - m.mean) * m.factor * dot);
}

TEST(slopes_are_finite_differences) {
  double v[40], g[40];
  refill(9);
  for (int n = 1; n <= 40; n += 3)
    for (int t = 0; t < 2 * n; t++) {
      for (int i = 0; i < n; i++) v[i] = (double)pool[i] + 1, g[i] = (double)pool[100 + i];
      int at = t / 2;
      double h = 1e-5, slope = slope_of(t % 2, n, v, g, at);
      double x_at = v[at];
      v[at] = x_at + h;
      double up = loss_of(t % 2, n, v, g);
      v[at] = x_at - h;
      double down = loss_of(t % 2, n, v, g);
      CHECK_NEAR(slope, (up - down) / (2 * h), 1e-5 * (1 + fabs(slope)));
    }
}

/* ---- against it ------------------------------------------------------------------------- */

static void run(attend_context *ctx, kind_of_norm kind, int rows, int n, const float *weight,
                bool add, float *to, float *dweight, float *dbias) {
  if (kind == LAYER)
    attend_layer_norm_backward(ctx, rows, n, x, LD, weight, EPS, dy, LD, add, to, LD, dweight,
                               dbias, work);
  if (kind == RMS)
    attend_rms_norm_backward(ctx, rows, n, x, LD, weight, EPS, dy, LD, add, to, LD, dweight, work);
  if (kind != BATCH) return;
  attend_batch_moments(ctx, rows, n, x, LD, mean, variance);
  attend_batch_norm_backward(ctx, rows, n, x, LD, mean, variance, weight, EPS, dy, LD, add, to, LD,
                             dweight, dbias);
}

/* Row `at`, or column `at`, of dx. */
static void check_slopes(kind_of_norm kind, int rows, int n, const float *weight, bool add,
                         int at) {
  static double v[MOST], g[MOST];
  bool columns = kind == BATCH;
  int count = columns ? rows : n, step = columns ? LD : 1;
  int from = columns ? at : at * LD;
  double size = 0, far = 0;
  for (int i = 0; i < count; i++) {
    float w = weight ? weight[columns ? at : i] : 1;
    v[i] = (double)x[from + i * step];
    g[i] = (double)dy[from + i * step] * (double)w;
    size += fabs(g[i]) / count;
    far = fmax(far, fabs(v[i]));
  }
  moments m = moments_of(kind != RMS, count, 1, v);
  for (int i = 0; i < count; i += 1 + count / 25) {
    double had = add ? (double)was[from + i * step] : 0;
    double want = slope_of(kind != RMS, count, v, g, i);
    double h = 1 + fabs(v[i] - m.mean) * m.factor;
    /* what x - mean loses to rounding is far |factor| of h */
    double may = 16 * eps * m.factor * (fabs(g[i]) + size * h * h) * (1 + far * m.factor) +
                 2 * eps * fabs(had);
    CHECK_NEAR((double)dx[from + i * step], want + had, may);
  }
}

static void check_sums(kind_of_norm kind, int rows, int n) {
  static double v[MOST];
  for (int j = 0; j < n; j += 1 + n / 30) {
    double w = 0, b = 0, size_w = 0, size_b = 0;
    moments m = {0, 0};
    for (int r = 0; r < rows; r++) v[r] = (double)x[r * LD + j];
    if (kind == BATCH) m = moments_of(true, rows, 1, v);
    for (int r = 0; r < rows; r++) {
      double d = (double)dy[r * LD + j], row[MOST];
      for (int i = 0; i < n && kind != BATCH; i++) row[i] = (double)x[r * LD + i];
      if (kind != BATCH) m = moments_of(kind == LAYER, n, 1, row);
      double h = (v[r] - m.mean) * m.factor;
      w += d * h, b += d;
      size_w += fabs(d) * (fabs(h) + fabs(v[r]) * m.factor), size_b += fabs(d);
    }
    CHECK_NEAR((double)dw[j], w + (double)w_was[j], 24 * eps * (size_w + 1));
    if (kind != RMS) CHECK_NEAR((double)db[j], b + (double)w_was[j], 8 * eps * (size_b + 1));
  }
}

static void check_norm(attend_context *ctx, kind_of_norm kind, int rows, int n, bool weighted,
                       bool add) {
  const float *weight = weighted ? pool + 30000 : NULL;
  memcpy(dx, was, sizeof dx);
  memcpy(dw, w_was, sizeof dw);
  memcpy(db, w_was, sizeof db);
  run(ctx, kind, rows, n, weight, add, dx, dw, kind == RMS ? NULL : db);
  int units = kind == BATCH ? n : rows;
  for (int i = 0; i < units; i += 1 + units / 20) check_slopes(kind, rows, n, weight, add, i);
  check_sums(kind, rows, n);
  for (int r = 0; r < rows; r++) CHECK(dx[r * LD + n] == was[r * LD + n]);
  if (rows < MOST_ROWS) CHECK(dx[rows * LD] == was[rows * LD]);
  if (n < MOST) CHECK(dw[n] == w_was[n] && db[n] == w_was[n]);
  if (add) return;
  /* in place, and with nothing else asked for */
  static float again[MOST_ROWS * LD];
  memcpy(again, dy, sizeof dy);
  run(ctx, kind, rows, n, weight, false, dy, NULL, NULL);
  for (int r = 0; r < rows; r++) CHECK(!memcmp(dy + r * LD, dx + r * LD, (size_t)n * sizeof *dx));
  memcpy(dy, again, sizeof dy);
}

TEST(norms) {
  prepare(2);
  FOR_EACH_CONTEXT(ctx)
  for (int t = 0; t < 7 * 3 * 3 * 4; t++) {
    int n = lengths[t % 7], rows = counts[t / 7 % 3], way = t / 63;
    CHECK(attend_norm_back_bytes(rows, n) <= sizeof work);
    if (light() && t % 7 != t / 7 % 7) continue;
    check_norm(ctx, (kind_of_norm)(t / 21 % 3), rows, n, way % 2, way / 2);
  }
}

/* A row's dx does not know of others; the sums do not know of threads; sets
 * with fma agree. */
TEST(norms_have_the_same_bits) {
  static float known[MOST_ROWS * LD], known_w[3][MOST], known_b[3][MOST];
  prepare(3);
  for (int kind = 0; kind < 3; kind++) {
    const char *of = NULL;
    FOR_EACH_ISA(isa)
    for (int threads = 1; threads <= 7; threads += threads == 3 ? 4 : 1) {
      attend_context *ctx = open_context(isa, threads, NULL);
      bool first = threads == 1 && (!of || !strcmp(of, "scalar"));
      memset(dw, 0, sizeof dw), memset(db, 0, sizeof db);
      run(ctx, (kind_of_norm)kind, MOST_ROWS, MOST, w_was, false, dx, dw, kind == RMS ? NULL : db);
      if (first) {
        of = isa;
        memcpy(known, dx, sizeof dx);
        memcpy(known_w[kind], dw, sizeof dw);
        memcpy(known_b[kind], db, sizeof db);
      }
      CHECK(!memcmp(dx, known, sizeof dx));
      CHECK(!memcmp(dw, known_w[kind], sizeof dw));
      CHECK(!memcmp(db, known_b[kind], sizeof db));
      for (int r = 0; r < MOST_ROWS && kind != BATCH; r += 37) {
        float one[MOST];
        if (kind == LAYER)
          attend_layer_norm_backward(ctx, 1, MOST, x + r * LD, LD, w_was, EPS, dy + r * LD, LD, 0,
                                     one, MOST, NULL, NULL, NULL);
        else
          attend_rms_norm_backward(ctx, 1, MOST, x + r * LD, LD, w_was, EPS, dy + r * LD, LD, 0,
                                   one, MOST, NULL, NULL);
        CHECK(!memcmp(one, known + r * LD, sizeof one));
      }
      attend_context_free(ctx);
    }
  }
}
