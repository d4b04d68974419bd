/* The four ways to verify, and the rows they share.
 *
 * cmd_verify.c reads the options and prints; the others add rows.
 */
#ifndef CLI_VERIFY_H
#define CLI_VERIFY_H

#include "model_open.h"
#include "options.h"
#include "verify/outputs.h"
#include "table.h"

typedef struct {
  options common; /* first: the children of argp share it */
  bool all, invariance, light;
  const char *golden;
  model_options model; /* path NULL: attention alone */
  char **problems;
  int count;
} verify_options;

typedef struct {
  const verify_options *options;
  attend_context *contexts[MOST_ISAS]; /* one per instruction set */
  int isas;
  table rows;
  size_t failed, skipped, undecided;
} verify_run;

/* One row; engine may be NULL. `check` says what was compared. */
void verify_add(verify_run *run, attend_context *ctx, const char *problem,
                const char *engine, const char *check, const verdict *v);

/* Each returns an exit code: EXIT_OK even where rows failed. */
int verify_invariance(verify_run *run);
int verify_golden(verify_run *run, const char *path);

#endif
