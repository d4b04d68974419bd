/* What is inside the axes of lines and bars. Lines: bands behind, then pale ones, then the
 * rest with their marks. Bars in groups, with error marks.
 */
#include <math.h>

#include "plot/plot.h"

enum { MARKS_A_LINE = 6 }; /* to tell lines apart without colour */

/* ---- long series ------------------------------------------------------------ */

/* Long series in few points: values that follow each other in the same column of pixels
 * become at most four, the first, the least, the most and the last of them, in their
 * order. What is drawn covers the same pixels. A gap within a column is narrower than a
 * pixel and is not kept; one between columns is. */
typedef struct {
  spot first, min, max, last;
  size_t least_at, most_at, count;
  long column;
} column;

static spot spot_at(const curve *c, size_t i) {
  double x = c->x ? c->x[i] : (double)i;
  return (spot){panel_x(c->on, x), panel_y(c->on, c->y[i]), false};
}

static void open_column(column *now, spot s, long at) { *now = (column){s, s, s, s, 0, 0, 1, at}; }

static void add_to_column(column *now, spot s) {
  if (s.y < now->min.y) now->min = s, now->least_at = now->count;
  if (s.y > now->max.y) now->max = s, now->most_at = now->count;
  now->last = s;
  now->count++;
}

static size_t close_column(const column *now, spot *to) {
  size_t n = 0;
  bool falls = now->most_at < now->least_at;
  size_t at[2] = {falls ? now->most_at : now->least_at, falls ? now->least_at : now->most_at};
  spot two[2] = {falls ? now->max : now->min, falls ? now->min : now->max};
  if (!now->count) return 0;
  to[n++] = now->first;
  for (int i = 0; i < 2; i++)
    if (at[i] > (i ? at[0] : 0) && at[i] + 1 < now->count) {
      two[i].gap = false;
      to[n++] = two[i];
    }
  if (now->count > 1) {
    to[n] = now->last;
    to[n++].gap = false;
  }
  return n;
}

/* The sizes of columns are whole pixels, or nothing for short series. */
static size_t thin(const curve *c, double size, spot *to) {
  column now = {0};
  size_t n = 0;
  bool gap = true;
  for (size_t i = 0; i < c->count; i++) {
    spot s = spot_at(c, i);
    if (isnan(s.x) || isnan(s.y)) {
      gap = true;
      continue;
    }
    long at = size > 0 ? (long)floor(fmax(-1e6, fmin(s.x, 1e6)) / size) : (long)i;
    s.gap = gap;
    if (now.count && at == now.column) {
      add_to_column(&now, s);
    } else {
      n += close_column(&now, to + n);
      open_column(&now, s, at);
    }
    gap = false;
  }
  return n + close_column(&now, to + n);
}

attend_status curve_spots(attend_context *ctx, const curve *c, spot **spots, size_t *count) {
  bool is_long = (double)c->count > 4 * c->on->area.w;
  size_t bytes = size_times(c->count, sizeof **spots);
  *count = 0;
  ATTEND_TRY(ctx_alloc(ctx, bytes, "the points of a plot", spots));
  *count = thin(c, is_long ? 1 : 0, *spots);
  return ATTEND_OK;
}

/* ---- lines ------------------------------------------------------------------ */

static bool is_alone(const spot *spots, size_t n, size_t i) {
  return spots[i].gap && (i + 1 == n || spots[i + 1].gap);
}

static void put_path(svg *s, const spot *spots, size_t n) {
  for (size_t i = 0; i < n; i++) {
    svg_add(s, spots[i].gap ? "M%f %f" : "L%f %f", spots[i].x, spots[i].y);
    if (is_alone(spots, n, i)) svg_add(s, "h0"); /* a round dot */
  }
}

static attend_status spots_of(const panel *p, const attend_plot_series *t, const double *y,
                              spot **spots, size_t *n) {
  curve c = {p, t->x, y, t->count};
  return curve_spots(p->ctx, &c, spots, n);
}

/* ---- bands --------------------------------------------------------------------------- */

/* Each run between gaps follows the upper edge and returns along the lower. Thinning
 * may keep different values of the two, so runs are found in each. */
static size_t run_end(const spot *spots, size_t from, size_t n) {
  size_t to = from + 1;
  while (to < n && !spots[to].gap) to++;
  return to;
}

static void put_band(svg *s, int c, const spot *high, size_t highs, const spot *low, size_t lows) {
  size_t h = 0, l = 0;
  svg_add(s, "<path class=\"band f%d\" d=\"", c);
  while (h < highs && l < lows) {
    size_t h_end = run_end(high, h, highs), l_end = run_end(low, l, lows);
    put_path(s, high + h, h_end - h);
    for (size_t i = l_end; i-- > l;) svg_add(s, "L%f %f", low[i].x, low[i].y);
    svg_add(s, "Z");
    h = h_end;
    l = l_end;
  }
  svg_add(s, "\"/>\n");
}

static void bands(svg *s, const panel *p, size_t i) {
  const attend_plot_series *t = &p->is->series[i];
  spot *high = NULL, *low = NULL;
  size_t highs, lows;
  if (!t->low || !t->high || s->status) return;
  s->status = spots_of(p, t, t->high, &high, &highs);
  if (!s->status) s->status = spots_of(p, t, t->low, &low, &lows);
  if (!s->status) put_band(s, series_number(p, i) % PALETTE_HEADS, high, highs, low, lows);
  ctx_free(p->ctx, high);
  ctx_free(p->ctx, low);
}

static void put_line(svg *s, const attend_plot_series *t, int number, const spot *spots, size_t n) {
  if (t->points > 1 || !n) return;
  svg_add(s, "<path class=\"%s c%d%s\" d=\"", t->faint ? "pale" : "line", number % PALETTE_HEADS,
          t->dashed ? " dash" : "");
  put_path(s, spots, n);
  svg_add(s, "\"/>\n");
}

/* Marks of the same look are there: a line between them needs none of its own. */
static bool has_points(const panel *p, int number) {
  for (size_t i = 0; i < p->is->count; i++)
    if (p->is->series[i].points && series_number(p, i) == number) return true;
  return false;
}

/* All of them if requested, else a few, at other places for each line. */
static void put_marks(svg *s, const panel *p, size_t i, const spot *spots, size_t n) {
  const attend_plot_series *t = &p->is->series[i];
  double step = p->area.w / MARKS_A_LINE;
  double at = p->area.x + step * (double)(2 * i % 5 + 1) / 6;
  if (t->faint || (!t->points && p->is->count == 1 && n > 1)) return;
  if (!t->points && has_points(p, series_number(p, i))) return;
  for (size_t k = 0; k < n; k++) {
    if (!t->points && spots[k].x < at && n > 1) continue;
    style_mark(s, series_number(p, i), spots[k].x, spots[k].y, t->points ? 3.2 : 3.5);
    while (at <= spots[k].x) at += step;
  }
}

static void line(svg *s, const panel *p, size_t i) {
  const attend_plot_series *t = &p->is->series[i];
  spot *spots = NULL;
  size_t n = 0;
  if (s->status) return;
  s->status = spots_of(p, t, t->y, &spots, &n);
  put_line(s, t, series_number(p, i), spots, n);
  put_marks(s, p, i, spots, n);
  ctx_free(p->ctx, spots);
}

/* ---- what happened where ------------------------------------------------------------ */

static void mark(svg *s, const panel *p, const attend_plot_mark *m) {
  double x = panel_x(p, m->x), middle = p->area.x + p->area.w / 2;
  if (isnan(x) || x < p->area.x - 1 || x > p->area.x + p->area.w + 1) return;
  svg_add(s, "<path class=\"mark\" d=\"M%f %fv%f\"/>\n", x, p->area.y, p->area.h);
  if (m->label)
    plot_text(s, "marked", x > middle ? AT_END : AT_START, x, p->area.y - 5, 0, p->area.w / 2,
              m->label);
}

/* An svg of its own cuts off what is beyond the axes. */
static void open_window(svg *s, box b) {
  const double capacity = 5; /* for marks on the edge */
  double x = b.x - capacity, y = b.y - capacity, w = b.w + 2 * capacity, h = b.h + 2 * capacity;
  svg_add(s,
          "<svg x=\"%f\" y=\"%f\" width=\"%f\" height=\"%f\" viewBox=\"%f %f "
          "%f %f\">\n",
          x, y, w, h, x, y, w, h);
}

static void say_empty(svg *s, const panel *p) {
  for (size_t i = 0; i < p->is->count; i++)
    for (size_t k = 0; k < p->is->series[i].count; k++)
      if (!isnan(panel_y(p, p->is->series[i].y[k]))) return;
  plot_text(s, "faint", AT_MIDDLE, p->area.x + p->area.w / 2, p->area.y + p->area.h / 2, 0,
            p->area.w, "no values yet");
}

void lines_put(svg *s, const panel *p) {
  say_empty(s, p);
  for (size_t i = 0; i < p->is->marks; i++) mark(s, p, &p->is->mark[i]);
  open_window(s, p->area);
  for (size_t i = 0; i < p->is->count; i++) bands(s, p, i);
  for (size_t i = 0; i < p->is->count; i++)
    if (p->is->series[i].faint) line(s, p, i);
  for (size_t i = 0; i < p->is->count; i++)
    if (!p->is->series[i].faint) line(s, p, i);
  svg_add(s, "</svg>\n");
}

/* ---- bars ------------------------------------------------------------------- */

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
  double capacity = p->area.w / (double)p->is->columns;
  double w = fmin(60, 0.8 * capacity / (double)p->is->count);
  double left = p->area.x + capacity * ((double)group + 0.5) - w * (double)p->is->count / 2;
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
  if (label_width(text, LETTERS) > b->w) return;
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
