/* Tiles of a head's matrix, at any level of detail.
 *
 * A tile that would take long is computed from some of its rows and says so; refine
 * computes it from all of them and caches it with the run.
 */
#include <stdio.h>

#include "view/session.h"

/* Pairs that a tile may compute. */
static const double QUICK = 4e7;

enum { MOST_CACHED = 256 };

typedef struct {
  view_run *run;
  attend_lens *lens, *other; /* other NULL: no difference */
  attend_area area;
  char key[400];
} tile_job;

static int min(int64_t a, int64_t b) { return (int)(a < b ? a : b); }

static attend_status place_tile(attend_context *ctx, const attend_viewer_place *p,
                                const attend_lens_shape *s, attend_area *area) {
  ATTEND_CHECK(ctx,
               p->level >= 0 && p->level <= ATTEND_VIEWER_LEVELS && p->x >= 0 &&
                   p->x <= ATTEND_VIEWER_LONGEST && p->y >= 0 && p->y <= ATTEND_VIEWER_LONGEST,
               "tile (%d, %d) of level %d lies outside", p->x, p->y, p->level);
  int64_t cell = (int64_t)1 << p->level, side = ATTEND_VIEWER_TILE * cell;
  int64_t row = p->y * side, key = p->x * side;
  ATTEND_CHECK(ctx, row < s->rows && key < s->keys, "tile (%d, %d) of level %d lies outside", p->x,
               p->y, p->level);
  *area = (attend_area){.row = (int)row,
                        .key = (int)key,
                        .rows = min(side, s->rows - row),
                        .keys = min(side, s->keys - key),
                        .pool = p->pool};
  area->height = (int)((area->rows + cell - 1) / cell);
  area->width = (int)((area->keys + cell - 1) / cell);
  return ATTEND_OK;
}

static attend_status read_place(attend_viewer *v, const attend_viewer_place *p, tile_job *t) {
  const attend_head_id at = p->head.at;
  attend_viewer_head minus = {p->minus, at, p->minus_form};
  view_run *other;
  *t = (tile_job){0};
  ATTEND_TRY(head_lens(v, &p->head, true, &t->run, &t->lens));
  if (p->minus) ATTEND_TRY(head_lens(v, &minus, true, &other, &t->other));
  snprintf(t->key, sizeof t->key, "%d %d %d %d %d %d %d %.127s %s %.127s", (int)at.role, at.layer,
           at.head, p->level, p->x, p->y, (int)p->pool, p->head.form ? p->head.form : "",
           p->minus ? p->minus->id : "", p->minus_form ? p->minus_form : "");
  return place_tile(v->ctx, p, &t->run->is.shape[at.role], &t->area);
}

static const exact_tile *cached(const tile_job *t) {
  for (const exact_tile *tile = t->run->tiles; tile; tile = tile->next)
    if (!strcmp(tile->key, t->key)) return tile;
  return NULL;
}

static attend_status fill_tile(tile_job *t, attend_head_id at, float *cells, int *looked) {
  const exact_tile *found = cached(t);
  t->area.most_pairs = QUICK;
  if (!found) return attend_lens_pool(t->lens, at, &t->area, t->other, cells, looked);
  *looked = t->area.rows;
  memcpy(cells, found->cells, (size_t)found->height * (size_t)found->width * sizeof *cells);
  return ATTEND_OK;
}

attend_status attend_viewer_get_tile(attend_viewer *v, const attend_viewer_place *p,
                                     attend_viewer_tile *tile) {
  tile_job t;
  int looked = 0;
  *tile = (attend_viewer_tile){0};
  ATTEND_TRY(read_place(v, p, &t));
  size_t n = (size_t)t.area.height * (size_t)t.area.width;
  ATTEND_TRY(ctx_alloc(v->ctx, n * sizeof *tile->cells, "a tile", &tile->memory));
  attend_status status = fill_tile(&t, p->head.at, tile->memory, &looked);
  if (status) {
    ctx_free(v->ctx, tile->memory);
    tile->memory = NULL;
    return status;
  }
  tile->height = t.area.height, tile->width = t.area.width;
  tile->cells = tile->memory;
  tile->rows_each = (double)looked / t.area.height;
  tile->exact = looked >= t.area.rows;
  return ATTEND_OK;
}

/* ---- from all rows ----------------------------------------------------------------------- */

static void cache_tile(attend_context *ctx, view_run *run, exact_tile *tile) {
  exact_tile **at = &run->tiles;
  tile->next = *at;
  *at = tile;
  for (int i = 0; *at && i < MOST_CACHED; i++) at = &(*at)->next;
  if (!*at) return;
  tile = *at;
  *at = tile->next;
  ctx_free(ctx, tile);
}

static int lens_progress(double done, const char *what, void *user) {
  (void)what;
  return job_progress(user, done, "computing weights");
}

/* Quick calls use the run's own lenses between the steps: this one is new. */
static attend_status own_lens(view_job *j, const attend_viewer_run *run, const char *form,
                              attend_lens **lens) {
  bool other = form && strcmp(form, run->c.attention);
  ATTEND_TRY(lens_open(j->v->ctx, (const view_run *)run, other ? form : NULL, lens));
  attend_lens_set_progress(*lens, lens_progress, j);
  return ATTEND_OK;
}

static attend_status compute_exact(view_job *j, const attend_viewer_place *p, const tile_job *t,
                                   float *cells) {
  attend_lens *lens = NULL, *other = NULL;
  attend_status status = own_lens(j, p->head.run, p->head.form, &lens);
  if (!status && p->minus) status = own_lens(j, p->minus, p->minus_form, &other);
  if (!status) status = attend_lens_pool(lens, p->head.at, &t->area, other, cells, NULL);
  attend_lens_free(lens);
  attend_lens_free(other);
  return status;
}

static attend_status refine(view_job *j, const attend_viewer_place *p, tile_job *t) {
  attend_context *ctx = j->v->ctx;
  exact_tile *tile;
  size_t n = (size_t)t->area.height * (size_t)t->area.width;
  ATTEND_TRY(ctx_alloc(ctx, sizeof *tile + n * sizeof *tile->cells, "a tile", &tile));
  attend_status status = compute_exact(j, p, t, tile->cells);
  if (status) {
    ctx_free(ctx, tile);
    return status;
  }
  memcpy(tile->key, t->key, sizeof tile->key);
  tile->height = t->area.height, tile->width = t->area.width;
  cache_tile(ctx, t->run, tile);
  return ATTEND_OK;
}

attend_status attend_viewer_refine(attend_viewer *v, const attend_viewer_place *p,
                                   const attend_viewer_listener *listener) {
  view_job j;
  tile_job t;
  ATTEND_TRY(job_open(v, listener, &j));
  ATTEND_TRY(read_place(v, p, &t));
  bool quick = (double)t.area.rows * t.area.keys <= QUICK;
  if (quick || cached(&t)) return ATTEND_OK;
  view_run *minus = p->minus ? (view_run *)p->minus : t.run;
  run_hold(t.run, 1), run_hold(minus, 1);
  attend_status status = refine(&j, p, &t);
  run_hold(t.run, -1), run_hold(minus, -1);
  return status;
}
