/* Text from files, for people: nothing in it steers a terminal.
 *
 * Every sentence of a context goes through here (fail), and what the program prints of
 * names and tokens.
 */
#include <stdio.h>
#include <string.h>

#include "base/json_tree.h"

/* C0, DEL, and C1 in its two bytes. */
static bool is_control(const unsigned char *s, int length) {
  if (length == 1) return *s < 0x20 || *s == 0x7f;
  return length == 2 && s[0] == 0xc2 && s[1] < 0xa0;
}

size_t attend_escape(const char *text, size_t length, const char *keep,
                     char *out, size_t size) {
  const unsigned char *s = (const unsigned char *)text, *end = s + length;
  size_t used = 0;
  while (s < end) {
    int n = utf8_length(s, end);
    bool plain = n && (!is_control(s, n) || (*s && strchr(keep, *s)));
    char piece[16];
    int bytes = n ? n : 1, wrote = 0;
    for (int i = 0; i < bytes; i++)
      wrote += plain ? (piece[i] = (char)s[i], 1)
                     : snprintf(piece + wrote, sizeof piece - (size_t)wrote,
                                "\\x%02x", s[i]);
    if (used + (size_t)wrote < size) memcpy(out + used, piece, (size_t)wrote);
    used += (size_t)wrote;
    if (used < size) out[used] = 0;
    s += bytes;
  }
  if (!length && size) *out = 0;
  return used;
}
