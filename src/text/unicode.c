/* UTF-8 and the classes of characters, from utf8proc beyond ASCII. */
#include "text/unicode.h"

#include <string.h>
#include <utf8proc.h>

/* ---- UTF-8 ------------------------------------------------------------------- */

typedef struct { /* what may follow a first byte */
  int more;
  unsigned char low, high; /* of the second byte */
} lead;

static lead lead_of(unsigned char b) {
  if (b >= 0xc2 && b <= 0xdf) return (lead){1, 0x80, 0xbf};
  if (b == 0xe0) return (lead){2, 0xa0, 0xbf};
  if (b == 0xed) return (lead){2, 0x80, 0x9f};
  if (b >= 0xe1 && b <= 0xef) return (lead){2, 0x80, 0xbf};
  if (b == 0xf0) return (lead){3, 0x90, 0xbf};
  if (b >= 0xf1 && b <= 0xf3) return (lead){3, 0x80, 0xbf};
  if (b == 0xf4) return (lead){3, 0x80, 0x8f};
  return (lead){0, 0, 0};
}

int utf8_read(const char *text, size_t n, uint32_t *c) {
  const unsigned char *s = (const unsigned char *)text;
  *c = s[0];
  if (s[0] < 0x80) return 1;
  lead l = lead_of(s[0]);
  *c = UTF8_BAD;
  if (!l.more) return -1;
  uint32_t value = s[0] & (0x3fu >> l.more);
  for (int i = 1; i <= l.more; i++) {
    unsigned char low = i == 1 ? l.low : 0x80, high = i == 1 ? l.high : 0xbf;
    if ((size_t)i >= n) *c = UTF8_OPEN;
    if ((size_t)i >= n || s[i] < low || s[i] > high) return -i;
    value = value << 6 | (s[i] & 63u);
  }
  *c = value;
  return l.more + 1;
}

int utf8_write(uint32_t c, char out[4]) {
  int more = c < 0x80 ? 0 : c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
  static const unsigned char first[4] = {0, 0xc0, 0xe0, 0xf0};
  for (int i = more; i > 0; i--, c >>= 6) out[i] = (char)(0x80 | (c & 63));
  out[0] = (char)(first[more] | c);
  return more + 1;
}

/* The first non-ASCII byte at or after `at`; n if there is none. */
static size_t ascii_end(const char *s, size_t n, size_t at) {
  for (uint64_t eight; n - at >= 8; at += 8) {
    memcpy(&eight, s + at, 8);
    if (eight & UINT64_C(0x8080808080808080)) break;
  }
  while (at < n && !((unsigned char)s[at] & 0x80)) at++;
  return at;
}

bool utf8_is_valid(const char *s, size_t n) {
  uint32_t c;
  for (size_t i = ascii_end(s, n, 0); i < n; i = ascii_end(s, n, i)) {
    int length = utf8_read(s + i, n - i, &c);
    if (length < 0) return false;
    i += (size_t)length;
  }
  return true;
}

/* ---- kinds of characters ------------------------------------------------------- */

/* Fast path: ideographs and Hangul are letters without case. */
static bool is_plain_letter(uint32_t c) {
  return (c >= 0x3400 && c <= 0x4dbf) || (c >= 0x4e00 && c <= 0x9ffc) ||
         (c >= 0xac00 && c <= 0xd7a3);
}

static utf8proc_category_t category(uint32_t c) {
  if (is_plain_letter(c)) return UTF8PROC_CATEGORY_LO;
  return c > 0x10ffff ? UTF8PROC_CATEGORY_CN : utf8proc_category((utf8proc_int32_t)c);
}

static bool is_between(uint32_t c, utf8proc_category_t first, utf8proc_category_t last) {
  utf8proc_category_t k = category(c);
  return k >= first && k <= last;
}

const unsigned char ascii_kinds[128] = {[9] = ASCII_SPACE,           [10] = ASCII_SPACE,
                                        [11] = ASCII_SPACE,          [12] = ASCII_SPACE,
                                        [13] = ASCII_SPACE,          [' '] = ASCII_SPACE,
                                        ['!' ... '/'] = ASCII_PUNCT, ['0' ... '9'] = ASCII_NUMBER,
                                        [':' ... '@'] = ASCII_PUNCT, ['A' ... 'Z'] = ASCII_LETTER,
                                        ['[' ... '`'] = ASCII_PUNCT, ['a' ... 'z'] = ASCII_LETTER,
                                        ['{' ... '~'] = ASCII_PUNCT};

bool is_space_beyond(uint32_t c) {
  if (c > 0x3000 || (c > 0xa0 && c < 0x1680)) return false;
  return c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 ||
         c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

bool is_letter_beyond(uint32_t c) {
  return is_between(c, UTF8PROC_CATEGORY_LU, UTF8PROC_CATEGORY_LO);
}

bool is_number_beyond(uint32_t c) {
  return is_between(c, UTF8PROC_CATEGORY_ND, UTF8PROC_CATEGORY_NO);
}

bool is_punctuation_beyond(uint32_t c) {
  return is_between(c, UTF8PROC_CATEGORY_PC, UTF8PROC_CATEGORY_PO);
}

bool is_mark(uint32_t c) {
  return c >= 0x300 && is_between(c, UTF8PROC_CATEGORY_MN, UTF8PROC_CATEGORY_ME);
}

bool is_nonspacing(uint32_t c) { return c >= 0x300 && category(c) == UTF8PROC_CATEGORY_MN; }

bool is_control(uint32_t c) {
  if (c == '\t' || c == '\n' || c == '\r') return false;
  return is_between(c, UTF8PROC_CATEGORY_CC, UTF8PROC_CATEGORY_CO);
}

bool is_word(uint32_t c) {
  if (c < 0x80) return is_letter(c) || is_number(c) || c == '_';
  utf8proc_category_t k = category(c);
  return (k >= UTF8PROC_CATEGORY_LU && k <= UTF8PROC_CATEGORY_NL) || k == UTF8PROC_CATEGORY_PC ||
         c == 0x200c || c == 0x200d;
}

bool is_chinese(uint32_t c) {
  return (c >= 0x4e00 && c <= 0x9fff) || (c >= 0x3400 && c <= 0x4dbf) ||
         (c >= 0x20000 && c <= 0x2a6df) || (c >= 0x2a700 && c <= 0x2b73f) ||
         (c >= 0x2b740 && c <= 0x2b81f) || (c >= 0x2b920 && c <= 0x2ceaf) ||
         (c >= 0xf900 && c <= 0xfaff) || (c >= 0x2f800 && c <= 0x2fa1f);
}

bool is_upper(uint32_t c) {
  utf8proc_category_t k = category(c);
  return k == UTF8PROC_CATEGORY_LU || k == UTF8PROC_CATEGORY_LT;
}
bool is_lower(uint32_t c) { return category(c) == UTF8PROC_CATEGORY_LL; }
uint32_t lower_of(uint32_t c) {
  if (c < 0x80) return c >= 'A' && c <= 'Z' ? c + 32 : c;
  if (c == 0x130) return 'i';
  if (is_plain_letter(c)) return c;
  return (uint32_t)utf8proc_tolower((utf8proc_int32_t)c);
}
