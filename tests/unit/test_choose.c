/* attend_choose: the best, or a draw that has exactly the probabilities that
 * temperature, top-k, top-p and min-p leave; penalties as Hugging Face
 * transformers defines them; ties, -inf and NaN among the logits. */
#include "attend/generate.h"
#include "attention_fixtures.h"

enum { MOST = 64 };

static attend_context *scalar_context(void) {
  static attend_context *ctx;
  if (!ctx) ctx = open_context("scalar", 1, NULL);
  return ctx;
}

static attend_generate_options drawn(float temperature) {
  attend_generate_options o = {ATTEND_INIT(attend_generate_options)};
  o.temperature = temperature;
  return o;
}

/* The logits are not changed here. */
static int32_t choose(const attend_generate_options *o, const float *logits, int n, float uniform) {
  float copy[MOST];
  int32_t id = -2;
  memcpy(copy, logits, (size_t)n * sizeof *copy);
  OK(scalar_context(), attend_choose(scalar_context(), o, copy, n, NULL, 0, uniform, &id));
  return id;
}

/* ---- what should be left, by the words of decode.h --------------------------------------- */

typedef struct {
  int32_t id[MOST]; /* best first, equal ones by id */
  double share[MOST];
  int count;
} nucleus;

static nucleus all_of(const attend_generate_options *o, const float *logits, int n) {
  nucleus k = {.count = 0};
  for (int32_t i = 0; i < n; i++) {
    if (isnan(logits[i]) || logits[i] == -INFINITY) continue;
    int at = k.count++;
    for (; at > 0 && logits[i] > logits[k.id[at - 1]]; at--) k.id[at] = k.id[at - 1];
    k.id[at] = i;
  }
  for (int i = 0; i < k.count; i++)
    k.share[i] = exp(((double)logits[k.id[i]] - (double)logits[k.id[0]]) / (double)o->temperature);
  return k;
}

static double sum_of(const nucleus *k) {
  double sum = 0;
  for (int i = 0; i < k->count; i++) sum += k->share[i];
  return sum;
}

/* edge: how near a share comes to where top-p cuts. */
static nucleus expected(const attend_generate_options *o, const float *logits, int n,
                        double *edge) {
  nucleus k = all_of(o, logits, n);
  *edge = 1;
  if (o->top_k > 0 && k.count > o->top_k) k.count = o->top_k;
  double whole = sum_of(&k), before = 0, most = (double)o->top_p;
  for (int i = 0; most > 0 && most < 1 && i < k.count; i++) {
    before += k.share[i] / whole;
    *edge = fmin(*edge, fabs(before - most));
    if (before >= most) k.count = i + 1;
  }
  while (k.count > 1 && k.share[k.count - 1] < (double)o->min_p) k.count--;
  whole = sum_of(&k);
  for (int i = 0; i < k.count; i++) k.share[i] /= whole;
  return k;
}

/* Uniforms on a grid: each candidate is hit by its share of them. */
static void check_shares(const attend_generate_options *o, const float *logits, int n,
                         const nucleus *k, const char *what) {
  enum { GRID = 2048 };
  int hits[MOST] = {0}, known = 0;
  for (int i = 0; i < GRID; i++) {
    int32_t id = choose(o, logits, n, (float)i / GRID);
    CHECK(id >= 0 && id < n);
    if (id >= 0 && id < n) hits[id]++;
  }
  for (int i = 0; i < k->count; i++) {
    int got = hits[k->id[i]];
    known += got;
    if (fabs(got - k->share[i] * GRID) > 1.01)
      CHECK_FAIL("%s: token %d has %d of %d, not %g", what, (int)k->id[i], got, GRID,
                 k->share[i] * GRID);
  }
  if (known != GRID)
    CHECK_FAIL("%s: %d draws lie outside of the %d kept", what, GRID - known, k->count);
}

/* ---- the best ------------------------------------------------------------------------------ */

TEST(the_best) {
  attend_generate_options o = {ATTEND_INIT(attend_generate_options)};
  const float logits[] = {1, NAN, 3, 3, -INFINITY, 2};
  CHECK_EQ(choose(&o, logits, 6, 0.9f), 2); /* the first of equals */
  CHECK_EQ(choose(&o, logits, 2, 0.9f), 0);
  CHECK_EQ(choose(&o, logits + 1, 1, 0), -1);
  CHECK_EQ(choose(&o, logits + 4, 1, 0), 0);
  const float nans[] = {NAN, NAN, NAN}, infinite[] = {1, INFINITY, 5};
  CHECK_EQ(choose(&o, nans, 3, 0.5f), -1);
  CHECK_EQ(choose(&o, infinite, 3, 0), 1);
  o.temperature = 1;
  CHECK_EQ(choose(&o, nans, 3, 0.5f), -1);
  CHECK_EQ(choose(&o, infinite, 3, 0), 1);
  CHECK_EQ(choose(&o, logits + 4, 1, 0.5f), 0);
  o.top_k = 1;
  for (float u = 0; u < 1; u += 0.0625f) CHECK_EQ(choose(&o, logits, 6, u), 2);
}

/* ---- drawing --------------------------------------------------------------------------------- */

/* 40000 Philox uniforms against softmax. With ten tokens the statistic is
 * chi-square of 9 degrees: it passes 65 once in 7e9 fair trials. */
static double chi_square(const attend_generate_options *o, const float *logits, const double *share,
                         uint64_t seed) {
  enum { DRAWS = 40000, N = 10 };
  int hits[N] = {0}, draws = light() ? 4000 : DRAWS;
  double sum = 0;
  float *u = zeroed_block(DRAWS, sizeof *u);
  attend_random_uniform((attend_random){seed, 0}, 0, DRAWS, u);
  for (int i = 0; i < draws; i++) hits[choose(o, logits, N, u[i])]++;
  for (int i = 0; i < N; i++) sum += pow(hits[i] - share[i] * draws, 2) / (share[i] * draws);
  free(u);
  return sum;
}

TEST(draws_have_the_probabilities_of_softmax) {
  const float logits[] = {0.3f, -1, 2, 0.7f, 0, 1.1f, -0.5f, 2, 0.9f, -2};
  const float temperatures[] = {0.5f, 1, 1.7f};
  for (int t = 0; t < 3; t++) {
    attend_generate_options o = drawn(temperatures[t]);
    double share[10], sum = 0;
    for (int i = 0; i < 10; i++) sum += share[i] = exp((double)logits[i] / (double)temperatures[t]);
    for (int i = 0; i < 10; i++) share[i] /= sum;
    CHECK(chi_square(&o, logits, share, 1) < 65);
    o.top_k = 10; /* the other way of drawing, with nothing left out */
    CHECK(chi_square(&o, logits, share, 2) < 65);
    share[0] += 0.02; /* the test can tell */
    share[2] -= 0.02;
    if (!light()) CHECK(chi_square(&o, logits, share, 1) > 65);
  }
}

TEST(equal_logits_are_cut_by_id) {
  const float four[] = {-INFINITY, 1, 1, NAN, 1, 1};
  struct {
    int k;
    float p, min;
    int count;
  } const cases[] = {{1, 0, 0, 1},     {2, 0, 0, 2},    {3, 0, 0, 3},     {4, 0, 0, 4},
                     {9, 0, 0, 4},     {0, 0.5f, 0, 2}, {0, 0.51f, 0, 3}, {0, 0.25f, 0, 1},
                     {0, 0.75f, 0, 3}, {0, 1, 0, 4},    {0, 0, 1, 4},     {2, 0.5f, 0, 1},
                     {3, 0.5f, 0, 2},  {0, 0.01f, 1, 1}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    attend_generate_options o = drawn(1);
    nucleus want = {{1, 2, 4, 5}, {0}, cases[i].count};
    char what[64];
    o.top_k = cases[i].k;
    o.top_p = cases[i].p;
    o.min_p = cases[i].min;
    for (int j = 0; j < want.count; j++) want.share[j] = 1.0 / want.count;
    snprintf(what, sizeof what, "k %d, p %g, min %g", o.top_k, (double)o.top_p, (double)o.min_p);
    check_shares(&o, four, 6, &want, what);
  }
}

/* Logits on a coarse grid, so that many are equal. */
static int made_logits(uint64_t seed, float *logits) {
  float u[MOST + 1];
  attend_random_uniform((attend_random){seed, 5}, 0, MOST + 1, u);
  int n = 1 + (int)(u[MOST] * MOST);
  for (int i = 0; i < n; i++)
    logits[i] = u[i] < 0.05f ? NAN : u[i] > 0.9f ? -INFINITY : roundf(u[i] * 40) / 8;
  return n;
}

TEST(limits_leave_exactly_their_sets) {
  int cases = light() ? 60 : 400, judged = 0;
  for (int c = 0; c < cases; c++) {
    float logits[MOST], u[4];
    int n = made_logits((uint64_t)c, logits);
    attend_random_uniform((attend_random){(uint64_t)c, 6}, 0, 4, u);
    attend_generate_options o = drawn(0.3f + 2 * u[3]);
    if (c & 1) o.top_k = 1 + (int)(u[0] * 20);
    if (c & 2) o.top_p = u[1];
    if (c & 4) o.min_p = u[2];
    double edge;
    nucleus want = expected(&o, logits, n, &edge);
    if (!want.count || edge < 1e-6) continue; /* rounding decides */
    char what[96];
    snprintf(what, sizeof what, "case %d: k %d, p %g, min %g", c, o.top_k, (double)o.top_p,
             (double)o.min_p);
    check_shares(&o, logits, n, &want, what);
    judged++;
  }
  CHECK(judged > cases / 2);
}

/* ---- penalties --------------------------------------------------------------------------------- */

/* transformers' RepetitionPenaltyLogitsProcessor: each id of the history once,
 *   score < 0 ? score * penalty : score / penalty */
TEST(repetition_penalty) {
  const int32_t history[] = {3, 0, 3, 3, 5, 1, -1, 99};
  const float before[] = {2, -2, 1, 4, 0, -INFINITY};
  const float after[] = {2 / 1.5f, -2 * 1.5f, 1, 4 / 1.5f, 0, -INFINITY};
  attend_generate_options o = {ATTEND_INIT(attend_generate_options)};
  float logits[6];
  int32_t id;
  o.repetition = 1.5f;
  memcpy(logits, before, sizeof logits);
  OK(scalar_context(), attend_choose(scalar_context(), &o, logits, 6, history, 8, 0, &id));
  CHECK(!memcmp(logits, after, sizeof logits));
  CHECK_EQ(id, 3);
  o.repetition = 8;
  memcpy(logits, before, sizeof logits);
  OK(scalar_context(), attend_choose(scalar_context(), &o, logits, 6, history, 8, 0, &id));
  CHECK_EQ(id, 2);
}

TEST(repetition_penalty_of_large_ids) {
  enum { N = 300000 }; /* more than are marked by bits */
  float *logits = zeroed_block(N, sizeof *logits);
  int32_t history[] = {299999, 5, 299999, 270000}, id;
  attend_generate_options o = {ATTEND_INIT(attend_generate_options)};
  logits[299999] = 4;
  logits[270000] = -4;
  logits[5] = 3;
  o.repetition = 2;
  OK(scalar_context(), attend_choose(scalar_context(), &o, logits, N, history, 4, 0, &id));
  CHECK(logits[299999] == 2 && logits[270000] == -8 && logits[5] == 1.5f);
  CHECK_EQ(id, 299999);
  free(logits);
}

/* transformers' NoRepeatNGramLogitsProcessor: a token is forbidden if the last
 * n - 1 tokens and it already stand in a row somewhere. */
static bool stands(const int32_t *history, int count, int n, int32_t id) {
  for (int i = 0; i + n <= count; i++) {
    bool same = history[i + n - 1] == id;
    for (int j = 0; j < n - 1; j++) same = same && history[i + j] == history[count - (n - 1) + j];
    if (same) return true;
  }
  return false;
}

TEST(no_repeats) {
  enum { N = 3, LONG = 12 };
  for (int c = 0; c < 300; c++) {
    float u[LONG], logits[N] = {1, 1, 1};
    int32_t history[LONG], id;
    int count = c % (LONG + 1), size = 1 + c % 5;
    attend_generate_options o = {ATTEND_INIT(attend_generate_options)};
    attend_random_uniform((attend_random){(uint64_t)c, 8}, 0, LONG, u);
    for (int i = 0; i < count; i++) history[i] = (int32_t)(u[i] * N);
    o.no_repeat = size;
    OK(scalar_context(), attend_choose(scalar_context(), &o, logits, N, history, count, 0, &id));
    for (int32_t i = 0; i < N; i++) {
      bool forbidden = stands(history, count, size, i);
      CHECK(forbidden ? logits[i] == -INFINITY : logits[i] == 1);
    }
  }
}
