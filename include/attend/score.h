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
  /* share of the summary's n-grams that the reference has; 0 if it has none */
  double precision;
  double recall; /* share of the reference's that the summary has */
  double f1;
} attend_score;

typedef struct {
  attend_score rouge1, rouge2; /* words; bigrams */
  attend_score rougeL;         /* the longest common subsequence of words */
  /* by lines: for each line of the reference, the union of those with each line of the summary;
   * without `lines` the same as rougeL */
  attend_score rougeLsum;
} attend_rouge_scores;

typedef struct { /* zero means default */
  size_t size;
  bool stem;  /* compare stems */
  bool lines; /* compute rougeLsum; time grows with lines times words */
} attend_rouge_options;

/* options may be NULL. */
ATTEND_API attend_status attend_rouge(attend_context *ctx, const char *summary, size_t length,
                                      const char *reference, size_t reference_length,
                                      const attend_rouge_options *options,
                                      attend_rouge_scores *scores);
/* Of scores [n] by several references, for each kind the one with the highest F1,
 * the first of equal ones. n is 1 or more. */
ATTEND_API void attend_rouge_best(size_t n, const attend_rouge_scores *scores,
                                  attend_rouge_scores *best);

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

/* ---- many summaries ----------------------------------------------------------------- */

/*   attend_pairs *pairs;
 *   attend_pairs_report report;
 *   const char *files[] = {"test.jsonl"};
 *   attend_pairs_read(ctx, 1, files, NULL, &pairs);
 *   attend_pairs_read_summaries(pairs, "summaries.txt", NULL);
 *   attend_pairs_score(pairs, NULL, &report);
 *   printf("ROUGE-1: %.3f\n", report.mean[ATTEND_PAIR_ROUGE1 + 2].mean);
 *   attend_pairs_free(pairs);
 */
typedef struct attend_pairs attend_pairs;

typedef struct {
  const char *text; /* [length], a zero byte behind it; NULL: there is none */
  size_t length;
} attend_pair_text;

typedef struct { /* a document, its references and its summary */
  size_t line;   /* of its file, from 1 */
  attend_pair_text document, summary;
  const attend_pair_text *reference; /* [references] */
  int references;
} attend_pair;

typedef struct { /* zero means default */
  size_t size;
  /* Members of .jsonl lines. NULL: "document" or "source"; "summary" or "target", a text
   * or a list of them. */
  const char *document, *reference;
  const char *where; /* "NAME=TEXT": only lines whose member NAME is TEXT */
  int limit;         /* the first pairs; 0: all */
  int may_lack;      /* lines without a document are pairs, too */
} attend_pairs_options;

/* From files: .tsv, a document and a reference in columns, or else lines of JSON; "-" is
 * the standard input. A line without the members is ATTEND_UNSUPPORTED. options may be
 * NULL. */
ATTEND_API attend_status attend_pairs_read(attend_context *ctx, int count, const char *const *files,
                                           const attend_pairs_options *options,
                                           attend_pairs **pairs);
ATTEND_API void attend_pairs_free(attend_pairs *pairs);
ATTEND_API int attend_pairs_count(const attend_pairs *pairs);
/* NULL past the last. */
ATTEND_API const attend_pair *attend_pairs_get(const attend_pairs *pairs, int i);

/* Summaries: copied from a text; all of them from a file, in the order of the pairs, a
 * line each, or .jsonl with a member (NULL: "summary" or "prediction"); the first words of
 * each document, 0: its first sentence. */
ATTEND_API attend_status attend_pairs_set_summary(attend_pairs *pairs, int i, const char *text,
                                                  size_t length);
ATTEND_API attend_status attend_pairs_read_summaries(attend_pairs *pairs, const char *file,
                                                     const char *member);
ATTEND_API attend_status attend_pairs_lead(attend_pairs *pairs, int words);

enum {                         /* numbers of a summary */
       ATTEND_PAIR_ROUGE1 = 0, /* precision, recall, F1: of the nearest reference */
       ATTEND_PAIR_ROUGE2 = 3,
       ATTEND_PAIR_ROUGEL = 6,
       ATTEND_PAIR_ROUGELSUM = 9,
       ATTEND_PAIR_WORDS = 12,
       ATTEND_PAIR_REFERENCE_WORDS,
       ATTEND_PAIR_NEW_WORDS, /* shares of the summary that the document lacks */
       ATTEND_PAIR_NEW_BIGRAMS,
       ATTEND_PAIR_NUMBERS
};

typedef struct { /* zero means default */
  size_t size;
  attend_rouge_options rouge;
  attend_bootstrap_options bootstrap;
  attend_progress progress; /* other than 0: ATTEND_STOPPED */
  void *user;
} attend_pairs_score_options;

typedef struct {
  int scored;    /* pairs with a summary */
  int empty;     /* of them, summaries without a word */
  int documents; /* of them, pairs with a document: new words are known of these */
  attend_interval mean[ATTEND_PAIR_NUMBERS];
} attend_pairs_report;

/* Scores the pairs that have a summary; options may be NULL. */
ATTEND_API attend_status attend_pairs_score(attend_pairs *pairs,
                                            const attend_pairs_score_options *options,
                                            attend_pairs_report *report);
/* [ATTEND_PAIR_NUMBERS]; NULL: not scored. */
ATTEND_API const double *attend_pairs_numbers(const attend_pairs *pairs, int i);

#ifdef __cplusplus
}
#endif
#endif
