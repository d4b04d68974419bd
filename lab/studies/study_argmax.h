/* The two halves of the study of argmax.
 *
 * study_argmax.c has the example, study_argmax_train.c what training makes of a small
 * memory.
 */
#ifndef STUDIES_STUDY_ARGMAX_H
#define STUDIES_STUDY_ARGMAX_H

#include "studies/study.h"

attend_status argmax_train(study_run *r);

#endif
