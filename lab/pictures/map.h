/* A matrix as a heat map, with the names of its rows and columns.
 */
#ifndef PICTURES_MAP_H
#define PICTURES_MAP_H

#include "pictures/page.h"

typedef struct {
  picture_tokens rows, keys; /* text NULL: their places as numbers */
  int height, width;
  const float *cells;  /* [height, width] */
  const uint8_t *mask; /* [height, width] or NULL */
  page_scale scale;
  double most;
  int token, key; /* marked; -1: none */
  bool names_left, names_top;

  /* Set by map_fit. */
  double cell;      /* px a side */
  int pooled;       /* cells that became one, a side; the largest shows */
  double w, h;      /* of the cells alone */
  double left, top; /* room that the names take */
  double over;      /* how far the names on top lean out to the right */
} map;

/* Cells as large as the room allows, up to `largest`. */
void map_fit(map *m, double room_w, double room_h, double largest);
/* (x, y) is the corner of the cells; the names are left of it and above. */
void map_draw(const map *m, page *p, double x, double y);

/* The middle of a row (or column) of `count` on `length` px. */
double map_along(int i, int count, double length);
/* The largest size of a cell. */
double map_most(const float *cells, int height, int width);
/* The legend's items for the masks that occur. */
void map_legend_masks(page *p, const uint8_t *mask, int height, int width);

#endif
