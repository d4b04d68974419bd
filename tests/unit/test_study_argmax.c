/* attend study argmax: Fall 2025 2 and student 3, and what training can do. */
#include "study_results.h"

TEST(says_what_the_documents_print) {
  static const double scores[] = {3, 11, 5, 2}, weights[] = {0, 1, 0, 0}, output[] = {1, 4, 3};
  study_result s = study_result_of("argmax", 0, NULL);
  char name[32];
  for (int i = 0; i < 4; i++) {
    snprintf(name, sizeof name, "argmax-score-%d", i + 1);
    study_prints(&s, name, scores[i], 0);
    snprintf(name, sizeof name, "argmax-weight-%d", i + 1);
    study_prints(&s, name, weights[i], 0);
  }
  for (int i = 0; i < 3; i++) {
    snprintf(name, sizeof name, "argmax-output-%d", i + 1);
    study_prints(&s, name, output[i], 0);
  }
  study_end(&s);
}

/* A key more, two numbers wide: 1·2 + (-1)·1, 1·0 + (-1)·(-3), 1·1 + (-1)·1. */
TEST(own_numbers) {
  const attend_setting_value own[] = {
      {"q", "1,-1"}, {"keys", "2,1; 0,-3; 1,1"}, {"values", "5;7.5;-1"}, {0}};
  study_result s = study_result_of("argmax", 0, own);
  study_prints(&s, "argmax-score-1", 1, 0);
  study_prints(&s, "argmax-score-2", 3, 0);
  study_prints(&s, "argmax-score-3", 0, 0);
  study_prints(&s, "argmax-output-1", 7.5, 0);
  study_prints(&s, "softmax-weight-2", 1 / (1 + exp(-2) + exp(-3)), 1e-5);
  study_prints(&s, "dq", 0, 0);
  study_end(&s);
}

static void refuses(const char *study, const attend_setting_value *settings, const char *says) {
  attend_study_options how = {ATTEND_INIT(attend_study_options), .settings = settings};
  attend_context *ctx;
  attend_report *report = NULL;
  while (settings[how.count].name) how.count++;
  CHECK(!attend_context_create(NULL, &ctx));
  CHECK_EQ(attend_study_run(ctx, attend_study_find(study), &how, &report), ATTEND_INVALID);
  CHECK_SAYS(report->message, says);
  attend_report_free(report);
  attend_context_free(ctx);
}

TEST(widths_must_agree) {
  static const char *const studies[] = {"argmax", "softmax", "kernels", "approximation"};
  const attend_setting_value width[] = {{"q", "1,2"}, {0}}, ragged[] = {{"keys", "1,2,3;4,5"}, {0}},
                             count[] = {{"values", "1;2"}, {0}},
                             two[] = {{"q", "1,1,2;1,1,3"}, {0}}, word[] = {{"keys", "1,2,x"}, {0}};
  for (int i = 0; i < 4; i++) {
    refuses(studies[i], width, "q has 2 numbers and each key 3 numbers");
    refuses(studies[i], ragged, "a row of keys has 2 numbers and the first has 3");
    refuses(studies[i], count, "there are 4 keys and 2 values");
    refuses(studies[i], two, "give one query");
    refuses(studies[i], word, "semicolons between rows, and \"x\" is something else");
  }
}

/* "The gradients with respect to the keys and queries will always be zero", and
 * "only flow through the one element that is selected". */
TEST(gradients_reach_the_winners_value_alone) {
  study_result s = study_result_of("argmax", 1, NULL);
  study_prints(&s, "dq", 0, 0);
  study_prints(&s, "dk", 0, 0);
  study_prints(&s, "dv-others", 0, 0);
  study_prints(&s, "dv-winner-1", 1, 0);
  study_prints(&s, "dv-winner-2", 5, 0);
  study_prints(&s, "dv-winner-3", -1, 0);
  study_prints(&s, "step", 6 / sqrt(50), 1e-6);
  CHECK(study_cell_of(&s, "gradients", 1, "dq") > 0.1);
  CHECK(study_cell_of(&s, "gradients", 1, "dk") > 0.1);
  study_end(&s);
}

/* "The keys and queries will never be improved". */
TEST(training_moves_winning_values_alone) {
  for (uint64_t seed = 0; seed < 4; seed++) {
    study_result s = study_result_of("argmax", seed, NULL);
    study_prints(&s, "queries-moved", 0, 0);
    study_prints(&s, "keys-moved", 0, 0);
    double values = study_cell_of(&s, "training", 0, "values");
    CHECK(values >= 1 && values < 12);
    CHECK_EQ(study_cell_of(&s, "training", 1, "queries"), 12);
    CHECK_EQ(study_cell_of(&s, "training", 1, "keys"), 12);
    CHECK_EQ(study_cell_of(&s, "training", 1, "values"), 12);
    CHECK(study_cell_of(&s, "training", 1, "after") < study_cell_of(&s, "training", 1, "before"));
    study_end(&s);
  }
}

/* Cold is hard, hot is the mean of all values. */
TEST(temperature_goes_from_hard_to_soft) {
  const attend_setting_value at[] = {{"temperature", "0.1,10000"}, {0}};
  study_result s = study_result_of("argmax", 0, at);
  CHECK_NEAR(study_cell_of(&s, "temperature", 0, "winner"), 1, 1e-6);
  CHECK_NEAR(study_cell_of(&s, "temperature", 0, "dq"), 0, 1e-5);
  CHECK_NEAR(study_cell_of(&s, "temperature", 1, "winner"), 0.25, 1e-3);
  CHECK_NEAR(study_cell_of(&s, "temperature", 1, "dq"), 0, 1e-2);
  study_end(&s);
}

/* One query and key more or less, one step: nothing is out of bounds. */
TEST(awkward_sizes) {
  const attend_setting_value min[] = {{"queries", "2"}, {"d", "1"}, {"steps", "1"}, {0}};
  const attend_setting_value max[] = {
      {"queries", "32"}, {"d", "33"}, {"steps", "7"}, {"rate", "0.05"}, {0}};
  study_result a = study_result_of("argmax", 2, min);
  study_result b = study_result_of("argmax", 2, max);
  study_end(&a);
  study_end(&b);
}
