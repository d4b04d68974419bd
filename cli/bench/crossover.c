/* attend bench crossover: from which length on sums of features are faster.
 *
 * The length doubles until linear wins or the time is up, then the last doubling is
 * bisected a few times. Exact and linear take turns at every length.
 */
#include "bench/crossover.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "progress.h"
#include "table.h"
#include "bench/timing.h"
#include "bench/cost_models.h"

enum { USUAL_DIM = 64, USUAL_LIMIT = 20 };
enum { SHORTEST = 16, LONGEST = 1 << 22, HALVINGS = 3, VERIFIED = 200 };
enum { FEW_RUNS = 3, MANY_RUNS = 100 };
static const double LONG_RUN = 0.1; /* seconds: no more than FEW_RUNS of it */

static const struct {
  const char *name;
  attend_op op;
  int growth; /* of the time of pairs, when n doubles */
} operations[] = {{"forward", ATTEND_OP_FORWARD, 4},
                  {"forward+backward", ATTEND_OP_BACKWARD, 4},
                  {"decode", ATTEND_OP_DECODE, 2}};
enum { OPERATIONS = sizeof operations / sizeof *operations };

typedef struct {
  attend_context *ctx;
  attend_machine machine;
  const options *common;
  attend_problem problem; /* of this operation, at any length */
  const char *name;
  int growth;
  double limit_s, started;
} search;

typedef struct {
  int n;
  double exact_s, linear_s; /* the best of the runs: least disturbed */
  char engine[64];          /* of exact */
} timed;

/* ---- the problem --------------------------------------------------------------------- */

/* A shape is letters that each have a number. */
static bool is_shape(const char *text, size_t length) {
  bool digit = false;
  for (size_t n = 0; n < length; n++) {
    bool letter = strchr("bhgnxdv", text[n]) != NULL;
    digit = text[n] >= '0' && text[n] <= '9';
    if (!digit && (!letter || n + 1 == length)) return false;
  }
  return digit;
}

static bool has_letter(const char *text, size_t length, char letter) {
  return memchr(text, letter, length) != NULL;
}

/* FORM[:SHAPE][:WORD]... with the sizes it lacks put in. */
static attend_status read_form(attend_context *ctx, const crossover_options *o, attend_problem *p) {
  char text[512];
  const char *rest = strchr(o->form, ':');
  size_t form = rest ? (size_t)(rest - o->form) : strlen(o->form);
  const char *shape = rest ? rest + 1 : "";
  size_t length = strcspn(shape, ":");
  if (!is_shape(shape, length)) length = 0;
  int dim = o->dim ? o->dim : USUAL_DIM;
  const char *words = rest ? (length ? shape + length : rest) : "";
  char more[32] = "", wide[32] = "";
  if (!has_letter(shape, length, 'n')) snprintf(more, sizeof more, "n%d", SHORTEST);
  if (!has_letter(shape, length, 'd')) snprintf(wide, sizeof wide, "d%d", dim);
  snprintf(text, sizeof text, "%.*s:%.*s%s%s%s", (int)form, o->form, (int)length, shape, more, wide,
           words);
  return attend_problem_parse(ctx, text, p);
}

static int check_form(const crossover_options *o, const attend_problem *p) {
  const attend_desc *d = &p->desc;
  if (!has_feature_map(p))
    complain(
        "%s has no feature map, so nothing crosses: choose elu, favor, "
        "fourier, poly, or gaussian with features",
        o->form);
  else if (p->op != ATTEND_OP_FORWARD || d->q_len != d->kv_len)
    complain(
        "%s: crossover chooses lengths and operations itself: leave out "
        "x, bwd and decode",
        o->form);
  else
    return EXIT_OK;
  return EXIT_USAGE;
}

static attend_problem problem_of(const attend_problem *form, attend_op op) {
  attend_problem p = *form;
  attend_desc *d = &p.desc;
  p.op = op;
  if (d->mask.causal == ATTEND_NOT_CAUSAL) d->mask.causal = ATTEND_CAUSAL;
  if (op == ATTEND_OP_BACKWARD) d->purpose |= ATTEND_FOR_BACKWARD;
  if (op != ATTEND_OP_DECODE) return p;
  d->mask.causal = ATTEND_CAUSAL_BOTTOM;
  d->purpose |= ATTEND_FOR_EXTEND;
  d->q_len = 1;
  return p;
}

/* ---- timing --------------------------------------------------------------------------- */

/* A few runs each; where these were short, as many as fill a moment. */
static attend_status time_both(search *s, bench_case both[2]) {
  attend_status status = time_cases(s->ctx, both, 2, FEW_RUNS);
  double longer = fmax(both[0].best_s, both[1].best_s);
  if (status || longer > LONG_RUN) return status;
  double fit = LONG_RUN / fmax(longer, 1e-9);
  for (int n = 0; n < 2; n++) {
    free(both[n].times);
    both[n].times = NULL;
    both[n].taken = 0;
  }
  return time_cases(s->ctx, both, 2, (int)fmax(FEW_RUNS, fmin(fit, MANY_RUNS)));
}

static attend_status time_at(search *s, int n, timed *out) {
  attend_problem p = at_length(&s->problem, n);
  cost_models w = cost_models_of(s->ctx, &s->machine, &p);
  char note[96];
  bench_case both[2] = {{.text = s->name, .problem = w.exact.problem},
                        {.text = s->name, .problem = w.linear.problem}};
  snprintf(note, sizeof note, "crossover: %s, n = %d", s->name, n);
  if (seconds_now() - s->started > 2) progress_note(note);
  attend_status status = ATTEND_OK;
  for (int x = 0; x < 2 && !status; x++)
    status = bench_case_open(s->ctx, s->common->seed, &both[x]);
  if (!status) status = time_both(s, both);
  *out = (timed){n, both[0].best_s, both[1].best_s, ""};
  snprintf(out->engine, sizeof out->engine, "%s", both[0].engine);
  for (int x = 0; x < 2; x++) bench_case_close(s->ctx, &both[x]);
  return status;
}

static bool wins(const timed *t) { return t->linear_s < t->exact_s; }

/* Measured again, so that one lucky timing does not decide. */
static attend_status time_until_sure(search *s, int n, timed *out) {
  attend_status status = time_at(s, n, out);
  if (!status && wins(out)) status = time_at(s, n, out);
  return status;
}

/* Whether the next length still fits: its runs, those that warm up, and the
 * filling of a state. */
static bool has_time(const search *s, const timed *last) {
  double runs = FEW_RUNS + 2;
  double next = runs * (s->growth * last->exact_s + 2 * last->linear_s);
  return seconds_now() - s->started + next < s->limit_s;
}

/* ---- searching -------------------------------------------------------------------------- */

/* *at is the shortest length at which linear won, or the longest tried. */
static attend_status find_crossover(search *s, timed *at, bool *found) {
  attend_status status = time_until_sure(s, SHORTEST, at);
  while (!status && !wins(at) && at->n < LONGEST && has_time(s, at))
    status = time_until_sure(s, 2 * at->n, at);
  *found = !status && wins(at);
  int few = at->n / 2;
  for (int n = 0; *found && !status && n < HALVINGS && at->n > SHORTEST; n++) {
    timed middle;
    status = time_until_sure(s, (few + at->n) / 2, &middle);
    if (!status && wins(&middle))
      *at = middle;
    else
      few = middle.n;
  }
  return status;
}

static int verify_both(search *s) {
  attend_problem p = at_length(&s->problem, VERIFIED);
  cost_models w = cost_models_of(s->ctx, &s->machine, &p);
  const cost_model *both[2] = {&w.exact, &w.linear};
  for (int n = 0; n < 2; n++) {
    if (!*both[n]->engine) {
      complain("%s", both[n]->refusal);
      return EXIT_USAGE;
    }
    int code = verify_small(s->ctx, &both[n]->problem, s->common->seed);
    if (code) return code;
  }
  return EXIT_OK;
}

/* ---- the answer --------------------------------------------------------------------------- */

static const column columns[] = {{"form", NULL, CELL_TEXT},
                                 {"operation", "operation", CELL_TEXT},
                                 {"isa", "isa", CELL_TEXT},
                                 {"threads", "threads", CELL_COUNT},
                                 {"predicted_n", "predicted n", CELL_COUNT},
                                 {"measured_n", "measured n", CELL_COUNT},
                                 {"n", "times at n", CELL_COUNT},
                                 {"exact_engine", "exact", CELL_TEXT},
                                 {"exact_s", "exact", CELL_SECONDS},
                                 {"linear_s", "linear", CELL_SECONDS},
                                 {NULL, NULL, CELL_TEXT}};

static int add_operation(search *s, const char *form, table *t) {
  timed at;
  bool found;
  int code = verify_both(s);
  if (code) return code;
  attend_problem p = at_length(&s->problem, SHORTEST);
  cost_models w = cost_models_of(s->ctx, &s->machine, &p);
  double predicted = predicted_crossover(s->ctx, &s->machine, &w);
  attend_status status = find_crossover(s, &at, &found);
  progress_end();
  if (status) return complain_status(s->ctx, status);
  table_add(t, (cell[]){cell_text(form), cell_text(s->name), cell_text(attend_context_isa(s->ctx)),
                        cell_number(attend_context_threads(s->ctx)), cell_number(predicted),
                        cell_number(found ? at.n : NAN), cell_number(at.n), cell_text(at.engine),
                        cell_number(at.exact_s), cell_number(at.linear_s)});
  return EXIT_OK;
}

/* The shape without its length, which the search determines. */
static void form_text(const attend_problem *p, char *text, size_t size) {
  const attend_desc *d = &p->desc;
  attend_problem_print(p, text, size);
  char *shape = strstr(text, ":b");
  if (shape)
    snprintf(shape, size - (size_t)(shape - text), ":b%dh%dg%dd%dv%d", d->batch, d->heads,
             d->kv_heads, d->dim, d->dim_v);
}

int bench_crossover(attend_context *ctx, const options *common, const crossover_options *o) {
  attend_problem form;
  char text[256];
  search s = {.ctx = ctx, .common = common};
  s.limit_s = o->limit_s ? o->limit_s : USUAL_LIMIT;
  attend_status status = read_form(ctx, o, &form);
  if (status) return complain_status(ctx, status);
  int code = check_form(o, &form);
  if (code) return code;
  status = ceilings_get(ctx, &s.machine);
  if (status) return complain_status(ctx, status);
  form_text(&form, text, sizeof text);
  table t = table_start(columns);
  for (int n = 0; n < OPERATIONS && !code; n++) {
    s.problem = problem_of(&form, operations[n].op);
    s.name = operations[n].name;
    s.growth = operations[n].growth;
    s.started = seconds_now();
    code = add_operation(&s, text, &t);
  }
  if (!code && !common->json) puts(text);
  if (!code) code = common->json ? table_print_json(&t, ctx, stdout) : table_print(&t, stdout);
  table_free(&t);
  return code;
}
