/* The definition: small cases by hand, storage, refusals. The sweep over every
 * form, mask and bias is test_definition_sweep.c. */
#include "attend/problem.h"
#include "attend/attend.h"
#include "check.h"

static attend_context *context(void) {
  static attend_context *ctx;
  if (!ctx) attend_context_create(NULL, &ctx);
  return ctx;
}

#define OK(call)                                                      \
  do {                                                                \
    if (call) CHECK_FAIL("%s: %s", #call, attend_message(context())); \
  } while (0)

/* ---- by hand ------------------------------------------------------------ */

static const float four_keys[] = {1, 2, 0, 0, 3, 4, 5, 0, 0, 0, 0, 1};
static const float four_values[] = {2, 0, 1, 1, 4, 3, 0, -1, 4, 1, 0, -1};

static void check_one(attend_desc d, const float *q, const float *k, const float *v,
                      const double *want, double want_lse) {
  double o[8], lse;
  OK(attend_definition_forward(context(), &d, attend_bhtd_input(q), attend_bhtd_input(k),
                               attend_bhtd_input(v), o, &lse));
  int width = d.dim_v ? d.dim_v : d.dim;
  for (int x = 0; x < width; x++) CHECK_NEAR(o[x], want[x], 1e-12);
  CHECK_NEAR(lse, want_lse, 1e-12);
}

TEST(argmax_takes_the_best_value) {
  attend_desc d = {ATTEND_INIT(attend_desc), .q_len = 1, .kv_len = 4, .dim = 3, .scale = 1};
  d.form.kind = ATTEND_ARGMAX;
  check_one(d, (float[]){1, 1, 2}, four_keys, four_values, (double[]){1, 4, 3}, 11);
}

TEST(argmax_ties) {
  attend_desc d = {ATTEND_INIT(attend_desc), .q_len = 1, .kv_len = 3, .dim = 1, .scale = 1};
  d.form.kind = ATTEND_ARGMAX;
  const float q = 1, k[] = {2, 1, 2}, v[] = {3, 100, 8};
  check_one(d, &q, k, v, (double[]){3}, 2);
  d.form.ties = ATTEND_TIES_AVERAGE;
  check_one(d, &q, k, v, (double[]){5.5}, 2);
}

TEST(average_shares_the_gradient_of_a_tie) {
  attend_desc d = {ATTEND_INIT(attend_desc), .q_len = 1, .kv_len = 3, .dim = 1};
  d.form = (attend_form){.kind = ATTEND_ARGMAX, .ties = ATTEND_TIES_AVERAGE};
  const float q = 1, k[] = {2, 1, 2}, v[] = {3, 9, 8}, d_o = 4;
  double dq, dk[3], dv[3];
  for (int first = 0; first < 2; first++) {
    if (first) d.form.ties = ATTEND_TIES_FIRST;
    OK(attend_definition_backward(context(), &d, attend_bhtd_input(&q), attend_bhtd_input(k),
                                  attend_bhtd_input(v), attend_bhtd_input(&d_o), &dq, dk, dv,
                                  NULL));
    CHECK_NEAR(dv[0], first ? 4 : 2, 0);
    CHECK_NEAR(dv[1], 0, 0);
    CHECK_NEAR(dv[2], first ? 0 : 2, 0);
    CHECK(dq == 0 && dk[0] == 0 && dk[2] == 0);
  }
}

TEST(softmax_by_hand) {
  attend_desc d = {ATTEND_INIT(attend_desc), .q_len = 1, .kv_len = 2, .dim = 1};
  const float q = 2, k[] = {0, 1}, v[] = {1, 3};
  double e = exp(2);
  check_one(d, &q, k, v, (double[]){(1 + 3 * e) / (1 + e)}, log(1 + e));
  d.scale = 0.5f;
  e = exp(1);
  check_one(d, &q, k, v, (double[]){(1 + 3 * e) / (1 + e)}, log(1 + e));
  d.form = (attend_form){.kind = ATTEND_ARGMAX, .temperature = 0.25f};
  e = exp(4);
  check_one(d, &q, k, v, (double[]){(1 + 3 * e) / (1 + e)}, log(1 + e));
}

TEST(softmax_does_not_overflow) {
  attend_desc d = {ATTEND_INIT(attend_desc), .q_len = 1, .kv_len = 2, .dim = 1};
  const float q = 1e4f, v[] = {1, 3};
  check_one(d, &q, (float[]){1, 1}, v, (double[]){2}, 1e4 + log(2));
  check_one(d, &q, (float[]){-1, -1}, v, (double[]){2}, -1e4 + log(2));
}

TEST(poly_by_hand) {
  attend_desc d = {ATTEND_INIT(attend_desc), .q_len = 1, .kv_len = 2, .dim = 1};
  const float q = 2, k[] = {3, -1}, v[] = {1, 10};
  d.form.kind = ATTEND_POLY;
  check_one(d, &q, k, v, (double[]){(36 + 40) / 40.0}, 40);
  d.form.degree = 3;
  d.form.a = 0.5f;
  d.form.c = -1; /* (3 - 1)^3 and (-1 - 1)^3, biased so as not to cancel */
  d.bias = (attend_bias){.kind = ATTEND_ALIBI, .slopes = (float[]){1}};
  double far = -8 * exp(-1);
  check_one(d, &q, k, v, (double[]){(8 + 10 * far) / (8 + far)}, 8 + far);
  d.bias.kind = ATTEND_NO_BIAS; /* they cancel: the row sees nothing */
  check_one(d, &q, k, v, (double[]){0}, 0);
}

TEST(gaussian_by_hand) {
  attend_desc d = {ATTEND_INIT(attend_desc), .q_len = 1, .kv_len = 2, .dim = 2, .dim_v = 1};
  const float q[] = {1, 1}, k[] = {1, 1, 4, 5}, v[] = {2, 6};
  d.form = (attend_form){.kind = ATTEND_GAUSSIAN, .sigma = 5};
  double e = exp(-0.5);
  check_one(d, q, k, v, (double[]){(2 + 6 * e) / (1 + e)}, log(1 + e));
}

TEST(biases_by_hand) {
  attend_desc d = {
      ATTEND_INIT(attend_desc), .heads = 2, .kv_heads = 1, .q_len = 1, .kv_len = 3, .dim = 1};
  const float q[] = {0, 0}, k[] = {0, 0, 0};
  d.mask.causal = ATTEND_CAUSAL_BOTTOM;
  d.bias = (attend_bias){.kind = ATTEND_ALIBI, .slopes = (float[]){1, 0.5f}};
  double w[6], half = exp(-0.5), one = exp(-1), two = exp(-2);
  OK(attend_definition_weights(context(), &d, attend_bhtd_input(q), attend_bhtd_input(k), w));
  CHECK_NEAR(w[0], two / (1 + one + two), 1e-15);
  CHECK_NEAR(w[2], 1 / (1 + one + two), 1e-15);
  CHECK_NEAR(w[3], one / (1 + half + one), 1e-15);
  float table[32 * 2] = {0};
  table[2 * 2 + 1] = 3; /* distance 2 before, head 1 */
  d.bias = (attend_bias){.kind = ATTEND_BUCKETS, .table = table};
  OK(attend_definition_weights(context(), &d, attend_bhtd_input(q), attend_bhtd_input(k), w));
  CHECK_NEAR(w[0], 1 / 3.0, 1e-15);
  CHECK_NEAR(w[3], exp(3) / (exp(3) + 2), 1e-15);
  const float dense[] = {0, -INFINITY, 1};
  d.bias = (attend_bias){.kind = ATTEND_DENSE, .dense = {(void *)dense, {0, 0, 0, 1}}};
  OK(attend_definition_weights(context(), &d, attend_bhtd_input(q), attend_bhtd_input(k), w));
  for (int h = 0; h < 2; h++) {
    CHECK_NEAR(w[3 * h], 1 / (1 + exp(1)), 1e-15);
    CHECK(w[3 * h + 1] == 0);
  }
}

TEST(neighbouring_heads_share_a_kv_head) {
  attend_desc d = {
      ATTEND_INIT(attend_desc), .heads = 6, .kv_heads = 2, .q_len = 1, .kv_len = 1, .dim = 1};
  const float q[6] = {0}, k[2] = {0}, v[] = {3, 7};
  double o[6];
  OK(attend_definition_forward(context(), &d, attend_bhtd_input(q), attend_bhtd_input(k),
                               attend_bhtd_input(v), o, NULL));
  for (int h = 0; h < 6; h++) CHECK_NEAR(o[h], h < 3 ? 3 : 7, 0);
}

/* Reading any key but the first would leave the address space. */
TEST(masked_keys_are_not_read) {
  attend_desc d = {ATTEND_INIT(attend_desc), .q_len = 1, .kv_len = 2, .dim = 1};
  const float one = 1;
  const uint8_t mask[] = {1, 0};
  attend_view far = {(void *)&one, {0, 0, (ptrdiff_t)1 << 44, 1}};
  double o, dq, dk[2], dv[2];
  d.mask.key_mask = mask;
  for (int kind = ATTEND_SOFTMAX; kind < ATTEND_CUSTOM; kind++) {
    d.form.kind = (attend_form_kind)kind;
    OK(attend_definition_forward(context(), &d, attend_bhtd_input(&one), far, far, &o, NULL));
    OK(attend_definition_backward(context(), &d, attend_bhtd_input(&one), far, far,
                                  attend_bhtd_input(&one), &dq, dk, dv, NULL));
    CHECK(o == 1 && dv[0] == 1 && dv[1] == 0 && dk[1] == 0);
  }
}

TEST(nothing_but_minus_infinity_is_nothing) {
  attend_desc d = {ATTEND_INIT(attend_desc), .q_len = 1, .kv_len = 2, .dim = 1};
  const float q = 1, k[] = {1, 1}, v[] = {NAN, NAN};
  float dense[] = {-INFINITY, -INFINITY};
  d.bias = (attend_bias){.kind = ATTEND_DENSE, .dense = attend_bhtd(dense)};
  check_one(d, &q, k, v, (double[]){0}, -INFINITY);
  d.form.kind = ATTEND_ARGMAX;
  check_one(d, &q, k, v, (double[]){0}, -INFINITY);
}

TEST(a_visible_nan_is_seen) {
  attend_desc d = {ATTEND_INIT(attend_desc), .q_len = 1, .kv_len = 2, .dim = 1};
  const float q = 1, k[] = {1, NAN}, v[] = {1, 2};
  for (int kind = ATTEND_SOFTMAX; kind < ATTEND_CUSTOM; kind++) {
    double o;
    d.form.kind = (attend_form_kind)kind;
    OK(attend_definition_forward(context(), &d, attend_bhtd_input(&q), attend_bhtd_input(k),
                                 attend_bhtd_input(v), &o, NULL));
    CHECK(isnan(o));
  }
}

/* ---- storage ------------------------------------------------------------ */

TEST(layouts_and_dtypes_agree) {
  static const char *const same[] = {"softmax:b2h4g2n5x7d3v2:bthd:bwd",
                                     "softmax:b2h4g2n5x7d3v2:bwd", "softmax:b2h4g2n5x7d3v2:bwd:f16",
                                     "softmax:b2h4g2n5x7d3v2:bwd:bf16"};
  double o[4][2 * 4 * 5 * 2], dk[4][2 * 2 * 7 * 3], dq[2 * 4 * 5 * 3], dv[2 * 2 * 7 * 2];
  for (int n = 0; n < 4; n++) {
    attend_problem p = {ATTEND_INIT(attend_problem)};
    attend_tensors t = {ATTEND_INIT(attend_tensors)};
    OK(attend_problem_parse(context(), same[n], &p));
    OK(attend_problem_tensors(context(), &p, 3, &t));
    OK(attend_definition_forward(context(), &t.desc, t.q, t.k, t.v, o[n], NULL));
    OK(attend_definition_backward(context(), &t.desc, t.q, t.k, t.v, t.d_o, dq, dk[n], dv, NULL));
    attend_tensors_free(context(), &t);
  }
  CHECK(!memcmp(o[0], o[1], sizeof o[0]));
  CHECK(!memcmp(dk[0], dk[1], sizeof dk[0]));
  for (int x = 0; x < 2 * 4 * 5 * 2; x++) {
    CHECK_NEAR(o[2][x], o[0][x], 0.004);
    CHECK_NEAR(o[3][x], o[0][x], 0.03);
  }
  CHECK(memcmp(o[2], o[0], sizeof o[0]) && memcmp(o[3], o[0], sizeof o[0]));
}

TEST(refusals) {
  attend_desc d = {ATTEND_INIT(attend_desc), .q_len = 2, .kv_len = 1, .dim = 1};
  float x[2] = {0};
  double y[2];
  attend_view some = attend_bhtd(x), none = attend_bhtd(NULL);
  d.mask.causal = ATTEND_CAUSAL;
  d.purpose = ATTEND_FOR_EXTEND; /* here the key length is meant */
  CHECK_EQ(attend_definition_forward(context(), &d, some, some, some, y, NULL), ATTEND_INVALID);
  d.mask.causal = ATTEND_NOT_CAUSAL;
  CHECK_EQ(attend_definition_forward(context(), &d, none, some, some, y, NULL), ATTEND_INVALID);
  CHECK_SAYS(attend_message(context()), "q is NULL");
  CHECK_EQ(attend_definition_forward(context(), &d, some, some, none, y, NULL), ATTEND_INVALID);
  CHECK_EQ(attend_definition_backward(context(), &d, some, some, some, some, y, NULL, y, NULL),
           ATTEND_INVALID);
  CHECK_SAYS(attend_message(context()), "dk is NULL");
  d.bias.kind = ATTEND_ALIBI;
  CHECK_EQ(attend_definition_weights(context(), &d, some, some, y), ATTEND_INVALID);
  CHECK_SAYS(attend_message(context()), "set bias.slopes");
}

TEST(no_query_and_no_key) {
  attend_desc d = {ATTEND_INIT(attend_desc), .q_len = 0, .kv_len = 0, .dim = 1};
  attend_view none = attend_bhtd(NULL);
  OK(attend_definition_forward(context(), &d, none, none, none, NULL, NULL));
  const float q = 1;
  double o = 7, lse = 7;
  d.q_len = 1;
  OK(attend_definition_forward(context(), &d, attend_bhtd_input(&q), none, none, &o, &lse));
  CHECK(o == 0 && lse == -INFINITY);
}
