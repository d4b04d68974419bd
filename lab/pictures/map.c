/* A matrix as a heat map, with the names of its rows and columns.
 */
#include "pictures/map.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pictures/names.h"

enum { GAPS_FROM = 10, NUMBERS_FROM = 34, NAME_MOST = 120 };

double map_along(int i, int count, double length) {
  return (i + 0.5) * length / (count > 0 ? count : 1);
}

double map_most(const float *cells, int height, int width) {
  double most = 0;
  for (int i = 0; i < height * width; i++)
    if (fabs((double)cells[i]) > most) most = fabs((double)cells[i]);
  return most;
}

/* ---- fitting ------------------------------------------------------------------------ */

static names row_names(const map *m) {
  names n = {.tokens = &m->rows,
             .count = m->rows.count,
             .length = m->h,
             .marked = m->token,
             .most = NAME_MOST};
  names_fit(&n, false);
  return n;
}

static names key_names(const map *m) {
  names n = {.tokens = &m->keys,
             .count = m->keys.count,
             .length = m->w,
             .marked = m->key,
             .most = NAME_MOST};
  names_fit(&n, true);
  return n;
}

static void size_cells(map *m, double room_w, double room_h, double largest) {
  double fits = fmin(room_w / m->width, room_h / m->height);
  m->pooled = fits >= 1 ? 1 : (int)ceil(1 / fmax(fits, 1e-6));
  m->cell = fmin(fmax(floor(fits), 1), largest);
  m->w = ceil((double)m->width / m->pooled) * m->cell;
  m->h = ceil((double)m->height / m->pooled) * m->cell;
}

static void size_names(map *m) {
  if (m->names_left) m->left = row_names(m).room;
  if (!m->names_top) return;
  names n = key_names(m);
  m->top = n.room;
  m->over = n.over;
}

/* Names and cells share the room, and each depends on the other. */
void map_fit(map *m, double room_w, double room_h, double largest) {
  m->left = m->top = m->over = 0;
  for (int again = 0; again < 3; again++) {
    size_cells(m, room_w - m->left - m->over, room_h, largest);
    size_names(m);
  }
  size_cells(m, room_w - m->left - m->over, room_h, m->cell);
  size_names(m);
}

/* ---- cells -------------------------------------------------------------------------- */

static bool is_masked(const map *m, int y, int x) {
  return m->mask && m->mask[(size_t)y * (size_t)m->width + (size_t)x];
}

/* The cell that is largest in size of those that become one; false if all are
 * masked. */
static bool pooled_cell(const map *m, int y, int x, double *value) {
  int k = m->pooled;
  bool seen = false;
  *value = 0;
  for (int i = y * k; i < (y + 1) * k && i < m->height; i++)
    for (int j = x * k; j < (x + 1) * k && j < m->width; j++) {
      if (is_masked(m, i, j)) continue;
      double v = (double)m->cells[(size_t)i * (size_t)m->width + (size_t)j];
      if (fabs(v) > fabs(*value)) *value = v;
      seen = true;
    }
  return seen;
}

static void draw_cells(const map *m, page *p, double x, double y) {
  int rows = (int)lround(m->h / m->cell), columns = (int)lround(m->w / m->cell);
  uint8_t *pixels = drawing_take(p->to, (size_t)rows * (size_t)columns, 4);
  if (!pixels) return;
  for (int r = 0; r < rows; r++)
    for (int c = 0; c < columns; c++) {
      double value;
      bool seen = pooled_cell(m, r, c, &value);
      colour paint = seen ? page_colour(p->colours, m->scale, value, m->most) : p->colours->masked;
      memcpy(pixels + 4 * ((size_t)r * (size_t)columns + (size_t)c), &paint, 4);
    }
  draw_image(p->to, x, y, m->w, m->h, pixels, rows, columns);
  free(pixels);
}

/* One box for each run of masked cells in a row; the same run in the rows below is
 * part of it. */
static int run_end(const map *m, int y, int x) {
  double value;
  int columns = (int)lround(m->w / m->cell);
  while (x < columns && !pooled_cell(m, y, x, &value)) x++;
  return x;
}

static bool starts_here(const map *m, int y, int x) {
  double value;
  return !pooled_cell(m, y, x, &value) && (x == 0 || pooled_cell(m, y, x - 1, &value));
}

static void draw_masks(const map *m, page *p, double x, double y) {
  int rows = (int)lround(m->h / m->cell), columns = (int)lround(m->w / m->cell);
  for (int r = 0; m->mask && r < rows; r++)
    for (int c = 0; c < columns; c++) {
      if (!starts_here(m, r, c)) continue;
      int end = run_end(m, r, c), last = r + 1;
      if (r && starts_here(m, r - 1, c) && run_end(m, r - 1, c) == end) continue;
      while (last < rows && starts_here(m, last, c) && run_end(m, last, c) == end) last++;
      draw_hatch(p->to, x + c * m->cell, y + r * m->cell, (end - c) * m->cell, (last - r) * m->cell,
                 p->colours->hatch);
    }
}

static void draw_gaps(const map *m, page *p, double x, double y) {
  if (m->cell < GAPS_FROM || m->pooled > 1) return;
  colour gap = p->colours->background;
  for (int i = 1; i < m->height; i++)
    draw_line(p->to, x, y + i * m->cell, x + m->w, y + i * m->cell, 1, gap);
  for (int i = 1; i < m->width; i++)
    draw_line(p->to, x + i * m->cell, y, x + i * m->cell, y + m->h, 1, gap);
}

static void draw_numbers(const map *m, page *p, double x, double y) {
  if (m->cell < NUMBERS_FROM || m->pooled > 1) return;
  double size = fmin(m->cell * 0.27, LABEL_SIZE);
  for (int i = 0; i < m->height; i++)
    for (int j = 0; j < m->width; j++) {
      if (is_masked(m, i, j)) continue;
      char text[24];
      double v = (double)m->cells[i * m->width + j];
      colour under = page_colour(p->colours, m->scale, v, m->most);
      snprintf(text, sizeof text, "%s%.2f", v < -0.005 ? "−" : "", fabs(v));
      if (!strcmp(text, "0.00")) strcpy(text, "0");
      page_text(p, x + map_along(j, m->width, m->w),
                page_middle(y + map_along(i, m->height, m->h), size), text, size, ANCHOR_MIDDLE,
                colour_on(under, palette_get(false)->ink, palette_get(false)->background), 0);
    }
}

/* A row, a column, or where the two meet. */
static void draw_marks(const map *m, page *p, double x, double y) {
  double row = m->h / m->rows.count, column = m->w / m->keys.count;
  bool by_row = m->token >= 0, by_key = m->key >= 0;
  if (!by_row && !by_key) return;
  draw_frame(p->to, x + (by_key ? m->key * column : 0) - 1, y + (by_row ? m->token * row : 0) - 1,
             (by_key ? fmax(column, 2) : m->w) + 2, (by_row ? fmax(row, 2) : m->h) + 2, 2, 1.5,
             p->colours->accent);
}

void map_draw(const map *m, page *p, double x, double y) {
  draw_cells(m, p, x, y);
  draw_masks(m, p, x, y);
  draw_gaps(m, p, x, y);
  draw_frame(p->to, x - 0.5, y - 0.5, m->w + 1, m->h + 1, 0, 1, p->colours->grid);
  draw_numbers(m, p, x, y);
  draw_marks(m, p, x, y);
  names rows = row_names(m), keys = key_names(m);
  if (m->names_left) names_draw_left(&rows, p, x, y);
  if (m->names_top) names_draw_top(&keys, p, x, y);
}

void map_legend_masks(page *p, const uint8_t *mask, int height, int width) {
  static const char *const reasons[PICTURE_MASKS] = {
      NULL, "not seen: comes later", "not seen: outside the window", "not seen: padding"};
  bool occurs[PICTURE_MASKS] = {false};
  for (int i = 0; mask && i < height * width; i++)
    if (mask[i] < PICTURE_MASKS) occurs[mask[i]] = true;
  for (int i = 1; i < PICTURE_MASKS; i++)
    if (occurs[i]) page_legend_hatch(p, reasons[i]);
}
