/* How a token draws on others through the layers.
 *
 * Columns are tokens; the top row is what came out of the last layer, the
 * bottom row what went into the first. Either every head passes on its largest
 * key alone (argmax: edges), or shares are multiplied through (rollout: cells).
 */
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pictures/page.h"

enum { AXIS = 104, NAME_MOST = 110, BAR = 64 };

typedef struct {
  const picture_flow_data *d;
  double pitch, step; /* px from column to column, from row to row */
  double x, y;        /* of the first column's left edge, the top row's middle */
  double solid;       /* edges; many are fainter, each */
} weave;

static double column(const weave *w, int i) { return w->x + (i + 0.5) * w->pitch; }
/* State l is before layer l; the last is after them all. */
static double row(const weave *w, int l) { return w->y + (w->d->layers - l) * w->step; }

/* ---- argmax: edges ------------------------------------------------------------------ */

static int by_ends(const void *a, const void *b) {
  const picture_edge *e = a, *f = b;
  if (e->layer != f->layer) return e->layer - f->layer;
  if (e->from != f->from) return e->from - f->from;
  return e->to != f->to ? e->to - f->to : e->head - f->head;
}

/* Heads that take the same key share an edge, the first one's; what stays in
 * place comes first. Returns how many are left. */
static int distinct(picture_edge *edges, int count) {
  int left = 0;
  qsort(edges, (size_t)count, sizeof *edges, by_ends);
  for (int i = 0; i < count; i++) {
    const picture_edge *e = &edges[i];
    const picture_edge *last = left ? &edges[left - 1] : NULL;
    bool same = last && last->head >= 0 && last->layer == e->layer && last->from == e->from &&
                last->to == e->to;
    if (!same) edges[left++] = *e;
  }
  return left;
}

static void edge(const weave *w, page *p, const picture_edge *e) {
  bool itself = e->head < 0;
  double x0 = column(w, e->from), y0 = row(w, e->layer + 1);
  double x1 = column(w, e->to), y1 = row(w, e->layer), bend = (y1 - y0) * 0.5;
  double points[8] = {x0, y0, x0, y0 + bend, x1, y1 - bend, x1, y1};
  colour paint =
      itself ? p->colours->grid : colour_fade(palette_head(p->colours, e->head), w->solid);
  draw_curve(p->to, points, itself ? 2.5 : fmin(fmax(w->pitch / 16, 0.7), 1.4), paint);
}

static void draw_edges(const weave *w, page *p) {
  int count = w->d->edge_count;
  picture_edge *edges = drawing_take(p->to, (size_t)count, sizeof *edges);
  if (!edges) return;
  if (count) memcpy(edges, w->d->edges, (size_t)count * sizeof *edges);
  count = distinct(edges, count);
  for (int pass = 0; pass < 2; pass++) /* heads over what stays in place */
    for (int i = 0; i < count; i++)
      if ((edges[i].head < 0) == (pass == 0)) edge(w, p, &edges[i]);
  free(edges);
}

static void draw_reach(const weave *w, page *p) {
  const picture_flow_data *d = w->d;
  double radius = fmin(fmax(w->pitch * 0.3, 1), 5);
  draw_edges(w, p);
  for (int l = 0; l <= d->layers; l++)
    for (int i = 0; i < d->tokens.count; i++) {
      bool reached = d->reached[l * d->tokens.count + i];
      if (!reached && w->pitch < 4) continue;
      draw_circle(p->to, column(w, i), row(w, l), reached ? radius : fmax(radius * 0.4, 0.6),
                  reached ? p->colours->ink : p->colours->grid);
    }
}

static void legend_heads(const picture_flow_data *d, page *p) {
  bool seen[PALETTE_HEADS] = {false}, itself = false;
  int max = -1;
  for (int i = 0; i < d->edge_count; i++) {
    itself = itself || d->edges[i].head < 0;
    if (d->edges[i].head >= 0) seen[d->edges[i].head % PALETTE_HEADS] = true;
    if (d->edges[i].head > max) max = d->edges[i].head;
  }
  for (int h = 0; h < PALETTE_HEADS; h++) {
    char name[48];
    if (!seen[h]) continue;
    if (max < PALETTE_HEADS)
      snprintf(name, sizeof name, "head %d", h);
    else
      snprintf(name, sizeof name, "head %d, %d, ..", h, h + PALETTE_HEADS);
    page_legend_chip(p, palette_head(p->colours, h), name);
  }
  if (itself) page_legend_chip(p, p->colours->grid, "the token itself");
}

/* ---- rollout: shares ---------------------------------------------------------------------- */

enum { CELL = 24 }; /* px of a row's cells, where there are links between the rows */

static double cell_height(const weave *w) {
  return w->d->edge_count ? fmin(CELL, w->step - 3) : w->step - 3;
}

/* The wider and more solid a link, the larger its share. */
static void draw_links(const weave *w, page *p) {
  double half = cell_height(w) / 2;
  for (int i = w->d->edge_count; i-- > 0;) { /* the largest of a layer come first */
    const picture_edge *e = &w->d->edges[i];
    double share = (double)e->share;
    double x0 = column(w, e->from), y0 = row(w, e->layer + 1) + half;
    double x1 = column(w, e->to), y1 = row(w, e->layer) - half, bend = (y1 - y0) * 0.5;
    double points[8] = {x0, y0, x0, y0 + bend, x1, y1 - bend, x1, y1};
    draw_curve(p->to, points, 0.6 + 5 * share,
               colour_fade(p->colours->weight[6], fmin(0.15 + 0.8 * sqrt(share), 0.9)));
  }
}

static colour share_colour(const page *p, double share) {
  return share < 1e-4 ? p->colours->panel : palette_weight(p->colours, palette_share(share, 1));
}

static void share_cell(const weave *w, page *p, int l, int i, double share) {
  char text[24];
  colour c = share_colour(p, share);
  draw_rect(p->to, column(w, i) - w->pitch / 2 + 1, row(w, l) - cell_height(w) / 2, w->pitch - 2,
            cell_height(w), 3, c);
  if (w->pitch < 34 || share < 0.005) return;
  snprintf(text, sizeof text, "%.2f", share);
  page_text(p, column(w, i), page_middle(row(w, l), SMALL_SIZE), text, SMALL_SIZE, ANCHOR_MIDDLE,
            colour_on(c, palette_get(false)->ink, palette_get(false)->background), 0);
}

/* A row of many tokens, the largest share of those that share a pixel. */
static void share_row(const weave *w, page *p, int l) {
  int count = w->d->tokens.count, pixels = (int)(w->pitch * count);
  int cells = count < pixels ? count : pixels;
  const float *shares = w->d->shares + (size_t)l * (size_t)count;
  uint8_t *row_of = drawing_take(p->to, (size_t)cells, 4);
  if (!row_of) return;
  for (int i = 0; i < cells; i++) {
    double max = 0;
    for (long j = (long)i * count / cells; j < (long)(i + 1) * count / cells; j++)
      max = fmax(max, (double)shares[j]);
    colour c = share_colour(p, max);
    memcpy(row_of + 4 * i, &c, 4);
  }
  draw_image(p->to, w->x, row(w, l) - cell_height(w) / 2, w->pitch * count, cell_height(w), row_of,
             1, cells);
  free(row_of);
}

static void draw_shares(const weave *w, page *p) {
  const picture_flow_data *d = w->d;
  if (w->pitch >= 8) draw_links(w, p);
  for (int l = 0; l <= d->layers; l++) {
    if (w->pitch < 8) share_row(w, p, l);
    for (int i = 0; w->pitch >= 8 && i < d->tokens.count; i++)
      share_cell(w, p, l, i, (double)d->shares[l * d->tokens.count + i]);
  }
}

/* The input's shares once more, as bars that hang below their row. */
static void draw_bars(const weave *w, page *p, double y) {
  const picture_flow_data *d = w->d;
  double max = 0, gap = w->pitch >= 8 ? 2 : 0;
  for (int i = 0; i < d->tokens.count; i++) max = fmax(max, (double)d->shares[i]);
  for (int i = 0; i < d->tokens.count && max > 0; i++) {
    double h = (double)d->shares[i] / max * BAR;
    if (h >= 0.5)
      draw_rect(p->to, column(w, i) - w->pitch / 2 + gap / 2, y + BAR - h, w->pitch - gap, h, 0,
                p->colours->weight[5]);
  }
  draw_line(p->to, w->x, y + BAR + 0.5, w->x + w->pitch * d->tokens.count, y + BAR + 0.5, 1,
            p->colours->grid);
}

/* ---- the picture -------------------------------------------------------------------------- */

static void row_names(const weave *w, page *p) {
  int every = (int)ceil(16 / w->step);
  for (int l = 0; l <= w->d->layers; l++) {
    char name[32];
    bool top = l == w->d->layers, bottom = l == 0;
    if (!top && !bottom && (l % every || l + every > w->d->layers)) continue;
    snprintf(name, sizeof name, "after layer %d", l - 1);
    page_text(p, w->x - 14, page_middle(row(w, l), LABEL_SIZE), bottom ? "input" : name, LABEL_SIZE,
              ANCHOR_END, p->colours->faint, 0);
  }
}

static void marked(const weave *w, page *p) {
  const char *token = w->d->tokens.text[w->d->token];
  double wide = draw_text_width(token, LABEL_SIZE, true);
  double x = fmax(column(w, w->d->token), p->left + wide / 2);
  x = fmin(x, p->right - wide / 2);
  page_bold(p, x, w->y - 26, token, LABEL_SIZE, ANCHOR_MIDDLE, p->colours->accent,
            p->right - p->left);
  draw_frame(p->to, column(w, w->d->token) - 9, w->y - 9, 18, 18, 9, 1.5, p->colours->accent);
}

static void body(weave *w, page *p) {
  const picture_flow_data *d = w->d;
  token_names n = {.tokens = &d->tokens,
                   .count = d->tokens.count,
                   .length = w->pitch * d->tokens.count,
                   .marked = d->token,
                   .max = NAME_MOST};
  names_fit(&n, true);
  w->x = p->left + AXIS;
  w->y = p->y + (d->shares ? cell_height(w) / 2 : 38);
  row_names(w, p);
  if (d->shares)
    draw_shares(w, p);
  else
    draw_reach(w, p);
  if (!d->shares) marked(w, p);
  p->y = row(w, 0) + (d->shares ? cell_height(w) / 2 + 14 : 12);
  if (d->shares) {
    draw_bars(w, p, p->y);
    page_small(p, w->x - 14, p->y + BAR, "share", ANCHOR_END);
    p->y += BAR + 2;
  }
  names_draw_below(&n, p, w->x, p->y);
  p->y += n.available;
}

static void caption(const picture_flow_data *d, page *p) {
  const picture_facts facts = {.query = picture_spelled(d->tokens.text[d->token])};
  page_caption(p, d->shares ? "flow.rollout" : "flow.argmax", &d->about, facts);
  page_notice(p, &d->about);
}

const char *picture_flow(const picture_flow_data *d, const picture_look *look, drawing *out) {
  *out = (drawing){0};
  if (d->tokens.count < 1 || d->layers < 1 || d->token < 0 || d->token >= d->tokens.count ||
      (!d->shares && !d->reached))
    return "choose a token to follow through the layers";
  page p;
  weave w = {.d = d};
  double available = page_available(look) - AXIS;
  w.solid = 0.75 * fmin(sqrt(2000.0 / (1 + d->edge_count)), 1);
  w.pitch = fmin(available / d->tokens.count, 64);
  if (w.pitch > 4) w.pitch = floor(w.pitch);
  w.step = d->shares && !d->edge_count ? fmin(fmax(460.0 / d->layers, 18), 38)
                                       : fmin(fmax(560.0 / d->layers, 34), 72);
  page_start(&p, out, look, AXIS + w.pitch * d->tokens.count, "%s: what reaches “%s”",
             d->about.model ? d->about.model : "a model", d->tokens.text[d->token]);
  caption(d, &p);
  body(&w, &p);
  if (d->shares)
    page_legend_scale(&p, SCALE_WEIGHT, 1, "share");
  else
    legend_heads(d, &p);
  page_legend_end(&p);
  page_end(&p);
  return NULL;
}
