/* The definition of similarities by feature maps, and its derivative, in double. With
 * random directions w and x' = unit x,
 *
 *   favor        mean_r exp(w_r.q' - |q'|^2/2) exp(w_r.k' - |k'|^2/2)
 *   with pairs   the same over w_r and -w_r
 *   fourier      mean_r cos(w_r.(q' - k')) exp(|q'|^2/2 + |k'|^2/2)
 *   gaussian     the same two, with exp(-|x'|^2) and without a factor
 *
 * where unit is sqrt(scale), for gaussian 1/sigma; and phi(q).phi(k) with the
 * caller's phi.
 */
#include <math.h>

#include "attention/definition.h"
#include "attention/features.h"

bool definition_has_features(const attend_form *form) {
  return form_directions(form) > 0 || (form->kind == ATTEND_CUSTOM && form->phi);
}

void definition_features_cut(const attend_desc *d, arena *a, definition_features *f) {
  bool phi = d->form.kind == ATTEND_CUSTOM && d->form.phi;
  size_t dim = (size_t)d->dim, keys = (size_t)d->kv_len;
  size_t dirs = (size_t)form_directions(&d->form);
  size_t count = phi ? (size_t)d->form.features : 0;
  f->dirs = (int)dirs;
  f->w = arena_cut(a, SIZE_PRODUCT(dirs, dim, sizeof(float)));
  f->q_along = arena_cut(a, size_times(dirs, sizeof(double)));
  f->k_along = arena_cut(a, SIZE_PRODUCT(keys, dirs, sizeof(double)));
  f->k_head = arena_cut(a, size_times(dirs ? keys : 0, sizeof(int)));
  f->share = arena_cut(a, size_times(dirs, sizeof(double)));
  f->x = arena_cut(a, size_times(phi ? 2 * dim : 0, sizeof(float)));
  f->phi = arena_cut(a, SIZE_PRODUCT(2, count, sizeof(float)));
  f->dx = arena_cut(a, size_times(phi ? dim : 0, sizeof(float)));
}

attend_status definition_features_open(attend_context *ctx, definition_row *row) {
  definition_features *f = &row->features;
  const attend_form *form = &row->d.form;
  if (f->dirs == 0) return ATTEND_OK;
  bool gaussian = form->kind == ATTEND_GAUSSIAN;
  f->unit = gaussian ? 1 / (double)form->sigma : sqrt((double)row->d.scale);
  if (attend_form_signed(form))
    f->norm = gaussian ? 0 : 0.5;
  else
    f->norm = gaussian ? -1 : -0.5;
  for (int j = 0; j < row->d.kv_len; j++) f->k_head[j] = 0;
  return projection_draw(ctx, form, f->dirs, row->d.dim, f->w);
}

/* ---- along the directions ------------------------------------------------ */

static void project(const definition_row *row, const double *x, double *along) {
  const definition_features *f = &row->features;
  const float *w = f->w;
  for (int r = 0; r < f->dirs; r++) {
    double sum = 0;
    for (int i = 0; i < row->d.dim; i++) sum += (double)*w++ * x[i];
    along[r] = f->unit * sum;
  }
}

void definition_features_query(definition_row *row) {
  if (row->features.dirs) project(row, row->query, row->features.q_along);
}

static const double *key_along(const definition_row *row, int j) {
  const definition_features *f = &row->features;
  double *along = f->k_along + (size_t)j * (size_t)f->dirs;
  int head = 1 + row->b * row->d.kv_heads + definition_row_kv_head(row);
  if (f->k_head[j] != head) project(row, row->key, along);
  f->k_head[j] = head;
  return along;
}

/* log of what the norms of q and k contribute. */
static double log_factor(const definition_row *row) {
  const definition_features *f = &row->features;
  int dim = row->d.dim;
  double squares =
      definition_dot(row->query, row->query, dim) + definition_dot(row->key, row->key, dim);
  return f->norm * f->unit * f->unit * squares;
}

/* ---- positive features --------------------------------------------------- */

/* The log of the mean of exp(w.(q' + k')), with the largest exponent taken out
 * so that nothing overflows. share_r becomes the derivative along w_r. */
static double log_positive(const definition_row *row, const double *b) {
  const definition_features *f = &row->features;
  const double *a = f->q_along;
  bool pairs = row->d.form.kind == ATTEND_FAVOR && row->d.form.pairs;
  double most = -INFINITY, sum = 0;
  for (int r = 0; r < f->dirs; r++) most = fmax(most, pairs ? fabs(a[r] + b[r]) : a[r] + b[r]);
  for (int r = 0; r < f->dirs; r++) {
    double up = exp(a[r] + b[r] - most);
    double down = pairs ? exp(-a[r] - b[r] - most) : 0;
    f->share[r] = up - down;
    sum += up + down;
  }
  for (int r = 0; r < f->dirs; r++) f->share[r] /= sum;
  return most + log(sum / (pairs ? 2 * f->dirs : f->dirs));
}

/* ---- sines and cosines --------------------------------------------------- */

/* The mean of cos(w.(q' - k')); share as above. */
static double mean_cosine(const definition_row *row, const double *b) {
  const definition_features *f = &row->features;
  const double *a = f->q_along;
  double sum = 0;
  for (int r = 0; r < f->dirs; r++) {
    sum += cos(a[r] - b[r]);
    f->share[r] = -sin(a[r] - b[r]) / f->dirs;
  }
  return sum / f->dirs;
}

/* ---- the caller's -------------------------------------------------------- */

static double caller_sim(const definition_row *row) {
  const attend_form *form = &row->d.form;
  int dim = row->d.dim, count = form->features;
  const double *rows[] = {row->query, row->key};
  double sum = 0;
  for (int key = 0; key < 2; key++) {
    float *x = row->features.x + (size_t)key * (size_t)dim;
    for (int i = 0; i < dim; i++) x[i] = (float)rows[key][i];
    form->phi(x, dim, key, row->features.phi + (size_t)key * (size_t)count, count, form->user);
  }
  const float *q = row->features.phi, *k = q + count;
  for (int c = 0; c < count; c++) sum += (double)q[c] * (double)k[c];
  return sum;
}

static void caller_slope(const definition_row *row, double *dq, double *dk) {
  const attend_form *form = &row->d.form;
  int dim = row->d.dim, count = form->features;
  double *out[] = {dq, dk};
  caller_sim(row);
  for (int key = 0; key < 2; key++) {
    const float *x = row->features.x + (size_t)key * (size_t)dim;
    const float *other = row->features.phi + (size_t)(1 - key) * (size_t)count;
    form->phi_back(x, dim, key, other, count, row->features.dx, form->user);
    for (int i = 0; i < dim; i++) out[key][i] = (double)row->features.dx[i];
  }
}

/* ---- dispatch --------------------------------------------------------- */

double definition_features_sim(const definition_row *row, int j) {
  if (row->features.dirs == 0) return caller_sim(row);
  const double *b = key_along(row, j);
  if (attend_form_signed(&row->d.form)) return exp(log_factor(row)) * mean_cosine(row, b);
  return log_factor(row) + log_positive(row, b);
}

/* sum_r share_r w_r */
static void sum_directions(const definition_row *row, double *sum /* [D] */) {
  const definition_features *f = &row->features;
  const float *w = f->w;
  for (int i = 0; i < row->d.dim; i++) sum[i] = 0;
  for (int r = 0; r < f->dirs; r++)
    for (int i = 0; i < row->d.dim; i++) sum[i] += f->share[r] * (double)*w++;
}

void definition_features_slope(const definition_row *row, int j, double *dq, double *dk) {
  const definition_features *f = &row->features;
  if (f->dirs == 0) {
    caller_slope(row, dq, dk);
    return;
  }
  double sim = definition_features_sim(row, j); /* fills share */
  bool waves = attend_form_signed(&row->d.form);
  double along = f->unit * (waves ? exp(log_factor(row)) : 1);
  double out = 2 * f->norm * f->unit * f->unit * (waves ? sim : 1);
  sum_directions(row, dq);
  for (int i = 0; i < row->d.dim; i++) {
    double pull = along * dq[i];
    dq[i] = pull + out * row->query[i];
    dk[i] = (waves ? -pull : pull) + out * row->key[i];
  }
}
