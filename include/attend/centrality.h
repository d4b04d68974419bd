/* attend/centrality.h - centrality of vectors in a graph of attention, as LexRank (Erkan
 * and Radev 2004) ranks sentences.
 *
 * Vectors attend to each other, each to all but itself:
 *
 *   a_ij = w_ij / z_i,  w_ij = exp(x_i.x_j / tau),  z_i = sum_{j != i} w_ij
 *
 * The centrality of i is the stationary probability of the Markov chain a. As
 * w_ij = w_ji, it is z_i / sum z without any iteration:
 * sum_i z_i a_ij = sum_i w_ij = z_j. One pass of attention gives all z as its lse, in
 * memory linear in n.
 */
#ifndef ATTEND_CENTRALITY_H
#define ATTEND_CENTRALITY_H

#include "attend/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct { /* zero means default */
  size_t size;
  float tau;   /* temperature; 0: 0.5 */
  double jump; /* in [0, 1): probability of a jump to a uniform vector, as in
                    PageRank; with it power iteration runs, a pass of attention
                    each, until the sum of changes is below 1e-6 */
  /* Called with the completed fraction; a result other than 0 ends the call with
   * ATTEND_STOPPED. May be NULL. */
  int (*progress)(double done, void *user);
  void *user;
} attend_centrality_options;

/* x [n, dim], finite; normalise it for cosine similarity. centrality [n] sums to 1 and
 * is bit-identical for any number of threads. options may be NULL. */
ATTEND_API attend_status attend_centrality(attend_context *ctx, const float *x, int n, int dim,
                                           const attend_centrality_options *options,
                                           double *centrality);

#ifdef __cplusplus
}
#endif
#endif
