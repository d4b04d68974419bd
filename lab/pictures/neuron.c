/* One query, number by number: q, each k, their products, the weights, the values
 * and the head's output.
 *
 *                q
 *   key   k   q x k   q.k   weight   v
 *   ..                               ..
 *                                    out
 */
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pictures/page.h"

enum { MOST_KEYS = 32, ROW = 22, STRIP = 14, NAME = 120, SCORE = 96, WEIGHT = 124, GAP = 16 };

typedef struct {
  const picture_neuron_data *d;
  int shown[MOST_KEYS], count; /* keys that are drawn, in their order */
  double rest;                 /* weight of the others */
  double strip, strip_v;       /* px of a row of numbers */
  double x_k, x_product, x_score, x_weight, x_v;
} sheet;

/* ---- which keys -------------------------------------------------------------------- */

static double weight(const sheet *s, int j) { return fabs((double)s->d->weights[j]); }

static bool is_shown(const sheet *s, int j) {
  for (int i = 0; i < s->count; i++)
    if (s->shown[i] == j) return true;
  return false;
}

/* Inserts key j into the list of the largest weights, in descending order; the last drops
 * out. */
static void insert(sheet *s, int j) {
  int at = s->count;
  while (at > 0 && weight(s, j) > weight(s, s->shown[at - 1])) at--;
  if (at == MOST_KEYS) return;
  if (s->count < MOST_KEYS) s->count++;
  memmove(s->shown + at + 1, s->shown + at, (size_t)(s->count - 1 - at) * sizeof *s->shown);
  s->shown[at] = j;
}

static int by_place(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }

static void choose(sheet *s) {
  for (int j = 0; j < s->d->keys.count; j++) insert(s, j);
  qsort(s->shown, (size_t)s->count, sizeof *s->shown, by_place);
  for (int j = 0; j < s->d->keys.count; j++)
    if (!is_shown(s, j)) s->rest += (double)s->d->weights[j];
}

/* ---- rows of numbers ------------------------------------------------------------------ */

/* Numbers as cells, the largest of several where they are more than pixels. */
static void strip(page *p, double x, double y, double w, const float *numbers, int count,
                  double max) {
  int cells = count < (int)w ? count : (int)w;
  uint8_t *pixels = drawing_take(p->to, (size_t)cells, 4);
  if (!pixels) return;
  for (int i = 0; i < cells; i++) {
    double value = 0;
    for (int j = (int)((long)i * count / cells); j < (int)((long)(i + 1) * count / cells); j++)
      if (fabs((double)numbers[j]) > fabs(value)) value = (double)numbers[j];
    colour c = page_colour(p->colours, SCALE_EVEN, value, max);
    memcpy(pixels + 4 * i, &c, 4);
  }
  draw_image(p->to, x, y, w, STRIP, pixels, 1, cells);
  draw_frame(p->to, x - 0.5, y - 0.5, w + 1, STRIP + 1, 0, 1, p->colours->grid);
  free(pixels);
}

static double product(const picture_neuron_data *d, int j, float *to) {
  double sum = 0;
  for (int i = 0; i < d->dim; i++) {
    to[i] = d->q[i] * d->k[(size_t)j * (size_t)d->dim + (size_t)i];
    sum += (double)to[i];
  }
  return sum;
}

static double most_of(const sheet *s, const float *rows, int dim) {
  double max = 0;
  for (int i = 0; i < s->count; i++)
    max = fmax(max, map_most(rows + (size_t)s->shown[i] * (size_t)dim, 1, dim));
  return max;
}

/* ---- columns ------------------------------------------------------------------------ */

static void score_bar(const sheet *s, page *p, double score, double max, double y) {
  char text[24];
  double half = (SCORE - 44) / 2.0, w = max > 0 ? score / max * half : 0;
  double zero = s->x_score + half;
  draw_rect(p->to, w < 0 ? zero + w : zero, y + 2, fmax(fabs(w), 1), STRIP - 4, 1,
            p->colours->sign[w < 0 ? 1 : 7]);
  page_small(p, s->x_score + SCORE, page_middle(y + STRIP / 2.0, SMALL_SIZE),
             page_number(score, text), ANCHOR_END);
}

static void weight_bar(const sheet *s, page *p, double w, double max, double y) {
  char text[24];
  double bar = WEIGHT - 44, wide = max > 0 ? fabs(w) / max * bar : 0;
  draw_rect(p->to, s->x_weight, y + 1, fmax(wide, 1), STRIP - 2, 2, p->colours->weight[5]);
  page_text(p, s->x_weight + fmax(wide, 1) + 6, page_middle(y + STRIP / 2.0, SMALL_SIZE),
            page_weight(w, text), SMALL_SIZE, ANCHOR_START, p->colours->ink, 0);
}

static void title(page *p, double x, double y, const char *name, const char *about) {
  page_heading(p, x, y, name);
  double wide = draw_text_width(name, LABEL_SIZE, true);
  page_small(p, x + wide + 6, y, about, ANCHOR_START);
}

static void titles(const sheet *s, page *p, double y) {
  title(p, p->left, y, "key", "");
  title(p, s->x_k, y, "k", "the key");
  title(p, s->x_product, y, "q × k", "one by one");
  title(p, s->x_score, y, "q · k", "scaled");
  title(p, s->x_weight, y, "weight", "");
  title(p, s->x_v, y, "v", "the value");
}

static void key_row(const sheet *s, page *p, int i, double y, const double max[5],
                    float *products) {
  const picture_neuron_data *d = s->d;
  int j = s->shown[i];
  char place[16];
  double middle = y + STRIP / 2.0, sum = product(d, j, products);
  snprintf(place, sizeof place, "%d", d->first + j);
  page_text(p, p->left, page_middle(middle, LABEL_SIZE), d->keys.text[j], LABEL_SIZE, ANCHOR_START,
            p->colours->ink, NAME - 34);
  page_small(p, p->left + NAME - 6, page_middle(middle, SMALL_SIZE), place, ANCHOR_END);
  strip(p, s->x_k, y, s->strip, d->k + (size_t)j * (size_t)d->dim, d->dim, max[0]);
  strip(p, s->x_product, y, s->strip, products, d->dim, max[1]);
  score_bar(s, p, sum * d->scale, max[2], y);
  weight_bar(s, p, (double)d->weights[j], max[3], y);
  strip(p, s->x_v, y, s->strip_v, d->v + (size_t)j * (size_t)d->dim_v, d->dim_v, max[4]);
}

/* Each column has a scale of its own: k, products, scores, weights, v. */
static void scales(const sheet *s, float *products, double max[5]) {
  const picture_neuron_data *d = s->d;
  max[0] = most_of(s, d->k, d->dim);
  max[4] = most_of(s, d->v, d->dim_v);
  max[1] = max[2] = max[3] = 0;
  for (int i = 0; i < s->count; i++) {
    double sum = product(d, s->shown[i], products);
    max[1] = fmax(max[1], map_most(products, 1, d->dim));
    max[2] = fmax(max[2], fabs(sum * d->scale));
    max[3] = fmax(max[3], weight(s, s->shown[i]));
  }
}

/* ---- the picture -------------------------------------------------------------------- */

/* Cells of whole pixels, or of halves where they are small. */
static double whole(double available, int dim) {
  double cell = available / dim;
  if (cell < 1) return floor(available);
  return fmin(cell < 3 ? floor(cell * 2) / 2 : floor(cell), 12) * dim;
}

static double lay_out(sheet *s, double left, double available) {
  double each = (available - NAME - SCORE - WEIGHT - 5 * GAP) / 3;
  s->strip = whole(each, s->d->dim);
  s->strip_v = whole(each, s->d->dim_v);
  s->x_k = left + NAME + GAP / 2.0;
  s->x_product = s->x_k + s->strip + GAP;
  s->x_score = s->x_product + s->strip + GAP;
  s->x_weight = s->x_score + SCORE + GAP;
  s->x_v = s->x_weight + WEIGHT + GAP;
  return s->x_v + s->strip_v - left;
}

static void draw_sheet(const sheet *s, page *p) {
  const picture_neuron_data *d = s->d;
  float *products = drawing_take(p->to, (size_t)d->dim, sizeof *products);
  double max[5], middle = p->y + STRIP / 2.0;
  if (!products) return;
  scales(s, products, max);
  page_text(p, p->left, page_middle(middle, LABEL_SIZE), d->query, LABEL_SIZE, ANCHOR_START,
            p->colours->accent, NAME - 6);
  strip(p, s->x_k, p->y, s->strip, d->q, d->dim, map_most(d->q, 1, d->dim));
  title(p, s->x_k + s->strip + 8, page_middle(middle, LABEL_SIZE), "q", "the query");
  p->y += STRIP + 34;
  titles(s, p, p->y - 8);
  for (int i = 0; i < s->count; i++, p->y += ROW) key_row(s, p, i, p->y, max, products);
  if (s->count < d->keys.count) {
    char text[96], number[24];
    snprintf(text, sizeof text, "%d other keys, together %s", d->keys.count - s->count,
             page_number(s->rest, number));
    page_small(p, s->x_v - GAP, p->y + 11, text, ANCHOR_END);
    p->y += 16;
  }
  p->y += 12;
  draw_line(p->to, s->x_v, p->y - 7, s->x_v + s->strip_v, p->y - 7, 1, p->colours->faint);
  strip(p, s->x_v, p->y, s->strip_v, d->out, d->dim_v, max[4]);
  page_text(p, s->x_v - 10, page_middle(p->y + STRIP / 2.0, LABEL_SIZE),
            "sum of weight × v: the head output", LABEL_SIZE, ANCHOR_END, p->colours->ink, 0);
  p->y += STRIP;
  free(products);
}

const char *picture_neuron(const picture_neuron_data *d, const picture_look *look, drawing *out) {
  *out = (drawing){0};
  if (d->keys.count < 1 || d->dim < 1 || d->dim_v < 1) return "the token sees no keys";
  page p;
  char place[PAGE_WORDS], row[16];
  sheet s = {.d = d};
  double available = fmax(page_available(look), 760);
  picture_look wide = *look;
  wide.width = available + 2 * PAGE_MARGIN; /* columns need it */
  choose(&s);
  page_start(&p, out, &wide, lay_out(&s, PAGE_MARGIN, available), "%s: how “%s” attends",
             page_place(&d->about, place), d->query);
  snprintf(row, sizeof row, "%d", d->row);
  page_caption(&p, "neuron", &d->about,
               (picture_facts){.query = d->about.step ? d->about.step : picture_spelled(d->query),
                               .position = row});
  page_notice(&p, &d->about);
  draw_sheet(&s, &p);
  page_legend_scale(&p, SCALE_EVEN, 1, "number, by its column's largest");
  page_legend_end(&p);
  page_end(&p);
  return NULL;
}

/* ---- two queries ---------------------------------------------------------------------- */

enum { LEAST_COLUMN = 470 };

static void pair_row(const sheet *s, page *p, int i, double left, const double max[5],
                     float *products) {
  const picture_neuron_data *d = s->d;
  int j = s->shown[i];
  char place[16];
  double middle = p->y + STRIP / 2.0, sum = product(d, j, products);
  snprintf(place, sizeof place, "%d", d->first + j);
  page_text(p, left, page_middle(middle, LABEL_SIZE), d->keys.text[j], LABEL_SIZE, ANCHOR_START,
            p->colours->ink, NAME - 34);
  page_small(p, left + NAME - 6, page_middle(middle, SMALL_SIZE), place, ANCHOR_END);
  strip(p, s->x_product, p->y, s->strip, products, d->dim, max[1]);
  score_bar(s, p, sum * d->scale, max[2], p->y);
  weight_bar(s, p, (double)d->weights[j], max[3], p->y);
  p->y += ROW;
}

static void pair_column(sheet *s, page *p, double left, double width, const char *text,
                        const double max[5], double max_q, float *products) {
  double strip_width = width - NAME - SCORE - WEIGHT - 3 * GAP;
  s->strip = whole(strip_width, s->d->dim);
  s->x_product = left + NAME + GAP / 2.0;
  s->x_score = s->x_product + s->strip + GAP;
  s->x_weight = s->x_score + SCORE + GAP;
  page_bold(p, left, p->y + 12, text, LABEL_SIZE, ANCHOR_START, p->colours->ink, width);
  p->y += 24;
  page_text(p, left, page_middle(p->y + STRIP / 2.0, LABEL_SIZE), s->d->query, LABEL_SIZE,
            ANCHOR_START, p->colours->accent, NAME - 6);
  strip(p, s->x_product, p->y, s->strip, s->d->q, s->d->dim, max_q);
  title(p, s->x_score, page_middle(p->y + STRIP / 2.0, LABEL_SIZE), "q", "the query");
  p->y += STRIP + 26;
  title(p, left, p->y - 6, "key", "");
  title(p, s->x_product, p->y - 6, "q × k", "element by element");
  title(p, s->x_score, p->y - 6, "q · k", "scaled");
  title(p, s->x_weight, p->y - 6, "weight", "");
  for (int i = 0; i < s->count; i++) pair_row(s, p, i, left, max, products);
}

static void draw_pair(sheet s[2], page *p, const char *const text[2]) {
  int dim = s[0].d->dim > s[1].d->dim ? s[0].d->dim : s[1].d->dim;
  float *products = drawing_take(p->to, (size_t)dim, sizeof *products);
  double max[2][5], available = p->right - p->left, start = p->y, end = p->y, max_q = 0;
  bool beside = available >= 2 * LEAST_COLUMN + GAP;
  if (!products) return;
  for (int i = 0; i < 2; i++) {
    scales(&s[i], products, max[i]);
    max_q = fmax(max_q, map_most(s[i].d->q, 1, s[i].d->dim));
  }
  for (int k = 0; k < 5; k++) max[0][k] = fmax(max[0][k], max[1][k]);
  double width = beside ? (available - 2 * GAP) / 2 : available;
  for (int i = 0; i < 2; i++) {
    p->y = beside ? start : end;
    pair_column(&s[i], p, p->left + (beside ? i * (width + 2 * GAP) : 0), width, text[i], max[0],
                max_q, products);
    end = fmax(end, p->y + (beside ? 0 : 20));
  }
  p->y = end;
  free(products);
}

const char *picture_neuron_pair(const picture_neuron_data d[2], const char *const text[2],
                                const picture_word_data *word, const picture_look *look,
                                drawing *out) {
  *out = (drawing){0};
  for (int i = 0; i < 2; i++)
    if (d[i].keys.count < 1 || d[i].dim < 1) return "the token sees no keys";
  page p;
  char place[PAGE_WORDS];
  sheet s[2] = {{.d = &d[0]}, {.d = &d[1]}};
  double available = fmax(page_available(look), LEAST_COLUMN);
  picture_look wide = *look;
  wide.width = available + 2 * PAGE_MARGIN;
  for (int i = 0; i < 2; i++) choose(&s[i]);
  page_start(&p, out, &wide, available, "%s: “%s” in two texts", page_place(&d[0].about, place),
             d[0].query);
  page_caption(&p, "neuron.pair", &d[0].about, (picture_facts){.query = d[0].query});
  page_notice(&p, &d[0].about);
  draw_pair(s, &p, text);
  page_legend_scale(&p, SCALE_EVEN, 1, "number, by its column's largest in both");
  page_legend_end(&p);
  page_word(&p, word);
  page_end(&p);
  return NULL;
}
