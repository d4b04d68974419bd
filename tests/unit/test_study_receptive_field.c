/* attend study receptive-field: (k+1)^n, counted on heads that look where they
 * are told, at random, and on models. */
#include "golden_models.h"
#include "study_results.h"

TEST(fields_are_those_of_the_solution) {
  const attend_setting_value at[] = {{"heads", "1,2,3"}, {"tokens", "64"}, {"model", ""}, {0}};
  study_result s = study_result_of("receptive-field", 3, at);
  study_prints(&s, "field-k1-n1", 2, 0);
  study_prints(&s, "field-k1-n3", 8, 0);
  study_prints(&s, "field-k2-n3", 27, 0);
  study_prints(&s, "field-k3-n3", 64, 0);
  study_prints(&s, "paths-k2-n2", 9, 0);
  study_prints(&s, "bound-k3-n3", 0, 0);
  study_end(&s);
}

/* One head among T: the node itself, and another with chance 1 - 1/T. */
TEST(fields_by_chance) {
  const attend_setting_value at[] = {{"heads", "1,2"}, {"tokens", "16"}, {"model", ""},
                                     {"draws", "20"},  {"layers", "2"},  {0}};
  study_result s = study_result_of("receptive-field", 4, at);
  const double one = 2 - 1.0 / 16;
  study_prints(&s, "chance-k1-n1", one, 0.4);
  study_prints(&s, "chance-k2-n1", 1 + 15 * (1 - pow(15.0 / 16, 2)), 0.6);
  /* Two picks from {t}, or one where the first was t itself. */
  const double two = 2 + 14 * (1 - pow(15.0 / 16, 2));
  study_prints(&s, "chance-k1-n2", two * 15 / 16 + one / 16, 1.2);
  study_end(&s);
}

static void follow(const char *model) {
  const attend_setting_value at[] = {{"model", model_path(model, NULL)},
                                     {"heads", "1"},
                                     {"tokens", "16"},
                                     {"layers", "1"},
                                     {"length", "12"},
                                     {0}};
  study_result s = study_result_of("receptive-field", 1, at);
  study_prints(&s, "model-bound-trained", 0, 0);
  study_prints(&s, "model-bound-hard", 0, 0);
  study_prints(&s, "model-bound-untrained", 0, 0);
  study_prints(&s, "model-mass-trained", 1, 1e-4);
  study_prints(&s, "model-mass-hard-field", 1, 1e-4);
  study_end(&s);
}

TEST(models) {
  follow("gpt2");
  follow("bert");
  follow("stories260K"); /* with a tokenizer */
}

TEST(a_model_that_is_not_there) {
  attend_setting_value one = {"model", "no/such/folder"};
  attend_study_options how = {ATTEND_INIT(attend_study_options), .quick = 1, .count = 1,
                              .settings = &one};
  attend_context *ctx;
  attend_report *report = NULL;
  CHECK(!attend_context_create(NULL, &ctx));
  CHECK(attend_study_run(ctx, attend_study_find("receptive-field"), &how, &report));
  CHECK_SAYS(report->message, "no/such/folder");
  attend_report_free(report);
  attend_context_free(ctx);
}
