/* Steps: two batches together are one of both; rates; what goes on after a pause
 * has the bits of what never stopped, however it was saved and on any number of
 * threads; measuring is the sum over batches. */
#include "training_runs.h"

__attribute__((destructor)) static void leave_nothing(void) { remove_below(models_folder()); }

/* ---- a step ---------------------------------------------------------------------- */

/* By SGD: AdamW would make much of gradients that are rounding errors, such as
 * those of the keys' biases, which change nothing. */
TEST(two_batches_are_one_of_both) {
  training_plan p = {.kind = ATTEND_SGD, .batch = 4},
                q = {.kind = ATTEND_SGD, .batch = 2, .accumulate = 2};
  training_run one = open_training(&p), two = open_training(&q);
  for (int i = 0; i < 3; i++) {
    attend_step_report a = take_steps(&one, 1), b = take_steps(&two, 1);
    CHECK_EQ(a.scored, 48);
    CHECK(a.scored == b.scored && a.tokens == b.tokens && a.rate == b.rate);
    CHECK_NEAR(b.loss, a.loss, 1e-5 * a.loss);
    CHECK_NEAR(b.norm, a.norm, 1e-4 * a.norm);
  }
  standing a = stand(&one), b = stand(&two);
  double worst = 0;
  for (size_t i = 0; i < a.count; i++)
    worst = fmax(worst, (double)fabsf(a.values[i] - b.values[i]));
  printf("after three steps they differ by %.1e\n", worst);
  CHECK(worst < 1e-6);
  CHECK_EQ(attend_training_steps(two.training), 3);
  free_standing(&a);
  free_standing(&b);
  close_training(&one);
  close_training(&two);
}

TEST(rates_come_from_the_schedule) {
  training_run c = open_training(&(training_plan){0});
  attend_schedule s = {ATTEND_COSINE_RATE, 3e-3, 3e-4, 2, 20};
  for (uint64_t i = 0; i < 4; i++) {
    attend_step_report r = take_steps(&c, 1);
    CHECK(r.rate == attend_schedule_at(&s, i));
    CHECK(r.norm > 0 && r.loss > 0);
  }
  close_training(&c);
}

TEST(learning_learns) {
  training_run c = open_training(&(training_plan){.tokens = 40});
  double first = take_steps(&c, 1).loss, last = take_steps(&c, 19).loss;
  CHECK(last < 0.7 * first);
  close_training(&c);
}

TEST(a_step_that_fails_moves_nothing) {
  training_run c = open_training(&(training_plan){0});
  attend_step_report r;
  size_t count;
  take_steps(&c, 1);
  float *values = attend_trainer_values(c.trainer, &count), kept = values[7];
  values[7] = NAN;
  OK(c.ctx, attend_trainer_refresh(c.trainer));
  standing before = stand(&c);
  CHECK_EQ(attend_training_step(c.training, &r), ATTEND_INVALID);
  CHECK_SAYS(attend_message(c.ctx), "not finite");
  standing after = stand(&c);
  CHECK(same_standing(&before, &after));
  values[7] = kept;
  OK(c.ctx, attend_trainer_refresh(c.trainer));
  take_steps(&c, 1);
  CHECK_EQ(attend_training_steps(c.training), 2);
  free_standing(&before);
  free_standing(&after);
  close_training(&c);
}

/* ---- going on ---------------------------------------------------------------------- */

static const char *saved(void) {
  static char path[512];
  snprintf(path, sizeof path, "%s/step", models_folder());
  return path;
}

static attend_status give_notes(void *user, const char **json) {
  *json = user;
  return ATTEND_OK;
}

static void save_training(training_run *c, attend_stored stored) {
  static char notes[] = "{\"more\": 17}";
  attend_save_options keep = {ATTEND_INIT(attend_save_options), .beside = model_path("gpt2", NULL),
                              .stored = stored, .notes = give_notes, .user = notes};
  OK(c->ctx, attend_training_save(c->training, saved(), &keep));
}

static void go_on(training_run *c) {
  attend_json *notes;
  int64_t more;
  OK(c->ctx, attend_training_resume(c->training, saved(), &notes));
  CHECK(attend_json_integer(attend_json_get(notes, "more"), &more) && more == 17);
  attend_json_free(notes);
}

enum { BEFORE = 4, AFTER = 5 };

static void check_resume(training_plan p, attend_stored stored) {
  p.threads = 1;
  training_run whole = open_training(&p);
  take_steps(&whole, BEFORE + AFTER);
  standing want = stand(&whole);
  close_training(&whole);
  for (int threads = 1; threads <= 2; threads++) {
    p.from = NULL;
    p.threads = threads;
    training_run c = open_training(&p);
    take_steps(&c, BEFORE);
    save_training(&c, stored);
    close_training(&c);
    p.from = saved();
    p.threads = 3 - threads;
    c = open_training(&p);
    go_on(&c);
    CHECK_EQ(attend_training_steps(c.training), BEFORE);
    take_steps(&c, AFTER);
    standing got = stand(&c);
    CHECK(same_standing(&want, &got));
    free_standing(&got);
    close_training(&c);
  }
  free_standing(&want);
}

TEST(what_goes_on_has_the_same_bits) {
  static const attend_stored kinds[] = {0, ATTEND_STORED_F32, ATTEND_STORED_BF16};
  for (int i = 0; i < 3; i++) {
    check_resume((training_plan){.dropout = 0.1f, .accumulate = 2}, kinds[i]);
    check_resume((training_plan){.kind = ATTEND_SGD, .seed = 5}, kinds[i]);
  }
  check_resume(
      (training_plan){.dropout = 0.1f, .weights = ATTEND_WEIGHTS_MIXED, .activations = ATTEND_BF16},
      0);
}

/* A trainer whose weights were rounded goes on from those that were not. */
TEST(rounded_weights_are_not_what_goes_on) {
  training_run c = open_training(&(training_plan){0});
  take_steps(&c, 1);
  standing want = stand(&c);
  save_training(&c, ATTEND_STORED_BF16);
  close_training(&c);
  c = open_training(&(training_plan){.from = saved()});
  standing got = stand(&c);
  CHECK(memcmp(want.values, got.values, want.count * sizeof(float)) != 0);
  free_standing(&got);
  go_on(&c);
  got = stand(&c);
  CHECK(same_standing(&want, &got));
  free_standing(&got);
  free_standing(&want);
  close_training(&c);
}

/* ---- measuring ------------------------------------------------------------------------ */

static int stop_after(double done, const char *what, void *user) {
  (void)what;
  CHECK(done > 0 && done <= 1);
  return done >= *(double *)user;
}

TEST(a_measure_is_the_sum_over_batches) {
  training_run c = open_training(&(training_plan){.dropout = 0.3f});
  attend_batches *in_order;
  attend_batch_options o = {ATTEND_INIT(attend_batch_options), .batch = 3, .length = 12,
                            .in_order = 1};
  OK(c.ctx, attend_batches_create(c.corpus, &o, &in_order));
  uint64_t batches = attend_batches_epoch(in_order);
  double stop = 2 / 9.0;
  attend_batch_loss all, some, sum[2] = {{0, 0}, {0, 0}};
  standing before = stand(&c);
  CHECK_EQ(batches, 9);
  for (uint64_t i = 0; i < batches; i++) {
    attend_batch batch = {ATTEND_INIT(attend_batch), .no_grad = 1};
    attend_batch_loss one;
    OK(c.ctx, attend_batches_get(in_order, i, &batch));
    OK(c.ctx, attend_trainer_accumulate(c.trainer, &batch, &one));
    for (int k = 0; k < (i < 4 ? 2 : 1); k++) {
      sum[k].loss += one.loss;
      sum[k].scored += one.scored;
    }
  }
  OK(c.ctx, attend_training_evaluate(c.trainer, in_order, 0, NULL, NULL, &all));
  OK(c.ctx, attend_training_evaluate(c.trainer, in_order, 4, NULL, NULL, &some));
  CHECK(all.loss == sum[0].loss && all.scored == sum[0].scored);
  CHECK(some.loss == sum[1].loss && some.scored == sum[1].scored);
  CHECK_EQ(all.scored, 299); /* all but the first */
  CHECK_EQ(attend_training_evaluate(c.trainer, in_order, 0, stop_after, &stop, &all),
           ATTEND_STOPPED);
  standing after = stand(&c);
  CHECK(same_standing(&before, &after)); /* nothing was learnt */
  free_standing(&before);
  free_standing(&after);
  attend_batches_free(in_order);
  close_training(&c);
}
