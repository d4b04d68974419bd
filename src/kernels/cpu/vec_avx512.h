/* vec.h on AVX-512 (F, BW, DQ, VL). */
#ifndef KERNELS_CPU_VEC_AVX512_H
#define KERNELS_CPU_VEC_AVX512_H

#include <immintrin.h>

typedef __m512 vf;
enum { VW = 16, ROWS = 6, ACC = 24 };

static inline vf v_zero(void) { return _mm512_setzero_ps(); }
static inline vf v_set1(float a) { return _mm512_set1_ps(a); }
static inline vf v_load(const float *p) { return _mm512_loadu_ps(p); }
static inline void v_store(float *p, vf a) { _mm512_storeu_ps(p, a); }
static inline vf v_add(vf a, vf b) { return _mm512_add_ps(a, b); }
static inline vf v_sub(vf a, vf b) { return _mm512_sub_ps(a, b); }
static inline vf v_mul(vf a, vf b) { return _mm512_mul_ps(a, b); }
static inline vf v_div(vf a, vf b) { return _mm512_div_ps(a, b); }
static inline vf v_max(vf a, vf b) { return _mm512_max_ps(a, b); }
static inline vf v_min(vf a, vf b) { return _mm512_min_ps(a, b); }
static inline vf v_fma(vf a, vf b, vf c) { return _mm512_fmadd_ps(a, b, c); }
#define v_fma_once v_fma
static inline vf v_abs(vf a) { return _mm512_abs_ps(a); }
static inline vf v_sqrt(vf a) { return _mm512_sqrt_ps(a); }
static inline vf v_below(vf a, vf b, vf x, vf y) {
  return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_LT_OQ), y, x);
}
static inline vf v_eighths(vf t) {
  __m512i u = _mm512_castps_si512(t);
  __m512i roots = _mm512_broadcast_i64x4(_mm256_loadu_si256((const __m256i *)eighth_roots));
  __m512i root = _mm512_permutexvar_epi32(u, roots);
  return _mm512_castsi512_ps(_mm512_add_epi32(root, _mm512_slli_epi32(u, 20)));
}
static inline vf v_iota(void) {
  return _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
}

static inline vf v_load_f16(const uint16_t *p) {
  return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p));
}
static inline void v_store_f16(uint16_t *p, vf a) {
  _mm256_storeu_si256((__m256i *)p, _mm512_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT));
}
static inline vf v_load_bf16(const uint16_t *p) {
  __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)p));
  return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
}
static inline vf v_load_i8(const int8_t *p) {
  return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)p)));
}
static inline void v_store_bf16(uint16_t *p, vf a) {
  __m512i u = _mm512_castps_si512(a);
  __m512i even = _mm512_and_si512(_mm512_srli_epi32(u, 16), _mm512_set1_epi32(1));
  __m512i r = _mm512_add_epi32(u, _mm512_add_epi32(even, _mm512_set1_epi32(0x7fff)));
  __mmask16 is_nan = _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q);
  r = _mm512_mask_or_epi32(r, is_nan, u, _mm512_set1_epi32(0x400000));
  _mm256_storeu_si256((__m256i *)p, _mm512_cvtepi32_epi16(_mm512_srli_epi32(r, 16)));
}

INLINE float v_fold(const vf v[1], vf (*f)(vf, vf)) {
  vf a = f(v[0], _mm512_shuffle_f32x4(v[0], v[0], 0x4e));
  a = f(a, _mm512_shuffle_f32x4(a, a, 0xb1));
  a = f(a, _mm512_permute_ps(a, 0x4e));
  a = f(a, _mm512_permute_ps(a, 0xb1));
  return _mm512_cvtss_f32(a);
}

static inline void v_transpose(vf r[16]) {
  __m512 t[16], u[16];
  for (int i = 0; i < 16; i += 2) {
    t[i] = _mm512_unpacklo_ps(r[i], r[i + 1]);
    t[i + 1] = _mm512_unpackhi_ps(r[i], r[i + 1]);
  }
  for (int i = 0; i < 16; i += 4) {
    u[i + 0] = _mm512_shuffle_ps(t[i], t[i + 2], 0x44);
    u[i + 1] = _mm512_shuffle_ps(t[i], t[i + 2], 0xee);
    u[i + 2] = _mm512_shuffle_ps(t[i + 1], t[i + 3], 0x44);
    u[i + 3] = _mm512_shuffle_ps(t[i + 1], t[i + 3], 0xee);
  }
  for (int i = 0; i < 4; i++) { /* columns i, i+4, i+8, i+12 by quarters */
    __m512 a = _mm512_shuffle_f32x4(u[i], u[i + 4], 0x88);
    __m512 b = _mm512_shuffle_f32x4(u[i + 8], u[i + 12], 0x88);
    __m512 c = _mm512_shuffle_f32x4(u[i], u[i + 4], 0xdd);
    __m512 d = _mm512_shuffle_f32x4(u[i + 8], u[i + 12], 0xdd);
    r[i] = _mm512_shuffle_f32x4(a, b, 0x88);
    r[i + 8] = _mm512_shuffle_f32x4(a, b, 0xdd);
    r[i + 4] = _mm512_shuffle_f32x4(c, d, 0x88);
    r[i + 12] = _mm512_shuffle_f32x4(c, d, 0xdd);
  }
}

#endif
