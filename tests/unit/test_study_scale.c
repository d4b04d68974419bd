/* attend study scale, and what all studies have in common: settings, sentences,
 * the same numbers from the same seed, reports without memory. */
#include <stdlib.h>

#include "study_results.h"

TEST(says_what_the_documents_print) {
  const attend_setting_value at[] = {{"d", "4,64"}, {"mu", "0.5"}, {"sigma", "2"}, {0}};
  study_result s = study_result_of("scale", 3, at);
  study_prints(&s, "mean-standard-d64", 0, 2);
  study_prints(&s, "variance-standard-d64", 64, 20);
  study_prints(&s, "mean-shifted-d64", 16, 8);
  study_prints(&s, "variance-shifted-d64", 2 * 4 * 16 + 64 * 16, 300);
  study_end(&s);
}

/* A claim that is wrong is refused: the slack is no blank cheque. */
TEST(slack_is_small) {
  study_result s = study_result_of("scale", 0, NULL);
  const attend_study_claim *c = study_claim_of(&s, "variance-standard-d16");
  if (c) CHECK(c->slack < 0.3 * c->expected);
  study_end(&s);
}

TEST(same_seed_same_numbers) {
  study_result a = study_result_of("scale", 7, NULL);
  study_result b = study_result_of("scale", 7, NULL);
  study_result c = study_result_of("scale", 8, NULL);
  CHECK_EQ(a.report->n_claims, b.report->n_claims);
  for (size_t i = 0; i < a.report->n_claims; i++) {
    CHECK(a.report->claims[i].measured == b.report->claims[i].measured);
    CHECK(a.report->claims[i].measured != c.report->claims[i].measured);
  }
  study_end(&a);
  study_end(&b);
  study_end(&c);
}

static const char *refusal(const char *name, const char *value, attend_report **report,
                           attend_context *ctx) {
  attend_setting_value one = {name, value};
  attend_study_options how = {ATTEND_INIT(attend_study_options), .count = 1, .settings = &one};
  CHECK_EQ(attend_study_run(ctx, attend_study_find("scale"), &how, report), ATTEND_INVALID);
  return (*report)->message;
}

TEST(bad_settings_are_named) {
  static const struct {
    const char *name, *value, *says;
  } cases[] = {{"d", "4,x", "\"x\" is something else"},
               {"d", "4.5", "whole numbers from 1"},
               {"d", "", "is something else"},
               {"d", "4,,5", "is something else"},
               {"d", "1e9", "65536"},
               {"sigma", "nan", "something else"},
               {"sigma", "1,2", "1 number at most"},
               {"width", "4", "no setting \"width\""}};
  attend_context *ctx;
  CHECK(!attend_context_create(NULL, &ctx));
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    attend_report *report = NULL;
    CHECK_SAYS(refusal(cases[i].name, cases[i].value, &report, ctx), cases[i].says);
    attend_report_free(report);
  }
  attend_context_free(ctx);
}

static int stop_at_once(double done, const char *what, void *user) {
  (void)done, (void)what;
  return ++*(int *)user == 1;
}

TEST(stops_when_asked) {
  attend_context *ctx;
  attend_report *report;
  int calls = 0;
  attend_study_options how = {ATTEND_INIT(attend_study_options), .quick = 1,
                              .progress = stop_at_once, .user = &calls};
  CHECK(!attend_context_create(NULL, &ctx));
  CHECK_EQ(attend_study_run(ctx, attend_study_find("scale"), &how, &report), ATTEND_STOPPED);
  CHECK_EQ(calls, 1);
  CHECK_SAYS(report->message, "stopped");
  attend_report_free(report);
  attend_context_free(ctx);
}

/* Every study has a name of its own, a question, documents, and settings whose
 * defaults are within their bounds. */
TEST(the_list_is_whole) {
  const attend_study *s;
  for (size_t i = 0; (s = attend_study_at(i)); i++) {
    CHECK(attend_study_find(s->name) == s);
    CHECK(s->title && s->question && s->answers && s->settings);
    for (const attend_setting *t = s->settings; t->name; t++) {
      const char *both[] = {t->value, t->quick ? t->quick : t->value};
      if (t->kind > ATTEND_SETTING_WHOLE) continue;
      for (int k = 0; k < 2; k++)
        for (const char *at = both[k]; at; at = strchr(at, ',')) {
          double x = atof(at += *at == ',');
          CHECK(x >= t->low && x <= t->high);
        }
    }
  }
  CHECK(!attend_study_find("nothing"));
}
