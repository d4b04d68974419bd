/* A million tokens through a state of fixed size, against the recurrence in
 * double. */
#include "linear_fixtures.h"

enum { WIDE = 16, CALL = 1000 };

typedef struct { /* in double */
  double s[WIDE][WIDE], z[WIDE];
} recurrence;

static double elu1(float x) { return x > 0 ? (double)x + 1 : exp((double)x); }

static void take_key(recurrence *x, const float *k, const float *v) {
  for (int c = 0; c < WIDE; c++) {
    double phi = elu1(k[c]);
    x->z[c] += phi;
    for (int m = 0; m < WIDE; m++) x->s[c][m] += phi * (double)v[m];
  }
}

/* The largest error of a row, relative to its largest element. */
static double row_error(const recurrence *x, const float *q, const float *o) {
  double den = 0, sum[WIDE] = {0}, error = 0, size = 0;
  for (int c = 0; c < WIDE; c++) {
    den += elu1(q[c]) * x->z[c];
    for (int m = 0; m < WIDE; m++) sum[m] += elu1(q[c]) * x->s[c][m];
  }
  for (int m = 0; m < WIDE; m++) {
    error = fmax(error, fabs((double)o[m] - sum[m] / den));
    size = fmax(size, fabs(sum[m] / den));
  }
  return error / size;
}

/* A million tokens: sums of a million terms in f32 keep four digits. Values
 * have a mean, or the truth itself would sink into the noise. */
TEST(a_million_tokens) {
  int calls = light() ? 20 : 1000;
  attend_context *ctx = open_dirty(NULL, 1, NULL);
  attend_tensors t = linear_tensors(ctx, "elu", "n1000d16:causal", 87);
  t.desc.purpose = ATTEND_FOR_EXTEND;
  t.desc.mask.causal = ATTEND_CAUSAL_BOTTOM;
  attend_plan *plan = make_plan(ctx, &t.desc);
  attend_state *state;
  OK(ctx, attend_state_create(plan, &state));
  size_t bytes = attend_state_bytes(state);
  static recurrence truth;
  float *k = t.k.data, *v = t.v.data;
  for (int n = 0; n < calls; n++) {
    attend_random_normal((attend_random){87, 100}, (uint64_t)n * CALL * WIDE, CALL * WIDE, k);
    attend_random_normal((attend_random){87, 101}, (uint64_t)n * CALL * WIDE, CALL * WIDE, v);
    for (int i = 0; i < CALL * WIDE; i++) v[i] += 0.5f;
    OK(ctx, attend_extend(plan, state, CALL, t.q, t.k, t.v, t.o, NULL));
    for (int i = 0; i < CALL; i++) {
      take_key(&truth, k + i * WIDE, v + i * WIDE);
      if ((i == 77 && n % 50 == 0) || (i == CALL - 1 && n == calls - 1)) {
        double error =
            row_error(&truth, (float *)t.q.data + i * WIDE, (float *)t.o.data + i * WIDE);
        if (!(error < 1e-4)) CHECK_FAIL("token %d errs by %g", n * CALL + i, error);
      }
    }
  }
  CHECK_EQ(attend_state_length(state, 0), (long long)calls * CALL);
  CHECK_EQ(attend_state_bytes(state), bytes);
  attend_state_free(state);
  attend_plan_free(plan);
  attend_tensors_free(ctx, &t);
  attend_context_free(ctx);
}
