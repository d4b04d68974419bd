/* A prediction: probabilities with changes and without, scores of tokens, maps of a sweep, of
 * contributions or of the logit lens, and the numbers that they add up to.
 */
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "pictures/page.h"

enum { NAME = 120, NUMBERS = 132, PITCH = 30, LINE = 22, VALUE = 400, LEAST = 640 };

/* ---- probabilities ----------------------------------------------------------------------- */

static void percent(double p, char to[16]) {
  snprintf(to, 16, p > 0 && p < 0.001 ? "<0.1 %%" : p < 0.1 ? "%.1f %%" : "%.0f %%", p * 100);
}

/* The upper bar: with changes. */
static void shift_row(const picture_shift *s, page *p, double max) {
  char before[16], with[16];
  const double middle = p->y + PITCH / 2.0, base = page_middle(middle, LABEL_SIZE);
  const double x = p->left + NAME + NUMBERS + 14, wide = fmin(p->right - x, 420);
  percent(s->before, before);
  percent(s->p, with);
  page_text(p, p->left, base, s->label, TEXT_SIZE, ANCHOR_START, p->colours->ink, NAME - 8);
  page_text(p, p->left + NAME + 44, base, before, LABEL_SIZE, ANCHOR_END, p->colours->faint, 0);
  page_text(p, p->left + NAME + NUMBERS, base, with, LABEL_SIZE, ANCHOR_END, p->colours->ink, 0);
  draw_rect(p->to, x, middle - 9, fmax(s->p / max * wide, 1), 8, 2, p->colours->weight[5]);
  draw_frame(p->to, x + 0.5, middle + 1.5, fmax(s->before / max * wide, 1), 7, 2, 1.2,
             p->colours->faint);
  p->y += PITCH;
}

static void shifts(const picture_prediction_data *d, page *p) {
  double max = 1e-9;
  for (int i = 0; i < d->shifts; i++) max = fmax(max, fmax(d->shift[i].p, d->shift[i].before));
  p->y += 8;
  page_small(p, p->left, p->y, "token", ANCHOR_START);
  page_small(p, p->left + NAME + 44, p->y, "without", ANCHOR_END);
  page_small(p, p->left + NAME + NUMBERS, p->y, "with changes", ANCHOR_END);
  p->y += 6;
  for (int i = 0; i < d->shifts; i++) shift_row(&d->shift[i], p, max);
}

/* ---- numbers -------------------------------------------------------------------------------- */

static void number_at(page *p, double x, double value, bool with_plus) {
  char text[32];
  snprintf(text, sizeof text, "%s%.3f", value < 0 ? "−" : with_plus ? "+" : "", fabs(value));
  page_text(p, x, p->y, text, LABEL_SIZE, ANCHOR_END, p->colours->ink, 0);
}

static bool has_before(const picture_prediction_data *d) {
  bool any = false;
  for (int i = 0; i < d->facts; i++) any |= !isnan(d->fact[i].before);
  return any;
}

static void facts(const picture_prediction_data *d, page *p) {
  const double x = p->left + VALUE;
  const bool compared = has_before(d);
  p->y += LINE;
  if (compared) {
    page_small(p, x, p->y, "without", ANCHOR_END);
    page_small(p, x + 90, p->y, "with changes", ANCHOR_END);
    page_small(p, x + 170, p->y, "difference", ANCHOR_END);
    p->y += LINE;
  }
  for (int i = 0; i < d->facts; i++, p->y += LINE) {
    const picture_fact *f = &d->fact[i];
    page_text(p, p->left, p->y, f->name, LABEL_SIZE, ANCHOR_START, p->colours->ink, VALUE - 80);
    number_at(p, x + (compared ? 90 : 0), f->value, false);
    if (isnan(f->before)) continue;
    number_at(p, x, f->before, false);
    number_at(p, x + 170, f->value - f->before, true);
  }
}

/* ---- the picture ------------------------------------------------------------------------------ */

static double width_of(const picture_prediction_data *d, double available) {
  double wide = LEAST;
  if (d->scores) wide = fmax(wide, page_scores_width(d->scores, available));
  for (int i = 0; i < d->maps; i++) wide = fmax(wide, page_map_width(&d->map[i], available));
  return wide;
}

static void draw_map_of(const picture_map_data *d, page *p) {
  if (d->title) {
    p->y += LINE;
    page_heading(p, p->left, p->y, d->title);
  }
  if (d->caption) page_say(p, "%s", d->caption);
  p->y += LINE;
  page_map(p, d);
}

const char *picture_prediction(const picture_prediction_data *d, const picture_look *look,
                               drawing *out) {
  *out = (drawing){0};
  page p;
  page_start(&p, out, look, width_of(d, page_available(look)), "%s", d->title);
  page_say(&p, "%s", d->caption);
  page_notice(&p, &d->about);
  if (d->shifts) shifts(d, &p);
  if (d->scores) page_scores(&p, d->scores);
  for (int i = 0; i < d->maps; i++) draw_map_of(&d->map[i], &p);
  if (d->facts) facts(d, &p);
  page_end(&p);
  return NULL;
}
