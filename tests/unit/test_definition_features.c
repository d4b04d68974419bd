/* Random features in the definition: what they are, against a few lines of
 * arithmetic; and what they are for, against the similarities that they stand
 * in for. Their gradients are in test_definition_sweep.c. */
#include "attention/features.h"
#include "attention_fixtures.h"

enum { DIM = 4 };

/* Of one query and one key lse is log sim, or sim where it is signed. */
static double sim_of(const attend_form *form, float scale, const float *q, const float *k) {
  attend_desc d = {
      ATTEND_INIT(attend_desc), .form = *form, .q_len = 1, .kv_len = 1, .dim = DIM, .scale = scale};
  const float v[DIM] = {1, 2, 3, 4};
  double o[DIM], lse;
  OK(context(), attend_definition_forward(context(), &d, attend_bhtd_input(q), attend_bhtd_input(k),
                                          attend_bhtd_input(v), o, &lse));
  return attend_form_signed(form) ? lse : exp(lse);
}

/* ---- in a few lines ------------------------------------------------------- */

static const float some_q[DIM] = {0.5f, -1.25f, 2, 0.125f};
static const float some_k[DIM] = {-1, 0.5f, 0.75f, 1.5f};

static double dot(const float *a, const float *b) {
  double sum = 0;
  for (int x = 0; x < DIM; x++) sum += (double)a[x] * (double)b[x];
  return sum;
}

/* sim with the features written out: x' is unit x. */
static double by_hand(const attend_form *f, double unit, const float *q, const float *k) {
  int dirs = form_directions(f);
  float *w = zeroed_block((size_t)dirs * DIM, sizeof *w);
  double qq = unit * unit * dot(q, q), kk = unit * unit * dot(k, k), sum = 0;
  OK(context(), projection_draw(context(), f, dirs, DIM, w));
  for (int r = 0; r < dirs; r++) {
    double a = unit * dot(w + r * DIM, q), b = unit * dot(w + r * DIM, k);
    if (f->kind == ATTEND_FOURIER)
      sum += exp((qq + kk) / 2) * (cos(a) * cos(b) + sin(a) * sin(b));
    else if (f->kind == ATTEND_GAUSSIAN && f->map == ATTEND_TRIGONOMETRIC)
      sum += cos(a) * cos(b) + sin(a) * sin(b);
    else if (f->kind == ATTEND_GAUSSIAN)
      sum += exp(a - qq) * exp(b - kk);
    else if (f->pairs)
      sum += (exp(a) * exp(b) + exp(-a) * exp(-b)) / exp((qq + kk) / 2) / 2;
    else
      sum += exp(a - qq / 2) * exp(b - kk / 2);
  }
  free(w);
  return sum / dirs;
}

TEST(similarities_by_hand) {
  const attend_form forms[] = {
      {.kind = ATTEND_FAVOR, .features = 7},
      {.kind = ATTEND_FAVOR, .features = 7, .draw = ATTEND_IID, .seed = 9},
      {.kind = ATTEND_FAVOR, .features = 6, .pairs = 1, .redraw = 2},
      {.kind = ATTEND_FOURIER, .features = 10},
      {.kind = ATTEND_GAUSSIAN, .features = 5, .sigma = 1.5f},
      {.kind = ATTEND_GAUSSIAN, .features = 6, .sigma = 1.5f, .map = ATTEND_TRIGONOMETRIC},
  };
  for (size_t n = 0; n < sizeof forms / sizeof *forms; n++) {
    const attend_form *f = &forms[n];
    double unit = f->kind == ATTEND_GAUSSIAN ? 1 / 1.5 : sqrt(0.375);
    double want = by_hand(f, unit, some_q, some_k);
    CHECK_NEAR(sim_of(f, 0.375f, some_q, some_k), want, 1e-13 * fabs(want));
  }
}

TEST(elu_by_hand) {
  attend_form f = {.kind = ATTEND_ELU};
  double want = 1.5 * exp(-1) + exp(-1.25) * 1.5 + 3 * 1.75 + 1.125 * 2.5;
  CHECK_NEAR(sim_of(&f, 0, some_q, some_k), want, 1e-14);
}

static void pick(const float *x, int dim, int key, float *features, int count, void *user) {
  const float *factor = user;
  for (int c = 0; c < count; c++) features[c] = key ? x[c] * factor[0] : x[dim - 1 - c] - factor[1];
}

TEST(the_callers_phi_by_hand) {
  float factors[] = {2, 0.5f};
  attend_form f = {.kind = ATTEND_CUSTOM, .phi = pick, .features = 3, .user = factors};
  double want = (0.125 - 0.5) * -2 + (2 - 0.5) * 1 + (-1.25 - 0.5) * 1.5;
  CHECK_NEAR(sim_of(&f, 0, some_q, some_k), want, 0);
  attend_desc d = {ATTEND_INIT(attend_desc), .form = f, .q_len = 1, .kv_len = 1, .dim = DIM};
  double out[DIM];
  CHECK_EQ(attend_definition_backward(context(), &d, attend_bhtd_input(some_q),
                                      attend_bhtd_input(some_k), attend_bhtd_input(some_k),
                                      attend_bhtd_input(some_q), out, out, out, NULL),
           ATTEND_INVALID);
  CHECK_SAYS(attend_message(context()), "set form.phi_backward");
}

/* |w.x'| is in the thousands: no exponential of it exists. */
TEST(favor_does_not_overflow) {
  attend_desc d = {ATTEND_INIT(attend_desc), .q_len = 1, .kv_len = 2, .dim = DIM, .scale = 1};
  d.form = (attend_form){.kind = ATTEND_FAVOR, .features = 8, .pairs = 1};
  const float q[DIM] = {1000, 0, 0, 0}, k[2 * DIM] = {1000, 0, 0, 0, 900};
  const float v[2 * DIM] = {1, 1, 1, 1, 2, 2, 2, 2};
  double o[DIM], lse, dq[DIM], dk[2 * DIM], dv[2 * DIM];
  OK(context(), attend_definition_forward(context(), &d, attend_bhtd_input(q), attend_bhtd_input(k),
                                          attend_bhtd_input(v), o, &lse));
  CHECK(isfinite(lse) && lse < -1e5 && o[0] >= 1 && o[0] <= 2);
  OK(context(),
     attend_definition_backward(context(), &d, attend_bhtd_input(q), attend_bhtd_input(k),
                                attend_bhtd_input(v), attend_bhtd_input(q), dq, dk, dv, NULL));
  for (int x = 0; x < DIM; x++) CHECK(isfinite(dq[x]) && isfinite(dk[x]));
}

/* ---- on average ------------------------------------------------------------ */

/* Over SEEDS drawings the mean of sim must be the similarity that it stands in
 * for, and for iid directions its variance the predicted one. q and k lie so
 * that |x+y|^2 (favor) or |x-y|^2 (fourier) is 0.12: one feature is then
 * nearly Gaussian (exp(0.35 z) has skewness 1.1), the mean of 16 x 4000 of them
 * is, and 5.2 standard deviations have a probability of 2e-7.
 *
 * The sample variance of an estimate with excess kurtosis e errs by
 * sqrt((2 + e) / SEEDS) of itself: 2.3 % for favor (e below 0.2), 3.2 % with pairs
 * and for fourier (e about 2: 8 directions of cosh or cos). A fifth is more
 * than six of those. */
enum { SEEDS = 4000, FEATURES = 16 };

typedef struct {
  const char *name;
  attend_form form;
  double truth, variance; /* of sim; variance for iid directions */
} estimate;

static void check_mean(const estimate *e, const float *q, const float *k, attend_draw draw) {
  attend_form form = e->form;
  double sum = 0, squares = 0;
  form.features = FEATURES;
  form.draw = draw;
  for (int seed = 0; seed < SEEDS; seed++) {
    form.seed = (uint64_t)seed;
    double off = sim_of(&form, 1, q, k) - e->truth;
    sum += off;
    squares += off * off;
  }
  double variance = squares / SEEDS / e->variance;
  CHECK_NEAR(sum / SEEDS, 0, 5.2 * sqrt(e->variance / SEEDS));
  if (!(variance < 1.2 && (draw == ATTEND_ORTHOGONAL || variance > 0.8)))
    CHECK_FAIL("%s: the variance is %.3f of what was predicted", e->name, variance);
}

/* x has length 1, y the opposite direction and length 0.8 or so. */
static const float x[DIM] = {0.5f, -0.5f, 0.5f, -0.5f};
static const float y[DIM] = {-0.3f, 0.5f, -0.3f, 0.7f};

static double relative_variance(const attend_form *f, double squared) {
  double e = exp(squared);
  if (f->kind == ATTEND_FOURIER || f->map == ATTEND_TRIGONOMETRIC)
    return e * (1 - 1 / e) * (1 - 1 / e) / FEATURES;
  return (e - 1) * (f->pairs ? 1 - 1 / e : 1) / FEATURES;
}

TEST(estimates_are_unbiased_and_as_good_as_predicted) {
  const attend_form forms[] = {
      {.kind = ATTEND_FAVOR},
      {.kind = ATTEND_FAVOR, .pairs = 1},
      {.kind = ATTEND_FOURIER},
      {.kind = ATTEND_GAUSSIAN, .sigma = 1},
      {.kind = ATTEND_GAUSSIAN, .sigma = 1, .map = ATTEND_TRIGONOMETRIC},
  };
  static const char *const names[] = {"favor", "favor(kind=pair)", "fourier", "gaussian",
                                      "gaussian(map=fourier)"};
  for (int n = 0; n < 5; n++) {
    estimate e = {.name = names[n], .form = forms[n]};
    bool waves = forms[n].kind == ATTEND_FOURIER || forms[n].map;
    float k[DIM];
    for (int i = 0; i < DIM; i++) k[i] = waves ? -y[i] : y[i];
    double far = dot(x, x) + dot(k, k) - 2 * dot(x, k);
    double sum = dot(x, x) + dot(k, k) + 2 * dot(x, k);
    CHECK_NEAR(waves ? far : sum, 0.12, 1e-6);
    bool gaussian = forms[n].kind == ATTEND_GAUSSIAN;
    e.truth = gaussian ? exp(-far / 2) : exp(dot(x, k));
    e.variance = e.truth * e.truth * relative_variance(&forms[n], waves ? far : sum);
    check_mean(&e, x, k, ATTEND_IID);
    check_mean(&e, x, k, ATTEND_ORTHOGONAL);
  }
}
