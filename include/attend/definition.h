/* attend/definition.h - the equation in double: the reference implementation.
 *
 * Every form, mask and bias, one loop per sum, slow. Every engine is tested against it;
 * `attend verify` prints the difference.
 */
#ifndef ATTEND_DEFINITION_H
#define ATTEND_DEFINITION_H

#include "attend/attention.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Inputs are read in the description's dtype; outputs are contiguous double:
 * o [B,H,T,M], lse [B,H,T] (either may be NULL). */
ATTEND_API attend_status attend_definition_forward(attend_context *ctx, const attend_desc *desc,
                                                   attend_view q, attend_view k, attend_view v,
                                                   double *o, double *lse);

/* dq [B,H,T,D], dk [B,G,S,D], dv [B,G,S,M]; dbias NULL or the shape of the
 * bias: [H], [buckets,H], or contiguous [B,H,T,S] before any summing over
 * broadcast dimensions. */
ATTEND_API attend_status attend_definition_backward(attend_context *ctx, const attend_desc *desc,
                                                    attend_view q, attend_view k, attend_view v,
                                                    attend_view d_o, double *dq, double *dk,
                                                    double *dv, double *dbias);

/* weights [B,H,T,S]: sim / sum of sim, 0 where masked. */
ATTEND_API attend_status attend_definition_weights(attend_context *ctx, const attend_desc *desc,
                                                   attend_view q, attend_view k, double *weights);

/* Whether the mask lets query i of batch entry b see key j. */
ATTEND_API int attend_visible(const attend_desc *desc, int b, int64_t i, int64_t j);

#ifdef __cplusplus
}
#endif
#endif
