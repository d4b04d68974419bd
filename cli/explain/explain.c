/* attend explain: what would run, why, and what it costs (attend_explain). */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bench.h"
#include "options.h"
#include "table.h"

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
  attend_problem problem;
  char text[256];
  double spread;
  attend_explanation is;
} explanation;

/* ---- options ------------------------------------------------------------------- */

static const option_part parts[] = {{option_rows_run, offsetof(explain_options, common)},
                                    {option_rows_engine, offsetof(explain_options, common)},
                                    {option_rows_json, offsetof(explain_options, common)},
                                    {0}};

static void finish(struct argp_state *state, char **words, int count, void *input) {
  explain_options *o = input;
  o->problems = words;
  o->count = count;
  if (!count) argp_error(state, "name a problem, such as softmax:b1h12n4096d64:causal");
}

static const verb_options verb_explain = {
    parts, "PROBLEM...",
    "The engine that would run, those that refused and why, operations, bytes, arithmetic "
    "intensity, workspace, and what bounds the time on this machine. For a form with a feature "
    "map, both methods to compute it, the length from which on sums are faster, and the error of "
    "random features."
    "\vThe machine's ceilings are measured once and kept; `attend bench machine' measures them "
    "anew. A :decode problem is shown with as many kv heads as heads, as many as it has, and one.",
    finish};

/* A parsed problem has a number of features in place of its spread, which is in the text. */
static double spread_of(const char *text) {
  const char *at = strstr(text, "spread=");
  double spread = at ? strtod(at + strlen("spread="), NULL) : 1;
  return spread > 0 ? spread : 1;
}

static attend_status explain(explain_run *run, explanation *e) {
  attend_problem_print(&e->problem, e->text, sizeof e->text);
  attend_status status = attend_explain(run->ctx, &run->machine, &e->problem, e->spread, &e->is);
  if (!status && !*e->is.engine)
    snprintf(e->is.engine, sizeof e->is.engine, "%s",
             blas_product() ? blas_product()->name : "none");
  return status;
}

/* ---- printing ------------------------------------------------------------------ */

static void line(const char *name, cell_kind kind, double number, const char *after) {
  char text[32];
  format_cell(kind, number, text, sizeof text);
  printf("  %-10s %s%s\n", name, text, after);
}

static void print_refused(const char *refused) {
  const char *name = "refused";
  while (*refused) {
    const char *end = strstr(refused, "; ");
    int length = end ? (int)(end - refused) : (int)strlen(refused);
    printf("  %-10s %.*s\n", name, length, refused);
    refused += length + (end ? 2 : 0);
    name = "";
  }
}

static void print_times(const explain_run *run, const attend_explanation *e) {
  char arithmetic[32], memory[32], turn[64];
  const attend_limit *l = &e->limit;
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

static void add_method(table *t, const char *name, const attend_method *m) {
  bool refused = !*m->engine;
  cell none = cell_none();
  table_add(t, (cell[]){cell_text(name), cell_text(refused ? "refused" : m->engine),
                        refused ? none : cell_number(m->flops),
                        refused ? none : cell_number(m->limit.least_s),
                        refused ? none : cell_text(m->limit.bound),
                        refused ? none : cell_number(m->memory_bytes), cell_text(m->growth)});
}

static void print_methods(const explain_run *run, const attend_methods *m) {
  table t = table_start(method_columns);
  add_method(&t, "exact", &m->exact);
  add_method(&t, "linear", &m->linear);
  table_finish(&t, run->ctx, false);
  if (isnan(m->crossover))
    printf("  %-10s never predicted, up to n = 2^24\n", "crossover");
  else
    printf("  %-10s linear is predicted to be faster from n = %.0f on\n", "crossover",
           m->crossover);
}

static void print_error(const attend_prediction *p, double spread) {
  char features[32];
  if (isnan(p->error)) return;
  format_cell(p->affordable ? CELL_COUNT : CELL_SMALL, p->features, features, sizeof features);
  printf(
      "  %-10s %.3g%s expected for normal q and k of rms %.3g; 0.1 would take about %s features\n",
      "error", fmin(p->error, 0.5), p->error > 0.5 ? " or more" : "", spread, features);
}

static void print_explanation(const explain_run *run, const explanation *of) {
  const attend_explanation *e = &of->is;
  int threads = attend_context_threads(run->ctx);
  printf("%s\n  %-10s %s (%s, %d thread%s)\n", of->text, "engine", e->engine,
         attend_context_isa(run->ctx), threads, threads == 1 ? "" : "s");
  if (!strcmp(e->engine, "none"))
    printf("  %-10s no BLAS: the program was built without one\n", "");
  print_refused(e->refused);
  line("FLOPs", CELL_NUMBER, e->flops, "");
  line("bytes", CELL_BYTES, e->bytes, " at least, each tensor once");
  if (of->problem.op != ATTEND_OP_SGEMM) line("workspace", CELL_BYTES, e->workspace_bytes, "");
  print_times(run, e);
  if (e->has_features) print_methods(run, &e->methods);
  print_error(&e->prediction, of->spread);
}

static const column heads_columns[] = {{"kv_heads", "kv heads", CELL_COUNT},
                                       {"flops", "FLOPs", CELL_NUMBER},
                                       {"bytes", "bytes", CELL_BYTES},
                                       {"cache_bytes", "cache", CELL_BYTES},
                                       {"intensity", "intensity", CELL_RATIO},
                                       {"bound", "bound", CELL_TEXT},
                                       {"predicted_s", "at least", CELL_SECONDS},
                                       {NULL, NULL, CELL_TEXT}};

static void add_heads(table *t, const explanation *of) {
  const attend_explanation *e = &of->is;
  table_add(t, (cell[]){cell_number(of->problem.desc.kv_heads), cell_number(e->flops),
                        cell_number(e->bytes), cell_number(e->cache_bytes),
                        cell_number(e->flops / e->bytes), cell_text(e->limit.bound),
                        cell_number(e->limit.least_s)});
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

static void add_row(explain_run *run, const explanation *of) {
  const attend_explanation *e = &of->is;
  const attend_method *exact = &e->methods.exact, *linear = &e->methods.linear;
  bool attention = of->problem.op != ATTEND_OP_SGEMM;
  bool pairs = e->has_features && *exact->engine, sums = e->has_features && *linear->engine;
  table_add(&run->rows, (cell[]){cell_text(of->text),
                                 cell_text(e->engine),
                                 cell_text(attend_context_isa(run->ctx)),
                                 cell_number(attend_context_threads(run->ctx)),
                                 cell_text(e->refused),
                                 number_if(attention, of->problem.desc.kv_heads),
                                 cell_number(e->flops),
                                 cell_number(e->bytes),
                                 cell_number(e->cache_bytes),
                                 cell_number(e->flops / e->bytes),
                                 number_if(attention, e->workspace_bytes),
                                 cell_text(e->limit.bound),
                                 cell_number(e->limit.arithmetic_s),
                                 cell_number(e->limit.memory_s),
                                 cell_number(e->limit.least_s),
                                 text_if(pairs, exact->engine),
                                 number_if(pairs, exact->flops),
                                 number_if(pairs, exact->limit.least_s),
                                 number_if(pairs, exact->memory_bytes),
                                 text_if(e->has_features, exact->growth),
                                 number_if(sums, linear->flops),
                                 number_if(sums, linear->limit.least_s),
                                 number_if(sums, linear->memory_bytes),
                                 text_if(e->has_features, linear->growth),
                                 cell_number(e->methods.crossover),
                                 cell_number(e->prediction.error),
                                 number_if(!isnan(e->prediction.error), of->spread),
                                 cell_number(e->prediction.features)});
}

/* ---- the verb ------------------------------------------------------------------ */

/* A decode problem with as many kv heads as heads, as it has, and with one. */
static attend_status explain_heads(explain_run *run, const explanation *of) {
  const int heads[3] = {of->problem.desc.heads, of->problem.desc.kv_heads, 1};
  bool json = run->options->common.json;
  table t = table_start(heads_columns);
  attend_status status = ATTEND_OK;
  for (int n = 0; n < 3 && !status; n++) {
    explanation e = *of;
    if (n && heads[n] == heads[n - 1]) continue;
    e.problem.desc.kv_heads = heads[n];
    status = explain(run, &e);
    if (!status && json) add_row(run, &e);
    if (!status) add_heads(&t, &e);
  }
  if (!status && !json) table_print(&t, stdout);
  table_free(&t);
  return status;
}

static int explain_one(explain_run *run, explanation *e) {
  bool json = run->options->common.json, decode = e->problem.op == ATTEND_OP_DECODE;
  attend_status status = explain(run, e);
  if (!status && json && !decode) add_row(run, e);
  if (!status && !json) print_explanation(run, e);
  if (!status && decode) status = explain_heads(run, e);
  if (status) return complain_status(run->ctx, status);
  warn_if_slower(&e->problem, e->is.engine, &e->is.methods);
  return EXIT_OK;
}

static int explain_all(explain_run *run, explanation *all) {
  const explain_options *o = run->options;
  attend_status status = ATTEND_OK;
  /* Parsed before a second is spent on measuring. */
  for (int n = 0; n < o->count && !status; n++) {
    status = attend_problem_parse(run->ctx, o->problems[n], &all[n].problem);
    all[n].problem.desc.engine = o->common.engine;
    all[n].spread = spread_of(o->problems[n]);
  }
  if (!status) status = ceilings_get(run->ctx, &run->machine);
  if (status) return complain_status(run->ctx, status);
  int code = EXIT_OK;
  for (int n = 0; n < o->count && !code; n++) {
    if (n && !o->common.json) puts("");
    code = explain_one(run, &all[n]);
  }
  if (code) return code;
  return o->common.json ? table_print_json(&run->rows, run->ctx, stdout)
                        : check_written(stdout, "the explanation");
}

int cmd_explain(int argc, char **argv) {
  explain_options o = {0};
  int code;
  options_read(&verb_explain, argc, argv, &o);
  explain_run run = {.options = &o, .rows = table_start(json_columns)};
  run.ctx = options_context(&o.common, NULL, &code);
  if (!run.ctx) return code;
  explanation *all = need((size_t)o.count, sizeof *all);
  code = explain_all(&run, all);
  free(all);
  table_free(&run.rows);
  attend_context_free(run.ctx);
  return code;
}
