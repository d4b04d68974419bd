/* attend/training.h - a course of lessons: steps, measuring, saving, going on.
 *
 *   attend_training *training;
 *   attend_training_create(learner, optimizer, batches, &how, &training);
 *   while (attend_training_steps(training) < how.schedule.steps) {
 *     attend_training_step(training, &report);
 *     if (attend_training_steps(training) % 500 == 0)
 *       attend_training_save(training, "run/step-00000500", &keep);
 *   }
 *
 * A saved step is a folder that others open as a model of its family; beside the
 * weights it holds what training goes on from. A step depends on the values, the
 * moments and its number alone, so a course that went on gives the same bits as
 * one that never stopped, at any number of threads.
 */
#ifndef ATTEND_TRAINING_H
#define ATTEND_TRAINING_H

#include "attend/data.h"
#include "attend/json.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct { /* zero means default */
  attend_schedule schedule;
  int accumulate; /* lessons of a step; 0: 1. Their mean is over all places
                      that they score, as of one large lesson                  */
  float
      smoothing; /* of targets                                               */
} attend_training_options;

typedef struct {
  double loss;    /* sum over the places that were scored                     */
  int64_t scored; /* of them                                                  */
  int64_t tokens; /* that went through the model                              */
  double rate;    /* that the step was taken with                             */
  double norm;    /* of the gradient, before it was clipped                   */
} attend_step_report;

typedef struct attend_training attend_training;

/* All three must stay. */
ATTEND_API attend_status attend_training_create(
    attend_trainer *learner, attend_optimizer *optimizer,
    attend_batches *batches, const attend_training_options *options,
    attend_training **training);
ATTEND_API void attend_training_free(attend_training *training);

/* One step of the optimizer. A gradient that is not finite is a failure, and
 * leaves the values as they were. */
ATTEND_API attend_status attend_training_step(attend_training *training,
                                              attend_step_report *report);
ATTEND_API uint64_t attend_training_steps(const attend_training *training);

/* The loss over batches in order, `most` lessons of them at most (0: all);
 * nothing is learnt. progress may be NULL; other than 0 stops. */
ATTEND_API attend_status attend_training_evaluate(
    attend_trainer *learner, attend_batches *batches, uint64_t most,
    int (*progress)(uint64_t done, uint64_t total, void *user), void *user,
    attend_batch_loss *outcome);

/* ---- saved steps ---------------------------------------------------------------- */

typedef struct {        /* zero means default */
  const char *beside;   /* a folder whose files go with the weights:
                             config.json, the tokenizer's                      */
  attend_stored stored; /* of the weights: F32 or BF16, or 0: F32. Training
                             always goes on from f32                           */
  void (*write)(attend_json_writer *w, void *user); /* further members of
                                                       training.json           */
  void *user;
} attend_save_options;

/* Makes the folder: model.safetensors, training.safetensors (moments),
 * training.json, the files beside, and digests.json, which has the digests of all
 * of them. All is written under another name, brought
 * to the disk, and renamed: whenever this ends, the folder is whole or not there,
 * and one that was there before is there until then. */
ATTEND_API attend_status attend_training_save(attend_training *training,
                                              const char *folder,
                                              const attend_save_options *keep);
/* ATTEND_IO, and the name of the file, unless every file of a saved step is what was
 * saved there. training.json and training.safetensors may both have been removed:
 * the model is verified then. */
ATTEND_API attend_status attend_training_verify(attend_context *ctx,
                                                const char *folder);
/* The same of the files in `beside` that a course will save with its next step:
 * they must be those that went with this one. */
ATTEND_API attend_status attend_training_verify_beside(attend_context *ctx,
                                                       const char *folder,
                                                       const char *beside);
/* Goes on from a saved step, which is verified; the learner was made from its checkpoint. The lessons
 * must be those of that course. *notes is training.json, to be freed; may be NULL.
 * A folder that does not fit is refused, and changes nothing. */
ATTEND_API attend_status attend_training_resume(attend_training *training,
                                                const char *folder,
                                                attend_json **notes);

#ifdef __cplusplus
}
#endif
#endif
