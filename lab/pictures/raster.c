/* Outlines filled with a colour, as pixels.
 *
 * Under draw_png.c.
 */
#include "pictures/raster.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

void outline_free(outline *o) {
  free(o->edges);
  *o = (outline){0};
}

void outline_line(outline *o, double x0, double y0, double x1, double y1) {
  if (o->count == o->capacity) {
    size_t capacity = 2 * o->capacity + 64;
    double *edges = need(capacity, 4 * sizeof *edges);
    if (o->count) memcpy(edges, o->edges, o->count * 4 * sizeof *edges);
    free(o->edges);
    o->edges = edges;
    o->capacity = capacity;
  }
  double *e = o->edges + 4 * o->count++;
  e[0] = x0, e[1] = y0, e[2] = x1, e[3] = y1;
}

/* ---- curves -------------------------------------------------------------------- */

/* Pieces so that none is a fiftieth of a pixel off: the bend's height goes down by
 * the square of their number. */
static int pieces(double bend, int most) {
  int n = (int)ceil(sqrt(bend / 0.02));
  return n < 1 ? 1 : n > most ? most : n;
}

void outline_quadratic(outline *o, const double p[6]) {
  double bend = hypot(p[0] - 2 * p[2] + p[4], p[1] - 2 * p[3] + p[5]) / 4;
  int n = pieces(bend, 32);
  double x = p[0], y = p[1];
  for (int i = 1; i <= n; i++) {
    double t = (double)i / n, s = 1 - t;
    double u = s * s * p[0] + 2 * s * t * p[2] + t * t * p[4];
    double v = s * s * p[1] + 2 * s * t * p[3] + t * t * p[5];
    outline_line(o, x, y, u, v);
    x = u, y = v;
  }
}

int raster_cubic(const double p[8], double points[RASTER_POINTS][2]) {
  double first = hypot(p[0] - 2 * p[2] + p[4], p[1] - 2 * p[3] + p[5]);
  double second = hypot(p[2] - 2 * p[4] + p[6], p[3] - 2 * p[5] + p[7]);
  int n = pieces(fmax(first, second) * 0.75, RASTER_POINTS - 1);
  for (int i = 0; i <= n; i++) {
    double t = (double)i / n, s = 1 - t;
    double w[4] = {s * s * s, 3 * s * s * t, 3 * s * t * t, t * t * t};
    points[i][0] = w[0] * p[0] + w[1] * p[2] + w[2] * p[4] + w[3] * p[6];
    points[i][1] = w[0] * p[1] + w[1] * p[3] + w[2] * p[5] + w[3] * p[7];
  }
  return n + 1;
}

/* The unit normal of the line from p to q; *same if they are one. */
static void normal(const double *p, const double *q, double n[2], bool *same) {
  double dx = q[0] - p[0], dy = q[1] - p[1], length = hypot(dx, dy);
  *same = length < 1e-9;
  if (*same) return;
  n[0] = -dy / length;
  n[1] = dx / length;
}

/* Where the side of a line lies at point i: along the mean of the normals of
 * the pieces that meet, longer at a corner, to twice the width at most. */
static void side(const double *points, int count, int i, double half,
                 double to[2]) {
  double before[2] = {0}, after[2] = {0};
  bool none_before = true, none_after = true;
  if (i > 0) normal(points + 2 * i - 2, points + 2 * i, before, &none_before);
  if (i + 1 < count)
    normal(points + 2 * i, points + 2 * i + 2, after, &none_after);
  if (none_before) memcpy(before, after, sizeof before);
  if (none_after) memcpy(after, before, sizeof after);
  double x = before[0] + after[0], y = before[1] + after[1];
  double square = (x * x + y * y) / 4; /* 1: straight on */
  double reach = half / 2 / fmax(square, 0.25);
  to[0] = x * reach;
  to[1] = y * reach;
}

void outline_stroke(outline *o, const double *points, int count, double width) {
  double left[2] = {0}, right[2] = {0}, n[2];
  for (int i = 0; i < count; i++) {
    const double *p = points + 2 * i;
    side(points, count, i, width / 2, n);
    double l[2] = {p[0] + n[0], p[1] + n[1]}, r[2] = {p[0] - n[0], p[1] - n[1]};
    if (i == 0) {
      outline_line(o, r[0], r[1], l[0], l[1]);
    } else {
      outline_line(o, left[0], left[1], l[0], l[1]);
      outline_line(o, r[0], r[1], right[0], right[1]);
    }
    if (i == count - 1) outline_line(o, l[0], l[1], r[0], r[1]);
    memcpy(left, l, sizeof left);
    memcpy(right, r, sizeof right);
  }
}

/* ---- coverage -------------------------------------------------------------------- */

typedef struct { /* a field of the canvas */
  int x, y, width, height;
  float *area; /* [height, width + 1]: what is added to the running sum */
} field;

/* A piece of an edge within one row, from a to b, that goes down by `down`:
 * each pixel that it crosses gets its share, the rest of the row all of it. */
static void add_piece(float *row, int width, double a, double b, double down) {
  double low = fmin(a, b), high = fmax(a, b);
  low = fmin(fmax(low, 0), width), high = fmin(fmax(high, 0), width);
  if (high - low < 1e-9) high = low;
  double per = high > low ? down / (high - low) : 0;
  for (int x = (int)low; x < width; x++) {
    double from = fmax(low, x), to = fmin(high, x + 1);
    double part = high > low ? per * (to - from) : down;
    double right = 1 - ((from + to) / 2 - x);
    row[x] += (float)(part * right);
    row[x + 1] += (float)(part * (1 - right));
    if (high <= x + 1) break;
  }
}

static void add_edge(field *f, const double e[4]) {
  double x0 = e[0] - f->x, y0 = e[1] - f->y, x1 = e[2] - f->x, y1 = e[3] - f->y;
  double sign = 1;
  if (y0 == y1) return;
  if (y0 > y1) {
    double x = x0, y = y0;
    x0 = x1, y0 = y1, x1 = x, y1 = y, sign = -1;
  }
  double slope = (x1 - x0) / (y1 - y0);
  double top = fmax(y0, 0), bottom = fmin(y1, f->height);
  for (int y = (int)top; y < bottom; y++) {
    double from = fmax(top, y), to = fmin(bottom, y + 1);
    add_piece(f->area + (size_t)y * (size_t)(f->width + 1), f->width,
              x0 + (from - y0) * slope, x0 + (to - y0) * slope,
              sign * (to - from));
  }
}

static field field_of(const outline *o, const canvas *to) {
  double low[2] = {1e9, 1e9}, high[2] = {-1e9, -1e9};
  for (size_t i = 0; i < 2 * o->count; i++)
    for (int a = 0; a < 2; a++) {
      low[a] = fmin(low[a], o->edges[2 * i + (size_t)a]);
      high[a] = fmax(high[a], o->edges[2 * i + (size_t)a]);
    }
  field f = {.x = (int)floor(fmax(low[0], 0)),
             .y = (int)floor(fmax(low[1], 0))};
  f.width = (int)ceil(fmin(high[0], to->width)) - f.x;
  f.height = (int)ceil(fmin(high[1], to->height)) - f.y;
  return f;
}

static uint8_t mixed(uint8_t below, uint8_t above, double share) {
  return (uint8_t)(below + (above - below) * share + 0.5);
}

void raster_blend(canvas *to, int x, int y, colour paint, double coverage) {
  uint8_t *p = to->pixels + 3 * ((size_t)y * (size_t)to->width + (size_t)x);
  double share = coverage * paint.a / 255;
  p[0] = mixed(p[0], paint.r, share);
  p[1] = mixed(p[1], paint.g, share);
  p[2] = mixed(p[2], paint.b, share);
}

static void fill_row(const field *f, int y, canvas *to, colour paint) {
  const float *row = f->area + (size_t)y * (size_t)(f->width + 1);
  double sum = 0;
  for (int x = 0; x < f->width; x++) {
    sum += (double)row[x];
    double coverage = fmin(fabs(sum), 1);
    if (coverage > 1e-4) raster_blend(to, f->x + x, f->y + y, paint, coverage);
  }
}

void outline_fill(outline *o, canvas *to, colour paint) {
  field f = field_of(o, to);
  if (o->count && f.width > 0 && f.height > 0) {
    f.area = need((size_t)f.height * (size_t)(f.width + 1), sizeof *f.area);
    for (size_t i = 0; i < o->count; i++) add_edge(&f, o->edges + 4 * i);
    for (int y = 0; y < f.height; y++) fill_row(&f, y, to, paint);
    free(f.area);
  }
  o->count = 0;
}
