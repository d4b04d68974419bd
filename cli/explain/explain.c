/* attend explain: what would run, why, and what it costs.
 *
 * Nothing is computed: costs are those of the plan.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/blas.h"
#include "bench/ceilings.h"
#include "options.h"
#include "table.h"
#include "bench/cost_models.h"

typedef struct {
  options common;
  char **problems;
  int count;
} explain_options;

typedef struct {
  const explain_options *options;
  attend_context *ctx;
  attend_machine machine;
  table rows; /* for JSON */
} explain_run;

typedef struct {
  char text[256], engine[64], refused[1024]; /* refused: "name: why; ..." */
  int kv_heads;                              /* 0: not attention */
  double flops, bytes, cache_bytes, workspace;
  limit limit;
  bool has_features; /* the form has a feature map: */
  cost_models models;
  double crossover;             /* NaN: none */
  attend_prediction prediction; /* of random features; NaN where there are none */
  double spread;
} explanation;

static const double TARGET_ERROR = 0.1; /* how many features would it take? */

/* ---- options ------------------------------------------------------------------- */

static error_t parse(int key, char *arg, struct argp_state *state) {
  explain_options *o = state->input;
  (void)arg;
  switch (key) {
    case ARGP_KEY_INIT:
      options_share(state, 3);
      return 0;
    case ARGP_KEY_ARGS:
      o->problems = state->argv + state->next;
      o->count = state->argc - state->next;
      return 0;
    case ARGP_KEY_NO_ARGS:
      argp_error(state, "name a problem, such as softmax:b1h12n4096d64:causal");
      return 0;
    default:
      return ARGP_ERR_UNKNOWN;
  }
}

static const struct argp_child children[] = {
    {&options_run, 0, NULL, 0}, {&options_engine, 0, NULL, 0}, {&options_json, 0, NULL, 0}, {0}};
static const struct argp argp = {
    .parser = parse,
    .args_doc = "PROBLEM...",
    .doc =
        "The engine that would run, those that refused and why, operations, "
        "bytes, arithmetic intensity, workspace, and what bounds the time "
        "on this machine. For a form with a feature map, both methods to "
        "compute "
        "it, the length from which on sums are faster, and the error of random "
        "features."
        "\vThe machine's ceilings are measured once and kept; `attend bench "
        "machine' measures them anew. A :decode problem is shown with as "
        "many kv heads as heads, as many as it has, and one.",
    .children = children};

/* ---- asking the plan ------------------------------------------------------------- */

static void append(char *text, size_t size, const char *name, const char *why) {
  size_t used = strlen(text);
  snprintf(text + used, size - used, "%s%s: %s", used ? "; " : "", name, why);
}

static void ask_engines(const attend_plan *plan, explanation *e) {
  const char *name, *refusal;
  e->refused[0] = 0;
  for (int n = 0; attend_plan_candidate(plan, n, &name, &refusal); n++) {
    if (!strcmp(name, e->engine)) continue;
    append(e->refused, sizeof e->refused, name,
           refusal ? refusal : "applies too, but comes later in the list");
  }
}

static attend_status ask_plan(attend_context *ctx, const attend_problem *p, explanation *e) {
  attend_plan *plan;
  attend_desc d = p->desc;
  d.form.draw = ATTEND_IID; /* drawn faster, and costs the same to use */
  attend_status status = attend_plan_create(ctx, &d, &plan);
  if (status) return status;
  snprintf(e->engine, sizeof e->engine, "%s", attend_plan_engine(plan));
  ask_engines(plan, e);
  attend_cost cost = {0};
  status = attend_plan_cost(plan, &cost);
  e->workspace = (double)cost.workspace_bytes;
  e->flops = cost.flops;
  e->bytes = cost.bytes;
  attend_plan_free(plan);
  return status;
}

/* A description gives its spread up for a number of features: it is in the
 * text. */
static double spread_of(const char *text) {
  const char *at = strstr(text, "spread=");
  double spread = at ? strtod(at + strlen("spread="), NULL) : 1;
  return spread > 0 ? spread : 1;
}

static bool is_random(const attend_form *f) {
  return f->kind == ATTEND_FAVOR || f->kind == ATTEND_FOURIER ||
         (f->kind == ATTEND_GAUSSIAN && f->features > 0);
}

/* Of unit-normal q and k, or as wide as the problem says. */
static attend_status ask_error(attend_context *ctx, const attend_problem *p, explanation *e) {
  e->prediction = (attend_prediction){NAN, NAN, NAN, 0, NAN};
  if (!is_random(&p->desc.form)) return ATTEND_OK;
  return attend_predict_spread(ctx, &p->desc, e->spread, TARGET_ERROR, &e->prediction);
}

static attend_status predict_models(explain_run *run, const attend_problem *p, explanation *e) {
  e->has_features = has_feature_map(p);
  if (!e->has_features) return ATTEND_OK;
  e->models = cost_models_of(run->ctx, &run->machine, p);
  e->crossover = predicted_crossover(run->ctx, &run->machine, &e->models);
  return ATTEND_OK;
}

static attend_status explain_attention(explain_run *run, const attend_problem *p, explanation *e) {
  const attend_desc *d = &p->desc;
  e->kv_heads = d->kv_heads;
  attend_status status = ask_plan(run->ctx, p, e);
  if (!status) status = predict_models(run, p, e);
  if (!status) status = ask_error(run->ctx, p, e);
  if (p->op != ATTEND_OP_DECODE) return status;
  e->cache_bytes = (double)d->batch * d->kv_heads * d->kv_len * ((double)d->dim + d->dim_v) *
                   (double)attend_dtype_size(d->dtype);
  if (!strcmp(e->engine, "linear")) e->cache_bytes = e->models.linear.memory - e->workspace;
  return status;
}

static attend_status explain(explain_run *run, const attend_problem *p, double spread,
                             explanation *e) {
  attend_status status = ATTEND_OK;
  *e = (explanation){.cache_bytes = NAN, .crossover = NAN, .spread = spread};
  attend_problem_print(p, e->text, sizeof e->text);
  if (p->op == ATTEND_OP_SGEMM) {
    const char *name = blas_name();
    snprintf(e->engine, sizeof e->engine, "%s", name ? name : "none");
    e->flops = sgemm_flops(p);
    e->bytes = sgemm_bytes(p);
    ask_error(run->ctx, p, e);
  } else {
    status = explain_attention(run, p, e);
  }
  e->limit = limit_of(&run->machine, e->flops, e->bytes);
  return status;
}

/* ---- printing ------------------------------------------------------------------ */

static void line(const char *name, cell_kind kind, double number, const char *after) {
  char text[32];
  format_cell(kind, number, text, sizeof text);
  printf("  %-10s %s%s\n", name, text, after);
}

static void print_refused(const explanation *e) {
  char copy[sizeof e->refused];
  snprintf(copy, sizeof copy, "%s", e->refused);
  char *rest = copy;
  while (*rest) {
    char *next = strstr(rest, "; ");
    if (next) *next = 0;
    printf("  %-10s %s\n", rest == copy ? "refused" : "", rest);
    if (!next) return;
    rest = next + 2;
  }
}

static void print_times(const explain_run *run, const explanation *e) {
  char arithmetic[32], memory[32], turn[64];
  const limit *l = &e->limit;
  snprintf(turn, sizeof turn, " FLOP/byte (memory binds below %.1f)",
           run->machine.flops_all / run->machine.read_all);
  line("intensity", CELL_RATE, e->flops / e->bytes, turn);
  format_cell(CELL_SECONDS, l->arithmetic_s, arithmetic, sizeof arithmetic);
  format_cell(CELL_SECONDS, l->memory_s, memory, sizeof memory);
  printf("  %-10s %s: at least %s (arithmetic %s, memory %s)\n", "bound", l->bound,
         l->arithmetic_s >= l->memory_s ? arithmetic : memory, arithmetic, memory);
}

static const column method_columns[] = {
    {"method", "method", CELL_TEXT},  {"engine", "engine", CELL_TEXT},
    {"flops", "FLOPs", CELL_NUMBER},  {"predicted_s", "at least", CELL_SECONDS},
    {"bound", "bound", CELL_TEXT},    {"memory_bytes", "memory", CELL_BYTES},
    {"grows", "grows as", CELL_TEXT}, {NULL, NULL, CELL_TEXT}};

static void add_method(table *t, const char *name, const cost_model *w) {
  bool refused = !*w->engine;
  cell none = cell_none();
  table_add(t, (cell[]){cell_text(name), cell_text(refused ? "refused" : w->engine),
                        refused ? none : cell_number(w->flops),
                        refused ? none : cell_number(w->limit.predicted_s),
                        refused ? none : cell_text(w->limit.bound),
                        refused ? none : cell_number(w->memory), cell_text(w->growth)});
}

static void print_methods(const explanation *e) {
  table t = table_start(method_columns);
  add_method(&t, "exact", &e->models.exact);
  add_method(&t, "linear", &e->models.linear);
  table_print(&t, stdout);
  table_free(&t);
  if (isnan(e->crossover))
    printf("  %-10s never predicted, up to n = 2^24\n", "crossover");
  else
    printf("  %-10s linear is predicted to be faster from n = %.0f on\n", "crossover",
           e->crossover);
}

static void print_error(const explanation *e) {
  const attend_prediction *p = &e->prediction;
  char features[32];
  if (isnan(p->error)) return;
  format_cell(p->affordable ? CELL_COUNT : CELL_SMALL, p->features, features, sizeof features);
  printf(
      "  %-10s %.3g%s expected for normal q and k of rms %.3g; %.2g would "
      "take about %s features\n",
      "error", fmin(p->error, 0.5), p->error > 0.5 ? " or more" : "", e->spread, TARGET_ERROR,
      features);
}

static void print_explanation(const explain_run *run, const explanation *e) {
  printf("%s\n  %-10s %s (%s, %d thread%s)\n", e->text, "engine", e->engine,
         attend_context_isa(run->ctx), attend_context_threads(run->ctx),
         attend_context_threads(run->ctx) == 1 ? "" : "s");
  if (!strcmp(e->engine, "none"))
    printf("  %-10s no BLAS: the program was built without one\n", "");
  print_refused(e);
  line("FLOPs", CELL_NUMBER, e->flops, "");
  line("bytes", CELL_BYTES, e->bytes, " at least, each tensor once");
  if (e->kv_heads) line("workspace", CELL_BYTES, e->workspace, "");
  print_times(run, e);
  if (e->has_features) print_methods(e);
  print_error(e);
}

static const column heads_columns[] = {{"kv_heads", "kv heads", CELL_COUNT},
                                       {"flops", "FLOPs", CELL_NUMBER},
                                       {"bytes", "bytes", CELL_BYTES},
                                       {"cache_bytes", "cache", CELL_BYTES},
                                       {"intensity", "intensity", CELL_RATIO},
                                       {"bound", "bound", CELL_TEXT},
                                       {"predicted_s", "at least", CELL_SECONDS},
                                       {NULL, NULL, CELL_TEXT}};

static void add_heads(table *t, const explanation *e) {
  table_add(t, (cell[]){cell_number(e->kv_heads), cell_number(e->flops), cell_number(e->bytes),
                        cell_number(e->cache_bytes), cell_number(e->flops / e->bytes),
                        cell_text(e->limit.bound), cell_number(e->limit.predicted_s)});
}

/* ---- rows for programs ------------------------------------------------------------ */

static const column json_columns[] = {{"problem", NULL, CELL_TEXT},
                                      {"engine", NULL, CELL_TEXT},
                                      {"isa", NULL, CELL_TEXT},
                                      {"threads", NULL, CELL_COUNT},
                                      {"refused", NULL, CELL_TEXT},
                                      {"kv_heads", NULL, CELL_COUNT},
                                      {"flops", NULL, CELL_NUMBER},
                                      {"bytes", NULL, CELL_NUMBER},
                                      {"cache_bytes", NULL, CELL_NUMBER},
                                      {"intensity", NULL, CELL_NUMBER},
                                      {"workspace_bytes", NULL, CELL_NUMBER},
                                      {"bound", NULL, CELL_TEXT},
                                      {"arithmetic_s", NULL, CELL_NUMBER},
                                      {"memory_s", NULL, CELL_NUMBER},
                                      {"predicted_s", NULL, CELL_NUMBER},
                                      {"exact_engine", NULL, CELL_TEXT},
                                      {"exact_flops", NULL, CELL_NUMBER},
                                      {"exact_s", NULL, CELL_NUMBER},
                                      {"exact_memory_bytes", NULL, CELL_NUMBER},
                                      {"exact_growth", NULL, CELL_TEXT},
                                      {"linear_flops", NULL, CELL_NUMBER},
                                      {"linear_s", NULL, CELL_NUMBER},
                                      {"linear_memory_bytes", NULL, CELL_NUMBER},
                                      {"linear_growth", NULL, CELL_TEXT},
                                      {"crossover_n", NULL, CELL_COUNT},
                                      {"expected_error", NULL, CELL_NUMBER},
                                      {"spread", NULL, CELL_NUMBER},
                                      {"features_for_tenth", NULL, CELL_NUMBER},
                                      {NULL, NULL, CELL_TEXT}};

static cell number_if(bool there, double number) {
  return there ? cell_number(number) : cell_none();
}

static cell text_if(bool there, const char *text) { return there ? cell_text(text) : cell_none(); }

static void add_row(explain_run *run, const explanation *e) {
  cell none = cell_none();
  const cost_models *w = &e->models;
  bool pairs = e->has_features && *w->exact.engine;
  bool sums = e->has_features && *w->linear.engine;
  table_add(&run->rows, (cell[]){cell_text(e->text),
                                 cell_text(e->engine),
                                 cell_text(attend_context_isa(run->ctx)),
                                 cell_number(attend_context_threads(run->ctx)),
                                 cell_text(e->refused),
                                 e->kv_heads ? cell_number(e->kv_heads) : none,
                                 cell_number(e->flops),
                                 cell_number(e->bytes),
                                 cell_number(e->cache_bytes),
                                 cell_number(e->flops / e->bytes),
                                 e->kv_heads ? cell_number(e->workspace) : none,
                                 cell_text(e->limit.bound),
                                 cell_number(e->limit.arithmetic_s),
                                 cell_number(e->limit.memory_s),
                                 cell_number(e->limit.predicted_s),
                                 text_if(pairs, w->exact.engine),
                                 number_if(pairs, w->exact.flops),
                                 number_if(pairs, w->exact.limit.predicted_s),
                                 number_if(pairs, w->exact.memory),
                                 text_if(e->has_features, w->exact.growth),
                                 number_if(sums, w->linear.flops),
                                 number_if(sums, w->linear.limit.predicted_s),
                                 number_if(sums, w->linear.memory),
                                 text_if(e->has_features, w->linear.growth),
                                 cell_number(e->crossover),
                                 cell_number(e->prediction.error),
                                 number_if(!isnan(e->prediction.error), e->spread),
                                 cell_number(e->prediction.features)});
}

/* ---- the verb ------------------------------------------------------------------ */

/* A decode problem with as many kv heads as heads, as it has, and with one. */
static attend_status explain_heads(explain_run *run, const attend_problem *p, double spread) {
  const int heads[3] = {p->desc.heads, p->desc.kv_heads, 1};
  bool json = run->options->common.json;
  table t = table_start(heads_columns);
  attend_status status = ATTEND_OK;
  for (int n = 0; n < 3 && !status; n++) {
    explanation e;
    attend_problem with = *p;
    if (n && heads[n] == heads[n - 1]) continue;
    with.desc.kv_heads = heads[n];
    status = explain(run, &with, spread, &e);
    if (!status && json) add_row(run, &e);
    if (!status) add_heads(&t, &e);
  }
  if (!status && !json) table_print(&t, stdout);
  table_free(&t);
  return status;
}

static int explain_text(explain_run *run, const char *text) {
  attend_problem p;
  explanation e;
  bool json = run->options->common.json;
  double spread = spread_of(text);
  attend_status status = attend_problem_parse(run->ctx, text, &p);
  p.desc.engine = run->options->common.engine;
  if (!status) status = explain(run, &p, spread, &e);
  if (!status && json && p.op != ATTEND_OP_DECODE) add_row(run, &e);
  if (!status && !json) print_explanation(run, &e);
  if (!status && p.op == ATTEND_OP_DECODE) status = explain_heads(run, &p, spread);
  if (!status) warn_if_slower(run->ctx, &run->machine, &p, e.engine);
  return status ? complain_status(run->ctx, status) : EXIT_OK;
}

static int explain_all(explain_run *run) {
  const explain_options *o = run->options;
  attend_problem p;
  /* Checked before a second is spent on measuring. */
  for (int n = 0; n < o->count; n++) {
    attend_status status = attend_problem_parse(run->ctx, o->problems[n], &p);
    if (status) return complain_status(run->ctx, status);
  }
  attend_status status = ceilings_get(run->ctx, &run->machine);
  if (status) return complain_status(run->ctx, status);
  int code = EXIT_OK;
  for (int n = 0; n < o->count && !code; n++) {
    if (n && !o->common.json) puts("");
    code = explain_text(run, o->problems[n]);
  }
  if (code) return code;
  return o->common.json ? table_print_json(&run->rows, run->ctx, stdout)
                        : check_written(stdout, "the explanation");
}

int cmd_explain(int argc, char **argv) {
  explain_options o = {0};
  int code;
  argp_parse(&argp, argc, argv, 0, NULL, &o);
  explain_run run = {.options = &o, .rows = table_start(json_columns)};
  run.ctx = options_context(&o.common, NULL, &code);
  if (!run.ctx) return code;
  code = explain_all(&run);
  table_free(&run.rows);
  attend_context_free(run.ctx);
  return code;
}
