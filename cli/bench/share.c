/* What the benches of models share: medians, sgemm as a ceiling, operations. */
#include "bench/share.h"

#include <math.h>
#include <stdlib.h>

#include "bench/blas.h"
#include "progress.h"

/* ---- sgemm ----------------------------------------------------------------------- */

enum { CEILING_COUNT = CEILING_SIDE * CEILING_SIDE };

sgemm_ceiling ceiling_open(void) {
  return (sgemm_ceiling){need(CEILING_COUNT, sizeof(float)), need(CEILING_COUNT, sizeof(float)),
                         need(CEILING_COUNT, sizeof(float))};
}

void ceiling_close(sgemm_ceiling *x) {
  free(x->a);
  free(x->b);
  free(x->c);
}

double ceiling_seconds(const sgemm_ceiling *x, int threads) {
  if (!blas_name()) return NAN;
  double start = seconds_now();
  blas_sgemm(threads, CEILING_SIDE, CEILING_SIDE, CEILING_SIDE, x->a, x->b, x->c);
  return seconds_now() - start;
}

double ceiling_gflops(double seconds) {
  return 2.0 * CEILING_SIDE * CEILING_COUNT / seconds * 1e-9;
}

/* ---- operations ------------------------------------------------------------------- */

double layer_flops(const attend_stack *s, bool gated, bool cross) {
  double q = (double)s->heads * s->dim, k = (double)s->kv_heads * s->dim;
  double v = (double)s->kv_heads * s->dim_v, o = (double)s->heads * s->dim_v;
  return 2.0 * s->width * ((cross ? 2 : 1) * (q + k + v + o) + (2.0 + gated) * s->mlp);
}

double pair_flops(const attend_stack *s, double pairs) {
  return 2.0 * pairs * s->heads * (s->dim + s->dim_v) * s->layers;
}
