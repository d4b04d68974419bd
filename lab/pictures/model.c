/* Every head of a model as a thumbnail, layers by heads.
 */
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pictures/page.h"

enum { LARGEST = 168, LABELS_FROM = 40, AXIS = 34 };

typedef struct {
  const picture_model_data *d;
  double w, h;   /* px of a thumbnail */
  double dx, dy; /* from one to the next */
} grid;

static bool has_labels(const picture_model_data *d, double w) {
  for (int i = 0; d->does && i < d->layers * d->heads; i++)
    if (d->does[i] && *d->does[i]) return w >= LABELS_FROM;
  return false;
}

static grid grid_of(const picture_model_data *d, double available) {
  grid g = {.d = d};
  g.dx = floor(fmin((available - AXIS) / d->heads, LARGEST));
  double gap = fmax(fmin(floor(g.dx / 9), 12), 2);
  g.w = fmax(g.dx - gap, 2);
  double tall = (double)d->height / d->width;
  g.h = fmax(round(g.w * fmin(fmax(tall, 0.34), 2)), 2);
  g.dy = g.h + gap + (has_labels(d, g.w) ? SMALL_SIZE + 6 : 0);
  return g;
}

static void thumbnail(const grid *g, page *p, int index, double x, double y) {
  const picture_model_data *d = g->d;
  const uint8_t *cells = d->cells + (size_t)index * (size_t)d->height * (size_t)d->width;
  page_thumbnail(p, cells, d->height, d->width, x, y, g->w, g->h);
}

static void label(const grid *g, page *p, int index, double x, double y) {
  const char *does = g->d->does ? g->d->does[index] : NULL;
  if (!does || !*does || g->w < LABELS_FROM) return;
  page_text(p, x + g->w / 2, y + g->h + SMALL_SIZE + 3, does, fmin(SMALL_SIZE, g->w / 6),
            ANCHOR_MIDDLE, p->colours->faint, g->dx - 2);
}

static void axes(const grid *g, page *p, double x, double y) {
  char number[16];
  int every = (int)ceil(20 / g->dx);
  page_small(p, p->left, y - 10, "layer", ANCHOR_START);
  page_small(p, x, y - 28, "head", ANCHOR_START);
  for (int h = 0; h < g->d->heads; h += every) {
    snprintf(number, sizeof number, "%d", h);
    page_text(p, x + h * g->dx + g->w / 2, y - 10, number, LABEL_SIZE, ANCHOR_MIDDLE,
              p->colours->ink, 0);
  }
  every = (int)ceil(16 / g->dy);
  for (int l = 0; l < g->d->layers; l += every) {
    snprintf(number, sizeof number, "%d", l);
    page_text(p, x - 12, page_middle(y + l * g->dy + g->h / 2, LABEL_SIZE), number, LABEL_SIZE,
              ANCHOR_END, p->colours->ink, 0);
  }
}

static void draw_grid(const grid *g, page *p) {
  const picture_model_data *d = g->d;
  double x = p->left + AXIS, y = p->y + 32;
  axes(g, p, x, y);
  for (int i = 0; i < d->layers * d->heads; i++) {
    double left = x + i % d->heads * g->dx, top = y + i / d->heads * g->dy;
    thumbnail(g, p, i, left, top);
    label(g, p, i, left, top);
  }
  if (d->about.layer >= 0 && d->about.head >= 0)
    draw_frame(p->to, x + d->about.head * g->dx - 2, y + d->about.layer * g->dy - 2, g->w + 4,
               g->h + 4, 3, 2, p->colours->accent);
  p->y = y + d->layers * g->dy;
}

const char *picture_model(const picture_model_data *d, const picture_look *look, drawing *out) {
  *out = (drawing){0};
  if (d->layers < 1 || d->heads < 1 || d->height < 1 || d->width < 1)
    return "there are no heads to draw";
  page p;
  grid g = grid_of(d, page_available(look));
  page_start(&p, out, look, AXIS + d->heads * g.dx, "%s: %d layer%s of %d head%s",
             d->about.model ? d->about.model : "a model", d->layers, d->layers == 1 ? "" : "s",
             d->heads, d->heads == 1 ? "" : "s");
  page_caption(&p, "model", &d->about, (picture_facts){0});
  page_notice(&p, &d->about);
  draw_grid(&g, &p);
  page_legend_scale(&p, SCALE_WEIGHT, 1, "share of the head's largest weight");
  page_legend_end(&p);
  page_end(&p);
  return NULL;
}
