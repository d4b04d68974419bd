/* Weights, their running maximum and sum, and their gradient: every instruction
 * set that runs here against plain loops in double. */
#include "kernel_fixtures.h"

/* 1, two of every day (log2 e over a root), and one that is far from both. */
static const float factors[] = {1, 0.1803368801f, 0.2550348616f, 1442.695f};

static double exp2_error(double truth) { return 2 * 2 * eps * truth + 0x1p-126; }

/* How much a weight may err beyond that unless the factor is 1: shifts over
 * 2^14 are taken from the scores beforehand, in units of the factor. */
static double factor_error(float factor, double top) {
  double size = fabs(top) > 0x1p14 - 1 ? fabs(top) : 0;
  return factor == 1 ? 0 : 2 * eps * size;
}

/* One block onto (m, l): in the end weights times beta are 2^(factor s - m). */
static void check_softmax(const struct kernels *kn, int rows, int j0, int j1, float factor,
                          float *s, float *m, float *l) {
  static float before[GROUP * BLOCK];
  float m0[GROUP], l0[2 * GROUP], alpha[GROUP], beta[GROUP];
  memcpy(before, s, sizeof before);
  memcpy(m0, m, sizeof m0);
  memcpy(l0, l, sizeof l0);
  kn->softmax(rows, j0, j1, factor, false, s, m, l, alpha, beta);
  for (int r = 0; r < rows; r++) {
    double sum = 0, slack_of_sum = 0, best = -INFINITY;
    for (int j = j0; j < j1; j++) {
      double score = (double)factor * before[r * BLOCK + j];
      if (score > best) best = score;
    }
    double rounding = factor == 1 ? 0 : 2 * eps * fabs(best);
    double top = fmax(m0[r], best);
    if (top == -INFINITY) {
      CHECK(l[2 * r] == 0 && l[2 * r + 1] == 0 && m[r] == -INFINITY);
      continue;
    }
    CHECK(m[r] == rintf(m[r]));
    CHECK(m[r] >= top - rounding && m[r] < top + 1 + rounding);
    if (m0[r] > -INFINITY) {
      double keep = exp2((double)m0[r] - m[r]); /* subnormal: 0 */
      CHECK_NEAR(alpha[r], keep < 0x1p-126 ? 0 : keep, 0);
      sum = l0[2 * r] * keep;
    }
    for (int j = 0; j < BLOCK; j++) {
      float p = s[r * BLOCK + j], x = before[r * BLOCK + j];
      if (j < j0 || j >= j1) {
        CHECK(same(p, x));
        continue;
      }
      double score = (double)factor * x, truth = exp2(score - m[r]);
      double slack = truth > 0 ? factor_error(factor, best) : 0;
      CHECK_NEAR((double)p * beta[r], truth, exp2_error(truth) + slack * truth);
      slack_of_sum += slack * truth;
      CHECK(x > -INFINITY || p == 0);
      sum += truth;
    }
    CHECK_NEAR(l[2 * r], sum, (j1 - j0) * 2 * eps * sum + slack_of_sum);
    CHECK(l[2 * r] == l[2 * r + 1]); /* no weight was rounded */
  }
}

static void softmax_case(const struct kernels *kn, int rows, float factor, float spread,
                         float centre) {
  static float s[GROUP * BLOCK];
  float m[GROUP], l[2 * GROUP] = {0};
  for (int r = 0; r < GROUP; r++) m[r] = -INFINITY;
  for (int block = 0; block < 5; block++) {
    int j0 = block * 48 % 128, j1 = j0 + 16 * (1 + (block * 5 + rows) % 8);
    for (int i = 0; i < GROUP * BLOCK; i++)
      s[i] = centre * (float)(block - 2) + spread * pool[block * 4096 + i];
    for (int i = 0; i < GROUP * BLOCK; i += 7) s[i] = -INFINITY;
    if (block < 3) /* one row that sees nothing so far */
      for (int j = 0; j < BLOCK; j++) s[(rows - 1) * BLOCK + j] = -INFINITY;
    check_softmax(kn, rows, j0, j1, factor, s, m, l);
  }
}

TEST(softmax_runs_along) {
  refill(8);
  FOR_EACH_KERNELS(kn)
  for (int rows = 1; rows <= kn->rows; rows++)
    for (int f = 0; f < 4; f++) {
      float factor = factors[f], one = 1 / factor;
      softmax_case(kn, rows, factor, 2 * one, 0);
      softmax_case(kn, rows, factor, 40 * one, 70 * one);
      softmax_case(kn, rows, factor, 3000 * one, 0);
      softmax_case(kn, rows, factor, 5 * one, 7e3f * one);
      softmax_case(kn, rows, factor, 100 * one, 3e6f * one); /* see online_softmax.h */
    }
}

/* Scores that tie get the same weight, whatever factor and size they have. */
TEST(ties_stay_ties) {
  static float s[GROUP * BLOCK];
  FOR_EACH_KERNELS(kn)
  for (int f = 0; f < 4; f++)
    for (int size = 1; size < 100000; size *= 7) {
      float m[GROUP], l[2 * GROUP] = {0}, alpha[GROUP], beta[GROUP];
      for (int r = 0; r < GROUP; r++) m[r] = -INFINITY;
      for (int i = 0; i < GROUP * BLOCK; i++)
        s[i] = i % 3 ? (float)-size : (float)(size + i / BLOCK);
      kn->softmax(kn->rows, 0, BLOCK, factors[f], false, s, m, l, alpha, beta);
      for (int r = 0; r < kn->rows; r++)
        for (int j = 3; j < BLOCK; j++) CHECK(same(s[r * BLOCK + j], s[r * BLOCK + j - 3]));
    }
}

/* Joining what two runs saw is what one run would have. */
TEST(joining_is_the_sum) {
  enum { LD = 48 };
  refill(9);
  FOR_EACH_KERNELS(kn)
  for (int trial = 0; trial < 40; trial++) {
    float m = (float)(trial * 7 % 31 - 15), l = 1 + fabsf(pool[trial]);
    float m2 = (float)(trial * 5 % 300 - 150), l2 = 1 + fabsf(pool[trial + 50]);
    float o[2 * LD], o2[2 * LD];
    if (trial % 5 == 3) m = -INFINITY, l = 0;
    if (trial % 5 == 4) m2 = -INFINITY, l2 = 0;
    float ms[2] = {m, m2}, ls[4] = {l, 2 * l, l2, 2 * l2};
    const float ms2[2] = {m2, m}, ls2[4] = {l2, 2 * l2, l, 2 * l};
    for (int i = 0; i < 2 * LD; i++) o[i] = pool[i], o2[i] = pool[1000 + i];
    kn->join_rows(2, LD, ms2, ls2, o2, ms, ls, o);
    for (int r = 0; r < 2; r++) {
      double top = fmax(m, m2);
      double a = exp2((r ? m2 : m) - top), b = exp2((r ? m : m2) - top);
      CHECK(ms[r] == top);
      double sum = a * (r ? l2 : l) + b * (r ? l : l2);
      CHECK_NEAR(ls[2 * r], sum, 4 * eps * sum);
      CHECK(ls[2 * r + 1] == 2 * ls[2 * r]);
      for (int i = r * LD; i < (r + 1) * LD; i++)
        CHECK_NEAR(o[i], a * pool[i] + b * pool[1000 + i],
                   3 * eps * (a * fabs(pool[i]) + b * fabs(pool[1000 + i])) + 0x1p-120);
    }
  }
}

TEST(gradient_of_a_group) {
  static float s[GROUP * BLOCK], dp[GROUP * BLOCK];
  refill(10);
  FOR_EACH_KERNELS(kn)
  for (int rows = 1; rows <= kn->rows; rows++) {
    int j0 = rows % 5 * 16, j1 = j0 + 16 * (1 + rows % 9);
    memcpy(s, pool, sizeof s);
    memcpy(dp, pool + 20000, sizeof dp);
    const float *lse2 = pool + 50000, *delta = pool + 50100;
    for (int i = 0; i < GROUP * BLOCK; i += 5) s[i] = -INFINITY;
    float factor = factors[rows % 3];
    kn->softmax_grad(rows, j0, j1, factor, s, dp, lse2, delta);
    for (int i = 0; i < rows * BLOCK; i++) {
      int r = i / BLOCK, j = i % BLOCK;
      double x = i % 5 ? pool[i] : -INFINITY, p = exp2(fmin(0, factor * x - lse2[r]));
      double d = (double)pool[20000 + i] - delta[r];
      bool mine = j >= j0 && j < j1;
      CHECK_NEAR(s[i], mine ? p : x, 4 * exp2_error(p));
      CHECK_NEAR(dp[i], mine ? p * d : (double)pool[20000 + i],
                 4 * exp2_error(p) * (fabs(pool[20000 + i]) + fabs(delta[r])));
    }
  }
}
