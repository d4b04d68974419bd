/* attend/training.h - training steps, evaluation, checkpoints, resuming.
 *
 *   attend_training *training;
 *   attend_training_create(trainer, optimizer, batches, &how, &training);
 *   while (attend_training_steps(training) < how.schedule.steps) {
 *     attend_training_step(training, &report);
 *     if (attend_training_steps(training) % 500 == 0)
 *       attend_training_save(training, "run/step-00000500", &keep);
 *   }
 *
 * A checkpoint is a folder that other libraries open as a model of its family; beside
 * the weights it holds the optimizer's state. A step depends on the values, the moments
 * and its number alone, so a training run resumes bit-identically at any number of
 * threads. attend/fit.h has the whole loop.
 */
#ifndef ATTEND_TRAINING_H
#define ATTEND_TRAINING_H

#include "attend/data.h"
#include "attend/json.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct { /* zero means default */
  size_t size;
  attend_schedule schedule;
  int accumulate;  /* batches of a step; 0: 1. Their mean is over all positions
                      that they score, as of one large batch                  */
  float smoothing; /* of targets                                               */
} attend_training_options;

typedef struct {
  double loss;    /* sum over the positions that were scored                  */
  int64_t scored; /* of them                                                  */
  int64_t tokens; /* that went through the model                              */
  double rate;    /* that the step was taken with                             */
  double norm;    /* of the gradient, before it was clipped                   */
} attend_step_report;

typedef struct attend_training attend_training;

/* All three must stay. */
ATTEND_API attend_status attend_training_create(attend_trainer *trainer,
                                                attend_optimizer *optimizer,
                                                attend_batches *batches,
                                                const attend_training_options *options,
                                                attend_training **training);
ATTEND_API void attend_training_free(attend_training *training);

/* One step of the optimizer. A non-finite gradient is a failure, and leaves the
 * values as they were. */
ATTEND_API attend_status attend_training_step(attend_training *training,
                                              attend_step_report *report);
ATTEND_API uint64_t attend_training_steps(const attend_training *training);

/* The loss over batches in order, `most` of them at most (0: all), without gradients.
 * progress may be NULL; other than 0 stops. */
ATTEND_API attend_status attend_training_evaluate(attend_trainer *trainer, attend_batches *batches,
                                                  uint64_t most,
                                                  int (*progress)(uint64_t done, uint64_t total,
                                                                  void *user),
                                                  void *user, attend_batch_loss *outcome);

/* ---- checkpoints ---------------------------------------------------------------- */

typedef struct { /* zero means default */
  size_t size;
  const char *beside;   /* a folder whose files go with the weights:
                             config.json, the tokenizer's                      */
  attend_stored stored; /* of the weights: F32 or BF16, or 0: F32. Training
                             always resumes from f32                           */
  void (*write)(attend_json_writer *w, void *user); /* further members of
                                                       training.json           */
  void *user;
} attend_save_options;

/* Makes the folder: model.safetensors, training.safetensors (moments),
 * training.json, the files beside, and digests.json, the digests of all of them.
 * Everything is written under another name, synced and renamed: a process killed at
 * any point leaves a complete folder or none, and an earlier one of that name stays
 * until then. */
ATTEND_API attend_status attend_training_save(attend_training *training, const char *folder,
                                              const attend_save_options *keep);
/* ATTEND_IO, and the name of the file, unless every file of a checkpoint has the
 * digest that was saved. training.json and training.safetensors may both have been
 * removed: then only the model is verified. */
ATTEND_API attend_status attend_training_verify(attend_context *ctx, const char *folder);
/* The same for the files in `beside`, which the next checkpoint will include: they
 * must be those of this one. */
ATTEND_API attend_status attend_training_verify_beside(attend_context *ctx, const char *folder,
                                                       const char *beside);
/* Resumes from a checkpoint, which is verified; the trainer was made from it. The
 * batches must be those of its training run. *notes is training.json, to be freed; may
 * be NULL. A folder that does not fit is refused, and changes nothing. */
ATTEND_API attend_status attend_training_resume(attend_training *training, const char *folder,
                                                attend_json **notes);

#ifdef __cplusplus
}
#endif
#endif
