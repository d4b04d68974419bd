/* Feature maps: x -> phi(x) with sim(q, k) = phi(q).phi(k).
 *
 * Made with a plan whose form is linear; the linear engine maps tiles of rows with it.
 *
 * Exponentials are kept in range by powers of two: phi(x) is the computed row times
 * 2^shift, an integer shift for each row (0 for maps without exponentials). Because
 * shifts are integers, rescaling changes no bits.
 */
#ifndef ATTENTION_FEATURES_H
#define ATTENTION_FEATURES_H

#include "attend/attention.h"
#include "base/base.h"

typedef enum {
  MAP_NONE,
  MAP_POLY,     /* monomials up to the degree; keys carry the coefficients */
  MAP_ELU,      /* elu(x) + 1 */
  MAP_POSITIVE, /* 2^(w.x - norm |x|^2), w in units of log2 */
  MAP_TRIG,     /* 2^(norm |x|^2) (cos w.x, sin w.x), w in revolutions */
  MAP_CALLER
} map_kind;

typedef struct {
  map_kind kind;
  int count;              /* C */
  int ld;                 /* floats of a row, whole lanes; those beyond C are 0.
                        With pairs, and for sines, each half fills lanes */
  int dirs, ld_dirs;      /* random directions, and in whole lanes */
  bool pairs;             /* MAP_POSITIVE: 2^(w.x), then 2^(-w.x) */
  bool shifts;            /* rows have a shift */
  double unit;            /* from drawn directions to w */
  float norm;             /* norm |x|^2 is log2 of what divides a row */
  double log_factor;      /* log of the 1 / n of an average, left out of features */
  float *w, *w_t;         /* [dirs][ldk] directions, and [D][ld_dirs] */
  float *drawn;           /* [dirs][D], as they were drawn */
  float *coef;            /* [ld] MAP_POLY: of keys */
  int32_t *start;         /* [degree][D+1]: see kernels/cpu/maps.c */
  int32_t *first, *power; /* [C], while coefficients are made: the first */
  double *inverse;        /* variable of a monomial and its exponent */
  void *block;
} feature_map;

/* The map of a complete description; MAP_NONE where the form has none. */
attend_status features_make(attend_context *ctx, const attend_desc *d, feature_map *map);
/* The ld of a description's map; 0 if it has none. */
int features_row(const attend_desc *d);
void features_free(const attend_context *ctx, feature_map *map);
/* Draws the directions by the form's seed and redraw. */
attend_status features_draw(attend_context *ctx, const attend_desc *d, feature_map *map);

/* Rows [n][ldk], zero beyond D, to phi [n][ld] and shift [n]. key: which side.
 * work: features_work floats. */
size_t features_work(const feature_map *map, int n);
void features_rows(const attend_plan *p, bool key, int n, const float *x, float *phi, float *shift,
                   float *work);
/* dx [n][ldk] from dphi [n][ld], the derivative by the row as it is computed
 * (its shift a constant); dphi is used up. */
void features_backward(const attend_plan *p, bool key, int n, const float *x, const float *phi,
                       float *dphi, float *dx, float *work);

/* Standard normal directions w [dirs][dim], iid or orthogonal in blocks of dim
 * whose lengths are those of normal vectors. The same floats on every machine. */
attend_status projection_draw(attend_context *ctx, const attend_form *form, int dirs, int dim,
                              float *w);
/* Temporary bytes of projection_draw. */
size_t projection_scratch(const attend_form *form, int dirs, int dim);

/* The number of random directions of a complete form. */
int form_directions(const attend_form *form);

#endif
