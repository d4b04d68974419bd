/* attend/text_train.h - tokenizers learnt from text.
 *
 *   attend_text_trainer *trainer;
 *   attend_text_train_options o = {.like = ATTEND_LIKE_GPT2, .vocab = 8192};
 *   attend_text_trainer_create(ctx, &o, &trainer);
 *   while (more) attend_text_trainer_feed(trainer, text, length);
 *   attend_text_trainer_end(trainer); // of a text; others may follow
 *   attend_text_trainer_learn(trainer);
 *   attend_text_trainer_save(trainer, "models/mine");
 *   attend_text_trainer_free(trainer);
 *
 * Byte pair encoding: of all pairs of neighbours inside words the most frequent
 * becomes a piece of its own, again and again; of equally frequent ones that
 * with the smaller ids (left, then right). WordPiece learns the same way, from
 * characters, with "##" before what does not start a word. So do the trainers
 * of Hugging Face's tokenizers, and the pieces are theirs, save where theirs
 * depend on the order of a hash table: letters that do not start a word have
 * their ids here in the order of their code points. Pieces are those of the
 * text as encoding will cut it: special tokens in it are not learnt from, nor
 * are words that would be [UNK].
 *
 * The result depends on the texts and the options alone: not on their order,
 * on how they were fed, or on the number of threads. Memory grows with the
 * number of different words, not with the length of the text.
 */
#ifndef ATTEND_TEXT_TRAIN_H
#define ATTEND_TEXT_TRAIN_H

#include "attend/text.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Which kind it is, which special tokens it has, what goes around a text. */
typedef enum {
  ATTEND_LIKE_GPT2 = 0, /* byte-level BPE; <|endoftext|>; nothing around */
  ATTEND_LIKE_BERT,     /* WordPiece; [PAD] [UNK] [CLS] [SEP] [MASK];
                           [CLS] text [SEP] */
  ATTEND_LIKE_BART,     /* byte-level BPE; <s> <pad> </s> <unk> <mask>;
                           <s> text </s> */
  ATTEND_LIKE_LLAMA,    /* byte-level BPE; <s> </s>; <s> text */
  ATTEND_LIKES          /* how many there are */
} attend_like;

/* "gpt2", "bert", "bart", "llama"; NULL past the last. */
ATTEND_API const char *attend_like_name(attend_like like);

typedef struct { /* zero means default */
  attend_like like;
  int32_t vocab;               /* pieces in all, special ones too; 0: 8192 */
  uint64_t least;              /* times a pair must occur; 0: 2 */
  int32_t longest;             /* letters of a piece: bytes, at most 128, or
                                   characters, at most 100; 0: the most */
  int32_t alphabet;            /* WordPiece: characters at most, the most
                                   frequent ones; 0: 1000 */
  const char *const *specials; /* [n_specials] besides those of `like` */
  size_t n_specials;
  bool lowercase; /* WordPiece: before anything is counted, and
                                   accents go too, as in BERT, unless */
  bool keep_accents;
  /* Called while learning, after each merge of at most `most`; other than 0 ends
   * it with ATTEND_STOPPED. May be NULL. */
  int (*progress)(size_t merges, size_t most, void *user);
  void *user;
} attend_text_train_options;

typedef struct attend_text_trainer attend_text_trainer;

ATTEND_API attend_status attend_text_trainer_create(
    attend_context *ctx, const attend_text_train_options *options,
    attend_text_trainer **trainer);
ATTEND_API void attend_text_trainer_free(attend_text_trainer *trainer);

/* More of the open text, cut anywhere: words that continue are put together
 * again. */
ATTEND_API attend_status attend_text_trainer_feed(attend_text_trainer *trainer,
                                                  const char *text,
                                                  size_t length);
/* The text ends here; no word goes over into the next. */
ATTEND_API attend_status attend_text_trainer_end(attend_text_trainer *trainer);

/* Learns the merges, once; an open text ends first. A text that has too few
 * pairs for the vocabulary gives a smaller one, which is no failure. */
ATTEND_API attend_status
attend_text_trainer_learn(attend_text_trainer *trainer);

typedef struct {
  uint64_t texts, bytes;  /* as they were fed */
  uint64_t words, tokens; /* in them; tokens as the learnt ones encode them */
  uint64_t unknown;       /* of the tokens: [UNK] */
  size_t distinct;        /* different words */
  int32_t vocab;          /* specials + letters + merges */
  int32_t specials, letters, merges;
} attend_text_trained;

typedef struct {
  const char *left, *right; /* as files write them */
  uint64_t count;           /* of the pair when it was merged */
} attend_text_merge;

/* After learning. The tokenizer belongs to the trainer. */
ATTEND_API const attend_text_trained *attend_text_trainer_report(
    const attend_text_trainer *trainer);
ATTEND_API const attend_tokenizer *attend_text_trainer_tokenizer(
    const attend_text_trainer *trainer);
/* Merge i, from 0; false past the last. */
ATTEND_API bool attend_text_trainer_merge(const attend_text_trainer *trainer,
                                          size_t i, attend_text_merge *merge);

/* Writes tokenizer.json, tokenizer_config.json, special_tokens_map.json, and
 * vocab.json with merges.txt, or vocab.txt, into a folder, which is made if it
 * is not there. All are written beside their places and brought to the disk
 * before the first is renamed. Files of the other kind of tokenizer that lie
 * there are removed. */
ATTEND_API attend_status attend_text_trainer_save(attend_text_trainer *trainer,
                                                  const char *folder);
/* The names of the files that a tokenizer may be made of, NULL past the last. */
ATTEND_API const char *attend_text_trainer_file(int i);

#ifdef __cplusplus
}
#endif
#endif
