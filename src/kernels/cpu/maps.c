/* Feature maps and their derivatives, for attention/features.c, and scaling, masking and
 * sums inside a block of linear attention. Rows are [n][ld], ld whole lanes.
 */
#include "kernels/cpu/online_softmax.h"

/* ---- elu ------------------------------------------------------------------------- */

/* e^x >= x + 1, and for x > 0 the bounded exponential is 1: the larger of the
 * two is the map on either side. NaN stays. */
void KERNEL(map_elu)(const float *x, size_t n, float *y) {
  for (size_t i = 0; i < n; i += VW) {
    vf a = v_load(x + i);
    vf e = v_exp2_less(v_min(a, v_zero()), 0x1.715476p0f, 0);
    v_store(y + i, v_max(e, v_add(a, v_set1(1.0f))));
  }
}

/* dx = dphi min(phi, 1): phi is its own derivative below 1. */
void KERNEL(map_elu_backward)(const float *phi, const float *dphi, size_t n, float *dx) {
  for (size_t i = 0; i < n; i += VW)
    v_store(dx + i, v_mul(v_load(dphi + i), v_min(v_load(phi + i), v_set1(1.0f))));
}

/* ---- positive random features ---------------------------------------------------- */

/* The columns beyond the last direction repeat the first until the largest is
 * found, and are 0 in the end. */
static void pad_row(int dirs, int ld, float value, float *row) {
  for (int i = dirs; i < ld; i++) row[i] = value;
}

INLINE float largest_size(int n, const float *s) {
  vf m[NV];
  UNROLL for (int i = 0; i < NV; i++) m[i] = v_zero();
  for (int j = 0; j < n; j += LANES)
    UNROLL for (int i = 0; i < NV; i++) m[i] = v_max(v_abs(v_load(s + j + i * VW)), m[i]);
  return fold_max(m);
}

/* y = 2^(sign x - less - shift) */
INLINE void exp_part(int n, const float *x, float sign, float less, float shift, float *y) {
  for (int j = 0; j < n; j += VW) {
    vf s = v_fma(v_load(x + j), v_set1(sign), v_set1(-less));
    v_store(y + j, v_exp2_less(s, 1.0f, shift));
  }
}

/* x[rows][ld]: w.x in log2; less: log2 of what divides a row. y[rows][ld], or
 * [rows][2 ld] with pairs. shift: the least integer not below the row's largest
 * exponent. Exponents beyond 2^14 are taken relative to the shift first. */
void KERNEL(map_exp)(int rows, int dirs, int ld, bool pairs, const float *less, float *x, float *y,
                     float *shift) {
  int wide = pairs ? 2 * ld : ld;
  for (int r = 0; r < rows; r++, x += ld, y += wide) {
    pad_row(dirs, ld, x[0], x);
    float top = pairs ? largest_size(ld, x) : max_of(0, ld, x);
    float m = shift_of(top - less[r]), gone = less[r];
    if (m == INFINITY) m = 0; /* such a row is NaN or infinite anyway */
    /* a row whose norm no float holds has no features: -inf, as no key */
    shift[r] = top - less[r] == -INFINITY ? -INFINITY : m;
    if (fabsf(m) > 0x1p14f) gone = top - (top - less[r] - m), m = 0;
    exp_part(ld, x, 1.0f, gone, m, y);
    pad_row(dirs, ld, 0, y);
    if (!pairs) continue;
    exp_part(ld, x, -1.0f, gone, m, y + ld);
    pad_row(dirs, ld, 0, y + ld);
  }
}

/* e[rows][ld] = dphi phi, with pairs the difference of the two halves; sum[r]
 * = all of dphi phi. */
void KERNEL(map_exp_backward)(int rows, int ld, bool pairs, const float *phi, const float *dphi,
                              float *e, float *sum) {
  int wide = pairs ? 2 * ld : ld;
  for (int r = 0; r < rows; r++, phi += wide, dphi += wide, e += ld) {
    vf all[NV];
    UNROLL for (int i = 0; i < NV; i++) all[i] = v_zero();
    for (int j = 0; j < ld; j += LANES) UNROLL for (int i = 0; i < NV; i++) {
        int at = j + i * VW;
        vf up = v_mul(v_load(phi + at), v_load(dphi + at)), down = v_zero();
        if (pairs) down = v_mul(v_load(phi + ld + at), v_load(dphi + ld + at));
        v_store(e + at, v_sub(up, down));
        all[i] = v_add(all[i], v_add(up, down));
      }
    sum[r] = fold_sum(all);
  }
}

/* ---- sines and cosines ----------------------------------------------------------- */

/* cos and sin of 2 pi t, |t| < 2^21: t is brought to [-1/2, 1/2], exactly; then
 * with a = |t| - 1/4 in [-1/4, 1/4], cos(2 pi t) = -sin(2 pi a), and sin(2 pi t)
 * = sign(t) cos(2 pi a). Polynomials in a^2, by interpolation in Chebyshev points
 * with float coefficients: 4e-8 absolutely, before rounding. */
INLINE void v_cos_sin(vf t, vf *cosine, vf *sine) {
  const vf magic = v_set1(12582912.0f); /* 1.5 * 2^23: unit 1 */
  t = v_sub(t, v_sub(v_add(t, magic), magic));
  vf a = v_sub(v_abs(t), v_set1(0.25f)), x = v_mul(a, a);
  vf s = v_set1(0x1.3e142p5f);
  s = v_fma(s, x, v_set1(-0x1.324f86p6f));
  s = v_fma(s, x, v_set1(0x1.46689ap6f));
  s = v_fma(s, x, v_set1(-0x1.4abbbep5f));
  s = v_fma(s, x, v_set1(0x1.921fb4p2f));
  vf c = v_set1(-0x1.937d98p4f);
  c = v_fma(c, x, v_set1(0x1.e16aep5f));
  c = v_fma(c, x, v_set1(-0x1.55d21cp6f));
  c = v_fma(c, x, v_set1(0x1.03c1ecp6f));
  c = v_fma(c, x, v_set1(-0x1.3bd3ccp4f));
  c = v_fma(c, x, v_set1(1.0f));
  *cosine = v_mul(v_sub(v_zero(), a), s);
  /* sign(t), and 0 at 0, where c is 0 up to rounding */
  vf sign = v_min(v_mul(t, v_set1(0x1p120f)), v_set1(1.0f));
  sign = v_max(sign, v_set1(-1.0f));
  *sine = v_mul(sign, c);
}

/* x[rows][ld]: w.x in units of 2 pi. y[rows][2 ld]: factor_r cos, then factor_r sin. */
void KERNEL(map_trig)(int rows, int dirs, int ld, const float *factor, const float *x, float *y) {
  for (int r = 0; r < rows; r++, x += ld, y += 2 * ld) {
    vf f = v_set1(factor[r]);
    for (int j = 0; j < ld; j += VW) {
      vf cosine, sine;
      v_cos_sin(v_load(x + j), &cosine, &sine);
      v_store(y + j, v_mul(f, cosine));
      v_store(y + ld + j, v_mul(f, sine));
    }
    pad_row(dirs, ld, 0, y);
    pad_row(dirs, ld, 0, y + ld);
  }
}

/* e[rows][ld] = dsin cos - dcos sin: the derivative by the angle; sum[r] = dphi phi. */
void KERNEL(map_trig_backward)(int rows, int ld, const float *phi, const float *dphi, float *e,
                               float *sum) {
  for (int r = 0; r < rows; r++, phi += 2 * ld, dphi += 2 * ld, e += ld) {
    vf all[NV];
    UNROLL for (int i = 0; i < NV; i++) all[i] = v_zero();
    for (int j = 0; j < ld; j += LANES) UNROLL for (int i = 0; i < NV; i++) {
        int at = j + i * VW;
        vf c = v_load(phi + at), s = v_load(phi + ld + at);
        vf dc = v_load(dphi + at), ds = v_load(dphi + ld + at);
        v_store(e + at, v_sub(v_mul(ds, c), v_mul(dc, s)));
        all[i] = v_add(all[i], v_fma(dc, c, v_mul(ds, s)));
      }
    sum[r] = fold_sum(all);
  }
}

/* ---- monomials ------------------------------------------------------------------- */

/* Monomials by degree: 1, then x, then for each further degree x_i times those
 * of the degree below whose first variable is i or later: a suffix of them.
 * start[d][i], d from 1, is where the suffix begins, [d][dim] the end. What is
 * written beyond an end is overwritten by what follows; the row has room. */
void KERNEL(map_poly)(int rows, int dim, int degree, const int32_t *start, const float *x, int ldx,
                      float *y, int ld) {
  for (int r = 0; r < rows; r++, x += ldx, y += ld) {
    y[0] = 1.0f;
    memcpy(y + 1, x, (size_t)dim * sizeof *x);
    const int32_t *below = start;
    for (int d = 2; d <= degree; d++, below += dim + 1)
      for (int i = 0; i < dim; i++) {
        const float *from = y + below[i];
        float *to = y + below[dim + 1 + i];
        int n = below[dim] - below[i];
        vf a = v_set1(x[i]);
        for (int j = 0; j < n; j += VW) v_store(to + j, v_mul(a, v_load(from + j)));
      }
    int end = degree < 1 ? 1 : below[dim];
    for (int j = end; j < ld; j++) y[j] = 0;
  }
}

/* y += a x, and returns x . z over n elements; the order is fixed. */
INLINE float add_and_dot(int n, float a, const float *x, const float *z, float *y) {
  vf sum[NV];
  UNROLL for (int i = 0; i < NV; i++) sum[i] = v_zero();
  int j = 0;
  for (; j + LANES <= n; j += LANES) UNROLL for (int i = 0; i < NV; i++) {
      int at = j + i * VW;
      vf b = v_load(x + at);
      sum[i] = v_fma(b, v_load(z + at), sum[i]);
      v_store(y + at, v_fma(v_set1(a), b, v_load(y + at)));
    }
  float rest = 0;
  for (; j < n; j++) {
    rest += x[j] * z[j];
    y[j] += a * x[j];
  }
  return fold_sum(sum) + rest;
}

/* dx from dphi, which is overwritten. */
void KERNEL(map_poly_backward)(int rows, int dim, int degree, const int32_t *start, const float *x,
                               int ldx, const float *phi, float *dphi, int ld, float *dx) {
  for (int r = 0; r < rows; r++, x += ldx, dx += ldx, phi += ld, dphi += ld) {
    for (int i = 0; i < ldx; i++) dx[i] = 0;
    for (int d = degree; d >= 2; d--) {
      const int32_t *below = start + (size_t)(d - 2) * (size_t)(dim + 1);
      for (int i = 0; i < dim; i++)
        dx[i] += add_and_dot(below[dim] - below[i], x[i], dphi + below[dim + 1 + i], phi + below[i],
                             dphi + below[i]);
    }
    for (int i = 0; i < dim && degree >= 1; i++) dx[i] += dphi[1 + i];
  }
}

/* y[r] = x[r] * f, elements of a row */
void KERNEL(scale_columns)(int rows, int n, const float *f, float *x, int ld) {
  for (int r = 0; r < rows; r++, x += ld)
    for (int j = 0; j < n; j += VW) v_store(x + j, v_mul(v_load(x + j), v_load(f + j)));
}

/* ---- inside a block -------------------------------------------------------------- */

/* a[r][j], weights of row r on the keys of its block: those from seen[r] on become 0; where the
 * keys have shifts, 2^(shift_j - top_r) is taken in. sum[r] is their sum, size[r] (unless NULL)
 * that of their absolute values. n: whole lanes. */
void KERNEL(pair_rows)(int rows, int n, const float *shift, const float *top, const int32_t *seen,
                       float *a, int ld, float *sum, float *size) {
  for (int r = 0; r < rows; r++, a += ld) {
    for (int j = seen[r]; j < n; j++) a[j] = 0;
    vf all[NV], sizes[NV];
    UNROLL for (int i = 0; i < NV; i++) all[i] = sizes[i] = v_zero();
    for (int j = 0; j < n; j += LANES) UNROLL for (int i = 0; i < NV; i++) {
        int at = j + i * VW;
        vf x = v_load(a + at);
        if (shift) { /* the difference of two integers: exact */
          vf less = v_sub(v_load(shift + at), v_set1(top[r]));
          less = v_min(less, v_zero()); /* unseen ones may be larger */
          x = v_mul(x, v_exp2_less(less, 1.0f, 0));
        }
        v_store(a + at, x);
        all[i] = v_add(all[i], x);
        if (size) sizes[i] = v_add(sizes[i], v_abs(x));
      }
    sum[r] = fold_sum(all);
    if (size) size[r] = fold_sum(sizes);
  }
}

/* out[r] = a_r . b for one b; size[r] (unless NULL) = |a_r| . |b|. */
void KERNEL(dot_rows)(int rows, int n, const float *a, int ld, const float *b, float *out,
                      float *size) {
  for (int r = 0; r < rows; r++, a += ld) {
    vf sum[NV], sizes[NV];
    UNROLL for (int i = 0; i < NV; i++) sum[i] = sizes[i] = v_zero();
    for (int j = 0; j < n; j += LANES) UNROLL for (int i = 0; i < NV; i++) {
        vf x = v_mul(v_load(a + j + i * VW), v_load(b + j + i * VW));
        sum[i] = v_add(sum[i], x);
        if (size) sizes[i] = v_add(sizes[i], v_abs(x));
      }
    out[r] = fold_sum(sum);
    if (size) size[r] = fold_sum(sizes);
  }
}

/* out[r] = the sum of row r */
void KERNEL(sum_rows)(int rows, int n, const float *a, int ld, float *out) {
  for (int r = 0; r < rows; r++, a += ld) {
    vf sum[NV];
    UNROLL for (int i = 0; i < NV; i++) sum[i] = v_zero();
    for (int j = 0; j < n; j += LANES)
      UNROLL for (int i = 0; i < NV; i++) sum[i] = v_add(sum[i], v_load(a + j + i * VW));
    out[r] = fold_sum(sum);
  }
}

/* x[r] *= f[r] */
void KERNEL(scale_rows)(int rows, int n, const float *f, float *x, int ld) {
  for (int r = 0; r < rows; r++, x += ld) {
    if (f[r] == 1.0f) continue;
    vf a = v_set1(f[r]);
    for (int j = 0; j < n; j += VW) v_store(x + j, v_mul(a, v_load(x + j)));
  }
}

/* y = a y + b x: a state takes in a block; a and b are powers of two */
void KERNEL(join_all)(size_t n, float a, float b, const float *x, float *y) {
  vf f = v_set1(a), g = v_set1(b);
  for (size_t i = 0; i < n; i += VW)
    v_store(y + i, v_fma(g, v_load(x + i), v_mul(f, v_load(y + i))));
}
