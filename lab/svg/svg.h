/* Writes SVG: a growing text, numbers and escaped labels in it.
 *
 * Used by plots (in the library) and by pictures (in the program), which is why it
 * includes public headers only and takes an allocator instead of a context.
 */
#ifndef SVG_SVG_H
#define SVG_SVG_H

#include "attend/base.h"
#include "svg/palette.h"

typedef struct {
  attend_allocator memory; /* zero: the C library's */
  char *text;              /* ends in a zero byte */
  size_t length, capacity;
  attend_status status; /* the first failure; later calls do nothing */
} svg;

void svg_free(svg *s);
void svg_put(svg *s, const char *bytes, size_t n);
/* Appends the format with these replaced:
 *   %f  a double, two decimals   %d  an int        %z  a size_t
 *   %s  a text as it is          %t  a text, escaped
 *   %c  a colour *, as #rrggbb   %%  a percent sign */
void svg_add(svg *s, const char *format, ...);
/* Escaped: the first n bytes of a text. */
void svg_escape(svg *s, const char *text, size_t n);
/* ` fill="#2466c3" fill-opacity="0.5"`; the opacity is left out at 1. */
void svg_paint(svg *s, const char *attribute, colour c);
void svg_base64(svg *s, const unsigned char *bytes, size_t n);

/* Decimals without trailing zeros, in any locale. */
void svg_number(double x, int decimals, char text[40]);

#endif
