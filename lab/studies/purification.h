/* Ridge-regularised linear autoencoders, for the files of one study.
 *
 * study_purification.c has the formulas, study_purification_learn.c learns,
 * study_purification_picture.c has a picture.
 */
#ifndef STUDIES_PURIFICATION_H
#define STUDIES_PURIFICATION_H

#include "studies/study.h"

enum { PURIFY_LAMBDAS = 4 }; /* to learn with, at most */

/* X [m][n], its singular vectors and values. */
typedef struct {
  size_t m, n;
  double *x, *u, *s;
} purify_data;

/* sigma^2 / (sigma^2 + lambda) */
static inline double purify_kept(double sigma, double lambda) {
  return sigma * sigma / (sigma * sigma + lambda);
}

/* W [m][m] = U diag(kept) U^T, from the singular vectors and values of X. */
void purify_closed(size_t m, const double *u, const double *s, double lambda,
                   double *w);

/* The same W by singular values, by equations and by learning. */
attend_status purify_ways(study_run *r, const purify_data *d);
/* A picture with noise on it, purified. */
attend_status purify_picture(study_run *r);

#endif
