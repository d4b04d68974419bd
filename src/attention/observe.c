/* Looking: weights recomputed from q, k and lse, for what was asked alone.
 *
 * Serves all engines: the tiled ones on views and on states, and linear_observe.c for
 * its tiles. Whole rows are done row by row; statistics walk all tiles once, by stack
 * where the mass of keys is asked for, since it sums over the rows of a head in their
 * order.
 */
#include <math.h>
#include <string.h>

#include "attention/looker.h"
#include "attention/softmax.h"

static bool hard(const call *c) {
  const attend_form *f = &c->plan->desc.form;
  return f->kind == ATTEND_ARGMAX && f->temperature == 0;
}

/* The longest sequence: the width of rows of weights, and of mass. */
static int64_t call_width(const call *c) {
  if (!c->state) return c->plan->desc.kv_len;
  int64_t longest = 0;
  for (int b = 0; b < c->plan->desc.batch; b++)
    longest = max64(longest, call_keys(c, b));
  return longest;
}

/* ---- from scores to weights ------------------------------------------------------ */

/* s <- log2 of the weight. */
static void soften(const call *c, tile g, int j0, int j1, float *s) {
  for (int r = 0; r < g.rows; r++, s += BLOCK) {
    float lse2 = row_lse2(c, g, r);
    for (int j = j0; j < j1; j++) {
      float x = s[j] - lse2; /* lse is rounded: no weight is above 1 */
      s[j] = x > 0.0f ? 0.0f : x;
    }
  }
}

/* s <- log2 of the weight: 0 for the first of the best, -log2(n) for all n of
 * them, lowest where the row sees but does not choose. l counts the best. */
static void harden(const call *c, tile g, int j0, int j1, float *s, float *l,
                   float *given) {
  bool first = c->plan->desc.form.ties == ATTEND_TIES_FIRST;
  for (int r = 0; r < g.rows; r++, s += BLOCK) {
    float best = c->lse_in[row_index(c, g, r)];
    float weight = first ? 0.0f : -log2f(l[r]);
    for (int j = j0; j < j1; j++) {
      if (s[j] == -INFINITY) continue;
      bool chosen = s[j] == best && !(first && given[r] > 0);
      given[r] += chosen;
      s[j] = chosen ? weight : -1e4f;
    }
  }
}

/* s <- the weight, from poly's powers. A denominator of 0 is a row that sees
 * nothing. */
static void divide(const call *c, tile g, const block *k, int j0, int j1,
                   float *s) {
  for (int r = 0; r < g.rows; r++) {
    float den = c->lse_in[row_index(c, g, r)], *row = s + r * BLOCK;
    for (int j = j0; j < j1; j++)
      row[j] = den == 0.0f ? -INFINITY : row[j] / den;
  }
  if (!group_sees(c, g, k, j0, j1)) group_mask(c, g, k, j0, j1, -INFINITY, s);
}

/* From ranks to weights; x and p may be the same. */
static void weights_of(const call *c, const float *x, size_t n, float *p) {
  if (!ranks_are_weights(c->plan)) {
    c->plan->kn->exp2_all(x, n, p);
    return;
  }
  for (size_t i = 0; i < n; i++) p[i] = x[i] == -INFINITY ? 0.0f : x[i];
}

static void count_best(const call *c, tile g, int j0, int j1, const float *s,
                       float *l) {
  for (int r = 0; r < g.rows; r++, s += BLOCK) {
    float best = c->lse_in[row_index(c, g, r)];
    for (int j = j0; j < j1; j++) l[r] += s[j] == best && best > -INFINITY;
  }
}

/* ---- what is written ---------------------------------------------------------------- */

static void row_weights(const call *c, tile g, int r, int slot, int64_t width,
                        int64_t start, int j0, int j1, const float *p) {
  const attend_observation *look = c->look;
  size_t head = (size_t)g.b * (size_t)c->plan->desc.heads +
                (size_t)row_head(c->plan, g.g, g.row + r);
  float *out = look->weights +
               (head * (size_t)look->n_rows + (size_t)slot) * (size_t)width;
  for (int j = j0; j < j1 && start + j < width; j++) out[start + j] = p[j];
}

/* Keeps the list sorted by rank; a later equal goes behind. The list holds
 * ranks until row_finish turns them into weights. */
static void row_top(const call *c, size_t row, int64_t start, int j0, int j1,
                    const float *x) {
  int top = c->look->top;
  int32_t *index = c->look->top_index + row * (size_t)top;
  float *best = c->look->top_weight + row * (size_t)top;
  for (int j = j0; j < j1; j++) {
    if (!(x[j] > -INFINITY)) continue;
    if (index[top - 1] >= 0 && !(x[j] > best[top - 1])) continue;
    int at = top - 1;
    for (; at > 0 && (index[at - 1] < 0 || x[j] > best[at - 1]); at--) {
      index[at] = index[at - 1];
      best[at] = best[at - 1];
    }
    index[at] = (int32_t)(start + j);
    best[at] = x[j];
  }
}

/* -sum p ln p over p > 0, on top of what earlier blocks gave. */
static void row_entropy(const call *c, float *sum, int j0, int j1,
                        const float *x, const float *p) {
  double more = 0;
  bool logs = !ranks_are_weights(c->plan);
  for (int j = j0; j < j1; j++)
    if (p[j] > 0.0f)
      more -= (double)p[j] * (logs ? (double)x[j] : log2((double)p[j]));
  *sum = (float)((double)*sum + more * LN2);
}

static void row_mass(const call *c, tile g, int r, int64_t width, int64_t start,
                     int j0, int j1, const float *p) {
  size_t head = (size_t)g.b * (size_t)c->plan->desc.heads +
                (size_t)row_head(c->plan, g.g, g.row + r);
  float *out = c->look->mass + head * (size_t)width + start;
  for (int j = j0; j < j1 && start + j < width; j++) out[j] += p[j];
}

static void row_each(const call *c, tile g, int r, sink to, int64_t start,
                     int j0, int j1, const float *p) {
  const attend_observation *look = c->look;
  int64_t from = max64(start + j0, look->key_from);
  int64_t end = min64(start + j1, to.width); /* a block may be longer */
  if (look->key_to) end = min64(end, look->key_to);
  int row = (g.row + r) / c->plan->group;
  if (from >= end) return;
  attend_weight_span s = {g.b,
                          row_head(c->plan, g.g, g.row + r),
                          row,
                          look->n_rows ? to.first + row : row,
                          (int)from,
                          (int)(end - from),
                          p + (from - start)};
  look->each(&s, look->user);
}

void look_write(const call *c, tile g, int r, sink to, int64_t start, int j0,
                int j1, const float *x) {
  const attend_observation *look = c->look;
  float p[BLOCK];
  weights_of(c, x + j0, (size_t)(j1 - j0), p + j0);
  if (to.slot == TO_EACH) {
    row_each(c, g, r, to, start, j0, j1, p);
    return;
  }
  if (to.slot >= 0) {
    row_weights(c, g, r, to.slot, to.width, start, j0, j1, p);
    return;
  }
  size_t row = row_index(c, g, r);
  if (look->top) row_top(c, row, start, j0, j1, x);
  if (look->entropy) row_entropy(c, look->entropy + row, j0, j1, x, p);
  if (look->mass) row_mass(c, g, r, to.width, start, j0, j1, p);
}

static void row_begin(const call *c, size_t row) {
  const attend_observation *look = c->look;
  for (int i = 0; i < look->top; i++) {
    look->top_index[row * (size_t)look->top + (size_t)i] = -1;
    look->top_weight[row * (size_t)look->top + (size_t)i] = -INFINITY;
  }
  if (look->entropy) look->entropy[row] = 0.0f;
  if (look->softmax_gap) look->softmax_gap[row] = 0.0f;
}

static void row_finish(const call *c, size_t row) {
  size_t top = (size_t)c->look->top;
  float *best = c->look->top_weight + row * top;
  if (top) weights_of(c, best, top, best);
}

/* ---- the walk ------------------------------------------------------------------------- */

static void group_count(const visit *v, void *with) {
  (void)with;
  count_best(v->c, v->g, v->j0, v->j1, v->w->s, v->w->l + v->at);
}

static void group_look(const visit *v, void *with) {
  const sink *to = with;
  scratch *w = v->w;
  if (hard(v->c))
    harden(v->c, v->g, v->j0, v->j1, w->s, w->l + v->at, w->m + v->at);
  else if (is_poly(v->c->plan))
    divide(v->c, v->g, &w->keys, v->j0, v->j1, w->s);
  else
    soften(v->c, v->g, v->j0, v->j1, w->s);
  for (int r = 0; r < v->g.rows; r++)
    look_write(v->c, v->g, r, *to, w->keys.start, v->j0, v->j1,
               w->s + r * BLOCK);
}

static void tiled_open(const attend_plan *p, int thread, looker_room *room) {
  scratch_open(p, thread, &room->tiled);
}

static void tiled_tile(const call *c, tile t, sink to, looker_room *room) {
  scratch *w = &room->tiled;
  tile_begin(c, t, w);
  for (int i = 0; i < t.rows; i++) w->l[i] = w->m[i] = 0.0f;
  if (hard(c)) tile_visit(c, t, w, group_count, NULL);
  tile_visit(c, t, w, group_look, &to);
}

typedef struct {
  call c;
  int64_t width; /* of a row of weights */
  const looker *by;
} observation;

static void look_tile(const observation *x, tile t, sink to, looker_room *w) {
  const call *c = &x->c;
  bool statistics = to.slot == TO_STATISTICS;
  if (statistics)
    for (int i = 0; i < t.rows; i++) row_begin(c, row_index(c, t, i));
  x->by->tile(c, t, to, w);
  if (statistics)
    for (int i = 0; i < t.rows; i++) row_finish(c, row_index(c, t, i));
}

/* Rows [row, row + rows) of a stack, in tiles that fit the workspace. */
static void look_rows(const observation *x, int b, int g, int row, int rows,
                      sink to, looker_room *w) {
  int step = x->c.plan->tile;
  for (int i = 0; i < rows; i += step) {
    int n = (int)min64(step, rows - i);
    look_tile(x, (tile){b, g, row + i, n}, to, w);
  }
}

static void look_stack(const observation *x, int stack, looker_room *w) {
  const call *c = &x->c;
  const attend_plan *p = c->plan;
  int b = stack / p->desc.kv_heads, g = stack % p->desc.kv_heads;
  for (int i = 0; c->look->weights && i < c->look->n_rows; i++)
    look_rows(x, b, g, c->look->rows[i] * p->group, p->group,
              (sink){i, x->width, 0}, w);
  if (c->look->mass)
    look_rows(x, b, g, 0, c->n * p->group, (sink){TO_STATISTICS, x->width, 0},
              w);
}

/* ---- every weight once ------------------------------------------------------------------ */

static int each_rows(const call *c) {
  return c->look->n_rows ? c->look->n_rows : c->n;
}
/* Rows of a query's heads that a tile takes, in queries. */
static int each_step(const call *c) {
  int step = c->plan->tile / c->plan->group;
  return step > 0 ? step : 1;
}
static int64_t each_items(const call *c) {
  int64_t steps = (each_rows(c) + each_step(c) - 1) / each_step(c);
  return steps * c->plan->desc.batch * c->plan->desc.kv_heads;
}

/* Rows [from, end) of what is asked for; those that follow each other go
 * together. */
static void look_each_rows(const observation *x, int b, int g, int from,
                           int end, looker_room *w) {
  const attend_observation *look = x->c.look;
  const int32_t *rows = look->n_rows ? look->rows : NULL;
  int group = x->c.plan->group;
  for (int i = from, j; i < end; i = j) {
    for (j = i + 1; j < end; j++)
      if (rows && rows[j] != rows[j - 1] + 1) break;
    int row = rows ? rows[i] : i;
    look_rows(x, b, g, row * group, (j - i) * group,
              (sink){TO_EACH, x->width, i - row}, w);
  }
}

static void look_each(const observation *x, int64_t item, looker_room *w) {
  const call *c = &x->c;
  const attend_desc *d = &c->plan->desc;
  int64_t stacks = (int64_t)d->batch * d->kv_heads, stack = item % stacks;
  int from = (int)(item / stacks) * each_step(c);
  int end = (int)min64(from + each_step(c), each_rows(c));
  look_each_rows(x, (int)(stack / d->kv_heads), (int)(stack % d->kv_heads),
                 from, end, w);
}

attend_status check_look_rows(const call *c) {
  const attend_observation *look = c->look;
  attend_context *ctx = c->plan->ctx;
  ATTEND_CHECK(ctx, look->n_rows >= 0 && look->top >= 0,
               "%d rows and top %d were asked for: neither may be negative",
               look->n_rows, look->top);
  ATTEND_CHECK(ctx,
               !look->n_rows || (look->rows && !look->weights != !look->each),
               "rows were asked for: give rows, and one of weights and each");
  ATTEND_CHECK(
      ctx,
      look->key_from >= 0 && (!look->key_to || look->key_to > look->key_from),
      "keys %lld to %lld were asked for: the end must come after the "
      "beginning",
      (long long)look->key_from, (long long)look->key_to);
  for (int i = 0; i < look->n_rows; i++)
    ATTEND_CHECK(ctx, look->rows[i] >= 0 && look->rows[i] < c->n,
                 "row %d was asked for, but queries are numbered 0 to %d",
                 (int)look->rows[i], c->n - 1);
  return ATTEND_OK;
}

static attend_status check(const call *c) {
  const attend_observation *look = c->look;
  attend_context *ctx = c->plan->ctx;
  ATTEND_CHECK(ctx, look, "look is NULL: say what is to be looked at");
  ATTEND_TRY(check_look_rows(c));
  ATTEND_CHECK(ctx, !look->top || (look->top_index && look->top_weight),
               "the heaviest keys were asked for, but top_index or top_weight "
               "is NULL");
  ATTEND_CHECK(ctx,
               !look->softmax_gap || c->plan->engine->by_sums ||
                   c->plan->desc.form.kind == ATTEND_SOFTMAX,
               "the gap to softmax is known for softmax (0) and on the linear "
               "engine: leave softmax_gap NULL, or choose that engine");
  return ATTEND_OK;
}

static void stack_item(const void *args, int64_t i, int worker) {
  const observation *x = args;
  looker_room w;
  x->by->open(x->c.plan, worker, &w);
  look_stack(x, (int)i, &w);
  x->c.plan->fast->end();
}

static void tile_item(const void *args, int64_t i, int worker) {
  const observation *x = args;
  looker_room w;
  x->by->open(x->c.plan, worker, &w);
  look_tile(x, call_tile(&x->c, i), (sink){TO_STATISTICS, x->width, 0}, &w);
  x->c.plan->fast->end();
}

static void each_item(const void *args, int64_t i, int worker) {
  const observation *x = args;
  looker_room w;
  x->by->open(x->c.plan, worker, &w);
  look_each(x, i, &w);
  x->c.plan->fast->end();
}

attend_status look_at(call *c, const looker *by) {
  ATTEND_TRY(check(c));
  attend_plan *p = c->plan;
  const attend_observation *look = c->look;
  int64_t width = call_width(c), heads = (int64_t)p->desc.batch * p->desc.heads;
  int stacks = p->desc.batch * p->desc.kv_heads;
  bool by_tile =
      (look->top || look->entropy || look->softmax_gap) && !look->mass;
  call_begin(c);
  if (look->weights)
    memset(look->weights, 0,
           (size_t)(heads * look->n_rows * width) * sizeof(float));
  if (look->mass)
    memset(look->mass, 0, (size_t)(heads * width) * sizeof(float));
  observation x = {*c, width, by};
  stream_enter(plan_stream(p));
  STREAM_ADD(plan_stream(p), stacks, stack_item, x);
  if (by_tile) STREAM_ADD(plan_stream(p), call_tiles(c), tile_item, x);
  if (look->each) {
    x.c.key_from = look->key_from;
    x.c.key_to = hard(c) ? 0 : look->key_to; /* ties are counted in a row */
    STREAM_ADD(plan_stream(p), each_items(c), each_item, x);
  }
  stream_leave(plan_stream(p));
  return ATTEND_OK;
}

attend_status observe_tiled(call *c) {
  static const looker by_tiles = {tiled_open, tiled_tile};
  return look_at(c, &by_tiles);
}
