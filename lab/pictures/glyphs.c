/* Letters of pictures: the advances and outlines of the built-in font. */
#include "pictures/glyphs.h"

#include "pictures/font.h"
#include "pictures/letters.h"
#include "pictures/stb.h"

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
