/* Powers and distances: the kernels of poly and gaussian beside those of softmax.c.
 * Poly's weights are powers of scores without a maximum; gaussian's scores include the
 * norm of the key or come from differences.
 *
 * Powers are computed by repeated squaring, products only and in one order, so that
 * instruction sets agree bit for bit.
 */
#include "kernels/cpu/online_softmax.h"

INLINE vf v_power(vf x, int n) {
  vf y = v_set1(1.0f);
  for (;; x = v_mul(x, x)) {
    if (n & 1) y = v_mul(y, x);
    if (!(n >>= 1)) return y;
  }
}

/* Small degrees are constants to the compiler. */
#define FOR_DEGREE(degree, CALL) \
  switch (degree) {              \
    CASE_OF(CALL, 1)             \
    CASE_OF(CALL, 2)             \
    CASE_OF(CALL, 3)             \
    CASE_OF(CALL, 4)             \
    default:                     \
      CALL(degree);              \
      break;                     \
  }

/* ---- weights --------------------------------------------------------------------- */

INLINE void power_rows(const int degree, int rows, int j0, int j1, float a, float c, float *s) {
  for (int r = 0; r < rows; r++, s += BLOCK)
    for (int j = j0; j < j1; j += VW) {
      vf base = v_fma_once(v_load(s + j), v_set1(a), v_set1(c));
      v_store(s + j, v_power(base, degree));
    }
}

void KERNEL(power)(int rows, int j0, int j1, float a, float c, int degree, float *s) {
#define CALL(D) power_rows(D, rows, j0, j1, a, c, s)
  FOR_DEGREE(degree, CALL)
#undef CALL
}

/* A block's maximum is 0 whatever its sum: signed weights may cancel. */
void KERNEL(join_sums)(int rows, int j0, int j1, const float *s, float *m, float *l, float *alpha,
                       float *beta) {
  for (int r = 0; r < rows; r++, s += BLOCK) {
    vf sum[NV], size[NV];
    UNROLL for (int i = 0; i < NV; i++) sum[i] = size[i] = v_zero();
    for (int j = j0; j < j1; j += LANES) UNROLL for (int i = 0; i < NV; i++) {
        vf x = v_load(s + j + i * VW);
        sum[i] = v_add(sum[i], x);
        size[i] = v_add(size[i], v_abs(x));
      }
    float both[2] = {fold_sum(sum), fold_sum(size)};
    join(0.0f, both, m + r, l + 2 * r, alpha + r, beta + r);
  }
}

/* ---- backward -------------------------------------------------------------------- */

INLINE void grad_row(const int degree, int j0, int j1, float a, float c, float den, float delta,
                     float *s, float *dp) {
  const vf one_over = v_set1(den), d = v_set1(delta);
  const vf times = v_set1((float)degree);
  for (int j = j0; j < j1; j += VW) {
    vf base = v_fma_once(v_load(s + j), v_set1(a), v_set1(c));
    vf below = v_power(base, degree - 1);
    vf gap = v_sub(v_load(dp + j), d);
    v_store(s + j, v_div(v_mul(below, base), one_over));
    v_store(dp + j, v_mul(gap, v_div(v_mul(below, times), one_over)));
  }
}

INLINE void grad_rows(const int degree, int rows, int j0, int j1, float a, float c, float *s,
                      float *dp, const float *den, const float *delta) {
  size_t bytes = (size_t)(j1 - j0) * sizeof *s;
  for (int r = 0; r < rows; r++, s += BLOCK, dp += BLOCK) {
    if (den[r] != 0.0f) {
      grad_row(degree, j0, j1, a, c, den[r], delta[r], s, dp);
      continue;
    }
    memset(s + j0, 0, bytes);
    memset(dp + j0, 0, bytes);
  }
}

void KERNEL(power_grad)(int rows, int j0, int j1, float a, float c, int degree, float *s, float *dp,
                        const float *den, const float *delta) {
#define CALL(D) grad_rows(D, rows, j0, j1, a, c, s, dp, den, delta)
  FOR_DEGREE(degree, CALL)
#undef CALL
}

void KERNEL(column_sums)(int n, int j0, int j1, const float *a, float *out) {
  for (int j = j0; j < j1; j += VW) {
    vf sum = v_zero();
    for (int r = 0; r < n; r++) sum = v_add(sum, v_load(a + r * BLOCK + j));
    v_store(out + j, v_add(v_load(out + j), sum));
  }
}

/* ---- differences ----------------------------------------------------------------- */

INLINE void gap_columns(const int U, int n, const float *p, int step, const float *x, int ld,
                        const float *y, float *o) {
  vf acc[4 * NV], less[4 * NV];
  UNROLL for (int i = 0; i < U * NV; i++) {
    acc[i] = v_zero();
    less[i] = v_load(y + i * VW);
  }
  for (int t = 0; t < n; t++, p += step, x += ld) {
    vf w = v_set1(*p);
    UNROLL for (int i = 0; i < U * NV; i++) acc[i] =
        v_fma(w, v_sub(v_load(x + i * VW), less[i]), acc[i]);
  }
  UNROLL for (int i = 0; i < U * NV; i++) v_store(o + i * VW, v_add(v_load(o + i * VW), acc[i]));
}

void KERNEL(weigh_differences)(int n, const float *p, int step, const float *x, int ld,
                               const float *y, float *o) {
  const int U = NV > 4 ? 1 : 4;
  int c = 0;
  for (; c + U * LANES <= ld; c += U * LANES) gap_columns(U, n, p, step, x + c, ld, y + c, o + c);
  for (; U > 1 && c < ld; c += LANES) gap_columns(1, n, p, step, x + c, ld, y + c, o + c);
}

/* ---- lengths of keys ------------------------------------------------------------- */

static void squares_of_lanes(int width, const float *k, float out[LANES]) {
  vf sum[NV];
  UNROLL for (int i = 0; i < NV; i++) sum[i] = v_zero();
  for (int d = 0; d < width; d++, k += LANES) UNROLL for (int i = 0; i < NV; i++) {
      vf x = v_load(k + i * VW);
      sum[i] = v_fma(x, x, sum[i]);
    }
  UNROLL for (int i = 0; i < NV; i++) v_store(out + i * VW, sum[i]);
}

/* Two elements of a key side by side: they have a sum each. */
static void squares_of_pairs(int width, const uint16_t *k, float out[LANES]) {
  vf sum[2 * NV];
  float both[2 * LANES];
  UNROLL for (int i = 0; i < 2 * NV; i++) sum[i] = v_zero();
  for (int d = 0; d < width; d += 2, k += 2 * LANES) UNROLL for (int i = 0; i < 2 * NV; i++) {
      vf x = v_load_bf16(k + i * VW);
      sum[i] = v_fma(x, x, sum[i]);
    }
  UNROLL for (int i = 0; i < 2 * NV; i++) v_store(both + i * VW, sum[i]);
  for (int i = 0; i < LANES; i++) out[i] = both[2 * i] + both[2 * i + 1];
}

void KERNEL(key_squares)(int pair, int n, int width, const void *k, float factor, float *out) {
  for (int j = 0; j < n; j += LANES, out += LANES) {
    size_t at = (size_t)j * (size_t)width;
    if (pair == 1)
      squares_of_lanes(width, (const float *)k + at, out);
    else
      squares_of_pairs(width, (const uint16_t *)k + at, out);
    for (int i = 0; i < LANES; i += VW) v_store(out + i, v_mul(v_load(out + i), v_set1(factor)));
  }
}

void KERNEL(scale_add)(const float *x, size_t n, float factor, const float *add, float *y) {
  for (size_t i = 0; i < n; i += VW)
    v_store(y + i, v_fma(v_load(x + i), v_set1(factor), v_load(add + i)));
}

/* ---- pairs ----------------------------------------------------------------------- */

/* bf16 is the upper half of a float; the first of a pair lies low. */
void KERNEL(split_pairs)(const void *src, size_t n, float *first, float *second) {
  for (size_t i = 0; i < n; i++) {
    uint32_t both, low;
    memcpy(&both, (const uint16_t *)src + 2 * i, sizeof both);
    low = both << 16;
    both &= 0xffff0000u;
    memcpy(first + i, &low, sizeof low);
    memcpy(second + i, &both, sizeof both);
  }
}
