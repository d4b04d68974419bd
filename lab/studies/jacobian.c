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
    {"d", "4,16,64,256,1024", "4,16,64", "widths of q and k", ATTEND_SETTING_WHOLE, JACOBIAN_LIST,
     2, 16384},
    {"spread", "0.125,0.25,0.5,1,2,4,8,16,32,64", "0.25,1,8,32",
     "standard deviations of the scores, by the scale", ATTEND_SETTING_NUMBERS, JACOBIAN_LIST, 1e-3,
     1e3},
    {"width", "64", NULL, "d where the scale varies", ATTEND_SETTING_WHOLE, 1, 2, 16384},
    {"keys", "64", "16", "keys of a query", ATTEND_SETTING_WHOLE, 1, 2, 4096},
    {"tables", "40", "8", "sets of keys that are drawn", ATTEND_SETTING_WHOLE, 1, 1, 10000},
    {"queries", "50", "25", "queries of a set", ATTEND_SETTING_WHOLE, 1, 1, 10000},
    {0}};

/* ---- one row ------------------------------------------------------------------------- */

static row_facts jacobian_row(const float *a, int n) {
  int top = 0;
  double epsilon = 0, squares = 0, fourth = 0, own = 0;
  for (int j = 1; j < n; j++)
    if (a[j] > a[top]) top = j;
  for (int j = 0; j < n; j++) {
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

typedef struct {
  float *q, *k, *v, *bias, *o, *lse, *weights, *d_o, *dq, *dk, *dv, *jacobian;
} sheet;

static attend_status take_sheet(study_run *r, size_t n, size_t d, sheet *s) {
  float **const square[] = {&s->v, &s->bias, &s->o, &s->weights, &s->d_o, &s->dv, &s->jacobian};
  float **const wide[] = {&s->q, &s->k, &s->dq, &s->dk};
  for (size_t i = 0; i < sizeof square / sizeof *square; i++) TAKE(r, square[i], n * n);
  for (size_t i = 0; i < sizeof wide / sizeof *wide; i++) TAKE(r, wide[i], n * d);
  TAKE(r, &s->lse, n);
  return ATTEND_OK;
}

/* jacobian [n][n] by the library: with values that are unit vectors the output
 * is a itself, and the gradient of a bias is that of the scores. Row i of n
 * equal queries yields the gradient of a_i. */
static attend_status differentiate(study_run *r, int n, int d, float scale, const sheet *s) {
  attend_desc desc = {ATTEND_INIT(attend_desc),
                      .q_len = n,
                      .kv_len = n,
                      .dim = d,
                      .dim_v = n,
                      .scale = scale,
                      .bias = {.kind = ATTEND_DENSE, .dense = attend_bhtd(s->bias)}};
  for (int i = 0; i < n; i++) s->v[i * n + i] = s->d_o[i * n + i] = 1;
  return study_attend(r, &desc,
                      &(study_pass){.q = s->q,
                                    .k = s->k,
                                    .v = s->v,
                                    .o = s->o,
                                    .lse = s->lse,
                                    .weights = s->weights,
                                    .d_o = s->d_o,
                                    .dq = s->dq,
                                    .dk = s->dk,
                                    .dv = s->dv,
                                    .dbias = s->jacobian});
}

static attend_status claim_jacobian(study_run *r, const char *name, const sheet *s, int n) {
  double most = 0, square = 0;
  for (int i = 0; i < n * n; i++) {
    double a = (double)s->weights[i / n], b = (double)s->weights[i % n], x = (double)s->jacobian[i];
    double off = fabs(x - ((i / n == i % n ? a : 0) - a * b));
    if (off > most) most = off;
    square += x * x;
  }
  row_facts f = jacobian_row(s->weights, n);
  TRY(study_claim(r, study_format(r, "jacobian-%s", name),
                  study_format(r, "∂a/∂s by backward − (diag(a) − a aᵀ), %s", name), most, 0,
                  1e-6));
  return study_claim(r, study_format(r, "norm-%s", name),
                     study_format(r, "‖∂a/∂s‖² = Σ aᵢ²(1−aᵢ)² + 2 Σ aᵢ²aⱼ², %s", name), square,
                     f.norm * f.norm, 1e-6);
}

static attend_status show_jacobian(study_run *r) {
  static const char *const names[] = {"scaled", "plain"};
  const char *titles[2];
  double cells[2][SHOWN * SHOWN];
  attend_plot_panel panels[2];
  for (int plain = 0; plain < 2; plain++) {
    sheet s;
    TRY(take_sheet(r, SHOWN, SHOWN_WIDTH, &s));
    for (size_t i = 0; i < SHOWN; i++)
      study_normal(r, SHOWN_QUERY, 0, SHOWN_WIDTH, s.q + i * SHOWN_WIDTH);
    study_normal(r, SHOWN_KEY, 0, (size_t)SHOWN * SHOWN_WIDTH, s.k);
    TRY(differentiate(r, SHOWN, SHOWN_WIDTH, plain ? 1 : 0, &s));
    TRY(claim_jacobian(r, names[plain], &s, SHOWN));
    for (int i = 0; i < SHOWN * SHOWN; i++) cells[plain][i] = (double)s.jacobian[i];
    titles[plain] = study_format(r, "%s, norm %.3f", plain ? "q·k" : "q·k / √d",
                                 jacobian_row(s.weights, SHOWN).norm);
    panels[plain] = (attend_plot_panel){.kind = ATTEND_PLOT_HEAT,
                                        .title = titles[plain],
                                        .x = {.label = "score of key"},
                                        .y = {.label = "weight of key"},
                                        .columns = SHOWN,
                                        .rows = SHOWN,
                                        .cells = cells[plain],
                                        .z = {.low = -0.25, .high = 0.25},
                                        .diverging = 1};
  }
  return study_figure(r, "jacobian-matrix",
                      &(attend_plot){.count = 2, .across = 2, .panels = panels});
}

/* ---- the largest it can be -------------------------------------------------------------- */

/* Weights of one query whose scores are these. */
static attend_status claim_row(study_run *r, const char *name, const char *text,
                               const float *scores, int n, double expected) {
  sheet s;
  TRY(take_sheet(r, (size_t)n, 1, &s));
  for (int i = 0; i < n; i++) s.q[i] = 1, s.k[i] = scores[i];
  TRY(differentiate(r, n, 1, 1, &s));
  double square = 0;
  for (int i = 0; i < n * n; i++) square += (double)s.jacobian[i] * (double)s.jacobian[i];
  return study_claim(r, name, text, sqrt(square), expected, 1e-6);
}

static attend_status show_largest(study_run *r) {
  float even[SHOWN] = {0}, two[SHOWN], one[SHOWN];
  for (int i = 0; i < SHOWN; i++) two[i] = i < 2 ? 50 : -50;
  for (int i = 0; i < SHOWN; i++) one[i] = i < 1 ? 50 : -50;
  TRY(claim_row(r, "norm-even", "equal weights on 12 keys: √(n−1)/n", even, SHOWN,
                sqrt(SHOWN - 1) / SHOWN));
  TRY(claim_row(r, "norm-two", "equal weights on two keys: ½", two, SHOWN, 0.5));
  TRY(claim_row(r, "norm-one", "all weight on one key: 0", one, SHOWN, 0));
  return study_say(r,
                   "How large can the norm be? With p₂ = Σ aᵢ² and p₃ = Σ aᵢ³ it is "
                   "‖J‖² = p₂ − 2p₃ + p₂². Since p₂² ≤ p₃, ‖J‖² ≤ p₂ (1 − p₂) ≤ ¼: never "
                   "above ½, and ½ only where two keys share all the weight. Equal weights "
                   "on n keys give √(n−1)/n, one key that has everything gives 0. So a "
                   "softmax learns most while it hesitates between two keys; it learns "
                   "slowly where it sees no difference yet, and not at all where it is "
                   "sure.");
}

static attend_status introduce(study_run *r) {
  return study_say(r,
                   "Let a = softmax(s). A gradient on its way to q and k passes through the "
                   "Jacobian ∂a/∂s = diag(a) − a aᵀ. Here it is what `attend_backward` "
                   "gives: values that are unit vectors make the output a itself, and the "
                   "gradient of a bias is that of the scores. The pictures show it for one "
                   "random query and %d keys at d = %d, once with scores q·k / √d and once "
                   "with q·k. From the formula it differs by rounding. Which of the two "
                   "norms is larger depends on the query.",
                   SHOWN, SHOWN_WIDTH);
}

/* ---- many random rows ------------------------------------------------------ */

/* The norm of the softmax's Jacobian over many random rows, against the scale of
 * the scores and against d; the bounds on it, and the gradients of q and k.
 *
 * Document 004 1(a).
 *
 * Where the scores spread far, a row's norm matters only if its two best scores
 * are near each other. With a gap g between them it is 2p(1-p), p = 1/(1+e^-g),
 * whose integral over g >= 0 is 1: the mean tends to the density of the gap at 0,
 * which for n normal scores of deviation s is n(n-1) ∫ φ² Φ^(n-2) / s.
 */

enum { QUERY = 1, KEY, VALUE, OUTPUT, VALUE_WIDTH = 16 };

/* ---- many rows ---------------------------------------------------------------------------- */

typedef struct {
  int tables, queries, keys, d;
  float *q, *k, *v, *d_o;
  float *o, *lse, *weights, *dq, *dk, *dv;
} sample;

static attend_status take_crowd(study_run *r, int d, sample *c) {
  *c = (sample){.tables = study_count(r, "tables"),
                .queries = study_count(r, "queries"),
                .keys = study_count(r, "keys"),
                .d = d};
  const size_t rows = (size_t)c->tables * (size_t)c->queries,
               all = (size_t)c->tables * (size_t)c->keys, w = (size_t)d;
  TAKE(r, &c->q, rows * w);
  TAKE(r, &c->dq, rows * w);
  TAKE(r, &c->k, all * w);
  TAKE(r, &c->dk, all * w);
  TAKE(r, &c->v, all * VALUE_WIDTH);
  TAKE(r, &c->dv, all * VALUE_WIDTH);
  TAKE(r, &c->o, rows * VALUE_WIDTH);
  TAKE(r, &c->d_o, rows * VALUE_WIDTH);
  TAKE(r, &c->lse, rows);
  TAKE(r, &c->weights, rows * (size_t)c->keys);
  study_normal(r, QUERY, 0, rows * w, c->q);
  study_normal(r, KEY, 0, all * w, c->k);
  study_normal(r, VALUE, 0, all * VALUE_WIDTH, c->v);
  study_normal(r, OUTPUT, 0, rows * VALUE_WIDTH, c->d_o);
  return ATTEND_OK;
}

static attend_status attend_crowd(study_run *r, const sample *c, double scale) {
  attend_desc desc = {ATTEND_INIT(attend_desc), .batch = c->tables, .q_len = c->queries,
                      .kv_len = c->keys,        .dim = c->d,        .dim_v = VALUE_WIDTH,
                      .scale = (float)scale};
  return study_attend(
      r, &desc,
      &(study_pass){c->q, c->k, c->v, c->o, c->lse, c->weights, c->d_o, c->dq, c->dk, c->dv, NULL});
}

/* Over all rows of a sample. */
typedef struct {
  double mean, median, low, high;                 /* of the norm; low, high: a tenth beyond */
  double epsilon;                                 /* median */
  double sure;                                    /* share of rows whose largest is above 0.99 */
  double above_document, above_trace, above_half; /* rows beyond a bound */
} crowd_facts;

static void count_above(crowd_facts *f, row_facts x, int n) {
  const double room = 1 + 1e-9;
  f->above_document += x.norm > n * x.epsilon * room;
  f->above_trace += x.norm > 2 * x.epsilon * room;
  f->above_half += x.norm > 0.5 * room;
}

static attend_status measure(study_run *r, const sample *c, crowd_facts *f) {
  const size_t rows = (size_t)c->tables * (size_t)c->queries;
  double *norms = NULL, *epsilons = NULL;
  TAKE(r, &norms, rows);
  TAKE(r, &epsilons, rows);
  *f = (crowd_facts){0};
  for (size_t i = 0; i < rows; i++) {
    row_facts x = jacobian_row(c->weights + i * (size_t)c->keys, c->keys);
    norms[i] = x.norm;
    epsilons[i] = x.epsilon;
    f->mean += x.norm / (double)rows;
    f->sure += (x.epsilon < 0.01) / (double)rows;
    count_above(f, x, c->keys);
  }
  f->median = study_quantile(norms, rows, 0.5);
  f->low = study_quantile(norms, rows, 0.1);
  f->high = study_quantile(norms, rows, 0.9);
  f->epsilon = study_quantile(epsilons, rows, 0.5);
  return ATTEND_OK;
}

static attend_status claim_bounds(study_run *r, const char *where, const crowd_facts *f) {
  TRY(study_claim(r, study_format(r, "bound-%s", where),
                  study_format(r, "rows with ‖J‖ > n ε, %s", where), f->above_document, 0, 0));
  TRY(study_claim(r, study_format(r, "trace-%s", where),
                  study_format(r, "rows with ‖J‖ > 2 ε, %s", where), f->above_trace, 0, 0));
  return study_claim(r, study_format(r, "half-%s", where),
                     study_format(r, "rows with ‖J‖ > ½, %s", where), f->above_half, 0, 0);
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

static const attend_study_column scale_columns[] = {
    {"spread", "deviation of scores", ATTEND_CELL_NUMBER},
    {"scale", "scale", ATTEND_CELL_NUMBER},
    {"mean", "mean of ‖J‖", ATTEND_CELL_NUMBER},
    {"limit", "its limit", ATTEND_CELL_NUMBER},
    {"median", "median", ATTEND_CELL_NUMBER},
    {"trace", "median of 2 ε", ATTEND_CELL_NUMBER},
    {"document", "median of n ε", ATTEND_CELL_NUMBER},
    {"sure", "rows with a weight > 0.99", ATTEND_CELL_NUMBER},
    {0}};

typedef struct {
  double mean[JACOBIAN_LIST], limit[JACOBIAN_LIST], median[JACOBIAN_LIST], low[JACOBIAN_LIST],
      high[JACOBIAN_LIST], trace[JACOBIAN_LIST], document[JACOBIAN_LIST];
} scale_lines;

static attend_status plot_scale(study_run *r, size_t n, const double *x, const scale_lines *l) {
  attend_plot_series series[] = {
      {.name = "median, and a tenth beyond",
       .count = n,
       .x = x,
       .y = l->median,
       .low = l->low,
       .high = l->high,
       .points = 1},
      {.name = "mean", .count = n, .x = x, .y = l->mean, .points = 2},
      {.name = "limit of the mean", .count = n, .x = x, .y = l->limit, .dashed = 1, .colour = 5},
      {.name = "2 ε", .count = n, .x = x, .y = l->trace, .colour = 3},
      {.name = "n ε", .count = n, .x = x, .y = l->document, .dashed = 1, .colour = 4}};
  attend_plot_mark marks[] = {{1, "1/√d"}, {sqrt((double)study_count(r, "width")), "no scale"}};
  attend_plot_panel panel = {
      .title = study_format(r, "Norm of the Jacobian, d = %d", study_count(r, "width")),
      .x = {.label = "standard deviation of the scores", .log = 1},
      .y = {.label = "‖diag(a) − a aᵀ‖", .log = 1, .low = 1e-6, .high = 100},
      .key = ATTEND_KEY_ABOVE,
      .count = sizeof series / sizeof *series,
      .series = series,
      .marks = 2,
      .mark = marks};
  return study_figure(r, "jacobian-scale", &(attend_plot){.count = 1, .panels = &panel});
}

static attend_status introduce_scale(study_run *r) {
  TRY(study_heading(r, "Against the scale"));
  return study_say(r,
                   "Document 004 bounds the norm: where the largest weight is above 1 − ε, "
                   "‖J‖² < n² ε². With the smallest such ε, 1 − the largest weight, no row "
                   "of any table here breaks that. The n is not needed: J has no negative "
                   "eigenvalue, so ‖J‖ ≤ tr J = 1 − Σ aᵢ² ≤ 1 − (1 − ε)² ≤ 2 ε, for any "
                   "number of keys. The table has %d random queries in each line; the scale "
                   "sets how far their scores spread, from 1 at 1/√d to √d at no scale.",
                   study_count(r, "tables") * study_count(r, "queries"));
}

static attend_status conclude_scale(study_run *r) {
  return study_say(r,
                   "Scores that hardly differ have the norm of equal weights, √(n−1)/n = "
                   "%.4f. At the other end the median row dies out exponentially, but the "
                   "mean falls like 1/deviation only: however far scores spread, in some "
                   "rows the two best lie side by side, and there the norm is up to ½. The "
                   "mean tends to how often that happens, n(n−1) ∫ φ² Φⁿ⁻² dx = %.4f over "
                   "the deviation of a row's scores: the dashed line.",
                   sqrt(study_number(r, "keys") - 1) / study_number(r, "keys"),
                   gap_density(study_count(r, "keys")));
}

static attend_status jacobian_over_scales(study_run *r) {
  size_t n;
  const double *spread = study_list(r, "spread", &n);
  const int d = study_count(r, "width"), keys = study_count(r, "keys");
  const double root = sqrt((double)d), far = gap_density(keys) * inverse_length(d);
  scale_lines *l = NULL;
  sample c;
  table_store *t;
  TAKE(r, &l, 1);
  TRY(introduce_scale(r));
  TRY(take_crowd(r, d, &c));
  TRY(study_table(r, "scale", study_format(r, "Scale from soft to hard, %d keys, d = %d", keys, d),
                  scale_columns, &t));
  for (size_t i = 0; i < n; i++) {
    crowd_facts f;
    TRY(attend_crowd(r, &c, spread[i] / root));
    TRY(measure(r, &c, &f));
    l->mean[i] = f.mean, l->median[i] = f.median;
    l->low[i] = f.low, l->high[i] = f.high;
    l->limit[i] = far * root / spread[i];
    l->trace[i] = 2 * f.epsilon, l->document[i] = keys * f.epsilon;
    TRY(study_row(t, 8, spread[i], spread[i] / root, f.mean, l->limit[i], f.median, l->trace[i],
                  l->document[i], f.sure));
    TRY(claim_bounds(r, study_format(r, "spread%g", spread[i]), &f));
    TRY(study_step(r, 0.5 * (double)(i + 1) / (double)n));
  }
  TRY(plot_scale(r, n, spread, l));
  return conclude_scale(r);
}

/* ---- against d --------------------------------------------------------------------------------- */

typedef struct {
  double median, mean;
} middle;

static attend_status lengths(study_run *r, const float *x, size_t rows, size_t d, middle *m) {
  double *list = NULL;
  TAKE(r, &list, rows);
  m->mean = 0;
  for (size_t i = 0; i < rows; i++) {
    double sum = 0;
    for (size_t j = 0; j < d; j++) sum += (double)x[i * d + j] * (double)x[i * d + j];
    list[i] = sqrt(sum);
    m->mean += list[i] / (double)rows;
  }
  m->median = study_quantile(list, rows, 0.5);
  return ATTEND_OK;
}

/* Of query i of the first table: dq[d] = scale Σⱼ (J g)ⱼ kⱼ with g = V dO. */
static void chain(const sample *c, int i, double scale, double *g, double *dq) {
  const float *a = c->weights + (size_t)i * (size_t)c->keys,
              *d_o = c->d_o + (size_t)i * VALUE_WIDTH;
  double mean = 0;
  for (int j = 0; j < c->keys; j++) {
    g[j] = 0;
    for (int e = 0; e < VALUE_WIDTH; e++)
      g[j] += (double)d_o[e] * (double)c->v[j * VALUE_WIDTH + e];
    mean += (double)a[j] * g[j];
  }
  for (int e = 0; e < c->d; e++) dq[e] = 0;
  for (int j = 0; j < c->keys; j++)
    for (int e = 0; e < c->d; e++)
      dq[e] +=
          scale * (double)a[j] * (g[j] - mean) * (double)c->k[(size_t)j * (size_t)c->d + (size_t)e];
}

static attend_status claim_chain(study_run *r, const sample *c, double scale) {
  double *g = NULL, *dq = NULL, most = 0, off = 0;
  TAKE(r, &g, (size_t)c->keys);
  TAKE(r, &dq, (size_t)c->d);
  for (int i = 0; i < c->queries; i++) {
    chain(c, i, scale, g, dq);
    for (int e = 0; e < c->d; e++) {
      double x = (double)c->dq[(size_t)i * (size_t)c->d + (size_t)e];
      if (fabs(dq[e]) > most) most = fabs(dq[e]);
      if (fabs(x - dq[e]) > off) off = fabs(x - dq[e]);
    }
  }
  return study_claim(r, study_format(r, "chain-d%d-%s", c->d, scale < 1 ? "scaled" : "plain"),
                     study_format(r, "dq − scale Σ (J V dO)ⱼ kⱼ, over the largest, d = %d%s", c->d,
                                  scale < 1 ? ", 1/√d" : ""),
                     most > 0 ? off / most : off, 0, 1e-4);
}

static const attend_study_column width_columns[] = {
    {"d", "d", ATTEND_CELL_COUNT},
    {"scale", "scale", ATTEND_CELL_TEXT},
    {"mean", "mean of ‖J‖", ATTEND_CELL_NUMBER},
    {"median", "median", ATTEND_CELL_NUMBER},
    {"sure", "rows with a weight > 0.99", ATTEND_CELL_NUMBER},
    {"dq_mean", "mean of ‖dq‖", ATTEND_CELL_NUMBER},
    {"dq_median", "median", ATTEND_CELL_NUMBER},
    {"dk_mean", "mean of ‖dk‖", ATTEND_CELL_NUMBER},
    {"dk_median", "median", ATTEND_CELL_NUMBER},
    {0}};

/* [0]: with 1/√d, [1]: without. */
typedef struct {
  double median[2][JACOBIAN_LIST], mean[2][JACOBIAN_LIST], limit[JACOBIAN_LIST],
      dq[2][JACOBIAN_LIST], dq_mean[2][JACOBIAN_LIST], dk[2][JACOBIAN_LIST],
      dk_mean[2][JACOBIAN_LIST];
} width_lines;

static attend_status one_width(study_run *r, table_store *t, const sample *c, int plain, size_t i,
                               width_lines *l) {
  const size_t rows = (size_t)c->tables * (size_t)c->queries,
               all = (size_t)c->tables * (size_t)c->keys, d = (size_t)c->d;
  const double scale = plain ? 1 : 1 / sqrt((double)c->d);
  crowd_facts f;
  middle dq, dk;
  TRY(attend_crowd(r, c, scale));
  TRY(measure(r, c, &f));
  TRY(lengths(r, c->dq, rows, d, &dq));
  TRY(lengths(r, c->dk, all, d, &dk));
  l->median[plain][i] = f.median, l->mean[plain][i] = f.mean;
  l->dq[plain][i] = dq.median, l->dq_mean[plain][i] = dq.mean;
  l->dk[plain][i] = dk.median, l->dk_mean[plain][i] = dk.mean;
  l->limit[i] = gap_density(c->keys) * inverse_length(c->d);
  TRY(study_cell(t, c->d));
  TRY(study_word(t, "%s", plain ? "1" : "1/√d"));
  TRY(study_row(t, 7, f.mean, f.median, f.sure, dq.mean, dq.median, dk.mean, dk.median));
  TRY(claim_bounds(r, study_format(r, "d%d-%s", c->d, plain ? "plain" : "scaled"), &f));
  return claim_chain(r, c, scale);
}

static attend_status plot_width(study_run *r, size_t n, const double *x, const width_lines *l) {
  attend_plot_series a[] = {
      {.name = "q·k, median", .count = n, .x = x, .y = l->median[1], .points = 1},
      {.name = "q·k, mean", .count = n, .x = x, .y = l->mean[1], .points = 2},
      {.name = "its limit", .count = n, .x = x, .y = l->limit, .colour = 5},
      {.name = "q·k / √d, median",
       .count = n,
       .x = x,
       .y = l->median[0],
       .points = 1,
       .dashed = 1,
       .colour = 3}};
  attend_plot_series b[] = {
      {.name = "q·k, median", .count = n, .x = x, .y = l->dq[1], .points = 1},
      {.name = "q·k, mean", .count = n, .x = x, .y = l->dq_mean[1], .points = 2},
      {.name = "q·k / √d, median",
       .count = n,
       .x = x,
       .y = l->dq[0],
       .points = 1,
       .dashed = 1,
       .colour = 3},
      {.name = "q·k / √d, mean", .count = n, .x = x, .y = l->dq_mean[0], .points = 2, .colour = 4}};
  attend_plot_panel panels[] = {{.title = "Norm of the Jacobian",
                                 .x = {.label = "d", .log = 1},
                                 .y = {.label = "‖diag(a) − a aᵀ‖", .log = 1},
                                 .key = ATTEND_KEY_ABOVE,
                                 .count = sizeof a / sizeof *a,
                                 .series = a},
                                {.title = "Gradient that reaches q",
                                 .x = {.label = "d", .log = 1},
                                 .y = {.label = "‖dq‖", .log = 1},
                                 .key = ATTEND_KEY_ABOVE,
                                 .count = sizeof b / sizeof *b,
                                 .series = b}};
  return study_figure(r, "jacobian-width",
                      &(attend_plot){.count = 2, .across = 2, .panels = panels});
}

static attend_status introduce_width(study_run *r) {
  TRY(study_heading(r, "Against d"));
  return study_say(r,
                   "Without a scale the scores spread like √d. The gradient of q is "
                   "scale Σⱼ (J g)ⱼ kⱼ with gⱼ = dO·vⱼ, which is checked against "
                   "`attend_backward` here; dO and V are standard normal, V of width %d.",
                   VALUE_WIDTH);
}

static attend_status conclude_width(study_run *r, double d, size_t i, const width_lines *l) {
  return study_say(r,
                   "With 1/√d the same share of a gradient passes at every width. Without "
                   "it "
                   "the document's claim holds of the typical row: at d = %g the median of "
                   "‖J‖ is %.3g, against %.3g with 1/√d. Its mean is %.3g, near the limit "
                   "that falls like 1/√d, because near ties remain. And since ‖kⱼ‖ grows "
                   "like √d, these few make up for it in q: the mean of ‖dq‖ is %.3g "
                   "without and %.3g with the scale, the medians are %.3g and %.3g. So the "
                   "gradient does not vanish from the sum; it comes in rare, large pieces, "
                   "while most queries learn nothing from a step.",
                   d, l->median[1][i], l->median[0][i], l->mean[1][i], l->dq_mean[1][i],
                   l->dq_mean[0][i], l->dq[1][i], l->dq[0][i]);
}

static attend_status jacobian_over_widths(study_run *r) {
  size_t n;
  const double *d = study_list(r, "d", &n);
  width_lines *l = NULL;
  table_store *t;
  TAKE(r, &l, 1);
  TRY(introduce_width(r));
  TRY(study_table(r, "width",
                  study_format(r, "d from narrow to wide, %d keys", study_count(r, "keys")),
                  width_columns, &t));
  for (size_t i = 0; i < n; i++) {
    sample c;
    TRY(take_crowd(r, (int)d[i], &c));
    for (int plain = 0; plain < 2; plain++) TRY(one_width(r, t, &c, plain, i, l));
    TRY(study_step(r, 0.5 + 0.5 * (double)(i + 1) / (double)n));
  }
  TRY(plot_width(r, n, d, l));
  return conclude_width(r, d[n - 1], n - 1, l);
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
     .question = "How much of a gradient does a softmax let through, and what "
                 "does 1/√d do for it?",
     .answers = "004 1(a)",
     .settings = settings},
    run};
