/* A report while it is written; for report.c and study.c. */
#ifndef STUDIES_REPORT_H
#define STUDIES_REPORT_H

#include "attend/study.h"
#include "studies/study.h"

enum { LANE_BYTES = 64 }; /* kernels may read whole lanes past an end */

typedef struct {
  const char *name, *text;
  size_t count;
  double *numbers;
} setting_store;

typedef struct report_store {
  attend_report report; /* first: a report is its store */
  struct memory *memory;
  attend_study_block *blocks;
  attend_study_claim *claims;
  setting_store *settings; /* [n_settings] */
} report_store;

report_store *report_create(void);

#endif
