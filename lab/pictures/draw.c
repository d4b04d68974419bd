/* A picture as a list of shapes.
 *
 * The pictures add shapes; svg.c and png.c write them.
 */
#include "pictures/draw.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "pictures/raster.h"

void drawing_start(drawing *d, double width, colour background) {
  *d = (drawing){.width = width, .background = background};
}

void *drawing_take(drawing *d, size_t count, size_t size) {
  void *block = calloc(count ? count : 1, size);
  if (!block) d->status = ATTEND_NO_MEMORY;
  return block;
}

const char *draw_message(attend_status status) {
  if (status == ATTEND_OK) return NULL;
  if (status == ATTEND_NO_MEMORY)
    return "no memory for the picture: free some, or take a smaller width";
  return "the picture is too large to be drawn in pixels: take a smaller width, or .svg";
}

static void *copy(drawing *d, const void *from, size_t size) {
  void *to = drawing_take(d, size, 1);
  return to ? memcpy(to, from, size) : NULL;
}

void drawing_title(drawing *d, const char *title) {
  free(d->title);
  d->title = copy(d, title, strlen(title) + 1);
}

static void shape_free(shape *s) {
  free(s->points);
  free(s->text);
  free(s->cells);
}

void drawing_free(drawing *d) {
  for (size_t i = 0; i < d->count; i++) shape_free(&d->shapes[i]);
  free(d->shapes);
  free(d->title);
  *d = (drawing){0};
}

static bool grow(drawing *d) {
  size_t capacity = 2 * d->capacity + 64;
  shape *shapes = drawing_take(d, capacity, sizeof *shapes);
  if (!shapes) return false;
  if (d->count) memcpy(shapes, d->shapes, d->count * sizeof *shapes);
  free(d->shapes);
  d->shapes = shapes;
  d->capacity = capacity;
  return true;
}

/* Takes over what the shape points to. After a failure nothing is added: shapes
 * are complete or not there. */
static void add(drawing *d, shape s) {
  if (d->status || (d->count == d->capacity && !grow(d)))
    shape_free(&s);
  else
    d->shapes[d->count++] = s;
}

/* ---- shapes -------------------------------------------------------------------- */

void draw_frame(drawing *d, double x, double y, double w, double h, double radius, double stroke,
                colour paint) {
  if (w <= 0 || h <= 0) return;
  add(d, (shape){.kind = SHAPE_RECT,
                 .paint = paint,
                 .x = x,
                 .y = y,
                 .w = w,
                 .h = h,
                 .radius = fmin(radius, fmin(w, h) / 2),
                 .stroke = stroke});
}

void draw_rect(drawing *d, double x, double y, double w, double h, double radius, colour paint) {
  draw_frame(d, x, y, w, h, radius, 0, paint);
}

void draw_cell(drawing *d, double x, double y, double w, double h, colour paint, const char *tip) {
  if (w <= 0 || h <= 0) return;
  add(d, (shape){.kind = SHAPE_RECT,
                 .paint = paint,
                 .x = x,
                 .y = y,
                 .w = w,
                 .h = h,
                 .text = copy(d, tip, strlen(tip) + 1)});
}

void draw_circle(drawing *d, double x, double y, double radius, colour paint) {
  add(d, (shape){.kind = SHAPE_CIRCLE, .paint = paint, .x = x, .y = y, .radius = radius});
}

static void add_points(drawing *d, shape_kind kind, const double *points, int count, double stroke,
                       colour paint) {
  if (count < 2) return;
  size_t size = (size_t)count * 2 * sizeof *points;
  add(d, (shape){.kind = kind,
                 .paint = paint,
                 .stroke = stroke,
                 .points = copy(d, points, size),
                 .count = count});
}

void draw_line(drawing *d, double x0, double y0, double x1, double y1, double stroke,
               colour paint) {
  double points[4] = {x0, y0, x1, y1};
  add_points(d, SHAPE_LINE, points, 2, stroke, paint);
}

void draw_lines(drawing *d, const double *points, int count, double stroke, colour paint) {
  add_points(d, SHAPE_LINE, points, count, stroke, paint);
}

void draw_curve(drawing *d, const double points[8], double stroke, colour paint) {
  add_points(d, SHAPE_CURVE, points, 4, stroke, paint);
}

void draw_image(drawing *d, double x, double y, double w, double h, const uint8_t *cells, int rows,
                int columns) {
  if (rows <= 0 || columns <= 0 || w <= 0 || h <= 0) return;
  add(d, (shape){.kind = SHAPE_IMAGE,
                 .x = x,
                 .y = y,
                 .w = w,
                 .h = h,
                 .cells = copy(d, cells, 4 * (size_t)rows * (size_t)columns),
                 .rows = rows,
                 .columns = columns});
}

void draw_hatch(drawing *d, double x, double y, double w, double h, colour paint) {
  if (w <= 0 || h <= 0) return;
  add(d, (shape){.kind = SHAPE_HATCH, .paint = paint, .x = x, .y = y, .w = w, .h = h});
}

/* ---- texts --------------------------------------------------------------------- */

double draw_text_width(const char *text, double size, bool bold) {
  double width = 0;
  for (uint32_t code; (code = letters_next(&text));) width += glyphs_advance(bold, code);
  return width * size;
}

/* As much as is given, valid and without control characters; what is cut ends
 * in an ellipsis. */
static char *fitted(drawing *d, const char *text, const text_look *look) {
  enum { ELLIPSIS = 0x2026 };
  double dots = glyphs_advance(look->bold, ELLIPSIS) * look->size, width = 0;
  bool whole = look->max <= 0 || draw_text_width(text, look->size, look->bold) <= look->max;
  char *to = drawing_take(d, 3 * strlen(text) + LETTER_BYTES + 1, 1), *at = to;
  if (!to) return NULL;
  for (uint32_t code; (code = letters_next(&text));) {
    width += glyphs_advance(look->bold, code) * look->size;
    if (!whole && width + dots > look->max) break;
    at += letters_put(code, at);
  }
  while (!whole && at > to && at[-1] == ' ') at--;
  if (!whole) at += letters_put(ELLIPSIS, at);
  *at = 0;
  return to;
}

void draw_text(drawing *d, double x, double y, const char *text, const text_look *look) {
  if (!text || !*text) return;
  add(d, (shape){.kind = SHAPE_TEXT,
                 .paint = look->paint,
                 .x = x,
                 .y = y,
                 .text = fitted(d, text, look),
                 .size = look->size,
                 .bold = look->bold,
                 .anchor = look->anchor,
                 .turn = look->turn});
}
