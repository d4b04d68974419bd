/* One pair of q and k: what random features say of its similarity, on average,
 * and how far they scatter.
 *
 * Documents 000 3(a)i-ii, 002 3(a)i-ii, 003 6(a), part of the study approximation.
 */
#include "studies/study_approximation.h"

enum {
  KEY = 401,
  OFFSETS = 402,
  MOST_DISTANCES = 8,
  FEATURES = 16, /* of one estimate */
  CURVE = 61
};

/* Beyond this the estimate's fourth moment comes from draws that are too rare
 * for a sample to know its own error. */
static const double TAME = 0.5;

/* A key, and queries at given distances from it, in units of sigma. */
typedef struct {
  size_t n;
  int dim;
  double sigma;
  const double *distance; /* [n] */
  float *q, *k; /* [n][dim], [dim]: |q_i - sign k| = sigma distance_i */
  float *v, *o, *lse;
} pairs;

static attend_status draw(study_run *r, pairs *p) {
  const size_t d = (size_t)(p->dim = study_count(r, "d"));
  p->distance = study_list(r, "distances", &p->n);
  p->sigma = pow((double)d, 0.25);
  TAKE(r, &p->q, p->n * d);
  TAKE(r, &p->k, d);
  TAKE(r, &p->v, d);
  TAKE(r, &p->o, p->n * d);
  TAKE(r, &p->lse, p->n);
  study_normal(r, KEY, 0, d, p->k);
  study_normal(r, OFFSETS, 0, p->n * d, p->q);
  return ATTEND_OK;
}

/* Points the offsets' lengths right: |q - sign k| as it should be. */
static void place(const study_run *r, pairs *p, double sign) {
  const size_t d = (size_t)p->dim;
  study_normal(r, OFFSETS, 0, p->n * d, p->q);
  for (size_t i = 0; i < p->n; i++) {
    double square = 0;
    float *q = p->q + i * d;
    for (size_t k = 0; k < d; k++) square += (double)q[k] * (double)q[k];
    for (size_t k = 0; k < d; k++)
      q[k] = (float)(sign * (double)p->k[k] +
                     p->sigma * p->distance[i] * (double)q[k] / sqrt(square));
  }
}

/* ---- estimates ------------------------------------------------------------------ */

typedef struct {
  const char *name;
  attend_form form;
  bool logs;   /* lse is the logarithm of the estimate */
  double sign; /* of k in the distance that its variance depends on */
} estimator;

/* moments[n] of the estimates over many draws of the directions. A single key:
 * the denominator is the estimate. */
static attend_status scatter(study_run *r, pairs *p, const estimator *e,
                             study_moments *moments) {
  const size_t draws = (size_t)study_count(r, "redraws");
  attend_desc d = {
      .form = e->form, .q_len = (int)p->n, .kv_len = 1, .dim = p->dim};
  double *seen = NULL;
  attend_plan *plan;
  attend_status status = ATTEND_OK;
  d.form.features = FEATURES;
  d.form.seed = r->seed;
  TAKE(r, &seen, p->n * draws);
  place(r, p, e->sign);
  TRY(attend_plan_create(r->ctx, &d, &plan));
  for (size_t t = 0; t < draws && !status; t++) {
    status = attend_plan_redraw(plan, t);
    if (!status)
      status = attend_forward(plan, attend_bhtd(p->q), attend_bhtd(p->k),
                              attend_bhtd(p->v), attend_bhtd(p->o), p->lse);
    for (size_t i = 0; i < p->n; i++) {
      double x = (double)p->lse[i];
      seen[i * draws + t] = e->logs ? exp(x) : x;
    }
    if (!status && t % 1000 == 0) status = study_step(r, 0.1);
  }
  attend_plan_free(plan);
  for (size_t i = 0; i < p->n && !status; i++)
    moments[i] = study_moments_of(seen + i * draws, draws);
  return status;
}

/* ---- the wrong variance ------------------------------------------------------------ */

static const attend_study_column mean_columns[] = {
    {"distance", "‖q−k‖/σ", ATTEND_CELL_NUMBER},
    {"right", "w ~ N(0, I/σ²): mean", ATTEND_CELL_NUMBER},
    {"kernel", "exp(−‖q−k‖²/2σ²)", ATTEND_CELL_NUMBER},
    {"wrong", "w ~ N(0, σ²I): mean", ATTEND_CELL_NUMBER},
    {"wrong_predicted", "exp(−σ²‖q−k‖²/2)", ATTEND_CELL_NUMBER},
    {0}};

/* Var of a direction's cosine is (1 - kernel^2)^2 / 2. */
static double right_kernel(double distance) {
  return exp(-distance * distance / 2);
}

static double wrong_kernel(const pairs *p, double distance) {
  return exp(-pow(p->sigma, 4) * distance * distance / 2);
}

static attend_status plot_means(study_run *r, const pairs *p,
                                const study_moments *right,
                                const study_moments *wrong) {
  double x[CURVE], y[2][CURVE], mean[2][MOST_DISTANCES], last = 0;
  for (size_t i = 0; i < p->n; i++) {
    mean[0][i] = right[i].mean;
    mean[1][i] = wrong[i].mean;
    if (p->distance[i] > last) last = p->distance[i];
  }
  for (int i = 0; i < CURVE; i++) {
    x[i] = last * i / (CURVE - 1);
    y[0][i] = right_kernel(x[i]);
    y[1][i] = wrong_kernel(p, x[i]);
  }
  attend_plot_series series[4];
  for (int i = 0; i < 2; i++) {
    series[2 * i] = (attend_plot_series){
        .name = i ? "w ~ N(0, σ²I), as printed" : "w ~ N(0, I/σ²)",
        .count = p->n,
        .x = p->distance,
        .y = mean[i],
        .points = 2,
        .colour = i + 1};
    series[2 * i + 1] = (attend_plot_series){
        .name = i ? "exp(−σ²‖q−k‖²/2)" : "exp(−‖q−k‖²/2σ²)",
        .count = CURVE,
        .x = x,
        .y = y[i],
        .dashed = i,
        .colour = i + 1};
  }
  attend_plot_panel panel = {
      .title = study_format(r, "Mean of φ(q).φ(k), D = %d and σ² = √D", p->dim),
      .x = {.label = "‖q−k‖/σ", .zero = 1},
      .y = {.label = "similarity", .low = 0, .high = 1},
      .key = ATTEND_KEY_ABOVE,
      .count = 4,
      .series = series};
  return study_figure(r, "approximation-kernel",
                      &(attend_plot){.count = 1, .panels = &panel});
}

static attend_status means(study_run *r, pairs *p) {
  const estimator right = {.form = {.kind = ATTEND_GAUSSIAN,
                                    .map = ATTEND_TRIGONOMETRIC,
                                    .draw = ATTEND_IID,
                                    .sigma = (float)p->sigma},
                           .sign = 1};
  estimator wrong = right;
  study_moments a[MOST_DISTANCES], b[MOST_DISTANCES];
  table_store *t;
  wrong.form.sigma = (float)(1 / p->sigma); /* w of variance sigma^2 */
  TRY(scatter(r, p, &right, a));
  TRY(scatter(r, p, &wrong, b));
  TRY(study_table(r, "means", "Which variance the directions must have",
                  mean_columns, &t));
  for (size_t i = 0; i < p->n; i++) {
    const double z = p->distance[i], k = right_kernel(z),
                 w = wrong_kernel(p, z);
    TRY(study_row(t, 5, z, a[i].mean, k, b[i].mean, w));
    TRY(study_estimate(
        r, study_format(r, "mean-right-%g", z),
        study_format(r, "E φ(q).φ(k), w ~ N(0, I/σ²), %g σ apart", z),
        a[i].mean, k, a[i].mean_error));
    TRY(study_estimate(
        r, study_format(r, "mean-wrong-%g", z),
        study_format(r, "E φ(q).φ(k), w ~ N(0, σ²I), %g σ apart", z), b[i].mean,
        w, b[i].mean_error));
  }
  return plot_means(r, p, a, b);
}

/* ---- variances ----------------------------------------------------------------------- */

static const attend_study_column variance_columns[] = {
    {"form", "features", ATTEND_CELL_TEXT},
    {"distance", "‖x∓y‖", ATTEND_CELL_NUMBER},
    {"variance", "m · relative variance", ATTEND_CELL_NUMBER},
    {"predicted", "predicted", ATTEND_CELL_NUMBER},
    {"orthogonal", "orthogonal directions", ATTEND_CELL_NUMBER},
    {0}};

/* Relative variance times the number of features: attend/predict.h. */
static double predicted_variance(const estimator *e, double distance) {
  const double s = distance * distance;
  if (!e->logs) return exp(s) * pow(1 - exp(-s), 2);
  return (exp(s) - 1) * (e->form.pairs ? 1 - exp(-s) : 1);
}

/* The similarity itself; the same for all q that the estimates were of. */
static double exact(const pairs *p, const estimator *e, size_t i) {
  const size_t d = (size_t)p->dim;
  double dot = 0;
  if (!e->logs) return right_kernel(p->distance[i]);
  for (size_t k = 0; k < d; k++)
    dot += (double)p->q[i * d + k] * (double)p->k[k];
  return exp(dot / sqrt((double)d));
}

static attend_status variance_rows(study_run *r, pairs *p, const estimator *e,
                                   table_store *t) {
  study_moments iid[MOST_DISTANCES], across[MOST_DISTANCES];
  estimator turned = *e;
  turned.form.draw = ATTEND_ORTHOGONAL;
  TRY(scatter(r, p, e, iid));
  TRY(scatter(r, p, &turned, across));
  for (size_t i = 0; i < p->n; i++) {
    const double z = p->distance[i], is = exact(p, e, i),
                 times = FEATURES / (is * is);
    TRY(study_word(t, "%s", e->name));
    TRY(study_row(t, 4, z, times * iid[i].variance, predicted_variance(e, z),
                  times * across[i].variance));
    if (e->logs && z * z > TAME) continue;
    TRY(study_estimate(
        r, study_format(r, "variance-%s-%g", e->name, z),
        study_format(r, "m · relative variance of %s at %g", e->name, z),
        times * iid[i].variance, predicted_variance(e, z),
        times * iid[i].variance_error));
    TRY(study_estimate(
        r, study_format(r, "orthogonal-%s-%g", e->name, z),
        study_format(r, "mean / similarity of %s at %g, orthogonal", e->name,
                     z),
        across[i].mean / is, 1, across[i].mean_error / is));
  }
  return ATTEND_OK;
}

static attend_status variances(study_run *r, pairs *p) {
  const estimator all[] = {
      {.name = "fourier",
       .form = {.kind = ATTEND_GAUSSIAN,
                .map = ATTEND_TRIGONOMETRIC,
                .draw = ATTEND_IID},
       .sign = 1},
      {.name = "favor",
       .form = {.kind = ATTEND_FAVOR, .draw = ATTEND_IID},
       .logs = true,
       .sign = -1},
      {.name = "favor-pairs",
       .form = {.kind = ATTEND_FAVOR, .draw = ATTEND_IID, .pairs = 1},
       .logs = true,
       .sign = -1}};
  table_store *t;
  TRY(study_say(
      r,
      "An average that is right is not enough: one draw of m features "
      "scatters. "
      "With x = q/σ and y = k/σ the relative variance of sines and cosines is "
      "`exp(‖x−y‖²)(1 − exp(−‖x−y‖²))²/m`: it is large where q and k are far "
      "apart, whose similarity is small. That of positive features is "
      "`(exp(‖x+y‖²) − 1)/m`, large where q and k point the same way, and "
      "small where they oppose each other. In pairs exp(±w.x) it is less by "
      "the factor 1 − exp(−‖x+y‖²). Directions that are orthogonal scatter "
      "less still, and stay right on average."));
  TRY(study_table(
      r, "variances",
      study_format(r, "Scatter of %d features over %d draws, D = %d", FEATURES,
                   study_count(r, "redraws"), p->dim),
      variance_columns, &t));
  for (int i = 0; i < 3; i++) TRY(variance_rows(r, p, &all[i], t));
  return study_say(r,
                   "Beyond ‖x+y‖² = %g favor's variance comes from draws that "
                   "are too rare for a sample of this size: the table shows "
                   "what was seen, and nothing is claimed of it.",
                   TAME);
}

/* ---- softmax as a Gaussian kernel ------------------------------------------------------ */

/* ln of the similarity of one key to each query, in double. */
static attend_status logs(study_run *r, const pairs *p, attend_form_kind kind,
                          double *lse) {
  attend_desc d = {
      .form.kind = kind, .q_len = (int)p->n, .kv_len = 1, .dim = p->dim};
  return attend_definition_forward(r->ctx, &d, attend_bhtd(p->q),
                                   attend_bhtd(p->k), attend_bhtd(p->v), NULL,
                                   lse);
}

static double half_square(const float *x, const pairs *p) {
  double sum = 0;
  for (int i = 0; i < p->dim; i++) sum += (double)x[i] * (double)x[i];
  return sum / (2 * sqrt(p->dim));
}

static attend_status identity(study_run *r, pairs *p) {
  double softmax[MOST_DISTANCES], gauss[MOST_DISTANCES], most = 0;
  place(r, p, 1);
  TRY(logs(r, p, ATTEND_SOFTMAX, softmax));
  TRY(logs(r, p, ATTEND_GAUSSIAN, gauss));
  for (size_t i = 0; i < p->n; i++) {
    double both = half_square(p->q + i * (size_t)p->dim, p) +
                  half_square(p->k, p) + gauss[i];
    if (fabs(both - softmax[i]) > most) most = fabs(both - softmax[i]);
  }
  return study_claim(
      r, "identity",
      "ln of softmax's sim − ln of the three factors, the most over pairs",
      most, 0, 1e-10);
}

attend_status approx_pairs(study_run *r) {
  pairs p;
  TRY(draw(r, &p));
  TRY(study_heading(r, "One pair"));
  TRY(study_say(
      r,
      "With σ² = √D softmax's similarity is a Gaussian kernel between "
      "two factors: `exp(q.k/√D) = exp(‖q‖²/2σ²) "
      "exp(−‖q−k‖²/2σ²) exp(‖k‖²/2σ²)`. Random features estimate the "
      "kernel: `φ(q).φ(k)` is the mean of cos(w.(q−k)) over D_random "
      "directions w, and for normal w with variance s² in every "
      "element its mean is exp(−s²‖q−k‖²/2). So s² must be 1/σ². "
      "The documents print w ~ N(0, σ²I), which estimates "
      "exp(−σ²‖q−k‖²/2) instead; both are the same only for σ = 1. "
      "Here σ² = %.3g.",
      p.sigma * p.sigma));
  TRY(identity(r, &p));
  TRY(means(r, &p));
  return variances(r, &p);
}
