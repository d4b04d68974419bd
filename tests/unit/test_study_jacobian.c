/* attend study jacobian: worksheet 1(a). */
#include "study_results.h"

/* The formulas that worksheet 1(a) prints: the Jacobian, its squared norm, n² ε². */
TEST(says_what_the_document_prints) {
  study_result s = study_result_of("jacobian", 3, NULL);
  study_prints(&s, "jacobian-scaled", 0, 1e-6);
  study_prints(&s, "jacobian-plain", 0, 1e-6);
  CHECK(study_claim_of(&s, "norm-scaled")->slack <= 1e-6);
  study_prints(&s, "bound-spread8", 0, 0);
  study_prints(&s, "bound-d64-plain", 0, 0);
  study_prints(&s, "bound-d64-scaled", 0, 0);
  study_end(&s);
}

TEST(known_rows) {
  study_result s = study_result_of("jacobian", 0, NULL);
  study_prints(&s, "norm-even", sqrt(11) / 12, 1e-6);
  study_prints(&s, "norm-two", 0.5, 1e-6);
  study_prints(&s, "norm-one", 0, 1e-6);
  study_prints(&s, "half-spread8", 0, 0);
  study_prints(&s, "trace-d64-plain", 0, 0);
  study_prints(&s, "chain-d64-scaled", 0, 1e-4);
  study_end(&s);
}

/* Equal weights at one end; at the other the mean is where the gap's density
 * says, and the median is gone. */
TEST(scale_from_soft_to_hard) {
  const attend_setting_value at[] = {
      {"spread", "0.001,50"}, {"tables", "40"}, {"queries", "20"}, {"keys", "16"}, {0}};
  study_result s = study_result_of("jacobian", 5, at);
  double mean = study_cell_of(&s, "scale", 1, "mean");
  CHECK_NEAR(study_cell_of(&s, "scale", 0, "mean"), sqrt(15) / 16, 1e-5);
  CHECK_NEAR(mean / study_cell_of(&s, "scale", 1, "limit"), 1, 0.5);
  CHECK(study_cell_of(&s, "scale", 1, "median") < 0.01 * mean);
  study_end(&s);
}

/* With 1/sqrt(d) the width does not matter; without, the median row dies. */
TEST(width_matters_without_the_scale) {
  const attend_setting_value at[] = {{"d", "16,1024"}, {"tables", "4"}, {0}};
  study_result s = study_result_of("jacobian", 1, at);
  CHECK_NEAR(study_cell_of(&s, "width", 2, "median") / study_cell_of(&s, "width", 0, "median"), 1,
             0.2);
  CHECK(study_cell_of(&s, "width", 3, "median") < 0.1 * study_cell_of(&s, "width", 1, "median"));
  CHECK(study_cell_of(&s, "width", 3, "dq_median") <
        0.1 * study_cell_of(&s, "width", 3, "dq_mean"));
  study_end(&s);
}

TEST(awkward_sizes) {
  const attend_setting_value at[] = {{"d", "2"},
                                     {"spread", "1000"},
                                     {"width", "3"},
                                     {"keys", "2"},
                                     {"tables", "1"},
                                     {"queries", "1"},
                                     {0}};
  study_result s = study_result_of("jacobian", 9, at);
  study_end(&s);
}
