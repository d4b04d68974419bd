/* attend/extract.h - the sentences that say most of a text.
 *
 *   attend_extraction *x;
 *   attend_extraction_create(ctx, text, strlen(text), &x);
 *   attend_extraction_rank(x, NULL, 0, NULL);
 *   const attend_ranked_sentence *s;
 *   for (int i = 0; (s = attend_extraction_get(x, i)); i++)
 *     if (s->chosen) use(text + s->start, s->length);
 *   attend_extraction_free(x);
 *
 * Sentences are ranked by centrality, as in LexRank: attention among their vectors
 * (attend_centrality). The vectors are an encoder's, or TF-IDF vectors of the words
 * that sentences share, which need no model.
 */
#ifndef ATTEND_EXTRACT_H
#define ATTEND_EXTRACT_H

#include "attend/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
  size_t start, length; /* bytes of the text, without white space around */
  bool ends_paragraph;
  bool words;        /* has a letter or a digit: a row of the vectors */
  double centrality; /* sums to 1 over sentences with words */
  double height;     /* of the centrality: 0 the text's lowest, 1 its highest */
  int rank;          /* from 1; 0: without words, or not ranked yet */
  bool chosen;
  int same; /* the chosen sentence that it repeats, or -1 */
} attend_ranked_sentence;

typedef struct attend_extraction attend_extraction;

/* Cuts the text into sentences. The text must stay. */
ATTEND_API attend_status attend_extraction_create(attend_context *ctx, const char *text,
                                                  size_t length, attend_extraction **extraction);
ATTEND_API void attend_extraction_free(attend_extraction *extraction);
/* Sentence i in the order of the text; NULL past the last. */
ATTEND_API const attend_ranked_sentence *attend_extraction_get(const attend_extraction *extraction,
                                                               int i);
/* Sentences; sentences with words; those that were chosen. */
ATTEND_API int attend_extraction_count(const attend_extraction *extraction);
ATTEND_API int attend_extraction_rows(const attend_extraction *extraction);
ATTEND_API int attend_extraction_chosen(const attend_extraction *extraction);

typedef struct { /* zero means default */
  size_t size;
  int count; /* sentences to choose */
  /* of the sentences with words, where count is 0; both 0: 3 sentences */
  double share;
  float tau;   /* of attend_centrality: 0: 0.5 */
  double jump; /* of attend_centrality */
  /* sentences are ranked by centrality exp(-lead p), where p goes from 0 to 1 through the text */
  double lead;
  /* a sentence whose cosine with a chosen one is above is passed over; 0: 0.8; 1: none is */
  double alike;
  attend_progress progress; /* other than 0: ATTEND_STOPPED */
  void *user;
} attend_extract_options;
/* Ranks and chooses; may be called again. vectors [rows, width], of length 1, of the
 * sentences with words in their order; NULL: TF-IDF vectors. options may be NULL. */
ATTEND_API attend_status attend_extraction_rank(attend_extraction *extraction, const float *vectors,
                                                int width, const attend_extract_options *options);

/* Ranks several texts of one context, by the vectors of an embedder (attend/embed.h),
 * whose batches they share; NULL: by TF-IDF vectors. progress is called with the share of
 * all text that is done. After ATTEND_STOPPED the first of them are ranked. */
struct attend_embedder;
ATTEND_API attend_status
attend_extractions_rank(int count, attend_extraction *const *extractions /* [count] */,
                        struct attend_embedder *embedder, const attend_extract_options *options);

/* ---- centrality of vectors in a graph of attention ------------------------------- */

/* As LexRank (Erkan and Radev 2004) ranks sentences. Vectors attend to each other, each to
 * all but itself:
 *
 *   a_ij = w_ij / z_i,  w_ij = exp(x_i.x_j / tau),  z_i = sum_{j != i} w_ij
 *
 * The centrality of i is the stationary probability of the Markov chain a. As
 * w_ij = w_ji, it is z_i / sum z without any iteration:
 * sum_i z_i a_ij = sum_i w_ij = z_j. One pass of attention gives all z as its lse, in
 * memory linear in n. */

typedef struct { /* zero means default */
  size_t size;
  float tau; /* temperature; 0: 0.5 */
  /* in [0, 1): probability of a jump to a uniform vector, as in PageRank; with it power
   * iteration runs, a pass of attention each, until the sum of changes is below 1e-6 */
  double jump;
  /* Called with the completed fraction; a result other than 0 ends the call with
   * ATTEND_STOPPED. May be NULL. */
  attend_progress progress;
  void *user;
} attend_centrality_options;

/* x [n, dim], finite; normalise it for cosine similarity. centrality [n] sums to 1 and
 * is bit-identical for any number of threads. options may be NULL. */
ATTEND_API attend_status attend_centrality(attend_context *ctx, const float *x, int n, int dim,
                                           const attend_centrality_options *options,
                                           double *centrality);

#ifdef __cplusplus
}
#endif
#endif
