/* Loads and stores of 16 lanes or the rest of a row, and sums along rows, which run in 16
 * lanes that fold 8, 4, 2, 1.
 */
#ifndef KERNELS_CPU_LANES_H
#define KERNELS_CPU_LANES_H

#include "kernels/cpu/vec.h"

INLINE void load_lanes(const float *p, int n, float missing, vf out[NV]) {
  float tail[LANES];
  if (n < LANES) {
    for (int i = 0; i < LANES; i++) tail[i] = missing;
    memcpy(tail, p, (size_t)n * sizeof *p);
    p = tail;
  }
  UNROLL for (int i = 0; i < NV; i++) out[i] = v_load(p + i * VW);
}

INLINE void store_lanes(float *p, int n, const vf x[NV]) {
  float tail[LANES];
  float *to = n < LANES ? tail : p;
  UNROLL for (int i = 0; i < NV; i++) v_store(to + i * VW, x[i]);
  if (n < LANES) memcpy(p, tail, (size_t)n * sizeof *p);
}

/* p[j ..), or one value everywhere where there is no p. */
INLINE void load_or(const float *p, int j, int n, float value, vf out[NV]) {
  if (p)
    load_lanes(p + j, n, 0, out);
  else
    UNROLL for (int i = 0; i < NV; i++) out[i] = v_set1(value);
}

#define ALL(i) UNROLL for (int i = 0; i < NV; i++)

INLINE float row_sum(int n, const float *x) {
  vf sum[NV], a[NV];
  ALL(i) sum[i] = v_zero();
  for (int j = 0; j < n; j += LANES) {
    load_lanes(x + j, n - j, 0, a);
    ALL(i) sum[i] = v_add(sum[i], a[i]);
  }
  return fold_sum(sum);
}

/* The sum of (x - centre)^2. */
INLINE float row_squares(int n, const float *x, float centre) {
  vf sum[NV], a[NV];
  ALL(i) sum[i] = v_zero();
  for (int j = 0; j < n; j += LANES) {
    load_lanes(x + j, n - j, centre, a);
    ALL(i) a[i] = v_sub(a[i], v_set1(centre));
    ALL(i) sum[i] = v_fma(a[i], a[i], sum[i]);
  }
  return fold_sum(sum);
}

#endif
