/* Which line is which: names at the ends of lines, or in rows above.
 *
 * Names at ends are better, since no eye has to travel; they need lines that end
 * apart, or room to be moved.
 */
#include <math.h>
#include <string.h>

#include "plot/plot.h"

enum {
  MOST_ENDS = 24,
  ROW = 18,    /* px between names */
  SWATCH = 34, /* px of the piece of line beside a name */
  LONGEST = 180
};

int series_number(const panel *p, size_t i) {
  int own = p->is->series[i].colour;
  return own > 0 ? own - 1 : (int)(i % (PALETTE_HEADS * SHAPES));
}

bool series_named(const panel *p, size_t i) {
  const attend_plot_series *t = &p->is->series[i];
  return t->name && *t->name && !t->faint;
}

/* ---- above -------------------------------------------------------------------------- */

static void swatch(svg *s, const panel *p, size_t i, double x, double y) {
  const attend_plot_series *t = &p->is->series[i];
  int n = series_number(p, i);
  if (p->is->kind == ATTEND_PLOT_BARS) {
    const char *place = " x=\"%f\" y=\"%f\" width=\"26\" height=\"11\"/>\n";
    svg_add(s, "<rect class=\"f%d\"", n % PALETTE_HEADS);
    svg_add(s, place, x, y - 10);
    if (n % STRIPES) style_striped(s, n % STRIPES);
    if (n % STRIPES) svg_add(s, place, x, y - 10);
    return;
  }
  if (t->points < 2)
    svg_add(s, "<path class=\"line c%d%s\" d=\"M%f %fh26\"/>\n", n % PALETTE_HEADS,
            t->dashed ? " dash" : "", x, y - 4);
  if (p->is->count > 1 || t->points) style_mark(s, n, x + 13, y - 4, 3.5);
}

/* Walks the names in rows; draws them if there is a svg. Returns the rows. */
static int walk(svg *s, const panel *p, double x0, double y, double width) {
  double x = x0;
  int rows = 1;
  for (size_t i = 0; i < p->is->count; i++) {
    if (!series_named(p, i)) continue;
    const char *name = p->is->series[i].name;
    double most = fmin(LONGEST, width - SWATCH);
    double w = fmin(text_width(name, LETTERS), most) + SWATCH + 14;
    if (x > x0 && x + w > x0 + width + 14) {
      x = x0;
      rows++;
    }
    if (s) swatch(s, p, i, x, y + rows * ROW - 4);
    if (s) plot_text(s, "ink", AT_START, x + SWATCH - 2, y + rows * ROW - 4, 0, most, name);
    x += w;
  }
  return rows;
}

double key_height(const panel *p, double width) {
  if (p->key != ATTEND_KEY_ABOVE) return 0;
  return walk(NULL, p, 0, 0, width) * ROW + 4;
}

void key_put(svg *s, const panel *p) {
  if (p->key == ATTEND_KEY_ABOVE)
    walk(s, p, p->outer.x, p->outer.y + (p->is->title ? ROW + 2 : 0), p->outer.w);
}

/* ---- at the ends --------------------------------------------------------------------- */

typedef struct {
  size_t series;
  double x, y, at; /* the end of the line; where the name goes */
} line_end;

double key_ends_width(const panel *p) {
  double most = 0;
  for (size_t i = 0; i < p->is->count; i++)
    if (series_named(p, i)) most = fmax(most, text_width(p->is->series[i].name, LETTERS));
  return fmin(most, LONGEST) + 14;
}

static bool find_end(const panel *p, size_t i, line_end *end) {
  const attend_plot_series *t = &p->is->series[i];
  for (size_t k = t->count; k-- > 0;) {
    double x = panel_x(p, t->x ? t->x[k] : (double)k), y = panel_y(p, t->y[k]);
    if (isnan(x) || isnan(y) || x > p->area.x + p->area.w + 1) continue;
    y = fmax(p->area.y, fmin(y, p->area.y + p->area.h));
    *end = (line_end){i, x, y, y};
    return true;
  }
  return false;
}

/* Sorted by height, the later series below. */
static int collect(const panel *p, line_end ends[MOST_ENDS]) {
  int n = 0;
  for (size_t i = 0; i < p->is->count && n < MOST_ENDS; i++) {
    line_end e;
    if (!series_named(p, i) || !find_end(p, i, &e)) continue;
    int at = n++;
    for (; at > 0 && ends[at - 1].y > e.y; at--) ends[at] = ends[at - 1];
    ends[at] = e;
  }
  return n;
}

/* Names that overlap push each other apart, then stay inside the panel. */
static void spread(const panel *p, line_end *ends, int n) {
  const double gap = LETTERS + 3;
  for (int round = 0; round < 200; round++)
    for (int i = 1; i < n; i++) {
      double over = gap - (ends[i].at - ends[i - 1].at);
      if (over <= 0) continue;
      ends[i - 1].at -= over / 2;
      ends[i].at += over / 2;
    }
  double top = p->area.y, bottom = p->area.y + p->area.h;
  for (int i = 0; i < n; i++) ends[i].at = fmax(ends[i].at, i ? ends[i - 1].at + gap : top);
  for (int i = n; i-- > 0;)
    ends[i].at = fmin(ends[i].at, i + 1 < n ? ends[i + 1].at - gap : bottom);
}

void key_ends_put(svg *s, const panel *p) {
  line_end ends[MOST_ENDS];
  if (p->key != ATTEND_KEY_ENDS) return;
  int n = collect(p, ends);
  double x = p->area.x + p->area.w + 14;
  spread(p, ends, n);
  for (int i = 0; i < n; i++) {
    const line_end *e = &ends[i];
    int c = series_number(p, e->series);
    bool moved = fabs(e->at - e->y) > 4 || x - e->x > 20;
    if (moved)
      svg_add(s, "<path class=\"pale c%d\" d=\"M%f %fL%f %f\"/>\n", c % PALETTE_HEADS, e->x + 4,
              e->y, x - 3, e->at);
    if (p->is->count > 1) style_mark(s, c, e->x, e->y, 3.5);
    plot_text(s, "ink", AT_START, x, e->at + 4, 0, LONGEST, p->is->series[e->series].name);
  }
}
