/* A picture as .png: its shapes as pixels. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "pictures/draw.h"
#include "pictures/glyphs.h"
#include "pictures/letters.h"
#include "pictures/png_write.h"
#include "pictures/raster.h"

enum { MOST_PIXELS = 1 << 27 };

typedef struct {
  canvas canvas;
  outline outline; /* of the shape that is being drawn */
  double scale;
} painter;

/* ---- outlines of shapes ------------------------------------------------------------ */

/* A box with round corners; back: in the other direction, as a hole. */
static void round_box(painter *p, double x, double y, double w, double h,
                      double r, bool back) {
  const double k = 0.5522847498; /* a quarter of a circle as a cubic curve */
  double ring[4][2] = {{x + w, y}, {x + w, y + h}, {x, y + h}, {x, y}};
  static const double turn[4][2] = {{1, 0}, {0, 1}, {-1, 0}, {0, -1}};
  double at[2] = {x + r, y};
  for (int i = 0; i < 4; i++) {
    const double *in = turn[i], *out = turn[(i + 1) % 4], *c = ring[i];
    double a[2] = {c[0] - in[0] * r, c[1] - in[1] * r};
    double b[2] = {c[0] + out[0] * r, c[1] + out[1] * r};
    double bend[8] = {a[0],
                      a[1],
                      a[0] + in[0] * r * k,
                      a[1] + in[1] * r * k,
                      b[0] - out[0] * r * k,
                      b[1] - out[1] * r * k,
                      b[0],
                      b[1]};
    double points[RASTER_POINTS][2];
    int count = raster_cubic(bend, points);
    for (int j = 0; j < count; j++) {
      if (back)
        outline_line(&p->outline, points[j][0], points[j][1], at[0], at[1]);
      else
        outline_line(&p->outline, at[0], at[1], points[j][0], points[j][1]);
      memcpy(at, points[j], sizeof at);
    }
  }
}

static void rect(painter *p, const shape *s) {
  double k = p->scale, half = s->stroke / 2;
  round_box(p, (s->x - half) * k, (s->y - half) * k, (s->w + 2 * half) * k,
            (s->h + 2 * half) * k, s->radius > 0 ? (s->radius + half) * k : 0,
            false);
  if (half > 0)
    round_box(p, (s->x + half) * k, (s->y + half) * k, (s->w - 2 * half) * k,
              (s->h - 2 * half) * k, fmax(s->radius - half, 0) * k, true);
}

static void circle(painter *p, const shape *s) {
  double k = p->scale, r = s->radius;
  round_box(p, (s->x - r) * k, (s->y - r) * k, 2 * r * k, 2 * r * k, r * k,
            false);
}

static double *scaled(const painter *p, const shape *s) {
  double *to = need((size_t)s->count * 2, sizeof *to);
  for (int i = 0; i < 2 * s->count; i++) to[i] = s->points[i] * p->scale;
  return to;
}

static void line(painter *p, const shape *s) {
  double *points = scaled(p, s);
  outline_stroke(&p->outline, points, s->count, s->stroke * p->scale);
  free(points);
}

static void curve(painter *p, const shape *s) {
  double points[RASTER_POINTS][2], *bend = scaled(p, s);
  int count = raster_cubic(bend, points);
  outline_stroke(&p->outline, points[0], count, s->stroke * p->scale);
  free(bend);
}

/* ---- texts ---------------------------------------------------------------------------- */

typedef struct {
  outline *to;
  double x, y, size, cosine, sine; /* of the turn */
  double along;                    /* the pen, in parts of the size */
} writing;

static void write_curve(const double c[6], void *user) {
  writing *w = user;
  double moved[6];
  for (int i = 0; i < 6; i += 2) {
    double x = (c[i] + w->along) * w->size, y = -c[i + 1] * w->size;
    moved[i] = w->x + x * w->cosine - y * w->sine;
    moved[i + 1] = w->y + x * w->sine + y * w->cosine;
  }
  outline_quadratic(w->to, moved);
}

/* The line that letters stand on lies on pixels, unless it is a diagonal. */
static void text(painter *p, const shape *s) {
  double turn = s->turn * 3.14159265358979323846 / 180;
  writing w = {&p->outline,
               s->x * p->scale,
               s->y * p->scale,
               s->size * p->scale,
               cos(turn),
               sin(turn),
               0};
  if (s->turn == 0) w.y = round(w.y);
  if (s->turn == -90) w.x = round(w.x);
  double width = draw_text_width(s->text, 1, s->bold);
  if (s->anchor == ANCHOR_MIDDLE) w.along = -width / 2;
  if (s->anchor == ANCHOR_END) w.along = -width;
  const char *at = s->text;
  for (uint32_t code; (code = letters_next(&at));) {
    glyphs_outline(s->bold, code, write_curve, &w);
    w.along += glyphs_advance(s->bold, code);
  }
}

/* ---- fields ---------------------------------------------------------------------------- */

typedef struct { /* which pixels [first, end) a stretch [low, high) touches */
  double low, high;
  int first, end;
} stretch;

static stretch stretch_of(double at, double length, double scale, int limit) {
  stretch s = {at * scale, (at + length) * scale, 0, 0};
  s.first = (int)fmax(floor(s.low), 0);
  s.end = (int)fmin(ceil(s.high), limit);
  return s;
}

static double overlap(double a0, double a1, double b0, double b1) {
  return fmax(fmin(a1, b1) - fmax(a0, b0), 0);
}

/* The mean of the cells under a pixel, by area: one cell's colour inside it, no
 * steps of uneven width where cells are no whole pixels. */
static void image_pixel(painter *p, const shape *s, const stretch *across,
                        const stretch *down, int x, int y) {
  double cw = (across->high - across->low) / s->columns;
  double ch = (down->high - down->low) / s->rows, sum[4] = {0};
  int c0 = (int)fmax(floor((x - across->low) / cw), 0);
  int r0 = (int)fmax(floor((y - down->low) / ch), 0);
  for (int r = r0; r < s->rows && down->low + r * ch < y + 1; r++)
    for (int c = c0; c < s->columns && across->low + c * cw < x + 1; c++) {
      double left = across->low + c * cw, top = down->low + r * ch;
      const uint8_t *cell =
          s->cells + 4 * ((size_t)r * (size_t)s->columns + (size_t)c);
      double share = overlap(left, left + cw, x, x + 1) *
                     overlap(top, top + ch, y, y + 1) * cell[3];
      sum[3] += share;
      for (int i = 0; i < 3; i++) sum[i] += share * cell[i];
    }
  if (sum[3] <= 0) return;
  colour mean = {(uint8_t)lround(sum[0] / sum[3]),
                 (uint8_t)lround(sum[1] / sum[3]),
                 (uint8_t)lround(sum[2] / sum[3]), 255};
  raster_blend(&p->canvas, x, y, mean, fmin(sum[3] / 255, 1));
}

static void image(painter *p, const shape *s) {
  stretch across = stretch_of(s->x, s->w, p->scale, p->canvas.width);
  stretch down = stretch_of(s->y, s->h, p->scale, p->canvas.height);
  for (int y = down.first; y < down.end; y++)
    for (int x = across.first; x < across.end; x++)
      image_pixel(p, s, &across, &down, x, y);
}

/* Stripes where x + y is a multiple of the step, as draw_svg.c has them. */
static void hatch(painter *p, const shape *s) {
  stretch across = stretch_of(s->x, s->w, p->scale, p->canvas.width);
  stretch down = stretch_of(s->y, s->h, p->scale, p->canvas.height);
  double step = HATCH_STEP * p->scale, half = HATCH_STROKE * p->scale / 2;
  for (int y = down.first; y < down.end; y++)
    for (int x = across.first; x < across.end; x++) {
      double off = fabs(remainder(x + y + 1, step)) / 1.41421356237;
      double covered = fmin(fmax(half + 0.5 - off, 0), 1);
      covered *= overlap(across.low, across.high, x, x + 1) *
                 overlap(down.low, down.high, y, y + 1);
      if (covered > 0) raster_blend(&p->canvas, x, y, s->paint, covered);
    }
}

/* ---- the file ---------------------------------------------------------------------------- */

static void paint(painter *p, const shape *s) {
  switch (s->kind) {
    case SHAPE_RECT:
      rect(p, s);
      break;
    case SHAPE_CIRCLE:
      circle(p, s);
      break;
    case SHAPE_LINE:
      line(p, s);
      break;
    case SHAPE_CURVE:
      curve(p, s);
      break;
    case SHAPE_TEXT:
      text(p, s);
      break;
    case SHAPE_IMAGE:
      image(p, s);
      break;
    case SHAPE_HATCH:
      hatch(p, s);
      break;
  }
  outline_fill(&p->outline, &p->canvas, s->paint);
}

int draw_png(const drawing *d, double scale, void **bytes, size_t *length) {
  double width = ceil(d->width * scale - 1e-6);
  double height = ceil(d->height * scale - 1e-6);
  if (!(width >= 1 && height >= 1 && width * height <= MOST_PIXELS)) return -1;
  painter p = {.canvas = {(int)width, (int)height, NULL}, .scale = scale};
  size_t count = (size_t)p.canvas.width * (size_t)p.canvas.height;
  p.canvas.pixels = need(count, 3);
  for (size_t i = 0; i < count; i++)
    memcpy(p.canvas.pixels + 3 * i, &d->background, 3);
  for (size_t i = 0; i < d->count; i++) paint(&p, &d->shapes[i]);
  png_write(p.canvas.pixels, p.canvas.width, p.canvas.height, 3, bytes, length);
  outline_free(&p.outline);
  free(p.canvas.pixels);
  return 0;
}
