/* attend/fit.h - a whole training run: steps, validation, checkpoints, resuming.
 *
 *   attend_fit_options how = {ATTEND_INIT(attend_fit_options)};
 *   how.schedule = (attend_schedule){ATTEND_COSINE_RATE, 1e-3, 1e-4, 100, 5000};
 *   how.valid = valid;
 *   attend_fit_model(ctx, "run", "stories15M", NULL, NULL, batches, &how, &result);
 *
 * or, with a trainer and an optimizer of your own,
 *
 *   attend_fit_open(ctx, "run", ATTEND_FIT_RESUME, 0, &fit);
 *   const char *from = attend_fit_checkpoint(fit);
 *   attend_checkpoint_open(ctx, from ? from : "stories15M", &files);
 *   .. attend_trainer_create, attend_optimizer_create ..
 *   attend_fit_begin(fit, trainer, optimizer, batches, &how);
 *   attend_fit_run(fit, &result);
 *   attend_fit_close(fit);
 *
 * The folder gets checkpoints step-00000500, .. (attend/training.h), links best and last,
 * log.jsonl and, where it is wanted, average/; attend/training_run.h reads it. A process
 * that is killed at any point loses the steps since the last checkpoint and nothing else:
 * the run resumes bit-identically.
 */
#ifndef ATTEND_FIT_H
#define ATTEND_FIT_H

#include "attend/training.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct attend_fit attend_fit;

/* ---- the folder -------------------------------------------------------------------- */

typedef enum {
  ATTEND_FIT_NEW = 0,  /* a folder with checkpoints is refused                     */
  ATTEND_FIT_RESUME,   /* from the last checkpoint; begins where there is none     */
  ATTEND_FIT_STEP,     /* as RESUME, from a given step; later ones are removed     */
  ATTEND_FIT_LAST_GOOD /* as RESUME, from the last undamaged checkpoint; later
                          ones are removed                                         */
} attend_fit_start;

/* Makes the folder and locks it: a second process is refused. step is for
 * ATTEND_FIT_STEP alone. The checkpoint to resume from is verified. */
ATTEND_API attend_status attend_fit_open(attend_context *ctx, const char *folder,
                                         attend_fit_start start, uint64_t step, attend_fit **fit);
/* Releases the lock. Accepts NULL. */
ATTEND_API void attend_fit_close(attend_fit *fit);
/* The folder of the checkpoint that the run resumes from, which the trainer must be
 * made from; NULL: the run begins. */
ATTEND_API const char *attend_fit_checkpoint(const attend_fit *fit);

/* ---- training ------------------------------------------------------------------------ */

typedef enum {
  ATTEND_FIT_STEPPED = 0, /* a step was taken: loss (of it), rate, speed, left   */
  ATTEND_FIT_LOGGED,      /* log.jsonl has a new line: loss, since the last line  */
  ATTEND_FIT_VALIDATING,  /* done of total batches were evaluated                 */
  ATTEND_FIT_VALIDATED,   /* valid, best                                          */
  ATTEND_FIT_SAVING       /* a checkpoint is about to be saved: loss of the last
                             line of the log, valid of this step; NaN: none       */
} attend_fit_event;

typedef struct {
  attend_fit_event event;
  uint64_t step, steps; /* taken, and in all                                      */
  double loss, valid;   /* mean of a token, in nats                               */
  double rate;
  double speed, left; /* tokens a second, seconds left, from this process       */
  uint64_t done, total;
  int best; /* the validation loss is the best so far                 */
} attend_fit_report;

typedef struct { /* zero means default */
  size_t size;
  attend_schedule schedule; /* steps: in all                                      */
  int accumulate;           /* as in attend_training_options                      */
  float smoothing;
  const char *base;       /* files that go with every checkpoint: config.json, the
                            tokenizer's; NULL: FOLDER/base                         */
  attend_batches *valid;  /* in_order; NULL: no validation                         */
  uint64_t valid_batches; /* to evaluate, at most; 0: all                         */
  uint64_t save_every, valid_every, log_every; /* steps; 0: a tenth of all, as
                            save_every, a hundredth of all                         */
  uint64_t keep;        /* checkpoints to keep beside the first, best and last; 0: all   */
  int patience;         /* stops after so many validations without improvement; 0: never */
  int average;          /* at the end, FOLDER/average: the mean of the last so many
                    checkpoints; 0: none                                           */
  attend_stored stored; /* of checkpoints: F32 or BF16; 0: F32                    */
  void (*report)(const attend_fit_report *report, void *user);
  /* Called before every step with the share that is done; other than 0 saves a
   * checkpoint and stops with ATTEND_STOPPED. */
  int (*progress)(double done, void *user);
  void *user; /* of both                                                          */
} attend_fit_options;
/* Resumes, where the run does, and opens the log. The trainer, optimizer and batches,
 * those of options too, must stay until attend_fit_close. ATTEND_INVALID: they are not
 * those that the run was begun with. */
ATTEND_API attend_status attend_fit_begin(attend_fit *fit, attend_trainer *trainer,
                                          attend_optimizer *optimizer, attend_batches *batches,
                                          const attend_fit_options *options);

typedef struct {
  uint64_t steps;
  double tokens, seconds; /* of the whole run, earlier processes included         */
  double loss;            /* of the last line of the log; NaN: none               */
  double best;            /* validation loss; NaN: no validation                  */
  uint64_t best_step;
  int worse;         /* validations since                                         */
  int stopped_early; /* by patience                                               */
  double bytes;      /* values, gradients, moments, activations at their most          */
  int averaged;      /* checkpoints that average/ is the mean of; 0: there is none     */
  uint64_t average_first, average_last; /* their steps                             */
  double average_valid;
} attend_fit_result;

/* Trains to the end. On ATTEND_STOPPED *result is filled too. Non-finite weights or
 * validation losses are a failure, and are not saved. */
ATTEND_API attend_status attend_fit_run(attend_fit *fit, attend_fit_result *result);

/* All of the above: trains MODEL, a folder, in FOLDER, or resumes the run that is there.
 * trainer and optimizer may be NULL: defaults. options.base NULL: MODEL. */
ATTEND_API attend_status attend_fit_model(attend_context *ctx, const char *folder,
                                          const char *model, const attend_trainer_options *trainer,
                                          const attend_optimizer_options *optimizer,
                                          attend_batches *batches,
                                          const attend_fit_options *options,
                                          attend_fit_result *result);

#ifdef __cplusplus
}
#endif
#endif
