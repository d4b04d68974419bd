/* Shared by the files of attend generate: generate.c has the verb, options and prompts,
 * print.c the output.
 */
#ifndef CLI_GENERATE_H
#define CLI_GENERATE_H

#include "text.h"
#include "model_open.h"
#include "options.h"

typedef struct {
  options common;
  model_options model;
  text_list prompts, ids, stops;
  bool lines, echo, slides, stats;
  unsigned given; /* BEAM_OPTIONS */
  attend_generate_options how;
  sampling draw;
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
  bool is_ids; /* given as ids, and printed so */
  int32_t end; /* the begin token: after the first one it ends a text too */
  int context; /* tokens; 0: no limit */
  /* printing */
  bool stream;                      /* one continuation, streamed */
  int next;                         /* continuation to be printed */
  const attend_continuation **done; /* [continuations], NULL: not yet */
  char last;                        /* character that was printed */
  int slid;                         /* how often a context was full */
  size_t steps, tokens;
} generate_run;

static inline int generate_count(const generate_run *run) {
  return run->n_prompts * run->how.samples;
}

/* Sets the callbacks of `how` that print: print.c. */
void print_start(generate_run *run);
/* Prints the rest: last lines, notices, statistics, JSON. */
int print_end(generate_run *run, const attend_generation *g);

#endif
