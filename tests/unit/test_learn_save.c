/* What was learnt, saved: a model opened from the file computes what the trainer
 * computes, for nine families; bf16 rounds and no more; a failure leaves what was
 * there. Means of models of one shape, and of no others. */
#include "golden_batches.h"

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

static double loss_of_batch(attend_context *ctx, attend_trainer *l, const golden_batch *golden) {
  attend_batch_loss got;
  attend_batch batch = batch_of(golden);
  batch.no_grad = 1;
  OK(ctx, attend_trainer_accumulate(l, &batch, &got));
  return got.loss;
}

/* A few steps, so that what is saved is not what was read. */
static void learn_a_little(attend_context *ctx, attend_trainer *l, const golden_batch *golden) {
  attend_optimizer *steps;
  OK(ctx, attend_optimizer_create(l, NULL, &steps));
  for (int i = 0; i < 3; i++) {
    attend_batch_loss got;
    attend_batch batch = batch_of(golden);
    attend_trainer_zero_grad(l);
    OK(ctx, attend_trainer_accumulate(l, &batch, &got));
    OK(ctx, attend_optimizer_step(steps, 1e-3f, NULL));
  }
  attend_optimizer_free(steps);
}

static void check_family(const char *name) {
  attend_context *ctx = open_context(NULL, 2, NULL);
  attend_checkpoint *files, *again;
  attend_tensor_file *file;
  attend_trainer *l = open_trainer(ctx, name, NULL, &files), *other;
  OK(ctx, attend_tensor_file_open(ctx, model_path(name, "golden.safetensors"), &file));
  golden_batch golden = read_golden(file, attend_trainer_config(l));
  double before = loss_of_batch(ctx, l, &golden);
  learn_a_little(ctx, l, &golden);
  double after = loss_of_batch(ctx, l, &golden);
  CHECK(after < before);
  copy_config(name);
  OK(ctx, attend_trainer_save(l, saved(), ATTEND_STORED_F32));
  OK(ctx, attend_checkpoint_open(ctx, folder, &again));
  OK(ctx, attend_trainer_create(again, NULL, &other));
  CHECK(loss_of_batch(ctx, other, &golden) == after);
  size_t n, m;
  float *x = attend_trainer_values(l, &n), *y = attend_trainer_values(other, &m);
  CHECK(n == m && !memcmp(x, y, n * sizeof *x));
  attend_trainer_free(other);
  attend_checkpoint_free(again);
  OK(ctx, attend_trainer_save(l, saved(), ATTEND_STORED_BF16));
  OK(ctx, attend_checkpoint_open(ctx, folder, &again));
  OK(ctx, attend_trainer_create(again, NULL, &other));
  CHECK(fabs(loss_of_batch(ctx, other, &golden) / after - 1) < 0.02);
  attend_trainer_free(other);
  attend_checkpoint_free(again);
  free_golden(&golden);
  attend_tensor_file_free(file);
  attend_trainer_free(l);
  attend_checkpoint_free(files);
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
  attend_trainer *l = open_trainer(ctx, "gpt2", NULL, &files);
  CHECK(attend_trainer_save(l, "/nowhere/model.safetensors", ATTEND_STORED_F32) == ATTEND_IO);
  CHECK(strstr(attend_message(ctx), "/nowhere/model.safetensors") != NULL);
  CHECK(attend_trainer_save(l, "x", ATTEND_STORED_I8) == ATTEND_INVALID);
  attend_trainer_free(l);
  attend_checkpoint_free(files);
  attend_context_free(ctx);
}

/* ---- means --------------------------------------------------------------------- */

/* Of a model and itself twice over: the bits of the model, transposed matrices too.
 * What is not of its shape is refused, and nothing changes. */
static void check_mean(const char *name, const char *other) {
  attend_context *ctx = open_context(NULL, 1, NULL);
  attend_checkpoint *files;
  attend_trainer *l = open_trainer(ctx, name, NULL, &files);
  char own[1024], others[1024];
  snprintf(own, sizeof own, "%s", model_path(name, NULL));
  snprintf(others, sizeof others, "%s", model_path(other, NULL));
  const char *const same[] = {own, own, own}, *const mixed[] = {own, others};
  size_t count;
  float *values = attend_trainer_values(l, &count);
  float *kept = zeroed_block(count, sizeof *kept);
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
  attend_checkpoint_free(files);
  attend_context_free(ctx);
}

TEST(a_mean_is_of_models_of_one_shape) {
  check_mean("gpt2", "bart");
  check_mean("llama-gqa", "llama-mqa-tied");
  check_mean("bart", "t5");
}
