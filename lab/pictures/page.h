/* The layout that pictures share: a page with title, captions and legend; names along an
 * axis; a matrix as a heat map.
 */
#ifndef PICTURES_PAGE_H
#define PICTURES_PAGE_H

#include "pictures/pictures.h"

enum {
  PAGE_MARGIN = 28,
  TITLE_SIZE = 20,
  TEXT_SIZE = 13, /* captions */
  LABEL_SIZE = 12,
  SMALL_SIZE = 10
};

typedef struct {
  drawing *to;
  const palette *colours;
  double left, right; /* of what is drawn on */
  double y;           /* where the next thing starts */
  double legend_x;    /* where the legend goes on; 0: it has not started */
  double legend_h;    /* of its line */
} page;

/* The width between the margins. */
double page_available(const picture_look *look);

/* `content` is the width that the picture needs: the page is as wide as
 * that, though never so narrow that sentences do not read. */
void page_start(page *p, drawing *to, const picture_look *look, double content, const char *title,
                ...) __attribute__((format(printf, 5, 6)));
/* A caption, broken into lines. */
void page_say(page *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The caption of pictures.h with this name; its attention is that of `about`. */
void page_caption(page *p, const char *name, const picture_about *about, picture_facts facts);
/* The end of every caption: the notice, if there is one, and some air. */
void page_notice(page *p, const picture_about *about);
void page_end(page *p);

enum { PAGE_WORDS = 160 };
/* "gpt2, layer 3, head 5", or as much of it as is known. */
const char *page_place(const picture_about *about, char to[PAGE_WORDS]);

/* One text in a size, a colour and with a width that it is cut to (0: none). */
void page_text(page *p, double x, double y, const char *text, double size, text_anchor anchor,
               colour paint, double max);
void page_bold(page *p, double x, double y, const char *text, double size, text_anchor anchor,
               colour paint, double max);
/* A number or note in small faint letters; a heading within the picture. */
void page_small(page *p, double x, double y, const char *text, text_anchor anchor);
void page_heading(page *p, double x, double y, const char *text);
/* Where a text of this size stands so that it is in the middle of y. */
double page_middle(double y, double size);

/* ---- the legend, a strip below the picture -------------------------------------- */

typedef enum {
  SCALE_WEIGHT, /* 0 to most, by the root */
  SCALE_SIGN,   /* -most to most, by the root */
  SCALE_EVEN    /* -most to most, evenly */
} page_scale;

colour page_colour(const palette *c, page_scale scale, double x, double max);
void page_legend_scale(page *p, page_scale scale, double max, const char *title);
void page_legend_chip(page *p, colour paint, const char *title);
void page_legend_hatch(page *p, const char *title);
void page_legend_end(page *p);

/* "0.042", "1.3e-05", "12": three digits that count. */
const char *page_number(double x, char to[24]);
/* The same; below 0.0005 "<0.001". */
const char *page_weight(double w, char to[24]);

/* ---- numbers along an axis, as lines ---------------------------------------------------------- */

typedef struct {
  const char *name;
  const double *x, *y; /* [n]; y NaN: left out */
  int n;
} page_series;

typedef struct {
  const char *title, *x_name;
  const page_series *series; /* [count] in the colours of heads, with points of their own */
  int count;
  double x_high, high; /* the ends of the axes, which begin at 0; high 0: the largest */
  bool whole;          /* x are whole numbers */
} page_lines;

void page_draw_lines(page *p, double x, double y, double w, double h, const page_lines *l);
/* One word in two texts: its cosine by layer, as lines and in a table. */
void page_word(page *p, const picture_word_data *w);

/* A head in few cells, 255 the largest; cells that share a pixel show their largest. */
void page_thumbnail(page *p, const uint8_t *cells, int height, int width, double x, double y,
                    double w, double h);

/* ---- names of tokens along an axis --------------------------------------------------------- */

typedef struct {
  const picture_tokens *tokens; /* text NULL: numbers */
  int count;
  double length; /* px of the axis */
  int marked;    /* -1: none */
  double max;    /* px that a name may take along itself */

  /* Set by names_fit. */
  int step;     /* one name every `step` tokens */
  bool numbers; /* since names would be too many */
  int turn;     /* 0, -45, -90: of an axis along x */
  double size;
  double available; /* px that the names take across the axis */
  double over;      /* px that the last one leans out */
} token_names;

void names_fit(token_names *n, bool along_x);
/* Names end at x, one row for each. */
void names_draw_left(const token_names *n, page *p, double x, double y);
/* Names stand on y, above columns; or hang from it, below them. */
void names_draw_top(const token_names *n, page *p, double x, double y);
void names_draw_below(const token_names *n, page *p, double x, double y);

/* ---- a matrix as a heat map, with names of rows and columns -------------------------------- */

typedef struct {
  picture_tokens rows, keys; /* text NULL: their places as numbers */
  int height, width;
  const float *cells;  /* [height, width] */
  const uint8_t *mask; /* [height, width] or NULL */
  page_scale scale;
  double max;
  int token, key; /* marked; -1: none */
  bool names_left, names_top;
  bool axes; /* the names of the axes, queries and keys, stand above the others */

  /* Set by map_fit. */
  double cell;      /* px a side */
  int pooled;       /* cells that became one, a side; the largest shows */
  double w, h;      /* of the cells alone */
  double left, top; /* space of the names */
  double over;      /* how far the names on top lean out to the right */
} map;

/* Cells of tokens, or of numbers (rows and keys with text NULL), with names on both sides and
 * nothing marked. */
map map_of_cells(picture_tokens rows, picture_tokens keys, const float *cells, int height,
                 int width, page_scale scale, double max);
/* Cells as large as the limits allow, up to `largest`. */
void map_fit(map *m, double width_limit, double height_limit, double largest);
/* (x, y) is the corner of the cells; the names are left of it and above. */
void map_draw(const map *m, page *p, double x, double y);

/* The middle of a row (or column) of `count` on `length` px. */
double map_along(int i, int count, double length);
/* The largest size of a cell. */
double map_most(const float *cells, int height, int width);
/* The legend's items for the masks that occur. */
void map_legend_masks(page *p, const uint8_t *mask, int height, int width);

/* ---- maps of numbers or words, scores of tokens: scores.c ------------------------------------- */

/* Without title and caption, in the width that is left. */
void page_map(page *p, const picture_map_data *d);
void page_scores(page *p, const picture_scores_data *d);
/* What they need of the limits. */
double page_map_width(const picture_map_data *d, double available);
double page_scores_width(const picture_scores_data *d, double available);

#endif
