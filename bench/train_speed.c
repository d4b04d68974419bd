/* How fast a model is trained: train_speed CONFIG BATCH LENGTH THREADS [FORM]
 *
 * Untrained weights for a folder's config.json, lessons of drawn tokens; the median
 * step (forward, backward, AdamW) of nine. bench/against_training.py runs it beside
 * PyTorch.
 */
#include <attend/attend.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define TRY(call) \
  if (call) return fprintf(stderr, "%s\n", attend_message(ctx)), 1

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int by_size(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

enum { STEPS = 9 };

int main(int argc, char **argv) {
  if (argc < 5) return 2;
  attend_context *ctx;
  attend_checkpoint *files;
  attend_learner *learner;
  attend_optimizer *steps;
  attend_form form = {0};
  attend_options o = {.threads = atoi(argv[4])};
  attend_learner_options lo = {.form = &form};
  TRY(attend_context_create(&o, &ctx));
  if (argc > 5) TRY(attend_form_parse(ctx, argv[5], &form));
  TRY(attend_checkpoint_fresh(ctx, argv[1], 1, &files));
  TRY(attend_learner_create(files, &lo, &learner));
  TRY(attend_optimizer_create(learner, NULL, &steps));
  int batch = atoi(argv[2]), length = atoi(argv[3]), n = batch * length;
  int vocab = attend_learner_config(learner)->vocab;
  int32_t *ids = malloc((size_t)n * 2 * sizeof *ids);
  if (!ids) return 1;
  for (int i = 0; i < n; i++) {
    uint32_t words[4];
    attend_random_block((attend_random){7, 0}, (uint64_t)i, words);
    ids[i] = (int32_t)(words[0] % (uint32_t)vocab);
    ids[n + i] = (int32_t)(words[1] % (uint32_t)vocab);
  }
  attend_lesson lesson = {
      .batch = batch, .length = length, .ids = ids, .targets = ids + n};
  double seconds[STEPS];
  for (int i = 0; i < STEPS; i++) {
    attend_outcome got;
    double start = now();
    attend_learner_forget(learner);
    TRY(attend_learner_study(learner, &lesson, &got));
    TRY(attend_optimizer_step(steps, 1e-4f, NULL));
    seconds[i] = now() - start;
  }
  qsort(seconds, STEPS, sizeof *seconds, by_size);
  printf(
      "{\"seconds\": %.6f, \"tokens_per_second\": %.1f, \"work_mb\": %.1f, "
      "\"parameters_mb\": %.1f}\n",
      seconds[STEPS / 2], n / seconds[STEPS / 2],
      (double)attend_learner_work_bytes(learner) / 1e6,
      (double)attend_learner_bytes(learner) / 1e6);
  free(ids);
  attend_optimizer_free(steps);
  attend_learner_free(learner);
  attend_checkpoint_close(files);
  attend_context_free(ctx);
  return 0;
}
