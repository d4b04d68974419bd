/* Views: slices of rows, and which constructors make outputs. */
#include <string.h>

#include "attention_fixtures.h"

enum { B = 2, H = 3, T = 7, D = 5 };

/* An output must come from writable memory: the constructors of inputs alone take const. */
TEST(outputs_come_from_writable_memory) {
  CHECK(_Generic(&attend_bhtd, attend_view(*)(void *) : 1, default : 0));
  CHECK(_Generic(&attend_bthd, attend_view(*)(void *, int, int, int) : 1, default : 0));
  static const float x[1];
  CHECK(attend_bhtd_input(x).data == x);
  CHECK(attend_bthd_input(x, 1, 1, 1).data == x);
}

static const char *element(attend_view v, size_t size, int b, int h, int i) {
  return (const char *)v.data +
         (ptrdiff_t)size * (b * v.stride[0] + h * v.stride[1] + i * v.stride[2]);
}

static void same_rows(attend_view whole, attend_dtype dtype, attend_view complete) {
  size_t size = attend_dtype_size(dtype);
  for (int first = 0; first <= T; first++) {
    attend_view part = attend_view_rows(whole, dtype, H, T, D, first);
    CHECK(part.stride[3] == 1);
    for (int b = 0; b < B; b++)
      for (int h = 0; h < H; h++)
        for (int i = 0; first + i < T; i++)
          CHECK(element(part, size, b, h, i) == element(complete, size, b, h, first + i));
  }
}

TEST(slices_have_the_addresses_of_their_rows) {
  static float x[B * H * T * D];
  attend_view bhtd = {x, {H * T * D, T * D, D, 1}};
  same_rows(attend_bhtd(x), ATTEND_F32, bhtd);
  same_rows(attend_bhtd(x), ATTEND_BF16, bhtd);
  same_rows(attend_bthd(x, H, T, D), ATTEND_F32, attend_bthd(x, H, T, D));
}

/* Queries [first, T) of a causal problem are a problem of their own. */
TEST(last_queries_are_a_problem_of_their_own) {
  attend_context *ctx = open_context(NULL, 1, NULL);
  float q[H * T * D], k[H * T * D], v[H * T * D], whole[H * T * D], some[H * T * D];
  const int first = 3;
  attend_random_normal((attend_random){1, 1}, 0, H * T * D, q);
  attend_random_normal((attend_random){1, 2}, 0, H * T * D, k);
  attend_random_normal((attend_random){1, 3}, 0, H * T * D, v);
  attend_desc d = {ATTEND_INIT(attend_desc), .heads = H, .q_len = T, .kv_len = T, .dim = D};
  attend_plan *plan;
  d.mask.causal = ATTEND_CAUSAL_BOTTOM;
  OK(ctx, attend_plan_create(ctx, &d, &plan));
  OK(ctx, attend_forward(plan, attend_bhtd(q), attend_bhtd(k), attend_bhtd(v), attend_bhtd(whole),
                         NULL));
  attend_plan_free(plan);
  memcpy(some, whole, sizeof some);
  for (int h = 0; h < H; h++)
    memset(some + (h * T + first) * D, 0, (size_t)(T - first) * D * sizeof *some);
  d.q_len = T - first;
  OK(ctx, attend_plan_create(ctx, &d, &plan));
  OK(ctx, attend_forward(plan, attend_view_rows(attend_bhtd(q), ATTEND_F32, H, T, D, first),
                         attend_bhtd(k), attend_bhtd(v),
                         attend_view_rows(attend_bhtd(some), ATTEND_F32, H, T, D, first), NULL));
  attend_plan_free(plan);
  CHECK(!memcmp(some, whole, sizeof some));
  attend_context_free(ctx);
}
