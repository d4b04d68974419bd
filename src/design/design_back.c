/* The way back: from the gradient of the logits to that of every weight.
 *
 * Place: design/ - under learning, beside design_pass.c.
 *
 * x is as forward left it. A gradient of a weight is one sum over all rows in
 * their order, so no bit depends on the number of threads.
 */
#include <string.h>

#include "design/design.h"

/* dw [k][n] += x^T dy. */
static void add_weights(int threads, const float *x, int rows, int ldx,
                        const float *dy, int k, int n, float *dw) {
  (void)threads;
#pragma omp parallel for num_threads(threads) schedule(static) if (rows > 256)
  for (int i = 0; i < k; i++) {
    float *to = dw + (size_t)i * (size_t)n;
    for (int r = 0; r < rows; r++) {
      float by = x[(size_t)r * (size_t)ldx + (size_t)i];
      if (by == 0) continue;
      for (int j = 0; j < n; j++) to[j] += by * dy[(size_t)r * (size_t)n + j];
    }
  }
}

/* dx [rows][ldx] += dy w^T, over the first k features. */
static void add_rows(int threads, const float *dy, int rows, int n,
                     const float *w, int k, int ldx, float *dx) {
  (void)threads;
#pragma omp parallel for num_threads(threads) schedule(static) if (rows > 256)
  for (int r = 0; r < rows; r++) {
    const float *from = dy + (size_t)r * (size_t)n;
    float *to = dx + (size_t)r * (size_t)ldx;
    for (int i = 0; i < k; i++) {
      float sum = 0;
      for (int j = 0; j < n; j++) sum += from[j] * w[i * n + j];
      to[i] += sum;
    }
  }
}

static void product_back(const design_pass *p, const attend_design_part *part,
                         const float *weights, const float *dy,
                         float *gradients) {
  const attend_design *d = p->d;
  int rows = p->batch * d->places, threads = p->threads;
  add_weights(threads, p->x, rows, d->features, dy, part->rows, part->columns,
              gradients + part->at);
  add_rows(threads, dy, rows, part->columns, weights + part->at, part->rows,
           d->features, p->dx);
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
