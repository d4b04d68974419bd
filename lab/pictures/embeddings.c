/* Tokens as vectors: how alike they are; and positions as sines and cosines.
 *
 * Positions have three fields: the table itself, and the matrix M that moves
 * every position on by one.
 */
#include <math.h>
#include <stddef.h>
#include <stdio.h>

#include "pictures/page.h"

enum { GAP = 40, LARGEST = 44 };

static map numbers_map(const float *cells, int height, int width) {
  return map_of_cells((picture_tokens){NULL, height}, (picture_tokens){NULL, width}, cells, height,
                      width, SCALE_EVEN, 1);
}

/* Of a map and the words above it. */
static double map_width(const map *m) { return fmax(m->left + m->w + m->over, 270); }

static void titled(page *p, const map *m, double x, double y, const char *title,
                   const char *about) {
  double max = map_width(m);
  page_bold(p, x, y + 12, title, LABEL_SIZE, ANCHOR_START, p->colours->ink, max);
  page_text(p, x, y + 27, about, SMALL_SIZE, ANCHOR_START, p->colours->faint, max);
  map_draw(m, p, x + m->left, y + 36 + m->top);
}

static double titled_height(const map *m) { return 36 + m->top + m->h; }

/* ---- positions ------------------------------------------------------------------------ */

typedef struct {
  map table, shift;
  bool beside; /* there is space for both in a row */
} pair;

static pair pair_of(const picture_embeddings_data *d, double available) {
  pair two = {.table = numbers_map(d->table, d->count, d->dim),
              .shift = numbers_map(d->shift, d->dim, d->dim),
              .beside = d->shift && available >= 640};
  double each = two.beside ? (available - GAP) / 2 : available;
  map_fit(&two.table, each, 620, 9);
  if (d->shift) map_fit(&two.shift, each, 620, 9);
  return two;
}

static double pair_width(const picture_embeddings_data *d, const pair *two) {
  double a = map_width(&two->table);
  double b = d->shift ? map_width(&two->shift) : 0;
  return two->beside ? a + GAP + b : fmax(a, b);
}

static void positions(const picture_embeddings_data *d, page *p, const pair *two) {
  char about[96] = "p(t+1) = M p(t) for every t", number[24];
  if (!isnan(d->shift_error))
    snprintf(about, sizeof about, "p(t+1) = M p(t) for every t, to %s",
             page_number(d->shift_error, number));
  titled(p, &two->table, p->left, p->y, "sinusoidal positions",
         "a row is a position, a column one of its numbers");
  double down = titled_height(&two->table), x = p->left;
  if (two->beside)
    x += map_width(&two->table) + GAP;
  else
    p->y += down + 24;
  if (d->shift) {
    titled(p, &two->shift, x, p->y, "M moves a position on by one", about);
    double other = titled_height(&two->shift);
    down = two->beside ? fmax(down, other) : other;
  }
  p->y += down;
}

/* ---- the picture ------------------------------------------------------------------------ */

static void start(const picture_embeddings_data *d, const picture_look *look, drawing *out, page *p,
                  double content) {
  const char *model = d->about.model ? d->about.model : "a model";
  char layer[16];
  if (!d->cosine) {
    page_start(p, out, look, content, "positions as vectors");
    page_say(p, "Positions as sines and cosines of many wavelengths.");
  } else {
    page_start(p, out, look, content, "%s: tokens %s before layer %d", model,
               d->word ? "of two texts" : "as vectors", d->about.layer);
    snprintf(layer, sizeof layer, "%d", d->about.layer);
    page_caption(p, d->word ? "embeddings.between" : "embeddings", &d->about,
                 (picture_facts){.layer = layer});
  }
  page_notice(p, &d->about);
}

const char *picture_embeddings(const picture_embeddings_data *d, const picture_look *look,
                               drawing *out) {
  *out = (drawing){0};
  bool tokens = d->cosine && d->height > 0 && d->width > 0;
  bool places = d->table && d->count > 0 && d->dim > 0;
  if (!tokens && !places && !d->word) return "there are no vectors to draw";
  page p;
  double available = page_available(look), content = 0;
  map m = {0};
  pair two = {0};
  if (tokens) {
    m = map_of_cells(d->rows, d->keys, d->cosine, d->height, d->width, SCALE_EVEN, 1);
    map_fit(&m, available, 1400, LARGEST);
    content = map_width(&m);
  }
  if (places) {
    two = pair_of(d, available);
    content = fmax(content, pair_width(d, &two));
  }
  start(d, look, out, &p, d->word ? fmax(content, 680) : content);
  if (tokens) {
    map_draw(&m, &p, p.left + m.left, p.y + m.top);
    p.y += m.top + m.h + (places ? 32 : 4);
  }
  if (places) positions(d, &p, &two);
  if (tokens || places)
    page_legend_scale(&p, SCALE_EVEN, 1, !places ? "cosine" : tokens ? "cosine, number" : "number");
  page_legend_end(&p);
  if (d->word) page_word(&p, d->word);
  page_end(&p);
  return NULL;
}
