/* A picture as a list of shapes, written as .svg or .png.
 *
 * Lengths are px, x to the right, y down. Shapes are painted in the order in
 * which they were added. What lies outside the picture is cut off.
 * Texts are measured with the built-in font; a .svg names it first, then fonts of the
 * same width.
 */
#ifndef PICTURES_DRAW_H
#define PICTURES_DRAW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "attend/base.h"
#include "svg/palette.h"

typedef enum {
  SHAPE_RECT,   /* box, radius */
  SHAPE_CIRCLE, /* (x, y), radius */
  SHAPE_LINE,   /* points, stroke: joined by straight lines */
  SHAPE_CURVE,  /* four points, stroke: cubic */
  SHAPE_TEXT,
  SHAPE_IMAGE, /* box, cells */
  SHAPE_HATCH  /* box; stripes continue into adjacent boxes */
} shape_kind;

typedef enum { ANCHOR_START, ANCHOR_MIDDLE, ANCHOR_END } text_anchor;

typedef struct {
  shape_kind kind;
  colour paint;
  double x, y, w, h;
  double radius;
  double stroke;  /* width of a line; 0: the shape is filled */
  double *points; /* [count][2] */
  int count;
  char *text; /* UTF-8, without control characters; of a rect, its tip */
  double size;
  bool bold;
  text_anchor anchor;
  int turn;       /* degrees, clockwise: 0, -45, -90 */
  uint8_t *cells; /* [rows, columns, 4], sRGB with alpha */
  int rows, columns;
} shape;

typedef struct {
  double width, height;
  colour background;
  char *title; /* for screen readers */
  shape *shapes;
  size_t count, capacity;
  attend_status status; /* the first failure; writing the drawing returns it */
} drawing;

/* The height may be set at the end. */
void drawing_start(drawing *d, double width, colour background);
void drawing_title(drawing *d, const char *title);
void drawing_free(drawing *d);
/* Zeroed memory, to be freed by free(); NULL sets the drawing's status, and what
 * was to be drawn with it may be left out. */
void *drawing_take(drawing *d, size_t count, size_t size);

void draw_rect(drawing *d, double x, double y, double w, double h, double radius, colour paint);
/* The same, square, with a tooltip (.svg). */
void draw_cell(drawing *d, double x, double y, double w, double h, colour paint, const char *tip);
void draw_frame(drawing *d, double x, double y, double w, double h, double radius, double stroke,
                colour paint);
void draw_circle(drawing *d, double x, double y, double radius, colour paint);
void draw_line(drawing *d, double x0, double y0, double x1, double y1, double stroke, colour paint);
void draw_lines(drawing *d, const double *points /* [count][2] */, int count, double stroke,
                colour paint);
/* Cubic Bézier: start, two control points, end. */
void draw_curve(drawing *d, const double points[8], double stroke, colour paint);
/* Cells are shown as they are, without a blur. They are copied. */
void draw_image(drawing *d, double x, double y, double w, double h, const uint8_t *cells, int rows,
                int columns);
void draw_hatch(drawing *d, double x, double y, double w, double h, colour paint);

enum { HATCH_STEP = 6 }; /* px between stripes, along x */
#define HATCH_STROKE 1.1

typedef struct {
  double size;
  bool bold;
  text_anchor anchor;
  int turn;
  double max; /* width to which it is cut, with …; 0: as it is */
  colour paint;
} text_look;

/* (x, y): the anchor, on the baseline. */
void draw_text(drawing *d, double x, double y, const char *text, const text_look *look);
double draw_text_width(const char *text, double size, bool bold);

/* Bytes to be freed by free(); NULL on failure. draw_png draws a px as scale pixels;
 * ATTEND_INVALID: that is too large. */
attend_status draw_svg(const drawing *d, char **bytes, size_t *length);
attend_status draw_png(const drawing *d, double scale, void **bytes, size_t *length);
/* as: "svg", or "png" with two pixels a px. */
attend_status draw_file(const drawing *d, const char *as, void **bytes, size_t *length);
/* What a status of these means, and the remedy; NULL for ATTEND_OK. */
const char *draw_message(attend_status status);

/* ---- UTF-8 --------------------------------------------------------------------------------- */

/* A token may be a part of a character, or no UTF-8 at all. */

enum { LETTER_NONE = 0xfffd, LETTER_BYTES = 4 };

/* The character at *text, which is advanced: 0 at the end; LETTER_NONE for bytes that are
 * not UTF-8 and for control characters, except that the end of a line becomes an arrow down
 * and left, a tab an arrow to a bar. */
uint32_t letters_next(const char **text);

/* Writes a character, and returns how many bytes it took. */
size_t letters_put(uint32_t code, char bytes[LETTER_BYTES]);

/* Terminal columns of a character: 0 (combining), 1, 2. */
int letters_columns(uint32_t code);

/* Columns of a text as letters_next reads it. */
int letters_width(const char *text);

#endif
