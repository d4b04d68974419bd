/* attend/predict.h - the expected error of random features, without running them.
 *
 *   attend_prediction p;
 *   attend_predict(ctx, &desc, q, k, 0.05, &p);          from tensors
 *   attend_predict_spread(ctx, &desc, 0.35, 0.05, &p);   from their scale alone
 *   p.error      expected relative error of the output
 *   p.features   number of features for the target error
 *
 * The error is |o' - o| / |o| over the whole output, o' by random features and o
 * exactly (softmax; the Gaussian kernel for form gaussian), in the root mean
 * square over seeds, for values that are independent of the keys and have mean
 * zero. A common part of the values adds to o without error, so the relative error is
 * smaller then.
 *
 * For one pair with x = sqrt(scale) q, y = sqrt(scale) k the estimate of
 * exp(x.y) by m features has a relative variance that is known:
 *   favor            (exp(|x+y|^2) - 1) / m
 *   favor, pairs     (exp(|x+y|^2) - 1) (1 - exp(-|x+y|^2)) / m
 *   fourier          exp(|x-y|^2) (1 - exp(-|x-y|^2))^2 / m
 * and the covariance of two keys of a row is known too. With the row's weights p_j the
 * first order of the error follows: sum_j p_j^2 Var(e_j - sum_l p_l e_l) /
 * sum_j p_j^2, e_j the relative error of key j. Errors common to all keys
 * of a row cancel, and a row with a single key has no error. Orthogonal directions
 * reduce the variance: little for favor where |x+y| is large, most of it for fourier
 * and pairs where it is small.
 *
 * Where the first order is not small, a correction with fitted constants applies. Its
 * accuracy was measured on other draws of everything: widths 8 to 64, 64 to 4096 features, iid and orthogonal, rms 0.35
 * to 2 of q and k.
 *   4, 16 or 96 keys: of 790 cases with an error below 0.5 none was predicted
 *     wrong by more than a factor of 2 (favor 0.61 to 1.92 times the measured
 *     error, fourier 0.76 to 1.60). Of 938 with a larger one, 12 were predicted
 *     below 0.5; most lay near it, but a fourier error of 2.2 was predicted as 0.28.
 *   2 keys: 17 of 373 were wrong by more (favor up to 2.5 times too large,
 *     fourier as little as 0.37 of it), and of 203 large ones, all of those 7
 *     that were missed were fourier's, one of 3.1 predicted as 0.19.
 * fourier's are missed because its mean square comes from rare denominators near
 * zero. A prediction above 0.5 means only that the error is large: favor's is
 * never predicted above 0.71, although it may reach several times |o|.
 *
 * The number of keys matters little beyond a few dozen, and much below: the fewer
 * there are, the more of a row's error is common to them and cancels.
 */
#ifndef ATTEND_PREDICT_H
#define ATTEND_PREDICT_H

#include "attend/attention.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
  double variance; /* of first order, times features: the error would be
                      sqrt(variance / features) if it stayed small; at most
                      1e300 */
  double error;    /* expected relative error of the output with the form's
                      features                                            */
  double features; /* for the target error, at least 16; a multiple of 16 if
                      affordable, otherwise an order of magnitude         */
  int affordable;  /* whether that many are at most 65,536                */
  double pairs;    /* (query, key) pairs that were sampled                */
} attend_prediction;

/* desc: favor, fourier, or gaussian with features; masks and biases apply. q [B,H,T,D]
 * and k [B,G,S,D] in the description's dtype. Samples a fixed choice of rows, each with
 * all keys that it sees: all rows up to 100,000 pairs. target: the relative error to
 * choose features for; values above 0.5 count as 0.5. */
ATTEND_API attend_status attend_predict(attend_context *ctx, const attend_desc *desc, attend_view q,
                                        attend_view k, double target, attend_prediction *out);
/* The same for q and k of independent normal elements with root mean square
 * `spread`, no mask, and the description's kv_len up to 256 (0: 256). */
ATTEND_API attend_status attend_predict_spread(attend_context *ctx, const attend_desc *desc,
                                               double spread, double target,
                                               attend_prediction *out);

#ifdef __cplusplus
}
#endif
#endif
