/* Writing down what is looked at: shared by the tiled and the linear engines.
 *
 * observe.c walks the rows and writes; a looker (observe.c, linear_observe.c) computes
 * a tile's weights and hands them over here.
 *
 * A rank x says all of a weight: -inf where the row does not see, otherwise its
 * log2, which tells weights apart that round to the same. Where weights may be
 * negative or are not exponentials, the rank is the weight itself.
 */
#ifndef ATTENTION_LOOKER_H
#define ATTENTION_LOOKER_H

#include "attention/linear.h"
#include "attention/tile.h"

enum { TO_STATISTICS = -1, TO_EACH = -2 };

typedef struct {
  int slot; /* of the row in look->rows, or one of the above */
  int64_t width;
  int first; /* TO_EACH: slot of the tile's first row */
} sink;

static inline bool ranks_are_weights(const attend_plan *p) {
  return is_poly(p) || p->engine->by_sums;
}

/* Keys [start + j0, start + j1) of row r of group g: ranks x[j0 .. j1). */
void look_write(const call *c, tile g, int r, sink to, int64_t start, int j0,
                int j1, const float *x);

/* Whether the rows and keys that are asked for can be. */
attend_status check_look_rows(const call *c);

/* A thread's own. */
typedef union {
  scratch tiled;
  linear_scratch linear;
} looker_room;

/* How weights are computed. */
typedef struct {
  void (*open)(const attend_plan *p, int thread, looker_room *w);
  /* All keys of the tile's rows, in order. */
  void (*tile)(const call *c, tile t, sink to, looker_room *w);
} looker;

/* What c->look asks for, with the weights of a looker. */
attend_status look_at(call *c, const looker *by);

#endif
