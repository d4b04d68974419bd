/* The two halves of the study of the softmax's Jacobian.
 *
 * study_jacobian.c has the matrix, study_jacobian_crowd.c its norm and the gradients
 * behind it, of many random rows.
 */
#ifndef STUDIES_STUDY_JACOBIAN_H
#define STUDIES_STUDY_JACOBIAN_H

#include "studies/study.h"

enum { JACOBIAN_LIST = 24 }; /* numbers in a setting */

/* ‖diag(a) − a aᵀ‖ of weights a, and how far the largest is from 1. Sums leave
 * the largest out: what is left of 1 beside it would be rounding. */
typedef struct {
  double norm, epsilon;
} row_facts;

row_facts jacobian_row(const float *a, int n);

attend_status jacobian_over_scales(study_run *r);
attend_status jacobian_over_widths(study_run *r);

#endif
