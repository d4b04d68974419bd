/* Documents longer than the encoder takes: what the files of --long share.
 *
 * long_summary.c is the way in; long_chunks.c makes the tree of summaries with the
 * parts of long_parts.c; long_journal.c keeps them in a work folder; long_print.c and
 * long_page.c show them; long_linear.c reads a document as a whole; long_cost.c says
 * what it takes.
 */
#ifndef CLI_LONG_SUMMARY_H
#define CLI_LONG_SUMMARY_H

#include "summarize/summarize.h"

int summarize_long(const summarize_options *o);

/* ---- parts ---------------------------------------------------------------------- */

/* What is not cut without need: a sentence, a summary. */
typedef struct {
  size_t start, end; /* bytes */
  int tokens;
  bool ends; /* a good place to cut behind: a paragraph ends */
} unit;

typedef struct {
  unit *unit;
  int count, capacity;
  attend_encoding *encoding;
  int room; /* tokens that a part may have */
} units;

/* For a summarizer: how many tokens fit beside what is put around them. */
attend_status units_open(const summarizer *s, units *u);
void units_close(units *u);
attend_status units_add(units *u, const char *text, size_t start, size_t end,
                        bool ends);
/* The sentences of a text; longer ones are cut between words. */
attend_status units_read(units *u, const char *text, size_t length);

typedef struct {
  int first, count; /* of the units */
} part;

/* Parts of about the same size that fit, `least` of them if they need no more;
 * *parts is the caller's. */
int parts_cut(const units *u, int least, part **parts);

/* ---- the tree ------------------------------------------------------------------- */

enum { MOST_LEVELS = 64 };

typedef struct {
  size_t start, end;            /* bytes of the document that it covers */
  size_t first_word, last_word; /* from 1 */
  int first, count; /* nodes of the level below; count 0: a part of the text */
  summary *best;    /* [n_best] */
  int n_best;
} tree_node;

typedef struct {
  const summary_document *document;
  struct {
    tree_node *node;
    int count;
  } level[MOST_LEVELS]; /* 0: the parts of the document */
  int levels;
  int64_t tokens; /* of the document */
  int cut;        /* tokens that did not fit */
  int kept;       /* summaries that the work folder had */
} summary_tree;

void tree_free(summary_tree *t);
const char *node_text(const tree_node *n);

/* Summaries of parts, then of these, up to the last level. */
int tree_write(const summarize_options *o, summarizer *s,
               const summary_document *d, summary_tree *t);
int tree_print(const summary_tree *t); /* indented, to the standard output */
void tree_put_json(attend_json_writer *w, const summary_tree *t, int level,
                   int i);
/* A page of its own; complains. */
int tree_page(const summary_tree *trees, int count, attend_context *ctx,
              const char *path);

/* ---- the work folder ------------------------------------------------------------ */

/* Summaries of parts, a line each, found again by what they are made of. */
typedef struct journal journal;

/* In the folder of --work; none: keeps nothing. An exit code; complains of a folder that has
 * another's work or is damaged. */
int journal_open(const summarizer *s, const summarize_options *o, journal **j);
int journal_close(journal *j); /* says whether all was kept */
bool journal_find(const journal *j, const char *text, size_t length,
                  summary *one);
void journal_add(journal *j, const char *text, size_t length,
                 const summary *one);

/* ---- the whole ------------------------------------------------------------------ */

/* The document's answer is filled as summaries_write fills it. The folder keeps
 * the reading; NULL: nothing does. */
int linear_write(const summarize_options *o, summarizer *s, const char *folder,
                 summary_document *d);

/* ---- what it takes -------------------------------------------------------------- */

/* Bytes that a batch of texts of so many tokens takes, the model included. */
double batch_bytes(const summarizer *s, int tokens);
double base_bytes(const summarizer *s, const summary_document *d);
size_t peak_bytes(void); /* that this process has held */
/* On stderr, if it will take long: before. */
void say_plan(double tokens, double bytes, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
