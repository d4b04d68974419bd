/* Whole training runs: a stopped, damaged or starved run resumes to the bits of an
 * undisturbed one; early stopping, reports, averages; what is refused; reading a run. */
#include "attend/train.h"

#include <math.h>
#include <sys/stat.h>

#include "model/config.h"
#include "training_runs.h"

__attribute__((destructor)) static void leave_nothing(void) { remove_below(models_folder()); }

static const char *in_run(const char *run, const char *file) {
  static char paths[4][700];
  static int next;
  char *path = paths[next++ % 4];
  snprintf(path, sizeof paths[0], "%s/%s%s%s", models_folder(), run, file ? "/" : "",
           file ? file : "");
  return path;
}

typedef struct {
  attend_context *ctx;
  attend_corpus *texts, *held;
  attend_batches *batches;
  attend_fit_options how;
  attend_fit_result end;
  int stop_at; /* the step to stop before; 0: never */
  int events[ATTEND_FIT_SAVING + 1], asked;
  double done;
} world;

static void count_event(const attend_fit_report *r, void *user) {
  world *w = user;
  w->events[r->event]++;
  if (r->event == ATTEND_FIT_VALIDATED) CHECK(isfinite(r->valid));
  CHECK_EQ(r->steps, w->how.schedule.steps);
}

static int stop(double done, const char *what, void *user) {
  (void)what;
  world *w = user;
  CHECK(done >= w->done && done < 1);
  w->done = done;
  w->asked++;
  return w->stop_at && (int)(done * (double)w->how.schedule.steps + 0.5) >= w->stop_at;
}

static attend_batches *cut(attend_context *ctx, const attend_corpus *c, int in_order) {
  attend_batches *b;
  attend_batch_options o = {ATTEND_INIT(attend_batch_options), .batch = 3, .length = 12,
                            .in_order = in_order};
  OK(ctx, attend_batches_create(c, &o, &b));
  return b;
}

static world open_world(ledger *memory) {
  world w = {.ctx = open_context(NULL, 1, memory)};
  w.texts = some_text(w.ctx, 300);
  OK(w.ctx, attend_corpus_split(w.texts, 0.2, 1, &w.held));
  w.batches = cut(w.ctx, w.texts, 0);
  w.how = (attend_fit_options){ATTEND_INIT(attend_fit_options)};
  w.how.schedule = (attend_schedule){ATTEND_COSINE_RATE, 3e-3, 3e-4, 2, 12};
  w.how.valid = cut(w.ctx, w.held, 1);
  w.how.save_every = 4;
  w.how.valid_every = 3;
  w.how.log_every = 2;
  w.how.report = count_event;
  w.how.progress = stop;
  return w;
}

static void close_world(world *w) {
  attend_batches_free(w->batches);
  attend_batches_free(w->how.valid);
  attend_corpus_free(w->texts);
  attend_corpus_free(w->held);
  attend_context_free(w->ctx);
}

static attend_status fit(world *w, const char *run) {
  attend_trainer_options dropout = {ATTEND_INIT(attend_trainer_options), .dropout = 0.1f,
                                    .seed = 3};
  w->how.user = w;
  w->done = 0;
  return attend_fit_model(w->ctx, in_run(run, NULL), model_path("gpt2", NULL), &dropout, NULL,
                          w->batches, &w->how, &w->end);
}

/* An undisturbed run of 12 steps. */
static void make_whole(void) {
  struct stat info;
  world w = open_world(NULL);
  if (stat(in_run("whole", NULL), &info)) OK(w.ctx, fit(&w, "whole"));
  close_world(&w);
}

static int same_file(const char *run, const char *file) {
  size_t n, m;
  char *a = read_whole(in_run("whole", file), &n);
  char *b = read_whole(in_run(run, file), &m);
  int same = n == m && !memcmp(a, b, n);
  free(a);
  free(b);
  return same;
}

static int same_curve(attend_log_curve a, attend_log_curve b) {
  if (a.count != b.count) return 0;
  for (size_t i = 0; i < a.count; i++)
    if (a.at[i].step != b.at[i].step || a.at[i].loss != b.at[i].loss) return 0;
  return 1;
}

static attend_training_run *read_run(const char *run) {
  attend_training_run *r;
  OK(context(), attend_training_run_open(context(), in_run(run, NULL), &r));
  return r;
}

/* The weights, the moments and the log of 12 steps are those of the whole run. */
static void check_same(const char *run) {
  attend_training_run *a = read_run("whole"), *b = read_run(run);
  CHECK(same_file(run, "step-00000012/model.safetensors"));
  CHECK(same_file(run, "step-00000012/training.safetensors"));
  CHECK(same_file(run, "best/model.safetensors"));
  CHECK(same_curve(*attend_training_run_loss(a), *attend_training_run_loss(b)));
  CHECK(same_curve(*attend_training_run_valid(a), *attend_training_run_valid(b)));
  CHECK_EQ(attend_training_run_best(a), attend_training_run_best(b));
  CHECK_EQ(attend_training_run_last(b), 12);
  attend_training_run_free(a);
  attend_training_run_free(b);
}

/* ---- the loop ---------------------------------------------------------------------- */

TEST(a_stopped_run_resumes_bit_identically) {
  static const int stops[] = {1, 5, 8, 11};
  make_whole();
  for (int i = 0; i < 4; i++) {
    world w = open_world(NULL);
    w.stop_at = stops[i];
    CHECK_EQ(fit(&w, "parts"), ATTEND_STOPPED);
    CHECK_EQ(w.end.steps, stops[i]);
    CHECK(!w.end.stopped_early);
    close_world(&w);
  }
  world w = open_world(NULL);
  OK(w.ctx, fit(&w, "parts"));
  CHECK_EQ(w.end.steps, 12);
  CHECK_EQ(w.asked, 1); /* of step 11 */
  close_world(&w);
  check_same("parts");
}

TEST(every_event_is_reported) {
  world w = open_world(NULL);
  OK(w.ctx, fit(&w, "events"));
  attend_log_curve valid, loss;
  attend_training_run *run = read_run("events");
  loss = *attend_training_run_loss(run);
  valid = *attend_training_run_valid(run);
  CHECK_EQ(w.events[ATTEND_FIT_STEPPED], 12);
  CHECK_EQ(w.asked, 12);
  CHECK_EQ(w.events[ATTEND_FIT_LOGGED], 6);
  CHECK_EQ(loss.count, 6);
  CHECK_EQ(w.events[ATTEND_FIT_VALIDATED], 5); /* 0, 3, 6, 9, 12 */
  CHECK_EQ(valid.count, 5);
  CHECK(w.events[ATTEND_FIT_SAVING] >= 4); /* 0, 4, 8, 12, and the best */
  CHECK(w.end.loss == loss.at[5].loss);
  CHECK(w.end.best == attend_training_run_loss_at(run, attend_training_run_best(run)));
  CHECK(w.end.tokens == 12 * 36 && w.end.bytes > 0);
  attend_training_run_free(run);
  close_world(&w);
}

TEST(a_run_that_does_not_improve_stops_early) {
  world w = open_world(NULL);
  w.how.schedule.rate = w.how.schedule.min = 0;
  w.how.valid_every = 1;
  w.how.patience = 2;
  OK(w.ctx, fit(&w, "early"));
  CHECK(w.end.stopped_early);
  CHECK_EQ(w.end.steps, 2);
  CHECK_EQ(w.end.best_step, 0);
  CHECK_EQ(w.end.worse, 2);
  close_world(&w);
}

TEST(the_last_checkpoints_are_averaged) {
  world w = open_world(NULL);
  w.how.average = 3;
  w.how.keep = 1; /* an average of three needs two more */
  w.how.save_every = w.how.valid_every = 2;
  OK(w.ctx, fit(&w, "mean"));
  CHECK_EQ(w.end.averaged, 3);
  CHECK_EQ(w.end.average_first, 8);
  CHECK_EQ(w.end.average_last, 12);
  CHECK(isfinite(w.end.average_valid));
  subject s = open_path(open_context(NULL, 1, NULL), in_run("mean", "average"), NULL);
  CHECK_EQ(s.config->vocab, 211);
  close_model(&s);
  CHECK_EQ(count_names(in_run("mean", NULL), 1), 1); /* .lock */
  close_world(&w);
}

/* ---- what is refused ------------------------------------------------------------------ */

static void refuse(world *w, attend_fit_start start, uint64_t step, attend_status status,
                   const char *why) {
  attend_fit *f;
  CHECK_EQ(attend_fit_open(w->ctx, in_run("whole", NULL), start, step, &f), status);
  CHECK(!f);
  CHECK_SAYS(attend_message(w->ctx), why);
}

TEST(folders_that_are_refused) {
  make_whole();
  world w = open_world(NULL);
  attend_fit *f;
  attend_fit_result end;
  refuse(&w, ATTEND_FIT_NEW, 0, ATTEND_INVALID, "holds a training run already");
  refuse(&w, ATTEND_FIT_STEP, 5, ATTEND_INVALID, "the last is 12");
  OK(w.ctx, attend_fit_open(w.ctx, in_run("whole", NULL), ATTEND_FIT_RESUME, 0, &f));
  CHECK_SAYS(attend_fit_checkpoint(f), "step-00000012");
  refuse(&w, ATTEND_FIT_RESUME, 0, ATTEND_IO, "in use by another training");
  CHECK_EQ(attend_fit_run(f, &end), ATTEND_INVALID);
  attend_fit_free(f);
  CHECK_EQ(attend_fit_open(w.ctx, model_path("gpt2", "config.json"), ATTEND_FIT_NEW, 0, &f),
           ATTEND_IO);
  CHECK_SAYS(attend_message(w.ctx), "cannot be made");
  close_world(&w);
}

TEST(options_that_do_not_fit) {
  make_whole();
  world w = open_world(NULL);
  attend_batches *valid = w.how.valid;
  w.how.size = 0;
  CHECK_EQ(fit(&w, "whole"), ATTEND_INVALID);
  w.how.size = sizeof w.how;
  w.how.valid = cut(w.ctx, w.texts, 1);
  CHECK_EQ(fit(&w, "whole"), ATTEND_INVALID);
  CHECK_SAYS(attend_message(w.ctx), "the validation texts of");
  attend_batches_free(w.how.valid);
  w.how.valid = valid;
  w.how.average = 2;
  w.how.save_every = 12;
  CHECK_EQ(fit(&w, "once"), ATTEND_INVALID);
  CHECK_SAYS(attend_message(w.ctx), "save more often");
  close_world(&w);
  check_same("whole"); /* what was refused changed nothing */
}

/* ---- damage ---------------------------------------------------------------------------- */

static void flip_byte(const char *path) {
  FILE *file = fopen(path, "r+b");
  CHECK(file && !fseek(file, -1, SEEK_END));
  int byte = fgetc(file);
  CHECK(!fseek(file, -1, SEEK_END) && fputc(byte ^ 1, file) != EOF);
  CHECK(!fclose(file));
}

TEST(a_damaged_checkpoint_is_passed_over) {
  attend_fit *f;
  make_whole();
  world w = open_world(NULL);
  w.stop_at = 10;
  CHECK_EQ(fit(&w, "hurt"), ATTEND_STOPPED);
  flip_byte(in_run("hurt", "step-00000010/model.safetensors"));
  CHECK_EQ(fit(&w, "hurt"), ATTEND_IO);
  CHECK_SAYS(attend_message(w.ctx), "step 9 is as it was saved");
  OK(w.ctx, attend_fit_open(w.ctx, in_run("hurt", NULL), ATTEND_FIT_LAST_GOOD, 0, &f));
  CHECK_SAYS(attend_fit_checkpoint(f), "step-00000009");
  attend_fit_free(f);
  close_world(&w);
}

/* ---- memory ------------------------------------------------------------------------------ */

/* Each attempt fails at another allocation; the last goes on from what they left. */
TEST(memory_that_fails) {
  ledger memory = {0};
  make_whole();
  world w = open_world(&memory);
  attend_status status = ATTEND_NO_MEMORY;
  long n = 0, live = memory.live;
  while (status && n < 100000) {
    memory.fail_at = memory.taken + (n += n / 8 + 1);
    status = fit(&w, "starved");
    memory.fail_at = 0;
    CHECK_EQ(memory.live, live);
    CHECK(!status || status == ATTEND_NO_MEMORY);
  }
  CHECK(n > 100 && !status);
  close_world(&w);
  CHECK_EQ(memory.live, 0);
  check_same("starved");
}

/* Lines of the log that could not be parsed for want of memory are not damaged, and
 * neither is a checkpoint. */
TEST(resuming_without_memory_loses_nothing) {
  ledger memory = {0};
  make_whole();
  world w = open_world(&memory);
  attend_status status = ATTEND_NO_MEMORY;
  w.stop_at = 10;
  CHECK_EQ(fit(&w, "lean"), ATTEND_STOPPED);
  for (long n = 1; status == ATTEND_NO_MEMORY && n < 10000; n++) {
    memory.fail_at = memory.taken + n;
    status = fit(&w, "lean");
    memory.fail_at = 0;
  }
  CHECK_EQ(status, ATTEND_STOPPED);
  w.stop_at = 0;
  OK(w.ctx, fit(&w, "lean"));
  close_world(&w);
  check_same("lean");
}

/* ---- reading ----------------------------------------------------------------------------- */

static void append(const char *text) {
  FILE *file = fopen(in_run("read", "log.jsonl"), "ab");
  CHECK(file && fputs(text, file) >= 0 && !fclose(file));
}

TEST(a_run_is_read_while_it_grows) {
  world w = open_world(NULL);
  char path[ATTEND_RUN_PATH];
  int step, count;
  w.stop_at = 6;
  CHECK_EQ(fit(&w, "read"), ATTEND_STOPPED);
  attend_training_run *run = read_run("read");
  CHECK_EQ(attend_training_run_last(run), 6);
  CHECK_EQ(attend_training_run_loss(run)->count, 3);
  OK(context(), attend_training_run_choose(run, "last", &step));
  CHECK_EQ(step, 6);
  OK(context(), attend_training_run_choose(run, "4", &step));
  OK(context(), attend_training_run_folder(run, step, path));
  CHECK_SAYS(path, "read/step-00000004");
  CHECK_EQ(attend_training_run_choose(run, "5", &step), ATTEND_INVALID);
  CHECK_EQ(attend_training_run_choose(run, "4x", &step), ATTEND_INVALID);
  CHECK_EQ(attend_training_run_folder(run, -1, path), ATTEND_INVALID);
  append("no line\n{\"step\": 7, \"loss\": ");
  OK(context(), attend_training_run_refresh(run));
  CHECK_EQ(attend_training_run_loss(run)->count, 3);
  append("1.5}\n");
  OK(context(), attend_training_run_refresh(run));
  CHECK_EQ(attend_training_run_loss(run)->count, 4);
  CHECK(attend_training_run_loss_at(run, 7) == 1.5);
  CHECK(isnan(attend_training_run_loss_at(run, 5)));
  w.stop_at = 0; /* what the log says after step 6 goes */
  OK(w.ctx, fit(&w, "read"));
  OK(context(), attend_training_run_refresh(run));
  attend_training_run_steps(run, &count);
  CHECK_EQ(attend_training_run_steps(run, &count)[count - 1], 12);
  attend_training_run_free(run);
  close_world(&w);
  make_whole();
  check_same("read");
}

TEST(what_is_no_run) {
  attend_training_run *run;
  attend_context *ctx = context();
  CHECK_EQ(attend_training_run_open(ctx, in_run("nothing", NULL), &run), ATTEND_IO);
  CHECK_SAYS(attend_message(ctx), "is no folder");
  CHECK_EQ(attend_training_run_open(ctx, model_path("gpt2", NULL), &run), ATTEND_IO);
  CHECK_SAYS(attend_message(ctx), "is a model, not a run");
  CHECK_EQ(attend_training_run_open(ctx, models_folder(), &run), ATTEND_IO);
  CHECK_SAYS(attend_message(ctx), "has no saved step");
  CHECK(!run);
}
