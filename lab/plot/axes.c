/* Axes: how much room they take, and what they look like.
 */
#include <math.h>
#include <string.h>

#include "plot/plot.h"

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

static double widest(const char *const *names, size_t count, double least) {
  for (size_t i = 0; names && i < count; i++) least = fmax(least, text_width(names[i], LETTERS));
  return least;
}

static double ticks_width(const scale *s) {
  double most = 0;
  for (int i = 0; i < s->count; i++) most = fmax(most, text_width(s->label[i], LETTERS));
  return most;
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
  double most = widest(is->names, is->columns, 0);
  if (is->kind == ATTEND_PLOT_LINES) return LINE;
  if (!is->names) return 0;
  if (most + 4 <= width / (double)is->columns) return LINE;
  p->turn = TURN;
  return LINE + fmin(most, LONG_NAME) * sin(-TURN * 3.14159265 / 180);
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

void panel_measure(panel *p, double width) {
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
    double half = text_width(p->x.label[i], LETTERS) / 2;
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

void axes_put(svg *s, const panel *p) {
  const attend_plot_panel *is = p->is;
  if (is->kind != ATTEND_PLOT_HEAT) y_axis(s, p);
  if (is->kind == ATTEND_PLOT_LINES) x_axis(s, p);
  if (is->kind == ATTEND_PLOT_LINES) across(s, p, p->area.y + p->area.h, "axis");
  if (is->kind != ATTEND_PLOT_LINES && is->names) names_put(s, p);
  labels(s, p);
  if (is->title)
    plot_text(s, "head", AT_START, p->outer.x, p->outer.y + LETTERS + 1, 0, p->outer.w, is->title);
}

/* Of many names, as many as have room. */
void names_put(svg *s, const panel *p) {
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
