/* Paths filled with a colour, as pixels: what png.c draws with.
 *
 * stb_truetype's rasterizer computes how much of a pixel a path covers (signed
 * areas, no samples): contours that overlap in the same direction count once; one
 * inside the other in the opposite direction is a hole. Colours are mixed as sRGB
 * numbers, as browsers mix those of an .svg: the two look alike.
 */
#ifndef PICTURES_RASTER_H
#define PICTURES_RASTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "attend/base.h"
#include "svg/palette.h"

typedef struct {
  int width, height;
  uint8_t *pixels; /* [height, width, 3] */
} canvas;

/* As stb_truetype has them, with floats: pixels need fractions. */
typedef struct {
  float x, y, cx, cy, cx1, cy1;
  unsigned char type, padding;
} path_vertex;

/* Closed contours; zero is an empty path. */
typedef struct {
  path_vertex *vertex;
  size_t count, capacity;
  bool failed; /* no memory: what was added is not complete */
} path;

void path_free(path *p);
void path_add(path *p, path_vertex v);
void path_move(path *p, double x, double y);
void path_line(path *p, double x, double y);
/* Two control points and the end. */
void path_cubic(path *p, const double c[6]);
/* The outline of a line of a width along points, as wide at corners as between. */
void path_stroke(path *p, const double *points /* [count][2] */, int count, double width);
void path_stroke_cubic(path *p, const double c[8], double width);

/* Fills it, and empties it. */
void path_fill(path *p, canvas *to, colour paint);

void raster_blend(canvas *to, int x, int y, colour paint, double coverage);

/* ---- letters: the advances and outlines of the built-in font ------------------------------- */

/* The font is DejaVu Sans and DejaVu Sans Bold, read at build time from Debian's
 * fonts-dejavu-core and put into the program as they are. Their license (Bitstream Vera's,
 * and public domain for what DejaVu added) lets them be embedded, copied and sold as part
 * of a program; docs/fonts.md has its words. */

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

/* ---- files --------------------------------------------------------------------------------- */

/* Pixels as a PNG file. channels: 3 RGB, 4 RGBA. Bytes to be freed by free(); NULL on
 * failure. */
attend_status png_write(const uint8_t *pixels /* [height, width, channels] */, int width,
                        int height, int channels, void **bytes, size_t *length);

#endif
