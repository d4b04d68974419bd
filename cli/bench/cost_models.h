/* Cost models of the two methods for a form that has a feature map: exact, pair by
 * pair, and linear, by sums of features.
 *
 * Explain shows both; bench warns, and measures where they cross.
 */
#ifndef CLI_COST_MODELS_H
#define CLI_COST_MODELS_H

#include "bench/ceilings.h"

typedef struct {
  attend_problem problem; /* of this method: another form, or an engine */
  char engine[64];        /* "": refused, and why: */
  char refusal[512];
  double flops, bytes;
  double memory; /* workspace; with :decode, the state too */
  limit limit;
  const char *growth; /* "O(T S (D + M))" */
} cost_model;

typedef struct {
  cost_model exact;  /* of the form that features approximate; poly: itself */
  cost_model linear; /* sums */
} cost_models;

/* Whether the problem's form has a feature map. */
bool has_feature_map(const attend_problem *problem);
cost_models cost_models_of(attend_context *ctx, const attend_machine *machine,
                           const attend_problem *problem);

/* The problem with n keys, and as many queries if it had as many. */
attend_problem at_length(const attend_problem *problem, int n);
/* The least n, up to 2^24, at which linear is predicted to be faster; NaN if
 * there is none. */
double predicted_crossover(attend_context *ctx, const attend_machine *machine,
                           const cost_models *w);

/* One line on stderr if the engine is linear and pairs are predicted to be
 * faster. */
void warn_if_slower(attend_context *ctx, const attend_machine *machine,
                    const attend_problem *problem, const char *engine);

#endif
