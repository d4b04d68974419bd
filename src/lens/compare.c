/* Distances between one head's attention in two runs, or under two forms. */
#include <math.h>

#include "lens/lens.h"

typedef struct {
  int keys;
  double distance, entropy, other_entropy;
} gap;

static void add_rows(gap *g, int n, const float *w, const float *w2) {
  for (int i = 0; i < n; i++, w += g->keys, w2 += g->keys) {
    double sum = 0;
    for (int j = 0; j < g->keys; j++) sum += fabs((double)w[j] - (double)w2[j]);
    g->distance += sum / 2;
    g->entropy += lens_entropy(w, g->keys);
    g->other_entropy += lens_entropy(w2, g->keys);
  }
}

static attend_status add_bands(attend_lens *l, attend_lens *other, attend_head_id at, int n,
                               const int32_t *rows, gap *g) {
  int most = band_rows(g->keys);
  size_t floats = (size_t)(n < most ? n : most) * (size_t)g->keys;
  float *w;
  ATTEND_TRY(take(l->ctx, 2 * floats * sizeof *w, "weights that are looked at", &w));
  attend_status status = ATTEND_OK;
  for (int i = 0; i < n && !status; i += most) {
    band b = {at, rows + i, n - i < most ? n - i : most, 0, g->keys};
    status = lens_band(l, &b, w);
    if (!status) status = lens_band(other, &b, w + floats);
    if (!status) add_rows(g, b.n, w, w + floats);
    if (!status && i + most < n) status = lens_step(l, (double)i / n);
  }
  give(l->ctx, w);
  return status;
}

static attend_status compare_outputs(attend_lens *l, attend_lens *other, attend_head_id at, int n,
                                     const int32_t *rows, double *error) {
  attend_view a, b;
  double gaps = 0, squares = 0;
  ATTEND_TRY(attend_lens_vectors(l, at, NULL, NULL, NULL, &a));
  ATTEND_TRY(attend_lens_vectors(other, at, NULL, NULL, NULL, &b));
  for (int i = 0; i < n; i++) {
    const float *x = (float *)a.data + rows[i] * a.stride[2];
    const float *y = (float *)b.data + rows[i] * b.stride[2];
    for (int j = 0; j < l->role[at.role].shape.dim_v; j++) {
      double d = (double)x[j] - (double)y[j];
      gaps += d * d;
      squares += (double)x[j] * (double)x[j];
    }
  }
  *error = squares > 0 ? sqrt(gaps / squares) : NAN;
  return ATTEND_OK;
}

attend_status attend_lens_compare(attend_lens *l, attend_lens *other, attend_head_id at,
                                  double most_pairs, attend_difference *d) {
  ATTEND_TRY(lens_enter(l, at));
  ATTEND_TRY(lens_enter(other, at));
  const attend_lens_shape *s = &l->role[at.role].shape, *o = &other->role[at.role].shape;
  ATTEND_CHECK(l->ctx, s->rows == o->rows && s->keys == o->keys && s->dim_v == o->dim_v,
               "one run has %d x %d weights, the other %d x %d: there is no "
               "difference to compute",
               s->rows, s->keys, o->rows, o->keys);
  enum { STRETCHES = 4 }; /* long ones: rows side by side share their keys */
  gap g = {.keys = s->keys};
  int32_t *rows;
  int n;
  ATTEND_TRY(lens_rows(l, 0, s->rows, STRETCHES, s->keys, most_pairs, &rows, &n));
  attend_status status = add_bands(l, other, at, n, rows, &g);
  if (!status) status = compare_outputs(l, other, at, n, rows, &d->output);
  d->distance = g.distance / n;
  d->entropy = g.entropy / n;
  d->other_entropy = g.other_entropy / n;
  d->rows_sampled = n;
  give(l->ctx, rows);
  return status;
}
