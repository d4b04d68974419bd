/* A plot: its panels in rows, each with axes and a key, its title above, its notes below.
 *
 * attend/plot.h is the manual.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "attend/file.h"
#include "base/options.h"
#include "plot/plot.h"

enum {
  EDGE = 14, /* px around everything and between panels */
  TITLE = 28,
  NOTE = 17,
  WIDTH = 720,
  NARROWEST = 160,
  WIDEST = 10000
};

typedef struct {
  const attend_plot *is;
  panel *panels;
  size_t across;
  double width, height; /* of the page */
  double note_y;
} page;

/* ---- checks ---------------------------------------------------------- */

static attend_status check_panel(attend_context *ctx, const attend_plot_panel *p, size_t i) {
  ATTEND_CHECK(ctx, p->kind <= ATTEND_PLOT_HEAT, "panel %zu has no kind of plot", i);
  ATTEND_CHECK(ctx, p->kind == ATTEND_PLOT_HEAT || !p->count || p->series,
               "panel %zu has %zu series but no place where they are", i, p->count);
  for (size_t k = 0; k < p->count && p->kind != ATTEND_PLOT_HEAT; k++) {
    const attend_plot_series *t = &p->series[k];
    ATTEND_CHECK(ctx, !t->count || t->y, "series %zu of panel %zu has %zu values but no y", k, i,
                 t->count);
    ATTEND_CHECK(ctx, p->kind != ATTEND_PLOT_BARS || t->count == p->columns,
                 "series %zu of panel %zu has %zu bars for %zu groups: give it "
                 "one for each, NaN for none",
                 k, i, t->count, p->columns);
  }
  ATTEND_CHECK(ctx, p->kind != ATTEND_PLOT_HEAT || !p->rows || !p->columns || p->cells,
               "panel %zu is a heat map without cells", i);
  ATTEND_CHECK(ctx, !p->marks || p->mark, "panel %zu has no place for its marks", i);
  return ATTEND_OK;
}

static attend_status check(attend_context *ctx, const attend_plot *plot) {
  ATTEND_CHECK(ctx, plot->count && plot->panels, "a plot without panels: give it at least one");
  ATTEND_CHECK(ctx, plot->width == 0 || (plot->width >= NARROWEST && plot->width <= WIDEST),
               "a plot of %g px: choose a width from %d to %d, or 0", plot->width, NARROWEST,
               WIDEST);
  ATTEND_CHECK(ctx, plot->height == 0 || (plot->height >= 60 && plot->height <= WIDEST),
               "panels of %g px: choose a height from 60 to %d, or 0", plot->height, WIDEST);
  for (size_t i = 0; i < plot->count; i++) ATTEND_TRY(check_panel(ctx, &plot->panels[i], i));
  return ATTEND_OK;
}

/* ---- which line is which ---------------------------------------------------- */

/* Names at the ends of lines are better than rows above, since no eye has to travel; they
 * need lines that end apart, or room to be moved. */
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

/* Lays out the names in rows; draws them if there is a svg. Returns the rows. */
static int key_rows(svg *s, const panel *p, double x0, double y, double width) {
  double x = x0;
  int rows = 1;
  for (size_t i = 0; i < p->is->count; i++) {
    if (!series_named(p, i)) continue;
    const char *name = p->is->series[i].name;
    double max = fmin(LONGEST, width - SWATCH);
    double w = fmin(label_width(name, LETTERS), max) + SWATCH + 14;
    if (x > x0 && x + w > x0 + width + 14) {
      x = x0;
      rows++;
    }
    if (s) swatch(s, p, i, x, y + rows * ROW - 4);
    if (s) plot_text(s, "ink", AT_START, x + SWATCH - 2, y + rows * ROW - 4, 0, max, name);
    x += w;
  }
  return rows;
}

static double key_height(const panel *p, double width) {
  if (p->key != ATTEND_KEY_ABOVE) return 0;
  return key_rows(NULL, p, 0, 0, width) * ROW + 4;
}

static void key_put(svg *s, const panel *p) {
  if (p->key == ATTEND_KEY_ABOVE)
    key_rows(s, p, p->outer.x, p->outer.y + (p->is->title ? ROW + 2 : 0), p->outer.w);
}

/* ---- at the ends --------------------------------------------------------------------- */

typedef struct {
  size_t series;
  double x, y, at; /* the end of the line; where the name goes */
} line_end;

static double key_ends_width(const panel *p) {
  double max = 0;
  for (size_t i = 0; i < p->is->count; i++)
    if (series_named(p, i)) max = fmax(max, label_width(p->is->series[i].name, LETTERS));
  return fmin(max, LONGEST) + 14;
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

static void key_ends_put(svg *s, const panel *p) {
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
    char look[16];
    snprintf(look, sizeof look, "t%d", c % PALETTE_HEADS);
    plot_text(s, look, AT_START, x, e->at + 4, 0, LONGEST, p->is->series[e->series].name);
  }
}

/* ---- axes ------------------------------------------------------------------ */

enum {
  ROOM = 6,       /* px between letters and what they belong to */
  LINE = 17,      /* px of a line of letters */
  TURN = -40,     /* degrees, of names that would not fit side by side */
  LONG_NAME = 120 /* px, of rotated names and of those on the left */
};

double panel_x(const panel *p, double x) { return p->area.x + p->area.w * scale_place(&p->x, x); }

double panel_y(const panel *p, double y) {
  return p->area.y + p->area.h * (1 - scale_place(&p->y, y));
}

/* ---- scales ---------------------------------------------------------------------- */

static void see_series(const attend_plot_series *t, bool bars, extent *x, extent *y) {
  for (size_t i = 0; i < t->count; i++) {
    double at = t->x && !bars ? t->x[i] : (double)i;
    if (!isfinite(at) || (x->log && at <= 0)) continue;
    extent_see(x, at);
    extent_see(y, t->y[i]);
    if (t->low) extent_see(y, t->low[i]);
    if (t->high) extent_see(y, t->high[i]);
  }
}

/* Bars stand on 0, so it is on their axis. */
static void series_scales(panel *p, double width, double height) {
  const attend_plot_panel *is = p->is;
  bool bars = is->kind == ATTEND_PLOT_BARS;
  attend_plot_axis x_axis = is->x, y_axis = is->y;
  if (bars) x_axis.log = 0;
  extent x = extent_start(x_axis.log), y = extent_start(is->y.log);
  for (size_t i = 0; i < is->count; i++) see_series(&is->series[i], bars, &x, &y);
  for (size_t i = 0; i < is->marks && !bars; i++) extent_see(&x, is->mark[i].x);
  y_axis.zero |= bars;
  scale_make(&p->x, &x_axis, x, TIGHT_ENDS, (int)fmin(9, width / 70));
  scale_make(&p->y, &y_axis, y, ROUND_ENDS, height < 150 ? 5 : 8);
}

static void heat_scales(panel *p) {
  const attend_plot_panel *is = p->is;
  extent z = extent_start(is->z.log);
  for (size_t i = 0; i < is->rows * is->columns; i++) {
    extent_see(&z, is->cells[i]);
    if (is->diverging) extent_see(&z, -is->cells[i]);
  }
  scale_make(&p->z, &is->z, z, is->diverging ? TIGHT_ENDS : ROUND_ENDS, 6);
}

/* ---- room -------------------------------------------------------------------------- */

static double widest(const char *const *names, size_t count, double min) {
  for (size_t i = 0; names && i < count; i++) min = fmax(min, label_width(names[i], LETTERS));
  return min;
}

static double ticks_width(const scale *s) {
  double max = 0;
  for (int i = 0; i < s->count; i++) max = fmax(max, label_width(s->label[i], LETTERS));
  return max;
}

static double left_room(const panel *p) {
  const attend_plot_panel *is = p->is;
  double names = is->kind == ATTEND_PLOT_HEAT ? fmin(LONG_NAME, widest(is->row_names, is->rows, 0))
                                              : ticks_width(&p->y);
  return names + ROOM + (is->y.label ? LINE + 2 : 0);
}

static double right_room(const panel *p) {
  if (p->is->kind == ATTEND_PLOT_HEAT) return heat_bar_width(p);
  if (p->key == ATTEND_KEY_ENDS) return key_ends_width(p) + 2 * ROOM;
  return 2 * ROOM;
}

/* Names of columns turn if one of them is wider than a column. */
static double names_height(panel *p, double width) {
  const attend_plot_panel *is = p->is;
  double max = widest(is->names, is->columns, 0);
  if (is->kind == ATTEND_PLOT_LINES) return LINE;
  if (!is->names) return 0;
  if (max + 4 <= width / (double)is->columns) return LINE;
  p->turn = TURN;
  return LINE + fmin(max, LONG_NAME) * sin(-TURN * 3.14159265 / 180);
}

/* Below which the key above the lines is better. */
static attend_plot_key choose_key(const panel *p, double width, double height) {
  const attend_plot_panel *is = p->is;
  size_t named = 0;
  for (size_t i = 0; i < is->count; i++) named += series_named(p, i);
  if (is->kind == ATTEND_PLOT_HEAT || !named || is->key == ATTEND_KEY_NONE) return ATTEND_KEY_NONE;
  bool fit = is->kind == ATTEND_PLOT_LINES && (double)named * LINE < 0.8 * height &&
             key_ends_width(p) < 0.3 * width;
  if (is->key == ATTEND_KEY_ABOVE || !fit) return ATTEND_KEY_ABOVE;
  return ATTEND_KEY_ENDS;
}

static void panel_measure(panel *p, double width) {
  const attend_plot_panel *is = p->is;
  double height = p->outer.h;
  if (is->kind == ATTEND_PLOT_HEAT)
    heat_scales(p);
  else
    series_scales(p, width, height);
  p->key = choose_key(p, width, height);
  p->left = left_room(p);
  p->right = right_room(p);
  p->top = (is->title ? LINE + 9 : 9) + key_height(p, width) + (is->marks ? LINE : 0);
  double inside = fmax(40, width - p->left - p->right);
  p->bottom = names_height(p, inside) + (is->x.label ? LINE : 0) + 4;
}

/* ---- drawing ------------------------------------------------------------------------- */

static void across(svg *s, const panel *p, double y, const char *look) {
  svg_add(s, "<path class=\"%s\" d=\"M%f %fh%f\"/>\n", look, p->area.x, y, p->area.w);
}

static void down(svg *s, const panel *p, double x, const char *look) {
  svg_add(s, "<path class=\"%s\" d=\"M%f %fv%f\"/>\n", look, x, p->area.y, p->area.h);
}

static void y_axis(svg *s, const panel *p) {
  for (int i = 0; i < p->y.minors; i++) across(s, p, panel_y(p, p->y.minor[i]), "grid minor");
  for (int i = 0; i < p->y.count; i++) {
    double y = panel_y(p, p->y.at[i]);
    across(s, p, y, "grid");
    plot_text(s, "faint", AT_END, p->area.x - ROOM, y + 4, 0, 200, p->y.label[i]);
  }
}

/* What would run into the label before it is left out. */
static void x_axis(svg *s, const panel *p) {
  double free = -1e9, y = p->area.y + p->area.h;
  for (int i = 0; i < p->x.minors; i++) down(s, p, panel_x(p, p->x.minor[i]), "grid minor");
  for (int i = 0; i < p->x.count; i++) {
    double x = panel_x(p, p->x.at[i]);
    double half = label_width(p->x.label[i], LETTERS) / 2;
    down(s, p, x, "grid");
    if (x - half < free) continue;
    plot_text(s, "faint", AT_MIDDLE, x, y + LINE - 2, 0, 200, p->x.label[i]);
    free = x + half + ROOM;
  }
}

static void labels(svg *s, const panel *p) {
  const attend_plot_panel *is = p->is;
  double middle = p->area.x + p->area.w / 2;
  double half = p->area.y + p->area.h / 2;
  if (is->x.label)
    plot_text(s, "ink", AT_MIDDLE, middle, p->area.y + p->area.h + p->bottom - 6, 0,
              p->area.w + p->left, is->x.label);
  if (is->y.label)
    plot_text(s, "ink", AT_MIDDLE, p->area.x - p->left + LETTERS, half, -90, p->area.h + p->bottom,
              is->y.label);
}

/* Of many names, as many as have room. */
static void names_put(svg *s, const panel *p) {
  const attend_plot_panel *is = p->is;
  double step = p->area.w / (double)is->columns, free = -1e9;
  double y = p->area.y + p->area.h + LINE - 3;
  for (size_t i = 0; i < is->columns; i++) {
    double x = p->area.x + step * ((double)i + 0.5);
    if (x < free) continue;
    free = x + (p->turn ? LETTERS + 4 : 0);
    if (p->turn)
      plot_text(s, "faint", AT_END, x + 4, y - 4, TURN, LONG_NAME, is->names[i]);
    else
      plot_text(s, "faint", AT_MIDDLE, x, y, 0, step + 8, is->names[i]);
  }
}

static void axes_put(svg *s, const panel *p) {
  const attend_plot_panel *is = p->is;
  if (is->kind != ATTEND_PLOT_HEAT) y_axis(s, p);
  if (is->kind == ATTEND_PLOT_LINES) x_axis(s, p);
  if (is->kind == ATTEND_PLOT_LINES) across(s, p, p->area.y + p->area.h, "axis");
  if (is->kind != ATTEND_PLOT_LINES && is->names) names_put(s, p);
  labels(s, p);
  if (is->title)
    plot_text(s, "head", AT_START, p->outer.x, p->outer.y + LETTERS + 1, 0, p->outer.w, is->title);
}

/* ---- layout ------------------------------------------------------------------------ */

/* The height of a heat map follows its rows. */
static double natural_height(const page *g, const panel *p, double inside) {
  const attend_plot_panel *is = p->is;
  if (g->is->height > 0) return g->is->height;
  if (is->kind != ATTEND_PLOT_HEAT) return g->across > 1 ? 240 : 320;
  double columns = fmax(1, (double)is->columns), rows = fmax(1, (double)is->rows);
  double cell = fmin(30, inside / columns);
  return fmax(80, fmin(rows * cell, 560)) + p->top + p->bottom;
}

static void measure(attend_context *ctx, page *g, double width) {
  for (size_t i = 0; i < g->is->count; i++) {
    panel *p = &g->panels[i];
    p->ctx = ctx;
    p->is = &g->is->panels[i];
    p->outer.w = width;
    p->outer.h = g->is->height > 0 ? g->is->height : 280;
    panel_measure(p, width);
    p->outer.h = natural_height(g, p, width - p->left - p->right);
  }
}

/* Panels above each other begin and end at the same x. */
static void align(page *g) {
  for (size_t c = 0; c < g->across; c++) {
    double left = 0, right = 0;
    for (size_t i = c; i < g->is->count; i += g->across) {
      left = fmax(left, g->panels[i].left);
      right = fmax(right, g->panels[i].right);
    }
    for (size_t i = c; i < g->is->count; i += g->across) {
      g->panels[i].left = left;
      g->panels[i].right = right;
    }
  }
}

static void place_panel(panel *p, double x, double y, double h) {
  p->outer.x = x;
  p->outer.y = y;
  p->outer.h = h;
  p->area = (box){x + p->left, y + p->top, fmax(20, p->outer.w - p->left - p->right),
                  fmax(20, h - p->top - p->bottom)};
}

static void place_rows(page *g, double width) {
  double y = EDGE + (g->is->title ? TITLE : 0);
  for (size_t i = 0; i < g->is->count; i += g->across) {
    double h = 0;
    for (size_t c = i; c < i + g->across && c < g->is->count; c++)
      h = fmax(h, g->panels[c].outer.h);
    for (size_t c = i; c < i + g->across && c < g->is->count; c++)
      place_panel(&g->panels[c], EDGE + (double)(c - i) * (width + EDGE), y, h);
    y += h + EDGE;
  }
  g->note_y = y;
}

/* ---- notes -------------------------------------------------------------------------- */

/* Bytes of the next line, and in *skip those after it that are not shown. */
static size_t note_line(const char *at, double max, size_t *skip) {
  size_t line = strcspn(at, "\n"), n = text_fits(at, LETTERS, max);
  *skip = at[line] ? 1 : 0;
  if (n >= line) return line;
  size_t word = n;
  while (word > 0 && at[word] != ' ') word--;
  *skip = word ? 1 : 0;
  return word ? word : n ? n : 1;
}

/* Draws the notes if there is a svg. Returns how many lines they are. */
static int notes(svg *s, const page *g) {
  const char *at = g->is->notes ? g->is->notes : "";
  int lines = 0;
  for (size_t n, skip; *at; at += n + skip, lines++) {
    n = note_line(at, g->width - 2 * EDGE, &skip);
    if (!s || !n) continue;
    char text[2048];
    snprintf(text, sizeof text, "%.*s", (int)fmin((double)n, 2000), at);
    plot_text(s, "faint", AT_START, EDGE, g->note_y + NOTE * (lines + 0.6), 0, 1e9, text);
  }
  return lines;
}

static void lay_out(attend_context *ctx, page *g) {
  g->width = g->is->width > 0 ? g->is->width : WIDTH;
  double width = (g->width - EDGE) / (double)g->across - EDGE;
  measure(ctx, g, width);
  align(g);
  place_rows(g, width);
  g->height = g->note_y + NOTE * notes(NULL, g);
}

/* ---- writing ------------------------------------------------------------------------- */

static const char *name_of(const attend_plot *plot) {
  if (plot->title) return plot->title;
  return plot->panels[0].title ? plot->panels[0].title : "a plot";
}

static bool any_heat(const attend_plot *plot) {
  for (size_t i = 0; i < plot->count; i++)
    if (plot->panels[i].kind == ATTEND_PLOT_HEAT) return true;
  return false;
}

static void head(svg *s, const page *g) {
  svg_add(s,
          "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"attend-plot\" "
          "width=\"%f\" height=\"%f\" viewBox=\"0 0 %f %f\" role=\"img\">\n"
          "<title>%t</title>\n",
          g->width, g->height, g->width, g->height, name_of(g->is));
  style_put(s, any_heat(g->is));
  style_stripes(s);
  svg_add(s, "<rect class=\"ground\" width=\"%f\" height=\"%f\"/>\n", g->width, g->height);
  if (g->is->title)
    plot_text(s, "title", AT_START, EDGE, EDGE + TITLE_LETTERS - 2, 0, g->width - 2 * EDGE,
              g->is->title);
}

static void put_panel(svg *s, const panel *p) {
  axes_put(s, p);
  key_put(s, p);
  if (p->is->kind == ATTEND_PLOT_LINES) lines_put(s, p);
  if (p->is->kind == ATTEND_PLOT_BARS) bars_put(s, p);
  if (p->is->kind == ATTEND_PLOT_HEAT) heat_put(s, p);
  key_ends_put(s, p);
}

static void put_page(svg *s, const page *g) {
  head(s, g);
  for (size_t i = 0; i < g->is->count && !s->status; i++) put_panel(s, &g->panels[i]);
  notes(s, g);
  svg_add(s, "</svg>\n");
}

attend_status attend_plot_svg(attend_context *ctx, const attend_plot *plot, char **text,
                              size_t *length) {
  attend_plot is;
  svg s = {.memory = ctx->allocator};
  *text = NULL;
  ATTEND_TRY(OPTIONS_READ(ctx, attend_plot, plot, &is));
  ATTEND_TRY(check(ctx, &is));
  page g = {.is = &is, .across = is.across ? is.across : 1};
  if (g.across > is.count) g.across = is.count;
  size_t bytes = size_times(is.count, sizeof *g.panels);
  ATTEND_TRY(ctx_alloc_zeroed(ctx, bytes, "the panels of a plot", &g.panels));
  lay_out(ctx, &g);
  put_page(&s, &g);
  ctx_free(ctx, g.panels);
  if (length) *length = s.status ? 0 : s.length;
  if (!s.status) {
    *text = s.text;
    return ATTEND_OK;
  }
  svg_free(&s);
  return fail(ctx, s.status, "no memory for a plot: draw fewer values");
}

void attend_plot_free(attend_context *ctx, char *text) { ctx_free(ctx, text); }

attend_status attend_plot_save(attend_context *ctx, const attend_plot *plot, const char *path) {
  char *text;
  size_t length;
  ATTEND_TRY(attend_plot_svg(ctx, plot, &text, &length));
  attend_status status = attend_file_write(ctx, path, text, length);
  attend_plot_free(ctx, text);
  return status;
}
