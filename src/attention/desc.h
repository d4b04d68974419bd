/* A description, complete and checked, and the rules it states.
 *
 * Opens every plan, the definition and every problem.
 */
#ifndef ATTENTION_DESC_H
#define ATTENTION_DESC_H

#include "attend/attention.h"
#include "base/base.h"

/* What 0 means. */
enum { FORM_DEGREE = 2, FORM_FEATURES = 256 };

/* Whether the form reads desc.scale. */
bool form_has_scale(attend_form_kind kind);

/* The defaults alone, without a check; doing it twice changes nothing. */
void desc_defaults(attend_desc *desc);

/* Numbers of the bias of a complete description; a dense one's, not broadcast. */
size_t desc_bias_count(const attend_desc *desc);

/* What attend_desc_complete cannot know because pointers may change between
 * calls: the bias has its numbers, and every length lies in [0, kv_len]. */
attend_status desc_check_pointers(attend_context *ctx, const attend_desc *desc);

/* A complete view over [batch, heads, length, width] that is written to: a
 * stride of 0 would put several elements at one address. */
attend_status desc_check_output(attend_context *ctx, const attend_desc *desc,
                                const char *name, const attend_view *view,
                                int heads, int length, int width);

/* Where query i stands among the keys. */
static inline int64_t desc_position(const attend_desc *desc, int64_t i) {
  bool bottom = desc->mask.causal == ATTEND_CAUSAL_BOTTOM;
  return i + (bottom ? (int64_t)desc->kv_len - desc->q_len : 0);
}

#endif
