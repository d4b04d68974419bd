/* Completing and checking a description; the rules for masks and biases. */
#ifndef ATTENTION_DESC_H
#define ATTENTION_DESC_H

#include "attend/attention.h"
#include "base/base.h"

/* Defaults for 0. */
enum { FORM_DEGREE = 2, FORM_FEATURES = 256 };
/* A state holds one row of M for each: more alone would be gigabytes. */
enum { MOST_FEATURES = 1 << 20 };

/* Whether the form reads desc.scale. */
bool form_has_scale(attend_form_kind kind);

/* attend_desc_complete for a struct of this library's size. */
attend_status desc_complete(attend_context *ctx, attend_desc *desc);

/* The defaults alone, without a check; doing it twice changes nothing. */
void desc_defaults(attend_desc *desc);

/* Numbers of the bias of a complete description; a dense one's, not broadcast. */
size_t desc_bias_count(const attend_desc *desc);

/* Checks of pointers, which may change between calls: the bias has data, and every
 * length is in [0, kv_len]. */
attend_status desc_check_pointers(attend_context *ctx, const attend_desc *desc);

/* A complete view over [batch, heads, length, width] that is written to: a
 * stride of 0 would put several elements at one address. */
attend_status desc_check_output(attend_context *ctx, const attend_desc *desc, const char *name,
                                const attend_view *view, int heads, int length, int width);

/* The position of query i among the keys. */
static inline int64_t desc_position(const attend_desc *desc, int64_t i) {
  bool bottom = desc->mask.causal == ATTEND_CAUSAL_BOTTOM;
  return i + (bottom ? (int64_t)desc->kv_len - desc->q_len : 0);
}

/* ---- features for an error: predict.c -------------------------------------------- */

/* The least multiple of 16 features with which the form (favor or fourier, its error
 * set) reaches its error on q and k of rms `spread`, at this width and scale; fails if
 * that is more than PREDICT_MOST. */
enum { PREDICT_MOST = 1 << 16, PREDICT_STEP = 16 };
attend_status predict_features(attend_context *ctx, const attend_form *form, int dim, float scale,
                               int *features);

#endif
