/* attend/attribute.h - which tokens, heads and layers a logit comes from.
 *
 *   attend_attributor *a;
 *   attend_attributor_create(model, &a);
 *   attend_target target = {-1, -1, -1};                  the likeliest next token
 *   attend_attribute_integrated(a, &text, NULL, &target, scores, &result);
 *   attend_attributor_free(a);
 *
 * Gradients are those of training (attend/train.h), of any family and form of attention. Scores
 * are taken with respect to the residual stream before layer 0, so a token's score includes its
 * position.
 *
 * Scores of tokens are [n + n_decoder]: the encoder's, then the decoder's.
 */
#ifndef ATTEND_ATTRIBUTE_H
#define ATTEND_ATTRIBUTE_H

#include "attend/intervene.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct attend_attributor attend_attributor;

/* Holds the model's parameters as f32, with gradients. The model, which must have been made from a
 * checkpoint with a head, must outlive the attributor. */
ATTEND_API attend_status attend_attributor_create(attend_model *model,
                                                  attend_attributor **attributor);
ATTEND_API void attend_attributor_free(attend_attributor *attributor);
ATTEND_API size_t attend_attributor_bytes(const attend_attributor *attributor);

/* Of a model with a pointer-generator head the target is the log probability of one token, by
 * generating and copying, without `against`; along a path it copies from the text's own words.
 *
 * In all calls -1 in *target is replaced (attend_target_resolve), and *logit is the target's value,
 * the difference of two logits if it has `against`. */

/* Gradient x input: score of a token is the dot product of its input and the gradient there.
 * gradient: [n + n_decoder][F], or NULL; F is the wider side's width. */
ATTEND_API attend_status attend_attribute_gradient(attend_attributor *attributor,
                                                   const attend_tokens *text, attend_target *target,
                                                   float *scores, float *gradient, double *logit);

typedef struct { /* zero means default */
  size_t size;
  /* As many tokens as the text's, which stand for its absence: masks or padding, say. NULL:
   * zeros; many models' norms are ill-conditioned there */
  const attend_tokens *baseline;
  /* of the path from the baseline to the text; 0: doubled from 16 until the scores' sum is within
   * `tolerance` of the true difference, at most 1024 */
  int steps;
  float tolerance; /* 0: 0.01 */
  attend_progress progress;
  void *user;
} attend_integrated_options;

typedef struct {
  size_t size;
  double logit, baseline; /* of the text; of the baseline */
  double sum;             /* of the scores: logit - baseline, up to discretization error */
  int steps;
} attend_integrated;

/* Integrated gradients (Sundararajan et al. 2017): mean gradient on the straight path from the
 * baseline to the text, times their difference. options may be NULL. */
ATTEND_API attend_status attend_attribute_integrated(attend_attributor *attributor,
                                                     const attend_tokens *text,
                                                     const attend_integrated_options *options,
                                                     attend_target *target, float *scores,
                                                     attend_integrated *result);

/* A baseline without words: every token becomes `absent`, but for those that the tokenizer calls
 * special and the decoder's first. absent -1: the mask, padding or end token, of the tokenizer (NULL:
 * none) or the model's config; *absent remains -1 if there is none, and then ids are not written.
 * ids: [n + n_decoder], the encoder's and the decoder's. */
ATTEND_API attend_status attend_attribute_baseline(const attend_model *model,
                                                   const attend_tokenizer *tokenizer,
                                                   const attend_tokens *text, int32_t *absent,
                                                   int32_t *ids);

/* Attention weights of one role and the gradients at them, [L][H][T][S] each. Weight x gradient is
 * what a weight contributes to first order. */
ATTEND_API attend_status attend_attribute_attention(attend_attributor *attributor,
                                                    const attend_tokens *text, attend_role role,
                                                    attend_target *target, float *weights,
                                                    float *gradients, double *logit);

/* Of what attend_attribute_attention gave, for `heads` = L H heads of [queries][keys]: gradients become
 * weight x gradient. by_head [heads]: their sums; by_key [keys]: added to, over all heads. */
ATTEND_API void attend_attribute_products(int heads, int queries, int keys, const float *weights,
                                          float *gradients, float *by_head, float *by_key);

/* Direct contributions: the logit as a sum over what writes to the residual stream of the side with
 * the head, along that stream alone, with the scales of norms as constants. */
typedef struct {
  size_t size;
  double logit;
  double embedding; /* of the tokens and positions */
  double rest;      /* biases, and the head's nonlinearity: logit - all others */
  float *heads;     /* [L][H] self-attention: caller's buffer, or NULL */
  float *cross;     /* [L][H] cross-attention, likewise; 0 without */
  float *mlps;      /* [L] likewise */
} attend_direct;

ATTEND_API attend_status attend_attribute_direct(attend_attributor *attributor,
                                                 const attend_tokens *text, attend_target *target,
                                                 attend_direct *direct);

/* Logit lens: logits of the LM head applied to the residual stream before each layer and after the
 * last, at one position (-1: the last), [layers + 1][V]. */
ATTEND_API attend_status attend_logit_lens(attend_model *model, const attend_tokens *text,
                                           int position, float *logits);
/* The same at every position: the `top` likeliest tokens, best first, and their probabilities,
 * [layers + 1][rows][top] each. */
ATTEND_API attend_status attend_logit_lens_top(attend_model *model, const attend_tokens *text,
                                               int top, int32_t *tokens, float *probabilities);

#ifdef __cplusplus
}
#endif
#endif
