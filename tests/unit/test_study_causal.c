/* attend study causal: S_i and Z_i are the mask, by Spring 2023 3(b), and a token costs
 * the same at any length. */
#include "study_results.h"

static void bits(const study_result *s, const char *form, int chunk) {
  char name[60];
  snprintf(name, sizeof name, "bits-%s-chunk%d", form, chunk);
  study_prints(s, name, 0, 0);
}

TEST(sums_are_the_mask) {
  static const char *const forms[] = {"elu", "favor", "poly-2"};
  const attend_setting_value at[] = {{"chunks", "1,5,64,65,200"}, {"n", "150"}, {0}};
  study_result s = study_result_of("causal", 1, at);
  char name[60];
  study_prints(&s, "recurrence", 0, 1e-12);
  for (int i = 0; i < 3; i++) {
    bits(&s, forms[i], 1);
    bits(&s, forms[i], 5);
    bits(&s, forms[i], 65);
    bits(&s, forms[i], 200);
    snprintf(name, sizeof name, "equal-%s", forms[i]);
    study_prints(&s, name, 0, 2e-5);
    snprintf(name, sizeof name, "leak-%s", forms[i]);
    study_prints(&s, name, 0, 0);
  }
  study_end(&s);
}

/* Width 8, one head: elu has C = 8, and a block of 64 has 32.5 pairs a token. */
TEST(a_token_costs_the_same_at_any_length) {
  const attend_setting_value at[] = {
      {"width", "8"}, {"features", "16"}, {"positions", "0,64,128,4096"}, {0}};
  study_result s = study_result_of("causal", 2, at);
  const double pairs = 32.5 * 2 * 16, sum = 2 * 8 * 9;
  study_prints(&s, "flops-elu-0", sum + pairs, 1e-6);
  study_prints(&s, "flops-elu-64", 2 * sum + pairs, 1e-6);
  study_prints(&s, "flops-elu-4096", 2 * sum + pairs, 1e-6);
  study_prints(&s, "flops-softmax-4096", 4 * 8 * (4096 + 32.5), 1e-6);
  study_prints(&s, "state-elu", 0, 0);
  study_prints(&s, "state-favor", 0, 0);
  study_end(&s);
}

/* Pages have 64 tokens: a block's mean is what a formula is for. */
TEST(positions_inside_a_block_are_timed_alone) {
  const attend_setting_value at[] = {{"positions", "3,70"}, {0}};
  study_result s = study_result_of("causal", 3, at);
  for (size_t i = 0; s.report && i < s.report->n_claims; i++)
    CHECK(strncmp(s.report->claims[i].name, "flops-", 6));
  study_end(&s);
}
