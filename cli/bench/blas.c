/* OpenBLAS's matrix product, to compare with; LAPACKE's singular values, for
 * studies.
 *
 * Both are opened at first use rather than linked: loading OpenBLAS reserves
 * hundreds of megabytes of addresses, and where there are fewer it never returns.
 */
#include "bench/bench.h"

#include <stdio.h>
#include <string.h>

#ifdef ATTEND_HAVE_OPENBLAS
#include <cblas.h>
#include <dlfcn.h>

static struct {
  bool tried;
  char name[64]; /* empty: not there */
  __typeof__(openblas_set_num_threads) *set_threads;
  __typeof__(cblas_sgemm) *sgemm;
} blas;

/* For all to see: LAPACKE takes what it needs from here too. */
static void *open_openblas(void) { return dlopen("libopenblas.so.0", RTLD_LAZY | RTLD_GLOBAL); }

static void find_functions(void *library) {
  __typeof__(openblas_get_corename) *corename =
      (__typeof__(corename))dlsym(library, "openblas_get_corename");
  blas.set_threads = (__typeof__(blas.set_threads))dlsym(library, "openblas_set_num_threads");
  blas.sgemm = (__typeof__(blas.sgemm))dlsym(library, "cblas_sgemm");
  if (corename && blas.set_threads && blas.sgemm)
    snprintf(blas.name, sizeof blas.name, "openblas-%s", corename());
}

static void multiply(int threads, int m, int n, int k, const float *a, const float *b, float *c) {
  blas.set_threads(threads);
  blas.sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, m, n, k, 1, a, k, b, n, 0, c, n);
}

const attend_product *blas_product(void) {
  static const attend_product product = {blas.name, multiply};
  if (!blas.tried) {
    void *library = open_openblas();
    if (library) find_functions(library);
    blas.tried = true;
  }
  return *blas.name ? &product : NULL;
}

const char *blas_missing(void) {
  return "libopenblas.so.0 cannot be opened, or is not OpenBLAS: install "
         "Debian's libopenblas0-openmp, say";
}
#else
const attend_product *blas_product(void) { return NULL; }

const char *blas_missing(void) {
  return "the program was built without: build a shared one with "
         "ATTEND_BLAS on";
}
#endif

#ifdef ATTEND_HAVE_LAPACKE
#include <lapacke.h>

/* What the studies ask for by this weak name; they do without where it fails. */
lapack_int LAPACKE_dgesvd(int layout, char job_u, char job_vt, lapack_int m, lapack_int n,
                          double *a, lapack_int lda, double *s, double *u, lapack_int ldu,
                          double *vt, lapack_int ldvt, double *superb) {
  open_openblas();
  void *library = dlopen("liblapacke.so.3", RTLD_LAZY | RTLD_LOCAL);
  __typeof__(LAPACKE_dgesvd) *dgesvd =
      library ? (__typeof__(dgesvd))dlsym(library, "LAPACKE_dgesvd") : NULL;
  if (!dgesvd) return -1;
  return dgesvd(layout, job_u, job_vt, m, n, a, lda, s, u, ldu, vt, ldvt, superb);
}
#endif

bool blas_is_wide(void) {
  static const char *const wide[] = {"SkylakeX", "Cooperlake", "SapphireRapids"};
  const attend_product *product = blas_product();
  for (size_t n = 0; product && n < sizeof wide / sizeof *wide; n++)
    if (strstr(product->name, wide[n])) return true;
  return false;
}
