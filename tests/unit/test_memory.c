/* The n-th allocation fails, for every n: a status with a sentence, nothing
 * lost, nothing broken. */
#include "attend/file.h"
#include "attend/json.h"
#include "base/json_write.h"
#include "base/base.h"
#include "attention_fixtures.h"

/* ---- the trial --------------------------------------------------------------------- */

typedef struct {
  ledger memory;
  attend_context *ctx;
  const char *problem; /* of whatever the action makes */
} stage;

/* Does something and undoes it; returns the first failure. */
typedef attend_status (*action)(stage *s);

/* Runs it until no allocation is left to fail; returns how many there were. */
static long fail_each(action act, const char *problem, const char *name) {
  stage s = {.problem = problem};
  s.ctx = open_context(NULL, 2, &s.memory);
  attend_status status = ATTEND_NO_MEMORY;
  long n = 0;
  while (status && n < 1000) {
    long live = s.memory.live;
    s.memory.fail_at = s.memory.taken + ++n;
    s.ctx->message[0] = 0;
    status = act(&s);
    s.memory.fail_at = 0;
    if (s.memory.live != live)
      CHECK_FAIL("%s: failure %ld loses %ld blocks", name, n, s.memory.live - live);
    if (!status) break;
    if (status != ATTEND_NO_MEMORY)
      CHECK_FAIL("%s: failure %ld gives status %d", name, n, (int)status);
    if (!strstr(attend_message(s.ctx), "no memory for"))
      CHECK_FAIL("%s: failure %ld says \"%s\"", name, n, attend_message(s.ctx));
  }
  CHECK(!status);
  attend_context_free(s.ctx);
  CHECK_EQ(s.memory.live, 0);
  return n - 1;
}

/* ---- contexts, plans, tensors --------------------------------------------------------- */

TEST(contexts) {
  ledger memory = {.fail_at = 1};
  attend_context_options options = {ATTEND_INIT(attend_context_options),
                                    .allocator = {ledger_take, ledger_give, &memory}};
  attend_context *ctx = (attend_context *)&memory;
  CHECK_EQ(attend_context_create(&options, &ctx), ATTEND_NO_MEMORY);
  CHECK(!ctx);
  CHECK_SAYS(attend_message(ctx), "memory");
  attend_context_free(ctx);
  CHECK_EQ(memory.live, 0);
}

static attend_status act_tensors(stage *s) {
  attend_problem p = {ATTEND_INIT(attend_problem)};
  attend_tensors t = {ATTEND_INIT(attend_tensors)};
  ATTEND_TRY(attend_problem_parse(s->ctx, s->problem, &p));
  attend_status status = attend_problem_tensors(s->ctx, &p, 1, &t);
  if (!status) attend_tensors_free(s->ctx, &t);
  return status;
}

/* A plan of the problem, and everything that can be done with it. */
static attend_status act_plan(stage *s) {
  long hold = s->memory.fail_at; /* the tensors are not on trial */
  s->memory.fail_at = 0;
  long before = s->memory.taken;
  attend_tensors t = make_tensors(s->ctx, s->problem, 2);
  s->memory.fail_at = hold + s->memory.taken - before;
  attend_plan *plan;
  attend_status status = attend_plan_create(s->ctx, &t.desc, &plan);
  if (status) CHECK(!plan);
  if (!status) status = attend_forward(plan, t.q, t.k, t.v, t.o, t.lse);
  if (!status && t.desc.purpose & ATTEND_FOR_BACKWARD)
    status = attend_backward(plan, t.q, t.k, t.v, t.o, t.lse, t.d_o, t.dq, t.dk, t.dv, t.dbias);
  attend_plan_free(plan);
  attend_tensors_free(s->ctx, &t);
  return status;
}

static attend_status act_definition(stage *s) {
  long hold = s->memory.fail_at, before = s->memory.taken;
  s->memory.fail_at = 0;
  attend_tensors t = make_tensors(s->ctx, s->problem, 2);
  s->memory.fail_at = hold + s->memory.taken - before;
  double *out = zeroed_block(1 << 16, sizeof *out);
  attend_status status = attend_definition_forward(s->ctx, &t.desc, t.q, t.k, t.v, out, NULL);
  if (!status)
    status = attend_definition_backward(s->ctx, &t.desc, t.q, t.k, t.v, t.d_o, out, out + 8192,
                                        out + 16384, NULL);
  if (!status) status = attend_definition_weights(s->ctx, &t.desc, t.q, t.k, out);
  free(out);
  attend_tensors_free(s->ctx, &t);
  return status;
}

TEST(plans_and_tensors) {
  const char *const problems[] = {
      "softmax:b2h4g2n20x70d16",     "softmax:b2h4g2n20d16:lengths:bf16:bwd",
      "softmax:h2n20d8:buckets:bwd", "argmax:b2h2n20x70d16:f16:bwd",
      "poly:h2n10x12d4:bwd",         "gaussian:h2n10x12d4:padleft",
      "favor(m=9):h2n10x12d4:bwd",   "fourier(m=8):h2n10d4:causal:window=3:bwd",
      "elu:h2n10x12d4:alibi:bwd",    "gaussian(m=5):h2n10x12d4:dense:bwd"};
  for (size_t p = 0; p < sizeof problems / sizeof *problems; p++) {
    CHECK(fail_each(act_tensors, problems[p], problems[p]) >= 1);
    CHECK(fail_each(act_plan, problems[p], problems[p]) >= 2);
  }
  CHECK(fail_each(act_definition, "softmax:h2n10x12d4:bwd", "definition") >= 3);
  CHECK(fail_each(act_definition, "favor(m=9):h2n10x12d4:bwd", "favor") >= 6);
}

/* ---- states ------------------------------------------------------------------------ */

enum { KEYS = 200 };

static attend_status use_state(attend_plan *plan, const attend_tensors *t, attend_state *state,
                               attend_state **copy) {
  const int32_t parents[3] = {1, 1, 0};
  ATTEND_TRY(attend_extend(plan, state, KEYS, t->q, t->k, t->v, t->o, NULL));
  ATTEND_TRY(attend_state_fork(state, copy));
  ATTEND_TRY(attend_state_reorder(state, parents));
  ATTEND_TRY(attend_extend(plan, state, 1, t->q, t->k, t->v, t->o, NULL));
  ATTEND_TRY(attend_state_reserve(*copy, 3 * KEYS));
  return attend_extend(plan, *copy, KEYS, t->q, t->k, t->v, t->o, NULL);
}

static attend_status act_state(stage *s) {
  long hold = s->memory.fail_at, before = s->memory.taken;
  s->memory.fail_at = 0;
  attend_tensors t = make_tensors(s->ctx, s->problem, 3);
  s->memory.fail_at = hold + s->memory.taken - before;
  attend_plan *plan = NULL;
  attend_state *state = NULL, *copy = NULL;
  attend_desc d = t.desc;
  d.purpose = ATTEND_FOR_EXTEND;
  d.mask.causal = ATTEND_CAUSAL_BOTTOM;
  attend_status status = attend_plan_create(s->ctx, &d, &plan);
  if (!status) status = attend_state_create(plan, &state);
  if (!status) status = use_state(plan, &t, state, &copy);
  attend_state_free(state);
  attend_state_free(copy);
  attend_plan_free(plan);
  attend_tensors_free(s->ctx, &t);
  return status;
}

TEST(states) {
  const char *const problems[] = {"softmax:b3h2n200d8:causal", "argmax:b3h4g2n200d8:causal:f16"};
  for (int p = 0; p < 2; p++) /* pages, tables, copies of three sequences */
    CHECK(fail_each(act_state, problems[p], problems[p]) > 40);
}

/* ---- files ------------------------------------------------------------------------- */

static attend_status act_json(stage *s) {
  const char *text =
      "{\"a\": [1, 2, {\"b\": \"text\\n\", \"c\": null}], "
      "\"d\": {\"e\": [[[true]]], \"f\": -1.5e3}}";
  attend_json *root;
  ATTEND_TRY(attend_json_parse(s->ctx, "a text", text, strlen(text), &root));
  CHECK_EQ(attend_json_count(attend_json_get(root, "a")), 3);
  attend_json_free(root);
  return ATTEND_OK;
}

static attend_status act_write(stage *s) {
  json_writer w = json_writer_text(s->ctx);
  json_open(&w, '[');
  for (int i = 0; i < 200; i++) json_put_integer(&w, i);
  json_close(&w, ']');
  attend_status status = json_finish(&w);
  json_writer_free(&w);
  return status;
}

static attend_status act_file(stage *s) {
  const char *folder = getenv("ATTEND_GOLDEN");
  char path[512];
  snprintf(path, sizeof path, "%s/attention.safetensors", folder ? folder : "tests/golden");
  attend_tensor_file *file;
  ATTEND_TRY(attend_tensor_file_open(s->ctx, path, &file));
  CHECK_EQ(attend_tensor_file_notes(file), 15);
  attend_tensor_file_free(file);
  return ATTEND_OK;
}

TEST(json_and_files) {
  CHECK(fail_each(act_json, NULL, "reading JSON") >= 1);
  CHECK(fail_each(act_write, NULL, "writing JSON") >= 1);
  CHECK(fail_each(act_file, NULL, "a tensor file") >= 2);
}
