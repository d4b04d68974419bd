/* For tests of studies: a study run once, with its claims and cells by name.
 *
 * The tests contain the values that the documents print, to detect a study that expects
 * others.
 */
#ifndef TESTS_STUDY_RESULTS_H
#define TESTS_STUDY_RESULTS_H

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

/* Cells of a report by the names of table and column. */
static inline const attend_study_table *study_table_of(const study_result *s, const char *name) {
  for (size_t i = 0; s->report && i < s->report->n_blocks; i++) {
    const attend_study_table *t = s->report->blocks[i].table;
    if (t && !strcmp(t->name, name)) return t;
  }
  CHECK_FAIL("there is no table \"%s\"", name);
  return NULL;
}

/* NaN if there is none. */
static inline double study_cell_of(const study_result *s, const char *table, size_t row,
                                   const char *column) {
  const attend_study_table *t = study_table_of(s, table);
  for (size_t i = 0; t && row < t->rows && i < t->columns; i++)
    if (!strcmp(t->column[i].name, column)) return t->cells[row * t->columns + i].number;
  CHECK_FAIL("%s has no row %zu with a \"%s\"", table, row, column);
  return NAN;
}

static void study_end(study_result *s) {
  attend_report_free(s->report);
  attend_context_free(s->ctx);
}

#endif
