/* What the parts of attend eval --rouge share.
 *
 * rouge_pairs.c reads texts with their references, eval_rouge.c has the options and
 * gets summaries, rouge_tally.c scores them, rouge_print.c says what came out.
 */
#ifndef CLI_ROUGE_H
#define CLI_ROUGE_H

#include "attend/score.h"
#include "summarize/summarize.h"

/* ---- options ---------------------------------------------------------------------- */

typedef struct {
  options common;
  model_options model; /* path NULL: attend:summarizer */
  summary_options how;
  char **data; /* [n_data] files */
  int n_data;
  const char *field, *answer_field; /* NULL: the usual names */
  const char *where;                /* "NAME=TEXT": other lines are left out */
  const char *predictions, *prediction_field;
  const char *baseline; /* "lead", "words:N" */
  int words;            /* of the baseline; 0: the lead sentence */
  int limit;            /* pairs; 0: all */
  attend_rouge_options rouge;
  const char *out;
} rouge_options;

/* ---- pairs -------------------------------------------------------------------------- */

typedef struct {
  char *text; /* ends in a zero byte that length does not count */
  size_t length;
} rouge_text;

typedef struct {
  size_t line;         /* of its file, from 1 */
  rouge_text document; /* text NULL: there is none */
  rouge_text *reference;
  int references;
  rouge_text summary; /* text NULL: not written, after an interrupt */
} rouge_pair;

typedef struct {
  rouge_pair *at;
  int count, capacity;
} rouge_pairs;

/* All files, as the options say; exit codes. */
int pairs_read(attend_context *ctx, const rouge_options *o, rouge_pairs *pairs);
/* The summaries of a file, in the order of the pairs. */
int predictions_read(attend_context *ctx, const rouge_options *o,
                     rouge_pairs *pairs);
void pairs_free(rouge_pairs *pairs);

/* ---- scores --------------------------------------------------------------------------- */

enum {                   /* columns of what is measured of each summary */
       TALLY_ROUGE1 = 0, /* precision, recall, F1 */
       TALLY_ROUGE2 = 3,
       TALLY_ROUGEL = 6,
       TALLY_ROUGELSUM = 9,
       TALLY_WORDS = 12,
       TALLY_REFERENCE_WORDS,
       TALLY_NEW_WORDS, /* shares of the summary's */
       TALLY_NEW_BIGRAMS,
       TALLY_COLUMNS
};

typedef struct {
  double *values; /* [count, TALLY_COLUMNS], of pairs that have a summary */
  int *pair;      /* [count] which they are of */
  int count;
  int empty;    /* summaries without a word */
  bool novelty; /* every pair has a document */
  attend_interval mean[TALLY_COLUMNS];
} rouge_tally;

int tally_make(attend_context *ctx, const rouge_options *o,
               const rouge_pairs *pairs, rouge_tally *tally);
void tally_free(rouge_tally *tally);

/* ---- answers ---------------------------------------------------------------------------- */

typedef struct {
  const rouge_options *o;
  const rouge_pairs *pairs;
  const rouge_tally *tally;
  double seconds; /* that writing the summaries took */
  int cut;        /* documents that were longer than the model reads */
} rouge_answer;

int rouge_print(attend_context *ctx, const rouge_answer *a);
/* The file of --out. */
int rouge_write(attend_context *ctx, const rouge_answer *a);

/* ---- the verb ----------------------------------------------------------------------------- */

/* Whether the arguments of eval ask for it. */
bool is_eval_rouge(int argc, char **argv);
int eval_rouge(int argc, char **argv);

#endif
