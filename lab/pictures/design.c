/* A designed head above its learned twin: Km, Qm, Vm, K, Q, V, attention, output.
 *
 * All maps of a head have cells of one size, so that rows of the same tokens or
 * features stand at the same height. Every map is scaled to its own
 * largest value, which is printed below it. A nonzero cell has its value as a tooltip
 * (.svg), and prints it where it fits.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "pictures/page.h"

enum {
  GAP = 16,
  TWIN = 74, /* space for "designed", "learned" */
  LARGEST = 28,
  SMALLEST = 4,
  TALLEST = 300,
  NUMBERS_FROM = 17,
  NAMES_FROM = 8,
  NAME_SIZE = 9,
  NAME_MOST = 64
};

typedef struct {
  const picture_design_head *h;
  page *p;
  double cell;
  double left[PICTURE_GRIDS]; /* space for the names of rows */
  double top;                 /* and of columns */
} layout;

static const char *name_of(const char *const *names, int i, char to[16]) {
  if (names) return names[i];
  snprintf(to, 16, "%d", i);
  return to;
}

static double widest(const char *const *names, int n) {
  double max = 0;
  char text[16];
  for (int i = 0; i < n; i++)
    max = fmax(max, draw_text_width(name_of(names, i, text), NAME_SIZE, false));
  return fmin(max, NAME_MOST);
}

/* Rows are named where they change: after that they stand at the same height. */
static bool names_rows(const picture_design_head *h, int grid) {
  const picture_grid *g = &h->grid[0][grid];
  return grid == 0 || g->row_names != h->grid[0][grid - 1].row_names || g->is_weight;
}

static void fit(layout *l, double available) {
  int columns = 0, rows = 1;
  double names = 0;
  l->top = 0;
  for (int i = 0; i < l->h->grids; i++) {
    const picture_grid *g = &l->h->grid[0][i];
    l->left[i] = names_rows(l->h, i) ? widest(g->row_names, g->rows) + 5 : 0;
    names += l->left[i] + GAP;
    columns += g->columns;
    if (g->rows > rows) rows = g->rows;
  }
  double fits = (available - TWIN - names) / (columns > 0 ? columns : 1);
  fits = fmin(floor(fits), floor(TALLEST / (double)rows));
  l->cell = fmin(fmax(fits, SMALLEST), LARGEST);
  for (int t = 0; t < l->h->twins; t++)
    for (int i = 0; i < l->h->grids; i++) {
      const picture_grid *g = &l->h->grid[t][i];
      double wide = widest(g->column_names, g->columns);
      l->top = fmax(l->top, wide > l->cell ? wide : NAME_SIZE);
    }
  if (l->cell < NAMES_FROM) l->top = 0;
}

static double width_of(const layout *l) {
  double x = TWIN;
  for (int i = 0; i < l->h->grids; i++) x += l->left[i] + l->h->grid[0][i].columns * l->cell + GAP;
  return x;
}

/* ---- a map ---------------------------------------------------------------------------- */

/* As few characters as tell it: 1, .33, −2.4, 12. */
static void short_number(double x, char to[24]) {
  const char *minus = x < 0 ? "−" : "";
  double size = fabs(x);
  if (size < 0.005)
    snprintf(to, 24, "0");
  else if (size < 0.995)
    snprintf(to, 24, "%s.%02.0f", minus, size * 100);
  else if (size < 9.95 && fabs(size - round(size)) > 0.05)
    snprintf(to, 24, "%s%.1f", minus, size);
  else
    snprintf(to, 24, "%s%.0f", minus, size);
}

static double most_of(const picture_grid *g) {
  double max = 0;
  for (int i = 0; i < g->rows * g->columns; i++) max = fmax(max, fabs((double)g->cells[i]));
  return g->is_weight ? 1 : max;
}

static void draw_one(const layout *l, const picture_grid *g, int row, int column, double x,
                     double y, double max) {
  page *p = l->p;
  char tip[160], number[24], row_text[16], column_text[16];
  double v = (double)g->cells[row * g->columns + column];
  if (v == 0) return; /* what is empty is drawn as one */
  colour paint = page_colour(p->colours, g->is_weight ? SCALE_WEIGHT : SCALE_EVEN, v, max);
  snprintf(tip, sizeof tip, "%s[%.40s, %.40s] = %.5g", g->title,
           name_of(g->row_names, row, row_text), name_of(g->column_names, column, column_text), v);
  draw_cell(p->to, x, y, l->cell - 1, l->cell - 1, paint, tip);
  if (l->cell < NUMBERS_FROM || fabs(v) < 0.005) return;
  short_number(v, number);
  double size = fmin(l->cell * 0.36, 9);
  page_text(p, x + l->cell / 2, page_middle(y + l->cell / 2, size), number, size, ANCHOR_MIDDLE,
            colour_on(paint, palette_get(false)->ink, palette_get(false)->background), 0);
}

static void draw_column_names(const layout *l, const picture_grid *g, double x, double y) {
  char text[16];
  bool turned = widest(g->column_names, g->columns) > l->cell;
  if (l->cell < NAMES_FROM) return;
  for (int i = 0; i < g->columns; i++) {
    double middle = x + (i + 0.5) * l->cell;
    text_look look = {.size = NAME_SIZE,
                      .anchor = turned ? ANCHOR_START : ANCHOR_MIDDLE,
                      .turn = turned ? -90 : 0,
                      .max = NAME_MOST,
                      .paint = l->p->colours->faint};
    draw_text(l->p->to, turned ? middle + 3 : middle, y - 4, name_of(g->column_names, i, text),
              &look);
  }
}

static void draw_row_names(const layout *l, const picture_grid *g, double x, double y) {
  char text[16];
  for (int i = 0; l->cell >= NAMES_FROM && i < g->rows; i++)
    page_text(l->p, x - 4, page_middle(y + (i + 0.5) * l->cell, NAME_SIZE),
              name_of(g->row_names, i, text), NAME_SIZE, ANCHOR_END, l->p->colours->faint,
              NAME_MOST);
}

static void draw_grid(const layout *l, const picture_grid *g, int index, double x, double y) {
  char number[24], text[40];
  double max = most_of(g);
  if (l->left[index] > 0) draw_row_names(l, g, x, y);
  draw_column_names(l, g, x, y);
  page_scale scale = g->is_weight ? SCALE_WEIGHT : SCALE_EVEN;
  draw_rect(l->p->to, x, y, g->columns * l->cell - 1, g->rows * l->cell - 1, 0,
            page_colour(l->p->colours, scale, 0, 1));
  for (int i = 0; i < g->rows; i++)
    for (int j = 0; j < g->columns; j++)
      draw_one(l, g, i, j, x + j * l->cell, y + i * l->cell, max);
  draw_frame(l->p->to, x - 1, y - 1, g->columns * l->cell + 1, g->rows * l->cell + 1, 0, 1,
             l->p->colours->grid);
  if (g->is_weight) return;
  snprintf(text, sizeof text, "±%s", page_number(max, number));
  page_text(l->p, x, y + g->rows * l->cell + 11, text, NAME_SIZE, ANCHOR_START,
            l->p->colours->faint, 0);
}

/* ---- a head ------------------------------------------------------------------------------- */

static void draw_titles(const layout *l, double y) {
  double x = l->p->left + TWIN;
  for (int i = 0; i < l->h->grids; i++) {
    const picture_grid *g = &l->h->grid[0][i];
    x += l->left[i];
    page_heading(l->p, x, y, g->title);
    x += g->columns * l->cell + GAP;
  }
}

static double draw_twin(const layout *l, int twin, double y) {
  static const char *const names[] = {"designed", "learned"};
  double x = l->p->left + TWIN, tall = 0;
  y += l->top + 6;
  page_text(l->p, l->p->left, y + 12, names[twin], LABEL_SIZE, ANCHOR_START, l->p->colours->ink,
            TWIN - 8);
  for (int i = 0; i < l->h->grids; i++) {
    const picture_grid *g = &l->h->grid[twin][i];
    x += l->left[i];
    draw_grid(l, g, i, x, y);
    x += g->columns * l->cell + GAP;
    tall = fmax(tall, g->rows * l->cell);
  }
  return y + tall + 16;
}

static void draw_head(const picture_design_head *h, page *p, double available) {
  layout l = {.h = h, .p = p};
  fit(&l, available);
  p->y += 26;
  page_bold(p, p->left, p->y, h->name, TEXT_SIZE, ANCHOR_START, p->colours->ink, 0);
  p->y += 22;
  draw_titles(&l, p->y);
  p->y += 4;
  for (int t = 0; t < h->twins; t++) p->y = draw_twin(&l, t, p->y);
}

static double content_of(const picture_design_data *d, double available) {
  double max = 0;
  for (int i = 0; i < d->heads; i++) {
    layout l = {.h = &d->head[i]};
    fit(&l, available);
    max = fmax(max, width_of(&l));
  }
  return max;
}

const char *picture_design(const picture_design_data *d, const picture_look *look, drawing *out) {
  page p;
  *out = (drawing){0};
  if (d->heads < 1) return "there is no head to draw";
  double available = page_available(look);
  page_start(&p, out, look, fmax(content_of(d, available), fmin(available, 720)), "%s", d->title);
  for (int i = 0; i < d->heads; i++) draw_head(&d->head[i], &p, available);
  p.y += 8;
  for (int i = 0; i < d->n_sentences; i++) {
    p.y += 6;
    page_say(&p, "%s", d->sentences[i]);
  }
  page_end(&p);
  return NULL;
}
