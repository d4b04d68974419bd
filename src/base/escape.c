/* Escapes text of unknown origin: for terminals, and for HTML and XML.
 *
 * Every sentence of a context goes through attend_escape (fail), and so do names and
 * tokens that the program prints.
 */
#include <stdio.h>
#include <string.h>

#include "base/base.h"

int utf8_length(const unsigned char *s, const unsigned char *end) {
  int more = s[0] < 0x80 ? 0 : s[0] < 0xe0 ? 1 : s[0] < 0xf0 ? 2 : 3;
  if (!more) return 1;
  if (s[0] < 0xc2 || s[0] > 0xf4 || end - s <= more) return 0;
  for (int i = 1; i <= more; i++)
    if ((s[i] & 0xc0) != 0x80) return 0;
  if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) ||
      (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f))
    return 0;
  return more + 1;
}

typedef struct {
  char *out;
  size_t size, used;
} output;

/* Whole pieces alone: what does not fit is counted and left out. */
static void put(output *o, const char *piece, size_t length) {
  if (o->used + length < o->size) memcpy(o->out + o->used, piece, length);
  o->used += length;
  if (o->used < o->size) o->out[o->used] = 0;
}

/* C0, DEL, and C1 in its two bytes. */
static bool is_control(const unsigned char *s, int length) {
  if (length == 1) return *s < 0x20 || *s == 0x7f;
  return length == 2 && s[0] == 0xc2 && s[1] < 0xa0;
}

/* What stands for a character of n bytes, or for a byte that is not UTF-8 (n 0); NULL: it
 * stands for itself. */
typedef const char *(*replacement)(const unsigned char *s, int n, const char *keep, char piece[16]);

static size_t escape(const char *text, size_t length, replacement of, const char *keep, char *out,
                     size_t size) {
  const unsigned char *s = (const unsigned char *)text, *end = s + length;
  char piece[16];
  output o = {out, size, 0};
  put(&o, "", 0);
  for (int n; s < end; s += n ? n : 1) {
    n = utf8_length(s, end);
    const char *instead = of(s, n, keep, piece);
    if (instead)
      put(&o, instead, strlen(instead));
    else
      put(&o, (const char *)s, (size_t)n);
  }
  return o.used;
}

static const char *for_terminal(const unsigned char *s, int n, const char *keep, char piece[16]) {
  if (n && (!is_control(s, n) || (*s && strchr(keep, *s)))) return NULL;
  for (int i = 0; i < (n ? n : 1); i++) snprintf(piece + 4 * i, 5, "\\x%02x", s[i]);
  return piece;
}

size_t attend_escape(const char *text, size_t length, const char *keep, char *out, size_t size) {
  return escape(text, length, for_terminal, keep, out, size);
}

static const char *for_xml(const unsigned char *s, int n, const char *keep, char piece[16]) {
  static const char no_character[] = "\xef\xbf\xbd";
  bool noncharacter = n == 3 && s[0] == 0xef && s[1] == 0xbf && s[2] >= 0xbe;
  (void)keep, (void)piece;
  if (!n || noncharacter) return no_character;
  if (is_control(s, n) && (n > 1 || !*s || !strchr("\t\n\r", *s))) return no_character;
  return *s == '<'   ? "&lt;"
         : *s == '>' ? "&gt;"
         : *s == '&' ? "&amp;"
         : *s == '"' ? "&quot;"
                     : NULL;
}

size_t attend_escape_xml(const char *text, size_t length, char *out, size_t size) {
  return escape(text, length, for_xml, "", out, size);
}
