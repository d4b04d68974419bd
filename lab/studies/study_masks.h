/* The two halves of the study of masks.
 *
 * study_masks.c has the pictures and the bits, study_masks_models.c asks models which
 * of their modules have which mask.
 */
#ifndef STUDIES_STUDY_MASKS_H
#define STUDIES_STUDY_MASKS_H

#include "studies/study.h"

enum { MASKS_LONGEST = 64 }; /* of the pictures and of what models read */

attend_status masks_of_models(study_run *r);
/* Rows of width floats that differ in any bit; rows ld floats apart. */
int masks_differing(const float *a, size_t lda, const float *b, size_t ldb,
                    int rows, int width);

#endif
