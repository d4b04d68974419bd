/* The way back: from the gradient of the logits to that of every weight.
 *
 * Place: design/ - under learning, beside design_pass.c.
 *
 * x is as forward left it. A gradient of a weight is one sum over all rows in
 * their order, so no bit depends on the number of threads.
 */
#include <string.h>

#include "design/design.h"

typedef struct {
  const float *x, *dy, *w;
  int rows, ldx, k, n;
  float *dw, *dx;
} product;

/* Row i of dw [k][n] += x^T dy. */
static void add_weights(const void *args, int64_t i, int worker) {
  const product *p = args;
  float *to = p->dw + i * p->n;
  (void)worker;
  for (int r = 0; r < p->rows; r++) {
    float by = p->x[(size_t)r * (size_t)p->ldx + (size_t)i];
    if (by == 0) continue;
    for (int j = 0; j < p->n; j++)
      to[j] += by * p->dy[(size_t)r * (size_t)p->n + (size_t)j];
  }
}

/* Row r of dx [rows][ldx] += dy w^T, over the first k features. */
static void add_rows(const void *args, int64_t r, int worker) {
  const product *p = args;
  const float *from = p->dy + r * p->n;
  float *to = p->dx + r * p->ldx;
  (void)worker;
  for (int i = 0; i < p->k; i++) {
    float sum = 0;
    for (int j = 0; j < p->n; j++) sum += from[j] * p->w[i * p->n + j];
    to[i] += sum;
  }
}

static void product_back(const design_pass *p, const attend_design_part *part,
                         const float *weights, const float *dy,
                         float *gradients) {
  const attend_design *d = p->d;
  product x = {
      p->x,        dy,         weights + part->at, p->batch * d->places,
      d->features, part->rows, part->columns,      gradients + part->at,
      p->dx};
  int threads = x.rows > 256 ? p->threads : 1;
  PARALLEL_FOR(d->ctx, threads, x.k, add_weights, x);
  PARALLEL_FOR(d->ctx, threads, x.rows, add_rows, x);
}

static attend_status head_back(design_pass *p, int i, const float *weights,
                               float *gradients) {
  const attend_design *d = p->d;
  const design_head *h = &d->heads[i];
  const pass_head *f = &p->heads[i];
  int at = d->variables[h->variable].at, rows = p->batch * d->places;
  for (int r = 0; r < rows; r++)
    memcpy(p->dout + (size_t)r * (size_t)h->dim_v,
           p->dx + (size_t)r * (size_t)d->features + at,
           (size_t)h->dim_v * sizeof(float));
  ATTEND_TRY(attend_backward(f->plan, attend_bhtd(f->q), attend_bhtd(f->k),
                             attend_bhtd(f->v), attend_bhtd(f->o), f->lse,
                             attend_bhtd(p->dout), attend_bhtd(p->dq),
                             attend_bhtd(p->dk), attend_bhtd(p->dv), NULL));
  const float *dy[3] = {p->dq, p->dk, p->dv};
  for (int j = 0; j < 3; j++)
    product_back(p, head_part(d, i, j), weights, dy[j], gradients);
  return ATTEND_OK;
}

static void tables_back(const design_pass *p, float *gradients) {
  const attend_design *d = p->d;
  int rows = p->batch * d->places;
  for (int r = 0; r < rows; r++) {
    int32_t id = p->ids[r];
    const float *dx = p->dx + (size_t)r * (size_t)d->features;
    if (id < 0) continue;
    float *e = gradients + table_part(d, 0)->at + id * d->embedded,
          *w = gradients + table_part(d, 1)->at + r % d->places * d->embedded;
    for (int i = 0; i < d->embedded; i++) {
      e[i] += dx[i];
      w[i] += dx[i];
    }
  }
}

attend_status pass_backward(design_pass *p, const float *weights,
                            float *gradients) {
  const attend_design *d = p->d;
  size_t rows = (size_t)p->batch * (size_t)d->places;
  memset(p->dx, 0, rows * (size_t)d->features * sizeof *p->dx);
  product_back(p, readout_part(d), weights, p->dlogits, gradients);
  for (int i = d->n_heads - 1; i >= 0; i--)
    ATTEND_TRY(head_back(p, i, weights, gradients));
  if (d->positions == ATTEND_DESIGN_POSITIONS_ADDED) tables_back(p, gradients);
  return ATTEND_OK;
}
