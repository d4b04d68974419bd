/* Timing problems in turns. */
#ifndef CLI_TIMING_H
#define CLI_TIMING_H

#include "attend/verify.h"
#include "cli.h"

typedef struct {
  const char *text;
  attend_problem problem;
  attend_tensors tensors;
  attend_solver *solver;
  float *a, *b, *c; /* of sgemm */
  char engine[64];
  double flops, bytes, workspace;
  double *times; /* [repeats] seconds */
  int taken, repeats;
  double median_s, best_s;
} bench_case;

/* Of a case whose problem and text are set. */
attend_status bench_case_open(attend_context *ctx, uint64_t seed, bench_case *c);
void bench_case_close(attend_context *ctx, bench_case *c);

/* Times them in turns, so that what disturbs the machine disturbs all of them.
 * repeat 0: about a second each, at least 5. Sets median_s and best_s. */
attend_status time_cases(attend_context *ctx, bench_case *list, int count, int repeat);

/* The same problem, small enough for the definition. */
attend_problem shrunken(const attend_problem *problem);

#endif
