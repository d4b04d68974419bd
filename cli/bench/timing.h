/* Timing problems fairly.
 *
 * cmd_bench.c says what; this says how long.
 */
#ifndef CLI_TIMING_H
#define CLI_TIMING_H

#include "verify/engine_run.h"

typedef struct {
  const char *text;
  attend_problem problem;
  attend_tensors tensors;
  engine_run run;
  float *a, *b, *c; /* of sgemm */
  char engine[64];
  double flops, bytes, workspace;
  double *times; /* [wanted] seconds */
  int taken, wanted;
  double median_s, best_s;
} contestant;

/* Parses nothing: problem and text are set. */
attend_status contestant_open(attend_context *ctx, uint64_t seed,
                              contestant *c);
void contestant_close(attend_context *ctx, contestant *c);

/* Times them in turns, so that what disturbs the machine disturbs all of them.
 * repeat 0: about a second each, at least 5. Sets median_s and best_s. */
attend_status time_contestants(attend_context *ctx, contestant *list, int count,
                               int repeat);

/* The same problem, small enough for the definition. */
attend_problem shrunken(const attend_problem *problem);

#endif
