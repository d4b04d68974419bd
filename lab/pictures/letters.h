/* Characters of UTF-8, and how wide they are.
 *
 * A token may be a part of a character, or no UTF-8 at all.
 */
#ifndef PICTURES_LETTERS_H
#define PICTURES_LETTERS_H

#include <stddef.h>
#include <stdint.h>

enum { LETTER_NONE = 0xfffd, LETTER_BYTES = 4 };

/* The character at *text, which moves on: 0 at the end; LETTER_NONE for bytes
 * that are none and for control characters, save that the end of a line is
 * given as an arrow down and left, a tab as an arrow to a bar. */
uint32_t letters_next(const char **text);

/* Writes a character, and returns how many bytes it took. */
size_t letters_put(uint32_t code, char bytes[LETTER_BYTES]);

/* Terminal columns of a character: 0 (combining), 1, 2. */
int letters_columns(uint32_t code);

/* Columns of a text as letters_next reads it. */
int letters_width(const char *text);

#endif
