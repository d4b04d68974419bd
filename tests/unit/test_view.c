/* Sessions of attend/viewer.h: the structs agree with each other, bad arguments and
 * failing allocations give a status, long calls can be stopped, and the one queue
 * answers quick calls between the steps of a long one. */
#include "attend/viewer.h"

#include <stdlib.h>
#include <pthread.h>

#include "base/base.h"
#include "golden_models.h"

static const char text[] = "5 17 40 96 51 17 40";
enum { N = 7 };

typedef struct {
  ledger memory;
  attend_context *ctx;
  attend_viewer *v;
} session;

static session open_session(const char *model, size_t most_bytes) {
  session s = {0};
  attend_viewer_options o = {ATTEND_INIT(attend_viewer_options)};
  o.most_bytes = most_bytes;
  s.ctx = open_context(NULL, 2, NULL);
  OK(s.ctx, attend_viewer_create(s.ctx, &o, &s.v));
  OK(s.ctx, attend_viewer_add(s.v, &(attend_viewer_source){ATTEND_INIT(attend_viewer_source),
                                                           .path = model_path(model, NULL)}));
  return s;
}

static void close_session(session *s) {
  attend_viewer_free(s->v);
  attend_context_free(s->ctx);
}

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

static void refused(const session *s, attend_status status, const char *part) {
  CHECK_EQ(status, ATTEND_INVALID);
  CHECK_SAYS(attend_message(s->ctx), part);
}

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

/* ---- two models; two texts ------------------------------------------------------------- */

/* Two decoders with tokenizers of their own. */
static session open_two(void) {
  session s = open_session("stories260K", 0);
  OK(s.ctx, attend_viewer_add(s.v, &(attend_viewer_source){ATTEND_INIT(attend_viewer_source),
                                                           .path = "models/gutenberg"}));
  return s;
}

static const attend_viewer_run *run_model(const session *s, int model, const char *of) {
  const attend_viewer_run *run = NULL;
  OK(s->ctx, attend_viewer_run_case(s->v,
                                    &(attend_viewer_case){ATTEND_INIT(attend_viewer_case),
                                                          .model = model, .text = of, .step = -1},
                                    NULL, &run));
  return run;
}

static const char sentence[] = "Don't the dogs' unhappiness, he said, surprise  you?";

/* Weights of words are sums over their tokens as keys, means over their tokens as queries. */
static void check_words(const attend_viewer_words *w, const attend_viewer_block *b) {
  int n = w->words, T = w->tokens;
  for (int i = 0; i < n; i++) {
    double whole = 0;
    for (int j = 0; j <= n; j++) {
      double sum = 0;
      int rows = 0;
      for (int r = 0; r < T; r++) {
        if (w->of[r] != i) continue;
        rows++;
        for (int k = 0; k < T; k++)
          if (w->of[k] == j - 1) sum += (double)b->weights[r * T + k];
      }
      CHECK(rows > 0);
      CHECK_NEAR(w->weights[i * (n + 1) + j], sum / rows, 1e-6);
      whole += (double)w->weights[i * (n + 1) + j];
    }
    CHECK_NEAR(whole, 1, 1e-5);
  }
}

static bool has_word(const attend_viewer_words *w, const char *word) {
  for (int i = 0; i < w->words; i++)
    if ((size_t)(w->end[i] - w->start[i]) == strlen(word) &&
        !strncmp(w->text + w->start[i], word, strlen(word)))
      return true;
  return false;
}

/* Words are found in texts: builds without tokenizers (ATTEND_TEXT=OFF) read ids alone. */
static bool reads_texts(void) {
  const char *built = getenv("ATTEND_TEXT");
  return !built || strcmp(built, "OFF");
}

TEST(heads_of_two_tokenizers_have_the_same_words) {
  if (!reads_texts()) return;
  session s = open_two();
  const attend_viewer_run *a = run_model(&s, 0, sentence), *b = run_model(&s, 1, sentence);
  attend_viewer_head heads[2] = {{.run = a, .at = {ATTEND_DECODER_SELF, 1, 2}},
                                 {.run = b, .at = {ATTEND_DECODER_SELF, 0, 1}}};
  attend_viewer_words w[2];
  attend_viewer_block blocks[2];
  CHECK(a->side[1].n != b->side[1].n);
  for (int i = 0; i < 2; i++) {
    OK(s.ctx, attend_viewer_get_words(s.v, &heads[i], i ? a : b, &w[i]));
    OK(s.ctx, attend_viewer_get_block(s.v, &heads[i], NULL, &blocks[i]));
    CHECK(!w[i].why && w[i].words > 5);
    CHECK(has_word(&w[i], "unhappiness") && has_word(&w[i], "said") && has_word(&w[i], "you"));
    check_words(&w[i], &blocks[i]);
  }
  CHECK_EQ(w[0].words, w[1].words);
  CHECK(!memcmp(w[0].start, w[1].start, (size_t)w[0].words * sizeof *w[0].start));
  CHECK(!memcmp(w[0].end, w[1].end, (size_t)w[0].words * sizeof *w[0].end));
  for (int i = 0; i < 2; i++) {
    attend_viewer_release(s.v, w[i].memory);
    attend_viewer_release(s.v, blocks[i].memory);
  }
  const attend_viewer_run *other = run_model(&s, 1, "another text");
  OK(s.ctx, attend_viewer_get_words(s.v, &heads[0], other, &w[0]));
  CHECK(!w[0].memory);
  CHECK_SAYS(w[0].why, "different texts");
  close_session(&s);
}

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

/* "play" stands after other words in the two texts. */
TEST(a_word_has_cosines_in_two_texts) {
  if (!reads_texts()) return;
  session s = open_two();
  const attend_viewer_run *a = run_model(&s, 1, "We like to play outside.");
  const attend_viewer_run *b = run_model(&s, 1, "We saw a play outside.");
  attend_viewer_word_pair p, own;
  attend_viewer_span span;
  OK(s.ctx, attend_viewer_get_word_pair(s.v, a, b, ATTEND_DECODER_SELF, -1, -1, &p));
  OK(s.ctx, attend_viewer_find_word(s.v, a, ATTEND_DECODER_SELF, "PLAY", 0, &span));
  CHECK(p.same && !p.why && p.word.from == span.from && p.word.n == span.n);
  OK(s.ctx, attend_viewer_find_word(s.v, b, ATTEND_DECODER_SELF, "play", 0, &span));
  CHECK(p.other.from == span.from && p.other.n == span.n);
  OK(s.ctx, attend_viewer_find_word(s.v, b, ATTEND_DECODER_SELF, "play", 1, &span));
  CHECK_EQ(span.n, 0);
  CHECK(p.hidden[p.layers] > -1 && p.hidden[p.layers] < 0.9999);
  attend_viewer_embeddings e;
  OK(s.ctx, attend_viewer_get_embeddings(s.v, a, b, ATTEND_DECODER_SELF, p.layers, NULL, &e));
  if (p.word.n == 1 && p.other.n == 1)
    CHECK_NEAR(e.cosine[p.word.from * e.keys + p.other.from], p.hidden[p.layers], 1e-6);
  OK(s.ctx, attend_viewer_get_word_pair(s.v, a, a, ATTEND_DECODER_SELF, 2, -1, &own));
  for (int l = 0; l <= own.layers; l++) CHECK_NEAR(own.hidden[l], 1, 1e-6);
  for (int i = 0; i < own.layers * own.heads; i++) {
    CHECK_NEAR(own.q[i], 1, 1e-6);
    CHECK_NEAR(own.k[i], 1, 1e-6);
    CHECK_NEAR(own.v[i], 1, 1e-6);
  }
  void *memory[] = {p.memory, own.memory, e.memory};
  for (int i = 0; i < 3; i++) attend_viewer_release(s.v, memory[i]);
  const attend_viewer_run *other = run_model(&s, 0, "We saw a play outside.");
  OK(s.ctx, attend_viewer_get_word_pair(s.v, a, other, ATTEND_DECODER_SELF, -1, -1, &p));
  CHECK(!p.memory && p.word.n > 0 && p.other.n > 0);
  CHECK_SAYS(p.why, "two models");
  refused(&s, attend_viewer_get_embeddings(s.v, a, other, ATTEND_DECODER_SELF, 0, NULL, &e),
          "two models");
  refused(&s, attend_viewer_get_word_pair(s.v, a, b, ATTEND_DECODER_SELF, 99, -1, &p), "token 99");
  close_session(&s);
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

static attend_status whole_session(attend_context *ctx) {
  attend_viewer *v = NULL;
  attend_viewer_source source = {ATTEND_INIT(attend_viewer_source),
                                 .path = model_path("gpt2", NULL)};
  attend_status status = attend_viewer_create(ctx, NULL, &v);
  if (!status) status = attend_viewer_add(v, &source);
  if (!status) status = use_all(v);
  attend_viewer_free(v);
  return status;
}

TEST(every_allocation_may_fail) {
  ledger memory = {0};
  attend_context *ctx = open_context(NULL, 1, &memory);
  OK(ctx, whole_session(ctx));
  long before = memory.taken, live = memory.live;
  OK(ctx, whole_session(ctx));
  long last = memory.taken - before, stride = light() ? 7 : 1;
  CHECK(last > 100);
  for (long n = 1; n <= last; n += stride) {
    memory.fail_at = memory.taken + n;
    attend_status status = whole_session(ctx);
    memory.fail_at = 0;
    if (status != ATTEND_NO_MEMORY) CHECK_FAIL("failure %ld gives status %d", n, (int)status);
    if (memory.live != live) CHECK_FAIL("failure %ld loses %ld blocks", n, memory.live - live);
  }
  attend_context_free(ctx);
}

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
