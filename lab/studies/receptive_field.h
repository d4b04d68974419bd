/* The two halves of the study of receptive fields.
 *
 * study_receptive_field.c has heads that look where they are told,
 * study_receptive_field_model.c the heads of a model.
 */
#ifndef STUDIES_RECEPTIVE_FIELD_H
#define STUDIES_RECEPTIVE_FIELD_H

#include "studies/study.h"

attend_status receptive_field_of_model(study_run *r);

#endif
