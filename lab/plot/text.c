/* Labels of plots, and estimates of their widths: the reader's font is not known. */
#include <string.h>

#include "base/base.h"
#include "plot/plot.h"

/* Bytes of a character; 1 for what is not UTF-8. */
static int character(const char *at, const char *end) {
  int n = utf8_length((const unsigned char *)at, (const unsigned char *)end);
  return n ? n : 1;
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
    int n = character(at, end);
    width += size * advance(at, n);
    if (width > most) break;
    at += n;
  }
  return (size_t)(at - text);
}

double text_width(const char *text, double size) {
  const char *end = text + strlen(text);
  double width = 0;
  for (int n; text < end; text += n) {
    n = character(text, end);
    width += size * advance(text, n);
  }
  return width;
}

void plot_text(svg *s, const char *look, anchor a, double x, double y, int turn, double most,
               const char *text) {
  static const char *const anchors[] = {"", " m", " e"};
  double size = !strcmp(look, "title") ? TITLE_LETTERS : LETTERS;
  size_t all = strlen(text), fits = text_fits(text, size, most);
  if (fits < all) fits = text_fits(text, size, most - size);
  svg_add(s, "<text class=\"%s%s\"", look, anchors[a]);
  if (turn)
    svg_add(s, " transform=\"translate(%f %f) rotate(%d)\">", x, y, turn);
  else
    svg_add(s, " x=\"%f\" y=\"%f\">", x, y);
  svg_escape(s, text, fits);
  svg_add(s, "%s</text>\n", fits < all ? "\xe2\x80\xa6" : "");
}
