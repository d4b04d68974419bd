/* What the parts of attend summarize share.
 *
 * summarize.c has the verb, its options and documents; print.c prints summaries; long.c
 * has --long and its trees; extract.c has --extract. The library does the rest:
 * attend/summarize.h, attend/extract.h.
 */
#ifndef CLI_SUMMARIZE_H
#define CLI_SUMMARIZE_H

#include "attend/extract.h"
#include "base/json_write.h"
#include "attend/summarize.h"
#include "model_open.h"
#include "options.h"

/* ---- the model ------------------------------------------------------------------ */

/* Options that were given, besides those of attend/summarize.h. */
enum { SUMMARY_SAMPLES = 1 << 16, SUMMARY_DIVERSITY = 1 << 17 };

typedef struct {
  attend_generate_options how;
  unsigned given;
  sampling draw;
  int min_words, max_words;
} summary_options;

summary_options summary_defaults(void);
/* --beams, --samples, --length, ..: they store into a summary_options that began as
 * summary_defaults. */
extern const option_row option_rows_summary[];
/* Checks their combinations: for the function `finish` of a verb. */
void summary_settle(struct argp_state *state, summary_options *o);

/* Where --attention applies unless --attention-roles says: what reads the document.
 * The decoder's own text is short. */
#define SUMMARY_ROLES "encoder,cross"

typedef struct {
  model_opened m;
  attend_summarizer *s;
} summarizer;

/* The path of the options may be NULL: attend:summarizer. An exit code;
 * summarizer_close may follow any. */
int summarizer_open(const options *common, const model_options *model, const summary_options *o,
                    summarizer *s);
void summarizer_close(summarizer *s);

/* ---- the verb ---------------------------------------------------------------------- */

typedef struct {
  options common;
  model_options model; /* path NULL: attend:summarizer */
  summary_options how;
  char **files; /* [n_files]; none: the standard input */
  int n_files;
  bool lines;        /* each line is a document */
  const char *field; /* of JSON lines; NULL: document */
  int sources;       /* of each word, to print; 0: none */
  bool show;         /* in the view, */
  const char *out;   /* or its page or picture */
  /* --long */
  bool chunks, linear;
  bool tree; /* print summaries of parts too */
  const char *work;
  int parts, levels; /* 0: not given */
  bool stats;
  /* --extract */
  bool extract;
  unsigned given; /* EXTRACT_OPTION, EXTRACT_ALIKE */
  attend_extract_options rank;
  const char *embed; /* a model, or words; NULL: a pulled one */
  bool ranks;        /* all sentences, as a table */
  bool bare;         /* no ranks */
} summarize_options;

int summarize_long(const summarize_options *o);
int summarize_extract(const summarize_options *o);

typedef struct {
  char **name;         /* [count] "notes.txt", "line 3 of notes.txt" */
  attend_document *at; /* [count], numbered from 0 */
  int count;
} documents;

/* From the files or the standard input; an exit code. */
int documents_read(const summarize_options *o, documents *docs);
void documents_free(documents *docs);
/* Whether each line of the input is a document. */
bool documents_are_rows(const summarize_options *o);

/* ---- printing: print.c ------------------------------------------------------------- */

typedef struct { /* a document and its summaries */
  const char *name;
  int number;
  const attend_summarized *d;
  const attend_summaries *all; /* that has it as `index`, or NULL: no sources */
  int index;
} printed;

typedef struct {
  const summarize_options *o;
  summarizer *s;
  int count; /* of all documents */
  bool rows; /* a line of input is a line of output */
  int code;
  json_writer w;
  struct {
    int done, empty, cut, few, context; /* documents; context: summaries */
    const char *first_empty, *first_cut;
    int cut_tokens, few_count; /* of the first ones */
  } notices;
} summary_printer;

void summary_printer_start(summary_printer *p, const summarize_options *o, summarizer *s,
                           int count);
/* The next document. False: the rest is not printed, since this one is not done and
 * lines must match those of the input, or since writing failed (p->code). */
bool summary_printer_put(summary_printer *p, const printed *one);
/* Completes the JSON, after a failure too; an exit code. */
int summary_printer_end(summary_printer *p, int code);
/* Names blank documents, `first` the first of them. Files that are all blank are a
 * failure; rows of a file are not. */
int warn_empty(int empty, int count, const char *first, bool rows);
/* The members that every row of JSON begins with; mode: of --long, or NULL; one: NULL of a
 * blank document. */
void put_summary(json_writer *w, const char *name, int number, const char *mode,
                 const attend_summary *one);

/* Opens the view of a document and its first summary. */
int summary_show(const summarize_options *o, const summarizer *s, const attend_document *text,
                 const attend_summarized *d);

#endif
