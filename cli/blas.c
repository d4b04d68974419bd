/* Somebody else's matrix product, to compare with.
 *
 * Place: cli/ - bench and explain; only if built with OpenBLAS.
 */
#include "blas.h"

#include <stdio.h>
#include <string.h>

#ifdef ATTEND_HAVE_OPENBLAS
#include <cblas.h>

const char *blas_name(void) {
  static char name[64];
  snprintf(name, sizeof name, "openblas-%s", openblas_get_corename());
  return name;
}

void blas_sgemm(int threads, int m, int n, int k, const float *a,
                const float *b, float *c) {
  openblas_set_num_threads(threads);
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, m, n, k, 1, a, k, b, n,
              0, c, n);
}
#else
const char *blas_name(void) { return NULL; }

void blas_sgemm(int threads, int m, int n, int k, const float *a,
                const float *b, float *c) {
  (void)threads, (void)m, (void)n, (void)k, (void)a, (void)b, (void)c;
}
#endif

bool blas_is_wide(void) {
  static const char *const wide[] = {"SkylakeX", "Cooperlake",
                                     "SapphireRapids"};
  const char *name = blas_name();
  for (size_t n = 0; name && n < sizeof wide / sizeof *wide; n++)
    if (strstr(name, wide[n])) return true;
  return false;
}

double sgemm_flops(const attend_problem *p) { return 2.0 * p->m * p->n * p->k; }

double sgemm_bytes(const attend_problem *p) {
  return 4.0 *
         ((double)p->m * p->k + (double)p->k * p->n + (double)p->m * p->n);
}
