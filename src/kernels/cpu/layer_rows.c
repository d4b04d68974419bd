/* Kernels of layers along rows of any length: norms, sums, embedding lookup, RoPE, parts
 * of the loss. Sums along a row run in 16 lanes that fold 8, 4, 2, 1; the last lanes are
 * padded with neutral values.
 */
#include "kernels/cpu/lanes.h"

/* ---- norms ----------------------------------------------------------------------- */

static void scale_row(int n, const float *x, float less, float factor, const float *weight,
                      const float *bias, float *y) {
  vf a[NV], w[NV], b[NV];
  for (int j = 0; j < n; j += LANES) {
    load_lanes(x + j, n - j, less, a);
    load_or(weight, j, n - j, 1.0f, w);
    load_or(bias, j, n - j, 0.0f, b);
    ALL(i) a[i] = v_mul(v_sub(a[i], v_set1(less)), v_set1(factor));
    ALL(i) a[i] = v_fma(a[i], w[i], b[i]);
    store_lanes(y + j, n - j, a);
  }
}

/* (x - mean) / sqrt(variance + eps) weight + bias; mean 0 without `centre`. */
void KERNEL(norm_rows)(bool centre, int rows, int n, const float *x, int ldx, const float *weight,
                       const float *bias, float eps, float *y, int ldy) {
  for (int r = 0; r < rows; r++, x += ldx, y += ldy) {
    float mean = centre ? row_sum(n, x) / (float)n : 0.0f;
    float variance = row_squares(n, x, mean) / (float)n;
    scale_row(n, x, mean, 1.0f / sqrtf(variance + eps), weight, bias, y);
  }
}

/* The same by columns, with what is given. */
void KERNEL(norm_columns)(int rows, int n, const float *x, int ldx, const float *mean,
                          const float *variance, const float *weight, const float *bias, float eps,
                          float *y, int ldy) {
  for (int j = 0; j < n; j += LANES) {
    vf m[NV], f[NV], w[NV], b[NV];
    load_lanes(mean + j, n - j, 0, m);
    load_lanes(variance + j, n - j, 1, f);
    load_or(weight, j, n - j, 1.0f, w);
    load_or(bias, j, n - j, 0.0f, b);
    ALL(i) f[i] = v_div(w[i], v_sqrt(v_add(f[i], v_set1(eps))));
    for (int r = 0; r < rows; r++) {
      vf a[NV];
      load_lanes(x + (size_t)r * (size_t)ldx + j, n - j, 0, a);
      ALL(i) a[i] = v_fma(v_sub(a[i], m[i]), f[i], b[i]);
      store_lanes(y + (size_t)r * (size_t)ldy + j, n - j, a);
    }
  }
}

/* total += the sums of 16 columns of (x - less), or of its squares. A batch may
 * be long: floats sum BLOCK rows, doubles the rest. */
static void lane_sums(bool squares, int rows, int n, const float *x, int ldx,
                      const float less[LANES], double total[LANES]) {
  for (int r = 0; r < rows; r += BLOCK) {
    float part[LANES];
    vf sum[NV], a[NV];
    ALL(i) sum[i] = v_zero();
    for (int k = r; k < rows && k < r + BLOCK; k++) {
      load_lanes(x + (size_t)k * (size_t)ldx, n, 0, a);
      ALL(i) a[i] = v_sub(a[i], v_load(less + i * VW));
      ALL(i) sum[i] = squares ? v_fma(a[i], a[i], sum[i]) : v_add(sum[i], a[i]);
    }
    store_lanes(part, LANES, sum);
    for (int i = 0; i < LANES; i++) total[i] += (double)part[i];
  }
}

void KERNEL(column_moments)(int rows, int n, const float *x, int ldx, float *mean,
                            float *variance) {
  for (int j = 0; j < n; j += LANES) {
    int here = n - j < LANES ? n - j : LANES;
    float m[LANES] = {0};
    double sum[LANES] = {0}, squares[LANES] = {0};
    lane_sums(false, rows, here, x + j, ldx, m, sum);
    for (int i = 0; i < here; i++) m[i] = (float)(sum[i] / rows);
    lane_sums(true, rows, here, x + j, ldx, m, squares);
    for (int i = 0; i < here; i++) {
      mean[j + i] = m[i];
      variance[j + i] = (float)(squares[i] / rows);
    }
  }
}

/* total += the sums of U lanes of columns; `here` of the last are there. */
INLINE void wide_sums(const int U, int rows, int here, const float *x, size_t ldx, double *total) {
  for (int r = 0; r < rows; r += BLOCK) {
    float part[U * LANES];
    vf sum[U * NV], a[NV];
    UNROLL for (int i = 0; i < U * NV; i++) sum[i] = v_zero();
    for (int k = r; k < rows && k < r + BLOCK; k++) UNROLL for (int u = 0; u < U; u++) {
        load_lanes(x + (size_t)k * ldx + u * LANES, u < U - 1 ? LANES : here, 0, a);
        ALL(i) sum[u * NV + i] = v_add(sum[u * NV + i], a[i]);
      }
    UNROLL for (int i = 0; i < U * NV; i++) v_store(part + i * VW, sum[i]);
    for (int i = 0; i < U * LANES; i++) total[i] += (double)part[i];
  }
}

/* out (+)= the sums of columns. Four lanes are read together: alone, every line
 * would be in another page. */
void KERNEL(add_columns)(int rows, int n, const float *x, int ldx, bool add, float *out) {
  enum { FOUR = 4 };
  for (int j = 0; j < n;) {
    int here = n - j < LANES ? n - j : LANES;
    double sum[FOUR * LANES] = {0};
    if (n - j >= FOUR * LANES)
      here = FOUR * LANES, wide_sums(FOUR, rows, LANES, x + j, (size_t)ldx, sum);
    else
      wide_sums(1, rows, here, x + j, (size_t)ldx, sum);
    for (int i = 0; i < here; i++) out[j + i] = (float)((add ? (double)out[j + i] : 0) + sum[i]);
    j += here;
  }
}

void KERNEL(add_both)(int rows, int n, const float *a, int lda, const float *b, int ldb, float *y,
                      int ldy) {
  for (int r = 0; r < rows; r++, a += lda, b += ldb, y += ldy) {
    int i = 0;
    for (; i + VW <= n; i += VW) v_store(y + i, v_add(v_load(a + i), v_load(b + i)));
    for (; i < n; i++) y[i] = a[i] + b[i];
  }
}

/* ---- embeddings and positions ----------------------------------------------------- */

INLINE vf load_as(attend_dtype dtype, const void *p, int at) {
  if (dtype == ATTEND_F16) return v_load_f16((const uint16_t *)p + at);
  if (dtype == ATTEND_BF16) return v_load_bf16((const uint16_t *)p + at);
  return v_load((const float *)p + at);
}

/* y = factor src, or added to y; src may lie anywhere, so it is copied first. */
void KERNEL(embed_row)(attend_dtype dtype, const void *src, int n, float factor, bool add,
                       float *y) {
  enum { CHUNK = 64 };
  float near[CHUNK] __attribute__((aligned(64))) = {0};
  size_t size = dtype == ATTEND_F32 ? 4 : 2;
  for (int j = 0; j < n; j += CHUNK) {
    int here = n - j < CHUNK ? n - j : CHUNK;
    memcpy(near, (const char *)src + (size_t)j * size, (size_t)here * size);
    for (int i = 0; i < here; i += LANES) {
      vf a[NV], b[NV];
      load_or(add ? y : NULL, j + i, here - i, 0.0f, b);
      ALL(k) a[k] = load_as(dtype, near, i + k * VW);
      ALL(k)
      a[k] = add ? v_fma(a[k], v_set1(factor), b[k]) : v_mul(a[k], v_set1(factor));
      store_lanes(y + j + i, here - i, a);
    }
  }
}

/* Pairs i0 .. i0 + n - 1 of every head: (a, b) <- (a cos - b sin,
 * b cos + a sin); pair i is (x[i], x[i + dim/2]). */
void KERNEL(rotate_pairs)(int heads, int dim, int half, int i0, int n, const float *cosine,
                          const float *sine, float *x) {
  for (int h = 0; h < heads; h++, x += dim)
    for (int i = 0; i < n; i += LANES) {
      vf a[NV], b[NV], c[NV], s[NV], d[NV];
      load_lanes(x + i0 + i, n - i, 0, a);
      load_lanes(x + i0 + i + half, n - i, 0, b);
      load_lanes(cosine + i, n - i, 0, c);
      load_lanes(sine + i, n - i, 0, s);
      ALL(k) d[k] = v_sub(v_mul(a[k], c[k]), v_mul(b[k], s[k]));
      ALL(k) b[k] = v_add(v_mul(b[k], c[k]), v_mul(a[k], s[k]));
      store_lanes(x + i0 + i, n - i, d);
      store_lanes(x + i0 + i + half, n - i, b);
    }
}

/* ---- loss -------------------------------------------------------------------------- */

/* Where the largest stands first; NaN is passed over. n >= 1. */
int KERNEL(largest_at)(int n, const float *x) {
  vf top[NV], a[NV];
  ALL(i) top[i] = v_set1(-INFINITY);
  for (int j = 0; j < n; j += LANES) {
    load_lanes(x + j, n - j, -INFINITY, a);
    ALL(i) top[i] = v_max(a[i], top[i]);
  }
  float most = fold_max(top);
  for (int j = 0; j < n; j++)
    if (x[j] == most) return j;
  return 0;
}

/* The sum of e^(x - less), no x larger than less: floats sum BLOCK in each of 16
 * lanes, doubles the rest. */
double KERNEL(sum_exp)(int n, const float *x, float less) {
  double total = 0;
  for (int from = 0; from < n; from += BLOCK * LANES) {
    vf sum[NV], a[NV];
    ALL(i) sum[i] = v_zero();
    for (int j = from; j < n && j < from + BLOCK * LANES; j += LANES) {
      load_lanes(x + j, n - j, -INFINITY, a);
      ALL(i) a[i] = v_sub(a[i], v_set1(less));
      ALL(i) sum[i] = v_add(sum[i], v_exp2_less(a[i], 0x1.715476p0f, 0));
    }
    total += (double)fold_sum(sum);
  }
  return total;
}
