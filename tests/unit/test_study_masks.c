/* attend study masks: Fall 2022 1(e) and worksheet 2(b). */
#include "study_results.h"

/* worksheet 2(b): (i) only key padding in an encoder; (ii) only causal in a decoder;
 * (iii) key padding on encoder self-attention and cross-attention, causal on
 * decoder self-attention. */
TEST(says_what_the_document_prints) {
  static const struct {
    const char *module;
    int causal, needed;
  } answers[] = {{"bert-encoder", 0, 1},
                 {"gpt2-decoder", 1, 0},
                 {"t5-encoder", 0, 1},
                 {"t5-decoder", 1, 0},
                 {"t5-cross", 0, 1}};
  study_result s = study_result_of("masks", 2, NULL);
  char name[32];
  for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
    snprintf(name, sizeof name, "causal-%s", answers[i].module);
    study_prints(&s, name, answers[i].causal, 0);
    snprintf(name, sizeof name, "needed-%s", answers[i].module);
    study_prints(&s, name, answers[i].needed, 0);
    snprintf(name, sizeof name, "padding-%s", answers[i].module);
    study_prints(&s, name, 0, 0);
  }
  study_prints(&s, "model-bert", 0, 0);
  study_prints(&s, "model-gpt2", 0, 0);
  study_prints(&s, "model-t5", 0, 0);
  study_end(&s);
}

/* "If we do padding on the right, key padding mask is not needed when there is
 * causal mask." */
TEST(padding_on_the_right_needs_no_key_mask_under_a_causal_one) {
  study_result s = study_result_of("masks", 0, NULL);
  study_prints(&s, "bits-right-causal", 0, 0);
  study_prints(&s, "bits-right-open", 70, 0);
  study_prints(&s, "bits-right-open-masked", 0, 0);
  study_prints(&s, "bits-left-causal", 70, 0);
  study_prints(&s, "values-left-causal-masked", 0, 1e-5);
  study_prints(&s, "gradients", 0, 0);
  study_prints(&s, "gradients-counted", 70, 0);
  CHECK(study_cell_of(&s, "bits", 3, "most") > 0.01);
  study_end(&s);
}

TEST(pictures_have_the_pairs_that_masks_leave) {
  study_result s = study_result_of("masks", 1, NULL);
  study_prints(&s, "pairs-none", 8 * 8, 0);
  study_prints(&s, "pairs-padding", 8 * 5, 0);
  study_prints(&s, "pairs-cross", 6 * 5, 0);
  study_prints(&s, "pairs-causal", 8 * 9 / 2, 0);
  study_prints(&s, "pairs-both", 1 + 2 + 3 + 4 + 5 + 5 + 5 + 5, 0);
  study_prints(&s, "pairs-left", 5 * 6 / 2, 0);
  study_prints(&s, "rule-left", 0, 0);
  study_end(&s);
}

TEST(awkward_sizes) {
  const attend_setting_value min[] = {{"length", "2"},
                                      {"real", "1"},
                                      {"written", "1"},
                                      {"tokens", "1"},
                                      {"padding", "8"},
                                      {"d", "8"},
                                      {0}};
  const attend_setting_value max[] = {{"length", "64"},  {"real", "63"},    {"written", "64"},
                                      {"tokens", "129"}, {"padding", "65"}, {0}};
  study_result a = study_result_of("masks", 2, min);
  study_result b = study_result_of("masks", 2, max);
  study_end(&a);
  study_end(&b);
}

TEST(without_padding_there_is_nothing_to_show) {
  const attend_setting_value at[] = {{"length", "5"}, {"real", "5"}};
  attend_study_options how = {ATTEND_INIT(attend_study_options), .quick = 1, .count = 2,
                              .settings = at};
  attend_context *ctx;
  attend_report *report;
  CHECK(!attend_context_create(NULL, &ctx));
  CHECK_EQ(attend_study_run(ctx, attend_study_find("masks"), &how, &report), ATTEND_INVALID);
  CHECK_SAYS(report->message, "choose fewer real tokens");
  attend_report_free(report);
  attend_context_free(ctx);
}
