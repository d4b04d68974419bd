/* attend study heatmaps: Fall 2022 1(a)-(b). */
#include "study_results.h"

/* "Would you expect weights to sum to 1 if we sum over the queries dimension, or
 * over the keys dimension?" */
TEST(keys_sum_to_one_and_queries_do_not) {
  study_result s = study_result_of("heatmaps", 4, NULL);
  study_prints(&s, "keys-random", 0, 1e-5);
  study_prints(&s, "keys-identical", 0, 1e-5);
  study_prints(&s, "queries-random", 1, 1e-5);
  CHECK(study_cell_of(&s, "sums", 1, "least") < 0.9);
  CHECK(study_cell_of(&s, "sums", 1, "most") > 1.1);
  study_end(&s);
}

/* At d = 1 the own key is the largest for the least and the greatest of n, unless
 * all have one sign. */
TEST(diagonal_of_identical_queries_and_keys) {
  const attend_setting_value at[] = {{"d", "1,128"}, {"length", "10"}, {0}};
  study_result s = study_result_of("heatmaps", 2, at);
  const attend_study_claim *c = study_claim_of(&s, "diagonal-d1");
  CHECK_NEAR(c->expected, 0.2 * (1 - 1.0 / 1024), 1e-6);
  CHECK_NEAR(c->measured, 0.2, 0.01);
  study_prints(&s, "diagonal-d128", 1, 0.1);
  study_prints(&s, "random-d1", 0.1, 0.3);
  CHECK(study_cell_of(&s, "diagonal", 1, "weight") > 0.99);
  CHECK(study_cell_of(&s, "diagonal", 1, "distance") < 0.02);
  CHECK(study_cell_of(&s, "diagonal", 1, "distance_random") > 0.9);
  study_end(&s);
}

TEST(awkward_sizes) {
  const attend_setting_value at[] = {
      {"d", "1"}, {"length", "2"}, {"width", "1"}, {"matrices", "20"}, {0}};
  study_result s = study_result_of("heatmaps", 9, at);
  study_end(&s);
}
