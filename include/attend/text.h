/* attend/text.h - text to token ids and back; text to sentences.
 *
 *   attend_tokenizer *tok;
 *   attend_encoding *enc;
 *   attend_tokenizer_load(ctx, "models/gpt2", &tok);
 *   attend_encoding_create(tok, &enc);
 *   attend_encode(enc, text, strlen(text), NULL);
 *   for (size_t i = 0; i < enc->count; i++) use(enc->id[i], enc->start[i]);
 *
 * A tokenizer is read from what models are published with:
 *
 *   tokenizer.json             Hugging Face's, all of it in one file
 *   vocab.json + merges.txt    byte-level BPE: GPT-2, RoBERTa, BART
 *   vocab.txt                  WordPiece: BERT
 *   tokenizer.model            SentencePiece: BPE (Llama), unigram (T5), also
 *                              as spiece.model or sentencepiece.bpe.model
 *   tokenizer.bin, tok512.bin  a llama2.c vocabulary
 *
 * and gives the ids of the library that made it, but for three things: the
 * truncation and padding that a tokenizer.json may ask for are the caller's
 * (max_length); a text decodes to exactly one leading space less where a prefix
 * was put in front; bytes that are no character decode to U+FFFD each by
 * itself, not together with good ones beside them. It does not change after
 * loading, so any number of threads may use it, each with encodings and decoders
 * of its own: these are what calls write to, failure sentences too, and they take
 * no memory once they have seen the longest text.
 *
 * Text is UTF-8. Bytes that are not are read as U+FFFD, as Python and Rust
 * replace them, and offsets still point at what was there.
 */
#ifndef ATTEND_TEXT_H
#define ATTEND_TEXT_H

#include <stdbool.h>

#include "attend/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct attend_tokenizer attend_tokenizer;

/* path: a folder of a model, or one of the files above (vocab.json and
 * merges.txt lie side by side). In a folder, tokenizer_config.json,
 * special_tokens_map.json and config.json are read for what the main file
 * leaves open: lower case, special tokens, what goes around a text. What a
 * tokenizer.json asks for and is not known here is refused by name. No file
 * makes loading, encoding or decoding take time or memory out of proportion:
 * pieces, steps and what they make of a text are bounded, far beyond what
 * tokenizers have, and what goes beyond fails with ATTEND_IO or
 * ATTEND_UNSUPPORTED. One exception: an unusual regular expression may scan the
 * rest of the text at each of its steps, the square of a long text. */
ATTEND_API attend_status attend_tokenizer_load(attend_context *ctx,
                                               const char *path,
                                               attend_tokenizer **tokenizer);
ATTEND_API void attend_tokenizer_free(attend_tokenizer *tokenizer);

/* "byte-level BPE", "BPE", "WordPiece" or "unigram". */
ATTEND_API const char *attend_tokenizer_kind(const attend_tokenizer *tokenizer);
/* Every id is below this. */
ATTEND_API int32_t attend_tokenizer_count(const attend_tokenizer *tokenizer);
/* As the file writes it; NULL if the id has none. length may be NULL. */
ATTEND_API const char *attend_tokenizer_piece(const attend_tokenizer *tokenizer,
                                              int32_t id, size_t *length);
/* The id of a piece, -1 if there is none. */
ATTEND_API int32_t attend_tokenizer_find(const attend_tokenizer *tokenizer,
                                         const char *piece, size_t length);

typedef enum {
  ATTEND_SPECIAL_BOS = 0,
  ATTEND_SPECIAL_EOS,
  ATTEND_SPECIAL_UNK,
  ATTEND_SPECIAL_PAD,
  ATTEND_SPECIAL_CLS,
  ATTEND_SPECIAL_SEP,
  ATTEND_SPECIAL_MASK,
  ATTEND_SPECIALS /* how many there are */
} attend_special;

/* -1 if the tokenizer has no such token. */
ATTEND_API int32_t attend_tokenizer_special(const attend_tokenizer *tokenizer,
                                            attend_special which);
/* Whether a decoder that skips special tokens skips this one. */
ATTEND_API bool attend_tokenizer_is_special(const attend_tokenizer *tokenizer,
                                            int32_t id);

/* ---- text to ids ------------------------------------------------------------ */

typedef struct {    /* zero means default */
  bool no_special;  /* nothing around the text: no bos, [CLS], .. */
  const char *pair; /* a second text, or NULL */
  size_t pair_length;
  size_t max_length; /* ids at most, special ones included, and the text as
                        often as a template names it; 0: no limit. The
                        longer text loses from its end first; `dropped` says
                        how many were lost */
} attend_encode_options;

/* The answer, and what making it needs. Read the fields; they stay until the
 * next call. Offsets are bytes [start, end) of the text, or of the pair where
 * part is 1. A token that stands for no text (a special one, a prefix mark by
 * itself) has start = end. */
typedef struct {
  size_t count;
  const int32_t *id;         /* [count] */
  const int32_t *type;       /* [count] segment: 0, or 1 in the second text */
  const size_t *start, *end; /* [count] */
  const signed char *part;   /* [count] 0 text, 1 pair, -1 put around them */
  size_t dropped;
} attend_encoding;

ATTEND_API attend_status attend_encoding_create(
    const attend_tokenizer *tokenizer, attend_encoding **encoding);
ATTEND_API void attend_encoding_free(attend_encoding *encoding);
/* The sentence of the last of its calls that failed. attend_message gives it too,
 * but there another thread's may follow. */
ATTEND_API const char *attend_encoding_message(const attend_encoding *encoding);

/* options may be NULL. */
ATTEND_API attend_status attend_encode(attend_encoding *encoding,
                                       const char *text, size_t length,
                                       const attend_encode_options *options);

/* ---- ids to text ------------------------------------------------------------ */

typedef struct attend_detokenizer attend_detokenizer;

ATTEND_API attend_status
attend_detokenizer_create(const attend_tokenizer *tokenizer, bool skip_special,
                          attend_detokenizer **decoder);
ATTEND_API void attend_detokenizer_free(attend_detokenizer *decoder);
/* As attend_encoding_message. */
ATTEND_API const char *attend_detokenizer_message(
    const attend_detokenizer *decoder);

/* One id at a time. *text is what can be said now, perhaps nothing: bytes of a
 * character that is not complete are held back. It stays until the next call
 * and ends in a zero byte that *length does not count. What all pushes and the
 * finish say, joined, is what attend_decode says. */
ATTEND_API attend_status attend_detokenizer_push(attend_detokenizer *decoder,
                                                 int32_t id, const char **text,
                                                 size_t *length);
/* What was held back; the decoder may then start again. */
ATTEND_API attend_status attend_detokenizer_finish(attend_detokenizer *decoder,
                                                   const char **text,
                                                   size_t *length);
/* All at once, from the beginning. */
ATTEND_API attend_status attend_decode(attend_detokenizer *decoder,
                                       const int32_t *ids, size_t count,
                                       const char **text, size_t *length);

/* ---- text to sentences ------------------------------------------------------ */

/* Bytes [start, start + length) of the text, without white space around. */
typedef struct {
  size_t start, length;
  bool ends_paragraph;
} attend_sentence;

/* The sentence that follows *sentence, which begins as {0}; false behind the
 * last one. Needs no tokenizer and no memory, and cannot fail:
 *
 *   for (attend_sentence s = {0}; attend_sentence_next(text, length, &s);)
 *     use(text + s.start, s.length);
 *
 * Sentences lie in order, do not overlap, and leave out white space alone. Made
 * for English prose; the full stops of other scripts are known. A full stop
 * ends no sentence inside numbers, names and addresses, after initials and
 * abbreviations unless a word that begins sentences follows, or before a lower
 * case letter, save behind a whole word; closing quotes and brackets belong to
 * what they close. Lines that are wrapped are joined; a paragraph ends at a
 * blank line, before items of lists and indented first lines, and at the end of
 * any line that was broken although the next word had room. Any bytes will do:
 * what is no UTF-8 counts as letters. The time is linear in the length, and a
 * text may be cut in pieces behind any sentence that ends a paragraph. */
ATTEND_API bool attend_sentence_next(const char *text, size_t length,
                                     attend_sentence *sentence);

#ifdef __cplusplus
}
#endif
#endif
