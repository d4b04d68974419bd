/* attend/score.h - scores of generated texts: ROUGE, novelty, confidence intervals.
 *
 *   attend_rouge_scores s;
 *   attend_rouge(ctx, summary, n, reference, m, NULL, &s);
 *   printf("%.3f\n", s.rouge1.f1);
 *
 * The numbers are bit-identical to those of the Python package rouge_score: letters
 * are lower-cased, everything but a-z and 0-9 separates words, and with `stem` words
 * of more than three characters are stemmed by NLTK's PorterStemmer. Texts may hold any bytes. Time grows with the product of the
 * lengths over 64: two texts of a megabyte take about a second.
 */
#ifndef ATTEND_SCORE_H
#define ATTEND_SCORE_H

#include "attend/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- a summary and a reference ------------------------------------------------ */

typedef struct {
  double precision; /* share of the summary's n-grams that the reference has; 0
                       if it has none */
  double recall;    /* share of the reference's that the summary has */
  double f1;
} attend_score;

typedef struct {
  attend_score rouge1, rouge2; /* words; bigrams */
  attend_score rougeL;         /* the longest common subsequence of words */
  attend_score rougeLsum;      /* by lines: for each line of the reference, the union of
                             those with each line of the summary; without `lines`
                             the same as rougeL */
} attend_rouge_scores;

typedef struct { /* zero means default */
  size_t size;
  int stem;  /* compare stems */
  int lines; /* compute rougeLsum; time grows with lines times words */
} attend_rouge_options;

/* options may be NULL. */
ATTEND_API attend_status attend_rouge(attend_context *ctx, const char *summary, size_t length,
                                      const char *reference, size_t reference_length,
                                      const attend_rouge_options *options,
                                      attend_rouge_scores *scores);
/* Of scores [n] by several references, for each kind the one with the highest F1,
 * the first of equal ones. n is 1 or more. */
ATTEND_API attend_rouge_scores attend_rouge_best(size_t n, const attend_rouge_scores *scores);

/* ---- a summary and its source -------------------------------------------------- */

typedef struct {
  size_t words, new_words; /* of the summary; not in the source */
  size_t bigrams, new_bigrams;
} attend_novelty;

/* Words as ROUGE has them; lines are ignored. */
ATTEND_API attend_status attend_novelty_count(attend_context *ctx, const char *summary,
                                              size_t length, const char *source,
                                              size_t source_length,
                                              const attend_rouge_options *options,
                                              attend_novelty *novelty);

/* Words between white space. */
ATTEND_API size_t attend_word_count(const char *text, size_t length);

/* The stem of a word of a-z and 0-9, in place; returns its length, which is
 * never more. */
ATTEND_API size_t attend_stem(char *word, size_t length);

/* ---- intervals ---------------------------------------------------------------------- */

typedef struct { /* zero means default */
  size_t size;
  int resamples;     /* 0: 1000 */
  double confidence; /* 0: 0.95 */
  uint64_t seed;
} attend_bootstrap_options;

typedef struct {
  double mean;           /* of the values */
  double low, mid, high; /* percentiles of the means of the resamples */
} attend_interval;

/* values [n, columns]: n measurements. A resample draws n rows, the same ones for every
 * column, so that columns can be compared. The same seed gives the same intervals on
 * any number of threads. options may be NULL. */
ATTEND_API attend_status attend_bootstrap(attend_context *ctx, size_t n, size_t columns,
                                          const double *values,
                                          const attend_bootstrap_options *options,
                                          attend_interval *intervals);

#ifdef __cplusplus
}
#endif
#endif
