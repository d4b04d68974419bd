/* Colours, letters, marks and stripes of plots.
 *
 * The style sheet that every plot begins with.
 *
 * The colours are those of `attend view` (lab/pictures/palette.h says how they were
 * chosen): scales even in lightness, series apart for eyes that lack red or green.
 * A class means the same in every plot, so that several may stand in one page.
 */
#include <math.h>
#include <stdio.h>

#include "plot/plot.h"

enum { STEPS = 9 };

typedef struct {
  unsigned ground, ink, faint, grid, accent;
  unsigned weight[STEPS], sign[STEPS], series[COLOURS];
} colours;

static const colours schemes[2] = {
    {0xffffff,
     0x17202b,
     0x5b6776,
     0xdde3ea,
     0xd9480f,
     {0xfcfcfc, 0xc0e6fe, 0x89ceff, 0x50b2fd, 0x2695f0, 0x0777db, 0x0b5bbd,
      0x154298, 0x162c6d},
     {0xb34303, 0xd46d22, 0xe99d5b, 0xf8cc9a, 0xfafafa, 0x9cd3fd, 0x5da5e8,
      0x2b74cc, 0x0941ad},
     {0x2466c3, 0xeb940c, 0x21914e, 0xd572a9, 0x713f10, 0xa36ffa, 0xe44a03,
      0x80acf0, 0x89095c, 0x80bc85, 0x5a2d9c, 0x885c8d}},
    {0x12151b,
     0xe9edf2,
     0x9aa6b5,
     0x2b323d,
     0xff9b57,
     {0x17191f, 0x183053, 0x034a83, 0x0068a1, 0x0087bd, 0x06a8d9, 0x52c7e9,
      0x9de2f0, 0xebf6f7},
     {0xfec676, 0xd28f45, 0xa25d1f, 0x6d320c, 0x1d1f23, 0x214672, 0x3a75a9,
      0x60a8da, 0x9cdaff},
     {0x3f89f4, 0xffb764, 0x3eb66a, 0xfc8bca, 0x9c6231, 0xbc9cfe, 0xff794d,
      0xa6c9ff, 0xba3383, 0x97db9d, 0x7f51cf, 0xae7cb4}}};

static double channel(unsigned c, int i) { return c >> (16 - 8 * i) & 255; }

static unsigned mix(const unsigned steps[STEPS], double t) {
  int i = (int)fmin(t * (STEPS - 1), STEPS - 2);
  double part = t * (STEPS - 1) - i;
  unsigned c = 0;
  for (int k = 0; k < 3; k++) {
    double a = channel(steps[i], k), b = channel(steps[i + 1], k);
    c = c << 8 | (unsigned)lround(a + (b - a) * part);
  }
  return c;
}

static double linear(double x) {
  x /= 255;
  return x <= 0.04045 ? x / 12.92 : pow((x + 0.055) / 1.055, 2.4);
}

static double light_of(unsigned c) {
  return 0.05 + 0.2126 * linear(channel(c, 0)) +
         0.7152 * linear(channel(c, 1)) + 0.0722 * linear(channel(c, 2));
}

static double contrast(unsigned a, unsigned b) {
  double x = light_of(a), y = light_of(b);
  return fmax(x, y) / fmin(x, y);
}

static void put_rule(sheet *s, const char *name, int number, const char *what,
                     unsigned c) {
  char digits[16];
  snprintf(digits, sizeof digits, "%06x", c);
  sheet_add(s, ".attend-plot .$", name);
  if (number >= 0) sheet_add(s, "%", number);
  sheet_put(s, "{", 1);
  sheet_add(s, "$:", what);
  sheet_put(s, "#", 1);
  sheet_add(s, "$}\n", digits);
}

/* Of a level: the box (w, d) and letters on it (v, e). */
static void put_levels(sheet *s, const colours *c) {
  const unsigned *steps[2] = {c->weight, c->sign};
  static const char *const box_name[] = {"w", "d"}, *const letters[] = {"v",
                                                                        "e"};
  for (int i = 0; i <= LEVELS; i++)
    for (int k = 0; k < 2; k++) {
      unsigned at = mix(steps[k], (double)i / LEVELS);
      bool ink = contrast(at, c->ink) >= contrast(at, c->ground);
      put_rule(s, box_name[k], i, "fill", at);
      put_rule(s, letters[k], i, "fill", ink ? c->ink : c->ground);
    }
}

static void put_scheme(sheet *s, const colours *c, bool heat) {
  put_rule(s, "ground", -1, "fill", c->ground);
  put_rule(s, "under", -1, "stroke", c->ground);
  put_rule(s, "ink", -1, "fill", c->ink);
  put_rule(s, "title", -1, "fill", c->ink);
  put_rule(s, "head", -1, "fill", c->ink);
  put_rule(s, "faint", -1, "fill", c->faint);
  put_rule(s, "grid", -1, "stroke", c->grid);
  put_rule(s, "axis", -1, "stroke", c->faint);
  put_rule(s, "mark", -1, "stroke", c->accent);
  put_rule(s, "marked", -1, "fill", c->accent);
  for (int i = 0; i < COLOURS; i++) {
    put_rule(s, "c", i, "stroke", c->series[i]);
    put_rule(s, "f", i, "fill", c->series[i]);
  }
  if (heat) put_levels(s, c);
}

void style_put(sheet *s, bool heat) {
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
  sheet_put(s, fixed, sizeof fixed - 1);
  put_scheme(s, &schemes[0], heat);
  static const char dark[] = "@media (prefers-color-scheme:dark){\n";
  sheet_put(s, dark, sizeof dark - 1);
  put_scheme(s, &schemes[1], heat);
  sheet_add(s, "}\n</style>\n");
}

/* ---- without colour ------------------------------------------------------------------- */

void style_mark(sheet *s, int number, double x, double y, double r) {
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
  int c = number % COLOURS;
  if (!d) {
    sheet_add(s, "<circle class=\"f%\" cx=\"#\" cy=\"#\" r=\"#\"/>\n", c, x, y,
              r);
    return;
  }
  sheet_add(s,
            "<path class=\"f%\" transform=\"translate(# #) scale(#)\" "
            "d=\"$\"/>\n",
            c, x, y, r, d);
}

/* Stripes in the ground's colour, so that they show on every other. */
void style_stripes(sheet *s) {
  static const char *const lines[STRIPES] = {"",
                                             "M-2 2L2-2M0 8L8 0M6 10L10 6",
                                             "M-2 6L2 10M0 0L8 8M6-2L10 2",
                                             "M0 4H8",
                                             "M4 0V8",
                                             "M0 4H8M4 0V8"};
  sheet_add(s, "<defs>");
  for (int i = 1; i < STRIPES; i++)
    sheet_add(s,
              "<pattern id=\"attend-stripes%\" width=\"8\" height=\"8\" "
              "patternUnits=\"userSpaceOnUse\"><path class=\"under\" "
              "stroke-width=\"1.5\" d=\"$\"/></pattern>\n",
              i, lines[i]);
  sheet_add(s,
            "<pattern id=\"attend-stripes0\" width=\"6\" height=\"6\" "
            "patternUnits=\"userSpaceOnUse\"><path class=\"grid\" "
            "d=\"M-1 1L1-1M0 6L6 0M5 7L7 5\"/></pattern></defs>\n");
}

void style_striped(sheet *s, int stripes) {
  static const char open[] = "<rect style=\"fill:url(#attend-stripes";
  sheet_put(s, open, sizeof open - 1);
  sheet_add(s, "%)\"", stripes);
}
