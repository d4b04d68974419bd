/* Arrays for results, and reading them out of views. */
#include "verify/verify.h"

const char *attend_output_name(int output) {
  static const char *const names[ATTEND_OUTPUTS] = {"o", "lse", "dq", "dk", "dv", "dbias"};
  return names[output];
}

static size_t extent(int a, int b, int c, int d) {
  return (size_t)a * (size_t)b * (size_t)c * (size_t)d;
}

/* Numbers in the bias's own shape. */
static size_t bias_count(const attend_desc *d) {
  size_t count = 1;
  switch (d->bias.kind) {
    case ATTEND_NO_BIAS:
      return 0;
    case ATTEND_ALIBI:
      return (size_t)d->heads;
    case ATTEND_BUCKETS:
      return extent(d->bias.buckets, d->heads, 1, 1);
    case ATTEND_DENSE:
      break;
  }
  const ptrdiff_t *s = d->bias.dense.stride;
  const int sizes[4] = {d->batch, d->heads, d->q_len, d->kv_len};
  bool contiguous = !s[0] && !s[1] && !s[2] && !s[3];
  for (int n = 0; n < 4; n++)
    if (contiguous || s[n] || !sizes[n]) count *= (size_t)sizes[n];
  return count;
}

ptrdiff_t dense_at(const attend_desc *d, int b, int h, int i, int j) {
  attend_view view = view_complete(d->bias.dense, d->heads, d->q_len, d->kv_len);
  const ptrdiff_t *s = view.stride;
  return b * s[0] + h * s[1] + i * s[2] + j * s[3];
}

outputs outputs_shape(const attend_desc *d, bool gradients) {
  outputs out = {.count = {[ATTEND_OUT_O] = extent(d->batch, d->heads, d->q_len, d->dim_v),
                           [ATTEND_OUT_LSE] = extent(d->batch, d->heads, d->q_len, 1)}};
  if (!gradients) return out;
  out.count[ATTEND_OUT_DQ] = extent(d->batch, d->heads, d->q_len, d->dim);
  out.count[ATTEND_OUT_DK] = extent(d->batch, d->kv_heads, d->kv_len, d->dim);
  out.count[ATTEND_OUT_DV] = extent(d->batch, d->kv_heads, d->kv_len, d->dim_v);
  out.count[ATTEND_OUT_DBIAS] = bias_count(d);
  return out;
}

attend_status outputs_take(memory *m, const attend_desc *d, bool gradients, outputs *out) {
  *out = outputs_shape(d, gradients);
  for (int x = 0; x < ATTEND_OUTPUTS; x++)
    if (x < ATTEND_OUT_DQ || (gradients && x < ATTEND_OUT_DBIAS) || out->count[x])
      TAKE(m, &out->at[x], out->count[x]);
  return ATTEND_OK;
}

/* ---- views ------------------------------------------------------------------ */

attend_view view_from(attend_view v, attend_dtype dtype, int b, int h, int i) {
  ptrdiff_t skip = b * v.stride[0] + h * v.stride[1] + i * v.stride[2];
  v.data = (char *)v.data + skip * (ptrdiff_t)attend_dtype_size(dtype);
  return v;
}

static double read_one(const void *data, attend_dtype dtype, ptrdiff_t at) {
  float f;
  const char *from = (const char *)data + at * (ptrdiff_t)attend_dtype_size(dtype);
  attend_convert_to_f32(dtype, from, 1, &f);
  return f;
}

void view_read(attend_view v, attend_dtype dtype, int batch, int heads, int length, int width,
               double *out) {
  v = view_complete(v, heads, length, width);
  for (int b = 0; b < batch; b++)
    for (int h = 0; h < heads; h++)
      for (int i = 0; i < length; i++) {
        attend_view row = view_from(v, dtype, b, h, i);
        for (int x = 0; x < width; x++) *out++ = read_one(row.data, dtype, x * v.stride[3]);
      }
}

attend_status outputs_read(memory *m, const attend_tensors *t, bool gradients, outputs *out) {
  const attend_desc *d = &t->desc;
  const attend_view *views[] = {&t->o, NULL, &t->dq, &t->dk, &t->dv};
  const int heads[] = {d->heads, 0, d->heads, d->kv_heads, d->kv_heads};
  const int lengths[] = {d->q_len, 0, d->q_len, d->kv_len, d->kv_len};
  const int widths[] = {d->dim_v, 0, d->dim, d->dim, d->dim_v};
  ATTEND_TRY(outputs_take(m, d, gradients, out));
  for (int x = 0; x < ATTEND_OUT_DBIAS; x++)
    if (views[x] && out->at[x])
      view_read(*views[x], d->dtype, d->batch, heads[x], lengths[x], widths[x], out->at[x]);
  for (size_t n = 0; n < out->count[ATTEND_OUT_LSE]; n++) out->at[ATTEND_OUT_LSE][n] = t->lse[n];
  for (size_t n = 0; n < out->count[ATTEND_OUT_DBIAS]; n++)
    out->at[ATTEND_OUT_DBIAS][n] = t->dbias[n];
  return ATTEND_OK;
}

/* ---- the definition --------------------------------------------------------- */

/* The definition gives a dense bias's gradient before summing over what the
 * bias repeats. */
static void fold_dense(const attend_desc *d, const double *full, double *out) {
  for (int b = 0; b < d->batch; b++)
    for (int h = 0; h < d->heads; h++)
      for (int i = 0; i < d->q_len; i++)
        for (int j = 0; j < d->kv_len; j++) out[dense_at(d, b, h, i, j)] += *full++;
}

inputs inputs_of(const attend_tensors *t) {
  return (inputs){.desc = &t->desc, .q = t->q, .k = t->k, .v = t->v, .d_o = t->d_o};
}

attend_status run_definition(attend_context *ctx, const inputs *in, outputs *out) {
  const attend_desc *d = in->desc;
  double *full = NULL;
  memory m = {.ctx = ctx};
  ATTEND_TRY(attend_definition_forward(ctx, d, in->q, in->k, in->v, out->at[ATTEND_OUT_O],
                                       out->at[ATTEND_OUT_LSE]));
  if (!in->d_o.data) return ATTEND_OK;
  bool dense = d->bias.kind == ATTEND_DENSE;
  if (dense) TAKE(&m, &full, extent(d->batch, d->heads, d->q_len, d->kv_len));
  attend_status status = attend_definition_backward(
      ctx, d, in->q, in->k, in->v, in->d_o, out->at[ATTEND_OUT_DQ], out->at[ATTEND_OUT_DK],
      out->at[ATTEND_OUT_DV], dense ? full : out->at[ATTEND_OUT_DBIAS]);
  if (!status && dense) fold_dense(d, full, out->at[ATTEND_OUT_DBIAS]);
  memory_free(&m);
  return status;
}
