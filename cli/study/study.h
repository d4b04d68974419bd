/* The verb study: study.c reads options and runs studies, output.c shows reports. */
#ifndef CLI_STUDY_VERB_H
#define CLI_STUDY_VERB_H

#include "attend/study.h"
#include "options.h"
#include "table.h"

enum { MOST_SETTINGS = 40 };

typedef struct {
  options common;
  const attend_study *study; /* NULL: none, or all of them */
  bool all, quick, open, claims, formulas;
  const char *out, *figure;
  const char *value[MOST_SETTINGS]; /* of the study's settings; NULL: the default */
  char *models[MOST_SETTINGS];      /* values made of words; to be freed */
} study_options;

typedef struct {
  attend_context *ctx;
  size_t count;
  attend_report **reports;
} studied;

int study_print_list(bool json, attend_context *ctx, FILE *out);
/* Reports as the options say: files, a page in the browser, JSON, or paragraphs, tables and how
 * many predictions hold. */
int study_show(const studied *s, const study_options *o);
/* The lines of the standard input as MathML. */
int study_print_formulas(attend_context *ctx);
/* Checks --out before any work; complains. */
bool study_can_write(const char *out);

#endif
