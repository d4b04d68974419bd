/* What attend_plan_cost says, against counting row by row. */
#include "attention_fixtures.h"

enum { BLOCK_OF_KEYS = 64 };

typedef struct {
  double pairs;  /* that are seen */
  double inside; /* of them, in the last block that a row sees */
  double before; /* rows with whole blocks before that */
} counted;

static counted count_rows(const attend_desc *d) {
  counted c = {0, 0, 0};
  for (int64_t i = 0; i < d->q_len; i++) {
    int64_t end = 0;
    for (int64_t j = 0; j < d->kv_len; j++) {
      if (!attend_visible(d, 0, i, j)) continue;
      c.pairs++;
      end = j + 1;
    }
    if (end) c.inside += (double)((end - 1) % BLOCK_OF_KEYS + 1);
    if (end > BLOCK_OF_KEYS) c.before++;
  }
  double heads = (double)d->batch * d->heads;
  return (counted){c.pairs * heads, c.inside * heads, c.before * heads};
}

static attend_cost cost_of(attend_context *ctx, const char *text, const char *engine,
                           attend_problem *p) {
  attend_cost cost = {0};
  OK(ctx, attend_problem_parse(ctx, text, p));
  p->desc.engine = engine;
  attend_plan *plan = make_plan(ctx, &p->desc);
  OK(ctx, attend_plan_cost(plan, &cost));
  attend_plan_free(plan);
  return cost;
}

TEST(pairs_are_those_that_are_seen) {
  static const char *const texts[] = {
      "softmax:b2h3n70d8",
      "softmax:h2n130d8v24:causal",
      "softmax:n5x130d8:top",
      "softmax:n5x130d8:bottom",
      "softmax:n130x5d8:top",
      "softmax:n130x5d8:bottom",
      "softmax:n130d8:causal:window=7",
      "softmax:n130d8:window=7",
      "softmax:n130x40d8:window=7",
      "softmax:n40x130d8:bottom:window=200",
      "softmax:n130x5d8:bottom:window=3:bwd",
      "softmax:n0x5d8",
      "softmax:n5x0d8:top",
      "poly:n40x9d3:bottom:bwd",
  };
  attend_context *ctx = open_context(NULL, 1, NULL);
  for (size_t n = 0; n < sizeof texts / sizeof *texts; n++) {
    attend_problem p = {ATTEND_INIT(attend_problem)};
    attend_cost cost = cost_of(ctx, texts[n], NULL, &p);
    const attend_desc *d = &p.desc;
    double pairs = count_rows(d).pairs;
    double each = 2.0 * (d->dim + d->dim_v);
    if (p.op == ATTEND_OP_BACKWARD) each += 6.0 * d->dim + 4.0 * d->dim_v;
    if (cost.visible != pairs) CHECK_FAIL("%s: %g pairs, not %g", texts[n], cost.visible, pairs);
    if (strcmp(cost.engine, "linear")) CHECK_EQ(cost.flops, pairs * each);
  }
  attend_context_free(ctx);
}

/* The formulas of cost.c, with sums over rows taken one by one. */
static double linear_flops(const attend_problem *p, double dirs) {
  const attend_desc *d = &p->desc;
  bool back = p->op == ATTEND_OP_BACKWARD;
  counted c = count_rows(d);
  double C = (double)attend_form_features(&d->form, d->dim), M = d->dim_v;
  double keys = (double)d->batch * d->kv_heads * d->kv_len;
  if (p->op == ATTEND_OP_DECODE) keys = (double)d->batch * d->kv_heads;
  double rows = (double)d->batch * d->heads * d->q_len;
  double map = 2.0 * d->dim * dirs, sum = 2 * C * (M + 1);
  double forward = keys * (map + sum) + rows * map + c.before * sum + c.inside * 2 * (C + M);
  if (!back) return forward;
  return forward + (keys + rows) * 3 * map + keys * 3 * sum + c.before * 2 * sum +
         c.inside * 6 * (C + M);
}

TEST(linear_counts_features) {
  static const struct {
    const char *text;
    double dirs;
  } cases[] = {
      {"favor(m=32):b2h4g2n200d16:causal", 32},
      {"favor(m=32):b2h4g2n200d16v8:causal:bwd", 32},
      {"favor(m=32,kind=pair):n64x65d16:bottom", 16},
      {"fourier(m=32):n64x64d16", 16},
      {"fourier(m=32):n3x130d16:bwd", 16},
      {"fourier(m=32):n130x3d16:bottom", 16},
      {"gaussian(m=32):n130x70d16:top", 32},
      {"elu:h4g1n129d16:causal:bwd", 0},
      {"poly(p=2,c=1):n130d4:causal", 0},
      {"favor(m=32):b2h4g2n200d16:decode", 32},
      {"favor(m=32):h4g2n64d16:decode", 32},
      {"elu:n0x7d4", 0},
  };
  attend_context *ctx = open_context(NULL, 1, NULL);
  for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
    attend_problem p = {ATTEND_INIT(attend_problem)};
    attend_cost cost = cost_of(ctx, cases[n].text, "linear", &p);
    double want = linear_flops(&p, cases[n].dirs);
    if (cost.flops != want)
      CHECK_FAIL("%s: %.17g FLOPs, not %.17g", cases[n].text, cost.flops, want);
  }
  attend_context_free(ctx);
}

/* Inputs and outputs once, and the sums of each kv head. */
TEST(linear_moves_its_sums) {
  attend_context *ctx = open_context(NULL, 1, NULL);
  attend_problem p = {ATTEND_INIT(attend_problem)};
  attend_cost cost = cost_of(ctx, "favor(m=32):b2h4g2n200d16v8:causal:f16", "linear", &p);
  double rows = 2 * 4 * 200, keys = 2 * 2 * 200;
  CHECK_EQ(cost.bytes, (rows + keys) * 24 * 2 + rows * 4 + 2 * 2 * 32 * 9 * 4);
  cost = cost_of(ctx, "favor(m=32):b2h4g2n200d16v8:decode", "linear", &p);
  CHECK_EQ(cost.bytes, (8 + 4) * 24 * 4 + 8 * 4 + 2 * 2 * 32 * 9 * 4);
  attend_context_free(ctx);
}

/* A description alone gives the same numbers. */
TEST(descriptions_cost_as_plans_do) {
  attend_context *ctx = open_context(NULL, 1, NULL);
  static const char *const engines[] = {"linear", "kernel-direct"};
  for (int n = 0; n < 2; n++) {
    attend_problem p = {ATTEND_INIT(attend_problem)};
    attend_cost plan = cost_of(ctx, "poly:h4g2n70d8:causal:bwd", engines[n], &p), alone;
    OK(ctx, attend_desc_cost(ctx, &p.desc, &alone));
    CHECK(alone.flops == plan.flops && alone.bytes == plan.bytes);
    CHECK(alone.visible == plan.visible && !strcmp(alone.engine, engines[n]));
    p.desc.heads = 3;
    CHECK_EQ(attend_desc_cost(ctx, &p.desc, &alone), ATTEND_INVALID);
  }
  attend_context_free(ctx);
}

/* Long problems are asked about at once, and grow as they should. */
TEST(long_problems_cost_nothing_to_ask) {
  attend_context *ctx = open_context(NULL, 1, NULL);
  attend_problem p = {ATTEND_INIT(attend_problem)};
  attend_cost a = cost_of(ctx, "elu:n8388608d16:causal", "linear", &p);
  attend_cost b = cost_of(ctx, "elu:n16777216d16:causal", "linear", &p);
  CHECK_NEAR(b.flops / a.flops, 2, 1e-4);
  a = cost_of(ctx, "softmax:n8388608d16:causal", NULL, &p);
  b = cost_of(ctx, "softmax:n16777216d16:causal", NULL, &p);
  CHECK_NEAR(b.flops / a.flops, 4, 1e-4);
  attend_context_free(ctx);
}
