/* Cross entropy of logits with label smoothing, and its gradient. The largest logit is
 * subtracted before the exponentials; the sum and its logarithm are in double.
 */
#include <math.h>
#include <string.h>

#include "layers/layers.h"

typedef struct { /* a row as the loss sees it */
  const attend_context *ctx;
  int n;
  float smoothing;
  const float *x;
  int32_t right;
} logits;

/* -sum_j q_j log p_j, q = 1 - smoothing for the right one and smoothing / n for
 * each. */
static float row_loss(const logits *l, int at, double sum) {
  double most = (double)l->x[at], s = (double)l->smoothing;
  double right = most - (double)l->x[l->right];
  if (s == 0) return (float)(log(sum) + right);
  double mean = -l->ctx->kernels->sum_less(l->n, l->x, l->x[at]) / l->n;
  return (float)(log(sum) + (1 - s) * right + s * mean);
}

static float loss_of(const logits *l, int32_t *best) {
  int at = l->ctx->kernels->largest_at(l->n, l->x);
  if (best) *best = at;
  if (l->right < 0) return 0.0f;
  if (l->right >= l->n) return NAN; /* no such class: better seen than averaged */
  return row_loss(l, at, l->ctx->kernels->sum_exp(l->n, l->x, l->x[at]));
}

typedef struct {
  const attend_context *ctx;
  int rows, parts, n, ldx;
  const float *x;
  const int32_t *targets;
  float smoothing, scale;
  float *loss;
  int32_t *best;
  float *dx; /* backward */
  int lddx;
} entropy;

static logits row_of(const entropy *e, int r) {
  return (logits){e->ctx, e->n, e->smoothing, e->x + (size_t)r * (size_t)e->ldx, e->targets[r]};
}

static void loss_part(const void *args, int64_t p, int worker) {
  const entropy *e = args;
  (void)worker;
  for (int r = part_begin(e->rows, e->parts, p); r < part_begin(e->rows, e->parts, p + 1); r++) {
    logits l = row_of(e, r);
    e->loss[r] = loss_of(&l, e->best ? e->best + r : NULL);
  }
}

void attend_cross_entropy_smooth(attend_context *ctx, int rows, int n, const float *x, int ldx,
                                 const int32_t *targets, float smoothing, float *loss,
                                 int32_t *best) {
  int parts = parts_of(ctx, rows, (double)rows * n * 2);
  entropy e = {.ctx = ctx,
               .rows = rows,
               .parts = parts,
               .n = n,
               .ldx = ldx,
               .x = x,
               .targets = targets,
               .smoothing = smoothing,
               .loss = loss,
               .best = best};
  PARALLEL_FOR(ctx, parts, parts, loss_part, e);
}

void attend_cross_entropy(attend_context *ctx, int rows, int n, const float *x, int ldx,
                          const int32_t *targets, float *loss, int32_t *best) {
  attend_cross_entropy_smooth(ctx, rows, n, x, ldx, targets, 0, loss, best);
}

/* ---- backward ----------------------------------------------------------------------- */

static float row_back(const logits *l, float scale, float *dx) {
  const struct kernels *kn = l->ctx->kernels;
  if (l->right < 0) {
    memset(dx, 0, (size_t)l->n * sizeof *dx);
    return 0.0f;
  }
  if (l->right >= l->n) {
    for (int j = 0; j < l->n; j++) dx[j] = NAN;
    return NAN;
  }
  int at = kn->largest_at(l->n, l->x);
  double sum = kn->sum_exp(l->n, l->x, l->x[at]);
  float loss = row_loss(l, at, sum); /* before dx, which may be x */
  kn->exp_row(l->n, l->x, l->x[at], (float)((double)scale / sum),
              scale * l->smoothing / (float)l->n, dx);
  dx[l->right] -= scale * (1 - l->smoothing);
  return loss;
}

static void back_part(const void *args, int64_t p, int worker) {
  const entropy *e = args;
  (void)worker;
  for (int r = part_begin(e->rows, e->parts, p); r < part_begin(e->rows, e->parts, p + 1); r++) {
    logits l = row_of(e, r);
    float lost = row_back(&l, e->scale, e->dx + (size_t)r * (size_t)e->lddx);
    if (e->loss) e->loss[r] = lost;
  }
}

void attend_cross_entropy_back(attend_context *ctx, int rows, int n, const float *x, int ldx,
                               const int32_t *targets, float smoothing, float scale, float *loss,
                               float *dx, int lddx) {
  int parts = parts_of(ctx, rows, (double)rows * n * 4);
  entropy e = {.ctx = ctx,
               .rows = rows,
               .parts = parts,
               .n = n,
               .ldx = ldx,
               .x = x,
               .targets = targets,
               .smoothing = smoothing,
               .scale = scale,
               .loss = loss,
               .dx = dx,
               .lddx = lddx};
  PARALLEL_FOR(ctx, parts, parts, back_part, e);
}

void cpu_loss(attend_context *ctx, const struct op_loss *o) {
  attend_cross_entropy_back(ctx, o->rows, o->width, o->x, o->ldx, o->targets, o->smoothing,
                            o->scale, o->loss, o->x, o->ldx);
}
