/* attend/centrality.h - which of many vectors the others attend to.
 *
 * Vectors attend to each other, each to all but itself:
 *
 *   a_ij = w_ij / z_i,  w_ij = exp(x_i.x_j / tau),  z_i = sum_{j != i} w_ij
 *
 * Where attention goes, step by step, is a walk; the share of steps in which it
 * is at i is the centrality of i. As w_ij = w_ji, that share is z_i / sum z and
 * needs no iteration: sum_i z_i a_ij = sum_i w_ij = z_j. One pass of attention
 * gives all, its lse, in memory in proportion to n.
 */
#ifndef ATTEND_CENTRALITY_H
#define ATTEND_CENTRALITY_H

#include "attend/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct { /* zero means default */
  float tau;     /* 0: 0.5. Small: only the nearest count; large: all alike */
  double jump;   /* in [0, 1): share of steps that go anywhere, as PageRank's;
                    with it the share is found by iteration, a pass of attention
                    each, until the sum of changes is below 1e-6 */
  /* Called between pieces of work, with the share of the passes that is done;
   * other than 0 ends it with ATTEND_STOPPED. May be NULL. */
  int (*progress)(double done, void *user);
  void *user;
} attend_centrality_options;

/* x [n, dim], finite; lengths are the caller's, 1 for cosines. centrality [n],
 * sums to 1; the same bits for any number of threads. options may be NULL. */
ATTEND_API attend_status
attend_centrality(attend_context *ctx, const float *x, int n, int dim,
                  const attend_centrality_options *options, double *centrality);

#ifdef __cplusplus
}
#endif
#endif
