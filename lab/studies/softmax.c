/* Softmax attention of one query, step by step, and the Jacobian of its weights: on the documents'
 * numbers or the caller's.
 *
 * Documents Fall 2025 2(a) and 3(a), worksheet 1(a).
 */
#include "studies/study.h"

static const attend_setting settings[] = {
    WORKED_SETTINGS,
    {"scale", "0", NULL, "what scores are multiplied by; 0: 1/√d", REAL, 1, 0, 1000},
    {0}};

/* ---- the Jacobian of the weights ------------------------------------------------------ */

static attend_status jacobian_columns(study_run *r, int keys, const attend_study_column **to) {
  attend_study_column *list = NULL;
  TAKE(r, &list, (size_t)keys + 2);
  list[0] = (attend_study_column){"weight", "", TEXT};
  for (int j = 0; j < keys; j++)
    list[j + 1] = (attend_study_column){study_format(r, "s%d", j + 1),
                                        study_format(r, "∂/∂s%d", j + 1), NUMBER};
  *to = list;
  return study_status(r);
}

/* The library's: the gradient of one weight, whose value is 1 and all others 0. */
static attend_status library_row(study_run *r, const worked_example *w, float scale, int of,
                                 float *ds) {
  const attend_desc d = {ATTEND_INIT(attend_desc),
                         .bias.kind = ATTEND_DENSE,
                         .q_len = 1,
                         .kv_len = w->keys,
                         .dim = w->dim,
                         .dim_v = 1,
                         .scale = scale};
  float *v = NULL, *bias = NULL, *dq = NULL, *dk = NULL, *dv = NULL, o, lse;
  const float one = 1;
  attend_desc biased = d;
  TAKE(r, &v, (size_t)w->keys);
  TAKE(r, &bias, (size_t)w->keys);
  TAKE(r, &dq, (size_t)w->dim);
  TAKE(r, &dk, (size_t)w->keys * (size_t)w->dim);
  TAKE(r, &dv, (size_t)w->keys);
  biased.bias.dense = attend_bhtd(bias);
  v[of] = 1;
  return study_attend(r, &biased,
                      &(study_pass){.q = w->q,
                                    .k = w->k,
                                    .v = v,
                                    .o = &o,
                                    .lse = &lse,
                                    .d_o = &one,
                                    .dq = dq,
                                    .dk = dk,
                                    .dv = dv,
                                    .dbias = ds});
}

static attend_status show_jacobian(study_run *r, const worked_example *w, const worked_steps *s,
                                   float scale) {
  const attend_study_column *columns;
  double square = 0;
  float *row = NULL;
  table_store *t;
  TRY(study_heading(r, "How weights change with scores"));
  TRY(study_say(
      r,
      "Row i, column j of the Jacobian is ∂aᵢ/∂sⱼ = aᵢ(δᵢⱼ − aⱼ), or diag(a) − aaᵀ. It is "
      "small where one weight is near 1: then scores, and with them queries and keys, get "
      "almost no gradient."));
  TRY(jacobian_columns(r, w->keys, &columns));
  TRY(study_table(r, &t, "jacobian", columns, "diag(a) − aaᵀ"));
  TAKE(r, &row, (size_t)w->keys);
  for (int i = 0; i < w->keys; i++) {
    double gap = 0;
    TRY(library_row(r, w, scale, i, row));
    TRY(study_word(t, study_format(r, "a%d", i + 1)));
    for (int j = 0; j < w->keys; j++) {
      const double x = s->weight[i] * ((i == j) - s->weight[j]);
      square += x * x;
      gap = fmax(gap, fabs(x - (double)row[j]));
      TRY(study_cell(t, x));
    }
    TRY(study_claim(r, gap, 0, 1e-5, "jacobian-%d: row %d of the Jacobian: the library's gradient",
                    i + 1, i + 1));
  }
  return study_say(r, "Its Frobenius norm is %.4g; with equal weights of %d keys it would be %.4g.",
                   sqrt(square), w->keys, sqrt((double)(w->keys - 1)) / w->keys);
}

static attend_status run(study_run *r) {
  const attend_form softmax = {.kind = ATTEND_SOFTMAX};
  const float given = (float)study_number(r, "scale");
  worked_example w;
  worked_steps s;
  TRY(worked_read(r, &w));
  const double scale = given > 0 ? (double)given : 1 / sqrt(w.dim);
  TRY(study_say(
      r,
      "One query of width d = %d over %d keys. Scores are s = q·k · %.4g; each exponential "
      "is taken of s less the largest score, which changes no weight; weights are the "
      "exponentials over their sum.",
      w.dim, w.keys, scale));
  TRY(worked_show(r, &w, "softmax", &softmax, (float)scale,
                  given > 0 ? "s = scale q·k" : "s = q·k/√d", "exp(s − max s)", &s));
  TRY(study_say(r, "The exponentials add up to %.4g.", s.sum));
  return show_jacobian(r, &w, &s, (float)scale);
}

const study_topic study_softmax = {
    {.name = "softmax",
     .title = "Softmax attention, step by step",
     .question = "What are the weights and the output of one query, and how do they change?",
     .answers = "Fall 2025 2(a) and 3(a), worksheet 1(a)",
     .settings = settings},
    run};
