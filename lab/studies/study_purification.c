/* Self-supervised linear purification: the W that rebuilds X as W X while it is
 * kept small, by singular values, by normal equations and by gradient descent.
 *
 * Training a linear layer with weight decay is the same thing.
 */
#include "studies/purification.h"

enum { MOST_VALUES = 16, LEFT = 1, RIGHT = 2, CURVE = 61 };
typedef purify_data data;

static const attend_setting settings[] = {
    {"singular", "10,8,4,1,0.5,0.36,0.16,0.01", NULL,
     "singular values of the data, falling", ATTEND_SETTING_NUMBERS,
     MOST_VALUES, 1e-4, 1e4},
    {"keep", "3", NULL, "how many of them are signal", ATTEND_SETTING_WHOLE, 1,
     1, MOST_VALUES - 1},
    {"most", "0.8", NULL, "what is left of the signal at least",
     ATTEND_SETTING_NUMBERS, 1, 0.001, 0.999},
    {"least", "0.5", NULL, "and of the rest at most", ATTEND_SETTING_NUMBERS, 1,
     0.001, 0.999},
    {"samples", "24", NULL, "columns of the data", ATTEND_SETTING_WHOLE, 1,
     MOST_VALUES, 4096},
    {"lambda", "0.1,1,4", "1,4", "weights of |W|^2 for gradient descent",
     ATTEND_SETTING_NUMBERS, PURIFY_LAMBDAS, 1e-6, 1e6},
    {"steps", "2000", "200", "of gradient descent", ATTEND_SETTING_WHOLE, 1, 10,
     1e6},
    {"noise", "0.4", NULL, "standard deviation of the picture's noise",
     ATTEND_SETTING_NUMBERS, 1, 0.001, 10},
    {"wide", "2", NULL, "columns of the picture for one dot of a letter",
     ATTEND_SETTING_WHOLE, 1, 1, 16},
    {"tall", "3", NULL, "rows of the picture for one dot", ATTEND_SETTING_WHOLE,
     1, 1, 16},
    {0}};

/* ---- W ----------------------------------------------------------------------- */

void purify_closed(size_t m, const double *u, const double *s, double lambda,
                   double *w) {
  for (size_t i = 0; i < m; i++)
    for (size_t j = 0; j < m; j++) {
      double sum = 0;
      for (size_t k = 0; k < m; k++)
        sum += u[i * m + k] * purify_kept(s[k], lambda) * u[j * m + k];
      w[i * m + j] = sum;
    }
}

static double reconstruction(const data *d, const double *w) {
  double sum = 0;
  for (size_t i = 0; i < d->m; i++)
    for (size_t t = 0; t < d->n; t++) {
      double left = d->x[i * d->n + t];
      for (size_t k = 0; k < d->m; k++)
        left -= w[i * d->m + k] * d->x[k * d->n + t];
      sum += left * left;
    }
  return sum;
}

static double squares(const double *w, size_t n) {
  double sum = 0;
  for (size_t i = 0; i < n; i++) sum += w[i] * w[i];
  return sum;
}

static double loss(const data *d, const double *w, double lambda) {
  return reconstruction(d, w) + lambda * squares(w, d->m * d->m);
}

/* ---- two candidates ------------------------------------------------------------- */

static const attend_study_column candidate_columns[] = {
    {"candidate", "W", ATTEND_CELL_TEXT},
    {"reconstruction", "‖X − WX‖²", ATTEND_CELL_NUMBER},
    {"regularisation", "‖W‖²", ATTEND_CELL_NUMBER},
    {"below", "loss at λ = 0.0005", ATTEND_CELL_NUMBER},
    {"at", "at λ = 0.001", ATTEND_CELL_NUMBER},
    {"above", "at λ = 0.002", ATTEND_CELL_NUMBER},
    {0}};

static const double given_x[8] = {-2.17, 1.98,  2.41, -2.03,
                                  0.02,  -0.01, 0.01, -0.02};
static const double alpha[4] = {1, 0, 0, 1}, beta[4] = {1, 0, 0, 0};
static const double beside[3] = {0.0005, 0.001, 0.002};

static attend_status candidate_row(table_store *t, const char *name,
                                   const data *d, const double *w) {
  TRY(study_word(t, "%s", name));
  TRY(study_row(t, 2, reconstruction(d, w), squares(w, 4)));
  for (int i = 0; i < 3; i++) TRY(study_cell(t, loss(d, w, beside[i])));
  return ATTEND_OK;
}

/* The least loss there is: each direction pays lambda sigma^2 / (sigma^2 +
 * lambda). */
static double least_loss(const data *d, double lambda) {
  double sum = 0;
  for (size_t i = 0; i < d->m; i++)
    sum += lambda * purify_kept(d->s[i], lambda);
  return sum;
}

static attend_status plot_candidates(study_run *r, const data *d,
                                     double crossing) {
  double x[CURVE], y[3][CURVE];
  for (int i = 0; i < CURVE; i++) {
    x[i] = 1e-5 * pow(10, 4 * i / (CURVE - 1.0));
    y[0][i] = loss(d, alpha, x[i]);
    y[1][i] = loss(d, beta, x[i]);
    y[2][i] = least_loss(d, x[i]);
  }
  attend_plot_series series[] = {
      {.name = "α: W = I", .count = CURVE, .x = x, .y = y[0]},
      {.name = "β: W = diag(1, 0)", .count = CURVE, .x = x, .y = y[1]},
      {.name = "best W", .count = CURVE, .x = x, .y = y[2], .dashed = 1}};
  attend_plot_mark mark = {crossing, "α and β cross"};
  attend_plot_panel panel = {.title = "Loss of the candidates",
                             .x = {.label = "λ", .log = 1},
                             .y = {.label = "‖X − WX‖² + λ‖W‖²", .log = 1},
                             .key = ATTEND_KEY_ABOVE,
                             .count = 3,
                             .series = series,
                             .marks = 1,
                             .mark = &mark};
  return study_figure(r, "purification-candidates",
                      &(attend_plot){.count = 1, .panels = &panel});
}

static attend_status claim_candidates(study_run *r, const data *d,
                                      double crossing) {
  TRY(study_claim(r, "reconstruction-alpha", "‖X − WX‖² of W = I",
                  reconstruction(d, alpha), 0, 0));
  TRY(study_claim(r, "regularisation-alpha", "‖W‖² of W = I", squares(alpha, 4),
                  2, 0));
  TRY(study_claim(r, "reconstruction-beta", "‖X − WX‖² of W = diag(1, 0)",
                  reconstruction(d, beta), 0.001, 1e-15));
  TRY(study_claim(r, "regularisation-beta", "‖W‖² of W = diag(1, 0)",
                  squares(beta, 4), 1, 0));
  TRY(study_claim(r, "crossing", "λ at which both have the same loss", crossing,
                  0.001, 1e-15));
  TRY(study_claim(r, "alpha-wins-below", "α is better at λ = 0.0005 (1: yes)",
                  loss(d, alpha, beside[0]) < loss(d, beta, beside[0]), 1, 0));
  return study_claim(r, "beta-wins-above", "β is better at λ = 0.002 (1: yes)",
                     loss(d, beta, beside[2]) < loss(d, alpha, beside[2]), 1,
                     0);
}

static attend_status candidates(study_run *r) {
  double u[4], s[2], w[4], x[8];
  data d = {2, 4, x, u, s};
  table_store *t;
  memcpy(x, given_x, sizeof x);
  TRY(study_svd(r, 2, 4, x, u, s));
  purify_closed(2, u, s, beside[1], w);
  double crossing = (reconstruction(&d, beta) - reconstruction(&d, alpha)) /
                    (squares(alpha, 4) - squares(beta, 4));
  TRY(study_heading(r, "Two candidates"));
  TRY(study_say(
      r,
      "Data that should lie on a line, with a little noise: X has the "
      "rows (−2.17, 1.98, 2.41, −2.03) and (0.02, −0.01, 0.01, "
      "−0.02). W = I rebuilds X perfectly and rebuilds the noise with "
      "it; W = diag(1, 0) keeps the first row alone. Without a "
      "price on W the identity always wins, and nothing is learnt. "
      "The loss `L = ‖X − WX‖² + λ‖W‖²` puts one."));
  TRY(study_table(r, "candidates",
                  "The two candidates, and the best W at 0.001",
                  candidate_columns, &t));
  TRY(candidate_row(t, "α: I", &d, alpha));
  TRY(candidate_row(t, "β: diag(1, 0)", &d, beta));
  TRY(candidate_row(t, "best at λ = 0.001", &d, w));
  TRY(claim_candidates(r, &d, crossing));
  TRY(plot_candidates(r, &d, crossing));
  return study_say(
      r,
      "α pays 2λ, β pays %.4g + λ: they cost the same at λ = %.4g, and above "
      "it β is the better one. The best W of all is neither: X has the "
      "singular "
      "values %.4g and %.4g, and at λ = 0.001 it keeps %.4g of the first "
      "direction and %.3g of the second.",
      reconstruction(&d, beta), crossing, s[0], s[1],
      purify_kept(s[0], beside[1]), purify_kept(s[1], beside[1]));
}

/* ---- data with given singular values ---------------------------------------------- */

/* count orthonormal rows of this length, by Gram and Schmidt, twice over. */
static attend_status orthonormal(study_run *r, uint64_t stream, size_t count,
                                 size_t length, double *rows) {
  float *normal = NULL;
  TAKE(r, &normal, count * length);
  study_normal(r, stream, 0, count * length, normal);
  for (size_t i = 0; i < count; i++) {
    double *row = rows + i * length;
    for (size_t k = 0; k < length; k++) row[k] = (double)normal[i * length + k];
    for (size_t j = 0; j < 2 * i; j++) {
      const double *other = rows + j % i * length;
      double dot = 0;
      for (size_t k = 0; k < length; k++) dot += row[k] * other[k];
      for (size_t k = 0; k < length; k++) row[k] -= dot * other[k];
    }
    double norm = sqrt(squares(row, length));
    for (size_t k = 0; k < length; k++) row[k] /= norm;
  }
  return ATTEND_OK;
}

static attend_status check_values(study_run *r, const double *s, size_t m) {
  for (size_t i = 1; i < m; i++)
    if (s[i] > s[i - 1])
      return study_fail(r, ATTEND_INVALID,
                        "singular must fall, and %g comes after %g: sort them",
                        s[i], s[i - 1]);
  if ((size_t)study_count(r, "keep") < m) return ATTEND_OK;
  return study_fail(r, ATTEND_INVALID,
                    "keep is %d of %zu singular values: keep fewer than all",
                    study_count(r, "keep"), m);
}

static attend_status draw(study_run *r, data *d) {
  const double *s = study_list(r, "singular", &d->m);
  double *u = NULL, *v = NULL;
  d->n = (size_t)study_count(r, "samples");
  TRY(check_values(r, s, d->m));
  TAKE(r, &u, d->m * d->m);
  TAKE(r, &v, d->m * d->n);
  TAKE(r, &d->x, d->m * d->n);
  TAKE(r, &d->u, d->m * d->m);
  TAKE(r, &d->s, d->m);
  TRY(orthonormal(r, LEFT, d->m, d->m, u));
  TRY(orthonormal(r, RIGHT, d->m, d->n, v));
  for (size_t i = 0; i < d->m; i++)
    for (size_t t = 0; t < d->n; t++)
      for (size_t k = 0; k < d->m; k++)
        d->x[i * d->n + t] += u[k * d->m + i] * s[k] * v[k * d->n + t];
  return study_svd(r, d->m, d->n, d->x, d->u, d->s);
}

/* ---- which lambda --------------------------------------------------------------------- */

static const attend_study_column kept_columns[] = {
    {"sigma", "σ", ATTEND_CELL_NUMBER},
    {"found", "σ found in X", ATTEND_CELL_NUMBER},
    {"low_predicted", "σ²/(σ²+λ) at the lower end", ATTEND_CELL_NUMBER},
    {"low", "singular value of Ŵ", ATTEND_CELL_NUMBER},
    {"high_predicted", "at the upper end", ATTEND_CELL_NUMBER},
    {"high", "of Ŵ", ATTEND_CELL_NUMBER},
    {0}};

/* The singular values of W as they are, by a decomposition of W itself. */
static attend_status values_of(study_run *r, const data *d, double lambda,
                               double *values) {
  double w[MOST_VALUES * MOST_VALUES], u[MOST_VALUES * MOST_VALUES];
  purify_closed(d->m, d->u, d->s, lambda, w);
  return study_svd(r, d->m, d->m, w, u, values);
}

/* Where the singular value `which` of W passes `share`, by halving: it falls
 * as lambda grows. */
static attend_status passes(study_run *r, const data *d, size_t which,
                            double share, double *lambda) {
  double low = 1e-12, high = 1e12, values[MOST_VALUES];
  while (high > low * (1 + 1e-12)) {
    *lambda = sqrt(low) * sqrt(high);
    TRY(values_of(r, d, *lambda, values));
    if (values[which] > share)
      low = *lambda;
    else
      high = *lambda;
  }
  return ATTEND_OK;
}

static attend_status claim_range(study_run *r, const data *d, double low,
                                 double high) {
  size_t n, keep = (size_t)study_count(r, "keep");
  const double *s = study_list(r, "singular", &n), a = s[keep - 1], b = s[keep];
  const double most = study_number(r, "most"), least = study_number(r, "least");
  const double upper = a * a * (1 - most) / most,
               lower = b * b * (1 - least) / least;
  double values[MOST_VALUES];
  TRY(study_claim(
      r, "lambda-least",
      study_format(r, "the least λ that leaves %g of σ = %g", least, b), low,
      lower, 1e-9 * lower));
  TRY(study_claim(
      r, "lambda-most",
      study_format(r, "the largest λ that leaves %g of σ = %g", most, a), high,
      upper, 1e-9 * upper));
  TRY(values_of(r, d, high, values));
  for (size_t i = 0; i < n; i++) {
    TRY(study_claim(r, study_format(r, "sigma-%zu", i + 1),
                    study_format(r, "singular value %zu of X", i + 1), d->s[i],
                    s[i], 1e-12 * s[0]));
    TRY(study_claim(
        r, study_format(r, "kept-%zu", i + 1),
        study_format(r, "singular value %zu of Ŵ, λ = %.4g", i + 1, high),
        values[i], purify_kept(s[i], upper), 1e-9));
  }
  return ATTEND_OK;
}

static attend_status table_range(study_run *r, const data *d, double low,
                                 double high) {
  double at_low[MOST_VALUES], at_high[MOST_VALUES];
  const double *s = study_list(r, "singular", &(size_t){0});
  table_store *t;
  TRY(values_of(r, d, low, at_low));
  TRY(values_of(r, d, high, at_high));
  TRY(study_table(
      r, "kept",
      study_format(r, "What is kept at λ = %.4g and λ = %.4g", low, high),
      kept_columns, &t));
  for (size_t i = 0; i < d->m; i++)
    TRY(study_row(t, 6, s[i], d->s[i], purify_kept(s[i], low), at_low[i],
                  purify_kept(s[i], high), at_high[i]));
  return ATTEND_OK;
}

/* Signal in full lines, the rest dashed; what is wanted of them as levels, and
 * the lambdas between which both are met as a band. */
static attend_status plot_range(study_run *r, const data *d, double low,
                                double high) {
  const size_t keep = (size_t)study_count(r, "keep"), lines = d->m;
  const double first = 0.01, last = 1000;
  double x[CURVE], y[MOST_VALUES][CURVE], level[2][2];
  double ends[2] = {first, last}, band[2] = {low, high};
  const double none[2] = {NAN, NAN}, floor[2] = {0, 0}, top[2] = {1, 1};
  attend_plot_series series[MOST_VALUES + 3];
  for (int k = 0; k < 2; k++) {
    level[0][k] = study_number(r, "most");
    level[1][k] = study_number(r, "least");
  }
  for (size_t i = 0; i < lines; i++) {
    for (int k = 0; k < CURVE; k++) {
      x[k] = first * pow(last / first, k / (CURVE - 1.0));
      y[i][k] = purify_kept(d->s[i], x[k]);
    }
    series[i] = (attend_plot_series){.name = study_format(r, "σ=%.3g", d->s[i]),
                                     .count = CURVE,
                                     .x = x,
                                     .y = y[i],
                                     .dashed = i >= keep};
  }
  for (int k = 0; k < 2; k++)
    series[lines + (size_t)k] = (attend_plot_series){
        .count = 2, .x = ends, .y = level[k], .faint = 1, .colour = 8};
  series[lines + 2] = (attend_plot_series){
      .count = 2, .x = band, .y = none, .low = floor, .high = top, .colour = 3};
  attend_plot_mark marks[] = {{low, study_format(r, "λ = %.3g", low)},
                              {high, study_format(r, "λ = %.3g", high)}};
  attend_plot_panel panel = {
      .title = study_format(r,
                            "Share of a direction that Ŵ keeps: at least %g "
                            "(full lines), at most %g (dashed)",
                            level[0][0], level[1][0]),
      .x = {.label = "λ", .log = 1},
      .y = {.label = "σ²/(σ²+λ)", .low = 0, .high = 1},
      .key = ATTEND_KEY_ABOVE,
      .count = lines + (low <= high ? 3 : 2),
      .series = series,
      .marks = 2,
      .mark = marks};
  return study_figure(r, "purification-kept",
                      &(attend_plot){.count = 1, .panels = &panel});
}

static attend_status range(study_run *r, const data *d) {
  const size_t keep = (size_t)study_count(r, "keep");
  const double most = study_number(r, "most"), least = study_number(r, "least");
  double low, high;
  TRY(passes(r, d, keep, least, &low));
  TRY(passes(r, d, keep - 1, most, &high));
  TRY(study_heading(r, "Which λ purifies"));
  TRY(study_say(
      r,
      "Let the first %zu singular values be signal, of which at least "
      "%g shall be left, and the others noise, of which at most %g "
      "may be left. The weakest signal, σ = %g, sets the largest λ: "
      "`λ ≤ σ²(1−%g)/%g`. The strongest noise, σ = %g, sets the "
      "least: `λ ≥ σ²(1−%g)/%g`. Both ends are also found by halving "
      "λ, with the singular values of Ŵ itself.",
      keep, most, least, d->s[keep - 1], most, most, d->s[keep], least, least));
  TRY(table_range(r, d, low, high));
  TRY(claim_range(r, d, low, high));
  TRY(plot_range(r, d, low, high));
  if (low > high)
    return study_say(r,
                     "No λ does both: the noise asks for %.4g or more, the "
                     "signal for %.4g or less.",
                     low, high);
  return study_say(
      r,
      "So any λ with %.4g ≤ λ ≤ %.4g does it. It works because the "
      "shares fall with σ²: λ lies between the squares of what is "
      "kept and of what is dropped.",
      low, high);
}

static attend_status run(study_run *r) {
  data d;
  TRY(draw(r, &d));
  TRY(candidates(r));
  TRY(purify_ways(r, &d));
  TRY(range(r, &d));
  return purify_picture(r);
}

const study_topic study_purification = {
    {.name = "purification",
     .title = "Purifying data by what it has in common",
     .question = "Which W rebuilds the data as WX while it is kept small, and "
                 "what does it leave out?",
     .answers = "003 1(a)-(c)",
     .settings = settings},
    run};
