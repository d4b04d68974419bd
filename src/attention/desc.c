/* Descriptions: what a form implies, defaults, checks, and the rules for masks and
 * biases.
 *
 * ALiBi slopes: Press et al. 2022. Relative position buckets: T5, Raffel et al. 2020.
 */
#include "attention/desc.h"

#include <math.h>

#include "attend/problem.h"
#include "attention/features.h"
#include "base/options.h"

/* ---- forms ----------------------------------------------------------------------- */

bool form_has_scale(attend_form_kind kind) {
  return kind == ATTEND_SOFTMAX || kind == ATTEND_ARGMAX || kind == ATTEND_FOURIER ||
         kind == ATTEND_FAVOR;
}

int form_directions(const attend_form *form) {
  switch (form->kind) {
    case ATTEND_FAVOR:
      return form->pairs ? form->features / 2 : form->features;
    case ATTEND_FOURIER:
      return form->features / 2;
    case ATTEND_GAUSSIAN:
      return form->map == ATTEND_TRIGONOMETRIC ? form->features / 2 : form->features;
    case ATTEND_SOFTMAX:
    case ATTEND_ARGMAX:
    case ATTEND_POLY:
    case ATTEND_ELU:
    case ATTEND_CUSTOM:
      break;
  }
  return 0;
}

bool attend_form_signed(const attend_form *form) {
  bool waves = form->features > 0 && form->map == ATTEND_TRIGONOMETRIC;
  return form->kind == ATTEND_POLY || form->kind == ATTEND_CUSTOM || form->kind == ATTEND_FOURIER ||
         (form->kind == ATTEND_GAUSSIAN && waves);
}

/* Monomials of dim variables up to a degree: dim + degree over degree, or INT64_MAX where that is
 * less. After step n the product is n' + n over n, a whole number, and it only grows. */
static int64_t monomials(int dim, int degree) {
  int few = dim < degree ? dim : degree, many = dim < degree ? degree : dim;
  int64_t count = 1;
  for (int64_t n = 1; n <= few; n++) {
    __int128 next = (__int128)count * (many + n) / n;
    if (next > INT64_MAX) return INT64_MAX;
    count = (int64_t)next;
  }
  return count;
}

int64_t attend_form_features(const attend_form *form, int dim) {
  switch (form->kind) {
    case ATTEND_POLY:
      return monomials(dim, form->degree ? form->degree : FORM_DEGREE);
    case ATTEND_ELU:
      return dim;
    case ATTEND_FOURIER:
    case ATTEND_FAVOR:
      return form->features ? form->features : FORM_FEATURES;
    case ATTEND_GAUSSIAN:
      return form->features;
    case ATTEND_CUSTOM:
      return form->phi ? form->features : 0;
    case ATTEND_SOFTMAX:
    case ATTEND_ARGMAX:
      break;
  }
  return 0;
}

enum { BUCKETS = 32, MAX_DISTANCE = 128 }; /* T5's */
enum { WIDEST = 1 << 29 };                 /* two of them, padded, are an int */
enum { FURTHEST = 1 << 24 };               /* a table by distance is spread out */

/* ---- defaults -------------------------------------------------------------------- */

/* favor and fourier stand in for softmax. */
static bool is_approximate(const attend_form *form) {
  return form->kind == ATTEND_FAVOR || form->kind == ATTEND_FOURIER;
}

/* What sigma says the scale is, for the forms in which it is another name. */
static float scale_of(const attend_form *form) {
  if (!is_approximate(form) || form->sigma == 0) return 0;
  return (float)(1 / ((double)form->sigma * (double)form->sigma));
}

static void form_defaults(attend_form *form, int dim) {
  if (form->kind == ATTEND_POLY) {
    if (form->degree == 0) form->degree = FORM_DEGREE;
    if (form->a == 0) form->a = 1;
  }
  if (is_approximate(form) && form->features == 0 && form->error == 0)
    form->features = FORM_FEATURES;
  if (form->kind == ATTEND_GAUSSIAN && form->sigma == 0 && dim > 0)
    form->sigma = (float)pow(dim, 0.25);
}

static void bias_defaults(attend_bias *bias) {
  if (bias->kind != ATTEND_BUCKETS) return;
  if (bias->buckets == 0) bias->buckets = BUCKETS;
  if (bias->max_distance == 0) bias->max_distance = MAX_DISTANCE;
}

void desc_defaults(attend_desc *d) {
  if (d->batch == 0) d->batch = 1;
  if (d->heads == 0) d->heads = 1;
  if (d->kv_heads == 0) d->kv_heads = d->heads;
  if (d->dim_v == 0) d->dim_v = d->dim;
  if (d->scale == 0) d->scale = scale_of(&d->form);
  if (d->scale == 0 && d->dim > 0) d->scale = (float)(1 / sqrt(d->dim));
  form_defaults(&d->form, d->dim);
  bias_defaults(&d->bias);
}

/* ---- checks ---------------------------------------------------------------------- */

static attend_status check_sizes(attend_context *ctx, const attend_desc *d) {
  const struct {
    const char *name;
    int value, min;
  } sizes[] = {
      {"batch", d->batch, 1}, {"heads", d->heads, 1},   {"kv_heads", d->kv_heads, 1},
      {"q_len", d->q_len, 0}, {"kv_len", d->kv_len, 0}, {"dim", d->dim, 1},
      {"dim_v", d->dim_v, 1},
  };
  for (size_t n = 0; n < sizeof sizes / sizeof *sizes; n++)
    ATTEND_CHECK(ctx, sizes[n].value >= sizes[n].min, "%s is %d: choose %d or more", sizes[n].name,
                 sizes[n].value, sizes[n].min);
  ATTEND_CHECK(ctx, d->heads % d->kv_heads == 0,
               "%d kv heads do not divide %d heads: choose kv_heads so that "
               "each serves the same number of heads",
               d->kv_heads, d->heads);
  return ATTEND_OK;
}

/* Whether [batch, heads, length, width] fits the address space in double, the
 * widest element anyone stores it in. */
static bool tensor_fits(int batch, int heads, int length, int width) {
  return SIZE_PRODUCT((size_t)batch, (size_t)heads, (size_t)length, (size_t)width,
                      sizeof(double)) <= PTRDIFF_MAX;
}

static attend_status check_extent(attend_context *ctx, const attend_desc *d) {
  int width = d->dim > d->dim_v ? d->dim : d->dim_v;
  ATTEND_CHECK(ctx, tensor_fits(d->batch, d->heads, d->q_len, width),
               "queries of batch %d x heads %d x q_len %d x width %d exceed "
               "the address space: choose smaller sizes",
               d->batch, d->heads, d->q_len, width);
  ATTEND_CHECK(ctx, tensor_fits(d->batch, d->kv_heads, d->kv_len, width),
               "keys of batch %d x kv_heads %d x kv_len %d x width %d exceed "
               "the address space: choose smaller sizes",
               d->batch, d->kv_heads, d->kv_len, width);
  ATTEND_CHECK(ctx,
               d->bias.kind != ATTEND_DENSE || tensor_fits(d->batch, d->heads, d->q_len, d->kv_len),
               "a dense bias of batch %d x heads %d x q_len %d x kv_len %d exceeds the address "
               "space: choose smaller sizes or another bias",
               d->batch, d->heads, d->q_len, d->kv_len);
  ATTEND_CHECK(ctx, (int64_t)d->batch * d->heads <= INT32_MAX,
               "batch %d x heads %d exceed %d: cut the batch into several calls", d->batch,
               d->heads, INT32_MAX);
  ATTEND_CHECK(ctx, width <= WIDEST, "a width of %d: choose %d or less", width, WIDEST);
  return ATTEND_OK;
}

static attend_status check_choices(attend_context *ctx, const attend_desc *d) {
  const struct {
    const char *name;
    unsigned value, last;
    const char *choices;
  } choices[] = {
      {"form", d->form.kind, ATTEND_CUSTOM,
       "ATTEND_SOFTMAX, _ARGMAX, _POLY, _GAUSSIAN, _ELU, _FOURIER, _FAVOR or _CUSTOM"},
      {"ties", d->form.ties, ATTEND_TIES_AVERAGE, "ATTEND_TIES_FIRST or _AVERAGE"},
      {"draw", d->form.draw, ATTEND_IID, "ATTEND_ORTHOGONAL or _IID"},
      {"map", d->form.map, ATTEND_TRIGONOMETRIC, "ATTEND_POSITIVE or _TRIGONOMETRIC"},
      {"causal", d->mask.causal, ATTEND_CAUSAL_BOTTOM,
       "ATTEND_NOT_CAUSAL, _CAUSAL, _CAUSAL_TOP or _CAUSAL_BOTTOM"},
      {"bias", d->bias.kind, ATTEND_DENSE, "ATTEND_NO_BIAS, _ALIBI, _BUCKETS or _DENSE"},
      {"dtype", d->dtype, ATTEND_BF16, "ATTEND_F32, _F16 or _BF16"},
      {"purpose", d->purpose, ATTEND_FOR_BACKWARD | ATTEND_FOR_EXTEND,
       "0 or a sum of ATTEND_FOR_BACKWARD and _EXTEND"},
  };
  for (size_t n = 0; n < sizeof choices / sizeof *choices; n++)
    ATTEND_CHECK(ctx, choices[n].value <= choices[n].last, "%s %u does not exist: choose %s",
                 choices[n].name, choices[n].value, choices[n].choices);
  return ATTEND_OK;
}

static attend_status check_form(attend_context *ctx, const attend_form *f) {
  ATTEND_CHECK(ctx, f->temperature >= 0 && isfinite(f->temperature),
               "temperature is %g: choose 0 for a hard argmax or a positive number for a soft one",
               (double)f->temperature);
  ATTEND_CHECK(ctx, f->temperature == 0 || f->kind == ATTEND_ARGMAX,
               "temperature %g belongs to argmax: choose form argmax, or leave "
               "temperature 0 and choose a scale",
               (double)f->temperature);
  if (f->kind == ATTEND_POLY) {
    ATTEND_CHECK(ctx, f->degree >= 1, "degree is %d: choose 1 or more", f->degree);
    ATTEND_CHECK(ctx, isfinite(f->a) && isfinite(f->c),
                 "poly's a is %g and c is %g: choose finite numbers", (double)f->a, (double)f->c);
  }
  ATTEND_CHECK(ctx, f->kind != ATTEND_GAUSSIAN || (f->sigma > 0 && isfinite(f->sigma)),
               "sigma is %g: choose a positive number, or 0 for dim^(1/4)", (double)f->sigma);
  return ATTEND_OK;
}

static attend_status check_custom(attend_context *ctx, const attend_desc *d) {
  const attend_form *f = &d->form;
  if (f->kind != ATTEND_CUSTOM) return ATTEND_OK;
  ATTEND_CHECK(ctx, f->sim || f->phi,
               "form custom has no similarity: set form.sim to a function of a "
               "query and a key, or form.phi to a feature map");
  ATTEND_CHECK(ctx, !f->sim || !f->phi, "form custom has both sim and phi: set one of them");
  ATTEND_CHECK(ctx, !f->phi || f->features >= 1,
               "phi fills %d features: set form.features to 1 or more", f->features);
  ATTEND_CHECK(ctx, !f->phi || f->phi_backward || !(d->purpose & ATTEND_FOR_BACKWARD),
               "phi has no derivative for a backward pass: set form.phi_backward");
  return ATTEND_OK;
}

static attend_status check_scale(attend_context *ctx, const attend_desc *d) {
  const attend_form *f = &d->form;
  ATTEND_CHECK(ctx, !is_approximate(f) || f->sigma == 0 || (f->sigma > 1e-15f && f->sigma < 1e15f),
               "sigma is %g: choose a number between 1e-15 and 1e15, or leave "
               "it 0 and choose a scale",
               (double)f->sigma);
  ATTEND_CHECK(ctx, isfinite(d->scale), "scale is %g: choose a finite number, or 0 for 1/sqrt(dim)",
               (double)d->scale);
  if (!is_approximate(f)) return ATTEND_OK;
  ATTEND_CHECK(ctx, d->scale > 0,
               "scale is %g: random features take its square root; choose a "
               "positive number, or form softmax",
               (double)d->scale);
  ATTEND_CHECK(ctx, f->sigma == 0 || d->scale == scale_of(f),
               "scale %g and sigma %g disagree: scale is 1/sigma^2, so set one of them",
               (double)d->scale, (double)f->sigma);
  return ATTEND_OK;
}

/* tanh in f32 makes ties of scores that a hard argmax would tell apart. */
static attend_status check_soft_cap(attend_context *ctx, const attend_desc *d) {
  const attend_form *f = &d->form;
  ATTEND_CHECK(ctx, d->soft_cap == 0 || (d->soft_cap > 1e-15f && d->soft_cap < 1e15f),
               "soft_cap is %g: choose a number between 1e-15 and 1e15, or 0 for none",
               (double)d->soft_cap);
  ATTEND_CHECK(ctx, d->soft_cap == 0 || f->kind != ATTEND_ARGMAX || f->temperature > 0,
               "a soft cap does not change which key is the best: leave "
               "soft_cap 0 with a hard argmax, or choose a temperature");
  ATTEND_CHECK(ctx, d->soft_cap == 0 || f->kind == ATTEND_SOFTMAX || f->kind == ATTEND_ARGMAX,
               "soft_cap %g caps the scores of softmax: choose form softmax, or leave soft_cap 0",
               (double)d->soft_cap);
  return ATTEND_OK;
}

static attend_status check_error(attend_context *ctx, const attend_form *f) {
  ATTEND_CHECK(ctx, f->error == 0 || is_approximate(f),
               "error %g belongs to favor and fourier: leave it 0", (double)f->error);
  ATTEND_CHECK(ctx, f->error >= 0 && isfinite(f->error),
               "error is %g: choose a positive number, or 0 and a number of features",
               (double)f->error);
  ATTEND_CHECK(ctx, f->error == 0 || f->features == 0,
               "error %g and %d features: set one of them, and the other follows", (double)f->error,
               f->features);
  ATTEND_CHECK(ctx, f->spread == 0 || f->error > 0,
               "spread %g says what an error is to hold for: set form.error, or leave spread 0",
               (double)f->spread);
  ATTEND_CHECK(ctx, f->spread >= 0 && isfinite(f->spread),
               "spread is %g: choose a positive number, or 0 for 1", (double)f->spread);
  return ATTEND_OK;
}

/* Sines go with cosines, and exp(w.x) with exp(-w.x). */
static bool needs_even(const attend_form *f) {
  bool waves = f->kind == ATTEND_GAUSSIAN && f->map == ATTEND_TRIGONOMETRIC;
  return f->kind == ATTEND_FOURIER || f->pairs || waves;
}

static attend_status check_features(attend_context *ctx, const attend_form *f) {
  ATTEND_CHECK(ctx, f->features >= 0 && f->features <= MOST_FEATURES,
               "features is %d: choose a number from 1 to %d, or 0 for the default", f->features,
               MOST_FEATURES);
  ATTEND_CHECK(ctx, !f->pairs || f->kind == ATTEND_FAVOR,
               "pairs belong to favor: choose form favor, or leave pairs 0");
  ATTEND_CHECK(ctx, !needs_even(f) || f->features % 2 == 0,
               "%d features cannot go in pairs, as %s: choose an even number", f->features,
               f->pairs ? "exp(w.x) and exp(-w.x) do" : "sin and cos do");
  return check_error(ctx, f);
}

/* As many features as the error needs. The choice takes the error's place, so
 * that completing again changes nothing. */
static attend_status choose_features(attend_context *ctx, attend_desc *d) {
  attend_form *f = &d->form;
  if (f->error == 0) return ATTEND_OK;
  int features;
  ATTEND_TRY(predict_features(ctx, f, d->dim, d->scale, &features));
  f->features = features;
  f->error = f->spread = 0;
  return ATTEND_OK;
}

static attend_status check_mask(attend_context *ctx, const attend_desc *d) {
  ATTEND_CHECK(ctx, d->mask.window >= 0, "window is %d: choose 1 or more, or 0 for none",
               d->mask.window);
  bool guess =
      d->mask.causal == ATTEND_CAUSAL && d->q_len != d->kv_len && !(d->purpose & ATTEND_FOR_EXTEND);
  ATTEND_CHECK(ctx, !guess,
               "key length %d is %s than query length %d: choose causal alignment top or bottom",
               d->kv_len, d->kv_len < d->q_len ? "shorter" : "longer", d->q_len);
  return ATTEND_OK;
}

/* Buckets that distances are counted into on one side of the query; the first
 * half of them hold one distance each. */
static int side_buckets(const attend_bias *bias, int buckets) {
  return bias->one_sided ? buckets : buckets / 2;
}

static attend_status check_bias(attend_context *ctx, const attend_bias *bias) {
  if (bias->kind != ATTEND_BUCKETS) return ATTEND_OK;
  ATTEND_CHECK(ctx, bias->buckets >= 0 && side_buckets(bias, bias->buckets) >= 2,
               "%d buckets are too few: choose %d or more, or 0 for %d", bias->buckets,
               bias->one_sided ? 2 : 4, BUCKETS);
  int exact = side_buckets(bias, bias->buckets) / 2;
  ATTEND_CHECK(ctx, bias->max_distance > exact,
               "max_distance %d leaves nothing beyond the %d distances that "
               "have a bucket each: choose %d or more, or fewer buckets",
               bias->max_distance, exact, exact + 1);
  ATTEND_CHECK(ctx, bias->max_distance <= FURTHEST, "max_distance is %d: choose %d or less",
               bias->max_distance, FURTHEST);
  return ATTEND_OK;
}

attend_status desc_complete(attend_context *ctx, attend_desc *desc) {
  desc_defaults(desc);
  ATTEND_TRY(check_choices(ctx, desc));
  ATTEND_TRY(check_sizes(ctx, desc));
  ATTEND_TRY(check_extent(ctx, desc));
  ATTEND_TRY(check_scale(ctx, desc));
  ATTEND_TRY(check_form(ctx, &desc->form));
  ATTEND_TRY(check_soft_cap(ctx, desc));
  ATTEND_TRY(check_features(ctx, &desc->form));
  ATTEND_TRY(check_custom(ctx, desc));
  ATTEND_TRY(choose_features(ctx, desc));
  ATTEND_TRY(check_mask(ctx, desc));
  return check_bias(ctx, &desc->bias);
}

attend_status attend_desc_complete(attend_context *ctx, attend_desc *desc) {
  attend_desc d;
  ATTEND_TRY(OPTIONS_READ(ctx, attend_desc, desc, &d));
  ATTEND_TRY(desc_complete(ctx, &d));
  options_write(&d, sizeof d, desc);
  return ATTEND_OK;
}

attend_status desc_check_pointers(attend_context *ctx, const attend_desc *d) {
  const attend_bias *bias = &d->bias;
  ATTEND_CHECK(ctx, bias->kind != ATTEND_ALIBI || bias->slopes,
               "an ALiBi bias has no slopes: set bias.slopes to %d of them "
               "(attend_alibi_slopes gives the usual ones)",
               d->heads);
  ATTEND_CHECK(ctx, bias->kind != ATTEND_BUCKETS || bias->table,
               "a bucket bias has no table: set bias.table to [%d, %d]", bias->buckets, d->heads);
  ATTEND_CHECK(ctx, bias->kind != ATTEND_DENSE || bias->dense.data,
               "a dense bias has no numbers: set bias.dense to a view over "
               "[batch, heads, q_len, kv_len]");
  for (int b = 0; d->mask.lengths && b < d->batch; b++)
    ATTEND_CHECK(ctx, d->mask.lengths[b] >= 0 && d->mask.lengths[b] <= d->kv_len,
                 "length %d of batch entry %d does not lie in [0, %d]: choose "
                 "how many of the keys are real",
                 (int)d->mask.lengths[b], b, d->kv_len);
  return ATTEND_OK;
}

attend_status desc_check_output(attend_context *ctx, const attend_desc *d, const char *name,
                                const attend_view *view, int heads, int length, int width) {
  const struct {
    const char *name;
    int size;
  } dims[4] = {{"batch", d->batch}, {"head", heads}, {"position", length}, {"width", width}};
  for (int i = 0; i < 4; i++)
    ATTEND_CHECK(ctx, view->stride[i] != 0 || dims[i].size <= 1 || length == 0,
                 "%s has stride 0 over its %s dimension of %d: an output needs "
                 "an address for each element, so give it a stride",
                 name, dims[i].name, dims[i].size);
  return ATTEND_OK;
}

/* ---- rules ----------------------------------------------------------------------- */

bool attend_visible(const attend_desc *d, int b, int64_t i, int64_t j) {
  const attend_mask *mask = &d->mask;
  if (j < 0 || j >= d->kv_len) return 0;
  if (mask->lengths && j >= mask->lengths[b]) return 0;
  if (mask->key_mask && !mask->key_mask[(int64_t)b * d->kv_len + j]) return 0;
  int64_t behind = desc_position(d, i) - j;
  if (mask->causal != ATTEND_NOT_CAUSAL && behind < 0) return 0;
  int64_t away = behind < 0 ? -behind : behind;
  return mask->window == 0 || away < mask->window;
}

size_t desc_bias_count(const attend_desc *d) {
  size_t heads = (size_t)d->heads;
  switch (d->bias.kind) {
    case ATTEND_ALIBI:
      return heads;
    case ATTEND_BUCKETS:
      return size_times((size_t)d->bias.buckets, heads);
    case ATTEND_DENSE:
      return SIZE_PRODUCT((size_t)d->batch, heads, (size_t)d->q_len, (size_t)d->kv_len);
    case ATTEND_NO_BIAS:
      break;
  }
  return 0;
}

/* Powers of two get a geometric series that ends at 2^-8; other numbers take
 * the series of the power below, then every other slope of the power above. */
void attend_alibi_slopes(int heads, float *slopes) {
  int power = 1;
  while (power <= heads / 2) power *= 2;
  for (int h = 0; h < heads; h++) {
    double step = h < power ? h + 1 : h - power + 0.5;
    slopes[h] = (float)exp2(-8 * step / power);
  }
}

/* Float at each step where T5's published formula is float, so that distances
 * on an edge between two buckets fall on the same side. The logarithms are
 * rounded from double: no libm is asked for a correct logf. */
static int far_bucket(uint64_t distance, int exact, int buckets, int furthest) {
  float ratio = (float)distance / (float)exact;
  float span = (float)log((double)furthest / exact);
  float steps = (float)log((double)ratio) / span * (float)(buckets - exact);
  float last = (float)(buckets - 1 - exact);
  return exact + (int)(steps < last ? steps : last);
}

int attend_bucket(const attend_bias *bias, int64_t key_minus_query) {
  int buckets = side_buckets(bias, bias->buckets ? bias->buckets : BUCKETS);
  int furthest = bias->max_distance ? bias->max_distance : MAX_DISTANCE;
  bool after = key_minus_query > 0;
  int base = after && !bias->one_sided ? buckets : 0;
  if (after && bias->one_sided) return 0;
  uint64_t distance = after ? (uint64_t)key_minus_query : 0 - (uint64_t)key_minus_query;
  int exact = buckets / 2;
  if (distance < (uint64_t)exact) return base + (int)distance;
  return base + far_bucket(distance, exact, buckets, furthest);
}
