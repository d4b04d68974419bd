/* What the parts of attend eval share.
 *
 * cmd_eval.c has options, texts and printing, eval_score.c the losses.
 */
#ifndef CLI_EVAL_H
#define CLI_EVAL_H

#include "attend/model.h"
#include "input.h"
#include "model_open.h"

typedef struct { /* one text, with what was put around it */
  const char *name;
  id_list ids;
  size_t *end; /* [ids] bytes of the text up to the token's end; NULL: ids */
  int front, back; /* tokens that were put around the text: not scored */
} eval_text;

typedef struct {
  int context, stride; /* tokens */
  int batch;           /* windows at once */
  int limit;           /* tokens to score at most */
  int32_t mask;        /* of masked models */
  attend_context *ctx;
  attend_model *model;
  void (*progress)(int tokens, double loss, void *user);
  void *user;
} eval_plan;

typedef struct {
  int tokens;  /* that were scored, from the first on */
  int first;   /* the first of them */
  double loss; /* their sum, in nats */
} eval_sum;

/* Tokens of the text that a score is wanted for. */
int eval_wanted(const eval_plan *plan, const eval_text *text);
/* Decoders: each token from those before it, in windows of the context. An
 * interrupt ends it early and well. */
attend_status eval_causal(const eval_plan *plan, const eval_text *text,
                          eval_sum *sum);
/* Masked models: each token from those around it. */
attend_status eval_masked(const eval_plan *plan, const eval_text *text,
                          eval_sum *sum);

#endif
