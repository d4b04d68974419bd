/* A plot: its panels in rows, its title above, its notes below.
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
static size_t note_line(const char *at, double most, size_t *skip) {
  size_t line = strcspn(at, "\n"), n = text_fits(at, LETTERS, most);
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
  ATTEND_TRY(take_zeroed(ctx, bytes, "the panels of a plot", &g.panels));
  lay_out(ctx, &g);
  put_page(&s, &g);
  give(ctx, g.panels);
  if (length) *length = s.status ? 0 : s.length;
  if (!s.status) {
    *text = s.text;
    return ATTEND_OK;
  }
  svg_free(&s);
  return fail(ctx, s.status, "no memory for a plot: draw fewer values");
}

void attend_plot_free(attend_context *ctx, char *text) { give(ctx, text); }

attend_status attend_plot_save(attend_context *ctx, const attend_plot *plot, const char *path) {
  char *text;
  size_t length;
  ATTEND_TRY(attend_plot_svg(ctx, plot, &text, &length));
  attend_status status = attend_file_write(ctx, path, text, length);
  attend_plot_free(ctx, text);
  return status;
}
