/* Regressions at edge cases: ragged rows that fill whole lanes, biases shared by heads
 * over tiles, scales that are tiny, huge or more than an f32 holds. */
#include <math.h>

#include "attention_fixtures.h"

/* 16 keys fill the lanes of the first row; the second row is not real. */
static void ragged(attend_context *ctx, attend_form_kind form, int window) {
  enum { D = 8, HELD = 15, N = 2 };
  float q[N * D], k[16 * D], v[16 * D], o[N * D], lse[N];
  attend_random_normal((attend_random){7, 0}, 0, N * D, q);
  attend_random_normal((attend_random){7, 1}, 0, 16 * D, k);
  attend_random_normal((attend_random){7, 2}, 0, 16 * D, v);
  attend_desc d = {ATTEND_INIT(attend_desc),
                   .form.kind = form,
                   .q_len = 16,
                   .dim = D,
                   .mask.causal = ATTEND_CAUSAL_BOTTOM,
                   .mask.window = window,
                   .purpose = ATTEND_FOR_EXTEND};
  attend_plan *plan = make_plan(ctx, &d);
  attend_state *state;
  int32_t one[1] = {1};
  OK(ctx, attend_state_create(plan, &state));
  OK(ctx, attend_state_append(plan, state, HELD, attend_bhtd(k), attend_bhtd(v)));
  attend_plan_set_padding(plan, one, NULL);
  OK(ctx, attend_extend(plan, state, N, attend_bhtd(q), attend_bhtd(k + HELD * D),
                        attend_bhtd(v + HELD * D), attend_bhtd(o), lse));
  CHECK_EQ(attend_state_length(state, 0), HELD + 1);
  CHECK(isfinite(lse[0]));
  CHECK(lse[1] == -INFINITY);
  for (int i = 0; i < D; i++) CHECK(o[D + i] == 0.0f);
  attend_state_free(state);
  attend_plan_free(plan);
}

TEST(rows_that_are_not_real_see_nothing) {
  FOR_EACH_ISA(isa) {
    attend_context *ctx = open_context(isa, 2, NULL);
    ragged(ctx, ATTEND_SOFTMAX, 0);
    ragged(ctx, ATTEND_ARGMAX, 0);
    ragged(ctx, ATTEND_SOFTMAX, 9);
    attend_context_free(ctx);
  }
}

static void shared_bias(int threads, float *dbias /* [n][x] */) {
  attend_context *ctx = open_context(NULL, threads, NULL);
  attend_tensors t = make_tensors(ctx, "softmax:h5g1n200x130d8:dense:bwd", 3);
  attend_desc d = t.desc;
  ptrdiff_t over_heads[4] = {0, 0, 130, 1};
  memcpy(d.bias.dense.stride, over_heads, sizeof over_heads);
  attend_plan *plan = make_plan(ctx, &d);
  OK(ctx, attend_forward(plan, t.q, t.k, t.v, t.o, t.lse));
  OK(ctx, attend_backward(plan, t.q, t.k, t.v, t.o, t.lse, t.d_o, t.dq, t.dk, t.dv, dbias));
  attend_plan_free(plan);
  attend_tensors_free(ctx, &t);
  attend_context_free(ctx);
}

/* Tiles of rows cut the five heads of a query apart. */
TEST(a_bias_shared_by_heads_has_one_gradient) {
  enum { N = 200 * 130 };
  float *one = zeroed_block(N, sizeof *one), *many = zeroed_block(N, sizeof *many);
  shared_bias(1, one);
  for (int run = 0; run < (light() ? 5 : 40); run++) {
    shared_bias(2 + run % 4, many);
    CHECK(memcmp(one, many, N * sizeof *one) == 0);
  }
  free(one);
  free(many);
}

static void check_scale(attend_context *ctx, float scale) {
  attend_tensors t = make_tensors(ctx, "softmax:h2n70d16:causal:bwd", 5);
  attend_desc d = t.desc;
  d.scale = scale;
  attend_plan *plan = make_plan(ctx, &d);
  size_t rows = rows_of(attend_plan_desc(plan)), n = rows * 16;
  double *o = zeroed_block(n, sizeof *o), *lse = zeroed_block(rows, sizeof *lse);
  OK(ctx, attend_forward(plan, t.q, t.k, t.v, t.o, t.lse));
  OK(ctx, attend_definition_forward(ctx, &d, t.q, t.k, t.v, o, lse));
  OK(ctx, attend_backward(plan, t.q, t.k, t.v, t.o, t.lse, t.d_o, t.dq, t.dk, t.dv, NULL));
  for (size_t i = 0; i < n; i++) {
    CHECK_NEAR(((float *)t.o.data)[i], o[i], 2e-6);
    CHECK(isfinite(((float *)t.dq.data)[i]));
    CHECK(isfinite(((float *)t.dk.data)[i]));
  }
  for (size_t i = 0; i < rows; i++) CHECK_NEAR(t.lse[i], lse[i], 1e-5 + fabs(lse[i]) * 1e-6);
  free(o);
  free(lse);
  attend_plan_free(plan);
  attend_tensors_free(ctx, &t);
}

/* At 1e9 every row has one winner, so the definition's answer is sharp too. */
TEST(scales_that_are_tiny_or_huge) {
  FOR_EACH_ISA(isa) {
    attend_context *ctx = open_context(isa, 1, NULL);
    check_scale(ctx, 1e-42f);
    check_scale(ctx, 1e-35f);
    check_scale(ctx, -1e-42f);
    check_scale(ctx, 1e9f);
    check_scale(ctx, -1e9f);
    attend_context_free(ctx);
  }
}

TEST(weights_looked_at_stay_weights) {
  attend_context *ctx = open_context(NULL, 1, NULL);
  attend_tensors t = make_tensors(ctx, "softmax:h2n70d16:scale=1e9", 5);
  attend_plan *plan = make_plan(ctx, &t.desc);
  float entropy[140], top[140];
  int32_t index[140];
  attend_observation look = {ATTEND_INIT(attend_observation), .entropy = entropy, .top = 1,
                             .top_index = index, .top_weight = top};
  OK(ctx, attend_forward(plan, t.q, t.k, t.v, t.o, t.lse));
  OK(ctx, attend_observe(plan, t.q, t.k, t.lse, &look));
  for (int i = 0; i < 140; i++) {
    CHECK(top[i] >= 0 && top[i] <= 1);
    CHECK(entropy[i] >= 0 && entropy[i] < 10);
  }
  CHECK_EQ(attend_observe(plan, t.q, t.k, t.lse, NULL), ATTEND_INVALID);
  attend_plan_free(plan);
  attend_tensors_free(ctx, &t);
  attend_context_free(ctx);
}

static void check_refused(attend_context *ctx, attend_desc d, const char *part) {
  attend_plan *plan;
  CHECK(attend_plan_create(ctx, &d, &plan) != ATTEND_OK);
  CHECK(plan == NULL);
  CHECK_SAYS(attend_message(ctx), part);
}

TEST(what_no_float_or_int_holds_is_refused) {
  attend_context *ctx = open_context(NULL, 1, NULL);
  attend_desc d = {ATTEND_INIT(attend_desc), .q_len = 4, .kv_len = 4, .dim = 4};
  attend_desc scale = d, hot = d, wide = d, far = d;
  scale.scale = 3e38f;
  check_refused(ctx, scale, "overflow f32");
  hot.form = (attend_form){.kind = ATTEND_ARGMAX, .temperature = 1e-40f};
  check_refused(ctx, hot, "overflow f32");
  wide.q_len = wide.kv_len = 1;
  wide.dim = INT32_MAX;
  check_refused(ctx, wide, "or less");
  far.bias = (attend_bias){.kind = ATTEND_BUCKETS, .max_distance = INT32_MAX};
  check_refused(ctx, far, "or less");
  attend_context_free(ctx);
}

/* No more than 512 MiB at once; the most that was asked for. */
static void *take_little(size_t bytes, void *user) {
  size_t *max = user;
  if (bytes > *max) *max = bytes;
  return bytes <= (size_t)512 << 20 ? aligned_alloc(64, bytes) : NULL;
}
static void give_back(void *block, void *user) {
  (void)user;
  free(block);
}
static attend_context *open_small(size_t *max) {
  attend_context_options o = {ATTEND_INIT(attend_context_options), .threads = 2,
                              .allocator = {take_little, give_back, max}};
  attend_context *ctx;
  OK(ctx, attend_context_create(&o, &ctx));
  return ctx;
}

/* Keys are counted in blocks, and bytes in sizes: near 2^31 keys neither may
 * wrap around. */
static void check_longest(attend_context *ctx, attend_desc d) {
  attend_plan *plan = NULL;
  attend_status status = attend_plan_create(ctx, &d, &plan);
  /* argmax in bf16 sums dV in f32: more than this context may take */
  bool large = d.form.kind == ATTEND_ARGMAX && d.dtype == ATTEND_BF16;
  CHECK_EQ(status, large ? ATTEND_NO_MEMORY : ATTEND_OK);
  if (!status) CHECK(attend_plan_workspace(plan) >= (size_t)d.kv_len / 64);
  attend_plan_free(plan);
}

TEST(plans_for_the_longest_keys_do_not_wrap) {
  attend_form_kind forms[] = {ATTEND_SOFTMAX, ATTEND_ARGMAX,   ATTEND_POLY,
                              ATTEND_ELU,     ATTEND_GAUSSIAN, ATTEND_FAVOR};
  attend_dtype dtypes[] = {ATTEND_F32, ATTEND_BF16};
  size_t max = 0;
  attend_context *ctx = open_small(&max);
  for (int f = 0; f < 6; f++)
    for (int t = 0; t < 2; t++)
      for (int less = 0; less < 300; less += 50) {
        if (forms[f] == ATTEND_ARGMAX && !t) continue; /* needs no workspace */
        check_longest(ctx, (attend_desc){ATTEND_INIT(attend_desc), .form.kind = forms[f],
                                         .q_len = 1, .kv_len = INT32_MAX - less, .dim = 8,
                                         .dtype = dtypes[t], .purpose = ATTEND_FOR_BACKWARD});
      }
  attend_context_free(ctx);
}

/* o, dq, dk and dv fit, and their sum does not. */
TEST(workspaces_that_no_size_holds_are_refused) {
  size_t max = 0;
  attend_context *ctx = open_small(&max);
  attend_desc d = {
      ATTEND_INIT(attend_desc), .batch = 1 << 13, .heads = 1 << 9,  .q_len = 1 << 21,
      .kv_len = 1 << 21,        .dim = 1 << 16,   .dim_v = 1 << 16, .purpose = ATTEND_FOR_BACKWARD,
      .engine = "definition"};
  attend_plan *plan = NULL;
  CHECK_EQ(attend_plan_create(ctx, &d, &plan), ATTEND_NO_MEMORY);
  CHECK_SAYS(attend_message(ctx), "would exceed the address space");
  CHECK(plan == NULL && max <= 1 << 20);
  attend_plan_free(plan);
  attend_context_free(ctx);
}

/* ---- outputs ------------------------------------------------------------------ */

static void check_stride(attend_context *ctx, attend_status status, const char *name) {
  char wanted[32];
  snprintf(wanted, sizeof wanted, "%s has stride 0", name);
  CHECK_EQ(status, ATTEND_INVALID);
  CHECK_SAYS(attend_message(ctx), wanted);
}

TEST(outputs_that_share_addresses_are_refused) {
  attend_context *ctx = open_context(NULL, 2, NULL);
  attend_tensors t = make_tensors(ctx, "softmax:b2h2n4d8:bwd", 3);
  attend_plan *plan = make_plan(ctx, &t.desc);
  for (int axis = 0; axis < 4; axis++) {
    attend_view bad = t.q;
    ptrdiff_t whole[4] = {64, 32, 8, 1};
    memcpy(bad.stride, whole, sizeof whole);
    bad.stride[axis] = 0; /* as an input: broadcast */
    OK(ctx, attend_forward(plan, bad, t.k, t.v, t.o, t.lse));
    attend_view into = bad;
    into.data = t.dq.data;
    check_stride(ctx, attend_forward(plan, t.q, t.k, t.v, into, t.lse), "o");
    check_stride(ctx, attend_merge(plan, into, t.lse, t.o, t.lse), "o");
    for (int g = 0; g < 3; g++)
      check_stride(ctx,
                   attend_backward(plan, t.q, t.k, t.v, t.o, t.lse, t.d_o, g == 0 ? into : t.dq,
                                   g == 1 ? into : t.dk, g == 2 ? into : t.dv, NULL),
                   g == 0   ? "dq"
                   : g == 1 ? "dk"
                            : "dv");
  }
  attend_plan_free(plan);
  attend_tensors_free(ctx, &t);
  attend_context_free(ctx);
}

TEST(a_state_refuses_such_an_output_before_it_grows) {
  enum { D = 8, N = 2 };
  float x[N * D] = {0}, o[N * D];
  attend_context *ctx = open_context(NULL, 1, NULL);
  attend_form_kind forms[] = {ATTEND_SOFTMAX, ATTEND_ELU};
  for (int f = 0; f < 2; f++) {
    attend_desc d = {ATTEND_INIT(attend_desc),
                     .form.kind = forms[f],
                     .q_len = 16,
                     .dim = D,
                     .mask.causal = ATTEND_CAUSAL_BOTTOM,
                     .purpose = ATTEND_FOR_EXTEND};
    attend_plan *plan = make_plan(ctx, &d);
    attend_state *state;
    attend_view bad = {o, {0, 0, 0, 1}}, one = {o, {0, 0, 0, 1}};
    OK(ctx, attend_state_create(plan, &state));
    check_stride(
        ctx,
        attend_extend(plan, state, N, attend_bhtd(x), attend_bhtd(x), attend_bhtd(x), bad, NULL),
        "o");
    CHECK_EQ(attend_state_length(state, 0), 0);
    OK(ctx,
       attend_extend(plan, state, 1, attend_bhtd(x), attend_bhtd(x), attend_bhtd(x), one, NULL));
    attend_state_free(state);
    attend_plan_free(plan);
  }
  attend_context_free(ctx);
}

TEST(a_state_stays_in_its_context) {
  attend_context *a = open_context(NULL, 1, NULL);
  attend_context *b = open_context(NULL, 1, NULL);
  attend_desc d = {ATTEND_INIT(attend_desc), .q_len = 1, .dim = 4,
                   .mask.causal = ATTEND_CAUSAL_BOTTOM, .purpose = ATTEND_FOR_EXTEND};
  attend_plan *here = make_plan(a, &d), *there = make_plan(b, &d);
  attend_state *state;
  float x[4] = {0};
  OK(a, attend_state_create(here, &state));
  CHECK_EQ(attend_state_append(there, state, 1, attend_bhtd(x), attend_bhtd(x)), ATTEND_INVALID);
  CHECK_SAYS(attend_message(b), "another context");
  attend_state_free(state);
  attend_plan_free(here);
  attend_plan_free(there);
  attend_context_free(a);
  attend_context_free(b);
}
