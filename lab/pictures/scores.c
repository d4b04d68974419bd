/* Maps of numbers or words with named rows and columns; a text whose tokens have scores. Sweeps of
 * interventions and attributions are drawn with them.
 *
 * A map is drawn cell by cell where the cells have room for their numbers or words, otherwise as
 * the heat map that matrices are.
 */
#include <math.h>
#include <stdio.h>

#include "pictures/page.h"

enum { CELL_HEIGHT = 26, NUMBERS = 40, WORDS = 46, WIDEST = 92, TALLEST = 1600 };

static page_scale scale_of(const picture_map_data *d) {
  return d->is_signed ? SCALE_SIGN : SCALE_WEIGHT;
}

static void axes(const picture_map_data *d, page *p, double y) {
  char text[128];
  snprintf(text, sizeof text, "%.50s ↓, %.50s →", d->row_axis, d->column_axis);
  page_small(p, p->left, y, text, ANCHOR_START);
}

/* ---- with words -------------------------------------------------------------------------- */

typedef struct {
  token_names rows, columns;
  double left, top, cell;
} cells;

static token_names names_of(const picture_tokens *t, double length, double max) {
  return (token_names){.tokens = t, .count = t->count, .length = length, .marked = -1, .max = max};
}

/* False: the cells would be too narrow to be read. */
static bool cells_fit(const picture_map_data *d, double available, cells *c) {
  c->rows = names_of(&d->rows, d->rows.count * CELL_HEIGHT, 160);
  names_fit(&c->rows, false);
  c->left = c->rows.available + 10;
  c->cell = fmin((available - c->left) / d->columns.count, WIDEST);
  c->columns = names_of(&d->columns, c->cell * d->columns.count, 120);
  names_fit(&c->columns, true);
  c->top = c->columns.available + 8;
  return c->cell >= (d->words ? WORDS : NUMBERS);
}

static void draw_cell_of(const picture_map_data *d, page *p, const cells *c, double max, int i,
                         int j, double x, double y) {
  const size_t at = (size_t)i * (size_t)d->columns.count + (size_t)j;
  const double value = (double)d->cells[at];
  colour under = page_colour(p->colours, scale_of(d), value, max);
  char number[24], tip[64];
  const char *text = d->words ? d->words[at] : page_number(value, number);
  snprintf(tip, sizeof tip, "%s %d, %s %d: %.4g", d->row_axis, i, d->column_axis, j, value);
  draw_cell(p->to, x, y, c->cell - 1, CELL_HEIGHT - 1, under, tip);
  page_text(p, x + (c->cell - 1) / 2, page_middle(y + CELL_HEIGHT / 2.0, SMALL_SIZE), text,
            SMALL_SIZE, ANCHOR_MIDDLE,
            colour_on(under, palette_get(false)->ink, palette_get(false)->background), c->cell - 6);
}

static void draw_cells(const picture_map_data *d, page *p, const cells *c, double max) {
  const double x = p->left + c->left;
  axes(d, p, p->y);
  double y = p->y + 6 + c->top;
  names_draw_left(&c->rows, p, x, y);
  names_draw_top(&c->columns, p, x, y);
  for (int i = 0; i < d->rows.count; i++)
    for (int j = 0; j < d->columns.count; j++)
      draw_cell_of(d, p, c, max, i, j, x + j * c->cell, y + i * CELL_HEIGHT);
  p->y = y + d->rows.count * CELL_HEIGHT;
}

/* ---- without ------------------------------------------------------------------------------- */

static void draw_map(const picture_map_data *d, page *p, map *m) {
  axes(d, p, p->y);
  p->y += 6 + m->top;
  map_draw(m, p, p->left + m->left, p->y);
  p->y += m->h;
}

typedef struct {
  cells c;
  map m;
  double max;
  bool words; /* or numbers, cell by cell; otherwise a heat map */
} layout;

static layout lay_out(const picture_map_data *d, double available) {
  layout l = {.max = map_most(d->cells, d->rows.count, d->columns.count)};
  l.words = cells_fit(d, available, &l.c);
  l.m = map_of_cells(d->rows, d->columns, d->cells, d->rows.count, d->columns.count, scale_of(d),
                     l.max);
  map_fit(&l.m, available, TALLEST, 33);
  return l;
}

static void draw_laid_out(const picture_map_data *d, page *p, layout *l) {
  if (l->words)
    draw_cells(d, p, &l->c, l->max);
  else
    draw_map(d, p, &l->m);
  p->y += 4;
  page_legend_scale(p, scale_of(d), l->max, d->what);
  page_legend_end(p);
}

void page_map(page *p, const picture_map_data *d) {
  layout l = lay_out(d, p->right - p->left);
  draw_laid_out(d, p, &l);
}

double page_map_width(const picture_map_data *d, double available) {
  layout l = lay_out(d, available);
  return l.words ? l.c.left + l.c.columns.length + l.c.columns.over : l.m.left + l.m.w + l.m.over;
}

const char *picture_map(const picture_map_data *d, const picture_look *look, drawing *out) {
  *out = (drawing){0};
  if (d->rows.count < 1 || d->columns.count < 1) return "there are no cells to draw";
  page p;
  layout l = lay_out(d, page_available(look));
  page_start(&p, out, look, page_map_width(d, page_available(look)), "%s", d->title);
  page_say(&p, "%s", d->caption);
  p.y += 22;
  draw_laid_out(d, &p, &l);
  page_end(&p);
  return NULL;
}

/* ---- scores of tokens ------------------------------------------------------------------------ */

enum { BOX = 26, BOX_GAP = 4, LINE = 52 };

static void draw_score(const picture_scores_data *d, page *p, int i, double max, double wide,
                       double x) {
  const double value = (double)d->scores[i];
  colour under = page_colour(p->colours, SCALE_SIGN, value, max);
  char number[24];
  draw_rect(p->to, x, p->y, wide, BOX, 4, under);
  if (i == d->marked) draw_frame(p->to, x, p->y, wide, BOX, 4, 1.5, p->colours->accent);
  page_text(p, x + wide / 2, page_middle(p->y + BOX / 2.0, TEXT_SIZE), d->tokens.text[i], TEXT_SIZE,
            ANCHOR_MIDDLE,
            colour_on(under, palette_get(false)->ink, palette_get(false)->background), wide - 6);
  page_small(p, x + wide / 2, p->y + BOX + 13, page_number(value, number), ANCHOR_MIDDLE);
}

static double score_width(const picture_scores_data *d, int i, double available) {
  char number[24];
  double text = draw_text_width(d->tokens.text[i], TEXT_SIZE, false) + 14;
  double score = draw_text_width(page_number((double)d->scores[i], number), SMALL_SIZE, false) + 6;
  return fmin(fmax(text, score), available);
}

double page_scores_width(const picture_scores_data *d, double available) {
  double all = 0;
  for (int i = 0; i < d->tokens.count; i++) all += score_width(d, i, available) + BOX_GAP;
  return fmin(all, available);
}

void page_scores(page *p, const picture_scores_data *d) {
  const double available = p->right - p->left, max = map_most(d->scores, d->tokens.count, 1);
  double x = p->left;
  for (int i = 0; i < d->tokens.count; i++) {
    const double wide = score_width(d, i, available);
    if (x > p->left && x + wide > p->right) {
      x = p->left;
      p->y += LINE;
    }
    draw_score(d, p, i, max, wide, x);
    x += wide + BOX_GAP;
  }
  p->y += LINE - 6;
  page_legend_scale(p, SCALE_SIGN, max, d->what);
  page_legend_end(p);
}

const char *picture_scores(const picture_scores_data *d, const picture_look *look, drawing *out) {
  *out = (drawing){0};
  if (d->tokens.count < 1) return "there are no tokens to draw the scores of";
  page p;
  page_start(&p, out, look, page_scores_width(d, page_available(look)), "%s", d->title);
  page_say(&p, "%s", d->caption);
  p.y += 18;
  page_scores(&p, d);
  page_end(&p);
  return NULL;
}
