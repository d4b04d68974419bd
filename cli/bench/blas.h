/* OpenBLAS's matrix product, to compare with. */
#ifndef CLI_BLAS_H
#define CLI_BLAS_H

#include "cli.h"

/* "openblas-Haswell", or NULL if there is none to call. */
const char *blas_name(void);
/* Why there is none, and what to do. */
const char *blas_missing(void);
/* Whether it runs on AVX-512. */
bool blas_is_wide(void);
/* c[m,n] = a[m,k] b[k,n], row-major. */
void blas_sgemm(int threads, int m, int n, int k, const float *a, const float *b, float *c);
double sgemm_flops(const attend_problem *p);
double sgemm_bytes(const attend_problem *p);

#endif
