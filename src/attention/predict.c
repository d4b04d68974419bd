/* Predicting the error of random features: the error of a number of features, and the
 * number that an error needs. attend/problem.h states the result and how well it holds.
 */
#include "attend/problem.h"

#include <math.h>
#include <stdio.h>

#include "attention/definition.h"
#include "base/options.h"

/* ==== the variance of one key's weight ========================================
 *
 * With z_j = x + y_j (waves: x - y_j) the estimate of similarity j by one direction w, divided by
 * the similarity, is exp(w.z_j - |z_j|^2/2), or the same with cosh (pairs) or cos (waves) in place
 * of exp. So the covariance of two keys of a row is, with c = z_j.z_l,
 *
 *   favor            exp(c) - 1
 *   pairs, fourier   cosh(c) - 1
 *
 * Two orthogonal directions with independent normal lengths do not estimate
 * independently. For j = l, t = c/2 and n = D/2
 *
 *   favor, pairs     exp(-t) F(-t) - 1        F(t) = 1F1(-n; n; t)
 *   fourier          exp(t) F(t) - 1
 *
 * which is negative; for j != l the same function of |c| is close (exact to order c^2 up to 1/D).
 *
 * Sums over pairs of keys run over all keys in short rows, and over FEW in long ones,
 * sampled systematically in proportion to p^2 (the keys whose errors count) and to p
 * (the keys they are compared with). The weights of a row are the definition's. */

/* A relative variance by R directions is (alone + partners beside) / R, where
 * `partners` is how many directions each one is orthogonal to. */
typedef struct {
  double alone, beside;
} predict_variance;

/* A key of a row. */
typedef struct {
  double share;            /* of the square of the output: its weight squared */
  bool only;               /* the row sees no other key: nothing can go wrong */
  predict_variance weight; /* of its normalised weight, to first order */
  predict_variance sim;    /* of its similarity */
  predict_variance total;  /* of the row's denominator */
} predict_term;

typedef struct {
  predict_term *terms;
  size_t count;
  double pairs;
} predict_terms;

enum { FEW = 32 };                         /* keys of a row looked at closely */
enum { LEAST_ROWS = 24, MOST_ROWS = 128 }; /* rows of a problem */
static const double ENOUGH = 1e5;          /* pairs */
static const double LARGEST = 1e300;

typedef struct { /* some keys of a row */
  int count;
  int key[FEW];
  double part[FEW];   /* of all, by p^2 or by p; sums to 1 */
  double weight[FEW]; /* p */
  double *z;          /* [FEW][D] */
} few_keys;

typedef struct {
  definition_row row;
  bool waves, even, orthogonal;
  double unit;            /* sqrt(scale) */
  few_keys wrong, beside; /* by p^2, by p */
  double *block;
  double squares; /* sum of p^2 */
  double top;     /* exponents of this row are taken relative to it */
  bool only;      /* the row sees one key */
} row_view;

/* ---- covariances ----------------------------------------------------------------- */

/* 1F1(-n; n; t) with n = D/2, by the recurrence over its first argument; an odd
 * D takes the next even one. */
static double laguerre(int dim, double t) {
  int n = (dim + 1) / 2;
  double before = 1, now = 1 - t / n;
  for (int k = 1; k < n; k++) {
    double next = ((2 * k + n - t) * now - k * before) / (n + k);
    before = now;
    now = next;
  }
  return now;
}

/* Beyond 300 it is nothing against the covariance itself. */
static double covariance_beside(const row_view *l, double c) {
  double t = fabs(c) / 2, s = l->waves ? t : -t;
  if (!l->orthogonal || l->row.d.dim < 2 || l->top > 0) return 0;
  return t < 300 ? exp(s) * laguerre(l->row.d.dim, s) - 1 : -1;
}

/* Times exp(-top). */
static double covariance_alone(const row_view *l, double c) {
  if (l->top > 0) return exp((l->even ? fabs(c) : c) - l->top);
  if (!l->even) return expm1(c);
  double half = sinh(c / 2);
  return 2 * half * half;
}

static predict_variance covariance(const row_view *l, double c) {
  return (predict_variance){covariance_alone(l, c), covariance_beside(l, c)};
}

static void add(predict_variance *sum, double factor, predict_variance x) {
  sum->alone += factor * x.alone;
  sum->beside += factor * x.beside;
}

static predict_variance times(double factor, predict_variance x) {
  return (predict_variance){factor * x.alone, factor * x.beside};
}

/* ---- choosing keys --------------------------------------------------------------- */

static double importance(const row_view *l, int s, bool squared) {
  double p = l->row.weight[s];
  return squared ? p * p : p;
}

/* Key `place` of the choice is the s-th that the row sees. */
static void choose_key(const row_view *l, few_keys *few, int place, int s, double part) {
  const definition_row *row = &l->row;
  double *z = few->z + (ptrdiff_t)place * row->d.dim;
  few->key[place] = row->visible[s];
  few->part[place] = part;
  few->weight[place] = row->weight[s];
  definition_row_read_key(row, row->visible[s]);
  for (int x = 0; x < row->d.dim; x++)
    z[x] = l->unit * (row->query[x] + (l->waves ? -row->key[x] : row->key[x]));
}

/* In long rows, the keys at which the running sum of importance passes the
 * middle of each of FEW equal parts. */
static void choose_keys(const row_view *l, bool squared, few_keys *few) {
  int n = l->row.n_visible;
  double sum = 0, whole = squared ? l->squares : 1;
  few->count = n < FEW ? n : FEW;
  for (int s = 0; n <= FEW && s < n; s++)
    choose_key(l, few, s, s, importance(l, s, squared) / whole);
  int place = 0;
  for (int s = 0; n > FEW && s < n; s++) {
    sum += importance(l, s, squared) / whole;
    while (place < FEW && ((place + 0.5) / FEW < sum || s == n - 1))
      choose_key(l, few, place++, s, 1.0 / FEW);
  }
}

/* ---- one row --------------------------------------------------------------------- */

static double inner(const row_view *l, const few_keys *a, int i, const few_keys *b, int j) {
  int dim = l->row.d.dim;
  return definition_dot(a->z + (ptrdiff_t)i * dim, b->z + (ptrdiff_t)j * dim, dim);
}

/* Exponents reach 500 as they are. The largest c is that of a key with itself,
 * by Cauchy and Schwarz. */
static void find_top(row_view *l) {
  double max = 0;
  for (int i = 0; i < l->wrong.count; i++) max = fmax(max, inner(l, &l->wrong, i, &l->wrong, i));
  for (int i = 0; i < l->beside.count; i++) max = fmax(max, inner(l, &l->beside, i, &l->beside, i));
  l->top = fmax(0, max - 500);
}

/* Of key i of `a` against all other keys of the row. */
static predict_variance against_others(const row_view *l, const few_keys *a, int i, double *parts) {
  const few_keys *b = &l->beside;
  predict_variance sum = {0, 0};
  *parts = 0;
  for (int j = 0; j < b->count; j++) {
    if (b->key[j] == a->key[i]) continue;
    add(&sum, b->part[j], covariance(l, inner(l, a, i, b, j)));
    *parts += b->part[j];
  }
  return sum;
}

static predict_variance with_itself(const row_view *l, int i) {
  return covariance(l, inner(l, &l->wrong, i, &l->wrong, i));
}

/* Of the denominator: pairs of a key with itself, and of two keys. */
static predict_variance row_total(const row_view *l) {
  predict_variance same = {0, 0}, apart = {0, 0};
  double apart_parts = 0;
  for (int i = 0; i < l->wrong.count; i++) add(&same, l->wrong.part[i], with_itself(l, i));
  for (int i = 0; i < l->beside.count; i++) {
    double parts;
    predict_variance sum = against_others(l, &l->beside, i, &parts);
    add(&apart, l->beside.part[i], sum);
    apart_parts += l->beside.part[i] * parts;
  }
  predict_variance total = times(l->squares, same);
  if (apart_parts > 0) add(&total, (1 - l->squares) / apart_parts, apart);
  return total;
}

static predict_variance scaled_backward(const row_view *l, predict_variance v) {
  double grown = v.alone > 0 ? exp(fmin(log(v.alone) + l->top, 690)) : 0;
  return (predict_variance){fmin(grown, LARGEST), v.beside};
}

/* e_j - sum_l p_l e_l: twice the covariance of the two is taken off. */
static predict_term key_term(const row_view *l, int i, predict_variance total) {
  double p = l->wrong.weight[i], parts;
  predict_variance own = with_itself(l, i), shared = times(p, own);
  predict_variance others = against_others(l, &l->wrong, i, &parts);
  if (parts > 0) add(&shared, (1 - p) / parts, others);
  predict_variance weight = own;
  if (parts > 0) {
    add(&weight, -2, shared);
    add(&weight, 1, total);
  } else {
    weight = (predict_variance){0, 0}; /* the only key that counts */
  }
  return (predict_term){.share = l->wrong.part[i] * l->squares,
                        .only = l->only,
                        .weight = scaled_backward(l, weight),
                        .sim = scaled_backward(l, own),
                        .total = scaled_backward(l, total)};
}

static bool sees_one(const attend_desc *d, int b, int i) {
  int visible = 0;
  for (int j = 0; j < d->kv_len && visible < 2; j++) visible += attend_visible(d, b, i, j) != 0;
  return visible == 1;
}

static attend_status add_row_terms(attend_context *ctx, row_view *l, int b, int h, int i,
                                   predict_terms *out) {
  definition_row *row = &l->row;
  definition_row_weigh(row, b, h, i);
  out->pairs += row->n_visible;
  if (row->n_visible == 0) return ATTEND_OK;
  l->only = sees_one(&row->d, b, i); /* n_seen leaves out weights of 0 */
  ATTEND_CHECK(ctx, isfinite(row->lse),
               "query %d of batch entry %d, head %d, has a score that is not "
               "finite: no error can be predicted for NaN or infinite q and k",
               i, b, h);
  l->squares = 0;
  for (int s = 0; s < row->n_visible; s++) l->squares += importance(l, s, true);
  choose_keys(l, true, &l->wrong);
  choose_keys(l, false, &l->beside);
  find_top(l);
  predict_variance total = row_total(l);
  for (int j = 0; j < l->wrong.count; j++) out->terms[out->count++] = key_term(l, j, total);
  return ATTEND_OK;
}

/* ---- all rows -------------------------------------------------------------------- */

/* What the features stand in for. */
static attend_form exact_form(const attend_form *f) {
  attend_form exact = {.kind = ATTEND_SOFTMAX};
  if (f->kind != ATTEND_GAUSSIAN) return exact;
  exact.kind = ATTEND_GAUSSIAN;
  exact.sigma = f->sigma;
  return exact;
}

static attend_status open_row(attend_context *ctx, const attend_desc *d, attend_view q,
                              attend_view k, row_view *l) {
  const attend_form *f = &d->form;
  bool gaussian = f->kind == ATTEND_GAUSSIAN;
  attend_desc exact = *d;
  exact.form = exact_form(f);
  exact.engine = NULL;
  l->waves = gaussian ? f->map == ATTEND_TRIGONOMETRIC : f->kind == ATTEND_FOURIER;
  l->even = l->waves || f->pairs;
  l->orthogonal = f->draw == ATTEND_ORTHOGONAL;
  l->unit = gaussian ? 1 / (double)f->sigma : sqrt((double)d->scale);
  ATTEND_TRY(definition_row_open(ctx, &exact, q, k, &l->row));
  size_t each = FEW * (size_t)d->dim;
  attend_status status =
      ctx_alloc(ctx, SIZE_PRODUCT(2, each, sizeof(double)), "a few keys of a row", &l->block);
  l->wrong.z = l->block;
  l->beside.z = status ? NULL : l->block + each;
  return status;
}

static int64_t sample_size(const attend_desc *d) {
  int64_t all = (int64_t)d->batch * d->heads * d->q_len;
  double fit = ENOUGH / (d->kv_len ? d->kv_len : 1);
  int64_t max = fit < LEAST_ROWS ? LEAST_ROWS : (int64_t)fmin(fit, MOST_ROWS);
  return min64(all, max);
}

static attend_status add_rows(attend_context *ctx, row_view *l, int64_t rows, predict_terms *out) {
  const attend_desc *d = &l->row.d;
  int64_t all = (int64_t)d->batch * d->heads * d->q_len;
  for (int64_t n = 0; n < rows; n++) {
    int64_t at = (int64_t)(((double)n + 0.5) * (double)all / (double)rows);
    int64_t head = at / d->q_len;
    ATTEND_TRY(add_row_terms(ctx, l, (int)(head / d->heads), (int)(head % d->heads),
                             (int)(at % d->q_len), out));
  }
  return ATTEND_OK;
}

static attend_status collect_terms(attend_context *ctx, const attend_desc *desc, attend_view q,
                                   attend_view k, predict_terms *out) {
  *out = (predict_terms){0};
  row_view l = {.unit = 1};
  int64_t rows = sample_size(desc);
  attend_status status = open_row(ctx, desc, q, k, &l);
  if (!status)
    status = ctx_alloc(ctx, SIZE_PRODUCT((size_t)rows, FEW, sizeof *out->terms),
                       "terms of a predicted error", &out->terms);
  if (!status) status = add_rows(ctx, &l, rows, out);
  if (status) ctx_free(ctx, out->terms);
  ctx_free(ctx, l.block);
  definition_row_close(ctx, &l.row);
  return status;
}

/* ==== the error of a row =====================================================
 *
 * To first order the square of the relative error is the mean over keys, in proportion
 * to their weights squared, of v, the relative variance of a weight. Where v is not
 * small:
 *  - favor's weights are positive and sum to 1. A key whose similarity no direction
 *    finds is missing, an error of 1 at most as a rule, and averages of so skewed
 *    numbers rarely show their variance. v / (1 + 2 u) was fitted to measurements
 *    (attend/problem.h says how well); u is v, or the variance of the similarity or of
 *    the denominator if that is larger, up to 100: a key with nearly all the weight has
 *    almost no error (v is small) until it is not found at all.
 *  - fourier's denominators come near zero. v (1 + 3 w + 15 w^2), w the variance of the
 *    denominator, is the mean of v / (1 + e)^2 for a normal e up to second order. */

enum { SAMPLE_ROWS = 64, SAMPLE_KEYS = 256 };
static const double STEEP = 2, FOUND = 100, NOISE = 0.5;

typedef struct {
  attend_form form;
  int dim;
  predict_terms terms;
} predictor;

/* ---- the error of a number of features ------------------------------------------- */

static bool is_wave(const attend_form *f) {
  return f->kind == ATTEND_FOURIER ||
         (f->kind == ATTEND_GAUSSIAN && f->map == ATTEND_TRIGONOMETRIC);
}

static double directions_of(const attend_form *f, double features) {
  return is_wave(f) || f->pairs ? fmax(1, features / 2) : features;
}

/* How many others a direction is orthogonal to, on average: blocks of dim. */
static double partners(const predictor *p, double directions) {
  if (p->form.draw != ATTEND_ORTHOGONAL) return 0;
  double rest = fmod(directions, p->dim), whole = directions - rest;
  return (whole * (p->dim - 1) + rest * fmax(0, rest - 1)) / directions;
}

static double variance_by(predict_variance v, double beside, double dirs) {
  return fmax(0, v.alone + beside * v.beside) / dirs;
}

static double square_of(const predictor *p, const predict_term *t, double beside, double dirs) {
  double v = variance_by(t->weight, beside, dirs);
  double w = variance_by(t->total, beside, dirs);
  double u = fmax(w, variance_by(t->sim, beside, dirs));
  double square = is_wave(&p->form) ? v * fmin(1 + 3 * w + 15 * w * w, LARGEST)
                                    : v / (1 + STEEP * fmax(v, fmin(u, FOUND)));
  /* Similarities that are all noise find no key, however much one outweighs the
   * others; the first order then says nothing. */
  if (u <= FOUND || t->only) return square;
  return fmax(square, NOISE * (1 - FOUND / u));
}

/* The mean over keys, in proportion to their weights squared, of the relative variance of a
 * weight, or of the square of the error that comes of it. */
static double mean_over_keys(const predictor *p, double features, bool variance) {
  double dirs = directions_of(&p->form, features), beside = partners(p, dirs);
  double sum = 0, share = 0;
  for (size_t n = 0; n < p->terms.count; n++) {
    const predict_term *t = &p->terms.terms[n];
    double x = variance ? variance_by(t->weight, beside, dirs)
                        : fmin(square_of(p, t, beside, dirs), LARGEST);
    sum += t->share * x;
    share += t->share;
  }
  return share > 0 ? sum / share : 0;
}

static double error_of(const predictor *p, double features) {
  return sqrt(fmin(mean_over_keys(p, features, false), LARGEST));
}

static double variance_of(const predictor *p, double features) {
  return fmin(features * mean_over_keys(p, features, true), LARGEST);
}

/* ---- the number that an error needs ---------------------------------------------- */

/* Between `few`, which are not enough, and `many`, which are, to 1 percent. */
static double narrow(const predictor *p, double target, double few, double many) {
  while (many > 1.01 * few && many > PREDICT_STEP) {
    double middle = sqrt(few) * sqrt(many);
    if (error_of(p, middle) > target)
      few = middle;
    else
      many = middle;
  }
  return many;
}

/* Blocks of directions that are not whole make the error of a multiple of 16 a
 * little uneven: step on until it is met. */
static double features_for(const predictor *p, double target) {
  double many = PREDICT_STEP;
  target = fmin(target, NOISE);
  if (error_of(p, many) <= target) return many;
  while (many < LARGEST && error_of(p, many) > target) many *= 4;
  if (many >= LARGEST) return LARGEST;
  many = narrow(p, target, many / 4, many);
  if (many > PREDICT_MOST) return many;
  many = ceil(many / PREDICT_STEP) * PREDICT_STEP;
  while (error_of(p, many) > target) many += PREDICT_STEP;
  return many;
}

static void predict(const predictor *p, double target, attend_prediction *out) {
  double features = p->form.features;
  *out = (attend_prediction){.variance = variance_of(p, features),
                             .error = error_of(p, features),
                             .features = features_for(p, target),
                             .pairs = p->terms.pairs};
  out->affordable = out->features <= PREDICT_MOST;
}

/* ---- from tensors ---------------------------------------------------------------- */

static attend_status check_request(attend_context *ctx, const attend_form *f, double target) {
  bool random = f->kind == ATTEND_FAVOR || f->kind == ATTEND_FOURIER ||
                (f->kind == ATTEND_GAUSSIAN && f->features > 0);
  ATTEND_CHECK(ctx, random,
               "this form has no random features, and no error of theirs: "
               "choose favor, fourier, or gaussian with features");
  ATTEND_CHECK(ctx, target > 0 && isfinite(target),
               "the target error is %g: choose a positive number such as 0.05", target);
  return ATTEND_OK;
}

attend_status attend_predict(attend_context *ctx, const attend_desc *desc, attend_view q,
                             attend_view k, double target, attend_prediction *out) {
  attend_desc d;
  *out = (attend_prediction){0};
  ATTEND_TRY(OPTIONS_READ(ctx, attend_desc, desc, &d));
  ATTEND_TRY(desc_complete(ctx, &d));
  ATTEND_TRY(check_request(ctx, &d.form, target));
  predictor p = {.form = d.form, .dim = d.dim};
  ATTEND_TRY(collect_terms(ctx, &d, q, k, &p.terms));
  predict(&p, target, out);
  ctx_free(ctx, p.terms.terms);
  return ATTEND_OK;
}

/* ---- from a scale ---------------------------------------------------------------- */

/* The same normal numbers at every spread: what follows changes smoothly. */
static attend_status normal_terms(attend_context *ctx, const attend_desc *d, double spread,
                                  predict_terms *out) {
  size_t rows = (size_t)d->q_len * (size_t)d->dim;
  size_t keys = (size_t)d->kv_len * (size_t)d->dim;
  float *x;
  ATTEND_TRY(ctx_alloc(ctx, size_times(rows + keys, sizeof *x), "normal q and k", &x));
  attend_random_normal((attend_random){0, 1}, 0, rows, x);
  attend_random_normal((attend_random){0, 2}, 0, keys, x + rows);
  for (size_t n = 0; n < rows + keys; n++) x[n] = (float)(spread * (double)x[n]);
  attend_status status = collect_terms(ctx, d, attend_bhtd(x), attend_bhtd(x + rows), out);
  ctx_free(ctx, x);
  return status;
}

static attend_desc sample_desc(const attend_form *form, int keys, int dim, float scale) {
  return (attend_desc){ATTEND_INIT(attend_desc),
                       .form = *form,
                       .batch = 1,
                       .heads = 1,
                       .kv_heads = 1,
                       .q_len = SAMPLE_ROWS,
                       .kv_len = keys > 0 && keys < SAMPLE_KEYS ? keys : SAMPLE_KEYS,
                       .dim = dim,
                       .dim_v = dim,
                       .scale = scale};
}

attend_status attend_predict_spread(attend_context *ctx, const attend_desc *desc, double spread,
                                    double target, attend_prediction *out) {
  attend_desc d;
  *out = (attend_prediction){0};
  ATTEND_TRY(OPTIONS_READ(ctx, attend_desc, desc, &d));
  ATTEND_TRY(desc_complete(ctx, &d));
  ATTEND_TRY(check_request(ctx, &d.form, target));
  ATTEND_CHECK(ctx, spread > 0 && spread < 1e30,
               "the spread of q and k is %g: choose a positive number below 1e30", spread);
  attend_desc sample = sample_desc(&d.form, d.kv_len, d.dim, d.scale);
  predictor p = {.form = d.form, .dim = d.dim};
  ATTEND_TRY(normal_terms(ctx, &sample, spread, &p.terms));
  predict(&p, target, out);
  ctx_free(ctx, p.terms.terms);
  return ATTEND_OK;
}

/* ---- for descriptions ------------------------------------------------------------ */

static attend_status needed(attend_context *ctx, const attend_form *form, int dim, float scale,
                            double spread, double *features) {
  attend_desc d = sample_desc(form, 0, dim, scale);
  d.form.error = d.form.spread = 0;
  d.form.features = PREDICT_STEP; /* any: nothing is drawn */
  predictor p = {.form = d.form, .dim = dim};
  ATTEND_TRY(normal_terms(ctx, &d, spread, &p.terms));
  *features = features_for(&p, (double)form->error);
  ctx_free(ctx, p.terms.terms);
  return ATTEND_OK;
}

/* "2,700" or "3e+09". */
static void print_count(double n, char text[32]) {
  if (n >= 1e6)
    snprintf(text, 32, "%.0e", n);
  else if (n >= 1000)
    snprintf(text, 32, "%d,%03d", (int)n / 1000, (int)n % 1000);
  else
    snprintf(text, 32, "%d", (int)n);
}

/* A spread at which the error can be had: softmax's scores have unit variance
 * at dim^(-1/4) times itself; below that, halves. */
static attend_status refuse(attend_context *ctx, const attend_form *form, int dim, float scale,
                            double spread, double features) {
  double lower = fmin(pow(dim, -0.25), spread / 2), fewer = features;
  char much[32], less[32];
  for (int n = 0; n < 16; n++, lower /= 2) {
    ATTEND_TRY(needed(ctx, form, dim, scale, lower, &fewer));
    if (fewer <= PREDICT_MOST) break;
  }
  print_count(features, much);
  print_count(fewer, less);
  return fail(ctx, ATTEND_INVALID,
              "an error of %g would take about %s features at width %d with q and k of rms %g: "
              "scale q and k down (rms %.2g needs about %s), allow a larger error, or use softmax",
              (double)form->error, much, dim, spread, lower, less);
}

attend_status predict_features(attend_context *ctx, const attend_form *form, int dim, float scale,
                               int *features) {
  double spread = form->spread > 0 ? (double)form->spread : 1, count;
  ATTEND_CHECK(ctx, spread < 1e30,
               "the spread of q and k is %g: choose a positive number below 1e30", spread);
  ATTEND_TRY(needed(ctx, form, dim, scale, spread, &count));
  if (count > PREDICT_MOST) return refuse(ctx, form, dim, scale, spread, count);
  *features = (int)count;
  return ATTEND_OK;
}
