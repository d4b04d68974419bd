/* attend/fill.h: the head's probabilities are a softmax of the session's logits, masks
 * of every spelling, rewriting, stopping, refusals, allocations that fail. */
#include "attend/fill.h"
#include "task_models.h"

static attend_filler *filler_of(const task_model *t, attend_fill_options o) {
  attend_filler *f;
  o.size = sizeof o;
  if (attend_filler_create(t->s.model, t->tokenizer, &o, &f)) {
    printf("no filler: %s\n", attend_message(t->s.ctx));
    exit(1);
  }
  return f;
}

static attend_status fill(attend_filler *f, const char *text) {
  return attend_fill(f, text, strlen(text), NULL, 0);
}

/* Logits of row 2: [CLS] a [MASK] sat [SEP] */
static void read_logits(const task_model *t, float *logits) {
  static const int32_t ids[] = {2, 6, 4, 9, 3}, place = 2;
  attend_session *session = open_run(&t->s, 1, 0);
  OK(t->s.ctx, attend_session_encode(session, 1, 5, ids, NULL, NULL));
  OK(t->s.ctx, attend_session_logits(session, 1, &place, logits));
  attend_session_free(session);
}

TEST(probabilities_are_a_softmax_of_the_logits) {
  task_model t;
  float logits[211];
  double sum = 0, total = 0, last = 1;
  open_task(&t, "bert");
  attend_filler *f =
      filler_of(&t, (attend_fill_options){ATTEND_INIT(attend_fill_options), .top = 1000});
  read_logits(&t, logits);
  for (int i = 0; i < 211; i++) sum += exp((double)logits[i]);
  OK(t.s.ctx, fill(f, "a [MASK] sat"));
  const attend_filled *one;
  int n = 0;
  for (; (one = attend_filler_get(f, n)); n++) {
    CHECK_EQ(one->rank, n);
    CHECK_EQ(one->mask, 0);
    CHECK_NEAR(one->probability, exp((double)logits[one->id]) / sum, 1e-12);
    CHECK(one->probability <= last);
    last = one->probability;
    total += last;
    if (one->id == 7) CHECK(!strcmp(one->text, "a cat sat"));
    if (one->id == 7) CHECK(!strcmp(one->token, "cat"));
    if (one->id == 12) CHECK(!strcmp(one->text, "as sat"));
    if (one->id == 12) CHECK(!strcmp(one->token, "##s"));
  }
  CHECK_EQ(n, 211);
  CHECK_NEAR(total, 1, 1e-9);
  attend_filler_free(f);
  close_task(&t);
}

TEST(masks_of_every_spelling_and_a_pair) {
  static const char *const texts[] = {"the ___ sat", "the <mask> sat", "the _____ sat"};
  static const char pair[] = "a [MASK] .";
  task_model t;
  open_task(&t, "bert");
  attend_filler *f =
      filler_of(&t, (attend_fill_options){ATTEND_INIT(attend_fill_options), .top = 2});
  for (int i = 0; i < 3; i++) {
    OK(t.s.ctx, fill(f, texts[i]));
    CHECK(!strcmp(attend_filler_text(f), "the [MASK] sat"));
    CHECK_EQ(attend_filler_masks(f), 1);
  }
  OK(t.s.ctx, attend_fill(f, texts[0], strlen(texts[0]), pair, strlen(pair)));
  CHECK_EQ(attend_filler_masks(f), 2);
  const attend_filled *one = attend_filler_get(f, 3);
  CHECK(one && one->mask == 1 && one->rank == 1);
  if (one) CHECK(one->text[0] == 'a');
  CHECK(!attend_filler_get(f, 4) && !attend_filler_get(f, -1));
  attend_filler_free(f);
  close_task(&t);
}

/* As many as the context holds. */
TEST(many_masks) {
  char text[1024] = "";
  task_model t;
  open_task(&t, "roberta");
  attend_filler *f =
      filler_of(&t, (attend_fill_options){ATTEND_INIT(attend_fill_options), .top = 1});
  for (int i = 0; i < 30; i++) strcat(text, "[MASK] ");
  OK(t.s.ctx, fill(f, text));
  CHECK_EQ(attend_filler_masks(f), 30);
  CHECK(attend_filler_get(f, 29) && !attend_filler_get(f, 30));
  for (int i = 0; i < 60; i++) strcat(text, "___ ");
  CHECK_EQ(fill(f, text), ATTEND_UNSUPPORTED);
  CHECK_SAYS(attend_filler_message(f), "shorten it");
  CHECK(!attend_filler_get(f, 0));
  attend_filler_free(f);
  close_task(&t);
}

TEST(an_encoder_decoder_rewrites_the_text) {
  task_model t;
  open_task(&t, "bart");
  attend_filler *f =
      filler_of(&t, (attend_fill_options){ATTEND_INIT(attend_fill_options), .top = 3});
  OK(t.s.ctx, fill(f, "the [MASK] sat"));
  double last = 1;
  for (int i = 0; i < 3; i++) {
    const attend_filled *one = attend_filler_get(f, i);
    CHECK(one && one->id == -1 && one->rank == i && one->text);
    if (!one) break;
    CHECK(one->probability > 0 && one->probability <= 1);
    last = one->probability;
  }
  CHECK(last < 1);
  CHECK(!attend_filler_get(f, 3));
  attend_filler_free(f);
  close_task(&t);
}

static int stop_at(double done, const char *what, void *user) {
  (void)what;
  int *left = user;
  CHECK(done >= 0 && done <= 1);
  return (*left)-- == 0;
}

TEST(stopping) {
  static const char *const names[] = {"bert", "bart"};
  for (int i = 0; i < 2; i++) {
    task_model t;
    open_task(&t, names[i]);
    int left = i * 2; /* steps that may be done */
    attend_filler *f = filler_of(&t, (attend_fill_options){ATTEND_INIT(attend_fill_options),
                                                           .progress = stop_at, .user = &left});
    CHECK_EQ(fill(f, "a [MASK] sat"), ATTEND_STOPPED);
    CHECK_SAYS(attend_filler_message(f), "stopped");
    CHECK(!attend_filler_get(f, 0));
    left = 1 << 20;
    OK(t.s.ctx, fill(f, "a [MASK] sat"));
    CHECK(attend_filler_get(f, 4) && !attend_filler_get(f, 5));
    attend_filler_free(f);
    close_task(&t);
  }
}

static void refuse(const char *name, attend_fill_options o, bool tokenizer, const char *why) {
  task_model t;
  attend_filler *f;
  open_task(&t, name);
  CHECK(attend_filler_create(t.s.model, tokenizer ? t.tokenizer : NULL, &o, &f));
  CHECK(!f);
  CHECK_SAYS(attend_message(t.s.ctx), why);
  close_task(&t);
}

TEST(what_is_refused) {
  attend_fill_options o = {ATTEND_INIT(attend_fill_options)};
  refuse("gpt2", o, true, "does not see what comes after");
  refuse("bert", o, false, "needs the model's tokenizer");
  o.top = 1001;
  refuse("bert", o, true, "choose 1 to 1000");
  o.size = 3;
  refuse("bert", o, true, "ATTEND_INIT");

  task_model t;
  open_task(&t, "bart");
  attend_filler *f = filler_of(&t, (attend_fill_options){ATTEND_INIT(attend_fill_options)});
  CHECK_EQ(fill(f, "a cat"), ATTEND_INVALID);
  CHECK_SAYS(attend_filler_message(f), "write [MASK]");
  CHECK_EQ(attend_fill(f, NULL, 3, NULL, 0), ATTEND_INVALID);
  CHECK_EQ(attend_fill(f, "___", 3, "x", 1), ATTEND_INVALID);
  CHECK_SAYS(attend_filler_message(f), "for encoders");
  attend_filler_free(f);
  close_task(&t);
}

static attend_status use(task_model *t) {
  attend_fill_options o = {ATTEND_INIT(attend_fill_options)};
  attend_filler *f;
  o.top = 2;
  attend_status status = attend_filler_create(t->s.model, t->tokenizer, &o, &f);
  if (!status) status = fill(f, "the [MASK] sat on ___ .");
  if (status && f) CHECK_SAYS(attend_filler_message(f), "no memory");
  if (status && f) CHECK(!attend_filler_get(f, 0));
  attend_filler_free(f);
  return status;
}

TEST(allocations_that_fail) {
  task_model t;
  for (int i = 0; i < 2; i++) {
    open_task(&t, i ? "bert" : "bart");
    fail_allocations(&t, use);
    close_task(&t);
  }
}
