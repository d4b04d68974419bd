/* Training with activations in bf16: losses and gradients of every family are those of f32 but for
 * rounding, as far off as where weights alone are rounded, in less memory; and have the same bits on any number of threads, and where
 * layers are computed again. test_settings.c and test_training.c go on. */
#include "golden_batches.h"
#include "training_runs.h"

static const attend_trainer_options in_f32 = {ATTEND_INIT(attend_trainer_options)},
                                    in_bf16 = {ATTEND_INIT(attend_trainer_options),
                                               .weights = ATTEND_WEIGHTS_MIXED,
                                               .activations = ATTEND_BF16};

/* ---- losses and gradients ---------------------------------------------------------------- */

typedef struct {
  float *gradients;
  size_t count, work;
  double loss;
} outcome;

static outcome train_golden(const char *name, int threads, const attend_trainer_options *o,
                            const attend_hook *hook) {
  attend_context *ctx = open_context(NULL, threads, NULL);
  attend_checkpoint *files;
  attend_tensor_file *file;
  attend_batch_loss got;
  outcome r;
  attend_trainer *l = open_trainer(ctx, name, o, &files);
  if (hook) OK(ctx, attend_trainer_set_hooks(l, 1, hook));
  OK(ctx, attend_tensor_file_open(ctx, model_path(name, "golden.safetensors"), &file));
  golden_batch golden = read_golden(file, attend_trainer_config(l));
  attend_batch batch = batch_of(&golden);
  batch.step = 7;
  OK(ctx, attend_trainer_accumulate(l, &batch, &got));
  attend_trainer_values(l, &r.count);
  r.gradients = copy_of(attend_trainer_gradients(l), r.count * sizeof(float));
  r.loss = got.loss;
  r.work = attend_trainer_work_bytes(l);
  free_golden(&golden);
  attend_tensor_file_free(file);
  attend_trainer_free(l);
  attend_checkpoint_free(files);
  attend_context_free(ctx);
  return r;
}

/* ‖a - b‖ / ‖b‖ */
static double relative(const float *a, const float *b, size_t n) {
  double off = 0, all = 0;
  for (size_t i = 0; i < n; i++) {
    off += pow((double)a[i] - (double)b[i], 2);
    all += pow((double)b[i], 2);
  }
  return sqrt(off / all);
}

static void check_close(const char *name, const outcome *narrow, const outcome *wide,
                        double bound) {
  const double loss = fabs(narrow->loss / wide->loss - 1);
  const double gradient = relative(narrow->gradients, wide->gradients, wide->count);
  printf("%s: loss off by %.1e, gradient by %.1e of %.1e\n", name, loss, gradient, bound);
  if (!(loss < 6e-3)) CHECK_FAIL("%s: the loss is off by %.1e", name, loss);
  if (!(gradient < bound && gradient > 1e-5))
    CHECK_FAIL("%s: the gradient is off by %.1e", name, gradient);
}

TEST(losses_and_gradients_are_those_of_f32_but_for_rounding) {
  for (int f = 0; families[f]; f++) {
    attend_trainer_options o = in_f32;
    o.weights = ATTEND_WEIGHTS_BF16;
    outcome wide = train_golden(families[f], 2, &in_f32, NULL);
    outcome rounded = train_golden(families[f], 2, &o, NULL);
    outcome narrow = train_golden(families[f], 2, &in_bf16, NULL);
    check_close(families[f], &narrow, &wide,
                3 * relative(rounded.gradients, wide.gradients, wide.count));
    CHECK(narrow.work < wide.work);
    free(wide.gradients), free(rounded.gradients), free(narrow.gradients);
  }
}

TEST(threads_and_recomputing_change_no_bit) {
  for (int f = 0; families[f]; f++) {
    attend_trainer_options o = in_bf16;
    o.dropout = 0.1f;
    outcome first = train_golden(families[f], 1, &o, NULL);
    for (int i = 0; i < 4; i++) {
      o.recompute = i % 2;
      outcome more = train_golden(families[f], 1 + 2 * (i / 2), &o, NULL);
      CHECK(first.loss == more.loss);
      CHECK(!memcmp(first.gradients, more.gradients, first.count * sizeof(float)));
      free(more.gradients);
    }
    free(first.gradients);
  }
}

/* ---- hooks ------------------------------------------------------------------------------- */

typedef struct {
  int calls;
  bool scales;
} scaling;

/* By 1, which changes nothing, or by 1 + 2^-3. */
static void scale_all_of(const attend_hooked *at, float *data, void *user) {
  scaling *s = user;
  s->calls++;
  for (int b = 0; b < at->shape[0]; b++)
    for (int h = 0; h < at->shape[1]; h++)
      for (int i = 0; i < at->shape[2]; i++)
        for (int j = 0; j < at->shape[3]; j++)
          data[b * at->view.stride[0] + h * at->view.stride[1] + i * at->view.stride[2] +
               j * at->view.stride[3]] *= s->scales ? 1.125f : 1;
}

TEST(hooks_see_and_edit_f32) {
  static const unsigned points[] = {ATTEND_AT_QUERY,   ATTEND_AT_VALUE,      ATTEND_AT_HEAD_OUTPUT,
                                    ATTEND_AT_MLP,     ATTEND_AT_RESIDUAL,   ATTEND_AT_LOGITS,
                                    ATTEND_AT_PATTERN, ATTEND_AT_DENOMINATOR};
  for (size_t i = 0; i < sizeof points / sizeof *points; i++) {
    outcome r[3];
    for (int k = 0; k < 3; k++) { /* f32 and bf16 edited, bf16 as it is */
      scaling s = {0, k < 2};
      const attend_hook hook = {ATTEND_INIT(attend_hook), .points = points[i], .edit = scale_all_of,
                                .user = &s};
      r[k] = train_golden("gpt2", 2, k ? &in_bf16 : &in_f32, &hook);
      CHECK(s.calls > 0);
    }
    check_close("edited", &r[1], &r[0], 0.04);
    CHECK(fabs(r[2].loss / r[1].loss - 1) > 1e-6);
    for (int k = 0; k < 3; k++) free(r[k].gradients);
  }
}

/* ---- training ---------------------------------------------------------------------------- */

TEST(a_run_reaches_the_loss_of_f32) {
  double loss[2];
  for (int i = 0; i < 2; i++) {
    training_plan p = {.weights = i ? ATTEND_WEIGHTS_MIXED : ATTEND_WEIGHTS_F32,
                       .activations = i ? ATTEND_BF16 : ATTEND_F32};
    training_run c = open_training(&p);
    loss[i] = take_steps(&c, 60).loss;
    close_training(&c);
  }
  printf("after 60 steps %.4f, in f32 %.4f\n", loss[1], loss[0]);
  CHECK_NEAR(loss[1], loss[0], 0.01 * loss[0]);
  CHECK(loss[1] != loss[0]);
}
