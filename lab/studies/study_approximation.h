/* What the files of the study approximation share.
 *
 * study_approximation.c measures whole attentions, study_approximation_pairs.c one
 * pair of q and k; study_approximation_printed.c has the features as the documents
 * print them, study_approximation_cost.c counts operations.
 */
#ifndef STUDIES_STUDY_APPROXIMATION_H
#define STUDIES_STUDY_APPROXIMATION_H

#include "studies/study.h"

enum { APPROX_VALUES = 16 }; /* width of v */

/* Features with the variance that the documents print. */
typedef struct {
  const float *w; /* [directions][dim], N(0, sigma^2 I) */
  double sigma2;
} approx_printed;
/* w has room for features / 2 directions; w and p must stay. Without features
 * the form is by pairs, with the kernel that they estimate. */
attend_form approx_printed_form(study_run *r, int dim, int features,
                                uint64_t seed, float *w, approx_printed *p);

attend_status approx_pairs(study_run *r);
attend_status approx_cost(study_run *r);

#endif
