/* attend study heads: untrained heads are broad, causal ones never look ahead,
 * and the counts are those of all heads. */
#include "golden_models.h"
#include "study_results.h"

static study_result heads_of(const char *model) {
  const attend_setting_value at[] = {{"model", model_path(model, NULL)}, {"length", "24"}, {0}};
  return study_result_of("heads", 2, at);
}

static const attend_study_table *table_of(const study_result *s, const char *name) {
  for (size_t i = 0; i < s->report->n_blocks; i++) {
    const attend_study_table *t = s->report->blocks[i].table;
    if (t && !strcmp(t->name, name)) return t;
  }
  CHECK_FAIL("there is no table \"%s\"", name);
  return NULL;
}

/* "All of the words pay equal attention to all of the other words." */
TEST(untrained_heads_are_broad) {
  study_result s = heads_of("bert");
  study_prints(&s, "untrained-broad", 1, 0);
  study_prints(&s, "even-broad", 1, 0.1);
  study_prints(&s, "even-previous", 1.0 / 24, 0.011);
  study_prints(&s, "even-next", 1.0 / 24, 0.011);
  study_prints(&s, "even-first", 1.0 / 24, 0.011);
  study_end(&s);
}

TEST(causal_heads_do_not_look_ahead) {
  study_result s = heads_of("gpt2");
  double previous = 0;
  for (int i = 1; i < 24; i++) previous += 1.0 / (i + 1) / 23;
  study_prints(&s, "causal-trained", 0, 0);
  study_prints(&s, "causal-untrained", 0, 0);
  study_prints(&s, "even-previous", previous, 0.1);
  study_prints(&s, "untrained-broad", 1, 0);
  study_end(&s);
}

/* Every head of every layer is counted once; with a text that is read. */
TEST(all_heads_are_counted) {
  study_result s = heads_of("stories260K");
  const attend_study_table *t = table_of(&s, "layers");
  double sum = 0;
  for (size_t i = 0; t && i < t->rows; i++)
    for (size_t j = 2; j < t->columns; j++) sum += t->cells[i * t->columns + j].number;
  CHECK_EQ(t ? t->rows : 0, 2 * 5);
  CHECK_EQ((int)sum, 2 * 5 * 8);
  study_end(&s);
}

TEST(what_has_no_formula_is_not_claimed) {
  study_result s = heads_of("t5");
  CHECK_EQ(s.report->n_claims, 0);
  study_end(&s);
  s = heads_of("mistral-window"); /* equal weights within its window */
  study_prints(&s, "untrained-broad", 1, 0);
  study_end(&s);
}

static void refuses(const char *name, const char *value, const char *says) {
  const attend_setting_value both[] = {{"model", model_path("stories260K", NULL)}, {name, value}};
  const bool model = !strcmp(name, "model");
  attend_study_options how = {ATTEND_INIT(attend_study_options), .quick = 1, .count = model ? 1 : 2,
                              .settings = both + model};
  attend_context *ctx;
  attend_report *report = NULL;
  CHECK(!attend_context_create(NULL, &ctx));
  CHECK(attend_study_run(ctx, attend_study_find("heads"), &how, &report));
  CHECK_SAYS(report->message, says);
  attend_report_free(report);
  attend_context_free(ctx);
}

TEST(what_cannot_be_read) {
  refuses("model", "", "name a model");
  refuses("model", "no/such/folder", "no/such/folder");
  refuses("text", "", "two are the least");
}
