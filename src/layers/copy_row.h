/* Rows of a head that copies: words that were read, beside the vocabulary.
 *
 * Between the products of a copy head and its log probabilities or its loss;
 * model/copying.c runs it, train/learn_study.c learns it.
 *
 *   p(v) = (1 - c) softmax(logits)_v + c sum_j a_j [id_j = v]
 *
 * a is attention over what was read, whose values are the words themselves, and
 * c = 1 / (1 + e^-gate) says how much of it there is.
 */
#ifndef LAYERS_COPY_ROW_H
#define LAYERS_COPY_ROW_H

#include "layers/layers.h"

/* Half of a key is of the word before: what was just written then finds what came
 * after it in the text, and a name that is cut into pieces is copied piece by piece.
 * keys [n][ld]: the later half of their width moves on by a row; the first takes
 * that of before [ld], or zeros. */
void copy_lag(int n, int width, int ld, const float *before, float *keys);
/* The same for gradients, on their way back. */
void copy_lag_back(int n, int width, int ld, float *d_keys);

typedef struct { /* what may be copied; n 0: nothing, then c is 0 */
  int n;
  const float *keys;    /* [n][ld], whole lanes, zeros beyond the width */
  const float *extra;   /* [n] added to the scores, or NULL */
  const int32_t *ids;   /* [n] */
  const int32_t *first; /* [n] where each id comes first; for copy_mix alone */
} copy_text;

/* weight[n] = softmax_j(q . k_j + extra_j), q [ld] scaled already. */
void copy_weigh(const attend_context *ctx, const copy_text *t, int ld,
                const float *q, float *weight);

/* logits <- log p. The weights are lost. */
void copy_mix(const attend_context *ctx, const copy_text *t, float gate,
              float *weight, int vocab, float *logits);

/* The loss of a word,
 *   -(1 - smoothing) log p(right) - smoothing / V sum_v log softmax(logits)_v,
 * and scale times its gradients: of the logits and of the scores q . k_j in place
 * of logits and weights, and of the gate. */
typedef struct {
  int32_t right;
  float smoothing, scale;
} copy_aim;
float copy_back(const attend_context *ctx, const copy_text *t, copy_aim aim,
                float gate, float *dgate, float *weight, int vocab,
                float *logits);

#endif
