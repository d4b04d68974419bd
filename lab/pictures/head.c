/* A head as curves from queries to keys; several in a panel each, but for one query, whose
 * weights are bars beside the keys.
 *
 * The heavier a weight, the more solid its curve. Light ones are left out, from
 * MOST_CURVES on by a threshold that the caption names.
 */
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include "pictures/page.h"

enum { MOST_CURVES = 4000, TALLEST = 1800, NAME_MOST = 150 };
#define LIGHTEST 0.02

typedef struct {
  const picture_head_data *d;
  double left, right, top; /* of the curves */
  double row_pitch, key_pitch;
  double bars;     /* px for the weights of one query */
  double lightest; /* weights under it are left out */
  double fade;     /* many curves are fainter, each */
} lines;

static float weight(const picture_head_data *d, int h, int i, int j) {
  size_t row = (size_t)h * (size_t)d->rows.count + (size_t)i;
  return d->weights[row * (size_t)d->keys.count + (size_t)j];
}

static bool is_shown(const picture_head_data *d, int row) {
  return d->token < 0 || d->token == row;
}

/* ---- which curves --------------------------------------------------------------- */

static int count_above(const picture_head_data *d, double min) {
  int count = 0;
  for (int h = 0; h < d->heads; h++)
    for (int i = 0; i < d->rows.count; i++)
      for (int j = 0; is_shown(d, i) && j < d->keys.count; j++)
        count += fabs((double)weight(d, h, i, j)) >= min;
  return count;
}

static double lightest(const picture_head_data *d) {
  double min = d->token < 0 ? LIGHTEST : 0.002;
  while (min < 1 && count_above(d, min) > MOST_CURVES) min *= 1.3;
  return min;
}

/* ---- drawing ------------------------------------------------------------------------ */

/* One query has few curves: they may be plainer than those of all. */
static double solid(const picture_head_data *d, double w) {
  return d->token < 0 ? 0.08 + 0.87 * w : 0.15 + 0.8 * sqrt(w);
}

static void curve(const lines *l, page *p, int h, int i, int j) {
  double w = fabs((double)weight(l->d, h, i, j));
  if (w < l->lightest) return;
  double y0 = l->top + (i + 0.5) * l->row_pitch;
  double y1 = l->top + (j + 0.5) * l->key_pitch, across = l->right - l->left;
  double shift = (h - (l->d->heads - 1) / 2.0) * fmin(l->key_pitch * 0.6 / l->d->heads, 2);
  double points[8] = {
      l->left,  y0,        l->left + across * 0.42, y0, l->right - across * 0.42, y1 + shift,
      l->right, y1 + shift};
  double thick = fmin(fmin(l->row_pitch, l->key_pitch) / 9, 1) * (0.9 + 2.1 * w);
  draw_curve(
      p->to, points, fmax(thick, 0.5),
      colour_fade(palette_head(p->colours, l->d->head[h]), l->fade * solid(l->d, fmin(w, 1))));
}

/* Light ones first, so that heavy ones lie on top: in four passes. */
static void draw_curves(const lines *l, page *p) {
  static const double steps[] = {0, 0.1, 0.3, 0.6, 1e9};
  const picture_head_data *d = l->d;
  for (int s = 0; s < 4; s++)
    for (int h = 0; h < d->heads; h++)
      for (int i = 0; i < d->rows.count; i++)
        for (int j = 0; is_shown(d, i) && j < d->keys.count; j++) {
          double w = fabs((double)weight(d, h, i, j));
          if (w >= steps[s] && w < steps[s + 1]) curve(l, p, h, i, j);
        }
}

static double largest_weight(const picture_head_data *d) {
  double max = 0;
  for (int h = 0; h < d->heads; h++)
    for (int j = 0; j < d->keys.count; j++)
      max = fmax(max, fabs((double)weight(d, h, d->token, j)));
  return max > 0 ? max : 1;
}

/* For one query: its weights as bars beside the keys. */
static void draw_bars(const lines *l, page *p, double x) {
  const picture_head_data *d = l->d;
  double h = fmin(l->key_pitch - 2, 14) / d->heads;
  if (d->token < 0 || h < 0.5) return;
  double max = largest_weight(d);
  for (int j = 0; j < d->keys.count; j++)
    for (int n = 0; n < d->heads; n++) {
      char text[24];
      double w = fabs((double)weight(d, n, d->token, j));
      double y = l->top + (j + 0.5) * l->key_pitch - h * d->heads / 2 + n * h;
      if (w < 0.0005) continue;
      double wide = fmax(w / max * (l->bars - 48), 1);
      draw_rect(p->to, x, y, wide, h, h > 5 ? 2 : 0, palette_head(p->colours, d->head[n]));
      if (d->heads == 1 && l->key_pitch >= 11)
        page_small(p, x + wide + 5, page_middle(y + h / 2, SMALL_SIZE), page_number(w, text),
                   ANCHOR_START);
    }
}

/* Names right of x, as names_draw_left has them left of it. */
static void draw_keys(const token_names *n, page *p, double x, double y) {
  token_names mirrored = *n;
  for (int i = 0; i < n->count; i++) {
    if (i % n->step) continue;
    char number[16];
    snprintf(number, sizeof number, "%d", i);
    const char *name = n->numbers ? number : mirrored.tokens->text[i];
    page_text(p, x + 8, page_middle(y + (i + 0.5) * n->length / n->count, n->size), name, n->size,
              ANCHOR_START, n->step > 1 ? p->colours->faint : p->colours->ink, n->max);
  }
}

/* ---- the picture ------------------------------------------------------------------------ */

static double pitch_of(int count) { return fmin(fmax(floor(TALLEST / (double)count), 3), 24); }

static token_names names_of(const picture_tokens *tokens, double pitch, int marked, double max) {
  token_names n = {.tokens = tokens,
                   .count = tokens->count,
                   .length = pitch * tokens->count,
                   .marked = marked,
                   .max = max};
  names_fit(&n, false);
  return n;
}

static void head_words(const picture_head_data *d, char *to, size_t size) {
  size_t at = 0;
  if (d->heads > 4) {
    snprintf(to, size, "%d heads", d->heads);
    return;
  }
  for (int h = 0; h < d->heads && at < size; h++) {
    const char *before = h == 0              ? d->heads == 1 ? "head " : "heads "
                         : h + 1 == d->heads ? " and "
                                             : ", ";
    at += (size_t)snprintf(to + at, size - at, "%s%d", before, d->head[h]);
  }
}

static void legend(const picture_head_data *d, page *p) {
  for (int h = 0; d->heads > 1 && h < d->heads; h++) {
    char name[32];
    snprintf(name, sizeof name, "head %d", d->head[h]);
    page_legend_chip(p, palette_head(p->colours, d->head[h]), name);
  }
  page_legend_end(p);
}

static void caption(const picture_head_data *d, page *p, double min) {
  char number[24];
  snprintf(number, sizeof number, "%.2g", min);
  bool one = d->token >= 0;
  const char *query = one ? picture_spelled(d->rows.text[d->token]) : NULL;
  const picture_facts facts = {.query = one && d->about.step ? d->about.step : query,
                               .least = number};
  page_caption(p, one ? "head.token" : "head", &d->about, facts);
  page_notice(p, &d->about);
}

/* ---- several heads: a panel each --------------------------------------------------------- */

enum { PANEL_GAP = 34, PANEL_TITLE = 26, CURVES_WIDTH = 460, CURVES_LEAST = 150 };

typedef struct {
  token_names rows, keys;
  int across;
  double width, height;
} panels;

static panels panels_of(const picture_head_data *d, const lines *l, double available) {
  double max = fmin(NAME_MOST, available * 0.14);
  panels s = {.rows = names_of(&d->rows, l->row_pitch, -1, max),
              .keys = names_of(&d->keys, l->key_pitch, -1, max)};
  double names = s.rows.available + s.keys.available;
  s.across = (int)((available + PANEL_GAP) / (names + CURVES_LEAST + PANEL_GAP));
  s.across = s.across < 1 ? 1 : s.across > d->heads ? d->heads : s.across;
  s.width = (available - (s.across - 1) * PANEL_GAP) / s.across;
  s.width = fmin(s.width, names + CURVES_WIDTH);
  s.height = PANEL_TITLE + fmax(s.rows.length, s.keys.length);
  return s;
}

static void panel(const picture_head_data *d, const panels *s, lines l, page *p, int h) {
  size_t one = (size_t)d->rows.count * (size_t)d->keys.count;
  picture_head_data own = *d;
  double x = p->left + h % s->across * (s->width + PANEL_GAP);
  double y = p->y + h / s->across * (s->height + PANEL_GAP);
  char name[32];
  own.heads = 1;
  own.head = d->head + h;
  own.weights = d->weights + (size_t)h * one;
  snprintf(name, sizeof name, "head %d", d->head[h]);
  draw_circle(p->to, x + 6, y + 8, 5, palette_head(p->colours, d->head[h]));
  page_heading(p, x + 18, y + 12, name);
  l.d = &own;
  l.top = y + PANEL_TITLE;
  l.left = x + s->rows.available;
  l.right = x + s->width - s->keys.available;
  draw_curves(&l, p);
  names_draw_left(&s->rows, p, l.left, l.top);
  draw_keys(&s->keys, p, l.right, l.top);
}

static const char *draw_panels(const picture_head_data *d, const picture_look *look, lines l,
                               drawing *out) {
  page p;
  char place[PAGE_WORDS], heads[128];
  picture_about about = d->about;
  about.head = -1;
  panels s = panels_of(d, &l, page_available(look));
  l.fade = fmin(sqrt(900.0 * d->heads / (1 + count_above(d, l.lightest))), 1);
  head_words(d, heads, sizeof heads);
  page_start(&p, out, look, s.across * (s.width + PANEL_GAP) - PANEL_GAP, "%s, %s",
             page_place(&about, place), heads);
  caption(d, &p, l.lightest);
  for (int h = 0; h < d->heads; h++) panel(d, &s, l, &p, h);
  int down = (d->heads + s.across - 1) / s.across;
  p.y += down * (s.height + PANEL_GAP) - PANEL_GAP;
  page_end(&p);
  return NULL;
}

const char *picture_head(const picture_head_data *d, const picture_look *look, drawing *out) {
  *out = (drawing){0};
  if (d->heads < 1 || d->rows.count < 1 || d->keys.count < 1)
    return "there are no tokens to draw curves between";
  page p;
  char place[PAGE_WORDS], heads[128];
  picture_about about = d->about;
  about.head = -1;
  lines l = {.d = d, .lightest = lightest(d)};
  l.fade = fmin(sqrt(900.0 / (1 + count_above(d, l.lightest))), 1);
  l.row_pitch = pitch_of(d->rows.count);
  l.key_pitch = pitch_of(d->keys.count);
  if (d->heads > 1 && d->token < 0) return draw_panels(d, look, l, out);
  double available = page_available(look), max = fmin(NAME_MOST, available * 0.2);
  token_names rows = names_of(&d->rows, l.row_pitch, d->token, max);
  token_names keys = names_of(&d->keys, l.key_pitch, -1, max);
  l.bars = d->token >= 0 ? fmin(150, available * 0.25) : 0;
  double content = fmin(available, rows.available + keys.available + l.bars + 460);
  head_words(d, heads, sizeof heads);
  page_start(&p, out, look, content, "%s, %s", page_place(&about, place), heads);
  caption(d, &p, l.lightest);
  l.top = p.y;
  l.left = p.left + rows.available;
  l.right = p.right - keys.available - l.bars;
  draw_curves(&l, &p);
  names_draw_left(&rows, &p, l.left, l.top);
  draw_keys(&keys, &p, l.right, l.top);
  draw_bars(&l, &p, l.right + keys.available + 8);
  p.y += fmax(rows.length, keys.length);
  legend(d, &p);
  page_end(&p);
  return NULL;
}
