/* Descriptions: defaults, refusals, and the rules they state. */
#include "attend/problem.h"
#include "attend/attend.h"
#include "attention/desc.h"
#include "attention/features.h"
#include "check.h"

static attend_context *context(void) {
  static attend_context *ctx;
  if (!ctx) attend_context_create(NULL, &ctx);
  return ctx;
}

static attend_desc small(void) {
  return (attend_desc){ATTEND_INIT(attend_desc), .heads = 4, .q_len = 6, .kv_len = 6, .dim = 16};
}

TEST(defaults) {
  attend_desc d = small();
  CHECK_EQ(attend_desc_complete(context(), &d), ATTEND_OK);
  CHECK_EQ(d.batch, 1);
  CHECK_EQ(d.kv_heads, 4);
  CHECK_EQ(d.dim_v, 16);
  CHECK(d.scale == 0.25f);
  d = small();
  d.form.kind = ATTEND_POLY;
  d.bias.kind = ATTEND_BUCKETS;
  CHECK_EQ(attend_desc_complete(context(), &d), ATTEND_OK);
  CHECK_EQ(d.form.degree, 2);
  CHECK(d.form.a == 1 && d.form.c == 0);
  CHECK_EQ(d.bias.buckets, 32);
  CHECK_EQ(d.bias.max_distance, 128);
  d = small();
  d.form.kind = ATTEND_GAUSSIAN;
  CHECK_EQ(attend_desc_complete(context(), &d), ATTEND_OK);
  CHECK(d.form.sigma == 2);
  CHECK_EQ(d.form.features, 0);
  for (int kind = ATTEND_FOURIER; kind <= ATTEND_FAVOR; kind++) {
    d = small();
    d.form.kind = (attend_form_kind)kind;
    CHECK_EQ(attend_desc_complete(context(), &d), ATTEND_OK);
    CHECK_EQ(d.form.features, 256);
    CHECK(d.form.sigma == 0 && d.scale == 0.25f);
  }
}

TEST(sigma_names_the_scale) {
  for (int kind = ATTEND_FOURIER; kind <= ATTEND_FAVOR; kind++)
    for (int twice = 0; twice < 2; twice++) {
      attend_desc d = small();
      d.form.kind = (attend_form_kind)kind;
      d.form.sigma = 4;
      if (twice) d.scale = 0.0625f;
      for (int n = 0; n < 2; n++) {
        CHECK_EQ(attend_desc_complete(context(), &d), ATTEND_OK);
        CHECK(d.scale == 0.0625f && d.form.sigma == 4);
      }
    }
}

/* The number takes the error's place. */
TEST(an_error_chooses_features_once) {
  attend_desc d = small(), again;
  d.form.kind = ATTEND_FAVOR;
  d.form.error = 0.5f;
  d.form.spread = 0.3f;
  d.form.pairs = 1;
  CHECK_EQ(attend_desc_complete(context(), &d), ATTEND_OK);
  CHECK(d.form.features > 0 && d.form.features % 2 == 0);
  CHECK(d.form.error == 0 && d.form.spread == 0);
  memcpy(&again, &d, sizeof d);
  CHECK_EQ(attend_desc_complete(context(), &again), ATTEND_OK);
  CHECK(!memcmp(&again, &d, sizeof d));
}

TEST(forms_know_their_features) {
  attend_form f = {.kind = ATTEND_POLY};
  CHECK_EQ(attend_form_features(&f, 16), 17 * 18 / 2);
  f.degree = 1;
  CHECK_EQ(attend_form_features(&f, 5), 6);
  f.degree = 4;
  CHECK_EQ(attend_form_features(&f, 64), 814385); /* 68 over 4 */
  f.degree = 33;
  CHECK_EQ(attend_form_features(&f, 33), 7219428434016265740); /* 66 over 33 */
  CHECK_EQ(attend_form_features(&f, 34), INT64_MAX);
  f.degree = INT32_MAX;
  CHECK_EQ(attend_form_features(&f, INT32_MAX), INT64_MAX);
  CHECK_EQ(attend_form_features(&(attend_form){.kind = ATTEND_ELU}, 7), 7);
  CHECK_EQ(attend_form_features(&(attend_form){0}, 7), 0);
  f = (attend_form){.kind = ATTEND_FAVOR, .features = 10};
  CHECK_EQ(attend_form_features(&f, 7), 10);
  CHECK_EQ(form_directions(&f), 10);
  f.pairs = 1;
  CHECK_EQ(form_directions(&f), 5);
  f = (attend_form){.kind = ATTEND_GAUSSIAN};
  CHECK_EQ(attend_form_features(&f, 7), 0);
  f.features = 10;
  CHECK_EQ(form_directions(&f), 10);
  f.map = ATTEND_TRIGONOMETRIC;
  CHECK_EQ(attend_form_features(&f, 7), 10);
  CHECK_EQ(form_directions(&f), 5);
}

TEST(forms_know_their_sign) {
  static const int is_signed[] = {0, 0, 1, 0, 0, 1, 0, 1};
  for (int kind = ATTEND_SOFTMAX; kind <= ATTEND_CUSTOM; kind++) {
    attend_form f = {.kind = (attend_form_kind)kind};
    CHECK_EQ(attend_form_signed(&f), is_signed[kind]);
  }
  attend_form f = {.kind = ATTEND_GAUSSIAN, .map = ATTEND_TRIGONOMETRIC};
  CHECK(!attend_form_signed(&f));
  f.features = 4;
  CHECK(attend_form_signed(&f));
}

TEST(completing_twice_changes_nothing) {
  for (int kind = ATTEND_SOFTMAX; kind < ATTEND_CUSTOM; kind++) {
    attend_desc d, once;
    memset(&d, 0, sizeof d);
    d.size = sizeof d;
    d.q_len = d.kv_len = 3;
    d.dim = 5;
    d.form.kind = (attend_form_kind)kind;
    d.bias.kind = ATTEND_BUCKETS;
    CHECK_EQ(attend_desc_complete(context(), &d), ATTEND_OK);
    memcpy(&once, &d, sizeof d);
    CHECK_EQ(attend_desc_complete(context(), &d), ATTEND_OK);
    CHECK(!memcmp(&once, &d, sizeof d));
  }
}

#define REFUSED(sentence, ...)                                     \
  do {                                                             \
    attend_desc d = small();                                       \
    __VA_ARGS__;                                                   \
    CHECK_EQ(attend_desc_complete(context(), &d), ATTEND_INVALID); \
    CHECK_SAYS(attend_message(context()), sentence);               \
  } while (0)

TEST(sizes_are_checked) {
  REFUSED("batch is -1: choose 1 or more", d.batch = -1);
  REFUSED("heads is -2", d.heads = -2);
  REFUSED("kv_heads is -2", d.kv_heads = -2);
  REFUSED("3 kv heads do not divide 4 heads", d.kv_heads = 3);
  REFUSED("8 kv heads do not divide 4 heads", d.kv_heads = 8);
  REFUSED("q_len is -6: choose 0 or more", d.q_len = -6);
  REFUSED("kv_len is -6", d.kv_len = -6);
  REFUSED("dim is 0: choose 1 or more", d.dim = 0);
  REFUSED("dim_v is -1", d.dim_v = -1);
  REFUSED("queries of", d.batch = 1 << 30, d.heads = 1 << 30, d.kv_heads = 1);
  REFUSED("keys of", d.batch = 1 << 30, d.heads = 1, d.kv_len = 1 << 30);
  REFUSED("a dense bias of", d.bias.kind = ATTEND_DENSE, d.batch = 1 << 20, d.q_len = 1 << 20,
          d.kv_len = 1 << 20);
}

TEST(choices_are_checked) {
  REFUSED("form 9 does not exist", d.form.kind = (attend_form_kind)9);
  REFUSED("ties 2 does not exist", d.form.ties = (attend_ties)2);
  REFUSED("draw 2 does not exist", d.form.draw = (attend_draw)2);
  REFUSED("map 2 does not exist", d.form.map = (attend_map)2);
  REFUSED("causal 4 does not exist", d.mask.causal = (attend_causal)4);
  REFUSED("bias 4 does not exist", d.bias.kind = (attend_bias_kind)4);
  REFUSED("dtype 3 does not exist", d.dtype = (attend_dtype)3);
  REFUSED("purpose 4 does not exist", d.purpose = 4);
}

TEST(forms_are_checked) {
  REFUSED("scale is nan", d.scale = NAN);
  REFUSED("scale is inf", d.scale = INFINITY);
  REFUSED("temperature is -1", d.form.temperature = -1);
  REFUSED("temperature is nan", d.form.kind = ATTEND_ARGMAX, d.form.temperature = NAN);
  REFUSED("temperature 1 belongs to argmax", d.form.temperature = 1);
  REFUSED("degree is -1", d.form.kind = ATTEND_POLY, d.form.degree = -1);
  REFUSED("finite numbers", d.form.kind = ATTEND_POLY, d.form.c = NAN);
  REFUSED("sigma is -1", d.form.kind = ATTEND_GAUSSIAN, d.form.sigma = -1);
  REFUSED("sigma is nan", d.form.kind = ATTEND_GAUSSIAN, d.form.sigma = NAN);
}

static double any_sim(const double *q, const double *k, int dim, double *dq, double *dk,
                      void *user) {
  (void)q, (void)k, (void)dim, (void)dq, (void)dk, (void)user;
  return 1;
}
static void any_phi(const float *x, int dim, int key, float *features, int count, void *user) {
  (void)x, (void)dim, (void)key, (void)features, (void)count, (void)user;
}

TEST(custom_is_checked) {
  REFUSED("set form.sim", d.form.kind = ATTEND_CUSTOM);
  REFUSED("both sim and phi", d.form.kind = ATTEND_CUSTOM, d.form.sim = any_sim,
          d.form.phi = any_phi, d.form.features = 3);
  REFUSED("phi fills 0 features", d.form.kind = ATTEND_CUSTOM, d.form.phi = any_phi);
  REFUSED("set form.phi_backward", d.form.kind = ATTEND_CUSTOM, d.form.phi = any_phi,
          d.form.features = 3, d.purpose = ATTEND_FOR_BACKWARD);
  attend_desc d = small();
  d.form = (attend_form){.kind = ATTEND_CUSTOM, .phi = any_phi, .features = 3};
  CHECK_EQ(attend_desc_complete(context(), &d), ATTEND_OK);
}

TEST(features_are_checked) {
  REFUSED("features is -1", d.form.kind = ATTEND_FAVOR, d.form.features = -1);
  REFUSED("features is 1048577", d.form.kind = ATTEND_FAVOR, d.form.features = (1 << 20) + 1);
  REFUSED("7 features cannot go in pairs, as sin and cos", d.form.kind = ATTEND_FOURIER,
          d.form.features = 7);
  REFUSED("7 features cannot go in pairs, as exp", d.form.kind = ATTEND_FAVOR, d.form.pairs = 1,
          d.form.features = 7);
  REFUSED("7 features cannot go", d.form.kind = ATTEND_GAUSSIAN, d.form.map = ATTEND_TRIGONOMETRIC,
          d.form.features = 7);
  REFUSED("pairs belong to favor", d.form.kind = ATTEND_GAUSSIAN, d.form.pairs = 1);
  REFUSED("scale 0.5 and sigma 4 disagree", d.form.kind = ATTEND_FAVOR, d.scale = 0.5f,
          d.form.sigma = 4);
  REFUSED("sigma is -2", d.form.kind = ATTEND_FAVOR, d.form.sigma = -2);
  REFUSED("scale is -1: random features", d.form.kind = ATTEND_FOURIER, d.scale = -1);
  REFUSED("between 1e-15", d.form.kind = ATTEND_FAVOR, d.form.sigma = 1e-30f);
  REFUSED("between 1e-15", d.form.kind = ATTEND_FAVOR, d.form.sigma = 1e30f);
  REFUSED("error 0.1 and 8 features", d.form.kind = ATTEND_FAVOR, d.form.error = 0.1f,
          d.form.features = 8);
  REFUSED("error is -1", d.form.kind = ATTEND_FAVOR, d.form.error = -1);
  REFUSED("error 0.5 belongs to", d.form.error = 0.5f);
  REFUSED("spread 2 says", d.form.kind = ATTEND_FAVOR, d.form.spread = 2);
  REFUSED("spread is -2", d.form.kind = ATTEND_FAVOR, d.form.error = 1, d.form.spread = -2);
}

TEST(masks_and_biases_are_checked) {
  REFUSED("window is -1", d.mask.window = -1);
  REFUSED(
      "key length 4 is shorter than query length 6: choose causal "
      "alignment top or bottom",
      d.kv_len = 4, d.mask.causal = ATTEND_CAUSAL);
  REFUSED("key length 8 is longer than", d.kv_len = 8, d.mask.causal = ATTEND_CAUSAL);
  REFUSED("3 buckets are too few: choose 4", d.bias.kind = ATTEND_BUCKETS, d.bias.buckets = 3);
  REFUSED("1 buckets are too few: choose 2", d.bias.kind = ATTEND_BUCKETS, d.bias.one_sided = 1,
          d.bias.buckets = 1);
  REFUSED("-8 buckets are too few", d.bias.kind = ATTEND_BUCKETS, d.bias.buckets = -8);
  REFUSED("max_distance 8 leaves nothing", d.bias.kind = ATTEND_BUCKETS, d.bias.max_distance = 8);
}

TEST(extend_may_be_causal_without_a_key_length) {
  attend_desc d = small();
  d.kv_len = 0;
  d.mask.causal = ATTEND_CAUSAL;
  d.purpose = ATTEND_FOR_EXTEND;
  CHECK_EQ(attend_desc_complete(context(), &d), ATTEND_OK);
}

TEST(pointers_are_checked) {
  static const char *const sentences[] = {"", "set bias.slopes", "set bias.table",
                                          "set bias.dense"};
  for (int kind = ATTEND_ALIBI; kind <= ATTEND_DENSE; kind++) {
    float number = 0;
    attend_desc d = small();
    d.bias.kind = (attend_bias_kind)kind;
    CHECK_EQ(attend_desc_complete(context(), &d), ATTEND_OK);
    CHECK_EQ(desc_check_pointers(context(), &d), ATTEND_INVALID);
    CHECK_SAYS(attend_message(context()), sentences[kind]);
    d.bias.slopes = d.bias.table = &number;
    d.bias.dense.data = &number;
    CHECK_EQ(desc_check_pointers(context(), &d), ATTEND_OK);
  }
  attend_desc d = small();
  int32_t lengths[2] = {6, 0};
  d.batch = 2;
  d.mask.lengths = lengths;
  CHECK_EQ(attend_desc_complete(context(), &d), ATTEND_OK);
  CHECK_EQ(desc_check_pointers(context(), &d), ATTEND_OK);
  for (int bad = -1; bad <= 7; bad += 8) {
    lengths[1] = bad;
    CHECK_EQ(desc_check_pointers(context(), &d), ATTEND_INVALID);
    CHECK_SAYS(attend_message(context()), "of batch entry 1");
  }
}

/* One line a query, x where it sees the key. */
static void check_picture(attend_desc d, const char *picture) {
  for (int i = 0; i < d.q_len; i++)
    for (int j = 0; j < d.kv_len; j++, picture++) {
      if (*picture == ' ') picture++;
      if (attend_visible(&d, 1, i, j) != (*picture == 'x'))
        CHECK_FAIL("query %d and key %d should be %c", i, j, *picture);
    }
}

TEST(visible) {
  attend_desc d = {ATTEND_INIT(attend_desc), .batch = 2, .q_len = 3, .kv_len = 5, .dim = 1};
  check_picture(d, "xxxxx xxxxx xxxxx");
  d.mask.causal = ATTEND_CAUSAL_TOP;
  check_picture(d, "x.... xx... xxx..");
  d.mask.causal = ATTEND_CAUSAL_BOTTOM;
  check_picture(d, "xxx.. xxxx. xxxxx");
  d.mask.window = 2;
  check_picture(d, ".xx.. ..xx. ...xx");
  d.mask.causal = ATTEND_CAUSAL_TOP;
  check_picture(d, "x.... xx... .xx..");
  d.mask.causal = ATTEND_NOT_CAUSAL;
  check_picture(d, "xx... xxx.. .xxx.");
  d.mask.window = 0;
  d.mask.lengths = (int32_t[]){0, 4};
  check_picture(d, "xxxx. xxxx. xxxx.");
  d.mask.key_mask = (uint8_t[]){1, 1, 1, 1, 1, 0, 1, 0, 2, 1};
  check_picture(d, ".x.x. .x.x. .x.x.");
  CHECK_EQ(attend_visible(&d, 0, 0, 0), 0);
  attend_desc dead = {ATTEND_INIT(attend_desc), .batch = 2, .q_len = 3, .kv_len = 1, .dim = 1};
  dead.mask.causal = ATTEND_CAUSAL_BOTTOM;
  check_picture(dead, ". . x");
  CHECK_EQ(attend_visible(&dead, 0, 2, -1), 0);
  CHECK_EQ(attend_visible(&dead, 0, 2, 1), 0);
}

TEST(alibi_slopes) {
  float s[8];
  attend_alibi_slopes(8, s);
  for (int h = 0; h < 8; h++) CHECK(s[h] == ldexpf(1, -1 - h));
  attend_alibi_slopes(1, s);
  CHECK(s[0] == 0x1p-8f);
  attend_alibi_slopes(6, s); /* four of 4, then the first and third of 8 */
  const float six[] = {0x1p-2f, 0x1p-4f, 0x1p-6f, 0x1p-8f, 0x1p-1f, 0x1p-3f};
  for (int h = 0; h < 6; h++) CHECK(s[h] == six[h]);
}

/* T5's rule by thresholds: the least distance in each far bucket, computed
 * from 8 * 16^(n/8) and 16 * 8^(n/16) with whole numbers settled by hand. */
TEST(buckets) {
  attend_bias two = {.kind = ATTEND_BUCKETS}, one = two;
  one.one_sided = 1;
  const int far_two[] = {8, 12, 16, 23, 32, 46, 64, 91};
  const int far_one[] = {16, 19, 21, 24, 27, 31, 35, 40, 46, 52, 59, 67, 77, 87, 99, 113};
  int want_two = 0, want_one = 0;
  for (int distance = 0; distance < 5000; distance++) {
    if (distance < 8) want_two = distance;
    if (distance < 16) want_one = distance;
    for (int n = 0; n < 8; n++)
      if (distance == far_two[n]) want_two = 8 + n;
    for (int n = 0; n < 16; n++)
      if (distance == far_one[n]) want_one = 16 + n;
    CHECK_EQ(attend_bucket(&two, -distance), want_two);
    CHECK_EQ(attend_bucket(&two, distance), want_two + (distance ? 16 : 0));
    CHECK_EQ(attend_bucket(&one, -distance), want_one);
    CHECK_EQ(attend_bucket(&one, distance), 0);
  }
  CHECK_EQ(attend_bucket(&two, INT64_MAX), 31);
  CHECK_EQ(attend_bucket(&two, INT64_MIN), 15);
  CHECK_EQ(attend_bucket(&one, INT64_MIN), 31);
}

TEST(buckets_of_other_numbers) {
  attend_bias b = {.kind = ATTEND_BUCKETS, .buckets = 8, .max_distance = 16};
  const int far[] = {2, 6}; /* 2 * 8^(n/2), upward */
  for (int distance = 0; distance < 100; distance++) {
    int want = distance < 2 ? distance : distance < far[1] ? 2 : 3;
    CHECK_EQ(attend_bucket(&b, -distance), want);
  }
}
