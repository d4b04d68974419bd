/* A number in a table of a study's report, by the names of table and column.
 *
 * Under test_study_*.c.
 */
#ifndef TESTS_STUDY_CELL_H
#define TESTS_STUDY_CELL_H

#include "attend/study.h"
#include "study_check.h"

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

#endif
