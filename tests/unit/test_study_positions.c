/* attend study positions: a step is a rotation, a dot product a distance. */
#include "study_results.h"

TEST(steps_are_rotations) {
  const attend_setting_value at[] = {{"d", "6"}, {"positions", "80"}, {"steps", "1,64"}, {0}};
  study_result s = study_result_of("positions", 3, at);
  study_prints(&s, "formula", 0, 3e-8);
  study_prints(&s, "step", 0, 5e-7);
  study_prints(&s, "steps-64", 0, 2e-5);
  study_prints(&s, "steps-double-64", 0, 1e-13);
  study_prints(&s, "jump-64", 0, 5e-7);
  study_end(&s);
}

TEST(dot_products_depend_on_the_distance) {
  const attend_setting_value at[] = {{"d", "64"}, {"positions", "100"}, {"steps", "1,64"}, {0}};
  study_result s = study_result_of("positions", 0, at);
  study_prints(&s, "length", 32, 2e-4);
  study_prints(&s, "dot-0", 0, 2e-4);
  study_prints(&s, "dot-64", 0, 2e-4);
  study_prints(&s, "relative-4", 1, 0);
  study_end(&s);
}

/* The table's numbers, by the definition. */
TEST(the_table_says_it) {
  const attend_setting_value at[] = {{"d", "4"}, {"positions", "40"}, {"steps", "3"}, {0}};
  study_result s = study_result_of("positions", 0, at);
  for (size_t i = 0; i < s.report->n_blocks; i++) {
    const attend_study_table *t = s.report->blocks[i].table;
    if (!t || strcmp(t->name, "dots")) continue;
    CHECK_EQ(t->rows, 2);
    CHECK_NEAR(t->cells[t->columns + 1].number, cos(3.0) + cos(0.03), 1e-12);
    CHECK_NEAR(t->cells[t->columns + 2].number, cos(3.0) + cos(0.03), 1e-6);
  }
  study_end(&s);
}

static void refuses(const char *name, const char *value, const char *says) {
  attend_setting_value one = {name, value};
  attend_study_options how = {ATTEND_INIT(attend_study_options), .quick = 1, .count = 1,
                              .settings = &one};
  attend_context *ctx;
  attend_report *report = NULL;
  CHECK(!attend_context_create(NULL, &ctx));
  CHECK_EQ(attend_study_run(ctx, attend_study_find("positions"), &how, &report), ATTEND_INVALID);
  CHECK_SAYS(report->message, says);
  attend_report_free(report);
  attend_context_free(ctx);
}

TEST(sizes_that_make_no_sense) {
  refuses("d", "7", "odd");
  refuses("shift", "200", "less than the 200 positions");
}
