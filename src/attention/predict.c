/* How wrong random features will be: the error of a number of features, and
 * the number that an error needs.
 *
 * Behind attend/predict.h; desc.c asks for favor(error=..). predict_terms.c says what
 * each key of a row contributes.
 *
 * To first order the square of the relative error is the mean over keys, in
 * proportion to their weights squared, of v, the relative variance of a weight.
 * Where v is not small:
 *  - favor's weights are positive and sum to 1, and a key whose similarity no
 *    direction finds is simply missing, an error of 1 at most as a rule. Averages
 *    of so skewed numbers rarely show their variance. v / (1 + 2 u) was fitted
 *    to measurements (attend/predict.h says how well), u being v, or the
 *    variance of the similarity or the denominator where that is larger, up to
 *    100: a key that has nearly all the weight is hardly wrong (v is small) until
 *    it is not found at all.
 *  - fourier's denominators come near zero. v (1 + 3 w + 15 w^2), w the variance
 *    of the denominator, is the mean of v / (1 + e)^2 for a normal e up to the
 *    second order.
 */
#include "attention/predict.h"

#include <math.h>
#include <stdio.h>

enum { SAMPLE_ROWS = 64, SAMPLE_KEYS = 256 };
static const double STEEP = 2, FOUND = 100, LARGEST = 1e300, NOISE = 0.5;

typedef struct {
  attend_form form;
  int dim;
  predict_terms terms;
} predictor;

/* ---- the error of a number of features -------------------------------------------- */

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

static double square_of(const predictor *p, const predict_term *t,
                        double beside, double dirs) {
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

static double error_of(const predictor *p, double features) {
  double dirs = directions_of(&p->form, features), beside = partners(p, dirs);
  double sum = 0, share = 0;
  for (size_t n = 0; n < p->terms.count; n++) {
    const predict_term *t = &p->terms.terms[n];
    sum += t->share * fmin(square_of(p, t, beside, dirs), LARGEST);
    share += t->share;
  }
  return share > 0 ? sqrt(fmin(sum / share, LARGEST)) : 0;
}

static double variance_of(const predictor *p, double features) {
  double dirs = directions_of(&p->form, features), beside = partners(p, dirs);
  double sum = 0, share = 0;
  for (size_t n = 0; n < p->terms.count; n++) {
    const predict_term *t = &p->terms.terms[n];
    sum += t->share * variance_by(t->weight, beside, dirs);
    share += t->share;
  }
  return share > 0 ? fmin(features * (sum / share), LARGEST) : 0;
}

/* ---- the number that an error needs ------------------------------------------------- */

/* Between `few`, which are not enough, and `many`, which are, to 1 percent. */
static double narrow(const predictor *p, double wanted, double few,
                     double many) {
  while (many > 1.01 * few && many > PREDICT_STEP) {
    double middle = sqrt(few) * sqrt(many);
    if (error_of(p, middle) > wanted)
      few = middle;
    else
      many = middle;
  }
  return many;
}

/* Blocks of directions that are not whole make the error of a multiple of 16 a
 * little uneven: step on until it is met. */
static double features_for(const predictor *p, double wanted) {
  double many = PREDICT_STEP;
  wanted = fmin(wanted, NOISE);
  if (error_of(p, many) <= wanted) return many;
  while (many < LARGEST && error_of(p, many) > wanted) many *= 4;
  if (many >= LARGEST) return LARGEST;
  many = narrow(p, wanted, many / 4, many);
  if (many > PREDICT_MOST) return many;
  many = ceil(many / PREDICT_STEP) * PREDICT_STEP;
  while (error_of(p, many) > wanted) many += PREDICT_STEP;
  return many;
}

static void predict(const predictor *p, double wanted, attend_prediction *out) {
  double features = p->form.features;
  *out = (attend_prediction){.variance = variance_of(p, features),
                             .error = error_of(p, features),
                             .features = features_for(p, wanted),
                             .pairs = p->terms.pairs};
  out->affordable = out->features <= PREDICT_MOST;
}

/* ---- from tensors ------------------------------------------------------------------- */

static attend_status check_question(attend_context *ctx, const attend_form *f,
                                    double wanted) {
  bool random = f->kind == ATTEND_FAVOR || f->kind == ATTEND_FOURIER ||
                (f->kind == ATTEND_GAUSSIAN && f->features > 0);
  ATTEND_CHECK(ctx, random,
               "this form has no random features, and no error of theirs: "
               "choose favor, fourier, or gaussian with features");
  ATTEND_CHECK(ctx, wanted > 0 && isfinite(wanted),
               "the wanted error is %g: choose a positive number such as 0.05",
               wanted);
  return ATTEND_OK;
}

attend_status attend_predict(attend_context *ctx, const attend_desc *desc,
                             attend_view q, attend_view k, double wanted,
                             attend_prediction *out) {
  attend_desc d = *desc;
  *out = (attend_prediction){0};
  ATTEND_TRY(attend_desc_complete(ctx, &d));
  ATTEND_TRY(check_question(ctx, &d.form, wanted));
  predictor p = {.form = d.form, .dim = d.dim};
  ATTEND_TRY(predict_look(ctx, &d, q, k, &p.terms));
  predict(&p, wanted, out);
  give(ctx, p.terms.terms);
  return ATTEND_OK;
}

/* ---- from a scale --------------------------------------------------------------------- */

/* The same normal numbers at every spread: what follows changes smoothly. */
static attend_status look_at_normal(attend_context *ctx, const attend_desc *d,
                                    double spread, predict_terms *out) {
  size_t rows = (size_t)d->q_len * (size_t)d->dim;
  size_t keys = (size_t)d->kv_len * (size_t)d->dim;
  float *x;
  ATTEND_TRY(
      take(ctx, size_times(rows + keys, sizeof *x), "normal q and k", &x));
  attend_random_normal((attend_random){0, 1}, 0, rows, x);
  attend_random_normal((attend_random){0, 2}, 0, keys, x + rows);
  for (size_t n = 0; n < rows + keys; n++)
    x[n] = (float)(spread * (double)x[n]);
  attend_status status =
      predict_look(ctx, d, attend_bhtd(x), attend_bhtd(x + rows), out);
  give(ctx, x);
  return status;
}

static attend_desc sample_desc(const attend_form *form, int keys, int dim,
                               float scale) {
  return (attend_desc){
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

attend_status attend_predict_spread(attend_context *ctx,
                                    const attend_desc *desc, double spread,
                                    double wanted, attend_prediction *out) {
  attend_desc d = *desc;
  *out = (attend_prediction){0};
  ATTEND_TRY(attend_desc_complete(ctx, &d));
  ATTEND_TRY(check_question(ctx, &d.form, wanted));
  ATTEND_CHECK(ctx, spread > 0 && spread < 1e30,
               "the spread of q and k is %g: choose a positive number below "
               "1e30",
               spread);
  attend_desc sample = sample_desc(&d.form, d.kv_len, d.dim, d.scale);
  predictor p = {.form = d.form, .dim = d.dim};
  ATTEND_TRY(look_at_normal(ctx, &sample, spread, &p.terms));
  predict(&p, wanted, out);
  give(ctx, p.terms.terms);
  return ATTEND_OK;
}

/* ---- for descriptions ------------------------------------------------------------------- */

static attend_status needed(attend_context *ctx, const attend_form *form,
                            int dim, float scale, double spread,
                            double *features) {
  attend_desc d = sample_desc(form, 0, dim, scale);
  d.form.error = d.form.spread = 0;
  d.form.features = PREDICT_STEP; /* any: nothing is drawn */
  predictor p = {.form = d.form, .dim = dim};
  ATTEND_TRY(look_at_normal(ctx, &d, spread, &p.terms));
  *features = features_for(&p, (double)form->error);
  give(ctx, p.terms.terms);
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
static attend_status refuse(attend_context *ctx, const attend_form *form,
                            int dim, float scale, double spread,
                            double features) {
  double lower = fmin(pow(dim, -0.25), spread / 2), fewer = features;
  char much[32], less[32];
  for (int n = 0; n < 16; n++, lower /= 2) {
    ATTEND_TRY(needed(ctx, form, dim, scale, lower, &fewer));
    if (fewer <= PREDICT_MOST) break;
  }
  print_count(features, much);
  print_count(fewer, less);
  return fail(ctx, ATTEND_INVALID,
              "an error of %g would take about %s features at width %d with q "
              "and k of rms %g: scale q and k down (rms %.2g needs about %s), "
              "allow a larger error, or use softmax",
              (double)form->error, much, dim, spread, lower, less);
}

attend_status predict_features(attend_context *ctx, const attend_form *form,
                               int dim, float scale, int *features) {
  double spread = form->spread > 0 ? (double)form->spread : 1, count;
  ATTEND_CHECK(ctx, spread < 1e30,
               "the spread of q and k is %g: choose a positive number below "
               "1e30",
               spread);
  ATTEND_TRY(needed(ctx, form, dim, scale, spread, &count));
  if (count > PREDICT_MOST) return refuse(ctx, form, dim, scale, spread, count);
  *features = (int)count;
  return ATTEND_OK;
}
