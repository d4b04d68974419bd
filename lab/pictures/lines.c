/* Numbers along an axis as lines; one word in two texts, by layer; a head in few cells. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pictures/page.h"

enum { AXIS_LEFT = 46, AXIS_BELOW = 34, TITLE = 20 };

/* 1, 2 or 5 times a power of ten: about `count` steps to `range`. */
static double round_step(double range, int count) {
  double rough = range / count, power = pow(10, floor(log10(rough)));
  double times = rough / power;
  return power * (times <= 1 ? 1 : times <= 2 ? 2 : times <= 5 ? 5 : 10);
}

static double largest(const page_lines *l) {
  double max = 0;
  for (int i = 0; i < l->count; i++)
    for (int k = 0; k < l->series[i].n; k++)
      if (isfinite(l->series[i].y[k])) max = fmax(max, l->series[i].y[k]);
  return max > 0 ? max : 1;
}

static double smallest(const page_lines *l) {
  double min = 0;
  for (int i = 0; i < l->count; i++)
    for (int k = 0; k < l->series[i].n; k++)
      if (isfinite(l->series[i].y[k])) min = fmin(min, l->series[i].y[k]);
  return min;
}

typedef struct {
  double left, top, w, h, low, high, x_high;
} axes;

static double at_x(const axes *a, double x) { return a->left + x / a->x_high * a->w; }
static double at_y(const axes *a, double y) {
  return a->top + (1 - (y - a->low) / (a->high - a->low)) * a->h;
}

static void draw_axes(page *p, const page_lines *l, const axes *a) {
  char text[24];
  double step = round_step(a->high - a->low, 4);
  for (double t = ceil(a->low / step) * step; t <= a->high + step * 1e-6; t += step) {
    double y = at_y(a, t);
    draw_line(p->to, a->left, y, a->left + a->w, y, 1, p->colours->grid);
    page_small(p, a->left - 6, page_middle(y, SMALL_SIZE),
               page_number(fabs(t) < 1e-9 ? 0 : t, text), ANCHOR_END);
  }
  step = fmax(round_step(a->x_high, (int)fmax(2, fmin(12, a->w / 46))), l->whole ? 1 : 0);
  for (double t = 0; t <= a->x_high + step * 1e-6; t += step)
    page_small(p, at_x(a, t), a->top + a->h + 14, page_number(t, text), ANCHOR_MIDDLE);
  page_small(p, a->left + a->w / 2, a->top + a->h + 30, l->x_name, ANCHOR_MIDDLE);
}

static void draw_series(page *p, const axes *a, const page_series *s, int index) {
  colour c = palette_head(p->colours, index);
  for (int k = 0; k < s->n; k++) {
    if (!isfinite(s->y[k])) continue;
    double x = at_x(a, s->x[k]), y = at_y(a, s->y[k]);
    if (k && isfinite(s->y[k - 1]))
      draw_line(p->to, at_x(a, s->x[k - 1]), at_y(a, s->y[k - 1]), x, y, 1.8, c);
    if (index)
      draw_rect(p->to, x - 3, y - 3, 6, 6, 0, c);
    else
      draw_circle(p->to, x, y, 3.2, c);
  }
}

void page_draw_lines(page *p, double x, double y, double w, double h, const page_lines *l) {
  axes a = {.left = x + AXIS_LEFT,
            .top = y + TITLE + 8,
            .w = w - AXIS_LEFT - 10,
            .h = h - TITLE - 8 - AXIS_BELOW,
            .low = smallest(l),
            .high = l->high > 0 ? l->high : largest(l),
            .x_high = l->x_high > 0 ? l->x_high : 1};
  page_heading(p, x, y + 12, l->title);
  draw_axes(p, l, &a);
  for (int i = 0; i < l->count; i++) draw_series(p, &a, &l->series[i], i);
}

/* ---- one word in two texts ------------------------------------------------------------------ */

enum { PLOT_WIDTH = 460, PLOT_HEIGHT = 200 };

static void word_table(page *p, double x, double y, const picture_word_data *w) {
  char text[32];
  page_small(p, x, y + 12, "before layer", ANCHOR_START);
  page_small(p, x + 130, y + 12, "cosine", ANCHOR_END);
  int every = (w->layers + 11) / 10;
  for (int l = 0, row = 0; l <= w->layers; l++) {
    if (l % every && l < w->layers) continue;
    double line = y + 28 + 16 * row++;
    snprintf(text, sizeof text, l < w->layers ? "%d" : "after %d", l < w->layers ? l : l - 1);
    page_text(p, x, line, text, LABEL_SIZE, ANCHOR_START, p->colours->ink, 0);
    snprintf(text, sizeof text, "%.4f", w->cosine[l]);
    page_text(p, x + 130, line, text, LABEL_SIZE, ANCHOR_END, p->colours->ink, 0);
  }
}

void page_word(page *p, const picture_word_data *w) {
  char title[200], text[400];
  p->y += 24;
  if (w->why) {
    snprintf(text, sizeof text, "No cosines: %s.", w->why);
    page_text(p, p->left, p->y + 12, text, TEXT_SIZE, ANCHOR_START, p->colours->faint,
              p->right - p->left);
    p->y += 20;
    return;
  }
  double x[256];
  int n = w->layers < 255 ? w->layers + 1 : 256;
  for (int l = 0; l < n; l++) x[l] = l;
  snprintf(title, sizeof title, "“%.60s” and “%.60s”: cosine of the hidden states", w->word,
           w->other);
  page_series s = {w->word, x, w->cosine, n};
  page_lines l = {title, "before layer; the last: after all", &s, 1, w->layers, 1, true};
  double wide = fmin(PLOT_WIDTH, p->right - p->left);
  page_draw_lines(p, p->left, p->y, wide, PLOT_HEIGHT, &l);
  bool beside = p->right - p->left >= wide + 180;
  if (beside) word_table(p, p->left + wide + 40, p->y, w);
  p->y += fmax(PLOT_HEIGHT, beside ? 44 + 16 * fmin(w->layers + 1, 12) : 0);
  if (isnan(w->k)) return;
  snprintf(text, sizeof text,
           "Layer %d, head %d: cosine of its queries %.3f, of its keys %.3f, of its values %.3f.",
           w->layer, w->head, w->q, w->k, w->v);
  page_text(p, p->left, p->y + 14, text, TEXT_SIZE, ANCHOR_START, p->colours->ink,
            p->right - p->left);
  p->y += 22;
}

/* ---- a head in few cells ---------------------------------------------------------------------- */

/* The largest of the cells that share a cell of the drawing, one of rows x columns. */
static uint8_t pooled(const uint8_t *cells, int height, int width, int rows, int columns, int y,
                      int x) {
  int y1 = ((y + 1) * height - 1) / rows, x1 = ((x + 1) * width - 1) / columns;
  uint8_t max = 0;
  for (int i = y * height / rows; i <= y1; i++)
    for (int j = x * width / columns; j <= x1; j++)
      if (cells[i * width + j] > max) max = cells[i * width + j];
  return max;
}

void page_thumbnail(page *p, const uint8_t *cells, int height, int width, double x, double y,
                    double w, double h) {
  int columns = width < (int)w ? width : (int)w, rows = height < (int)h ? height : (int)h;
  uint8_t *pixels = drawing_take(p->to, (size_t)rows * (size_t)columns, 4);
  if (!pixels) return;
  for (int i = 0; i < rows; i++)
    for (int j = 0; j < columns; j++) {
      double share = palette_share(pooled(cells, height, width, rows, columns, i, j), 255);
      colour c = palette_weight(p->colours, share);
      memcpy(pixels + 4 * (i * columns + j), &c, 4);
    }
  draw_image(p->to, x, y, w, h, pixels, rows, columns);
  draw_frame(p->to, x - 0.5, y - 0.5, w + 1, h + 1, 1, 1, p->colours->grid);
  free(pixels);
}
