/* attend show: what is printed about a model. */
#ifndef CLI_SHOW_H
#define CLI_SHOW_H

#include "attend/bench.h"
#include "attend/model.h"
#include "cli.h"

typedef struct {
  const char *what;
  attend_token_cost cost;
  attend_limit limit; /* NaN unless the machine's ceilings are known */
} shown_cost;

typedef struct {
  attend_context *ctx;
  const char *path;
  const attend_checkpoint *files;
  attend_weights weights;
  attend_dtype activations;
  attend_model_cost cost;
  const char *state_form; /* "this form" or "elu" */
  shown_cost costs[3];
  int n_costs;
  bool measured;         /* the ceilings are known */
  const char *tokenizer; /* its kind; NULL: none, or it cannot be read */
  const char *refusal;   /* why it cannot be read; NULL: there is none */
  int32_t tokens;
  bool tensors; /* list them */
} shown;

/* print.c; exit codes. */
int show_lines(const shown *s);
int show_json(const shown *s);
/* The tensors of a file. */
int show_tensor_file(attend_context *ctx, const char *path, bool json);

#endif
