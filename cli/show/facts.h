/* What can be said about a model without reading its weights.
 *
 * Show; counted from the headers and the configuration.
 */
#ifndef CLI_SHOW_FACTS_H
#define CLI_SHOW_FACTS_H

#include "attend/model.h"
#include "attend/bench.h"
#include "cli.h"

enum { MOST_KINDS = 16 };

typedef struct { /* what the model uses, by how it is stored */
  const char *dtype;
  size_t tensors;
  double parameters, bytes;
} stored_as;

typedef struct {
  const char *what;
  double flops, bytes; /* for one token */
  attend_limit limit;  /* NaN without the machine's ceilings */
} token_cost;

typedef struct {
  attend_context *ctx;
  const attend_checkpoint *files;
  const attend_config *config;
  attend_form forms[ATTEND_ROLES];
  attend_weights weights;
  int context; /* tokens that costs are counted at */
  /* as stored */
  stored_as kinds[MOST_KINDS];
  int n_kinds;
  size_t tensors;
  double parameters, bytes;
  size_t unused;
  double unused_bytes;
  /* to run */
  double packed[3];                /* by attend_weights */
  double tables;                   /* looked up in the file where they are */
  double cache_token, cross_token; /* NaN: no decoder, no encoder beside it */
  const char *state_form;
  double state; /* of a linear form; NaN: no decoder */
  double work;
  /* what a token costs */
  token_cost costs[3];
  int n_costs;
  bool measured; /* the ceilings are known */
} model_facts;

/* ctx, files, forms and weights are given. */
attend_status facts_count(model_facts *f);

const char *parts_name(attend_parts parts);
const char *positions_name(attend_positions positions);
const char *norms_name(attend_norms norms);
const char *weights_name(attend_weights weights);

#endif
