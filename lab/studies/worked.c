/* One attention by hand: every step from a query to its output, beside what the library
 * computes of the same numbers.
 */
#include <stdio.h>

#include "studies/study.h"

/* ---- the numbers ------------------------------------------------------------------ */

static attend_status floats_of(study_run *r, const char *name, int *rows, int *columns,
                               const float **to) {
  const double *from = study_rows(r, name, rows, columns);
  const size_t n = (size_t)*rows * (size_t)*columns;
  float *list = NULL;
  TAKE(r, &list, n);
  for (size_t i = 0; i < n; i++) list[i] = (float)from[i];
  *to = list;
  return ATTEND_OK;
}

/* Whether a setting has another value than its default. */
static bool is_own(const study_run *r, const attend_setting *s) {
  return s->kind == ATTEND_SETTING_ROWS && strcmp(study_text(r, s->name), s->value);
}

static const char *numbers_of(study_run *r, int n) {
  return study_format(r, "%d number%s", n, n == 1 ? "" : "s");
}

attend_status worked_read(study_run *r, worked_example *w) {
  static const attend_setting settings[] = {WORKED_SETTINGS};
  int queries, width, values;
  *w = (worked_example){0};
  for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) w->own |= is_own(r, &settings[i]);
  TRY(floats_of(r, "q", &queries, &w->dim, &w->q));
  TRY(floats_of(r, "keys", &w->keys, &width, &w->k));
  TRY(floats_of(r, "values", &values, &w->dim_v, &w->v));
  if (queries != 1) return study_fail(r, ATTEND_INVALID, "q has %d rows: give one query", queries);
  if (width != w->dim)
    return study_fail(r, ATTEND_INVALID,
                      "q has %s and each key %s: give the keys as many numbers as the query",
                      numbers_of(r, w->dim), numbers_of(r, width));
  if (values != w->keys)
    return study_fail(r, ATTEND_INVALID,
                      "there are %d keys and %d values: give one value for each key", w->keys,
                      values);
  if (w->keys > WORKED_KEYS)
    return study_fail(r, ATTEND_INVALID, "there are %d keys: give at most %d", w->keys,
                      WORKED_KEYS);
  return ATTEND_OK;
}

const char *worked_vector(study_run *r, int n, const float *x) {
  const char *text = "(";
  for (int i = 0; i < n && text; i++)
    text = study_format(r, "%s%s%g", text, i ? ", " : "", (double)x[i]);
  return text ? study_format(r, "%s)", text) : "";
}

/* ---- the steps ---------------------------------------------------------------------- */

/* In f32 in the order of the elements, as engines do, so that ties are the same ties. */
static double product(const worked_example *w, int key) {
  float sum = 0;
  for (int i = 0; i < w->dim; i++) sum = fmaf(w->q[i], w->k[key * w->dim + i], sum);
  return (double)sum;
}

static double distance(const worked_example *w, int key) {
  double sum = 0;
  for (int i = 0; i < w->dim; i++) {
    const double d = (double)w->q[i] - (double)w->k[key * w->dim + i];
    sum += d * d;
  }
  return sum;
}

/* from: the best score, so that weights neither overflow nor all underflow. */
static double sim_of(const attend_form *f, int dim, double score, double from) {
  if (f->kind == ATTEND_SOFTMAX) return exp(score - from);
  if (f->kind == ATTEND_POLY) return pow(score + (double)f->c, f->degree);
  return exp((from - score) / (2 * sqrt(dim)));
}

static void compute(const worked_example *w, const attend_form *f, double scale, worked_steps *s) {
  const bool apart = f->kind == ATTEND_GAUSSIAN;
  double total = 0;
  int best = 0;
  *s = (worked_steps){0};
  for (int j = 0; j < w->keys; j++) {
    s->score[j] = apart ? distance(w, j) : scale * product(w, j);
    if (apart ? s->score[j] < s->score[best] : s->score[j] > s->score[best]) best = j;
  }
  for (int j = 0; j < w->keys; j++) {
    const double from = s->score[best];
    s->weight[j] = f->kind == ATTEND_ARGMAX ? j == best : sim_of(f, w->dim, s->score[j], from);
    s->sim[j] = apart ? sim_of(f, w->dim, s->score[j], 0) : s->weight[j];
    s->sum += s->sim[j];
    total += s->weight[j];
  }
  for (int j = 0; j < w->keys; j++) {
    s->weight[j] = total > 0 ? s->weight[j] / total : 0;
    for (int m = 0; m < w->dim_v; m++) s->o[m] += s->weight[j] * (double)w->v[j * w->dim_v + m];
  }
}

/* ---- tables ------------------------------------------------------------------------ */

/* A factor, in brackets where it is negative. */
static const char *factor(study_run *r, double x) {
  return study_format(r, x < 0 ? "(%.4g)" : "%.4g", x);
}

/* "1·0 + 1·3 + 2·4", or for a distance "(1 − 0)² + (1 − 3)² + (2 − 4)²". */
static const char *score_in_words(study_run *r, const worked_example *w, bool apart, int key) {
  const char *text = "";
  for (int i = 0; i < w->dim && text; i++) {
    const char *a = factor(r, (double)w->q[i]), *b = factor(r, (double)w->k[key * w->dim + i]);
    if (!a || !b) return "";
    text = study_format(r, apart ? "%s%s(%s − %s)²" : "%s%s%s·%s", text, i ? " + " : "", a, b);
  }
  return text ? text : "";
}

/* "0·2 + 1·1 + 0·0": weights times one element of the values. */
static const char *output_in_words(study_run *r, const worked_example *w, const worked_steps *s,
                                   int m) {
  const char *text = "";
  for (int j = 0; j < w->keys && text; j++) {
    const char *a = factor(r, s->weight[j]), *b = factor(r, (double)w->v[j * w->dim_v + m]);
    if (!a || !b) return "";
    text = study_format(r, "%s%s%s·%s", text, j ? " + " : "", a, b);
  }
  return text ? text : "";
}

static attend_status weight_columns(study_run *r, const char *score, const char *sim,
                                    const attend_study_column **to) {
  attend_study_column *list = NULL;
  TAKE(r, &list, 8);
  size_t n = 0;
  list[n++] = (attend_study_column){"key", "key", TEXT};
  list[n++] = (attend_study_column){"value", "value", TEXT};
  list[n++] = (attend_study_column){"steps", "element by element", TEXT};
  list[n++] = (attend_study_column){"score", score, NUMBER};
  if (sim) list[n++] = (attend_study_column){"sim", sim, NUMBER};
  list[n++] = (attend_study_column){"weight", "weight", NUMBER};
  list[n] = (attend_study_column){"library", "library's weight", NUMBER};
  *to = list;
  return ATTEND_OK;
}

typedef struct {
  const worked_example *w;
  const worked_steps *s;
  const char *name;
  const attend_form *form;
  const float *weights, *o; /* the library's */
  double scale;
} sheet;

/* f32 keeps a score to about this, and a weight follows its score. */
static double slack_of(const sheet *h) {
  double max = 0;
  if (h->form->kind == ATTEND_ARGMAX) return 0;
  for (int j = 0; j < h->w->keys; j++) {
    double sum = 0;
    for (int i = 0; i < h->w->dim; i++)
      sum += fabs((double)h->w->q[i] * (double)h->w->k[j * h->w->dim + i]);
    max = fmax(max, sum);
  }
  return 1e-6 * (2 + max * h->scale);
}

/* The score of a key alone is its own best score. */
static attend_status claim_score(study_run *r, const sheet *h, int key) {
  const worked_example *w = h->w;
  const attend_desc alone = {
      ATTEND_INIT(attend_desc), .form.kind = ATTEND_ARGMAX, .q_len = 1, .kv_len = 1, .dim = w->dim,
      .dim_v = w->dim_v,        .scale = (float)h->scale};
  float o[WORKED_NUMBERS], score;
  TRY(study_attend(
      r, &alone,
      &(study_pass){.q = w->q, .k = w->k + key * w->dim, .v = w->v, .o = o, .lse = &score}));
  return study_claim(r, (double)score, h->s->score[key], slack_of(h),
                     "%s-score-%d: %s: score of key %d", h->name, key + 1, h->name, key + 1);
}

static attend_status show_weights(study_run *r, const sheet *h, const char *score,
                                  const char *sim) {
  const worked_example *w = h->w;
  const attend_study_column *columns;
  table_store *t;
  TRY(weight_columns(r, score, sim, &columns));
  TRY(study_table(r, &t, study_format(r, "%s-weights", h->name), columns, "q = %s",
                  worked_vector(r, w->dim, w->q)));
  for (int j = 0; j < w->keys; j++) {
    TRY(study_word(t, worked_vector(r, w->dim, w->k + j * w->dim)));
    TRY(study_word(t, worked_vector(r, w->dim_v, w->v + j * w->dim_v)));
    TRY(study_word(t, score_in_words(r, w, h->form->kind == ATTEND_GAUSSIAN, j)));
    TRY(study_cell(t, h->s->score[j]));
    if (sim) TRY(study_cell(t, h->s->sim[j]));
    TRY(study_cell(t, h->s->weight[j]));
    TRY(study_cell(t, (double)h->weights[j]));
    TRY(study_claim(r, (double)h->weights[j], h->s->weight[j], slack_of(h),
                    "%s-weight-%d: %s: weight of key %d", h->name, j + 1, h->name, j + 1));
    if (h->form->kind == ATTEND_ARGMAX) TRY(claim_score(r, h, j));
  }
  return ATTEND_OK;
}

static const attend_study_column output_columns[] = {{"element", "element", COUNT},
                                                     {"steps", "weights times values", TEXT},
                                                     {"output", "output", NUMBER},
                                                     {"library", "library's output", NUMBER},
                                                     {0}};

static attend_status show_output(study_run *r, const sheet *h) {
  const worked_example *w = h->w;
  table_store *t;
  TRY(study_table(r, &t, study_format(r, "%s-output", h->name), output_columns,
                  "The output: Σⱼ weightⱼ vⱼ"));
  for (int m = 0; m < w->dim_v; m++) {
    double reach = 0;
    for (int j = 0; j < w->keys; j++) reach += fabs((double)w->v[j * w->dim_v + m]);
    TRY(study_row(t, m + 1.0, output_in_words(r, w, h->s, m), h->s->o[m], (double)h->o[m]));
    TRY(study_claim(r, (double)h->o[m], h->s->o[m], slack_of(h) * reach,
                    "%s-output-%d: %s: element %d of the output", h->name, m + 1, h->name, m + 1));
  }
  return ATTEND_OK;
}

attend_status worked_show(study_run *r, const worked_example *w, const char *name,
                          const attend_form *form, float scale, const char *score, const char *sim,
                          worked_steps *steps) {
  const attend_desc d = {
      ATTEND_INIT(attend_desc), .form = *form, .q_len = 1, .kv_len = w->keys, .dim = w->dim,
      .dim_v = w->dim_v,        .scale = scale};
  worked_steps *s = steps;
  float *o = NULL, *weights = NULL, lse;
  if (!s) TAKE(r, &s, 1);
  TAKE(r, &o, (size_t)w->dim_v);
  TAKE(r, &weights, (size_t)w->keys);
  compute(w, form, scale > 0 ? (double)scale : 1 / sqrt(w->dim), s);
  study_pass p = {.q = w->q, .k = w->k, .v = w->v, .o = o, .lse = &lse, .weights = weights};
  TRY(study_attend(r, &d, &p));
  const sheet h = {w, s, name, form, weights, o, (double)scale > 0 ? (double)scale : 1};
  TRY(show_weights(r, &h, score, sim));
  return show_output(r, &h);
}
