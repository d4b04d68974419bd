/* Why scores are divided by sqrt(d): mean and variance of q.k, and what the
 * softmax makes of them.
 *
 * Documents 001 1(a)-(c), 003 4(a)-(c), 004 1(a).
 */
#include "studies/study.h"

enum { KEYS = 1, QUERIES = 2, LINES = 3, MOST_WIDTHS = 16 };

static const attend_setting settings[] = {
    {"d", "4,16,64,256,1024", "4,16,64", "widths of q and k", ATTEND_SETTING_WHOLE, MOST_WIDTHS, 1,
     65536},
    {"samples", "8000", "2000", "pairs that are drawn for each width", ATTEND_SETTING_WHOLE, 1, 100,
     1e7},
    {"mu", "0.5", NULL, "mean of every element, for the second table", ATTEND_SETTING_NUMBERS, 1,
     -100, 100},
    {"sigma", "1.5", NULL, "its standard deviation", ATTEND_SETTING_NUMBERS, 1, 0.001, 100},
    {"keys", "64", NULL, "keys that a query chooses among", ATTEND_SETTING_WHOLE, 1, 2, 4096},
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
    {"d", "d", ATTEND_CELL_COUNT},
    {"mean", "mean of q.k", ATTEND_CELL_NUMBER},
    {"mean_predicted", "|mu|^2", ATTEND_CELL_NUMBER},
    {"variance", "variance", ATTEND_CELL_NUMBER},
    {"variance_predicted", "2 sigma^2 |mu|^2 + d sigma^4", ATTEND_CELL_NUMBER},
    {"variance_scaled", "variance of q.k / sqrt(d)", ATTEND_CELL_NUMBER},
    {0}};

static attend_status claim(study_run *r, const law *l, int d, const study_moments *m, double mean,
                           double variance) {
  TRY(study_estimate(r, study_format(r, "mean-%s-d%d", l->name, d),
                     study_format(r, "E[q.k] at d = %d, mu = %g, sigma = %g", d, l->mu, l->sigma),
                     m->mean, mean, m->mean_error));
  return study_estimate(
      r, study_format(r, "variance-%s-d%d", l->name, d),
      study_format(r, "Var(q.k) at d = %d, mu = %g, sigma = %g", d, l->mu, l->sigma), m->variance,
      variance, m->variance_error);
}

/* variances[0], [1]: measured and predicted, for the plot. */
static attend_status moments(study_run *r, const law *l, double *measured, double *predicted) {
  size_t n_widths, n = (size_t)study_count(r, "samples");
  const double *widths = study_list(r, "d", &n_widths);
  double *scores = NULL;
  table_store *t;
  TAKE(r, &scores, n);
  TRY(study_table(r, l->name,
                  study_format(r, "q and k with mu = %g and sigma = %g", l->mu, l->sigma),
                  moments_columns, &t));
  for (size_t i = 0; i < n_widths; i++) {
    const double d = widths[i], mu2 = d * l->mu * l->mu, s2 = l->sigma * l->sigma;
    TRY(draw(r, l, (size_t)d, n, scores));
    study_moments m = study_moments_of(scores, n);
    measured[i] = m.variance;
    predicted[i] = 2 * s2 * mu2 + d * s2 * s2;
    TRY(study_row(t, 6, d, m.mean, mu2, m.variance, predicted[i], m.variance / d));
    TRY(claim(r, l, (int)d, &m, mu2, predicted[i]));
    TRY(study_step(r, (double)(i + 1) / (double)(2 * n_widths)));
  }
  return ATTEND_OK;
}

static attend_status plot_variance(study_run *r, const double *measured, const double *predicted,
                                   const double *shifted, const double *shifted_predicted) {
  size_t n;
  const double *d = study_list(r, "d", &n);
  attend_plot_series series[] = {
      {.name = "mu = 0, sigma = 1", .count = n, .x = d, .y = measured, .points = 2, .colour = 1},
      {.name = "predicted", .count = n, .x = d, .y = predicted, .colour = 1},
      {.name =
           study_format(r, "mu = %g, sigma = %g", study_number(r, "mu"), study_number(r, "sigma")),
       .count = n,
       .x = d,
       .y = shifted,
       .points = 2,
       .colour = 2},
      {.name = "predicted", .count = n, .x = d, .y = shifted_predicted, .dashed = 1, .colour = 2}};
  attend_plot_panel panel = {.title = "Variance of q.k",
                             .x = {.label = "d", .log = 1},
                             .y = {.label = "variance", .log = 1},
                             .key = ATTEND_KEY_ABOVE,
                             .count = sizeof series / sizeof *series,
                             .series = series};
  return study_figure(r, "scale-variance", &(attend_plot){.count = 1, .panels = &panel});
}

/* ---- what the softmax makes of it -------------------------------------------------- */

typedef struct {
  double entropy, largest;
} sharpness;

static sharpness sharpness_of(double *scores, int n) {
  sharpness s = {0};
  double most = scores[0], sum = 0;
  for (int i = 1; i < n; i++)
    if (scores[i] > most) most = scores[i];
  for (int i = 0; i < n; i++) sum += scores[i] = exp(scores[i] - most);
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
    {"d", "d", ATTEND_CELL_COUNT},
    {"entropy", "entropy, nats", ATTEND_CELL_NUMBER},
    {"largest", "largest weight", ATTEND_CELL_NUMBER},
    {"entropy_scaled", "entropy with 1/sqrt(d)", ATTEND_CELL_NUMBER},
    {"largest_scaled", "largest with 1/sqrt(d)", ATTEND_CELL_NUMBER},
    {0}};

static attend_status plot_softmax(study_run *r, size_t n, const double *d,
                                  double entropy[2][MOST_WIDTHS], double largest[2][MOST_WIDTHS]) {
  attend_plot_series a[] = {
      {.name = "q.k", .count = n, .x = d, .y = entropy[0], .points = 1},
      {.name = "q.k / sqrt(d)", .count = n, .x = d, .y = entropy[1], .points = 1, .dashed = 1}};
  attend_plot_series b[] = {a[0], a[1]};
  b[0].y = largest[0];
  b[1].y = largest[1];
  attend_plot_panel panels[] = {{.title = "Entropy of the weights",
                                 .x = {.label = "d", .log = 1},
                                 .y = {.label = "nats", .zero = 1},
                                 .count = 2,
                                 .series = a},
                                {.title = "Largest weight",
                                 .x = {.label = "d", .log = 1},
                                 .y = {.label = "mean over queries", .low = 0, .high = 1},
                                 .count = 2,
                                 .series = b}};
  return study_figure(r, "scale-softmax",
                      &(attend_plot){.count = 2, .across = 2, .panels = panels});
}

static attend_status soften_all(study_run *r) {
  size_t n;
  const double *d = study_list(r, "d", &n);
  double entropy[2][MOST_WIDTHS], largest[2][MOST_WIDTHS];
  table_store *t;
  TRY(study_table(
      r, "softmax",
      study_format(r, "Softmax over %d keys, mu = 0 and sigma = 1", study_count(r, "keys")),
      softmax_columns, &t));
  for (size_t i = 0; i < n; i++) {
    for (int scaled = 0; scaled < 2; scaled++) {
      sharpness s;
      TRY(soften(r, (size_t)d[i], scaled, &s));
      entropy[scaled][i] = s.entropy;
      largest[scaled][i] = s.largest;
    }
    TRY(study_row(t, 5, d[i], entropy[0][i], largest[0][i], entropy[1][i], largest[1][i]));
  }
  return plot_softmax(r, n, d, entropy, largest);
}

static attend_status run(study_run *r) {
  const law plain = {.sigma = 1, .stream = 0, .name = "standard"};
  const law given = {study_number(r, "mu"), study_number(r, "sigma"), 10, "shifted"};
  double v[4][MOST_WIDTHS];
  TRY(study_say(r,
                "Let q and k have d independent elements, normal with mean mu "
                "and standard deviation sigma. Then `E[q.k] = |mu|^2` and "
                "`Var(q.k) = 2 sigma^2 |mu|^2 + d sigma^4`: with mu = 0 and "
                "sigma = 1 the variance is d, and dividing the score by "
                "sqrt(d) makes it 1 at every width."));
  TRY(moments(r, &plain, v[0], v[1]));
  TRY(moments(r, &given, v[2], v[3]));
  TRY(plot_variance(r, v[0], v[1], v[2], v[3]));
  TRY(study_say(r,
                "What that does: a softmax of scores whose spread grows like "
                "sqrt(d) puts nearly all of its weight on one key, whatever "
                "was learnt. Divided by sqrt(d), the weights stay as soft at "
                "every width."));
  TRY(soften_all(r));
  return study_say(r,
                   "The choice s = sqrt(d) rests on mu = 0: a common mean adds "
                   "|mu|^2, which grows like d, to every score (the softmax "
                   "does not see it), and 2 sigma^2 |mu|^2 to its variance "
                   "(which it does see).");
}

const study_topic study_scale = {
    {.name = "scale",
     .title = "Why scores are divided by sqrt(d)",
     .question = "What are the mean and the variance of q.k, and what does the "
                 "softmax make of them?",
     .answers = "001 1(a)-(c), 003 4(a)-(c), 004 1(a)",
     .settings = settings},
    run};
