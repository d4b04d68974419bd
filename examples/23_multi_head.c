/* A multi-head attention module, as in PyTorch: W_q, W_k, W_v, split heads, attend, combine, W_o;
 * against attend_forward.
 *
 * The second time the values are twice as wide: W_v has 2 d_model outputs and W_o as many inputs,
 * and a head of the values has 2 d_k elements, so splitting and combining use another width than
 * queries and keys do.
 */
#include <attend/attend.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { T = 5, MODEL = 8, HEADS = 2, DK = MODEL / HEADS, WIDEST = 2 * MODEL };

/* y [T][outputs] = x [T][inputs] W, W [inputs][outputs] */
static void linear(const float *x, int inputs, int outputs, const float *w, float *y) {
  for (int i = 0; i < T * outputs; i++) {
    y[i] = 0;
    for (int k = 0; k < inputs; k++)
      y[i] += x[i / outputs * inputs + k] * w[k * outputs + i % outputs];
  }
}

/* softmax(q K^T / sqrt(d_k)) V of one head under a causal mask. A head is a column block of the
 * projections: that is all that splitting and combining do. */
static void attend_head(const float *q, const float *k, const float *v, int dv, int h, float *o) {
  for (int i = 0; i < T; i++) {
    float weight[T], sum = 0, *to = o + i * HEADS * dv + h * dv;
    memset(to, 0, (size_t)dv * sizeof *to);
    for (int j = 0; j <= i; j++) {
      float score = 0;
      for (int e = 0; e < DK; e++) score += q[i * MODEL + h * DK + e] * k[j * MODEL + h * DK + e];
      sum += weight[j] = expf(score / sqrtf(DK));
    }
    for (int j = 0; j <= i; j++)
      for (int e = 0; e < dv; e++) to[e] += weight[j] / sum * v[j * HEADS * dv + h * dv + e];
  }
}

static float differ(attend_context *ctx, int dv, const float *x, const float *w) {
  float q[T * MODEL], k[T * MODEL], v[T * WIDEST], o[T * WIDEST], y[T * MODEL], same[T * MODEL];
  const float *wo = w + 2 * MODEL * MODEL + MODEL * HEADS * dv;
  attend_desc d = {
      ATTEND_INIT(attend_desc),    .heads = HEADS, .q_len = T, .kv_len = T, .dim = DK, .dim_v = dv,
      .mask.causal = ATTEND_CAUSAL};
  attend_plan *plan = NULL;
  linear(x, MODEL, MODEL, w, q);
  linear(x, MODEL, MODEL, w + MODEL * MODEL, k);
  linear(x, MODEL, HEADS * dv, w + 2 * MODEL * MODEL, v);
  for (int h = 0; h < HEADS; h++) attend_head(q, k, v, dv, h, o);
  linear(o, HEADS * dv, MODEL, wo, y);
  if (attend_plan_create(ctx, &d, &plan) ||
      attend_forward(plan, attend_bthd(q, HEADS, T, DK), attend_bthd(k, HEADS, T, DK),
                     attend_bthd(v, HEADS, T, dv), attend_bthd(o, HEADS, T, dv), NULL))
    return NAN;
  attend_plan_free(plan);
  linear(o, HEADS * dv, MODEL, wo, same);
  float most = 0;
  for (int i = 0; i < T * MODEL; i++) most = fmaxf(most, fabsf(y[i] - same[i]));
  return most;
}

int main(void) {
  static float x[T * MODEL], w[2 * MODEL * MODEL + 2 * MODEL * WIDEST];
  attend_context *ctx;
  int wrong = attend_context_create(NULL, &ctx) != ATTEND_OK;
  if (!wrong) attend_random_normal((attend_random){1, 0}, 0, T * MODEL, x);
  if (!wrong) attend_random_normal((attend_random){1, 1}, 0, sizeof w / sizeof *w, w);
  for (int dv = DK; dv <= 2 * DK && !wrong; dv += DK) {
    float most = differ(ctx, dv, x, w);
    printf("values of %d elements a head: W_v [%d, %d], W_o [%d, %d], differs by %.1e\n", dv, MODEL,
           HEADS * dv, HEADS * dv, MODEL, (double)most);
    wrong = !(most < 1e-4f);
  }
  attend_context_free(ctx);
  return wrong;
}
