/* Centrality of vectors by attention: LexRank (Erkan and Radev 2004) on a softmax graph,
 * through the public attention calls.
 *
 * A vector does not attend to itself, and no mask has a hole: the keys before a vector
 * are one causal problem shifted by one, those after it another on the reversed
 * vectors, and their denominators add up. Subtracting exp(x_i.x_i / tau) from a full
 * row would leave rounding error for small tau.
 *
 * A^T y, one step of the power iteration with jumps, is a forward pass too: w is
 * symmetric, so (A^T y)_i = sum_j w_ij y_j / z_j = z_i sum_j a_ij (y_j / z_j).
 */
#include "attend/extract.h"

#include <math.h>
#include <string.h>

#include "attend/attention.h"
#include "base/base.h"
#include "base/options.h"

enum {
  ROWS = 2048,  /* of a call: progress is reported between calls */
  STEPS = 1000, /* limit of the power iteration */
  SIDES = 2     /* keys before, keys after */
};
static const double SETTLED = 1e-6;

typedef struct {
  attend_context *ctx;
  const attend_centrality_options *o;
  int n, dim;
  const float *x[SIDES]; /* [n, dim], as given and in reverse */
  float *v[SIDES];       /* [n] values, in the order of the side */
  float *out[SIDES], *lse[SIDES];
  double *logz, *next; /* [n] */
  double max;          /* the largest logz */
  double done;         /* passes */
  double passes;       /* expected */
} ranking;

/* ---- a pass ---------------------------------------------------------------------- */

static attend_status report(ranking *w, double part) {
  if (!w->o->progress) return ATTEND_OK;
  w->done += part;
  double share = w->done / w->passes;
  if (!w->o->progress(share < 1 ? share : 1, NULL, w->o->user)) return ATTEND_OK;
  return fail(w->ctx, ATTEND_STOPPED, "stopped by the caller");
}

/* Rows [a, b) attend to all keys before them. */
static attend_status attend_before(ranking *w, int side, int a, int b) {
  attend_desc d = {ATTEND_INIT(attend_desc), .q_len = b - a, .kv_len = b - 1, .dim = w->dim,
                   .dim_v = 1};
  attend_plan *plan = NULL;
  d.scale = 1.0f / (w->o->tau > 0 ? w->o->tau : 0.5f);
  d.mask.causal = ATTEND_CAUSAL_BOTTOM;
  ATTEND_TRY(attend_plan_create(w->ctx, &d, &plan));
  const float *q = w->x[side] + (size_t)a * (size_t)w->dim;
  attend_status status =
      attend_forward(plan, attend_bhtd_input(q), attend_bhtd_input(w->x[side]),
                     attend_bhtd(w->v[side]), attend_bhtd(w->out[side] + a), w->lse[side] + a);
  attend_plan_free(plan);
  return status;
}

static attend_status pass(ranking *w) {
  double pairs = (double)w->n * (double)w->n;
  for (int side = 0; side < SIDES; side++)
    for (int a = 0; a < w->n; a += ROWS) {
      int b = w->n - a < ROWS ? w->n : a + ROWS;
      ATTEND_TRY(attend_before(w, side, a, b));
      ATTEND_TRY(report(w, ((double)b * b - (double)a * a) / pairs / SIDES));
    }
  return ATTEND_OK;
}

/* ---- power iteration ------------------------------------------------------------- */

static double add_logs(double a, double b) {
  double max = a > b ? a : b;
  return max == -INFINITY ? max : max + log(exp(a - max) + exp(b - max));
}

/* Denominators of both sides together. */
static void join_sides(ranking *w) {
  w->max = -INFINITY;
  for (int i = 0; i < w->n; i++) {
    w->logz[i] = add_logs((double)w->lse[0][i], (double)w->lse[1][w->n - 1 - i]);
    if (w->logz[i] > w->max) w->max = w->logz[i];
  }
}

static void stationary(const ranking *w, double *centrality) {
  double sum = 0;
  for (int i = 0; i < w->n; i++) {
    centrality[i] = w->n > 1 ? exp(w->logz[i] - w->max) : 1;
    sum += centrality[i];
  }
  for (int i = 0; i < w->n; i++) centrality[i] /= sum;
}

static void put_values(ranking *w, const double *y) {
  for (int i = 0; i < w->n; i++) {
    float v = (float)(y[i] * exp(w->max - w->logz[i]));
    w->v[0][i] = w->v[1][w->n - 1 - i] = v;
  }
}

/* z_i sum_j a_ij v_j over exp(most), both sides. */
static double step_to(const ranking *w, int i) {
  double sum = 0;
  for (int side = 0; side < SIDES; side++) {
    int at = side ? w->n - 1 - i : i;
    sum += exp((double)w->lse[side][at] - w->max) * (double)w->out[side][at];
  }
  return sum;
}

/* One step; *change is the sum of |differences|. */
static attend_status step(ranking *w, double *y, double *change) {
  double sum = 0, jump = w->o->jump;
  put_values(w, y);
  ATTEND_TRY(pass(w));
  for (int i = 0; i < w->n; i++) {
    w->next[i] = (1 - jump) * step_to(w, i) + jump / w->n;
    sum += w->next[i];
  }
  *change = 0;
  for (int i = 0; i < w->n; i++) {
    double now = w->next[i] / sum;
    *change += fabs(now - y[i]);
    y[i] = now;
  }
  return ATTEND_OK;
}

static attend_status iterate(ranking *w, double *y) {
  double change = 1;
  for (int i = 0; i < STEPS && change > SETTLED; i++) ATTEND_TRY(step(w, y, &change));
  return ATTEND_OK;
}

static attend_status run(ranking *w, double *centrality) {
  double stay = 1 - w->o->jump; /* the error shrinks by it at each step */
  w->passes = stay < 1 ? 2 + log(SETTLED) / log(stay) : 1;
  ATTEND_TRY(pass(w));
  join_sides(w);
  ATTEND_CHECK(w->ctx, w->n < 2 || isfinite(w->max),
               "the products of the vectors over tau are not finite: choose a "
               "larger tau, or shorter vectors");
  stationary(w, centrality);
  return w->o->jump > 0 && w->n > 1 ? iterate(w, centrality) : ATTEND_OK;
}

/* ---- the public call ------------------------------------------------------------- */

static attend_status check(attend_context *ctx, const float *x, size_t count, int n, int dim,
                           const attend_centrality_options *o) {
  ATTEND_CHECK(ctx, n >= 0 && dim >= 1, "%d vectors of width %d: give a width of at least 1", n,
               dim);
  ATTEND_CHECK(ctx, o->tau >= 0 && isfinite(o->tau), "tau is %g: choose a number above 0",
               (double)o->tau);
  ATTEND_CHECK(ctx, o->jump >= 0 && o->jump < 1, "jump is %g: choose a share from 0 to below 1",
               o->jump);
  for (size_t i = 0; i < count; i++)
    ATTEND_CHECK(ctx, isfinite(x[i]), "vector %zu is not finite", i / (size_t)dim);
  return ATTEND_OK;
}

/* Called twice: for the size, and to lay out the block. */
static size_t cut(ranking *w, arena a) {
  size_t n = (size_t)w->n, row = size_times((size_t)w->dim, sizeof(float));
  w->x[1] = arena_cut(&a, size_times(n, row));
  for (int side = 0; side < SIDES; side++) {
    w->v[side] = arena_cut(&a, size_times(n, sizeof(float)));
    w->out[side] = arena_cut(&a, size_times(n, sizeof(float)));
    w->lse[side] = arena_cut(&a, size_times(n, sizeof(float)));
  }
  w->logz = arena_cut(&a, size_times(n, sizeof(double)));
  w->next = arena_cut(&a, size_times(n, sizeof(double)));
  return a.used;
}

attend_status attend_centrality(attend_context *ctx, const float *x, int n, int dim,
                                const attend_centrality_options *options, double *centrality) {
  attend_centrality_options o;
  ranking w = {.ctx = ctx, .o = &o, .n = n, .dim = dim};
  size_t count = n > 0 && dim > 0 ? (size_t)n * (size_t)dim : 0;
  void *block = NULL;
  ATTEND_TRY(OPTIONS_READ(ctx, attend_centrality_options, options, &o));
  ATTEND_TRY(check(ctx, x, count, n, dim, w.o));
  if (n == 0) return ATTEND_OK;
  ATTEND_TRY(ctx_alloc_zeroed(ctx, cut(&w, (arena){0}), "vectors in reverse", &block));
  cut(&w, (arena){block, 0});
  float *reverse = block; /* the first in the layout */
  for (size_t i = 0, row = (size_t)dim; i < (size_t)n; i++)
    memcpy(reverse + ((size_t)n - 1 - i) * row, x + i * row, row * sizeof *x);
  w.x[0] = x;
  attend_status status = run(&w, centrality);
  ctx_free(ctx, block);
  return status;
}
