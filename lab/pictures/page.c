/* The layout that pictures share: a page with title, captions and legend; names along an
 * axis; a matrix as a heat map.
 */
#include "pictures/page.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pictures/raster.h"

enum { WIDTH = 1200, NARROWEST = 480, READABLE = 560 };

static double width_of(const picture_look *look) {
  double width = look->width > 0 ? look->width : WIDTH;
  return fmax(floor(width), NARROWEST);
}

double page_available(const picture_look *look) { return width_of(look) - 2 * PAGE_MARGIN; }

/* ---- texts ------------------------------------------------------------------------ */

double page_middle(double y, double size) { return y + size * GLYPHS_CAPITAL / 2; }

void page_text(page *p, double x, double y, const char *text, double size, text_anchor anchor,
               colour paint, double max) {
  text_look look = {.size = size, .anchor = anchor, .max = max, .paint = paint};
  draw_text(p->to, x, y, text, &look);
}

void page_bold(page *p, double x, double y, const char *text, double size, text_anchor anchor,
               colour paint, double max) {
  text_look look = {.size = size, .bold = true, .anchor = anchor, .max = max, .paint = paint};
  draw_text(p->to, x, y, text, &look);
}

void page_small(page *p, double x, double y, const char *text, text_anchor anchor) {
  page_text(p, x, y, text, SMALL_SIZE, anchor, p->colours->faint, 0);
}

void page_heading(page *p, double x, double y, const char *text) {
  page_bold(p, x, y, text, LABEL_SIZE, ANCHOR_START, p->colours->ink, 0);
}

const char *page_number(double x, char to[24]) {
  double size = fabs(x);
  const char *minus = x < 0 ? "−" : "";
  if (isnan(x))
    snprintf(to, 24, "–");
  else if (size != 0 && (size < 5e-4 || size >= 1e5))
    snprintf(to, 24, "%s%.1e", minus, size);
  else if (size == floor(size))
    snprintf(to, 24, "%s%.0f", minus, size);
  else
    snprintf(to, 24, "%s%.*f", minus, size < 0.095 ? 3 : size < 10 ? 2 : 1, size);
  return to;
}

const char *page_weight(double w, char to[24]) {
  if (fabs(w) >= 5e-4 || w == 0) return page_number(w, to);
  snprintf(to, 24, "<0.001");
  return to;
}

const char *page_place(const picture_about *about, char to[PAGE_WORDS]) {
  char layer[32] = "", head[32] = "";
  if (about->layer >= 0) snprintf(layer, sizeof layer, ", layer %d", about->layer);
  if (about->head >= 0) snprintf(head, sizeof head, ", head %d", about->head);
  snprintf(to, PAGE_WORDS, "%.95s%s%s", about->model ? about->model : "a model", layer, head);
  return to;
}

/* ---- the page ------------------------------------------------------------------------ */

__attribute__((format(printf, 2, 0))) static char *formatted(drawing *d, const char *format,
                                                             va_list args) {
  va_list again;
  if (!format) return NULL; /* tells compilers that it is not */
  va_copy(again, args);
  int length = vsnprintf(NULL, 0, format, again);
  va_end(again);
  char *text = drawing_take(d, (size_t)length + 1, 1);
  if (text) vsnprintf(text, (size_t)length + 1, format, args);
  return text;
}

void page_start(page *p, drawing *to, const picture_look *look, double content, const char *title,
                ...) {
  const palette *c = palette_get(look->dark);
  double min = fmin(READABLE, width_of(look));
  double width = fmax(ceil(content) + 2 * PAGE_MARGIN, min);
  drawing_start(to, fmin(width, width_of(look)), c->background);
  *p = (page){.to = to, .colours = c, .left = PAGE_MARGIN};
  p->right = to->width - PAGE_MARGIN;
  p->y = PAGE_MARGIN + 18;
  va_list args;
  va_start(args, title);
  char *text = formatted(to, title, args);
  va_end(args);
  if (text) drawing_title(to, text);
  page_bold(p, p->left, p->y, text, TITLE_SIZE, ANCHOR_START, c->ink, p->right - p->left);
  free(text);
  p->y += 12;
}

/* As many words as fit, at least one; returns where the rest starts. */
static const char *line_end(drawing *d, const char *text, double width) {
  const char *end = NULL;
  char *line = drawing_take(d, strlen(text) + 1, 1);
  if (!line) return text + strlen(text);
  for (const char *at = text; *at;) {
    const char *word = at + strspn(at, " ");
    word += strcspn(word, " ");
    memcpy(line, text, (size_t)(word - text));
    line[word - text] = 0;
    if (end && draw_text_width(line, TEXT_SIZE, false) > width) break;
    end = at = word;
  }
  free(line);
  return end ? end : text + strlen(text);
}

static int lines_of(drawing *d, const char *text, double width) {
  int lines = 0;
  for (; *text; lines++) {
    text = line_end(d, text, width);
    text += strspn(text, " ");
  }
  return lines;
}

/* Lines of about the same length: the narrowest that are not more. */
static double even_width(drawing *d, const char *text, double available) {
  int lines = lines_of(d, text, available);
  double width = lines > 1 ? available / 2 : available;
  while (width < available && lines_of(d, text, width) > lines) width += available / 40;
  return fmin(width, available);
}

static void say(page *p, const char *text) {
  double width = even_width(p->to, text, fmin(p->right - p->left, 900));
  while (*text) {
    const char *end = line_end(p->to, text, width);
    char *line = drawing_take(p->to, (size_t)(end - text) + 1, 1);
    if (!line) return;
    memcpy(line, text, (size_t)(end - text));
    p->y += TEXT_SIZE * 1.45;
    page_text(p, p->left, p->y - 4, line, TEXT_SIZE, ANCHOR_START, p->colours->faint,
              p->right - p->left);
    free(line);
    text = end + strspn(end, " ");
  }
}

void page_say(page *p, const char *format, ...) {
  va_list args;
  va_start(args, format);
  char *text = formatted(p->to, format, args);
  va_end(args);
  if (text) say(p, text);
  free(text);
}

void page_caption(page *p, const char *name, const picture_about *about, picture_facts facts) {
  char attention[PICTURE_WORDS], text[PICTURE_CAPTION];
  facts.attention = picture_attention(about, attention);
  say(p, picture_caption_fill(name, &facts, text, sizeof text));
  if (about->step) {
    facts.query = about->step;
    say(p, picture_caption_fill("cross", &facts, text, sizeof text));
  }
}

void page_notice(page *p, const picture_about *about) {
  if (about->notice && *about->notice) say(p, about->notice);
  p->y += 20;
}

void page_end(page *p) { p->to->height = ceil(p->y + PAGE_MARGIN); }

/* ---- the legend ------------------------------------------------------------------------ */

enum { BAR = 180, CHIP = 12, TICKS = 5 };

/* Room for an item in the strip; a new strip where it does not fit. */
static double legend_place(page *p, double width, double height) {
  if (p->legend_x == 0) {
    p->y += 18;
    p->legend_x = p->left;
    p->legend_h = 0;
  } else if (p->legend_x + width > p->right) {
    p->y += p->legend_h + 10;
    p->legend_x = p->left;
    p->legend_h = 0;
  }
  p->legend_h = fmax(p->legend_h, height);
  double x = p->legend_x;
  p->legend_x += width + 26;
  return x;
}

colour page_colour(const palette *c, page_scale scale, double x, double max) {
  if (scale == SCALE_WEIGHT) return palette_weight(c, palette_share(x, max));
  if (scale == SCALE_SIGN) return palette_sign(c, palette_share(x, max));
  return palette_sign(c, max > 0 ? x / max : 0);
}

/* The value at a place of the bar, 0 to 1. */
static double scale_at(page_scale scale, double place, double max) {
  if (scale == SCALE_WEIGHT) return place * place * max;
  double t = 2 * place - 1;
  return (scale == SCALE_EVEN ? t : t * fabs(t)) * max;
}

void page_legend_scale(page *p, page_scale scale, double max, const char *title) {
  double wide = draw_text_width(title, LABEL_SIZE, false);
  double x = legend_place(p, wide + 22 + BAR + 14, CHIP + 14) + wide + 22, y = p->y;
  page_text(p, x - 22, page_middle(y + CHIP / 2.0, LABEL_SIZE), title, LABEL_SIZE, ANCHOR_END,
            p->colours->ink, 0);
  uint8_t cells[BAR * 4];
  for (int i = 0; i < BAR; i++) {
    double value = scale_at(scale, i / (BAR - 1.0), max);
    colour c = page_colour(p->colours, scale, value, max);
    memcpy(cells + 4 * i, &c, 4);
  }
  draw_image(p->to, x, y, BAR, CHIP, cells, 1, BAR);
  draw_frame(p->to, x - 0.5, y - 0.5, BAR + 1, CHIP + 1, 0, 1, p->colours->grid);
  for (int i = 0; i < TICKS; i++) {
    char text[24];
    double at = i / (TICKS - 1.0);
    page_small(p, x + at * BAR, y + CHIP + 13, page_number(scale_at(scale, at, max), text),
               ANCHOR_MIDDLE);
  }
}

static double chip(page *p, const char *title) {
  double wide = draw_text_width(title, LABEL_SIZE, false);
  double x = legend_place(p, CHIP + 8 + wide, CHIP);
  page_text(p, x + CHIP + 8, page_middle(p->y + CHIP / 2.0, LABEL_SIZE), title, LABEL_SIZE,
            ANCHOR_START, p->colours->ink, 0);
  return x;
}

void page_legend_chip(page *p, colour paint, const char *title) {
  double x = chip(p, title);
  draw_rect(p->to, x, p->y, CHIP, CHIP, 2, paint);
}

void page_legend_hatch(page *p, const char *title) {
  double x = chip(p, title);
  draw_rect(p->to, x, p->y, CHIP, CHIP, 0, p->colours->masked);
  draw_hatch(p->to, x, p->y, CHIP, CHIP, p->colours->hatch);
}

void page_legend_end(page *p) {
  if (p->legend_x > 0) p->y += p->legend_h;
  p->legend_x = 0;
}

/* ---- names along an axis ------------------------------------------------------------------- */

/* Names are drawn at the size that the pitch allows; below LEAST px a name every few tokens
 * is left, below THIN numbers at round steps. */
#define LEAST 11.0
#define THIN 3.2
#define LEAN 0.70710678

/* 1, 2, 5, 10, .. so that numbers stand apart. */
static int round_step(double pitch, double apart) {
  int step = 1;
  for (int i = 0; step * pitch < apart && step < 1 << 28; i++)
    step = step / (i % 3 == 1 ? 2 : 1) * (i % 3 == 1 ? 5 : 2);
  return step;
}

static const char *name_of(const token_names *n, int i, char number[16]) {
  if (!n->numbers) return n->tokens->text[i];
  snprintf(number, 16, "%d", i);
  return number;
}

static double widest(const token_names *n) {
  char number[16];
  double max = 0;
  for (int i = 0; i < n->count; i++) {
    if (i % n->step && i != n->marked) continue;
    max = fmax(max, draw_text_width(name_of(n, i, number), n->size, i == n->marked));
  }
  return max;
}

void names_fit(token_names *n, bool along_x) {
  double pitch = n->count > 0 ? n->length / n->count : 1;
  n->numbers = !n->tokens->text || pitch < THIN;
  n->step = n->numbers       ? round_step(pitch, along_x || n->count > 40 ? 34 : 16)
            : pitch >= LEAST ? 1
                             : (int)ceil(LEAST / pitch);
  n->size = n->numbers ? SMALL_SIZE : fmin(fmax(pitch * 0.8, 9), LABEL_SIZE);
  n->turn = 0;
  n->over = 0;
  double wide = widest(n), named = pitch * n->step;
  if (along_x && wide > named - 8 && !n->numbers) n->turn = named >= 1.6 * n->size ? -45 : -90;
  if (n->turn) wide = fmin(wide, n->max);
  n->available = !along_x || n->turn == -90 ? fmin(wide, n->max)
                 : n->turn == -45           ? wide * LEAN + n->size
                                            : n->size;
  n->available = ceil(n->available) + 8;
  if (n->turn == -45) n->over = fmax(wide * LEAN - pitch / 2 + 4, 0);
}

static double at(const token_names *n, int i) { return (i + 0.5) * n->length / n->count; }

/* A thinned name is left out where it would touch the marked one. */
static bool is_named(const token_names *n, int i) {
  if (i == n->marked) return true;
  if (i % n->step) return false;
  double apart = fabs(at(n, i) - at(n, n->marked));
  return n->marked < 0 || apart >= (n->numbers && !n->turn ? 24 : LEAST);
}

static text_look look_of(const token_names *n, const page *p, int i) {
  bool marked = i == n->marked;
  colour faint = n->step > 1 ? p->colours->faint : p->colours->ink;
  return (text_look){.size = n->size,
                     .bold = marked,
                     .turn = n->turn,
                     .max = n->turn ? n->max : 0,
                     .paint = marked ? p->colours->accent : faint};
}

void names_draw_left(const token_names *n, page *p, double x, double y) {
  char number[16];
  for (int i = 0; i < n->count; i++) {
    if (!is_named(n, i)) continue;
    text_look look = look_of(n, p, i);
    double middle = y + at(n, i);
    look.anchor = ANCHOR_END;
    look.max = n->max;
    draw_text(p->to, x - 8, page_middle(middle, n->size), name_of(n, i, number), &look);
    if (n->step > 1) draw_line(p->to, x - 5, middle, x - 1, middle, 1, p->colours->grid);
  }
}

static void draw_across(const token_names *n, page *p, double x, double y, double side) {
  char number[16];
  for (int i = 0; i < n->count; i++) {
    if (!is_named(n, i)) continue;
    text_look look = look_of(n, p, i);
    double middle = x + at(n, i), down = side > 0 ? n->size * 0.73 : 0;
    /* Turned letters stand right of their line: half their height back. */
    double back = n->turn == -90 ? n->size * 0.36 : n->turn ? n->size * 0.25 : 0;
    look.anchor = !n->turn ? ANCHOR_MIDDLE : side > 0 ? ANCHOR_END : ANCHOR_START;
    draw_text(p->to, middle + back, y + side * 8 + (n->turn == -90 ? 0 : down),
              name_of(n, i, number), &look);
    if (n->step > 1) draw_line(p->to, middle, y + side, middle, y + side * 5, 1, p->colours->grid);
  }
}

void names_draw_top(const token_names *n, page *p, double x, double y) {
  draw_across(n, p, x, y, -1);
}

void names_draw_below(const token_names *n, page *p, double x, double y) {
  draw_across(n, p, x, y, 1);
}

/* ---- a matrix ------------------------------------------------------------------------------ */

enum { GAPS_FROM = 10, NUMBERS_FROM = 34, NAME_MOST = 120 };

map map_of_cells(picture_tokens rows, picture_tokens keys, const float *cells, int height,
                 int width, page_scale scale, double max) {
  return (map){.rows = rows,
               .keys = keys,
               .height = height,
               .width = width,
               .cells = cells,
               .scale = scale,
               .max = max,
               .token = -1,
               .key = -1,
               .names_left = true,
               .names_top = true};
}

double map_along(int i, int count, double length) {
  return (i + 0.5) * length / (count > 0 ? count : 1);
}

double map_most(const float *cells, int height, int width) {
  double max = 0;
  for (int i = 0; i < height * width; i++)
    if (fabs((double)cells[i]) > max) max = fabs((double)cells[i]);
  return max;
}

/* ---- fitting ------------------------------------------------------------------------ */

static token_names row_names(const map *m) {
  token_names n = {.tokens = &m->rows,
                   .count = m->rows.count,
                   .length = m->h,
                   .marked = m->token,
                   .max = NAME_MOST};
  names_fit(&n, false);
  return n;
}

static token_names key_names(const map *m) {
  token_names n = {.tokens = &m->keys,
                   .count = m->keys.count,
                   .length = m->w,
                   .marked = m->key,
                   .max = NAME_MOST};
  names_fit(&n, true);
  return n;
}

static void size_cells(map *m, double width_limit, double height_limit, double largest) {
  double fits = fmin(width_limit / m->width, height_limit / m->height);
  m->pooled = fits >= 1 ? 1 : (int)ceil(1 / fmax(fits, 1e-6));
  m->cell = fmin(fmax(floor(fits), 1), largest);
  m->w = ceil((double)m->width / m->pooled) * m->cell;
  m->h = ceil((double)m->height / m->pooled) * m->cell;
}

enum { AXES = 18 }; /* px of the axes' names */

static void size_names(map *m) {
  if (m->names_left) m->left = row_names(m).available;
  if (m->names_left && m->axes)
    m->left = fmax(m->left, draw_text_width("queries ↓", SMALL_SIZE, false) + 8);
  if (!m->names_top) return;
  token_names n = key_names(m);
  m->top = n.available + (m->axes ? AXES : 0);
  m->over = n.over;
}

/* Names and cells share the space, and each depends on the other. */
void map_fit(map *m, double width_limit, double height_limit, double largest) {
  m->left = m->top = m->over = 0;
  for (int again = 0; again < 3; again++) {
    size_cells(m, width_limit - m->left - m->over, height_limit, largest);
    size_names(m);
  }
  size_cells(m, width_limit - m->left - m->over, height_limit, m->cell);
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
      colour paint = seen ? page_colour(p->colours, m->scale, value, m->max) : p->colours->masked;
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
      colour under = page_colour(p->colours, m->scale, v, m->max);
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

static void draw_axes(const map *m, page *p, double x, double y) {
  double above = y - m->top + AXES - 8;
  bool fits = draw_text_width("keys →", SMALL_SIZE, false) <= m->w;
  if (fits) page_small(p, x, above, "keys →", ANCHOR_START);
  if (m->names_left) page_small(p, x - 8, above, "queries ↓", ANCHOR_END);
}

void map_draw(const map *m, page *p, double x, double y) {
  draw_cells(m, p, x, y);
  draw_masks(m, p, x, y);
  draw_gaps(m, p, x, y);
  draw_frame(p->to, x - 0.5, y - 0.5, m->w + 1, m->h + 1, 0, 1, p->colours->grid);
  draw_numbers(m, p, x, y);
  draw_marks(m, p, x, y);
  token_names rows = row_names(m), keys = key_names(m);
  if (m->names_left) names_draw_left(&rows, p, x, y);
  if (m->names_top) names_draw_top(&keys, p, x, y);
  if (m->axes && m->names_top) draw_axes(m, p, x, y);
}

void map_legend_masks(page *p, const uint8_t *mask, int height, int width) {
  static const char *const reasons[PICTURE_MASKS] = {
      NULL, "masked: comes later", "masked: outside the window", "masked: padding"};
  bool occurs[PICTURE_MASKS] = {false};
  for (int i = 0; mask && i < height * width; i++)
    if (mask[i] < PICTURE_MASKS) occurs[mask[i]] = true;
  for (int i = 1; i < PICTURE_MASKS; i++)
    if (occurs[i]) page_legend_hatch(p, reasons[i]);
}
