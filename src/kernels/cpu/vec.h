/* Vector operations, the same names for every instruction set; kernels use nothing else.
 * VW is the number of floats in a vf, NV the number of vf in 16 lanes, ROWS the queries
 * in a tile, ACC the accumulators that fit the register file.
 *
 *   v_max(a, b)  a > b ? a : b, so b where either is NaN
 *   v_below(a, b, x, y)  a < b ? x : y, so y where a or b is NaN
 *   v_fma(a, b, c)  a * b + c; rounded once, except on the scalar set
 *   v_fma_once(a, b, c)  the same, but the scalar set keeps the product whole
 *   v_eighths(t)  2^(n/8), n the integer in the low bits of t (see v_exp2)
 *   v_fold(v, f)  f over 16 lanes: i with i + 8, with i + 4, i + 2, i + 1
 *   v_transpose(r)  a VW x VW matrix in VW vectors
 */
#ifndef KERNELS_CPU_VEC_H
#define KERNELS_CPU_VEC_H

#include <math.h>
#include <string.h>

#include "kernels/kernels.h"

/* 2^(i/8) less i in the bits where v_eighths will add it with the exponent. */
static const uint32_t eighth_roots[8] = {0x3f800000u,
                                         0x3f8b95c2u - (1 << 20),
                                         0x3f9837f0u - (2 << 20),
                                         0x3fa5fed7u - (3 << 20),
                                         0x3fb504f3u - (4 << 20),
                                         0x3fc5672au - (5 << 20),
                                         0x3fd744fdu - (6 << 20),
                                         0x3feac0c7u - (7 << 20)};

#define INLINE static inline __attribute__((always_inline))

#if defined(ISA_AVX512)
#include "kernels/cpu/vec_avx512.h"
#elif defined(ISA_AVX2)
#include "kernels/cpu/vec_avx2.h"
#elif defined(ISA_NEON)
#include "kernels/cpu/vec_neon.h"
#else
#include "kernels/cpu/vec_scalar.h"
#endif

enum { NV = LANES / VW };
enum { COLS = (int)ACC > 4 * NV ? (int)ACC : 4 * NV }; /* vectors in a tile */

/* UNROLL: a tile, so that it lies in registers. BY_FOUR: the loop around it. The
 * scalar set's tiles are long enough as they are; those, and all with a
 * sanitizer's checks inside, would take minutes to compile. */
#if defined(ISA_SCALAR) && defined(ATTEND_SANITIZED)
#define UNROLL
#else
#define UNROLL _Pragma("GCC unroll 64")
#endif
#if defined(ISA_SCALAR) || defined(ATTEND_SANITIZED)
#define BY_FOUR
#else
#define BY_FOUR _Pragma("GCC unroll 4")
#endif

/* In a switch: CALL with a constant, for the compiler to unroll. */
#define CASE_OF(CALL, n) \
  case n:                \
    CALL(n);             \
    break;

#define JOIN_(a, b) a##_##b
#define JOIN(a, b) JOIN_(a, b)
#define KERNEL(name) JOIN(name, ISA)

#define K(returns, name, arguments) returns KERNEL(name) arguments;
KERNEL_LIST(K)
#undef K

INLINE vf v_load_as(const attend_dtype dtype, const void *p) {
  if (dtype == ATTEND_F16) return v_load_f16(p);
  if (dtype == ATTEND_BF16) return v_load_bf16(p);
  return v_load(p);
}

/* Folds 16 lanes in the one order that every set keeps: 8, 4, 2, 1. */
INLINE float fold_sum(const vf v[NV]) { return v_fold(v, v_add); }
INLINE float fold_max(const vf v[NV]) { return v_fold(v, v_max); }

/* 2^(factor s - m) for an integer m with |m| <= 2^14, factor s <= m + 128.
 *
 * factor s - m = n/8 + f with |f| <= 1/16. The sum factor s + (magic - m) leaves n in its low
 * bits; 2^(n/8) is one of eight roots with n/8's integer part added to its exponent, and 2^f a
 * cubic that is 1 at 0 (its error 4e-8, by Remez exchange with float coefficients). The product is
 * not rounded before the subtraction, so f is as good as exact. A vector of it costs ten
 * operations: the root comes from a permutation, on a port that multiply-adds leave free.
 *
 * Bound, tested over every float (factor 1, m = 0): within 1.9 units in the last place for -126 <=
 * s < 127.9375, from where on it is infinite. Lower values err by less than 2^-126 and from -127
 * on are 0; NaN stays NaN. Another factor adds less than 0.05 units. Because m is an integer,
 * another m gives the same result times a power of two.
 *
 * v_exp2_near is the same for what is known to be no lower than m - 126. */
INLINE vf v_exp2_near(vf s, float factor, float m) {
  const vf c = v_set1(factor);
  const vf magic = v_set1(1572864.0f - m); /* 1.5 * 2^20: unit 1/8 */
  vf t = v_fma_once(s, c, magic);
  vf f = v_fma_once(s, c, v_sub(magic, t));
  vf y = v_fma(f, v_set1(0x1.c6b934p-5f), v_set1(0x1.ec0aa6p-3f));
  y = v_fma(y, f, v_set1(0x1.62e43p-1f));
  y = v_fma(y, f, v_set1(1.0f));
  return v_mul(y, v_eighths(t));
}

INLINE vf v_exp2_less(vf s, float factor, float m) {
  s = v_max(v_set1((m - 127.0f) / factor), s); /* lets NaN through */
  return v_exp2_near(s, factor, m);
}

/* 2^x for any x. */
INLINE vf v_exp2(vf x) { return v_exp2_less(v_min(v_set1(128.0f), x), 1.0f, 0.0f); }

#endif
