/* A study, run once for a test: its claims by name.
 *
 * Under test_study_*.c. The values that documents print stand in the tests, so that a
 * study that expects something else is noticed.
 */
#ifndef TESTS_STUDY_CHECK_H
#define TESTS_STUDY_CHECK_H

#include "attend/study.h"
#include "attend/attend.h"
#include "check.h"

typedef struct {
  attend_context *ctx;
  attend_report *report;
} study_result;

/* Quick sizes, and these settings: {{"d", "4,16"}, {0}} or NULL. All claims
 * must hold. */
static study_result study_result_of(const char *name, uint64_t seed,
                                    const attend_setting_value *settings) {
  study_result s = {0};
  attend_study_options how = {ATTEND_INIT(attend_study_options), .seed = seed, .quick = 1,
                              .settings = settings};
  const attend_study *study = attend_study_find(name);
  while (settings && settings[how.count].name) how.count++;
  CHECK(study);
  CHECK(!attend_context_create(NULL, &s.ctx));
  if (!study) return s;
  if (attend_study_run(s.ctx, study, &how, &s.report))
    CHECK_FAIL("%s: %s", name, s.report ? s.report->message : "no memory");
  for (size_t i = 0; s.report && i < s.report->n_claims; i++) {
    const attend_study_claim *c = &s.report->claims[i];
    if (!c->holds)
      CHECK_FAIL("%s, %s: %.10g expected, %.10g measured, slack %.3g", name, c->name, c->expected,
                 c->measured, c->slack);
  }
  return s;
}

static const attend_study_claim *study_claim_of(const study_result *s, const char *name) {
  for (size_t i = 0; s->report && i < s->report->n_claims; i++)
    if (!strcmp(s->report->claims[i].name, name)) return &s->report->claims[i];
  CHECK_FAIL("there is no claim \"%s\"", name);
  return NULL;
}

/* The study expects what the document prints, with no more slack than this. */
static void study_prints(const study_result *s, const char *name, double value, double slack) {
  const attend_study_claim *c = study_claim_of(s, name);
  if (!c) return;
  CHECK_NEAR(c->expected, value, 1e-9 * (1 + fabs(value)));
  CHECK(c->slack <= slack);
}

static void study_end(study_result *s) {
  attend_report_free(s->report);
  attend_context_free(s->ctx);
}

#endif
