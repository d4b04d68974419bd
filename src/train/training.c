/* Steps: lessons, their gradients together, and the optimizer.
 *
 * Place: train/ - above the learner, the optimizer and the lessons, each of which
 * does its own part.
 */
#include "train/training.h"

#include "train/learner.h"

attend_status attend_training_create(attend_learner *learner,
                                     attend_optimizer *optimizer,
                                     attend_batches *batches,
                                     const attend_training_options *options,
                                     attend_training **training) {
  attend_training *t;
  *training = NULL;
  ATTEND_TRY(take_zeroed(learner->ctx, sizeof *t, "a training", &t));
  t->ctx = learner->ctx;
  t->learner = learner;
  t->optimizer = optimizer;
  t->batches = batches;
  if (options) t->o = *options;
  if (t->o.accumulate < 1) t->o.accumulate = 1;
  *training = t;
  return ATTEND_OK;
}

void attend_training_free(attend_training *t) {
  if (t) give(t->ctx, t);
}

uint64_t attend_training_steps(const attend_training *t) {
  return attend_optimizer_steps(t->optimizer);
}

/* ---- a step ---------------------------------------------------------------------- */

static attend_status count_places(attend_training *t, uint64_t first,
                                  attend_step_report *r) {
  for (int i = 0; i < t->o.accumulate; i++) {
    attend_lesson lesson = {0};
    ATTEND_TRY(attend_batches_get(t->batches, first + (uint64_t)i, &lesson));
    r->scored += attend_lesson_scored(&lesson);
    r->tokens += attend_lesson_tokens(&lesson);
  }
  return ATTEND_OK;
}

static attend_status study(attend_training *t, uint64_t number,
                           attend_step_report *r) {
  attend_lesson lesson = {.smoothing = t->o.smoothing,
                          .scale = 1 / (float)r->scored,
                          .step = number};
  attend_outcome outcome;
  ATTEND_TRY(attend_batches_get(t->batches, number, &lesson));
  ATTEND_TRY(attend_learner_study(t->learner, &lesson, &outcome));
  r->loss += outcome.loss;
  return ATTEND_OK;
}

attend_status attend_training_step(attend_training *t,
                                   attend_step_report *report) {
  uint64_t step = attend_training_steps(t);
  uint64_t first = step * (uint64_t)t->o.accumulate;
  *report =
      (attend_step_report){.rate = attend_schedule_at(&t->o.schedule, step)};
  ATTEND_TRY(count_places(t, first, report));
  attend_learner_forget(t->learner);
  for (int i = 0; report->scored && i < t->o.accumulate; i++)
    ATTEND_TRY(study(t, first + (uint64_t)i, report));
  return attend_optimizer_step(t->optimizer, (float)report->rate,
                               &report->norm);
}

/* ---- measuring -------------------------------------------------------------------- */

attend_status attend_training_measure(
    attend_learner *learner, attend_batches *batches, uint64_t most,
    int (*progress)(uint64_t done, uint64_t total, void *user), void *user,
    attend_outcome *outcome) {
  uint64_t total = attend_batches_epoch(batches);
  if (most && most < total) total = most;
  *outcome = (attend_outcome){0};
  for (uint64_t i = 0; i < total; i++) {
    attend_lesson lesson = {.quiet = 1};
    attend_outcome one;
    ATTEND_TRY(attend_batches_get(batches, i, &lesson));
    ATTEND_TRY(attend_learner_study(learner, &lesson, &one));
    outcome->loss += one.loss;
    outcome->scored += one.scored;
    if (progress && progress(i + 1, total, user))
      return fail(learner->ctx, ATTEND_STOPPED, "measuring was stopped");
  }
  return ATTEND_OK;
}
