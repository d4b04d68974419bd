/* The verb study: its options, and showing reports.
 *
 * study.c reads options and runs studies; print.c writes to the terminal, json.c
 * JSON, page.c HTML, files.c the files of --out.
 */
#ifndef CLI_STUDY_VERB_H
#define CLI_STUDY_VERB_H

#include <stdio.h>

#include "attend/json.h"
#include "attend/study.h"
#include "options.h"
#include "table.h"

typedef struct {
  options common;
  const char *topic; /* NULL: list them; "all" */
  const char *out, *figure;
  bool quick, open, claims;
  size_t count;
  attend_setting_value *settings; /* [count], values as the program takes them */
} study_options;

typedef struct {
  attend_context *ctx;
  size_t count;
  attend_report **reports;
} studied;

/* How a table's cells are written. */
cell_kind study_cell_kind(attend_cell_kind kind);
/* Claims that do not hold. */
size_t study_refuted(const attend_report *report);

int study_print_list(bool json, attend_context *ctx, FILE *out);
/* Paragraphs, tables, and how many predictions hold; claims: each of them. */
int study_print(const attend_report *report, bool claims, FILE *out);
int study_print_json(const studied *s, FILE *out);
/* A self-contained page: one study, or all of them. */
int study_print_page(const studied *s, FILE *out);

/* Checks --out before any work; complains. */
bool study_can_write(const char *out);
/* By the ending of the path: .html, .json, .svg, or a folder with all of them. */
int study_write(const studied *s, const study_options *o);
/* The page in a file of its own, and a browser that shows it. */
int study_open(const studied *s);

#endif
