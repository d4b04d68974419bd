/* Probabilities of a row of logits: log-sum-exp and the k largest.
 *
 * In double, one term after the other: for rows that a person reads. The loss of
 * training sums with the kernels (loss.c).
 */
#include <math.h>
#include <string.h>

#include "layers/layers.h"

double exp_sum(int n, const float *x, float largest) {
  double sum = 0;
  for (int i = 0; i < n; i++) sum += exp((double)x[i] - (double)largest);
  return sum;
}

double attend_log_sum_exp(int n, const float *x) {
  float largest = -INFINITY;
  for (int i = 0; i < n; i++)
    if (x[i] > largest) largest = x[i];
  return (double)largest + log(exp_sum(n, x, largest));
}

int attend_top_k(int n, const float *x, int k, int32_t *index) {
  int count = 0;
  for (int32_t i = 0; i < n; i++) {
    int at = count;
    while (at > 0 && x[index[at - 1]] < x[i]) at--;
    if (at == k) continue;
    if (count < k) count++;
    memmove(index + at + 1, index + at, (size_t)(count - 1 - at) * sizeof *index);
    index[at] = i;
  }
  return count;
}
