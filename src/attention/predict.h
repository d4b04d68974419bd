/* The number of random features that an error needs: desc.c asks. */
#ifndef ATTENTION_PREDICT_H
#define ATTENTION_PREDICT_H

#include "attend/predict.h"
#include "base/base.h"

/* The least multiple of 16 features with which the form (favor or fourier, its error
 * set) reaches its error on q and k of rms `spread`, at this width and scale; fails if
 * that is more than PREDICT_MOST. */
enum { PREDICT_MOST = 1 << 16, PREDICT_STEP = 16 };
attend_status predict_features(attend_context *ctx, const attend_form *form, int dim, float scale,
                               int *features);

#endif
