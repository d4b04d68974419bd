/* What the benches of models share: medians, sgemm as a ceiling, operations.
 *
 * For model.c, train.c and summarize.c.
 */
#ifndef CLI_BENCH_SHARE_H
#define CLI_BENCH_SHARE_H

#include "attend/model.h"
#include "cli.h"

/* Sorts them; NaN of none. */
static inline double median_of(double *values, int n) { return attend_median(values, (size_t)n); }

/* OpenBLAS's product of two matrices of this side. */
enum { CEILING_SIDE = 1024 };
typedef struct {
  float *a, *b, *c;
} sgemm_ceiling;

sgemm_ceiling ceiling_open(void);
void ceiling_close(sgemm_ceiling *ceiling);
/* One product; NaN if the program was built without OpenBLAS. */
double ceiling_seconds(const sgemm_ceiling *ceiling, int threads);
/* GFLOP/s of a product that took `seconds`. */
double ceiling_gflops(double seconds);

/* Of the weights of a layer, for one token; of attention's two products in all
 * layers, for so many pairs of a query and a key. */
double layer_flops(const attend_stack *s, bool gated, bool cross);
double pair_flops(const attend_stack *s, double pairs);

#endif
