/* The naive run's feature maps: elu, and the random ones of favor, fourier and
 * gaussian. Every row of q and k is mapped and stored; a similarity is a plain
 * dot product.
 *
 * naive.c takes its scores, naive_backward.c adds gradients.
 *
 * A row's features are phi e^shift: favor's largest exponent is taken out, and so is
 * the factor exp(|x'|^2/2) of fourier, or they would overflow in float. A query row
 * then takes out the largest shift of its visible keys.
 *
 * Sizes. Rounding w.x' by half an eps of its absolute terms moves exp(w.x') by
 * that much of itself, and a cosine by that much of 1.
 */
#include <math.h>

#include "verify/naive.h"

typedef struct { /* every row of q, or of k */
  float *phi;    /* [n][C] */
  float *shift;  /* [n] */
  float *args;   /* [n][dirs]: sums of |terms| of exponents and angles */
  float *d_phi;  /* of queries [C], of keys [n][C] */
  double *size;  /* of d_phi */
} side;

struct naive_features {
  int dim, count, dirs;
  bool waves, pairs;
  float unit, norm; /* x' = unit x; phi holds exp(norm |x'|^2) */
  float *w;         /* [dirs][D] */
  side q, k;
};

/* ---- directions ------------------------------------------------------------------ */

/* As the library documents its streams. Gram and Schmidt twice, in double, so
 * that the floats come out the same. */
static attend_status make_orthogonal(memory *mem, const attend_form *form, int dirs, int dim,
                                     float *w) {
  double *unit;
  float *other;
  TAKE(mem, &unit, (size_t)dim * (size_t)dim);
  TAKE(mem, &other, dim);
  attend_random r = {form->seed, (UINT64_C(1) << 63) + 2 * form->redraw + 1};
  for (int n = 0; n < dirs; n++, w += dim) {
    int before = n % dim;
    double *v = unit + (size_t)before * (size_t)dim, length = 0, norm = 0;
    for (int x = 0; x < dim; x++) v[x] = (double)w[x];
    for (int m = 0; m < 2 * before; m++) {
      const double *u = unit + (size_t)(m % before) * (size_t)dim;
      double along = 0;
      for (int x = 0; x < dim; x++) along += u[x] * v[x];
      for (int x = 0; x < dim; x++) v[x] -= along * u[x];
    }
    attend_random_normal(r, (uint64_t)n * (uint64_t)dim, (size_t)dim, other);
    for (int x = 0; x < dim; x++) {
      norm += v[x] * v[x];
      length += (double)other[x] * (double)other[x];
    }
    for (int x = 0; x < dim; x++) v[x] /= sqrt(norm);
    for (int x = 0; x < dim; x++) w[x] = (float)(sqrt(length) * v[x]);
  }
  return ATTEND_OK;
}

static attend_status draw(memory *m, naive_features *f, const attend_form *form) {
  size_t n = (size_t)f->dirs * (size_t)f->dim;
  TAKE(m, &f->w, n);
  attend_random r = {form->seed, (UINT64_C(1) << 63) + 2 * form->redraw};
  attend_random_normal(r, 0, n, f->w);
  return form->draw == ATTEND_ORTHOGONAL ? make_orthogonal(m, form, f->dirs, f->dim, f->w)
                                         : ATTEND_OK;
}

/* ---- mapping --------------------------------------------------------------------- */

static void map_elu(const naive_features *f, const float *x, float *phi) {
  for (int c = 0; c < f->count; c++) phi[c] = x[c] > 0 ? x[c] + 1 : expf(x[c]);
}

/* Exponents become features: the largest is taken out. */
static float exponentiate(const naive_features *f, float *phi) {
  float most = phi[0];
  for (int c = 1; c < f->count; c++)
    if (phi[c] > most) most = phi[c];
  for (int c = 0; c < f->count; c++) phi[c] = expf(phi[c] - most);
  return most;
}

/* Returns shift. Feature r belongs to direction r; with pairs, and for cos and
 * sin, so does feature dirs + r. */
static float map_random(const naive_features *f, const float *x, float *phi, float *args) {
  float squares = 0;
  for (int i = 0; i < f->dim; i++) squares += (f->unit * x[i]) * (f->unit * x[i]);
  float level = f->norm * squares;
  for (int r = 0; r < f->dirs; r++) {
    const float *w = f->w + (size_t)r * (size_t)f->dim;
    float along = 0, size = 0;
    for (int i = 0; i < f->dim; i++) {
      along += w[i] * (f->unit * x[i]);
      size += fabsf(w[i] * (f->unit * x[i]));
    }
    args[r] = size + fabsf(level);
    phi[r] = f->waves ? cosf(along) : along + level;
    if (f->waves || f->pairs) phi[f->dirs + r] = f->waves ? sinf(along) : level - along;
  }
  return f->waves ? level : exponentiate(f, phi);
}

static attend_status map_side(memory *m, const naive_features *f, const float *x, size_t n,
                              size_t gradients_of, side *to) {
  size_t count = (size_t)f->count, dirs = (size_t)f->dirs;
  side s;
  TAKE(m, &s.phi, size_times(n, count));
  TAKE(m, &s.shift, n);
  TAKE(m, &s.args, size_times(n, dirs));
  TAKE(m, &s.d_phi, size_times(gradients_of, count));
  TAKE(m, &s.size, size_times(gradients_of, count));
  for (size_t row = 0; row < n; row++) {
    const float *from = x + row * (size_t)f->dim;
    if (f->dirs)
      s.shift[row] = map_random(f, from, s.phi + row * count, s.args + row * dirs);
    else
      map_elu(f, from, s.phi + row * count);
  }
  *to = s;
  return ATTEND_OK;
}

static bool is_random(const attend_form *form) {
  return form->kind == ATTEND_FAVOR || form->kind == ATTEND_FOURIER ||
         (form->kind == ATTEND_GAUSSIAN && form->features > 0);
}

static attend_status choose_map(memory *m, naive_features *f, const attend_desc *d) {
  const attend_form *form = &d->form;
  bool gaussian = form->kind == ATTEND_GAUSSIAN;
  f->waves = attend_form_signed(form);
  f->pairs = form->kind == ATTEND_FAVOR && form->pairs;
  f->dirs = f->waves || f->pairs ? f->count / 2 : f->count;
  f->unit = gaussian ? 1 / form->sigma : sqrtf(d->scale);
  if (f->waves)
    f->norm = gaussian ? 0.0f : 0.5f;
  else
    f->norm = gaussian ? -1.0f : -0.5f;
  return draw(m, f, form);
}

attend_status naive_features_open(pass *p) {
  const attend_desc *d = p->d;
  memory *m = &p->memory;
  naive_features *f;
  if (d->form.kind != ATTEND_ELU && !is_random(&d->form)) return ATTEND_OK;
  TAKE(m, &f, 1);
  f->dim = d->dim;
  f->count = (int)attend_form_features(&d->form, d->dim);
  if (d->form.kind != ATTEND_ELU) ATTEND_TRY(choose_map(m, f, d));
  size_t rows = (size_t)d->batch * (size_t)d->heads * (size_t)d->q_len;
  size_t keys = (size_t)d->batch * (size_t)d->kv_heads * (size_t)d->kv_len;
  ATTEND_TRY(map_side(m, f, p->q, rows, 1, &f->q));
  ATTEND_TRY(map_side(m, f, p->k, keys, keys, &f->k));
  p->features = f;
  return ATTEND_OK;
}

/* ---- similarity ------------------------------------------------------------------- */

/* What feature c of one side counts for, beside arguments of this size. */
static double size_of(const naive_features *f, float phi, float args) {
  double size = fabs((double)phi), more = (double)args / 8;
  if (f->waves) return size + more;
  return more > 1 ? size * more : size;
}

static float args_of(const naive_features *f, size_t q, size_t k, int c) {
  if (!f->dirs) return 0;
  size_t dirs = (size_t)f->dirs, r = (size_t)(c % f->dirs);
  return f->q.args[q * dirs + r] + f->k.args[k * dirs + r];
}

static float similarity(pass *p, size_t q, size_t k, float bias, float *size) {
  const naive_features *f = p->features;
  const float *a = f->q.phi + q * (size_t)f->count;
  const float *b = f->k.phi + k * (size_t)f->count;
  float sum = 0;
  double absolute = 0;
  for (int c = 0; c < f->count; c++) {
    float args = args_of(f, q, k, c) + fabsf(bias);
    sum += a[c] * b[c];
    absolute += size_of(f, a[c] * b[c], args);
    if (args > p->args) p->args = args;
  }
  *size = (float)absolute;
  return sum;
}

void naive_features_score(pass *p) {
  const naive_features *f = p->features;
  size_t q = naive_query_at(p, 1);
  float most = -INFINITY, mean = 1 / (float)(f->waves ? f->dirs : f->count);
  if (!f->dirs) mean = 1;
  for (int s = 0; s < p->n_visible; s++)
    most = fmaxf(most, f->k.shift[naive_key_at(p, p->visible[s], 1)]);
  p->shift = f->q.shift[q] + (p->n_visible ? most : 0);
  p->args = 0;
  for (int s = 0; s < p->n_visible; s++) {
    size_t k = naive_key_at(p, p->visible[s], 1);
    float bias = naive_bias(p, p->visible[s]);
    p->factor[s] = mean * expf(f->k.shift[k] - most) * expf(bias);
    p->score[s] = similarity(p, q, k, bias, &p->size[s]) * p->factor[s];
    p->size[s] *= p->factor[s];
  }
}

/* ---- backward -------------------------------------------------------------------- */

void naive_features_add(pass *p, int s, float gap, double gap_size) {
  naive_features *f = p->features;
  size_t q = naive_query_at(p, 1), k = naive_key_at(p, p->visible[s], 1);
  size_t count = (size_t)f->count;
  const float *a = f->q.phi + q * count, *b = f->k.phi + k * count;
  float step = gap * p->factor[s] / p->denominator;
  double size = gap_size * fabs((double)(p->factor[s] / p->denominator));
  for (int c = 0; c < f->count; c++) {
    size_t at = k * count + (size_t)c;
    float args = args_of(f, q, k, c);
    f->q.d_phi[c] += step * b[c];
    f->k.d_phi[at] += step * a[c];
    f->q.size[c] += size * size_of(f, b[c], args);
    f->k.size[at] += size * size_of(f, a[c], args);
  }
}

static void elu_back(const naive_features *f, const float *x, const float *phi, const float *d_phi,
                     const double *size, float *dx, double *dx_size) {
  for (int i = 0; i < f->dim; i++) {
    float slope = x[i] > 0 ? 1 : phi[i];
    dx[i] += slope * d_phi[i];
    dx_size[i] += (double)slope * size[i];
  }
}

typedef struct {      /* of one direction */
  float along, level; /* derivatives by w.x', and by log of the factor */
  double along_size, level_size;
} slopes;

static slopes direction_back(const naive_features *f, int r, const float *phi, const float *d_phi,
                             const double *size) {
  int t = f->dirs + r; /* the partner: sin, or exp(-w.x) */
  slopes p = {.along = phi[r] * d_phi[r], .level = phi[r] * d_phi[r]};
  p.along_size = p.level_size = fabs((double)phi[r]) * size[r];
  if (!f->pairs && !f->waves) return p;
  p.level += phi[t] * d_phi[t];
  p.level_size += fabs((double)phi[t]) * size[t];
  if (f->pairs) {
    p.along -= phi[t] * d_phi[t];
    p.along_size = p.level_size;
  } else {
    p.along = phi[r] * d_phi[t] - phi[t] * d_phi[r];
    p.along_size = fabs((double)phi[r]) * size[t] + fabs((double)phi[t]) * size[r];
  }
  return p;
}

static void random_back(const naive_features *f, const float *x, const float *phi,
                        const float *d_phi, const double *size, float *dx, double *dx_size) {
  float level = 0;
  double level_size = 0;
  for (int r = 0; r < f->dirs; r++) {
    const float *w = f->w + (size_t)r * (size_t)f->dim;
    slopes p = direction_back(f, r, phi, d_phi, size);
    for (int i = 0; i < f->dim; i++) {
      dx[i] += p.along * f->unit * w[i];
      dx_size[i] += p.along_size * fabs((double)(f->unit * w[i]));
    }
    level += p.level;
    level_size += p.level_size;
  }
  for (int i = 0; i < f->dim; i++) {
    float slope = 2 * f->norm * f->unit * f->unit * x[i];
    dx[i] += level * slope;
    dx_size[i] += level_size * fabs((double)slope);
  }
}

static void row_back(const naive_features *f, const side *s, size_t row, size_t at, const float *x,
                     float *dx, double *dx_size) {
  size_t count = (size_t)f->count;
  const float *phi = s->phi + row * count, *d_phi = s->d_phi + at * count;
  const double *size = s->size + at * count;
  x += row * (size_t)f->dim;
  dx += row * (size_t)f->dim;
  dx_size += row * (size_t)f->dim;
  if (f->dirs)
    random_back(f, x, phi, d_phi, size, dx, dx_size);
  else
    elu_back(f, x, phi, d_phi, size, dx, dx_size);
}

void naive_features_query(pass *p, gradients *g) {
  naive_features *f = p->features;
  row_back(f, &f->q, naive_query_at(p, 1), 0, p->q, g->sum[ATTEND_OUT_DQ], g->size[ATTEND_OUT_DQ]);
  for (int c = 0; c < f->count; c++) f->q.d_phi[c] = 0, f->q.size[c] = 0;
}

void naive_features_keys(pass *p, gradients *g) {
  const naive_features *f = p->features;
  const attend_desc *d = p->d;
  size_t keys = (size_t)d->batch * (size_t)d->kv_heads * (size_t)d->kv_len;
  for (size_t row = 0; row < keys; row++)
    row_back(f, &f->k, row, row, p->k, g->sum[ATTEND_OUT_DK], g->size[ATTEND_OUT_DK]);
}
