/* What the parts of attend generate share.
 *
 * cmd_generate.c has options and the verb, generate_prompts.c what goes in,
 * generate_print.c what comes out.
 */
#ifndef CLI_GENERATE_H
#define CLI_GENERATE_H

#include "attend/generate.h"
#include "input.h"
#include "model_open.h"

typedef struct {
  options common;
  model_options model;
  const char **prompts; /* texts, or with is_ids numbers */
  int n_prompts;
  bool is_ids, lines, echo, stats;
  attend_generate_options how;
} generate_options;

typedef struct {
  char *text; /* NULL: ids were given */
  size_t length;
  id_list ids;
} generate_prompt;

typedef struct {
  const generate_options *o;
  model_opened m;
  attend_generate_options how;
  generate_prompt *prompt;
  int n_prompts;
  int32_t end; /* the begin token: after the first one it ends a text too */
  int context; /* tokens; 0: no limit */
  /* printing */
  bool stream;                      /* one continuation, said as it comes */
  int next;                         /* continuation to be printed */
  const attend_continuation **done; /* [continuations], NULL: not yet */
  char last;                        /* character that was printed */
  int slid;                         /* how often a context was full */
  size_t steps, tokens;
} generate_run;

static inline int generate_count(const generate_run *run) {
  return run->n_prompts * run->how.samples;
}

/* ---- generate_prompts.c: exit codes ----------------------------------------- */

/* What the command line or the standard input says; before the model is read. */
int prompts_gather(generate_run *run);
/* Ids, within the context; says what was left out. */
int prompts_encode(generate_run *run);
void prompts_free(generate_run *run);

/* ---- generate_print.c -------------------------------------------------------- */

/* Prepares `how` so that everything is printed as it comes. */
void print_start(generate_run *run);
/* What is still to be said: the last lines, notices, statistics, JSON. */
int print_end(generate_run *run, const attend_generation *g);

#endif
