/* The time of multi-head attention over lengths, widths and heads, counted and
 * measured.
 *
 * Documents worksheet 2(c), Fall 2025 6(c).
 */
#include "studies/study.h"

typedef struct {
  int n_t, n_s; /* queries, keys                      */
  int d_model;  /* of what comes in and goes out      */
  int heads;    /* of width d_model / heads           */
  int value;    /* width of a head's values; 0: same  */
} module_shape;

enum { PROJECTIONS = 0, ATTENTION = 1, TERMS };

typedef struct {
  double flops[TERMS], seconds[TERMS];
  double workspace; /* bytes of the plan */
} module_cost;

enum { MOST = 12, STREAM = 500, LAYERS = 4 };

static const attend_setting settings[] = {
    {"n", "512", "32", "length, where something else varies", WHOLE, 1, 1, 16384},
    {"d", "256", "32", "d_model, where something else varies", WHOLE, 1, 16, 4096},
    {"h", "4", NULL, "heads, where something else varies", WHOLE, 1, 1, 64},
    {"lengths", "256,512,1024,2048", "16,32,64", "lengths that are timed", WHOLE, MOST, 1, 16384},
    {"widths", "64,128,256,512", "16,32,64", "d_model that are timed", WHOLE, MOST, 16, 4096},
    {"values", "16,32,64,128", "4,8,16", "widths of a head's values", WHOLE, MOST, 1, 1024},
    {"heads", "1,2,4,8,16", "1,2,4", "heads that share one d_model", WHOLE, MOST, 1, 64},
    {"map-n", "64,128,256,512,1024", "16,32,64", "lengths of the map", WHOLE, MOST, 1, 16384},
    {"map-d", "32,64,128,256,512", "16,32", "d_model of the map", WHOLE, MOST, 16, 4096},
    {"repeat", "3", "1", "timings, of which the median counts", WHOLE, 1, 1, 64},
    {0}};

/* ---- the module ------------------------------------------------------------------- */

typedef struct {
  module_shape shape;
  attend_linear *layer[LAYERS]; /* q, k, v, o                               */
  attend_plan *plan;
  float *x, *weights;       /* what comes in, on both sides; of all layers  */
  float *row[LAYERS], *out; /* q, k, v and what attention gives; the result */
  attend_status status;
} module;

/* Of a layer: 0 and 3 have a row for each query, 1 and 2 for each key. */
static int rows_of(const module *m, int layer) {
  return layer == 0 || layer == 3 ? m->shape.n_t : m->shape.n_s;
}

static attend_view view_of(const module *m, int layer) {
  const int wide = layer < 2 ? m->shape.d_model / m->shape.heads : m->shape.value;
  const int ld = study_padded(wide * m->shape.heads);
  return (attend_view){m->row[layer], {(ptrdiff_t)rows_of(m, layer) * ld, wide, ld, 1}};
}

static void project(void *user) {
  module *m = user;
  for (int i = 0; i < LAYERS; i++) {
    const attend_linear *l = m->layer[i];
    attend_linear_forward(l, rows_of(m, i), i == 3 ? m->row[3] : m->x,
                          study_padded(attend_linear_inputs(l)), i == 3 ? m->out : m->row[i],
                          study_padded(attend_linear_outputs(l)));
  }
}

static void attention(void *user) {
  module *m = user;
  attend_status status =
      attend_forward(m->plan, view_of(m, 0), view_of(m, 1), view_of(m, 2), view_of(m, 3), NULL);
  if (status) m->status = status;
}

static attend_status module_make(study_run *r, module *m) {
  const module_shape s = m->shape;
  const int values = s.value * s.heads;
  const int inputs[LAYERS] = {s.d_model, s.d_model, s.d_model, values};
  const int outputs[LAYERS] = {s.d_model, s.d_model, values, s.d_model};
  const attend_desc d = {ATTEND_INIT(attend_desc), .heads = s.heads,           .q_len = s.n_t,
                         .kv_len = s.n_s,          .dim = s.d_model / s.heads, .dim_v = s.value};
  for (int i = 0; i < LAYERS; i++) {
    const attend_linear_part part = {.weight = m->weights, .outputs = outputs[i]};
    TRY(attend_linear_create(r->ctx, ATTEND_WEIGHTS_F32, inputs[i], 1, &part, &m->layer[i]));
  }
  return attend_plan_create(r->ctx, &d, &m->plan);
}

static attend_status module_memory(study_run *r, module *m) {
  const module_shape s = m->shape;
  const int values = s.value * s.heads;
  const size_t rows = (size_t)(s.n_t > s.n_s ? s.n_t : s.n_s);
  const int wide = s.d_model > values ? s.d_model : values;
  const size_t size = rows * (size_t)study_padded(wide);
  const size_t weights = (size_t)s.d_model * (size_t)wide;
  TRY(study_draw(r, STREAM, weights, &m->weights));
  for (size_t i = 0; i < weights; i++) m->weights[i] /= sqrtf((float)s.d_model);
  TRY(study_draw(r, STREAM + 1, size, &m->x));
  for (int i = 0; i < LAYERS; i++) TAKE(r, &m->row[i], size);
  return study_take(r, size, sizeof *m->out, &m->out);
}

static attend_status module_read(module *m, int repeat, module_cost *c) {
  attend_cost cost;
  for (int i = 0; i < LAYERS; i++)
    c->flops[PROJECTIONS] += 2.0 * rows_of(m, i) * attend_linear_inputs(m->layer[i]) *
                             attend_linear_outputs(m->layer[i]);
  TRY(attend_plan_cost(m->plan, &cost));
  c->flops[ATTENTION] = cost.flops;
  c->workspace = (double)cost.workspace_bytes;
  if (!repeat) return ATTEND_OK;
  c->seconds[PROJECTIONS] = study_seconds(project, m, repeat);
  c->seconds[ATTENTION] = study_seconds(attention, m, repeat);
  return m->status;
}

static attend_status module_measure(study_run *r, module_shape shape, int repeat,
                                    module_cost *cost) {
  module m = {.shape = shape};
  *cost = (module_cost){0};
  if (shape.d_model % shape.heads)
    return study_fail(r, ATTEND_INVALID, "d_model %d is not a multiple of %d heads: choose others",
                      shape.d_model, shape.heads);
  if (!shape.value) m.shape.value = shape.d_model / shape.heads;
  TRY(module_memory(r, &m));
  attend_status status = module_make(r, &m);
  if (!status) status = module_read(&m, repeat, cost);
  for (int i = 0; i < LAYERS; i++) attend_linear_free(m.layer[i]);
  attend_plan_free(m.plan);
  return status;
}

static double attention_share(const double term[TERMS]) {
  return term[ATTENTION] / (term[PROJECTIONS] + term[ATTENTION]);
}

/* ---- one size after another ----------------------------------------------------------- */

typedef struct {
  const char *name, *title, *setting;
  double exponent[TERMS]; /* NaN: no power alone */
} sweep;

static const sweep sweeps[] = {{"T", "nₜ", "lengths", {NAN, 1}},
                               {"S", "nₛ", "lengths", {NAN, 1}},
                               {"n", "nₜ = nₛ", "lengths", {1, 2}},
                               {"d", "d_model", "widths", {2, 1}},
                               {"M", "M, a head's values", "values", {NAN, NAN}},
                               {"h", "h at one d_model", "heads", {0, 0}}};
enum { SWEEPS = sizeof sweeps / sizeof *sweeps };

typedef struct {
  size_t count, first; /* rows of the table of sizes */
  const double *x, *flops[TERMS], *seconds[TERMS];
  double workspace[MOST];
} sweep_found;

static module_shape shape_at(study_run *r, const sweep *w, int x) {
  const int n = study_count(r, "n");
  module_shape s = {n, n, study_count(r, "d"), study_count(r, "h"), 0};
  int *const varied[SWEEPS] = {&s.n_t, &s.n_s, &s.n_t, &s.d_model, &s.value, &s.heads};
  *varied[w - sweeps] = x;
  if (*w->name == 'n') s.n_s = x;
  return s;
}

static attend_status claim_flops(study_run *r, const sweep *w, double x, module_shape s,
                                 const module_cost *c) {
  const double d = s.d_model, head = d / s.heads;
  const double value = s.value ? s.value : head, rows = (double)s.n_t + s.n_s;
  TRY(study_claim(r, c->flops[PROJECTIONS], 2 * rows * d * (d + s.heads * value), 0,
                  "projections-%s%g: 2 (nₜ + nₛ) d (d + hM) at %s = %g", w->name, x, w->title, x));
  return study_claim(r, c->flops[ATTENTION], 2.0 * s.heads * s.n_t * s.n_s * (head + value), 0,
                     "attention-%s%g: 2 h nₜ nₛ (D + M) at %s = %g", w->name, x, w->title, x);
}

static const attend_study_column sweep_columns[] = {
    {"varies", "what varies", TEXT},
    {"value", "value", COUNT},
    {"projections_flops", "flops, projections", COUNT},
    {"attention_flops", "attention", COUNT},
    {"projections_seconds", "time, projections", SECONDS},
    {"attentionₛeconds", "attention", SECONDS},
    {0}};

static attend_status sweep_over(study_run *r, const sweep *w, table_store *t, sweep_found *f) {
  f->x = study_list(r, w->setting, &f->count);
  for (size_t i = 0; i < f->count; i++) {
    const module_shape s = shape_at(r, w, (int)f->x[i]);
    module_cost c;
    TRY(module_measure(r, s, study_count(r, "repeat"), &c));
    f->workspace[i] = c.workspace;
    TRY(claim_flops(r, w, f->x[i], s, &c));
    TRY(study_row(t, w->title, f->x[i], c.flops[PROJECTIONS], c.flops[ATTENTION],
                  c.seconds[PROJECTIONS], c.seconds[ATTENTION]));
  }
  return ATTEND_OK;
}

/* ---- exponents ------------------------------------------------------------------------- */

static const attend_study_column exponent_columns[] = {
    {"varies", "what varies", TEXT},
    {"projections", "projections: formula", NUMBER},
    {"projections_flops", "of counted flops", NUMBER},
    {"projections_seconds", "of the time", NUMBER},
    {"attention", "attention: formula", NUMBER},
    {"attention_flops", "of counted flops", NUMBER},
    {"attentionₛeconds", "of the time", NUMBER},
    {0}};

static attend_status exponents(study_run *r, const sweep_found *found) {
  static const char *const terms[TERMS] = {"projections", "attention"};
  table_store *t;
  TRY(study_table(r, &t, "exponents", exponent_columns, "Exponents, fitted over each size"));
  for (int i = 0; i < SWEEPS; i++) {
    const sweep_found *f = &found[i];
    if (f->count < 2) continue;
    TRY(study_word(t, sweeps[i].title));
    for (int k = 0; k < TERMS; k++) {
      const double expected = sweeps[i].exponent[k];
      const double b = study_exponent(f->x, f->flops[k], f->count);
      TRY(study_cell(t, expected));
      TRY(study_cell(t, round(1e9 * b) / 1e9));
      TRY(study_cell(t, study_exponent(f->x, f->seconds[k], f->count)));
      if (isnan(expected)) continue;
      TRY(study_claim(r, b, expected, 1e-9, "exponent-%s-%s: exponent of %s over %s", terms[k],
                      sweeps[i].name, terms[k], sweeps[i].title));
    }
  }
  return ATTEND_OK;
}

/* A line of the formula's slope through the middle of what was measured. */
static void slope(const sweep_found *f, int k, double exponent, double *line) {
  double sum = 0;
  for (size_t i = 0; i < f->count; i++) sum += log(f->seconds[k][i]) - exponent * log(f->x[i]);
  for (size_t i = 0; i < f->count; i++)
    line[i] = exp(sum / (double)f->count) * pow(f->x[i], exponent);
}

static attend_status plot_times(study_run *r, const sweep_found *found) {
  const int chosen[2] = {2, 3};
  double line[2][2][MOST];
  attend_plot_series series[2][4];
  attend_plot_panel panels[2];
  for (int p = 0; p < 2; p++) {
    const sweep *w = &sweeps[chosen[p]];
    const sweep_found *f = &found[chosen[p]];
    for (int k = 0; k < TERMS; k++) {
      attend_plot_series *s = &series[p][2 * k];
      slope(f, k, w->exponent[k], line[p][k]);
      s[0] = (attend_plot_series){k ? "attention" : "projections", f->count, f->x, f->seconds[k],
                                  .points = 2};
      s[1] = (attend_plot_series){study_format(r, "slope %g", w->exponent[k]), f->count, f->x,
                                  line[p][k], .dashed = k};
      s[0].colour = s[1].colour = k + 1;
    }
    panels[p] = study_lines(study_format(r, "Time over %s", w->title), study_log(w->title),
                            study_log("seconds"), 4, series[p]);
  }
  return study_plot(r, "complexity-time", 2, panels);
}

/* ---- memory ------------------------------------------------------------------------------ */

static attend_status plot_memory(study_run *r, const sweep_found *f) {
  const double heads = study_count(r, "h");
  double matrix[MOST], rows[MOST];
  for (size_t i = 0; i < f->count; i++) {
    matrix[i] = 4 * heads * f->x[i] * f->x[i];
    rows[i] = 4 * 4 * f->x[i] * study_count(r, "d");
  }
  attend_plot_series series[] = {
      {.name = "document: all weights", f->count, f->x, matrix},
      {"q, k, v, o", f->count, f->x, rows, .dashed = 1},
      {"workspace of the plan", f->count, f->x, f->workspace, .points = 2}};
  attend_plot_panel panel =
      study_lines("Memory over nₜ = nₛ", study_log("n"), study_log("bytes"), 3, series);
  TRY(study_plot(r, "complexity-memory", 1, &panel));
  const size_t last = f->count - 1;
  return study_say(
      r,
      "The documents' code stores all scores, $h nₜ nₛ$ of them: at n = %g that is %.3g MiB. The "
      "library walks over blocks of keys and keeps what a tile of rows needs: its workspace there "
      "is %.3g MiB. Weights are computed again for observation.",
      f->x[last], matrix[last] / 1048576, f->workspace[last] / 1048576);
}

/* ---- projections or attention ---------------------------------------------- */

/* Projections or attention: which takes more, over length and d_model.
 */

/* With n_t = n_s = n and M = D: 4 n² d against 8 n d². */
static double share_formula(double n, double d) { return n / (n + 2 * d); }

static attend_status fill(study_run *r, double *counted, double *measured) {
  size_t across, down;
  const double *n = study_list(r, "map-n", &across);
  const double *d = study_list(r, "map-d", &down);
  for (size_t i = 0; i < down; i++)
    for (size_t j = 0; j < across; j++) {
      const module_shape s = {(int)n[j], (int)n[j], (int)d[i], study_count(r, "h"), 0};
      const size_t at = (down - 1 - i) * across + j; /* the widest on top */
      module_cost c;
      TRY(module_measure(r, s, study_count(r, "repeat"), &c));
      counted[at] = attention_share(c.flops);
      measured[at] = attention_share(c.seconds);
      TRY(study_claim(r, counted[at], share_formula(n[j], d[i]), 1e-12,
                      "share-n%g-d%g: n / (n + 2 d) at n = %g, d_model = %g", n[j], d[i], n[j],
                      d[i]));
      TRY(study_step(r, 0.6 + 0.4 * (double)(i * across + j + 1) / (double)(down * across)));
    }
  return ATTEND_OK;
}

static attend_status draw(study_run *r, const double *counted, const double *measured) {
  size_t across, down;
  const double *n = study_list(r, "map-n", &across);
  const double *d = study_list(r, "map-d", &down);
  const char *columns[MOST], *rows[MOST];
  for (size_t j = 0; j < across; j++) columns[j] = study_format(r, "%g", n[j]);
  for (size_t i = 0; i < down; i++) rows[down - 1 - i] = study_format(r, "%g", d[i]);
  attend_plot_panel panels[2] = {{.kind = ATTEND_PLOT_HEAT,
                                  .title = "Attention's share of the flops",
                                  .x = {.label = "n"},
                                  .y = {.label = "d_model"},
                                  .columns = across,
                                  .names = columns,
                                  .rows = down,
                                  .row_names = rows,
                                  .cells = counted,
                                  .z = {.label = "share", .low = 0, .high = 1}}};
  panels[1] = panels[0];
  panels[1].title = "Of the measured time";
  panels[1].cells = measured;
  return study_plot(r, "complexity-share", 2, panels);
}

/* Lengths at which both terms have as many operations. */
static attend_status claim_even(study_run *r, const char *name, int n_t, int n_s, int d) {
  const module_shape s = {n_t, n_s, d, study_count(r, "h"), 0};
  module_cost c;
  TRY(module_measure(r, s, 0, &c));
  return study_claim(r, c.flops[ATTENTION] - c.flops[PROJECTIONS], 0, 0,
                     "%s: attention less projections, flops, at nₜ = %d, nₛ = %d, d_model = %d",
                     name, n_t, n_s, d);
}

static attend_status complexity_map(study_run *r) {
  size_t across, down;
  const int d = 2 * study_count(r, "h") * 8;
  double *counted = NULL, *measured = NULL;
  const double *n = study_list(r, "map-n", &across);
  const double *widths = study_list(r, "map-d", &down);
  TAKE(r, &counted, across * down);
  TAKE(r, &measured, across * down);
  TRY(study_say(r,
                "Projections take $4 (nₜ + nₛ) d_model²$ flops, attention $4 nₜ nₛ d_model$. "
                "They are even where $nₜ nₛ / (nₜ + nₛ) = d_model$: for nₜ = nₛ = n, at $n = "
                "2 d_model$, and attention's share is n / (n + 2 d_model)."));
  TRY(claim_even(r, "even-self", 2 * d, 2 * d, d));
  TRY(claim_even(r, "even-cross", 3 * d, 3 * d / 2, d));
  TRY(fill(r, counted, measured));
  TRY(draw(r, counted, measured));
  const size_t wide = 0, narrow = (down - 1) * across + across - 1;
  return study_say(
      r,
      "Wide and short, at d_model = %g and n = %g, attention has %.3g of the flops and took %.3g "
      "of the time: the projections are the bottleneck. Narrow and long, at d_model = %g and n = "
      "%g, it has %.3g and took %.3g: the scores and the weighted sums are. The clock's line need "
      "not be n = 2 d_model: a flop of attention, with its softmax, and one of a large product do "
      "not take the same time.",
      widths[down - 1], n[0], counted[wide], measured[wide], widths[0], n[across - 1],
      counted[narrow], measured[narrow]);
}

static attend_status run(study_run *r) {
  sweep_found found[SWEEPS];
  table_store *t;
  TRY(study_say(r,
                "Multi-head attention projects nₜ queries and nₛ keys and values by d_model × "
                "d_model matrices, attends, and projects once more: $Θ(nₜ d_model² + nₛ d_model² "
                "+ nₜ nₛ d_model)$. We count the operations of the library's four linear layers "
                "and of its plan, a multiplication and an addition as two, and time both."));
  TRY(study_table(r, &t, "sizes", sweep_columns,
                  "One size after another; otherwise nₜ = nₛ = %d, d_model = %d, %d heads",
                  study_count(r, "n"), study_count(r, "d"), study_count(r, "h")));
  for (int i = 0; i < SWEEPS; i++) {
    found[i].first = i ? found[i - 1].first + found[i - 1].count : 0;
    TRY(sweep_over(r, &sweeps[i], t, &found[i]));
    TRY(study_step(r, 0.6 * (i + 1) / SWEEPS));
  }
  for (int i = 0; i < SWEEPS; i++) {
    sweep_found *f = &found[i];
    f->flops[PROJECTIONS] = study_column_part(t, "projections_flops", f->first, 1);
    f->flops[ATTENTION] = study_column_part(t, "attention_flops", f->first, 1);
    f->seconds[PROJECTIONS] = study_column_part(t, "projections_seconds", f->first, 1);
    f->seconds[ATTENTION] = study_column_part(t, "attentionₛeconds", f->first, 1);
  }
  TRY(study_status(r)); /* there was memory for the columns */
  TRY(exponents(r, found));
  TRY(plot_times(r, found));
  TRY(study_say(r,
                "Where two terms add up, as projections do over nₜ alone, there is no one "
                "exponent, and the formula's column is empty. Heads that share one d_model change "
                "no count; but each has a softmax of its own, $Θ(h nₜ nₛ)$ exponentials, which "
                "no flop is counted for and the clock sees."));
  TRY(study_heading(r, "Memory"));
  TRY(plot_memory(r, &found[2]));
  TRY(study_heading(r, "Which term dominates"));
  return complexity_map(r);
}

const study_topic study_complexity = {
    {.name = "complexity",
     .title = "What multi-head attention costs",
     .question = "How do time and memory grow with lengths, widths and heads, and which term "
                 "dominates where?",
     .answers = "worksheet 2(c),(d), Fall 2025 6(c)",
     .settings = settings},
    run};
