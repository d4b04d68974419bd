/* What was learnt, saved: a model opened from the file computes what the learner
 * computes, for nine families; bf16 rounds and no more; a failure leaves what was
 * there. Means of models of one shape, and of no others. */
#include "lessons.h"

static char folder[64];

static void copy_config(const char *name) {
  char line[4096], path[128];
  FILE *from = fopen(model_path(name, "config.json"), "rb");
  snprintf(path, sizeof path, "%s/config.json", folder);
  FILE *to = fopen(path, "wb");
  CHECK(from && to);
  if (!from || !to) exit(1);
  size_t n = fread(line, 1, sizeof line, from);
  CHECK_EQ(fwrite(line, 1, n, to), n);
  fclose(from);
  fclose(to);
}

static const char *saved(void) {
  static char path[128];
  snprintf(path, sizeof path, "%s/model.safetensors", folder);
  return path;
}

static double quiet_loss(attend_context *ctx, attend_trainer *l,
                         const schoolbook *book) {
  attend_batch_loss got;
  attend_batch lesson = lesson_of(book);
  lesson.quiet = 1;
  OK(ctx, attend_trainer_accumulate(l, &lesson, &got));
  return got.loss;
}

/* A few steps, so that what is saved is not what was read. */
static void learn_a_little(attend_context *ctx, attend_trainer *l,
                           const schoolbook *book) {
  attend_optimizer *steps;
  OK(ctx, attend_optimizer_create(l, NULL, &steps));
  for (int i = 0; i < 3; i++) {
    attend_batch_loss got;
    attend_batch lesson = lesson_of(book);
    attend_trainer_zero_grad(l);
    OK(ctx, attend_trainer_accumulate(l, &lesson, &got));
    OK(ctx, attend_optimizer_step(steps, 1e-3f, NULL));
  }
  attend_optimizer_free(steps);
}

static void check_family(const char *name) {
  attend_context *ctx = open_context(NULL, 2, NULL);
  attend_checkpoint *files, *again;
  attend_tensor_file *file;
  attend_trainer *l = open_learner(ctx, name, NULL, &files), *other;
  OK(ctx, attend_tensor_file_open(ctx, model_path(name, "golden.safetensors"),
                                  &file));
  schoolbook book = read_book(file, attend_trainer_config(l));
  double before = quiet_loss(ctx, l, &book);
  learn_a_little(ctx, l, &book);
  double after = quiet_loss(ctx, l, &book);
  CHECK(after < before);
  copy_config(name);
  OK(ctx, attend_trainer_save(l, saved(), ATTEND_STORED_F32));
  OK(ctx, attend_checkpoint_open(ctx, folder, &again));
  OK(ctx, attend_trainer_create(again, NULL, &other));
  CHECK(quiet_loss(ctx, other, &book) == after);
  size_t n, m;
  float *x = attend_trainer_values(l, &n),
        *y = attend_trainer_values(other, &m);
  CHECK(n == m && !memcmp(x, y, n * sizeof *x));
  attend_trainer_free(other);
  attend_checkpoint_close(again);
  OK(ctx, attend_trainer_save(l, saved(), ATTEND_STORED_BF16));
  OK(ctx, attend_checkpoint_open(ctx, folder, &again));
  OK(ctx, attend_trainer_create(again, NULL, &other));
  CHECK(fabs(quiet_loss(ctx, other, &book) / after - 1) < 0.02);
  attend_trainer_free(other);
  attend_checkpoint_close(again);
  free_book(&book);
  attend_tensor_file_close(file);
  attend_trainer_free(l);
  attend_checkpoint_close(files);
  attend_context_free(ctx);
}

TEST(a_saved_model_is_the_model) {
  snprintf(folder, sizeof folder, "/tmp/attend-learn-XXXXXX");
  CHECK(mkdtemp(folder) != NULL);
  for (int f = 0; families[f]; f++) check_family(families[f]);
  remove(saved());
  char path[128];
  snprintf(path, sizeof path, "%s/config.json", folder);
  remove(path);
  CHECK(!rmdir(folder));
}

TEST(a_place_that_cannot_be_written_is_told) {
  attend_context *ctx = open_context(NULL, 1, NULL);
  attend_checkpoint *files;
  attend_trainer *l = open_learner(ctx, "gpt2", NULL, &files);
  CHECK(attend_trainer_save(l, "/nowhere/model.safetensors",
                            ATTEND_STORED_F32) == ATTEND_IO);
  CHECK(strstr(attend_message(ctx), "/nowhere/model.safetensors") != NULL);
  CHECK(attend_trainer_save(l, "x", ATTEND_STORED_I8) == ATTEND_INVALID);
  attend_trainer_free(l);
  attend_checkpoint_close(files);
  attend_context_free(ctx);
}

/* ---- means --------------------------------------------------------------------- */

/* Of a model and itself twice over: the bits of the model, transposed matrices too.
 * What is not of its shape is refused, and nothing changes. */
static void check_mean(const char *name, const char *other) {
  attend_context *ctx = open_context(NULL, 1, NULL);
  attend_checkpoint *files;
  attend_trainer *l = open_learner(ctx, name, NULL, &files);
  char own[1024], others[1024];
  snprintf(own, sizeof own, "%s", model_path(name, NULL));
  snprintf(others, sizeof others, "%s", model_path(other, NULL));
  const char *const same[] = {own, own, own}, *const mixed[] = {own, others};
  size_t count;
  float *values = attend_trainer_values(l, &count);
  float *kept = room_for(count, sizeof *kept);
  memcpy(kept, values, count * sizeof *kept);
  for (size_t i = 0; i < count; i++) values[i] = 1;
  OK(ctx, attend_trainer_average(l, 3, same));
  CHECK(same_bits(values, kept, count));
  CHECK_EQ(attend_trainer_average(l, 2, mixed), ATTEND_INVALID);
  CHECK_SAYS(attend_message(ctx), "models of one shape");
  CHECK_EQ(attend_trainer_average(l, 0, NULL), ATTEND_INVALID);
  CHECK(same_bits(values, kept, count));
  free(kept);
  attend_trainer_free(l);
  attend_checkpoint_close(files);
  attend_context_free(ctx);
}

TEST(a_mean_is_of_models_of_one_shape) {
  check_mean("gpt2", "bart");
  check_mean("llama-gqa", "llama-mqa-tied");
  check_mean("bart", "t5");
}
