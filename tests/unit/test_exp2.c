/* 2^x over every float there is, on every instruction set that runs here. */
#include <pthread.h>

#include "base/parallel.h"
#include "kernels/kernels.h"
#include "attention_fixtures.h"

/* CHUNK numbers with the same sign and exponent are tried at a time. */
enum { CHUNK = 4096, LANES_OF_MAX = 8, ISAS = 8 };
static const uint32_t chunks = (uint32_t)(UINT64_C(0x100000000) / CHUNK);

static const double limit = 1.9; /* units in the last place, as vec.h states */
static const float bottom = -126.0f, nothing = -127.0f;
static const float top = 127.9375f; /* from here on the result is infinite */

typedef struct {
  const struct kernels *kernels;
  attend_context *ctx;
  unsigned stride; /* every how many chunks it is tried */
  double worst;
  float worst_at;
} subject;

/* ---- the reference ---------------------------------------------------------- */

/* 2^f = exp(f ln 2), |f| <= 1/2, by so many terms of its series; n goes into
 * the exponent. Plain arithmetic, so that the compiler can make vectors of it. */
static inline void series(const int terms, const float *x, double *out) {
  for (int i = 0; i < CHUNK; i++) {
    double n = ((double)x[i] + 0x1.8p52) - 0x1.8p52;
    double t = ((double)x[i] - n) * 0.69314718055994530942, y = 1;
#pragma GCC unroll 16
    for (int k = terms; k > 0; k--) y = 1 + y * t * (1.0 / k);
    double shifted = n + 1023 + 0x1p52; /* low bits: the biased exponent */
    uint64_t bits;
    memcpy(&bits, &shifted, sizeof bits);
    bits <<= 52;
    memcpy(&shifted, &bits, sizeof bits);
    out[i] = y * shifted;
  }
}

static void exact_powers(const float *x, double *out) {
  if (fabsf(x[0]) < 0x1p-10f && fabsf(x[CHUNK - 1]) < 0x1p-10f)
    series(4, x, out);
  else
    series(13, x, out);
}

TEST(the_reference_is_exact_enough) {
  float x[CHUNK];
  double y[CHUNK];
  for (int round = 0; round < (light() ? 4 : 64); round++) {
    attend_random_uniform((attend_random){3, (uint64_t)round}, 0, CHUNK, x);
    for (int i = 0; i < CHUNK; i++) x[i] = (x[i] - 0.5f) * (round % 2 ? 255.0f : 0x1p-9f);
    exact_powers(x, y);
    for (int i = 0; i < CHUNK; i++) {
      double truth = exp2((double)x[i]);
      CHECK_NEAR(y[i], truth, 1e-14 * truth);
    }
  }
}

/* ---- judging a chunk --------------------------------------------------------- */

/* One over the unit in the last place of a float that is `truth`, 2^-126 or
 * more. */
static double per_ulp(double truth) {
  uint64_t bits; /* the exponent e becomes 2 * 1023 + 23 - e */
  memcpy(&bits, &truth, sizeof bits);
  bits = (UINT64_C(2069) << 52) - (bits & (UINT64_C(0x7ff) << 52));
  memcpy(&truth, &bits, sizeof bits);
  return truth;
}

/* Where every number lies in [bottom, top): the largest error in ulp. */
static double errors(const float *y, const double *truth) {
  double max[LANES_OF_MAX] = {0}, worst = 0;
  for (int i = 0; i < CHUNK; i += LANES_OF_MAX)
    for (int k = 0; k < LANES_OF_MAX; k++) {
      double e = fabs((double)y[i + k] - truth[i + k]) * per_ulp(truth[i + k]);
      max[k] = !(e <= max[k]) ? e : max[k]; /* a NaN stays */
    }
  for (int k = 0; k < LANES_OF_MAX; k++)
    if (!(max[k] <= worst)) worst = max[k];
  return worst;
}

/* Everywhere: the error in ulp, infinite where a rule is broken. */
static double error_of(float x, float y) {
  if (isnan(x)) return isnan(y) ? 0 : INFINITY;
  if (x >= top) return y == INFINITY ? 0 : INFINITY;
  if (x <= nothing) return y == 0 && !signbit(y) ? 0 : INFINITY;
  double truth = exp2((double)x);
  if (x < bottom) return y >= 0 && fabs((double)y - truth) < 0x1p-126 ? 0 : INFINITY;
  return fabs((double)y - truth) * per_ulp(truth);
}

static int is_plain(const float *x) { /* one sign, so the ends say it */
  float a = x[0], b = x[CHUNK - 1];
  return a >= bottom && a < top && b >= bottom && b < top;
}

/* What most floats give: 1 because they are tiny, 0 or infinity because they
 * are not. NaN where a chunk needs a closer look. */
static float same_for_all(const float *x) {
  float a = x[0], b = x[CHUNK - 1];
  if (fabsf(a) < 0x1p-27f && fabsf(b) < 0x1p-27f) return 1;
  if (a >= top && b >= top) return INFINITY;
  return a <= nothing && b <= nothing ? 0 : NAN;
}

static int all_are(const float *y, float value) {
  uint32_t want, got, differ = 0;
  memcpy(&want, &value, sizeof want);
  for (int i = 0; i < CHUNK; i++) {
    memcpy(&got, y + i, sizeof got);
    differ |= got ^ want;
  }
  return !differ;
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void note(subject *s, double worst, const float *x, const float *y) {
  pthread_mutex_lock(&lock);
  for (int i = 0; i < CHUNK && !(worst <= s->worst); i++)
    if (!(error_of(x[i], y[i]) <= s->worst)) {
      s->worst = error_of(x[i], y[i]);
      s->worst_at = x[i];
    }
  pthread_mutex_unlock(&lock);
}

static void try_chunk(subject *all, int n, uint32_t chunk) {
  float x[CHUNK], y[CHUNK];
  double truth[CHUNK];
  for (uint32_t i = 0; i < CHUNK; i++) {
    uint32_t bits = chunk * CHUNK + i;
    memcpy(x + i, &bits, sizeof bits);
  }
  int plain = is_plain(x), known = 0;
  float same = same_for_all(x);
  for (int s = 0; s < n; s++) {
    /* chunks around the turning points are never left out */
    int turning = fabsf(x[0]) > 120.0f && fabsf(x[0]) < 130.0f;
    if (chunk % all[s].stride && !turning) continue;
    all[s].kernels->exp2_all(x, CHUNK, y);
    double worst = 0;
    if (!isnan(same) && all_are(y, same)) continue;
    if (plain && !known) exact_powers(x, truth), known = 1;
    if (plain) worst = errors(y, truth);
    for (int i = 0; i < CHUNK && !plain; i++) {
      double e = error_of(x[i], y[i]);
      if (!(e <= worst)) worst = e;
    }
    note(all + s, worst, x, y);
  }
}

/* ---- every float -------------------------------------------------------------- */

/* The best set meets every float, the others a share of them. */
static int subjects(subject all[ISAS]) {
  int n = 0;
  FOR_EACH_ISA(isa) {
    attend_context *ctx = open_context(isa, 1, NULL);
    all[n++] = (subject){.kernels = ctx->kernels, .ctx = ctx, .stride = light() ? 1024 : 64};
  }
  if (!light()) all[n - 1].stride = 1;
  return n;
}

typedef struct {
  subject *all;
  int n;
  uint32_t step;
} sweep;

static void try_item(const void *args, int64_t i, int worker) {
  const sweep *s = args;
  (void)worker;
  try_chunk(s->all, s->n, (uint32_t)i * s->step);
}

TEST(every_float) {
  subject all[ISAS];
  int n = subjects(all);
  uint32_t step = light() ? 16 : 1;
  attend_context *ctx = open_context(NULL, 0, NULL);
  sweep w = {all, n, step};
  PARALLEL_FOR(ctx, ctx->threads, chunks / step, try_item, w);
  attend_context_free(ctx);
  for (int s = 0; s < n; s++) {
    printf("%s: at most %.4f ulp, at %a (%s)\n", all[s].kernels->isa, all[s].worst,
           (double)all[s].worst_at, all[s].stride == 1 ? "every float" : "a sample");
    CHECK(all[s].worst <= limit);
    CHECK(all[s].worst > 0.5); /* a sweep that saw nothing would show 0 */
    attend_context_free(all[s].ctx);
  }
}

TEST(any_length_gives_the_same_bits) {
  enum { N = 67 };
  float x[N], y[N + 1], one;
  attend_random_normal((attend_random){5, 0}, 0, N, x);
  FOR_EACH_ISA(isa) {
    attend_context *ctx = open_context(isa, 1, NULL);
    for (size_t n = 0; n <= N; n++) {
      y[n] = -1;
      ctx->kernels->exp2_all(x, n, y);
      CHECK(y[n] == -1);
      for (size_t i = 0; i < n; i++) {
        ctx->kernels->exp2_all(x + i, 1, &one);
        CHECK(!memcmp(&one, y + i, sizeof one));
      }
    }
    attend_context_free(ctx);
  }
}

/* ---- with a factor -------------------------------------------------------------- */

/* 2^(factor s - m) as softmax computes it, where factor s is no float: the
 * largest error in ulp, of weights from 2^-20 on. */
static double worst_weight(const struct kernels *kn, float factor, uint64_t stream,
                           double *score_of_worst) {
  float s[BLOCK], p[BLOCK], m = -INFINITY, l[2] = {0}, alpha, beta;
  double worst = 0;
  attend_random_uniform((attend_random){6, stream}, 0, BLOCK, s);
  for (int j = 0; j < BLOCK; j++) s[j] *= -20 / factor;
  memcpy(p, s, sizeof p);
  kn->softmax(1, 0, BLOCK, factor, false, p, &m, l, &alpha, &beta);
  for (int j = 0; j < BLOCK; j++) {
    double score = (double)factor * (double)s[j], truth = exp2(score - m);
    double e = fabs((double)p[j] * beta - truth) * per_ulp(truth);
    if (!(e <= worst)) worst = e, *score_of_worst = score;
  }
  return worst;
}

/* One more rounding, of a number up to 1/16; a set without fma rounds factor
 * times score too: half a unit of a number up to 20, seen by 2^x. */
TEST(a_factor_costs_next_to_nothing) {
  const int trials = light() ? 2000 : 100000;
  FOR_EACH_ISA(isa) {
    attend_context *ctx = open_context(isa, 1, NULL);
    double worst = 0, at = 0, score = 0;
    for (int n = 0; n < trials; n++) {
      float factor = (0.05f + (float)(n % 1000) * 0.0037f) * 1.442695f;
      double e = worst_weight(ctx->kernels, factor, (uint64_t)n, &score);
      if (!(e <= worst)) worst = e, at = score;
    }
    printf("%s: with a factor at most %.4f ulp, at %.6f\n", isa, worst, at);
    CHECK(worst <= limit + (strcmp(isa, "scalar") ? 0.05 : 23));
    CHECK(worst > 0.5);
    attend_context_free(ctx);
  }
}
