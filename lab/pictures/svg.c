/* A picture as .svg: one file that needs nothing beside it.
 *
 * No scripts, no links, no style sheets: it may be put into a page, a paper or
 * an editor as it is. Heat maps are images inside it, one pixel a cell.
 */
#include "svg/svg.h"

#include <stdlib.h>
#include <string.h>

#include "pictures/draw.h"
#include "pictures/raster.h"

static void paint(svg *to, const shape *s) {
  if (s->stroke <= 0) {
    svg_paint(to, "fill", s->paint);
    return;
  }
  svg_add(to, " fill=\"none\"");
  svg_paint(to, "stroke", s->paint);
  svg_add(to, " stroke-width=\"%f\"", s->stroke);
}

/* ---- shapes -------------------------------------------------------------------- */

static void box(svg *to, const shape *s) {
  svg_add(to, " x=\"%f\" y=\"%f\" width=\"%f\" height=\"%f\"", s->x, s->y, s->w, s->h);
}

static void rect(svg *to, const shape *s) {
  svg_add(to, "<rect");
  box(to, s);
  if (s->radius > 0) svg_add(to, " rx=\"%f\"", s->radius);
  paint(to, s);
  if (s->text)
    svg_add(to, "><title>%t</title></rect>\n", s->text);
  else
    svg_add(to, "/>\n");
}

static void circle(svg *to, const shape *s) {
  svg_add(to, "<circle cx=\"%f\" cy=\"%f\" r=\"%f\"", s->x, s->y, s->radius);
  paint(to, s);
  svg_add(to, "/>\n");
}

static void outline(svg *to, const shape *s) {
  svg_add(to, "<path d=\"M");
  for (int i = 0; i < s->count; i++)
    svg_add(to, "%s%f %f",
            i == 0                   ? ""
            : i > 1                  ? " "
            : s->kind == SHAPE_CURVE ? "C"
                                     : "L",
            s->points[2 * i], s->points[2 * i + 1]);
  svg_add(to, "\"");
  paint(to, s);
  if (s->kind == SHAPE_LINE && s->count > 2) svg_add(to, " stroke-linejoin=\"round\"");
  svg_add(to, "/>\n");
}

static void text(svg *to, const shape *s) {
  static const char *const anchors[] = {"", " text-anchor=\"middle\"", " text-anchor=\"end\""};
  svg_add(to, "<text");
  if (s->turn)
    svg_add(to, " transform=\"translate(%f %f) rotate(%d)\"", s->x, s->y, s->turn);
  else
    svg_add(to, " x=\"%f\" y=\"%f\"", s->x, s->y);
  svg_add(to, " font-size=\"%f\"%s%s", s->size, s->bold ? " font-weight=\"bold\"" : "",
          anchors[s->anchor]);
  paint(to, s);
  svg_add(to, ">%t</text>\n", s->text);
}

static void image(svg *to, const shape *s) {
  void *png = NULL;
  size_t length = 0;
  attend_status status = png_write(s->cells, s->columns, s->rows, 4, &png, &length);
  if (!to->status) to->status = status;
  svg_add(to, "<image");
  box(to, s);
  svg_add(to,
          " preserveAspectRatio=\"none\" image-rendering=\"pixelated\" "
          "style=\"image-rendering:pixelated\" href=\"data:image/png;base64,");
  svg_base64(to, png, length);
  svg_add(to, "\"/>\n");
  free(png);
}

static void hatch_pattern(svg *to, const shape *s, size_t index) {
  const int step = HATCH_STEP;
  svg_add(to,
          "<pattern id=\"hatch%z\" width=\"%d\" height=\"%d\" "
          "patternUnits=\"userSpaceOnUse\"><path d=\"M-1 1L1 -1M0 %dL%d 0M%d "
          "%dL%d %d\" stroke-width=\"%f\"",
          index, step, step, step, step, step - 1, step + 1, step + 1, step - 1, HATCH_STROKE);
  svg_paint(to, "stroke", s->paint);
  svg_add(to, "/></pattern>\n");
}

static bool same_paint(const shape *a, const shape *b) {
  return !memcmp(&a->paint, &b->paint, sizeof a->paint);
}

/* Boxes of one colour share the pattern that the first of them defines. */
static void hatch(svg *to, const drawing *d, size_t i) {
  size_t first = 0;
  while (d->shapes[first].kind != SHAPE_HATCH || !same_paint(&d->shapes[first], &d->shapes[i]))
    first++;
  if (first == i) hatch_pattern(to, &d->shapes[i], i);
  svg_add(to, "<rect");
  box(to, &d->shapes[i]);
  svg_add(to, " fill=\"url(#hatch%z)\"/>\n", first);
}

/* ---- the file -------------------------------------------------------------------- */

static void head(svg *to, const drawing *d) {
  svg_add(to,
          "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%f\" "
          "height=\"%f\" viewBox=\"0 0 %f %f\" role=\"img\" "
          "font-family=\"'DejaVu Sans', Verdana, sans-serif\" "
          "xml:space=\"preserve\">\n<title>%t</title>\n<rect width=\"100%%\" height=\"100%%\"",
          d->width, d->height, d->width, d->height, d->title ? d->title : "attention");
  svg_paint(to, "fill", d->background);
  svg_add(to, "/>\n");
}

static void put_shape(svg *to, const drawing *d, size_t i) {
  const shape *s = &d->shapes[i];
  switch (s->kind) {
    case SHAPE_RECT:
      rect(to, s);
      break;
    case SHAPE_CIRCLE:
      circle(to, s);
      break;
    case SHAPE_LINE:
    case SHAPE_CURVE:
      outline(to, s);
      break;
    case SHAPE_TEXT:
      text(to, s);
      break;
    case SHAPE_IMAGE:
      image(to, s);
      break;
    case SHAPE_HATCH:
      hatch(to, d, i);
      break;
  }
}

attend_status draw_svg(const drawing *d, char **bytes, size_t *length) {
  svg to = {.status = d->status};
  *bytes = NULL;
  *length = 0;
  head(&to, d);
  for (size_t i = 0; i < d->count && !to.status; i++) put_shape(&to, d, i);
  svg_add(&to, "</svg>\n");
  if (to.status) {
    svg_free(&to);
    return to.status;
  }
  *bytes = to.text;
  *length = to.length;
  return ATTEND_OK;
}

attend_status draw_file(const drawing *d, const char *as, void **bytes, size_t *length) {
  return strcmp(as, "svg") ? draw_png(d, 2, bytes, length) : draw_svg(d, (char **)bytes, length);
}
