/* Attention in plain float loops: the reference that an engine's error is bounded by.
 *
 * Scores, their maximum subtracted, expf, sums in plain order; results are stored
 * through the problem's dtype. None of it is shared with the engines. Beside every sum
 * runs the sum of its absolute values: what rounding is relative to.
 *
 * With features (elu, and the random ones of favor, fourier and gaussian) every row of q
 * and k is mapped and stored, and a similarity is a plain dot product. A row's features
 * are phi e^shift: favor's largest exponent is taken out, and so is the factor
 * exp(|x'|^2/2) of fourier, or they would overflow in float. A query row then takes out
 * the largest shift of its visible keys. Rounding w.x' by half an eps of its absolute
 * terms moves exp(w.x') by that much of itself, and a cosine by that much of 1.
 *
 * Backward takes one key of one row after another; with features the gradient of a weight
 * goes to the two rows of features instead of to q and k.
 */
#include <math.h>

#include "verify/verify.h"

typedef struct { /* every row of q, or of k */
  float *phi;    /* [n][C] */
  float *shift;  /* [n] */
  float *args;   /* [n][dirs]: sums of |terms| of exponents and angles */
  float *d_phi;  /* of queries [C], of keys [n][C] */
  double *size;  /* of d_phi */
} side;

typedef struct {
  int dim, count, dirs;
  bool waves, pairs;
  float unit, norm; /* x' = unit x; phi holds exp(norm |x'|^2) */
  float *w;         /* [dirs][D] */
  side q, k;
} features;

typedef struct { /* one query row */
  memory memory;
  const attend_desc *d;
  float *q, *k, *v, *d_o;       /* whole, contiguous, widened */
  float *score, *weight, *size; /* [S]; size: of its terms */
  float *factor;                /* [S] of features: between phi(q).phi(k) and the score */
  int *visible;                 /* [S] visible keys, rising */
  int n_visible;
  float *o;           /* [M], as stored */
  double *o_size;     /* [M] */
  bool direct;        /* scores are similarities, not their logarithms, */
  bool is_signed;     /* and may be negative */
  float denominator;  /* of the weights */
  float shift, args;  /* of features: sim is score e^shift; sizes in exp */
  double condition;   /* sizes of the denominator's terms / denominator */
  rounding rounds;    /* weights before they are multiplied by values, */
  float below;        /* scaled by this first: the best lies below a power of 2 */
  features *features; /* NULL: the form has none */
  const unsigned char *undecided;
  size_t row; /* of all rows; it is: */
  int b, h, g, i;
} pass;

typedef struct { /* running sums in float, and their sizes */
  float *sum[ATTEND_OUTPUTS];
  double *size[ATTEND_OUTPUTS];
} gradients;

/* On a GPU the engine `pairs` multiplies in f32, the others on tensor cores: features in bf16, unless
 * they are signed. */
rounding rounding_of(const attend_context *ctx, const attend_desc *d, const char *engine) {
  const bool soft = d->form.kind == ATTEND_SOFTMAX ||
                    (d->form.kind == ATTEND_GAUSSIAN && d->form.features == 0) ||
                    (d->form.kind == ATTEND_ARGMAX && !is_hard(d));
  const bool by_features = attend_form_features(&d->form, d->dim) > 0;
  const bool host = ctx->device->host || !strncmp(engine, "host:", 5);
  if (d->dtype == ATTEND_F32) return ROUND_NOTHING;
  if (!host && (!strcmp(engine, "pairs") ||
                (by_features && (d->dtype == ATTEND_F16 || attend_form_signed(&d->form)))))
    return ROUND_NOTHING;
  if (!host) return ROUND_OPERANDS;
  return soft && d->dtype == ATTEND_BF16 && !strcmp(attend_context_isa(ctx), "amx") ? ROUND_WEIGHTS
                                                                                    : ROUND_NOTHING;
}

static float stored(attend_dtype dtype, float x) {
  uint32_t bits;
  attend_convert_from_f32(dtype, &x, 1, &bits);
  attend_convert_to_f32(dtype, &bits, 1, &x);
  return x;
}

static int64_t position_of(const attend_desc *d, int64_t i) {
  bool bottom = d->mask.causal == ATTEND_CAUSAL_BOTTOM;
  return i + (bottom ? (int64_t)d->kv_len - d->q_len : 0);
}

/* Takes up query row p->row of [B,H,T]; false past the last. */
static bool seek(pass *p) {
  const attend_desc *d = p->d;
  size_t length = (size_t)d->q_len, heads = (size_t)d->heads;
  if (p->row >= (size_t)d->batch * heads * length) return false;
  p->b = (int)(p->row / length / heads);
  p->h = (int)(p->row / length % heads);
  p->g = p->h / (d->heads / d->kv_heads);
  p->i = (int)(p->row % length);
  return true;
}

static size_t query_at(const pass *p, int width) { return p->row * (size_t)width; }

static size_t key_at(const pass *p, int j, int width) {
  const attend_desc *d = p->d;
  size_t head = (size_t)p->b * (size_t)d->kv_heads + (size_t)p->g;
  return (head * (size_t)d->kv_len + (size_t)j) * (size_t)width;
}

/* ---- dot products and biases ----------------------------------------------------- */

static float dot(const float *a, const float *b, int n, float *size) {
  float sum = 0, absolute = 0;
  for (int x = 0; x < n; x++) {
    sum += a[x] * b[x];
    absolute += fabsf(a[x] * b[x]);
  }
  *size = absolute;
  return sum;
}

static float bias_of(const pass *p, int j) {
  const attend_desc *d = p->d;
  int64_t ahead = j - position_of(d, p->i);
  switch (d->bias.kind) {
    case ATTEND_NO_BIAS:
      break;
    case ATTEND_ALIBI:
      return -d->bias.slopes[p->h] * fabsf((float)ahead);
    case ATTEND_BUCKETS:
      return d->bias.table[attend_bucket(&d->bias, ahead) * d->heads + p->h];
    case ATTEND_DENSE:
      return ((const float *)d->bias.dense.data)[dense_at(d, p->b, p->h, p->i, j)];
  }
  return 0;
}

static float power(float base, int degree) {
  float product = 1;
  for (; degree; degree /= 2, base *= base)
    if (degree % 2) product *= base;
  return product;
}

/* ---- feature maps ---------------------------------------------------------------- */

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

static attend_status draw(memory *m, features *f, const attend_form *form) {
  size_t n = (size_t)f->dirs * (size_t)f->dim;
  TAKE(m, &f->w, n);
  attend_random r = {form->seed, (UINT64_C(1) << 63) + 2 * form->redraw};
  attend_random_normal(r, 0, n, f->w);
  return form->draw == ATTEND_ORTHOGONAL ? make_orthogonal(m, form, f->dirs, f->dim, f->w)
                                         : ATTEND_OK;
}

/* ---- mapping --------------------------------------------------------------------- */

static void map_elu(const features *f, const float *x, float *phi) {
  for (int c = 0; c < f->count; c++) phi[c] = x[c] > 0 ? x[c] + 1 : expf(x[c]);
}

/* Exponents become features: the largest is taken out. */
static float exponentiate(const features *f, float *phi) {
  float max = phi[0];
  for (int c = 1; c < f->count; c++)
    if (phi[c] > max) max = phi[c];
  for (int c = 0; c < f->count; c++) phi[c] = expf(phi[c] - max);
  return max;
}

/* Returns shift. Feature r belongs to direction r; with pairs, and for cos and
 * sin, so does feature dirs + r. */
static float map_random(const features *f, const float *x, float *phi, float *args) {
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

static attend_status map_side(memory *m, const features *f, const float *x, size_t n,
                              size_t gradients_of, bool rounded, side *to) {
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
  for (size_t i = 0; rounded && i < n * count; i++) s.phi[i] = stored(ATTEND_BF16, s.phi[i]);
  *to = s;
  return ATTEND_OK;
}

static bool is_random(const attend_form *form) {
  return form->kind == ATTEND_FAVOR || form->kind == ATTEND_FOURIER ||
         (form->kind == ATTEND_GAUSSIAN && form->features > 0);
}

static attend_status choose_map(memory *m, features *f, const attend_desc *d) {
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

static attend_status open_features(pass *p) {
  const attend_desc *d = p->d;
  memory *m = &p->memory;
  features *f;
  if (d->form.kind != ATTEND_ELU && !is_random(&d->form)) return ATTEND_OK;
  TAKE(m, &f, 1);
  f->dim = d->dim;
  f->count = (int)attend_form_features(&d->form, d->dim);
  if (d->form.kind != ATTEND_ELU) ATTEND_TRY(choose_map(m, f, d));
  size_t rows = (size_t)d->batch * (size_t)d->heads * (size_t)d->q_len;
  size_t keys = (size_t)d->batch * (size_t)d->kv_heads * (size_t)d->kv_len;
  const bool rounded = p->rounds == ROUND_OPERANDS;
  ATTEND_TRY(map_side(m, f, p->q, rows, 1, rounded, &f->q));
  ATTEND_TRY(map_side(m, f, p->k, keys, keys, rounded, &f->k));
  p->features = f;
  return ATTEND_OK;
}

/* What feature c of one side counts for, beside arguments of this size. */
static double size_of(const features *f, float phi, float args) {
  double size = fabs((double)phi), more = (double)args / 8;
  if (f->waves) return size + more;
  return more > 1 ? size * more : size;
}

static float args_of(const features *f, size_t q, size_t k, int c) {
  if (!f->dirs) return 0;
  size_t dirs = (size_t)f->dirs, r = (size_t)(c % f->dirs);
  return f->q.args[q * dirs + r] + f->k.args[k * dirs + r];
}

static float feature_similarity(pass *p, size_t q, size_t k, float bias, float *size) {
  const features *f = p->features;
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

static void score_features(pass *p) {
  const features *f = p->features;
  size_t q = query_at(p, 1);
  float max = -INFINITY, mean = 1 / (float)(f->waves ? f->dirs : f->count);
  if (!f->dirs) mean = 1;
  for (int s = 0; s < p->n_visible; s++) max = fmaxf(max, f->k.shift[key_at(p, p->visible[s], 1)]);
  p->shift = f->q.shift[q] + (p->n_visible ? max : 0);
  p->args = 0;
  for (int s = 0; s < p->n_visible; s++) {
    size_t k = key_at(p, p->visible[s], 1);
    float bias = bias_of(p, p->visible[s]);
    p->factor[s] = mean * expf(f->k.shift[k] - max) * expf(bias);
    p->score[s] = feature_similarity(p, q, k, bias, &p->size[s]) * p->factor[s];
    p->size[s] *= p->factor[s];
  }
}

/* ---- score ----------------------------------------------------------------------- */

static float squared_distance(const float *a, const float *b, int n) {
  float sum = 0;
  for (int x = 0; x < n; x++) sum += (a[x] - b[x]) * (a[x] - b[x]);
  return sum;
}

/* log sim, or sim itself for poly; *size bounds what its rounding is. */
static float similarity(const pass *p, const float *q, const float *k, int j, float *size) {
  const attend_desc *d = p->d;
  float bias = bias_of(p, j), absolute;
  float product = dot(q, k, d->dim, &absolute);
  if (d->form.kind == ATTEND_POLY) {
    float e = expf(bias), base = fabsf(d->form.a) * absolute;
    *size = power(base + fabsf(d->form.c), d->form.degree) * e;
    return power(d->form.a * product + d->form.c, d->form.degree) * e;
  }
  float score = d->scale * product;
  if (d->soft_cap > 0) score = d->soft_cap * tanhf(score / d->soft_cap);
  *size = fabsf(d->scale) * absolute + fabsf(bias);
  if (d->form.kind == ATTEND_GAUSSIAN) {
    score = -squared_distance(q, k, d->dim) / (2 * d->form.sigma * d->form.sigma);
    *size = fabsf(score) + fabsf(bias);
  }
  score += bias;
  bool soft = d->form.kind == ATTEND_ARGMAX && !is_hard(d);
  if (soft) *size /= d->form.temperature;
  return soft ? score / d->form.temperature : score;
}

/* ---- forward ------------------------------------------------------------------ */

static void score_visible(pass *p) {
  const attend_desc *d = p->d;
  const float *q = p->q + query_at(p, d->dim);
  p->n_visible = 0;
  for (int j = 0; j < d->kv_len; j++)
    if (attend_visible(d, p->b, p->i, j)) p->visible[p->n_visible++] = j;
  if (p->features) {
    score_features(p);
    return;
  }
  for (int s = 0; s < p->n_visible; s++) {
    int j = p->visible[s];
    const float *k = p->k + key_at(p, j, d->dim);
    p->score[s] = similarity(p, q, k, j, &p->size[s]);
  }
}

static float largest(const float *x, int n) {
  float best = -INFINITY;
  for (int s = 0; s < n; s++)
    if (x[s] > best) best = x[s];
  return best;
}

static void choose(pass *p, float best) {
  bool first = p->d->form.ties == ATTEND_TIES_FIRST, taken = false;
  for (int s = 0; s < p->n_visible; s++) {
    bool is_best = p->score[s] == best && !(first && taken);
    p->weight[s] = is_best ? 1 : 0;
    taken = taken || is_best;
  }
}

/* Of similarities that are no logarithms: lse, and the size of the numbers it
 * was made from. */
static float weigh_direct(pass *p, float *lse_size) {
  float sum = 0, size = 0, logged = 0; /* logged: on tensor cores lse is of the rounded weights */
  for (int s = 0; s < p->n_visible; s++) {
    p->weight[s] = p->score[s];
    sum += p->weight[s];
    logged += p->rounds == ROUND_OPERANDS ? stored(ATTEND_BF16, p->weight[s]) : p->weight[s];
    size += p->size[s];
  }
  p->denominator = sum;
  p->condition = (double)size / fabs((double)sum);
  *lse_size = p->is_signed ? size * expf(p->shift) : 1 + p->args;
  if (p->is_signed) return sum * expf(p->shift);
  return p->n_visible ? p->shift + logf(logged) : -INFINITY;
}

/* Weights not yet divided; returns lse as the library defines it, and the
 * size of the numbers it was made from. */
static float weigh(pass *p, float *lse_size) {
  const attend_desc *d = p->d;
  score_visible(p);
  if (p->direct) return weigh_direct(p, lse_size);
  float best = largest(p->score, p->n_visible), sum = 0;
  *lse_size = 0;
  for (int s = 0; s < p->n_visible; s++)
    if (p->size[s] > *lse_size) *lse_size = p->size[s];
  if (is_hard(d)) choose(p, best);
  float best2 = best * 1.442695041f;
  p->below = exp2f(best2 - ceilf(best2));
  for (int s = 0; s < p->n_visible; s++) {
    if (!is_hard(d)) p->weight[s] = expf(p->score[s] - best);
    sum += p->weight[s];
  }
  p->denominator = sum;
  if (!p->n_visible) return -INFINITY;
  if (is_hard(d)) return best;
  *lse_size += 1; /* what is relative in a sum is absolute in its logarithm */
  return best + logf(sum);
}

/* The rounding of a sum of products is relative to the sum of absolute values.
 * An exponential turns the rounding of a score, half an eps of its size, into
 * as much of the weight: more than 4 eps beyond 8. */
static double weight_size(const pass *p, int s) {
  double weight = fabs((double)p->weight[s]), size = (double)p->size[s];
  if (p->direct) return size / fabs((double)p->denominator);
  return is_hard(p->d) || size < 8 ? weight : weight * size / 8;
}

static void add_values(pass *p) {
  const attend_desc *d = p->d;
  float divisor = 0; /* on AMX the sum of the rounded weights: what rounding took cancels */
  for (int x = 0; x < d->dim_v; x++) p->o[x] = 0, p->o_size[x] = 0;
  for (int s = 0; s < p->n_visible; s++) {
    const float *v = p->v + key_at(p, p->visible[s], d->dim_v);
    float w = p->weight[s] * (p->rounds ? p->below : 1);
    if (p->rounds == ROUND_OPERANDS) divisor += w;
    if (p->rounds) w = stored(d->dtype, w);
    for (int x = 0; x < d->dim_v; x++) p->o[x] += w * v[x];
    if (p->rounds != ROUND_OPERANDS) divisor += w;
  }
  bool any = p->n_visible && p->denominator != 0;
  for (int s = 0; s < p->n_visible; s++) p->weight[s] = any ? p->weight[s] / p->denominator : 0;
  for (int x = 0; x < d->dim_v; x++) p->o[x] = any ? stored(d->dtype, p->o[x] / divisor) : 0;
  for (int s = 0; any && s < p->n_visible; s++) {
    const float *v = p->v + key_at(p, p->visible[s], d->dim_v);
    double w = weight_size(p, s);
    for (int x = 0; x < d->dim_v; x++)
      p->o_size[x] += w * (fabs((double)v[x]) + (p->is_signed ? fabs((double)p->o[x]) : 0));
  }
}

/* ---- backward through features ---------------------------------------------------- */

static void add_features(pass *p, int s, float gap, double gap_size) {
  features *f = p->features;
  size_t q = query_at(p, 1), k = key_at(p, p->visible[s], 1);
  size_t count = (size_t)f->count;
  const float *a = f->q.phi + q * count, *b = f->k.phi + k * count;
  float step = gap * p->factor[s] / p->denominator;
  if (p->rounds == ROUND_OPERANDS) step = stored(p->d->dtype, step);
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

static void elu_backward(const features *f, const float *x, const float *phi, const float *d_phi,
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

static slopes direction_backward(const features *f, int r, const float *phi, const float *d_phi,
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

static void random_backward(const features *f, const float *x, const float *phi, const float *d_phi,
                            const double *size, float *dx, double *dx_size) {
  float level = 0;
  double level_size = 0;
  for (int r = 0; r < f->dirs; r++) {
    const float *w = f->w + (size_t)r * (size_t)f->dim;
    slopes p = direction_backward(f, r, phi, d_phi, size);
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

static void row_backward(const features *f, const side *s, size_t row, size_t at, const float *x,
                         float *dx, double *dx_size) {
  size_t count = (size_t)f->count;
  const float *phi = s->phi + row * count, *d_phi = s->d_phi + at * count;
  const double *size = s->size + at * count;
  x += row * (size_t)f->dim;
  dx += row * (size_t)f->dim;
  dx_size += row * (size_t)f->dim;
  if (f->dirs)
    random_backward(f, x, phi, d_phi, size, dx, dx_size);
  else
    elu_backward(f, x, phi, d_phi, size, dx, dx_size);
}

static void query_gradient(pass *p, gradients *g) {
  features *f = p->features;
  row_backward(f, &f->q, query_at(p, 1), 0, p->q, g->sum[ATTEND_OUT_DQ], g->size[ATTEND_OUT_DQ]);
  for (int c = 0; c < f->count; c++) f->q.d_phi[c] = 0, f->q.size[c] = 0;
}

static void key_gradients(pass *p, gradients *g) {
  const features *f = p->features;
  const attend_desc *d = p->d;
  size_t keys = (size_t)d->batch * (size_t)d->kv_heads * (size_t)d->kv_len;
  for (size_t row = 0; row < keys; row++)
    row_backward(f, &f->k, row, row, p->k, g->sum[ATTEND_OUT_DK], g->size[ATTEND_OUT_DK]);
}

/* ---- backward -------------------------------------------------------------------- */

static void add_row(gradients *g, int out, size_t at, float factor, double size, const float *row,
                    int width) {
  float *sum = g->sum[out] + at;
  double *absolute = g->size[out] + at;
  for (int x = 0; x < width; x++) {
    sum[x] += factor * row[x];
    absolute[x] += size * fabs((double)row[x]);
  }
}

static void through_bias(const pass *p, gradients *g, int j, float ds, double size) {
  const attend_desc *d = p->d;
  int64_t ahead = j - position_of(d, p->i);
  size_t at = 0;
  float factor = 1;
  switch (d->bias.kind) {
    case ATTEND_NO_BIAS:
      return;
    case ATTEND_ALIBI:
      at = (size_t)p->h;
      factor = -fabsf((float)ahead);
      break;
    case ATTEND_BUCKETS:
      at = (size_t)(attend_bucket(&d->bias, ahead) * d->heads + p->h);
      break;
    case ATTEND_DENSE:
      at = (size_t)dense_at(d, p->b, p->h, p->i, j);
      break;
  }
  g->sum[ATTEND_OUT_DBIAS][at] += ds * factor;
  g->size[ATTEND_OUT_DBIAS][at] += size * fabs((double)factor);
}

static void through_gaussian(const pass *p, gradients *g, size_t q_at, size_t k_at, float ds,
                             double size) {
  const attend_desc *d = p->d;
  float inverse = 1 / (d->form.sigma * d->form.sigma);
  for (int x = 0; x < d->dim; x++) {
    float gap = p->k[k_at + (size_t)x] - p->q[q_at + (size_t)x];
    float step = ds * gap * inverse;
    double absolute = size * fabs((double)(gap * inverse));
    g->sum[ATTEND_OUT_DQ][q_at + (size_t)x] += step;
    g->sum[ATTEND_OUT_DK][k_at + (size_t)x] -= step;
    g->size[ATTEND_OUT_DQ][q_at + (size_t)x] += absolute;
    g->size[ATTEND_OUT_DK][k_at + (size_t)x] += absolute;
  }
}

/* Of the soft cap. */
static float cap_slope(const attend_desc *d, const float *q, const float *k) {
  float size, t;
  if (d->soft_cap == 0) return 1;
  t = tanhf(d->scale * dot(q, k, d->dim, &size) / d->soft_cap);
  return 1 - t * t;
}

/* The factor between a score's derivative and that of q.k, and its size: a
 * power's rounding is relative to the power of absolute values. */
static float slope(const pass *p, int s, const float *q, const float *k, double *size) {
  const attend_desc *d = p->d;
  float absolute, temperature = d->form.temperature, a = d->form.a;
  *size = fabs((double)(d->scale / (temperature > 0 ? temperature : 1)));
  if (d->form.kind == ATTEND_SOFTMAX) return d->scale * cap_slope(d, q, k);
  if (d->form.kind == ATTEND_ARGMAX) return d->scale / temperature * cap_slope(d, q, k);
  float base = a * dot(q, k, d->dim, &absolute) + d->form.c;
  float factor = expf(bias_of(p, p->visible[s])) * (float)d->form.degree * a;
  absolute = fabsf(a) * absolute + fabsf(d->form.c);
  *size = fabs((double)factor * power(absolute, d->form.degree - 1) / p->denominator);
  return factor * power(base, d->form.degree - 1) / p->denominator;
}

/* A factor of a product in backward. */
static float operand(const pass *p, float x) {
  return p->rounds == ROUND_OPERANDS ? stored(p->d->dtype, x) : x;
}

static void through_product(const pass *p, gradients *g, int s, size_t q_at, size_t k_at, float gap,
                            double gap_size) {
  const attend_desc *d = p->d;
  bool poly = d->form.kind == ATTEND_POLY;
  double size = weight_size(p, s) * gap_size;
  double f_size;
  float f = slope(p, s, p->q + q_at, p->k + k_at, &f_size);
  float factor = operand(p, poly ? f * gap : f * (p->weight[s] * gap));
  double absolute = f_size * (poly ? gap_size : size);
  if (poly) absolute += fabs((double)factor) * p->condition;
  add_row(g, ATTEND_OUT_DQ, q_at, factor, absolute, p->k + k_at, d->dim);
  add_row(g, ATTEND_OUT_DK, k_at, factor, absolute, p->q + q_at, d->dim);
}

static void through_key(pass *p, gradients *g, int s, float gap, double gap_size) {
  const attend_desc *d = p->d;
  int j = p->visible[s];
  size_t q_at = query_at(p, d->dim), k_at = key_at(p, j, d->dim);
  float ds = operand(p, p->weight[s] * gap);
  double size = weight_size(p, s) * gap_size;
  if (p->features)
    add_features(p, s, gap, gap_size);
  else if (d->form.kind == ATTEND_GAUSSIAN)
    through_gaussian(p, g, q_at, k_at, ds, size);
  else
    through_product(p, g, s, q_at, k_at, gap, gap_size);
  float t = d->form.kind == ATTEND_ARGMAX ? d->form.temperature : 1;
  through_bias(p, g, j, ds / t, size / (double)t);
}

/* A signed denominator may nearly cancel: a weight then carries its rounding,
 * beside its own. */
static double after_division(const pass *p) {
  return p->is_signed && p->condition > 1 ? p->condition : 1;
}

/* And so does o, with which delta is made. */
static double delta_carries(const pass *p, const float *d_o) {
  double sum = 0;
  if (p->d->form.kind != ATTEND_POLY) return 0;
  for (int x = 0; x < p->d->dim_v; x++) sum += fabs((double)d_o[x]) * p->o_size[x];
  return sum;
}

static void backward_row(pass *p, gradients *g) {
  const attend_desc *d = p->d;
  const float *d_o = p->d_o + query_at(p, d->dim_v);
  float delta_size, size;
  float delta = dot(d_o, p->o, d->dim_v, &delta_size);
  if (!p->n_visible || p->denominator == 0) return;
  double worse = after_division(p), carries = delta_carries(p, d_o);
  for (int s = 0; s < p->n_visible; s++) {
    size_t at = key_at(p, p->visible[s], d->dim_v);
    double carried = fabs((double)p->weight[s]) * (worse - 1);
    add_row(g, ATTEND_OUT_DV, at, operand(p, p->weight[s]), weight_size(p, s) + carried, d_o,
            d->dim_v);
    if (is_hard(d)) continue;
    float dp = dot(d_o, p->v + at, d->dim_v, &size);
    through_key(p, g, s, dp - delta, (double)size + (double)delta_size + carries);
  }
  if (p->features) query_gradient(p, g);
}

/* ---- the whole ---------------------------------------------------------------- */

static attend_status widen(memory *m, attend_view view, const attend_desc *d, int heads, int length,
                           int width, float **all) {
  size_t n = (size_t)d->batch * (size_t)heads * (size_t)length * (size_t)width;
  double *wide;
  TAKE(m, all, n);
  ATTEND_TRY(ctx_alloc(m->ctx, size_times(n, sizeof *wide), "verifying", &wide));
  view_read(view, d->dtype, d->batch, heads, length, width, wide);
  for (size_t i = 0; i < n; i++) (*all)[i] = (float)wide[i];
  ctx_free(m->ctx, wide);
  return ATTEND_OK;
}

static attend_status open_pass(attend_context *ctx, const inputs *in, pass *p) {
  const attend_desc *d = in->desc;
  *p = (pass){
      .memory = {.ctx = ctx}, .d = d, .rounds = in->rounds, .below = 1, .undecided = in->undecided};
  memory *m = &p->memory;
  ATTEND_TRY(widen(m, in->q, d, d->heads, d->q_len, d->dim, &p->q));
  ATTEND_TRY(widen(m, in->k, d, d->kv_heads, d->kv_len, d->dim, &p->k));
  ATTEND_TRY(widen(m, in->v, d, d->kv_heads, d->kv_len, d->dim_v, &p->v));
  if (in->d_o.data) ATTEND_TRY(widen(m, in->d_o, d, d->heads, d->q_len, d->dim_v, &p->d_o));
  TAKE(m, &p->score, d->kv_len);
  TAKE(m, &p->weight, d->kv_len);
  TAKE(m, &p->size, d->kv_len);
  TAKE(m, &p->factor, d->kv_len);
  TAKE(m, &p->visible, d->kv_len);
  TAKE(m, &p->o, d->dim_v);
  TAKE(m, &p->o_size, d->dim_v);
  ATTEND_TRY(open_features(p));
  p->is_signed = attend_form_signed(&d->form);
  p->direct = p->is_signed || p->features;
  return ATTEND_OK;
}

static void close_pass(pass *p) { memory_free(&p->memory); }

static void take_largest(double *max, double x) {
  if (x > *max) *max = x;
}

static void run_row(pass *p, gradients *g, outputs *out, double *magnitude) {
  const attend_desc *d = p->d;
  float lse_size;
  size_t row = p->row;
  bool counts = !p->undecided || !p->undecided[row];
  out->at[ATTEND_OUT_LSE][row] = weigh(p, &lse_size);
  add_values(p);
  take_largest(&magnitude[ATTEND_OUT_LSE], lse_size);
  for (int x = 0; x < d->dim_v; x++) {
    out->at[ATTEND_OUT_O][row * (size_t)d->dim_v + (size_t)x] = p->o[x];
    if (counts) take_largest(&magnitude[ATTEND_OUT_O], p->o_size[x]);
  }
  if (p->d_o) backward_row(p, g);
}

static void store_gradients(const attend_desc *d, const gradients *g, outputs *out,
                            double *magnitude) {
  for (int x = ATTEND_OUT_DQ; x < ATTEND_OUTPUTS; x++)
    for (size_t n = 0; n < out->count[x]; n++) {
      float sum = g->sum[x][n];
      out->at[x][n] = x == ATTEND_OUT_DBIAS ? sum : stored(d->dtype, sum);
      take_largest(&magnitude[x], g->size[x][n]);
    }
}

static attend_status run_rows(pass *p, outputs *out, double *magnitude) {
  gradients g = {0};
  for (int x = ATTEND_OUT_DQ; x < ATTEND_OUTPUTS; x++) {
    TAKE(&p->memory, &g.sum[x], out->count[x]);
    TAKE(&p->memory, &g.size[x], out->count[x]);
  }
  for (p->row = 0; seek(p); p->row++) run_row(p, &g, out, magnitude);
  if (p->d_o && p->features) key_gradients(p, &g);
  if (p->d_o) store_gradients(p->d, &g, out, magnitude);
  return ATTEND_OK;
}

attend_status run_naive(attend_context *ctx, const inputs *in, outputs *out,
                        double magnitude[ATTEND_OUTPUTS]) {
  pass p;
  for (int x = 0; x < ATTEND_OUTPUTS; x++) magnitude[x] = 0;
  attend_status status = open_pass(ctx, in, &p);
  if (!status) status = run_rows(&p, out, magnitude);
  close_pass(&p);
  return status;
}

/* ==== rows that float arithmetic does not decide ==================================
 *
 * A hard argmax between keys that are too close, and signed similarities whose sum
 * cancels much more than in other rows, so that rounding there would hide what is wrong
 * elsewhere. */

/* ---- sums that cancel ----------------------------------------------------------- */

enum { WORSE = 10 }; /* than the median row */

/* By the condition of each row's denominator: sum of |terms| / |sum|; 0 for a row
 * without visible keys. */
static attend_status mark_cancelled(pass *p, unsigned char *rows, size_t *count) {
  const attend_desc *d = p->d;
  size_t n = (size_t)d->batch * (size_t)d->heads * (size_t)d->q_len;
  double *condition, *sorted;
  float ignored;
  TAKE(&p->memory, &condition, n);
  TAKE(&p->memory, &sorted, n);
  for (p->row = 0; seek(p); p->row++) {
    weigh(p, &ignored);
    double lost = isnan(p->condition) ? INFINITY : p->condition;
    sorted[p->row] = condition[p->row] = p->n_visible ? lost : 0;
  }
  attend_median(sorted, n); /* sorts them */
  for (size_t row = 0; row < n; row++) {
    rows[row] = condition[row] > WORSE * sorted[n / 2];
    *count += rows[row];
  }
  return ATTEND_OK;
}

/* ---- keys that are close -------------------------------------------------------- */

static double exact_score(const pass *p, int j, double *size) {
  const attend_desc *d = p->d;
  const float *q = p->q + query_at(p, d->dim);
  const float *k = p->k + key_at(p, j, d->dim);
  double sum = 0, bias = (double)bias_of(p, j);
  *size = fabs(bias);
  for (int x = 0; x < d->dim; x++) {
    sum += (double)q[x] * (double)k[x];
    *size += fabs((double)d->scale * (double)q[x] * (double)k[x]);
  }
  return (double)d->scale * sum + bias;
}

/* Equal keys with equal biases tie in any arithmetic. */
static bool same_key(const pass *p, int i, int j) {
  const attend_desc *d = p->d;
  const float *a = p->k + key_at(p, i, d->dim);
  const float *b = p->k + key_at(p, j, d->dim);
  for (int x = 0; x < d->dim; x++)
    if (a[x] != b[x]) return false;
  return bias_of(p, i) == bias_of(p, j);
}

static bool is_close(const pass *p) {
  const attend_desc *d = p->d;
  double best = -INFINITY, max = 0, size;
  int winner = -1;
  for (int j = 0; j < d->kv_len; j++) {
    if (!attend_visible(d, p->b, p->i, j)) continue;
    double score = exact_score(p, j, &size);
    if (score > best) best = score, winner = j;
    if (size > max) max = size;
  }
  for (int j = 0; j < d->kv_len; j++)
    if (j != winner && attend_visible(d, p->b, p->i, j) &&
        best - exact_score(p, j, &size) <= 0x1p-19 * max && !same_key(p, winner, j))
      return true;
  return false;
}

static void mark_close(pass *p, unsigned char *rows, size_t *count) {
  for (p->row = 0; seek(p); p->row++) {
    rows[p->row] = is_close(p);
    *count += rows[p->row];
  }
}

attend_status mark_undecided(attend_context *ctx, const inputs *in, unsigned char *rows,
                             size_t *count) {
  const attend_desc *d = in->desc;
  bool is_signed = attend_form_signed(&d->form);
  pass p;
  *count = 0;
  if (!is_hard(d) && !is_signed) return ATTEND_OK;
  attend_status status = open_pass(ctx, in, &p);
  if (!status && is_signed) status = mark_cancelled(&p, rows, count);
  if (!status && !is_signed) mark_close(&p, rows, count);
  close_pass(&p);
  return status;
}
