/* The derivative of definition.c, in double, one sum at a time.
 *
 * With p_j = sim_j / sum sim and dp_j = dO . v_j, out's dependence on any
 * similarity is dsim_j = (dp_j - delta) / sum sim, delta = sum_j p_j dp_j.
 * Where sim's logarithm is kept this becomes d(log sim_j) = p_j (dp_j - delta).
 * A hard argmax passes nothing through its choice.
 */
#include <math.h>

#include "attend/definition.h"
#include "attention/definition.h"
#include "base/options.h"

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

/* ---- through the similarity --------------------------------------------- */

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
  definition_features_slope(row, j, p->dsim_q, p->dsim_k);
  add(dq, g, p->dsim_q, row->d.dim);
  add(dk, g, p->dsim_k, row->d.dim);
}

static double elu_slope(double x) { return x > 0 ? 1 : exp(x); }

static void through_elu(backward_pass *p, double dlog, double *dq, double *dk) {
  const definition_row *row = &p->row;
  const double *q = row->query, *k = row->key;
  double sim = 0;
  for (int x = 0; x < row->d.dim; x++) sim += definition_elu(q[x]) * definition_elu(k[x]);
  for (int x = 0; x < row->d.dim; x++) {
    dq[x] += dlog / sim * elu_slope(q[x]) * definition_elu(k[x]);
    dk[x] += dlog / sim * elu_slope(k[x]) * definition_elu(q[x]);
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
  double bias = definition_row_bias(&p->row, j);
  if (definition_has_features(f)) {
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
  int j = row->seen[s];
  double dlog = row->weight[s] * gap;
  if (d->form.kind == ATTEND_ARGMAX) dlog /= d->form.temperature;
  double *dq = p->dq + row_at(row->b, d->heads, row->h, d->q_len, row->i, d->dim);
  double *dk =
      p->dk + row_at(row->b, d->kv_heads, definition_row_kv_head(row), d->kv_len, j, d->dim);
  definition_row_read_key(row, j);
  through_similarity(p, j, gap, dlog, dq, dk);
  if (p->dbias) through_bias(p, j, dlog);
}

/* ---- one row ------------------------------------------------------------ */

/* dv takes its part, and dp is filled in. Returns delta. */
static double through_values(backward_pass *p) {
  const definition_row *row = &p->row;
  const attend_desc *d = &row->d;
  int g = definition_row_kv_head(row), width = d->dim_v;
  double delta = 0;
  for (int s = 0; s < row->n_seen; s++) {
    int j = row->seen[s];
    definition_read(&p->v, d->dtype, row->b, g, j, width, p->value);
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
  definition_read(&p->d_o, row->d.dtype, b, h, i, row->d.dim_v, p->d_out);
  double delta = through_values(p);
  if (f->kind == ATTEND_ARGMAX && f->temperature == 0) return;
  for (int s = 0; s < row->n_seen; s++) through_key(p, s, p->dp[s] - delta);
}

/* ---- the public call ---------------------------------------------------- */

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
  ATTEND_TRY(take(ctx, size_times(keys + 2 * dim + 2 * width, sizeof(double)),
                  "one row of the definition", &p->block));
  p->value = p->block;
  p->d_out = p->value + width;
  p->dsim_q = p->d_out + width;
  p->dsim_k = p->dsim_q + dim;
  p->dp = p->dsim_k + dim;
  return ATTEND_OK;
}

static attend_status check_data(attend_context *ctx, const backward_pass *p) {
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
    ATTEND_TRY(definition_check_data(ctx, tensors[n].data, tensors[n].name, tensors[n].length));
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
  attend_status status = check_data(ctx, &p);
  if (status == ATTEND_OK) status = take_rows(ctx, &p);
  if (status == ATTEND_OK) backward(&p);
  give(ctx, p.block);
  definition_row_close(ctx, &p.row);
  return status;
}
