/* The two ways to compute a form that has a feature map: pair by pair, and by
 * sums of features.
 *
 * Explain shows both; bench warns, and measures where they cross.
 */
#ifndef CLI_WAYS_H
#define CLI_WAYS_H

#include "bench/ceilings.h"

typedef struct {
  attend_problem problem; /* of this way: another form, or the engine named */
  char engine[64];        /* "": refused, and why: */
  char refusal[512];
  double flops, bytes;
  double memory; /* workspace; with :decode, the state too */
  limit limit;
  const char *growth; /* "O(T S (D + M))" */
} way;

typedef struct {
  way exact;  /* what random features and elu stand in for; poly's own pairs */
  way linear; /* sums */
} ways;

/* Whether the problem's form has a feature map. */
bool has_ways(const attend_problem *problem);
ways ways_of(attend_context *ctx, const attend_machine *machine,
             const attend_problem *problem);

/* The problem with n keys, and as many queries if it had as many. */
attend_problem at_length(const attend_problem *problem, int n);
/* The least n, up to 2^24, at which linear is predicted to be faster; NaN if
 * there is none. */
double predicted_crossover(attend_context *ctx, const attend_machine *machine,
                           const ways *w);

/* One line on stderr if the engine is linear and pairs are predicted to be
 * faster. */
void warn_if_slower(attend_context *ctx, const attend_machine *machine,
                    const attend_problem *problem, const char *engine);

#endif
