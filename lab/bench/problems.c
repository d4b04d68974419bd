/* Problems: what they cost, how long they take, and where two methods cross.
 *
 * Costs come from plans, and at other lengths from descriptions. A problem is verified at
 * a small size before it is timed.
 */
#include <math.h>
#include <stdio.h>

#include "attend/bench.h"
#include "attend/verify.h"
#include "attention/problem.h"

enum { LONGEST = 1 << 24 }; /* of predicted crossovers */

static void sgemm_cost(const attend_problem *p, double *flops, double *bytes) {
  *flops = 2.0 * p->m * p->n * p->k;
  *bytes = 4.0 * ((double)p->m * p->k + (double)p->k * p->n + (double)p->m * p->n);
}

/* ---- the methods of a form with a feature map ------------------------------------- */

static bool is_random(const attend_form *f) {
  return f->kind == ATTEND_FAVOR || f->kind == ATTEND_FOURIER ||
         (f->kind == ATTEND_GAUSSIAN && f->features > 0);
}

bool attend_problem_has_features(const attend_problem *problem) {
  const attend_problem own = problem_of(problem), *p = &own;
  return p->op != ATTEND_OP_SGEMM && attend_form_features(&p->desc.form, p->desc.dim) > 0;
}

void attend_problem_resize(attend_problem *problem, int n) {
  attend_desc *d = &problem->desc;
  bool square = problem->op != ATTEND_OP_DECODE && d->q_len == d->kv_len;
  d->kv_len = n;
  if (square) d->q_len = n;
}

static attend_problem method_problem(const attend_problem *problem, bool linear) {
  attend_problem p = *problem;
  attend_form *f = &p.desc.form;
  p.desc.engine = linear ? "linear" : NULL;
  if (linear) return p;
  if (f->kind == ATTEND_POLY)
    p.desc.engine = "kernel-direct";
  else if (f->kind == ATTEND_GAUSSIAN)
    *f = (attend_form){.kind = ATTEND_GAUSSIAN, .sigma = f->sigma};
  else
    *f = (attend_form){.kind = ATTEND_SOFTMAX};
  return p;
}

static const char *growth_of(const attend_problem *p, bool linear) {
  bool decode = p->op == ATTEND_OP_DECODE, random = is_random(&p->desc.form);
  if (!linear) return decode ? "O(S (D + M))" : "O(T S (D + M))";
  if (decode) return random ? "O(C (D + M))" : "O(C M)";
  return random ? "O(T C (D + M))" : "O(T C M)";
}

/* What the state of a decode holds: keys and values, or sums. */
static double state_bytes(const attend_problem *p, bool linear) {
  const attend_desc *d = &p->desc;
  double heads = (double)d->batch * d->kv_heads;
  if (linear)
    return heads * (double)attend_form_features(&d->form, d->dim) * ((double)d->dim_v + 1) *
           sizeof(float);
  return heads * d->kv_len * ((double)d->dim + d->dim_v) * (double)attend_dtype_size(d->dtype);
}

/* A plan whose features are independent: orthogonal ones take time to draw, and cost the
 * same to use. */
static attend_status plan_for_cost(attend_context *ctx, const attend_problem *p, attend_plan **plan,
                                   attend_cost *cost) {
  attend_desc d = p->desc;
  d.form.draw = ATTEND_IID;
  ATTEND_TRY(attend_plan_create(ctx, &d, plan));
  return attend_plan_cost(*plan, cost);
}

/* The ceilings for its arithmetic: tensor cores multiply 16 bits. */
static attend_machine machine_for(const attend_machine *machine, const attend_problem *p) {
  attend_machine m = *machine;
  if (p->op != ATTEND_OP_SGEMM && p->desc.dtype != ATTEND_F32 && m.flops_16 > 0)
    m.flops_all = m.flops_16;
  return m;
}

/* One for each visible pair, and one more in backward. */
static double exponentials_of(const attend_problem *p, double visible) {
  const attend_form *f = &p->desc.form;
  const bool has = f->kind == ATTEND_SOFTMAX || (f->kind == ATTEND_ARGMAX && f->temperature > 0) ||
                   (f->kind == ATTEND_GAUSSIAN && f->features == 0);
  return has ? visible * (p->op == ATTEND_OP_BACKWARD ? 2 : 1) : 0;
}

static void add_exponentials(const attend_machine *machine, double count, attend_limit *l) {
  if (!(machine->exponentials > 0)) return;
  l->exponentials_s = count / machine->exponentials;
  if (!(l->exponentials_s > l->least_s)) return;
  l->least_s = l->exponentials_s;
  l->bound = "exponentials";
}

static attend_method method_of(attend_context *ctx, const attend_machine *machine,
                               const attend_problem *problem, bool linear) {
  attend_method m = {.problem = method_problem(problem, linear)};
  attend_cost cost = {0};
  attend_plan *plan = NULL;
  m.growth = growth_of(&m.problem, linear);
  if (plan_for_cost(ctx, &m.problem, &plan, &cost))
    snprintf(m.refusal, sizeof m.refusal, "%s", attend_message(ctx));
  else
    snprintf(m.engine, sizeof m.engine, "%s", cost.engine);
  attend_plan_free(plan);
  m.flops = cost.flops;
  m.bytes = cost.bytes;
  m.memory_bytes = (double)cost.workspace_bytes;
  if (m.problem.op == ATTEND_OP_DECODE) m.memory_bytes += state_bytes(&m.problem, linear);
  const attend_machine ceilings = machine_for(machine, &m.problem);
  attend_machine_limit(&ceilings, cost.flops, cost.bytes, &m.limit);
  add_exponentials(machine, exponentials_of(&m.problem, cost.visible), &m.limit);
  return m;
}

/* At another length; NaN where there is no such problem. */
static double predicted_s(attend_context *ctx, const attend_machine *machine,
                          const attend_method *m, int n) {
  attend_problem p = m->problem;
  attend_limit limit;
  attend_problem_resize(&p, n);
  attend_cost cost;
  if (attend_desc_cost(ctx, &p.desc, &cost)) return NAN;
  const attend_machine ceilings = machine_for(machine, &p);
  attend_machine_limit(&ceilings, cost.flops, cost.bytes, &limit);
  add_exponentials(machine, exponentials_of(&p, cost.visible), &limit);
  return limit.least_s;
}

static bool linear_wins(attend_context *ctx, const attend_machine *machine, const attend_methods *m,
                        int n) {
  return predicted_s(ctx, machine, &m->linear, n) < predicted_s(ctx, machine, &m->exact, n);
}

static double predicted_crossover(attend_context *ctx, const attend_machine *machine,
                                  const attend_methods *m) {
  int few = 0, many = 1;
  if (!*m->exact.engine || !*m->linear.engine) return NAN;
  while (!linear_wins(ctx, machine, m, many)) {
    if (many == LONGEST) return NAN;
    few = many;
    many *= 2;
  }
  while (many - few > 1) {
    int middle = few + (many - few) / 2;
    if (linear_wins(ctx, machine, m, middle))
      many = middle;
    else
      few = middle;
  }
  return many;
}

void attend_problem_methods(attend_context *ctx, const attend_machine *machine,
                            const attend_problem *problem, attend_methods *m) {
  const attend_problem p = problem_of(problem);
  m->exact = method_of(ctx, machine, &p, false);
  m->linear = method_of(ctx, machine, &p, true);
  m->crossover = predicted_crossover(ctx, machine, m);
}

/* ---- explaining a problem ----------------------------------------------------------- */

static void list_refused(const attend_plan *plan, attend_explanation *e) {
  const char *name, *refusal;
  size_t used = 0;
  for (int n = 0; attend_plan_candidate(plan, n, &name, &refusal); n++) {
    if (!strcmp(name, e->engine) || used >= sizeof e->refused) continue;
    used +=
        (size_t)snprintf(e->refused + used, sizeof e->refused - used, "%s%s: %s", used ? "; " : "",
                         name, refusal ? refusal : "applies too, but comes later in the list");
  }
}

static attend_status explain_plan(attend_context *ctx, const attend_problem *p,
                                  attend_explanation *e, double *exponentials) {
  attend_plan *plan = NULL;
  attend_cost cost;
  attend_status status = plan_for_cost(ctx, p, &plan, &cost);
  if (!status) {
    snprintf(e->engine, sizeof e->engine, "%s", cost.engine);
    list_refused(plan, e);
    e->workspace_bytes = (double)cost.workspace_bytes;
    e->flops = cost.flops;
    e->bytes = cost.bytes;
    *exponentials = exponentials_of(p, cost.visible);
  }
  attend_plan_free(plan);
  return status;
}

attend_status attend_explain(attend_context *ctx, const attend_machine *machine,
                             const attend_problem *problem, double spread, attend_explanation *e) {
  attend_problem own, *p = &own;
  attend_status status = ATTEND_OK;
  double exponentials = 0;
  ATTEND_TRY(OPTIONS_READ(ctx, attend_problem, problem, p));
  *e = (attend_explanation){.cache_bytes = NAN, .methods.crossover = NAN};
  e->prediction = (attend_prediction){NAN, NAN, NAN, 0, NAN};
  e->has_features = attend_problem_has_features(p);
  if (p->op == ATTEND_OP_SGEMM) {
    sgemm_cost(p, &e->flops, &e->bytes);
  } else {
    status = explain_plan(ctx, p, e, &exponentials);
    if (!status && e->has_features) attend_problem_methods(ctx, machine, p, &e->methods);
    if (!status && is_random(&p->desc.form))
      status = attend_predict_spread(ctx, &p->desc, spread, 0.1, &e->prediction);
    if (p->op == ATTEND_OP_DECODE) e->cache_bytes = state_bytes(p, strstr(e->engine, "linear"));
  }
  const attend_machine ceilings = machine_for(machine, p);
  attend_machine_limit(&ceilings, e->flops, e->bytes, &e->limit);
  add_exponentials(machine, exponentials, &e->limit);
  e->knee = ceilings.flops_all / ceilings.read_all;
  return status;
}

/* ---- timing -------------------------------------------------------------------------- */

enum { LEAST = 5, MOST = 2000 };     /* runs, unless their number is given */
static const double QUEUED_S = 0.01; /* of runs that a GPU is given at once */

typedef struct {
  attend_problem problem;
  attend_tensors tensors;
  attend_solver *solver;
  float *a, *b, *c; /* of sgemm: one block */
  double *times;    /* [repeats] seconds */
  int taken, repeats, inner;
  attend_timing result;
} timed_case;

typedef struct {
  attend_context *ctx;
  attend_bench_options o;
} timer;

static attend_status report(const timer *t, double done, const char *what,
                            const attend_problem *p) {
  char text[256], now[300];
  if (!t->o.progress) return ATTEND_OK;
  attend_problem_print(p, text, sizeof text);
  snprintf(now, sizeof now, "%s %s", what, text);
  if (!t->o.progress(done, now, t->o.user)) return ATTEND_OK;
  return fail(t->ctx, ATTEND_STOPPED, "the benchmark was stopped");
}

static attend_status open_sgemm(const timer *t, timed_case *c) {
  const attend_problem *p = &c->problem;
  size_t m = (size_t)p->m, n = (size_t)p->n, k = (size_t)p->k;
  ATTEND_CHECK(t->ctx, t->o.product, "an sgemm problem needs a matrix product to time");
  size_t count = size_add(size_add(size_times(m, k), size_times(k, n)), size_times(m, n));
  ATTEND_TRY(ctx_alloc_zeroed(t->ctx, size_times(count, sizeof *c->a), "matrices", &c->a));
  c->b = c->a + m * k;
  c->c = c->b + k * n;
  attend_random_normal((attend_random){t->o.seed, 1}, 0, m * k, c->a);
  attend_random_normal((attend_random){t->o.seed, 2}, 0, k * n, c->b);
  sgemm_cost(p, &c->result.flops, &c->result.bytes);
  snprintf(c->result.engine, sizeof c->result.engine, "%s", t->o.product->name);
  return ATTEND_OK;
}

static attend_status open_case(const timer *t, timed_case *c) {
  attend_cost cost = {0};
  if (c->problem.op == ATTEND_OP_SGEMM) return open_sgemm(t, c);
  ATTEND_TRY(attend_problem_tensors(t->ctx, &c->problem, t->o.seed, &c->tensors));
  ATTEND_TRY(attend_solver_create(t->ctx, &c->problem, &c->tensors, &c->solver));
  /* A decode's plan has the number of keys in the state, the new one included. */
  ATTEND_TRY(attend_plan_cost(attend_solver_plan(c->solver), &cost));
  c->result.flops = cost.flops;
  c->result.bytes = cost.bytes;
  c->result.workspace_bytes = (double)cost.workspace_bytes;
  snprintf(c->result.engine, sizeof c->result.engine, "%s", cost.engine);
  return ATTEND_OK;
}

static void close_case(const timer *t, timed_case *c) {
  attend_solver_free(c->solver);
  attend_tensors_free(t->ctx, &c->tensors);
  ctx_free(t->ctx, c->a);
  ctx_free(t->ctx, c->times);
}

/* Seconds of a run. Rewinding a state is not timed, unless runs are queued: on a GPU `inner` of
 * them, so that the wait at the end counts little. */
static attend_status run_once(const timer *t, timed_case *c, double *seconds) {
  const attend_problem *p = &c->problem;
  const int inner = c->inner ? c->inner : 1;
  attend_status status = ATTEND_OK;
  double start = seconds_now();
  if (p->op == ATTEND_OP_SGEMM) {
    t->o.product->multiply(attend_context_threads(t->ctx), p->m, p->n, p->k, c->a, c->b, c->c);
    *seconds = seconds_now() - start;
    return ATTEND_OK;
  }
  for (int i = 0; i < inner && !status; i++) {
    if (i) status = attend_solver_rewind(c->solver);
    if (!status) status = attend_solver_run(c->solver);
  }
  if (!status) status = attend_context_wait(t->ctx);
  *seconds = (seconds_now() - start) / inner;
  return status ? status : attend_solver_rewind(c->solver);
}

/* Twice, the first for the caches and the threads; then how often it fits into a second. */
static attend_status warm_up(const timer *t, timed_case *c, int repeat) {
  const bool queued = strcmp(attend_context_device(t->ctx), "cpu") != 0;
  double seconds;
  ATTEND_TRY(run_once(t, c, &seconds));
  if (seconds < 1) ATTEND_TRY(run_once(t, c, &seconds));
  if (queued && seconds < QUEUED_S) {
    c->inner = (int)fmin(MOST, QUEUED_S / fmax(seconds, 1e-6)) + 1;
    ATTEND_TRY(run_once(t, c, &seconds));
  }
  double fits = seconds > 0 ? 1 / (seconds * (c->inner ? c->inner : 1)) : MOST;
  c->repeats = repeat ? repeat : fits < LEAST ? LEAST : fits > MOST ? MOST : (int)fits;
  c->taken = 0;
  ctx_free(t->ctx, c->times);
  return ctx_alloc(t->ctx, (size_t)c->repeats * sizeof *c->times, "times", &c->times);
}

/* In as many rounds as the case with the fewest runs has. */
static attend_status time_cases(const timer *t, timed_case *list, int count, int repeat,
                                bool reports) {
  int rounds = repeat ? repeat : MOST;
  for (int n = 0; n < count; n++) {
    ATTEND_TRY(warm_up(t, &list[n], repeat));
    if (list[n].repeats < rounds) rounds = list[n].repeats;
  }
  for (int round = 0; round < rounds; round++)
    for (int n = 0; n < count; n++) {
      timed_case *c = &list[n];
      int until = (int)((int64_t)c->repeats * (round + 1) / rounds);
      if (reports) ATTEND_TRY(report(t, (double)round / rounds, "timing", &c->problem));
      while (c->taken < until) ATTEND_TRY(run_once(t, c, &c->times[c->taken++]));
    }
  for (int n = 0; n < count; n++) {
    list[n].result.median_s = attend_median(list[n].times, (size_t)list[n].taken);
    list[n].result.best_s = list[n].times[0]; /* sorted now */
  }
  return ATTEND_OK;
}

/* ---- problems ------------------------------------------------------------------------- */

typedef struct {
  attend_context *ctx;
  attend_status status; /* of the first wrong result */
} verified;

static void refuse_wrong(attend_context *ctx, size_t i, const attend_problem *problem,
                         const attend_verification *v, void *user) {
  verified *all = user;
  char text[256];
  (void)i;
  if (v->ok || all->status) return;
  attend_problem_print(problem, text, sizeof text);
  all->status =
      fail(ctx, ATTEND_UNSUPPORTED,
           "%s is wrong (%s errs by %.2e, allowed are %.2e): run attend verify \"%s\"", text,
           attend_output_name(v->worst), v->error[v->worst], v->bound[v->worst], text);
}

static attend_status verify_small(const timer *t, const attend_problem *problem, double done) {
  verified all = {.ctx = t->ctx};
  attend_verify_options how = {ATTEND_INIT(attend_verify_options)};
  how.seed = t->o.seed;
  how.small = true;
  how.each = refuse_wrong;
  how.user = &all;
  if (problem->op == ATTEND_OP_SGEMM) return ATTEND_OK;
  ATTEND_TRY(report(t, done, "verifying", problem));
  ATTEND_TRY(attend_verify(1, &t->ctx, 1, problem, &how));
  return all.status;
}

static attend_status bench_cases(const timer *t, timed_case *list, int count,
                                 const attend_problem *problems) {
  for (int n = 0; n < count; n++) {
    const attend_problem *p = problem_at(problems, (size_t)n);
    ATTEND_TRY(OPTIONS_READ(t->ctx, attend_problem, p, &list[n].problem));
    ATTEND_TRY(verify_small(t, &list[n].problem, (double)n / count));
  }
  for (int n = 0; n < count; n++) {
    list[n].tensors.size = sizeof list[n].tensors;
    ATTEND_TRY(open_case(t, &list[n]));
  }
  return time_cases(t, list, count, t->o.repeat, true);
}

attend_status attend_bench(attend_context *ctx, int count, const attend_problem *problems,
                           const attend_bench_options *options, attend_timing *timings) {
  timer t = {.ctx = ctx};
  timed_case *list;
  ATTEND_TRY(OPTIONS_READ(ctx, attend_bench_options, options, &t.o));
  ATTEND_TRY(
      ctx_alloc_zeroed(ctx, size_times((size_t)count, sizeof *list), "problems to time", &list));
  attend_status status = bench_cases(&t, list, count, problems);
  for (int n = 0; n < count; n++) {
    timings[n] = list[n].result;
    close_case(&t, &list[n]);
  }
  ctx_free(ctx, list);
  return status;
}

/* ---- crossover ------------------------------------------------------------------------- */

enum { USUAL_DIM = 64, USUAL_LIMIT = 20 };
enum { SHORTEST = 16, LONGEST_TRIED = 1 << 22, HALVINGS = 3, VERIFIED = 200 };
enum { FEW_RUNS = 3, MANY_RUNS = 100 };
static const double LONG_RUN = 0.1; /* seconds: no more than FEW_RUNS of it */

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

attend_status attend_crossover_parse(attend_context *ctx, const char *given, int dim,
                                     attend_problem *p) {
  char text[512], length[32] = "", width[32] = "";
  size_t form = strcspn(given, ":");
  const char *shape = given + form + (given[form] == ':'), *words = given + form;
  size_t n = strcspn(shape, ":");
  if (is_shape(shape, n))
    words = shape + n;
  else
    n = 0;
  if (!memchr(shape, 'n', n)) snprintf(length, sizeof length, "n%d", SHORTEST);
  if (!memchr(shape, 'd', n)) snprintf(width, sizeof width, "d%d", dim ? dim : USUAL_DIM);
  snprintf(text, sizeof text, "%.*s:%.*s%s%s%s", (int)form, given, (int)n, shape, length, width,
           words);
  ATTEND_TRY(attend_problem_parse(ctx, text, p));
  ATTEND_CHECK(ctx, attend_problem_has_features(p),
               "%s has no feature map, so nothing crosses: choose elu, favor, fourier, poly, or "
               "gaussian with features",
               given);
  ATTEND_CHECK(ctx, p->op == ATTEND_OP_FORWARD && p->desc.q_len == p->desc.kv_len,
               "%s: crossover chooses lengths and operations itself: leave out x, bwd and decode",
               given);
  return ATTEND_OK;
}

typedef struct {
  timer timer;
  const attend_machine *machine;
  attend_problem problem; /* of the operation, at any length */
  double limit_s, started;
} search;

static attend_problem operation_of(const attend_problem *form, attend_op op) {
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

/* A few runs each; where these were short, as many as fill a moment. */
static attend_status time_both(const timer *t, timed_case both[2]) {
  ATTEND_TRY(time_cases(t, both, 2, FEW_RUNS, false));
  double longer = fmax(both[0].result.best_s, both[1].result.best_s);
  if (longer > LONG_RUN) return ATTEND_OK;
  double fit = LONG_RUN / fmax(longer, 1e-9);
  return time_cases(t, both, 2, (int)fmax(FEW_RUNS, fmin(fit, MANY_RUNS)), false);
}

static attend_status time_at(const search *s, int n, attend_crossover *at) {
  const timer *t = &s->timer;
  attend_problem p = s->problem;
  attend_problem_resize(&p, n);
  timed_case both[2] = {
      {.problem = method_problem(&p, false), .tensors = {ATTEND_INIT(attend_tensors)}},
      {.problem = method_problem(&p, true), .tensors = {ATTEND_INIT(attend_tensors)}}};
  double share = (seconds_now() - s->started) / s->limit_s;
  ATTEND_TRY(report(t, fmin(share, 1), "crossover:", &p));
  attend_status status = open_case(t, &both[0]);
  if (!status) status = open_case(t, &both[1]);
  if (!status) status = time_both(t, both);
  at->n = n;
  at->exact_s = both[0].result.best_s;
  at->linear_s = both[1].result.best_s;
  at->found = !status && at->linear_s < at->exact_s;
  snprintf(at->exact_engine, sizeof at->exact_engine, "%s", both[0].result.engine);
  for (int x = 0; x < 2; x++) close_case(t, &both[x]);
  return status;
}

/* Measured again, so that one lucky timing does not decide. */
static attend_status time_until_sure(const search *s, int n, attend_crossover *at) {
  ATTEND_TRY(time_at(s, n, at));
  return at->found ? time_at(s, n, at) : ATTEND_OK;
}

/* Whether twice the length still fits: its runs, those that warm up, and the filling of
 * a state. */
static bool has_time(const search *s, const attend_crossover *last) {
  int growth = s->problem.op == ATTEND_OP_DECODE ? 2 : 4; /* of the time of pairs */
  double next = (FEW_RUNS + 2) * (growth * last->exact_s + 2 * last->linear_s);
  return seconds_now() - s->started + next < s->limit_s;
}

static attend_status find_crossover(const search *s, attend_crossover *at) {
  ATTEND_TRY(time_until_sure(s, SHORTEST, at));
  while (!at->found && at->n < LONGEST_TRIED && has_time(s, at))
    ATTEND_TRY(time_until_sure(s, 2 * at->n, at));
  int few = at->n / 2;
  for (int n = 0; at->found && n < HALVINGS && at->n > SHORTEST; n++) {
    attend_crossover middle = *at;
    ATTEND_TRY(time_until_sure(s, (few + at->n) / 2, &middle));
    if (middle.found)
      *at = middle;
    else
      few = middle.n;
  }
  return ATTEND_OK;
}

static attend_status verify_both(const search *s) {
  attend_problem p = s->problem;
  attend_problem_resize(&p, VERIFIED);
  for (int linear = 0; linear < 2; linear++) {
    attend_method m = method_of(s->timer.ctx, s->machine, &p, linear);
    ATTEND_CHECK(s->timer.ctx, *m.engine, "%s", m.refusal);
    ATTEND_TRY(verify_small(&s->timer, &m.problem, 0));
  }
  return ATTEND_OK;
}

attend_status attend_bench_crossover(attend_context *ctx, const attend_machine *machine,
                                     const attend_problem *problem, attend_op op,
                                     const attend_bench_options *options, attend_crossover *at) {
  search s = {.timer.ctx = ctx, .machine = machine};
  attend_methods methods;
  *at = (attend_crossover){0};
  ATTEND_TRY(OPTIONS_READ(ctx, attend_bench_options, options, &s.timer.o));
  ATTEND_TRY(OPTIONS_READ(ctx, attend_problem, problem, &s.problem));
  s.problem = operation_of(&s.problem, op);
  s.limit_s = s.timer.o.limit_s > 0 ? s.timer.o.limit_s : USUAL_LIMIT;
  s.started = seconds_now();
  ATTEND_TRY(verify_both(&s));
  attend_problem shortest = s.problem;
  attend_problem_resize(&shortest, SHORTEST);
  attend_problem_methods(ctx, machine, &shortest, &methods);
  at->predicted_n = methods.crossover;
  return find_crossover(&s, at);
}
