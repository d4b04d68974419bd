/* A picture as .svg: one file that needs nothing beside it.
 *
 * No scripts, no links, no style sheets: it may be put into a page, a paper or
 * an editor as it is. Heat maps are images inside it, one pixel a cell.
 */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "pictures/draw.h"
#include "pictures/letters.h"
#include "pictures/png_write.h"

typedef struct {
  char *bytes;
  size_t length, capacity;
} sink;

static void put(sink *to, const char *bytes, size_t length) {
  if (to->length + length + 1 > to->capacity) {
    size_t capacity = 2 * (to->length + length) + 4096;
    char *more = need(capacity, 1);
    if (to->length) memcpy(more, to->bytes, to->length);
    free(to->bytes);
    to->bytes = more;
    to->capacity = capacity;
  }
  memcpy(to->bytes + to->length, bytes, length);
  to->length += length;
}

static void puts_to(sink *to, const char *text) { put(to, text, strlen(text)); }

/* ` name="1.25"`: two digits behind the point are a fortieth of what is seen. */
static void number(sink *to, const char *name, double x) {
  char text[64], value[32];
  snprintf(value, sizeof value, "%.2f", isfinite(x) ? x : 0);
  char *end = value + strlen(value) - 1;
  while (*end == '0') *end-- = 0;
  if (*end == '.') *end = 0;
  if (!strcmp(value, "-0")) strcpy(value, "0");
  snprintf(text, sizeof text, *name ? " %s=\"%s\"" : "%s%s", name, value);
  puts_to(to, text);
}

static void numbers(sink *to, const char *name, ...) {
  va_list args;
  va_start(args, name);
  for (const char *at = name; *at; at += strlen(at) + 1)
    number(to, at, va_arg(args, double));
  va_end(args);
}

static void escaped(sink *to, const char *text) {
  char bytes[LETTER_BYTES];
  for (uint32_t code; (code = letters_next(&text));) switch (code) {
      case '<':
        puts_to(to, "&lt;");
        break;
      case '>':
        puts_to(to, "&gt;");
        break;
      case '&':
        puts_to(to, "&amp;");
        break;
      case '"':
        puts_to(to, "&quot;");
        break;
      default:
        put(to, bytes, letters_put(code, bytes));
    }
}

/* ` fill="#2466c3" fill-opacity=".5"` */
static void painted(sink *to, const char *what, colour c) {
  char text[64];
  snprintf(text, sizeof text, " %s=\"#%02x%02x%02x\"", what, c.r, c.g, c.b);
  puts_to(to, text);
  if (c.a == 255) return;
  snprintf(text, sizeof text, " %s-opacity=\"%.3g\"", what, c.a / 255.0);
  puts_to(to, text);
}

static void paint(sink *to, const shape *s) {
  if (s->stroke <= 0) {
    painted(to, "fill", s->paint);
    return;
  }
  puts_to(to, " fill=\"none\"");
  painted(to, "stroke", s->paint);
  number(to, "stroke-width", s->stroke);
}

/* ---- shapes -------------------------------------------------------------------- */

static void point(sink *to, const double *p) {
  number(to, "", p[0]);
  puts_to(to, " ");
  number(to, "", p[1]);
}

static void box(sink *to, const shape *s) {
  numbers(to, "x\0y\0width\0height\0", s->x, s->y, s->w, s->h);
}

static void rect(sink *to, const shape *s) {
  puts_to(to, "<rect");
  box(to, s);
  if (s->radius > 0) number(to, "rx", s->radius);
  paint(to, s);
  if (!s->text) {
    puts_to(to, "/>\n");
    return;
  }
  puts_to(to, "><title>");
  escaped(to, s->text);
  puts_to(to, "</title></rect>\n");
}

static void circle(sink *to, const shape *s) {
  puts_to(to, "<circle");
  numbers(to, "cx\0cy\0r\0", s->x, s->y, s->radius);
  paint(to, s);
  puts_to(to, "/>\n");
}

static void path(sink *to, const shape *s) {
  puts_to(to, "<path d=\"M");
  for (int i = 0; i < s->count; i++) {
    if (i == 1) puts_to(to, s->kind == SHAPE_CURVE ? "C" : "L");
    if (i > 1) puts_to(to, " ");
    point(to, s->points + 2 * i);
  }
  puts_to(to, "\"");
  paint(to, s);
  if (s->kind == SHAPE_LINE && s->count > 2)
    puts_to(to, " stroke-linejoin=\"round\"");
  puts_to(to, "/>\n");
}

static void text(sink *to, const shape *s) {
  static const char *const anchors[] = {"start", "middle", "end"};
  puts_to(to, "<text");
  if (s->turn) {
    char turn[96];
    snprintf(turn, sizeof turn,
             " transform=\"translate(%.2f %.2f) rotate(%d)\"", s->x, s->y,
             s->turn);
    puts_to(to, turn);
  } else {
    numbers(to, "x\0y\0", s->x, s->y);
  }
  number(to, "font-size", s->size);
  if (s->bold) puts_to(to, " font-weight=\"bold\"");
  if (s->anchor != ANCHOR_START) {
    puts_to(to, " text-anchor=\"");
    puts_to(to, anchors[s->anchor]);
    puts_to(to, "\"");
  }
  paint(to, s);
  puts_to(to, ">");
  escaped(to, s->text);
  puts_to(to, "</text>\n");
}

static void base64(sink *to, const unsigned char *bytes, size_t length) {
  static const char digits[] =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  for (size_t i = 0; i < length; i += 3) {
    size_t n = length - i < 3 ? length - i : 3;
    unsigned x = (unsigned)bytes[i] << 16;
    if (n > 1) x |= (unsigned)bytes[i + 1] << 8;
    if (n > 2) x |= bytes[i + 2];
    char four[4] = {digits[x >> 18], digits[x >> 12 & 63],
                    n > 1 ? digits[x >> 6 & 63] : '=',
                    n > 2 ? digits[x & 63] : '='};
    put(to, four, 4);
  }
}

static void image(sink *to, const shape *s) {
  void *png;
  size_t length;
  png_write(s->cells, s->columns, s->rows, 4, &png, &length);
  puts_to(to, "<image");
  box(to, s);
  puts_to(to,
          " preserveAspectRatio=\"none\" image-rendering=\"pixelated\" "
          "style=\"image-rendering:pixelated\" "
          "href=\"data:image/png;base64,");
  base64(to, png, length);
  puts_to(to, "\"/>\n");
  free(png);
}

/* A pattern for each box, since its colour is its own. */
static void hatch(sink *to, const shape *s, size_t index) {
  char line[320];
  snprintf(line, sizeof line,
           "<pattern id=\"hatch%zu\" width=\"%d\" height=\"%d\" "
           "patternUnits=\"userSpaceOnUse\"><path d=\"M-1 1L1 -1M0 %dL%d "
           "0M%d %dL%d %d\" stroke-width=\"%.2f\"",
           index, HATCH_STEP, HATCH_STEP, HATCH_STEP, HATCH_STEP,
           HATCH_STEP - 1, HATCH_STEP + 1, HATCH_STEP + 1, HATCH_STEP - 1,
           HATCH_STROKE);
  puts_to(to, line);
  painted(to, "stroke", s->paint);
  puts_to(to, "/></pattern>\n");
}

static bool same_paint(const shape *a, const shape *b) {
  return !memcmp(&a->paint, &b->paint, sizeof a->paint);
}

static void hatched(sink *to, const drawing *d, size_t i) {
  char fill[64];
  size_t first = 0;
  while (d->shapes[first].kind != SHAPE_HATCH ||
         !same_paint(&d->shapes[first], &d->shapes[i]))
    first++;
  if (first == i) hatch(to, &d->shapes[i], i);
  puts_to(to, "<rect");
  box(to, &d->shapes[i]);
  snprintf(fill, sizeof fill, " fill=\"url(#hatch%zu)\"/>\n", first);
  puts_to(to, fill);
}

/* ---- the file -------------------------------------------------------------------- */

static void head(sink *to, const drawing *d) {
  puts_to(to, "<svg xmlns=\"http://www.w3.org/2000/svg\"");
  numbers(to, "width\0height\0", d->width, d->height);
  char view[96];
  snprintf(view, sizeof view, " viewBox=\"0 0 %.2f %.2f\" role=\"img\"",
           d->width, d->height);
  puts_to(to, view);
  puts_to(to,
          " font-family=\"'DejaVu Sans', Verdana, sans-serif\" "
          "xml:space=\"preserve\">\n<title>");
  escaped(to, d->title ? d->title : "attention");
  puts_to(to, "</title>\n<rect width=\"100%\" height=\"100%\"");
  painted(to, "fill", d->background);
  puts_to(to, "/>\n");
}

void draw_svg(const drawing *d, char **bytes, size_t *length) {
  sink to = {0};
  head(&to, d);
  for (size_t i = 0; i < d->count; i++) {
    const shape *s = &d->shapes[i];
    switch (s->kind) {
      case SHAPE_RECT:
        rect(&to, s);
        break;
      case SHAPE_CIRCLE:
        circle(&to, s);
        break;
      case SHAPE_LINE:
      case SHAPE_CURVE:
        path(&to, s);
        break;
      case SHAPE_TEXT:
        text(&to, s);
        break;
      case SHAPE_IMAGE:
        image(&to, s);
        break;
      case SHAPE_HATCH:
        hatched(&to, d, i);
        break;
    }
  }
  puts_to(&to, "</svg>\n");
  put(&to, "", 1);
  *bytes = to.bytes;
  *length = to.length - 1;
}
