/* Plans of linear forms: every allocation fails once; directions are drawn anew
 * and back; rows whose denominator was lost are counted. */
#include "base/base.h"
#include "linear_fixtures.h"

/* ---- memory ------------------------------------------------------------------- */

typedef struct {
  ledger memory;
  attend_context *ctx;
  attend_tensors t; /* made before the trial */
} stage;

static attend_status use_plan(stage *s, attend_plan *plan) {
  attend_tensors *t = &s->t;
  ATTEND_TRY(attend_forward(plan, t->q, t->k, t->v, t->o, t->lse));
  ATTEND_TRY(
      attend_backward(plan, t->q, t->k, t->v, t->o, t->lse, t->d_o, t->dq, t->dk, t->dv, NULL));
  if (!t->desc.form.features || t->desc.form.phi) return ATTEND_OK;
  return attend_plan_redraw(plan, 3);
}

static attend_status act_plan(stage *s) {
  attend_plan *plan = NULL;
  attend_status status = attend_plan_create(s->ctx, &s->t.desc, &plan);
  if (status) CHECK(!plan);
  if (!status) status = use_plan(s, plan);
  attend_plan_free(plan);
  return status;
}

static attend_status use_state(stage *s, attend_plan *plan, attend_state *state,
                               attend_state **copy) {
  const int32_t parents[2] = {1, 0};
  attend_tensors *t = &s->t;
  ATTEND_TRY(attend_extend(plan, state, 90, t->q, t->k, t->v, t->o, NULL));
  ATTEND_TRY(attend_state_fork(state, copy));
  attend_status status = attend_state_reorder(state, parents);
  if (status) CHECK_EQ(attend_state_length(state, 0), 90);
  ATTEND_TRY(status);
  ATTEND_TRY(attend_state_reserve(*copy, 1000));
  return attend_extend(plan, *copy, 90, t->q, t->k, t->v, t->o, NULL);
}

static attend_status act_state(stage *s) {
  attend_plan *plan = NULL;
  attend_state *state = NULL, *copy = NULL;
  attend_desc d = s->t.desc;
  d.purpose = ATTEND_FOR_EXTEND;
  d.mask.causal = ATTEND_CAUSAL_BOTTOM;
  attend_status status = attend_plan_create(s->ctx, &d, &plan);
  if (!status) status = attend_state_create(plan, &state);
  if (!status) status = use_state(s, plan, state, &copy);
  attend_state_free(state);
  attend_state_free(copy);
  attend_plan_free(plan);
  return status;
}

/* Until no allocation is left to fail; returns how many there were. */
static long fail_each(attend_status (*act)(stage *), const char *form) {
  stage s = {.ctx = NULL};
  s.ctx = open_dirty(NULL, 2, &s.memory);
  s.t = linear_tensors(s.ctx, form, "b2h2n90d6:causal:bwd", 91);
  attend_status status = ATTEND_NO_MEMORY;
  long n = 0, live = s.memory.live;
  while (status && n < 100) {
    s.memory.fail_at = s.memory.taken + ++n;
    s.ctx->message[0] = 0;
    status = act(&s);
    s.memory.fail_at = 0;
    if (s.memory.live != live)
      CHECK_FAIL("%s: failure %ld loses %ld blocks", form, n, s.memory.live - live);
    if (!status) break;
    CHECK_EQ(status, ATTEND_NO_MEMORY);
    CHECK_SAYS(attend_message(s.ctx), "no memory for");
  }
  CHECK(!status);
  attend_tensors_free(s.ctx, &s.t);
  attend_context_free(s.ctx);
  CHECK_EQ(s.memory.live, 0);
  return n - 1;
}

TEST(every_allocation_may_fail) {
  for (int f = 0; f < LINEAR_FORMS; f++) {
    CHECK(fail_each(act_plan, linear_forms[f]) >= 2); /* plan, workspace */
    CHECK(fail_each(act_state, linear_forms[f]) >= 5);
  }
}

TEST(calls_take_no_memory) {
  for (int f = 0; f < 2 * LINEAR_FORMS; f++) {
    ledger memory = {0};
    attend_context *ctx = open_dirty(NULL, f % 2 ? 1 : 7, &memory);
    attend_tensors t = linear_tensors(ctx, linear_forms[f / 2], "b2h2n200d6:causal:bwd", 92);
    attend_plan *plan = make_plan(ctx, &t.desc);
    long taken = memory.taken;
    OK(ctx, attend_forward(plan, t.q, t.k, t.v, t.o, t.lse));
    OK(ctx, attend_backward(plan, t.q, t.k, t.v, t.o, t.lse, t.d_o, t.dq, t.dk, t.dv, NULL));
    OK(ctx, attend_merge(plan, t.o, t.lse, t.o, t.lse));
    CHECK_EQ(memory.taken, taken);
    CHECK(!strcmp(attend_plan_engine(plan), "linear"));
    attend_plan_free(plan);
    attend_tensors_free(ctx, &t);
    attend_context_free(ctx);
    CHECK_EQ(memory.live, 0);
  }
}

/* ---- drawing anew --------------------------------------------------------------- */

TEST(a_redraw_is_another_map_and_can_be_undone) {
  FOR_EACH_ISA(isa)
  for (int f = 0; f < LINEAR_FORMS; f++) {
    attend_context *ctx = open_dirty(isa, 2, NULL);
    attend_tensors t = linear_tensors(ctx, linear_forms[f], "h2n90d12v5:causal", 93);
    size_t bytes = rows_of(&t.desc) * 5 * 4;
    attend_plan *plan = make_plan(ctx, &t.desc);
    OK(ctx, attend_forward(plan, t.q, t.k, t.v, t.o, t.lse));
    char *first = copy_of(t.o.data, bytes);
    int random = t.desc.form.features && !t.desc.form.phi;
    attend_status status = attend_plan_redraw(plan, 7);
    CHECK_EQ(status, random ? ATTEND_OK : ATTEND_INVALID);
    if (!random) CHECK_SAYS(attend_message(ctx), "no random directions");
    OK(ctx, attend_forward(plan, t.q, t.k, t.v, t.o, t.lse));
    CHECK_EQ(memcmp(first, t.o.data, bytes) != 0, random);
    if (random) OK(ctx, attend_plan_redraw(plan, 0));
    OK(ctx, attend_forward(plan, t.q, t.k, t.v, t.o, t.lse));
    CHECK(!memcmp(first, t.o.data, bytes));
    free(first);
    attend_plan_free(plan);
    attend_tensors_free(ctx, &t);
    attend_context_free(ctx);
  }
}

/* A plan that starts with the other drawing has the bits of a redraw. */
TEST(a_redraw_is_what_the_form_says) {
  attend_context *ctx = open_dirty(NULL, 2, NULL);
  attend_tensors t = linear_tensors(ctx, "favor(m=24)", "n90d12:causal", 94);
  attend_plan *plan = make_plan(ctx, &t.desc);
  OK(ctx, attend_plan_redraw(plan, 7));
  OK(ctx, attend_forward(plan, t.q, t.k, t.v, t.o, t.lse));
  CHECK_EQ(attend_plan_desc(plan)->form.redraw, 7);
  char *first = copy_of(t.o.data, 90 * 12 * 4);
  attend_plan_free(plan);
  t.desc.form.redraw = 7;
  plan = make_plan(ctx, &t.desc);
  OK(ctx, attend_forward(plan, t.q, t.k, t.v, t.o, t.lse));
  CHECK(!memcmp(first, t.o.data, 90 * 12 * 4));
  free(first);
  attend_plan_free(plan);
  attend_tensors_free(ctx, &t);
  attend_context_free(ctx);
}

/* ---- weak rows --------------------------------------------------------------------- */

static int64_t weak_rows(const char *form, const char *shape, int threads) {
  attend_context *ctx = open_dirty(NULL, threads, NULL);
  attend_tensors t = linear_tensors(ctx, form, shape, 95);
  attend_plan *plan = make_plan(ctx, &t.desc);
  OK(ctx, attend_forward(plan, t.q, t.k, t.v, t.o, t.lse));
  int64_t weak = attend_plan_weak_rows(plan);
  attend_plan_free(plan);
  attend_tensors_free(ctx, &t);
  attend_context_free(ctx);
  return weak;
}

/* At a width of 64 sines and cosines of unit normal keys average to noise of
 * either sign: some denominators cancel. */
TEST(lost_denominators_are_counted) {
  const char *const shape = "h4n500d64:causal";
  int64_t weak = weak_rows("fourier(m=64)", shape, 1);
  CHECK(weak > 0 && weak < 200);
  CHECK_EQ(weak_rows("fourier(m=64)", shape, 5), weak);
  CHECK_EQ(weak_rows("fourier(m=64)", shape, 2), weak);
  CHECK_EQ(weak_rows("elu", shape, 2), 0);
  CHECK_EQ(weak_rows("favor(m=64)", shape, 2), 0);
  CHECK_EQ(weak_rows("poly(p=2)", "h4n500d8:causal", 2), 0);
  CHECK_EQ(weak_rows("elu", "n90x30d8:bottom", 2), 0); /* they see nothing */
}

/* (q.k)^1 with keys in opposite pairs: the denominator is exactly 0. */
TEST(a_denominator_of_zero_is_a_weak_row_of_zeros) {
  attend_context *ctx = open_dirty(NULL, 1, NULL);
  attend_tensors t = linear_tensors(ctx, "poly(p=1)", "n10x2d4:bwd", 96);
  float *k = t.k.data;
  for (int i = 0; i < 4; i++) k[4 + i] = -k[i];
  attend_plan *plan = make_plan(ctx, &t.desc);
  OK(ctx, attend_forward(plan, t.q, t.k, t.v, t.o, t.lse));
  OK(ctx, attend_backward(plan, t.q, t.k, t.v, t.o, t.lse, t.d_o, t.dq, t.dk, t.dv, NULL));
  CHECK_EQ(attend_plan_weak_rows(plan), 10);
  for (int i = 0; i < 40; i++) CHECK(((float *)t.o.data)[i] == 0 && ((float *)t.dq.data)[i] == 0);
  attend_plan_free(plan);
  attend_tensors_free(ctx, &t);
  attend_context_free(ctx);
}
