/* The n-th allocation fails, for every n, while a checkpoint is opened and packed,
 * and a session runs, has hooks and generates: a status with a sentence, nothing
 * lost, and a session that failed can still be freed. */
#include "base/base.h"
#include "changed_checkpoints.h"

typedef struct {
  attend_context *ctx;
  const char *name;
  const char *path; /* NULL: the golden model of that name */
  const attend_form *form;
  unsigned watch;
  attend_generate_options generate;
} scene;

static void look_away(const attend_hooked *sight, void *user) {
  (void)sight;
  (void)user;
}

static attend_status use(const scene *s, attend_model *model) {
  const attend_config *c = attend_model_config(model);
  static const int32_t ids[] = {5, 6, 7, 8, 9, 10, 11, 12};
  attend_session_options o = {ATTEND_INIT(attend_session_options), .batch = 2, .rows = 3};
  attend_hook hook = {ATTEND_INIT(attend_hook), .points = s->watch, .read = look_away};
  attend_session *run;
  float logits[2 * 256];
  int32_t parents[2] = {1, 1};
  ATTEND_TRY(attend_session_create(model, &o, &run));
  attend_status status = s->watch ? attend_session_set_hooks(run, 1, &hook) : ATTEND_OK;
  if (!status && c->parts & ATTEND_ENCODER)
    status = attend_session_encode(run, 2, 4, ids, NULL, NULL);
  if (!status && c->parts & ATTEND_DECODER) {
    status = attend_session_extend(run, 2, 4, ids, NULL);
    for (int b = 0; status && b < 2; b++) CHECK_EQ(attend_session_length(run, b), 0);
    if (status) { /* what failed gives nothing, and may be tried again */
      CHECK_EQ(attend_session_logits(run, 1, NULL, logits), ATTEND_INVALID);
      if (attend_session_extend(run, 2, 4, ids, NULL))
        CHECK_FAIL("%s: it fails again: %s", s->name, attend_message(s->ctx));
      snprintf(s->ctx->message, sizeof s->ctx->message, "no memory for it");
    }
    if (!status) {
      status = attend_session_reorder(run, parents);
      for (int b = 0; status && b < 2; b++) CHECK_EQ(attend_session_length(run, b), 0);
    }
    if (!status) status = attend_session_extend(run, 2, 2, ids, NULL);
    if (!status) status = attend_session_next(run, 2, logits);
  } else if (!status) {
    status = attend_session_logits(run, 2, NULL, logits);
  }
  attend_session_free(run);
  return status;
}

static attend_status speak(const scene *s, attend_model *model) {
  static const int32_t ids[] = {5, 6, 7, 8};
  attend_prompt prompts[] = {{ids, 4}, {ids + 1, 2}};
  attend_generation *g;
  if (!(attend_model_config(model)->parts & ATTEND_DECODER)) return ATTEND_OK;
  attend_status status = attend_generate(model, 2, prompts, &s->generate, &g);
  if (status && g) CHECK_SAYS(attend_generation_message(g), "no memory");
  attend_generation_free(g);
  return status;
}

static attend_status play(const scene *s) {
  attend_checkpoint *files;
  attend_model *model;
  attend_model_options o = {ATTEND_INIT(attend_model_options), .form = s->form};
  const char *path = s->path ? s->path : model_path(s->name, NULL);
  ATTEND_TRY(attend_checkpoint_open(s->ctx, path, &files));
  attend_status status = attend_model_create(files, &o, &model);
  if (!status) status = use(s, model);
  if (!status) status = speak(s, model);
  attend_model_free(model);
  attend_checkpoint_free(files);
  return status;
}

/* Steps of `stride` under sanitizers and emulators: other places in each scene. */
static void fail_each(scene s) {
  ledger memory = {0};
  long n = 0, stride = light() ? 7 : 1;
  s.ctx = open_context(NULL, 2, &memory);
  if (play(&s)) CHECK_FAIL("%s: %s", s.name, attend_message(s.ctx));
  attend_status status = ATTEND_NO_MEMORY;
  while (status && n < 5000) {
    long live = memory.live;
    n += n ? stride : 1 + (long)strlen(s.name) % stride;
    memory.fail_at = memory.taken + n;
    s.ctx->message[0] = 0;
    status = play(&s);
    memory.fail_at = 0;
    if (memory.live != live)
      CHECK_FAIL("%s: failure %ld loses %ld blocks", s.name, n, memory.live - live);
    if (!status) break;
    if (status != ATTEND_NO_MEMORY)
      CHECK_FAIL("%s: failure %ld gives status %d", s.name, n, (int)status);
    if (!strstr(attend_message(s.ctx), "no memory for"))
      CHECK_FAIL("%s: failure %ld says \"%s\"", s.name, n, attend_message(s.ctx));
  }
  CHECK(!status);
  CHECK(n > 30);
  attend_context_free(s.ctx);
  CHECK_EQ(memory.live, 0);
}

static attend_generate_options few(int beams, float temperature) {
  attend_generate_options o = {ATTEND_INIT(attend_generate_options)};
  o.max_new = 4;
  o.beams = beams;
  o.temperature = temperature;
  o.samples = beams > 1 ? 1 : 2;
  return o;
}

TEST(decoders_without_memory) {
  fail_each((scene){.name = "gpt2", .generate = few(1, 1)});
  fail_each((scene){.name = "llama-mqa-tied", .generate = few(3, 0)});
}
TEST(encoders_without_memory) {
  fail_each((scene){.name = "bert", .watch = 63});
  fail_each((scene){.name = "distilbert"});
}
TEST(both_without_memory) {
  fail_each((scene){.name = "bart", .generate = few(2, 0)});
  fail_each((scene){.name = "t5-gated", .watch = 63, .generate = few(1, 0)});
}
TEST(sums_instead_of_caches) {
  attend_form favor = {.kind = ATTEND_FAVOR, .features = 16};
  fail_each((scene){.name = "gpt2", .form = &favor, .generate = few(2, 0)});
  fail_each((scene){.name = "gpt2", .form = &favor, .watch = 63, .generate = few(1, 0)});
}

TEST(sliding_windows) {
  attend_generate_options o = few(1, 0.5f);
  o.context = 5;
  o.max_new = 9;
  o.window = ATTEND_WINDOW_SLIDE;
  fail_each((scene){.name = "gpt2", .generate = o});
}

/* Shards, an index, tensors at odd addresses. */
TEST(other_layouts_without_memory) {
  forgery *f = forge("bert");
  f->spaces = 1;
  forge_write_shards(f);
  forge_free(f);
  fail_each((scene){.name = "bert in shards", .path = models_folder()});
  remove_folder();
}

static int stop_at_third(double done, const char *what, void *user) {
  int *calls = user;
  (void)what;
  CHECK(done > 0 && done <= 1);
  return ++*calls == 3;
}

TEST(a_load_that_is_stopped) {
  ledger memory = {0};
  attend_context *ctx = open_context(NULL, 1, &memory);
  attend_checkpoint *files;
  attend_model *model;
  int calls = 0;
  attend_model_options o = {ATTEND_INIT(attend_model_options), .progress = stop_at_third,
                            .user = &calls};
  OK(ctx, attend_checkpoint_open(ctx, model_path("bart", NULL), &files));
  CHECK_EQ(attend_model_create(files, &o, &model), ATTEND_STOPPED);
  CHECK_SAYS(attend_message(ctx), "stopped");
  CHECK(!model);
  CHECK_EQ(calls, 3);
  attend_checkpoint_free(files);
  attend_context_free(ctx);
  CHECK_EQ(memory.live, 0);
}
