/* The style sheet that every plot begins with; marks and stripes; labels, whose widths are
 * estimates: the reader's font is not known.
 *
 * A class means the same in every plot, so that several may stand in one page.
 */
#include <string.h>

#include "base/base.h"
#include "plot/plot.h"

static void put_rule(svg *s, const char *name, const char *property, colour c) {
  svg_add(s, ".attend-plot .%s{%s:%c}\n", name, property, &c);
}

static void put_numbered(svg *s, const char *name, int number, const char *property, colour c) {
  svg_add(s, ".attend-plot .%s%d{%s:%c}\n", name, number, property, &c);
}

/* Of a level: cells (w, or d of a signed scale) and letters on them (v, e). */
static void put_levels(svg *s, const palette *c) {
  for (int i = 0; i <= LEVELS; i++) {
    double t = (double)i / LEVELS;
    colour weight = palette_weight(c, t), sign = palette_sign(c, 2 * t - 1);
    put_numbered(s, "w", i, "fill", weight);
    put_numbered(s, "v", i, "fill", colour_on(weight, c->ink, c->background));
    put_numbered(s, "d", i, "fill", sign);
    put_numbered(s, "e", i, "fill", colour_on(sign, c->ink, c->background));
  }
}

static void put_scheme(svg *s, const palette *c, bool heat) {
  put_rule(s, "ground", "fill", c->background);
  put_rule(s, "under", "stroke", c->background);
  put_rule(s, "ink", "fill", c->ink);
  put_rule(s, "title", "fill", c->ink);
  put_rule(s, "head", "fill", c->ink);
  put_rule(s, "faint", "fill", c->faint);
  put_rule(s, "grid", "stroke", c->grid);
  put_rule(s, "axis", "stroke", c->faint);
  put_rule(s, "mark", "stroke", c->accent);
  put_rule(s, "marked", "fill", c->accent);
  for (int i = 0; i < PALETTE_HEADS; i++) {
    put_numbered(s, "c", i, "stroke", palette_head(c, i));
    put_numbered(s, "f", i, "fill", palette_head(c, i));
    put_numbered(s, "t", i, "fill", colour_letters(palette_head(c, i), c->ink, c->background));
  }
  if (heat) put_levels(s, c);
}

void style_put(svg *s, bool heat) {
  static const char fixed[] =
      "<style>\n.attend-plot{font:12px 'DejaVu Sans',Verdana,sans-serif}\n"
      ".attend-plot .title{font-size:16px;font-weight:bold}\n"
      ".attend-plot .head{font-weight:bold}\n"
      ".attend-plot .m{text-anchor:middle}.attend-plot .e{text-anchor:end}\n"
      ".attend-plot path,.attend-plot line{fill:none;stroke-linecap:round;"
      "stroke-linejoin:round}\n"
      ".attend-plot .line{stroke-width:2}.attend-plot .pale{stroke-width:1;"
      "stroke-opacity:.4}\n"
      ".attend-plot .dash{stroke-dasharray:7 5}.attend-plot .mark{"
      "stroke-dasharray:2 4}\n"
      ".attend-plot .band{fill-opacity:.18}\n"
      ".attend-plot .minor{stroke-opacity:.45}\n";
  svg_add(s, "%s", fixed);
  put_scheme(s, palette_get(false), heat);
  svg_add(s, "@media (prefers-color-scheme:dark){\n");
  put_scheme(s, palette_get(true), heat);
  svg_add(s, "}\n</style>\n");
}

/* ---- without colour ------------------------------------------------------------------- */

void style_mark(svg *s, int number, double x, double y, double r) {
  static const char *const shapes[SHAPES] = {
      NULL, /* a circle */
      "M-.9-.9H.9V.9H-.9Z",
      "M0-1.1L1.1.8H-1.1Z",
      "M0-1.2L1.2 0L0 1.2L-1.2 0Z",
      "M0 1.1L1.1-.8H-1.1Z",
      "M-1-.35H-.35V-1H.35V-.35H1V.35H.35V1H-.35V.35H-1Z",
      "M-1-.5L-.5-1L0-.5L.5-1L1-.5L.5 0L1 .5L.5 1L0 .5L-.5 1L-1 .5L-.5 0Z",
      "M-1.2-.5H1.2V.5H-1.2Z"};
  const char *d = shapes[number % SHAPES];
  int c = number % PALETTE_HEADS;
  if (!d) {
    svg_add(s, "<circle class=\"f%d\" cx=\"%f\" cy=\"%f\" r=\"%f\"/>\n", c, x, y, r);
    return;
  }
  svg_add(s,
          "<path class=\"f%d\" transform=\"translate(%f %f) scale(%f)\" "
          "d=\"%s\"/>\n",
          c, x, y, r, d);
}

/* Stripes in the ground's colour, so that they show on every other. */
void style_stripes(svg *s) {
  static const char *const lines[STRIPES] = {"",
                                             "M-2 2L2-2M0 8L8 0M6 10L10 6",
                                             "M-2 6L2 10M0 0L8 8M6-2L10 2",
                                             "M0 4H8",
                                             "M4 0V8",
                                             "M0 4H8M4 0V8"};
  svg_add(s, "<defs>");
  for (int i = 1; i < STRIPES; i++)
    svg_add(s,
            "<pattern id=\"attend-stripes%d\" width=\"8\" height=\"8\" "
            "patternUnits=\"userSpaceOnUse\"><path class=\"under\" "
            "stroke-width=\"1.5\" d=\"%s\"/></pattern>\n",
            i, lines[i]);
  svg_add(s,
          "<pattern id=\"attend-stripes0\" width=\"6\" height=\"6\" "
          "patternUnits=\"userSpaceOnUse\"><path class=\"grid\" "
          "d=\"M-1 1L1-1M0 6L6 0M5 7L7 5\"/></pattern></defs>\n");
}

void style_striped(svg *s, int stripes) {
  svg_add(s, "<rect style=\"fill:url(#attend-stripes%d)\"", stripes);
}

/* ---- labels ---------------------------------------------------------------- */

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

size_t text_fits(const char *text, double size, double max) {
  const char *at = text, *end = text + strlen(text);
  double width = 0;
  while (at < end) {
    int n = character(at, end);
    width += size * advance(at, n);
    if (width > max) break;
    at += n;
  }
  return (size_t)(at - text);
}

double label_width(const char *text, double size) {
  const char *end = text + strlen(text);
  double width = 0;
  for (int n; text < end; text += n) {
    n = character(text, end);
    width += size * advance(text, n);
  }
  return width;
}

void plot_text(svg *s, const char *look, anchor a, double x, double y, int turn, double max,
               const char *text) {
  static const char *const anchors[] = {"", " m", " e"};
  double size = !strcmp(look, "title") ? TITLE_LETTERS : LETTERS;
  size_t all = strlen(text), fits = text_fits(text, size, max);
  if (fits < all) fits = text_fits(text, size, max - size);
  svg_add(s, "<text class=\"%s%s\"", look, anchors[a]);
  if (turn)
    svg_add(s, " transform=\"translate(%f %f) rotate(%d)\">", x, y, turn);
  else
    svg_add(s, " x=\"%f\" y=\"%f\">", x, y);
  svg_escape(s, text, fits);
  svg_add(s, "%s</text>\n", fits < all ? "\xe2\x80\xa6" : "");
}
