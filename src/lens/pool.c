/* Heat maps: an area of weights pooled into cells, at any level of detail; distances between
 * two runs.
 */
#include <math.h>
#include <string.h>

#include "base/parallel.h"
#include "lens/lens.h"

typedef struct {
  attend_lens *lens, *other; /* other may be NULL */
  attend_head_id at;
  const attend_area *area;
  float *cells;
  int *looked; /* [height] rows that went into each row of cells */
} pooling;

/* Cell c of `cells` holds [start(c), start(c + 1)) of n. */
static int start(int c, int n, int cells) { return (int)((int64_t)c * n / cells); }

/* The first of the band's rows that is not before `row`. */
static int first_from(const band *b, int row) {
  int low = 0, high = b->n;
  while (low < high) {
    int middle = low + (high - low) / 2;
    if (b->rows[middle] < row)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

static float larger(float a, float b) { return fabsf(b) > fabsf(a) ? b : a; }

static void pool_row(const pooling *p, int y, const float *w, const float *w2) {
  const attend_area *a = p->area;
  float *cells = p->cells + (size_t)y * (size_t)a->width;
  for (int x = 0; x < a->width; x++) {
    int from = start(x, a->keys, a->width), to = start(x + 1, a->keys, a->width);
    float max = 0;
    double sum = 0;
    for (int j = from; j < to; j++) {
      float d = w2 ? w[j] - w2[j] : w[j];
      max = larger(max, d);
      sum += (double)d;
    }
    if (a->pool == ATTEND_POOL_MAX)
      cells[x] = larger(cells[x], max);
    else if (to > from)
      cells[x] += (float)(sum / (to - from));
  }
}

typedef struct {
  const pooling *p;
  const band *b;
  const float *w, *w2;
} band_pool;

/* Rows that share a row of cells are one item, in order. */
static void pool_cells(const void *args, int64_t item, int worker) {
  const band_pool *x = args;
  const attend_area *a = x->p->area;
  size_t keys = (size_t)x->b->keys;
  int y = (int)item;
  int i = first_from(x->b, a->row + start(y, a->rows, a->height));
  int end = first_from(x->b, a->row + start(y + 1, a->rows, a->height));
  (void)worker;
  for (; i < end; i++) {
    x->p->looked[y]++;
    pool_row(x->p, y, x->w + (size_t)i * keys, x->w2 ? x->w2 + (size_t)i * keys : NULL);
  }
}

static attend_status pool_all(const pooling *p, const int32_t *rows, int n, float *w) {
  const attend_area *a = p->area;
  int max = band_rows(a->keys);
  float *w2 = p->other ? w + (size_t)max * (size_t)a->keys : NULL;
  for (int i = 0; i < n; i += max) {
    band b = {p->at, rows + i, n - i < max ? n - i : max, a->key, a->keys};
    ATTEND_TRY(lens_band(p->lens, &b, w));
    if (w2) ATTEND_TRY(lens_band(p->other, &b, w2));
    band_pool x = {p, &b, w, w2};
    PARALLEL_FOR(p->lens->ctx, p->lens->ctx->threads, a->height, pool_cells, x);
    if (i + max < n) ATTEND_TRY(lens_step(p->lens, (double)i / n));
  }
  return ATTEND_OK;
}

static void finish(const pooling *p) {
  const attend_area *a = p->area;
  if (a->pool == ATTEND_POOL_MAX) return;
  for (int y = 0; y < a->height; y++)
    for (int x = 0; x < a->width && p->looked[y]; x++)
      p->cells[y * a->width + x] /= (float)p->looked[y];
}

static attend_status check(const pooling *p) {
  const attend_area *a = p->area;
  const attend_lens_shape *s = &p->lens->role[p->at.role].shape;
  attend_context *ctx = p->lens->ctx;
  ATTEND_CHECK(ctx,
               a->row >= 0 && a->rows > 0 && a->rows <= s->rows - a->row && a->key >= 0 &&
                   a->keys > 0 && a->keys <= s->keys - a->key && a->height > 0 && a->width > 0 &&
                   a->height <= a->rows && a->width <= a->keys,
               "%d x %d cells of rows %d + %d, keys %d + %d: the head has %d rows and %d keys, "
               "and a cell holds at least one of each",
               a->height, a->width, a->row, a->rows, a->key, a->keys, s->rows, s->keys);
  if (!p->other) return ATTEND_OK;
  const attend_lens_shape *o = &p->other->role[p->at.role].shape;
  ATTEND_CHECK(ctx, o->rows == s->rows && o->keys == s->keys,
               "one run has %d x %d weights, the other %d x %d: there is no difference to compute",
               s->rows, s->keys, o->rows, o->keys);
  return ATTEND_OK;
}

attend_status attend_lens_pool(attend_lens *l, attend_head_id at, const attend_area *a,
                               attend_lens *other, float *cells, int *rows_sampled) {
  pooling p = {l, other, at, a, cells, NULL};
  int32_t *rows = NULL;
  float *w = NULL;
  int n = 0;
  ATTEND_TRY(lens_enter(l, at));
  if (other) ATTEND_TRY(lens_enter(other, at));
  ATTEND_TRY(check(&p));
  memset(cells, 0, (size_t)a->height * (size_t)a->width * sizeof *cells);
  ATTEND_TRY(ctx_alloc_zeroed(l->ctx, (size_t)a->height * sizeof *p.looked, "cells", &p.looked));
  attend_status status =
      lens_rows(l, a->row, a->rows, a->height, a->keys, a->most_pairs, &rows, &n);
  size_t max = (size_t)band_rows(a->keys) * (size_t)a->keys;
  if (!status)
    status = ctx_alloc(l->ctx, (other ? 2 : 1) * max * sizeof *w, "weights that are looked at", &w);
  if (!status) status = pool_all(&p, rows, n, w);
  if (!status) finish(&p);
  if (rows_sampled) *rows_sampled = n;
  ctx_free(l->ctx, w);
  ctx_free(l->ctx, rows);
  ctx_free(l->ctx, p.looked);
  return status;
}

/* ---- distances between one head's attention in two runs, or under two forms ------ */

typedef struct {
  int keys;
  double distance, entropy, other_entropy;
} gap;

static void add_row(int row, const float *w, const float *w2, void *with) {
  gap *g = with;
  double sum = 0;
  (void)row;
  for (int j = 0; j < g->keys; j++) sum += fabs((double)w[j] - (double)w2[j]);
  g->distance += sum / 2;
  g->entropy += lens_entropy(w, g->keys);
  g->other_entropy += lens_entropy(w2, g->keys);
}

static attend_status compare_outputs(attend_lens *l, attend_lens *other, attend_head_id at, int n,
                                     const int32_t *rows, double *error) {
  attend_view a, b;
  double gaps = 0, squares = 0;
  *error = NAN;
  int width = l->role[at.role].shape.dim_v;
  if (!width || width != other->role[at.role].shape.dim_v) return ATTEND_OK;
  ATTEND_TRY(attend_lens_vectors(l, at, NULL, NULL, NULL, &a));
  ATTEND_TRY(attend_lens_vectors(other, at, NULL, NULL, NULL, &b));
  for (int i = 0; i < n; i++) {
    const float *x = (float *)a.data + rows[i] * a.stride[2];
    const float *y = (float *)b.data + rows[i] * b.stride[2];
    for (int j = 0; j < width; j++) {
      double d = (double)x[j] - (double)y[j];
      gaps += d * d;
      squares += (double)x[j] * (double)x[j];
    }
  }
  if (squares > 0) *error = sqrt(gaps / squares);
  return ATTEND_OK;
}

attend_status attend_lens_compare(attend_lens *l, attend_lens *other, attend_head_id at,
                                  double most_pairs, attend_difference *d) {
  ATTEND_TRY(lens_enter(l, at));
  ATTEND_TRY(lens_enter(other, at));
  const attend_lens_shape *s = &l->role[at.role].shape, *o = &other->role[at.role].shape;
  ATTEND_CHECK(l->ctx, s->rows == o->rows && s->keys == o->keys,
               "one run has %d x %d weights, the other %d x %d: there is no difference to compute",
               s->rows, s->keys, o->rows, o->keys);
  enum { STRETCHES = 4 }; /* long ones: rows side by side share their keys */
  gap g = {.keys = s->keys};
  int32_t *rows;
  int n;
  ATTEND_TRY(lens_rows(l, 0, s->rows, STRETCHES, s->keys, most_pairs, &rows, &n));
  attend_status status = lens_each_row(l, other, at, n, rows, add_row, &g);
  if (!status) status = compare_outputs(l, other, at, n, rows, &d->output);
  d->distance = g.distance / n;
  d->entropy = g.entropy / n;
  d->other_entropy = g.other_entropy / n;
  d->rows_sampled = n;
  ctx_free(l->ctx, rows);
  return status;
}
