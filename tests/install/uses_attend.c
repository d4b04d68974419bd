/* A stranger's program: compiled against an installed tree alone. It has a
 * fail() of its own, which must not meet the library's. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <attend/attend.h>

int fail(void);
int fail(void) { return 1; }

int main(void) {
  if (strcmp(attend_version(), ATTEND_VERSION) != 0) return fail();
  attend_context *ctx;
  if (attend_context_create(NULL, &ctx)) {
    fprintf(stderr, "%s\n", attend_message(ctx));
    return fail();
  }
  float q[2] = {0, 0}, k[4] = {1, 0, 0, 1}, v[4] = {1, 2, 3, 4}, o[2];
  attend_desc d = {ATTEND_INIT(attend_desc), .q_len = 1, .kv_len = 2, .dim = 2};
  attend_plan *plan;
  if (attend_plan_create(ctx, &d, &plan) ||
      attend_forward(plan, attend_bhtd(q), attend_bhtd(k), attend_bhtd(v), attend_bhtd(o), NULL)) {
    fprintf(stderr, "%s\n", attend_message(ctx));
    return fail();
  }
  attend_plan_free(plan);
  attend_context_free(ctx);
  return fabsf(o[0] - 2) < 1e-6f && fabsf(o[1] - 3) < 1e-6f ? 0 : fail();
}
