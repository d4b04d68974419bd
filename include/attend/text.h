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
 * Ids are those of the library that the file is from (Hugging Face tokenizers,
 * SentencePiece, llama2.c), with three differences: truncation and padding that a
 * tokenizer.json requests are left to the caller (max_length); detokenizing removes
 * exactly one leading space where encoding inserted a prefix; invalid bytes decode to
 * one U+FFFD each, without affecting valid bytes beside them.
 *
 * A tokenizer is immutable, so any number of threads may share it, each with encodings
 * and detokenizers of its own. Those hold everything that a call writes, error messages
 * included, and allocate nothing once they have seen the longest text.
 *
 * Text is UTF-8. Invalid bytes are read as U+FFFD, as Python and Rust replace them, and
 * offsets still refer to the original bytes.
 */
#ifndef ATTEND_TEXT_H
#define ATTEND_TEXT_H

#include "attend/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct attend_tokenizer attend_tokenizer;

/* path: a model's folder, or one of the files above (merges.txt is expected beside
 * vocab.json). In a folder, tokenizer_config.json, special_tokens_map.json and
 * config.json supply what the main file leaves open: lower case, special tokens,
 * templates. An unknown step of a tokenizer.json is an error that names it.
 *
 * Time and memory are bounded for any file and text: pieces, steps and the growth of a
 * text have limits far beyond real tokenizers, and exceeding one fails with ATTEND_IO or
 * ATTEND_UNSUPPORTED. One exception: an unusual regular expression may scan the rest of
 * the text at each of its steps, which is quadratic in a long text. */
ATTEND_API attend_status attend_tokenizer_load(attend_context *ctx, const char *path,
                                               attend_tokenizer **tokenizer);
ATTEND_API void attend_tokenizer_free(attend_tokenizer *tokenizer);

/* "byte-level BPE", "BPE", "WordPiece" or "unigram". */
ATTEND_API const char *attend_tokenizer_kind(const attend_tokenizer *tokenizer);
/* Every id is below this. */
ATTEND_API int32_t attend_tokenizer_count(const attend_tokenizer *tokenizer);
/* The piece as the file writes it; NULL if no piece has this id. length may be NULL. */
ATTEND_API const char *attend_tokenizer_piece(const attend_tokenizer *tokenizer, int32_t id,
                                              size_t *length);
/* The token as people read it, into label[size], cut at a whole character: the space before a word
 * is "·", a piece that continues a word begins with "–", spaces are "␣", a line end "↵", a tab "⇥",
 * bytes that are no whole character "⟨E2⟩", nothing "∅"; an id without a piece is its number. Returns
 * its length. For display: different pieces may have one label. */
ATTEND_API size_t attend_tokenizer_label(const attend_tokenizer *tokenizer, int32_t id, char *label,
                                         size_t size);
/* The same of a piece whose tokenizer is not at hand: " the", "▁the" and "##ing" are marked. */
ATTEND_API size_t attend_piece_label(const char *piece, size_t length, char *label, size_t size);
/* The id of a piece, -1 if there is none. */
ATTEND_API int32_t attend_tokenizer_find(const attend_tokenizer *tokenizer, const char *piece,
                                         size_t length);

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
/* Whether a detokenizer that skips special tokens skips this one. */
ATTEND_API bool attend_tokenizer_is_special(const attend_tokenizer *tokenizer, int32_t id);

/* ---- text to ids ------------------------------------------------------------ */

typedef struct { /* zero means default */
  size_t size;
  bool no_special;  /* add no special tokens: bos, [CLS], .. */
  const char *pair; /* a second text, or NULL */
  size_t pair_length;
  /* ids at most, special ones included; 0: no limit. The longer text is truncated first, at its
   * end; `dropped` counts the ids removed */
  size_t max_length;
} attend_encode_options;

/* The result of attend_encode, with its buffers. The fields are read-only and valid
 * until the next call. Offsets are bytes [start, end) of the text, or of the pair where
 * part is 1. A token without text (a special token, a lone prefix mark) has
 * start = end. */
typedef struct {
  size_t count;
  const int32_t *id;         /* [count] */
  const int32_t *type;       /* [count] segment: 0, or 1 in the second text */
  const size_t *start, *end; /* [count] */
  const signed char *part;   /* [count] 0 text, 1 pair, -1 special */
  size_t dropped;
} attend_encoding;

ATTEND_API attend_status attend_encoding_create(const attend_tokenizer *tokenizer,
                                                attend_encoding **encoding);
ATTEND_API void attend_encoding_free(attend_encoding *encoding);
/* The message of its last failed call. attend_message returns it too, unless another
 * thread's failure came later. */
ATTEND_API const char *attend_encoding_message(const attend_encoding *encoding);

/* options may be NULL. */
ATTEND_API attend_status attend_encode(attend_encoding *encoding, const char *text, size_t length,
                                       const attend_encode_options *options);

/* ---- ids to text ------------------------------------------------------------ */

typedef struct attend_detokenizer attend_detokenizer;

ATTEND_API attend_status attend_detokenizer_create(const attend_tokenizer *tokenizer,
                                                   bool skip_special,
                                                   attend_detokenizer **detokenizer);
ATTEND_API void attend_detokenizer_free(attend_detokenizer *detokenizer);
/* As attend_encoding_message. */
ATTEND_API const char *attend_detokenizer_message(const attend_detokenizer *detokenizer);

/* Streaming: one id at a time. *text is the new text, perhaps empty: the bytes of an
 * incomplete character are held back. It is valid until the next call and ends in a
 * zero byte that *length does not count. The texts of all pushes and of the finish,
 * concatenated, are the text of attend_decode. */
ATTEND_API attend_status attend_detokenizer_push(attend_detokenizer *detokenizer, int32_t id,
                                                 const char **text, size_t *length);
/* The text held back; the detokenizer can then be used again. */
ATTEND_API attend_status attend_detokenizer_finish(attend_detokenizer *detokenizer,
                                                   const char **text, size_t *length);
/* All ids at once. */
ATTEND_API attend_status attend_decode(attend_detokenizer *detokenizer, const int32_t *ids,
                                       size_t count, const char **text, size_t *length);

/* ---- text to sentences ------------------------------------------------------ */

/* Bytes [start, start + length) of the text, without surrounding white space. */
typedef struct {
  size_t start, length;
  bool ends_paragraph;
} attend_sentence;

/* Advances *sentence, which starts as {0}, to the next sentence; false after the last.
 * Needs no tokenizer and no memory, and cannot fail:
 *
 *   for (attend_sentence s = {0}; attend_sentence_next(text, length, &s);)
 *     use(text + s.start, s.length);
 *
 * Sentences are in order and do not overlap; only white space is left out. The rules
 * are for English prose and know the stops of other scripts. A full stop ends no
 * sentence inside numbers, names and addresses; after initials and abbreviations, unless
 * a word that typically starts sentences follows; or before a lower-case letter, except
 * after a whole word. Closing quotes and brackets belong to the sentence they close.
 * Hard-wrapped lines are joined. A paragraph ends at a blank line, before list items and
 * indented first lines, and at a line end where the next word would have fitted. Any
 * bytes are accepted: invalid UTF-8 counts as letters. The time is linear, and a text
 * may be split after any sentence that ends a paragraph. */
ATTEND_API bool attend_sentence_next(const char *text, size_t length, attend_sentence *sentence);

#ifdef __cplusplus
}
#endif
#endif
