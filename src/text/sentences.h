/* Sentences, taken apart.
 *
 * sentences.c walks and judges stops, sentence_lines.c knows how lines are laid out,
 * sentence_words.c what words before and behind a full stop say about it.
 */
#ifndef TEXT_SENTENCES_H
#define TEXT_SENTENCES_H

#include "text/strand.h"

typedef struct {
  const char *bytes;
  size_t length;
} prose;

/* The character at `at` < length and its width; what is no UTF-8 is U+FFFD. */
size_t prose_char(prose p, size_t at, uint32_t *c);

/* Behind the openers (quotes, brackets, dashes, inverted ! and ?), not many, at
 * `at`; the length at most. */
size_t skip_openers(prose p, size_t at);
bool is_closer(uint32_t c);
bool is_stop(uint32_t c);

/* ---- lines ------------------------------------------------------------------- */

/* The width of the line end at `at`, 0 if there is none. */
size_t line_end(prose p, size_t at);
/* Where the line begins that holds `at`, or a place far before `at`. */
size_t line_start(prose p, size_t at);
/* Whether the line after the line end at `end` goes on with what the line at
 * `line` says; the sentence began at `start`. */
bool line_joins(prose p, size_t start, size_t line, size_t end);

/* ---- words ------------------------------------------------------------------- */

/* Whether the single full stop at `stop` ends the sentence from `start`, when
 * the next word begins at `next`; closed: quotes or brackets are between. */
bool full_stop_ends(prose p, size_t start, size_t stop, size_t next,
                    bool closed);
/* "end.Next": a full word, a stop and a capitalized word without a space. */
bool is_glued(prose p, size_t stop);
bool begins_lower(prose p, size_t at);
bool is_pronoun_i(prose p, size_t at);

#endif
