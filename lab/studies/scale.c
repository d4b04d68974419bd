/* Why scores are divided by sqrt(d): mean and variance of q.k, and what the
 * softmax makes of them.
 *
 * Documents Fall 2025 1(a)-(c), student 4(a)-(c), worksheet 1(a).
 */
#include "studies/study.h"

enum { KEYS = 1, QUERIES = 2, LINES = 3, MOST_WIDTHS = 16 };

static const attend_setting settings[] = {
    {"d", "4,16,64,256,1024", "4,16,64", "widths of q and k", WHOLE, MOST_WIDTHS, 1, 65536},
    {"samples", "8000", "2000", "pairs that are drawn for each width", WHOLE, 1, 100, 1e7},
    {"mu", "0.5", NULL, "mean of every element, for the second table", REAL, 1, -100, 100},
    {"sigma", "1.5", NULL, "its standard deviation", REAL, 1, 0.001, 100},
    {"keys", "64", NULL, "keys that a query chooses among", WHOLE, 1, 2, 4096},
    {0}};

/* Scores of q.k where elements have this mean and deviation. */
typedef struct {
  double mu, sigma;
  uint64_t stream;
  const char *name;
} law;

static double product(const law *l, const float *q, const float *k, size_t d) {
  double sum = 0;
  for (size_t i = 0; i < d; i++)
    sum += (l->mu + l->sigma * (double)q[i]) * (l->mu + l->sigma * (double)k[i]);
  return sum;
}

static attend_status draw(study_run *r, const law *l, size_t d, size_t n, double *scores) {
  float *q = NULL, *k = NULL;
  TAKE(r, &q, d);
  TAKE(r, &k, d);
  for (size_t i = 0; i < n; i++) {
    study_normal(r, l->stream + QUERIES, i * d, d, q);
    study_normal(r, l->stream + KEYS, i * d, d, k);
    scores[i] = product(l, q, k, d);
  }
  return ATTEND_OK;
}

/* ---- mean and variance --------------------------------------------------------- */

static const attend_study_column moments_columns[] = {
    {"d", "d", COUNT},
    {"mean", "mean of q·k", NUMBER},
    {"mean_predicted", "‖μ‖²", NUMBER},
    {"variance", "variance", NUMBER},
    {"variance_predicted", "2σ²‖μ‖² + dσ⁴", NUMBER},
    {"variance_scaled", "variance of q·k / √d", NUMBER},
    {0}};

/* The table holds what the plot shows. */
static attend_status moments(study_run *r, const law *l, double done, table_store **t) {
  size_t n_widths, n = (size_t)study_count(r, "samples");
  const double *widths = study_list(r, "d", &n_widths);
  double *scores = NULL;
  TAKE(r, &scores, n);
  TRY(study_table(r, t, l->name, moments_columns, "q and k with μ = %g and σ = %g", l->mu,
                  l->sigma));
  for (size_t i = 0; i < n_widths; i++) {
    const double d = widths[i], mean = d * l->mu * l->mu, s2 = l->sigma * l->sigma;
    const double variance = 2 * s2 * mean + d * s2 * s2;
    TRY(draw(r, l, (size_t)d, n, scores));
    study_moments m = study_moments_of(scores, n);
    TRY(study_row(*t, d, m.mean, mean, m.variance, variance, m.variance / d));
    TRY(study_estimate(r, m.mean, mean, m.mean_error,
                       "mean-%s-d%g: E[q·k] at d = %g, μ = %g, σ = %g", l->name, d, d, l->mu,
                       l->sigma));
    TRY(study_estimate(r, m.variance, variance, m.variance_error,
                       "variance-%s-d%g: Var(q·k) at d = %g, μ = %g, σ = %g", l->name, d, d, l->mu,
                       l->sigma));
    TRY(study_step(r, done + (double)(i + 1) / (double)(2 * n_widths)));
  }
  return ATTEND_OK;
}

static attend_status plot_variance(study_run *r, const law *given, const table_store *standard,
                                   const table_store *shifted) {
  size_t n;
  const double *d = study_list(r, "d", &n);
  const char *name = study_format(r, "μ = %g, σ = %g", given->mu, given->sigma);
  attend_plot_series series[] = {
      {"μ = 0, σ = 1", n, d, study_column(standard, "variance"), .points = 2, .colour = 1},
      {"predicted", n, d, study_column(standard, "variance_predicted"), .colour = 1},
      {name, n, d, study_column(shifted, "variance"), .points = 2, .colour = 2},
      {"predicted", n, d, study_column(shifted, "variance_predicted"), .dashed = 1, .colour = 2}};
  attend_plot_panel panel =
      study_lines("Variance of q·k", study_log("d"), study_log("variance"), 4, series);
  return study_plot(r, "scale-variance", 1, &panel);
}

/* ---- what the softmax makes of it -------------------------------------------------- */

typedef struct {
  double entropy, largest;
} sharpness;

static sharpness sharpness_of(double *scores, int n) {
  sharpness s = {0};
  double max = scores[0], sum = 0;
  for (int i = 1; i < n; i++)
    if (scores[i] > max) max = scores[i];
  for (int i = 0; i < n; i++) sum += scores[i] = exp(scores[i] - max);
  for (int i = 0; i < n; i++) {
    double p = scores[i] / sum;
    if (p > 0) s.entropy -= p * log(p);
  }
  s.largest = 1 / sum;
  return s;
}

/* Means over many queries, of scores as they are or divided by sqrt(d). */
static attend_status soften(study_run *r, size_t d, int scaled, sharpness *mean) {
  const int keys = study_count(r, "keys"), rows = 200;
  const law plain = {.sigma = 1, .stream = 20};
  double *scores = NULL;
  float *q = NULL, *k = NULL;
  *mean = (sharpness){0};
  TAKE(r, &scores, (size_t)keys);
  TAKE(r, &q, d);
  TAKE(r, &k, (size_t)keys * d);
  for (int i = 0; i < rows; i++) {
    study_normal(r, plain.stream + QUERIES, (uint64_t)i * d, d, q);
    study_normal(r, plain.stream + KEYS, (uint64_t)i * (uint64_t)keys * d, (size_t)keys * d, k);
    for (int j = 0; j < keys; j++)
      scores[j] = product(&plain, q, k + (size_t)j * d, d) / (scaled ? sqrt((double)d) : 1);
    sharpness s = sharpness_of(scores, keys);
    mean->entropy += s.entropy / rows;
    mean->largest += s.largest / rows;
  }
  return ATTEND_OK;
}

static const attend_study_column softmax_columns[] = {
    {"d", "d", COUNT},
    {"entropy", "entropy, nats", NUMBER},
    {"largest", "largest weight", NUMBER},
    {"entropy_scaled", "entropy with 1/√d", NUMBER},
    {"largest_scaled", "largest with 1/√d", NUMBER},
    {0}};

static attend_status soften_all(study_run *r) {
  size_t n;
  const double *d = study_list(r, "d", &n);
  table_store *t;
  TRY(study_table(r, &t, "softmax", softmax_columns, "Softmax over %d keys, μ = 0 and σ = 1",
                  study_count(r, "keys")));
  for (size_t i = 0; i < n; i++) {
    sharpness plain, scaled;
    TRY(soften(r, (size_t)d[i], 0, &plain));
    TRY(soften(r, (size_t)d[i], 1, &scaled));
    TRY(study_row(t, d[i], plain.entropy, plain.largest, scaled.entropy, scaled.largest));
  }
  attend_plot_series a[] = {{"q·k", n, d, study_column(t, "entropy"), .points = 1},
                            {"q·k / √d", n, d, study_column(t, "entropy_scaled"), .points = 1,
                             .dashed = 1}},
                     b[] = {{"q·k", n, d, study_column(t, "largest"), .points = 1},
                            {"q·k / √d", n, d, study_column(t, "largest_scaled"), .points = 1,
                             .dashed = 1}};
  attend_plot_panel panels[] = {
      study_lines("Entropy of the weights", study_log("d"), study_zero("nats"), 2, a),
      study_lines("Largest weight", study_log("d"), study_range("mean over queries", 0, 1), 2, b)};
  panels[0].key = panels[1].key = ATTEND_KEY_AUTO;
  return study_plot(r, "scale-softmax", 2, panels);
}

static attend_status run(study_run *r) {
  const law plain = {.sigma = 1, .stream = 0, .name = "standard"};
  const law given = {study_number(r, "mu"), study_number(r, "sigma"), 10, "shifted"};
  table_store *standard, *shifted;
  TRY(study_say(
      r,
      "Let q and k have d independent elements, normal with mean μ and standard deviation σ. "
      "Then $E[q·k] = ‖μ‖²$ and $Var(q·k) = 2σ²‖μ‖² + dσ⁴$: with μ = 0 and σ "
      "= 1 the variance is d, and dividing the score by √d makes it 1 at every width."));
  TRY(moments(r, &plain, 0, &standard));
  TRY(moments(r, &given, 0.5, &shifted));
  TRY(plot_variance(r, &given, standard, shifted));
  TRY(study_say(r,
                "What that does: a softmax of scores whose spread grows like √d puts nearly "
                "all of its weight on one key, whatever was learnt. Divided by √d, the "
                "weights stay as soft at every width."));
  TRY(soften_all(r));
  return study_say(r,
                   "The choice s = √d rests on μ = 0: a common mean adds ‖μ‖², which grows "
                   "like d, to every score (the softmax does not see it), and 2σ²‖μ‖² to "
                   "its variance (which it does see).");
}

const study_topic study_scale = {
    {.name = "scale",
     .title = "Why scores are divided by √d",
     .question =
         "What are the mean and the variance of q·k, and what does the softmax make of them?",
     .answers = "Fall 2025 1(a)-(c), student 4(a)-(c), worksheet 1(a)",
     .settings = settings},
    run};
