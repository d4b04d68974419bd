/* The reference implementation, in double:
 *
 *   out_i = sum_j sim(q_i, k_j) v_j / sum_j sim(q_i, k_j)
 *
 * Every engine is tested against it. It is slow and simple on purpose.
 *
 * Two conventions. Where sim cannot be negative (softmax, argmax, gaussian, elu, favor)
 * its logarithm is stored and the row's maximum subtracted, so that nothing overflows; a
 * key whose exponential is exactly zero (a bias of -inf), and a key that is not the
 * argmax, counts as masked, so its value is not read. And a denominator of exactly 0 is
 * a row that sees no key.
 */
#include <math.h>

#include "attend/problem.h"
#include "attention/definition.h"
#include "attention/features.h"
#include "base/options.h"

/* ---- reading --------------------------------------------------------------------- */

static double read_element(const void *data, attend_dtype dtype, ptrdiff_t n) {
  if (dtype == ATTEND_F32) return ((const float *)data)[n];
  uint16_t half = ((const uint16_t *)data)[n];
  return dtype == ATTEND_F16 ? half_to_float(half) : bf16_to_float(half);
}

static void read_row(const attend_view *view, attend_dtype dtype, int b, int h, int i, int width,
                     double *out) {
  const void *row = view_at(view, attend_dtype_size(dtype), b, h, i);
  for (int x = 0; x < width; x++) out[x] = read_element(row, dtype, x * view->stride[3]);
}

double definition_dot(const double *x, const double *y, int n) {
  double sum = 0;
  for (int i = 0; i < n; i++) sum += x[i] * y[i];
  return sum;
}

static attend_status check_data(attend_context *ctx, const void *data, const char *name,
                                int length) {
  ATTEND_CHECK(ctx, data || length == 0, "%s is NULL: give the address of its numbers", name);
  return ATTEND_OK;
}

static int kv_head_of(const definition_row *row) {
  return row->h / (row->d.heads / row->d.kv_heads);
}

void definition_row_read_key(const definition_row *row, int j) {
  read_row(&row->k, row->d.dtype, row->b, kv_head_of(row), j, row->d.dim, row->key);
}

/* ---- similarities by feature maps ------------------------------------------------ */

/* With random directions w and x' = unit x,
 *
 *   favor        mean_r exp(w_r.q' - |q'|^2/2) exp(w_r.k' - |k'|^2/2)
 *   with pairs   the same over w_r and -w_r
 *   fourier      mean_r cos(w_r.(q' - k')) exp(|q'|^2/2 + |k'|^2/2)
 *   gaussian     the same two, with exp(-|x'|^2) and without a factor
 *
 * where unit is sqrt(scale), for gaussian 1/sigma; and phi(q).phi(k) with the caller's phi. */

static bool has_features(const attend_form *form) {
  return form_directions(form) > 0 || (form->kind == ATTEND_CUSTOM && form->phi);
}

static void features_cut(const attend_desc *d, arena *a, definition_features *f) {
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

static attend_status features_open(attend_context *ctx, definition_row *row) {
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

/* ---- along the directions -------------------------------------------------------- */

static void project(const definition_row *row, const double *x, double *along) {
  const definition_features *f = &row->features;
  const float *w = f->w;
  for (int r = 0; r < f->dirs; r++) {
    double sum = 0;
    for (int i = 0; i < row->d.dim; i++) sum += (double)*w++ * x[i];
    along[r] = f->unit * sum;
  }
}

static const double *key_along(const definition_row *row, int j) {
  const definition_features *f = &row->features;
  double *along = f->k_along + (size_t)j * (size_t)f->dirs;
  int head = 1 + row->b * row->d.kv_heads + kv_head_of(row);
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

/* ---- positive features ----------------------------------------------------------- */

/* The log of the mean of exp(w.(q' + k')), with the largest exponent taken out
 * so that nothing overflows. share_r becomes the derivative along w_r. */
static double log_positive(const definition_row *row, const double *b) {
  const definition_features *f = &row->features;
  const double *a = f->q_along;
  bool pairs = row->d.form.kind == ATTEND_FAVOR && row->d.form.pairs;
  double max = -INFINITY, sum = 0;
  for (int r = 0; r < f->dirs; r++) max = fmax(max, pairs ? fabs(a[r] + b[r]) : a[r] + b[r]);
  for (int r = 0; r < f->dirs; r++) {
    double up = exp(a[r] + b[r] - max);
    double down = pairs ? exp(-a[r] - b[r] - max) : 0;
    f->share[r] = up - down;
    sum += up + down;
  }
  for (int r = 0; r < f->dirs; r++) f->share[r] /= sum;
  return max + log(sum / (pairs ? 2 * f->dirs : f->dirs));
}

/* ---- sines and cosines ----------------------------------------------------------- */

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

/* ---- the caller's ---------------------------------------------------------------- */

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
    form->phi_backward(x, dim, key, other, count, row->features.dx, form->user);
    for (int i = 0; i < dim; i++) out[key][i] = (double)row->features.dx[i];
  }
}

/* ---- dispatch -------------------------------------------------------------------- */

static double features_sim(const definition_row *row, int j) {
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

static void features_slope(const definition_row *row, int j, double *dq, double *dk) {
  const definition_features *f = &row->features;
  if (f->dirs == 0) {
    caller_slope(row, dq, dk);
    return;
  }
  double sim = features_sim(row, j); /* fills share */
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

/* ---- similarity ------------------------------------------------------------------ */

static double bias_of(const definition_row *row, int j) {
  const attend_bias *bias = &row->d.bias;
  int64_t ahead = j - desc_position(&row->d, row->i);
  if (bias->kind == ATTEND_ALIBI) return -(double)bias->slopes[row->h] * fabs((double)ahead);
  if (bias->kind == ATTEND_BUCKETS)
    return bias->table[attend_bucket(bias, ahead) * row->d.heads + row->h];
  if (bias->kind == ATTEND_NO_BIAS) return 0;
  const float *line = view_at(&bias->dense, sizeof(float), row->b, row->h, row->i);
  return line[j * bias->dense.stride[3]];
}

static double squared_distance(const double *x, const double *y, int n) {
  double sum = 0;
  for (int i = 0; i < n; i++) sum += (x[i] - y[i]) * (x[i] - y[i]);
  return sum;
}

static double elu(double x) { return x > 0 ? x + 1 : exp(x); }

static double elu_product(const double *x, const double *y, int n) {
  double sum = 0;
  for (int i = 0; i < n; i++) sum += elu(x[i]) * elu(y[i]);
  return sum;
}

/* scale q.k of the key read last, capped. */
static double score_of(const definition_row *row) {
  double cap = row->d.soft_cap;
  double score = row->d.scale * definition_dot(row->query, row->key, row->d.dim);
  return cap > 0 ? cap * tanh(score / cap) : score;
}

/* Of the key read last: sim itself where it is signed, the score for a hard
 * argmax, log sim otherwise. */
static double similarity(const definition_row *row, int j) {
  const attend_form *f = &row->d.form;
  int dim = row->d.dim;
  const double *q = row->query, *k = row->key;
  double bias = bias_of(row, j);
  double score = score_of(row) + bias;
  if (has_features(f)) {
    double sim = features_sim(row, j);
    return attend_form_signed(f) ? sim * exp(bias) : sim + bias;
  }
  switch (f->kind) {
    case ATTEND_SOFTMAX:
      return score;
    case ATTEND_ARGMAX:
      return f->temperature > 0 ? score / f->temperature : score;
    case ATTEND_POLY:
      return exp(bias) * pow(f->a * definition_dot(q, k, dim) + f->c, f->degree);
    case ATTEND_GAUSSIAN:
      return -squared_distance(q, k, dim) / (2 * (double)f->sigma * (double)f->sigma) + bias;
    case ATTEND_ELU:
      return log(elu_product(q, k, dim)) + bias;
    case ATTEND_FOURIER:
    case ATTEND_FAVOR: /* by features, always */
    case ATTEND_CUSTOM:
      break;
  }
  return f->sim(q, k, dim, NULL, NULL, f->user) * exp(bias);
}

/* ---- weights --------------------------------------------------------------------- */

static double sum_of(const double *x, int n) {
  double sum = 0;
  for (int i = 0; i < n; i++) sum += x[i];
  return sum;
}

/* A NaN, once met, stays. */
static double largest(const double *x, int n) {
  double max = -INFINITY;
  for (int i = 0; i < n; i++)
    if (!isnan(max) && !(x[i] <= max)) max = x[i];
  return max;
}

/* In place: scores become 1 at the best key, or at each of the best. */
static void choose_best(const definition_row *row, double best) {
  bool taken = false;
  for (int s = 0; s < row->n_visible; s++) {
    bool is_best = row->weight[s] == best;
    bool first = row->d.form.ties == ATTEND_TIES_FIRST;
    row->weight[s] = is_best && !(taken && first) ? 1 : 0;
    taken = taken || is_best;
  }
}

static void drop_zeros(definition_row *row) {
  int kept = 0;
  for (int s = 0; s < row->n_visible; s++) {
    if (row->weight[s] == 0) continue;
    row->visible[kept] = row->visible[s];
    row->weight[kept++] = row->weight[s];
  }
  row->n_visible = kept;
}

/* From log sim, or from scores, to unnormalised weights; sets lse. */
static void weigh_logarithms(definition_row *row) {
  const attend_form *f = &row->d.form;
  bool hard = f->kind == ATTEND_ARGMAX && f->temperature == 0;
  double best = largest(row->weight, row->n_visible);
  row->lse = best;
  if (best == -INFINITY) {
    row->n_visible = 0;
    return;
  }
  if (hard)
    choose_best(row, best);
  else
    for (int s = 0; s < row->n_visible; s++) row->weight[s] = exp(row->weight[s] - best);
  if (!isnan(best)) drop_zeros(row);
  if (!hard) row->lse = best + log(sum_of(row->weight, row->n_visible));
}

static void normalise(definition_row *row) {
  bool is_signed = attend_form_signed(&row->d.form);
  if (!is_signed) weigh_logarithms(row);
  row->denominator = sum_of(row->weight, row->n_visible);
  if (is_signed) row->lse = row->denominator;
  if (row->denominator == 0 && !isnan(row->lse)) row->n_visible = 0;
  for (int s = 0; s < row->n_visible; s++) row->weight[s] /= row->denominator;
}

void definition_row_weigh(definition_row *row, int b, int h, int i) {
  row->b = b;
  row->h = h;
  row->i = i;
  row->n_visible = 0;
  read_row(&row->q, row->d.dtype, b, h, i, row->d.dim, row->query);
  if (row->features.dirs) project(row, row->query, row->features.q_along);
  for (int j = 0; j < row->d.kv_len; j++) {
    if (!attend_visible(&row->d, b, i, j)) continue;
    definition_row_read_key(row, j);
    row->visible[row->n_visible] = j;
    row->weight[row->n_visible++] = similarity(row, j);
  }
  normalise(row);
}

static size_t row_cut(const attend_desc *d, arena a, definition_row *row) {
  size_t keys = (size_t)d->kv_len, dim = (size_t)d->dim;
  row->query = arena_cut(&a, size_times(dim, sizeof(double)));
  row->key = arena_cut(&a, size_times(dim, sizeof(double)));
  row->weight = arena_cut(&a, size_times(keys, sizeof(double)));
  row->visible = arena_cut(&a, size_times(keys, sizeof(int)));
  features_cut(d, &a, &row->features);
  return a.used;
}

size_t definition_row_bytes(const attend_desc *complete) {
  definition_row row;
  return row_cut(complete, (arena){NULL, 0}, &row);
}

static attend_status check_row(attend_context *ctx, attend_desc *d, attend_view q, attend_view k) {
  d->purpose &= ~(unsigned)ATTEND_FOR_EXTEND; /* kv_len is meant here */
  ATTEND_TRY(desc_complete(ctx, d));
  ATTEND_TRY(desc_check_pointers(ctx, d));
  ATTEND_TRY(check_data(ctx, q.data, "q", d->q_len));
  return check_data(ctx, k.data, "k", d->kv_len);
}

attend_status definition_row_open(attend_context *ctx, const attend_desc *desc, attend_view q,
                                  attend_view k, definition_row *row) {
  *row = (definition_row){0};
  attend_desc *d = &row->d;
  ATTEND_TRY(OPTIONS_READ(ctx, attend_desc, desc, d));
  ATTEND_TRY(check_row(ctx, d, q, k));
  row->q = view_complete(q, d->heads, d->q_len, d->dim);
  row->k = view_complete(k, d->kv_heads, d->kv_len, d->dim);
  d->bias.dense = view_complete(d->bias.dense, d->heads, d->q_len, d->kv_len);
  ATTEND_TRY(ctx_alloc(ctx, definition_row_bytes(d), "one row of the definition", &row->block));
  row_cut(d, (arena){row->block, 0}, row);
  attend_status status = features_open(ctx, row);
  if (status != ATTEND_OK) definition_row_close(ctx, row);
  return status;
}

void definition_row_close(const attend_context *ctx, definition_row *row) {
  ctx_free(ctx, row->block);
  row->block = NULL; /* closing twice is allowed */
}

/* ---- the public calls ------------------------------------------------------------ */

void definition_row_output(const definition_row *row, const attend_view *v, double *value,
                           double *o) {
  int width = row->d.dim_v;
  for (int x = 0; x < width; x++) o[x] = 0;
  for (int s = 0; s < row->n_visible; s++) {
    read_row(v, row->d.dtype, row->b, kv_head_of(row), row->visible[s], width, value);
    for (int x = 0; x < width; x++) o[x] += row->weight[s] * value[x];
  }
}

static void forward(definition_row *row, const attend_view *v, double *value, double *o,
                    double *lse) {
  const attend_desc *d = &row->d;
  for (int b = 0; b < d->batch; b++)
    for (int h = 0; h < d->heads; h++)
      for (int i = 0; i < d->q_len; i++) {
        definition_row_weigh(row, b, h, i);
        if (lse) *lse++ = row->lse;
        if (!o) continue;
        definition_row_output(row, v, value, o);
        o += d->dim_v;
      }
}

attend_status attend_definition_forward(attend_context *ctx, const attend_desc *desc, attend_view q,
                                        attend_view k, attend_view v, double *o, double *lse) {
  definition_row row;
  double *value = NULL;
  ATTEND_TRY(definition_row_open(ctx, desc, q, k, &row));
  const attend_desc *d = &row.d;
  attend_status status = check_data(ctx, v.data, "v", o ? d->kv_len : 0);
  if (status == ATTEND_OK)
    status = ctx_alloc(ctx, size_times((size_t)d->dim_v, sizeof(double)), "one value", &value);
  v = view_complete(v, d->kv_heads, d->kv_len, d->dim_v);
  if (status == ATTEND_OK) forward(&row, &v, value, o, lse);
  ctx_free(ctx, value);
  definition_row_close(ctx, &row);
  return status;
}

static void scatter(const definition_row *row, double *weights /* [S] */) {
  for (int j = 0; j < row->d.kv_len; j++) weights[j] = 0;
  for (int s = 0; s < row->n_visible; s++) weights[row->visible[s]] = row->weight[s];
}

attend_status attend_definition_weights(attend_context *ctx, const attend_desc *desc, attend_view q,
                                        attend_view k, double *weights) {
  definition_row row;
  ATTEND_TRY(definition_row_open(ctx, desc, q, k, &row));
  const attend_desc *d = &row.d;
  for (int b = 0; b < d->batch; b++)
    for (int h = 0; h < d->heads; h++)
      for (int i = 0; i < d->q_len; i++) {
        definition_row_weigh(&row, b, h, i);
        scatter(&row, weights);
        weights += d->kv_len;
      }
  definition_row_close(ctx, &row);
  return ATTEND_OK;
}

/* ---- the derivative, one sum at a time ------------------------------------------- */

/* With p_j = sim_j / sum sim and dp_j = dO . v_j, out's dependence on any
 * similarity is dsim_j = (dp_j - delta) / sum sim, delta = sum_j p_j dp_j.
 * Where sim's logarithm is kept this becomes d(log sim_j) = p_j (dp_j - delta).
 * A hard argmax passes nothing through its choice. */

typedef struct {
  definition_row row;
  attend_view v, d_o;
  double *value, *d_out;        /* [M], rows read last                     */
  double *dsim_q, *dsim_k;      /* [D], derivatives of sim or of log sim   */
  double *dp;                   /* [S], dp[s] belongs to key row.seen[s]   */
  double *dq, *dk, *dv, *dbias; /* the whole results                  */
  void *block;
} backward_pass;

static size_t row_at(int b, int heads, int h, int length, int i, int width) {
  size_t head = (size_t)b * (size_t)heads + (size_t)h;
  return (head * (size_t)length + (size_t)i) * (size_t)width;
}

static void add(double *y, double factor, const double *x, int n) {
  for (int i = 0; i < n; i++) y[i] += factor * x[i];
}

/* ---- through the similarity ------------------------------------------------------ */

static void through_poly(backward_pass *p, double gap, double bias, double *dq, double *dk) {
  const definition_row *row = &p->row;
  const attend_form *f = &row->d.form;
  double base = f->a * definition_dot(row->query, row->key, row->d.dim) + f->c;
  double g = gap / row->denominator * exp(bias) * f->degree * f->a * pow(base, f->degree - 1);
  add(dq, g, row->key, row->d.dim);
  add(dk, g, row->query, row->d.dim);
}

static void through_custom(backward_pass *p, double gap, double bias, double *dq, double *dk) {
  const definition_row *row = &p->row;
  const attend_form *f = &row->d.form;
  double g = gap / row->denominator * exp(bias);
  f->sim(row->query, row->key, row->d.dim, p->dsim_q, p->dsim_k, f->user);
  add(dq, g, p->dsim_q, row->d.dim);
  add(dk, g, p->dsim_k, row->d.dim);
}

static void through_features(backward_pass *p, int j, double g, double *dq, double *dk) {
  const definition_row *row = &p->row;
  features_slope(row, j, p->dsim_q, p->dsim_k);
  add(dq, g, p->dsim_q, row->d.dim);
  add(dk, g, p->dsim_k, row->d.dim);
}

static double elu_slope(double x) { return x > 0 ? 1 : exp(x); }

static void through_elu(backward_pass *p, double dlog, double *dq, double *dk) {
  const definition_row *row = &p->row;
  const double *q = row->query, *k = row->key;
  double sim = elu_product(q, k, row->d.dim);
  for (int x = 0; x < row->d.dim; x++) {
    dq[x] += dlog / sim * elu_slope(q[x]) * elu(k[x]);
    dk[x] += dlog / sim * elu_slope(k[x]) * elu(q[x]);
  }
}

static void through_gaussian(backward_pass *p, double dlog, double *dq, double *dk) {
  const definition_row *row = &p->row;
  double sigma = row->d.form.sigma;
  for (int x = 0; x < row->d.dim; x++) {
    double pull = dlog * (row->key[x] - row->query[x]) / (sigma * sigma);
    dq[x] += pull;
    dk[x] -= pull;
  }
}

static void through_score(backward_pass *p, double dscore, double *dq, double *dk) {
  const definition_row *row = &p->row;
  double cap = row->d.soft_cap, scale = row->d.scale;
  if (cap > 0) {
    double t = tanh(scale * definition_dot(row->query, row->key, row->d.dim) / cap);
    scale *= 1 - t * t;
  }
  add(dq, dscore * scale, row->key, row->d.dim);
  add(dk, dscore * scale, row->query, row->d.dim);
}

static void through_bias(backward_pass *p, int j, double dbias) {
  const definition_row *row = &p->row;
  const attend_desc *d = &row->d;
  int64_t ahead = j - desc_position(d, row->i);
  if (d->bias.kind == ATTEND_ALIBI) p->dbias[row->h] -= dbias * fabs((double)ahead);
  if (d->bias.kind == ATTEND_BUCKETS)
    p->dbias[attend_bucket(&d->bias, ahead) * d->heads + row->h] += dbias;
  if (d->bias.kind == ATTEND_DENSE)
    p->dbias[row_at(row->b, d->heads, row->h, d->q_len, row->i, d->kv_len) + (size_t)j] += dbias;
}

static void through_similarity(backward_pass *p, int j, double gap, double dlog, double *dq,
                               double *dk) {
  const attend_form *f = &p->row.d.form;
  double bias = bias_of(&p->row, j);
  if (has_features(f)) {
    double dsim = gap / p->row.denominator * exp(bias);
    through_features(p, j, attend_form_signed(f) ? dsim : dlog, dq, dk);
    return;
  }
  switch (f->kind) {
    case ATTEND_SOFTMAX:
    case ATTEND_ARGMAX:
      through_score(p, dlog, dq, dk);
      break;
    case ATTEND_GAUSSIAN:
      through_gaussian(p, dlog, dq, dk);
      break;
    case ATTEND_ELU:
      through_elu(p, dlog, dq, dk);
      break;
    case ATTEND_POLY:
      through_poly(p, gap, bias, dq, dk);
      break;
    case ATTEND_CUSTOM:
      through_custom(p, gap, bias, dq, dk);
      break;
    case ATTEND_FOURIER:
    case ATTEND_FAVOR: /* by features, always */
      break;
  }
}

/* Key seen[s]; gap = dp - delta. */
static void through_key(backward_pass *p, int s, double gap) {
  const definition_row *row = &p->row;
  const attend_desc *d = &row->d;
  int j = row->visible[s];
  double dlog = row->weight[s] * gap;
  if (d->form.kind == ATTEND_ARGMAX) dlog /= d->form.temperature;
  double *dq = p->dq + row_at(row->b, d->heads, row->h, d->q_len, row->i, d->dim);
  double *dk = p->dk + row_at(row->b, d->kv_heads, kv_head_of(row), d->kv_len, j, d->dim);
  definition_row_read_key(row, j);
  through_similarity(p, j, gap, dlog, dq, dk);
  if (p->dbias) through_bias(p, j, dlog);
}

/* ---- one row --------------------------------------------------------------------- */

/* dv takes its part, and dp is filled in. Returns delta. */
static double through_values(backward_pass *p) {
  const definition_row *row = &p->row;
  const attend_desc *d = &row->d;
  int g = kv_head_of(row), width = d->dim_v;
  double delta = 0;
  for (int s = 0; s < row->n_visible; s++) {
    int j = row->visible[s];
    read_row(&p->v, d->dtype, row->b, g, j, width, p->value);
    p->dp[s] = definition_dot(p->d_out, p->value, width);
    delta += row->weight[s] * p->dp[s];
    add(p->dv + row_at(row->b, d->kv_heads, g, d->kv_len, j, width), row->weight[s], p->d_out,
        width);
  }
  return delta;
}

static void backward_row(backward_pass *p, int b, int h, int i) {
  definition_row *row = &p->row;
  const attend_form *f = &row->d.form;
  definition_row_weigh(row, b, h, i);
  read_row(&p->d_o, row->d.dtype, b, h, i, row->d.dim_v, p->d_out);
  double delta = through_values(p);
  if (f->kind == ATTEND_ARGMAX && f->temperature == 0) return;
  for (int s = 0; s < row->n_visible; s++) through_key(p, s, p->dp[s] - delta);
}

/* ---- the public call ------------------------------------------------------------- */

static void zero(double *x, size_t n) {
  for (size_t i = 0; x && i < n; i++) x[i] = 0;
}

static void zero_results(const backward_pass *p) {
  const attend_desc *d = &p->row.d;
  zero(p->dq, row_at(d->batch, d->heads, 0, d->q_len, 0, d->dim));
  zero(p->dk, row_at(d->batch, d->kv_heads, 0, d->kv_len, 0, d->dim));
  zero(p->dv, row_at(d->batch, d->kv_heads, 0, d->kv_len, 0, d->dim_v));
  zero(p->dbias, desc_bias_count(d));
}

static attend_status take_rows(attend_context *ctx, backward_pass *p) {
  size_t keys = (size_t)p->row.d.kv_len, dim = (size_t)p->row.d.dim;
  size_t width = (size_t)p->row.d.dim_v;
  ATTEND_TRY(ctx_alloc(ctx, size_times(keys + 2 * dim + 2 * width, sizeof(double)),
                       "one row of the definition", &p->block));
  p->value = p->block;
  p->d_out = p->value + width;
  p->dsim_q = p->d_out + width;
  p->dsim_k = p->dsim_q + dim;
  p->dp = p->dsim_k + dim;
  return ATTEND_OK;
}

static attend_status check_results(attend_context *ctx, const backward_pass *p) {
  const attend_desc *d = &p->row.d;
  const struct {
    const void *data;
    const char *name;
    int length;
  } tensors[] = {
      {p->v.data, "v", d->kv_len}, {p->d_o.data, "d_o", d->q_len}, {p->dq, "dq", d->q_len},
      {p->dk, "dk", d->kv_len},    {p->dv, "dv", d->kv_len},
  };
  for (size_t n = 0; n < sizeof tensors / sizeof *tensors; n++)
    ATTEND_TRY(check_data(ctx, tensors[n].data, tensors[n].name, tensors[n].length));
  return ATTEND_OK;
}

static void backward(backward_pass *p) {
  const attend_desc *d = &p->row.d;
  zero_results(p);
  for (int b = 0; b < d->batch; b++)
    for (int h = 0; h < d->heads; h++)
      for (int i = 0; i < d->q_len; i++) backward_row(p, b, h, i);
}

attend_status attend_definition_backward(attend_context *ctx, const attend_desc *desc,
                                         attend_view q, attend_view k, attend_view v,
                                         attend_view d_o, double *dq, double *dk, double *dv,
                                         double *dbias) {
  backward_pass p = {.dq = dq, .dk = dk, .dv = dv, .dbias = dbias};
  attend_desc meant;
  ATTEND_TRY(OPTIONS_READ(ctx, attend_desc, desc, &meant));
  meant.purpose |= ATTEND_FOR_BACKWARD; /* a phi must have its derivative */
  ATTEND_TRY(definition_row_open(ctx, &meant, q, k, &p.row));
  const attend_desc *d = &p.row.d;
  p.v = view_complete(v, d->kv_heads, d->kv_len, d->dim_v);
  p.d_o = view_complete(d_o, d->heads, d->q_len, d->dim_v);
  attend_status status = check_results(ctx, &p);
  if (status == ATTEND_OK) status = take_rows(ctx, &p);
  if (status == ATTEND_OK) backward(&p);
  ctx_free(ctx, p.block);
  definition_row_close(ctx, &p.row);
  return status;
}
