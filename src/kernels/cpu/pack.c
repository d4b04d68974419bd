/* Packing: from tensors of any strides and storage type to rows and lanes of f32, and
 * back. Every tensor is packed once per tile.
 */
#include "kernels/cpu/vec.h"

enum { CHUNK = 64 }; /* columns that are transposed at a time */

/* ---- one row in ------------------------------------------------------------------ */

static float load_one(attend_dtype dtype, const void *p, ptrdiff_t i) {
  if (dtype == ATTEND_F32) return ((const float *)p)[i];
  uint16_t h = ((const uint16_t *)p)[i];
  return dtype == ATTEND_F16 ? half_to_float(h) : bf16_to_float(h);
}

INLINE void load_vectors(const attend_dtype dtype, const void *p, int width, float *dst) {
  size_t size = dtype == ATTEND_F32 ? 4 : 2;
  for (int i = 0; i + VW <= width; i += VW)
    v_store(dst + i, v_load_as(dtype, (const char *)p + (size_t)i * size));
}

static void load_row(attend_dtype dtype, const void *p, ptrdiff_t col, int width, float *dst) {
  int done = 0;
  if (col == 1) {
    done = width / VW * VW;
    if (dtype == ATTEND_F32) load_vectors(ATTEND_F32, p, width, dst);
    if (dtype == ATTEND_F16) load_vectors(ATTEND_F16, p, width, dst);
    if (dtype == ATTEND_BF16) load_vectors(ATTEND_BF16, p, width, dst);
  }
  for (int i = done; i < width; i++) dst[i] = load_one(dtype, p, i * col);
}

/* x * 0 is 0 for finite x and NaN otherwise. */
bool KERNEL(all_finite)(const float *x, size_t n) {
  vf zero[NV];
  for (int i = 0; i < NV; i++) zero[i] = v_zero();
  for (size_t i = 0; i < n; i += LANES)
    for (int k = 0; k < NV; k++) zero[k] = v_fma(v_load(x + i + k * VW), v_zero(), zero[k]);
  return fold_sum(zero) == 0.0f;
}

static const void *row_at(const source *src, int i, int column) {
  ptrdiff_t element = src->dtype == ATTEND_F32 ? 4 : 2;
  return (const char *)src->data + (i * src->row + column * src->col) * element;
}

/* ---- packing --------------------------------------------------------------------- */

static void pack_some(const source *src, const uint8_t *valid, int n, int column, int width,
                      float *dst, int ld) {
  for (int i = 0; i < n; i++, dst += ld) {
    int from = 0;
    if (!valid || valid[i]) {
      load_row(src->dtype, row_at(src, i, column), src->col, width, dst);
      from = width;
    }
    if (from < ld) memset(dst + from, 0, (size_t)(ld - from) * sizeof *dst);
  }
}

void KERNEL(pack_rows)(source src, const uint8_t *valid, int n, int width, float *dst, int ld) {
  pack_some(&src, valid, n, 0, width, dst, ld);
}

/* rows[16][ld] -> dst[width][16]; whole vectors are read. */
static void transpose(const float *rows, ptrdiff_t ld, int width, float *dst) {
  for (int lane = 0; lane < LANES; lane += VW)
    for (int c = 0; c < width; c += VW) {
      vf r[VW];
      for (int i = 0; i < VW; i++) r[i] = v_load(rows + (lane + i) * ld + c);
      v_transpose(r);
      for (int i = 0; i < VW && c + i < width; i++)
        v_store(dst + (size_t)(c + i) * LANES + lane, r[i]);
    }
}

/* Can rows be transposed where they lie? */
static bool lies_ready(const source *src, const uint8_t *valid, int rows, int width) {
  return src->dtype == ATTEND_F32 && src->col == 1 && rows == LANES && width % VW == 0 &&
         (!valid || !memchr(valid, 0, LANES));
}

void KERNEL(pack_lanes)(source src, const uint8_t *valid, int n, int width, float *dst) {
  float tmp[LANES * CHUNK] __attribute__((aligned(64)));
  for (int i = 0; i < n; i += LANES, dst += (size_t)width * LANES) {
    source part = src;
    part.data = row_at(&src, i, 0);
    const uint8_t *real = valid ? valid + i : NULL;
    int rows = n - i < LANES ? n - i : LANES;
    if (lies_ready(&part, real, rows, width)) {
      transpose(part.data, part.row, width, dst);
      continue;
    }
    if (rows < LANES) memset(tmp, 0, sizeof tmp);
    for (int c = 0; c < width; c += CHUNK) {
      int w = width - c < CHUNK ? width - c : CHUNK;
      pack_some(&part, real, rows, c, w, tmp, CHUNK);
      transpose(tmp, CHUNK, w, dst + (size_t)c * LANES);
    }
  }
}

void KERNEL(widen)(attend_dtype dtype, const void *src, size_t n, float *dst) {
  const uint16_t *p = src;
  size_t i = 0;
  if (dtype == ATTEND_F16)
    for (; i + VW <= n; i += VW) v_store(dst + i, v_load_f16(p + i));
  if (dtype == ATTEND_BF16)
    for (; i + VW <= n; i += VW) v_store(dst + i, v_load_bf16(p + i));
  for (; i < n; i++) dst[i] = load_one(dtype, p, (ptrdiff_t)i);
}

/* ---- and back -------------------------------------------------------------------- */

static void store_one(attend_dtype dtype, void *p, ptrdiff_t i, float x) {
  if (dtype == ATTEND_F32)
    ((float *)p)[i] = x;
  else
    ((uint16_t *)p)[i] = dtype == ATTEND_F16 ? half_from_float(x) : bf16_from_float(x);
}

static void store_vector(attend_dtype dtype, void *p, int i, vf x) {
  if (dtype == ATTEND_F32) v_store((float *)p + i, x);
  if (dtype == ATTEND_F16) v_store_f16((uint16_t *)p + i, x);
  if (dtype == ATTEND_BF16) v_store_bf16((uint16_t *)p + i, x);
}

/* Division by lanes and by one agree: both round once. */
static void store_row(const float *src, int width, float divisor, attend_dtype dtype, ptrdiff_t col,
                      void *p) {
  int i = 0;
  if (col == 1)
    for (; i + VW <= width; i += VW)
      store_vector(dtype, p, i, v_div(v_load(src + i), v_set1(divisor)));
  for (; i < width; i++) store_one(dtype, p, i * col, src[i] / divisor);
}

void KERNEL(store_rows)(const float *src, int ld, int n, int width, const float *divisor,
                        target dst) {
  static const float zeros[CHUNK];
  ptrdiff_t element = dst.dtype == ATTEND_F32 ? 4 : 2;
  for (int i = 0; i < n; i++) {
    char *p = (char *)dst.data + i * dst.row * element;
    if (divisor[i] != 0.0f) {
      store_row(src + (size_t)i * ld, width, divisor[i], dst.dtype, dst.col, p);
      continue;
    }
    for (int c = 0; c < width; c += CHUNK)
      store_row(zeros, width - c < CHUNK ? width - c : CHUNK, 1.0f, dst.dtype, dst.col,
                p + c * dst.col * element);
  }
}

void KERNEL(add_rows)(const float *src, int ld, int n, int width, float factor, target dst) {
  vf f = v_set1(factor);
  for (int r = 0; r < n; r++, src += ld) {
    float *out = (float *)dst.data + r * dst.row;
    int i = 0;
    if (dst.col == 1)
      for (; i + VW <= width; i += VW)
        v_store(out + i, v_add(v_load(out + i), v_mul(v_load(src + i), f)));
    for (; i < width; i++) out[i * dst.col] += src[i] * factor;
  }
}

void KERNEL(row_dots)(int n, int width, const float *a, const float *b, int ld, float *out) {
  for (int r = 0; r < n; r++) {
    vf sum[NV];
    for (int k = 0; k < NV; k++) sum[k] = v_zero();
    for (int i = 0; i < width; i += LANES)
      for (int k = 0; k < NV; k++) {
        size_t at = (size_t)r * ld + i + k * VW;
        sum[k] = v_fma(v_load(a + at), v_load(b + at), sum[k]);
      }
    out[r] = fold_sum(sum);
  }
}

void KERNEL(scale_all)(const float *x, size_t n, float factor, float *y) {
  size_t i = 0;
  for (; i + VW <= n; i += VW) v_store(y + i, v_mul(v_load(x + i), v_set1(factor)));
  for (; i < n; i++) y[i] = x[i] * factor;
}
