/* Poly and gaussian, pair by pair: rows whose weights vanish in f32. */
#include "attention_fixtures.h"

/* Weights of 1e-60 are 0 in f32: a row that sees such keys alone gives zeros
 * where the truth is 2.5, and is counted; one that sees no key is not. */
static int64_t count_vanished(attend_context *ctx, attend_form form, const uint8_t *key_mask, int n,
                              float q, float *o) {
  enum { KEYS_HERE = 4 };
  float k[KEYS_HERE] = {1, 1, 1, 1}, v[KEYS_HERE] = {1, 2, 3, 4}, row[3], lse[3];
  attend_desc d = {ATTEND_INIT(attend_desc), .form = form, .q_len = n,
                   .kv_len = KEYS_HERE,      .dim = 1,     .mask.key_mask = key_mask,
                   .engine = "kernel-direct"};
  for (int i = 0; i < n; i++) row[i] = i == 1 ? 1.0f : q;
  attend_plan *plan = make_plan(ctx, &d);
  OK(ctx,
     attend_forward(plan, attend_bhtd(row), attend_bhtd(k), attend_bhtd(v), attend_bhtd(o), lse));
  int64_t weak = attend_plan_weak_rows(plan);
  attend_plan_free(plan);
  return weak;
}

TEST(weights_that_vanish_are_weak_rows) {
  static const uint8_t none[4];
  attend_form poly = {.kind = ATTEND_POLY, .degree = 4, .a = 1};
  attend_form gauss = {.kind = ATTEND_GAUSSIAN, .sigma = 0.5f};
  FOR_EACH_ISA(isa) {
    attend_context *ctx = open_context(isa, 2, NULL);
    float o[3];
    CHECK_EQ(count_vanished(ctx, poly, NULL, 3, 1e-15f, o), 2);
    CHECK(o[0] == 0 && o[2] == 0);
    CHECK_NEAR((double)o[1], 2.5, 1e-6);
    CHECK_EQ(count_vanished(ctx, poly, none, 3, 1e-15f, o), 0);
    CHECK_EQ(count_vanished(ctx, poly, NULL, 3, 1e30f, o), 2); /* overflow */
    CHECK_EQ(count_vanished(ctx, poly, NULL, 3, 2, o), 0);
    CHECK_EQ(count_vanished(ctx, gauss, NULL, 3, 1e30f, o), 2);
    CHECK_EQ(count_vanished(ctx, gauss, none, 3, 1e30f, o), 0);
    CHECK_EQ(count_vanished(ctx, gauss, NULL, 3, 30, o), 0);
    attend_context_free(ctx);
  }
}

/* The same over the pages of a state, padding among them. */
TEST(weights_that_vanish_are_weak_rows_of_a_state) {
  float x[1] = {1}, q[1] = {1e-15f}, o[1];
  uint8_t real[1] = {0};
  attend_context *ctx = open_context(NULL, 1, NULL);
  attend_desc d = {ATTEND_INIT(attend_desc),
                   .form = {.kind = ATTEND_POLY, .degree = 4, .a = 1},
                   .q_len = 1,
                   .dim = 1,
                   .mask.causal = ATTEND_CAUSAL_BOTTOM,
                   .purpose = ATTEND_FOR_EXTEND,
                   .engine = "kernel-direct"};
  attend_plan *plan = make_plan(ctx, &d);
  attend_state *s;
  OK(ctx, attend_state_create(plan, &s));
  for (int i = 0; i < 3; i++) {
    attend_plan_set_padding(plan, NULL, i ? NULL : real);
    OK(ctx, attend_extend(plan, s, 1, attend_bhtd(q), attend_bhtd(x), attend_bhtd(x),
                          attend_bhtd(o), NULL));
    CHECK_EQ(attend_plan_weak_rows(plan), i > 0);
  }
  attend_state_free(s);
  attend_plan_free(plan);
  attend_context_free(ctx);
}
