/* A feature map of your own, with its derivative.
 *
 * Any sim(q, k) = phi(q).phi(k) gives linear attention, forward and backward. The
 * map here is the quadratic one,
 *
 *   phi(x) = 1, sqrt(2) x_i, x_i^2, sqrt(2) x_i x_j (i < j)
 *
 * of (D+1)(D+2)/2 features, for which phi(q).phi(k) = (1 + q.k)^2. So there are
 * two checks: the definition with the same phi, and the library's own poly.
 */
#include <attend/attend.h>
#include <attend/problem.h>
#include <math.h>
#include <stdio.h>

enum { T = 150, D = 8, C = (D + 1) * (D + 2) / 2, N = T * D };

static float q[N], k[N], v[N], d_o[N];

/* `key` is 1 for keys, 0 for queries: here both have the same map. Several threads
 * map rows at once, so a map must not keep state between calls. */
static void phi(const float *x, int dim, int key, float *f, int count, void *user) {
  const float root = sqrtf(2.0f);
  int n = 0;
  (void)key, (void)count, (void)user;
  f[n++] = 1;
  for (int i = 0; i < dim; i++) f[n++] = root * x[i];
  for (int i = 0; i < dim; i++) {
    f[n++] = x[i] * x[i];
    for (int j = i + 1; j < dim; j++) f[n++] = root * x[i] * x[j];
  }
}

/* The chain rule, feature by feature in the same order. */
static void phi_backward(const float *x, int dim, int key, const float *df, int count, float *dx,
                         void *user) {
  const float root = sqrtf(2.0f);
  int n = 1;
  (void)key, (void)count, (void)user;
  for (int i = 0; i < dim; i++) dx[i] = root * df[n++];
  for (int i = 0; i < dim; i++) {
    dx[i] += 2 * x[i] * df[n++];
    for (int j = i + 1; j < dim; j++, n++) {
      dx[i] += root * x[j] * df[n];
      dx[j] += root * x[i] * df[n];
    }
  }
}

typedef struct { /* outputs and gradients of a form */
  float o[N], lse[T], dq[N], dk[N], dv[N];
} answer;

static attend_status run(attend_context *ctx, const attend_desc *d, answer *a) {
  attend_plan *plan;
  attend_status status = attend_plan_create(ctx, d, &plan);
  if (!status)
    status = attend_forward(plan, attend_bhtd(q), attend_bhtd(k), attend_bhtd(v), attend_bhtd(a->o),
                            a->lse);
  if (!status)
    status = attend_backward(plan, attend_bhtd(q), attend_bhtd(k), attend_bhtd(v),
                             attend_bhtd(a->o), a->lse, attend_bhtd(d_o), attend_bhtd(a->dq),
                             attend_bhtd(a->dk), attend_bhtd(a->dv), NULL);
  attend_plan_free(plan);
  return status;
}

/* The largest difference, relative to the largest number. */
static double compare(const char *name, const float *mine, const float *poly, const double *want) {
  double from_want = 0, from_poly = 0, largest = 0;
  for (int i = 0; i < N; i++) {
    largest = fmax(largest, fabs(want[i]));
    double a = fabs((double)mine[i] - want[i]);
    double b = fabs((double)mine[i] - (double)poly[i]);
    if (!(a <= from_want)) from_want = a;
    if (!(b <= from_poly)) from_poly = b;
  }
  printf("%2s: %.1e from the definition, %.1e from poly\n", name, from_want / largest,
         from_poly / largest);
  return fmax(from_want, from_poly) / largest;
}

int main(void) {
  static answer mine, poly;
  static double o[N], dq[N], dk[N], dv[N];
  float *const inputs[] = {q, k, v, d_o};
  attend_context *ctx;
  for (int n = 0; n < 4; n++)
    attend_random_normal((attend_random){7, (uint64_t)n}, 0, N, inputs[n]);

  attend_desc d = {
      ATTEND_INIT(attend_desc),
      .form = {.kind = ATTEND_CUSTOM, .features = C, .phi = phi, .phi_backward = phi_backward},
      .q_len = T,
      .kv_len = T,
      .dim = D,
      .mask.causal = ATTEND_CAUSAL,
      .purpose = ATTEND_FOR_BACKWARD};
  attend_desc same = d;
  same.form = (attend_form){.kind = ATTEND_POLY, .degree = 2, .a = 1, .c = 1};

  attend_status status = attend_context_create(NULL, &ctx);
  if (!status) status = run(ctx, &d, &mine);
  if (!status) status = run(ctx, &same, &poly);
  if (!status)
    status =
        attend_definition_forward(ctx, &d, attend_bhtd(q), attend_bhtd(k), attend_bhtd(v), o, NULL);
  if (!status)
    status = attend_definition_backward(ctx, &d, attend_bhtd(q), attend_bhtd(k), attend_bhtd(v),
                                        attend_bhtd(d_o), dq, dk, dv, NULL);
  if (status) return fprintf(stderr, "%s\n", attend_message(ctx)), 1;

  printf("a map of %d features for a width of %d\n", C, D);
  double worst = compare("o", mine.o, poly.o, o);
  worst = fmax(worst, compare("dq", mine.dq, poly.dq, dq));
  worst = fmax(worst, compare("dk", mine.dk, poly.dk, dk));
  worst = fmax(worst, compare("dv", mine.dv, poly.dv, dv));

  attend_context_free(ctx);
  return !(worst < 1e-5);
}
