/* Tokens as they were chosen: how likely each was, and what else there was.
 */
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pictures/page.h"

enum { NUMBER = 30, TOKEN = 130, BAR = 150, CHART = 96 };

typedef struct {
  const picture_generate_data *d;
  double x_token, x_bar, x_chips, pitch;
} list;

/* ---- steps ---------------------------------------------------------------------------- */

static double chip(const list *l, page *p, const picture_candidate *c, bool chosen, double x,
                   double y) {
  char text[16];
  double h = l->pitch - 6, gap = 5;
  snprintf(text, sizeof text, c->p < 0.01 ? "<1 %%" : "%.0f %%", c->p * 100);
  double name = fmin(draw_text_width(c->text, LABEL_SIZE, chosen), 90);
  double number = draw_text_width(text, SMALL_SIZE, false);
  double wide = name + number + 3 * gap + 5, middle = y + l->pitch / 2;
  if (x + wide > p->right) return 0;
  draw_rect(p->to, x, middle - h / 2, wide, h, 5, p->colours->panel);
  draw_rect(p->to, x, middle + h / 2 - 2.5, wide * fmin(c->p, 1), 2.5, 1,
            p->colours->weight[chosen ? 5 : 3]);
  (chosen ? page_bold : page_text)(p, x + gap + 2, page_middle(middle, LABEL_SIZE) - 0.5, c->text,
                                   LABEL_SIZE, ANCHOR_START, p->colours->ink, 90);
  page_small(p, x + wide - gap - 1, page_middle(middle, SMALL_SIZE) - 0.5, text, ANCHOR_END);
  return wide + 8;
}

static void bar(const list *l, page *p, double probability, double y) {
  char text[24];
  double h = fmin(l->pitch - 10, 12), middle = y + l->pitch / 2;
  if (isnan(probability)) return;
  double full = BAR - 52, wide = fmax(probability * full, 1);
  draw_rect(p->to, l->x_bar, middle - h / 2, full, h, 2, p->colours->panel);
  draw_rect(p->to, l->x_bar, middle - h / 2, wide, h, 2, p->colours->weight[5]);
  snprintf(text, sizeof text, "%.1f %%", probability * 100);
  page_small(p, l->x_bar + full + 7, page_middle(middle, SMALL_SIZE), text, ANCHOR_START);
}

static void step(const list *l, page *p, int i) {
  const picture_step *s = &l->d->steps[i];
  char number[16];
  double y = p->y + i * l->pitch, x = l->x_chips, wide = 1;
  double middle = y + l->pitch / 2;
  snprintf(number, sizeof number, "%d", i + 1);
  page_small(p, p->left + NUMBER - 12, page_middle(middle, SMALL_SIZE), number, ANCHOR_END);
  page_bold(p, l->x_token, page_middle(middle, TEXT_SIZE), s->text, TEXT_SIZE, ANCHOR_START,
            p->colours->ink, TOKEN - 12);
  bar(l, p, s->p, y);
  for (int c = 0; c < s->candidate_count && wide > 0; c++) {
    bool chosen = !strcmp(s->candidates[c].text, s->text);
    if (!chosen && s->candidates[c].p < 0.005) continue;
    wide = chip(l, p, &s->candidates[c], chosen, x, y);
    x += wide;
  }
}

/* ---- the cache ---------------------------------------------------------------------- */

static double most_bytes(const picture_generate_data *d) {
  double max = 0;
  for (int i = 0; i < d->step_count; i++)
    if (d->steps[i].cache_bytes > max) max = d->steps[i].cache_bytes;
  return max;
}

static void bytes_words(double bytes, char *to, size_t size) {
  static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  int unit = 0;
  for (; bytes >= 1024 && unit < 4; unit++) bytes /= 1024;
  snprintf(to, size, "%.*f %s",
           bytes < 10 && unit    ? 2
           : bytes < 100 && unit ? 1
                                 : 0,
           bytes, units[unit]);
}

static void cache(const picture_generate_data *d, page *p) {
  double max = most_bytes(d), h = CHART - 44;
  if (!(max > 0) || d->step_count < 2) return;
  char first[32], last[32];
  double width = fmin(p->right - p->left - 110, 420), *points;
  points = drawing_take(p->to, (size_t)d->step_count * 2, sizeof *points);
  if (!points) return;
  p->y += 30;
  page_heading(p, p->left, p->y, "cache");
  page_small(p, p->left + 48, p->y, "bytes that the model keeps of the text so far", ANCHOR_START);
  double bottom = p->y + 30 + h;
  for (int i = 0; i < d->step_count; i++) {
    points[2 * i] = p->left + i * width / (d->step_count - 1);
    points[2 * i + 1] = bottom - d->steps[i].cache_bytes / max * h;
  }
  draw_line(p->to, p->left, bottom + 0.5, p->left + width, bottom + 0.5, 1, p->colours->grid);
  draw_lines(p->to, points, d->step_count, 2, p->colours->weight[5]);
  double *end = points + 2 * d->step_count - 2;
  draw_circle(p->to, end[0], end[1], 3, p->colours->weight[5]);
  bytes_words(d->steps[0].cache_bytes, first, sizeof first);
  bytes_words(d->steps[d->step_count - 1].cache_bytes, last, sizeof last);
  page_text(p, end[0] + 9, page_middle(end[1], LABEL_SIZE), last, LABEL_SIZE, ANCHOR_START,
            p->colours->ink, 0);
  page_text(p, p->left, points[1] - 8, first, LABEL_SIZE, ANCHOR_START, p->colours->ink, 0);
  p->y = bottom;
  free(points);
}

/* ---- the picture ---------------------------------------------------------------------- */

/* A long prompt's last words. */
static const char *prompt_end(const char *prompt) {
  enum { MOST = 400 };
  size_t length = strlen(prompt);
  const char *end = length > MOST ? prompt + length - MOST : prompt;
  while (end > prompt && *end && *end != ' ') end++;
  return *end ? end + (*end == ' ') : prompt + length - MOST;
}

static void heads_of(const list *l, page *p) {
  static const char *const titles[] = {"token", "probability", "candidates"};
  const double x[] = {l->x_token, l->x_bar, l->x_chips};
  for (int i = 0; i < 3; i++) page_small(p, x[i], p->y, titles[i], ANCHOR_START);
  p->y += 6;
}

const char *picture_generate(const picture_generate_data *d, const picture_look *look,
                             drawing *out) {
  *out = (drawing){0};
  if (d->step_count < 1) return "no token was generated";
  page p;
  page_start(&p, out, look, page_available(look), "%s: %d token%s, one by one",
             d->about.model ? d->about.model : "a model", d->step_count,
             d->step_count == 1 ? "" : "s");
  page_caption(&p, "generate", &d->about, (picture_facts){0});
  page_notice(&p, &d->about);
  if (d->prompt && *d->prompt) {
    p.y -= 8;
    const char *end = prompt_end(d->prompt);
    page_say(&p, "After “%s%s”", end > d->prompt ? "… " : "", end);
    p.y += 26;
  }
  list l = {.d = d, .pitch = d->step_count > 60 ? 22 : 30};
  l.x_token = p.left + NUMBER;
  l.x_bar = l.x_token + TOKEN;
  l.x_chips = l.x_bar + BAR + 10;
  heads_of(&l, &p);
  for (int i = 0; i < d->step_count; i++) step(&l, &p, i);
  p.y += d->step_count * l.pitch;
  cache(d, &p);
  page_end(&p);
  return NULL;
}
