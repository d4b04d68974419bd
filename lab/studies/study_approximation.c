/* Softmax by random features: how wrong the output is, over the number of
 * features, the width, and the scale of q and k.
 *
 * Documents 000 3(a), 002 3(a), 003 6(a).
 */
#include "studies/study_approximation.h"

enum { QUERY = 410, MOST = 12 };

static const attend_setting settings[] = {
    {"d", "16", NULL, "width of q and k for pairs, and over the features",
     ATTEND_SETTING_WHOLE, 1, 2, 512},
    {"distances", "0.25,0.5,0.7,1,1.5,2", "0.25,0.5,1",
     "of q and k, in units of sigma", ATTEND_SETTING_NUMBERS, 8, 0.01, 4},
    {"redraws", "8000", "1000", "draws of the directions for each pair",
     ATTEND_SETTING_WHOLE, 1, 200, 1e6},
    {"features", "16,32,64,128,256,512,1024,2048", "64,256",
     "numbers of features", ATTEND_SETTING_WHOLE, MOST, 16, 65536},
    {"widths", "4,8,16,32,64,128", "4,64", "widths of q and k",
     ATTEND_SETTING_WHOLE, MOST, 1, 512},
    {"rms", "0.125,0.18,0.25,0.35,0.5,0.71,1,1.4,2", "0.35",
     "root mean squares of q and k", ATTEND_SETTING_NUMBERS, MOST, 0.01, 8},
    {"count", "256", NULL, "features over widths and scales",
     ATTEND_SETTING_WHOLE, 1, 16, 65536},
    {"width", "64", NULL, "width over scales", ATTEND_SETTING_WHOLE, 1, 2, 512},
    {"queries", "64", "16", "rows of an attention", ATTEND_SETTING_WHOLE, 1, 1,
     4096},
    {"keys", "64", "16", "keys of an attention", ATTEND_SETTING_WHOLE, 1, 2,
     4096},
    {"seeds", "15", "8", "attentions, each with its own directions",
     ATTEND_SETTING_WHOLE, 1, 2, 10000},
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

typedef struct {
  float *q, *k, *v, *o, *exact, *lse;
} tensors;

static attend_desc desc_of(const study_run *r, const trial *t) {
  return (attend_desc){
      .form = {.kind = t->kind, .features = t->features, .draw = t->draw},
      .q_len = study_count(r, "queries"),
      .kv_len = study_count(r, "keys"),
      .dim = t->dim,
      .dim_v = APPROX_VALUES};
}

static attend_status take(study_run *r, const attend_desc *d, tensors *x) {
  const size_t n = (size_t)d->q_len, keys = (size_t)d->kv_len;
  TAKE(r, &x->q, n * (size_t)d->dim);
  TAKE(r, &x->k, keys * (size_t)d->dim);
  TAKE(r, &x->v, keys * APPROX_VALUES);
  TAKE(r, &x->o, n * APPROX_VALUES);
  TAKE(r, &x->exact, n * APPROX_VALUES);
  TAKE(r, &x->lse, n);
  return ATTEND_OK;
}

static void draw(const study_run *r, const attend_desc *d, double rms,
                 uint64_t seed, tensors *x) {
  const size_t n[] = {(size_t)d->q_len * (size_t)d->dim,
                      (size_t)d->kv_len * (size_t)d->dim,
                      (size_t)d->kv_len * APPROX_VALUES};
  float *const to[] = {x->q, x->k, x->v};
  for (int i = 0; i < 3; i++) {
    study_normal(r, QUERY + (uint64_t)i, seed * n[i], n[i], to[i]);
    for (size_t j = 0; i < 2 && j < n[i]; j++) to[i][j] *= (float)rms;
  }
}

static attend_status forward(study_run *r, const attend_desc *d,
                             const tensors *x, float *o, float *lse,
                             int64_t *weak) {
  attend_plan *plan;
  TRY(attend_plan_create(r->ctx, d, &plan));
  attend_status status =
      attend_forward(plan, attend_bhtd(x->q), attend_bhtd(x->k),
                     attend_bhtd(x->v), attend_bhtd(o), lse);
  *weak = attend_plan_weak_rows(plan);
  attend_plan_free(plan);
  return status;
}

/* Of a whole output, and of each of its rows. */
static double error_of(const tensors *x, int n, double *rows) {
  double wrong = 0, size = 0;
  for (int i = 0; i < n; i++) {
    double w = 0, is = 0;
    for (int m = i * APPROX_VALUES; m < (i + 1) * APPROX_VALUES; m++) {
      w += pow((double)x->o[m] - (double)x->exact[m], 2);
      is += pow((double)x->exact[m], 2);
    }
    rows[i] = sqrt(w / is);
    wrong += w;
    size += is;
  }
  return sqrt(wrong / size);
}

/* ---- many of them ----------------------------------------------------------------------- */

static void count_rows(const attend_desc *d, const float *lse, int64_t weak,
                       outcome *out) {
  if (attend_form_signed(&d->form))
    for (int i = 0; i < d->q_len; i++) out->negative += lse[i] < 0;
  out->weak += (double)weak;
}

static attend_status predict(study_run *r, const trial *t, const attend_desc *d,
                             outcome *out) {
  attend_prediction p = {.error = NAN};
  if (!t->wrong) TRY(attend_predict_spread(r->ctx, d, t->rms, 0.1, &p));
  out->predicted = p.error;
  return ATTEND_OK;
}

static attend_status measure(study_run *r, const trial *t, outcome *out) {
  const size_t seeds = (size_t)study_count(r, "seeds");
  attend_desc d = desc_of(r, t), exact = d;
  const size_t n = (size_t)d.q_len;
  double *errors = NULL, *squares = NULL, *rows = NULL;
  float *w = NULL;
  tensors x;
  approx_printed p;
  *out = (outcome){0};
  exact.form = (attend_form){.kind = ATTEND_SOFTMAX};
  TRY(predict(r, t, &d, out));
  TAKE(r, &errors, seeds);
  TAKE(r, &squares, seeds);
  TAKE(r, &rows, seeds * n);
  if (t->wrong) TAKE(r, &w, (size_t)t->dim * (size_t)(t->features + 1));
  TRY(take(r, &d, &x));
  for (uint64_t s = 0; s < seeds; s++) {
    int64_t weak;
    draw(r, &d, t->rms, s, &x);
    d.form.seed = r->seed;
    d.form.redraw = s;
    if (t->wrong)
      d.form = approx_printed_form(r, t->dim, t->features, s, w, &p);
    TRY(forward(r, &exact, &x, x.exact, NULL, &weak));
    TRY(forward(r, &d, &x, x.o, x.lse, &weak));
    count_rows(&d, x.lse, weak, out);
    errors[s] = error_of(&x, d.q_len, rows + s * n);
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

/* Where the prediction is trusted (attend/predict.h) it is within a factor of 2,
 * and few seeds do not know how they scatter. */
static attend_status claim(study_run *r, const trial *t, const outcome *o) {
  if (t->wrong || !(o->predicted < 0.25) || study_count(r, "seeds") < 8)
    return ATTEND_OK;
  const char *name = t->kind == ATTEND_FAVOR ? "favor" : "fourier";
  const char *how = t->draw == ATTEND_IID ? "iid" : "orthogonal";
  return study_claim(
      r,
      study_format(r, "predicted-%s-%s-d%d-m%d-rms%.3g", name, how, t->dim,
                   t->features, t->rms),
      study_format(r,
                   "log2(error / predicted), %s %s, D = %d, m = %d, rms %.3g",
                   name, how, t->dim, t->features, t->rms),
      log2(o->rms / o->predicted), 0, 1 + 6 * o->rms_error / log(2));
}

/* ---- curves ------------------------------------------------------------------------------ */

typedef struct {
  const char *name;
  size_t n;
  double x[MOST], median[MOST], low[MOST], high[MOST], predicted[MOST];
} curve;

static attend_status add(study_run *r, curve *c, double x, const trial *t,
                         outcome *o) {
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
    out[at++] = (attend_plot_series){.name = c[i].name,
                                     .count = c[i].n,
                                     .x = c[i].x,
                                     .y = c[i].median,
                                     .low = c[i].low,
                                     .high = c[i].high,
                                     .points = 2,
                                     .colour = (int)i + 1};
    if (!isnan(c[i].predicted[0]))
      out[at++] = (attend_plot_series){.count = c[i].n,
                                       .x = c[i].x,
                                       .y = c[i].predicted,
                                       .dashed = i == 1,
                                       .colour = (int)i + 1};
  }
  return at;
}

static attend_plot_panel panel_of(const char *title, const char *x,
                                  size_t count,
                                  const attend_plot_series *series) {
  return (attend_plot_panel){
      .title = title,
      .x = {.label = x, .log = 1},
      .y = {.label = "relative error", .log = 1, .low = 0.001, .high = 1000},
      .key = ATTEND_KEY_ABOVE,
      .count = count,
      .series = series};
}

static attend_status plot_two(study_run *r, const char *name,
                              const char *const titles[2], const char *x,
                              const curve *left, size_t lefts,
                              const curve *right, size_t rights) {
  attend_plot_series a[8], b[8];
  attend_plot_panel panels[] = {
      panel_of(titles[0], x, put_curves(left, lefts, a), a),
      panel_of(titles[1], x, put_curves(right, rights, b), b)};
  return study_figure(
      r, name,
      &(attend_plot){.notes = "Marks: median over seeds, bands from 10 to 90 "
                              "percent; lines: predicted.",
                     .height = 260,
                     .count = 2,
                     .across = 2,
                     .panels = panels});
}

/* ---- over the features --------------------------------------------------------------------- */

static const attend_study_column features_columns[] = {
    {"features", "features", ATTEND_CELL_COUNT},
    {"fourier_iid", "fourier iid", ATTEND_CELL_NUMBER},
    {"fourier", "orthogonal", ATTEND_CELL_NUMBER},
    {"printed", "as printed", ATTEND_CELL_NUMBER},
    {"favor_iid", "favor iid", ATTEND_CELL_NUMBER},
    {"favor", "orthogonal", ATTEND_CELL_NUMBER},
    {0}};

static attend_status over_features(study_run *r) {
  static const char *const titles[] = {"sines and cosines (fourier)",
                                       "positive features (favor)"};
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
                "Now whole attentions, %d queries over %d keys, each with "
                "directions of its own: the relative error ‖o′ − o‖/‖o‖ of the "
                "output. q and k have %d normal elements with rms D^(−1/4) = "
                "%.3g, so that ‖x−y‖² is 2 on average, whatever D is.",
                study_count(r, "queries"), study_count(r, "keys"), dim, rms));
  TRY(study_table(
      r, "features",
      study_format(r, "Median error over %d seeds, D = %d, rms %.3g",
                   study_count(r, "seeds"), dim, rms),
      features_columns, &t));
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
  TRY(plot_two(r, "approximation-features", titles, "features", c, 3, c + 3,
               2));
  TRY(measure(
      r,
      &(trial){.kind = ATTEND_FOURIER, .dim = dim, .rms = rms, .wrong = true},
      &limit));
  return study_say(
      r,
      "Once it is small the error falls like 1/√m: from %.0f to %.0f features "
      "fourier's falls %.2f times, and √ of their ratio is %.2f. With the "
      "variance as printed it still is %.3g at the end. Those features "
      "estimate "
      "another kernel, σ² times as narrow as they should: no key is near a "
      "query, and the sums are noise that crosses zero. Without noise, by that "
      "kernel itself, the error is %.3g: this is where more features lead to.",
      features[0], features[n - 1], c[0].median[0] / c[0].median[n - 1],
      sqrt(features[n - 1] / features[0]), c[2].median[n - 1], limit.median);
}

/* ---- over the width ---------------------------------------------------------------------------- */

static const attend_study_column widths_columns[] = {
    {"d", "D", ATTEND_CELL_COUNT},
    {"rms", "rms of q, k", ATTEND_CELL_NUMBER},
    {"fourier", "fourier: error", ATTEND_CELL_NUMBER},
    {"fourier_high", "90 %", ATTEND_CELL_NUMBER},
    {"fourier_row", "median row", ATTEND_CELL_NUMBER},
    {"negative", "rows below 0", ATTEND_CELL_NUMBER},
    {"weak", "weak rows", ATTEND_CELL_NUMBER},
    {"favor", "favor: error", ATTEND_CELL_NUMBER},
    {"favor_high", "90 %", ATTEND_CELL_NUMBER},
    {"favor_row", "median row", ATTEND_CELL_NUMBER},
    {"favor_weak", "weak rows", ATTEND_CELL_NUMBER},
    {0}};

/* Both forms at one width and scale: a row of the table. */
static attend_status both(study_run *r, table_store *t, int dim, double rms,
                          double x, curve *c, outcome o[2]) {
  for (int k = 0; k < 2; k++) {
    trial is = {.kind = k ? ATTEND_FAVOR : ATTEND_FOURIER,
                .dim = dim,
                .features = study_count(r, "count"),
                .rms = rms};
    TRY(add(r, &c[k], x, &is, &o[k]));
  }
  return study_row(t, 11, (double)dim, rms, o[0].median, o[0].high, o[0].row,
                   o[0].negative, o[0].weak, o[1].median, o[1].high, o[1].row,
                   o[1].weak);
}

static attend_status explain_widths(study_run *r, int dim,
                                    const outcome unit[2],
                                    const outcome scaled[2]) {
  return study_say(
      r,
      "For unit-normal q and k ‖x−y‖² is 2√D on average, and the variance of "
      "sines and cosines grows like exp(2√D). At D = %d the median error of "
      "fourier is %.3g (of its median row %.3g: a few rows make most of it), "
      "and %.3g of its denominators are below zero. Where that share is near a "
      "half, the sign of a sum is the toss of a coin, and a row whose sum is "
      "near zero is divided by nearly nothing. Favor's sums cannot be "
      "negative. Its error is %.3g: no approximation either, but bounded, "
      "since its weights are positive and sum to 1, and every output is an "
      "average of values. With q and k scaled by D^(−1/4) the errors at the "
      "same width are %.3g and %.3g.",
      dim, unit[0].median, unit[0].row, unit[0].negative, unit[1].median,
      scaled[0].median, scaled[1].median);
}

/* With so many rows and so few features some sum is below zero. */
static attend_status claim_signs(study_run *r, double negative_unit,
                                 double favor_weak) {
  TRY(study_claim(r, "favor-sign", "share of favor's rows without a sum",
                  favor_weak, 0, 0));
  if (study_count(r, "queries") * study_count(r, "seeds") < 64 ||
      study_count(r, "count") > 1024)
    return ATTEND_OK;
  return study_claim(r, "fourier-sign",
                     "fourier's denominators cross zero (1: yes)",
                     negative_unit > 0, 1, 0);
}

static attend_status over_widths(study_run *r) {
  static const char *const titles[] = {"unit-normal q and k",
                                       "q and k scaled by D^(−1/4)"};
  size_t n;
  const double *widths = study_list(r, "widths", &n);
  curve c[2][2] = {{{.name = "fourier"}, {.name = "favor"}},
                   {{.name = "fourier"}, {.name = "favor"}}};
  outcome last[2][2];
  double favor_weak = 0, negative = 0;
  table_store *t;
  TRY(study_heading(r, "Wider q and k"));
  TRY(study_table(r, "widths",
                  study_format(r, "Errors over the width, %d features",
                               study_count(r, "count")),
                  widths_columns, &t));
  for (int scaled = 0; scaled < 2; scaled++)
    for (size_t i = 0; i < n; i++) {
      outcome o[2];
      TRY(both(r, t, (int)widths[i], scaled ? pow(widths[i], -0.25) : 1,
               widths[i], c[scaled], o));
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
  TRY(study_table(r, "scales",
                  study_format(r, "Errors over the scale, D = %d, %d features",
                               dim, study_count(r, "count")),
                  widths_columns, &t));
  for (size_t i = 0; i < n; i++) {
    outcome o[2];
    TRY(both(r, t, dim, rms[i], rms[i], c, o));
    TRY(study_step(r, 0.8 + 0.2 * (double)(i + 1) / (double)n));
  }
  attend_plot_panel panel = panel_of(
      study_format(r, "D = %d, %d features", dim, study_count(r, "count")),
      "rms of q and k", put_curves(c, 2, series), series);
  TRY(study_figure(r, "approximation-scales",
                   &(attend_plot){.count = 1, .panels = &panel}));
  return study_say(r,
                   "The variance is exponential in the square of the scale: "
                   "twice as large q and k need the fourth power of what "
                   "exp(‖x−y‖²) was. Where the error is small, the prediction "
                   "of `attend_predict_spread` is within a factor of 2, from "
                   "the scale alone; beyond 0.5 it says no more than that the "
                   "error is large.");
}

static attend_status parts(study_run *r) {
  TRY(approx_pairs(r));
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
     .question = "How wrong are random features, over their number, the width "
                 "and the scale of q and k?",
     .answers = "000 3(a), 002 3(a), 003 6(a)",
     .settings = settings},
    run};
