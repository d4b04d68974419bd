/* Paths filled with a colour, as pixels, and the outlines of letters; both by stb_truetype. */
#include "pictures/raster.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "pictures/draw.h"

/* What calls into stb_truetype take their memory from: its userdata. */
typedef struct {
  bool *failed; /* set where there is no memory */
  /* stbtt_Rasterize does not check its fourth allocation, a row of floats: it is
   * made beforehand. */
  void *row;
  size_t row_size;
  int calls;
} stb_memory;

static void *stb_take(size_t size, stb_memory *m) {
  if (++m->calls == 4 && size <= m->row_size) return m->row;
  void *block = malloc(size ? size : 1);
  if (!block) *m->failed = true;
  return block;
}

static void stb_give(void *block, stb_memory *m) {
  if (block != m->row) free(block);
}

/* stb_truetype as it is used here: vertices of floats, memory that may run out, no
 * assertions. */
#define STB_TRUETYPE_IMPLEMENTATION
#define stbtt_vertex_type float
#define stbtt_vertex path_vertex
#define STBTT_malloc(size, user) stb_take(size, user)
#define STBTT_free(block, user) stb_give(block, user)
#define STBTT_assert(x) ((void)0)
#include <stb/stb_truetype.h>

/* ---- paths ---------------------------------------------------------------------- */

void path_free(path *p) {
  free(p->vertex);
  *p = (path){0};
}

void path_add(path *p, path_vertex v) {
  if (p->count == p->capacity) {
    size_t capacity = 2 * p->capacity + 64;
    path_vertex *more = calloc(capacity, sizeof *more);
    if (!more) {
      p->failed = true;
      return;
    }
    if (p->count) memcpy(more, p->vertex, p->count * sizeof *more);
    free(p->vertex);
    p->vertex = more;
    p->capacity = capacity;
  }
  p->vertex[p->count++] = v;
}

void path_move(path *p, double x, double y) {
  path_add(p, (path_vertex){(float)x, (float)y, 0, 0, 0, 0, STBTT_vmove, 0});
}

void path_line(path *p, double x, double y) {
  path_add(p, (path_vertex){(float)x, (float)y, 0, 0, 0, 0, STBTT_vline, 0});
}

void path_cubic(path *p, const double c[6]) {
  path_add(p, (path_vertex){(float)c[4], (float)c[5], (float)c[0], (float)c[1], (float)c[2],
                            (float)c[3], STBTT_vcubic, 0});
}

/* ---- strokes -------------------------------------------------------------------- */

/* The unit normal of the line from p to q; *same if they are one. */
static void normal(const double *p, const double *q, double n[2], bool *same) {
  double dx = q[0] - p[0], dy = q[1] - p[1], length = hypot(dx, dy);
  *same = length < 1e-9;
  if (*same) return;
  n[0] = -dy / length;
  n[1] = dx / length;
}

/* Where the side of a line lies at point i: along the mean of the normals of
 * the segments that meet, longer at a corner, to twice the width at most. */
static void side(const double *points, int count, int i, double half, double to[2]) {
  double before[2] = {0}, after[2] = {0};
  bool none_before = true, none_after = true;
  if (i > 0) normal(points + 2 * i - 2, points + 2 * i, before, &none_before);
  if (i + 1 < count) normal(points + 2 * i, points + 2 * i + 2, after, &none_after);
  if (none_before) memcpy(before, after, sizeof before);
  if (none_after) memcpy(after, before, sizeof after);
  double x = before[0] + after[0], y = before[1] + after[1];
  double square = (x * x + y * y) / 4; /* 1: straight on */
  double reach = half / 2 / fmax(square, 0.25);
  to[0] = points[2 * i] + x * reach;
  to[1] = points[2 * i + 1] + y * reach;
}

/* Forth along one side and back along the other. */
void path_stroke(path *p, const double *points, int count, double width) {
  double at[2];
  for (int i = 0; i < 2 * count; i++) {
    bool back = i >= count;
    side(points, count, back ? 2 * count - 1 - i : i, back ? -width / 2 : width / 2, at);
    if (i)
      path_line(p, at[0], at[1]);
    else
      path_move(p, at[0], at[1]);
  }
}

/* Segments so that none is a fiftieth of a pixel off: the error falls with the
 * square of their number. */
void path_stroke_cubic(path *p, const double c[8], double width) {
  enum { MOST = 128 };
  double points[2 * MOST + 2];
  double first = hypot(c[0] - 2 * c[2] + c[4], c[1] - 2 * c[3] + c[5]);
  double second = hypot(c[2] - 2 * c[4] + c[6], c[3] - 2 * c[5] + c[7]);
  int n = (int)fmin(ceil(sqrt(fmax(first, second) * 0.75 / 0.02)), MOST);
  if (n < 1) n = 1;
  for (int i = 0; i <= n; i++) {
    double t = (double)i / n, s = 1 - t;
    double w[4] = {s * s * s, 3 * s * s * t, 3 * s * t * t, t * t * t};
    for (int a = 0; a < 2; a++)
      points[2 * i + a] = w[0] * c[a] + w[1] * c[2 + a] + w[2] * c[4 + a] + w[3] * c[6 + a];
  }
  path_stroke(p, points, n + 1, width);
}

/* ---- pixels ---------------------------------------------------------------------- */

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

typedef struct { /* pixels [x0, x1) x [y0, y1) */
  int x0, y0, x1, y1;
} bounds;

static void extend(bounds *b, float x, float y) {
  b->x0 = (int)fmin(b->x0, floor((double)x));
  b->y0 = (int)fmin(b->y0, floor((double)y));
  b->x1 = (int)fmax(b->x1, ceil((double)x));
  b->y1 = (int)fmax(b->y1, ceil((double)y));
}

/* Those of the canvas that the path may touch. */
static bounds bounds_of(const path *p, const canvas *to) {
  bounds b = {to->width, to->height, 0, 0};
  for (size_t i = 0; i < p->count; i++) {
    const path_vertex *v = &p->vertex[i];
    extend(&b, v->x, v->y);
    if (v->type == STBTT_vcurve || v->type == STBTT_vcubic) extend(&b, v->cx, v->cy);
    if (v->type == STBTT_vcubic) extend(&b, v->cx1, v->cy1);
  }
  if (b.x0 < 0) b.x0 = 0;
  if (b.y0 < 0) b.y0 = 0;
  if (b.x1 > to->width) b.x1 = to->width;
  if (b.y1 > to->height) b.y1 = to->height;
  return b;
}

static void blend(const stbtt__bitmap *from, const bounds *b, canvas *to, colour paint) {
  for (int y = 0; y < from->h; y++) {
    const uint8_t *row = from->pixels + (size_t)y * (size_t)from->stride;
    for (int x = 0; x < from->w; x++)
      if (row[x]) raster_blend(to, b->x0 + x, b->y0 + y, paint, row[x] / 255.0);
  }
}

static void fill(path *p, const bounds *b, canvas *to, colour paint) {
  int w = b->x1 - b->x0, h = b->y1 - b->y0;
  stb_memory m = {&p->failed, NULL, (2 * (size_t)w + 1) * sizeof(float), 0};
  stbtt__bitmap coverage = {w, h, w, malloc((size_t)w * (size_t)h)};
  m.row = malloc(m.row_size);
  if (m.row && coverage.pixels) {
    stbtt_Rasterize(&coverage, 0.05F, p->vertex, (int)p->count, 1, 1, 0, 0, b->x0, b->y0, 0, &m);
    if (!p->failed) blend(&coverage, b, to, paint);
  } else {
    p->failed = true;
  }
  free(m.row);
  free(coverage.pixels);
}

void path_fill(path *p, canvas *to, colour paint) {
  bounds b = bounds_of(p, to);
  if (b.x0 < b.x1 && b.y0 < b.y1) fill(p, &b, to, paint);
  p->count = 0;
}

/* ---- letters ------------------------------------------------------------------------------- */

/* The bytes of the two built-in font files; cmake/pictures.cmake finds them. */
#define EMBED(name, file)             \
  __asm__(                            \
      ".pushsection .rodata\n"        \
      ".balign 16\n"                  \
      ".global " #name                \
      "\n"                            \
      ".hidden " #name "\n" #name     \
      ":\n"                           \
      ".incbin \"" file               \
      "\"\n"                          \
      ".global " #name                \
      "_end\n"                        \
      ".hidden " #name "_end\n" #name \
      "_end:\n"                       \
      ".byte 0\n"                     \
      ".popsection\n")

EMBED(glyphs_font_plain, ATTEND_FONT_PLAIN);
EMBED(glyphs_font_bold, ATTEND_FONT_BOLD);
extern const unsigned char glyphs_font_plain[], glyphs_font_bold[];

/* The font comes from the build and is trusted, as stb_truetype requires. */
static stbtt_fontinfo font_open(bool bold, stb_memory *m) {
  stbtt_fontinfo f;
  stbtt_InitFont(&f, bold ? glyphs_font_bold : glyphs_font_plain, 0);
  f.userdata = m;
  return f;
}

/* Of a character that the font lacks. */
static double box_width(uint32_t code) {
  return letters_columns(code) == 0 ? 0 : letters_columns(code) == 2 ? 1 : 0.6;
}

double glyphs_advance(bool bold, uint32_t code) {
  stbtt_fontinfo f = font_open(bold, NULL);
  int advance, bearing, glyph = stbtt_FindGlyphIndex(&f, (int)code);
  if (!glyph) return box_width(code);
  stbtt_GetGlyphHMetrics(&f, glyph, &advance, &bearing);
  return advance * (double)stbtt_ScaleForMappingEmToPixels(&f, 1);
}

static void transform(const affine *m, float *x, float *y) {
  double u = (double)*x, v = (double)*y;
  *x = (float)(m->a * u + m->c * v + m->e);
  *y = (float)(m->b * u + m->d * v + m->f);
}

static void add(path *to, const affine *m, path_vertex v) {
  transform(m, &v.x, &v.y);
  transform(m, &v.cx, &v.cy);
  path_add(to, v);
}

static void rectangle(path *to, const affine *m, double x0, double y0, double x1, double y1) {
  const double corner[4][2] = {{x0, y0}, {x0, y1}, {x1, y1}, {x1, y0}};
  for (int i = 0; i < 4; i++)
    add(to, m,
        (path_vertex){.x = (float)corner[i][0],
                      .y = (float)corner[i][1],
                      .type = i ? STBTT_vline : STBTT_vmove});
}

static void box(path *to, const affine *m, double width) {
  if (width <= 0) return;
  rectangle(to, m, 0.08, 0, width - 0.08, GLYPHS_CAPITAL);
  rectangle(to, m, width - 0.13, 0.05, 0.13, GLYPHS_CAPITAL - 0.05);
}

void glyphs_outline(bool bold, uint32_t code, const affine *m, path *to) {
  stb_memory memory = {.failed = &to->failed};
  stbtt_fontinfo f = font_open(bold, &memory);
  int glyph = stbtt_FindGlyphIndex(&f, (int)code);
  if (!glyph) {
    box(to, m, box_width(code));
    return;
  }
  path_vertex *vertex;
  int count = stbtt_GetGlyphShape(&f, glyph, &vertex);
  double unit = (double)stbtt_ScaleForMappingEmToPixels(&f, 1);
  affine scaled = {m->a * unit, m->b * unit, m->c * unit, m->d * unit, m->e, m->f};
  for (int i = 0; i < count; i++) add(to, &scaled, vertex[i]);
  stbtt_FreeShape(&f, vertex);
}
