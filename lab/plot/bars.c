/* Bars in groups, with error marks.
 */
#include <math.h>

#include "plot/plot.h"

typedef struct {
  double x, w;      /* of one bar */
  double base, top; /* where it stands; its value */
  double far;       /* the farthest point from the base, error mark included */
} bar;

static double inside(const panel *p, double y) {
  return fmax(p->area.y, fmin(y, p->area.y + p->area.h));
}

static bar bar_of(const panel *p, size_t group, size_t i) {
  const attend_plot_series *t = &p->is->series[i];
  double room = p->area.w / (double)p->is->columns;
  double w = fmin(60, 0.8 * room / (double)p->is->count);
  double left = p->area.x + room * ((double)group + 0.5) - w * (double)p->is->count / 2;
  double base = panel_y(p, p->y.log ? p->y.low : 0);
  bar b = {left + w * (double)i, w, inside(p, base), NAN, 0};
  if (group < t->count) b.top = panel_y(p, t->y[group]);
  if (!isnan(b.top)) b.top = inside(p, b.top);
  b.far = b.top;
  return b;
}

static void put_box(svg *s, const bar *b, int number) {
  double y = fmin(b->base, b->top), h = fabs(b->base - b->top), gap = b->w > 4;
  static const char place[] = " x=\"%f\" y=\"%f\" width=\"%f\" height=\"%f\"/>\n";
  int stripes = number % STRIPES;
  svg_add(s, "<rect class=\"f%d\"", number % PALETTE_HEADS);
  svg_add(s, place, b->x, y, b->w - gap, h);
  if (!stripes) return;
  style_striped(s, stripes);
  svg_add(s, place, b->x, y, b->w - gap, h);
}

static void put_error(svg *s, const panel *p, bar *b, double low, double high) {
  double x = b->x + b->w / 2, cap = fmin(5, b->w / 4);
  double y0 = panel_y(p, low), y1 = panel_y(p, high);
  if (isnan(y0) || isnan(y1)) return;
  y0 = inside(p, y0);
  y1 = inside(p, y1);
  svg_add(s,
          "<path class=\"axis\" stroke-width=\"1.5\" "
          "d=\"M%f %fH%fM%f %fV%fM%f %fH%f\"/>\n",
          x - cap, y0, x + cap, x, y0, y1, x - cap, y1, x + cap);
  b->far = b->top <= b->base ? fmin(b->far, y1) : fmax(b->far, y0);
}

/* Where a bar is wide enough for it. */
static void put_value(svg *s, const bar *b, double value) {
  char text[40];
  short_number(value, 3, text);
  if (text_width(text, LETTERS) > b->w) return;
  double y = b->top <= b->base ? b->far - 4 : b->far + LETTERS + 1;
  plot_text(s, "ink", AT_MIDDLE, b->x + b->w / 2, y, 0, 200, text);
}

static void put_bar(svg *s, const panel *p, size_t group, size_t i) {
  const attend_plot_series *t = &p->is->series[i];
  bar b = bar_of(p, group, i);
  if (isnan(b.top)) return;
  put_box(s, &b, series_number(p, i));
  if (t->low && t->high) put_error(s, p, &b, t->low[group], t->high[group]);
  put_value(s, &b, t->y[group]);
}

void bars_put(svg *s, const panel *p) {
  for (size_t group = 0; group < p->is->columns; group++)
    for (size_t i = 0; i < p->is->count; i++) put_bar(s, p, group, i);
  double base = inside(p, panel_y(p, p->y.log ? p->y.low : 0));
  svg_add(s, "<path class=\"axis\" d=\"M%f %fh%f\"/>\n", p->area.x, base, p->area.w);
}
