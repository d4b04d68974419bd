/* Cross entropy of logits with label smoothing, and its gradient; log-sum-exp and the k
 * largest of a row. The largest logit is subtracted before the exponentials; the sum and
 * its logarithm are in double.
 */
#include <math.h>

#include "layers/layers.h"

/* ---- cross entropy --------------------------------------------------------------- */

typedef struct { /* a row as the loss sees it */
  const struct kernels *kn;
  int n;
  float smoothing;
  const float *x;
  int32_t right;
} logits;

/* -sum_j q_j log p_j, q = 1 - smoothing for the right one and smoothing / n for each. */
static float row_loss(const logits *l, int at, double sum) {
  double max = (double)l->x[at], s = (double)l->smoothing;
  double right = max - (double)l->x[l->right];
  if (s == 0) return (float)(log(sum) + right);
  double mean = -l->kn->sum_less(l->n, l->x, l->x[at]) / l->n;
  return (float)(log(sum) + (1 - s) * right + s * mean);
}

static float loss_of(const logits *l, int32_t *best) {
  int at = l->kn->largest_at(l->n, l->x);
  if (best) *best = at;
  if (l->right < 0) return 0.0f;
  if (l->right >= l->n) return NAN; /* no such class: better seen than averaged */
  return row_loss(l, at, l->kn->sum_exp(l->n, l->x, l->x[at]));
}

typedef struct {
  int n, ldx;
  const float *x;
  const int32_t *targets;
  float smoothing, scale;
  float *loss;
  int32_t *best; /* forward */
  float *dx;     /* backward */
  int lddx;
} entropy;

static logits row_of(const struct kernels *kn, const entropy *e, int r) {
  return (logits){kn, e->n, e->smoothing, ROW(e->x, r, e->ldx), e->targets[r]};
}

static void loss_rows(const struct kernels *kn, const void *op, int r0, int r1) {
  const entropy *e = op;
  for (int r = r0; r < r1; r++) {
    logits l = row_of(kn, e, r);
    e->loss[r] = loss_of(&l, e->best ? e->best + r : NULL);
  }
}

void attend_cross_entropy_smooth(attend_context *ctx, int rows, int n, const float *x, int ldx,
                                 const int32_t *targets, float smoothing, float *loss,
                                 int32_t *best) {
  entropy e = {n, ldx, x, targets, smoothing, 0, loss, best, NULL, 0};
  FOR_ROWS(ctx, rows, (double)rows * n * 2, loss_rows, e);
}

void attend_cross_entropy(attend_context *ctx, int rows, int n, const float *x, int ldx,
                          const int32_t *targets, float *loss, int32_t *best) {
  attend_cross_entropy_smooth(ctx, rows, n, x, ldx, targets, 0, loss, best);
}

static float row_backward(const logits *l, float scale, float *dx) {
  const struct kernels *kn = l->kn;
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

static void loss_rows_backward(const struct kernels *kn, const void *op, int r0, int r1) {
  const entropy *e = op;
  for (int r = r0; r < r1; r++) {
    logits l = row_of(kn, e, r);
    float lost = row_backward(&l, e->scale, ROW(e->dx, r, e->lddx));
    if (e->loss) e->loss[r] = lost;
  }
}

void attend_cross_entropy_backward(attend_context *ctx, int rows, int n, const float *x, int ldx,
                                   const int32_t *targets, float smoothing, float scale,
                                   float *loss, float *dx, int lddx) {
  entropy e = {n, ldx, x, targets, smoothing, scale, loss, NULL, dx, lddx};
  FOR_ROWS(ctx, rows, (double)rows * n * 4, loss_rows_backward, e);
}

void cpu_loss(attend_context *ctx, const struct op_loss *o) {
  attend_cross_entropy_backward(ctx, o->rows, o->width, o->x, o->ldx, o->targets, o->smoothing,
                                o->scale, o->loss, o->x, o->ldx);
}

/* ---- probabilities of a row that a person reads: in double, term by term --------- */

double exp_sum(int n, const float *x, float largest) {
  double sum = 0;
  for (int i = 0; i < n; i++) sum += exp((double)x[i] - (double)largest);
  return sum;
}

double attend_log_sum_exp(int n, const float *x) {
  float largest = -INFINITY;
  for (int i = 0; i < n; i++)
    if (x[i] > largest) largest = x[i];
  return (double)largest + log(exp_sum(n, x, largest));
}

int attend_top_k(int n, const float *x, int k, int32_t *index) {
  int count = 0;
  for (int32_t i = 0; i < n; i++) {
    int at = count;
    while (at > 0 && x[index[at - 1]] < x[i]) at--;
    if (at == k) continue;
    if (count < k) count++;
    memmove(index + at + 1, index + at, (size_t)(count - 1 - at) * sizeof *index);
    index[at] = i;
  }
  return count;
}
