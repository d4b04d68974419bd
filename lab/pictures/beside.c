/* Two models, or two texts of different lengths, beside each other: facts, a head of each by
 * words, head patterns counted, means by depth, all heads.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "pictures/page.h"

enum { GAP = 28, ROW = 27, BAR = 210, NAME = 118, PLOT = 190, LARGEST_THUMB = 46 };

/* ---- facts ------------------------------------------------------------------------------- */

static void fact(page *p, const char *name, const char *first, const char *second) {
  const char *text[2] = {first, second};
  double available = fmin(p->right - p->left, 730), names = fmin(available * 0.4, 230);
  double each = (available - names) / 2;
  p->y += 20;
  page_text(p, p->left, p->y, name, LABEL_SIZE, ANCHOR_START, p->colours->faint, 0);
  for (int i = 0; i < 2; i++)
    page_text(p, p->left + names + each * i, p->y, text[i], LABEL_SIZE, ANCHOR_START,
              p->colours->ink, each - 10);
  draw_line(p->to, p->left, p->y + 6, p->left + available, p->y + 6, 1, p->colours->grid);
}

static char *percent(double share, char to[32]) {
  if (isnan(share))
    snprintf(to, 32, "–");
  else
    snprintf(to, 32, "%.1f %%", 100 * share);
  return to;
}

static void facts(const picture_beside_data *d, page *p) {
  const picture_side *a = &d->side[0], *b = &d->side[1];
  char x[64], y[64];
  fact(p, "", a->name, b->name);
  snprintf(x, sizeof x, "%d", a->tokens), snprintf(y, sizeof y, "%d", b->tokens);
  fact(p, "tokens", x, y);
  snprintf(x, sizeof x, "%d × %d", a->layers, a->heads);
  snprintf(y, sizeof y, "%d × %d", b->layers, b->heads);
  fact(p, "layers × heads", x, y);
  fact(p, "mask", a->causal ? "causal" : "none", b->causal ? "causal" : "none");
  fact(p, "visible pairs (query, key)", percent(a->visible, x), percent(b->visible, y));
  fact(p, "weight on later tokens", percent(a->later[a->layers], x),
       percent(b->later[b->layers], y));
  snprintf(x, sizeof x, "%.3f", a->entropy[a->layers]);
  snprintf(y, sizeof y, "%.3f", b->entropy[b->layers]);
  fact(p, "mean entropy, nats", x, y);
  fact(p, "share of the largest entropy", percent(a->broad[a->layers], x),
       percent(b->broad[b->layers], y));
  p->y += 16;
}

/* ---- a head of each, by words ---------------------------------------------------------------- */

typedef struct {
  map of[3]; /* the first, the second, the first minus the second */
  float *difference;
  uint8_t *mask[2];
} trio;

static picture_tokens keys_of(const picture_beside_data *d) {
  return (picture_tokens){d->keys, d->words.count + 1};
}

static bool fill_trio(const picture_beside_data *d, page *p, trio *t) {
  int n = d->words.count, across = n + 1;
  size_t cells = (size_t)n * (size_t)across;
  t->difference = drawing_take(p->to, cells, sizeof *t->difference);
  for (int i = 0; i < 2; i++) t->mask[i] = drawing_take(p->to, cells, 1);
  if (!t->difference || !t->mask[0] || !t->mask[1]) return false;
  for (size_t c = 0; c < cells; c++) {
    int row = (int)c / across, word = (int)c % across - 1;
    t->difference[c] = d->side[0].words[c] - d->side[1].words[c];
    for (int i = 0; i < 2; i++)
      t->mask[i][c] = d->side[i].causal && word > row ? PICTURE_LATER : PICTURE_SEEN;
  }
  return true;
}

static void fit_trio(const picture_beside_data *d, page *p, trio *t, int across) {
  int n = d->words.count;
  double max = fmax(map_most(d->side[0].words, n, n + 1), map_most(d->side[1].words, n, n + 1));
  double each = (p->right - p->left - (across - 1) * GAP) / across;
  for (int i = 0; i < 3; i++) {
    const float *cells = i == 2 ? t->difference : d->side[i].words;
    t->of[i] =
        map_of_cells(d->words, keys_of(d), cells, n, n + 1, i == 2 ? SCALE_SIGN : SCALE_WEIGHT,
                     i == 2 ? map_most(cells, n, n + 1) : max);
    if (i < 2) t->of[i].mask = t->mask[i];
    map_fit(&t->of[i], each - 30, 900, 32);
  }
}

static void draw_words(const picture_beside_data *d, page *p) {
  trio t = {0};
  int across = p->right - p->left >= 900 ? 3 : 1;
  if (fill_trio(d, p, &t)) {
    fit_trio(d, p, &t, across);
    double x = p->left, down = 0;
    for (int i = 0; i < 3; i++) {
      char title[200] = "first − second";
      if (i < 2) snprintf(title, sizeof title, "%.80s, %s", d->side[i].name, d->side[i].place);
      page_bold(p, x, p->y + 12, title, LABEL_SIZE, ANCHOR_START, p->colours->ink,
                t.of[i].left + t.of[i].w + t.of[i].over);
      map_draw(&t.of[i], p, x + t.of[i].left, p->y + 24 + t.of[i].top);
      down = 24 + t.of[i].top + t.of[i].h;
      x += (p->right - p->left + GAP) / across;
      if (across == 1) x = p->left, p->y += down + 16;
    }
    p->y += across > 1 ? down : 0;
    page_legend_scale(p, SCALE_WEIGHT, t.of[0].max, "weight");
    page_legend_scale(p, SCALE_SIGN, t.of[2].max, "difference");
    map_legend_masks(p, t.mask[0], d->words.count, d->words.count + 1);
    page_legend_end(p);
  }
  free(t.difference);
  free(t.mask[0]);
  free(t.mask[1]);
}

static void draw_tokens(const picture_side *s, page *p, double x, double available) {
  int rows = s->queries.count, keys = s->keys.count;
  char title[200];
  size_t n = (size_t)rows * (size_t)keys;
  uint8_t *mask = drawing_take(p->to, n, 1);
  if (!mask) return;
  for (size_t i = 0; i < n; i++)
    mask[i] = s->causal && (int)i % keys > (int)i / keys ? PICTURE_LATER : PICTURE_SEEN;
  map m = map_of_cells(s->queries, s->keys, s->weights, rows, keys, SCALE_WEIGHT,
                       map_most(s->weights, rows, keys));
  m.mask = mask;
  map_fit(&m, available - 30, 900, 32);
  snprintf(title, sizeof title, "%.120s, %s", s->name, s->place);
  page_bold(p, x, p->y + 12, title, LABEL_SIZE, ANCHOR_START, p->colours->ink, available - 8);
  map_draw(&m, p, x + m.left, p->y + 24 + m.top);
  p->y += 24 + m.top + m.h;
  free(mask);
}

/* Each on a scale of its own. */
static void draw_both(const picture_beside_data *d, page *p) {
  double start = p->y, end = p->y, available = p->right - p->left;
  bool beside = available >= 700;
  for (int i = 0; i < 2; i++) {
    p->y = beside ? start : end;
    draw_tokens(&d->side[i], p, p->left + (beside && i ? available / 2 : 0),
                beside ? available / 2 : available);
    end = fmax(end, p->y + 12);
  }
  p->y = end;
  page_legend_scale(p, SCALE_WEIGHT, 1, "share of the map's largest weight");
  page_legend_end(p);
}

static void words(const picture_beside_data *d, page *p) {
  char text[300];
  p->y += 18;
  if (!d->why_words) {
    draw_words(d, p);
    return;
  }
  snprintf(text, sizeof text, "No maps word by word: %s.", d->why_words);
  page_text(p, p->left, p->y + 12, text, TEXT_SIZE, ANCHOR_START, p->colours->faint,
            p->right - p->left);
  p->y += 30;
  if (d->side[0].weights && d->side[1].weights) draw_both(d, p);
}

/* ---- patterns -------------------------------------------------------------------------------- */

static const int32_t *totals(const picture_beside_data *d, int i) {
  return d->side[i].counts + d->side[i].layers * (d->patterns + 1);
}

static void pattern_row(const picture_beside_data *d, page *p, int k) {
  char text[16];
  double available = p->right - p->left - NAME - BAR - 50;
  page_text(p, p->left, page_middle(p->y + 11, LABEL_SIZE), d->labels[k], LABEL_SIZE, ANCHOR_START,
            p->colours->ink, NAME - 8);
  for (int i = 0; i < 2; i++) {
    const picture_side *s = &d->side[i];
    int n = totals(d, i)[k];
    double w = BAR * (double)n / (s->layers * s->heads), y = p->y + 1 + 11 * i;
    draw_rect(p->to, p->left + NAME, y, fmax(w, 1), 9, 2, palette_head(p->colours, i));
    snprintf(text, sizeof text, "%d", n);
    page_small(p, p->left + NAME + BAR + 26, y + 8, text, ANCHOR_END);
    if (k < d->patterns && available > 240)
      page_text(p, p->left + NAME + BAR + 50 + i * available / 2,
                page_middle(p->y + 11, SMALL_SIZE), s->examples[k], SMALL_SIZE, ANCHOR_START,
                p->colours->ink, available / 2 - 8);
  }
  p->y += ROW;
}

static void patterns(const picture_beside_data *d, page *p) {
  char text[160];
  double available = p->right - p->left - NAME - BAR - 50;
  p->y += 30;
  page_heading(p, p->left, p->y, "heads by pattern");
  for (int i = 0; i < 2 && available > 240; i++) {
    snprintf(text, sizeof text, "highest scores, %.100s", d->side[i].name);
    page_text(p, p->left + NAME + BAR + 50 + i * available / 2, p->y, text, SMALL_SIZE,
              ANCHOR_START, p->colours->faint, available / 2 - 8);
  }
  p->y += 10;
  for (int k = 0; k <= d->patterns; k++) pattern_row(d, p, k);
  for (int i = 0; i < 2; i++) page_legend_chip(p, palette_head(p->colours, i), d->side[i].name);
  page_legend_end(p);
}

/* "2 previous, 1 first"; "" : none. */
static void layer_words(const picture_beside_data *d, int i, int layer, char to[200]) {
  const int32_t *count = d->side[i].counts + layer * (d->patterns + 1);
  int n = 0;
  *to = 0;
  for (int k = 0; k < d->patterns; k++)
    if (count[k] && n < 160)
      n += snprintf(to + n, (size_t)(200 - n), "%s%d %s", n ? ", " : "", count[k], d->labels[k]);
}

static void by_layer(const picture_beside_data *d, page *p) {
  double half = (p->right - p->left) / 2;
  int rows = d->side[0].layers > d->side[1].layers ? d->side[0].layers : d->side[1].layers;
  p->y += 26;
  page_heading(p, p->left, p->y, "by layer, at the same relative depth");
  for (int r = 0; r < rows; r++) {
    p->y += 17;
    for (int i = 0; i < 2; i++) {
      char text[200], line[240];
      int layer = r * d->side[i].layers / rows;
      layer_words(d, i, layer, text);
      snprintf(line, sizeof line, "%d: %s", layer, *text ? text : "–");
      page_text(p, p->left + i * half, p->y, line, LABEL_SIZE, ANCHOR_START, p->colours->ink,
                half - 12);
    }
  }
  p->y += 8;
}

/* ---- means by depth ---------------------------------------------------------------------------- */

static void plots(const picture_beside_data *d, page *p) {
  enum { MOST = 256 };
  double x[2][MOST];
  const struct {
    const char *title;
    const double *y[2];
    double high;
  } all[] = {{"mean entropy, nats", {d->side[0].entropy, d->side[1].entropy}, 0},
             {"entropy, share of the largest", {d->side[0].broad, d->side[1].broad}, 1},
             {"weight on later tokens", {d->side[0].later, d->side[1].later}, 0}};
  int across = p->right - p->left >= 760 ? 3 : 1;
  double wide = (p->right - p->left - (across - 1) * GAP) / across;
  for (int i = 0; i < 2; i++)
    for (int l = 0; l < d->side[i].layers && l < MOST; l++) x[i][l] = (l + 1.0) / d->side[i].layers;
  p->y += 24;
  for (int k = 0; k < 3; k++) {
    page_series s[2];
    for (int i = 0; i < 2; i++)
      s[i] = (page_series){d->side[i].name, x[i], all[k].y[i],
                           d->side[i].layers < MOST ? d->side[i].layers : MOST};
    page_lines l = {all[k].title, "relative depth", s, 2, 1, all[k].high, false};
    page_draw_lines(p, p->left + (k % across) * (wide + GAP), p->y, wide, PLOT, &l);
    if (across == 1 || k == 2) p->y += PLOT + 12;
  }
}

/* ---- all heads ----------------------------------------------------------------------------------- */

static double thumb_size(const picture_side *s, double available) {
  return fmax(2, fmin(LARGEST_THUMB, floor((available - 26) / s->heads)));
}

static void draw_layer(const picture_side *s, page *p, double x, double y, int layer, double size) {
  char number[16];
  size_t one = (size_t)s->height * (size_t)s->width;
  double w = fmax(size - 4, 2);
  snprintf(number, sizeof number, "%d", layer);
  page_text(p, x + 16, page_middle(y + w / 2, LABEL_SIZE), number, LABEL_SIZE, ANCHOR_END,
            p->colours->ink, 0);
  for (int h = 0; h < s->heads; h++) {
    double left = x + 24 + h * size;
    page_thumbnail(p, s->cells + (size_t)(layer * s->heads + h) * one, s->height, s->width, left, y,
                   w, w);
    if (layer == s->layer && h == s->head)
      draw_frame(p->to, left - 2, y - 2, w + 4, w + 4, 3, 2, p->colours->accent);
  }
}

static void all_heads(const picture_beside_data *d, page *p) {
  double half = (p->right - p->left - GAP) / 2, tall = 0;
  int rows = d->side[0].layers > d->side[1].layers ? d->side[0].layers : d->side[1].layers;
  for (int i = 0; i < 2; i++) tall = fmax(tall, thumb_size(&d->side[i], half));
  p->y += 24;
  page_heading(p, p->left, p->y, "all heads, layers by relative depth");
  p->y += 18;
  for (int i = 0; i < 2; i++)
    page_text(p, p->left + i * (half + GAP), p->y, d->side[i].name, SMALL_SIZE, ANCHOR_START,
              p->colours->faint, half);
  p->y += 10;
  for (int r = 0; r < rows; r++, p->y += tall)
    for (int i = 0; i < 2; i++) {
      int layer = r * d->side[i].layers / rows;
      bool new_layer = !r || layer != (r - 1) * d->side[i].layers / rows;
      if (new_layer)
        draw_layer(&d->side[i], p, p->left + i * (half + GAP), p->y, layer,
                   thumb_size(&d->side[i], half));
    }
}

const char *picture_beside(const picture_beside_data *d, const picture_look *look, drawing *out) {
  *out = (drawing){0};
  page p;
  page_start(&p, out, look, page_available(look), "%s beside %s", d->side[0].name, d->side[1].name);
  page_caption(&p, "beside", &d->about,
               (picture_facts){.first = d->side[0].name, .second = d->side[1].name});
  page_notice(&p, &d->about);
  if (d->why) page_say(&p, "No distance of heads: %s.", d->why);
  facts(d, &p);
  words(d, &p);
  patterns(d, &p);
  by_layer(d, &p);
  plots(d, &p);
  all_heads(d, &p);
  page_end(&p);
  return NULL;
}
