/* Self-supervised linear purification: the W that rebuilds X as W X while it is
 * kept small, by singular values, by normal equations and by gradient descent.
 *
 * Training a linear layer with weight decay is the same thing.
 */
#include "studies/study.h"

enum { MOST_LAMBDAS = 4 }; /* to learn with, at most */

/* X [m][n], its singular vectors and values. */
typedef struct {
  size_t m, n;
  double *x, *u, *s;
} data;

/* The share of a direction that W keeps: sigma^2 / (sigma^2 + lambda). */
static double kept_share(double sigma, double lambda) {
  return sigma * sigma / (sigma * sigma + lambda);
}

enum { MOST_VALUES = 16, LEFT = 1, RIGHT = 2, CURVE = 61 };

static const attend_setting settings[] = {
    {"singular", "10,8,4,1,0.5,0.36,0.16,0.01", NULL, "singular values of the data, falling", REAL,
     MOST_VALUES, 1e-4, 1e4},
    {"keep", "3", NULL, "how many of them are signal", WHOLE, 1, 1, MOST_VALUES - 1},
    {"most", "0.8", NULL, "what is left of the signal at least", REAL, 1, 0.001, 0.999},
    {"least", "0.5", NULL, "and of the rest at most", REAL, 1, 0.001, 0.999},
    {"samples", "24", NULL, "columns of the data", WHOLE, 1, MOST_VALUES, 4096},
    {"lambda", "0.1,1,4", "1,4", "weights of |W|^2 for gradient descent", REAL, MOST_LAMBDAS, 1e-6,
     1e6},
    {"steps", "2000", "200", "of gradient descent", WHOLE, 1, 10, 1e6},
    {"noise", "0.4", NULL, "standard deviation of the picture's noise", REAL, 1, 0.001, 10},
    {"wide", "2", NULL, "columns of the picture for one dot of a letter", WHOLE, 1, 1, 16},
    {"tall", "3", NULL, "rows of the picture for one dot", WHOLE, 1, 1, 16},
    {0}};

/* ---- W ----------------------------------------------------------------------- */

static void purify_closed(size_t m, const double *u, const double *s, double lambda, double *w) {
  for (size_t i = 0; i < m; i++)
    for (size_t j = 0; j < m; j++) {
      double sum = 0;
      for (size_t k = 0; k < m; k++) sum += u[i * m + k] * kept_share(s[k], lambda) * u[j * m + k];
      w[i * m + j] = sum;
    }
}

static double reconstruction(const data *d, const double *w) {
  double sum = 0;
  for (size_t i = 0; i < d->m; i++)
    for (size_t t = 0; t < d->n; t++) {
      double left = d->x[i * d->n + t];
      for (size_t k = 0; k < d->m; k++) left -= w[i * d->m + k] * d->x[k * d->n + t];
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

static const attend_study_column candidate_columns[] = {{"candidate", "W", TEXT},
                                                        {"reconstruction", "‖X − WX‖²", NUMBER},
                                                        {"regularisation", "‖W‖²", NUMBER},
                                                        {"below", "loss at λ = 0.0005", NUMBER},
                                                        {"at", "at λ = 0.001", NUMBER},
                                                        {"above", "at λ = 0.002", NUMBER},
                                                        {0}};

static const double given_x[8] = {-2.17, 1.98, 2.41, -2.03, 0.02, -0.01, 0.01, -0.02};
static const double alpha[4] = {1, 0, 0, 1}, beta[4] = {1, 0, 0, 0};
static const double beside[3] = {0.0005, 0.001, 0.002};

static attend_status candidate_row(table_store *t, const char *name, const data *d,
                                   const double *w) {
  return study_row(t, name, reconstruction(d, w), squares(w, 4), loss(d, w, beside[0]),
                   loss(d, w, beside[1]), loss(d, w, beside[2]));
}

/* The least loss there is: each direction pays lambda sigma^2 / (sigma^2 +
 * lambda). */
static double least_loss(const data *d, double lambda) {
  double sum = 0;
  for (size_t i = 0; i < d->m; i++) sum += lambda * kept_share(d->s[i], lambda);
  return sum;
}

static attend_status plot_candidates(study_run *r, const data *d, double crossing) {
  double x[CURVE], y[3][CURVE];
  for (int i = 0; i < CURVE; i++) {
    x[i] = 1e-5 * pow(10, 4 * i / (CURVE - 1.0));
    y[0][i] = loss(d, alpha, x[i]);
    y[1][i] = loss(d, beta, x[i]);
    y[2][i] = least_loss(d, x[i]);
  }
  attend_plot_series series[] = {{.name = "α: W = I", CURVE, x, y[0]},
                                 {.name = "β: W = diag(1, 0)", CURVE, x, y[1]},
                                 {"best W", CURVE, x, y[2], .dashed = 1}};
  attend_plot_mark mark = {crossing, "α and β cross"};
  attend_plot_panel panel = study_marked(study_lines("Loss of the candidates", study_log("λ"),
                                                     study_log("‖X − WX‖² + λ‖W‖²"), 3, series),
                                         1, &mark);
  return study_plot(r, "purification-candidates", 1, &panel);
}

static attend_status claim_candidates(study_run *r, const data *d, double crossing) {
  TRY(study_claim(r, reconstruction(d, alpha), 0, 0, "reconstruction-alpha: ‖X − WX‖² of W = I"));
  TRY(study_claim(r, squares(alpha, 4), 2, 0, "regularisation-alpha: ‖W‖² of W = I"));
  TRY(study_claim(r, reconstruction(d, beta), 0.001, 1e-15,
                  "reconstruction-beta: ‖X − WX‖² of W = diag(1, 0)"));
  TRY(study_claim(r, squares(beta, 4), 1, 0, "regularisation-beta: ‖W‖² of W = diag(1, 0)"));
  TRY(study_claim(r, crossing, 0.001, 1e-15, "crossing: λ at which both have the same loss"));
  TRY(study_claim(r, loss(d, alpha, beside[0]) < loss(d, beta, beside[0]), 1, 0,
                  "alpha-wins-below: α is better at λ = 0.0005 (1: yes)"));
  return study_claim(r, loss(d, beta, beside[2]) < loss(d, alpha, beside[2]), 1, 0,
                     "beta-wins-above: β is better at λ = 0.002 (1: yes)");
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
      "Data that should lie on a line, with a little noise: X has the rows (−2.17, 1.98, 2.41, "
      "−2.03) and (0.02, −0.01, 0.01, −0.02). W = I rebuilds X perfectly and rebuilds the noise "
      "with it; W = diag(1, 0) keeps the first row alone. Without a price on W the identity always "
      "wins, and nothing is learnt. The loss $L = ‖X − WX‖² + λ‖W‖²$ puts one."));
  TRY(study_table(r, &t, "candidates", candidate_columns,
                  "The two candidates, and the best W at 0.001"));
  TRY(candidate_row(t, "α: I", &d, alpha));
  TRY(candidate_row(t, "β: diag(1, 0)", &d, beta));
  TRY(candidate_row(t, "best at λ = 0.001", &d, w));
  TRY(claim_candidates(r, &d, crossing));
  TRY(plot_candidates(r, &d, crossing));
  return study_say(
      r,
      "α pays 2λ, β pays %.4g + λ: they cost the same at λ = %.4g, and above it β is the better "
      "one. The best W of all is neither: X has the singular values %.4g and %.4g, and at λ = "
      "0.001 it keeps %.4g of the first direction and %.3g of the second.",
      reconstruction(&d, beta), crossing, s[0], s[1], kept_share(s[0], beside[1]),
      kept_share(s[1], beside[1]));
}

/* ---- data with given singular values ---------------------------------------------- */

/* count orthonormal rows of this length, by Gram and Schmidt, twice over. */
static attend_status orthonormal(study_run *r, uint64_t stream, size_t count, size_t length,
                                 double *rows) {
  float *normal;
  TRY(study_draw(r, stream, count * length, &normal));
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
      return study_fail(r, ATTEND_INVALID, "singular must fall, and %g comes after %g: sort them",
                        s[i], s[i - 1]);
  if ((size_t)study_count(r, "keep") < m) return ATTEND_OK;
  return study_fail(r, ATTEND_INVALID, "keep is %d of %zu singular values: keep fewer than all",
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
    {"sigma", "σ", NUMBER},
    {"found", "σ found in X", NUMBER},
    {"low_predicted", "σ²/(σ²+λ) at the lower end", NUMBER},
    {"low", "singular value of Ŵ", NUMBER},
    {"high_predicted", "at the upper end", NUMBER},
    {"high", "of Ŵ", NUMBER},
    {0}};

/* The singular values of W as they are, by a decomposition of W itself. */
static attend_status values_of(study_run *r, const data *d, double lambda, double *values) {
  double w[MOST_VALUES * MOST_VALUES], u[MOST_VALUES * MOST_VALUES];
  purify_closed(d->m, d->u, d->s, lambda, w);
  return study_svd(r, d->m, d->m, w, u, values);
}

/* Where the singular value `which` of W passes `share`, by bisection: it falls as lambda
 * grows. */
static attend_status passes(study_run *r, const data *d, size_t which, double share,
                            double *lambda) {
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

static attend_status claim_range(study_run *r, const data *d, double low, double high) {
  size_t n, keep = (size_t)study_count(r, "keep");
  const double *s = study_list(r, "singular", &n), a = s[keep - 1], b = s[keep];
  const double max = study_number(r, "most"), min = study_number(r, "least");
  const double upper = a * a * (1 - max) / max, lower = b * b * (1 - min) / min;
  double values[MOST_VALUES];
  TRY(study_claim(r, low, lower, 1e-9 * lower, "lambda-least: the least λ that leaves %g of σ = %g",
                  min, b));
  TRY(study_claim(r, high, upper, 1e-9 * upper,
                  "lambda-most: the largest λ that leaves %g of σ = %g", max, a));
  TRY(values_of(r, d, high, values));
  for (size_t i = 0; i < n; i++) {
    TRY(study_claim(r, d->s[i], s[i], 1e-12 * s[0], "sigma-%zu: singular value %zu of X", i + 1,
                    i + 1));
    TRY(study_claim(r, values[i], kept_share(s[i], upper), 1e-9,
                    "kept-%zu: singular value %zu of Ŵ, λ = %.4g", i + 1, i + 1, high));
  }
  return ATTEND_OK;
}

static attend_status table_range(study_run *r, const data *d, double low, double high) {
  double at_low[MOST_VALUES], at_high[MOST_VALUES];
  const double *s = study_list(r, "singular", &(size_t){0});
  table_store *t;
  TRY(values_of(r, d, low, at_low));
  TRY(values_of(r, d, high, at_high));
  TRY(study_table(r, &t, "kept", kept_columns, "What is kept at λ = %.4g and λ = %.4g", low, high));
  for (size_t i = 0; i < d->m; i++)
    TRY(study_row(t, s[i], d->s[i], kept_share(s[i], low), at_low[i], kept_share(s[i], high),
                  at_high[i]));
  return ATTEND_OK;
}

/* Signal in full lines, the rest dashed; their bounds as levels, and
 * the lambdas between which both are met as a band. */
static attend_status plot_range(study_run *r, const data *d, double low, double high) {
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
      y[i][k] = kept_share(d->s[i], x[k]);
    }
    series[i] = (attend_plot_series){study_format(r, "σ=%.3g", d->s[i]), CURVE, x, y[i],
                                     .dashed = i >= keep};
  }
  for (int k = 0; k < 2; k++)
    series[lines + (size_t)k] =
        (attend_plot_series){.count = 2, .x = ends, .y = level[k], .faint = 1, .colour = 8};
  series[lines + 2] = (attend_plot_series){
      .count = 2, .x = band, .y = none, .low = floor, .high = top, .colour = 3};
  attend_plot_mark marks[] = {{low, study_format(r, "λ = %.3g", low)},
                              {high, study_format(r, "λ = %.3g", high)}};
  const char *title = study_format(
      r, "Share of a direction that Ŵ keeps: at least %g (full lines), at most %g (dashed)",
      level[0][0], level[1][0]);
  attend_plot_panel panel =
      study_marked(study_lines(title, study_log("λ"), study_range("σ²/(σ²+λ)", 0, 1),
                               lines + (low <= high ? 3 : 2), series),
                   2, marks);
  return study_plot(r, "purification-kept", 1, &panel);
}

static attend_status range(study_run *r, const data *d) {
  const size_t keep = (size_t)study_count(r, "keep");
  const double max = study_number(r, "most"), min = study_number(r, "least");
  double low, high;
  TRY(passes(r, d, keep, min, &low));
  TRY(passes(r, d, keep - 1, max, &high));
  TRY(study_heading(r, "Which λ purifies"));
  TRY(study_say(
      r,
      "Let the first %zu singular values be signal, of which at least %g shall be left, and the "
      "others noise, of which at most %g may be left. The weakest signal, σ = %g, sets the largest "
      "λ: $λ ≤ σ²(1−%g)/%g$. The strongest noise, σ = %g, sets the least: $λ ≥ σ²(1−%g)/%g$. Both "
      "ends are also found by bisection, with the singular values of Ŵ itself.",
      keep, max, min, d->s[keep - 1], max, max, d->s[keep], min, min));
  TRY(table_range(r, d, low, high));
  TRY(claim_range(r, d, low, high));
  TRY(plot_range(r, d, low, high));
  if (low > high)
    return study_say(
        r, "No λ does both: the noise asks for %.4g or more, the signal for %.4g or less.", low,
        high);
  return study_say(r,
                   "So any λ with %.4g ≤ λ ≤ %.4g does it. It works because the shares fall with "
                   "σ²: λ lies between the squares of what is kept and of what is dropped.",
                   low, high);
}

/* ---- three solutions ------------------------------------------------------- */

/* Three solutions for the same W: singular values, normal equations, and a linear layer
 * that learns.
 *
 * Document student 1(b).
 */

enum { MOST_SEEN = 40 };

/* ---- by equations --------------------------------------------------------------- */

/* W = X X^T (X X^T + lambda I)^-1 by elimination: row by row W A = X X^T, and A
 * is symmetric and positive, so no pivots are needed. */
static attend_status normal_equations(study_run *r, const data *d, double lambda, double *w) {
  const size_t m = d->m;
  double *a = NULL;
  TAKE(r, &a, m * m);
  for (size_t i = 0; i < m * m; i++) {
    for (size_t t = 0; t < d->n; t++) a[i] += d->x[i / m * d->n + t] * d->x[i % m * d->n + t];
    w[i] = a[i];
    if (i % (m + 1) == 0) a[i] += lambda;
  }
  for (size_t k = 0; k < m; k++)
    for (size_t i = 0; i < m; i++) {
      double f = i == k ? 0 : a[i * m + k] / a[k * m + k];
      for (size_t j = 0; f != 0 && j < m; j++) {
        a[i * m + j] -= f * a[k * m + j];
        w[i * m + j] -= f * w[k * m + j];
      }
    }
  for (size_t i = 0; i < m * m; i++) w[i] /= a[i / m * (m + 1)];
  return ATTEND_OK; /* A^-1 X X^T, which is the same: both commute */
}

/* ---- by learning ---------------------------------------------------------------- */

/* |W_t - W|: each direction comes nearer by 1 - 2 eta (sigma^2 + lambda) a step,
 * with eta = 1 / 2(sigma_1^2 + lambda). */
static double predicted_distance(const data *d, double lambda, double step) {
  double sum = 0, steep = d->s[0] * d->s[0] + lambda;
  for (size_t i = 0; i < d->m; i++) {
    double left = 1 - (d->s[i] * d->s[i] + lambda) / steep;
    double e = kept_share(d->s[i], lambda) * (step > 0 ? pow(left, step) : 1);
    sum += e * e;
  }
  return sqrt(sum);
}

/* A linear layer that learns to give back its input, with weight decay. */
typedef struct {
  int m, n, ld;
  float *x, *y, *w, *dw; /* x, y [n][ld]; w, dw [m][m] */
  void *work;
  attend_linear *layer;
} trained_layer;

static attend_status layer_create(study_run *r, const data *d, trained_layer *l) {
  *l = (trained_layer){.m = (int)d->m, .n = (int)d->n, .ld = study_padded((int)d->m)};
  TAKE(r, &l->x, d->n * (size_t)l->ld);
  TAKE(r, &l->y, d->n * (size_t)l->ld);
  TAKE(r, &l->w, d->m * d->m);
  TAKE(r, &l->dw, d->m * d->m);
  TRY(study_take(r, attend_linear_weight_grad_bytes(r->ctx, l->n, l->m, l->m), 1, &l->work));
  for (size_t i = 0; i < d->m; i++)
    for (size_t t = 0; t < d->n; t++) l->x[t * (size_t)l->ld + i] = (float)d->x[i * d->n + t];
  return study_linear(r, l->m, l->m, l->w, &l->layer);
}

static attend_status train_step(study_run *r, trained_layer *l, double eta, double lambda) {
  attend_linear_forward(l->layer, l->n, l->x, l->ld, l->y, l->ld);
  for (int i = 0; i < l->n * l->ld; i++) l->y[i] -= l->x[i];
  attend_linear_weight_grad(r->ctx, ATTEND_WEIGHTS_F32, l->n, l->m, l->m, l->y, l->ld, l->x, l->ld,
                            0, 0, l->dw, l->m, NULL, l->work);
  for (int i = 0; i < l->m * l->m; i++)
    l->w[i] -= (float)(2 * eta * ((double)l->dw[i] + lambda * (double)l->w[i]));
  const attend_linear_part part = {.weight = l->w, .outputs = l->m};
  return attend_linear_repack(l->layer, 1, &part);
}

static double distance(const float *a, const double *b, size_t n) {
  double sum = 0;
  for (size_t i = 0; i < n; i++) sum += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
  return sqrt(sum);
}

typedef struct {
  size_t count;
  double step[MOST_SEEN], measured[MOST_SEEN], predicted[MOST_SEEN];
} descent;

/* Looks at the distance at steps 1, 2, 3, 5, 7 .. and at the last one. */
static attend_status descend(study_run *r, const data *d, const double *w, double lambda,
                             trained_layer *l, descent *out) {
  const double eta = 0.5 / (d->s[0] * d->s[0] + lambda);
  const int steps = study_count(r, "steps");
  double next = 1;
  for (int i = 1; i <= steps; i++) {
    TRY(train_step(r, l, eta, lambda));
    if ((i < next && i < steps) || out->count == MOST_SEEN) continue;
    size_t k = out->count++;
    out->step[k] = i;
    out->measured[k] = distance(l->w, w, d->m * d->m);
    out->predicted[k] = predicted_distance(d, lambda, i);
    while (next <= i) next = ceil(next * 1.4);
    TRY(study_step(r, 0.5 * i / steps));
  }
  return ATTEND_OK;
}

/* ---- side by side ---------------------------------------------------------------- */

static const attend_study_column solutions_columns[] = {
    {"lambda", "λ", NUMBER},           {"equations", "normal equations: largest difference", SMALL},
    {"steps", "steps", COUNT},         {"distance", "gradient descent: ‖Wₜ − Ŵ‖", SMALL},
    {"predicted", "predicted", SMALL}, {0}};

static attend_status three_solutions(study_run *r, const data *d, double lambda, table_store *t,
                                     descent *out) {
  double *w = NULL, *other = NULL, max = 0;
  trained_layer l;
  TAKE(r, &w, d->m * d->m);
  TAKE(r, &other, d->m * d->m);
  purify_closed(d->m, d->u, d->s, lambda, w);
  TRY(normal_equations(r, d, lambda, other));
  for (size_t i = 0; i < d->m * d->m; i++) max = fmax(max, fabs(w[i] - other[i]));
  TRY(layer_create(r, d, &l));
  TRY(descend(r, d, w, lambda, &l, out));
  const size_t last = out->count - 1;
  TRY(study_row(t, lambda, max, out->step[last], out->measured[last], out->predicted[last]));
  TRY(study_claim(r, max, 0, 1e-8, "equations-%g: largest difference of both formulas, λ = %g",
                  lambda, lambda));
  return study_claim(r, out->measured[last], out->predicted[last], 1e-4,
                     "descent-%g: ‖Wₜ − Ŵ‖ of gradient descent in f32, λ = %g", lambda, lambda);
}

static attend_status plot_descent(study_run *r, const double *lambda, size_t n,
                                  const descent *seen) {
  attend_plot_series series[2 * MOST_LAMBDAS];
  for (size_t i = 0; i < n; i++) {
    const descent *s = &seen[i];
    series[2 * i] = (attend_plot_series){study_format(r, "λ = %g", lambda[i]), s->count, s->step,
                                         s->measured, .points = 2};
    series[2 * i + 1] = (attend_plot_series){NULL, s->count, s->step, s->predicted, .faint = 1};
    series[2 * i].colour = series[2 * i + 1].colour = (int)i + 1;
  }
  attend_plot_panel panel = study_lines(
      "Gradient descent: marks measured in f32, lines predicted", study_log("step"),
      (attend_plot_axis){.label = "‖Wₜ − Ŵ‖", .log = 1, .low = 1e-8, .high = 10}, 2 * n, series);
  return study_plot(r, "purification-descent", 1, &panel);
}

static attend_status purify_solutions(study_run *r, const data *d) {
  size_t n;
  const double *lambda = study_list(r, "lambda", &n);
  descent seen[MOST_LAMBDAS] = {0};
  table_store *t;
  TRY(study_heading(r, "The best W"));
  TRY(study_say(r,
                "Setting the gradient to zero gives $Ŵ = XXᵀ (XXᵀ + λI)⁻¹$, and with $X = UΣVᵀ$ "
                "that is $Ŵ = U diag(σ²/(σ²+λ)) Uᵀ$: along each singular direction W keeps a "
                "share. Training gets there too: a linear layer that learns by gradient descent to "
                "give back its input, with weight decay λ. From W = 0 with step η = 1/2(σ₁²+λ), "
                "what a direction still lacks shrinks by 1 − (σ²+λ)/(σ₁²+λ) in every step."));
  TRY(study_table(r, &t, "solutions", solutions_columns, "Three solutions, X %zu × %zu", d->m,
                  d->n));
  for (size_t i = 0; i < n; i++) TRY(three_solutions(r, d, lambda[i], t, &seen[i]));
  TRY(plot_descent(r, lambda, n, seen));
  return study_say(
      r,
      "The slowest direction is the one with the least σ: it comes nearer by a share of about "
      "λ/σ₁² in a step. A larger λ shrinks more, and is learnt sooner. The layer computes in f32: "
      "its distance stops falling where rounding is all that is left.");
}

/* ---- a picture ------------------------------------------------------------- */

/* A picture with noise on it, purified: its columns are the samples.
 *
 * A word in letters of 5 by 7 dots has few kinds of rows, and so a low rank; the
 * noise has all directions. W is found from the noisy picture alone.
 */

enum { LETTERS = 6, DOTS = 5, HEIGHT = 7, LAMBDAS = 33, NOISE = 3 };

/* F I L T E R, the first dot of a row in bit 4. */
static const unsigned char word[LETTERS][HEIGHT] = {
    {31, 16, 16, 30, 16, 16, 16}, {31, 4, 4, 4, 4, 4, 31},      {16, 16, 16, 16, 16, 16, 31},
    {31, 4, 4, 4, 4, 4, 4},       {31, 16, 16, 30, 16, 16, 31}, {30, 17, 17, 30, 18, 18, 17}};

/* Pictures [m][n]; w [m][m]; tall pictures are upright, m their height. */
typedef struct {
  size_t m, n;
  double noise;
  double *clean, *noisy, *pure;
  double *u, *s;   /* of the noisy one */
  double *cu, *cs; /* of the clean one */
  double *w;
} picture;

static double dot_at(size_t row, size_t column) {
  if (row < 1 || row > HEIGHT || column < 1) return 0;
  size_t letter = (column - 1) / (DOTS + 1), dot = (column - 1) % (DOTS + 1);
  if (letter >= LETTERS || dot >= DOTS) return 0;
  return word[letter][row - 1] >> (DOTS - 1 - dot) & 1;
}

static attend_status make_picture(study_run *r, picture *g) {
  const size_t tall = (size_t)study_count(r, "tall"), wide = (size_t)study_count(r, "wide");
  float *noise;
  g->m = (HEIGHT + 2) * tall;
  g->n = (LETTERS * (DOTS + 1) + 1) * wide;
  g->noise = study_number(r, "noise");
  const size_t cells = g->m * g->n;
  double **all[] = {&g->clean, &g->noisy, &g->pure};
  double **squares[] = {&g->u, &g->cu, &g->w};
  for (int i = 0; i < 3; i++) {
    TAKE(r, all[i], cells);
    TAKE(r, squares[i], g->m * g->m);
  }
  TAKE(r, &g->s, g->m);
  TAKE(r, &g->cs, g->m);
  TRY(study_draw(r, NOISE, cells, &noise));
  for (size_t i = 0; i < cells; i++) {
    g->clean[i] = dot_at(i / g->n / tall, i % g->n / wide);
    g->noisy[i] = g->clean[i] + g->noise * (double)noise[i];
  }
  TRY(study_svd(r, g->m, g->n, g->noisy, g->u, g->s));
  return study_svd(r, g->m, g->n, g->clean, g->cu, g->cs);
}

/* ---- purifying ------------------------------------------------------------------- */

static double error_of(const picture *g, const double *cells) {
  double sum = 0;
  for (size_t i = 0; i < g->m * g->n; i++)
    sum += (cells[i] - g->clean[i]) * (cells[i] - g->clean[i]);
  return sqrt(sum / (double)(g->m * g->n));
}

/* W as a linear layer, over the columns of the noisy picture. */
static attend_status purify(study_run *r, picture *g, double lambda) {
  const int m = (int)g->m, n = (int)g->n, ld = study_padded(m);
  float *w = NULL, *x = NULL, *y = NULL;
  attend_linear *layer;
  TAKE(r, &w, g->m * g->m);
  TAKE(r, &x, (size_t)(n * ld));
  TAKE(r, &y, (size_t)(n * ld));
  purify_closed(g->m, g->u, g->s, lambda, g->w);
  for (int i = 0; i < m * m; i++) w[i] = (float)g->w[i];
  for (int i = 0; i < m * n; i++) x[i % n * ld + i / n] = (float)g->noisy[i];
  TRY(study_linear(r, m, m, w, &layer));
  attend_linear_forward(layer, n, x, ld, y, ld);
  for (int i = 0; i < m * n; i++) g->pure[i] = (double)y[i % n * ld + i / n];
  return ATTEND_OK;
}

/* If W came from the expected X X^T + n noise^2 I: what it takes from the signal
 * and what it leaves of the noise, direction by direction. */
static double predicted(const picture *g, double lambda) {
  const double n = (double)g->n, power = n * g->noise * g->noise;
  double sum = 0;
  for (size_t i = 0; i < g->m; i++) {
    double signal = g->cs[i] * g->cs[i];
    double kept = (signal + power) / (signal + power + lambda);
    sum += (1 - kept) * (1 - kept) * signal + kept * kept * power;
  }
  return sqrt(sum / ((double)g->m * n));
}

/* ---- report ------------------------------------------------------------------ */

typedef struct {
  double lambda[LAMBDAS], error[LAMBDAS], predicted[LAMBDAS];
  int best;
} sweep;

static attend_status sweep_of(study_run *r, picture *g, sweep *s) {
  const double centre = (double)g->n * g->noise * g->noise;
  s->best = 0;
  for (int i = 0; i < LAMBDAS; i++) {
    s->lambda[i] = centre * pow(10, -2 + 4.0 * i / (LAMBDAS - 1));
    TRY(purify(r, g, s->lambda[i]));
    s->error[i] = error_of(g, g->pure);
    s->predicted[i] = predicted(g, s->lambda[i]);
    if (s->error[i] < s->error[s->best]) s->best = i;
    TRY(study_step(r, 0.6 + 0.4 * i / LAMBDAS));
  }
  return ATTEND_OK;
}

static attend_status plot_error(study_run *r, const picture *g, const sweep *s) {
  double noise[LAMBDAS];
  for (int i = 0; i < LAMBDAS; i++) noise[i] = error_of(g, g->noisy);
  attend_plot_series series[] = {
      {"purified", LAMBDAS, s->lambda, s->error, .points = 2, .colour = 1},
      {"predicted", LAMBDAS, s->lambda, s->predicted, .colour = 2},
      {"noisy", LAMBDAS, s->lambda, noise, .dashed = 1, .colour = 3}};
  attend_plot_mark mark = {s->lambda[s->best],
                           study_format(r, "best: λ = %.3g", s->lambda[s->best])};
  attend_plot_panel panel =
      study_marked(study_lines("Error of the purified picture", study_log("λ"),
                               study_zero("rms error"), 3, series),
                   1, &mark);
  return study_plot(r, "purification-error", 1, &panel);
}

enum { SHOWN = 5 };

static attend_plot_panel panel_of(const picture *g, const char *title, const double *cells) {
  return study_heat(title, NULL, NULL, g->m, g->n, cells, study_range(NULL, -0.5, 1.5));
}

/* Clean, noisy, and purified with too little, with the best and too much. */
static attend_status plot_pictures(study_run *r, picture *g, const sweep *s) {
  const int ends[] = {s->best / 2, s->best, (s->best + LAMBDAS - 1) / 2};
  static const char *const kinds[] = {"too little", "best", "too much"};
  attend_plot_panel panels[SHOWN];
  panels[0] = panel_of(g, "clean", g->clean);
  panels[1] = panel_of(g, study_format(r, "noisy: error %.3g", error_of(g, g->noisy)), g->noisy);
  for (int i = 0; i < 3; i++) {
    double *copy = NULL;
    TAKE(r, &copy, g->m * g->n);
    TRY(purify(r, g, s->lambda[ends[i]]));
    memcpy(copy, g->pure, g->m * g->n * sizeof *copy);
    panels[2 + i] = panel_of(g,
                             study_format(r, "λ = %.3g, %s: error %.3g", s->lambda[ends[i]],
                                          kinds[i], error_of(g, copy)),
                             copy);
  }
  return study_figure(r, "purification-picture",
                      &(attend_plot){.count = SHOWN, .height = 130, .panels = panels});
}

static const attend_study_column picture_columns[] = {
    {"lambda", "λ", NUMBER},
    {"error", "rms error", NUMBER},
    {"predicted", "predicted", NUMBER},
    {"left", "directions of which half is left", COUNT},
    {0}};

static attend_status table_of(study_run *r, const picture *g, const sweep *s) {
  table_store *t;
  TRY(study_table(r, &t, "picture", picture_columns, "The picture, purified with several λ"));
  for (int i = 0; i < LAMBDAS; i += 4) {
    int left = 0;
    for (size_t k = 0; k < g->m; k++) left += kept_share(g->s[k], s->lambda[i]) >= 0.5;
    TRY(study_row(t, s->lambda[i], s->error[i], s->predicted[i], (double)left));
  }
  return ATTEND_OK;
}

static attend_status claim_noise(study_run *r, const picture *g) {
  const size_t cells = g->m * g->n;
  double *square = NULL;
  TAKE(r, &square, cells);
  for (size_t i = 0; i < cells; i++) square[i] = pow(g->noisy[i] - g->clean[i], 2);
  study_moments m = study_moments_of(square, cells);
  return study_estimate(r, m.mean, g->noise * g->noise, m.mean_error,
                        "noise: mean square error of the noisy picture");
}

static int rank_of(const picture *g) {
  int rank = 0;
  for (size_t i = 0; i < g->m; i++) rank += g->cs[i] > 1e-9 * g->cs[0];
  return rank;
}

static attend_status purify_picture(study_run *r) {
  picture g;
  sweep s;
  TRY(make_picture(r, &g));
  TRY(study_heading(r, "A picture"));
  TRY(study_say(r,
                "The word is a picture of %zu × %zu cells with rank %d. Normal noise of standard "
                "deviation %g is added to every cell. The columns are the samples, and W comes "
                "from the noisy picture alone: nobody shows it a clean one.",
                g.m, g.n, rank_of(&g), g.noise));
  TRY(sweep_of(r, &g, &s));
  TRY(plot_pictures(r, &g, &s));
  TRY(table_of(r, &g, &s));
  TRY(claim_noise(r, &g));
  TRY(plot_error(r, &g, &s));
  return study_say(
      r,
      "With λ = %.3g the error falls from %.3g to %.3g. Noise of n samples adds n times its "
      "variance, here %.3g, to every σ²: a λ below that keeps the noise, and one near the σ² of "
      "the signal takes the word away with it. The line is what a W from the expected XXᵀ would "
      "do; the measured W has also fitted itself to this noise.",
      s.lambda[s.best], error_of(&g, g.noisy), s.error[s.best], (double)g.n * g.noise * g.noise);
}

static attend_status run(study_run *r) {
  data d;
  TRY(draw(r, &d));
  TRY(candidates(r));
  TRY(purify_solutions(r, &d));
  TRY(range(r, &d));
  return purify_picture(r);
}

const study_topic study_purification = {
    {.name = "purification",
     .title = "Purifying data by what it has in common",
     .question =
         "Which W rebuilds the data as WX while it is kept small, and what does it leave out?",
     .answers = "student 1(a)-(c)",
     .settings = settings},
    run};
