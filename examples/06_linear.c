/* Linear attention in ten lines: the form is elu, the rest is as in softmax.
 *
 * sim(q, k) = phi(q).phi(k) with phi(x) = elu(x) + 1. The sums over keys do not
 * depend on the query, so they are updated once per key: twice the length costs
 * twice as much, four times as much with softmax. The result is still that of the
 * equation, which the definition computes pairwise in double.
 */
#include <attend/attend.h>
#include <attend/problem.h>
#include <math.h>
#include <stdio.h>

enum { H = 2, T = 1000, D = 16, N = H * T * D };

static float q[N], k[N], v[N], o[N];
static double want[N];

/* Operations of a causal forward pass of this length. */
static double work(attend_context *ctx, attend_form_kind kind, int length) {
  attend_desc d = {ATTEND_INIT(attend_desc),
                   .form.kind = kind,
                   .heads = H,
                   .q_len = length,
                   .kv_len = length,
                   .dim = D,
                   .mask.causal = ATTEND_CAUSAL};
  attend_plan *plan;
  attend_cost cost = {.flops = NAN};
  if (!attend_plan_create(ctx, &d, &plan)) attend_plan_cost(plan, &cost);
  attend_plan_free(plan);
  return cost.flops;
}

int main(void) {
  attend_random_normal((attend_random){6, 0}, 0, N, q);
  attend_random_normal((attend_random){6, 1}, 0, N, k);
  attend_random_normal((attend_random){6, 2}, 0, N, v);

  attend_context *ctx;
  attend_plan *plan = NULL;
  attend_desc d = {ATTEND_INIT(attend_desc),
                   .form.kind = ATTEND_ELU,
                   .heads = H,
                   .q_len = T,
                   .kv_len = T,
                   .dim = D,
                   .mask.causal = ATTEND_CAUSAL};
  attend_status status = attend_context_create(NULL, &ctx);
  if (!status) status = attend_plan_create(ctx, &d, &plan);
  if (!status)
    status =
        attend_forward(plan, attend_bhtd(q), attend_bhtd(k), attend_bhtd(v), attend_bhtd(o), NULL);
  if (!status)
    status = attend_definition_forward(ctx, &d, attend_bhtd(q), attend_bhtd(k), attend_bhtd(v),
                                       want, NULL);
  if (status) return fprintf(stderr, "%s\n", attend_message(ctx)), 1;

  double worst = 0;
  for (int i = 0; i < N; i++) {
    double error = fabs((double)o[i] - want[i]);
    if (!(error <= worst)) worst = error;
  }
  printf("the last word gets %.6f, by the definition %.6f\n", (double)o[N - 1], want[N - 1]);
  printf("all %d numbers agree within %.1e\n", N, worst);

  double elu = work(ctx, ATTEND_ELU, 32 * T) / work(ctx, ATTEND_ELU, 16 * T);
  double softmax = work(ctx, ATTEND_SOFTMAX, 32 * T) / work(ctx, ATTEND_SOFTMAX, 16 * T);
  printf("twice as long is %.2f times the work, for softmax %.2f times\n", elu, softmax);

  attend_plan_free(plan);
  attend_context_free(ctx);
  return !(worst < 2e-6 && elu < 2.01 && softmax > 3.99);
}
