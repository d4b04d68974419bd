/* What the pictures share: a page with a title, sentences, a legend.
 */
#include "pictures/page.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pictures/glyphs.h"

enum { WIDTH = 1200, NARROWEST = 480, READABLE = 560 };

static double width_of(const picture_look *look) {
  double width = look->width > 0 ? look->width : WIDTH;
  return fmax(floor(width), NARROWEST);
}

double page_room(const picture_look *look) { return width_of(look) - 2 * PAGE_MARGIN; }

/* ---- texts ------------------------------------------------------------------------ */

double page_middle(double y, double size) { return y + size * GLYPHS_CAPITAL / 2; }

void page_text(page *p, double x, double y, const char *text, double size, text_anchor anchor,
               colour paint, double most) {
  text_look look = {.size = size, .anchor = anchor, .most = most, .paint = paint};
  draw_text(p->to, x, y, text, &look);
}

void page_bold(page *p, double x, double y, const char *text, double size, text_anchor anchor,
               colour paint, double most) {
  text_look look = {.size = size, .bold = true, .anchor = anchor, .most = most, .paint = paint};
  draw_text(p->to, x, y, text, &look);
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

const char *page_attention(const picture_about *about, char to[PAGE_WORDS]) {
  const char *role = about->role ? about->role : "";
  const char *form = about->form ? about->form : "";
  const char *gap = *form ? " " : "";
  if (!strcmp(role, "cross"))
    snprintf(to, PAGE_WORDS, "%.120s%scross-attention", form, gap);
  else if (*role)
    snprintf(to, PAGE_WORDS, "%.110s%sself-attention of the %.20s", form, gap, role);
  else
    snprintf(to, PAGE_WORDS, "%.120s%sattention", form, gap);
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
  double least = fmin(READABLE, width_of(look));
  double width = fmax(ceil(content) + 2 * PAGE_MARGIN, least);
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
static double even_width(drawing *d, const char *text, double room) {
  int lines = lines_of(d, text, room);
  double width = lines > 1 ? room / 2 : room;
  while (width < room && lines_of(d, text, width) > lines) width += room / 40;
  return fmin(width, room);
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

colour page_colour(const palette *c, page_scale scale, double x, double most) {
  if (scale == SCALE_WEIGHT) return palette_weight(c, palette_share(x, most));
  if (scale == SCALE_SIGN) return palette_sign(c, palette_share(x, most));
  return palette_sign(c, most > 0 ? x / most : 0);
}

/* The value at a place of the bar, 0 to 1. */
static double scale_at(page_scale scale, double place, double most) {
  if (scale == SCALE_WEIGHT) return place * place * most;
  double t = 2 * place - 1;
  return (scale == SCALE_EVEN ? t : t * fabs(t)) * most;
}

void page_legend_scale(page *p, page_scale scale, double most, const char *title) {
  double wide = draw_text_width(title, LABEL_SIZE, false);
  double x = legend_place(p, wide + 22 + BAR + 14, CHIP + 14) + wide + 22, y = p->y;
  page_text(p, x - 22, page_middle(y + CHIP / 2.0, LABEL_SIZE), title, LABEL_SIZE, ANCHOR_END,
            p->colours->ink, 0);
  uint8_t cells[BAR * 4];
  for (int i = 0; i < BAR; i++) {
    double value = scale_at(scale, i / (BAR - 1.0), most);
    colour c = page_colour(p->colours, scale, value, most);
    memcpy(cells + 4 * i, &c, 4);
  }
  draw_image(p->to, x, y, BAR, CHIP, cells, 1, BAR);
  draw_frame(p->to, x - 0.5, y - 0.5, BAR + 1, CHIP + 1, 0, 1, p->colours->grid);
  for (int i = 0; i < TICKS; i++) {
    char text[24];
    double at = i / (TICKS - 1.0);
    page_text(p, x + at * BAR, y + CHIP + 13, page_number(scale_at(scale, at, most), text),
              SMALL_SIZE, ANCHOR_MIDDLE, p->colours->faint, 0);
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
