/* A head at several training steps: a row of small maps below the loss curve.
 *
 * All maps have one scale, which shows how a head sharpens.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pictures/page.h"

enum {
  LARGEST = 176, /* px of a map */
  SMALLEST = 84,
  GAP = 14,
  BELOW = 36,  /* px for the words under a map */
  ABOVE = 22,  /* and for the name of a head */
  CURVE = 110, /* px of the loss, high */
  AXIS = 46,   /* px for its numbers */
  VALID = 2    /* colour: far from what is marked */
};

typedef struct {
  const picture_film_data *d;
  double w, left; /* px of a map; of the names beside the first */
  int across;
  double max;
} film;

/* ---- the loss ---------------------------------------------------------------------- */

typedef struct {
  double x, y, w, h; /* px */
  double first, last, low, high;
  bool log; /* powers of ten tell more */
} frame;

static const double MUCH = 30; /* times the least */

static void see(frame *f, const picture_point *p, int n) {
  for (int i = 0; i < n; i++) {
    f->first = fmin(f->first, p[i].step);
    f->last = fmax(f->last, p[i].step);
    f->low = fmin(f->low, p[i].loss);
    f->high = fmax(f->high, p[i].loss);
  }
}

static double at_x(const frame *f, double step) {
  double span = f->last - f->first;
  return f->x + (span > 0 ? (step - f->first) / span : 0.5) * f->w;
}

static double at_y(const frame *f, double loss) {
  double low = f->log ? log10(f->low) : f->low;
  double span = (f->log ? log10(f->high) : f->high) - low;
  double x = f->log ? log10(fmax(loss, f->low)) : loss;
  return f->y + f->h - (span > 0 ? (x - low) / span : 0.5) * f->h;
}

static void curve_axes(const frame *f, page *p) {
  for (int i = 0; i <= (f->high > f->low ? 2 : 0); i++) {
    char text[24];
    double loss =
        f->log ? f->low * pow(f->high / f->low, i / 2.0) : f->low + (f->high - f->low) * i / 2;
    double y = at_y(f, loss);
    draw_line(p->to, f->x, y, f->x + f->w, y, 1, p->colours->grid);
    page_small(p, f->x - 8, page_middle(y, SMALL_SIZE), page_number(loss, text), ANCHOR_END);
  }
}

static void curve_line(const frame *f, page *p, const picture_point *at, int n) {
  double *points = drawing_take(p->to, 2 * (size_t)n + 2, sizeof *points);
  if (!points) return;
  for (int i = 0; i < n; i++) {
    points[2 * i] = at_x(f, at[i].step);
    points[2 * i + 1] = at_y(f, at[i].loss);
  }
  if (n > 1) draw_lines(p->to, points, n, 1.6, palette_head(p->colours, 0));
  free(points);
}

static void frame_marks(const frame *f, page *p, const picture_film_data *d) {
  for (int i = 0; i < d->frames; i++) {
    double x = at_x(f, d->step[i]);
    draw_line(p->to, x, f->y + f->h, x, f->y + f->h + 5, 1.4, p->colours->accent);
    if (isfinite(d->loss[i])) draw_circle(p->to, x, at_y(f, d->loss[i]), 3, p->colours->accent);
  }
}

static void draw_curve_of(page *p, const picture_film_data *d) {
  frame f = {.x = p->left + AXIS,
             .y = p->y + 6,
             .w = p->right - p->left - AXIS - 6,
             .h = CURVE,
             .first = INFINITY,
             .last = -INFINITY,
             .low = INFINITY,
             .high = -INFINITY};
  if (d->losses + d->valids == 0) return;
  see(&f, d->curve, d->losses);
  see(&f, d->valid, d->valids);
  f.log = f.low > 0 && f.high / f.low > MUCH;
  for (int i = 0; i < d->frames; i++) {
    f.first = fmin(f.first, d->step[i]);
    f.last = fmax(f.last, d->step[i]);
  }
  curve_axes(&f, p);
  curve_line(&f, p, d->curve, d->losses);
  for (int i = 0; i < d->valids; i++)
    draw_circle(p->to, at_x(&f, d->valid[i].step), at_y(&f, d->valid[i].loss), 2.2,
                palette_head(p->colours, VALID));
  frame_marks(&f, p, d);
  p->y += CURVE + 18;
  if (d->losses) page_legend_chip(p, palette_head(p->colours, 0), "loss in training");
  if (d->valids) page_legend_chip(p, palette_head(p->colours, VALID), "loss in validation");
  page_legend_chip(p, p->colours->accent, "the steps below");
  page_legend_end(p);
  p->y += 22;
}

/* ---- maps ----------------------------------------------------------------------------- */

static map map_of(const film *f, int head, int i, bool names) {
  const picture_film_data *d = f->d;
  size_t one = (size_t)d->height * (size_t)d->width;
  const float *cells = d->cells + ((size_t)head * (size_t)d->frames + (size_t)i) * one;
  map m = map_of_cells(d->rows, d->keys, cells, d->height, d->width,
                       d->is_signed ? SCALE_SIGN : SCALE_WEIGHT, f->max);
  m.mask = d->mask;
  m.names_left = names;
  m.names_top = false;
  return m;
}

/* As many beside each other as are not too small. */
static film film_of(const picture_film_data *d, double available) {
  film f = {.d = d};
  int cells = d->heads * d->frames * d->height;
  f.max = map_most(d->cells, cells, d->width);
  map first = map_of(&f, 0, 0, true);
  map_fit(&first, LARGEST + 120, LARGEST, 40);
  f.left = fmin(first.left, 110);
  double max = floor((available - f.left + GAP) / (SMALLEST + GAP));
  int fit = (int)fmax(max, 1);
  int lines = (d->frames + fit - 1) / fit;
  f.across = (d->frames + lines - 1) / lines;
  f.w = fmin(LARGEST, floor((available - f.left + GAP) / f.across - GAP));
  return f;
}

static void words_below(const film *f, page *p, int i, double x, double y) {
  const picture_film_data *d = f->d;
  char text[64], number[24];
  snprintf(text, sizeof text, "step %.0f", d->step[i]);
  page_text(p, x, y + 15, text, LABEL_SIZE, ANCHOR_START, p->colours->ink, f->w + GAP - 2);
  if (!isfinite(d->loss[i])) return;
  snprintf(text, sizeof text, "loss %s", page_number(d->loss[i], number));
  page_text(p, x, y + 29, text, SMALL_SIZE, ANCHOR_START, p->colours->faint, f->w + GAP - 2);
}

static double draw_line_of_maps(const film *f, page *p, int head, int from) {
  double y = p->y, tall = 0;
  for (int i = from; i < from + f->across && i < f->d->frames; i++) {
    double x = p->left + f->left + (i - from) * (f->w + GAP);
    map m = map_of(f, head, i, false);
    map_fit(&m, f->w, f->w, 40);
    if (i == from) {
      map named = m;
      named.names_left = true;
      map_draw(&named, p, x, y);
    } else {
      map_draw(&m, p, x, y);
    }
    tall = fmax(tall, m.h);
    words_below(f, p, i, x, y + m.h);
  }
  return tall + BELOW + 8;
}

static void draw_head(const film *f, page *p, int head) {
  char text[32];
  if (f->d->heads > 1) {
    snprintf(text, sizeof text, "head %d", f->d->head[head]);
    page_heading(p, p->left + f->left, p->y + 12, text);
    p->y += ABOVE;
  }
  for (int from = 0; from < f->d->frames; from += f->across)
    p->y += draw_line_of_maps(f, p, head, from);
}

const char *picture_film(const picture_film_data *d, const picture_look *look, drawing *out) {
  *out = (drawing){0};
  if (d->frames < 1 || d->heads < 1 || d->height < 1 || d->width < 1)
    return "there are no steps to draw";
  page p;
  char place[PAGE_WORDS], attention[PAGE_WORDS];
  film f = film_of(d, page_available(look));
  page_start(&p, out, look, f.left + f.across * (f.w + GAP) - GAP, "%s, from step %.0f to %.0f",
             page_place(&d->about, place), d->step[0], d->step[d->frames - 1]);
  page_say(&p,
           "What each token (row) attends to as training goes on: the weights of %s, all on one "
           "scale.%s",
           picture_attention(&d->about, attention),
           d->left_out ? " Not all steps that are saved are shown." : "");
  page_notice(&p, &d->about);
  draw_curve_of(&p, d);
  for (int i = 0; i < d->heads; i++) draw_head(&f, &p, i);
  page_legend_scale(&p, d->is_signed ? SCALE_SIGN : SCALE_WEIGHT, f.max, "weight");
  map_legend_masks(&p, d->mask, d->height, d->width);
  page_legend_end(&p);
  page_end(&p);
  return NULL;
}
