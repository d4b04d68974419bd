/* vec.h without vectors. A CPU that needs it has no fma, so none is used: results differ
 * from the other sets' in the last bits.
 */
#ifndef KERNELS_CPU_VEC_SCALAR_H
#define KERNELS_CPU_VEC_SCALAR_H

typedef float vf;
enum { VW = 1, ROWS = 4, ACC = 64 };

static inline vf v_zero(void) { return 0.0f; }
static inline vf v_set1(float a) { return a; }
static inline vf v_load(const float *p) { return *p; }
static inline void v_store(float *p, vf a) { *p = a; }
static inline vf v_add(vf a, vf b) { return a + b; }
static inline vf v_sub(vf a, vf b) { return a - b; }
static inline vf v_mul(vf a, vf b) { return a * b; }
static inline vf v_div(vf a, vf b) { return a / b; }
static inline vf v_max(vf a, vf b) { return a > b ? a : b; }
static inline vf v_min(vf a, vf b) { return a < b ? a : b; }
static inline vf v_fma(vf a, vf b, vf c) { return a * b + c; }
static inline vf v_fma_once(vf a, vf b, vf c) { return (float)((double)a * (double)b + (double)c); }
static inline vf v_abs(vf a) { return fabsf(a); }
static inline vf v_sqrt(vf a) { return sqrtf(a); }
static inline vf v_below(vf a, vf b, vf x, vf y) { return a < b ? x : y; }
static inline vf v_eighths(vf t) {
  uint32_t u;
  memcpy(&u, &t, sizeof u);
  u = eighth_roots[u & 7] + (u << 20);
  memcpy(&t, &u, sizeof t);
  return t;
}
static inline vf v_iota(void) { return 0.0f; }
static inline vf v_load_f16(const uint16_t *p) { return half_to_float(*p); }
static inline void v_store_f16(uint16_t *p, vf a) { *p = half_from_float(a); }
static inline vf v_load_bf16(const uint16_t *p) { return bf16_to_float(*p); }
static inline vf v_load_i8(const int8_t *p) { return (float)*p; }
static inline void v_store_bf16(uint16_t *p, vf a) { *p = bf16_from_float(a); }
INLINE float v_fold(const vf v[16], vf (*f)(vf, vf)) {
  vf t[16];
  memcpy(t, v, sizeof t);
  for (int half = 8; half; half /= 2)
    for (int i = 0; i < half; i++) t[i] = f(t[i], t[i + half]);
  return t[0];
}

static inline void v_transpose(vf r[1]) { (void)r; }

#endif
