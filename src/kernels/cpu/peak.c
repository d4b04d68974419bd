/* Loops that measure peak rates (machine.c), and 2^x over an array. */
#include "kernels/cpu/vec.h"

/* Returns the operations done, so that the loop cannot be left out; the sum
 * that decides stays near 1. */
double KERNEL(spin_fma)(long rounds) {
  enum { CHAINS = 12 };
  vf acc[CHAINS], a = v_set1(0.999f), b = v_set1(0.001f);
  UNROLL for (int i = 0; i < CHAINS; i++) acc[i] = v_set1((float)i);
  for (long n = 0; n < rounds; n++)
    UNROLL for (int i = 0; i < CHAINS; i++) acc[i] = v_fma(acc[i], a, b);
  vf sum[NV];
  for (int i = 0; i < NV; i++) sum[i] = v_zero();
  for (int i = 0; i < CHAINS; i++) sum[0] = v_add(sum[0], acc[i]);
  return fold_sum(sum) < 1e30f ? 2.0 * CHAINS * VW * (double)rounds : 0.0;
}

float KERNEL(sum_all)(const float *x, size_t n) {
  vf sum[4 * NV];
  UNROLL for (int i = 0; i < 4 * NV; i++) sum[i] = v_zero();
  size_t j = 0;
  for (; j + 4 * LANES <= n; j += 4 * LANES)
    UNROLL for (int i = 0; i < 4 * NV; i++) sum[i] = v_add(sum[i], v_load(x + j + (size_t)i * VW));
  for (int i = NV; i < 4 * NV; i++) sum[i % NV] = v_add(sum[i % NV], sum[i]);
  return fold_sum(sum);
}

void KERNEL(exp2_all)(const float *x, size_t n, float *y) {
  size_t i = 0;
  for (; i + VW <= n; i += VW) v_store(y + i, v_exp2(v_load(x + i)));
  if (i == n) return;
  float tail[VW] = {0};
  memcpy(tail, x + i, (n - i) * sizeof *x);
  v_store(tail, v_exp2(v_load(tail)));
  memcpy(y + i, tail, (n - i) * sizeof *y);
}
