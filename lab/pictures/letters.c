/* Characters of UTF-8, and how wide they are. */
#include "pictures/letters.h"

#include <stdbool.h>

static int length_of(unsigned char first) {
  if (first < 0x80) return 1;
  if (first >= 0xc2 && first < 0xe0) return 2;
  if (first >= 0xe0 && first < 0xf0) return 3;
  if (first >= 0xf0 && first < 0xf5) return 4;
  return 0;
}

static uint32_t shown(uint32_t code) {
  if (code == '\n') return 0x21b5;
  if (code == '\t') return 0x21e5;
  bool control = code < 0x20 || (code >= 0x7f && code < 0xa0);
  bool surrogate = code >= 0xd800 && code < 0xe000;
  bool nothing = (code & 0xfffe) == 0xfffe || code > 0x10ffff;
  return control || surrogate || nothing ? LETTER_NONE : code;
}

uint32_t letters_next(const char **text) {
  static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
  const unsigned char *at = (const unsigned char *)*text;
  int length = length_of(*at);
  if (*at == 0) return 0;
  *text += 1;
  if (length == 0) return LETTER_NONE;
  uint32_t code = length == 1 ? *at : *at & (0x7fu >> length);
  for (int i = 1; i < length; i++) {
    if ((at[i] & 0xc0) != 0x80) return LETTER_NONE;
    code = code << 6 | (at[i] & 0x3f);
  }
  if (code < least[length]) return LETTER_NONE;
  *text += length - 1;
  return shown(code);
}

size_t letters_put(uint32_t code, char bytes[LETTER_BYTES]) {
  size_t length = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
  static const unsigned char first[] = {0, 0, 0xc0, 0xe0, 0xf0};
  for (size_t i = length; i-- > 1; code >>= 6) bytes[i] = (char)(0x80 | (code & 0x3f));
  bytes[0] = (char)(first[length] | code);
  return length;
}

/* ---- columns ------------------------------------------------------------------ */

typedef struct {
  uint32_t first, last;
} range;

/* Marks that join the letter before, of the scripts that tokens mostly have. */
static const range joining[] = {
    {0x300, 0x36f},   {0x483, 0x489},     {0x591, 0x5bd},    {0x5bf, 0x5bf},   {0x5c1, 0x5c2},
    {0x610, 0x61a},   {0x64b, 0x65f},     {0x670, 0x670},    {0x900, 0x902},   {0x93a, 0x93a},
    {0x93c, 0x93c},   {0x941, 0x948},     {0x94d, 0x94d},    {0x951, 0x957},   {0xe31, 0xe31},
    {0xe34, 0xe3a},   {0xe47, 0xe4e},     {0x1ab0, 0x1aff},  {0x1dc0, 0x1dff}, {0x200b, 0x200f},
    {0x202a, 0x202e}, {0x2060, 0x2064},   {0x20d0, 0x20ff},  {0xfe00, 0xfe0f}, {0xfe20, 0xfe2f},
    {0xfeff, 0xfeff}, {0x1f3fb, 0x1f3ff}, {0xe0100, 0xe01ef}};

static const range wide[] = {{0x1100, 0x115f},   {0x2e80, 0x303e},   {0x3041, 0xa4cf},
                             {0xac00, 0xd7a3},   {0xf900, 0xfaff},   {0xfe30, 0xfe6f},
                             {0xff00, 0xff60},   {0xffe0, 0xffe6},   {0x1f300, 0x1f64f},
                             {0x1f680, 0x1f6ff}, {0x1f900, 0x1faff}, {0x20000, 0x3fffd}};

static bool is_in(uint32_t code, const range *ranges, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (code >= ranges[i].first && code <= ranges[i].last) return true;
  return false;
}

int letters_columns(uint32_t code) {
  if (code < 0x300) return 1;
  if (is_in(code, joining, sizeof joining / sizeof *joining)) return 0;
  return is_in(code, wide, sizeof wide / sizeof *wide) ? 2 : 1;
}

int letters_width(const char *text) {
  int width = 0;
  for (uint32_t code; (code = letters_next(&text));) width += letters_columns(code);
  return width;
}
