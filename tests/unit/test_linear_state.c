/* States of linear forms: sums and an open block. Any way of feeding gives the
 * bits of attend_forward; a state's size does not grow; what is summed cannot
 * be taken back. */
#include "state_fixtures.h"
#include "linear_fixtures.h"

/* ---- any chunking ------------------------------------------------------------------- */

enum { STYLES = 4 };

static int next_chunk(int style, int at, int left) {
  static const int mixed[] = {7, 64, 1, 130, 2, 63, 65, 1};
  int n = style == 0 ? left : style == 1 ? 1 : style == 2 ? mixed[at % 8] : 1 + at * 7 % 50;
  return n < left ? n : left;
}

/* Without a causal mask the rows of a call see what was there by then: only
 * where all keys are in do they see what forward sees. */
static void check_chunking(attend_context *ctx, const attend_tensors *t, int style,
                           const answer *whole, const char *name) {
  const attend_desc *d = &t->desc;
  attend_plan *plan = plan_for(ctx, t, d->q_len);
  attend_state *state = state_for(plan);
  answer out = answer_for(d);
  size_t bytes = attend_state_bytes(state);
  int last = 0;
  for (int at = 0, n; at < d->q_len; at += n) {
    n = next_chunk(style, at, d->q_len - at);
    feed(plan, state, t, at, n, &out);
    last = d->mask.causal ? 0 : at;
  }
  CHECK_EQ(attend_state_bytes(state), bytes);
  for (int b = 0; b < d->batch; b++) {
    int real = d->mask.lengths ? d->mask.lengths[b] : d->q_len;
    CHECK_EQ(attend_state_length(state, b), real);
    if (real > last && !same_rows(d, &out, whole, b, last, real))
      CHECK_FAIL("%s on %s, %d threads: chunking %d has other bits", name, attend_context_isa(ctx),
                 attend_context_threads(ctx), style);
    static const char zeros[256];
    size_t row = (size_t)d->dim_v * attend_dtype_size(d->dtype);
    for (int i = real; i < d->q_len; i++)
      CHECK(!memcmp(out.o + (size_t)(b * d->heads * d->q_len + i) * row, zeros, row));
  }
  answer_free(&out);
  attend_state_free(state);
  attend_plan_free(plan);
}

TEST(any_chunking_is_forward) {
  const char *const shapes[] = {"b2h4g2n300d16v24:causal",    "b1h3g1n200d7v5:causal:f16",
                                "b3h2n300d8:causal:lengths",  "b2h2n270d17v9:causal:padleft:bf16",
                                "b2h2n200d8:causal:padright", "b2h2g1n200d9",
                                "b3h2n200d8:lengths",         "b2h1n130d5:padleft",
                                "b1h1n128d1v2:causal"};
  FOR_EACH_ISA(isa)
  for (int f = 0; f < LINEAR_FORMS; f++)
    for (int s = 0; s < 9; s++) {
      if ((f + s) % (light() ? 15 : 3)) continue;
      attend_context *ctx = open_dirty(isa, 1 + (f + s / 3) % 3, NULL);
      attend_tensors t = linear_tensors(ctx, linear_forms[f], shapes[s], 81);
      answer whole = forward(ctx, &t);
      for (int style = 0; style < STYLES; style++)
        check_chunking(ctx, &t, style, &whole, named(linear_forms[f], shapes[s]));
      answer_free(&whole);
      attend_tensors_free(ctx, &t);
      attend_context_free(ctx);
    }
}

/* Sequences that get another number of tokens in each call, none at all
 * included, go each their own way. */
TEST(sequences_grow_at_their_own_pace) {
  enum { ROUNDS = 5, N = 90 };
  static const int32_t paces[ROUNDS][3] = {
      {90, 0, 1}, {3, 64, 0}, {0, 0, 90}, {1, 90, 64}, {70, 1, 2}};
  FOR_EACH_ISA(isa)
  for (int f = 0; f < LINEAR_FORMS; f++) {
    attend_context *ctx = open_dirty(isa, 2, NULL);
    attend_tensors t = linear_tensors(ctx, linear_forms[f], "b3h4g2n200d8v6:causal", 82);
    const attend_desc *d = &t.desc;
    answer whole = forward(ctx, &t);
    attend_plan *plan = plan_for(ctx, &t, N);
    attend_state *state = state_for(plan);
    int at[3] = {0, 0, 0};
    for (int r = 0; r < ROUNDS; r++) {
      float *in = zeroed_block(3 * (4 * 8 + 2 * 8 + 2 * 6 + 4 * 6 + 4) * N, 4);
      float *q = in, *k = q + 3 * 4 * N * 8, *v = k + 3 * 2 * N * 8;
      float *o = v + 3 * 2 * N * 6, *lse = o + 3 * 4 * N * 6;
      for (int b = 0; b < 3; b++)
        for (int i = 0; i < paces[r][b]; i++)
          for (int h = 0; h < 4; h++) {
            int to = (b * 4 + h) * N + i, from = (b * 4 + h) * 200 + at[b] + i;
            memcpy(q + to * 8, (float *)t.q.data + from * 8, 32);
            if (h >= 2) continue;
            to = (b * 2 + h) * N + i, from = (b * 2 + h) * 200 + at[b] + i;
            memcpy(k + to * 8, (float *)t.k.data + from * 8, 32);
            memcpy(v + to * 6, (float *)t.v.data + from * 6, 24);
          }
      attend_plan_set_padding(plan, paces[r], NULL);
      OK(ctx, attend_extend(plan, state, N, attend_bhtd(q), attend_bhtd(k), attend_bhtd(v),
                            attend_bhtd(o), lse));
      for (int b = 0; b < 3; b++)
        for (int h = 0; h < 4; h++) {
          int got = (b * 4 + h) * N, want = (b * 4 + h) * 200 + at[b];
          size_t n = (size_t)paces[r][b];
          if (memcmp(o + got * 6, whole.o + want * 24, n * 24) ||
              memcmp(lse + got, whole.lse + want, n * 4))
            CHECK_FAIL("%s: round %d, sequence %d has other bits", linear_forms[f], r, b);
        }
      for (int b = 0; b < 3; b++) at[b] += paces[r][b];
      for (int b = 0; b < 3; b++) CHECK_EQ(attend_state_length(state, b), at[b]);
      free(in);
    }
    (void)d;
    answer_free(&whole);
    attend_state_free(state);
    attend_plan_free(plan);
    attend_tensors_free(ctx, &t);
    attend_context_free(ctx);
  }
}

/* Keys once, then any number of looks: cross-attention. */
TEST(append_then_look_is_forward) {
  FOR_EACH_ISA(isa)
  for (int f = 0; f < LINEAR_FORMS; f++) {
    attend_context *ctx = open_dirty(isa, 2, NULL);
    attend_tensors t = linear_tensors(ctx, linear_forms[f], "b2h4g2n90x200d12v10:f16", 83);
    const attend_desc *d = &t.desc;
    answer whole = forward(ctx, &t), out = answer_for(d);
    attend_plan *plan = plan_for(ctx, &t, 120);
    attend_state *state = state_for(plan);
    for (int at = 0; at < 200; at += 40)
      OK(ctx, attend_state_append(plan, state, 40, part(t.k, d, 2, 200, 12, at),
                                  part(t.v, d, 2, 200, 10, at)));
    for (int times = 0; times < 2; times++) {
      memset(out.o, 1, rows_of(d) * 20);
      OK(ctx, attend_state_query(plan, state, 90, t.q, attend_bhtd(out.o), out.lse));
      for (int b = 0; b < 2; b++)
        if (!same_rows(d, &out, &whole, b, 0, 90))
          CHECK_FAIL("%s: a look has other bits", linear_forms[f]);
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

/* With a causal mask only the open block can be looked at again. */
TEST(causal_looks_reach_into_the_open_block_only) {
  attend_context *ctx = open_dirty(NULL, 2, NULL);
  attend_tensors t = linear_tensors(ctx, "elu", "b2h2n100d8:causal", 84);
  const attend_desc *d = &t.desc;
  answer whole = forward(ctx, &t), out = answer_for(d);
  attend_plan *plan = plan_for(ctx, &t, 100);
  attend_state *state = state_for(plan);
  feed(plan, state, &t, 0, 100, &out);
  attend_plan_set_padding(plan, NULL, NULL);
  answer_free(&out);
  out = answer_for(d);
  attend_view to = part(attend_bhtd(out.o), d, 2, 100, 8, 64);
  OK(ctx, attend_state_query(plan, state, 36, part(t.q, d, 2, 100, 8, 64), to, NULL));
  memcpy(out.lse, whole.lse, rows_of(d) * sizeof(float));
  for (int b = 0; b < 2; b++) CHECK(same_rows(d, &out, &whole, b, 64, 100));
  CHECK_EQ(attend_state_query(plan, state, 37, part(t.q, d, 2, 100, 8, 63), to, NULL),
           ATTEND_INVALID);
  CHECK_SAYS(attend_message(ctx), "the last 36 positions");
  answer_free(&out);
  answer_free(&whole);
  attend_state_free(state);
  attend_plan_free(plan);
  attend_tensors_free(ctx, &t);
  attend_context_free(ctx);
}

/* ---- forks, beams, truncation -------------------------------------------------------- */

static const char *const beams = "b3h2g1n260d8v12:causal";
enum { LONG = 260 };

typedef struct {
  const char *form;
  ledger memory;
  attend_context *ctx;
  attend_tensors first, second;
  attend_plan *plan;
  attend_state *state;
  answer out;
} story;

static void story_begin(story *s, const char *form) {
  memset(s, 0, sizeof *s);
  s->form = form;
  s->ctx = open_dirty(NULL, 2, &s->memory);
  s->first = linear_tensors(s->ctx, form, beams, 85);
  s->second = linear_tensors(s->ctx, form, beams, 86);
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

/* Sequence b of dst: `cut` positions of parents[b] in one, then two's. */
static void splice(const attend_desc *d, int heads, int width, const int32_t *parents,
                   const int *cuts, const float *one, const float *two, float *dst) {
  size_t w = (size_t)width, T = (size_t)d->q_len;
  for (int n = 0; n < d->batch * heads; n++)
    for (size_t i = 0; i < T; i++) {
      int b = n / heads, h = n % heads;
      size_t cut = (size_t)cuts[b], to = ((size_t)n * T + i) * w;
      size_t from = ((size_t)(parents[b] * heads + h) * T + i) * w;
      memcpy(dst + to, i < cut ? one + from : two + to - cut * w, w * sizeof *dst);
    }
}

static answer expected(story *s, const int32_t *parents, const int *cuts) {
  attend_tensors t = linear_tensors(s->ctx, s->form, beams, 1), *a = &s->first;
  const attend_desc *d = &t.desc;
  attend_tensors *b = &s->second;
  splice(d, 2, 8, parents, cuts, a->q.data, b->q.data, t.q.data);
  splice(d, 1, 8, parents, cuts, a->k.data, b->k.data, t.k.data);
  splice(d, 1, 12, parents, cuts, a->v.data, b->v.data, t.v.data);
  answer want = forward(s->ctx, &t);
  attend_tensors_free(s->ctx, &t);
  return want;
}

/* n tokens of the second tensors in calls of `step`; sequence b stands at
 * cuts[b]. */
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
      size_t cut = (size_t)cuts[b];
      if (memcmp(got.lse + head, want.lse + head + cut, (size_t)n * 4) ||
          memcmp(got.o + head * 48, want.o + (head + cut) * 48, (size_t)n * 48))
        CHECK_FAIL("%s: sequence %d, head %d has other bits", s->form, b, h);
    }
  }
  answer_free(&got);
  answer_free(&want);
}

static const int32_t own[3] = {0, 1, 2};

TEST(forks_go_their_ways) {
  for (int f = 0; f < LINEAR_FORMS; f++) {
    story s;
    attend_state *copy;
    const int cuts[3] = {100, 100, 100};
    story_begin(&s, linear_forms[f]);
    feed(s.plan, s.state, &s.first, 0, 100, &s.out);
    OK(s.ctx, attend_state_fork(s.state, &copy));
    CHECK_EQ(attend_state_bytes(copy), attend_state_bytes(s.state));
    go_on(&s, copy, own, cuts, 150, 11);
    attend_state_free(copy);
    feed(s.plan, s.state, &s.first, 100, LONG - 100, &s.out);
    answer whole = forward(s.ctx, &s.first);
    for (int b = 0; b < 3; b++) CHECK(same_rows(&s.first.desc, &s.out, &whole, b, 0, LONG));
    answer_free(&whole);
    story_end(&s);
  }
}

TEST(beams_continue_their_parents) {
  const int32_t parents[3] = {2, 2, 0}, bad[3] = {0, 3, 1};
  for (int f = 0; f < LINEAR_FORMS; f++)
    for (int cut = 63; cut <= 65; cut++) {
      story s;
      const int cuts[3] = {cut, cut, cut};
      story_begin(&s, linear_forms[f]);
      feed(s.plan, s.state, &s.first, 0, cut, &s.out);
      CHECK_EQ(attend_state_reorder(s.state, bad), ATTEND_INVALID);
      CHECK_SAYS(attend_message(s.ctx), "parent 3");
      OK(s.ctx, attend_state_reorder(s.state, parents));
      go_on(&s, s.state, parents, cuts, 130, 3);
      story_end(&s);
    }
}

/* What was forgotten leaves no trace, NaN and large keys included. */
TEST(truncated_sequences_go_on) {
  for (int f = 0; f < LINEAR_FORMS; f++)
    for (int n = 0; n < 3; n++) {
      story s;
      story_begin(&s, linear_forms[f]);
      const int cuts[3] = {70, 0, 65};
      float bad = n == 0 ? NAN : n == 1 ? 20 : INFINITY;
      for (int b = 0; b < 3; b++) {
        size_t at = (size_t)(b * LONG + cuts[b]), left = (size_t)(LONG - cuts[b]);
        put_all(ATTEND_F32, s.first.k.data, at * 8, left * 8, bad);
        put_all(ATTEND_F32, s.first.v.data, at * 12, left * 12, bad);
      }
      feed(s.plan, s.state, &s.first, 0, 128, &s.out);
      for (int b = 0; b < 3; b++) OK(s.ctx, attend_state_truncate(s.state, b, cuts[b]));
      go_on(&s, s.state, own, cuts, 190, 31);
      story_end(&s);
    }
}

TEST(only_the_open_block_can_be_cut) {
  story s;
  story_begin(&s, "favor(m=16)");
  feed(s.plan, s.state, &s.first, 0, 140, &s.out);
  CHECK_EQ(attend_state_truncate(s.state, 1, 128), ATTEND_INVALID);
  CHECK_SAYS(attend_message(s.ctx),
             "sequence 1 can be truncated to 0 or to 129 and more, not to 128");
  CHECK_EQ(attend_state_truncate(s.state, 1, 141), ATTEND_INVALID);
  CHECK_EQ(attend_state_length(s.state, 1), 140);
  OK(s.ctx, attend_state_truncate(s.state, 1, 129));
  OK(s.ctx, attend_state_truncate(s.state, 2, 0));
  CHECK_EQ(attend_state_length(s.state, 1), 129);
  CHECK_EQ(attend_state_length(s.state, 2), 0);
  story_end(&s);
}

TEST(calls_take_no_memory) {
  for (int f = 0; f < LINEAR_FORMS; f++) {
    story s;
    story_begin(&s, linear_forms[f]);
    size_t bytes = attend_state_bytes(s.state);
    long taken = s.memory.taken;
    for (int at = 0; at < LONG; at += 20) feed(s.plan, s.state, &s.first, at, 20, &s.out);
    CHECK_EQ(s.memory.taken, taken);
    CHECK_EQ(attend_state_bytes(s.state), bytes);
    CHECK(attend_plan_workspace(s.plan) < (size_t)8 << 20);
    story_end(&s);
  }
}

/* A state remembers what made it. */
TEST(another_form_has_no_business_here) {
  story s;
  story_begin(&s, "favor(m=16)");
  attend_desc d = *attend_plan_desc(s.plan);
  d.form.seed = 9;
  attend_plan *other = make_plan(s.ctx, &d);
  CHECK_EQ(attend_extend(other, s.state, 1, s.first.q, s.first.k, s.first.v, s.first.o, NULL),
           ATTEND_INVALID);
  CHECK_SAYS(attend_message(s.ctx), "seed and redraw");
  attend_plan_free(other);
  OK(s.ctx, attend_plan_redraw(s.plan, 5));
  CHECK_EQ(attend_extend(s.plan, s.state, 1, s.first.q, s.first.k, s.first.v, s.first.o, NULL),
           ATTEND_INVALID);
  story_end(&s);
}
