/* How wrong random features will be.
 *
 * desc.c asks for the number of features that an error needs; the public side is
 * attend/predict.h. predict_terms.c looks at rows, predict.c draws conclusions.
 */
#ifndef ATTENTION_PREDICT_H
#define ATTENTION_PREDICT_H

#include "attend/predict.h"
#include "base/base.h"

/* The least multiple of 16 features with which the form (favor or fourier, its
 * error set) reaches its error on q and k of rms `spread`, at this width and
 * scale; fails with a sentence if it is more than PREDICT_MOST. */
enum { PREDICT_MOST = 1 << 16, PREDICT_STEP = 16 };
attend_status predict_features(attend_context *ctx, const attend_form *form,
                               int dim, float scale, int *features);

/* ---- what rows say ------------------------------------------------------------ */

/* A relative variance by R directions is (alone + partners beside) / R, where
 * `partners` is how many directions each one is orthogonal to: see
 * predict_partners. */
typedef struct {
  double alone, beside;
} predict_variance;

/* A key of a row. */
typedef struct {
  double share;            /* of the square of the output: its weight squared */
  bool only;               /* the row sees no other key: nothing can go wrong */
  predict_variance weight; /* of its normalised weight, to first order */
  predict_variance sim;    /* of its similarity */
  predict_variance total;  /* of the row's denominator */
} predict_term;

typedef struct {
  predict_term *terms;
  size_t count;
  double pairs;
} predict_terms;

/* Looks at rows of q and k. terms is taken from the context: give it back. */
attend_status predict_look(attend_context *ctx, const attend_desc *desc,
                           attend_view q, attend_view k, predict_terms *out);

#endif
