/* Problem strings: what they mean, how they are printed, what is refused. */
#include <stdlib.h>

#include "attend/problem.h"
#include "attend/attend.h"
#include "check.h"

static attend_context *context(void) {
  static attend_context *ctx;
  if (!ctx) attend_context_create(NULL, &ctx);
  return ctx;
}

static attend_problem parsed(const char *text) {
  attend_problem p = {ATTEND_INIT(attend_problem)};
  if (attend_problem_parse(context(), text, &p))
    CHECK_FAIL("%s: %s", text, attend_message(context()));
  return p;
}

TEST(every_word_means_something) {
  attend_problem p = parsed("softmax:b2h12g4n1024x4096d64v128:bottom:bwd");
  CHECK_EQ(p.op, ATTEND_OP_BACKWARD);
  CHECK_EQ(p.desc.batch, 2);
  CHECK_EQ(p.desc.heads, 12);
  CHECK_EQ(p.desc.kv_heads, 4);
  CHECK_EQ(p.desc.q_len, 1024);
  CHECK_EQ(p.desc.kv_len, 4096);
  CHECK_EQ(p.desc.dim, 64);
  CHECK_EQ(p.desc.dim_v, 128);
  CHECK_EQ(p.desc.mask.causal, ATTEND_CAUSAL_BOTTOM);
  CHECK_EQ(p.desc.purpose, ATTEND_FOR_BACKWARD);
  CHECK(p.desc.scale == 0.125f);
  p = parsed("argmax(t=0.5,ties=average):n3d4:padleft:buckets1:bf16:bthd");
  CHECK_EQ(p.desc.form.ties, ATTEND_TIES_AVERAGE);
  CHECK(p.desc.form.temperature == 0.5f);
  CHECK_EQ(p.pad, ATTEND_PAD_LEFT);
  CHECK_EQ(p.desc.bias.kind, ATTEND_BUCKETS);
  CHECK_EQ(p.desc.bias.one_sided, 1);
  CHECK_EQ(p.desc.dtype, ATTEND_BF16);
  CHECK_EQ(p.bthd, 1);
  p = parsed("softmax:b1h32g1n8192d64:decode:window=100:scale=-2.5e-1");
  CHECK_EQ(p.desc.q_len, 1);
  CHECK_EQ(p.desc.kv_len, 8192);
  CHECK_EQ(p.desc.mask.causal, ATTEND_CAUSAL_BOTTOM);
  CHECK_EQ(p.desc.mask.window, 100);
  CHECK_EQ(p.desc.purpose, ATTEND_FOR_EXTEND);
  CHECK(p.desc.scale == -0.25f);
  p = parsed("sgemm:m10n20k30");
  CHECK_EQ(p.op, ATTEND_OP_SGEMM);
  CHECK_EQ(p.m * 10000 + p.n * 100 + p.k, 102030);
}

TEST(print_is_canonical) {
  static const char *const pairs[][2] = {
      {"softmax:d64n4096h12b1:causal", "softmax:b1h12n4096d64:causal"},
      {"softmax:b2h12g12n8x8d64v64:f32", "softmax:b2h12n8d64"},
      {"poly(p=2,a=1,c=0):n4d4", "poly:b1h1n4d4"},
      {"poly(c=-1.5,p=3,a=.1):n4d4", "poly(p=3,a=0.1,c=-1.5):b1h1n4d4"},
      {"poly(a=2):n4d4", "poly(a=2):b1h1n4d4"},
      {"poly(c=1):n4d4", "poly(c=1):b1h1n4d4"},
      {"argmax(t=0):n4d4", "argmax:b1h1n4d4"},
      {"argmax(t=2):n4d4", "argmax(t=2):b1h1n4d4"},
      {"argmax(ties=average,t=2):n4d4", "argmax(ties=average,t=2):b1h1n4d4"},
      {"gaussian(sigma=2):n4d16", "gaussian:b1h1n4d16"},
      {"gaussian(sigma=3):n4d16", "gaussian(sigma=3):b1h1n4d16"},
      {"gaussian(m=8):n4d16", "gaussian(m=8):b1h1n4d16"},
      {"gaussian(map=fourier,m=8,sigma=3,draw=iid,redraw=1,seed=2):n4d16",
       "gaussian(sigma=3,m=8,seed=2,redraw=1,draw=iid,map=fourier):b1h1n4d16"},
      {"gaussian(map=favor,draw=orthogonal,seed=0):n4d16", "gaussian:b1h1n4d16"},
      {"elu:n4d4", "elu:b1h1n4d4"},
      {"favor(m=256,kind=plain):n4d4", "favor:b1h1n4d4"},
      {"favor(kind=pair,m=32):n4d4:scale=0.5", "favor(m=32,kind=pair):b1h1n4d4"},
      {"favor(m=33):n4d4:scale=2", "favor(m=33):b1h1n4d4:scale=2"},
      {"favor(sigma=2):n4d4:scale=0.25", "favor(sigma=2):b1h1n4d4"},
      {"favor(sigma=0.7,seed=18446744073709551615):n4d4",
       "favor(sigma=0.7,seed=18446744073709551615):b1h1n4d4"},
      {"fourier(redraw=7,m=10):n4d4:bwd", "fourier(m=10,redraw=7):b1h1n4d4:bwd"},
      {"softmax:n9d4:decode:bottom", "softmax:b1h1n9d4:decode"},
      {"softmax:n9d4:scale=0.5", "softmax:b1h1n9d4"},
      {"softmax:n9d4:scale=1e2", "softmax:b1h1n9d4:scale=100"},
      {"softmax:n9d4:scale=1e12", "softmax:b1h1n9d4:scale=1e+12"},
      {"softmax:n9d4:bwd:cap=50", "softmax:b1h1n9d4:cap=50:bwd"},
      {"argmax(t=2):n9d4:cap=0.1:scale=3", "argmax(t=2):b1h1n9d4:scale=3:cap=0.1"},
      {"softmax:n9d4:bwd:bthd:f16:scale=0.333333343:dense:lengths:window=3:top",
       "softmax:b1h1n9d4:top:window=3:lengths:dense:scale=0.33333334:f16:bthd:"
       "bwd"},
      {"softmax:n0x5d4:buckets:padright", "softmax:b1h1n0x5d4:padright:buckets"},
      {"softmax:n5x3d4:bottom", "softmax:b1h1n5x3d4:bottom"},
      {"sgemm:k3n2m1", "sgemm:m1n2k3"},
  };
  for (size_t n = 0; n < sizeof pairs / sizeof *pairs; n++) {
    char text[128];
    attend_problem p = parsed(pairs[n][0]);
    CHECK_EQ(attend_problem_print(&p, text, sizeof text), strlen(pairs[n][1]));
    if (strcmp(text, pairs[n][1]))
      CHECK_FAIL("%s is printed as %s, not %s", pairs[n][0], text, pairs[n][1]);
    attend_problem again = parsed(text);
    CHECK(!memcmp(&p, &again, sizeof p));
  }
}

TEST(an_error_is_printed_as_features) {
  attend_problem p = parsed("favor(error=0.5,spread=0.3):n4d4");
  char text[128];
  attend_problem_print(&p, text, sizeof text);
  CHECK_SAYS(text, "favor(m=");
  attend_problem again = parsed(text);
  CHECK(!memcmp(&p, &again, sizeof p));
}

/* Every mix of one word from each list comes back equal. */
TEST(round_trips) {
  enum { FORMS = 10 };
  static const char *const lists[][FORMS] = {
      {"softmax", "argmax(ties=average,t=0.1)", "poly(p=5,a=-0.3,c=1e-7)", "gaussian(sigma=0.7)",
       "argmax", "elu", "favor(m=31,seed=5,redraw=6,draw=iid,sigma=1.1)", "favor(m=30,kind=pair)",
       "fourier(m=30,seed=123456789012345678)", "gaussian(sigma=0.3,m=64,map=fourier,seed=1)"},
      {":b3h4g2n7d5v6", ":b1h1n7d5", ":n7d7v5", ":h6g3n7d1v9", ":b2n7d64"},
      {"", ":causal", ":top", ":bottom", ":window=3"},
      {"", ":lengths", ":padleft", ":padright:bwd", ":decode"},
      {"", ":alibi", ":buckets:bf16", ":buckets1:bthd", ":dense:f16"}};
  int refused = 0;
  for (int n = 0; n < FORMS * 5 * 5 * 5 * 5; n++) {
    char text[160] = "", print[160];
    strcat(text, lists[0][n % FORMS]);
    for (int part = 1, rest = n / FORMS; part < 5; part++, rest /= 5)
      strcat(text, lists[part][rest % 5]);
    attend_problem p = {ATTEND_INIT(attend_problem)}, again = p;
    if (attend_problem_parse(context(), text, &p)) {
      CHECK_SAYS(attend_message(context()), "a decode puts its query");
      refused++;
      continue;
    }
    attend_problem_print(&p, print, sizeof print);
    again = parsed(print);
    if (memcmp(&p, &again, sizeof p)) CHECK_FAIL("%s != %s", text, print);
  }
  CHECK_EQ(refused, FORMS * 5 * 5); /* top with decode */
}

TEST(print_counts_like_snprintf) {
  attend_problem p = parsed("softmax:b1h12n4096d64:causal");
  char text[32] = "unused";
  CHECK_EQ(attend_problem_print(&p, NULL, 0), 28);
  CHECK_EQ(attend_problem_print(&p, text, 10), 28);
  CHECK(!strcmp(text, "softmax:b"));
}

TEST(refusals) {
  static const char *const cases[][2] = {
      {"", "is empty"},
      {"softmx:n4d4", "choose softmax, argmax, poly, gaussian, elu, fourier, favor or sgemm"},
      {"custom:n4d4", "from C only"},
      {"softmax", "has no shape"},
      {"softmax:", "has no shape"},
      {"softmax:d4", "the letter n (query length) is missing"},
      {"softmax:n4", "the letter d (width of q and k) is missing"},
      {"softmax:n4d4n4", "the letter n (query length) occurs twice"},
      {"softmax:n4d4q4", "\"q\" is not a size: the letters are b, h, g, n, x, d"},
      {"softmax:n4d", "d (width of q and k) is \"\""},
      {"softmax:n4d0", "from 1 to"},
      {"softmax:b0n4d4", "b (batch) is \"0\""},
      {"softmax:n99999999999999999999d4", "whole number from 0 to 2147483647"},
      {"softmax:n2147483648d4", "n (query length) is \"2147483648\""},
      {"softmax:n4294967300d4", "n (query length) is \"4294967300\""},
      {"softmax:h6g4n4d4", "4 kv heads do not divide 6 heads"},
      {"softmax:n4x8d4:causal", "choose causal alignment top or bottom"},
      {"softmax:n4d4:caudal", "the words are causal, top, bottom, window="},
      {"softmax:n4d4:", "there is no such word"},
      {"softmax:n4d4:causal:top", "\"causal\" has already settled this"},
      {"softmax:n4d4:f16:f16", "\"f16\" has already settled this"},
      {"softmax:n4d4:bwd:decode", "\"bwd\" has already settled this"},
      {"softmax:n4d4:window", "there is no such word"},
      {"softmax:n4d4:window=0", "the window is \"0\""},
      {"softmax:n4d4:window=3x", "the window is \"3x\""},
      {"softmax:n4d4:scale=nan", "scale is \"nan\""},
      {"softmax:n4d4:cap=50x", "cap is \"50x\""},
      {"softmax:n4d4:cap=0", "cap is 0"},
      {"softmax:n4d4:cap=-3", "soft_cap is -3"},
      {"softmax:n4d4:cap=3:cap=4", "\"cap=3\" has already settled this"},
      {"argmax:n4d4:cap=3", "which key is the best"},
      {"elu:n4d4:cap=3", "caps the scores of softmax"},
      {"softmax:n4d4:scale=0", "scale is 0"},
      {"softmax:n4d4:scale=", "scale is \"\""},
      {"poly:n4d4:scale=1", "poly has no scale"},
      {"softmax(p=2):n4d4", "softmax has no setting \"p\""},
      {"poly(q=2):n4d4", "it has p, a and c"},
      {"poly(p=0):n4d4", "the degree p is \"0\""},
      {"poly(p=2.5):n4d4", "the degree p is \"2.5\""},
      {"poly(a=0):n4d4", "a is 0"},
      {"poly(p=2,p=3):n4d4", "p is set twice"},
      {"poly(p=2,):n4d4", "a comma ends the settings"},
      {"poly():n4d4", "\"\" is not a setting"},
      {"poly(p):n4d4", "\"p\" is not a setting"},
      {"poly(p=2:n4d4", "the parenthesis does not close"},
      {"argmax(ties=last):n4d4", "choose ties=first or ties=average"},
      {"argmax(t=-1):n4d4", "temperature is -1"},
      {"gaussian(sigma=-1):n4d4", "sigma is -1"},
      {"gaussian(kind=pair):n4d4", "it has sigma, m, seed, redraw, draw and map"},
      {"fourier(map=favor):n4d4", "it has sigma, m, seed, redraw, draw, error and spread"},
      {"elu(m=4):n4d4", "elu has no setting \"m\": it has none"},
      {"elu:n4d4:scale=2", "elu has no scale"},
      {"favor(m=0):n4d4", "the number of features m is \"0\""},
      {"favor(m=-4):n4d4", "from 1 to 1048576"},
      {"favor(m=2000000):n4d4", "features is 2000000"},
      {"favor(m=7,kind=pair):n4d4", "7 features cannot go in pairs"},
      {"fourier(m=7):n4d4", "7 features cannot go in pairs"},
      {"favor(kind=pairs):n4d4", "choose kind=plain or kind=pair"},
      {"favor(draw=id):n4d4", "choose draw=orthogonal or draw=iid"},
      {"gaussian(map=fast):n4d4", "choose map=favor or map=fourier"},
      {"favor(seed=18446744073709551616):n4d4", "the number seed is"},
      {"favor(redraw=-1):n4d4", "the number redraw is \"-1\""},
      {"favor(sigma=2):n4d4:scale=1", "scale 1 and sigma 2 disagree"},
      {"favor:n4d4:scale=-1", "scale is -1"},
      {"favor(m=8,error=0.1):n4d4", "error 0.1 and 8 features"},
      {"favor(spread=2):n4d4", "set form.error"},
      {"softmax:n4x8d4:decode", "write the number of keys held as n"},
      {"softmax:n0d4:decode", "choose n1 or more"},
      {"softmax:n4d4:decode:top", "leave out top"},
      {"sgemm:m1n2", "the letter k"},
      {"sgemm:m1n2k3:bwd", "sgemm takes no words"},
      {"sgemm(p=2):m1n2k3", "sgemm has no settings"},
      {"softmax:b2147483647h2147483647n2147483647d2147483647", "address space"},
  };
  for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
    attend_problem p = {ATTEND_INIT(attend_problem)};
    if (attend_problem_parse(context(), cases[n][0], &p) != ATTEND_INVALID)
      CHECK_FAIL("\"%s\" was taken", cases[n][0]);
    else
      CHECK_SAYS(attend_message(context()), cases[n][1]);
  }
}

TEST(refusals_name_the_word) {
  attend_problem p = {ATTEND_INIT(attend_problem)};
  CHECK_EQ(attend_problem_parse(context(), "softmax:n4d4:bwd:caudal", &p), ATTEND_INVALID);
  CHECK_SAYS(attend_message(context()), "word 4 \"caudal\"");
}

/* ---- tensors ------------------------------------------------------------ */

static attend_tensors tensors(const char *text) {
  attend_problem p = parsed(text);
  attend_tensors t = {ATTEND_INIT(attend_tensors)};
  if (attend_problem_tensors(context(), &p, 9, &t))
    CHECK_FAIL("%s: %s", text, attend_message(context()));
  return t;
}

TEST(layouts_hold_the_same_numbers) {
  attend_tensors a = tensors("softmax:b2h3n5d4:bwd");
  attend_tensors b = tensors("softmax:b2h3n5d4:bwd:bthd");
  const float *x = a.d_o.data, *y = b.d_o.data;
  int differ = 0;
  for (int n = 0; n < 2 * 3 * 5 * 4; n++) {
    int w = n % 4, i = n / 4 % 5, h = n / 20 % 3, e = n / 60;
    ptrdiff_t at =
        e * b.d_o.stride[0] + h * b.d_o.stride[1] + i * b.d_o.stride[2] + w * b.d_o.stride[3];
    CHECK(x[n] == y[at]);
    differ += at != n;
  }
  CHECK(differ > 0);
  CHECK(memcmp(a.q.data, a.d_o.data, 480) != 0);
  attend_tensors_free(context(), &a);
  attend_tensors_free(context(), &b);
}

/* Rows wider than any piece that is drawn at once, none a part of another. */
TEST(values_are_one_stream_per_tensor) {
  enum { N = 3 * 300 };
  attend_tensors t = tensors("softmax:h3n1d300");
  float want[N];
  int found = 0;
  for (uint64_t stream = 0; stream < 16; stream++) {
    attend_random_normal((attend_random){9, stream}, 0, N, want);
    found += !memcmp(t.q.data, want, sizeof want);
  }
  CHECK_EQ(found, 1);
  attend_tensors_free(context(), &t);
}

TEST(dtypes_round_the_same_numbers) {
  attend_tensors a = tensors("softmax:n5d300");
  attend_tensors b = tensors("softmax:n5d300:f16");
  for (int n = 0; n < 5 * 300; n++) {
    uint16_t want;
    attend_convert_from_f32(ATTEND_F16, (float *)a.v.data + n, 1, &want);
    CHECK_EQ(((uint16_t *)b.v.data)[n], want);
  }
  attend_tensors_free(context(), &a);
  attend_tensors_free(context(), &b);
}

TEST(padding_is_awkward) {
  attend_tensors t = tensors("softmax:b4n12d4:lengths");
  const int32_t *lengths = t.desc.mask.lengths;
  CHECK(lengths[0] > 0 && lengths[0] < 12 && lengths[3] > 0 && lengths[3] < 12);
  CHECK_EQ(lengths[1], 12);
  CHECK_EQ(lengths[2], 0);
  attend_tensors_free(context(), &t);
  for (int left = 0; left < 2; left++) {
    t = tensors(left ? "softmax:b3n12d4:padleft" : "softmax:b3n12d4:padright");
    for (int b = 0; b < 3; b++)
      for (int j = 0; j < 12; j++)
        CHECK_EQ(t.desc.mask.key_mask[b * 12 + j], left ? j >= 5 + b : j < 12 - 5 - b);
    attend_tensors_free(context(), &t);
  }
}

TEST(bias_gradients_have_its_shape) {
  static const struct {
    const char *text;
    size_t count;
  } cases[] = {{"softmax:b2h3n5x7d4:bwd", 0},
               {"softmax:b2h3n5x7d4:alibi:bwd", 3},
               {"softmax:b2h3n5x7d4:buckets:bwd", 96},
               {"softmax:b2h3n5x7d4:dense:bwd", 210}};
  for (size_t n = 0; n < 4; n++) {
    attend_tensors t = tensors(cases[n].text);
    CHECK_EQ(t.dbias_count, cases[n].count);
    CHECK_EQ(t.dbias != NULL, cases[n].count > 0);
    double *out = malloc(2 * 3 * 5 * 4 * sizeof *out);
    CHECK_EQ(attend_definition_forward(context(), &t.desc, t.q, t.k, t.v, out, NULL), ATTEND_OK);
    free(out);
    attend_tensors_free(context(), &t);
  }
}

TEST(sgemm_and_giants_have_no_tensors) {
  attend_problem p = parsed("sgemm:m1n1k1");
  attend_tensors t = {ATTEND_INIT(attend_tensors)};
  CHECK_EQ(attend_problem_tensors(context(), &p, 1, &t), ATTEND_INVALID);
  CHECK_SAYS(attend_message(context()), "sgemm has no queries");
  p = parsed("softmax:b1000000h1000n1000000d64");
  CHECK(attend_problem_tensors(context(), &p, 1, &t) != ATTEND_OK);
  CHECK(t.block == NULL);
  attend_tensors_free(context(), &t);
}
