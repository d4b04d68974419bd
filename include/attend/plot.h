/* attend/plot.h - plots as SVG: lines, bars, heat maps.
 *
 *   double loss[100] = ...;
 *   attend_plot_series train = {.name = "train", .count = 100, .y = loss};
 *   attend_plot_panel panel = {.title = "Loss", .x = {.label = "step"},
 *                              .y = {.label = "nats per token", .log = 1},
 *                              .count = 1, .series = &train};
 *   attend_plot plot = {ATTEND_INIT(attend_plot), .count = 1, .panels = &panel};
 *   attend_plot_save(ctx, &plot, "loss.svg");
 *
 * A plot is plain data in which zero means default; nothing of it is kept. The
 * same data gives the same bytes. The file needs nothing beside it, follows the
 * reader's light or dark scheme, and can be read without colour: every series has
 * its own mark, every kind of bar its own stripes, and where a heat map has two
 * colours, cells below 0 have a line through them.
 *
 * Values that are not finite leave a gap, and so do those that a logarithmic axis
 * has no place for. A series with more values than pixels is drawn by what each
 * column of pixels has first, least, most and last, so that files stay small and
 * no peak is lost (x should rise or fall).
 */
#ifndef ATTEND_PLOT_H
#define ATTEND_PLOT_H

#include "attend/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum { ATTEND_PLOT_LINES = 0, ATTEND_PLOT_BARS, ATTEND_PLOT_HEAT } attend_plot_kind;

typedef struct {
  const char *label;
  bool log;
  bool zero;        /* 0 is on it, whatever the data (not on a log axis) */
  double low, high; /* its ends; equal: from the data */
} attend_plot_axis;

typedef struct {
  const char *name; /* for the key; NULL: none */
  size_t count;
  const double *x; /* [count] or NULL: 0, 1, 2 ..; not for bars */
  const double *y; /* [count]; of bars one for each group */
  /* [count] each, or NULL: a band around a line, error marks on bars. */
  const double *low, *high;
  int points; /* a mark at every value; 2: marks without a line */
  bool dashed;
  bool faint; /* thin and pale, behind the others and not in the key */
  int colour; /* 1, 2 ..: that one; 0: by its place */
} attend_plot_series;

/* A thin line at x from bottom to top: where something happened. */
typedef struct {
  double x;
  const char *label; /* may be NULL */
} attend_plot_mark;

typedef enum {
  ATTEND_KEY_AUTO = 0, /* at the ends of lines where they fit, else above */
  ATTEND_KEY_ABOVE,
  ATTEND_KEY_ENDS,
  ATTEND_KEY_NONE
} attend_plot_key;

typedef struct {
  attend_plot_kind kind;
  const char *title;
  attend_plot_axis x, y; /* bars and heat maps: x has a label alone */
  attend_plot_key key;

  /* Lines and bars. */
  size_t count;
  const attend_plot_series *series; /* [count] */
  size_t marks;
  const attend_plot_mark *mark; /* [marks], lines alone */

  /* Bars: groups beside each other. Heat maps: columns. names may be NULL. */
  size_t columns;
  const char *const *names; /* [columns] */

  /* Heat maps. The first row is on top. */
  size_t rows;
  const char *const *row_names; /* [rows] or NULL */
  const double *cells;          /* [rows][columns]; not finite: striped */
  attend_plot_axis z;           /* of colours */
  bool diverging;               /* two colours, and none at 0 */
} attend_plot_panel;

typedef struct {
  size_t size;
  const char *title;
  const char *notes; /* under it; lines end in \n, long ones are broken */
  double width;      /* px; 0: 720 */
  double height;     /* of one panel, px; 0: by its kind */
  size_t across;     /* panels beside each other; 0: 1 */
  size_t count;
  const attend_plot_panel *panels; /* [count], row by row */
} attend_plot;

/* UTF-8 that ends in a zero byte, freed by attend_plot_free. length may be
 * NULL. */
ATTEND_API attend_status attend_plot_svg(attend_context *ctx, const attend_plot *plot, char **text,
                                         size_t *length);
ATTEND_API void attend_plot_free(attend_context *ctx, char *text);

/* Into a file, which is there as a whole or as it was before: it may be written
 * again and again while someone reads it. */
ATTEND_API attend_status attend_plot_save(attend_context *ctx, const attend_plot *plot,
                                          const char *path);

#ifdef __cplusplus
}
#endif
#endif
