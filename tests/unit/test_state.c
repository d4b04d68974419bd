/* States: any way of feeding a sequence gives the bits of attend_forward; forks
 * and beams share pages until they write. */
#include "state_fixtures.h"

/* Keys that are equal, so that argmax has ties. */
static void repeat_keys(const attend_tensors *t) {
  const attend_desc *d = &t->desc;
  size_t row = (size_t)d->dim * attend_dtype_size(d->dtype);
  for (size_t j = 0; j < keys_of(d); j++)
    memcpy((char *)t->k.data + j * row, (char *)t->k.data + j / 32 * 32 * row + j % 8 * row, row);
}

/* ---- any chunking ---------------------------------------------------------------- */

static const char *const problems[] = {
    "softmax:b2h4g2n300d24v40:causal",
    "softmax:b3h4g1n300d16:causal:window=33:f16",
    "softmax:b2h2n300d17v9:causal:alibi:bf16",
    "softmax:b1h4g2n300d16:causal:buckets1",
    "softmax:b2h4g2n300d16:causal:alibi:cap=1.5:f16",
    "softmax:b3h2n300d16:causal:lengths",
    "softmax:b2h4g2n300d16:causal:padleft:f16",
    "softmax:b2h2n300d8:causal:padright:alibi",
    "argmax:b2h4g2n300d16:causal",
    "argmax(ties=average):b2h2n300d8v20:causal:bf16",
    "argmax(ties=average):b2h2n300d8:causal:padleft:window=50",
    "argmax(t=0.5):b1h2n300d16:causal:lengths",
};
enum { PROBLEMS = sizeof problems / sizeof *problems };

static int next_chunk(int style, int at, int left) {
  static const int mixed[] = {1, 63, 2, 70, 1, 1, 129, 7, 16, 5};
  uint32_t word[4];
  if (style == 0) return left;
  if (style == 1) return 1;
  attend_random_block((attend_random){(uint64_t)style, 9}, (uint64_t)at, word);
  int n = style == 2 ? mixed[at % 10] : 1 + (int)(word[0] % 60);
  return n < left ? n : left;
}

static void check_chunking(attend_context *ctx, const attend_tensors *t, int style,
                           const answer *whole, const char *name) {
  const attend_desc *d = &t->desc;
  attend_plan *plan = plan_for(ctx, t, d->q_len);
  attend_state *state = state_for(plan);
  answer out = answer_for(d);
  for (int at = 0, n; at < d->q_len; at += n) {
    n = next_chunk(style, at, d->q_len - at);
    feed(plan, state, t, at, n, &out);
  }
  for (int b = 0; b < d->batch; b++) {
    int real = d->mask.lengths ? d->mask.lengths[b] : d->q_len;
    CHECK_EQ(attend_state_length(state, b), real);
    if (!same_rows(d, &out, whole, b, 0, real))
      CHECK_FAIL("%s on %s, %d threads: chunking %d has other bits", name, attend_context_isa(ctx),
                 attend_context_threads(ctx), style);
    answer zeros = answer_for(d);
    for (size_t i = 0; i < rows_of(d); i++) zeros.lse[i] = -INFINITY;
    CHECK(same_rows(d, &out, &zeros, b, real, d->q_len));
    answer_free(&zeros);
  }
  answer_free(&out);
  attend_state_free(state);
  attend_plan_free(plan);
}

TEST(any_chunking_is_forward) {
  const int threads[] = {1, 2, 5};
  FOR_EACH_ISA(isa)
  for (int p = 0; p < PROBLEMS; p++) {
    const char *name = problems[p];
    attend_context *ctx = open_context(isa, 3, NULL);
    attend_tensors t = make_tensors(ctx, name, 5);
    if (!strncmp(name, "argmax", 6)) repeat_keys(&t);
    answer whole = forward(ctx, &t);
    for (int i = 0; i < 3; i++) {
      attend_context_set_threads(ctx, threads[i]);
      for (int style = 0; style < 4; style++) {
        if (style == 1 && threads[i] == 5) continue; /* one by one is slow */
        if (light() && (style + 2 * i) % 3) continue;
        check_chunking(ctx, &t, style, &whole, name);
      }
    }
    answer_free(&whole);
    attend_tensors_free(ctx, &t);
    attend_context_free(ctx);
  }
}

/* Keys once, then any number of looks: cross-attention. */
TEST(append_then_look_is_forward) {
  FOR_EACH_ISA(isa) {
    attend_context *ctx = open_context(isa, 2, NULL);
    attend_tensors t = make_tensors(ctx, "softmax:b2h4g2n9x200d16v24:f16", 6);
    const attend_desc *d = &t.desc;
    answer whole = forward(ctx, &t), out = answer_for(d);
    attend_plan *plan = plan_for(ctx, &t, 120);
    attend_state *state = state_for(plan);
    for (int at = 0; at < 200; at += 100)
      OK(ctx, attend_state_append(plan, state, 100, part(t.k, d, 2, 200, d->dim, at),
                                  part(t.v, d, 2, 200, d->dim_v, at)));
    for (int times = 0; times < 2; times++) {
      memset(out.o, 1, rows_of(d) * (size_t)d->dim_v * 2);
      OK(ctx, attend_state_query(plan, state, 9, t.q, attend_bhtd(out.o), out.lse));
      for (int b = 0; b < 2; b++) CHECK(same_rows(d, &out, &whole, b, 0, 9));
      CHECK_EQ(attend_state_length(state, 1), 200);
    }
    answer_free(&out);
    answer_free(&whole);
    attend_state_free(state);
    attend_plan_free(plan);
    attend_tensors_free(ctx, &t);
    attend_context_free(ctx);
  }
}

/* ---- forks, beams, truncation ------------------------------------------------------ */

enum { LONG = 260 };
static const char *const beams = "softmax:b3h2g1n260d8v12:causal";

typedef struct {
  ledger memory;
  attend_context *ctx;
  attend_tensors first, second;
  attend_plan *plan;
  attend_state *state;
  answer out;
} story;

static void story_begin(story *s, const char *problem) {
  memset(s, 0, sizeof *s);
  s->ctx = open_context(NULL, 2, &s->memory);
  s->first = make_tensors(s->ctx, problem, 7);
  s->second = make_tensors(s->ctx, problem, 8);
  s->plan = plan_for(s->ctx, &s->first, LONG);
  s->state = state_for(s->plan);
  s->out = answer_for(&s->first.desc);
}

static void story_end(story *s) {
  answer_free(&s->out);
  attend_state_free(s->state);
  attend_plan_free(s->plan);
  attend_tensors_free(s->ctx, &s->first);
  attend_tensors_free(s->ctx, &s->second);
  attend_context_free(s->ctx);
  CHECK_EQ(s->memory.live, 0);
}

/* dst[b] becomes src_a[parent][0, cut) and then src_b[b][0, ..). */
static void splice(const attend_desc *d, int heads, int width, int b, int parent, int cut,
                   const float *one, const float *two, float *dst) {
  size_t w = (size_t)width, T = (size_t)d->q_len;
  for (int h = 0; h < heads; h++)
    for (size_t i = 0; i < T; i++) {
      size_t to = ((size_t)(b * heads + h) * T + i) * w;
      size_t from = ((size_t)(parent * heads + h) * T + i) * w;
      const float *row = i < (size_t)cut ? one + from : two + to - (size_t)cut * w;
      memcpy(dst + to, row, w * sizeof *dst);
    }
}

/* What a sequence must give that took `cut` keys of a parent in the first
 * tensors and went on with the second ones. */
static answer expected(story *s, const int32_t *parents, const int *cuts) {
  attend_tensors t = make_tensors(s->ctx, beams, 1);
  const attend_desc *d = &t.desc;
  for (int b = 0; b < d->batch; b++) {
    splice(d, 2, 8, b, parents[b], cuts[b], s->first.q.data, s->second.q.data, t.q.data);
    splice(d, 1, 8, b, parents[b], cuts[b], s->first.k.data, s->second.k.data, t.k.data);
    splice(d, 1, 12, b, parents[b], cuts[b], s->first.v.data, s->second.v.data, t.v.data);
  }
  answer a = forward(s->ctx, &t);
  attend_tensors_free(s->ctx, &t);
  return a;
}

/* Goes on with n tokens of the second tensors in calls of `step`, and compares
 * with what must come; sequence b stands at cuts[b]. */
static void go_on(story *s, attend_state *state, const int32_t *parents, const int *cuts, int n,
                  int step) {
  const attend_desc *d = &s->first.desc;
  answer want = expected(s, parents, cuts), got = answer_for(d);
  for (int at = 0; at < n; at += step)
    feed(s->plan, state, &s->second, at, n - at < step ? n - at : step, &got);
  for (int b = 0; b < d->batch; b++) {
    CHECK_EQ(attend_state_length(state, b), cuts[b] + n);
    for (int h = 0; h < d->heads; h++) {
      size_t head = (size_t)((b * d->heads + h) * d->q_len);
      if (memcmp(got.lse + head, want.lse + head + cuts[b], (size_t)n * sizeof(float)) ||
          memcmp(got.o + head * 12 * 4, want.o + (head + (size_t)cuts[b]) * 48, (size_t)n * 48))
        CHECK_FAIL("sequence %d, head %d has other bits", b, h);
    }
  }
  answer_free(&got);
  answer_free(&want);
}

static const int32_t own[3] = {0, 1, 2};

TEST(forks_share_pages_and_go_their_ways) {
  story s;
  story_begin(&s, beams);
  attend_state *copy;
  const int cuts[3] = {100, 100, 100};
  feed(s.plan, s.state, &s.first, 0, 100, &s.out);
  size_t page = attend_state_bytes(s.state) / 6; /* two pages a sequence */
  size_t before = s.memory.bytes;
  OK(s.ctx, attend_state_fork(s.state, &copy));
  CHECK(s.memory.bytes - before < page);
  CHECK_EQ(attend_state_bytes(copy), attend_state_bytes(s.state));
  /* the first to write copies the open page of each sequence and no other */
  long taken = s.memory.taken;
  answer out = answer_for(&s.first.desc);
  feed(s.plan, copy, &s.second, 0, 1, &out);
  CHECK_EQ(s.memory.taken - taken, 3);
  taken = s.memory.taken;
  feed(s.plan, s.state, &s.first, 100, 1, &s.out); /* alone by now */
  CHECK_EQ(s.memory.taken - taken, 0);
  answer_free(&out);
  OK(s.ctx, attend_state_truncate(copy, 0, 100));
  OK(s.ctx, attend_state_truncate(copy, 1, 100));
  OK(s.ctx, attend_state_truncate(copy, 2, 100));
  go_on(&s, copy, own, cuts, 150, 11);
  attend_state_free(copy);
  feed(s.plan, s.state, &s.first, 101, LONG - 101, &s.out);
  answer whole = forward(s.ctx, &s.first);
  for (int b = 0; b < 3; b++) CHECK(same_rows(&s.first.desc, &s.out, &whole, b, 0, LONG));
  answer_free(&whole);
  story_end(&s);
}

/* A copy that goes back and writes anew must not write into shared pages. */
TEST(a_truncated_fork_leaves_its_origin_alone) {
  story s;
  story_begin(&s, beams);
  attend_state *copy;
  const int cuts[3] = {70, 0, 64};
  feed(s.plan, s.state, &s.first, 0, 200, &s.out);
  OK(s.ctx, attend_state_fork(s.state, &copy));
  for (int b = 0; b < 3; b++) OK(s.ctx, attend_state_truncate(copy, b, cuts[b]));
  go_on(&s, copy, own, cuts, 150, 150);
  feed(s.plan, s.state, &s.first, 200, LONG - 200, &s.out);
  answer whole = forward(s.ctx, &s.first);
  for (int b = 0; b < 3; b++) CHECK(same_rows(&s.first.desc, &s.out, &whole, b, 0, LONG));
  answer_free(&whole);
  attend_state_free(copy);
  story_end(&s);
}

TEST(beams_continue_their_parents) {
  const int32_t parents[3] = {2, 2, 0}, bad[3] = {0, 3, 1};
  for (int cut = 63; cut <= 65; cut++) {
    story s;
    const int cuts[3] = {cut, cut, cut};
    story_begin(&s, beams);
    feed(s.plan, s.state, &s.first, 0, cut, &s.out);
    CHECK_EQ(attend_state_reorder(s.state, bad), ATTEND_INVALID);
    CHECK_SAYS(attend_message(s.ctx), "parent 3");
    OK(s.ctx, attend_state_reorder(s.state, parents));
    go_on(&s, s.state, parents, cuts, 130, 3);
    story_end(&s);
  }
}

/* As reordered ones do, in another state, and what they come from stays. */
TEST(copied_sequences_go_on) {
  const int32_t parents[3] = {2, 2, 0};
  const int cuts[3] = {65, 65, 65};
  story s, other;
  story_begin(&s, beams);
  story_begin(&other, beams);
  feed(s.plan, s.state, &s.first, 0, 65, &s.out);
  attend_state *to = state_for(s.plan);
  feed(s.plan, to, &s.second, 0, 7, &s.out); /* which is forgotten */
  for (int b = 0; b < 3; b++) OK(s.ctx, attend_state_copy(s.state, parents[b], to, b));
  CHECK_EQ(attend_state_copy(s.state, 3, to, 0), ATTEND_INVALID);
  CHECK_EQ(attend_state_copy(s.state, 0, to, -1), ATTEND_INVALID);
  CHECK_EQ(attend_state_copy(other.state, 0, to, 0), ATTEND_INVALID);
  go_on(&s, to, parents, cuts, 130, 3);
  attend_state_free(to);
  go_on(&s, s.state, own, cuts, 130, 3);
  story_end(&other);
  story_end(&s);
}

/* What was forgotten leaves no trace, NaN included. */
TEST(truncated_sequences_go_on) {
  story s;
  story_begin(&s, beams);
  const int cuts[3] = {70, 0, 64};
  float *v = s.first.v.data;
  for (int b = 0; b < 3; b++)
    put_all(ATTEND_F32, v, (size_t)(b * LONG + cuts[b]) * 12, (size_t)(LONG - cuts[b]) * 12, NAN);
  feed(s.plan, s.state, &s.first, 0, 130, &s.out);
  for (int b = 0; b < 3; b++) OK(s.ctx, attend_state_truncate(s.state, b, cuts[b]));
  CHECK_EQ(attend_state_truncate(s.state, 0, 71), ATTEND_INVALID);
  CHECK_EQ(attend_state_truncate(s.state, 3, 0), ATTEND_INVALID);
  go_on(&s, s.state, own, cuts, 190, 31);
  story_end(&s);
}

/* ---- memory ------------------------------------------------------------------------ */

/* What a reserve would take is known before, and a limit refuses it before
 * anything is taken; keys that come one by one end at the limit too. */
static void check_limit(attend_context *ctx, attend_state *s, size_t limit) {
  char bytes[32], max[32];
  snprintf(bytes, sizeof bytes, "%zu bytes", attend_state_reserve_bytes(s, 1 << 20));
  snprintf(max, sizeof max, "cache_limit is %zu", limit);
  CHECK_EQ(attend_state_reserve(s, 1 << 20), ATTEND_NO_MEMORY);
  CHECK_SAYS(attend_message(ctx), bytes);
  CHECK_SAYS(attend_message(ctx), max);
}

TEST(a_reserve_honours_the_limit) {
  enum { LIMIT = 2 << 20, D = 64 };
  ledger memory = {0};
  attend_context_options o = {ATTEND_INIT(attend_context_options),
                              .allocator = {ledger_take, ledger_give, &memory},
                              .cache_limit = LIMIT};
  attend_context *ctx;
  attend_state *s;
  OK(ctx, attend_context_create(&o, &ctx));
  attend_plan *plan = make_plan(
      ctx, &(attend_desc){ATTEND_INIT(attend_desc), .batch = 2, .q_len = 64, .dim = D,
                          .mask.causal = ATTEND_CAUSAL_BOTTOM, .purpose = ATTEND_FOR_EXTEND});
  OK(ctx, attend_state_create(plan, &s));
  long taken = memory.taken;
  check_limit(ctx, s, LIMIT);
  CHECK(attend_state_reserve_bytes(s, INT32_MAX) > (size_t)1 << 40);
  CHECK_EQ(memory.taken, taken);
  CHECK_EQ(attend_state_bytes(s), 0);
  size_t bytes = attend_state_reserve_bytes(s, 1000);
  OK(ctx, attend_state_reserve(s, 1000));
  CHECK_EQ(attend_state_bytes(s), bytes);
  CHECK_EQ(attend_state_reserve_bytes(s, 1000), 0);
  float x[2 * 64 * D] = {0};
  attend_status status = ATTEND_OK;
  for (int at = 0; at < 4096 && !status; at += 64)
    status = attend_state_append(plan, s, 64, attend_bhtd(x), attend_bhtd(x));
  CHECK_EQ(status, ATTEND_NO_MEMORY);
  CHECK_SAYS(attend_message(ctx), "cache_limit");
  CHECK(attend_state_bytes(s) <= LIMIT);
  attend_state_free(s);
  OK(ctx, attend_state_create(plan, &s));
  OK(ctx, attend_state_reserve(s, 1000)); /* what was freed can be taken */
  attend_state_free(s);
  attend_plan_free(plan);
  attend_context_free(ctx);
}

TEST(reserved_pages_need_no_memory) {
  story s;
  story_begin(&s, beams);
  OK(s.ctx, attend_state_reserve(s.state, LONG));
  size_t bytes = attend_state_bytes(s.state);
  long taken = s.memory.taken;
  for (int at = 0; at < LONG; at += 20) feed(s.plan, s.state, &s.first, at, 20, &s.out);
  CHECK_EQ(s.memory.taken, taken);
  CHECK_EQ(attend_state_bytes(s.state), bytes);
  answer whole = forward(s.ctx, &s.first);
  for (int b = 0; b < 3; b++) CHECK(same_rows(&s.first.desc, &s.out, &whole, b, 0, LONG));
  answer_free(&whole);
  story_end(&s);
}

/* Each allocation of a growing call fails once; then the sequence goes on as
 * if nothing had been. */
TEST(a_call_that_fails_changes_nothing) {
  story s;
  story_begin(&s, beams);
  attend_state *copy;
  int failed = 0;
  feed(s.plan, s.state, &s.first, 0, 60, &s.out);
  OK(s.ctx, attend_state_fork(s.state, &copy));
  for (long n = 1; n < 100; n++) {
    s.memory.fail_at = s.memory.taken + n;
    attend_status status = feed_to(s.plan, s.state, &s.first, 60, LONG - 60, 60, &s.out);
    s.memory.fail_at = 0;
    if (status == ATTEND_OK) break;
    CHECK_EQ(status, ATTEND_NO_MEMORY);
    CHECK_SAYS(attend_message(s.ctx), "memory");
    for (int b = 0; b < 3; b++) CHECK_EQ(attend_state_length(s.state, b), 60);
    failed++;
  }
  CHECK(failed >= 3);
  const int cuts[3] = {60, 60, 60};
  go_on(&s, copy, own, cuts, 100, 9);
  answer whole = forward(s.ctx, &s.first);
  for (int b = 0; b < 3; b++) CHECK(same_rows(&s.first.desc, &s.out, &whole, b, 0, LONG));
  answer_free(&whole);
  attend_state_free(copy);
  story_end(&s);
}

/* ---- long ------------------------------------------------------------------------ */

enum { MANY = 65536 + 77, STEP = 8192 };

static void look_long(attend_context *ctx, const attend_tensors *t, attend_state *state,
                      int threads, float *out) {
  attend_context_set_threads(ctx, threads);
  attend_plan *plan = plan_for(ctx, t, STEP);
  OK(ctx, attend_state_query(plan, state, 3, t->q, attend_bhtd(out), out + 3 * 4 * 8));
  attend_plan_free(plan);
}

TEST(long_keys_split_over_threads) {
  FOR_EACH_ISA(isa) {
    attend_context *ctx = open_context(isa, 2, NULL);
    attend_tensors t = make_tensors(ctx, "softmax:h4g2n3x8192d8:bottom", 9);
    attend_plan *plan = plan_for(ctx, &t, STEP);
    attend_state *state = state_for(plan);
    for (int at = 0; at < MANY; at += STEP) { /* the last ones tower over */
      int n = MANY - at < STEP ? MANY - at : STEP;
      for (size_t i = 0; i < keys_of(&t.desc) * 8; i++) ((float *)t.k.data)[i] *= 1.1f;
      OK(ctx, attend_state_append(plan, state, n, part(t.k, &t.desc, 2, STEP, 8, 0),
                                  part(t.v, &t.desc, 2, STEP, 8, 0)));
    }
    CHECK_EQ(attend_state_length(state, 0), MANY);
    float one[3 * 4 * 9], more[3 * 4 * 9];
    look_long(ctx, &t, state, 1, one);
    for (int i = 0; i < 3 * 4 * 9; i++) CHECK(isfinite(one[i]) && one[i] != 0);
    for (int threads = 2; threads < 18; threads += 5) {
      look_long(ctx, &t, state, threads, more);
      CHECK(!memcmp(one, more, sizeof one));
    }
    attend_state_free(state);
    attend_plan_free(plan);
    attend_tensors_free(ctx, &t);
    attend_context_free(ctx);
  }
}
