/* A head's matrix of weights as a heat map; a head under two forms or in two runs.
 *
 *   title, caption
 *          names of the keys
 *   names  [ cells              ]  entropy of each row
 *   the scale, and what is not seen and why
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "pictures/page.h"

enum { ENTROPY_WIDTH = 84, TALLEST = 1600 };

static void draw_entropy(const picture_matrix_data *d, page *p, const map *m, double x, double y) {
  double max = map_most(d->entropy, d->height, 1), bar = ENTROPY_WIDTH - 34;
  int rows = d->height / m->pooled;
  double pitch = m->h / rows;
  char text[24];
  page_small(p, x, y + m->h + 14, "entropy", ANCHOR_START);
  for (int i = 0; i < rows; i++) {
    double e = (double)d->entropy[i * m->pooled];
    double h = fmax(fmin(pitch - (pitch > 4 ? 2 : 0), 14), 1);
    double middle = y + map_along(i, rows, m->h);
    double w = max > 0 ? e / max * bar : 0;
    draw_rect(p->to, x, middle - h / 2, fmax(w, 1), h, h > 6 ? 2 : 0,
              colour_mix(p->colours->faint, p->colours->background, 0.55));
    if (pitch >= 13)
      page_small(p, x + fmax(w, 1) + 5, page_middle(middle, SMALL_SIZE), page_number(e, text),
                 ANCHOR_START);
  }
}

static map map_of(const picture_matrix_data *d) {
  map m = map_of_cells(d->rows, d->keys, d->cells, d->height, d->width,
                       d->is_signed ? SCALE_SIGN : SCALE_WEIGHT,
                       d->max > 0 ? d->max : map_most(d->cells, d->height, d->width));
  m.mask = d->mask;
  m.token = d->token;
  m.key = d->key;
  m.axes = true;
  return m;
}

const char *picture_matrix(const picture_matrix_data *d, const picture_look *look, drawing *out) {
  *out = (drawing){0};
  if (d->height < 1 || d->width < 1 || d->rows.count < 1 || d->keys.count < 1)
    return "there are no tokens to draw the weights of";
  page p;
  char place[PAGE_WORDS];
  map m = map_of(d);
  double beside = d->entropy ? ENTROPY_WIDTH + 18 : 0;
  double largest = fmin(fmax(560.0 / d->width, 44), 72);
  map_fit(&m, page_available(look) - beside, TALLEST, largest);
  double over = fmax(m.over, beside);
  page_start(&p, out, look, m.left + m.w + over, "%s", page_place(&d->about, place));
  page_caption(&p, "matrix", &d->about, (picture_facts){0});
  page_notice(&p, &d->about);
  p.y += m.top;
  map_draw(&m, &p, p.left + m.left, p.y);
  if (d->entropy) draw_entropy(d, &p, &m, p.left + m.left + m.w + 18, p.y);
  p.y += m.h + 4;
  page_legend_scale(&p, m.scale, m.max, "weight");
  map_legend_masks(&p, d->mask, d->height, d->width);
  page_legend_end(&p);
  page_end(&p);
  return NULL;
}

/* ---- two of them, and the difference ------------------------------------------------------- */

enum { GAP = 22, FACT = 56 };

typedef struct {
  map of[3]; /* the first, the second, the first minus the second */
  float *difference;
} trio;

/* False: there is no memory for it. */
static bool subtract(const picture_compare_data *d, drawing *out, trio *t) {
  size_t count = (size_t)d->height * (size_t)d->width;
  t->difference = drawing_take(out, count, sizeof *t->difference);
  if (!t->difference) return false;
  for (size_t i = 0; i < count; i++) t->difference[i] = d->cells[i] - d->other[i];
  t->of[2].cells = t->difference;
  t->of[2].max = map_most(t->difference, d->height, d->width);
  return true;
}

static trio trio_of(const picture_compare_data *d, double available) {
  trio t = {0};
  double max =
      fmax(map_most(d->cells, d->height, d->width), map_most(d->other, d->height, d->width));
  const float *cells[3] = {d->cells, d->other, NULL};
  for (int i = 0; i < 3; i++) {
    t.of[i] = map_of_cells(d->rows, d->keys, cells[i], d->height, d->width,
                           i == 2 ? SCALE_SIGN : SCALE_WEIGHT, max);
    t.of[i].mask = d->mask;
    t.of[i].axes = true;
    t.of[i].names_left = i == 0;
  }
  map_fit(&t.of[0], (available - 2 * GAP) / 3 + 60, 1200, 44);
  double cell = t.of[0].cell;
  double each = (available - 2 * GAP - t.of[0].left - t.of[2].over) / 3;
  for (int i = 0; i < 3; i++) {
    double names = i == 0 ? t.of[0].left : 0;
    map_fit(&t.of[i], each + names, 1200, cell);
  }
  return t;
}

static double trio_width(const trio *t) {
  return t->of[0].left + 3 * t->of[0].w + 2 * GAP + t->of[2].over;
}

static void draw_trio(const picture_compare_data *d, page *p, const trio *t) {
  const char *names[3] = {d->name, d->other_name, "first − second"};
  double x = p->left + t->of[0].left, y = p->y + 20 + t->of[0].top;
  for (int i = 0; i < 3; i++) {
    page_bold(p, x, p->y + 12, names[i], LABEL_SIZE, ANCHOR_START, p->colours->ink, t->of[i].w);
    map_draw(&t->of[i], p, x, y);
    x += t->of[i].w + GAP;
  }
  p->y = y + t->of[0].h + 4;
}

/* ---- numbers ------------------------------------------------------------------------ */

static double fact(page *p, double x, const char *name, double value, const char *about) {
  char text[24];
  if (isnan(value)) return x;
  double wide =
      fmax(draw_text_width(name, LABEL_SIZE, false), draw_text_width(about, SMALL_SIZE, false));
  if (x + wide > p->right && x > p->left) {
    x = p->left;
    p->y += FACT + 12;
  }
  page_text(p, x, p->y + 12, name, LABEL_SIZE, ANCHOR_START, p->colours->faint, 0);
  page_bold(p, x, p->y + 35, page_number(value, text), TITLE_SIZE, ANCHOR_START, p->colours->ink,
            0);
  page_small(p, x, p->y + 52, about, ANCHOR_START);
  return x + wide + 36;
}

static void facts(const picture_compare_data *d, page *p) {
  char name[96], other[96];
  double x = p->left;
  p->y += 26;
  snprintf(name, sizeof name, "of %s, in nats", d->name);
  snprintf(other, sizeof other, "of %s, in nats", d->other_name);
  x = fact(p, x, "distance", d->distance, "0 the same, 1 disjoint");
  x = fact(p, x, "entropy", d->entropy, name);
  x = fact(p, x, "entropy", d->other_entropy, other);
  x = fact(p, x, "error of the output", d->output_error, "relative, of the head output");
  if (x > p->left) p->y += FACT;
}

static void all_heads(const picture_compare_data *d, page *p) {
  if (!d->distances || d->layers < 1 || d->heads < 1) return;
  map m = map_of_cells((picture_tokens){NULL, d->layers}, (picture_tokens){NULL, d->heads},
                       d->distances, d->layers, d->heads, SCALE_WEIGHT, 1);
  m.token = d->about.layer;
  m.key = d->about.head;
  p->y += 30;
  page_heading(p, p->left, p->y + 12, "distance in every head");
  page_small(p, p->left + 170, p->y + 12, "rows are layers, columns heads", ANCHOR_START);
  map_fit(&m, p->right - p->left, 600, 36);
  p->y += 22 + m.top;
  map_draw(&m, p, p->left + m.left, p->y);
  p->y += m.h;
}

/* The names are above the maps, too: a title that is too long does without. */
static void start(const picture_compare_data *d, const picture_look *look, drawing *out, page *p,
                  double content) {
  char place[PAGE_WORDS], names[256];
  snprintf(names, sizeof names, ": %s and %s", d->name, d->other_name);
  page_place(&d->about, place);
  double wide = draw_text_width(place, TITLE_SIZE, true) + draw_text_width(names, TITLE_SIZE, true);
  bool fits = wide <= fmax(content, 420);
  page_start(p, out, look, content, "%s%s", place, fits ? names : ", compared");
}

const char *picture_compare(const picture_compare_data *d, const picture_look *look, drawing *out) {
  *out = (drawing){0};
  if (d->height < 1 || d->width < 1 || d->rows.count < 1 || d->keys.count < 1)
    return "there are no tokens to compare the weights of";
  page p;
  trio t = trio_of(d, page_available(look));
  start(d, look, out, &p, trio_width(&t));
  if (!subtract(d, out, &t)) return NULL;
  page_caption(&p, "compare", &d->about,
               (picture_facts){.first = d->name, .second = d->other_name});
  page_notice(&p, &d->about);
  draw_trio(d, &p, &t);
  page_legend_scale(&p, SCALE_WEIGHT, t.of[0].max, "weight");
  page_legend_scale(&p, SCALE_SIGN, t.of[2].max, "difference");
  map_legend_masks(&p, d->mask, d->height, d->width);
  page_legend_end(&p);
  facts(d, &p);
  all_heads(d, &p);
  page_end(&p);
  free(t.difference);
  return NULL;
}
