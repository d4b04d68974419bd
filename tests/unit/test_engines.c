/* Engines and kinds of states are known by their tables: a device that brings
 * tables of its own, here copies of the CPU's at other addresses, gives the same
 * bits, costs and choices; states of one kind are refused by plans of another. */
#include "attention/state.h"

#include <stdlib.h>
#include <unistd.h>

#include "attend/problem.h"
#include "attend/attend.h"
#include "check.h"

enum { MOST = 8 };

/* Copies of the CPU's engines and of the kinds of their states. */
typedef struct {
  attend_engine engine[MOST];
  state_kind kind[MOST];
  const attend_engine *list[MOST + 1];
} device;

static void device_make(device *d) {
  int n = 0;
  for (; cpu_engines[n] && n < MOST; n++) {
    d->engine[n] = *cpu_engines[n];
    d->list[n] = &d->engine[n];
  }
  d->list[n] = NULL;
  CHECK(n > 3 && !cpu_engines[n]);
}

static void device_own_states(device *d) {
  for (int n = 0; d->list[n]; n++) {
    d->kind[n] = *d->engine[n].states;
    d->engine[n].states = &d->kind[n];
  }
}

static attend_context *context_make(void) {
  attend_context *ctx = NULL;
  CHECK_EQ(attend_context_create(NULL, &ctx), ATTEND_OK);
  return ctx;
}

static attend_tensors tensors_of(attend_context *ctx, const char *text) {
  attend_problem problem = {ATTEND_INIT(attend_problem)};
  attend_tensors t = {ATTEND_INIT(attend_tensors)};
  CHECK_EQ(attend_problem_parse(ctx, text, &problem), ATTEND_OK);
  CHECK_EQ(attend_problem_tensors(ctx, &problem, 1, &t), ATTEND_OK);
  return t;
}

/* ---- calls ------------------------------------------------------------------- */

static void forward_and_backward(attend_plan *plan, attend_tensors *t) {
  CHECK_EQ(attend_forward(plan, t->q, t->k, t->v, t->o, t->lse), ATTEND_OK);
  CHECK_EQ(attend_backward(plan, t->q, t->k, t->v, t->o, t->lse, t->d_o, t->dq, t->dk, t->dv, NULL),
           ATTEND_OK);
}

static void observe(attend_plan *plan, attend_tensors *t, float *entropy) {
  attend_observation look = {ATTEND_INIT(attend_observation), .entropy = entropy};
  CHECK_EQ(attend_observe(plan, t->q, t->k, t->lse, &look), ATTEND_OK);
}

/* All rows through a state that was saved and read again halfway. */
static void extend(attend_context *ctx, attend_tensors *t, const char *file) {
  attend_desc d = t->desc;
  attend_plan *plan = NULL;
  attend_state *state = NULL, *read = NULL;
  d.purpose = ATTEND_FOR_EXTEND;
  CHECK_EQ(attend_plan_create(ctx, &d, &plan), ATTEND_OK);
  CHECK_EQ(attend_state_create(plan, &state), ATTEND_OK);
  CHECK_EQ(attend_extend(plan, state, d.q_len, t->q, t->k, t->v, t->o, t->lse), ATTEND_OK);
  CHECK_EQ(attend_state_save(state, file), ATTEND_OK);
  CHECK_EQ(attend_state_load(plan, file, &read), ATTEND_OK);
  CHECK_EQ(attend_state_bytes(read) > 0, 1);
  CHECK_EQ(attend_state_query(plan, read, 1, t->q, t->o, t->lse), ATTEND_OK);
  attend_state_free(read);
  attend_state_free(state);
  attend_plan_free(plan);
}

typedef struct {
  void *bytes; /* of all tensors, after the calls */
  float *entropy;
  char engine[32];
  double flops;
} outcome;

static outcome run(attend_context *ctx, const char *text, attend_tensors *t) {
  char file[64];
  outcome r = {0};
  attend_plan *plan = NULL;
  attend_cost cost;
  *t = tensors_of(ctx, text);
  size_t rows = (size_t)t->desc.batch * (size_t)t->desc.heads * (size_t)t->desc.q_len;
  r.bytes = malloc(t->bytes);
  r.entropy = calloc(rows, sizeof *r.entropy);
  CHECK_EQ(attend_plan_create(ctx, &t->desc, &plan), ATTEND_OK);
  CHECK_EQ(attend_plan_cost(plan, &cost), ATTEND_OK);
  snprintf(r.engine, sizeof r.engine, "%s", attend_plan_engine(plan));
  r.flops = cost.flops;
  forward_and_backward(plan, t);
  observe(plan, t, r.entropy);
  attend_plan_free(plan);
  snprintf(file, sizeof file, "engines-%ld.test", (long)getpid());
  extend(ctx, t, file);
  remove(file);
  memcpy(r.bytes, t->block, t->bytes);
  return r;
}

static void compare(attend_context *ctx, const device *d, const char *text) {
  attend_tensors a, b;
  ctx->engines = cpu_engines;
  outcome x = run(ctx, text, &a);
  ctx->engines = d->list;
  outcome y = run(ctx, text, &b);
  size_t rows = (size_t)a.desc.batch * (size_t)a.desc.heads * (size_t)a.desc.q_len;
  CHECK(!strcmp(x.engine, y.engine));
  CHECK(x.flops == y.flops);
  CHECK(a.bytes == b.bytes && !memcmp(x.bytes, y.bytes, a.bytes));
  CHECK(!memcmp(x.entropy, y.entropy, rows * sizeof *x.entropy));
  free(x.bytes), free(y.bytes), free(x.entropy), free(y.entropy);
  attend_tensors_free(ctx, &a);
  attend_tensors_free(ctx, &b);
}

static const char *const problems[] = {
    "softmax:b2h4g2n70d16:causal:bwd", "argmax:h2n40d8:causal:bwd",
    "poly(p=2):h2n300d4:causal:bwd",   "poly(p=3):h2n20d16:causal:bwd",
    "gaussian:h2n70d16:causal:bwd",    "elu:b2h2n130d16:causal:bwd",
    "favor(m=32):h2n130d8:causal:bwd", "elu:h2n20d8:causal:alibi:bwd"};
enum { PROBLEMS = sizeof problems / sizeof *problems };

TEST(tables_at_other_addresses_give_the_same) {
  attend_context *ctx = context_make();
  device d;
  device_make(&d);
  for (int i = 0; i < PROBLEMS; i++) compare(ctx, &d, problems[i]);
  attend_context_free(ctx);
}

TEST(own_kinds_of_states_give_the_same) {
  attend_context *ctx = context_make();
  device d;
  device_make(&d);
  device_own_states(&d);
  for (int i = 0; i < PROBLEMS; i++) compare(ctx, &d, problems[i]);
  attend_context_free(ctx);
}

/* ---- choosing ---------------------------------------------------------------- */

TEST(a_plan_asks_the_engines_of_its_context) {
  attend_context *ctx = context_make();
  attend_tensors t = tensors_of(ctx, "softmax:h1n8d8");
  const attend_engine *one[] = {&engine_definition, NULL};
  const char *name, *refusal;
  attend_plan *plan = NULL;
  ctx->engines = one;
  CHECK_EQ(attend_plan_create(ctx, &t.desc, &plan), ATTEND_OK);
  CHECK(!strcmp(attend_plan_engine(plan), "definition"));
  CHECK_EQ(attend_plan_candidate(plan, 0, &name, &refusal), 1);
  CHECK_EQ(attend_plan_candidate(plan, 1, &name, &refusal), 0);
  attend_plan_free(plan);
  t.desc.engine = "softmax-tiled";
  CHECK_EQ(attend_plan_create(ctx, &t.desc, &plan), ATTEND_UNSUPPORTED);
  CHECK(strstr(attend_message(ctx), "no engine is called"));
  attend_tensors_free(ctx, &t);
  attend_context_free(ctx);
}

TEST(the_last_refusal_is_the_reason) {
  attend_context *ctx = context_make();
  attend_tensors t = tensors_of(ctx, "elu:h1n8d8:alibi");
  attend_plan *plan = NULL;
  t.desc.purpose = ATTEND_FOR_EXTEND;
  CHECK_EQ(attend_plan_create(ctx, &t.desc, &plan), ATTEND_UNSUPPORTED);
  CHECK(strstr(attend_message(ctx), "no bias by position"));
  attend_tensors_free(ctx, &t);
  attend_context_free(ctx);
}

/* ---- states ------------------------------------------------------------------ */

static attend_plan *state_plan(attend_context *ctx, const char *text) {
  attend_tensors t = tensors_of(ctx, text);
  attend_plan *plan = NULL;
  t.desc.purpose = ATTEND_FOR_EXTEND;
  CHECK_EQ(attend_plan_create(ctx, &t.desc, &plan), ATTEND_OK);
  attend_tensors_free(ctx, &t);
  return plan;
}

TEST(a_state_is_refused_by_plans_of_another_kind) {
  attend_context *ctx = context_make();
  device d;
  float zeros[64] = {0};
  attend_view x = attend_bhtd(zeros);
  device_make(&d);
  device_own_states(&d);
  attend_plan *cpu = state_plan(ctx, "softmax:h1n8d8:causal");
  ctx->engines = d.list;
  attend_plan *other = state_plan(ctx, "softmax:h1n8d8:causal");
  attend_state *state = NULL, *to = NULL;
  CHECK_EQ(attend_state_create(cpu, &state), ATTEND_OK);
  CHECK_EQ(attend_state_create(other, &to), ATTEND_OK);
  CHECK_EQ(attend_extend(other, state, 1, x, x, x, x, NULL), ATTEND_INVALID);
  CHECK(strstr(attend_message(ctx), "another form"));
  CHECK_EQ(attend_state_copy(state, 0, to, 0), ATTEND_INVALID);
  CHECK_EQ(attend_extend(cpu, state, 1, x, x, x, x, NULL), ATTEND_OK);
  attend_state_free(state);
  attend_state_free(to);
  attend_plan_free(cpu);
  attend_plan_free(other);
  attend_context_free(ctx);
}

TEST(a_state_says_whether_it_has_keys) {
  attend_context *ctx = context_make();
  const char *const text[2] = {"elu:h1n8d8:causal", "softmax:h1n8d8:causal"};
  for (int i = 0; i < 2; i++) {
    attend_plan *plan = state_plan(ctx, text[i]);
    attend_state *state = NULL;
    CHECK_EQ(attend_state_create(plan, &state), ATTEND_OK);
    CHECK_EQ(attend_state_has_keys(state), i);
    attend_state_free(state);
    attend_plan_free(plan);
  }
  attend_context_free(ctx);
}
