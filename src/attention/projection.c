/* Random directions: normal vectors, or normal lengths on orthogonal ones.
 *
 * The feature maps and the definition draw from here; only the form's seed and redraw
 * matter, so a checkpoint needs no matrix.
 *
 * Layout. Direction r, element x is element r dim + x of Philox's stream
 * 2^63 + 2 redraw of the form's seed; the streams below 2^63 are left to
 * others, so that directions and data drawn with one seed are independent.
 * Orthogonal directions come in blocks of dim rows: the block's normal vectors
 * go through Gram and Schmidt, and row r takes the length of the normal vector
 * at r dim of stream 2^63 + 2 redraw + 1. A row depends on its block's earlier
 * rows alone: more directions leave the first ones as they are.
 *
 * The same floats everywhere: the normals are floats that every machine
 * agrees on, and what follows are single operations of double in a fixed order.
 */
#include <math.h>

#include "attention/features.h"

#define FIRST_STREAM (UINT64_C(1) << 63)
#define LEAST \
  1e-8 /* what is shorter after the projections is mostly rounding */

static attend_random directions(const attend_form *f) {
  return (attend_random){f->seed, FIRST_STREAM + 2 * f->redraw};
}

static attend_random lengths(const attend_form *f) {
  return (attend_random){f->seed, FIRST_STREAM + 2 * f->redraw + 1};
}

typedef struct { /* one block on its way to being orthogonal */
  const attend_form *form;
  int dim;
  double *unit; /* [rows][dim], the rows finished */
  float *draw;  /* [dim] */
} block;

static double dot(const double *a, const double *b, int n) {
  double sum = 0;
  for (int x = 0; x < n; x++) sum += a[x] * b[x];
  return sum;
}

/* Twice: what rounding leaves along the others after the first time goes. */
static void project_out(const block *b, int rows, double *v) {
  for (int n = 0; n < 2 * rows; n++) {
    const double *u = b->unit + (size_t)(n % rows) * (size_t)b->dim;
    double along = dot(u, v, b->dim);
    for (int x = 0; x < b->dim; x++) v[x] -= along * u[x];
  }
}

/* A vector that lies among the rows before it is drawn again, elsewhere in the
 * stream. */
static void draw_unit(const block *b, uint64_t row, int in_block) {
  double *v = b->unit + (size_t)in_block * (size_t)b->dim, norm = 0;
  for (uint64_t attempt = 0; !(norm >= LEAST); attempt++) {
    uint64_t first = (attempt << 56) + row * (uint64_t)b->dim;
    attend_random_normal(directions(b->form), first, (size_t)b->dim, b->draw);
    for (int x = 0; x < b->dim; x++) v[x] = (double)b->draw[x];
    project_out(b, in_block, v);
    norm = sqrt(dot(v, v, b->dim));
  }
  for (int x = 0; x < b->dim; x++) v[x] /= norm;
}

static double draw_length(const block *b, uint64_t row) {
  double sum = 0;
  attend_random_normal(lengths(b->form), row * (uint64_t)b->dim, (size_t)b->dim,
                       b->draw);
  for (int x = 0; x < b->dim; x++)
    sum += (double)b->draw[x] * (double)b->draw[x];
  return sqrt(sum);
}

static void draw_orthogonal(const block *b, int dirs, float *w) {
  for (int r = 0; r < dirs; r++) {
    int in_block = r % b->dim;
    const double *unit = b->unit + (size_t)in_block * (size_t)b->dim;
    draw_unit(b, (uint64_t)r, in_block);
    double length = draw_length(b, (uint64_t)r);
    for (int x = 0; x < b->dim; x++) *w++ = (float)(length * unit[x]);
  }
}

static size_t unit_bytes(int dirs, int dim) {
  size_t rows = (size_t)(dirs < dim ? dirs : dim);
  return SIZE_PRODUCT(rows, (size_t)dim, sizeof(double));
}

size_t projection_scratch(const attend_form *form, int dirs, int dim) {
  if (form->draw == ATTEND_IID) return 0;
  return size_add(unit_bytes(dirs, dim),
                  size_times((size_t)dim, sizeof(float)));
}

attend_status projection_draw(attend_context *ctx, const attend_form *form,
                              int dirs, int dim, float *w) {
  if (form->draw == ATTEND_IID) {
    attend_random_normal(directions(form), 0, (size_t)dirs * (size_t)dim, w);
    return ATTEND_OK;
  }
  block b = {.form = form, .dim = dim};
  ATTEND_TRY(take(ctx, projection_scratch(form, dirs, dim),
                  "orthogonal directions", &b.unit));
  b.draw = (float *)((unsigned char *)b.unit + unit_bytes(dirs, dim));
  draw_orthogonal(&b, dirs, w);
  give(ctx, b.unit);
  return ATTEND_OK;
}
