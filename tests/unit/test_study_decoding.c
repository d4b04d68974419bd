/* attend study decoding: what Fall 2025 4(f), (g) say of compute and memory access, and
 * that steps with a cache are the attention of the whole. */
#include "study_results.h"

/* d = 64, h = 4, so k = 16. */
TEST(compute_and_memory_access) {
  const attend_setting_value at[] = {{"b", "1,3"}, {"n", "15,70"}, {0}};
  study_result s = study_result_of("decoding", 1, at);
  study_prints(&s, "flops-g4-b1-n15", 8 * 64 * 64 + 4 * 16 * 64, 0);
  study_prints(&s, "flops-g4-b3-n70", 3 * (8 * 64 * 64 + 4 * 71 * 64), 0);
  study_prints(&s, "flops-g1-b3-n70", 3 * (4 * 64 * (64 + 16) + 4 * 71 * 64), 0);
  study_prints(&s, "weights-g4-b1-n15", 4 * 4 * 64 * 64, 0);
  study_prints(&s, "weights-g1-b3-n70", 4 * (2 * 64 * 64 + 2 * 64 * 16), 0);
  study_prints(&s, "cache-g4-b3-n70", 4 * 2 * 3 * 71 * 64, 0);
  study_prints(&s, "cache-g2-b3-n70", 4 * 2 * 3 * 71 * 32, 0);
  study_prints(&s, "cache-g1-b3-n70", 4 * 2 * 3 * 71 * 16, 0);
  study_prints(&s, "tokens-g4-b1-n15", 4 * 6 * 64, 0);
  study_prints(&s, "tokens-g1-b1-n15", 4 * (4 * 64 + 2 * 16), 0);
  study_end(&s);
}

/* At n = 2d for MHA, d (h + 1) for MQA. */
TEST(weights_and_cache_are_even) {
  study_result s = study_result_of("decoding", 2, NULL);
  study_prints(&s, "even-g4", 0, 0);
  study_prints(&s, "even-g2", 0, 0);
  study_prints(&s, "even-g1", 0, 0);
  CHECK_SAYS(study_claim_of(&s, "even-g4")->text, "n = 128");
  CHECK_SAYS(study_claim_of(&s, "even-g1")->text, "n = 320");
  study_end(&s);
}

TEST(steps_are_the_whole) {
  const attend_setting_value at[] = {{"d", "48"}, {"h", "6"}, {"groups", "6,3,1"}, {0}};
  study_result s = study_result_of("decoding", 3, at);
  study_prints(&s, "steps-g6", 0, 0);
  study_prints(&s, "steps-g3", 0, 0);
  study_prints(&s, "steps-g1", 0, 0);
  study_prints(&s, "shared", 0, 0);
  study_end(&s);
}

TEST(groups_divide_the_heads) {
  const attend_setting_value three = {"groups", "3"};
  attend_study_options how = {ATTEND_INIT(attend_study_options), .quick = 1, .count = 1,
                              .settings = &three};
  attend_context *ctx;
  attend_report *report = NULL;
  CHECK(!attend_context_create(NULL, &ctx));
  CHECK_EQ(attend_study_run(ctx, attend_study_find("decoding"), &how, &report), ATTEND_INVALID);
  CHECK_SAYS(report->message, "must divide");
  attend_report_free(report);
  attend_context_free(ctx);
}
