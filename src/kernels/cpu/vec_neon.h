/* vec.h on AArch64's NEON. */
#ifndef KERNELS_CPU_VEC_NEON_H
#define KERNELS_CPU_VEC_NEON_H

#include <arm_neon.h>

typedef float32x4_t vf;
enum { VW = 4, ROWS = 6, ACC = 24 };

static inline vf v_zero(void) { return vdupq_n_f32(0.0f); }
static inline vf v_set1(float a) { return vdupq_n_f32(a); }
static inline vf v_load(const float *p) { return vld1q_f32(p); }
static inline void v_store(float *p, vf a) { vst1q_f32(p, a); }
static inline vf v_add(vf a, vf b) { return vaddq_f32(a, b); }
static inline vf v_sub(vf a, vf b) { return vsubq_f32(a, b); }
static inline vf v_mul(vf a, vf b) { return vmulq_f32(a, b); }
static inline vf v_div(vf a, vf b) { return vdivq_f32(a, b); }
static inline vf v_max(vf a, vf b) { return vbslq_f32(vcgtq_f32(a, b), a, b); }
static inline vf v_min(vf a, vf b) { return vbslq_f32(vcltq_f32(a, b), a, b); }
static inline vf v_fma(vf a, vf b, vf c) { return vfmaq_f32(c, a, b); }
#define v_fma_once v_fma
static inline vf v_abs(vf a) { return vabsq_f32(a); }
static inline vf v_sqrt(vf a) { return vsqrtq_f32(a); }
static inline vf v_below(vf a, vf b, vf x, vf y) { return vbslq_f32(vcltq_f32(a, b), x, y); }
static inline vf v_eighths(vf t) {
  uint32x4_t u = vreinterpretq_u32_f32(t);
  uint32x4_t byte = vandq_u32(u, vdupq_n_u32(7)); /* the root's four bytes */
  byte = vmlaq_u32(vdupq_n_u32(0x03020100u), byte, vdupq_n_u32(0x04040404u));
  const uint8_t *roots = (const uint8_t *)eighth_roots;
  uint8x16x2_t table = {{vld1q_u8(roots), vld1q_u8(roots + 16)}};
  uint8x16_t root = vqtbl2q_u8(table, vreinterpretq_u8_u32(byte));
  return vreinterpretq_f32_u32(vaddq_u32(vreinterpretq_u32_u8(root), vshlq_n_u32(u, 20)));
}
static inline vf v_iota(void) {
  const float32_t iota[4] = {0, 1, 2, 3};
  return vld1q_f32(iota);
}

static inline vf v_load_f16(const uint16_t *p) {
  return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p)));
}
static inline void v_store_f16(uint16_t *p, vf a) {
  vst1_u16(p, vreinterpret_u16_f16(vcvt_f16_f32(a)));
}
static inline vf v_load_bf16(const uint16_t *p) {
  return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(p), 16));
}
static inline vf v_load_i8(const int8_t *p) {
  uint32_t four;
  memcpy(&four, p, sizeof four);
  int16x8_t wide = vmovl_s8(vreinterpret_s8_u32(vdup_n_u32(four)));
  return vcvtq_f32_s32(vmovl_s16(vget_low_s16(wide)));
}
static inline void v_store_bf16(uint16_t *p, vf a) {
  uint32x4_t u = vreinterpretq_u32_f32(a);
  uint32x4_t even = vandq_u32(vshrq_n_u32(u, 16), vdupq_n_u32(1));
  uint32x4_t r = vaddq_u32(u, vaddq_u32(even, vdupq_n_u32(0x7fff)));
  uint32x4_t nan = vorrq_u32(u, vdupq_n_u32(0x400000));
  r = vbslq_u32(vceqq_f32(a, a), r, nan);
  vst1_u16(p, vshrn_n_u32(r, 16));
}

INLINE float v_fold(const vf v[4], vf (*f)(vf, vf)) {
  vf a = f(f(v[0], v[2]), f(v[1], v[3]));
  a = f(a, vextq_f32(a, a, 2));
  a = f(a, vextq_f32(a, a, 1));
  return vgetq_lane_f32(a, 0);
}

static inline void v_transpose(vf r[4]) {
  float32x4x2_t a = vtrnq_f32(r[0], r[1]), b = vtrnq_f32(r[2], r[3]);
  r[0] = vcombine_f32(vget_low_f32(a.val[0]), vget_low_f32(b.val[0]));
  r[1] = vcombine_f32(vget_low_f32(a.val[1]), vget_low_f32(b.val[1]));
  r[2] = vcombine_f32(vget_high_f32(a.val[0]), vget_high_f32(b.val[0]));
  r[3] = vcombine_f32(vget_high_f32(a.val[1]), vget_high_f32(b.val[1]));
}

#endif
