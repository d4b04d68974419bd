/* The colours of plots, pictures, the terminal's maps and the page.
 *
 * See palette.h for the numbers and for what they stand for.
 */
#include "svg/palette.h"

#include <math.h>

#define RGB(x) \
  { (x) >> 16 & 255, (x) >> 8 & 255, (x)&255, 255 }

static const palette light = {
    .background = RGB(0xffffff),
    .panel = RGB(0xf5f7fa),
    .ink = RGB(0x17202b),
    .faint = RGB(0x5b6776),
    .grid = RGB(0xdde3ea),
    .accent = RGB(0xd9480f),
    .masked = RGB(0xf1f3f6),
    .hatch = RGB(0xdbe0e6),
    .weight = {RGB(0xfcfcfc), RGB(0xc0e6fe), RGB(0x89ceff), RGB(0x50b2fd), RGB(0x2695f0),
               RGB(0x0777db), RGB(0x0b5bbd), RGB(0x154298), RGB(0x162c6d)},
    .sign = {RGB(0xb34303), RGB(0xd46d22), RGB(0xe99d5b), RGB(0xf8cc9a), RGB(0xfafafa),
             RGB(0x9cd3fd), RGB(0x5da5e8), RGB(0x2b74cc), RGB(0x0941ad)},
    .head = {RGB(0x2466c3), RGB(0xeb940c), RGB(0x21914e), RGB(0xd572a9), RGB(0x713f10),
             RGB(0xa36ffa), RGB(0xe44a03), RGB(0x80acf0), RGB(0x89095c), RGB(0x80bc85),
             RGB(0x5a2d9c), RGB(0x885c8d)},
};

static const palette dark = {
    .background = RGB(0x12151b),
    .panel = RGB(0x1a1f27),
    .ink = RGB(0xe9edf2),
    .faint = RGB(0x9aa6b5),
    .grid = RGB(0x2b323d),
    .accent = RGB(0xff9b57),
    .masked = RGB(0x1e232b),
    .hatch = RGB(0x39424f),
    .weight = {RGB(0x17191f), RGB(0x183053), RGB(0x034a83), RGB(0x0068a1), RGB(0x0087bd),
               RGB(0x06a8d9), RGB(0x52c7e9), RGB(0x9de2f0), RGB(0xebf6f7)},
    .sign = {RGB(0xfec676), RGB(0xd28f45), RGB(0xa25d1f), RGB(0x6d320c), RGB(0x1d1f23),
             RGB(0x214672), RGB(0x3a75a9), RGB(0x60a8da), RGB(0x9cdaff)},
    .head = {RGB(0x3f89f4), RGB(0xffb764), RGB(0x3eb66a), RGB(0xfc8bca), RGB(0x9c6231),
             RGB(0xbc9cfe), RGB(0xff794d), RGB(0xa6c9ff), RGB(0xba3383), RGB(0x97db9d),
             RGB(0x7f51cf), RGB(0xae7cb4)},
};

const palette *palette_get(bool is_dark) { return is_dark ? &dark : &light; }

double palette_share(double weight, double max) {
  if (!(max > 0) || !(fabs(weight) > 0)) return 0;
  double share = sqrt(fmin(fabs(weight) / max, 1));
  return weight < 0 ? -share : share;
}

static uint8_t mix(uint8_t a, uint8_t b, double t) { return (uint8_t)lround(a + (b - a) * t); }

colour colour_mix(colour a, colour b, double t) {
  return (colour){mix(a.r, b.r, t), mix(a.g, b.g, t), mix(a.b, b.b, t), mix(a.a, b.a, t)};
}

colour colour_fade(colour c, double alpha) {
  alpha = alpha > 0 ? fmin(alpha, 1) : 0;
  c.a = (uint8_t)lround(c.a * alpha);
  return c;
}

static colour at(const colour steps[PALETTE_STEPS], double t) {
  t = t > 0 ? fmin(t, 1) * (PALETTE_STEPS - 1) : 0; /* NaN: the first */
  int i = t >= PALETTE_STEPS - 1 ? PALETTE_STEPS - 2 : (int)t;
  return colour_mix(steps[i], steps[i + 1], t - i);
}

colour palette_weight(const palette *p, double share) { return at(p->weight, share); }

colour palette_sign(const palette *p, double share) {
  return at(p->sign, isnan(share) ? 0.5 : (share + 1) / 2);
}

colour palette_head(const palette *p, int head) { return p->head[(unsigned)head % PALETTE_HEADS]; }

/* ---- contrast ---------------------------------------------------------------- */

static double linear(uint8_t x) {
  double s = x / 255.0;
  return s <= 0.04045 ? s / 12.92 : pow((s + 0.055) / 1.055, 2.4);
}

static double contrast(colour a, colour b) {
  double x = 0.2126 * linear(a.r) + 0.7152 * linear(a.g) + 0.0722 * linear(a.b);
  double y = 0.2126 * linear(b.r) + 0.7152 * linear(b.g) + 0.0722 * linear(b.b);
  return (fmax(x, y) + 0.05) / (fmin(x, y) + 0.05);
}

colour colour_letters(colour c, colour ink, colour ground) {
  enum { STEPS = 20 };
  for (int i = 0; i < STEPS; i++) {
    colour mixed = colour_mix(c, ink, (double)i / STEPS);
    if (contrast(mixed, ground) >= 4.5) return mixed;
  }
  return ink;
}

colour colour_on(colour c, colour a, colour b) { return contrast(c, a) >= contrast(c, b) ? a : b; }
