/* The letters of pictures: outlines of the font that is built in.
 *
 * Under draw.c and draw_png.c. The bytes are in glyphs_font.c.
 *
 * A TrueType file is a directory of tables, all numbers big endian:
 *   cmap  character -> glyph (formats 4 and 12)
 *   hmtx  glyph -> advance; hhea says how many there are
 *   loca  glyph -> where its outline starts and ends in
 *   glyf  outlines: contours of points, on the curve or controlling it, or
 *         other glyphs, moved and scaled
 *   head  units per size, and how loca is written
 * The file comes from the build and is trusted; still a read outside it gives 0,
 * and what does not add up draws nothing.
 */
#include "pictures/glyphs.h"

#include <stddef.h>

#include "pictures/glyphs_font.h"
#include "pictures/letters.h"

enum { MOST_POINTS = 2048, DEEPEST = 5 };

typedef struct {
  const unsigned char *bytes;
  size_t size;
  size_t cmap, hmtx, hhea, loca, glyf, head, maxp;
} font;

static uint32_t u8(const font *f, size_t at) {
  return at < f->size ? f->bytes[at] : 0;
}
static uint32_t u16(const font *f, size_t at) {
  return u8(f, at) << 8 | u8(f, at + 1);
}
static uint32_t u32(const font *f, size_t at) {
  return u16(f, at) << 16 | u16(f, at + 2);
}
static int i16(const font *f, size_t at) { return (int16_t)u16(f, at); }

static size_t table_at(const font *f, uint32_t tag) {
  uint32_t count = u16(f, 4);
  for (uint32_t i = 0; i < count; i++)
    if (u32(f, 12 + 16 * i) == tag) return u32(f, 20 + 16 * i);
  return f->size; /* reads as zeros */
}

#define TAG(a, b, c, d) \
  ((uint32_t)(a) << 24 | (uint32_t)(b) << 16 | (uint32_t)(c) << 8 | (d))

static font font_open(bool bold) {
  font f = {.bytes = bold ? glyphs_font_bold : glyphs_font_plain};
  f.size =
      (size_t)((bold ? glyphs_font_bold_end : glyphs_font_plain_end) - f.bytes);
  f.cmap = table_at(&f, TAG('c', 'm', 'a', 'p'));
  f.hmtx = table_at(&f, TAG('h', 'm', 't', 'x'));
  f.hhea = table_at(&f, TAG('h', 'h', 'e', 'a'));
  f.loca = table_at(&f, TAG('l', 'o', 'c', 'a'));
  f.glyf = table_at(&f, TAG('g', 'l', 'y', 'f'));
  f.head = table_at(&f, TAG('h', 'e', 'a', 'd'));
  f.maxp = table_at(&f, TAG('m', 'a', 'x', 'p'));
  return f;
}

static double units(const font *f) {
  uint32_t n = u16(f, f->head + 18);
  return n ? n : 1;
}

/* ---- from characters to glyphs ------------------------------------------------ */

static uint32_t glyph_in_4(const font *f, size_t at, uint32_t code) {
  uint32_t twice = u16(f, at + 6);
  size_t ends = at + 14, starts = ends + twice + 2;
  for (uint32_t i = 0; i < twice && code <= 0xffff; i += 2) {
    if (code > u16(f, ends + i)) continue;
    uint32_t start = u16(f, starts + i);
    uint32_t delta = u16(f, starts + twice + i);
    size_t from = starts + 2 * twice + i;
    if (code < start) return 0;
    if (u16(f, from) == 0) return (code + delta) & 0xffff;
    uint32_t glyph = u16(f, from + u16(f, from) + 2 * (code - start));
    return glyph ? (glyph + delta) & 0xffff : 0;
  }
  return 0;
}

static uint32_t glyph_in_12(const font *f, size_t at, uint32_t code) {
  uint32_t low = 0, high = u32(f, at + 12);
  if (high > f->size / 12) return 0;
  while (low < high) {
    uint32_t middle = low + (high - low) / 2;
    size_t group = at + 16 + 12 * (size_t)middle;
    if (code > u32(f, group + 4))
      low = middle + 1;
    else if (code < u32(f, group))
      high = middle;
    else
      return u32(f, group + 8) + code - u32(f, group);
  }
  return 0;
}

/* 0: the font has none. */
static uint32_t glyph_of(const font *f, uint32_t code) {
  uint32_t count = u16(f, f->cmap + 2), glyph = 0;
  for (uint32_t i = 0; i < count && !glyph; i++) {
    size_t at = f->cmap + u32(f, f->cmap + 8 + 8 * i);
    if (u16(f, at) == 12) glyph = glyph_in_12(f, at, code);
    if (u16(f, at) == 4) glyph = glyph_in_4(f, at, code);
  }
  return glyph < u16(f, f->maxp + 4) ? glyph : 0;
}

static double box_width(uint32_t code) {
  return letters_columns(code) == 0 ? 0 : letters_columns(code) == 2 ? 1 : 0.6;
}

double glyphs_advance(bool bold, uint32_t code) {
  font f = font_open(bold);
  uint32_t glyph = glyph_of(&f, code), count = u16(&f, f.hhea + 34);
  if (!glyph || !count) return box_width(code);
  if (glyph >= count) glyph = count - 1; /* the last advance holds on */
  return u16(&f, f.hmtx + 4 * (size_t)glyph) / units(&f);
}

/* ---- outlines ------------------------------------------------------------------ */

typedef struct { /* x' = a x + c y + e, y' = b x + d y + f */
  double a, b, c, d, e, f;
} motion;

typedef struct {
  double x, y;
  bool on; /* the curve; else it bends it */
} point;

typedef struct {
  const font *font;
  glyphs_curve curve;
  void *user;
} pen;

static point between(point p, point q) {
  return (point){(p.x + q.x) / 2, (p.y + q.y) / 2, true};
}

static void emit(const pen *to, point p, point bend, point q) {
  double curve[6] = {p.x, p.y, bend.x, bend.y, q.x, q.y};
  to->curve(curve, to->user);
}

/* Between two points that bend lies one on the curve that is not written. */
static void contour(const pen *to, const point *p, int count) {
  bool first_on = p[0].on, last_on = p[count - 1].on;
  point start = first_on  ? p[0]
                : last_on ? p[count - 1]
                          : between(p[0], p[count - 1]);
  int from = first_on ? 1 : 0, end = !first_on && last_on ? count - 1 : count;
  point at = start, bend = start;
  bool bent = false;
  for (int i = from; i < end; i++) {
    point next = p[i].on || !bent ? p[i] : between(bend, p[i]);
    if (next.on) {
      emit(to, at, bent ? bend : between(at, next), next);
      at = next;
    }
    bent = !p[i].on;
    if (bent) bend = p[i];
  }
  emit(to, at, bent ? bend : between(at, start), start);
}

/* Flags come run-length coded; returns where the coordinates start. */
static size_t read_flags(const font *f, size_t at, int count, uint8_t *flags) {
  for (int i = 0; i < count;) {
    uint8_t flag = (uint8_t)u8(f, at++);
    uint32_t more = flag & 8 ? u8(f, at++) : 0;
    for (uint32_t n = 0; n <= more && i < count; n++) flags[i++] = flag;
  }
  return at;
}

/* Differences: one byte with a sign of its own, none (the same), or two bytes. */
static size_t read_axis(const font *f, size_t at, int count,
                        const uint8_t *flags, int is_y, double *to) {
  int shorter = 2 << is_y, same = 16 << is_y, value = 0;
  for (int i = 0; i < count; i++) {
    if (flags[i] & shorter) {
      int step = (int)u8(f, at++);
      value += flags[i] & same ? step : -step;
    } else if (!(flags[i] & same)) {
      value += i16(f, at);
      at += 2;
    }
    to[i] = value;
  }
  return at;
}

static void simple(const pen *to, size_t at, int contours, const motion *m) {
  uint8_t flags[MOST_POINTS];
  double x[MOST_POINTS], y[MOST_POINTS];
  point p[MOST_POINTS];
  const font *f = to->font;
  size_t ends = at + 10, after = ends + 2 * (size_t)contours;
  int count = (int)u16(f, after - 2) + 1, first = 0;
  if (count > MOST_POINTS) return;
  size_t xs = read_flags(f, after + 2 + u16(f, after), count, flags);
  read_axis(f, read_axis(f, xs, count, flags, 0, x), count, flags, 1, y);
  for (int i = 0; i < count; i++)
    p[i] = (point){m->a * x[i] + m->c * y[i] + m->e,
                   m->b * x[i] + m->d * y[i] + m->f, flags[i] & 1};
  for (int i = 0; i < contours; i++) {
    int end = (int)u16(f, ends + 2 * (size_t)i) + 1;
    if (end <= first || end > count) return;
    contour(to, p + first, end - first);
    first = end;
  }
}

static double part(const font *f, size_t at) { return i16(f, at) / 16384.0; }

/* The motion of a component, of which *at is moved behind its numbers. */
static motion component(const font *f, uint32_t flags, size_t *at) {
  motion m = {1, 0, 0, 1, 0, 0};
  bool words = flags & 1, offsets = flags & 2;
  m.e = words ? i16(f, *at) : (int8_t)u8(f, *at);
  m.f = words ? i16(f, *at + 2) : (int8_t)u8(f, *at + 1);
  if (!offsets) m.e = m.f = 0; /* by matching points: not in this font */
  *at += words ? 4 : 2;
  if (flags & 8) {
    m.a = m.d = part(f, *at);
    *at += 2;
  } else if (flags & 0x40) {
    m.a = part(f, *at), m.d = part(f, *at + 2);
    *at += 4;
  } else if (flags & 0x80) {
    m.a = part(f, *at), m.b = part(f, *at + 2);
    m.c = part(f, *at + 4), m.d = part(f, *at + 6);
    *at += 8;
  }
  return m;
}

static motion within(const motion *o, const motion *i) {
  return (motion){
      o->a * i->a + o->c * i->b,        o->b * i->a + o->d * i->b,
      o->a * i->c + o->c * i->d,        o->b * i->c + o->d * i->d,
      o->a * i->e + o->c * i->f + o->e, o->b * i->e + o->d * i->f + o->f};
}

static void glyph(const pen *to, uint32_t index, const motion *m, int depth) {
  const font *f = to->font;
  bool wide = i16(f, f->head + 50) != 0;
  size_t at = wide ? u32(f, f->loca + 4 * (size_t)index)
                   : 2 * (size_t)u16(f, f->loca + 2 * (size_t)index);
  size_t end = wide ? u32(f, f->loca + 4 * (size_t)index + 4)
                    : 2 * (size_t)u16(f, f->loca + 2 * (size_t)index + 2);
  if (end <= at || depth > DEEPEST) return;
  at += f->glyf;
  int contours = i16(f, at);
  if (contours >= 0) {
    if (contours) simple(to, at, contours, m);
    return;
  }
  uint32_t flags = 0x20; /* more follow */
  for (at += 10; flags & 0x20 && at < f->size;) {
    flags = u16(f, at);
    uint32_t inner = u16(f, at + 2);
    at += 4;
    motion own = component(f, flags, &at), all = within(m, &own);
    glyph(to, inner, &all, depth + 1);
  }
}

static void rectangle(const pen *to, double x0, double y0, double x1,
                      double y1) {
  point p[4] = {{x0, y0, true}, {x0, y1, true}, {x1, y1, true}, {x1, y0, true}};
  contour(to, p, 4);
}

static void box(const pen *to, double width) {
  if (width <= 0) return;
  rectangle(to, 0.08, 0, width - 0.08, GLYPHS_CAPITAL);
  rectangle(to, width - 0.13, 0.05, 0.13, GLYPHS_CAPITAL - 0.05);
}

void glyphs_outline(bool bold, uint32_t code, glyphs_curve curve, void *user) {
  font f = font_open(bold);
  pen to = {&f, curve, user};
  double unit = 1 / units(&f);
  motion m = {unit, 0, 0, unit, 0, 0};
  uint32_t index = glyph_of(&f, code);
  if (index)
    glyph(&to, index, &m, 0);
  else
    box(&to, box_width(code));
}
