/* One model under several forms of attention: what each form's run gives.
 *
 * cmd_compare.c reads the options and prints; compare_run.c runs a form and measures
 * it against the first; compare_runs.c is for trainings.
 */
#ifndef CLI_COMPARE_H
#define CLI_COMPARE_H

#include "model_open.h"

typedef struct {
  const char *name; /* of the form, as it was given */
  attend_form form;
  /* against the first form; NaN: not asked of this kind of model */
  double agreement; /* share of tokens whose best next (or own) is the same */
  double loss;      /* of the text, nats a token */
  double drift;     /* 1 - cosine of the pooled hidden states */
  double hidden;    /* |difference| / |first|, of all last hidden states */
  double attention; /* half the sum of |weight difference|, mean over rows */
  double direct;    /* the same, but given the first form's q and k */
  double *heads;    /* [layers][heads] of attention */
  double *direct_heads;
  double read_s, token_s; /* the text at once; one token more */
  size_t cache_bytes, work_bytes;
} form_result;

typedef struct {
  model_opened opened; /* with the first form */
  const attend_config *config;
  int32_t *ids, *targets; /* of the text */
  int n;
  int32_t *answer; /* what the decoder of an encoder-decoder is fed */
  int n_answer;
  form_result *forms;
  int count;
  bool attention; /* compare weights: takes memory */
  int repeat;
} comparison;

/* How many layers and heads the weights are compared over. */
int compare_layers(const comparison *c);
int compare_heads(const comparison *c);
/* Bytes of attention that is held while forms are compared. */
double compare_bytes(const comparison *c);
/* Fills forms[i]; the first one first. An exit code. */
int compare_run(comparison *c);

/* Whether the arguments of compare are about runs; runs.h has the rest. */
bool is_compare_runs(int argc, char **argv);
int compare_runs(int argc, char **argv);

#endif
