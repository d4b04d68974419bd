/* attend/fill.h - what a model puts in the place of a mask.
 *
 *   attend_filler *f;
 *   const attend_filled *one;
 *   const char text[] = "Paris is the [MASK] of France.";
 *   attend_filler_create(model, tokenizer, NULL, &f);
 *   attend_fill(f, text, strlen(text), NULL, 0);
 *   for (int i = 0; (one = attend_filler_get(f, i)); i++)
 *     printf("%.3f %s\n", one->probability, one->text);
 *   attend_filler_free(f);
 *
 * A mask in a text is [MASK], <mask>, three or more underscores, or the tokenizer's own
 * mask token. Encoders with a masked-LM head (BERT, DistilBERT, RoBERTa) give the
 * probability of each token at each mask. Encoder-decoders write by beam search: T5
 * (Raffel et al. 2020) what stands between its sentinels, BART (Lewis et al. 2020) the
 * whole text.
 *
 * Fillers of one model may be used on several threads at once, each on one.
 */
#ifndef ATTEND_FILL_H
#define ATTEND_FILL_H

#include "attend/model.h"
#include "attend/text.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct { /* zero means default */
  size_t size;
  int top;     /* the most probable for each mask, or beams; 0: 5 */
  int threads; /* 0: the context's */
  /* Called before the encoder, or each step of the beam search, with the share of
   * the work that is done, from 0 to 1. Other than 0 stops attend_fill with
   * ATTEND_STOPPED. */
  attend_progress progress;
  void *user;
} attend_fill_options;

typedef struct attend_filler attend_filler;

/* Decoders, models without a head and tokenizers without a mask token are refused.
 * Model and tokenizer must outlive the filler. options may be NULL. On failure *filler
 * is NULL and the model's context has the message. */
ATTEND_API attend_status attend_filler_create(attend_model *model,
                                              const attend_tokenizer *tokenizer,
                                              const attend_fill_options *options,
                                              attend_filler **filler);
ATTEND_API void attend_filler_free(attend_filler *filler);
/* The message of the last failed call. */
ATTEND_API const char *attend_filler_message(const attend_filler *filler);

/* Fills every mask of the text and, for encoders, of a second text: pair, or NULL. At
 * most 64 masks of each are found. There are no results after a failure. */
ATTEND_API attend_status attend_fill(attend_filler *filler, const char *text /* [length] */,
                                     size_t length, const char *pair /* [pair_length] */,
                                     size_t pair_length);

/* ---- results: valid until the next attend_fill --------------------------------- */

typedef struct {
  int mask, rank; /* from 0; masks of the pair follow those of the text */
  int32_t id;     /* -1: text that was written, of any number of tokens */
  /* as text, or a WordPiece such as ##s; NULL: BART changed more than the mask */
  const char *token;
  double probability; /* of the token; of all that was written */
  const char *text;   /* text or pair with this mask filled */
} attend_filled;

/* By mask, then by rank; NULL past the last. Other masks of a text stay in place,
 * except where BART writes the whole text: it has one list for all masks. */
ATTEND_API const attend_filled *attend_filler_get(const attend_filler *filler, int i);
/* Masks that were found in text and pair. */
ATTEND_API int attend_filler_masks(const attend_filler *filler);
/* The text with its masks as the tokenizer spells them. */
ATTEND_API const char *attend_filler_text(const attend_filler *filler);

#ifdef __cplusplus
}
#endif
#endif
