/* Writes SVG: a growing text, numbers and escaped labels in it. */
#include "svg/svg.h"

#include <locale.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- memory ------------------------------------------------------------------ */

void svg_free(svg *s) {
  if (s->text && s->memory.release)
    s->memory.release(s->text, s->memory.user);
  else
    free(s->text);
  s->text = NULL;
  s->length = s->capacity = 0;
}

/* Room for n more bytes and the zero that ends the text. */
static bool reserve(svg *s, size_t n) {
  if (s->status || s->capacity - s->length > n) return !s->status;
  svg grown = *s;
  grown.capacity = (2 * (s->length + n) + 4096) / 64 * 64;
  grown.text = s->memory.allocate ? s->memory.allocate(grown.capacity, s->memory.user)
                                  : calloc(grown.capacity, 1);
  if (!grown.text) {
    s->status = ATTEND_NO_MEMORY;
    return false;
  }
  if (s->length) memcpy(grown.text, s->text, s->length);
  svg_free(s);
  *s = grown;
  return true;
}

void svg_put(svg *s, const char *bytes, size_t n) {
  if (!reserve(s, n)) return;
  memcpy(s->text + s->length, bytes, n);
  s->length += n;
  s->text[s->length] = 0;
}

static void put_text(svg *s, const char *text) { svg_put(s, text, strlen(text)); }

/* ---- values ------------------------------------------------------------------ */

void svg_number(double x, int decimals, char text[40]) {
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

/* Two decimals of a px are finer than a screen shows. */
static void put_number(svg *s, double x) {
  char text[40];
  svg_number(isfinite(x) ? fmax(-1e6, fmin(x, 1e6)) : 0, 2, text);
  put_text(s, text);
}

static void put_integer(svg *s, long long x) {
  char text[24];
  snprintf(text, sizeof text, "%lld", x);
  put_text(s, text);
}

static void put_colour(svg *s, const colour *c) {
  char text[8];
  snprintf(text, sizeof text, "#%02x%02x%02x", c->r, c->g, c->b);
  put_text(s, text);
}

void svg_escape(svg *s, const char *text, size_t n) {
  size_t size = attend_escape_xml(text, n, NULL, 0);
  if (!reserve(s, size)) return;
  attend_escape_xml(text, n, s->text + s->length, size + 1);
  s->length += size;
}

static void put_argument(svg *s, char kind, va_list *args) {
  const char *text;
  switch (kind) {
    case 'f':
      put_number(s, va_arg(*args, double));
      break;
    case 'd':
      put_integer(s, va_arg(*args, int));
      break;
    case 'z':
      put_integer(s, (long long)va_arg(*args, size_t));
      break;
    case 's':
      put_text(s, va_arg(*args, const char *));
      break;
    case 't':
      text = va_arg(*args, const char *);
      svg_escape(s, text, strlen(text));
      break;
    case 'c':
      put_colour(s, va_arg(*args, const colour *));
      break;
    default:
      svg_put(s, &kind, 1);
  }
}

void svg_add(svg *s, const char *format, ...) {
  va_list args;
  va_start(args, format);
  while (*format) {
    size_t n = strcspn(format, "%");
    svg_put(s, format, n);
    format += n;
    if (!*format) break;
    put_argument(s, format[1], &args);
    format += 2;
  }
  va_end(args);
}

void svg_paint(svg *s, const char *attribute, colour c) {
  char opacity[40];
  svg_add(s, " %s=\"%c\"", attribute, &c);
  svg_number(c.a / 255.0, 3, opacity);
  if (c.a != 255) svg_add(s, " %s-opacity=\"%s\"", attribute, opacity);
}

void svg_base64(svg *s, const unsigned char *bytes, size_t n) {
  static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  for (size_t i = 0; i < n; i += 3) {
    size_t left = n - i;
    unsigned x = (unsigned)bytes[i] << 16;
    if (left > 1) x |= (unsigned)bytes[i + 1] << 8;
    if (left > 2) x |= bytes[i + 2];
    char four[4] = {digits[x >> 18], digits[x >> 12 & 63], left > 1 ? digits[x >> 6 & 63] : '=',
                    left > 2 ? digits[x & 63] : '='};
    svg_put(s, four, 4);
  }
}
