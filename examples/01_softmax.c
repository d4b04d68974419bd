/* Softmax attention in ten lines.
 *
 * A context, a description, a plan, one call. Four words, each with a query,
 * a key and a value of width 2; every output is a weighted mean of the values.
 */
#include <attend/attend.h>
#include <math.h>
#include <stdio.h>

int main(void) {
  /* [T,D]: four positions of width 2; queries and keys are the same here. */
  const float q[8] = {4, 0, 0, 4, -4, 0, 0, -4};
  const float v[8] = {1, 0, 0, 1, -1, 0, 0, -1};
  float o[8], lse[4];

  attend_context *ctx;
  attend_plan *plan = NULL;
  attend_desc d = {ATTEND_INIT(attend_desc), .q_len = 4, .kv_len = 4, .dim = 2};
  attend_status status = attend_context_create(NULL, &ctx);
  if (!status) status = attend_plan_create(ctx, &d, &plan);
  if (!status)
    status = attend_forward(plan, attend_bhtd_input(q), attend_bhtd_input(q), attend_bhtd_input(v),
                            attend_bhtd(o), lse);
  if (status) fprintf(stderr, "%s\n", attend_message(ctx));

  /* By hand: the scores of a row are 16/sqrt(2) at itself, 0 at its two
   * neighbours and -16/sqrt(2) at its opposite. */
  double near = exp(16 / sqrt(2)), far = exp(-16 / sqrt(2));
  double share = (near - far) / (near + 2 + far);
  int right = !status;
  for (int i = 0; !status && i < 4; i++) {
    printf("position %d attends to itself: output (%8.5f, %8.5f)\n", i, o[2 * i], o[2 * i + 1]);
    for (int x = 0; x < 2; x++) right = right && fabs(o[2 * i + x] - share * v[2 * i + x]) < 1e-6;
  }
  printf("by hand %.5f of its own value: %s\n", share, right ? "the same" : "DIFFERENT");

  attend_plan_free(plan);
  attend_context_free(ctx);
  return !right;
}
