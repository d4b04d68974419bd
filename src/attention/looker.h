/* Writing down what is looked at: shared by the tiled and the linear engines.
 *
 * Place: attention/ - observe.c walks the rows and writes; a way to compute a
 * tile's weights (observe.c, linear_observe.c) hands them over here.
 *
 * A rank x says all of a weight: -inf where the row does not see, otherwise its
 * log2, which tells weights apart that round to the same. Where weights may be
 * negative or are not exponentials, the rank is the weight itself.
 */
#ifndef ATTENTION_LOOKER_H
#define ATTENTION_LOOKER_H

#include "attention/linear.h"

enum { TO_STATISTICS = -1, TO_EACH = -2 };

typedef struct {
  int slot; /* of the row in look->rows, or one of the above */
  int64_t width;
  int first; /* TO_EACH: slot of the tile's first row */
} sink;

static inline bool ranks_are_weights(const attend_plan *p) {
  return is_poly(p) || p->engine == &engine_linear;
}

/* Keys [start + j0, start + j1) of row r of group g: ranks x[j0 .. j1). */
void look_write(const call *c, tile g, int r, sink to, int64_t start, int j0,
                int j1, const float *x);

/* Whether the rows and keys that are asked for can be. */
attend_status check_look_rows(const call *c);

/* All keys of the tile's rows, in order. */
void linear_look_tile(const call *c, tile t, sink to, linear_scratch *w);

#endif
