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
  for (size_t i = 0; i < s.report->n_claims; i++)
    CHECK(!strncmp(s.report->claims[i].name, "gradients-", 10));
  study_end(&s);
  s = heads_of("mistral-window"); /* equal weights within its window */
  study_prints(&s, "untrained-broad", 1, 0);
  study_end(&s);
}

/* Every head of every model is counted once; a layer of three is as deep as two of six. */
TEST(models_beside_each_other) {
  char both[2048];
  snprintf(both, sizeof both, "%s,", model_path("stories260K", NULL));
  strncat(both, model_path("gpt2", NULL), sizeof both - strlen(both) - 1);
  const attend_setting_value at[] = {
      {"model", strdup(model_path("bert", NULL))}, {"beside", both}, {"length", "24"}, {0}};
  study_result s = study_result_of("heads", 2, at);
  const attend_study_table *t = table_of(&s, "beside");
  double heads[3] = {0};
  CHECK_EQ(t ? t->rows % 3 : 1, 0);
  for (size_t i = 0; t && i < t->rows; i++) {
    double sum = 0;
    for (size_t j = 4; j < t->columns; j++) sum += t->cells[i * t->columns + j].number;
    CHECK_EQ(sum, t->cells[i * t->columns + 3].number);
    heads[i % 3] += sum;
  }
  CHECK_EQ(heads[1], 2 * 5 * 8); /* by depth, and all layers once more */
  CHECK_EQ(heads[0], 2 * 3 * 4);
  free((char *)at[0].value);
  study_end(&s);
}

TEST(every_head_has_gradients) {
  study_result s = heads_of("llama-gqa");
  const attend_study_table *t = table_of(&s, "gradients");
  for (size_t i = 0; t && i < t->rows * t->columns; i++)
    CHECK(t->cells[i].text || t->cells[i].number >= 0);
  CHECK(study_cell_of(&s, "score-gradients", 0, "loss") > 0);
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
  refuses("run", "no/such/run", "no/such/run");
  refuses("beside", "no/such/folder", "no/such/folder");
  refuses("model", "", "name a model");
  refuses("model", "no/such/folder", "no/such/folder");
  refuses("text", "", "two are the least");
}
