/* The names of tokens along an axis: all, thinned, or numbers.
 *
 * Names are drawn at the size that the pitch allows; below LEAST px a name every
 * few tokens is left, below THIN numbers at round steps.
 */
#include "pictures/names.h"

#include <math.h>
#include <stdio.h>

#define LEAST 11.0
#define THIN 3.2
#define LEAN 0.70710678

/* 1, 2, 5, 10, .. so that numbers stand apart. */
static int round_step(double pitch, double apart) {
  int step = 1;
  for (int i = 0; step * pitch < apart && step < 1 << 28; i++)
    step = step / (i % 3 == 1 ? 2 : 1) * (i % 3 == 1 ? 5 : 2);
  return step;
}

static const char *name_of(const names *n, int i, char number[16]) {
  if (!n->numbers) return n->tokens->text[i];
  snprintf(number, 16, "%d", i);
  return number;
}

static double widest(const names *n) {
  char number[16];
  double most = 0;
  for (int i = 0; i < n->count; i++) {
    if (i % n->step && i != n->marked) continue;
    most = fmax(most, draw_text_width(name_of(n, i, number), n->size, i == n->marked));
  }
  return most;
}

void names_fit(names *n, bool along_x) {
  double pitch = n->count > 0 ? n->length / n->count : 1;
  n->numbers = !n->tokens->text || pitch < THIN;
  n->step = n->numbers       ? round_step(pitch, along_x || n->count > 40 ? 34 : 16)
            : pitch >= LEAST ? 1
                             : (int)ceil(LEAST / pitch);
  n->size = n->numbers ? SMALL_SIZE : fmin(fmax(pitch * 0.8, 9), LABEL_SIZE);
  n->turn = 0;
  n->over = 0;
  double wide = widest(n), named = pitch * n->step;
  if (along_x && wide > named - 8 && !n->numbers) n->turn = named >= 1.6 * n->size ? -45 : -90;
  if (n->turn) wide = fmin(wide, n->most);
  n->room = !along_x || n->turn == -90 ? fmin(wide, n->most)
            : n->turn == -45           ? wide * LEAN + n->size
                                       : n->size;
  n->room = ceil(n->room) + 8;
  if (n->turn == -45) n->over = fmax(wide * LEAN - pitch / 2 + 4, 0);
}

static double at(const names *n, int i) { return (i + 0.5) * n->length / n->count; }

/* A thinned name is left out where it would touch the marked one. */
static bool is_named(const names *n, int i) {
  if (i == n->marked) return true;
  if (i % n->step) return false;
  double apart = fabs(at(n, i) - at(n, n->marked));
  return n->marked < 0 || apart >= (n->numbers && !n->turn ? 24 : LEAST);
}

static text_look look_of(const names *n, const page *p, int i) {
  bool marked = i == n->marked;
  colour faint = n->step > 1 ? p->colours->faint : p->colours->ink;
  return (text_look){.size = n->size,
                     .bold = marked,
                     .turn = n->turn,
                     .most = n->turn ? n->most : 0,
                     .paint = marked ? p->colours->accent : faint};
}

void names_draw_left(const names *n, page *p, double x, double y) {
  char number[16];
  for (int i = 0; i < n->count; i++) {
    if (!is_named(n, i)) continue;
    text_look look = look_of(n, p, i);
    double middle = y + at(n, i);
    look.anchor = ANCHOR_END;
    look.most = n->most;
    draw_text(p->to, x - 8, page_middle(middle, n->size), name_of(n, i, number), &look);
    if (n->step > 1) draw_line(p->to, x - 5, middle, x - 1, middle, 1, p->colours->grid);
  }
}

static void draw_across(const names *n, page *p, double x, double y, double side) {
  char number[16];
  for (int i = 0; i < n->count; i++) {
    if (!is_named(n, i)) continue;
    text_look look = look_of(n, p, i);
    double middle = x + at(n, i), down = side > 0 ? n->size * 0.73 : 0;
    /* Turned letters stand right of their line: half their height back. */
    double back = n->turn == -90 ? n->size * 0.36 : n->turn ? n->size * 0.25 : 0;
    look.anchor = !n->turn ? ANCHOR_MIDDLE : side > 0 ? ANCHOR_END : ANCHOR_START;
    draw_text(p->to, middle + back, y + side * 8 + (n->turn == -90 ? 0 : down),
              name_of(n, i, number), &look);
    if (n->step > 1) draw_line(p->to, middle, y + side, middle, y + side * 5, 1, p->colours->grid);
  }
}

void names_draw_top(const names *n, page *p, double x, double y) { draw_across(n, p, x, y, -1); }

void names_draw_below(const names *n, page *p, double x, double y) { draw_across(n, p, x, y, 1); }
