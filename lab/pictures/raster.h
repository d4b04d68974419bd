/* Outlines filled with a colour, as pixels.
 *
 * Under draw_png.c.
 *
 * How much of a pixel an outline covers is computed, not sampled: each edge adds
 * the signed area to its right, a row's running sum is the coverage. Outlines
 * that overlap in the same direction count once; one inside the other in the
 * opposite direction is a hole. Colours are mixed as sRGB numbers, as browsers
 * mix those of an .svg: the two look alike.
 */
#ifndef CLI_RASTER_H
#define CLI_RASTER_H

#include <stddef.h>
#include <stdint.h>

#include "pictures/palette.h"

typedef struct {
  int width, height;
  uint8_t *pixels; /* [height, width, 3] */
} canvas;

typedef struct {
  double *edges; /* [count][4]: x0, y0, x1, y1 in pixels */
  size_t count, capacity;
} outline;

void outline_free(outline *o);
void outline_line(outline *o, double x0, double y0, double x1, double y1);
void outline_quadratic(outline *o, const double p[6]);
/* A line of a width along points, as wide at corners as between them. */
void outline_stroke(outline *o, const double *points /* [count][2] */,
                    int count, double width);
/* As many points on a cubic curve as it takes to look smooth; returns how many. */
enum { RASTER_POINTS = 129 };
int raster_cubic(const double p[8], double points[RASTER_POINTS][2]);

/* Fills it, and empties it. */
void outline_fill(outline *o, canvas *to, colour paint);

void raster_blend(canvas *to, int x, int y, colour paint, double coverage);

#endif
