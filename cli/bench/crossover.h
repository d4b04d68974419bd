/* attend bench crossover: from which length on sums of features are faster. */
#ifndef CLI_CROSSOVER_H
#define CLI_CROSSOVER_H

#include "options.h"

typedef struct {
  const char *form; /* FORM[:SHAPE][:WORD]..., n left out */
  int dim;          /* if the shape has none; 0: 64 */
  int limit_s;      /* for each operation; 0: 20 */
} crossover_options;

int bench_crossover(attend_context *ctx, const options *common, const crossover_options *o);

/* In bench.c: complains if a problem is wrong at a small size. */
int verify_small(attend_context *ctx, const attend_problem *problem, uint64_t seed);

#endif
