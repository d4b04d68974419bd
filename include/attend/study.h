/* attend/study.h - questions about attention, answered by measurement.
 *
 *   attend_study_options how = {ATTEND_INIT(attend_study_options), .seed = 1};
 *   attend_report *report;
 *   attend_status s = attend_study_run(ctx, attend_study_find("scale"), &how,
 *                                      &report);
 *   if (s) fail(report ? report->message : "no memory");
 *   ... report->blocks: paragraphs, tables and plots, in reading order ...
 *   ... report->claims: what was predicted, what was measured ...
 *   attend_report_free(report);
 *
 * A study is an experiment: it draws what it needs from Philox by the seed, runs
 * the library, and sets what it measured beside the formula. The same seed and
 * settings give the same numbers, times apart. Its sizes are settings, numbers or
 * lists of them, each with a default and bounds.
 */
#ifndef ATTEND_STUDY_H
#define ATTEND_STUDY_H

#include "attend/plot.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- what there is to study ------------------------------------------------ */

typedef enum {
  ATTEND_SETTING_NUMBERS = 0, /* "64" or "8,32,128" */
  ATTEND_SETTING_WHOLE,       /* the same, whole numbers */
  ATTEND_SETTING_TEXT,
  ATTEND_SETTING_MODEL, /* a folder or file; "" is none */
  ATTEND_SETTING_ROWS   /* a matrix, "1,2,0;0,3,4": rows of as many numbers each */
} attend_setting_kind;

typedef struct {
  const char *name;    /* "samples" */
  const char *value;   /* default */
  const char *quick;   /* for a run in little time; NULL: the same */
  const char *meaning; /* a few words for a list of options */
  attend_setting_kind kind;
  int max; /* numbers, of all rows, or models: how many at most */
  double low, high;
} attend_setting;

typedef struct {
  const char *name;               /* "scale" */
  const char *title;              /* "Why scores are divided by sqrt(d)" */
  const char *question;           /* a sentence */
  const char *answers;            /* "Fall 2025 1(a)-(c); student 4; worksheet 1(a)" */
  const attend_setting *settings; /* ends with a name of NULL */
} attend_study;

/* In the order of a course; NULL past the last. */
ATTEND_API const attend_study *attend_study_at(size_t index);
/* NULL if there is none of that name. */
ATTEND_API const attend_study *attend_study_find(const char *name);

/* ---- what a study says ------------------------------------------------------ */

typedef enum {
  ATTEND_CELL_TEXT = 0,
  ATTEND_CELL_COUNT,   /* a whole number */
  ATTEND_CELL_NUMBER,  /* four digits */
  ATTEND_CELL_SMALL,   /* 1.23e-07 */
  ATTEND_CELL_SECONDS, /* 12.3 ms */
  ATTEND_CELL_BYTES,   /* 1.5 MiB */
  ATTEND_CELL_SCALED   /* 51.5 G */
} attend_cell_kind;

typedef struct {
  const char *name;  /* for programs: "variance" */
  const char *title; /* for readers */
  attend_cell_kind kind;
} attend_study_column;

typedef struct {
  const char *text; /* NULL: the number */
  double number;    /* NaN: nothing to say */
} attend_study_cell;

typedef struct {
  const char *name, *title;
  size_t columns, rows;
  const attend_study_column *column; /* [columns] */
  const attend_study_cell *cells;    /* [rows][columns] */
} attend_study_table;

typedef struct {
  const char *name; /* of a file, less its ending: "scale-variance" */
  attend_plot plot;
} attend_study_figure;

/* A number that a document prints or a formula predicts, and what was found. It
 * holds if both differ by no more than the slack. Where the measurement is
 * random, the slack is six of its standard errors: of 500 true claims one is
 * refused in a million runs. */
typedef struct {
  const char *name; /* for programs: "variance-d64" */
  const char *text; /* a few words for readers */
  double measured, expected, slack;
  bool holds;
} attend_study_claim;

typedef enum {
  ATTEND_BLOCK_HEADING = 0,
  ATTEND_BLOCK_TEXT, /* a paragraph; `code` between back quotes, $formulas$ between dollars */
  ATTEND_BLOCK_TABLE,
  ATTEND_BLOCK_FIGURE
} attend_block_kind;

typedef struct {
  attend_block_kind kind;
  const char *text;
  const attend_study_table *table;
  const attend_study_figure *figure;
} attend_study_block;

typedef struct {
  const char *name, *value;
} attend_setting_value;

typedef struct {
  const attend_study *study;
  uint64_t seed;
  size_t n_settings;
  const attend_setting_value *settings; /* all, with the defaults */
  size_t n_blocks;
  const attend_study_block *blocks;
  size_t n_claims;
  const attend_study_claim *claims;
  double seconds;
  const char *message; /* why it failed */
} attend_report;

typedef struct {
  size_t size;
  uint64_t seed;
  bool quick; /* defaults are those for little time */
  size_t count;
  const attend_setting_value *settings; /* [count], others have defaults */
  /* [count]: how reports call the values, NULL in it: as they are; or NULL: all of them */
  const char *const *shown;
  attend_progress progress;
  void *user;
} attend_study_options;

/* On failure *report holds the sentence and must be freed; it is NULL only when
 * there was no memory for it. */
ATTEND_API attend_status attend_study_run(attend_context *ctx, const attend_study *study,
                                          const attend_study_options *options,
                                          attend_report **report);
ATTEND_API void attend_report_free(attend_report *report);

/* ---- showing reports ---------------------------------------------------------- */

/* Claims that do not hold. */
ATTEND_API size_t attend_report_refuted(const attend_report *report);
/* A page that needs nothing else, plots inside: of one study, or of several with a list of
 * contents. *html ends in a zero byte and is freed by attend_plot_free. */
ATTEND_API attend_status attend_report_html(attend_context *ctx, size_t count,
                                            const attend_report *const *reports, char **html,
                                            size_t *length);
/* Paragraphs, tables, claims and the data of plots as JSON: an object, or an array of
 * several. *json ends in a zero byte and is freed by attend_plot_free. */
ATTEND_API attend_status attend_report_json(attend_context *ctx, size_t count,
                                            const attend_report *const *reports, char **json,
                                            size_t *length);
/* A formula in a line of Unicode, "σ² = Σ_i xᵢ² / √d", as MathML on a line of its own; reports have
 * their formulas like this. *html is freed by attend_plot_free. */
ATTEND_API attend_status attend_formula_mathml(attend_context *ctx, const char *text, char **html);
/* A number as a table shows it; "-" for NaN. */
ATTEND_API void attend_cell_format(attend_cell_kind kind, double number, char *text, size_t size);

#ifdef __cplusplus
}
#endif
#endif
