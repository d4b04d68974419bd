/* attend study purification: what the student prints in 1(a) to 1(c), and what
 * must be so for other data. */
#include "study_results.h"

TEST(says_what_the_document_prints) {
  study_result s = study_result_of("purification", 3, NULL);
  study_prints(&s, "reconstruction-alpha", 0, 0);
  study_prints(&s, "regularisation-alpha", 2, 0);
  study_prints(&s, "reconstruction-beta", 0.001, 1e-12);
  study_prints(&s, "regularisation-beta", 1, 0);
  study_prints(&s, "crossing", 0.001, 1e-12);
  study_prints(&s, "lambda-least", 1, 1e-8);
  study_prints(&s, "lambda-most", 4, 1e-8);
  study_end(&s);
}

/* sigma^2 / (sigma^2 + lambda) at the upper end of the range, lambda = 4. */
TEST(shares_are_those_of_the_formula) {
  static const double sigma[] = {10, 8, 4, 1, 0.5, 0.36, 0.16, 0.01};
  study_result s = study_result_of("purification", 4, NULL);
  for (int i = 0; i < 8; i++) {
    char name[20];
    snprintf(name, sizeof name, "kept-%d", i + 1);
    study_prints(&s, name, sigma[i] * sigma[i] / (sigma[i] * sigma[i] + 4), 1e-8);
    snprintf(name, sizeof name, "sigma-%d", i + 1);
    study_prints(&s, name, sigma[i], 1e-10);
  }
  study_end(&s);
}

/* Three ways, and only a start of the descent: it is where it should be. */
TEST(gradient_descent_is_on_its_way) {
  const attend_setting_value at[] = {{"singular", "3,2,1"}, {"keep", "1"},   {"samples", "17"},
                                     {"lambda", "0.5,2"},   {"steps", "10"}, {0}};
  study_result s = study_result_of("purification", 5, at);
  const attend_study_claim *c = study_claim_of(&s, "descent-0.5");
  if (c) CHECK(c->expected > 1e-3);
  study_prints(&s, "equations-2", 0, 1e-7);
  study_prints(&s, "lambda-most", 9 * 0.25, 1e-8);
  study_prints(&s, "lambda-least", 4, 1e-8); /* no lambda does both */
  study_end(&s);
}

static void refused(const attend_setting_value *settings, const char *says) {
  attend_context *ctx;
  attend_report *report;
  attend_study_options how = {ATTEND_INIT(attend_study_options), .quick = 1, .count = 1,
                              .settings = settings};
  CHECK(!attend_context_create(NULL, &ctx));
  CHECK_EQ(attend_study_run(ctx, attend_study_find("purification"), &how, &report), ATTEND_INVALID);
  CHECK_SAYS(report->message, says);
  attend_report_free(report);
  attend_context_free(ctx);
}

TEST(values_must_fall_and_not_all_be_kept) {
  refused(&(attend_setting_value){"singular", "3,4,1"}, "4 comes after 3");
  refused(&(attend_setting_value){"singular", "3,2,1"}, "keep fewer than all");
}
