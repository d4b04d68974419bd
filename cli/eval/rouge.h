/* What the parts of attend eval --rouge share: rouge.c has options and summaries,
 * rouge_pairs.c reads documents with their references, rouge_scores.c scores and
 * prints.
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
  const char *field, *answer_field; /* NULL: the default names */
  const char *where;                /* "NAME=TEXT": other lines are skipped */
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

/* Of all files; exit codes. */
int pairs_read(attend_context *ctx, const rouge_options *o, rouge_pairs *pairs);
/* The summaries of a file, in the order of the pairs. */
int predictions_read(attend_context *ctx, const rouge_options *o, rouge_pairs *pairs);
void pairs_free(rouge_pairs *pairs);

/* ---- scores --------------------------------------------------------------------------- */

enum {                   /* columns of the scores of each summary */
       SCORE_ROUGE1 = 0, /* precision, recall, F1 */
       SCORE_ROUGE2 = 3,
       SCORE_ROUGEL = 6,
       SCORE_ROUGELSUM = 9,
       SCORE_WORDS = 12,
       SCORE_REFERENCE_WORDS,
       SCORE_NEW_WORDS, /* shares of the summary that the document lacks */
       SCORE_NEW_BIGRAMS,
       SCORE_COLUMNS
};

typedef struct {
  double *values; /* [count, SCORE_COLUMNS] of pairs with a summary */
  int *pair;      /* [count] the pair of each */
  int count;
  int empty;    /* summaries without a word */
  bool novelty; /* every pair has a document */
  attend_interval mean[SCORE_COLUMNS];
} rouge_scores;

int scores_make(attend_context *ctx, const rouge_options *o, const rouge_pairs *pairs,
                rouge_scores *scores);
void scores_free(rouge_scores *scores);

/* ---- the report ---------------------------------------------------------------------------- */

typedef struct {
  const rouge_options *o;
  const rouge_pairs *pairs;
  const rouge_scores *scores;
  double seconds; /* of writing the summaries */
  int cut;        /* documents that were truncated */
} rouge_report;

int rouge_print(attend_context *ctx, const rouge_report *a);
/* The file of --out. */
int rouge_write(attend_context *ctx, const rouge_report *a);

/* ---- the verb ----------------------------------------------------------------------------- */

/* Whether --rouge is among the arguments of eval. */
bool is_eval_rouge(int argc, char **argv);
int eval_rouge(int argc, char **argv);

#endif
