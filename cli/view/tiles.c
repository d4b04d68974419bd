/* Tiles of a head's matrix, at any level of detail.
 *
 * Behind view_answer.h: tile and refine.
 *
 * A tile that would take long is made of some of its rows and says so; refine
 * computes it whole and keeps it, so that asking again is quick.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "view/core.h"

enum { SIDE = 256, MOST_LEVEL = 16 };

/* Pairs that a tile may compute. */
static const double QUICK = 4e7;

typedef struct {
  view_run *run, *minus;
  attend_head_id at;
  attend_lens_shape s;
  attend_lens *lens, *other; /* other NULL: no difference */
  attend_area area;
  int level, x, y;
  bool exact;
  int looked;
  char key[400];
} tile_job;

static int least(int64_t a, int64_t b) { return (int)(a < b ? a : b); }

static bool place_tile(asking *a, tile_job *t) {
  int64_t cell = (int64_t)1 << t->level, side = SIDE * cell;
  int64_t row = t->y * side, key = t->x * side;
  if (row >= t->s.rows || key >= t->s.keys)
    return ask_fail(a, 400, "tile (%d, %d) of level %d lies outside", t->x,
                    t->y, t->level);
  t->area.row = (int)row;
  t->area.key = (int)key;
  t->area.rows = least(side, t->s.rows - row);
  t->area.keys = least(side, t->s.keys - key);
  t->area.height = (int)((t->area.rows + cell - 1) / cell);
  t->area.width = (int)((t->area.keys + cell - 1) / cell);
  return true;
}

static bool read_minus(asking *a, tile_job *t) {
  const attend_json *minus = attend_json_get(a->q, "minus");
  if (attend_json_kind_of(minus) != ATTEND_JSON_OBJECT) return true;
  return ask_run(a, minus, &t->minus) &&
         ask_lens(a, minus, t->minus, &t->other);
}

static bool read_tile(asking *a, tile_job *t) {
  const char *pool;
  if (!ask_run(a, a->q, &t->run) || !ask_place(a, t->run, &t->at, &t->s) ||
      !ask_lens(a, a->q, t->run, &t->lens) || !read_minus(a, t) ||
      !ask_integer(a, "level", 0, MOST_LEVEL, 0, &t->level) ||
      !ask_integer(a, "x", 0, VIEW_LONGEST, 0, &t->x) ||
      !ask_integer(a, "y", 0, VIEW_LONGEST, 0, &t->y) ||
      !ask_text(a, "pool", "max", &pool))
    return false;
  if (strcmp(pool, "max") && strcmp(pool, "mean"))
    return ask_fail(a, 400, "\"pool\" must be \"max\" or \"mean\"");
  t->area.pool = strcmp(pool, "max") ? ATTEND_POOL_MEAN : ATTEND_POOL_MAX;
  t->exact = attend_json_boolean(attend_json_get(a->q, "exact"), false);
  const char *form =
      attend_json_string(attend_json_get(a->q, "attention"), NULL);
  const attend_json *minus = attend_json_get(a->q, "minus");
  const char *than =
      attend_json_string(attend_json_get(minus, "attention"), NULL);
  snprintf(t->key, sizeof t->key, "%d %d %d %d %d %d %s %.127s %s %.127s",
           t->at.role, t->at.layer, t->at.head, t->level, t->x, t->y, pool,
           form ? form : "", t->minus ? t->minus->id : "", than ? than : "");
  return place_tile(a, t);
}

static const view_tile *kept(const tile_job *t) {
  for (const view_tile *tile = t->run->tiles; tile; tile = tile->next)
    if (!strcmp(tile->key, t->key)) return tile;
  return NULL;
}

static double pairs(const tile_job *t) {
  return (double)t->area.rows * t->area.keys;
}

static void put_facts(attend_json_writer *w, const void *with) {
  const tile_job *t = with;
  bool exact = t->looked >= t->area.rows;
  attend_json_member(w, "exact");
  attend_json_put_boolean(w, exact);
  attend_json_member(w, "rows_each");
  attend_json_put_number(w, (double)t->looked / t->area.height);
}

static bool reply_tile(asking *a, const tile_job *t, const float *cells) {
  bool fine = t->level == 0;
  reply_part part = {"cells",
                     fine ? PART_F16 : PART_U8,
                     2,
                     {t->area.height, t->area.width},
                     cells};
  return reply_parts(a, 1, &part, put_facts, t);
}

bool answer_tile(asking *a) {
  tile_job t = {0};
  if (!read_tile(a, &t)) return false;
  const view_tile *found = kept(&t);
  if (found) {
    t.looked = t.area.rows;
    return reply_tile(a, &t, found->cells);
  }
  t.area.most_pairs = QUICK;
  size_t n = (size_t)t.area.height * (size_t)t.area.width;
  float *cells = need(n, sizeof *cells);
  bool ok = ask_status(a, attend_lens_pool(t.lens, t.at, &t.area, t.other,
                                           cells, &t.looked)) &&
            reply_tile(a, &t, cells);
  free(cells);
  return ok;
}

/* ---- whole ---------------------------------------------------------------------------- */

enum { MOST_KEPT = 256 };

static void keep_tile(const tile_job *t, float *cells) {
  view_tile *tile = need(1, sizeof *tile), **at = &t->run->tiles;
  tile->key = need_copy(t->key);
  tile->cells = cells;
  tile->height = t->area.height;
  tile->width = t->area.width;
  tile->next = *at;
  *at = tile;
  for (int i = 0; *at && i < MOST_KEPT; i++) at = &(*at)->next;
  if (!*at) return;
  tile = *at;
  *at = tile->next;
  free(tile->key);
  free(tile->cells);
  free(tile);
}

/* Others look through the run's own lenses meanwhile: this one is its own. */
static bool own_lens(asking *a, view_run *run, const attend_json *q,
                     attend_lens **lens) {
  const char *name = attend_json_string(attend_json_get(q, "attention"), NULL);
  attend_form form;
  bool other = name && strcmp(name, run->c.attention);
  if (other && !ask_status(a, attend_form_parse(a->v->ctx, name, &form)))
    return false;
  if (!ask_status(
          a, attend_lens_create(run->model, run->trace, other ? &form : NULL,
                                run->side[0].n ? run->side[0].real : 0, lens)))
    return false;
  attend_lens_on_step(*lens, ask_step, a);
  return true;
}

static bool compute_whole(asking *a, tile_job *t) {
  attend_lens *lens = NULL, *other = NULL;
  size_t n = (size_t)t->area.height * (size_t)t->area.width;
  float *cells = need(n, sizeof *cells);
  bool ok = own_lens(a, t->run, a->q, &lens) &&
            (!t->minus ||
             own_lens(a, t->minus, attend_json_get(a->q, "minus"), &other)) &&
            ask_status(a, attend_lens_pool(lens, t->at, &t->area, other, cells,
                                           &t->looked));
  attend_lens_free(lens);
  attend_lens_free(other);
  if (ok)
    keep_tile(t, cells);
  else
    free(cells);
  return ok;
}

bool answer_refine(asking *a) {
  tile_job t = {0};
  if (!read_tile(a, &t)) return false;
  view_weights *of = t.run->weights, *less = t.minus ? t.minus->weights : of;
  of->held++, less->held++;
  bool ok = pairs(&t) <= QUICK || kept(&t) || compute_whole(a, &t);
  of->held--, less->held--;
  if (!ok) return false;
  attend_json_writer w = attend_json_writer_text(a->v->ctx);
  attend_json_open(&w, '{');
  attend_json_close(&w, '}');
  return reply_json(a, &w);
}
