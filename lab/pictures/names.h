/* The names of tokens along an axis: all, thinned, or numbers.
 */
#ifndef PICTURES_NAMES_H
#define PICTURES_NAMES_H

#include "pictures/page.h"

typedef struct {
  const picture_tokens *tokens; /* text NULL: numbers */
  int count;
  double length; /* px of the axis */
  int marked;    /* -1: none */
  double most;   /* px that a name may take along itself */

  /* Set by names_fit. */
  int step;     /* every so-manieth is named */
  bool numbers; /* since names would be too many */
  int turn;     /* 0, -45, -90: of an axis along x */
  double size;
  double room; /* px that the names take across the axis */
  double over; /* px that the last one leans out */
} names;

void names_fit(names *n, bool along_x);
/* Names end at x, one row for each. */
void names_draw_left(const names *n, page *p, double x, double y);
/* Names stand on y, above columns; or hang from it, below them. */
void names_draw_top(const names *n, page *p, double x, double y);
void names_draw_below(const names *n, page *p, double x, double y);

#endif
