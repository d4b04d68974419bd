/* Rows of a pointer-generator head (See et al. 2017): tokens are copied from the input or
 * generated from the vocabulary. model/copy_head.c runs it, train/accumulate.c trains it.
 *
 *   p(v) = (1 - c) softmax(logits)_v + c sum_j a_j [id_j = v]
 *
 * a is attention over the input tokens and c = 1 / (1 + e^-gate) the probability of
 * copying.
 */
#ifndef LAYERS_COPY_H
#define LAYERS_COPY_H

#include "layers/layers.h"

/* The second half of a key is that of the token before, so that the token just written
 * finds its successor in the text (as an induction head does), and a name of several
 * tokens is copied token by token. keys [n][ld]: shifts the second half of the width by
 * one row; the first row takes that of before [ld], or zeros. */
void copy_lag(int n, int width, int ld, const float *before, float *keys);

typedef struct { /* the input tokens; n 0: none, then c is 0 */
  int n;
  const float *keys;    /* [n][ld], whole lanes, zeros beyond the width */
  const float *extra;   /* [n] added to the scores, or NULL */
  const int32_t *ids;   /* [n] */
  const int32_t *first; /* [n] where each id comes first; for copy_mix alone */
} copy_text;

/* weight[n] = softmax_j(q . k_j + extra_j), q [ld] scaled already. */
void copy_weigh(const attend_context *ctx, const copy_text *t, int ld, const float *q,
                float *weight);

/* logits <- log p. Destroys the weights. */
void copy_mix(const attend_context *ctx, const copy_text *t, float gate, float *weight, int vocab,
              float *logits);

#endif
