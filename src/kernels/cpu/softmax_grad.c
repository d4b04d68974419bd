/* Backward of exact attention on one block of keys, for attention/softmax_backward.c: dS
 * from scores, and P and dS times rows for dV and dK. dP and dQ use the kernels of
 * softmax.c.
 */
#include "kernels/cpu/vec.h"

enum { KEYS = ROWS, UNITS = ACC / (ROWS * NV) };

void KERNEL(softmax_grad)(int rows, int j0, int j1, float factor, float *s, float *dp,
                          const float *lse2, const float *delta) {
  const vf c = v_set1(factor);
  for (int r = 0; r < rows; r++, s += BLOCK, dp += BLOCK) {
    vf shift = v_set1(-lse2[r]), d = v_set1(delta[r]);
    for (int j = j0; j < j1; j += VW) {
      /* A weight is at most 1; a huge lse2, rounded, would say otherwise. */
      vf x = v_min(v_zero(), v_fma_once(v_load(s + j), c, shift));
      vf p = v_exp2_less(x, 1.0f, 0.0f);
      v_store(s + j, p);
      v_store(dp + j, v_mul(p, v_sub(v_load(dp + j), d)));
    }
  }
}

INLINE void key_tile(const int R, const int U, int n, const float *a, const float *b, int ld,
                     float *c) {
  vf acc[COLS];
  UNROLL for (int i = 0; i < R * U * NV; i++) acc[i] = v_zero();
  for (int r = 0; r < n; r++, a += BLOCK, b += ld) {
    vf x[4 * NV];
    UNROLL for (int i = 0; i < U * NV; i++) x[i] = v_load(b + i * VW);
    UNROLL for (int k = 0; k < R; k++) {
      vf w = v_set1(a[k]);
      UNROLL for (int i = 0; i < U * NV; i++) acc[k * U * NV + i] =
          v_fma(w, x[i], acc[k * U * NV + i]);
    }
  }
  UNROLL for (int k = 0; k < R; k++) UNROLL for (int i = 0; i < U * NV; i++) {
    float *out = c + (size_t)k * ld + i * VW;
    v_store(out, v_add(v_load(out), acc[k * U * NV + i]));
  }
}

INLINE void key_rows(const int U, int n, int i0, int i1, const float *a, const float *b, int ld,
                     float *c) {
  int i = i0;
  for (; i + KEYS <= i1; i += KEYS) key_tile(KEYS, U, n, a + i, b, ld, c + (size_t)i * ld);
  for (; i < i1; i++) key_tile(1, U, n, a + i, b, ld, c + (size_t)i * ld);
}

void KERNEL(weigh_keys)(int n, int i0, int i1, const float *a, const float *b, int ld, float *c) {
  int col = 0;
  for (; col + UNITS * LANES <= ld; col += UNITS * LANES)
    key_rows(UNITS, n, i0, i1, a, b + col, ld, c + col);
  for (; UNITS > 1 && col < ld; col += LANES) key_rows(1, n, i0, i1, a, b + col, ld, c + col);
}
