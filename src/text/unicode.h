/* UTF-8 and the classes of characters. */
#ifndef TEXT_UNICODE_H
#define TEXT_UNICODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- UTF-8 ----------------------------------------------------------------- */

enum {
  UTF8_REPLACEMENT = 0xfffd,
  UTF8_OPEN = 0x110000, /* the bytes end inside a character */
  UTF8_BAD = 0x110001
};

/* Length of the character at s, and the character; if it is malformed, minus
 * the length of what one U+FFFD replaces, and UTF8_OPEN or UTF8_BAD. n > 0. */
int utf8_read(const char *s, size_t n, uint32_t *c);
int utf8_write(uint32_t c, char out[4]);

/* For bytes known to be well formed. */
static inline size_t utf8_next(const char *text, size_t n, uint32_t *c) {
  const unsigned char *s = (const unsigned char *)text;
  size_t width = s[0] < 0x80 ? 1 : s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;
  *c = UTF8_REPLACEMENT;
  if (width > n) return n;
  if (width == 1) *c = s[0];
  if (width == 2) *c = (s[0] & 31u) << 6 | (s[1] & 63u);
  if (width == 3) *c = (s[0] & 15u) << 12 | (s[1] & 63u) << 6 | (s[2] & 63u);
  if (width == 4) *c = (s[0] & 7u) << 18 | (s[1] & 63u) << 12 | (s[2] & 63u) << 6 | (s[3] & 63u);
  return width;
}

bool utf8_is_valid(const char *s, size_t n);

/* ---- kinds of characters ----------------------------------------------------- */

enum { ASCII_SPACE = 1, ASCII_LETTER = 2, ASCII_NUMBER = 4, ASCII_PUNCT = 8 };
extern const unsigned char ascii_kinds[128];

bool is_space_beyond(uint32_t c); /* beyond ASCII */
bool is_letter_beyond(uint32_t c);
bool is_number_beyond(uint32_t c);
bool is_punctuation_beyond(uint32_t c);

static inline bool is_space(uint32_t c) { /* White_Space */
  return c < 0x80 ? ascii_kinds[c] & ASCII_SPACE : is_space_beyond(c);
}
static inline bool is_letter(uint32_t c) {
  return c < 0x80 ? ascii_kinds[c] & ASCII_LETTER : is_letter_beyond(c);
}
static inline bool is_number(uint32_t c) {
  return c < 0x80 ? ascii_kinds[c] & ASCII_NUMBER : is_number_beyond(c);
}
/* Of ASCII all that is printed, and category P. */
static inline bool is_punctuation(uint32_t c) {
  return c < 0x80 ? ascii_kinds[c] & ASCII_PUNCT : is_punctuation_beyond(c);
}
bool is_mark(uint32_t c);
bool is_nonspacing(uint32_t c);
bool is_control(uint32_t c); /* category C, but for tab and line ends */
bool is_word(uint32_t c);    /* \w */
bool is_upper(uint32_t c);   /* categories Lu and Lt */
bool is_lower(uint32_t c);
uint32_t lower_of(uint32_t c);
bool is_chinese(uint32_t c); /* an ideograph, as BERT counts them */

#endif
