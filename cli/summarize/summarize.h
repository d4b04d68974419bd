/* What the parts of attend summarize share.
 *
 * summarize.c has the verb, options.c the options of generation, documents.c reads
 * the input, print.c prints summaries, show.c opens the view; long.c has --long,
 * tree.c prints its trees; extract.c has --extract, extract_print.c prints it. The
 * library does the rest: attend/summarize.h, attend/extract.h.
 */
#ifndef CLI_SUMMARIZE_H
#define CLI_SUMMARIZE_H

#include "attend/extract.h"
#include "attend/json.h"
#include "attend/summarize.h"
#include "model_open.h"
#include "sampling.h"

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

/* --beams, --samples, --length, ..: options.c. The input is a summary_options that
 * began as summary_defaults. */
extern const struct argp options_summary;

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

/* ---- options of the verb ---------------------------------------------------------- */

typedef struct {
  bool chunks, linear;
  bool tree; /* print summaries of parts too */
  const char *work;
  int parts, levels; /* 0: not given */
  bool stats;
} long_options;
/* A child of the verb's argp: long.c. */
extern const struct argp options_long;

typedef struct {
  bool given;
  int count;                     /* sentences, or 0 */
  double share;                  /* of the sentences, where count is 0 */
  const char *embed;             /* a model, or words; NULL: a pulled one */
  double tau, jump, lead, alike; /* attend/extract.h */
  bool ranks;                    /* all sentences, as a table */
  bool bare;                     /* no ranks */
} extract_options;
extract_options extract_defaults(void);
extern const struct argp options_extract; /* extract.c */

typedef struct {
  options common;
  model_options model; /* path NULL: attend:summarizer */
  summary_options how;
  extract_options extract;
  long_options longer;
  char **files; /* [n_files]; none: the standard input */
  int n_files;
  bool lines;  /* each line is a document */
  char *field; /* of JSON lines; NULL: document */
  int sources; /* of each word, to print; 0: none */
  bool show;   /* in the view, */
  char *out;   /* or its page or picture */
} summarize_options;

int summarize_long(const summarize_options *o);
int summarize_extract(const summarize_options *o);

/* ---- documents -------------------------------------------------------------------- */

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

/* ---- printing --------------------------------------------------------------------- */

typedef struct { /* a document and its summaries */
  const char *name;
  int number;
  const attend_summarized *d;
  const attend_summaries *all; /* that has it as `index`, or NULL: no sources */
  int index;
} printed;

typedef struct {
  int done, empty, cut, few, context; /* documents; context: summaries */
  const char *first_empty, *first_cut;
  int cut_tokens, few_count; /* of the first ones */
} summary_notices;

typedef struct {
  const summarize_options *o;
  summarizer *s;
  int count; /* of all documents */
  bool rows; /* a line of input is a line of output */
  int code;
  attend_json_writer w;
  summary_notices notices;
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
int say_empty(int empty, int count, const char *first, bool rows);
int count_words(const char *text);

/* The view of a document and its first summary: show.c. */
int summary_show(const summarize_options *o, const summarizer *s, const attend_document *text,
                 const attend_summarized *d);

/* Trees of --long chunks: tree.c. */
void tree_print(const attend_long_summary *x);
void tree_put_json(attend_json_writer *w, const attend_long_summary *x, int level, int i);
int tree_page(const documents *docs, attend_long_summary *const *trees, int count,
              attend_context *ctx, const char *path);

/* --extract: extract_print.c. */
typedef struct {
  const char *name, *text;
  attend_extraction *x;
  bool done;
} extracted;
int extracted_print(const extract_options *o, bool json, attend_context *ctx, const extracted *all,
                    int count);
int extracted_page(attend_context *ctx, const char *path, double tau, const char *model,
                   const extracted *all, int count);

#endif
