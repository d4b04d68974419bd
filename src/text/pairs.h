/* Pairs of neighbours: how often each occurs, where, and which is next.
 *
 * Under learn_merges.c.
 */
#ifndef TEXT_PAIRS_H
#define TEXT_PAIRS_H

#include "text/tokenizer.h"

typedef struct {
  int32_t left, right;
  int64_t count;
  uint32_t first, last; /* of its list of places; 0: empty */
} pair;

typedef struct { /* in a list of one pair, in rising order; some are stale */
  uint32_t at, next;
} pair_place;

typedef struct {
  int64_t count; /* the pair's, when it was put in */
  int32_t left, right;
  uint32_t pair;
} contender;

typedef struct {
  attend_context *ctx;
  pair *pair; /* never moves within the list */
  size_t count, capacity;
  uint32_t *slot; /* by (left, right): an index + 1, 0 is free */
  size_t slots;
  pair_place *place; /* number 0 is none */
  size_t places, place_capacity;
  uint32_t spare; /* a list of places that are free again */
  contender *heap;
  size_t contenders, heap_capacity;
} pair_table;

attend_status pairs_start(attend_context *ctx, pair_table *t);
void pairs_free(pair_table *t);

/* Adds to the count of a pair, which is made if it is not there, and `at` to its
 * places if the count grows. */
attend_status pairs_change(pair_table *t, int32_t left, int32_t right,
                           int64_t change, uint32_t at);
/* Gives the places of a pair back. */
void pairs_forget(pair_table *t, uint32_t pair);

attend_status pairs_offer(pair_table *t, uint32_t pair);
/* The most frequent pair; of equals that with the smaller ids. False: there is
 * none that occurs `least` times. */
bool pairs_best(pair_table *t, int64_t least, uint32_t *pair);

#endif
