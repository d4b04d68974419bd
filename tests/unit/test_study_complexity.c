/* attend study complexity: the terms of worksheet 2(c), their exponents, and where each
 * of them dominates, worksheet 2(d). */
#include "study_results.h"

/* n_t = n_s = 32, d_model = 32, 4 heads, where not said otherwise. */
TEST(the_terms_are_the_document_s) {
  study_result s = study_result_of("complexity", 1, NULL);
  study_prints(&s, "projections-T16", 4.0 * (16 + 32) * 32 * 32, 0);
  study_prints(&s, "attention-T16", 4.0 * 16 * 32 * 32, 0);
  study_prints(&s, "attention-S64", 4.0 * 32 * 64 * 32, 0);
  study_prints(&s, "projections-n64", 4.0 * 128 * 32 * 32, 0);
  study_prints(&s, "attention-n64", 4.0 * 64 * 64 * 32, 0);
  study_prints(&s, "projections-d64", 4.0 * 64 * 64 * 64, 0);
  study_prints(&s, "projections-M16", 2.0 * 64 * 32 * (32 + 64), 0);
  study_prints(&s, "attention-M16", 2.0 * 4 * 32 * 32 * (8 + 16), 0);
  study_prints(&s, "attention-h1", 4.0 * 32 * 32 * 32, 0);
  study_end(&s);
}

TEST(exponents) {
  study_result s = study_result_of("complexity", 2, NULL);
  study_prints(&s, "exponent-projections-n", 1, 1e-9);
  study_prints(&s, "exponent-projections-d", 2, 1e-9);
  study_prints(&s, "exponent-projections-h", 0, 1e-9);
  study_prints(&s, "exponent-attention-T", 1, 1e-9);
  study_prints(&s, "exponent-attention-S", 1, 1e-9);
  study_prints(&s, "exponent-attention-n", 2, 1e-9);
  study_prints(&s, "exponent-attention-d", 1, 1e-9);
  study_prints(&s, "exponent-attention-h", 0, 1e-9);
  study_end(&s);
}

/* Even where n_t n_s / (n_t + n_s) = d_model. */
TEST(which_term_dominates) {
  const attend_setting_value at[] = {{"map-n", "16,64,128"}, {"map-d", "16,64"}, {0}};
  study_result s = study_result_of("complexity", 3, at);
  study_prints(&s, "even-self", 0, 0);
  study_prints(&s, "even-cross", 0, 0);
  study_prints(&s, "share-n128-d64", 0.5, 1e-12);
  study_prints(&s, "share-n16-d64", 1.0 / 9, 1e-12);
  study_prints(&s, "share-n128-d16", 0.8, 1e-12);
  study_end(&s);
}

TEST(heads_divide_the_width) {
  const attend_setting_value three = {"h", "3"};
  attend_study_options how = {ATTEND_INIT(attend_study_options), .quick = 1, .count = 1,
                              .settings = &three};
  attend_context *ctx;
  attend_report *report = NULL;
  CHECK(!attend_context_create(NULL, &ctx));
  CHECK_EQ(attend_study_run(ctx, attend_study_find("complexity"), &how, &report), ATTEND_INVALID);
  CHECK_SAYS(report->message, "not a multiple of 3 heads");
  attend_report_free(report);
  attend_context_free(ctx);
}
