/* Letters of pictures: the advances and outlines of the built-in font.
 *
 * draw.c measures texts with it, png.c fills the outlines.
 *
 * The font is DejaVu Sans and DejaVu Sans Bold, read at build time from Debian's
 * fonts-dejavu-core and put into the program as they are. Their license
 * (Bitstream Vera's, and public domain for what DejaVu added) lets them be
 * embedded, copied and sold as part of a program; docs/fonts.md has its words.
 */
#ifndef PICTURES_GLYPHS_H
#define PICTURES_GLYPHS_H

#include "pictures/raster.h"

/* Height of capitals and of an x, parts of the size. */
#define GLYPHS_CAPITAL 0.729
#define GLYPHS_X 0.547

/* How far the pen moves, as a part of the size. */
double glyphs_advance(bool bold, uint32_t code);

/* x' = a x + c y + e, y' = b x + d y + f. */
typedef struct {
  double a, b, c, d, e, f;
} affine;

/* Adds the outline of a character, in parts of the size with y upwards before it is
 * transformed. A character that the font lacks is a box. */
void glyphs_outline(bool bold, uint32_t code, const affine *m, path *to);

#endif
