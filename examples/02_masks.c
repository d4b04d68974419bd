/* Masks: rules for which keys a query sees, never a T x S array.
 *
 * The same six positions under several rules. Each picture has a row per query
 * and a column per key: '#' is visible, '.' is not. The outputs are checked with
 * one-hot values (value j is 1 at j), so that the output of a row is its weights.
 */
#include <attend/attend.h>
#include <attend/problem.h>
#include <math.h>
#include <stdio.h>

enum { T = 6 };

static const float zeros[T * T]; /* equal scores: equal weights on all visible keys */

/* Output row i is 1/n at the n visible keys, else 0. */
static int obeys(attend_context *ctx, const attend_desc *d) {
  float v[T * T] = {0}, o[T * T];
  int right = 1;
  attend_plan *plan;
  for (int j = 0; j < T; j++) v[j * T + j] = 1;
  if (attend_plan_create(ctx, d, &plan) ||
      attend_forward(plan, attend_bhtd_input(zeros), attend_bhtd_input(zeros), attend_bhtd(v),
                     attend_bhtd(o), NULL))
    return fprintf(stderr, "%s\n", attend_message(ctx)), 0;
  for (int i = 0; i < d->q_len; i++) {
    int seen = 0;
    for (int j = 0; j < T; j++) seen += attend_visible(d, 0, i, j);
    for (int j = 0; j < T; j++) {
      float want = attend_visible(d, 0, i, j) ? 1.0f / (float)seen : 0.0f;
      right = right && fabsf(o[i * T + j] - want) < 1e-6f;
    }
  }
  attend_plan_free(plan);
  return right;
}

static int show(attend_context *ctx, const char *title, attend_desc d) {
  int right = !attend_desc_complete(ctx, &d) && obeys(ctx, &d);
  printf("%s\n", title);
  for (int i = 0; i < d.q_len; i++) {
    printf("   ");
    for (int j = 0; j < T; j++) printf(" %c", attend_visible(&d, 0, i, j) ? '#' : '.');
    printf("\n");
  }
  printf("    %s\n\n", right ? "obeyed" : "NOT obeyed");
  return right;
}

int main(void) {
  const int32_t lengths[1] = {4};
  const uint8_t padding[T] = {0, 0, 1, 1, 1, 1};
  attend_context *ctx;
  if (attend_context_create(NULL, &ctx)) return fprintf(stderr, "%s\n", attend_message(ctx)), 1;

  attend_desc d = {ATTEND_INIT(attend_desc), .q_len = T, .kv_len = T, .dim = T};
  int right = show(ctx, "no mask: everyone sees everyone", d);

  d.mask.causal = ATTEND_CAUSAL;
  right &= show(ctx, "causal: no one sees the future", d);

  d.mask.window = 3;
  right &= show(ctx, "causal, window 3: itself and two before", d);

  d.mask = (attend_mask){.lengths = lengths};
  right &= show(ctx, "lengths: only the first four keys are real", d);

  d.mask = (attend_mask){.causal = ATTEND_CAUSAL, .key_mask = padding};
  right &= show(ctx, "causal, padded on the left: two rows see nothing", d);

  /* Fewer queries than keys: the alignment must be stated; it is never guessed. */
  d = (attend_desc){ATTEND_INIT(attend_desc), .q_len = 2, .kv_len = T, .dim = T,
                    .mask.causal = ATTEND_CAUSAL_BOTTOM};
  right &= show(ctx, "bottom: the last query stands at the last key", d);

  d.mask.causal = ATTEND_CAUSAL;
  if (attend_desc_complete(ctx, &d) == ATTEND_INVALID)
    printf("and plain causal is refused:\n    %s\n", attend_message(ctx));
  else
    right = 0;

  attend_context_free(ctx);
  return !right;
}
