/* Activations and their derivatives, element by element; the soft cap of scores,
 * which is tanh.
 *
 * All exponentials are v_exp2's. The error bounds below are checked by
 * tests/unit/test_layers.c and tests/unit/test_layers_back.c.
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

/* Phi(-a) = e^(-a^2/2) t P(t) with t = 1 / (1 + 11/32 a): P by Remez exchange for
 * relative error on 0 <= a <= 13.3, 1.9e-8 before the coefficients are rounded.
 * The square is taken in two parts, or its rounding would be felt in the tail. */
typedef struct {
  vf t, p, e; /* e^(-a^2/2) */
} normal_tail;

INLINE normal_tail v_normal_tail(vf a) {
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
  return (normal_tail){t, p, e};
}

/* With a = |x|, x Phi(x) = max(x, 0) - a Phi(-a). Error 1.8e-7 |x|; relative
 * 5.6e-7 from -5 up, 1.6e-6 from -13 up, below which it is 0. */
INLINE vf v_gelu(vf x) {
  vf a = v_min(v_set1(14.0f), v_abs(x)); /* lets NaN through */
  normal_tail n = v_normal_tail(a);
  vf tail = v_mul(v_mul(a, n.t), v_mul(n.p, n.e));
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

/* ---- derivatives ----------------------------------------------------------------- */

/* With e = e^-|x|, s(x) = 1 / (1 + e^-x) and its derivative s(x) s(-x) are sums
 * and quotients of what is positive, and nothing overflows. */
typedef struct {
  vf s, slope;
} logistic;

INLINE logistic v_logistic(vf x) {
  vf one = v_set1(1.0f), e = v_exp_minus(v_abs(x));
  vf f = v_div(one, v_add(one, e));
  vf less = v_mul(e, f);
  return (logistic){v_below(x, v_zero(), less, f), v_mul(f, less)};
}

/* No further from 0 than `most`, where the derivative is 0 or 1 already: an
 * infinity would meet a 0. */
INLINE vf v_within(float max, vf x) {
  return v_max(v_set1(-max), v_min(v_set1(max), x)); /* lets NaN through */
}

/* Error 2.4e-7. */
INLINE vf v_silu_slope(vf x) {
  x = v_within(100.0f, x);
  logistic l = v_logistic(x);
  return v_fma(x, l.slope, l.s);
}

/* Error 2.4e-7. */
INLINE vf v_gelu_tanh_slope(vf x) {
  const float c = 0x1.988454p0f; /* 2 sqrt(2/pi) */
  x = v_within(20.0f, x);
  vf square = v_mul(x, x);
  vf u = v_mul(x, v_fma(square, v_set1(0.044715f * c), v_set1(c)));
  vf du = v_fma(square, v_set1(3 * 0.044715f * c), v_set1(c));
  logistic l = v_logistic(u);
  return v_fma(v_mul(x, du), l.slope, l.s);
}

/* Phi(x) + x phi(x). Error 2.4e-7. */
INLINE vf v_gelu_slope(vf x) {
  vf a = v_min(v_set1(14.0f), v_abs(x)); /* lets NaN through */
  normal_tail n = v_normal_tail(a);
  /* of -a: Phi(-a) - a phi(a); that of a is 1 less it */
  vf phi = v_mul(v_mul(a, n.e), v_set1(0x1.988454p-2f)); /* 1/sqrt(2 pi) */
  vf low = v_sub(v_mul(n.t, v_mul(n.p, n.e)), phi);
  return v_below(v_zero(), x, v_sub(v_set1(1.0f), low), low);
}

/* 4 s(2x) s(-2x). Relative error 1.3e-6 while it is no less than 1e-30. */
INLINE vf v_tanh_slope(vf x) { return v_mul(v_set1(4.0f), v_logistic(v_add(x, x)).slope); }

/* activation'(x) dy; relu's is 0 at 0. */
INLINE vf v_slope_times(const attend_activation activation, vf x, vf dy) {
  switch (activation) {
    case ATTEND_RELU: /* the smallest float; dy where x is NaN */
      return v_below(x, v_set1(0x1p-149f), v_zero(), dy);
    case ATTEND_GELU:
      return v_mul(v_gelu_slope(x), dy);
    case ATTEND_GELU_TANH:
      return v_mul(v_gelu_tanh_slope(x), dy);
    case ATTEND_SILU:
      return v_mul(v_silu_slope(x), dy);
    case ATTEND_TANH:
      return v_mul(v_tanh_slope(x), dy);
    default:
      return dy;
  }
}

/* ---- rows ------------------------------------------------------------------------ */

INLINE void activate_lanes(const attend_activation activation, const float *x, const float *times,
                           float *y) {
  vf a = v_activation(activation, v_load(x));
  if (times) a = v_mul(a, v_load(times));
  v_store(y, a);
}

INLINE void activate_row(const attend_activation activation, int n, const float *x,
                         const float *times, float *y) {
  int i = 0;
  for (; i + VW <= n; i += VW) activate_lanes(activation, x + i, times ? times + i : NULL, y + i);
  if (i >= n) return;
  float tail[2][VW] = {{0}};
  size_t bytes = (size_t)(n - i) * sizeof *x;
  memcpy(tail[0], x + i, bytes);
  if (times) memcpy(tail[1], times + i, bytes);
  activate_lanes(activation, tail[0], times ? tail[1] : NULL, tail[0]);
  memcpy(y + i, tail[0], bytes);
}

/* Activations are constants to the compiler. */
#define FOR_ACTIVATION(activation, CALL) \
  switch (activation) {                  \
    CASE_OF(CALL, ATTEND_IDENTITY)       \
    CASE_OF(CALL, ATTEND_RELU)           \
    CASE_OF(CALL, ATTEND_GELU)           \
    CASE_OF(CALL, ATTEND_GELU_TANH)      \
    CASE_OF(CALL, ATTEND_SILU)           \
    CASE_OF(CALL, ATTEND_TANH)           \
  }

void KERNEL(activate)(attend_activation activation, int rows, int n, const float *x, int ldx,
                      const float *times, int ld_times, float *y, int ldy) {
  for (int r = 0; r < rows; r++) {
    const float *from = x + (size_t)r * (size_t)ldx;
    const float *with = times ? times + (size_t)r * (size_t)ld_times : NULL;
    float *to = y + (size_t)r * (size_t)ldy;
#define CALL(kind) activate_row(kind, n, from, with, to)
    FOR_ACTIVATION(activation, CALL)
#undef CALL
  }
}

typedef struct { /* one row; times and dtimes both or neither */
  const float *x, *times, *dy;
  float *dx, *dtimes;
} back_row;

INLINE void back_lanes(const attend_activation activation, back_row b, int i) {
  vf x = v_load(b.x + i), dy = v_load(b.dy + i);
  if (!b.times) {
    v_store(b.dx + i, v_slope_times(activation, x, dy));
    return;
  }
  vf da = v_slope_times(activation, x, v_mul(dy, v_load(b.times + i)));
  vf db = v_mul(v_activation(activation, x), dy);
  v_store(b.dx + i, da);
  v_store(b.dtimes + i, db);
}

INLINE void back_one(const attend_activation activation, int n, back_row b) {
  int i = 0;
  for (; i + VW <= n; i += VW) back_lanes(activation, b, i);
  if (i >= n) return;
  float x[VW] = {0}, times[VW] = {0}, dy[VW] = {0};
  size_t bytes = (size_t)(n - i) * sizeof *x;
  memcpy(x, b.x + i, bytes);
  memcpy(dy, b.dy + i, bytes);
  if (b.times) memcpy(times, b.times + i, bytes);
  back_lanes(activation, (back_row){x, b.times ? times : NULL, dy, x, times}, 0);
  memcpy(b.dx + i, x, bytes);
  if (b.times) memcpy(b.dtimes + i, times, bytes);
}

void KERNEL(activate_backward)(attend_activation activation, int rows, int n, const float *x,
                               int ldx, const float *times, int ld_times, const float *dy, int lddy,
                               float *dx, int lddx, float *dtimes, int ld_dtimes) {
  for (int r = 0; r < rows; r++) {
    size_t at = (size_t)r;
    back_row b = {x + at * (size_t)ldx, NULL, dy + at * (size_t)lddy, dx + at * (size_t)lddx, NULL};
    if (times) {
      b.times = times + at * (size_t)ld_times;
      b.dtimes = dtimes + at * (size_t)ld_dtimes;
    }
#define CALL(kind) back_one(kind, n, b)
    FOR_ACTIVATION(activation, CALL)
#undef CALL
  }
}

/* ---- the soft cap of scores ------------------------------------------------------ */

/* Relative error 3.4e-7: that of tanh, and two roundings. */
void KERNEL(soft_cap)(int rows, int j0, int j1, float inner, float outer, float *s) {
  const vf in = v_set1(inner), out = v_set1(outer);
  for (int r = 0; r < rows; r++, s += BLOCK)
    for (int j = j0; j < j1; j += VW) v_store(s + j, v_mul(out, v_tanh(v_mul(in, v_load(s + j)))));
}

void KERNEL(soft_cap_grad)(int rows, int j0, int j1, float inner, const float *s, float *ds) {
  const vf in = v_set1(inner);
  for (int r = 0; r < rows; r++, s += BLOCK, ds += BLOCK)
    for (int j = j0; j < j1; j += VW) {
      vf slope = v_tanh_slope(v_mul(in, v_load(s + j)));
      v_store(ds + j, v_mul(slope, v_load(ds + j)));
    }
}
