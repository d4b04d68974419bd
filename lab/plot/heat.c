/* Heat maps, and the bar that says what their colours mean.
 *
 * A colour is one of 33 levels of the scale. Neighbours in a row that have the
 * same one become one box; more cells than there is room to see are drawn as
 * means of some of them, and a line below says so.
 */
#include <math.h>
#include <stdio.h>

#include "plot/plot.h"

enum {
  MOST_CELLS = 160, /* a side */
  BAR = 12,         /* px, the bar's width */
  BAR_GAP = 16,
  STRIPED = -1 /* in place of a level */
};

typedef struct {
  const panel *on;
  size_t rows, columns; /* as drawn */
  size_t tall, wide;    /* cells of the caller in one of them */
  double w, h;          /* px of one */
  const char *box, *letters;
} grid;

static size_t pooled(size_t n) { return (n + MOST_CELLS - 1) / MOST_CELLS; }

static grid grid_of(const panel *p) {
  const attend_plot_panel *is = p->is;
  bool two = is->diverging;
  grid g = {.on = p, .box = two ? "d" : "w", .letters = two ? "e" : "v"};
  g.tall = pooled(is->rows);
  g.wide = pooled(is->columns);
  g.rows = (is->rows + g.tall - 1) / g.tall;
  g.columns = (is->columns + g.wide - 1) / g.wide;
  g.w = p->area.w * (double)g.wide / (double)is->columns;
  g.h = p->area.h * (double)g.tall / (double)is->rows;
  return g;
}

static double value(const grid *g, size_t row, size_t column) {
  const attend_plot_panel *is = g->on->is;
  double sum = 0, n = 0;
  for (size_t i = row * g->tall; i < (row + 1) * g->tall && i < is->rows; i++)
    for (size_t j = column * g->wide; j < (column + 1) * g->wide && j < is->columns; j++) {
      double x = is->cells[i * is->columns + j];
      if (isfinite(x)) sum += x, n++;
    }
  return n > 0 ? sum / n : NAN;
}

static int level(const grid *g, double x) {
  double at = scale_place(&g->on->z, x);
  if (isnan(at)) return STRIPED;
  return (int)lround(LEVELS * fmax(0, fmin(at, 1)));
}

/* ---- cells ------------------------------------------------------------------------- */

static void put_run(svg *s, const grid *g, size_t row, size_t from, size_t to, int at) {
  box a = g->on->area;
  /* whole pixels: neighbours leave no seam between them */
  double x = round(a.x + g->w * (double)from);
  double y = round(a.y + g->h * (double)row);
  double right = round(fmin(a.x + g->w * (double)to, a.x + a.w));
  double bottom = round(fmin(a.y + g->h * (double)(row + 1), a.y + a.h));
  if (at == STRIPED)
    style_striped(s, 0);
  else
    svg_add(s, "<rect class=\"%s%d\"", g->box, at);
  svg_add(s, " x=\"%f\" y=\"%f\" width=\"%f\" height=\"%f\"/>\n", x, y, right - x, bottom - y);
}

static void put_row(svg *s, const grid *g, size_t row) {
  size_t from = 0;
  int now = level(g, value(g, row, 0));
  for (size_t j = 1; j <= g->columns; j++) {
    int next = j < g->columns ? level(g, value(g, row, j)) : STRIPED - 1;
    if (next == now) continue;
    put_run(s, g, row, from, j, now);
    from = j;
    now = next;
  }
}

/* Values, where all of them fit into their cells. */
static bool numbers_fit(const grid *g) {
  if (g->h < LETTERS + 3 || g->tall > 1 || g->wide > 1) return false;
  for (size_t i = 0; i < g->rows * g->columns; i++) {
    char text[40];
    short_number(g->on->is->cells[i], 2, text);
    if (label_width(text, LETTERS) > g->w - 2) return false;
  }
  return true;
}

static void put_numbers(svg *s, const grid *g, size_t row) {
  box a = g->on->area;
  for (size_t j = 0; j < g->columns; j++) {
    double x = value(g, row, j);
    char text[40], look[16];
    if (level(g, x) == STRIPED) continue;
    short_number(x, 2, text);
    snprintf(look, sizeof look, "%s%d", g->letters, level(g, x));
    plot_text(s, look, AT_MIDDLE, a.x + g->w * ((double)j + 0.5),
              a.y + g->h * ((double)row + 0.5) + 4, 0, 200, text);
  }
}

/* ---- without colour ------------------------------------------------------------------- */

/* Two colours look alike in black and white: cells below 0 have a line through
 * them, in a colour that shows on theirs. */
enum { NO_LINE, ON_PALE, ON_DARK };

static int line_on(int at) {
  if (at == STRIPED || at >= LEVELS / 2 - 1) return NO_LINE;
  return at < LEVELS / 4 ? ON_DARK : ON_PALE;
}

static void put_lines(svg *s, const grid *g, size_t row, int kind) {
  box a = g->on->area;
  double y = round(a.y + g->h * ((double)row + 0.5)) + 0.5;
  for (size_t j = 0, from; j < g->columns; j++) {
    for (from = j; j < g->columns; j++)
      if (line_on(level(g, value(g, row, j))) != kind) break;
    if (j > from)
      svg_add(s, "M%f %fh%f", a.x + g->w * (double)from + 1, y,
              fmax(g->w * (double)(j - from) - 2, 1));
  }
}

static void mark_below(svg *s, const grid *g) {
  for (int kind = ON_PALE; kind <= ON_DARK; kind++) {
    svg_add(s, "<path class=\"%s\" style=\"stroke-linecap:butt\" d=\"",
            kind == ON_DARK ? "under" : "axis");
    for (size_t i = 0; i < g->rows; i++) put_lines(s, g, i, kind);
    svg_add(s, "\"/>\n");
  }
}

/* ---- beside ------------------------------------------------------------------------ */

static void row_names(svg *s, const panel *p) {
  double step = p->area.h / (double)p->is->rows, free = -1e9;
  for (size_t i = 0; i < p->is->rows; i++) {
    double y = p->area.y + step * ((double)i + 0.5);
    if (y < free) continue;
    free = y + LETTERS + 2;
    plot_text(s, "faint", AT_END, p->area.x - 6, y + 4, 0, p->left - 6 - (p->is->y.label ? 17 : 0),
              p->is->row_names[i]);
  }
}

/* Beside a cell with a line through it, below the bar. */
static const char below[] = "below 0";

double heat_bar_width(const panel *p) {
  double max = p->is->diverging ? label_width(below, LETTERS) : 0;
  for (int i = 0; i < p->z.count; i++) max = fmax(max, label_width(p->z.label[i], LETTERS));
  return BAR_GAP + BAR + 6 + max + (p->is->z.label ? 18 : 0);
}

/* What a line through a cell means: the colours of both signs look alike in black and white. */
static void explain_lines(svg *s, double x, double y) {
  svg_add(s, "<rect class=\"d%d\" x=\"%f\" y=\"%f\" width=\"%d\" height=\"%d\"/>", LEVELS / 3, x, y,
          BAR, BAR);
  svg_add(s, "<path class=\"axis\" d=\"M%f %fh%d\"/>\n", x + 1, y + BAR / 2.0, BAR - 2);
  plot_text(s, "faint", AT_START, x + BAR + 5, y + BAR - 2, 0, 200, below);
}

/* lines: through cells below 0. */
static void colour_bar(svg *s, const panel *p, const char *look, bool lines) {
  const int room = lines ? BAR + 8 : 0;
  double h = fmax(fmin(p->area.h - room, 240), 60), x = p->area.x + p->area.w + BAR_GAP;
  double y = p->area.y + h, step = h / (LEVELS + 1), max = 0;
  for (int i = 0; i <= LEVELS; i++)
    svg_add(s, "<rect class=\"%s%d\" x=\"%f\" y=\"%f\" width=\"%d\" height=\"%f\"/>\n", look, i, x,
            y - step * (i + 1), BAR, step + 0.3);
  if (lines) explain_lines(s, x, y + 8);
  if (p->is->diverging)
    svg_add(s,
            "<path class=\"under\" d=\"M%f %fv%f\"/><path class=\"axis\" "
            "d=\"M%f %fv%f\"/>\n",
            x + BAR / 2, y, -h / 4, x + BAR / 2, y - h / 4 - 2, 4 - h / 4);
  for (int i = 0; i < p->z.count; i++) {
    double at = y - h * scale_place(&p->z, p->z.at[i]);
    plot_text(s, "faint", AT_START, x + BAR + 5, at + 4, 0, 200, p->z.label[i]);
    max = fmax(max, label_width(p->z.label[i], LETTERS));
  }
  if (p->is->z.label)
    plot_text(s, "ink", AT_MIDDLE, x + BAR + max + 18, y - h / 2, -90, h + 60, p->is->z.label);
}

static void say_pooled(svg *s, const grid *g) {
  char text[80];
  if (g->tall == 1 && g->wide == 1) return;
  snprintf(text, sizeof text, "a cell is the mean of %zu x %zu", g->tall, g->wide);
  plot_text(s, "faint", AT_END, g->on->area.x + g->on->area.w, g->on->area.y - 4, 0, 300, text);
}

void heat_put(svg *s, const panel *p) {
  if (!p->is->rows || !p->is->columns) return;
  grid g = grid_of(p);
  bool numbers = numbers_fit(&g);
  svg_add(s, "<g shape-rendering=\"crispEdges\">\n");
  for (size_t i = 0; i < g.rows; i++) put_row(s, &g, i);
  svg_add(s, "</g>\n");
  for (size_t i = 0; i < g.rows && numbers; i++) put_numbers(s, &g, i);
  if (p->is->diverging && !numbers) mark_below(s, &g);
  if (p->is->row_names) row_names(s, p);
  colour_bar(s, p, g.box, p->is->diverging && !numbers);
  say_pooled(s, &g);
}
