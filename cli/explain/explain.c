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
  attend_problem problem;
  char text[256];
  double spread;
  bool variant; /* of the decode problem before, with another number of kv heads */
  attend_explanation is;
} explanation;

typedef struct {
  const explain_options *options;
  attend_context *ctx;
  attend_machine machine;
  explanation *all;
  int count;
} explain_run;

enum { MOST_VARIANTS = 3 };

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
    "Prints the engine that would run, the reasons against the others, operations, bytes, "
    "arithmetic intensity, workspace, and whether arithmetic or memory bounds the time on this "
    "machine. For a form with a feature map, also both methods to compute it, their crossover, and "
    "the error of random features.\vThe machine's ceilings are measured once and kept; `attend "
    "bench machine' measures them anew. A :decode problem is shown with as many kv heads as heads, "
    "as many as it has, and one.",
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

/* A decode problem also with as many kv heads as heads, as it has, and with one. */
static attend_status explain_variants(explain_run *run, explanation main) {
  const int heads[MOST_VARIANTS] = {main.problem.desc.heads, main.problem.desc.kv_heads, 1};
  attend_status status = explain(run, &main);
  run->all[run->count++] = main;
  main.variant = true;
  for (int n = 0; n < MOST_VARIANTS && !status && main.problem.op == ATTEND_OP_DECODE; n++) {
    if (n && heads[n] == heads[n - 1]) continue;
    main.problem.desc.kv_heads = heads[n];
    status = explain(run, &main);
    run->all[run->count++] = main;
  }
  return status;
}

static attend_status explain_all(explain_run *run) {
  const explain_options *o = run->options;
  attend_problem p = {ATTEND_INIT(attend_problem)};
  /* Checked before a second is spent on measuring. */
  for (int n = 0; n < o->count; n++) {
    attend_status status = attend_problem_parse(run->ctx, o->problems[n], &p);
    if (status) return status;
  }
  attend_status status = ceilings_get(run->ctx, &run->machine);
  for (int n = 0; n < o->count && !status; n++) {
    explanation e = {.spread = spread_of(o->problems[n]), .problem.size = sizeof e.problem};
    status = attend_problem_parse(run->ctx, o->problems[n], &e.problem);
    e.problem.desc.engine = o->common.engine;
    if (!status) status = explain_variants(run, e);
  }
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

static void print_times(const attend_explanation *e) {
  char arithmetic[32], memory[32], least[32], turn[64];
  const attend_limit *l = &e->limit;
  snprintf(turn, sizeof turn, " FLOP/byte (memory binds below %.1f)", e->knee);
  line("intensity", CELL_RATE, e->flops / e->bytes, turn);
  format_cell(CELL_SECONDS, l->arithmetic_s, arithmetic, sizeof arithmetic);
  format_cell(CELL_SECONDS, l->memory_s, memory, sizeof memory);
  format_cell(CELL_SECONDS, l->least_s, least, sizeof least);
  printf("  %-10s %s: at least %s (arithmetic %s, memory %s", "bound", l->bound, least, arithmetic,
         memory);
  if (l->exponentials_s > 0) {
    format_cell(CELL_SECONDS, l->exponentials_s, least, sizeof least);
    printf(", exponentials %s", least);
  }
  puts(")");
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
  const int threads = attend_context_threads(run->ctx);
  const char *on = options_computes(run->ctx, e->engine);
  printf("%s\n  %-10s %s (%s", of->text, "engine", e->engine, on);
  if (!strcmp(on, attend_context_isa(run->ctx)))
    printf(", %d thread%s", threads, threads == 1 ? "" : "s");
  puts(")");
  if (!strncmp(e->engine, "host:", 5))
    printf("  %-10s on the host: tensors are copied there and back\n", "");
  if (!strcmp(e->engine, "none"))
    printf("  %-10s no BLAS: the program was built without one\n", "");
  print_refused(e->refused);
  line("FLOPs", CELL_NUMBER, e->flops, "");
  line("bytes", CELL_BYTES, e->bytes, " at least, each tensor once");
  if (of->problem.op != ATTEND_OP_SGEMM) line("workspace", CELL_BYTES, e->workspace_bytes, "");
  print_times(e);
  if (e->has_features) print_methods(run, &e->methods);
  print_error(&e->prediction, of->spread);
}

static int print_variants(const explain_run *run, const explanation *of) {
  static const column columns[] = {{"kv_heads", "kv heads", CELL_COUNT},
                                   {"flops", "FLOPs", CELL_NUMBER},
                                   {"bytes", "bytes", CELL_BYTES},
                                   {"cache_bytes", "cache", CELL_BYTES},
                                   {"intensity", "intensity", CELL_RATIO},
                                   {"bound", "bound", CELL_TEXT},
                                   {"predicted_s", "at least", CELL_SECONDS},
                                   {NULL, NULL, CELL_TEXT}};
  table t = table_start(columns);
  for (; of < run->all + run->count && of->variant; of++) {
    const attend_explanation *e = &of->is;
    table_add(&t, (cell[]){cell_number(of->problem.desc.kv_heads), cell_number(e->flops),
                           cell_number(e->bytes), cell_number(e->cache_bytes),
                           cell_number(e->flops / e->bytes), cell_text(e->limit.bound),
                           cell_number(e->limit.least_s)});
  }
  return table_finish(&t, run->ctx, false);
}

static int print_text(const explain_run *run) {
  for (int n = 0; n < run->count; n++) {
    if (run->all[n].variant) continue;
    if (n) puts("");
    print_explanation(run, &run->all[n]);
    if (n + 1 < run->count && run->all[n + 1].variant) print_variants(run, &run->all[n + 1]);
  }
  return check_written(stdout, "the explanation");
}

/* ---- JSON ------------------------------------------------------------------------- */

static void put_row(const explain_run *run, json_writer *w, const explanation *of) {
  const attend_explanation *e = &of->is;
  const attend_method *exact = &e->methods.exact, *linear = &e->methods.linear;
  bool attention = of->problem.op != ATTEND_OP_SGEMM;
  bool pairs = e->has_features && *exact->engine, sums = e->has_features && *linear->engine;
  json_row_open(w);
  json_member_string(w, "problem", of->text);
  json_member_string(w, "engine", e->engine);
  json_member_string(w, "isa", options_computes(run->ctx, e->engine));
  json_member_number(w, "threads", attend_context_threads(run->ctx));
  json_member_string(w, "refused", e->refused);
  json_member_number(w, "kv_heads", attention ? of->problem.desc.kv_heads : NAN);
  json_member_number(w, "flops", e->flops);
  json_member_number(w, "bytes", e->bytes);
  json_member_number(w, "cache_bytes", e->cache_bytes);
  json_member_number(w, "intensity", e->flops / e->bytes);
  json_member_number(w, "workspace_bytes", attention ? e->workspace_bytes : NAN);
  json_member_string(w, "bound", e->limit.bound);
  json_member_number(w, "arithmetic_s", e->limit.arithmetic_s);
  json_member_number(w, "memory_s", e->limit.memory_s);
  if (e->limit.exponentials_s > 0) json_member_number(w, "exponentials_s", e->limit.exponentials_s);
  json_member_number(w, "predicted_s", e->limit.least_s);
  json_member_string(w, "exact_engine", pairs ? exact->engine : NULL);
  json_member_number(w, "exact_flops", pairs ? exact->flops : NAN);
  json_member_number(w, "exact_s", pairs ? exact->limit.least_s : NAN);
  json_member_number(w, "exact_memory_bytes", pairs ? exact->memory_bytes : NAN);
  json_member_string(w, "exact_growth", exact->growth);
  json_member_number(w, "linear_flops", sums ? linear->flops : NAN);
  json_member_number(w, "linear_s", sums ? linear->limit.least_s : NAN);
  json_member_number(w, "linear_memory_bytes", sums ? linear->memory_bytes : NAN);
  json_member_string(w, "linear_growth", linear->growth);
  json_member_number(w, "crossover_n", e->methods.crossover);
  json_member_number(w, "expected_error", e->prediction.error);
  json_member_number(w, "spread", isnan(e->prediction.error) ? NAN : of->spread);
  json_member_number(w, "features_for_tenth", e->prediction.features);
  json_close(w, '}');
}

/* Of a decode problem the variants alone. */
static int print_json(const explain_run *run) {
  json_writer w = json_rows_open(run->ctx);
  for (int n = 0; n < run->count; n++)
    if (run->all[n].variant || run->all[n].problem.op != ATTEND_OP_DECODE)
      put_row(run, &w, &run->all[n]);
  return json_rows_close(&w, run->ctx);
}

int cmd_explain(int argc, char **argv) {
  explain_options o = {0};
  int code;
  options_read(&verb_explain, argc, argv, &o);
  explain_run run = {.options = &o};
  run.ctx = options_context(&o.common, NULL, &code);
  if (!run.ctx) return code;
  run.all = need((size_t)o.count * (1 + MOST_VARIANTS), sizeof *run.all);
  attend_status status = explain_all(&run);
  code = status          ? complain_status(run.ctx, status)
         : o.common.json ? print_json(&run)
                         : print_text(&run);
  for (int n = 0; n < run.count && !code; n++)
    if (!run.all[n].variant)
      warn_if_slower(&run.all[n].problem, run.all[n].is.engine, &run.all[n].is.methods);
  free(run.all);
  attend_context_free(run.ctx);
  return code;
}
