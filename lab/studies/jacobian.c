/* The Jacobian of the softmax, diag(a) - a a^T: its norm over the scale of the
 * scores and over d, the documents' bound, and the gradients that reach q and k.
 */
#include "studies/study.h"

enum { JACOBIAN_LIST = 24 }; /* numbers in a setting */

/* ‖diag(a) − a aᵀ‖ of weights a, and how far the largest is from 1. Sums leave
 * the largest out: what is left of 1 beside it would be rounding. */
typedef struct {
  double norm, epsilon;
} row_facts;

enum { SHOWN_QUERY = 11, SHOWN_KEY, SHOWN = 12, SHOWN_WIDTH = 64 };

static const attend_setting settings[] = {
    {"d", "4,16,64,256,1024", "4,16,64", "widths of q and k", WHOLE, JACOBIAN_LIST, 2, 16384},
    {"spread", "0.125,0.25,0.5,1,2,4,8,16,32,64", "0.25,1,8,32",
     "standard deviations of the scores, by the scale", REAL, JACOBIAN_LIST, 1e-3, 1e3},
    {"width", "64", NULL, "d where the scale varies", WHOLE, 1, 2, 16384},
    {"keys", "64", "16", "keys of a query", WHOLE, 1, 2, 4096},
    {"tables", "40", "8", "sets of keys that are drawn", WHOLE, 1, 1, 10000},
    {"queries", "50", "25", "queries of a set", WHOLE, 1, 1, 10000},
    {0}};

/* ---- one row ------------------------------------------------------------------------- */

static row_facts jacobian_row(const float *a, size_t n) {
  const size_t top = study_top(a, n);
  double epsilon = 0, squares = 0, fourth = 0, own = 0;
  for (size_t j = 0; j < n; j++) {
    if (j == top) continue;
    double x = (double)a[j], y = x * x;
    epsilon += x;
    squares += y;
    fourth += y * y;
    own += y * (1 - x) * (1 - x);
  }
  const double m = 1 - epsilon;
  return (row_facts){
      sqrt(m * m * epsilon * epsilon + own + 2 * m * m * squares + squares * squares - fourth),
      epsilon};
}

/* ---- the Jacobian itself --------------------------------------------------------------- */

/* Of n queries [n][d] and keys: weights, and jacobian [n][n] by the library. With values
 * that are unit vectors the output is a itself, and the gradient of a bias is that of the
 * scores. Row i of n equal queries yields the gradient of a_i. */
static attend_status differentiate(study_run *r, int n, int d, float scale, const float *q,
                                   const float *k, study_pass *p) {
  const size_t rows = (size_t)n, square = rows * rows;
  float *unit = NULL, *bias = NULL;
  *p = (study_pass){.q = q, .k = k};
  TAKE(r, &unit, square);
  TAKE(r, &bias, square);
  TAKE(r, &p->o, square);
  TAKE(r, &p->weights, square);
  TAKE(r, &p->dv, square);
  TAKE(r, &p->dbias, square);
  TAKE(r, &p->dq, rows * (size_t)d);
  TAKE(r, &p->dk, rows * (size_t)d);
  TAKE(r, &p->lse, rows);
  for (size_t i = 0; i < rows; i++) unit[i * (rows + 1)] = 1;
  p->v = p->d_o = unit;
  const attend_desc desc = {ATTEND_INIT(attend_desc),
                            .q_len = n,
                            .kv_len = n,
                            .dim = d,
                            .dim_v = n,
                            .scale = scale,
                            .bias = {.kind = ATTEND_DENSE, .dense = attend_bhtd(bias)}};
  return study_attend(r, &desc, p);
}

static attend_status claim_jacobian(study_run *r, const char *name, const study_pass *p) {
  const float *a = p->weights;
  const double norm = jacobian_row(a, SHOWN).norm;
  double max = 0, square = 0;
  for (int i = 0; i < SHOWN * SHOWN; i++) {
    const double x = (double)a[i / SHOWN], y = (double)a[i % SHOWN];
    const double formula = (i / SHOWN == i % SHOWN ? x : 0) - x * y;
    max = fmax(max, fabs((double)p->dbias[i] - formula));
    square += (double)p->dbias[i] * (double)p->dbias[i];
  }
  TRY(study_claim(r, max, 0, 1e-6, "jacobian-%s: ∂a/∂s by backward − (diag(a) − a aᵀ), %s", name,
                  name));
  return study_claim(r, square, norm * norm, 1e-6,
                     "norm-%s: ‖∂a/∂s‖² = Σ aᵢ²(1−aᵢ)² + 2 Σ aᵢ²aⱼ², %s", name, name);
}

static attend_status show_jacobian(study_run *r) {
  static const char *const names[] = {"scaled", "plain"};
  float q[SHOWN * SHOWN_WIDTH], k[SHOWN * SHOWN_WIDTH];
  attend_plot_panel panels[2];
  for (int i = 0; i < SHOWN; i++) study_normal(r, SHOWN_QUERY, 0, SHOWN_WIDTH, q + i * SHOWN_WIDTH);
  study_normal(r, SHOWN_KEY, 0, SHOWN * SHOWN_WIDTH, k);
  for (int plain = 0; plain < 2; plain++) {
    study_pass p;
    double *cells;
    TRY(differentiate(r, SHOWN, SHOWN_WIDTH, plain ? 1 : 0, q, k, &p));
    TRY(claim_jacobian(r, names[plain], &p));
    TRY(study_doubles(r, p.dbias, SHOWN * SHOWN, &cells));
    const char *title = study_format(r, "%s, norm %.3f", plain ? "q·k" : "q·k / √d",
                                     jacobian_row(p.weights, SHOWN).norm);
    panels[plain] = study_heat(title, "score of key", "weight of key", SHOWN, SHOWN, cells,
                               study_range(NULL, -0.25, 0.25));
  }
  return study_plot(r, "jacobian-matrix", 2, panels);
}

/* ---- the largest it can be -------------------------------------------------------------- */

static attend_status show_largest(study_run *r) {
  const struct {
    const char *name, *text;
    int keys;    /* that share the weight .. */
    float score; /* .. and theirs; the others have -50 */
    double norm;
  } rows[] = {
      {"norm-even", "equal weights on 12 keys: √(n−1)/n", SHOWN, 0, sqrt(SHOWN - 1) / SHOWN},
      {"norm-two", "equal weights on two keys: ½", 2, 50, 0.5},
      {"norm-one", "all weight on one key: 0", 1, 50, 0}};
  for (int i = 0; i < 3; i++) {
    float q[SHOWN], k[SHOWN];
    study_pass p;
    for (int j = 0; j < SHOWN; j++) q[j] = 1, k[j] = j < rows[i].keys ? rows[i].score : -50;
    TRY(differentiate(r, SHOWN, 1, 1, q, k, &p));
    TRY(study_claim(r, study_norm(p.dbias, SHOWN * SHOWN), rows[i].norm, 1e-6, "%s: %s",
                    rows[i].name, rows[i].text));
  }
  return study_say(
      r,
      "How large can the norm be? With p₂ = Σ aᵢ² and p₃ = Σ aᵢ³ it is ‖J‖² = p₂ − 2p₃ + p₂². "
      "Since p₂² ≤ p₃, ‖J‖² ≤ p₂ (1 − p₂) ≤ ¼: never above ½, and ½ only where two keys share all "
      "the weight. Equal weights on n keys give √(n−1)/n, one key that has everything gives 0. So "
      "a softmax learns most while it hesitates between two keys; it learns slowly where it sees "
      "no difference yet, and not at all where it is sure.");
}

static attend_status introduce(study_run *r) {
  return study_say(r,
                   "Let a = softmax(s). A gradient on its way to q and k passes through the "
                   "Jacobian ∂a/∂s = diag(a) − a aᵀ. Here it is what `attend_backward` gives: "
                   "values that are unit vectors make the output a itself, and the gradient of a "
                   "bias is that of the scores. The pictures show it for one random query and %d "
                   "keys at d = %d, once with scores q·k / √d and once with q·k. From the formula "
                   "it differs by rounding. Which of the two norms is larger depends on the query.",
                   SHOWN, SHOWN_WIDTH);
}

/* ---- many random rows ------------------------------------------------------ */

/* The norm of the softmax's Jacobian over many random rows, against the scale of
 * the scores and against d; the bounds on it, and the gradients of q and k.
 *
 * Document worksheet 1(a).
 *
 * Where the scores spread far, a row's norm matters only if its two best scores
 * are near each other. With a gap g between them it is 2p(1-p), p = 1/(1+e^-g),
 * whose integral over g >= 0 is 1: the mean tends to the density of the gap at 0,
 * which for n normal scores of deviation s is n(n-1) ∫ φ² Φ^(n-2) / s.
 */

enum { INPUTS = 1, VALUE_WIDTH = 16 }; /* INPUTS: the first of four streams */

typedef struct {
  attend_desc desc; /* of all tables */
  size_t rows, keys;
  study_pass pass;
} sample;

static attend_status take_sample(study_run *r, int d, sample *c) {
  c->desc = (attend_desc){ATTEND_INIT(attend_desc),
                          .batch = study_count(r, "tables"),
                          .q_len = study_count(r, "queries"),
                          .kv_len = study_count(r, "keys"),
                          .dim = d,
                          .dim_v = VALUE_WIDTH};
  c->rows = (size_t)c->desc.batch * (size_t)c->desc.q_len;
  c->keys = (size_t)c->desc.kv_len;
  return study_tensors(r, &c->desc, INPUTS, STUDY_WEIGHTS | STUDY_GRADIENTS, &c->pass);
}

/* Over all rows of a sample. */
typedef struct {
  double mean, median, low, high;                 /* of the norm; low, high: a tenth beyond */
  double epsilon;                                 /* median */
  double sure;                                    /* share of rows whose largest is above 0.99 */
  double above_document, above_trace, above_half; /* rows beyond a bound */
} sample_facts;

static attend_status measure(study_run *r, sample *c, double scale, sample_facts *f) {
  const size_t rows = c->rows;
  const double capacity = 1 + 1e-9, n = (double)c->keys;
  double *norms = NULL, *epsilons = NULL;
  c->desc.scale = (float)scale;
  TRY(study_attend(r, &c->desc, &c->pass));
  TAKE(r, &norms, rows);
  TAKE(r, &epsilons, rows);
  *f = (sample_facts){0};
  for (size_t i = 0; i < rows; i++) {
    row_facts x = jacobian_row(c->pass.weights + i * c->keys, c->keys);
    norms[i] = x.norm;
    epsilons[i] = x.epsilon;
    f->mean += x.norm / (double)rows;
    f->sure += (x.epsilon < 0.01) / (double)rows;
    f->above_document += x.norm > n * x.epsilon * capacity;
    f->above_trace += x.norm > 2 * x.epsilon * capacity;
    f->above_half += x.norm > 0.5 * capacity;
  }
  f->median = study_quantile(norms, rows, 0.5);
  f->low = study_quantile(norms, rows, 0.1);
  f->high = study_quantile(norms, rows, 0.9);
  f->epsilon = study_quantile(epsilons, rows, 0.5);
  return ATTEND_OK;
}

static attend_status claim_bounds(study_run *r, const char *where, const sample_facts *f) {
  TRY(study_claim(r, f->above_document, 0, 0, "bound-%s: rows with ‖J‖ > n ε, %s", where, where));
  TRY(study_claim(r, f->above_trace, 0, 0, "trace-%s: rows with ‖J‖ > 2 ε, %s", where, where));
  return study_claim(r, f->above_half, 0, 0, "half-%s: rows with ‖J‖ > ½, %s", where, where);
}

/* ---- against the scale ---------------------------------------------------------------------- */

/* Density at 0 of the gap between the two largest of n standard normals:
 * n (n-1) ∫ φ² Φ^(n-2). */
static double gap_density(int n) {
  enum { STEPS = 4000 };
  const double reach = 12, h = 2 * reach / STEPS;
  double sum = 0;
  for (int i = 0; i <= STEPS; i++) {
    double x = -reach + h * i, below = 0.5 * erfc(-x * M_SQRT1_2);
    sum += exp(-x * x) / (2 * M_PI) * pow(below, n - 2);
  }
  return n * (n - 1.0) * sum * h;
}

/* E[1/‖q‖] of d standard normals. */
static double inverse_length(double d) {
  return exp(lgamma((d - 1) / 2) - lgamma(d / 2)) * M_SQRT1_2;
}

static const attend_study_column scale_columns[] = {{"spread", "deviation of scores", NUMBER},
                                                    {"scale", "scale", NUMBER},
                                                    {"mean", "mean of ‖J‖", NUMBER},
                                                    {"limit", "its limit", NUMBER},
                                                    {"median", "median", NUMBER},
                                                    {"trace", "median of 2 ε", NUMBER},
                                                    {"document", "median of n ε", NUMBER},
                                                    {"sure", "rows with a weight > 0.99", NUMBER},
                                                    {0}};

static attend_status plot_scale(study_run *r, size_t n, const double *x, const double *low,
                                const double *high, const table_store *t) {
  attend_plot_series series[] = {
      {"median, and a tenth beyond", n, x, study_column(t, "median"), low, high, .points = 1},
      {"mean", n, x, study_column(t, "mean"), .points = 2},
      {"limit of the mean", n, x, study_column(t, "limit"), .dashed = 1, .colour = 5},
      {"2 ε", n, x, study_column(t, "trace"), .colour = 3},
      {"n ε", n, x, study_column(t, "document"), .dashed = 1, .colour = 4}};
  attend_plot_mark marks[] = {{1, "1/√d"}, {sqrt((double)study_count(r, "width")), "no scale"}};
  attend_plot_panel panel = study_lines(
      study_format(r, "Norm of the Jacobian, d = %d", study_count(r, "width")),
      study_log("standard deviation of the scores"),
      (attend_plot_axis){"‖diag(a) − a aᵀ‖", .log = 1, .low = 1e-6, .high = 100}, 5, series);
  panel = study_marked(panel, 2, marks);
  return study_plot(r, "jacobian-scale", 1, &panel);
}

static attend_status introduce_scale(study_run *r) {
  TRY(study_heading(r, "Against the scale"));
  return study_say(
      r,
      "The worksheet bounds the norm: where the largest weight is above 1 − ε, ‖J‖² < n² ε². With "
      "the smallest such ε, 1 − the largest weight, no row of any table here breaks that. The n is "
      "not needed: J has no negative eigenvalue, so ‖J‖ ≤ tr J = 1 − Σ aᵢ² ≤ 1 − (1 − ε)² ≤ 2 ε, "
      "for any number of keys. The table has %d random queries in each line; the scale sets how "
      "far their scores spread, from 1 at 1/√d to √d at no scale.",
      study_count(r, "tables") * study_count(r, "queries"));
}

static attend_status conclude_scale(study_run *r) {
  return study_say(
      r,
      "Scores that hardly differ have the norm of equal weights, √(n−1)/n = %.4f. At the other end "
      "the median row dies out exponentially, but the mean falls like 1/deviation only: however "
      "far scores spread, in some rows the two best lie side by side, and there the norm is up to "
      "½. The mean tends to how often that happens, n(n−1) ∫ φ² Φⁿ⁻² dx = %.4f over the deviation "
      "of a row's scores: the dashed line.",
      sqrt(study_number(r, "keys") - 1) / study_number(r, "keys"),
      gap_density(study_count(r, "keys")));
}

static attend_status jacobian_over_scales(study_run *r) {
  size_t n;
  const double *spread = study_list(r, "spread", &n);
  const int d = study_count(r, "width"), keys = study_count(r, "keys");
  const double root = sqrt((double)d), far = gap_density(keys) * inverse_length(d);
  double low[JACOBIAN_LIST], high[JACOBIAN_LIST];
  sample c;
  table_store *t;
  TRY(introduce_scale(r));
  TRY(take_sample(r, d, &c));
  TRY(study_table(r, &t, "scale", scale_columns, "Scale from soft to hard, %d keys, d = %d", keys,
                  d));
  for (size_t i = 0; i < n; i++) {
    sample_facts f;
    TRY(measure(r, &c, spread[i] / root, &f));
    low[i] = f.low, high[i] = f.high;
    TRY(study_row(t, spread[i], spread[i] / root, f.mean, far * root / spread[i], f.median,
                  2 * f.epsilon, keys * f.epsilon, f.sure));
    TRY(claim_bounds(r, study_format(r, "spread%g", spread[i]), &f));
    TRY(study_step(r, 0.5 * (double)(i + 1) / (double)n));
  }
  TRY(plot_scale(r, n, spread, low, high, t));
  return conclude_scale(r);
}

/* ---- against d --------------------------------------------------------------------------------- */

typedef struct {
  double median, mean;
} middle;

static attend_status lengths(study_run *r, const float *x, size_t rows, size_t d, middle *m) {
  double *list = NULL;
  TAKE(r, &list, rows);
  for (size_t i = 0; i < rows; i++) list[i] = study_norm(x + i * d, d);
  m->mean = 0;
  for (size_t i = 0; i < rows; i++) m->mean += list[i] / (double)rows;
  m->median = study_quantile(list, rows, 0.5);
  return ATTEND_OK;
}

/* Of query i of the first table: dq[d] = scale Σⱼ (J g)ⱼ kⱼ with g = V dO. */
static void chain(const sample *c, size_t i, double scale, double *g, double *dq) {
  const float *a = c->pass.weights + i * c->keys, *d_o = c->pass.d_o + i * VALUE_WIDTH;
  const size_t d = (size_t)c->desc.dim;
  double mean = 0;
  for (size_t j = 0; j < c->keys; j++) {
    g[j] = 0;
    for (size_t e = 0; e < VALUE_WIDTH; e++)
      g[j] += (double)d_o[e] * (double)c->pass.v[j * VALUE_WIDTH + e];
    mean += (double)a[j] * g[j];
  }
  memset(dq, 0, d * sizeof *dq);
  for (size_t j = 0; j < c->keys; j++)
    for (size_t e = 0; e < d; e++)
      dq[e] += scale * (double)a[j] * (g[j] - mean) * (double)c->pass.k[j * d + e];
}

static attend_status claim_chain(study_run *r, const sample *c, double scale) {
  const size_t d = (size_t)c->desc.dim, queries = (size_t)c->desc.q_len;
  double *g = NULL, *dq = NULL;
  TAKE(r, &g, c->keys);
  TAKE(r, &dq, queries * d);
  for (size_t i = 0; i < queries; i++) chain(c, i, scale, g, dq + i * d);
  return study_claim(r, study_relative_gap(c->pass.dq, dq, queries * d), 0, 1e-4,
                     "chain-d%zu-%s: dq − scale Σ (J V dO)ⱼ kⱼ, over the largest, d = %zu%s", d,
                     scale < 1 ? "scaled" : "plain", d, scale < 1 ? ", 1/√d" : "");
}

static const attend_study_column width_columns[] = {{"d", "d", COUNT},
                                                    {"scale", "scale", TEXT},
                                                    {"mean", "mean of ‖J‖", NUMBER},
                                                    {"median", "median", NUMBER},
                                                    {"sure", "rows with a weight > 0.99", NUMBER},
                                                    {"dq_mean", "mean of ‖dq‖", NUMBER},
                                                    {"dq_median", "median", NUMBER},
                                                    {"dk_mean", "mean of ‖dk‖", NUMBER},
                                                    {"dk_median", "median", NUMBER},
                                                    {0}};

static attend_status one_width(study_run *r, table_store *t, sample *c, bool plain) {
  const size_t d = (size_t)c->desc.dim, all = (size_t)c->desc.batch * c->keys;
  const double scale = plain ? 1 : 1 / sqrt((double)d);
  sample_facts f;
  middle dq, dk;
  TRY(measure(r, c, scale, &f));
  TRY(lengths(r, c->pass.dq, c->rows, d, &dq));
  TRY(lengths(r, c->pass.dk, all, d, &dk));
  TRY(study_row(t, (double)d, plain ? "1" : "1/√d", f.mean, f.median, f.sure, dq.mean, dq.median,
                dk.mean, dk.median));
  TRY(claim_bounds(r, study_format(r, "d%zu-%s", d, plain ? "plain" : "scaled"), &f));
  return claim_chain(r, c, scale);
}

/* Rows of the table: with and without a scale by turns. */
static const double *scaled(const table_store *t, const char *name) {
  return study_column_part(t, name, 0, 2);
}

static const double *plain(const table_store *t, const char *name) {
  return study_column_part(t, name, 1, 2);
}

static attend_status plot_width(study_run *r, size_t n, const double *d, const table_store *t) {
  double limit[JACOBIAN_LIST];
  for (size_t i = 0; i < n; i++)
    limit[i] = gap_density(study_count(r, "keys")) * inverse_length(d[i]);
  attend_plot_series a[] = {
      {"q·k, median", n, d, plain(t, "median"), .points = 1},
      {"q·k, mean", n, d, plain(t, "mean"), .points = 2},
      {"its limit", n, d, limit, .colour = 5},
      {"q·k / √d, median", n, d, scaled(t, "median"), .points = 1, .dashed = 1, .colour = 3}};
  attend_plot_series b[] = {
      {"q·k, median", n, d, plain(t, "dq_median"), .points = 1},
      {"q·k, mean", n, d, plain(t, "dq_mean"), .points = 2},
      {"q·k / √d, median", n, d, scaled(t, "dq_median"), .points = 1, .dashed = 1, .colour = 3},
      {"q·k / √d, mean", n, d, scaled(t, "dq_mean"), .points = 2, .colour = 4}};
  attend_plot_panel panels[] = {
      study_lines("Norm of the Jacobian", study_log("d"), study_log("‖diag(a) − a aᵀ‖"), 4, a),
      study_lines("Gradient that reaches q", study_log("d"), study_log("‖dq‖"), 4, b)};
  return study_plot(r, "jacobian-width", 2, panels);
}

static attend_status introduce_width(study_run *r) {
  TRY(study_heading(r, "Against d"));
  return study_say(r,
                   "Without a scale the scores spread like √d. The gradient of q is scale Σⱼ (J "
                   "g)ⱼ kⱼ with gⱼ = dO·vⱼ, which is checked against `attend_backward` here; dO "
                   "and V are standard normal, V of width %d.",
                   VALUE_WIDTH);
}

static attend_status conclude_width(study_run *r, double d, size_t i, const table_store *t) {
  return study_say(
      r,
      "With 1/√d the same share of a gradient passes at every width. Without it the document's "
      "claim holds of the typical row: at d = %g the median of ‖J‖ is %.3g, against %.3g with "
      "1/√d. Its mean is %.3g, near the limit that falls like 1/√d, because near ties remain. And "
      "since ‖kⱼ‖ grows like √d, these few make up for it in q: the mean of ‖dq‖ is %.3g without "
      "and %.3g with the scale, the medians are %.3g and %.3g. So the gradient does not vanish "
      "from the sum; it comes in rare, large pieces, while most queries learn nothing from a step.",
      d, study_value(t, 2 * i + 1, "median"), study_value(t, 2 * i, "median"),
      study_value(t, 2 * i + 1, "mean"), study_value(t, 2 * i + 1, "dq_mean"),
      study_value(t, 2 * i, "dq_mean"), study_value(t, 2 * i + 1, "dq_median"),
      study_value(t, 2 * i, "dq_median"));
}

static attend_status jacobian_over_widths(study_run *r) {
  size_t n;
  const double *d = study_list(r, "d", &n);
  table_store *t;
  TRY(introduce_width(r));
  TRY(study_table(r, &t, "width", width_columns, "d from narrow to wide, %d keys",
                  study_count(r, "keys")));
  for (size_t i = 0; i < n; i++) {
    sample c;
    TRY(take_sample(r, (int)d[i], &c));
    for (int plain = 0; plain < 2; plain++) TRY(one_width(r, t, &c, plain));
    TRY(study_step(r, 0.5 + 0.5 * (double)(i + 1) / (double)n));
  }
  TRY(plot_width(r, n, d, t));
  return conclude_width(r, d[n - 1], n - 1, t);
}

static attend_status run(study_run *r) {
  TRY(introduce(r));
  TRY(show_jacobian(r));
  TRY(show_largest(r));
  TRY(jacobian_over_scales(r));
  return jacobian_over_widths(r);
}

const study_topic study_jacobian = {
    {.name = "jacobian",
     .title = "The Jacobian of the softmax",
     .question = "How much of a gradient does a softmax let through, and what does 1/√d do for it?",
     .answers = "worksheet 1(a)",
     .settings = settings},
    run};
