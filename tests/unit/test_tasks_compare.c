/* attend/compare.h: the first form against itself, encoders and decoders, stopping,
 * failing allocations, wrong input. */
#include "attend/compare.h"

#include <math.h>

#include "golden_models.h"

static const int32_t ids[] = {3, 14, 15, 92, 65, 35, 89, 79, 32, 38};
enum { N = sizeof ids / sizeof *ids };
static const char *const forms[] = {"softmax", "softmax", "argmax"};
#define OPTIONS(...) (&(attend_compare_options){ATTEND_INIT(attend_compare_options), __VA_ARGS__})

TEST(a_form_beside_itself_changes_nothing) {
  static const char *const models[] = {"gpt2", "llama-gqa", "bert", "t5", "bart"};
  for (size_t m = 0; m < sizeof models / sizeof *models; m++) {
    subject s = open_model(models[m], NULL, 2, NULL);
    attend_comparison *c;
    int layers, heads;
    OK(s.ctx, attend_comparison_create(s.model, N, ids, 3, forms, NULL, &c));
    attend_comparison_shape(c, &layers, &heads);
    const attend_form_result *first = attend_comparison_get(c, 0);
    const attend_form_result *same = attend_comparison_get(c, 1);
    const attend_form_result *other = attend_comparison_get(c, 2);
    CHECK(!attend_comparison_get(c, 3) && !attend_comparison_get(c, -1));
    CHECK(same->hidden == 0 && same->attention == 0 && same->drift < 1e-6);
    CHECK(other->hidden > 0 && other->attention > 0);
    CHECK(!strcmp(other->form, "argmax"));
    double sum = 0;
    for (int i = 0; i < layers * heads; i++) sum += other->attention_heads[i];
    CHECK(fabs(sum / (layers * heads) - other->attention) < 1e-9);
    CHECK(first->work_bytes > 0 && first->read_s > 0);
    bool decoder = s.config->parts == ATTEND_DECODER;
    CHECK_EQ(decoder, first->loss > 0 && same->loss == first->loss);
    CHECK_EQ(decoder, first->token_s > 0);
    CHECK_EQ(strcmp(models[m], "t5") != 0, same->direct == 0);
    attend_comparison_free(c);
    close_model(&s);
  }
}

/* attend_cross_entropy of the session's own logits. */
TEST(the_loss_is_the_text_s) {
  subject s = open_model("gpt2", NULL, 1, NULL);
  attend_session *session = open_run(&s, 1, N);
  float *logits = malloc(sizeof *logits * (size_t)(N * s.config->vocab));
  float loss[N - 1];
  double sum = 0;
  OK(s.ctx, attend_session_extend(session, 1, N, ids, NULL));
  OK(s.ctx, attend_session_logits(session, N - 1, NULL, logits));
  attend_cross_entropy(s.ctx, N - 1, s.config->vocab, logits, s.config->vocab, ids + 1, loss, NULL);
  for (int i = 0; i < N - 1; i++) sum += (double)loss[i];
  attend_comparison *c;
  OK(s.ctx, attend_comparison_create(s.model, N, ids, 1, forms, OPTIONS(.no_attention = 1), &c));
  const attend_form_result *r = attend_comparison_get(c, 0);
  CHECK(r->loss == sum / (N - 1));
  CHECK(isnan(r->attention) && !r->attention_heads);
  attend_comparison_free(c);
  free(logits);
  attend_session_free(session);
  close_model(&s);
}

typedef struct {
  double last, until;
} steps;

static int count_steps(double done, const char *what, void *user) {
  (void)what;
  steps *s = user;
  CHECK(done >= s->last && done <= 1);
  s->last = done;
  return done >= s->until;
}

TEST(stopping_leaves_what_is_finished) {
  subject s = open_model("gpt2", NULL, 2, NULL);
  attend_comparison *c;
  for (int finished = 0; finished <= 2; finished++) {
    steps x = {.until = finished / 3.0 + 0.1};
    CHECK_EQ(attend_comparison_create(s.model, N, ids, 3, forms,
                                      OPTIONS(.progress = count_steps, .user = &x), &c),
             ATTEND_STOPPED);
    CHECK(!finished || attend_comparison_get(c, finished - 1));
    CHECK(!attend_comparison_get(c, finished));
    attend_comparison_free(c);
  }
  steps x = {.until = 2};
  OK(s.ctx, attend_comparison_create(s.model, N, ids, 3, forms,
                                     OPTIONS(.progress = count_steps, .user = &x), &c));
  CHECK(x.last > 2.0 / 3);
  attend_comparison_free(c);
  close_model(&s);
}

TEST(failing_memory_is_a_status) {
  static const char *const models[] = {"gpt2", "bart"};
  for (int m = 0; m < 2; m++) {
    ledger memory = {0};
    attend_context *ctx = open_context(NULL, 1, &memory);
    subject s = open_path(ctx, model_path(models[m], NULL), NULL);
    attend_comparison *c = NULL;
    attend_status status = ATTEND_NO_MEMORY;
    long failures = 0, live = memory.live, step = light() ? 7 : 1;
    for (; status && failures < 100000; failures += step) {
      memory.fail_at = memory.taken + failures + 1;
      status = attend_comparison_create(s.model, N, ids, 3, forms, OPTIONS(.repeat = 1), &c);
      if (!status) break;
      CHECK_EQ(status, ATTEND_NO_MEMORY);
      CHECK(!c && memory.live == live);
    }
    CHECK(!status && failures > 10);
    attend_comparison_free(c);
    CHECK_EQ(memory.live, live);
    close_model(&s);
  }
}

TEST(what_cannot_be_compared_is_said) {
  subject s = open_model("gpt2", NULL, 1, NULL);
  attend_comparison *c;
  const char *wrong[] = {"softmax", "nothing"};
  CHECK_EQ(attend_comparison_create(s.model, 1, ids, 1, forms, NULL, &c), ATTEND_INVALID);
  CHECK_SAYS(attend_message(s.ctx), "at least two");
  CHECK_EQ(attend_comparison_create(s.model, N, ids, 2, wrong, NULL, &c), ATTEND_INVALID);
  CHECK_SAYS(attend_message(s.ctx), "is not a form");
  CHECK_EQ(
      attend_comparison_create(s.model, N, ids, 1, forms, &(attend_compare_options){.size = 0}, &c),
      ATTEND_INVALID);
  CHECK_SAYS(attend_message(s.ctx), "ATTEND_INIT");
  CHECK(!c);
  close_model(&s);
}

/* ---- training runs ----------------------------------------------------------------- */

static void write_log(const char *name, const char *text) {
  char path[512];
  mkdir(in_folder(name), 0700);
  snprintf(path, sizeof path, "%s/log.jsonl", in_folder(name));
  FILE *f = fopen(path, "w");
  CHECK(f && fputs(text, f) >= 0 && !fclose(f));
}

static void remove_log(const char *name) {
  char path[512];
  snprintf(path, sizeof path, "%s/log.jsonl", in_folder(name));
  unlink(path);
  rmdir(in_folder(name));
}

static attend_status read_two(attend_context *ctx, int join, attend_runs **runs) {
  const char *folders[] = {in_folder("r-s1"), in_folder("r-s2")};
  return attend_runs_read(
      ctx, 2, folders, &(attend_runs_options){ATTEND_INIT(attend_runs_options), .join_seeds = join},
      runs);
}

/* The third line has no end yet: the run is still training. */
TEST(logs_of_training_runs_are_read_and_seeds_joined) {
  ledger memory = {0};
  attend_context *ctx = open_context(NULL, 1, &memory);
  attend_runs *runs = NULL;
  write_log("r-s1",
            "{\"step\": 1, \"loss\": 5, \"step_s\": 2}\n"
            "{\"step\": 2, \"loss\": 4, \"step_s\": 4, \"valid\": 3}\n{\"st");
  write_log("r-s2", "{\"step\": 2, \"loss\": 4, \"step_s\": 1, \"valid\": 5}\nno line\n");
  OK(ctx, read_two(ctx, 0, &runs));
  const attend_run_facts *f = attend_runs_get(runs, 0);
  CHECK(!strcmp(f->name, "r-s1") && f->points == 1 && f->seconds[0] == 6);
  CHECK(f->number[ATTEND_RUN_STEP_SECONDS].mean == 3);
  CHECK(isnan(f->number[ATTEND_RUN_PARAMETERS].mean));
  CHECK(attend_runs_get(runs, 1) && !attend_runs_get(runs, 2));
  attend_runs_free(runs);
  attend_status status = ATTEND_NO_MEMORY;
  long failures = 0, live = memory.live;
  for (; status && failures < 1000; failures++) {
    memory.fail_at = memory.taken + failures + 1;
    status = read_two(ctx, 1, &runs);
    CHECK(!status || (status == ATTEND_NO_MEMORY && memory.live == live));
  }
  CHECK(!status && failures > 5);
  f = attend_runs_get(runs, 0);
  CHECK(!strcmp(f->name, "r") && f->seeds == 2 && !attend_runs_get(runs, 1));
  CHECK(f->number[ATTEND_RUN_VALID].mean == 4 && f->loss[0] == 4);
  CHECK(f->low[0] == 3 && f->high[0] == 5);
  attend_runs_free(runs);
  memory.fail_at = 0;
  const char *none[] = {in_folder("none")};
  CHECK_EQ(attend_runs_read(ctx, 1, none, NULL, &runs), ATTEND_IO);
  CHECK_SAYS(attend_message(ctx), "is no folder");
  remove_log("r-s1");
  remove_log("r-s2");
  remove_folder();
  attend_context_free(ctx);
}
