/* attend/training_run.h - reading the folder of a training run.
 *
 *   attend_training_run *run;
 *   attend_training_run_open(ctx, "run", &run);
 *   attend_training_run_folder(run, attend_training_run_best(run), path);
 *   attend_model_load(ctx, path, ..);
 *   attend_log_curve valid = attend_training_run_valid(run);
 *   attend_training_run_close(run);
 *
 * The folder is what attend/fit.h and `attend train --out` write: checkpoints
 * step-00000500, .., links best and last, and log.jsonl. It may be read while it grows.
 */
#ifndef ATTEND_TRAINING_RUN_H
#define ATTEND_TRAINING_RUN_H

#include "attend/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct attend_training_run attend_training_run;

/* A folder without checkpoints is ATTEND_IO, unless it has a log with losses. */
ATTEND_API attend_status attend_training_run_open(attend_context *ctx, const char *folder,
                                                  attend_training_run **run);
ATTEND_API void attend_training_run_close(attend_training_run *run);
/* Reads the list of checkpoints anew, and the new lines of the log. What the calls
 * below returned is valid until then. */
ATTEND_API attend_status attend_training_run_refresh(attend_training_run *run);

/* ---- checkpoints ---------------------------------------------------------------- */

enum { ATTEND_RUN_PATH = 4096 };

ATTEND_API const char *attend_training_run_path(const attend_training_run *run);
/* Their steps, rising: [*count]. */
ATTEND_API const int *attend_training_run_steps(const attend_training_run *run, int *count);
/* The step with the best validation loss; -1: the run has none. */
ATTEND_API int attend_training_run_best(const attend_training_run *run);
/* The newest step, or where the link `last` leads; -1: there is no checkpoint. */
ATTEND_API int attend_training_run_last(const attend_training_run *run);
/* The index of a step in the list, or -1. */
ATTEND_API int attend_training_run_find(const attend_training_run *run, int step);
/* A step from its number in text, or from "best" or "last". */
ATTEND_API attend_status attend_training_run_choose(attend_training_run *run, const char *word,
                                                    int *step);
/* The folder of a step's checkpoint; ATTEND_INVALID: the run has no such step. */
ATTEND_API attend_status attend_training_run_folder(attend_training_run *run, int step,
                                                    char path[ATTEND_RUN_PATH]);

/* ---- the log ---------------------------------------------------------------------- */

typedef struct {
  double step, loss; /* mean of a token, in nats */
  /* Of lines about training, NaN where the log lacks them: since the run began; of a
   * step; tokens a second; memory. */
  double seconds, step_s, speed, bytes;
} attend_log_point;

typedef struct {
  const attend_log_point *at; /* [count], steps rising */
  size_t count;
} attend_log_curve;

ATTEND_API attend_log_curve attend_training_run_loss(const attend_training_run *run);
ATTEND_API attend_log_curve attend_training_run_valid(const attend_training_run *run);
/* The validation loss at a step, or else its training loss; NaN: neither is logged. */
ATTEND_API double attend_training_run_loss_at(const attend_training_run *run, int step);

#ifdef __cplusplus
}
#endif
#endif
