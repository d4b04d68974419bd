/* Backward: gradients of q, k and v from (o, lse) alone, checked by finite
 * differences.
 *
 * The loss is sum(o * w) with fixed random w, so that w is the gradient of o.
 */
#include <attend/attend.h>
#include <attend/problem.h>
#include <math.h>
#include <stdio.h>

enum { H = 2, T = 12, D = 8, N = H * T * D };

static float q[N], k[N], v[N], w[N], o[N], dq[N], dk[N], dv[N], lse[H * T];

/* In double, by the definition: finite differences need the precision. */
static double loss(attend_context *ctx, const attend_desc *d) {
  double out[N], sum = 0;
  if (attend_definition_forward(ctx, d, attend_bhtd(q), attend_bhtd(k), attend_bhtd(v), out, NULL))
    return NAN;
  for (int i = 0; i < N; i++) sum += out[i] * (double)w[i];
  return sum;
}

/* The largest difference between a gradient and the slope of the loss. */
static double check(attend_context *ctx, const attend_desc *d, const char *name, float *x,
                    const float *dx) {
  double worst = 0;
  for (int i = 0; i < N; i++) {
    const float here = x[i], up = here + 0x1p-10f, down = here - 0x1p-10f;
    x[i] = up;
    double above = loss(ctx, d);
    x[i] = down;
    double slope = (above - loss(ctx, d)) / ((double)up - (double)down);
    x[i] = here;
    double error = fabs(slope - (double)dx[i]);
    if (!(error <= worst)) worst = error;
    if (i == T * D / 2)
      printf("d%s[%d]: gradient %9.6f, by differences %9.6f\n", name, i, (double)dx[i], slope);
  }
  printf("    all %d numbers of d%s agree within %.1e\n", N, name, worst);
  return worst;
}

int main(void) {
  float *const inputs[] = {q, k, v, w};
  attend_context *ctx;
  attend_plan *plan = NULL;
  for (int n = 0; n < 4; n++)
    attend_random_normal((attend_random){4, (uint64_t)n}, 0, N, inputs[n]);

  attend_desc d = {ATTEND_INIT(attend_desc),
                   .heads = H,
                   .q_len = T,
                   .kv_len = T,
                   .dim = D,
                   .mask.causal = ATTEND_CAUSAL,
                   .purpose = ATTEND_FOR_BACKWARD};
  attend_status status = attend_context_create(NULL, &ctx);
  if (!status) status = attend_plan_create(ctx, &d, &plan);
  if (!status)
    status =
        attend_forward(plan, attend_bhtd(q), attend_bhtd(k), attend_bhtd(v), attend_bhtd(o), lse);
  if (!status)
    status =
        attend_backward(plan, attend_bhtd(q), attend_bhtd(k), attend_bhtd(v), attend_bhtd(o), lse,
                        attend_bhtd(w), attend_bhtd(dq), attend_bhtd(dk), attend_bhtd(dv), NULL);
  if (status) return fprintf(stderr, "%s\n", attend_message(ctx)), 1;

  double worst = check(ctx, &d, "q", q, dq);
  worst = fmax(worst, check(ctx, &d, "k", k, dk));
  worst = fmax(worst, check(ctx, &d, "v", v, dv));

  attend_plan_free(plan);
  attend_context_free(ctx);
  return !(worst < 2e-5);
}
