/* The folder of a training run: its lock, checkpoints and log.
 *
 *   .lock            held while a process trains there
 *   base/            config.json and the tokenizer, which every checkpoint includes
 *   step-00000500/   checkpoints; the last two have the optimizer's state
 *   best, last       links to two of them
 *   average/         the mean of the last checkpoints
 *   log.jsonl        an object a line: losses, rate, speed
 *
 * run_folder.c writes it, training_run.c reads it; fit.c.
 */
#ifndef TRAIN_RUN_FOLDER_H
#define TRAIN_RUN_FOLDER_H

#include <stdio.h>

#include "attend/train.h"
#include "base/files.h"
#include "base/folders.h"

enum { STEP_NAME = 32 };
void step_name(uint64_t step, char name[STEP_NAME]); /* "step-00000500" */
/* folder/step-00000500/file; file NULL: the checkpoint's folder. */
attend_status step_path(attend_context *ctx, const char *folder, uint64_t step, const char *file,
                        char path[LONGEST_PATH]);
/* The saved steps, rising; with `resumable` those alone that have training.json.
 * *steps is freed with give. */
attend_status steps_saved(attend_context *ctx, const char *folder, bool resumable, uint64_t **steps,
                          size_t *count);

/* folder/name becomes a link to a step's checkpoint, atomically. */
attend_status link_step(attend_context *ctx, const char *folder, const char *name, uint64_t step);
/* The step that a link leads to; false: there is none. */
bool linked_step(const char *folder, const char *name, uint64_t *step);
/* A process may have been killed between a checkpoint and the links to it. */
attend_status repair_links(attend_context *ctx, const char *folder, uint64_t last, bool has_best,
                           uint64_t best);

/* Makes the folder, takes its lock without waiting and removes the drafts that a
 * killed process left. *lock is for lock_drop; -1 on failure. */
attend_status lock_run(attend_context *ctx, const char *folder, int *lock);

/* What is not needed once `newest` is saved: the state of checkpoints before the last
 * two, and checkpoints beyond `keep` (0: none) but the first, the best and the last. */
attend_status thin_steps(attend_context *ctx, const char *folder, uint64_t newest, uint64_t keep);
/* Removes the checkpoints after `last`, and a link to one of them. */
attend_status drop_later(attend_context *ctx, const char *folder, uint64_t last);

/* ---- the log --------------------------------------------------------- */

typedef struct {
  attend_context *ctx;
  char path[LONGEST_PATH];
  FILE *file;
  double loss; /* of the last line about training; NaN: none */
} run_log;

typedef struct {
  uint64_t step;
  double loss, rate, norm;
  double tokens, seconds; /* of the whole run, with validation and saving */
  double step_s, speed;   /* of training alone, since the last line */
  double bytes;
} log_line;

/* Opens folder/log.jsonl. A run that resumes from `step` continues it: lines of later
 * steps, and a last line that is not whole, are removed. */
attend_status run_log_open(attend_context *ctx, const char *folder, bool resumes, uint64_t step,
                           run_log *log);
attend_status run_log_step(run_log *log, const log_line *line);
attend_status run_log_valid(run_log *log, uint64_t step, double loss, bool best);
/* To the disk, before the checkpoint that it describes. */
attend_status run_log_sync(run_log *log);
void run_log_close(run_log *log);

/* ---- files of a checkpoint (training.c) ---------------------------------------------- */

/* Calls put for each file of a folder that goes with the weights. */
attend_status each_beside(attend_context *ctx, const char *folder,
                          attend_status (*put)(const char *name, const char *bytes, size_t length,
                                               void *user),
                          void *user);

#endif
