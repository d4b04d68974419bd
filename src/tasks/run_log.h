/* A training run's folder, as comparisons read it. */
#ifndef TASKS_RUN_LOG_H
#define TASKS_RUN_LOG_H

#include "attend/training_run.h"
#include "base/base.h"

typedef attend_log_point run_log_point;
typedef attend_log_curve run_log_curve;

typedef struct {
  attend_training_run *run;
  char checkpoint[ATTEND_RUN_PATH]; /* of the best step, or else the last; "": none */
  int last;                         /* step */
  run_log_curve loss, valid;
} run_log;

static inline attend_status run_log_read(attend_context *ctx, const char *folder, run_log *log) {
  *log = (run_log){0};
  ATTEND_TRY(attend_training_run_open(ctx, folder, &log->run));
  int best = attend_training_run_best(log->run);
  int last = attend_training_run_last(log->run);
  log->last = last < 0 ? 0 : last;
  log->loss = attend_training_run_loss(log->run);
  log->valid = attend_training_run_valid(log->run);
  if (last < 0) return ATTEND_OK;
  return attend_training_run_folder(log->run, best >= 0 ? best : last, log->checkpoint);
}

static inline void run_log_free(attend_context *ctx, run_log *log) {
  (void)ctx;
  attend_training_run_close(log->run);
}

#endif
