/* Trainings side by side.
 *
 * Attend compare --runs: compare_runs.c has the options and the table, run_facts.c
 * reads a run and joins the seeds of one setting, runs_plot.c draws.
 */
#ifndef CLI_RUNS_H
#define CLI_RUNS_H

#include "attend/model.h"
#include "cli.h"

enum {
  RUN_PARAMETERS,
  RUN_STEPS,
  RUN_VALID, /* the best measurement, and its step */
  RUN_BEST_STEP,
  RUN_LAST, /* the last measurement */
  RUN_STEP_SECONDS,
  RUN_SPEED, /* tokens a second; this and the one before: medians of the log */
  RUN_SECONDS,
  RUN_BYTES,
  RUN_ROUGE1, /* of rouge.json in the run's folder, where someone put it */
  RUN_ROUGE2,
  RUN_ROUGEL,
  RUN_NUMBERS
};

/* NaN: nobody says. low and high: of ROUGE its interval, of joined seeds the least
 * and the most. */
typedef struct {
  double mean, low, high;
} run_number;

/* What was measured at a step, after so many seconds of learning. */
typedef struct {
  size_t count;
  double *step, *seconds, *loss, *low, *high;
} run_curve;

typedef struct {
  char *name; /* of its folder */
  char form[64], roles[ATTEND_ROLES_TEXT];
  int encoder_width, decoder_width; /* 0: it has none */
  int seeds;                        /* that are joined here */
  bool measured; /* the curve is of validation, not of training */
  run_number number[RUN_NUMBERS];
  run_curve curve;
} run_facts;

/* An exit code. */
int run_facts_read(attend_context *ctx, const char *path, run_facts *facts);
void run_facts_free(run_facts *facts);
/* NAME-s1, NAME-s2, .. become NAME, where the first of them is; how many are left. */
int runs_join(run_facts *runs, int count);

attend_status runs_plot(attend_context *ctx, const run_facts *runs, int count,
                        const char *path);

#endif
