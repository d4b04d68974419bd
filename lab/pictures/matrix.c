/* A head's matrix of weights as a heat map.
 *
 *   title, caption
 *          names of the keys
 *   names  [ cells              ]  entropy of each row
 *   the scale, and what is not seen and why
 */
#include <math.h>
#include <stddef.h>

#include "pictures/map.h"

enum { ENTROPY_WIDTH = 84, TALLEST = 1600 };

static void draw_entropy(const picture_matrix_data *d, page *p, const map *m, double x, double y) {
  double most = map_most(d->entropy, d->height, 1), bar = ENTROPY_WIDTH - 34;
  int rows = d->height / m->pooled;
  double pitch = m->h / rows;
  char text[24];
  page_text(p, x, y + m->h + 14, "entropy", SMALL_SIZE, ANCHOR_START, p->colours->faint, 0);
  for (int i = 0; i < rows; i++) {
    double e = (double)d->entropy[i * m->pooled];
    double h = fmax(fmin(pitch - (pitch > 4 ? 2 : 0), 14), 1);
    double middle = y + map_along(i, rows, m->h);
    double w = most > 0 ? e / most * bar : 0;
    draw_rect(p->to, x, middle - h / 2, fmax(w, 1), h, h > 6 ? 2 : 0,
              colour_mix(p->colours->faint, p->colours->background, 0.55));
    if (pitch >= 13)
      page_text(p, x + fmax(w, 1) + 5, page_middle(middle, SMALL_SIZE), page_number(e, text),
                SMALL_SIZE, ANCHOR_START, p->colours->faint, 0);
  }
}

static map map_of(const picture_matrix_data *d) {
  return (map){.rows = d->rows,
               .keys = d->keys,
               .height = d->height,
               .width = d->width,
               .cells = d->cells,
               .mask = d->mask,
               .scale = d->is_signed ? SCALE_SIGN : SCALE_WEIGHT,
               .most = d->most > 0 ? d->most : map_most(d->cells, d->height, d->width),
               .token = d->token,
               .key = d->key,
               .names_left = true,
               .names_top = true};
}

const char *picture_matrix(const picture_matrix_data *d, const picture_look *look, drawing *out) {
  *out = (drawing){0};
  if (d->height < 1 || d->width < 1 || d->rows.count < 1 || d->keys.count < 1)
    return "there are no tokens to draw the weights of";
  page p;
  char place[PAGE_WORDS], attention[PAGE_WORDS];
  map m = map_of(d);
  double beside = d->entropy ? ENTROPY_WIDTH + 18 : 0;
  double largest = fmin(fmax(560.0 / d->width, 44), 72);
  map_fit(&m, page_room(look) - beside, TALLEST, largest);
  double over = fmax(m.over, beside);
  page_start(&p, out, look, m.left + m.w + over, "%s", page_place(&d->about, place));
  page_say(&p,
           "Where each token (row) looks: the weights of %s on the tokens in "
           "the columns.",
           page_attention(&d->about, attention));
  page_notice(&p, &d->about);
  p.y += m.top;
  map_draw(&m, &p, p.left + m.left, p.y);
  if (d->entropy) draw_entropy(d, &p, &m, p.left + m.left + m.w + 18, p.y);
  p.y += m.h + 4;
  page_legend_scale(&p, m.scale, m.most, "weight");
  map_legend_masks(&p, d->mask, d->height, d->width);
  page_legend_end(&p);
  page_end(&p);
  return NULL;
}
