/* A problem with its right answer: engines are tried on it.
 *
 * Verify, and bench before it times.
 */
#ifndef CLI_TRIAL_H
#define CLI_TRIAL_H

#include "verify/engine_run.h"

typedef struct {
  attend_context *ctx; /* of the tensors */
  attend_problem problem;
  attend_tensors tensors;
  outputs truth, naive;
  double magnitude[OUTPUTS];
  bool naive_cuts;          /* the naive run is one that cuts its weights */
  unsigned char *undecided; /* [B,H,T] rows that no float can decide, */
  size_t n_undecided;       /* and how many */
} trial;

/* Draws the tensors, computes the definition and the naive run. */
attend_status trial_open(attend_context *ctx, const attend_problem *problem,
                         uint64_t seed, trial *t);
/* Runs the library in a context of any instruction set, and the naive run once
 * more where that context's precision is another. *engine is copied. */
attend_status trial_run(attend_context *ctx, trial *t, verdict *v,
                        char engine[64]);
void trial_close(trial *t);

#endif
