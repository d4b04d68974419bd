/* The colours of plots, pictures, the terminal's maps and the page.
 *
 * Everything drawn in C takes its colours here. The page (viewer/src/palette.ts, page.css) and
 * the style sheets of HTML reports (lab/studies/page.c, cli/summarize/long.c, docs/book/book.css)
 * repeat the numbers below; tests/unit/test_palette.c compares them.
 *
 *                light    dark
 *   background   ffffff   12151b
 *   panel        f5f7fa   1a1f27   a field behind something
 *   ink          17202b   e9edf2
 *   faint        5b6776   9aa6b5   captions, axes
 *   grid         dde3ea   2b323d   thin lines
 *   accent       d9480f   ff9b57   what is marked
 *   masked       f1f3f6   1e232b   a cell that is not seen ..
 *   hatch        dbe0e6   39424f   .. and its stripes
 *
 *   weights, 0 to 1 by even steps, mixed linearly between them:
 *     light  fcfcfc c0e6fe 89ceff 50b2fd 2695f0 0777db 0b5bbd 154298 162c6d
 *     dark   17191f 183053 034a83 0068a1 0087bd 06a8d9 52c7e9 9de2f0 ebf6f7
 *   signed, -1 to 1 (orange, nothing, blue):
 *     light  b34303 d46d22 e99d5b f8cc9a fafafa 9cd3fd 5da5e8 2b74cc 0941ad
 *     dark   fec676 d28f45 a25d1f 6d320c 1d1f23 214672 3a75a9 60a8da 9cdaff
 *   heads, by their number modulo 12:
 *     light  2466c3 eb940c 21914e d572a9 713f10 a36ffa
 *            e44a03 80acf0 89095c 80bc85 5a2d9c 885c8d
 *     dark   3f89f4 ffb764 3eb66a fc8bca 9c6231 bc9cfe
 *            ff794d a6c9ff ba3383 97db9d 7f51cf ae7cb4
 *
 * The scales are even in OKLab lightness, which falls (light) or rises (dark)
 * all the way: they read the same without colour. Heads stay apart for eyes
 * that lack red or green.
 *
 * A weight w is shown at sqrt(w / most): most of the weights of a head are
 * small, and how small they are is what one looks for.
 */
#ifndef SVG_PALETTE_H
#define SVG_PALETTE_H

#include <stdbool.h>
#include <stdint.h>

typedef struct {
  uint8_t r, g, b, a; /* sRGB, not premultiplied */
} colour;

enum { PALETTE_STEPS = 9, PALETTE_HEADS = 12 };

typedef struct {
  colour background, panel, ink, faint, grid, accent, masked, hatch;
  colour weight[PALETTE_STEPS], sign[PALETTE_STEPS], head[PALETTE_HEADS];
} palette;

const palette *palette_get(bool dark);

/* Where a weight stands on the scale: 0 to 1, or -1 to 1. */
double palette_share(double weight, double max);
colour palette_weight(const palette *p, double share /* 0 to 1 */);
colour palette_sign(const palette *p, double share /* -1 to 1 */);
colour palette_head(const palette *p, int head);

colour colour_mix(colour a, colour b, double t); /* a at 0, b at 1 */
colour colour_fade(colour c, double alpha);
/* c for letters on this ground: mixed with ink until the contrast is 4.5 (WCAG 2 AA). */
colour colour_letters(colour c, colour ink, colour ground);
/* Of the two, the one that reads better on c. */
colour colour_on(colour c, colour a, colour b);

#endif
