/* Feature maps: random directions, constants and memory of a map, mapping rows, and the
 * derivative.
 *
 * Positive random features with orthogonal directions are FAVOR+ (Performer,
 * Choromanski et al. 2021). Sines and cosines of random projections are random Fourier
 * features (Rahimi and Recht 2007). elu(x) + 1 is linear attention's map (Katharopoulos
 * et al. 2020). The arithmetic is in kernels/cpu/maps.c.
 */
#include "attention/features.h"

#include <math.h>
#include <string.h>

#include "attention/engine.h"

/* ==== random directions =======================================================
 *
 * Normal vectors, or normal lengths on orthogonal vectors. They depend on the form's
 * seed and redraw alone, so a checkpoint stores no matrix.
 *
 * Direction r, element x is element r dim + x of Philox's stream 2^63 + 2 redraw of the
 * form's seed; streams below 2^63 are left to others, so directions and data drawn with
 * one seed are independent. Orthogonal directions come in blocks of dim rows: the
 * block's normal vectors go through Gram-Schmidt, and row r takes the length of the
 * normal vector at r dim of stream 2^63 + 2 redraw + 1. A row depends on the earlier
 * rows of its block alone, so more directions leave the first ones unchanged.
 *
 * The floats are the same on every machine: the normals are, and the rest are single
 * double operations in a fixed order. */

#define FIRST_STREAM (UINT64_C(1) << 63)
#define LEAST 1e-8 /* a shorter remainder is mostly rounding error */

static attend_random directions(const attend_form *f) {
  return (attend_random){f->seed, FIRST_STREAM + 2 * f->redraw};
}

static attend_random lengths(const attend_form *f) {
  return (attend_random){f->seed, FIRST_STREAM + 2 * f->redraw + 1};
}

typedef struct { /* Gram-Schmidt on one block of rows */
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

/* Twice: removes the rounding error that the first projection leaves. */
static void project_out(const block *b, int rows, double *v) {
  for (int n = 0; n < 2 * rows; n++) {
    const double *u = b->unit + (size_t)(n % rows) * (size_t)b->dim;
    double along = dot(u, v, b->dim);
    for (int x = 0; x < b->dim; x++) v[x] -= along * u[x];
  }
}

/* A vector in the span of the rows before it is redrawn from elsewhere in the stream. */
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
  attend_random_normal(lengths(b->form), row * (uint64_t)b->dim, (size_t)b->dim, b->draw);
  for (int x = 0; x < b->dim; x++) sum += (double)b->draw[x] * (double)b->draw[x];
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
  return size_add(unit_bytes(dirs, dim), size_times((size_t)dim, sizeof(float)));
}

attend_status projection_draw(attend_context *ctx, const attend_form *form, int dirs, int dim,
                              float *w) {
  if (form->draw == ATTEND_IID) {
    attend_random_normal(directions(form), 0, (size_t)dirs * (size_t)dim, w);
    return ATTEND_OK;
  }
  block b = {.form = form, .dim = dim};
  ATTEND_TRY(ctx_alloc(ctx, projection_scratch(form, dirs, dim), "orthogonal directions", &b.unit));
  b.draw = (float *)((unsigned char *)b.unit + unit_bytes(dirs, dim));
  draw_orthogonal(&b, dirs, w);
  ctx_free(ctx, b.unit);
  return ATTEND_OK;
}

/* ==== maps ==================================================================== */

static const double TWO_PI = 6.28318530717958647692;

/* ---- building a map -------------------------------------------------------------- */

static map_kind kind_of(const attend_form *f) {
  switch (f->kind) {
    case ATTEND_POLY:
      return MAP_POLY;
    case ATTEND_ELU:
      return MAP_ELU;
    case ATTEND_FOURIER:
      return MAP_TRIG;
    case ATTEND_FAVOR:
      return MAP_POSITIVE;
    case ATTEND_GAUSSIAN:
      if (!f->features) return MAP_NONE;
      return f->map == ATTEND_POSITIVE ? MAP_POSITIVE : MAP_TRIG;
    case ATTEND_CUSTOM:
      return f->phi ? MAP_CALLER : MAP_NONE;
    default:
      return MAP_NONE;
  }
}

/* The kernel may write a whole vector from the last monomial on. */
static int row_floats(const feature_map *map) {
  size_t count = (size_t)map->count;
  if (map->kind == MAP_POLY) return (int)round_up(count + LANES - 1, LANES);
  if (map->kind == MAP_TRIG || map->pairs) return 2 * map->ld_dirs;
  return (int)round_up(count, LANES);
}

static void set_units(const attend_desc *d, feature_map *map) {
  const attend_form *f = &d->form;
  double sigma = (double)f->sigma;
  bool gauss = f->kind == ATTEND_GAUSSIAN;
  double unit = gauss ? 1 / sigma : sqrt((double)d->scale);
  map->unit = unit * (map->kind == MAP_TRIG ? 1 / TWO_PI : LOG2E);
  map->norm = (float)(unit * unit * LOG2E / 2);
  if (map->kind == MAP_TRIG) map->norm = gauss ? 0 : -map->norm;
  if (map->kind == MAP_POSITIVE && gauss) map->norm *= 2;
  int averaged = map->kind == MAP_TRIG ? map->dirs : map->count;
  map->log_factor = map->dirs ? -log((double)averaged) : 0;
}

/* Multinomials a^n c^(p-n) p! / (k_1! .. (p-n)!): the coefficients of the
 * keys' monomials, in the order of the kernel. */
static void poly_coefficients(const attend_form *f, int dim, feature_map *map) {
  int p = f->degree;
  double *inverse = map->inverse; /* 1 / product of the factorials of exponents */
  memset(map->coef, 0, (size_t)map->ld * sizeof(float));
  for (int i = 0; i < map->count; i++) inverse[i] = 1;
  for (int d = 2; d <= p; d++)
    for (int i = 0; i < dim; i++) {
      const int32_t *below = map->start + (size_t)(d - 2) * (size_t)(dim + 1);
      int n = below[dim] - below[i], to = below[dim + 1 + i];
      for (int j = 0; j < n; j++) {
        map->power[to + j] = map->first[below[i] + j] == i ? map->power[below[i] + j] + 1 : 1;
        map->first[to + j] = i;
        inverse[to + j] = inverse[below[i] + j] / map->power[to + j];
      }
    }
  for (int d = 0, i = 0; d <= p; d++) {
    int end = d == 0 ? 1 : map->start[(size_t)d * (size_t)(dim + 1) - 1];
    double rest = tgamma(p + 1.0) / tgamma(p - d + 1.0) * pow(f->a, d) * pow(f->c, p - d);
    for (; i < end; i++) map->coef[i] = (float)(rest * inverse[i]);
  }
}

/* Where the monomials of each degree begin, by their first variable. */
static void poly_starts(int dim, int degree, feature_map *map) {
  int32_t *row = map->start;
  for (int i = 0; i <= dim; i++) row[i] = 1 + i;
  for (int i = 0; i < dim; i++) map->first[1 + i] = i, map->power[1 + i] = 1;
  for (int d = 2; d <= degree; d++, row += dim + 1) {
    int32_t *next = row + dim + 1;
    next[0] = row[dim];
    for (int i = 0; i < dim; i++) next[i + 1] = next[i] + row[dim] - row[i];
  }
}

static size_t map_cut(const attend_desc *d, arena a, feature_map *map) {
  size_t f = sizeof(float), ldk = round_up((size_t)d->dim, LANES);
  size_t poly = map->kind == MAP_POLY, count = (size_t)map->count;
  map->w = arena_cut(&a, SIZE_PRODUCT((size_t)map->dirs, ldk, f));
  map->w_t = arena_cut(&a, SIZE_PRODUCT((size_t)d->dim, (size_t)map->ld_dirs, f));
  map->coef = arena_cut(&a, SIZE_PRODUCT(poly, (size_t)map->ld, f));
  map->start = arena_cut(
      &a, SIZE_PRODUCT(poly, (size_t)d->form.degree, (size_t)(d->dim + 1), sizeof(int32_t)));
  map->first = arena_cut(&a, SIZE_PRODUCT(poly, count, sizeof(int32_t)));
  map->power = arena_cut(&a, SIZE_PRODUCT(poly, count, sizeof(int32_t)));
  map->inverse = arena_cut(&a, SIZE_PRODUCT(poly, count, sizeof(double)));
  map->drawn = arena_cut(&a, SIZE_PRODUCT((size_t)map->dirs, (size_t)d->dim, f));
  return a.used;
}

attend_status features_draw(attend_context *ctx, const attend_desc *d, feature_map *map) {
  size_t dim = (size_t)d->dim, ldk = round_up(dim, LANES);
  ATTEND_TRY(projection_draw(ctx, &d->form, map->dirs, d->dim, map->drawn));
  memset(map->w, 0, (size_t)map->dirs * ldk * sizeof(float));
  memset(map->w_t, 0, dim * (size_t)map->ld_dirs * sizeof(float));
  for (size_t r = 0; r < (size_t)map->dirs; r++)
    for (size_t i = 0; i < dim; i++) {
      float w = (float)(map->unit * (double)map->drawn[r * dim + i]);
      map->w[r * ldk + i] = map->w_t[i * (size_t)map->ld_dirs + r] = w;
    }
  return ATTEND_OK;
}

/* A map without its numbers. */
static feature_map map_of(const attend_desc *d) {
  feature_map map = {.kind = kind_of(&d->form)};
  int64_t count = attend_form_features(&d->form, d->dim);
  if (count > MOST_FEATURES) map.kind = MAP_NONE;
  if (map.kind == MAP_NONE) return map;
  map.count = (int)count;
  map.shifts = map.kind == MAP_POSITIVE || map.kind == MAP_TRIG;
  map.dirs = map.shifts ? form_directions(&d->form) : 0;
  map.ld_dirs = (int)round_up((size_t)map.dirs, LANES);
  map.pairs = map.kind == MAP_POSITIVE && map.count > map.dirs;
  map.ld = row_floats(&map);
  return map;
}

int features_row(const attend_desc *d) { return map_of(d).ld; }

attend_status features_make(attend_context *ctx, const attend_desc *d, feature_map *map) {
  *map = map_of(d);
  if (map->kind == MAP_NONE) return ATTEND_OK;
  set_units(d, map);
  ATTEND_TRY(ctx_alloc(ctx, map_cut(d, (arena){NULL, 0}, map), "a feature map", &map->block));
  map_cut(d, (arena){map->block, 0}, map);
  if (map->kind == MAP_POLY) {
    poly_starts(d->dim, d->form.degree, map);
    poly_coefficients(&d->form, d->dim, map);
  }
  return map->dirs ? features_draw(ctx, d, map) : ATTEND_OK;
}

void features_free(const attend_context *ctx, feature_map *map) {
  ctx_free(ctx, map->block);
  map->block = NULL;
}

/* ---- mapping rows ---------------------------------------------------------------- */

size_t features_work(const feature_map *map, int n) {
  size_t rows = (size_t)n;
  size_t wide = map->kind == MAP_POLY ? (size_t)map->ld : (size_t)map->ld_dirs;
  return size_add(size_times(rows, wide + 2), 3 * LANES);
}

/* |x|^2 norm for each row. */
static void row_norms(const attend_plan *p, int n, const float *x, float *out) {
  p->kn->row_dots(n, p->desc.dim, x, x, p->ldk, out);
  for (int i = 0; i < n; i++) out[i] *= p->map.norm;
}

static void map_positive(const attend_plan *p, int n, const float *x, float *phi, float *shift,
                         float *work) {
  const feature_map *map = &p->map;
  float *less = work + (size_t)n * (size_t)map->ld_dirs;
  row_norms(p, n, x, less);
  p->kn->matmul(n, map->ld_dirs, p->desc.dim, x, p->ldk, map->w_t, map->ld_dirs, work, map->ld_dirs,
                false);
  p->kn->map_exp(n, map->dirs, map->ld_dirs, map->pairs, less, work, phi, shift);
}

/* Here norm is negative: the row is multiplied by 2^-(norm |x|^2). */
static void map_trig(const attend_plan *p, int n, const float *x, float *phi, float *shift,
                     float *work) {
  const feature_map *map = &p->map;
  float *more = work + (size_t)n * (size_t)map->ld_dirs, *factor = more + n;
  row_norms(p, n, x, more);
  for (int i = 0; i < n; i++) {
    shift[i] = isfinite(more[i]) ? ceilf(-more[i]) : 0;
    more[i] = -more[i] - shift[i];
    p->kn->exp2_all(more + i, 1, factor + i);
  }
  p->kn->matmul(n, map->ld_dirs, p->desc.dim, x, p->ldk, map->w_t, map->ld_dirs, work, map->ld_dirs,
                false);
  p->kn->map_trig(n, map->dirs, map->ld_dirs, factor, work, phi);
}

static void map_caller(const attend_plan *p, bool key, int n, const float *x, float *phi) {
  const attend_form *f = &p->desc.form;
  size_t count = (size_t)p->map.count, ld = (size_t)p->map.ld;
  for (int i = 0; i < n; i++, x += p->ldk, phi += ld) {
    f->phi(x, p->desc.dim, key, phi, p->map.count, f->user);
    memset(phi + count, 0, (ld - count) * sizeof *phi);
  }
}

/* Columns beyond the width hold phi(0), which is not 0. */
static void map_elu(const attend_plan *p, int n, const float *x, float *phi) {
  size_t dim = (size_t)p->desc.dim, ld = (size_t)p->ldk;
  p->kn->map_elu(x, (size_t)n * ld, phi);
  for (int i = 0; i < n && ld > dim; i++)
    memset(phi + (size_t)i * ld + dim, 0, (ld - dim) * sizeof *phi);
}

void features_rows(const attend_plan *p, bool key, int n, const float *x, float *phi, float *shift,
                   float *work) {
  const feature_map *map = &p->map;
  for (int i = 0; i < n; i++) shift[i] = 0;
  switch (map->kind) {
    case MAP_ELU:
      map_elu(p, n, x, phi);
      break;
    case MAP_POLY:
      p->kn->map_poly(n, p->desc.dim, p->desc.form.degree, map->start, x, p->ldk, phi, map->ld);
      if (key) p->kn->scale_columns(n, map->ld, map->coef, phi, map->ld);
      break;
    case MAP_POSITIVE:
      map_positive(p, n, x, phi, shift, work);
      break;
    case MAP_TRIG:
      map_trig(p, n, x, phi, shift, work);
      break;
    case MAP_CALLER:
      map_caller(p, key, n, x, phi);
      break;
    case MAP_NONE:
      break;
  }
}

/* ---- the derivative -------------------------------------------------------------- */

/* dx = unit (e . w) + along sum x, where e and sum come from the kernels. */
static void through_directions(const attend_plan *p, int n, const float *x, const float *e,
                               const float *sum, double unit, float *dx) {
  const feature_map *map = &p->map;
  float u = (float)unit, along = (float)(-2 * LN2 * (double)map->norm);
  p->kn->matmul(n, p->ldk, map->dirs, e, map->ld_dirs, map->w, p->ldk, dx, p->ldk, false);
  for (int r = 0; r < n; r++, x += p->ldk, dx += p->ldk)
    for (int i = 0; i < p->ldk; i++) dx[i] = u * dx[i] + along * sum[r] * x[i];
}

static void back_random(const attend_plan *p, int n, const float *x, const float *phi,
                        const float *dphi, float *dx, float *work) {
  const feature_map *map = &p->map;
  float *sum = work + (size_t)n * (size_t)map->ld_dirs;
  if (map->kind == MAP_POSITIVE)
    p->kn->map_exp_backward(n, map->ld_dirs, map->pairs, phi, dphi, work, sum);
  else
    p->kn->map_trig_backward(n, map->ld_dirs, phi, dphi, work, sum);
  through_directions(p, n, x, work, sum, map->kind == MAP_POSITIVE ? LN2 : TWO_PI, dx);
}

/* Keys carry coefficients: recompute their monomials without. */
static void back_poly(const attend_plan *p, bool key, int n, const float *x, const float *phi,
                      float *dphi, float *dx, float *work) {
  const feature_map *map = &p->map;
  int dim = p->desc.dim, degree = p->desc.form.degree;
  if (key) {
    p->kn->map_poly(n, dim, degree, map->start, x, p->ldk, work, map->ld);
    p->kn->scale_columns(n, map->ld, map->coef, dphi, map->ld);
  }
  p->kn->map_poly_backward(n, dim, degree, map->start, x, p->ldk, key ? work : phi, dphi, map->ld,
                           dx);
}

static void back_caller(const attend_plan *p, bool key, int n, const float *x, const float *dphi,
                        float *dx) {
  const attend_form *f = &p->desc.form;
  for (int i = 0; i < n; i++, x += p->ldk, dphi += p->map.ld, dx += p->ldk) {
    memset(dx, 0, (size_t)p->ldk * sizeof *dx);
    f->phi_backward(x, p->desc.dim, key, dphi, p->map.count, dx, f->user);
  }
}

void features_backward(const attend_plan *p, bool key, int n, const float *x, const float *phi,
                       float *dphi, float *dx, float *work) {
  switch (p->map.kind) {
    case MAP_ELU:
      p->kn->map_elu_backward(phi, dphi, (size_t)n * (size_t)p->ldk, dx);
      break;
    case MAP_POLY:
      back_poly(p, key, n, x, phi, dphi, dx, work);
      break;
    case MAP_POSITIVE:
    case MAP_TRIG:
      back_random(p, n, x, phi, dphi, dx, work);
      break;
    case MAP_CALLER:
      back_caller(p, key, n, x, dphi, dx);
      break;
    case MAP_NONE:
      break;
  }
}
