/* Long series in few points.
 *
 * Values that follow each other in the same column of pixels become at most four:
 * the first, the least, the most and the last of them, in their order. What is
 * drawn covers the same pixels. A gap within a column is narrower than a pixel
 * and is not kept; one between columns is.
 */
#include <math.h>

#include "plot/plot.h"

typedef struct {
  spot first, least, most, last;
  size_t least_at, most_at, count;
  long column;
} column;

static spot spot_at(const curve *c, size_t i) {
  double x = c->x ? c->x[i] : (double)i;
  return (spot){panel_x(c->on, x), panel_y(c->on, c->y[i]), false};
}

static void open_column(column *now, spot s, long at) { *now = (column){s, s, s, s, 0, 0, 1, at}; }

static void add_to_column(column *now, spot s) {
  if (s.y < now->least.y) now->least = s, now->least_at = now->count;
  if (s.y > now->most.y) now->most = s, now->most_at = now->count;
  now->last = s;
  now->count++;
}

static size_t close_column(const column *now, spot *to) {
  size_t n = 0;
  bool falls = now->most_at < now->least_at;
  size_t at[2] = {falls ? now->most_at : now->least_at, falls ? now->least_at : now->most_at};
  spot two[2] = {falls ? now->most : now->least, falls ? now->least : now->most};
  if (!now->count) return 0;
  to[n++] = now->first;
  for (int i = 0; i < 2; i++)
    if (at[i] > (i ? at[0] : 0) && at[i] + 1 < now->count) {
      two[i].gap = false;
      to[n++] = two[i];
    }
  if (now->count > 1) {
    to[n] = now->last;
    to[n++].gap = false;
  }
  return n;
}

/* The sizes of columns are whole pixels, or nothing for short series. */
static size_t thin(const curve *c, double size, spot *to) {
  column now = {0};
  size_t n = 0;
  bool gap = true;
  for (size_t i = 0; i < c->count; i++) {
    spot s = spot_at(c, i);
    if (isnan(s.x) || isnan(s.y)) {
      gap = true;
      continue;
    }
    long at = size > 0 ? (long)floor(fmax(-1e6, fmin(s.x, 1e6)) / size) : (long)i;
    s.gap = gap;
    if (now.count && at == now.column) {
      add_to_column(&now, s);
    } else {
      n += close_column(&now, to + n);
      open_column(&now, s, at);
    }
    gap = false;
  }
  return n + close_column(&now, to + n);
}

attend_status curve_spots(attend_context *ctx, const curve *c, spot **spots, size_t *count) {
  bool is_long = (double)c->count > 4 * c->on->area.w;
  size_t bytes = size_times(c->count, sizeof **spots);
  *count = 0;
  ATTEND_TRY(take(ctx, bytes, "the points of a plot", spots));
  *count = thin(c, is_long ? 1 : 0, *spots);
  return ATTEND_OK;
}
