/* A picture as .png: its shapes as pixels. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "pictures/draw.h"
#include "pictures/raster.h"

enum { MOST_PIXELS = 1 << 27 };

typedef struct {
  canvas canvas;
  path path; /* of the shape that is being drawn */
  double scale;
  attend_status status;
} painter;

/* ---- outlines of shapes ------------------------------------------------------------ */

/* A box with round corners; direction -1: as a hole. */
static void round_box(painter *p, double x, double y, double w, double h, double r, int direction) {
  const double k = 1 - 0.5522847498; /* a quarter of a circle as a cubic curve */
  const double corner[4][2] = {{x + w, y}, {x + w, y + h}, {x, y + h}, {x, y}};
  static const double along[4][2] = {{1, 0}, {0, 1}, {-1, 0}, {0, -1}};
  for (int n = 0; n < 4; n++) {
    int i = direction > 0 ? n : 3 - n;
    const double *c = corner[i], *in = along[i], *out = along[(i + 1) % 4];
    double from[2], curve[6];
    for (int a = 0; a < 2; a++) {
      double before = in[a] * r, after = out[a] * r;
      from[a] = direction > 0 ? c[a] - before : c[a] + after;
      curve[4 + a] = direction > 0 ? c[a] + after : c[a] - before;
      curve[a] = c[a] + (from[a] - c[a]) * k;
      curve[2 + a] = c[a] + (curve[4 + a] - c[a]) * k;
    }
    if (n)
      path_line(&p->path, from[0], from[1]);
    else
      path_move(&p->path, from[0], from[1]);
    if (r > 0) path_cubic(&p->path, curve);
  }
}

static void rect(painter *p, const shape *s) {
  double k = p->scale, half = s->stroke / 2;
  round_box(p, (s->x - half) * k, (s->y - half) * k, (s->w + 2 * half) * k, (s->h + 2 * half) * k,
            s->radius > 0 ? (s->radius + half) * k : 0, 1);
  if (half > 0)
    round_box(p, (s->x + half) * k, (s->y + half) * k, (s->w - 2 * half) * k, (s->h - 2 * half) * k,
              fmax(s->radius - half, 0) * k, -1);
}

static void circle(painter *p, const shape *s) {
  double k = p->scale, r = s->radius;
  round_box(p, (s->x - r) * k, (s->y - r) * k, 2 * r * k, 2 * r * k, r * k, 1);
}

static void line(painter *p, const shape *s) {
  double *points = calloc((size_t)s->count * 2, sizeof *points);
  if (!points) {
    p->status = ATTEND_NO_MEMORY;
    return;
  }
  for (int i = 0; i < 2 * s->count; i++) points[i] = s->points[i] * p->scale;
  if (s->kind == SHAPE_CURVE)
    path_stroke_cubic(&p->path, points, s->stroke * p->scale);
  else
    path_stroke(&p->path, points, s->count, s->stroke * p->scale);
  free(points);
}

/* ---- texts ---------------------------------------------------------------------------- */

/* The baseline lies on pixels, unless it is a diagonal. */
static void text(painter *p, const shape *s) {
  double turn = s->turn * 3.14159265358979323846 / 180;
  double size = s->size * p->scale, x = s->x * p->scale, y = s->y * p->scale;
  affine m = {size * cos(turn), size * sin(turn), size * sin(turn), -size * cos(turn), 0, 0};
  if (s->turn == 0) y = round(y);
  if (s->turn == -90) x = round(x);
  double along = 0, width = draw_text_width(s->text, 1, s->bold);
  if (s->anchor == ANCHOR_MIDDLE) along = -width / 2;
  if (s->anchor == ANCHOR_END) along = -width;
  const char *at = s->text;
  for (uint32_t code; (code = letters_next(&at));) {
    m.e = x + along * m.a;
    m.f = y + along * m.b;
    glyphs_outline(s->bold, code, &m, &p->path);
    path_fill(&p->path, &p->canvas, s->paint);
    along += glyphs_advance(s->bold, code);
  }
}

/* ---- images and hatching ---------------------------------------------------------------------------- */

typedef struct { /* the pixels [first, end) that the interval [low, high) touches */
  double low, high;
  int first, end;
} span;

static span span_of(double at, double length, double scale, int limit) {
  span s = {at * scale, (at + length) * scale, 0, 0};
  s.first = (int)fmax(floor(s.low), 0);
  s.end = (int)fmin(ceil(s.high), limit);
  return s;
}

static double overlap(double a0, double a1, double b0, double b1) {
  return fmax(fmin(a1, b1) - fmax(a0, b0), 0);
}

/* The mean of the cells under a pixel, by area: one cell's colour inside it, no
 * steps of uneven width where cells are no whole pixels. */
static void image_pixel(painter *p, const shape *s, const span *across, const span *down, int x,
                        int y) {
  double cw = (across->high - across->low) / s->columns;
  double ch = (down->high - down->low) / s->rows, sum[4] = {0};
  int c0 = (int)fmax(floor((x - across->low) / cw), 0);
  int r0 = (int)fmax(floor((y - down->low) / ch), 0);
  for (int r = r0; r < s->rows && down->low + r * ch < y + 1; r++)
    for (int c = c0; c < s->columns && across->low + c * cw < x + 1; c++) {
      double left = across->low + c * cw, top = down->low + r * ch;
      const uint8_t *cell = s->cells + 4 * ((size_t)r * (size_t)s->columns + (size_t)c);
      double share =
          overlap(left, left + cw, x, x + 1) * overlap(top, top + ch, y, y + 1) * cell[3];
      sum[3] += share;
      for (int i = 0; i < 3; i++) sum[i] += share * cell[i];
    }
  if (sum[3] <= 0) return;
  colour mean = {(uint8_t)lround(sum[0] / sum[3]), (uint8_t)lround(sum[1] / sum[3]),
                 (uint8_t)lround(sum[2] / sum[3]), 255};
  raster_blend(&p->canvas, x, y, mean, fmin(sum[3] / 255, 1));
}

static void image(painter *p, const shape *s) {
  span across = span_of(s->x, s->w, p->scale, p->canvas.width);
  span down = span_of(s->y, s->h, p->scale, p->canvas.height);
  for (int y = down.first; y < down.end; y++)
    for (int x = across.first; x < across.end; x++) image_pixel(p, s, &across, &down, x, y);
}

/* Stripes where x + y is a multiple of the step, as svg.c has them. */
static void hatch(painter *p, const shape *s) {
  span across = span_of(s->x, s->w, p->scale, p->canvas.width);
  span down = span_of(s->y, s->h, p->scale, p->canvas.height);
  double step = HATCH_STEP * p->scale, half = HATCH_STROKE * p->scale / 2;
  for (int y = down.first; y < down.end; y++)
    for (int x = across.first; x < across.end; x++) {
      double off = fabs(remainder(x + y + 1, step)) / 1.41421356237;
      double covered = fmin(fmax(half + 0.5 - off, 0), 1);
      covered *=
          overlap(across.low, across.high, x, x + 1) * overlap(down.low, down.high, y, y + 1);
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
    case SHAPE_CURVE:
      line(p, s);
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
  path_fill(&p->path, &p->canvas, s->paint);
}

attend_status draw_png(const drawing *d, double scale, void **bytes, size_t *length) {
  double width = ceil(d->width * scale - 1e-6);
  double height = ceil(d->height * scale - 1e-6);
  *bytes = NULL;
  *length = 0;
  if (d->status) return d->status;
  if (!(width >= 1 && height >= 1 && width * height <= MOST_PIXELS)) return ATTEND_INVALID;
  painter p = {.canvas = {(int)width, (int)height, NULL}, .scale = scale};
  size_t count = (size_t)p.canvas.width * (size_t)p.canvas.height;
  p.canvas.pixels = calloc(count, 3);
  if (!p.canvas.pixels) return ATTEND_NO_MEMORY;
  for (size_t i = 0; i < count; i++) memcpy(p.canvas.pixels + 3 * i, &d->background, 3);
  for (size_t i = 0; i < d->count; i++) paint(&p, &d->shapes[i]);
  if (p.path.failed) p.status = ATTEND_NO_MEMORY;
  if (!p.status)
    p.status = png_write(p.canvas.pixels, p.canvas.width, p.canvas.height, 3, bytes, length);
  path_free(&p.path);
  free(p.canvas.pixels);
  return p.status;
}

/* ---- PNG ----------------------------------------------------------------------------------- */

/* A PNG is a signature and chunks (length, name, data, CRC). The pixels are rows, each
 * after a byte that names its prediction filter, compressed by zlib. Pictures are flat:
 * without a filter they compress best. */

typedef struct {
  uint8_t *bytes;
  size_t length;
} file;

static void put_number(file *f, uint32_t x) {
  for (int shift = 24; shift >= 0; shift -= 8) f->bytes[f->length++] = (uint8_t)(x >> shift);
}

static void put_chunk(file *f, const char *name, const void *data, size_t length) {
  put_number(f, (uint32_t)length);
  uint8_t *start = f->bytes + f->length;
  memcpy(start, name, 4);
  if (length) memcpy(start + 4, data, length);
  f->length += 4 + length;
  put_number(f, (uint32_t)crc32_z(0, start, 4 + length));
}

/* Each row after the byte 0: not predicted from others. */
static uint8_t *rows_of(const uint8_t *pixels, size_t size, size_t height) {
  uint8_t *rows = calloc(height, size + 1);
  for (size_t y = 0; y < height && rows; y++)
    memcpy(rows + y * (size + 1) + 1, pixels + y * size, size);
  return rows;
}

static void put_head(file *f, int width, int height, int channels) {
  static const uint8_t signature[8] = {137, 'P', 'N', 'G', 13, 10, 26, 10};
  uint8_t fields[13] = {0};
  file head = {fields, 0};
  put_number(&head, (uint32_t)width);
  put_number(&head, (uint32_t)height);
  fields[8] = 8; /* bits of a channel */
  fields[9] = channels == 4 ? 6 : 2;
  memcpy(f->bytes, signature, sizeof signature);
  f->length = sizeof signature;
  put_chunk(f, "IHDR", fields, sizeof fields);
}

attend_status png_write(const uint8_t *pixels, int width, int height, int channels, void **bytes,
                        size_t *length) {
  size_t size = (size_t)width * (size_t)channels, rows = (size_t)height;
  uint8_t *plain = rows_of(pixels, size, rows);
  uLongf packed_size = compressBound(rows * (size + 1));
  uint8_t *packed = calloc(packed_size, 1);
  file f = {NULL, 0};
  if (plain && packed && !compress2(packed, &packed_size, plain, rows * (size + 1), 8))
    f.bytes = calloc(packed_size + 128, 1);
  if (f.bytes) {
    put_head(&f, width, height, channels);
    put_chunk(&f, "sRGB", "\0", 1);
    put_chunk(&f, "IDAT", packed, packed_size);
    put_chunk(&f, "IEND", NULL, 0);
  }
  free(packed);
  free(plain);
  *bytes = f.bytes;
  *length = f.length;
  return f.bytes ? ATTEND_OK : ATTEND_NO_MEMORY;
}
