/* Steps along gradients: ten of AdamW on nine families give the losses that
 * PyTorch got (tests/golden/make_steps.py); no bit depends on the number of
 * threads; rates over time; what is not finite moves nothing. */
#include "attend/json.h"
#include "golden_batches.h"

enum { STEPS = 10 };

static void read_losses(attend_context *ctx, const char *name, double losses[STEPS]) {
  const char *golden = getenv("ATTEND_GOLDEN");
  char path[1024], text[4096];
  attend_json *root;
  snprintf(path, sizeof path, "%s/steps/%s.json", golden ? golden : "tests/golden", name);
  FILE *file = fopen(path, "rb");
  CHECK(file != NULL);
  if (!file) exit(1);
  size_t n = fread(text, 1, sizeof text, file);
  fclose(file);
  OK(ctx, attend_json_parse(ctx, path, text, n, &root));
  for (size_t i = 0; i < STEPS; i++)
    losses[i] = attend_json_number(attend_json_at(attend_json_get(root, "loss"), i), NAN);
  attend_json_free(root);
}

/* The loss before each step; the values after the last, to be freed. */
static float *take_steps(const char *name, int threads, double losses[STEPS], size_t *count) {
  attend_context *ctx = open_context(NULL, threads, NULL);
  attend_checkpoint *files;
  attend_tensor_file *file;
  attend_optimizer *steps;
  attend_trainer *l = open_trainer(ctx, name, NULL, &files);
  OK(ctx, attend_tensor_file_open(ctx, model_path(name, "golden.safetensors"), &file));
  OK(ctx, attend_optimizer_create(l, NULL, &steps));
  golden_batch golden = read_golden(file, attend_trainer_config(l));
  attend_batch batch = batch_of(&golden);
  for (int i = 0; i < STEPS; i++) {
    attend_batch_loss got;
    attend_trainer_zero_grad(l);
    OK(ctx, attend_trainer_accumulate(l, &batch, &got));
    OK(ctx, attend_optimizer_step(steps, 2e-4f, NULL));
    losses[i] = got.loss / got.scored;
  }
  CHECK_EQ(attend_optimizer_steps(steps), STEPS);
  float *values = attend_trainer_values(l, count);
  float *copy = zeroed_block(*count, sizeof *copy);
  memcpy(copy, values, *count * sizeof *copy);
  free_golden(&golden);
  attend_tensor_file_free(file);
  attend_optimizer_free(steps);
  attend_trainer_free(l);
  attend_checkpoint_free(files);
  attend_context_free(ctx);
  return copy;
}

TEST(ten_steps_are_those_of_pytorch) {
  attend_context *ctx = open_context(NULL, 1, NULL);
  for (int f = 0; families[f]; f++) {
    double ours[STEPS], theirs[STEPS], worst = 0;
    size_t count;
    read_losses(ctx, families[f], theirs);
    free(take_steps(families[f], 2, ours, &count));
    for (int i = 0; i < STEPS; i++) worst = fmax(worst, fabs(ours[i] / theirs[i] - 1));
    printf("%s: %.4f to %.4f, worst %.1e\n", families[f], ours[0], ours[STEPS - 1], worst);
    if (worst >= 1e-4)
      for (int i = 0; i < STEPS; i++) printf("  %.7f %.7f\n", ours[i], theirs[i]);
    CHECK(worst < 1e-4);
  }
  attend_context_free(ctx);
}

TEST(threads_change_no_bit_of_what_is_learnt) {
  double losses[STEPS];
  size_t count, n;
  float *one = take_steps("bart", 1, losses, &count);
  for (int threads = 2; threads <= 7; threads += 5) {
    float *more = take_steps("bart", threads, losses, &n);
    CHECK(n == count && !memcmp(one, more, n * sizeof *one));
    free(more);
  }
  free(one);
}

TEST(a_gradient_that_is_not_finite_moves_nothing) {
  attend_context *ctx = open_context(NULL, 2, NULL);
  attend_checkpoint *files;
  attend_optimizer *steps;
  size_t count;
  attend_trainer *l = open_trainer(ctx, "gpt2", NULL, &files);
  OK(ctx, attend_optimizer_create(l, NULL, &steps));
  float *values = attend_trainer_values(l, &count);
  float *before = zeroed_block(count, sizeof *before);
  memcpy(before, values, count * sizeof *before);
  attend_trainer_gradients(l)[count / 2] = NAN;
  CHECK(attend_optimizer_step(steps, 1e-3f, NULL) == ATTEND_INVALID);
  CHECK(strstr(attend_message(ctx), "not finite") != NULL);
  CHECK(!memcmp(before, values, count * sizeof *before));
  CHECK_EQ(attend_optimizer_steps(steps), 0);
  free(before);
  attend_optimizer_free(steps);
  attend_trainer_free(l);
  attend_checkpoint_free(files);
  attend_context_free(ctx);
}

/* PyTorch's own: v <- momentum v + (g + decay w), w <- w - rate v. */
TEST(sgd_with_momentum) {
  attend_context *ctx = open_context(NULL, 1, NULL);
  attend_checkpoint *files;
  attend_optimizer *steps;
  attend_trainer_parameter x;
  attend_optimizer_options o = {ATTEND_INIT(attend_optimizer_options), .kind = ATTEND_SGD,
                                .momentum = 0.5f, .decay = {0.25f, 0.25f, 0}, .clip = INFINITY};
  attend_trainer *l = open_trainer(ctx, "gpt2", NULL, &files);
  OK(ctx, attend_optimizer_create(l, &o, &steps));
  CHECK(attend_trainer_get(l, 0, &x) && x.group == ATTEND_TABLES);
  double w = x.value[3], v = 0;
  for (int i = 0; i < 3; i++) {
    x.gradient[3] = (float)(i + 1);
    v = 0.5 * v + (i + 1) + 0.25 * w;
    w -= 0.125 * v;
    OK(ctx, attend_optimizer_step(steps, 0.125f, NULL));
    CHECK(attend_trainer_get(l, 0, &x)); /* where a device has its own memory */
    CHECK_NEAR((double)x.value[3], w, 1e-6);
  }
  attend_optimizer_free(steps);
  attend_trainer_free(l);
  attend_checkpoint_free(files);
  attend_context_free(ctx);
}

/* Zero means default: 0.01 of matrices and tables. ATTEND_ZERO is no decay. */
TEST(decay_by_default_and_none) {
  attend_context *ctx = open_context(NULL, 1, NULL);
  attend_trainer_parameter x;
  for (int none = 0; none < 2; none++) {
    attend_optimizer_options o = {ATTEND_INIT(attend_optimizer_options)};
    attend_checkpoint *files;
    attend_optimizer *steps;
    if (none) o.decay[ATTEND_TABLES] = ATTEND_ZERO;
    attend_trainer *l = open_trainer(ctx, "gpt2", NULL, &files);
    OK(ctx, attend_optimizer_create(l, &o, &steps));
    CHECK(attend_trainer_get(l, 0, &x) && x.group == ATTEND_TABLES);
    float w = x.value[3];
    OK(ctx, attend_optimizer_step(steps, 0.125f, NULL)); /* all gradients are 0 */
    CHECK(attend_trainer_get(l, 0, &x));
    CHECK(x.value[3] == (none ? w : w - 0.125f * 0.01f * w));
    attend_optimizer_free(steps);
    attend_trainer_free(l);
    attend_checkpoint_free(files);
  }
  attend_context_free(ctx);
}

TEST(rates_over_time) {
  attend_schedule s = {ATTEND_COSINE_RATE, 1, 0.1, 10, 110};
  CHECK_NEAR(attend_schedule_at(&s, 0), 0.1, 1e-12);
  CHECK_NEAR(attend_schedule_at(&s, 9), 1, 1e-12);
  CHECK_NEAR(attend_schedule_at(&s, 10), 1, 1e-12);
  CHECK_NEAR(attend_schedule_at(&s, 60), 0.55, 1e-12);
  CHECK_NEAR(attend_schedule_at(&s, 110), 0.1, 1e-12);
  CHECK_NEAR(attend_schedule_at(&s, 500), 0.1, 1e-12);
  s.kind = ATTEND_LINEAR_RATE;
  CHECK_NEAR(attend_schedule_at(&s, 60), 0.55, 1e-12);
  s.kind = ATTEND_CONSTANT_RATE;
  CHECK_NEAR(attend_schedule_at(&s, 60), 1, 1e-12);
}
