/* How far a token sees through the layers: against products of whole matrices in
 * double, and against walking the heaviest keys one by one. */
#include "trace_fixtures.h"

static const char *const names[] = {"gpt2", "llama-gqa", "bert", "mistral-window", "t5", NULL};

/* The self-attention of the side that is there; decoders of both. */
static attend_role self_of(const recording *r) {
  return r->decoded ? ATTEND_DECODER_SELF : ATTEND_ENCODER_SELF;
}

/* Marks the `most` heaviest; returns what the others have. */
static double choose(const double *share, int T, int max, uint8_t *followed) {
  double left = 0;
  memset(followed, 0, (size_t)T);
  for (int n = 0; n < max && n < T; n++) {
    int best = -1;
    for (int i = 0; i < T; i++)
      if (!followed[i] && (best < 0 || share[i] > share[best])) best = i;
    if (best >= 0) followed[best] = 1;
  }
  for (int i = 0; i < T; i++) left += followed[i] ? 0 : share[i];
  return left;
}

/* shares [layers + 1][T], by whole matrices, following `most` rows of each. */
static double *matrix_shares(const recording *r, attend_lens *lens, int token, int max,
                             double *passed) {
  attend_lens_shape s;
  attend_role role = self_of(r);
  attend_lens_role(lens, role, &s);
  int T = s.rows, L = s.layers;
  double *shares = zeroed_block((size_t)((L + 1) * T), sizeof *shares);
  uint8_t *followed = zeroed_block((size_t)T, 1);
  *passed = 0;
  shares[L * T + token] = 1;
  for (int l = L - 1; l >= 0; l--) {
    const double *after = shares + (l + 1) * T;
    double *before = shares + l * T;
    *passed = fmax(*passed, choose(after, T, max, followed));
    for (int i = 0; i < T; i++) before[i] = after[i] / (followed[i] ? 2 : 1);
    for (int h = 0; h < s.heads; h++) {
      float *w = whole_block(r->s.ctx, lens, (attend_head_id){role, l, h}, &s);
      for (int i = 0; i < T; i++)
        for (int j = 0; followed[i] && j < T; j++)
          before[j] += after[i] * (double)w[i * T + j] / 2 / s.heads;
      free(w);
    }
  }
  free(followed);
  return shares;
}

static void check_shares(const recording *r, attend_lens *lens, int token, int max) {
  attend_lens_shape s;
  attend_lens_role(lens, self_of(r), &s);
  size_t T = (size_t)s.rows, L = (size_t)s.layers;
  float *shares = zeroed_block((L + 1) * T, sizeof *shares);
  double pairs = max < s.rows ? (double)max * s.keys * s.heads * s.layers : 0;
  double passed = -1, left, *want = matrix_shares(r, lens, token, max, &left);
  OK(r->s.ctx, attend_lens_rollout(lens, self_of(r), token, pairs, shares, &passed));
  for (size_t i = 0; i < (L + 1) * T; i++) CHECK_NEAR(shares[i], want[i], 1e-6);
  CHECK_NEAR(passed, left, 1e-6);
  for (size_t l = 0; l <= L; l++) { /* nothing gets lost */
    double sum = 0;
    for (size_t i = 0; i < T; i++) sum += (double)shares[l * T + i];
    CHECK_NEAR(sum, 1, 1e-5);
  }
  OK(r->s.ctx, attend_lens_rollout(lens, self_of(r), token, pairs, shares, NULL));
  free(want), free(shares);
}

TEST(shares_are_products_of_matrices) {
  for (int k = 0; names[k]; k++) {
    recording r = recorded(names[k], 0, 2, FOR_A_LENS);
    attend_lens *lens = lens_of(&r, NULL);
    attend_lens_shape s;
    CHECK(attend_lens_role(lens, self_of(&r), &s));
    for (int token = 0; token < s.rows; token += 3) check_shares(&r, lens, token, s.rows);
    attend_lens_free(lens);
    close_recording(&r);
  }
}

TEST(shares_from_the_heaviest_rows) {
  for (int k = 0; names[k]; k++) {
    recording r = recorded(names[k], 0, 2, FOR_A_LENS);
    attend_lens *lens = lens_of(&r, NULL);
    attend_lens_shape s;
    CHECK(attend_lens_role(lens, self_of(&r), &s));
    for (int max = 1; max <= s.rows; max += 1 + max / 2)
      check_shares(&r, lens, s.real_keys - 1, max);
    attend_lens_free(lens);
    close_recording(&r);
  }
}

/* ---- the heaviest alone ------------------------------------------------------------------- */

static int by_edge(const void *a, const void *b) { return memcmp(a, b, sizeof(attend_reach_edge)); }

/* One token: how many edges, and where they go. */
static int trace_backward(const recording *r, attend_lens *lens, int token, uint8_t *reached,
                          attend_reach_edge *edges) {
  attend_lens_shape s;
  attend_role role = self_of(r);
  attend_lens_role(lens, role, &s);
  int T = s.rows, n = 0;
  reached[s.layers * T + token] = 1;
  for (int l = s.layers - 1; l >= 0; l--)
    for (int h = -1; h < s.heads; h++) {
      float *w = h < 0 ? NULL : whole_block(r->s.ctx, lens, (attend_head_id){role, l, h}, &s);
      for (int i = 0; i < T; i++) {
        if (!reached[(l + 1) * T + i]) continue;
        int to = h < 0 ? i : 0;
        for (int j = 0; w && j < T; j++)
          if (w[i * T + j] > w[i * T + to]) to = j;
        edges[n++] = (attend_reach_edge){l, i, to, h};
        reached[l * T + to] = 1;
      }
      free(w);
    }
  return n;
}

TEST(reaching_by_the_heaviest) {
  for (int k = 0; names[k]; k++) {
    recording r = recorded(names[k], 0, 2, FOR_A_LENS);
    attend_lens *lens = lens_of(&r, NULL);
    attend_lens_shape s;
    CHECK(attend_lens_role(lens, self_of(&r), &s));
    size_t bytes = (size_t)((s.layers + 1) * s.rows);
    int max = s.layers * s.rows * (s.heads + 1), n, few;
    uint8_t *got = zeroed_block(bytes, 1), *want = zeroed_block(bytes, 1);
    attend_reach_edge *a = zeroed_block((size_t)max, sizeof *a);
    attend_reach_edge *b = zeroed_block((size_t)max, sizeof *b);
    for (int token = 0; token < s.rows; token++) {
      memset(want, 0, bytes);
      memset(got, 7, bytes);
      int edges = trace_backward(&r, lens, token, want, b);
      OK(r.s.ctx, attend_lens_reach(lens, self_of(&r), token, got, a, max, &n));
      CHECK_EQ(n, edges);
      CHECK(!memcmp(got, want, bytes));
      qsort(a, (size_t)n, sizeof *a, by_edge);
      qsort(b, (size_t)edges, sizeof *b, by_edge);
      CHECK(n == edges && !memcmp(a, b, (size_t)n * sizeof *a));
      /* fewer edges than there are: as many as fit, all that is reached */
      memset(got, 7, bytes);
      a[2].layer = -77;
      OK(r.s.ctx, attend_lens_reach(lens, self_of(&r), token, got, a, 2, &few));
      CHECK_EQ(few, 2);
      CHECK_EQ(a[2].layer, -77);
      CHECK(!memcmp(got, want, bytes));
      OK(r.s.ctx, attend_lens_reach(lens, self_of(&r), token, got, NULL, 0, &few));
      CHECK_EQ(few, 0);
    }
    free(got), free(want), free(a), free(b);
    attend_lens_free(lens);
    close_recording(&r);
  }
}

/* ---- what cannot be, and what is ended early ---------------------------------  */

TEST(tokens_that_cannot_be_followed) {
  recording r = recorded("t5", 0, 1, FOR_A_LENS);
  attend_lens *lens = lens_of(&r, NULL);
  float *shares = zeroed_block(1000, sizeof *shares);
  uint8_t *reached = zeroed_block(1000, 1);
  double passed;
  int n;
  const int tokens[] = {-1, 0, 1000};
  const attend_role roles[] = {ATTEND_DECODER_SELF, ATTEND_CROSS, ATTEND_ENCODER_SELF};
  for (int i = 0; i < 3; i++) {
    CHECK_EQ(attend_lens_rollout(lens, roles[i], tokens[i], 0, shares, &passed), ATTEND_INVALID);
    CHECK_EQ(attend_lens_reach(lens, roles[i], tokens[i], reached, NULL, 0, &n), ATTEND_INVALID);
    CHECK(attend_message(r.s.ctx)[0]);
  }
  free(shares), free(reached);
  attend_lens_free(lens);
  close_recording(&r);
}

typedef struct {
  int calls, stop_at;
  double last;
} steps;

static int step(double done, const char *what, void *user) {
  (void)what;
  steps *s = user;
  CHECK(done >= s->last && done <= 1);
  s->last = done;
  return ++s->calls == s->stop_at;
}

TEST(an_answer_that_is_stopped) {
  recording r = recorded("llama-gqa", 0, 1, FOR_A_LENS);
  attend_lens *lens = lens_of(&r, NULL);
  attend_role role = ATTEND_DECODER_SELF;
  float *shares = zeroed_block(1000, sizeof *shares);
  float *again = zeroed_block(1000, sizeof *again);
  uint8_t *reached = zeroed_block(1000, 1);
  double passed;
  int n, total = r.s.config->decoder.layers * r.s.config->decoder.heads;
  OK(r.s.ctx, attend_lens_rollout(lens, role, 5, 0, shares, &passed));
  for (int stop = 1; stop <= total + 1; stop++) {
    steps a = {.stop_at = stop}, b = {.stop_at = stop};
    attend_status want = stop > total ? ATTEND_OK : ATTEND_STOPPED;
    attend_lens_set_progress(lens, step, &a);
    CHECK_EQ(attend_lens_rollout(lens, role, 5, 0, again, &passed), want);
    attend_lens_set_progress(lens, step, &b);
    CHECK_EQ(attend_lens_reach(lens, role, 5, reached, NULL, 0, &n), want);
    CHECK(a.calls == b.calls && a.calls == (stop > total ? total : stop));
  }
  attend_lens_set_progress(lens, NULL, NULL);
  OK(r.s.ctx, attend_lens_rollout(lens, role, 5, 0, again, &passed));
  CHECK(same_bits(shares, again, 1000));
  free(shares), free(again), free(reached);
  attend_lens_free(lens);
  close_recording(&r);
}
