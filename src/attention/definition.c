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
#include "attend/definition.h"

#include <math.h>

#include "attention/definition.h"
#include "base/options.h"

/* ---- reading ------------------------------------------------------------ */

static double read_element(const void *data, attend_dtype dtype, ptrdiff_t n) {
  if (dtype == ATTEND_F32) return ((const float *)data)[n];
  uint16_t half = ((const uint16_t *)data)[n];
  return dtype == ATTEND_F16 ? half_to_float(half) : bf16_to_float(half);
}

void definition_read(const attend_view *view, attend_dtype dtype, int b, int h, int i, int width,
                     double *out) {
  const void *row = view_at(view, attend_dtype_size(dtype), b, h, i);
  for (int x = 0; x < width; x++) out[x] = read_element(row, dtype, x * view->stride[3]);
}

double definition_dot(const double *x, const double *y, int n) {
  double sum = 0;
  for (int i = 0; i < n; i++) sum += x[i] * y[i];
  return sum;
}

attend_status definition_check_data(attend_context *ctx, const void *data, const char *name,
                                    int length) {
  ATTEND_CHECK(ctx, data || length == 0, "%s is NULL: give the address of its numbers", name);
  return ATTEND_OK;
}

int definition_row_kv_head(const definition_row *row) {
  return row->h / (row->d.heads / row->d.kv_heads);
}

void definition_row_read_key(const definition_row *row, int j) {
  definition_read(&row->k, row->d.dtype, row->b, definition_row_kv_head(row), j, row->d.dim,
                  row->key);
}

/* ---- similarity --------------------------------------------------------- */

double definition_row_bias(const definition_row *row, int j) {
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

double definition_elu(double x) { return x > 0 ? x + 1 : exp(x); }

static double elu_product(const double *x, const double *y, int n) {
  double sum = 0;
  for (int i = 0; i < n; i++) sum += definition_elu(x[i]) * definition_elu(y[i]);
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
  double bias = definition_row_bias(row, j);
  double score = score_of(row) + bias;
  if (definition_has_features(f)) {
    double sim = definition_features_sim(row, j);
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

/* ---- weights ------------------------------------------------------------ */

static double sum_of(const double *x, int n) {
  double sum = 0;
  for (int i = 0; i < n; i++) sum += x[i];
  return sum;
}

/* A NaN, once met, stays. */
static double largest(const double *x, int n) {
  double most = -INFINITY;
  for (int i = 0; i < n; i++)
    if (!isnan(most) && !(x[i] <= most)) most = x[i];
  return most;
}

/* In place: scores become 1 at the best key, or at each of the best. */
static void choose_best(const definition_row *row, double best) {
  bool taken = false;
  for (int s = 0; s < row->n_seen; s++) {
    bool is_best = row->weight[s] == best;
    bool first = row->d.form.ties == ATTEND_TIES_FIRST;
    row->weight[s] = is_best && !(taken && first) ? 1 : 0;
    taken = taken || is_best;
  }
}

/* In place: exp of the logarithms, relative to the largest. */
static void exponentiate(const definition_row *row, double most) {
  for (int s = 0; s < row->n_seen; s++) row->weight[s] = exp(row->weight[s] - most);
}

static void drop_zeros(definition_row *row) {
  int kept = 0;
  for (int s = 0; s < row->n_seen; s++) {
    if (row->weight[s] == 0) continue;
    row->seen[kept] = row->seen[s];
    row->weight[kept++] = row->weight[s];
  }
  row->n_seen = kept;
}

/* From log sim, or from scores, to unnormalised weights; sets lse. */
static void weigh_logarithms(definition_row *row) {
  const attend_form *f = &row->d.form;
  bool hard = f->kind == ATTEND_ARGMAX && f->temperature == 0;
  double best = largest(row->weight, row->n_seen);
  row->lse = best;
  if (best == -INFINITY) {
    row->n_seen = 0;
    return;
  }
  if (hard)
    choose_best(row, best);
  else
    exponentiate(row, best);
  if (!isnan(best)) drop_zeros(row);
  if (!hard) row->lse = best + log(sum_of(row->weight, row->n_seen));
}

static void normalise(definition_row *row) {
  bool is_signed = attend_form_signed(&row->d.form);
  if (!is_signed) weigh_logarithms(row);
  row->denominator = sum_of(row->weight, row->n_seen);
  if (is_signed) row->lse = row->denominator;
  if (row->denominator == 0 && !isnan(row->lse)) row->n_seen = 0;
  for (int s = 0; s < row->n_seen; s++) row->weight[s] /= row->denominator;
}

void definition_row_weigh(definition_row *row, int b, int h, int i) {
  row->b = b;
  row->h = h;
  row->i = i;
  row->n_seen = 0;
  definition_read(&row->q, row->d.dtype, b, h, i, row->d.dim, row->query);
  definition_features_query(row);
  for (int j = 0; j < row->d.kv_len; j++) {
    if (!attend_visible(&row->d, b, i, j)) continue;
    definition_row_read_key(row, j);
    row->seen[row->n_seen] = j;
    row->weight[row->n_seen++] = similarity(row, j);
  }
  normalise(row);
}

static size_t row_cut(const attend_desc *d, arena a, definition_row *row) {
  size_t keys = (size_t)d->kv_len, dim = (size_t)d->dim;
  row->query = arena_cut(&a, size_times(dim, sizeof(double)));
  row->key = arena_cut(&a, size_times(dim, sizeof(double)));
  row->weight = arena_cut(&a, size_times(keys, sizeof(double)));
  row->seen = arena_cut(&a, size_times(keys, sizeof(int)));
  definition_features_cut(d, &a, &row->features);
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
  ATTEND_TRY(definition_check_data(ctx, q.data, "q", d->q_len));
  return definition_check_data(ctx, k.data, "k", d->kv_len);
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
  ATTEND_TRY(take(ctx, definition_row_bytes(d), "one row of the definition", &row->block));
  row_cut(d, (arena){row->block, 0}, row);
  attend_status status = definition_features_open(ctx, row);
  if (status != ATTEND_OK) definition_row_close(ctx, row);
  return status;
}

void definition_row_close(const attend_context *ctx, definition_row *row) {
  give(ctx, row->block);
  row->block = NULL; /* closing twice is allowed */
}

/* ---- the public calls --------------------------------------------------- */

static void sum_values(const definition_row *row, const attend_view *v, double *value /* [M] */,
                       double *o /* [M] */) {
  int width = row->d.dim_v;
  for (int x = 0; x < width; x++) o[x] = 0;
  for (int s = 0; s < row->n_seen; s++) {
    definition_read(v, row->d.dtype, row->b, definition_row_kv_head(row), row->seen[s], width,
                    value);
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
        sum_values(row, v, value, o);
        o += d->dim_v;
      }
}

attend_status attend_definition_forward(attend_context *ctx, const attend_desc *desc, attend_view q,
                                        attend_view k, attend_view v, double *o, double *lse) {
  definition_row row;
  double *value = NULL;
  ATTEND_TRY(definition_row_open(ctx, desc, q, k, &row));
  const attend_desc *d = &row.d;
  attend_status status = definition_check_data(ctx, v.data, "v", o ? d->kv_len : 0);
  if (status == ATTEND_OK)
    status = take(ctx, size_times((size_t)d->dim_v, sizeof(double)), "one value", &value);
  v = view_complete(v, d->kv_heads, d->kv_len, d->dim_v);
  if (status == ATTEND_OK) forward(&row, &v, value, o, lse);
  give(ctx, value);
  definition_row_close(ctx, &row);
  return status;
}

static void scatter(const definition_row *row, double *weights /* [S] */) {
  for (int j = 0; j < row->d.kv_len; j++) weights[j] = 0;
  for (int s = 0; s < row->n_seen; s++) weights[row->seen[s]] = row->weight[s];
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
