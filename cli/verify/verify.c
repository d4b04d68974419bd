/* attend verify: options and tables of attend/verify.h. */
#include "attend/verify.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model_open.h"
#include "progress.h"
#include "table.h"

typedef struct {
  options common;
  bool all, invariance, light;
  const char *golden;
  model_options model; /* path NULL: attention alone */
  char **problems;
  int count;
} verify_options;

/* Rows of one instruction set and engine, or check. */
typedef struct {
  const char *isa, *name;
  size_t count, failed;
  double share; /* the largest error / bound */
  const char *problem;
} group;

enum { MOST_GROUPS = 128 };

typedef struct {
  const verify_options *options;
  attend_context *contexts[MOST_ISAS]; /* one per instruction set */
  int isas;
  attend_context *ctx;      /* in use: of messages */
  const char *const *names; /* of the problems */
  table rows, failures;
  group groups[MOST_GROUPS];
  int n_groups;
  size_t skipped, undecided;
} verify_run;

/* ---- options ------------------------------------------------------------------- */

static const option_row own[] = {
    {"all", NULL,
     "All pairs of form, mask, bias, dtype and layout, at awkward sizes, on every supported "
     "instruction set",
     FLAG(verify_options, all)},
    {"invariance", NULL,
     "Results are bit-identical over threads, batches, tiles, layouts, states and observers",
     FLAG(verify_options, invariance)},
    {"golden", "FILE", "Cases of a safetensors file computed by other code",
     TEXT(verify_options, golden)},
    {"model", "MODEL",
     "With --golden: logits, hidden states, attention and generated ids of this model",
     TEXT(verify_options, model.path), .letter = 'm'},
    {"light", NULL, "Smaller and fewer sizes, for emulators", FLAG(verify_options, light)},
    {0}};
static const option_part parts[] = {{own, 0},
                                    {option_rows_run, offsetof(verify_options, common)},
                                    {option_rows_seed, offsetof(verify_options, common)},
                                    {option_rows_engine, offsetof(verify_options, common)},
                                    {option_rows_json, offsetof(verify_options, common)},
                                    {0}};

static void finish(struct argp_state *state, char **words, int count, void *input) {
  verify_options *o = input;
  o->problems = words;
  o->count = count;
  if (o->all + o->invariance + (o->golden != NULL) + (count > 0) != 1)
    argp_error(state, "name problems, or one of --all, --invariance and --golden FILE");
  if (o->model.path && !o->golden) argp_error(state, "--model goes with --golden FILE");
  if (o->common.engine && count == 0) argp_error(state, "--engine goes with problems");
}

static const verb_options verb_verify = {
    parts, "PROBLEM...\n--all\n--invariance\n--golden FILE\n--model MODEL --golden FILE",
    "Runs the engine that the plan chooses and compares with the definition in double. The error "
    "may be twice that of a naive run in float.\v--isa all uses every supported instruction set. "
    "Exits with 1 if a result is wrong.",
    finish};

/* ---- rows ---------------------------------------------------------------------- */

static const column columns[] = {{"problem", "problem", CELL_TEXT},
                                 {"check", NULL, CELL_TEXT},
                                 {"engine", "engine", CELL_TEXT},
                                 {"isa", "isa", CELL_TEXT},
                                 {"threads", "threads", CELL_COUNT},
                                 {"worst", "of", CELL_TEXT},
                                 {"max_error", "max_error", CELL_SMALL},
                                 {"bound", "bound", CELL_SMALL},
                                 {"ok", "ok", CELL_OK},
                                 {"undecided", NULL, CELL_COUNT},
                                 {"o", NULL, CELL_SMALL},
                                 {"lse", NULL, CELL_SMALL},
                                 {"dq", NULL, CELL_SMALL},
                                 {"dk", NULL, CELL_SMALL},
                                 {"dv", NULL, CELL_SMALL},
                                 {"dbias", NULL, CELL_SMALL},
                                 {NULL, NULL, CELL_TEXT}};

static group *find_group(verify_run *run, const char *isa, const char *name) {
  for (int n = 0; n < run->n_groups; n++)
    if (!strcmp(run->groups[n].isa, isa) && !strcmp(run->groups[n].name, name))
      return &run->groups[n];
  if (run->n_groups < MOST_GROUPS) run->n_groups++;
  run->groups[run->n_groups - 1] = (group){.isa = isa, .name = name, .share = -1};
  return &run->groups[run->n_groups - 1];
}

static void add_row(verify_run *run, attend_context *ctx, const char *problem, const char *check,
                    const attend_verification *v) {
  double error = v->error[v->worst], bound = v->bound[v->worst];
  double share = error == 0 ? 0 : error / bound;
  cell row[] = {cell_text(problem),
                cell_text(check),
                cell_text(v->engine),
                cell_text(options_computes(ctx, v->engine)),
                cell_number(attend_context_threads(ctx)),
                cell_text(attend_output_name(v->worst)),
                cell_number(error),
                cell_number(bound),
                cell_number(v->ok),
                cell_number((double)v->undecided),
                cell_number(v->error[ATTEND_OUT_O]),
                cell_number(v->error[ATTEND_OUT_LSE]),
                cell_number(v->error[ATTEND_OUT_DQ]),
                cell_number(v->error[ATTEND_OUT_DK]),
                cell_number(v->error[ATTEND_OUT_DV]),
                cell_number(v->error[ATTEND_OUT_DBIAS])};
  table_add(&run->rows, row);
  if (!v->ok) table_add(&run->failures, row);
  run->undecided += v->undecided;
  /* The table's copies of the texts stay. */
  const cell *kept = run->rows.cells + (run->rows.rows - 1) * (size_t)run->rows.width;
  group *g = find_group(run, kept[3].text, run->options->all ? kept[2].text : kept[1].text);
  g->count++;
  g->failed += !v->ok;
  if (!(share > g->share)) return;
  g->share = share;
  g->problem = kept[0].text;
}

/* One row for each instruction set and engine, or instruction set and check. */
static int print_groups(const verify_run *run) {
  static const column by_engine[] = {{"isa", "isa", CELL_TEXT},
                                     {"engine", "engine", CELL_TEXT},
                                     {"runs", "runs", CELL_COUNT},
                                     {"failed", "failed", CELL_COUNT},
                                     {"share", "error/bound", CELL_RATIO},
                                     {"worst", "worst at", CELL_TEXT},
                                     {NULL, NULL, CELL_TEXT}};
  static const column by_check[] = {
      {"isa", "isa", CELL_TEXT},        {"check", "the same bits", CELL_TEXT},
      {"runs", "problems", CELL_COUNT}, {"failed", "failed", CELL_COUNT},
      {"share", NULL, CELL_RATIO},      {"worst", NULL, CELL_TEXT},
      {NULL, NULL, CELL_TEXT}};
  table t = table_start(run->options->all ? by_engine : by_check);
  for (int n = 0; n < run->n_groups; n++) {
    const group *g = &run->groups[n];
    table_add(
        &t, (cell[]){cell_text(g->isa), cell_text(g->name), cell_number((double)g->count),
                     cell_number((double)g->failed), cell_number(g->share), cell_text(g->problem)});
  }
  return table_finish(&t, NULL, false);
}

static int print_answer(verify_run *run) {
  const verify_options *o = run->options;
  if (run->undecided)
    fprintf(stderr, "attend: %zu rows were left out: float precision does not decide them\n",
            run->undecided);
  if (o->common.json) return table_print_json(&run->rows, run->contexts[0], stdout);
  if (!o->all && !o->invariance) return table_print(&run->rows, stdout);
  int code = run->failures.rows ? table_print(&run->failures, stdout) : EXIT_OK;
  if (!code) code = print_groups(run);
  printf("%zu of %zu ok", run->rows.rows - run->failures.rows, run->rows.rows);
  if (run->skipped) printf(", %zu that no engine takes", run->skipped);
  puts("");
  return code ? code : check_written(stdout, "the answer");
}

/* ---- problems ------------------------------------------------------------------ */

static void add_verdict(attend_context *ctx, size_t i, const attend_problem *problem,
                        const attend_verification *v, void *user) {
  verify_run *run = user;
  (void)problem;
  if (v)
    add_row(run, ctx, run->names[i], "definition", v);
  else
    run->skipped++;
}

static attend_status verify_problems(verify_run *run, size_t count, const char *const *names) {
  attend_problem *problems = need(count, sizeof *problems);
  attend_verify_options how = {
      ATTEND_INIT(attend_verify_options), .seed = run->options->common.seed,
      .skip = run->options->all,          .each = add_verdict,
      .progress = progress_report,        .user = run};
  attend_status status = ATTEND_OK;
  run->names = names;
  for (size_t n = 0; n < count && !status; n++) {
    problems[n].size = sizeof problems[n];
    status = attend_problem_parse(run->contexts[0], names[n], &problems[n]);
    problems[n].desc.engine = run->options->common.engine;
  }
  if (!status) status = attend_verify(run->isas, run->contexts, count, problems, &how);
  free(problems);
  return status;
}

static attend_status verify_cases(verify_run *run) {
  attend_cases *cases;
  attend_status status = attend_cases_create(run->contexts[0], run->options->light, &cases);
  if (status) return status;
  size_t count = attend_cases_count(cases);
  const char **names = need(count, sizeof *names);
  for (size_t n = 0; n < count; n++) names[n] = attend_cases_get(cases, n);
  status = verify_problems(run, count, names);
  free(names);
  attend_cases_free(cases);
  return status;
}

/* ---- invariance and golden files -------------------------------------------------- */

typedef struct {
  verify_run *run;
  attend_context *ctx;
  const char *problem;
} invariance;

static void add_check(const char *check, const attend_verification *v, void *user) {
  invariance *i = user;
  add_row(i->run, i->ctx, i->problem, check, v);
}

static attend_status verify_invariance(verify_run *run) {
  size_t count = 0;
  attend_status status = ATTEND_OK;
  while (attend_invariance_problem(count)) count++;
  if (run->options->light) count = ATTEND_INVARIANCE_LIGHT;
  for (size_t n = 0; n < count * (size_t)run->isas && !status; n++) {
    attend_context *ctx = run->ctx = run->contexts[n / count];
    invariance i = {run, ctx, attend_invariance_problem(n % count)};
    progress_share((double)n / (double)(count * (size_t)run->isas), i.problem);
    status = attend_invariance(ctx, i.problem, run->options->common.seed, add_check, &i);
    if (status == ATTEND_UNSUPPORTED) {
      run->skipped++;
      status = ATTEND_OK;
    }
  }
  return status;
}

static attend_status verify_golden(verify_run *run) {
  attend_golden *golden;
  attend_status status = attend_golden_open(run->contexts[0], run->options->golden, &golden);
  if (status) return status;
  size_t cases = attend_golden_count(golden);
  for (size_t n = 0; n < cases && !status; n++) {
    const char *name = attend_golden_name(golden, n);
    progress_share((double)n / (double)cases, name);
    for (int c = 0; c < run->isas && !status; c++) {
      attend_verification v;
      run->ctx = run->contexts[c];
      status = attend_golden_run(golden, n, run->ctx, &v);
      if (!status) add_row(run, run->ctx, name, "golden", &v);
    }
  }
  attend_golden_free(golden);
  return status;
}

static const column model_columns[] = {{"quantity", "quantity", CELL_TEXT},
                                       {"way", "computed", CELL_TEXT},
                                       {"error", "error", CELL_SMALL},
                                       {"bound", "bound", CELL_SMALL},
                                       {"bits", "bits", CELL_TEXT},
                                       {"ok", "ok", CELL_OK},
                                       {NULL, NULL, CELL_TEXT}};

typedef struct {
  table rows;
  size_t failed;
} model_rows;

static void add_quantity(const attend_golden_row *r, void *user) {
  model_rows *m = user;
  table_add(&m->rows, (cell[]){cell_text(r->quantity), cell_text(r->method), cell_number(r->error),
                               cell_number(r->bound), cell_text(r->bits), cell_number(r->ok)});
  m->failed += !r->ok;
}

static int verify_model(const model_opened *opened, const verify_options *o) {
  model_rows m = {.rows = table_start(model_columns)};
  size_t skipped;
  attend_status status = attend_golden_model(opened->model, o->golden, add_quantity, &m, &skipped);
  int code = status           ? complain_status(opened->ctx, status)
             : o->common.json ? table_print_json(&m.rows, opened->ctx, stdout)
                              : table_print(&m.rows, stdout);
  if (!status && skipped)
    fprintf(stderr, "attend: %zu gradients of the file were not compared\n", skipped);
  if (!status && m.failed) complain("%zu of %zu rows failed", m.failed, m.rows.rows);
  table_free(&m.rows);
  return m.failed && !code ? EXIT_FAILED : code;
}

/* ---- the verb ------------------------------------------------------------------ */

static int open_contexts(verify_run *run) {
  const verify_options *o = run->options;
  const char *isas[MOST_ISAS];
  int code = EXIT_OK, count = options_isas(&o->common, o->all || o->invariance, isas);
  for (run->isas = 0; run->isas < count && !code; run->isas += !code)
    run->contexts[run->isas] = options_context(&o->common, isas[run->isas], &code);
  return code;
}

static int verify(verify_run *run) {
  const verify_options *o = run->options;
  progress_start("verifying", 0);
  run->ctx = run->contexts[0];
  attend_status status =
      o->all          ? verify_cases(run)
      : o->invariance ? verify_invariance(run)
      : o->golden     ? verify_golden(run)
                      : verify_problems(run, (size_t)o->count, (const char *const *)o->problems);
  progress_end();
  return status ? complain_status(run->ctx, status) : EXIT_OK;
}

static int open_and_verify(verify_options *o) {
  model_opened m;
  int code = model_open(&o->common, &o->model, &m);
  if (!code) code = verify_model(&m, o);
  model_close(&m);
  return code;
}

int cmd_verify(int argc, char **argv) {
  verify_options o = {0};
  options_read(&verb_verify, argc, argv, &o);
  if (o.model.path) return open_and_verify(&o);
  verify_run run = {.options = &o, .rows = table_start(columns), .failures = table_start(columns)};
  int code = open_contexts(&run);
  if (!code) code = verify(&run);
  if (!code || run.rows.rows) {
    int printed = print_answer(&run);
    if (!code) code = printed;
  }
  if (!code && run.failures.rows) code = EXIT_FAILED;
  table_free(&run.rows);
  table_free(&run.failures);
  for (int n = 0; n < run.isas; n++) attend_context_free(run.contexts[n]);
  return code;
}
