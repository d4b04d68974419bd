/* Text that remembers where it came from, and UTF-8.
 *
 * Normalizers and pre-tokenizers rewrite strands; tokens ask them for places in the
 * caller's bytes.
 *
 * Every byte of a strand carries the range [from, to) of the original that it
 * stands for. Bytes that were put in by nobody's text (a prefix mark) carry an
 * empty range. A view without ranges is the original itself, from `base` on.
 */
#ifndef TEXT_STRAND_H
#define TEXT_STRAND_H

#include <string.h>

#include "base/base.h"

typedef struct {
  uint32_t start, end;
} span;

typedef struct {
  const char *bytes;
  const uint32_t *from, *to; /* [length], or NULL: base + i, base + i + 1 */
  size_t length;
  uint32_t base;
} view;

typedef struct { /* a view with room to grow */
  char *bytes;
  uint32_t *from, *to;
  size_t length, capacity;
  size_t most; /* that it may grow to; what it has already it may use */
} strand;

static inline uint32_t view_from(const view *v, size_t i) {
  return v->from ? v->from[i] : v->base + (uint32_t)i;
}
static inline uint32_t view_to(const view *v, size_t i) {
  return v->to ? v->to[i] : v->base + (uint32_t)i + 1;
}
static inline view view_slice(const view *v, size_t start, size_t end) {
  view s = {v->bytes ? v->bytes + start : NULL,
            v->from ? v->from + start : NULL, v->to ? v->to + start : NULL,
            end - start, v->base + (uint32_t)start};
  return s;
}
static inline view strand_view(const strand *s) {
  return (view){s->bytes, s->from, s->to, s->length, 0};
}

/* What steps may make of a text: so many times its bytes, and some for
 * prefixes. NFKD makes 33 bytes of the 3 of U+FDFA, and no character grows
 * more. */
enum { MOST_GROWTH = 32, MOST_PREFIXES = 1 << 16 };
/* Fails: steps have made more of a text. */
attend_status strand_too_long(attend_context *ctx);

/* Appends bytes that all stand for the same range. */
attend_status strand_put(attend_context *ctx, strand *s, const char *bytes,
                         size_t length, uint32_t from, uint32_t to);
/* Appends bytes [start, end) of a view, ranges and all. */
attend_status strand_copy(attend_context *ctx, strand *s, const view *v,
                          size_t start, size_t end);
attend_status strand_put_char(attend_context *ctx, strand *s, uint32_t c,
                              uint32_t from, uint32_t to);
void strand_free(const attend_context *ctx, strand *s);

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
  if (width == 4)
    *c = (s[0] & 7u) << 18 | (s[1] & 63u) << 12 | (s[2] & 63u) << 6 |
         (s[3] & 63u);
  return width;
}

bool utf8_is_valid(const char *s, size_t n);
/* Appends the text with malformed bytes replaced as Rust and Python do. */
attend_status strand_put_lossy(attend_context *ctx, strand *s, const char *text,
                               size_t length);

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
