/* The text of a plot as it grows; letters and numbers in it.
 *
 * Under everything that draws.
 */
#include <locale.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/json_tree.h"
#include "plot/plot.h"

void sheet_put(sheet *s, const char *bytes, size_t n) {
  if (!s->status)
    s->status =
        grow(s->ctx, &s->text, &s->capacity, s->length + n + 1, 1, "a plot");
  if (s->status) return;
  memcpy(s->text + s->length, bytes, n);
  s->length += n;
  s->text[s->length] = 0;
}

static void put_text(sheet *s, const char *text) {
  sheet_put(s, text, strlen(text));
}

/* ---- numbers ----------------------------------------------------------------- */

void number_text(double x, int decimals, char text[40]) {
  snprintf(text, 40, "%.*f", decimals, x);
  char *point = strchr(text, *localeconv()->decimal_point);
  if (point) {
    *point = '.';
    char *end = text + strlen(text) - 1;
    while (*end == '0') *end-- = 0;
    if (*end == '.') *end = 0;
  }
  if (!strcmp(text, "-0")) memcpy(text, "0", 2);
}

/* Two digits behind the point are a fortieth of what is seen. */
static void put_number(sheet *s, double x) {
  char text[40];
  number_text(isfinite(x) ? fmax(-1e6, fmin(x, 1e6)) : 0, 2, text);
  put_text(s, text);
}

static void put_integer(sheet *s, int x) {
  char text[16];
  snprintf(text, sizeof text, "%d", x);
  put_text(s, text);
}

/* ---- letters ----------------------------------------------------------------- */

/* A character that XML can hold, and its bytes; else 0 of them. */
static int letter(const char *at, const char *end) {
  const unsigned char *c = (const unsigned char *)at;
  int n = utf8_length(c, (const unsigned char *)end);
  bool control =
      n == 1 ? *c < 0x20 || *c == 0x7f : n == 2 && *c == 0xc2 && c[1] < 0xa0;
  bool none = n == 3 && *c == 0xef && c[1] == 0xbf && c[2] >= 0xbe;
  return control || none ? 0 : n;
}

static const char *entity(char c) {
  switch (c) {
    case '<':
      return "&lt;";
    case '>':
      return "&gt;";
    case '&':
      return "&amp;";
    case '"':
      return "&quot;";
  }
  return NULL;
}

static void put_escaped(sheet *s, const char *text, size_t length) {
  const char *end = text + length;
  while (text < end) {
    int n = letter(text, end);
    if (n == 0)
      put_text(s, strchr("\t\n\r", *text) ? " " : "\xef\xbf\xbd");
    else if (entity(*text))
      put_text(s, entity(*text));
    else
      sheet_put(s, text, (size_t)n);
    text += n ? n : 1;
  }
}

/* Parts of the size; DejaVu Sans and Verdana, the widest that are common. */
static double advance(const char *at, int n) {
  if (n != 1) return n == 2 ? 0.64 : 1;
  if (strchr("ijl|.,:;'!I()[] ft/-", *at)) return 0.4;
  if (strchr("mMW@%w", *at)) return 0.95;
  return *at >= 'A' && *at <= 'Z' ? 0.7 : 0.63;
}

size_t text_fits(const char *text, double size, double most) {
  const char *at = text, *end = text + strlen(text);
  double width = 0;
  while (at < end) {
    int n = letter(at, end);
    width += size * advance(at, n ? n : 1);
    if (width > most) break;
    at += n ? n : 1;
  }
  return (size_t)(at - text);
}

double text_width(const char *text, double size) {
  const char *end = text + strlen(text);
  double width = 0;
  for (int n; text < end; text += n) {
    n = letter(text, end);
    if (!n) n = 1;
    width += size * advance(text, n);
  }
  return width;
}

void sheet_text(sheet *s, const char *look, anchor a, double x, double y,
                int turn, double most, const char *text) {
  static const char *const anchors[] = {"", " m", " e"};
  double size = !strcmp(look, "title") ? TITLE_LETTERS : LETTERS;
  size_t all = strlen(text), fits = text_fits(text, size, most);
  if (fits < all) fits = text_fits(text, size, most - size);
  sheet_add(s, "<text class=\"$$\"", look, anchors[a]);
  if (turn)
    sheet_add(s, " transform=\"translate(# #) rotate(%)\">", x, y, turn);
  else
    sheet_add(s, " x=\"#\" y=\"#\">", x, y);
  put_escaped(s, text, fits);
  sheet_add(s, "$</text>\n", fits < all ? "\xe2\x80\xa6" : "");
}

/* ---- formats ------------------------------------------------------------------- */

void sheet_add(sheet *s, const char *format, ...) {
  va_list args;
  va_start(args, format);
  for (size_t n; *format; format += n) {
    n = strcspn(format, "#@$%");
    sheet_put(s, format, n);
    format += n;
    n = *format ? 1 : 0;
    const char *text =
        *format == '@' || *format == '$' ? va_arg(args, char *) : NULL;
    if (*format == '#') put_number(s, va_arg(args, double));
    if (*format == '%') put_integer(s, va_arg(args, int));
    if (*format == '@') put_escaped(s, text, strlen(text));
    if (*format == '$') put_text(s, text);
  }
  va_end(args);
}
