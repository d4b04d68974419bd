/* attend/text_train.h - training tokenizers on text.
 *
 *   attend_text_trainer *trainer;
 *   attend_text_train_options o = {ATTEND_INIT(attend_text_train_options), .vocab = 8192};
 *   attend_text_trainer_create(ctx, &o, &trainer);
 *   while (more) attend_text_trainer_feed(trainer, text, length);
 *   attend_text_trainer_end(trainer); // end of a text; others may follow
 *   attend_text_trainer_learn(trainer);
 *   attend_text_trainer_save(trainer, "models/mine");
 *   attend_text_trainer_free(trainer);
 *
 * Byte pair encoding (Sennrich et al. 2016): the most frequent pair of neighbours inside
 * words becomes a new piece, repeatedly; ties go to the smaller ids (left, then right).
 * WordPiece is trained the same way, from characters, with "##" before pieces that
 * continue a word. Hugging Face's trainers do the same, and the pieces are equal, except
 * where theirs depend on the order of a hash table: letters that continue a word are
 * numbered by code point here. Words are split as encoding will split them; special
 * tokens in the text and words that would be [UNK] are not counted.
 *
 * The result depends on the texts and the options only: not on their order, on the
 * chunks they were fed in, or on the number of threads. Memory grows with the number of
 * distinct words, not with the length of the text.
 */
#ifndef ATTEND_TEXT_TRAIN_H
#define ATTEND_TEXT_TRAIN_H

#include "attend/text.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Model type, special tokens and template. */
typedef enum {
  ATTEND_LIKE_GPT2 = 0, /* byte-level BPE; <|endoftext|>; no template */
  /* WordPiece; [PAD] [UNK] [CLS] [SEP] [MASK]; [CLS] text [SEP] */
  ATTEND_LIKE_BERT,
  /* byte-level BPE; <s> <pad> </s> <unk> <mask>; <s> text </s> */
  ATTEND_LIKE_BART,
  ATTEND_LIKE_LLAMA, /* byte-level BPE; <s> </s>; <s> text */
  ATTEND_LIKES       /* their number */
} attend_like;

/* "gpt2", "bert", "bart", "llama"; NULL past the last. */
ATTEND_API const char *attend_like_name(attend_like like);

typedef struct { /* zero means default */
  size_t size;
  attend_like like;
  int32_t vocab; /* size, special tokens included; 0: 8192 */
  uint64_t min;  /* minimum count of a pair; 0: 2 */
  /* maximum length of a piece: bytes, up to 128, or characters, up to 100; 0: the maximum */
  int32_t longest;
  /* WordPiece: number of characters, the most frequent ones; 0: 1000 */
  int32_t alphabet;
  const char *const *specials; /* [n_specials] besides those of `like` */
  size_t n_specials;
  /* WordPiece: lower-case the text, and strip accents as in BERT unless keep_accents */
  bool lowercase;
  bool keep_accents;
  attend_progress progress; /* called after each merge */
  void *user;
} attend_text_train_options;

typedef struct attend_text_trainer attend_text_trainer;

ATTEND_API attend_status attend_text_trainer_create(attend_context *ctx,
                                                    const attend_text_train_options *options,
                                                    attend_text_trainer **trainer);
ATTEND_API void attend_text_trainer_free(attend_text_trainer *trainer);

/* The next chunk of the current text, split anywhere: words across chunks are joined. */
ATTEND_API attend_status attend_text_trainer_feed(attend_text_trainer *trainer, const char *text,
                                                  size_t length);
/* Ends the current text: no word continues into the next. */
ATTEND_API attend_status attend_text_trainer_end(attend_text_trainer *trainer);

/* Trains, once; an open text is ended first. If the text has too few pairs, the
 * vocabulary is smaller than requested, which is no failure. */
ATTEND_API attend_status attend_text_trainer_learn(attend_text_trainer *trainer);

typedef struct {
  uint64_t texts, bytes;  /* fed */
  uint64_t words, tokens; /* in them; tokens by the trained tokenizer */
  uint64_t unknown;       /* of the tokens: [UNK] */
  size_t distinct;        /* distinct words */
  int32_t vocab;          /* specials + letters + merges */
  int32_t specials, letters, merges;
} attend_text_trained;

typedef struct {
  const char *left, *right; /* as files write them */
  uint64_t count;           /* of the pair at the time of the merge */
} attend_text_merge;

/* After training. The tokenizer belongs to the trainer. */
ATTEND_API const attend_text_trained *attend_text_trainer_report(
    const attend_text_trainer *trainer);
ATTEND_API const attend_tokenizer *attend_text_trainer_tokenizer(
    const attend_text_trainer *trainer);
/* Merge i, from 0; false past the last. */
ATTEND_API bool attend_text_trainer_merge(const attend_text_trainer *trainer, size_t i,
                                          attend_text_merge *merge);

/* Writes tokenizer.json, tokenizer_config.json, special_tokens_map.json, and
 * vocab.json with merges.txt, or vocab.txt, into a folder, which is created if
 * needed. All are on disk under temporary names before the first is renamed. Files of
 * the other type of tokenizer are removed. */
ATTEND_API attend_status attend_text_trainer_save(attend_text_trainer *trainer, const char *folder);
/* Name i of the files that a saved tokenizer may have; NULL past the last. */
ATTEND_API const char *attend_text_trainer_file(int i);

#ifdef __cplusplus
}
#endif
#endif
