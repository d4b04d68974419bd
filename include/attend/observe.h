/* attend/observe.h - attention weights and statistics without a T x S matrix.
 *
 * Weights are recomputed as exp(score - lse), for linear forms as phi(q).phi(k) over the
 * denominator, and only those that are requested. Forward's outputs do not change.
 */
#ifndef ATTEND_OBSERVE_H
#define ATTEND_OBSERVE_H

#include "attend/state.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Weights of one query on consecutive keys; 0 where masked. */
typedef struct {
  int b, h, row;
  int slot; /* index of the row in rows; without rows, the row */
  int key, n;
  const float *weights; /* [n] for keys [key, key + n) */
} attend_weight_span;

typedef struct { /* NULL or 0: not requested */
  size_t size;
  /* Whole rows: the weights of n_rows queries (the same positions in every
   * head) over all S keys. */
  const int32_t *rows; /* [n_rows], each in [0, T)            */
  int n_rows;
  float *weights; /* [B,H,n_rows,S]                           */
  /* The heaviest keys of every query, heaviest first, ties by position; index
   * -1 and weight 0 where fewer are visible. */
  int top;
  int32_t *top_index; /* [B,H,T,top]                          */
  float *top_weight;  /* [B,H,T,top]                          */
  /* Entropy of every query's weights, in nats. */
  float *entropy; /* [B,H,T]                                  */
  /* The weight every key receives, summed over the queries of a head. */
  float *mass; /* [B,H,S]                                     */
  /* Total variation distance of a linear form's weights from exact softmax's: half
   * the sum of |difference| over a row's keys, 0 equal, 1 disjoint (more with negative
   * weights). */
  float *softmax_gap; /* [B,H,T]                              */
  /* Called with every weight once, in spans of keys: for `rows` if there are any
   * (weights must be NULL then; in any order), else for all queries; for keys
   * [key_from, key_to) only, key_to 0: to the last. Called by several threads at once;
   * one row by one thread, in the order of its keys. Fully masked spans may be
   * skipped. */
  void (*each)(const attend_weight_span *span, void *user);
  void *user;
  int64_t key_from, key_to;
} attend_observation;

/* q, k and lse as attend_forward read and wrote them. */
ATTEND_API attend_status attend_observe(attend_plan *plan, attend_view q, attend_view k,
                                        const float *lse, const attend_observation *observation);

/* The same over a state: n queries at its last n positions, as in attend_state_query; S
 * is the length of the longest sequence. */
ATTEND_API attend_status attend_state_observe(attend_plan *plan, attend_state *state, int n,
                                              attend_view q, const float *lse,
                                              const attend_observation *observation);

#ifdef __cplusplus
}
#endif
#endif
