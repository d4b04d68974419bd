/* Lines: bands behind, then pale ones, then the rest with their marks.
 */
#include <math.h>

#include "plot/plot.h"

enum { MARKS_A_LINE = 6 }; /* to tell lines apart without colour */

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
  give(p->ctx, high);
  give(p->ctx, low);
}

/* ---- lines ----------------------------------------------------------------------------- */

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
  give(p->ctx, spots);
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
  const double room = 5; /* for marks on the edge */
  double x = b.x - room, y = b.y - room, w = b.w + 2 * room, h = b.h + 2 * room;
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
