/* Sessions of attend/viewer.h: the structs agree with each other, bad arguments and
 * failing allocations give a status, long calls can be stopped, and the one queue
 * answers quick calls between the steps of a long one. */
#include <pthread.h>

#include "view_sessions.h"

static const char text[] = "5 17 40 96 51 17 40";
enum { N = 7 };

static const attend_viewer_run *run_text(const session *s, const char *of) {
  const attend_viewer_run *run = NULL;
  OK(s->ctx,
     attend_viewer_run_case(
         s->v, &(attend_viewer_case){ATTEND_INIT(attend_viewer_case), .text = of}, NULL, &run));
  return run;
}

static attend_viewer_head head_of(const attend_viewer_run *run) {
  return (attend_viewer_head){.run = run, .at = {ATTEND_DECODER_SELF, 1, 2}};
}

/* ---- numbers ------------------------------------------------------------------------- */

TEST(structs_agree) {
  session s = open_session("gpt2", 0);
  const attend_viewer_run *run = run_text(&s, text);
  attend_viewer_head h = head_of(run);
  attend_viewer_block b;
  attend_viewer_thumbs t;
  attend_viewer_vectors x;
  attend_viewer_tile tile;
  attend_viewer_rollout r;
  attend_viewer_comparison c;
  CHECK_EQ(run->side[1].n, N);
  CHECK_EQ(run->side[0].n, 0);
  OK(s.ctx, attend_viewer_get_block(s.v, &h, NULL, &b));
  OK(s.ctx, attend_viewer_get_thumbs(s.v, &h, 48, &t));
  OK(s.ctx, attend_viewer_get_vectors(s.v, &h, &(attend_viewer_range){6, 1, 0, N}, &x));
  OK(s.ctx, attend_viewer_get_tile(s.v, &(attend_viewer_place){.head = h}, &tile));
  OK(s.ctx, attend_viewer_get_rollout(s.v, &h, N - 1, &r));
  OK(s.ctx, attend_viewer_compare(s.v, &h, run, &c));
  CHECK(tile.exact && tile.height == N && tile.width == N);
  float max = 0;
  for (int i = 0; i < N; i++) {
    double sum = 0;
    for (int j = 0; j < N; j++) {
      float w = b.weights[i * N + j];
      sum += (double)w;
      max = w > max ? w : max;
      CHECK(j <= i || w == 0);
      CHECK(tile.cells[i * N + j] == w);
    }
    CHECK_NEAR(sum, 1, 2e-6);
  }
  CHECK(!memcmp(x.weights, b.weights + 6 * N, N * sizeof *x.weights));
  CHECK(t.max[1 * t.heads + 2] == max);
  double sum = 0;
  for (int j = 0; j < N; j++) sum += (double)r.shares[j];
  CHECK_NEAR(sum, 1, 1e-5);
  CHECK(!c.why && c.difference[0].distance == 0 && c.hidden[0] == 0);
  void *memory[] = {b.memory, t.memory, x.memory, r.memory, tile.memory, c.memory};
  for (int i = 0; i < 6; i++) attend_viewer_release(s.v, memory[i]);
  close_session(&s);
}

TEST(runs_are_found_again_until_their_room_is_needed) {
  session s = open_session("gpt2", 1 << 17);
  char id[20];
  const attend_viewer_run *run = run_text(&s, text);
  memcpy(id, run->id, sizeof id);
  CHECK(run_text(&s, text) == run);
  CHECK(attend_viewer_find(s.v, id) == run);
  for (int i = 0; i < 60; i++) {
    char other[32];
    snprintf(other, sizeof other, "1 2 3 %d 1 2 3 4 5 6 7 8 9", i);
    run_text(&s, other);
  }
  CHECK(attend_viewer_find(s.v, id) == NULL);
  close_session(&s);
}

TEST(generated_tokens_are_those_of_the_run) {
  session s = open_session("gpt2", 0);
  const attend_viewer_run *run;
  attend_viewer_generate_options o = {ATTEND_INIT(attend_viewer_generate_options), .new_tokens = 5};
  OK(s.ctx, attend_viewer_generate(
                s.v, &(attend_viewer_case){ATTEND_INIT(attend_viewer_case), .text = text}, &o, NULL,
                &run));
  CHECK_EQ(run->n_steps, 5);
  CHECK_EQ(run->side[1].n, N + 5);
  for (int i = 0; i < 5; i++) {
    attend_viewer_candidate best;
    int n;
    CHECK_EQ(run->steps[i].id, run->side[1].ids[N + i]);
    OK(s.ctx, attend_viewer_get_candidates(s.v, run, ATTEND_DECODER_SELF, N + i - 1, 1, &best, &n));
    CHECK_EQ(best.id, run->steps[i].id);
    CHECK_NEAR(best.p, run->steps[i].p, 1e-6);
  }
  close_session(&s);
}

/* ---- what cannot be -------------------------------------------------------------------- */

TEST(bad_arguments_are_refused) {
  session s = open_session("gpt2", 0);
  const attend_viewer_run *run, *none;
  attend_viewer_block b;
  attend_viewer_tile t;
  attend_viewer_embeddings e;
  attend_viewer_positions p;
  attend_viewer_thumbs thumbs;
  refused(&s,
          attend_viewer_run_case(
              s.v, &(attend_viewer_case){ATTEND_INIT(attend_viewer_case), .model = 1}, NULL, &none),
          "no model 1");
  refused(
      &s,
      attend_viewer_run_case(
          s.v, &(attend_viewer_case){ATTEND_INIT(attend_viewer_case), .text = " "}, NULL, &none),
      "no tokens");
  refused(&s,
          attend_viewer_run_case(s.v,
                                 &(attend_viewer_case){ATTEND_INIT(attend_viewer_case), .text = "1",
                                                       .attention = "nonsense"},
                                 NULL, &none),
          "nonsense");
  CHECK(!none);
  run = run_text(&s, text);
  attend_viewer_head h = head_of(run);
  attend_viewer_range outside = {0, N + 1, 0, N};
  refused(&s, attend_viewer_get_block(s.v, &h, &outside, &b), "rows from 0");
  CHECK(!b.memory);
  h.at.layer = 99;
  refused(&s, attend_viewer_get_block(s.v, &h, NULL, &b), "layer 99");
  h = head_of(run);
  h.at.role = ATTEND_CROSS;
  refused(&s, attend_viewer_get_block(s.v, &h, NULL, &b), "role");
  h = head_of(run);
  h.form = "nonsense";
  refused(&s, attend_viewer_get_block(s.v, &h, NULL, &b), "nonsense");
  h.form = NULL;
  refused(&s, attend_viewer_get_thumbs(s.v, &h, 1000, &thumbs), "4 to 256");
  refused(&s, attend_viewer_get_tile(s.v, &(attend_viewer_place){.head = h, .x = 9}, &t),
          "outside");
  refused(&s, attend_viewer_get_embeddings(s.v, run, NULL, ATTEND_ENCODER_SELF, 0, NULL, &e),
          "side");
  refused(&s, attend_viewer_get_positions(s.v, -1, -1, 1, 64, &p), "2 to 512");
  refused(&s, attend_viewer_add(s.v, &(attend_viewer_source){ATTEND_INIT(attend_viewer_source)}),
          "path");
  close_session(&s);
}

static int stop(double done, const char *what, void *user) {
  (void)done, (void)what;
  ++*(int *)user;
  return 1;
}

TEST(a_run_that_is_stopped_loses_nothing) {
  session s = open_session("gpt2", 0);
  int calls = 0;
  attend_viewer_listener l = {ATTEND_INIT(attend_viewer_listener), .progress = stop,
                              .user = &calls};
  const attend_viewer_run *run;
  attend_viewer_case c = {ATTEND_INIT(attend_viewer_case), .text = text};
  CHECK_EQ(attend_viewer_run_case(s.v, &c, &l, &run), ATTEND_STOPPED);
  CHECK(calls == 1 && !run);
  run = run_text(&s, text);
  CHECK(run && run->side[1].n == N);
  close_session(&s);
}

/* ---- patterns of a model, to compare two ------------------------------------------------ */

TEST(patterns_are_counted) {
  session s = open_session("gpt2", 0);
  const attend_viewer_run *run = run_text(&s, text);
  attend_viewer_head h = head_of(run);
  attend_viewer_summary sum;
  attend_viewer_patterns p;
  OK(s.ctx, attend_viewer_get_summary(s.v, &h, &sum));
  OK(s.ctx, attend_viewer_get_patterns(s.v, &h, &p));
  CHECK(sum.causal && sum.layers == p.layers && sum.heads == p.heads);
  CHECK_NEAR(sum.visible, (N + 1) / (2.0 * N), 1e-12);
  int all = 0;
  for (int k = 0; k <= ATTEND_HEAD_PATTERNS; k++) {
    int count = 0, want = k < ATTEND_HEAD_PATTERNS ? k : -1;
    for (int i = 0; i < p.layers * p.heads; i++) count += p.scores[i].pattern == want;
    CHECK_EQ(sum.layer[p.layers].count[k], count);
    all += count;
  }
  CHECK_EQ(all, p.layers * p.heads);
  CHECK_NEAR(sum.layer[p.layers].later, 0, 0);
  for (int k = 0; k < ATTEND_HEAD_PATTERNS; k++)
    for (int i = 0; i < ATTEND_VIEWER_BEST; i++) {
      int at = sum.best[k][i];
      if (at >= 0) CHECK(sum.best_score[k][i] == p.scores[at].score[k]);
      if (i && at >= 0) CHECK(sum.best_score[k][i] <= sum.best_score[k][i - 1]);
    }
  CHECK_EQ(sum.best[ATTEND_PATTERN_NEXT][0], -1); /* it is causal */
  attend_viewer_release(s.v, sum.memory);
  attend_viewer_release(s.v, p.memory);
  close_session(&s);
}

TEST(an_encoder_sees_all_pairs) {
  session s = open_session("bert", 0);
  const attend_viewer_run *run = run_text(&s, text);
  attend_viewer_head h = {.run = run, .at = {ATTEND_ENCODER_SELF, 0, 0}};
  attend_viewer_summary sum;
  OK(s.ctx, attend_viewer_get_summary(s.v, &h, &sum));
  CHECK(!sum.causal && sum.visible == 1);
  CHECK(sum.layer[sum.layers].later > 0.1);
  attend_viewer_release(s.v, sum.memory);
  close_session(&s);
}

TEST(layers_are_aligned_by_depth) {
  int a[12], b[12];
  for (int i = 0; i < 12; i++) attend_viewer_depth(12, 3, i, &a[i], &b[i]);
  for (int i = 0; i < 12; i++) CHECK(a[i] == i && b[i] == i / 4);
}

/* ---- memory --------------------------------------------------------------------------------- */

static attend_status use_all(attend_viewer *v) {
  const attend_viewer_run *run;
  attend_viewer_case c = {ATTEND_INIT(attend_viewer_case), .text = text};
  attend_viewer_generate_options g = {ATTEND_INIT(attend_viewer_generate_options), .new_tokens = 2};
  attend_viewer_thumbs t = {0};
  attend_viewer_patterns p = {0};
  attend_viewer_block b = {0};
  attend_viewer_comparison d = {0};
  attend_viewer_embeddings e = {0};
  attend_status status = attend_viewer_generate(v, &c, &g, NULL, &run);
  if (!status) status = attend_viewer_run_case(v, &c, NULL, &run);
  attend_viewer_head h = head_of(run);
  if (!status) status = attend_viewer_get_thumbs(v, &h, 48, &t);
  if (!status) status = attend_viewer_get_patterns(v, &h, &p);
  h.form = "elu";
  if (!status) status = attend_viewer_get_block(v, &h, NULL, &b);
  if (!status) status = attend_viewer_compare(v, &h, NULL, &d);
  if (!status)
    status = attend_viewer_get_embeddings(v, run, NULL, ATTEND_DECODER_SELF, 1, NULL, &e);
  attend_viewer_summary sum = {0};
  attend_viewer_words words = {0};
  attend_viewer_word_pair pair = {0};
  h.form = NULL;
  if (!status) status = attend_viewer_get_summary(v, &h, &sum);
  if (!status) status = attend_viewer_get_words(v, &h, run, &words);
  if (!status) status = attend_viewer_get_word_pair(v, run, run, ATTEND_DECODER_SELF, 1, -1, &pair);
  void *memory[] = {t.memory, p.memory,   b.memory,     d.memory,
                    e.memory, sum.memory, words.memory, pair.memory};
  for (int i = 0; i < 8; i++) attend_viewer_release(v, memory[i]);
  return status;
}

TEST(every_allocation_may_fail) { allocations_may_fail_in(use_all, light() ? 200 : 0); }

/* ---- the queue ------------------------------------------------------------------------------- */

typedef struct {
  session *s;
  pthread_mutex_t lock;
  pthread_cond_t changed;
  bool begun, queued, finished; /* the long call; the quick one waits; the long call */
  bool between;                 /* the quick one ran before the long one ended */
  int tokens;
} shared;

static void set(shared *x, bool *flag) {
  pthread_mutex_lock(&x->lock);
  *flag = true;
  pthread_cond_broadcast(&x->changed);
  pthread_mutex_unlock(&x->lock);
}

static void wait_for(shared *x, const bool *flag) {
  pthread_mutex_lock(&x->lock);
  while (!*flag) pthread_cond_wait(&x->changed, &x->lock);
  pthread_mutex_unlock(&x->lock);
}

/* After the first token a quick call is known to wait. */
static int on_token(const attend_viewer_step *step, void *user) {
  shared *x = user;
  (void)step;
  set(x, &x->begun);
  wait_for(x, &x->queued);
  x->tokens++;
  return 0;
}

static void generate_long(void *user) {
  shared *x = user;
  const attend_viewer_run *run;
  attend_viewer_listener l = {ATTEND_INIT(attend_viewer_listener), .token = on_token, .user = x};
  attend_viewer_generate_options o = {ATTEND_INIT(attend_viewer_generate_options), .new_tokens = 8};
  OK(x->s->ctx, attend_viewer_generate(
                    x->s->v, &(attend_viewer_case){ATTEND_INIT(attend_viewer_case), .text = text},
                    &o, &l, &run));
  set(x, &x->finished);
}

static void *call_long(void *user) {
  shared *x = user;
  attend_viewer_task task = {.work = generate_long, .is_long = true, .user = x};
  CHECK(attend_viewer_call(x->s->v, &task));
  return NULL;
}

static int now_queued(void *user) {
  shared *x = user;
  set(x, &x->queued);
  return 0;
}

static void quick(void *user) {
  shared *x = user;
  pthread_mutex_lock(&x->lock);
  x->between = !x->finished;
  pthread_mutex_unlock(&x->lock);
}

TEST(quick_calls_run_between_the_steps_of_a_long_one) {
  session s = open_session("gpt2", 0);
  shared x = {.s = &s};
  pthread_t thread;
  pthread_mutex_init(&x.lock, NULL);
  pthread_cond_init(&x.changed, NULL);
  OK(s.ctx, attend_viewer_start(s.v));
  CHECK(!pthread_create(&thread, NULL, call_long, &x));
  wait_for(&x, &x.begun);
  attend_viewer_task task = {quick, false, now_queued, &x};
  CHECK(attend_viewer_call(s.v, &task));
  pthread_join(thread, NULL);
  CHECK(x.between && x.finished);
  CHECK_EQ(x.tokens, 8);
  close_session(&s);
}

static int give_up(void *user) {
  (void)user;
  return 1;
}

TEST(a_call_that_waits_can_be_cancelled) {
  session s = open_session("gpt2", 0);
  shared x = {.s = &s};
  pthread_t thread;
  pthread_mutex_init(&x.lock, NULL);
  pthread_cond_init(&x.changed, NULL);
  OK(s.ctx, attend_viewer_start(s.v));
  CHECK(!pthread_create(&thread, NULL, call_long, &x));
  wait_for(&x, &x.begun);
  /* Long calls wait for each other: this one is cancelled in the queue. */
  attend_viewer_task task = {quick, true, give_up, &x};
  CHECK(!attend_viewer_call(s.v, &task));
  set(&x, &x.queued); /* until here the long call does not end */
  pthread_join(thread, NULL);
  CHECK(!x.between && x.tokens == 8);
  close_session(&s);
}
