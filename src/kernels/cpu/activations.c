/* Activations, element by element.
 *
 * Place: kernels/cpu - behind attend_activate and attend_gate. All exponentials
 * are v_exp2's; bounds below are those that tests/test_layers.c checks.
 */
#include "kernels/cpu/vec.h"

static const float log2_e = 0x1.715476p0f;

/* e^-x; from x = -88.7 down it is infinite. */
INLINE vf v_exp_minus(vf x) {
  vf s = v_min(v_set1(88.72f), v_sub(v_zero(), x)); /* lets NaN through */
  return v_exp2_less(s, log2_e, 0);
}

/* Relative error 4.6e-7 from -20 up, 1.5e-6 from -87 up; 0 below -88.7. */
INLINE vf v_silu(vf x) { return v_div(x, v_add(v_set1(1.0f), v_exp_minus(x))); }

/* (1 + tanh u) / 2 is 1 / (1 + e^(-2u)). Error 1.3e-7 |x|, relative 2.6e-6 from
 * -5 up: there e's argument, as a float, is good to so much. */
INLINE vf v_gelu_tanh(vf x) {
  const float c = 0x1.988454p0f; /* 2 sqrt(2/pi) */
  vf cube = v_fma(v_mul(x, x), v_set1(0.044715f * c), v_set1(c));
  vf u = v_mul(x, cube);
  return v_div(x, v_add(v_set1(1.0f), v_exp_minus(u)));
}

/* With a = |x|, x Phi(x) = max(x, 0) - a Phi(-a), and Phi(-a) = e^(-a^2/2) t P(t)
 * with t = 1 / (1 + 11/32 a): P by Remez exchange for relative error on
 * 0 <= a <= 13.3, 1.9e-8 before the coefficients are rounded. The square is
 * taken in two parts, or its rounding would be felt in the tail. Error 1.8e-7
 * |x|; relative 5.6e-7 from -5 up, 1.6e-6 from -13 up, below which it is 0. */
INLINE vf v_gelu(vf x) {
  vf a = v_min(v_set1(14.0f), v_abs(x)); /* lets NaN through */
  vf t = v_div(v_set1(1.0f), v_fma(a, v_set1(0.34375f), v_set1(1.0f)));
  vf p = v_set1(-0x1.cd2e7cp-6f);
  p = v_fma(p, t, v_set1(0x1.29cb22p-3f));
  p = v_fma(p, t, v_set1(-0x1.1956ap-2f));
  p = v_fma(p, t, v_set1(0x1.8da93cp-3f));
  p = v_fma(p, t, v_set1(-0x1.53288cp-5f));
  p = v_fma(p, t, v_set1(0x1.d0d688p-4f));
  p = v_fma(p, t, v_set1(0x1.dd5e3ap-4f));
  p = v_fma(p, t, v_set1(0x1.19bcf4p-3f));
  p = v_fma(p, t, v_set1(0x1.18d17ep-3f));
  vf minus = v_mul(a, v_sub(v_zero(), a)), rest = v_fma_once(a, a, minus);
  vf e = v_exp2_less(minus, 0.5f * log2_e, 0);
  e = v_fma(v_mul(e, rest), v_set1(-0.5f), e);
  vf tail = v_mul(v_mul(a, t), v_mul(p, e));
  return v_sub(v_max(v_zero(), x), tail);
}

/* Near 0 an odd polynomial (Cephes), where (1 - e) / (1 + e) would cancel.
 * Relative error 2.1e-7. */
INLINE vf v_tanh(vf x) {
  vf a = v_abs(x), z = v_mul(x, x);
  vf p = v_fma(z, v_set1(-5.70498872745e-3f), v_set1(2.06390887954e-2f));
  p = v_fma(p, z, v_set1(-5.37397155531e-2f));
  p = v_fma(p, z, v_set1(1.33314422036e-1f));
  p = v_fma(p, z, v_set1(-3.33332819422e-1f));
  p = v_fma(v_mul(p, z), x, x);
  vf one = v_set1(1.0f), e = v_exp_minus(v_add(a, a));
  vf far = v_div(v_sub(one, e), v_add(one, e));
  far = v_below(x, v_zero(), v_sub(v_zero(), far), far);
  return v_below(a, v_set1(0.625f), p, far);
}

INLINE vf v_activation(const attend_activation activation, vf x) {
  switch (activation) {
    case ATTEND_RELU:
      return v_max(v_zero(), x); /* lets NaN through */
    case ATTEND_GELU:
      return v_gelu(x);
    case ATTEND_GELU_TANH:
      return v_gelu_tanh(x);
    case ATTEND_SILU:
      return v_silu(x);
    case ATTEND_TANH:
      return v_tanh(x);
    default:
      return x;
  }
}

INLINE void activate_lanes(const attend_activation activation, const float *x,
                           const float *times, float *y) {
  vf a = v_activation(activation, v_load(x));
  if (times) a = v_mul(a, v_load(times));
  v_store(y, a);
}

INLINE void activate_row(const attend_activation activation, int n,
                         const float *x, const float *times, float *y) {
  int i = 0;
  for (; i + VW <= n; i += VW)
    activate_lanes(activation, x + i, times ? times + i : NULL, y + i);
  if (i >= n) return;
  float tail[2][VW] = {{0}};
  size_t bytes = (size_t)(n - i) * sizeof *x;
  memcpy(tail[0], x + i, bytes);
  if (times) memcpy(tail[1], times + i, bytes);
  activate_lanes(activation, tail[0], times ? tail[1] : NULL, tail[0]);
  memcpy(y + i, tail[0], bytes);
}

void KERNEL(activate)(attend_activation activation, int rows, int n,
                      const float *x, int ldx, const float *times, int ld_times,
                      float *y, int ldy) {
  for (int r = 0; r < rows; r++) {
    const float *from = x + (size_t)r * (size_t)ldx;
    const float *with = times ? times + (size_t)r * (size_t)ld_times : NULL;
    float *to = y + (size_t)r * (size_t)ldy;
#define CASE(kind)                         \
  case kind:                               \
    activate_row(kind, n, from, with, to); \
    break;
    switch (activation) {
      CASE(ATTEND_IDENTITY)
      CASE(ATTEND_RELU)
      CASE(ATTEND_GELU)
      CASE(ATTEND_GELU_TANH)
      CASE(ATTEND_SILU)
      CASE(ATTEND_TANH)
    }
#undef CASE
  }
}
