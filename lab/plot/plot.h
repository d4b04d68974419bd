/* What the files of a plot share: labels, scales, panels, the style sheet.
 *
 * plot.c lays out a page and its panels with their axes and keys; series.c and heat.c draw
 * what is inside the axes.
 *
 * Lengths are px, x to the right, y down.
 */
#ifndef PLOT_PLOT_H
#define PLOT_PLOT_H

#include "attend/plot.h"
#include "base/base.h"
#include "svg/svg.h"

enum {
  LETTERS = 12,      /* font sizes, px: axes, names, notes */
  TITLE_LETTERS = 16 /* of the page */
};

/* ---- labels (style.c) ----------------------------------------------------------- */

typedef enum { AT_START, AT_MIDDLE, AT_END } anchor;
/* (x, y): on the baseline; cut to `most` px with an ellipsis. look: a class
 * (style.c); turn: degrees. */
void plot_text(svg *s, const char *look, anchor a, double x, double y, int turn, double max,
               const char *text);
/* Upper estimate for common sans-serif fonts. */
double label_width(const char *text, double size);
/* How many bytes of the text fit, whole characters. */
size_t text_fits(const char *text, double size, double max);

/* ---- scales (scale.c) ----------------------------------------------------- */

enum { MOST_TICKS = 10, MOST_MINOR = 54 };

typedef struct {
  bool log;
  double low, high; /* the ends, low < high; positive on a log scale */
  int count, minors;
  double at[MOST_TICKS], minor[MOST_MINOR]; /* rising, from low to high */
  char label[MOST_TICKS][40];
} scale;

/* The least and the most of what was seen; low > high: nothing yet. */
typedef struct {
  bool log;
  double low, high;
} extent;

extent extent_start(bool log);
void extent_see(extent *e, double x); /* what has no place is not seen */

typedef enum {
  ROUND_ENDS, /* the axis ends at ticks */
  TIGHT_ENDS  /* the axis ends where the data does */
} axis_ends;

/* most: ticks, at least 3 and at most MOST_TICKS. */
void scale_make(scale *s, const attend_plot_axis *axis, extent seen, axis_ends ends, int max);
/* 0 at low, 1 at high, NaN for what has no place; beyond the ends it goes on. */
double scale_place(const scale *s, double x);
/* A number for reading: 1.5k, 20M, 3e-5; digits: significant ones. */
void short_number(double x, int digits, char text[40]);

/* ---- colours (style.c) -------------------------------------------------------- */

enum { LEVELS = 32, SHAPES = 8, STRIPES = 6 };

void style_put(svg *s, bool heat);
/* The mark of a series at (x, y). */
void style_mark(svg *s, int number, double x, double y, double radius);
/* The stripes, in <defs>; and a <rect that is filled with them, left open: 1 ..
 * lie over the colour of a series, 0 stands for nothing there. */
void style_stripes(svg *s);
void style_striped(svg *s, int stripes);

/* ---- panels ------------------------------------------------------------------------- */

typedef struct {
  double x, y, w, h;
} box;

typedef struct {
  attend_context *ctx;
  const attend_plot_panel *is;
  box outer; /* with its title, key, axes */
  box area;  /* inside the axes */
  double left, right, top, bottom;
  scale x, y, z;
  attend_plot_key key; /* as it was chosen */
  int turn;            /* of the names below: 0 or -40 */
} panel;

double panel_x(const panel *p, double x);
double panel_y(const panel *p, double y);
/* The number of a series' colour and mark. */
int series_number(const panel *p, size_t i);
bool series_named(const panel *p, size_t i);

void lines_put(svg *s, const panel *p);
void bars_put(svg *s, const panel *p);
void heat_put(svg *s, const panel *p);
double heat_bar_width(const panel *p);

/* ---- long series (series.c) ---------------------------------------------------- */

typedef struct {
  double x, y;
  bool gap; /* nothing joins it with the one before */
} spot;

typedef struct {
  const panel *on;
  const double *x, *y; /* x may be NULL */
  size_t count;
} curve;

/* The curve in px. At most `count` of them, if x rises or falls about four a px
 * of the area's width; to be freed with give. */
attend_status curve_spots(attend_context *ctx, const curve *c, spot **spots, size_t *count);

#endif
