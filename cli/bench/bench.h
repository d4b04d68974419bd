/* Shared by bench, explain and show: OpenBLAS, the machine's ceilings, a warning. */
#ifndef CLI_BENCH_H
#define CLI_BENCH_H

#include "attend/bench.h"
#include "model_open.h"

/* OpenBLAS's product, or NULL if there is none to call. */
const attend_product *blas_product(void);
/* Why there is none, and what to do. */
const char *blas_missing(void);
/* Whether it runs on AVX-512. */
bool blas_is_wide(void);

/* As kept, or measured (with a line on stderr that says so) and kept. A file that cannot
 * be written is not an error. */
attend_status ceilings_get(attend_context *ctx, attend_machine *machine);

/* One line on stderr if the engine is linear and pairs are predicted to be faster. */
void warn_if_slower(const attend_problem *problem, const char *engine,
                    const attend_methods *methods);

typedef struct {
  options common; /* first: the children of argp share it */
  model_options model;
  const char *out, *curve, *lengths, *forms;
  bool table, recompute;
  int dim, limit_s, tokens, batch; /* 0: default */
  char **problems;
  int count;
} bench_options;

/* models.c: bench model, train, summarize. */
int bench_models(attend_context *ctx, const bench_options *o);
/* "256..65536": 256, 512, .. and the last; or one number. Returns how many, 0: neither. */
enum { MOST_LENGTHS = 24 };
int lengths_parse(const char *text, int lengths[MOST_LENGTHS]);

#endif
