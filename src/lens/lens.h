/* One head's attention problem, and its weights by bands of rows. lens.c computes bands;
 * the other files reduce them.
 *
 * A band is the weights of some rows of one head on a range of keys: as many rows as fit
 * BAND floats. Reductions process rows in order, so they do not depend on the number of
 * threads.
 */
#ifndef LENS_LENS_H
#define LENS_LENS_H

#include "attend/lens.h"
#include "attend/attention.h"
#include "base/base.h"

enum { BAND = 1 << 21 }; /* floats: what a band takes at most, or one row */

typedef struct { /* of one role */
  attend_lens_shape shape;
  attend_plan *plan; /* for one head; NULL: not made yet */
  float *column;     /* [buckets] of that head, or NULL */
  float **direct;    /* [layers * heads] of [T][M] and [T], other form only */
  int32_t length;    /* real keys */
} role_lens;

struct attend_lens {
  attend_context *ctx;
  attend_describe describe;
  void *described; /* the argument of describe */
  const attend_trace *trace;
  attend_form form; /* other */
  bool other;       /* than the run's */
  role_lens role[ATTEND_ROLES];
  float *lse; /* [T] of the current head */
  int lse_capacity;
  attend_hook *edits; /* [n_edits] of the pattern */
  int n_edits;
  attend_progress progress;
  void *user;
};

typedef struct {
  attend_head_id at;
  const int32_t *rows; /* [n], rising */
  int n;
  int key, keys;
} band;

/* Reads the place's denominators and its column of the bias; to be called before bands of it. */
attend_status lens_enter(attend_lens *l, attend_head_id at);
attend_status lens_band(attend_lens *l, const band *b, float *weights /* [n, keys] */);
/* Rows of a band over that many keys. */
static inline int band_rows(int keys) {
  int rows = BAND / (keys > 0 ? keys : 1);
  return rows > 0 ? rows : 1;
}
attend_status lens_step(const attend_lens *l, double done);

/* Which of [row, row + rows) to look at, `cells` stretches of them each with its
 * share, so that pairs with `keys` keys stay below most_pairs (0: all): a list
 * to be given back, and its length. */
attend_status lens_rows(attend_lens *l, int row, int rows, int cells, int keys, double most_pairs,
                        int32_t **list, int *n);

/* Goes over the rows of one head, on all keys, in order. f gets a row's weights, and those
 * of another lens or NULL; it must not keep them. */
typedef void (*row_visit)(int row, const float *weights, const float *others, void *with);
attend_status lens_each_row(attend_lens *l, attend_lens *other, attend_head_id at, int n,
                            const int32_t *rows, row_visit f, void *with);

/* In nats; weights that are not positive add nothing. */
double lens_entropy(const float *weights, int n);

#endif
