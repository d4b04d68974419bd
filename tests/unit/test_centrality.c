/* Centrality: the closed form is where a walk ends up, computed with all n x n
 * weights in double and by nothing of the library. */
#include "attend/extract.h"

#include <stdlib.h>

#include "base/base.h"
#include "check.h"

enum { DIM = 24, MOST = 150 };

static attend_context *context(int threads) {
  attend_context_options o = {ATTEND_INIT(attend_context_options), .threads = threads};
  attend_context *ctx;
  CHECK_EQ(attend_context_create(&o, &ctx), ATTEND_OK);
  return ctx;
}

/* Unit vectors around a common direction, as sentences of one text are. */
static void make_vectors(uint64_t seed, int n, float *x) {
  attend_random_normal((attend_random){seed, 1}, 0, (size_t)n * DIM, x);
  for (int i = 0; i < n; i++) {
    double sum = 0;
    for (int d = 0; d < DIM; d++) {
      x[i * DIM + d] += d < 3 ? 1.5f : 0;
      sum += (double)x[i * DIM + d] * (double)x[i * DIM + d];
    }
    for (int d = 0; d < DIM; d++) x[i * DIM + d] /= (float)sqrt(sum);
  }
}

static double dot(const float *a, const float *b) {
  double sum = 0;
  for (int d = 0; d < DIM; d++) sum += (double)a[d] * (double)b[d];
  return sum;
}

/* a[i][j]: row-stochastic, zero on the diagonal. */
static double *make_weights(const float *x, int n, double tau) {
  double *a = calloc((size_t)n * (size_t)n, sizeof *a);
  for (int i = 0; i < n; i++) {
    double sum = 0;
    for (int j = 0; j < n; j++)
      if (j != i) sum += exp((dot(x + i * DIM, x + j * DIM) - 1) / tau);
    for (int j = 0; j < n; j++)
      if (j != i) a[i * n + j] = exp((dot(x + i * DIM, x + j * DIM) - 1) / tau) / sum;
  }
  return a;
}

/* Steps from anywhere until nothing moves. Half of the steps stand still, which
 * changes no resting place and keeps a walk between two from swinging. */
static void rest(const double *a, int n, double jump, double *y) {
  double next[MOST];
  for (int i = 0; i < n; i++) y[i] = (double)(i + 1) / (0.5 * n * (n + 1));
  for (int step = 0; step < 600; step++) {
    for (int j = 0; j < n; j++) {
      double in = 0;
      for (int i = 0; i < n; i++) in += y[i] * a[i * n + j];
      next[j] = 0.5 * y[j] + 0.5 * ((1 - jump) * in + jump / n);
    }
    memcpy(y, next, (size_t)n * sizeof *y);
  }
}

static void check_walk(attend_context *ctx, int n, float tau, double jump) {
  float x[MOST * DIM];
  double got[MOST], want[MOST], sum = 0;
  attend_centrality_options o = {ATTEND_INIT(attend_centrality_options), .tau = tau, .jump = jump};
  make_vectors((uint64_t)n, n, x);
  double *a = make_weights(x, n, (double)tau);
  rest(a, n, jump, want);
  CHECK_EQ(attend_centrality(ctx, x, n, DIM, &o, got), ATTEND_OK);
  for (int i = 0; i < n; i++) {
    CHECK_NEAR(got[i] / want[i], 1, 1e-4);
    sum += got[i];
  }
  CHECK_NEAR(sum, 1, 1e-12);
  free(a);
}

TEST(the_denominators_are_where_a_walk_rests) {
  attend_context *ctx = context(2);
  static const int sizes[] = {2, 3, 17, MOST};
  for (int i = 0; i < 4; i++) {
    check_walk(ctx, sizes[i], 1.0f, 0);
    check_walk(ctx, sizes[i], 0.1f, 0);
  }
  attend_context_free(ctx);
}

/* exp(1 / tau) is 5e21 here: what a row has to itself would drown the others. */
TEST(a_small_tau_loses_nothing) {
  attend_context *ctx = context(1);
  float x[17 * DIM];
  double got[17], z[17], sum = 0;
  attend_centrality_options o = {ATTEND_INIT(attend_centrality_options), .tau = 0.02f};
  make_vectors(5, 17, x);
  for (int i = 0; i < 17; i++) {
    z[i] = 0;
    for (int j = 0; j < 17; j++)
      if (j != i) z[i] += exp(dot(x + i * DIM, x + j * DIM) / (double)0.02f);
    sum += z[i];
  }
  CHECK_EQ(attend_centrality(ctx, x, 17, DIM, &o, got), ATTEND_OK);
  for (int i = 0; i < 17; i++) CHECK_NEAR(got[i] / (z[i] / sum), 1, 2e-5);
  attend_context_free(ctx);
}

TEST(jumps_are_those_of_a_walk_that_jumps) {
  attend_context *ctx = context(1);
  check_walk(ctx, 3, 0.1f, 0.15);
  check_walk(ctx, 60, 0.1f, 0.15);
  check_walk(ctx, 60, 0.05f, 0.5);
  attend_context_free(ctx);
}

/* More rows than one call takes: each is as in a text of fewer blocks, and the
 * number of threads changes no bit. */
TEST(blocks_and_threads_change_nothing) {
  enum { N = 2100 };
  float *x = malloc(sizeof(float[N][DIM]));
  double *one = malloc(sizeof(double[N])), *two = malloc(sizeof(double[N]));
  attend_context *a = context(1), *b = context(3);
  make_vectors(9, N, x);
  CHECK_EQ(attend_centrality(a, x, N, DIM, NULL, one), ATTEND_OK);
  CHECK_EQ(attend_centrality(b, x, N, DIM, NULL, two), ATTEND_OK);
  CHECK(!memcmp(one, two, sizeof(double[N])));
  double z[2] = {0, 0};
  const int at[2] = {3, N - 2};
  for (int s = 0; s < 2; s++)
    for (int j = 0; j < N; j++)
      if (j != at[s]) z[s] += exp(dot(x + at[s] * DIM, x + j * DIM) / (double)0.5f);
  CHECK_NEAR(one[3] / one[N - 2] / (z[0] / z[1]), 1, 1e-5);
  free(x), free(one), free(two);
  attend_context_free(a), attend_context_free(b);
}

TEST(alike_vectors_share_alike) {
  attend_context *ctx = context(1);
  float x[4 * DIM] = {0};
  double got[4];
  for (int i = 0; i < 4; i++) x[i * DIM + 2] = 1;
  CHECK_EQ(attend_centrality(ctx, x, 4, DIM, NULL, got), ATTEND_OK);
  for (int i = 0; i < 4; i++) CHECK_NEAR(got[i], 0.25, 1e-7);
  CHECK_EQ(attend_centrality(ctx, x, 1, DIM, NULL, got), ATTEND_OK);
  CHECK_NEAR(got[0], 1, 0);
  attend_centrality_options jumps = {ATTEND_INIT(attend_centrality_options), .jump = 0.2};
  CHECK_EQ(attend_centrality(ctx, x, 1, DIM, &jumps, got), ATTEND_OK);
  CHECK_NEAR(got[0], 1, 0);
  CHECK_EQ(attend_centrality(ctx, NULL, 0, DIM, NULL, NULL), ATTEND_OK);
  attend_context_free(ctx);
}

static int stop_at_once(double done, const char *what, void *user) {
  (void)what;
  *(double *)user = done;
  return 1;
}

TEST(what_is_wrong_is_said) {
  attend_context *ctx = context(1);
  float x[2 * DIM] = {0};
  double got[2], done = -1;
  attend_centrality_options o = {ATTEND_INIT(attend_centrality_options), .tau = -1};
  CHECK_EQ(attend_centrality(ctx, x, 2, DIM, &o, got), ATTEND_INVALID);
  CHECK_SAYS(attend_message(ctx), "tau is -1");
  o = (attend_centrality_options){ATTEND_INIT(attend_centrality_options), .jump = 1};
  CHECK_EQ(attend_centrality(ctx, x, 2, DIM, &o, got), ATTEND_INVALID);
  CHECK_SAYS(attend_message(ctx), "jump is 1");
  o = (attend_centrality_options){ATTEND_INIT(attend_centrality_options), .progress = stop_at_once,
                                  .user = &done};
  CHECK_EQ(attend_centrality(ctx, x, 2, DIM, &o, got), ATTEND_STOPPED);
  CHECK(done > 0 && done <= 1);
  x[DIM] = NAN;
  CHECK_EQ(attend_centrality(ctx, x, 2, DIM, NULL, got), ATTEND_INVALID);
  CHECK_SAYS(attend_message(ctx), "vector 1 is not finite");
  attend_context_free(ctx);
}
