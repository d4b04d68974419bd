/* The letters of pictures: outlines of the font that is built in.
 *
 * Under draw.h, which measures texts, and draw_png.c, which fills their outlines.
 *
 * The font is DejaVu Sans and DejaVu Sans Bold, read at build time from Debian's
 * fonts-dejavu-core and put into the program as they are. Their license
 * (Bitstream Vera's, and public domain for what DejaVu added) lets them be
 * embedded, copied and sold as part of a program; docs/fonts.md has its words.
 */
#ifndef CLI_GLYPHS_H
#define CLI_GLYPHS_H

#include <stdbool.h>
#include <stdint.h>

/* Height of capitals and of an x, parts of the size. */
#define GLYPHS_CAPITAL 0.729
#define GLYPHS_X 0.547

/* How far the pen moves, as a part of the size. */
double glyphs_advance(bool bold, uint32_t code);

/* A quadratic curve (x0, y0, x1, y1, x2, y2), parts of the size, y upwards. */
typedef void (*glyphs_curve)(const double curve[6], void *user);

/* All curves of a character's outline, closed contours one after another. A
 * character that the font lacks is a box. */
void glyphs_outline(bool bold, uint32_t code, glyphs_curve curve, void *user);

#endif
