/* Observe: where queries look, recomputed from q, k and lse.
 *
 * A toy sentence with keys chosen by hand: every word attends to words of its
 * kind (nouns to nouns, verbs to verbs), more to later ones. The observation has
 * whole rows, the heaviest key and the entropy of every query, and the weight that
 * every key receives.
 */
#include <attend/attend.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { T = 9, D = 4, TOP = 1 };
static const char *const words[T] = {"the",   "cat", "saw",  "a",  "dog",
                                     "chase", "the", "bird", "fly"};
/* article, noun, verb: one axis each; the fourth grows with the position. */
static const int kind[T] = {0, 1, 2, 0, 1, 2, 0, 1, 2};

static void write_words(float *q, float *k) {
  memset(q, 0, T * D * sizeof *q);
  memset(k, 0, T * D * sizeof *k);
  for (int i = 0; i < T; i++) {
    q[i * D + kind[i]] = 16;
    k[i * D + kind[i]] = 1;
    q[i * D + 3] = 2;
    k[i * D + 3] = 0.25f * (float)i;
  }
}

static void draw(const float *weights, const float *entropy) {
  const char shades[] = " .:-=+*#%@";
  printf("%7s", "");
  for (int j = 0; j < T; j++) printf(" %-5s", words[j]);
  printf("  entropy\n");
  for (int i = 0; i < T; i++) {
    printf("%7s", words[i]);
    for (int j = 0; j < T; j++) {
      char c = shades[(int)(9.999f * fminf(weights[i * T + j], 1.0f))];
      printf(" %c%c%c%c%c", c, c, c, c, c);
    }
    printf("  %5.2f\n", (double)entropy[i]);
  }
}

int main(void) {
  float q[T * D], k[T * D], o[T * D], lse[T];
  float weights[T * T], entropy[T], mass[T], top_weight[T * TOP];
  int32_t rows[T], top_index[T * TOP];
  attend_context *ctx;
  attend_plan *plan = NULL;
  write_words(q, k);
  for (int i = 0; i < T; i++) rows[i] = i;

  attend_desc d = {ATTEND_INIT(attend_desc), .q_len = T, .kv_len = T, .dim = D,
                   .mask.causal = ATTEND_CAUSAL};
  attend_observation look = {ATTEND_INIT(attend_observation),
                             .rows = rows,
                             .n_rows = T,
                             .weights = weights,
                             .top = TOP,
                             .top_index = top_index,
                             .top_weight = top_weight,
                             .entropy = entropy,
                             .mass = mass};
  attend_status status = attend_context_create(NULL, &ctx);
  if (!status) status = attend_plan_create(ctx, &d, &plan);
  if (!status)
    status =
        attend_forward(plan, attend_bhtd(q), attend_bhtd(k), attend_bhtd(k), attend_bhtd(o), lse);
  if (!status) status = attend_observe(plan, attend_bhtd(q), attend_bhtd(k), lse, &look);
  if (status) return fprintf(stderr, "%s\n", attend_message(ctx)), 1;

  draw(weights, entropy);
  int right = 1, max = 0;
  double total = 0;
  for (int i = 0; i < T; i++) {
    double row = 0;
    for (int j = 0; j < T; j++) row += (double)weights[i * T + j];
    right = right && top_index[i] == i && fabs(row - 1) < 1e-5;
    right = right && top_weight[i] == weights[i * T + i];
    if (mass[i] > mass[max]) max = i;
    total += (double)mass[i];
  }
  printf("heaviest key: \"%s\", with %.2f of the total weight %.2f of %d queries\n", words[max],
         (double)mass[max], total, T);
  right = right && fabs(total - T) < 1e-4;

  attend_plan_free(plan);
  attend_context_free(ctx);
  return !right;
}
