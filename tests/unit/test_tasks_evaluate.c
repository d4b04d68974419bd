/* attend/evaluate.h: losses of goldens, any batch and any interruption the same bits,
 * options and texts that are refused, allocations that fail. */
#include "attend/evaluate.h"
#include "task_models.h"

static const char story[] =
    "Tom had a red boat. He took it to the lake and it went far away, so he "
    "asked his big dog to help.";

/* Sequence 0 of the golden file; PyTorch computed its loss. */
static const int32_t golden[] = {203, 88, 105, 185, 117, 36, 165, 186, 108, 7, 52, 193, 124};
enum { GOLDEN = sizeof golden / sizeof *golden };

static attend_evaluation *evaluation_of(const task_model *t, attend_evaluate_options o) {
  attend_evaluation *e;
  o.size = sizeof o;
  if (attend_evaluation_create(t->s.model, t->tokenizer, &o, &e)) {
    printf("no evaluation: %s\n", attend_message(t->s.ctx));
    exit(1);
  }
  return e;
}

TEST(the_loss_of_a_golden) {
  task_model t;
  open_task(&t, "gpt2");
  attend_evaluation *e =
      evaluation_of(&t, (attend_evaluate_options){ATTEND_INIT(attend_evaluate_options)});
  OK(t.s.ctx, attend_evaluation_set_ids(e, golden, GOLDEN));
  CHECK_EQ(attend_evaluation_target(e), GOLDEN - 1);
  CHECK_EQ(attend_evaluation_tokens(e), 0);
  CHECK(isnan(attend_evaluation_perplexity(e)));
  OK(t.s.ctx, attend_evaluation_run(e));
  CHECK_NEAR(attend_evaluation_loss(e) / (GOLDEN - 1), 7.806372165679932, 1e-5);
  double sum = 0;
  attend_token_loss token;
  int n = 0;
  for (; attend_evaluation_get(e, n, &token); n++) {
    CHECK_EQ(token.id, golden[n + 1]);
    sum += (double)token.loss;
  }
  CHECK_EQ(n, GOLDEN - 1);
  CHECK(sum == attend_evaluation_loss(e));
  CHECK(isnan(attend_evaluation_bytes(e)));
  attend_evaluation_free(e);
  close_task(&t);
}

/* The number was computed by plain loops in double. */
TEST(a_text_in_windows) {
  task_model t;
  open_task(&t, "stories260K");
  attend_evaluation *e = evaluation_of(
      &t,
      (attend_evaluate_options){ATTEND_INIT(attend_evaluate_options), .context = 32, .stride = 10});
  OK(t.s.ctx, attend_evaluation_set_text(e, story, sizeof story - 1));
  OK(t.s.ctx, attend_evaluation_run(e));
  double mean = attend_evaluation_loss(e) / attend_evaluation_tokens(e);
  CHECK_NEAR(mean, 1.8159934127599262, 2e-6);
  CHECK_NEAR(attend_evaluation_perplexity(e), exp(mean), 0);
  CHECK_EQ(attend_evaluation_bytes(e), sizeof story - 1);
  CHECK_EQ(attend_evaluation_context(e), 32);
  CHECK_EQ(attend_evaluation_stride(e), 10);
  size_t reached = 0;
  attend_token_loss token;
  for (int i = 0; attend_evaluation_get(e, i, &token); i++) {
    CHECK_EQ(token.start, reached);
    reached = token.end;
  }
  CHECK_EQ(reached, sizeof story - 1);
  attend_evaluation_free(e);
  close_task(&t);
}

static int stop_always(double done, const char *what, void *user) {
  (void)what;
  double *last = user;
  CHECK(done > *last && done <= 1);
  *last = done;
  return 1;
}

/* The sum, in one call or stopped after each batch. */
static double loss_of(const task_model *t, attend_evaluate_options o, const char *text,
                      bool stopped) {
  double last = 0;
  if (stopped) o.progress = stop_always, o.user = &last;
  attend_evaluation *e = evaluation_of(t, o);
  int calls = 1, scored = -1;
  OK(t->s.ctx, attend_evaluation_set_text(e, text, strlen(text)));
  for (attend_status s; (s = attend_evaluation_run(e)); calls++) {
    CHECK_EQ(s, ATTEND_STOPPED);
    CHECK_SAYS(attend_evaluation_message(e), "stopped");
    CHECK(attend_evaluation_tokens(e) > scored);
    scored = attend_evaluation_tokens(e);
  }
  CHECK(stopped == (calls > 1));
  CHECK_EQ(attend_evaluation_tokens(e), attend_evaluation_target(e));
  double loss = attend_evaluation_loss(e);
  attend_evaluation_free(e);
  return loss;
}

static void check_bits(const char *model, attend_evaluate_options o, const char *text) {
  task_model t;
  open_task(&t, model);
  double loss = loss_of(&t, o, text, false);
  for (int batch = 1; batch < 6; batch += 2)
    for (int stopped = 0; stopped < 2; stopped++) {
      o.batch = batch;
      o.threads = 1 + stopped;
      CHECK(loss_of(&t, o, text, stopped) == loss);
    }
  close_task(&t);
}

TEST(any_batch_and_interruption_give_the_same_bits) {
  check_bits("stories260K",
             (attend_evaluate_options){ATTEND_INIT(attend_evaluate_options), .context = 9}, story);
  check_bits("bert", (attend_evaluate_options){ATTEND_INIT(attend_evaluate_options), .context = 6},
             "the cat sat on the mat , a dog sat on the cats .");
}

TEST(a_limit_scores_the_first_tokens) {
  task_model t;
  open_task(&t, "bert");
  attend_evaluation *e = evaluation_of(
      &t, (attend_evaluate_options){ATTEND_INIT(attend_evaluate_options), .limit = 2});
  OK(t.s.ctx, attend_evaluation_set_text(e, "the cat sat", 11));
  OK(t.s.ctx, attend_evaluation_run(e));
  CHECK_EQ(attend_evaluation_tokens(e), 2);
  CHECK_EQ(attend_evaluation_bytes(e), 7);
  CHECK_EQ(attend_evaluation_stride(e), 0);
  OK(t.s.ctx, attend_evaluation_set_text(e, "", 0));
  CHECK_EQ(attend_evaluation_target(e), 0);
  OK(t.s.ctx, attend_evaluation_run(e));
  CHECK_EQ(attend_evaluation_bytes(e), 0);
  attend_evaluation_free(e);
  close_task(&t);
}

static void refuse(const char *model, attend_evaluate_options o, bool tokenizer, const char *why) {
  task_model t;
  attend_evaluation *e;
  open_task(&t, model);
  attend_status status =
      attend_evaluation_create(t.s.model, tokenizer ? t.tokenizer : NULL, &o, &e);
  CHECK_EQ(status, ATTEND_INVALID);
  CHECK(!e);
  CHECK_SAYS(attend_message(t.s.ctx), why);
  close_task(&t);
}

TEST(options_that_are_refused) {
  attend_evaluate_options o = {ATTEND_INIT(attend_evaluate_options)};
  refuse("t5", o, true, "writes an answer");
  refuse("bert", o, false, "is a masked model");
  o.stride = 2;
  refuse("bert", o, true, "a stride is for decoders");
  o.context = 1;
  refuse("gpt2", o, true, "would never be scored");
  o.context = 65;
  refuse("gpt2", o, true, "the 64 positions");
  o.context = -1;
  refuse("gpt2", o, true, "choose 0 or more");
  o.context = 0;
  o.batch = 257;
  refuse("gpt2", o, true, "choose 1 to 256");
  o.size = 0;
  refuse("gpt2", o, true, "ATTEND_INIT");
}

/* A caller that was compiled when there was no stride yet. */
TEST(older_options) {
  task_model t;
  attend_evaluation *e;
  attend_evaluate_options o = {
      .size = offsetof(attend_evaluate_options, stride), .context = 8, .stride = 99};
  open_task(&t, "gpt2");
  OK(t.s.ctx, attend_evaluation_create(t.s.model, NULL, &o, &e));
  CHECK_EQ(attend_evaluation_stride(e), 4);
  attend_evaluation_free(e);
  close_task(&t);
}

TEST(texts_that_are_refused) {
  static const int32_t wrong[] = {1, 2, 99999};
  task_model t;
  open_task(&t, "gpt2");
  attend_evaluation *e;
  OK(t.s.ctx, attend_evaluation_create(t.s.model, NULL, NULL, &e));
  CHECK_EQ(attend_evaluation_set_ids(e, wrong, 3), ATTEND_INVALID);
  CHECK_SAYS(attend_evaluation_message(e), "token 2 of the text is 99999");
  CHECK_EQ(attend_evaluation_target(e), 0);
  CHECK_EQ(attend_evaluation_set_ids(e, NULL, 3), ATTEND_INVALID);
  CHECK_EQ(attend_evaluation_set_text(e, "a", 1), ATTEND_INVALID);
  CHECK_SAYS(attend_evaluation_message(e), "needs a tokenizer");
  OK(t.s.ctx, attend_evaluation_run(e)); /* nothing to do */
  attend_evaluation_free(e);
  close_task(&t);
}

static attend_status use(task_model *t) {
  attend_evaluation *e;
  attend_evaluate_options o = {ATTEND_INIT(attend_evaluate_options)};
  o.context = 8;
  attend_status status = attend_evaluation_create(t->s.model, t->tokenizer, &o, &e);
  if (!status) status = attend_evaluation_set_text(e, "the cat sat on", 14);
  if (!status) status = attend_evaluation_run(e);
  if (status && e) CHECK_SAYS(attend_evaluation_message(e), "no memory");
  attend_evaluation_free(e);
  return status;
}

TEST(allocations_that_fail) {
  task_model t;
  for (int i = 0; i < 2; i++) {
    open_task(&t, i ? "bert" : "stories260K");
    fail_allocations(&t, use);
    close_task(&t);
  }
}
