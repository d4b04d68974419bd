/* Online softmax (Milakov and Gimelshein 2018; FlashAttention, Dao et al. 2022): the
 * running maximum m and sum l of a row, and how a block of keys joins them. Shared by
 * every kernel that turns scores into weights.
 *
 * Weights are powers of two and the maximum is rounded up to an integer, so that
 * rescaling is exact.
 */
#ifndef KERNELS_CPU_ONLINE_SOFTMAX_H
#define KERNELS_CPU_ONLINE_SOFTMAX_H

#include "kernels/cpu/vec.h"

/* The maximum does not depend on the order: four chains hide the latency. */
INLINE float max_of(int j0, int j1, const float *s) {
  vf m[4 * NV];
  UNROLL for (int i = 0; i < 4 * NV; i++) m[i] = v_set1(-INFINITY);
  int j = j0;
  for (; j + 4 * LANES <= j1; j += 4 * LANES)
    UNROLL for (int i = 0; i < 4 * NV; i++) m[i] = v_max(v_load(s + j + i * VW), m[i]);
  for (; j < j1; j += LANES)
    UNROLL for (int i = 0; i < NV; i++) m[i] = v_max(v_load(s + j + i * VW), m[i]);
  UNROLL for (int i = NV; i < 4 * NV; i++) m[i % NV] = v_max(m[i], m[i % NV]);
  return fold_max(m);
}

/* The least integer not below the row's maximum; 0 for a row of -inf or NaN.
 * An integer, so that it changes exponents and no mantissa bits: a row's result does not
 * depend on how its keys are split into blocks. */
INLINE float shift_of(float top) { return top > -INFINITY ? ceilf(top) : 0.0f; }

/* Subtracts m from scores that are too large for v_exp2_less's integers. Returns the remaining
 * shift; applies the factor too, rounded as for the maximum, so that no score exceeds it. */
INLINE float lower_row(int j0, int j1, float *factor, float m, float *s) {
  if (!(fabsf(m) > 0x1p14f)) return m;
  for (int j = j0; j < j1; j += VW)
    v_store(s + j, v_sub(v_mul(v_load(s + j), v_set1(*factor)), v_set1(m)));
  *factor = 1.0f;
  return 0.0f;
}

/* Joins (block_m, block_l) to (m, l); m is an integer or -inf (no key yet). The factors
 * are powers of two, so that only the sum is rounded. */
INLINE void join(float block_m, const float block_l[2], float *m, float l[2], float *alpha,
                 float *beta) {
  float joint = *m > block_m ? *m : block_m;
  *alpha = *m == -INFINITY ? 0.0f : power_of_two(*m - joint);
  *beta = block_m == -INFINITY ? 0.0f : power_of_two(block_m - joint);
  *m = joint;
  l[0] = l[0] * *alpha + block_l[0] * *beta;
  l[1] = l[1] * *alpha + block_l[1] * *beta;
}

#endif
