/* attend/observe.h - looking at attention without ever storing T x S weights.
 *
 * Weights are recomputed as exp(score - lse), for linear forms as phi(q).phi(k)
 * over the denominator, for what was asked and nothing else; forward's outputs
 * have the same bits whether anyone looks or not.
 */
#ifndef ATTEND_OBSERVE_H
#define ATTEND_OBSERVE_H

#include "attend/state.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Weights of one query on keys that follow each other; 0 where it does not
 * see. */
typedef struct {
  int b, h, row;
  int slot; /* of the row in look->rows; where all are looked at, the row */
  int key, n;
  const float *weights; /* [n] for keys [key, key + n) */
} attend_weight_span;

typedef struct { /* NULL or 0: not asked for */
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
  /* Of every query's weights, in nats. */
  float *entropy; /* [B,H,T]                                  */
  /* The weight every key receives, summed over the queries of a head. */
  float *mass; /* [B,H,S]                                     */
  /* How far a linear form's weights are from exact softmax's: half the sum of
   * |difference| over a row's keys, 0 the same, 1 disjoint (more, if weights
   * are negative). */
  float *softmax_gap; /* [B,H,T]                              */
  /* Every weight once, stretch by stretch and never stored: of `rows` if there
   * are any (weights must be NULL then; in any order), else of all queries; of
   * keys [key_from, key_to) alone, where key_to 0 means to the last. Called by
   * several threads at once, for one row by one thread and in the order of its
   * keys. Stretches in which nothing is seen may be left out. */
  void (*each)(const attend_weight_span *stretch, void *user);
  void *user;
  int64_t key_from, key_to;
} attend_observation;

/* q, k and lse as attend_forward took and gave them. */
ATTEND_API attend_status attend_observe(attend_plan *plan, attend_view q,
                                        attend_view k, const float *lse,
                                        const attend_observation *look);

/* The same over a state: n queries at its last n positions, as
 * attend_state_query places them; S is the longest sequence's length. */
ATTEND_API attend_status attend_state_observe(attend_plan *plan,
                                              attend_state *state, int n,
                                              attend_view q, const float *lse,
                                              const attend_observation *look);

#ifdef __cplusplus
}
#endif
#endif
