/* Softmax by random features: how wrong the output is, over the number of
 * features, the width, and the scale of q and k.
 *
 * Documents Spring 2023 3(a), Fall 2022 3(a), student 6(a).
 */
#include "attend/problem.h"
#include "studies/study.h"

enum { APPROX_VALUES = 16 }; /* width of v */

/* Features with the variance that the documents print. */
typedef struct {
  const float *w; /* [directions][dim], N(0, sigma^2 I) */
  double sigma2;
} approx_printed;

enum { QUERY = 410, MOST = 12 };

static const attend_setting settings[] = {
    WORKED_SETTINGS,
    {"d", "16", NULL, "width of q and k for pairs, and over the features", WHOLE, 1, 2, 512},
    {"distances", "0.25,0.5,0.7,1,1.5,2", "0.25,0.5,1", "of q and k, in units of sigma", REAL, 8,
     0.01, 4},
    {"redraws", "8000", "1000", "draws of the directions for each pair", WHOLE, 1, 200, 1e6},
    {"features", "16,32,64,128,256,512,1024,2048", "64,128,256", "numbers of features", WHOLE, MOST,
     16, 65536},
    {"widths", "4,8,16,32,64,128", "4,16,64", "widths of q and k", WHOLE, MOST, 1, 512},
    {"rms", "0.125,0.18,0.25,0.35,0.5,0.71,1,1.4,2", "0.25,0.35,0.5",
     "root mean squares of q and k", REAL, MOST, 0.01, 8},
    {"count", "256", NULL, "features over widths and scales", WHOLE, 1, 16, 65536},
    {"width", "64", NULL, "width over scales", WHOLE, 1, 2, 512},
    {"queries", "64", "16", "rows of an attention", WHOLE, 1, 1, 4096},
    {"kv-len", "64", "16", "keys of an attention", WHOLE, 1, 2, 4096},
    {"seeds", "15", "8", "attentions, each with its own directions", WHOLE, 1, 2, 10000},
    {0}};

/* ---- one attention ------------------------------------------------------------------ */

typedef struct {
  attend_form_kind kind;
  attend_draw draw;
  int dim, features;
  double rms;
  bool wrong; /* with the variance that the documents print; no features: the
                 kernel that they estimate then */
} trial;

typedef struct {
  double median, low, high; /* 50, 10 and 90 percent of the seeds */
  double rms, rms_error;    /* over seeds; its relative standard error */
  double predicted;
  double row;            /* error of the median row of all seeds */
  double negative, weak; /* shares of rows */
} outcome;

static attend_desc desc_of(const study_run *r, const trial *t) {
  return (attend_desc){ATTEND_INIT(attend_desc),
                       .form = {.kind = t->kind, .features = t->features, .draw = t->draw},
                       .q_len = study_count(r, "queries"),
                       .kv_len = study_count(r, "kv-len"),
                       .dim = t->dim,
                       .dim_v = APPROX_VALUES};
}

/* Draws number `seed` of the inputs. */
static void draw(const study_run *r, const attend_desc *d, double rms, uint64_t seed,
                 const study_pass *p) {
  const size_t n[] = {(size_t)d->q_len * (size_t)d->dim, (size_t)d->kv_len * (size_t)d->dim,
                      (size_t)d->kv_len * APPROX_VALUES};
  float *const to[] = {(float *)p->q, (float *)p->k, (float *)p->v};
  for (int i = 0; i < 3; i++) {
    study_normal(r, QUERY + (uint64_t)i, seed * n[i], n[i], to[i]);
    for (size_t j = 0; i < 2 && j < n[i]; j++) to[i][j] *= (float)rms;
  }
}

/* Of a whole output, and of each of its rows. */
static double error_of(const float *o, const float *exact, int n, double *rows) {
  double gap = 0, size = 0;
  for (int i = 0; i < n; i++) {
    double row_gap = 0, row_size = 0;
    for (int m = i * APPROX_VALUES; m < (i + 1) * APPROX_VALUES; m++) {
      row_gap += pow((double)o[m] - (double)exact[m], 2);
      row_size += pow((double)exact[m], 2);
    }
    rows[i] = sqrt(row_gap / row_size);
    gap += row_gap;
    size += row_size;
  }
  return sqrt(gap / size);
}

/* ---- features as the documents print them ---------------------------------- */

/* Random features with the variance that the documents print, w ~ N(0, sigma^2 I)
 * with sigma^2 = sqrt(D), as a caller's own feature map.
 *
 * Documents Spring 2023 3(a)ii, Fall 2022 3(a)ii, student 6(a)ii. The variance
 * should be 1/sigma^2.
 */

enum { DIRECTIONS = 420 };

/* exp(|x|^2 / 2 sigma^2) [sin(w.x), cos(w.x)] / sqrt(directions) */
static void printed_phi(const float *x, int dim, int key, float *features, int count, void *user) {
  const approx_printed *p = user;
  double square = 0;
  (void)key;
  for (int k = 0; k < dim; k++) square += (double)x[k] * (double)x[k];
  double size = exp(square / (2 * p->sigma2)) / sqrt(count / 2.0);
  for (int i = 0; i < count / 2; i++) {
    double dot = 0;
    for (int k = 0; k < dim; k++) dot += (double)p->w[i * dim + k] * (double)x[k];
    features[i] = (float)(size * sin(dot));
    features[count / 2 + i] = (float)(size * cos(dot));
  }
}

/* What they are on average: exp(|q|^2 / 2 sigma^2) exp(|k|^2 / 2 sigma^2)
 * exp(-sigma^2 |q-k|^2 / 2). */
static double printed_sim(const double *q, const double *k, int dim, double *dq, double *dk,
                          void *user) {
  const approx_printed *p = user;
  double squares = 0, apart = 0;
  (void)dq, (void)dk;
  for (int i = 0; i < dim; i++) {
    squares += q[i] * q[i] + k[i] * k[i];
    apart += (q[i] - k[i]) * (q[i] - k[i]);
  }
  return exp(squares / (2 * p->sigma2) - p->sigma2 * apart / 2);
}

static attend_form approx_printed_form(study_run *r, int dim, int features, uint64_t seed, float *w,
                                       approx_printed *p) {
  const size_t n = (size_t)dim * (size_t)(features / 2);
  *p = (approx_printed){w, sqrt(dim)};
  if (!features) return (attend_form){.kind = ATTEND_CUSTOM, .sim = printed_sim, .user = p};
  study_normal(r, DIRECTIONS, seed * n, n, w);
  for (size_t i = 0; i < n; i++) w[i] *= (float)sqrt(p->sigma2);
  return (attend_form){
      .kind = ATTEND_CUSTOM, .phi = printed_phi, .features = features / 2 * 2, .user = p};
}

static attend_status measure(study_run *r, const trial *t, outcome *out) {
  const size_t seeds = (size_t)study_count(r, "seeds");
  attend_desc d = desc_of(r, t), softmax = d;
  const size_t n = (size_t)d.q_len;
  double *errors = NULL, *squares = NULL, *rows = NULL;
  float *w = NULL;
  study_pass x, exact;
  approx_printed p;
  attend_prediction prediction = {.error = NAN};
  softmax.form = (attend_form){.kind = ATTEND_SOFTMAX};
  if (!t->wrong) TRY(attend_predict_spread(r->ctx, &d, t->rms, 0.1, &prediction));
  *out = (outcome){.predicted = prediction.error};
  TAKE(r, &errors, seeds);
  TAKE(r, &squares, seeds);
  TAKE(r, &rows, seeds * n);
  if (t->wrong) TAKE(r, &w, (size_t)t->dim * (size_t)(t->features + 1));
  TRY(study_tensors(r, &d, QUERY, STUDY_OUTPUT, &x));
  exact = x;
  TAKE(r, &exact.o, n * APPROX_VALUES);
  for (uint64_t s = 0; s < seeds; s++) {
    draw(r, &d, t->rms, s, &x);
    d.form.seed = r->seed;
    d.form.redraw = s;
    if (t->wrong) d.form = approx_printed_form(r, t->dim, t->features, s, w, &p);
    TRY(study_attend(r, &softmax, &exact));
    TRY(study_attend(r, &d, &x));
    for (size_t i = 0; i < n && attend_form_signed(&d.form); i++) out->negative += x.lse[i] < 0;
    out->weak += (double)x.weak_rows;
    errors[s] = error_of(x.o, exact.o, d.q_len, rows + s * n);
    squares[s] = errors[s] * errors[s];
  }
  study_moments m = study_moments_of(squares, seeds);
  out->rms = sqrt(m.mean);
  out->rms_error = m.mean_error / (2 * m.mean);
  out->negative /= (double)seeds * d.q_len;
  out->weak /= (double)seeds * d.q_len;
  out->row = study_quantile(rows, seeds * n, 0.5);
  out->median = study_quantile(errors, seeds, 0.5);
  out->low = study_quantile(errors, seeds, 0.1);
  out->high = study_quantile(errors, seeds, 0.9);
  return ATTEND_OK;
}

/* Where the prediction is trusted (attend/problem.h) it is within a factor of 2,
 * and few seeds do not know how they scatter. */
static attend_status claim(study_run *r, const trial *t, const outcome *o) {
  if (t->wrong || !(o->predicted < 0.25) || study_count(r, "seeds") < 8) return ATTEND_OK;
  const char *name = t->kind == ATTEND_FAVOR ? "favor" : "fourier";
  const char *how = t->draw == ATTEND_IID ? "iid" : "orthogonal";
  return study_claim(
      r, log2(o->rms / o->predicted), 0, 1 + 6 * o->rms_error / log(2),
      "predicted-%s-%s-d%d-m%d-rms%.3g: log2(error / predicted), %s %s, D = %d, m = %d, rms %.3g",
      name, how, t->dim, t->features, t->rms, name, how, t->dim, t->features, t->rms);
}

/* ---- curves ------------------------------------------------------------------------------ */

typedef struct {
  const char *name;
  size_t n;
  double x[MOST], median[MOST], low[MOST], high[MOST], predicted[MOST];
} curve;

static attend_status add(study_run *r, curve *c, double x, const trial *t, outcome *o) {
  TRY(measure(r, t, o));
  TRY(claim(r, t, o));
  const size_t i = c->n++;
  c->x[i] = x;
  c->median[i] = o->median;
  c->low[i] = o->low;
  c->high[i] = o->high;
  c->predicted[i] = o->predicted;
  return ATTEND_OK;
}

/* Marks with bands for what was measured, lines for what was predicted. */
static size_t put_curves(const curve *c, size_t n, attend_plot_series *out) {
  size_t at = 0;
  for (size_t i = 0; i < n; i++) {
    out[at++] = (attend_plot_series){c[i].name,       c[i].n,
                                     c[i].x,          c[i].median,
                                     .low = c[i].low, .high = c[i].high,
                                     .points = 2,     .colour = (int)i + 1};
    if (!isnan(c[i].predicted[0]))
      out[at++] = (attend_plot_series){.count = c[i].n,
                                       .x = c[i].x,
                                       .y = c[i].predicted,
                                       .dashed = i == 1,
                                       .colour = (int)i + 1};
  }
  return at;
}

static attend_plot_panel panel_of(const char *title, const char *x, size_t count,
                                  const attend_plot_series *series) {
  return study_lines(
      title, study_log(x),
      (attend_plot_axis){.label = "relative error", .log = 1, .low = 0.001, .high = 1000}, count,
      series);
}

static attend_status plot_two(study_run *r, const char *name, const char *const titles[2],
                              const char *x, const curve *left, size_t lefts, const curve *right,
                              size_t rights) {
  attend_plot_series a[8], b[8];
  attend_plot_panel panels[] = {panel_of(titles[0], x, put_curves(left, lefts, a), a),
                                panel_of(titles[1], x, put_curves(right, rights, b), b)};
  return study_figure(
      r, name,
      &(attend_plot){
          .notes = "Marks: median over seeds, bands from 10 to 90 percent; lines: predicted.",
          .height = 260,
          .count = 2,
          .across = 2,
          .panels = panels});
}

/* ---- over the features --------------------------------------------------------------------- */

static const attend_study_column features_columns[] = {{"features", "features", COUNT},
                                                       {"fourier_iid", "fourier iid", NUMBER},
                                                       {"fourier", "orthogonal", NUMBER},
                                                       {"printed", "as printed", NUMBER},
                                                       {"favor_iid", "favor iid", NUMBER},
                                                       {"favor", "orthogonal", NUMBER},
                                                       {0}};

static attend_status over_features(study_run *r) {
  static const char *const titles[] = {"sines and cosines (fourier)", "positive features (favor)"};
  size_t n;
  const double *features = study_list(r, "features", &n);
  const int dim = study_count(r, "d");
  const double rms = pow(dim, -0.25);
  curve c[] = {{.name = "iid"},
               {.name = "orthogonal"},
               {.name = "iid, variance as printed"},
               {.name = "iid"},
               {.name = "orthogonal"}};
  outcome limit;
  table_store *t;
  TRY(study_heading(r, "More features"));
  TRY(study_say(r,
                "Now whole attentions, %d queries over %d keys, each with directions of its own: "
                "the relative error ‖o′ − o‖/‖o‖ of the output. q and k have %d normal elements "
                "with rms D^(−1/4) = %.3g, so that ‖x−y‖² is 2 on average, whatever D is.",
                study_count(r, "queries"), study_count(r, "kv-len"), dim, rms));
  TRY(study_table(r, &t, "features", features_columns,
                  "Median error over %d seeds, D = %d, rms %.3g", study_count(r, "seeds"), dim,
                  rms));
  for (size_t i = 0; i < n; i++) {
    TRY(study_cell(t, features[i]));
    for (int k = 0; k < 5; k++) {
      trial is = {.kind = k < 3 ? ATTEND_FOURIER : ATTEND_FAVOR,
                  .draw = k == 1 || k == 4 ? ATTEND_ORTHOGONAL : ATTEND_IID,
                  .dim = dim,
                  .features = (int)features[i],
                  .rms = rms,
                  .wrong = k == 2};
      outcome o;
      TRY(add(r, &c[k], features[i], &is, &o));
      TRY(study_cell(t, o.median));
    }
    TRY(study_step(r, 0.2 + 0.3 * (double)(i + 1) / (double)n));
  }
  TRY(plot_two(r, "approximation-features", titles, "features", c, 3, c + 3, 2));
  TRY(measure(r, &(trial){.kind = ATTEND_FOURIER, .dim = dim, .rms = rms, .wrong = true}, &limit));
  return study_say(
      r,
      "Once it is small the error falls like 1/√m: from %.0f to %.0f features fourier's falls %.2f "
      "times, and √ of their ratio is %.2f. With the variance as printed it still is %.3g at the "
      "end. Those features estimate another kernel, σ² times as narrow as they should: no key is "
      "near a query, and the sums are noise that crosses zero. Without noise, by that kernel "
      "itself, the error is %.3g: this is where more features lead to.",
      features[0], features[n - 1], c[0].median[0] / c[0].median[n - 1],
      sqrt(features[n - 1] / features[0]), c[2].median[n - 1], limit.median);
}

/* ---- over the width ---------------------------------------------------------------------------- */

static const attend_study_column widths_columns[] = {{"d", "D", COUNT},
                                                     {"rms", "rms of q, k", NUMBER},
                                                     {"fourier", "fourier: error", NUMBER},
                                                     {"fourier_high", "90 %", NUMBER},
                                                     {"fourier_row", "median row", NUMBER},
                                                     {"negative", "rows below 0", NUMBER},
                                                     {"weak", "weak rows", NUMBER},
                                                     {"favor", "favor: error", NUMBER},
                                                     {"favor_high", "90 %", NUMBER},
                                                     {"favor_row", "median row", NUMBER},
                                                     {"favor_weak", "weak rows", NUMBER},
                                                     {0}};

/* Both forms at one width and scale: a row of the table. */
static attend_status both(study_run *r, table_store *t, int dim, double rms, double x, curve *c,
                          outcome o[2]) {
  for (int k = 0; k < 2; k++) {
    trial is = {.kind = k ? ATTEND_FAVOR : ATTEND_FOURIER,
                .dim = dim,
                .features = study_count(r, "count"),
                .rms = rms};
    TRY(add(r, &c[k], x, &is, &o[k]));
  }
  return study_row(t, (double)dim, rms, o[0].median, o[0].high, o[0].row, o[0].negative, o[0].weak,
                   o[1].median, o[1].high, o[1].row, o[1].weak);
}

static attend_status explain_widths(study_run *r, int dim, const outcome unit[2],
                                    const outcome scaled[2]) {
  return study_say(
      r,
      "For unit-normal q and k ‖x−y‖² is 2√D on average, and the variance of sines and cosines "
      "grows like exp(2√D). At D = %d the median error of fourier is %.3g (of its median row %.3g: "
      "a few rows make most of it), and %.3g of its denominators are below zero. Where that share "
      "is near a half, the sign of a sum is the toss of a coin, and a row whose sum is near zero "
      "is divided by nearly nothing. Favor's sums cannot be negative. Its error is %.3g: no "
      "approximation either, but bounded, since its weights are positive and sum to 1, and every "
      "output is an average of values. With q and k scaled by D^(−1/4) the errors at the same "
      "width are %.3g and %.3g.",
      dim, unit[0].median, unit[0].row, unit[0].negative, unit[1].median, scaled[0].median,
      scaled[1].median);
}

/* With so many rows and so few features some sum is below zero. */
static attend_status claim_signs(study_run *r, double negative_unit, double favor_weak) {
  TRY(study_claim(r, favor_weak, 0, 0, "favor-sign: share of favor's rows without a sum"));
  if (study_count(r, "queries") * study_count(r, "seeds") < 64 || study_count(r, "count") > 1024)
    return ATTEND_OK;
  return study_claim(r, negative_unit > 0, 1, 0,
                     "fourier-sign: fourier's denominators cross zero (1: yes)");
}

static attend_status over_widths(study_run *r) {
  static const char *const titles[] = {"unit-normal q and k", "q and k scaled by D^(−1/4)"};
  size_t n;
  const double *widths = study_list(r, "widths", &n);
  curve c[2][2] = {{{.name = "fourier"}, {.name = "favor"}},
                   {{.name = "fourier"}, {.name = "favor"}}};
  outcome last[2][2];
  double favor_weak = 0, negative = 0;
  table_store *t;
  TRY(study_heading(r, "Wider q and k"));
  TRY(study_table(r, &t, "widths", widths_columns, "Errors over the width, %d features",
                  study_count(r, "count")));
  for (int scaled = 0; scaled < 2; scaled++)
    for (size_t i = 0; i < n; i++) {
      outcome o[2];
      TRY(both(r, t, (int)widths[i], scaled ? pow(widths[i], -0.25) : 1, widths[i], c[scaled], o));
      favor_weak += o[1].weak;
      if (!scaled) negative += o[0].negative;
      if (widths[i] <= 64 || !i) memcpy(last[scaled], o, sizeof o);
      TRY(study_step(r, 0.5 + 0.15 * (scaled + (double)(i + 1) / (double)n)));
    }
  TRY(plot_two(r, "approximation-widths", titles, "D", c[0], 2, c[1], 2));
  if (widths[n - 1] >= 64) TRY(claim_signs(r, negative, favor_weak));
  int dim = (int)widths[0];
  for (size_t i = 0; i < n; i++)
    if (widths[i] <= 64) dim = (int)widths[i];
  return explain_widths(r, dim, last[0], last[1]);
}

/* ---- over the scale -------------------------------------------------------------------------------- */

static attend_status over_scales(study_run *r) {
  size_t n;
  const double *rms = study_list(r, "rms", &n);
  const int dim = study_count(r, "width");
  curve c[2] = {{.name = "fourier"}, {.name = "favor"}};
  attend_plot_series series[8];
  table_store *t;
  TRY(study_heading(r, "Larger q and k"));
  TRY(study_table(r, &t, "scales", widths_columns, "Errors over the scale, D = %d, %d features",
                  dim, study_count(r, "count")));
  for (size_t i = 0; i < n; i++) {
    outcome o[2];
    TRY(both(r, t, dim, rms[i], rms[i], c, o));
    TRY(study_step(r, 0.8 + 0.2 * (double)(i + 1) / (double)n));
  }
  attend_plot_panel panel =
      panel_of(study_format(r, "D = %d, %d features", dim, study_count(r, "count")),
               "rms of q and k", put_curves(c, 2, series), series);
  TRY(study_plot(r, "approximation-scales", 1, &panel));
  return study_say(r,
                   "The variance is exponential in the square of the scale: twice as large q and k "
                   "need the fourth power of what exp(‖x−y‖²) was. Where the error is small, the "
                   "prediction of `attend_predict_spread` is within a factor of 2, from the scale "
                   "alone; beyond 0.5 it says no more than that the error is large.");
}

/* ---- one pair of q and k --------------------------------------------------- */

/* One pair of q and k: what random features say of its similarity, on average,
 * and how far they scatter.
 *
 * Documents Spring 2023 3(a)i-ii, Fall 2022 3(a)i-ii, student 6(a).
 */

enum {
  KEY = 401,
  OFFSETS = 402,
  MOST_DISTANCES = 8,
  FEATURES = 16, /* of one estimate */
  PAIR_CURVE = 61
};

/* Beyond this the estimate's fourth moment comes from draws that are too rare
 * for a sample to know its own error. */
static const double TRUSTED = 0.5;

/* A key, and queries at given distances from it, in units of sigma. */
typedef struct {
  size_t n;
  int dim;
  double sigma;
  const double *distance; /* [n] */
  float *q, *k;           /* [n][dim], [dim]: |q_i - sign k| = sigma distance_i */
  float *v, *o, *lse;
} pairs;

static attend_status draw_pairs(study_run *r, pairs *p) {
  const size_t d = (size_t)(p->dim = study_count(r, "d"));
  p->distance = study_list(r, "distances", &p->n);
  p->sigma = pow((double)d, 0.25);
  TAKE(r, &p->q, p->n * d);
  TAKE(r, &p->v, d);
  TAKE(r, &p->o, p->n * d);
  TAKE(r, &p->lse, p->n);
  return study_draw(r, KEY, d, &p->k);
}

/* Random offsets of the right lengths from sign k. */
static void place(const study_run *r, pairs *p, double sign) {
  const size_t d = (size_t)p->dim;
  study_normal(r, OFFSETS, 0, p->n * d, p->q);
  for (size_t i = 0; i < p->n; i++) {
    float *q = p->q + i * d;
    const double norm = study_norm(q, d);
    for (size_t k = 0; k < d; k++)
      q[k] = (float)(sign * (double)p->k[k] + p->sigma * p->distance[i] * (double)q[k] / norm);
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
static attend_status scatter(study_run *r, pairs *p, const estimator *e, study_moments *moments) {
  const size_t draws = (size_t)study_count(r, "redraws");
  attend_desc d = {ATTEND_INIT(attend_desc), .form = e->form, .q_len = (int)p->n, .kv_len = 1,
                   .dim = p->dim};
  double *seen = NULL;
  attend_plan *plan;
  d.form.features = FEATURES;
  d.form.seed = r->seed;
  TAKE(r, &seen, p->n * draws);
  place(r, p, e->sign);
  TRY(study_plan(r, &d, &plan));
  for (size_t t = 0; t < draws; t++) {
    TRY(attend_plan_redraw(plan, t));
    TRY(attend_forward(plan, attend_bhtd(p->q), attend_bhtd(p->k), attend_bhtd(p->v),
                       attend_bhtd(p->o), p->lse));
    for (size_t i = 0; i < p->n; i++) {
      double x = (double)p->lse[i];
      seen[i * draws + t] = e->logs ? exp(x) : x;
    }
    if (t % 1000 == 0) TRY(study_step(r, 0.1));
  }
  for (size_t i = 0; i < p->n; i++) moments[i] = study_moments_of(seen + i * draws, draws);
  return ATTEND_OK;
}

/* ---- the wrong variance ------------------------------------------------------------ */

static const attend_study_column mean_columns[] = {{"distance", "‖q−k‖/σ", NUMBER},
                                                   {"right", "w ~ N(0, I/σ²): mean", NUMBER},
                                                   {"kernel", "exp(−‖q−k‖²/2σ²)", NUMBER},
                                                   {"wrong", "w ~ N(0, σ²I): mean", NUMBER},
                                                   {"wrong_predicted", "exp(−σ²‖q−k‖²/2)", NUMBER},
                                                   {0}};

/* Var of a direction's cosine is (1 - kernel^2)^2 / 2. */
static double right_kernel(double distance) { return exp(-distance * distance / 2); }

static double wrong_kernel(const pairs *p, double distance) {
  return exp(-pow(p->sigma, 4) * distance * distance / 2);
}

static attend_status plot_means(study_run *r, const pairs *p, const table_store *t) {
  double x[PAIR_CURVE], y[2][PAIR_CURVE], last = 0;
  for (size_t i = 0; i < p->n; i++) last = fmax(last, p->distance[i]);
  for (int i = 0; i < PAIR_CURVE; i++) {
    x[i] = last * i / (PAIR_CURVE - 1);
    y[0][i] = right_kernel(x[i]);
    y[1][i] = wrong_kernel(p, x[i]);
  }
  attend_plot_series series[] = {
      {"w ~ N(0, I/σ²)", p->n, p->distance, study_column(t, "right"), .points = 2, .colour = 1},
      {"exp(−‖q−k‖²/2σ²)", PAIR_CURVE, x, y[0], .colour = 1},
      {"w ~ N(0, σ²I), as printed", p->n, p->distance, study_column(t, "wrong"), .points = 2,
       .colour = 2},
      {"exp(−σ²‖q−k‖²/2)", PAIR_CURVE, x, y[1], .dashed = 1, .colour = 2}};
  attend_plot_panel panel =
      study_lines(study_format(r, "Mean of φ(q)·φ(k), D = %d and σ² = √D", p->dim),
                  study_zero("‖q−k‖/σ"), study_range("similarity", 0, 1), 4, series);
  return study_plot(r, "approximation-kernel", 1, &panel);
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
  TRY(study_table(r, &t, "means", mean_columns, "Which variance the directions must have"));
  for (size_t i = 0; i < p->n; i++) {
    const double z = p->distance[i], k = right_kernel(z), w = wrong_kernel(p, z);
    TRY(study_row(t, z, a[i].mean, k, b[i].mean, w));
    TRY(study_estimate(r, a[i].mean, k, a[i].mean_error,
                       "mean-right-%g: E φ(q)·φ(k), w ~ N(0, I/σ²), %g σ apart", z, z));
    TRY(study_estimate(r, b[i].mean, w, b[i].mean_error,
                       "mean-wrong-%g: E φ(q)·φ(k), w ~ N(0, σ²I), %g σ apart", z, z));
  }
  return plot_means(r, p, t);
}

/* ---- variances ----------------------------------------------------------------------- */

static const attend_study_column variance_columns[] = {
    {"form", "features", TEXT},
    {"distance", "‖x∓y‖", NUMBER},
    {"variance", "m · relative variance", NUMBER},
    {"predicted", "predicted", NUMBER},
    {"orthogonal", "orthogonal directions", NUMBER},
    {0}};

/* Relative variance times the number of features: attend/problem.h. */
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
  for (size_t k = 0; k < d; k++) dot += (double)p->q[i * d + k] * (double)p->k[k];
  return exp(dot / sqrt((double)d));
}

static attend_status variance_rows(study_run *r, pairs *p, const estimator *e, table_store *t) {
  study_moments iid[MOST_DISTANCES], orthogonal[MOST_DISTANCES];
  estimator other = *e;
  other.form.draw = ATTEND_ORTHOGONAL;
  TRY(scatter(r, p, e, iid));
  TRY(scatter(r, p, &other, orthogonal));
  for (size_t i = 0; i < p->n; i++) {
    const double z = p->distance[i], is = exact(p, e, i), times = FEATURES / (is * is);
    TRY(study_row(t, e->name, z, times * iid[i].variance, predicted_variance(e, z),
                  times * orthogonal[i].variance));
    if (e->logs && z * z > TRUSTED) continue;
    TRY(study_estimate(
        r, times * iid[i].variance, predicted_variance(e, z), times * iid[i].variance_error,
        "variance-%s-%g: m · relative variance of %s at %g", e->name, z, e->name, z));
    TRY(study_estimate(r, orthogonal[i].mean / is, 1, orthogonal[i].mean_error / is,
                       "orthogonal-%s-%g: mean / similarity of %s at %g, orthogonal", e->name, z,
                       e->name, z));
  }
  return ATTEND_OK;
}

static attend_status variances(study_run *r, pairs *p) {
  const estimator all[] = {
      {.name = "fourier",
       .form = {.kind = ATTEND_GAUSSIAN, .map = ATTEND_TRIGONOMETRIC, .draw = ATTEND_IID},
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
      "An average that is right is not enough: one draw of m features scatters. With x = q/σ and y "
      "= k/σ the relative variance of sines and cosines is $exp(‖x−y‖²)(1 − exp(−‖x−y‖²))²/m$: it "
      "is large where q and k are far apart, whose similarity is small. That of positive features "
      "is $(exp(‖x+y‖²) − 1)/m$, large where q and k point the same way, and small where they "
      "oppose each other. In pairs exp(±w·x) it is less by the factor 1 − exp(−‖x+y‖²). Directions "
      "that are orthogonal scatter less still, and stay right on average."));
  TRY(study_table(r, &t, "variances", variance_columns,
                  "Scatter of %d features over %d draws, D = %d", FEATURES,
                  study_count(r, "redraws"), p->dim));
  for (int i = 0; i < 3; i++) TRY(variance_rows(r, p, &all[i], t));
  return study_say(
      r,
      "Beyond ‖x+y‖² = %g favor's variance comes from draws that are too rare for a sample of this "
      "size: the table shows what was seen, and nothing is claimed of it.",
      TRUSTED);
}

/* ---- softmax as a Gaussian kernel ------------------------------------------------------ */

/* ln of the similarity of one key to each query, in double. */
static attend_status logs(study_run *r, const pairs *p, attend_form_kind kind, double *lse) {
  attend_desc d = {ATTEND_INIT(attend_desc), .form.kind = kind, .q_len = (int)p->n, .kv_len = 1,
                   .dim = p->dim};
  return attend_definition_forward(r->ctx, &d, attend_bhtd(p->q), attend_bhtd(p->k),
                                   attend_bhtd(p->v), NULL, lse);
}

static double half_square(const float *x, const pairs *p) {
  return pow(study_norm(x, (size_t)p->dim), 2) / (2 * sqrt(p->dim));
}

static attend_status identity(study_run *r, pairs *p) {
  double softmax[MOST_DISTANCES], gauss[MOST_DISTANCES], max = 0;
  place(r, p, 1);
  TRY(logs(r, p, ATTEND_SOFTMAX, softmax));
  TRY(logs(r, p, ATTEND_GAUSSIAN, gauss));
  for (size_t i = 0; i < p->n; i++) {
    double both = half_square(p->q + i * (size_t)p->dim, p) + half_square(p->k, p) + gauss[i];
    max = fmax(max, fabs(both - softmax[i]));
  }
  return study_claim(
      r, max, 0, 1e-10,
      "identity: ln of softmax's sim − ln of the three factors, the most over pairs");
}

static attend_status approx_pairs(study_run *r) {
  pairs p;
  TRY(draw_pairs(r, &p));
  TRY(study_heading(r, "One pair"));
  TRY(study_say(
      r,
      "With σ² = √D softmax's similarity is a Gaussian kernel between two factors: $exp(q·k/√D) = "
      "exp(‖q‖²/2σ²) exp(−‖q−k‖²/2σ²) exp(‖k‖²/2σ²)$. Random features estimate the kernel: "
      "$φ(q)·φ(k)$ is the mean of cos(w·(q − k)) over D_random directions w, and for normal w with "
      "variance s² in every element its mean is exp(−s²‖q−k‖²/2). So s² must be 1/σ². The "
      "documents print w ~ N(0, σ²I), which estimates exp(−σ²‖q−k‖²/2) instead; both are the same "
      "only for σ = 1. Here σ² = %.3g.",
      p.sigma * p.sigma));
  TRY(identity(r, &p));
  TRY(means(r, &p));
  return variances(r, &p);
}

/* ---- operations ------------------------------------------------------------ */

/* What random features cost, in multiplications and additions.
 *
 * Documents Spring 2023 3(a)ii, Fall 2022 3(a)ii: O(N(M+D)D_random).
 *
 * A call maps N keys and N queries (2 D R each for R directions, whose sines and
 * cosines make C = 2R features), folds keys into the sums and reads them (2 C
 * (M+1) each), and takes the keys of a row's own block by pairs: 2 BLOCK (C + M).
 */

enum { BLOCK = 64, COST_CURVE = 31 };

static attend_status flops(study_run *r, const char *engine, int n, int d, int m, int directions,
                           double *out) {
  attend_desc desc = {ATTEND_INIT(attend_desc),
                      .form = {.kind = ATTEND_FOURIER, .features = 2 * directions},
                      .q_len = n,
                      .kv_len = n,
                      .dim = d,
                      .dim_v = m,
                      .engine = engine};
  attend_cost cost;
  if (!engine) desc.form = (attend_form){.kind = ATTEND_SOFTMAX};
  TRY(attend_desc_cost(r->ctx, &desc, &cost));
  *out = cost.flops;
  return ATTEND_OK;
}

/* For N a multiple of the block, more than one of them. */
static double formula(double n, double d, double m, double directions) {
  const double c = 2 * directions;
  return n * (4 * d * directions + 4 * c * (m + 1) + 2 * BLOCK * (c + m));
}

static const attend_study_column cost_columns[] = {{"n", "N", COUNT},
                                                   {"directions", "D_random", COUNT},
                                                   {"flops", "operations", SMALL},
                                                   {"ratio", "/ N(M+D)D_random", NUMBER},
                                                   {"softmax", "softmax", SMALL},
                                                   {0}};

typedef struct {
  int n, d, m, directions;
} size;

static attend_status claims(study_run *r, size s) {
  double is, more;
  TRY(flops(r, "linear", s.n, s.d, s.m, s.directions, &is));
  TRY(study_claim(r, is, formula(s.n, s.d, s.m, s.directions), 0,
                  "operations: operations at N = %d, D_random = %d", s.n, s.directions));
  TRY(flops(r, "linear", 2 * s.n, s.d, s.m, s.directions, &more));
  TRY(study_claim(r, more / is, 2, 0, "twice-n: twice N: operations grow by the factor"));
  TRY(flops(r, "linear", s.n, s.d + 1, s.m, s.directions, &more));
  TRY(study_claim(r, (more - is) / ((double)s.n * s.directions), 4, 0,
                  "one-d: D + 1: operations more, over N D_random"));
  TRY(flops(r, "linear", s.n, s.d, s.m + 1, s.directions, &more));
  TRY(study_claim(r, (more - is) / s.n, 8.0 * s.directions + 2 * BLOCK, 0,
                  "one-m: M + 1: operations more, over N"));
  TRY(flops(r, NULL, s.n, s.d, s.m, 0, &is));
  return study_claim(r, is / s.n / s.n, 2.0 * (s.d + s.m), 0,
                     "softmax-operations: softmax's operations over N²");
}

static attend_status plot_cost(study_run *r, int d, const double *directions, size_t count) {
  static const int first = 128;
  double x[COST_CURVE], y[MOST + 1][COST_CURVE];
  attend_plot_series series[MOST + 1];
  for (int i = 0; i < COST_CURVE; i++) {
    int n = BLOCK * (int)lround(first / BLOCK * pow(2, 10.0 * i / (COST_CURVE - 1)));
    x[i] = n;
    TRY(flops(r, NULL, n, d, d, 0, &y[0][i]));
    for (size_t k = 0; k < count; k++)
      TRY(flops(r, "linear", n, d, d, (int)directions[k], &y[k + 1][i]));
  }
  for (size_t k = 0; k <= count; k++)
    series[k] =
        (attend_plot_series){k ? study_format(r, "D_random = %g", directions[k - 1]) : "softmax",
                             COST_CURVE, x, y[k], .dashed = !k};
  attend_plot_panel panel = study_lines(study_format(r, "Operations of a head, D = M = %d", d),
                                        study_log("N"), study_log("operations"), count + 1, series);
  return study_plot(r, "approximation-cost", 1, &panel);
}

static attend_status approx_cost(study_run *r) {
  static const double directions[] = {32, 128, 512};
  const int d = study_count(r, "width"), lengths[] = {512, 4096, 32768};
  table_store *t;
  TRY(study_heading(r, "What it costs"));
  TRY(study_say(r,
                "All of V' by features costs O(N(M+D)D_random): every key and every query is "
                "mapped once (D · D_random), every key is added to the sums and every query reads "
                "them (2 D_random features, M wide). The library takes the keys of a query's own "
                "block of %d by pairs, which is a constant per row. Doubling N doubles it, where "
                "softmax's N²(D+M) becomes four times as much.",
                BLOCK));
  TRY(study_table(r, &t, "cost", cost_columns, "Operations, D = M = %d", d));
  for (int i = 0; i < 3; i++)
    for (int k = 0; k < 3; k++) {
      const double n = lengths[i], is[] = {directions[k]};
      double linear, softmax;
      TRY(flops(r, "linear", lengths[i], d, d, (int)*is, &linear));
      TRY(flops(r, NULL, lengths[i], d, d, 0, &softmax));
      TRY(study_row(t, n, *is, linear, linear / (n * 2 * d * *is), softmax));
    }
  TRY(claims(r, (size){1024, d, d + 3, 128}));
  TRY(plot_cost(r, d, directions, 3));
  const double each = formula(1, d, d, 128) / (4.0 * d);
  return study_say(r,
                   "With D_random = 128 the features cost less from N = %.0f on. How many are "
                   "needed is the other question.",
                   each);
}

/* ---- the Gaussian kernel by hand --------------------------------------------- */

static const attend_study_column factor_columns[] = {{"key", "key", TEXT},
                                                     {"q", "exp(‖q‖²/2σ²)", NUMBER},
                                                     {"kernel", "exp(−‖q − k‖²/2σ²)", NUMBER},
                                                     {"k", "exp(‖k‖²/2σ²)", NUMBER},
                                                     {"product", "their product", NUMBER},
                                                     {"softmax", "exp(q·k/√d)", NUMBER},
                                                     {0}};

static attend_status hand_factors(study_run *r, const worked_example *w, const worked_steps *s) {
  const double two = 2 * sqrt(w->dim), q = pow(study_norm(w->q, (size_t)w->dim), 2);
  table_store *t;
  TRY(study_table(r, &t, "worked-factors", factor_columns,
                  "Softmax's similarity as three factors"));
  for (int j = 0; j < w->keys; j++) {
    const float *key = w->k + j * w->dim;
    const double k = pow(study_norm(key, (size_t)w->dim), 2);
    double dot = 0;
    for (int i = 0; i < w->dim; i++) dot += (double)w->q[i] * (double)key[i];
    const double log_product = q / two - s->score[j] / two + k / two;
    TRY(study_row(t, worked_vector(r, w->dim, key), exp(q / two), exp(-s->score[j] / two),
                  exp(k / two), exp(log_product), exp(dot / sqrt(w->dim))));
    TRY(study_claim(r, log_product, dot / sqrt(w->dim), 1e-9 * (1 + q + k),
                    "worked-factors-%d: ln of the three factors of key %d, against q·k/√d", j + 1,
                    j + 1));
  }
  return ATTEND_OK;
}

static attend_status by_hand(study_run *r, const worked_example *w) {
  const attend_form gaussian = {.kind = ATTEND_GAUSSIAN};
  worked_steps s;
  TRY(study_heading(r, "The Gaussian kernel by hand"));
  TRY(study_say(r, "σ² = √d = %.4g.", sqrt(w->dim)));
  TRY(worked_show(r, w, "gaussian", &gaussian, 0, "‖q − k‖²", "exp(−‖q − k‖²/2σ²)", &s));
  return hand_factors(r, w, &s);
}

static attend_status parts(study_run *r) {
  worked_example w;
  TRY(worked_read(r, &w));
  if (w.own) return by_hand(r, &w);
  TRY(approx_pairs(r));
  TRY(by_hand(r, &w));
  TRY(over_features(r));
  TRY(over_widths(r));
  TRY(over_scales(r));
  return approx_cost(r);
}

/* Many small problems: threads would wait for each other and do little else. */
static attend_status run(study_run *r) {
  const int threads = attend_context_threads(r->ctx);
  TRY(attend_context_set_threads(r->ctx, 1));
  attend_status status = parts(r);
  attend_status back = attend_context_set_threads(r->ctx, threads);
  return status ? status : back;
}

const study_topic study_approximation = {
    {.name = "approximation",
     .title = "Softmax by random features",
     .question =
         "How wrong are random features, over their number, the width and the scale of q and k?",
     .answers = "Spring 2023 3(a), Fall 2022 3(a), student 6(a)",
     .settings = settings},
    run};
