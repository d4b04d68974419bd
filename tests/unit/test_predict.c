/* Predicted errors of random features against measured ones; and that nothing
 * hostile gets a number that looks like an answer. */
#include "attention_fixtures.h"

/* ---- predicted and measured ------------------------------------------------- */

typedef struct {
  attend_context *ctx;
  attend_desc d;
  size_t rows, keys; /* elements of q and of k, v */
  float *q, *k, *v, *o, *exact;
} trial;

enum { WIDTH_V = 16 };

static trial open_trial(attend_context *ctx, const char *form, int queries, int keys, int dim) {
  char text[128];
  attend_problem p = {ATTEND_INIT(attend_problem)};
  snprintf(text, sizeof text, "%s:n%dx%dd%dv%d", form, queries, keys, dim, WIDTH_V);
  OK(ctx, attend_problem_parse(ctx, text, &p));
  trial t = {
      .ctx = ctx, .d = p.desc, .rows = (size_t)(queries * dim), .keys = (size_t)(keys * dim)};
  t.q = zeroed_block(t.rows, sizeof(float));
  t.k = zeroed_block(t.keys, sizeof(float));
  t.v = zeroed_block((size_t)(keys * WIDTH_V), sizeof(float));
  t.o = zeroed_block((size_t)(queries * WIDTH_V), sizeof(float));
  t.exact = zeroed_block((size_t)(queries * WIDTH_V), sizeof(float));
  return t;
}

static void close_trial(trial *t) {
  free(t->q);
  free(t->k);
  free(t->v);
  free(t->o);
  free(t->exact);
}

static void draw(trial *t, uint64_t seed, double spread) {
  attend_random_normal((attend_random){seed, 11}, 0, t->rows, t->q);
  attend_random_normal((attend_random){seed, 12}, 0, t->keys, t->k);
  attend_random_normal((attend_random){seed, 13}, 0, (size_t)(t->d.kv_len * WIDTH_V), t->v);
  for (size_t n = 0; n < t->rows; n++) t->q[n] *= (float)spread;
  for (size_t n = 0; n < t->keys; n++) t->k[n] *= (float)spread;
}

static void forward(trial *t, const attend_desc *d, float *o) {
  attend_plan *plan = make_plan(t->ctx, d);
  OK(t->ctx, attend_forward(plan, attend_bhtd(t->q), attend_bhtd(t->k), attend_bhtd(t->v),
                            attend_bhtd(o), NULL));
  attend_plan_free(plan);
}

static attend_desc exactly(const trial *t) {
  attend_desc d = t->d;
  d.form =
      (attend_form){.kind = t->d.form.kind == ATTEND_GAUSSIAN ? ATTEND_GAUSSIAN : ATTEND_SOFTMAX,
                    .sigma = t->d.form.kind == ATTEND_GAUSSIAN ? t->d.form.sigma : 0};
  return d;
}

/* Adds |o' - o|^2 over `draws` redraws, divided by their number; returns
 * |o|^2. */
static double measure(trial *t, int draws, double *wrong) {
  size_t n = (size_t)(t->d.q_len * WIDTH_V);
  attend_desc exact = exactly(t), d = t->d;
  double size = 0, sum = 0;
  forward(t, &exact, t->exact);
  for (size_t x = 0; x < n; x++) size += (double)t->exact[x] * (double)t->exact[x];
  for (int draw = 0; draw < draws; draw++) {
    d.form.redraw = (uint64_t)draw;
    forward(t, &d, t->o);
    for (size_t x = 0; x < n; x++) sum += pow((double)t->o[x] - (double)t->exact[x], 2);
  }
  *wrong += sum / draws;
  return size;
}

typedef struct {
  double measured, predicted, by_spread;
} comparison;

static comparison compare(const char *form, int queries, int keys, int dim, double spread, int sets,
                          int draws) {
  attend_context *ctx = open_context(NULL, 1, NULL);
  trial t = open_trial(ctx, form, queries, keys, dim);
  double wrong = 0, size = 0, predicted = 0;
  attend_prediction p;
  for (int set = 0; set < sets; set++) {
    draw(&t, (uint64_t)set, spread);
    size += measure(&t, draws, &wrong);
    OK(ctx, attend_predict(ctx, &t.d, attend_bhtd(t.q), attend_bhtd(t.k), 0.1, &p));
    predicted += p.error * p.error;
  }
  OK(ctx, attend_predict_spread(ctx, &t.d, spread, 0.1, &p));
  close_trial(&t);
  attend_context_free(ctx);
  return (comparison){sqrt(wrong / size), sqrt(predicted / sets), p.error};
}

static void check_near(const char *form, int keys, int dim, double spread) {
  int sets = light() ? 2 : 8;
  comparison c = compare(form, 16, keys, dim, spread, sets, 4);
  double a = c.predicted / c.measured, b = c.by_spread / c.measured;
  if (!(a > 0.5 && a < 2))
    CHECK_FAIL("%s, %d keys, width %d, rms %g: errs by %.3g, not %.3g", form, keys, dim, spread,
               c.measured, c.predicted);
  if (!(b > 0.45 && b < 2.2))
    CHECK_FAIL("%s, %d keys, width %d, rms %g: errs by %.3g, from rms %.3g", form, keys, dim,
               spread, c.measured, c.by_spread);
  if (getenv("ATTEND_TEST_SHOW"))
    printf("%s n%d d%d %g: %.4f %.4f %.4f\n", form, keys, dim, spread, c.measured, c.predicted,
           c.by_spread);
}

TEST(predicts_what_is_measured) {
  static const char *const forms[] = {
      "favor(m=64)",
      "favor(m=512)",
      "favor(m=512,draw=iid)",
      "favor(m=512,kind=pair)",
      "favor(m=256,kind=pair,draw=iid)",
      "fourier(m=128)",
      "fourier(m=512)",
      "fourier(m=512,draw=iid)",
  };
  for (size_t f = 0; f < sizeof forms / sizeof *forms; f++) {
    check_near(forms[f], 64, 8, 0.5);
    check_near(forms[f], 64, 32, pow(32, -0.25));
    check_near(forms[f], 200, 64, pow(64, -0.25));
    if (!light()) check_near(forms[f], 64, 16, 0.6);
    if (!light()) check_near(forms[f], 20, 33, 0.45);
  }
}

TEST(predicts_gaussian_kernels) {
  check_near("gaussian(m=512)", 64, 16, 0.5);
  check_near("gaussian(m=512,map=fourier)", 64, 16, 0.5);
  check_near("gaussian(m=512,map=fourier,sigma=1)", 64, 16, 0.25);
}

/* Unit normal at width 64: no number of features that fits in memory helps. */
TEST(says_when_it_is_large) {
  static const char *const forms[] = {"favor(m=256)", "favor(m=256,draw=iid)", "fourier(m=256)"};
  for (size_t f = 0; f < sizeof forms / sizeof *forms; f++) {
    comparison c = compare(forms[f], 16, 64, 64, 1, 2, 2);
    CHECK(c.measured > 0.5);
    CHECK(c.predicted > 0.5);
    CHECK(c.by_spread > 0.5);
  }
}

/* ---- consistency ------------------------------------------------------------- */

static attend_prediction by_spread(attend_context *ctx, const char *text, double spread,
                                   double wanted) {
  attend_problem p = {ATTEND_INIT(attend_problem)};
  attend_prediction out = {0};
  OK(ctx, attend_problem_parse(ctx, text, &p));
  OK(ctx, attend_predict_spread(ctx, &p.desc, spread, wanted, &out));
  return out;
}

TEST(grows_with_the_spread) {
  attend_context *ctx = open_context(NULL, 1, NULL);
  static const char *const forms[] = {"favor:n1x300d64", "fourier:n1x300d64",
                                      "favor(kind=pair,draw=iid):n1x300d15",
                                      "fourier(draw=iid):n1x300d8"};
  for (size_t f = 0; f < sizeof forms / sizeof *forms; f++) {
    attend_prediction last = {0};
    for (double spread = 0.01; spread < 1.5; spread *= 1.25) {
      attend_prediction p = by_spread(ctx, forms[f], spread, 0.1);
      CHECK(p.error >= last.error || p.error > 0.5); /* large is large */
      CHECK(p.variance > last.variance);
      CHECK(p.features >= last.features);
      CHECK(p.affordable == (p.features <= 65536));
      last = p;
    }
  }
  attend_context_free(ctx);
}

TEST(features_reach_the_error) {
  attend_context *ctx = open_context(NULL, 1, NULL);
  static const char *const names[] = {"favor", "favor(kind=pair)", "fourier"};
  for (size_t f = 0; f < 3; f++)
    for (double wanted = 0.02; wanted < 0.5; wanted *= 2) {
      char text[64], sized[64];
      snprintf(text, sizeof text, "%s:n1x300d40", names[f]);
      attend_prediction p = by_spread(ctx, text, 0.35, wanted);
      CHECK(p.affordable && fmod(p.features, 16) == 0);
      const char *kind = f == 1 ? ",kind=pair" : "";
      const char *name = f == 2 ? "fourier" : "favor";
      snprintf(sized, sizeof sized, "%s(m=%d%s):n1x300d40", name, (int)p.features, kind);
      CHECK(by_spread(ctx, sized, 0.35, wanted).error <= wanted);
      if (p.features <= 64) continue; /* steps of 16 are coarse there */
      snprintf(sized, sizeof sized, "%s(m=%d%s):n1x300d40", name, (int)(p.features * 0.7) / 2 * 2,
               kind);
      CHECK(by_spread(ctx, sized, 0.35, wanted).error > wanted);
    }
  attend_context_free(ctx);
}

TEST(descriptions_take_an_error) {
  attend_context *ctx = open_context(NULL, 1, NULL);
  attend_problem p = {ATTEND_INIT(attend_problem)};
  OK(ctx, attend_problem_parse(ctx, "favor(error=0.1,spread=0.35):n100d64", &p));
  CHECK(p.desc.form.features > 0 && p.desc.form.features % 16 == 0);
  attend_prediction predicted = by_spread(ctx, "favor:n300d64", 0.35, 0.1);
  CHECK_EQ(p.desc.form.features, (int)predicted.features);
  CHECK(attend_problem_parse(ctx, "favor(error=0.05):n100d64", &p));
  CHECK_SAYS(attend_message(ctx), "an error of 0.05 would take about ");
  CHECK_SAYS(attend_message(ctx), " features at width 64 with q and k of rms 1");
  CHECK_SAYS(attend_message(ctx), "rms 0.35 needs about ");
  CHECK_SAYS(attend_message(ctx), "use softmax");
  attend_context_free(ctx);
}

/* ---- few keys, masks, hostile numbers ------------------------------------------ */

static attend_prediction predict_on(attend_context *ctx, const char *text, float q, float k,
                                    attend_status want) {
  attend_tensors t = make_tensors(ctx, text, 3);
  size_t n = rows_of(&t.desc) * (size_t)t.desc.dim;
  attend_prediction out = {.error = -1};
  for (size_t x = 0; q != 1 && x < n; x++) ((float *)t.q.data)[x] *= q;
  n = keys_of(&t.desc) * (size_t)t.desc.dim;
  for (size_t x = 0; k != 1 && x < n; x++) ((float *)t.k.data)[x] *= k;
  attend_status got = attend_predict(ctx, &t.desc, t.q, t.k, 0.1, &out);
  CHECK_EQ(got, want);
  attend_tensors_free(ctx, &t);
  return out;
}

TEST(single_keys_have_no_error) {
  attend_context *ctx = open_context(NULL, 1, NULL);
  static const char *const texts[] = {"favor:n5x1d8", "fourier:n5x1d8",
                                      "favor(kind=pair):n9d8:causal:window=1"};
  for (size_t n = 0; n < 3; n++)
    CHECK_NEAR(predict_on(ctx, texts[n], 1, 1, ATTEND_OK).error, 0, 1e-12);
  CHECK(predict_on(ctx, "favor:n5x2d8", 1, 1, ATTEND_OK).error > 0);
  CHECK_EQ(predict_on(ctx, "favor:n5x0d8", 1, 1, ATTEND_OK).pairs, 0);
  CHECK_EQ(predict_on(ctx, "favor:n0x7d8", 1, 1, ATTEND_OK).error, 0);
  attend_context_free(ctx);
}

TEST(zeros_have_no_error) {
  attend_context *ctx = open_context(NULL, 1, NULL);
  attend_prediction p = predict_on(ctx, "favor:n5x70d8", 0, 0, ATTEND_OK);
  CHECK_EQ(p.error, 0);
  CHECK_EQ(p.variance, 0);
  CHECK_EQ(p.features, 16);
  p = predict_on(ctx, "fourier:n5x70d7", 0, 0, ATTEND_OK);
  CHECK_NEAR(p.error, 0, 1e-6);
  attend_context_free(ctx);
}

static void check_sane(attend_prediction p) {
  CHECK(p.error >= 0 && isfinite(p.error));
  CHECK(p.variance >= 0 && isfinite(p.variance));
  CHECK(p.features >= 16 && isfinite(p.features));
}

TEST(huge_numbers_stay_numbers) {
  attend_context *ctx = open_context(NULL, 1, NULL);
  static const char *const texts[] = {"favor:n5x40d8", "favor(kind=pair,draw=iid):n5x40d8",
                                      "fourier:n5x40d8", "fourier(draw=iid):n5x3d1",
                                      "gaussian(m=64):n5x40d8"};
  static const float sizes[] = {3, 10, 30, 1e3f, 1e10f, 1e30f, 1e-30f};
  for (size_t n = 0; n < sizeof texts / sizeof *texts; n++)
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
      check_sane(predict_on(ctx, texts[n], sizes[s], sizes[s], ATTEND_OK));
  attend_prediction p = predict_on(ctx, "favor:n5x40d8", 6, 6, ATTEND_OK);
  CHECK(p.variance > 1e10 && !p.affordable);
  check_sane(by_spread(ctx, "favor:n5d512", 20, 0.1));
  attend_context_free(ctx);
}

TEST(nan_and_infinity_are_refused) {
  attend_context *ctx = open_context(NULL, 1, NULL);
  predict_on(ctx, "favor:n5x40d8", NAN, 1, ATTEND_INVALID);
  CHECK_SAYS(attend_message(ctx), "not finite");
  predict_on(ctx, "fourier:n5x40d8", INFINITY, 1, ATTEND_INVALID);
  predict_on(ctx, "favor:n5x40d8", 1, NAN, ATTEND_INVALID);
  attend_context_free(ctx);
}

/* Masked keys do not matter. */
TEST(masked_keys_are_not_read) {
  attend_context *ctx = open_context(NULL, 1, NULL);
  attend_tensors t = make_tensors(ctx, "favor:b2n9x80d8:lengths", 1);
  attend_prediction before, after;
  OK(ctx, attend_predict(ctx, &t.desc, t.q, t.k, 0.1, &before));
  for (int b = 0; b < 2; b++) {
    int first = t.desc.mask.lengths[b];
    put_all(ATTEND_F32, t.k.data, (size_t)((b * 80 + first) * 8), (size_t)((80 - first) * 8), NAN);
  }
  OK(ctx, attend_predict(ctx, &t.desc, t.q, t.k, 0.1, &after));
  CHECK(memcmp(&before, &after, sizeof before) == 0);
  attend_tensors_free(ctx, &t);
  attend_context_free(ctx);
}

/* A few rows stand for many. */
TEST(samples_agree_with_the_whole) {
  attend_context *ctx = open_context(NULL, 1, NULL);
  attend_prediction whole = predict_on(ctx, "favor:b1h2n50x500d16", 0.5f, 0.5f, ATTEND_OK);
  attend_prediction part = predict_on(ctx, "favor:b2h4n500x500d16:bf16", 1, 1, ATTEND_OK);
  CHECK_EQ(whole.pairs, 2 * 50 * 500);
  CHECK(part.pairs >= 24 * 500 && part.pairs < 3e5);
  part = predict_on(ctx, "favor:b2h4n500x500d16", 0.5f, 0.5f, ATTEND_OK);
  CHECK(part.error / whole.error > 0.8 && part.error / whole.error < 1.25);
  attend_context_free(ctx);
}

TEST(questions_are_checked) {
  attend_context *ctx = open_context(NULL, 1, NULL);
  attend_desc d = {ATTEND_INIT(attend_desc), .form.kind = ATTEND_FAVOR, .q_len = 4, .kv_len = 4,
                   .dim = 4};
  attend_prediction out;
  CHECK_EQ(attend_predict_spread(ctx, &d, 0, 0.1, &out), ATTEND_INVALID);
  CHECK_EQ(attend_predict_spread(ctx, &d, NAN, 0.1, &out), ATTEND_INVALID);
  CHECK_EQ(attend_predict_spread(ctx, &d, 1, 0, &out), ATTEND_INVALID);
  CHECK_EQ(attend_predict_spread(ctx, &d, 1, NAN, &out), ATTEND_INVALID);
  CHECK_EQ(attend_predict(ctx, &d, attend_bhtd(NULL), attend_bhtd(NULL), 0.1, &out),
           ATTEND_INVALID);
  d.form.kind = ATTEND_SOFTMAX;
  CHECK_EQ(attend_predict_spread(ctx, &d, 1, 0.1, &out), ATTEND_INVALID);
  CHECK_SAYS(attend_message(ctx), "choose favor, fourier");
  d.form.kind = ATTEND_GAUSSIAN;
  CHECK_EQ(attend_predict_spread(ctx, &d, 1, 0.1, &out), ATTEND_INVALID);
  attend_context_free(ctx);
}

/* Every allocation may fail, and nothing stays behind. */
TEST(memory_may_run_out) {
  attend_desc d = {ATTEND_INIT(attend_desc), .form.kind = ATTEND_FAVOR, .kv_len = 40, .dim = 4};
  attend_status status = ATTEND_NO_MEMORY;
  for (long at = 2; status; at++) {
    ledger l = {.fail_at = at};
    attend_prediction out;
    attend_context *ctx = open_context("scalar", 1, &l);
    status = attend_predict_spread(ctx, &d, 1, 0.1, &out);
    CHECK(!status || status == ATTEND_NO_MEMORY);
    attend_context_free(ctx);
    CHECK_EQ(l.live, 0);
  }
}
