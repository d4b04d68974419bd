/* Arrays for results, and reading them out of views.
 *
 * Between the runs and the verdict.
 */
#include "verify/outputs.h"

#include <stdlib.h>

const char *const output_names[OUTPUTS] = {"o",  "lse", "dq",
                                           "dk", "dv",  "dbias"};

static size_t extent(int a, int b, int c, int d) {
  return (size_t)a * (size_t)b * (size_t)c * (size_t)d;
}

size_t bias_count(const attend_desc *d) {
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
  attend_view view = view_strided(d->bias.dense, d->heads, d->q_len, d->kv_len);
  const ptrdiff_t *s = view.stride;
  return b * s[0] + h * s[1] + i * s[2] + j * s[3];
}

outputs outputs_for(const attend_desc *d, bool gradients) {
  outputs out = {
      .count = {[OUT_O] = extent(d->batch, d->heads, d->q_len, d->dim_v),
                [OUT_LSE] = extent(d->batch, d->heads, d->q_len, 1)}};
  if (gradients) {
    out.count[OUT_DQ] = extent(d->batch, d->heads, d->q_len, d->dim);
    out.count[OUT_DK] = extent(d->batch, d->kv_heads, d->kv_len, d->dim);
    out.count[OUT_DV] = extent(d->batch, d->kv_heads, d->kv_len, d->dim_v);
    out.count[OUT_DBIAS] = bias_count(d);
  }
  for (int x = 0; x < OUTPUTS; x++) {
    bool wanted = x < OUT_DQ || (gradients && x < OUT_DBIAS) || out.count[x];
    if (wanted) out.at[x] = need(out.count[x], sizeof(double));
  }
  return out;
}

void outputs_free(outputs *out) {
  for (int x = 0; x < OUTPUTS; x++) free(out->at[x]);
  *out = (outputs){0};
}

/* ---- views ------------------------------------------------------------------ */

attend_view view_strided(attend_view v, int heads, int length, int width) {
  if (v.stride[0] || v.stride[1] || v.stride[2] || v.stride[3]) return v;
  v.stride[3] = 1;
  v.stride[2] = width;
  v.stride[1] = (ptrdiff_t)length * width;
  v.stride[0] = heads * v.stride[1];
  return v;
}

attend_view view_from(attend_view v, attend_dtype dtype, int b, int h, int i) {
  ptrdiff_t skip = b * v.stride[0] + h * v.stride[1] + i * v.stride[2];
  v.data = (char *)v.data + skip * (ptrdiff_t)attend_dtype_size(dtype);
  return v;
}

static double read_one(const void *data, attend_dtype dtype, ptrdiff_t at) {
  float f;
  const char *from =
      (const char *)data + at * (ptrdiff_t)attend_dtype_size(dtype);
  attend_convert_to_f32(dtype, from, 1, &f);
  return f;
}

void view_read(attend_view v, attend_dtype dtype, int batch, int heads,
               int length, int width, double *out) {
  v = view_strided(v, heads, length, width);
  for (int b = 0; b < batch; b++)
    for (int h = 0; h < heads; h++)
      for (int i = 0; i < length; i++) {
        attend_view row = view_from(v, dtype, b, h, i);
        for (int x = 0; x < width; x++)
          *out++ = read_one(row.data, dtype, x * v.stride[3]);
      }
}

/* ---- the definition --------------------------------------------------------- */

/* The definition gives a dense bias's gradient before summing over what the
 * bias repeats. */
static void fold_dense(const attend_desc *d, const double *full, double *out) {
  for (int b = 0; b < d->batch; b++)
    for (int h = 0; h < d->heads; h++)
      for (int i = 0; i < d->q_len; i++)
        for (int j = 0; j < d->kv_len; j++)
          out[dense_at(d, b, h, i, j)] += *full++;
}

attend_status run_definition(attend_context *ctx, const inputs *in,
                             outputs *out) {
  const attend_desc *d = in->desc;
  attend_status status = attend_definition_forward(
      ctx, d, in->q, in->k, in->v, out->at[OUT_O], out->at[OUT_LSE]);
  if (status || !in->d_o.data) return status;
  bool dense = d->bias.kind == ATTEND_DENSE;
  double *full = out->at[OUT_DBIAS];
  if (dense)
    full = need(extent(d->batch, d->heads, d->q_len, d->kv_len), sizeof *full);
  status = attend_definition_backward(ctx, d, in->q, in->k, in->v, in->d_o,
                                      out->at[OUT_DQ], out->at[OUT_DK],
                                      out->at[OUT_DV], full);
  if (!status && dense) fold_dense(d, full, out->at[OUT_DBIAS]);
  if (dense) free(full);
  return status;
}
