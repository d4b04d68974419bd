/* What the files of scoring share: words as ids, and subsequences of them.
 *
 * words.c tokenizes texts, stem.c stems words, lcs.c finds longest common
 * subsequences, rouge.c scores, bootstrap.c computes confidence intervals, pairs.c reads
 * and scores files.
 */
#ifndef SCORE_SCORE_H
#define SCORE_SCORE_H

#include "attend/score.h"
#include "base/base.h"

/* ---- words (words.c) -------------------------------------------------------- */

typedef struct {
  size_t count;
  uint32_t *id;   /* [count] equal for equal words */
  uint32_t *line; /* [count] of the text, from 0 */
} word_list;

typedef struct {
  void *block;
  word_list list[2]; /* words of the two texts */
  size_t kinds;      /* ids are below it */
} word_pair;

typedef struct {
  const char *bytes;
  size_t length;
} span;

attend_status words_read(attend_context *ctx, const span text[2], bool stem, word_pair *words);
void words_free(attend_context *ctx, word_pair *words);

/* ---- subsequences (lcs.c) ----------------------------------------------------------- */

/* The length of the longest common subsequence. Ids are below `kinds`. Memory is
 * linear in kinds and the lengths. */
attend_status lcs_length(attend_context *ctx, size_t kinds, size_t n, const uint32_t *a, size_t m,
                         const uint32_t *b, size_t *length);

/* For each line of a: the places that belong to its longest common subsequence
 * with any line of b; of equally long ones, the one that backtracking from the ends
 * finds, preferring a step in a. in_any [a->count]: 1 there, else 0. */
attend_status lcs_union(attend_context *ctx, size_t kinds, const word_list *a, const word_list *b,
                        unsigned char *in_any);

#endif
