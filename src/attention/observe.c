/* Observing attention: weights recomputed from q, k and lse for what is requested.
 *
 * Serves the tiled engines, on tensors and on states, and the linear engine. Whole rows
 * go one by one. Statistics iterate over all tiles once; where the mass of keys is
 * requested, by stack, since it sums over the rows of a head in their order.
 *
 * A rank x stands for a weight: -inf where the row does not see the key, otherwise the
 * weight's log2, which orders weights that round to the same float. Where weights may
 * be negative or are not exponentials, the rank is the weight itself.
 */
#include <math.h>
#include <string.h>

#include "attention/linear.h"
#include "attention/state.h"
#include "attention/blocks.h"

enum { TO_STATISTICS = -1, TO_EACH = -2 };

typedef struct {
  int slot; /* of the row in obs->rows, or one of the above */
  int64_t width;
  int first; /* TO_EACH: slot of the tile's first row */
} sink;

static inline bool ranks_are_weights(const attend_plan *p) {
  return is_poly(p) || p->engine->by_sums;
}

/* One thread's scratch. */
typedef union {
  scratch tiled;
  linear_scratch linear;
} observe_scratch;

/* How weights are computed. */
typedef struct {
  void (*open)(const attend_plan *p, int thread, observe_scratch *w);
  /* All keys of the tile's rows, in order. */
  void (*tile)(const call *c, tile t, sink to, observe_scratch *w);
} weight_source;

static bool hard(const call *c) {
  const attend_form *f = &c->plan->desc.form;
  return f->kind == ATTEND_ARGMAX && f->temperature == 0;
}

int64_t call_width(const call *c) {
  if (!c->state) return c->plan->desc.kv_len;
  int64_t longest = 0;
  for (int b = 0; b < c->plan->desc.batch; b++) longest = max64(longest, c->state->length[b]);
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
static void harden(const call *c, tile g, int j0, int j1, float *s, float *l, float *given) {
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

/* s <- the weight, from poly's powers. A denominator of 0 is a row that sees nothing. */
static void divide(const call *c, tile g, const block *k, int j0, int j1, float *s) {
  for (int r = 0; r < g.rows; r++) {
    float den = c->lse_in[row_index(c, g, r)], *row = s + r * BLOCK;
    for (int j = j0; j < j1; j++) row[j] = den == 0.0f ? -INFINITY : row[j] / den;
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

static void count_best(const call *c, tile g, int j0, int j1, const float *s, float *l) {
  for (int r = 0; r < g.rows; r++, s += BLOCK) {
    float best = c->lse_in[row_index(c, g, r)];
    for (int j = j0; j < j1; j++) l[r] += s[j] == best && best > -INFINITY;
  }
}

/* ---- writing results ------------------------------------------------------------- */

static void row_weights(const call *c, tile g, int r, int slot, int64_t width, int64_t start,
                        int j0, int j1, const float *p) {
  const attend_observation *obs = c->obs;
  size_t head =
      (size_t)g.b * (size_t)c->plan->desc.heads + (size_t)row_head(c->plan, g.g, g.row + r);
  float *out = obs->weights + (head * (size_t)obs->n_rows + (size_t)slot) * (size_t)width;
  for (int j = j0; j < j1 && start + j < width; j++) out[start + j] = p[j];
}

/* Keeps the list sorted by rank; a later equal goes behind. The list holds
 * ranks until row_finish turns them into weights. */
static void row_top(const call *c, size_t row, int64_t start, int j0, int j1, const float *x) {
  int top = c->obs->top;
  int32_t *index = c->obs->top_index + row * (size_t)top;
  float *best = c->obs->top_weight + row * (size_t)top;
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
static void row_entropy(const call *c, float *sum, int j0, int j1, const float *x, const float *p) {
  double more = 0;
  bool logs = !ranks_are_weights(c->plan);
  for (int j = j0; j < j1; j++)
    if (p[j] > 0.0f) more -= (double)p[j] * (logs ? (double)x[j] : log2((double)p[j]));
  *sum = (float)((double)*sum + more * LN2);
}

static void row_mass(const call *c, tile g, int r, int64_t width, int64_t start, int j0, int j1,
                     const float *p) {
  size_t head =
      (size_t)g.b * (size_t)c->plan->desc.heads + (size_t)row_head(c->plan, g.g, g.row + r);
  float *out = c->obs->mass + head * (size_t)width + start;
  for (int j = j0; j < j1 && start + j < width; j++) out[j] += p[j];
}

static void row_each(const call *c, tile g, int r, sink to, int64_t start, int j0, int j1,
                     const float *p) {
  const attend_observation *obs = c->obs;
  int64_t from = max64(start + j0, obs->key_from);
  int64_t end = min64(start + j1, to.width); /* a block may be longer */
  if (obs->key_to) end = min64(end, obs->key_to);
  int row = (g.row + r) / c->plan->group;
  if (from >= end) return;
  attend_weight_span s = {g.b,
                          row_head(c->plan, g.g, g.row + r),
                          row,
                          obs->n_rows ? to.first + row : row,
                          (int)from,
                          (int)(end - from),
                          p + (from - start)};
  obs->each(&s, obs->user);
}

static void observe_write(const call *c, tile g, int r, sink to, int64_t start, int j0, int j1,
                          const float *x) {
  const attend_observation *obs = c->obs;
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
  if (obs->top) row_top(c, row, start, j0, j1, x);
  if (obs->entropy) row_entropy(c, obs->entropy + row, j0, j1, x, p);
  if (obs->mass) row_mass(c, g, r, to.width, start, j0, j1, p);
}

static void row_begin(const call *c, size_t row) {
  const attend_observation *obs = c->obs;
  for (int i = 0; i < obs->top; i++) {
    obs->top_index[row * (size_t)obs->top + (size_t)i] = -1;
    obs->top_weight[row * (size_t)obs->top + (size_t)i] = -INFINITY;
  }
  if (obs->entropy) obs->entropy[row] = 0.0f;
  if (obs->softmax_gap) obs->softmax_gap[row] = 0.0f;
}

static void row_finish(const call *c, size_t row) {
  size_t top = (size_t)c->obs->top;
  float *best = c->obs->top_weight + row * top;
  if (top) weights_of(c, best, top, best);
}

/* ---- iterating over rows --------------------------------------------------------- */

static void group_count(const visit *v, void *with) {
  (void)with;
  count_best(v->c, v->g, v->j0, v->j1, v->w->s, v->w->l + v->at);
}

static void group_observe(const visit *v, void *with) {
  const sink *to = with;
  scratch *w = v->w;
  if (hard(v->c))
    harden(v->c, v->g, v->j0, v->j1, w->s, w->l + v->at, w->m + v->at);
  else if (is_poly(v->c->plan))
    divide(v->c, v->g, &w->keys, v->j0, v->j1, w->s);
  else
    soften(v->c, v->g, v->j0, v->j1, w->s);
  for (int r = 0; r < v->g.rows; r++)
    observe_write(v->c, v->g, r, *to, w->keys.start, v->j0, v->j1, w->s + r * BLOCK);
}

static void tiled_open(const attend_plan *p, int thread, observe_scratch *own) {
  scratch_open(p, thread, &own->tiled);
}

static void tiled_weights(const call *c, tile t, sink to, observe_scratch *own) {
  scratch *w = &own->tiled;
  tile_begin(c, t, w);
  for (int i = 0; i < t.rows; i++) w->l[i] = w->m[i] = 0.0f;
  if (hard(c)) tile_visit(c, t, w, group_count, NULL);
  tile_visit(c, t, w, group_observe, &to);
}

typedef struct request request;
struct request {
  call c;
  int64_t width; /* of a row of weights */
  const weight_source *by;
  void (*step)(const request *x, int64_t item, observe_scratch *w); /* of this phase */
};

static void observe_tile(const request *x, tile t, sink to, observe_scratch *w) {
  const call *c = &x->c;
  bool statistics = to.slot == TO_STATISTICS;
  if (statistics)
    for (int i = 0; i < t.rows; i++) row_begin(c, row_index(c, t, i));
  x->by->tile(c, t, to, w);
  if (statistics)
    for (int i = 0; i < t.rows; i++) row_finish(c, row_index(c, t, i));
}

/* Rows [row, row + rows) of a stack, in tiles that fit the workspace. */
static void observe_rows(const request *x, int b, int g, int row, int rows, sink to,
                         observe_scratch *w) {
  int step = x->c.plan->tile;
  for (int i = 0; i < rows; i += step) {
    int n = (int)min64(step, rows - i);
    observe_tile(x, (tile){b, g, row + i, n}, to, w);
  }
}

static void observe_stack(const request *x, int64_t stack, observe_scratch *w) {
  const call *c = &x->c;
  const attend_plan *p = c->plan;
  int b = (int)stack / p->desc.kv_heads, g = (int)stack % p->desc.kv_heads;
  for (int i = 0; c->obs->weights && i < c->obs->n_rows; i++)
    observe_rows(x, b, g, c->obs->rows[i] * p->group, p->group, (sink){i, x->width, 0}, w);
  if (c->obs->mass)
    observe_rows(x, b, g, 0, c->n * p->group, (sink){TO_STATISTICS, x->width, 0}, w);
}

/* ---- every weight once ----------------------------------------------------------- */

static int each_rows(const call *c) { return c->obs->n_rows ? c->obs->n_rows : c->n; }
/* Rows of a query's heads that a tile takes, in queries. */
static int each_step(const call *c) {
  int step = c->plan->tile / c->plan->group;
  return step > 0 ? step : 1;
}
static int64_t each_items(const call *c) {
  int64_t steps = (each_rows(c) + each_step(c) - 1) / each_step(c);
  return steps * c->plan->desc.batch * c->plan->desc.kv_heads;
}

/* Rows [from, end) of the request; those that follow each other go together. */
static void observe_listed_rows(const request *x, int b, int g, int from, int end,
                                observe_scratch *w) {
  const attend_observation *obs = x->c.obs;
  const int32_t *rows = obs->n_rows ? obs->rows : NULL;
  int group = x->c.plan->group;
  for (int i = from, j; i < end; i = j) {
    for (j = i + 1; j < end; j++)
      if (rows && rows[j] != rows[j - 1] + 1) break;
    int row = rows ? rows[i] : i;
    observe_rows(x, b, g, row * group, (j - i) * group, (sink){TO_EACH, x->width, i - row}, w);
  }
}

static void observe_each(const request *x, int64_t item, observe_scratch *w) {
  const call *c = &x->c;
  const attend_desc *d = &c->plan->desc;
  int64_t stacks = (int64_t)d->batch * d->kv_heads, stack = item % stacks;
  int from = (int)(item / stacks) * each_step(c);
  int end = (int)min64(from + each_step(c), each_rows(c));
  observe_listed_rows(x, (int)(stack / d->kv_heads), (int)(stack % d->kv_heads), from, end, w);
}

attend_status check_observation(const call *c, bool knows_gap) {
  const attend_observation *obs = c->obs;
  attend_context *ctx = c->plan->ctx;
  ATTEND_CHECK(ctx, obs, "the observation is NULL: say what to compute");
  ATTEND_CHECK(ctx, obs->n_rows >= 0 && obs->top >= 0,
               "%d rows and top %d were requested: neither may be negative", obs->n_rows, obs->top);
  ATTEND_CHECK(ctx, !obs->n_rows || (obs->rows && !obs->weights != !obs->each),
               "rows were requested: give rows, and one of weights and each");
  ATTEND_CHECK(ctx, obs->key_from >= 0 && (!obs->key_to || obs->key_to > obs->key_from),
               "keys %lld to %lld were requested: the end must come after the beginning",
               (long long)obs->key_from, (long long)obs->key_to);
  for (int i = 0; i < obs->n_rows; i++)
    ATTEND_CHECK(ctx, obs->rows[i] >= 0 && obs->rows[i] < c->n,
                 "row %d was requested, but queries are numbered 0 to %d", (int)obs->rows[i],
                 c->n - 1);
  ATTEND_CHECK(ctx, !obs->top || (obs->top_index && obs->top_weight),
               "the heaviest keys were requested, but top_index or top_weight is NULL");
  ATTEND_CHECK(ctx, !obs->softmax_gap || knows_gap,
               "the gap to softmax is known for softmax (0) and on the linear engine: leave "
               "softmax_gap NULL, or choose that engine");
  return ATTEND_OK;
}

static void observe_statistics(const request *x, int64_t i, observe_scratch *w) {
  observe_tile(x, call_tile(&x->c, i), (sink){TO_STATISTICS, x->width, 0}, w);
}

static void observe_item(const void *args, int64_t i, int worker) {
  const request *x = args;
  observe_scratch w;
  x->by->open(x->c.plan, worker, &w);
  x->step(x, i, &w);
  x->c.plan->fast->end();
}

static attend_status observe_with(call *c, const weight_source *by) {
  attend_plan *p = c->plan;
  const attend_observation *obs = c->obs;
  ATTEND_TRY(check_observation(c, p->engine->by_sums || p->desc.form.kind == ATTEND_SOFTMAX));
  int64_t width = call_width(c), heads = (int64_t)p->desc.batch * p->desc.heads;
  int stacks = p->desc.batch * p->desc.kv_heads;
  bool by_tile = (obs->top || obs->entropy || obs->softmax_gap) && !obs->mass;
  call_begin(c);
  if (obs->weights) memset(obs->weights, 0, (size_t)(heads * obs->n_rows * width) * sizeof(float));
  if (obs->mass) memset(obs->mass, 0, (size_t)(heads * width) * sizeof(float));
  request x = {*c, width, by, observe_stack};
  stream_enter(plan_stream(p));
  STREAM_ADD(plan_stream(p), stacks, observe_item, x);
  x.step = observe_statistics;
  if (by_tile) STREAM_ADD(plan_stream(p), call_tiles(c), observe_item, x);
  x.step = observe_each;
  if (obs->each) {
    x.c.key_from = obs->key_from;
    x.c.key_to = hard(c) ? 0 : obs->key_to; /* ties are counted in a row */
    STREAM_ADD(plan_stream(p), each_items(c), observe_item, x);
  }
  stream_leave(plan_stream(p));
  return ATTEND_OK;
}

/* ==== the linear engine ======================================================
 *
 * phi(q).phi(k) / sum is computed for every visible pair, a block of keys at a time: as
 * slow as exact attention, but only when weights are observed. */

/* log2 of the factor from a product of features to a weight, but for the key's
 * shift; and the factor's sign. */
typedef struct {
  double log2_factor[LINEAR_ROWS];
  double sign[LINEAR_ROWS]; /* 0: the row sees nothing */
} factors;

static void make_factors(const call *c, tile t, const linear_scratch *w, factors *f) {
  const attend_plan *p = c->plan;
  bool is_signed = attend_form_signed(&p->desc.form);
  for (int i = 0; i < t.rows; i++) {
    double lse = (double)c->lse_in[row_index(c, t, i)];
    double log2_sum = is_signed ? log2(fabs(lse)) : lse * LOG2E;
    bool none = is_signed ? lse == 0 : lse == -INFINITY;
    f->sign[i] = none ? 0 : is_signed && lse < 0 ? -1 : 1;
    f->log2_factor[i] = (double)w->tile.shift[i] + p->map.log_factor * LOG2E - log2_sum;
  }
}

/* a[t.rows][PANEL]: ranks on the block that was read. */
static void block_ranks(const call *c, tile t, const factors *f, linear_scratch *w) {
  const attend_plan *p = c->plan;
  const linear_block *k = &w->keys;
  float *a = w->tile.a;
  p->kn->matmul(t.rows, PANEL, p->map.ld, w->tile.phi, p->map.ld, k->phi_t, PANEL, a, PANEL, false);
  for (int i = 0; i < t.rows; i++, a += PANEL) {
    int64_t end = linear_row_end(c, t.b, t.row + i) - k->index * PANEL;
    for (int j = 0; j < PANEL; j++) {
      bool sees = j < end && j < k->n && k->shift[j] > -INFINITY && f->sign[i];
      double x = sees ? exp2(f->log2_factor[i] + (double)k->shift[j]) : 0;
      a[j] = sees ? (float)(f->sign[i] * (double)a[j] * x) : -INFINITY;
    }
  }
}

static void linear_queries(const call *c, tile t, linear_scratch *w) {
  const attend_plan *p = c->plan;
  rows_load(c, &c->q, t, p->desc.dim, p->ldk, true, w->tile.x);
  features_rows(p, false, t.rows, w->tile.x, w->tile.phi, w->tile.shift, w->work);
}

/* ---- distance from softmax ------------------------------------------------------- */

/* scores[t.rows][PANEL] = q.k of the block that was read. */
static void block_scores(const call *c, tile t, linear_scratch *w) {
  const attend_plan *p = c->plan;
  p->kn->transpose(PANEL, p->ldk, w->keys.x, p->ldk, w->keys_t, PANEL);
  p->kn->matmul(t.rows, PANEL, p->desc.dim, w->tile.x, p->ldk, w->keys_t, PANEL, w->scores, PANEL,
                false);
}

static int64_t last_key_block(const call *c, tile t) {
  int64_t last = -1;
  for (int i = 0; i < t.rows; i++) last = max64(last, linear_row_block(c, t.b, t.row + i));
  return last;
}

typedef struct {
  double max[LINEAR_ROWS], sum[LINEAR_ROWS], gap[LINEAR_ROWS];
} exact_rows;

/* Takes the block into each row's exact softmax. */
static void add_exact(const call *c, tile t, linear_scratch *w, exact_rows *e) {
  double scale = (double)c->plan->desc.scale;
  block_scores(c, t, w);
  for (int i = 0; i < t.rows; i++) {
    int64_t end = linear_row_end(c, t.b, t.row + i) - w->keys.index * PANEL;
    for (int j = 0; j < w->keys.n && j < end; j++) {
      if (w->keys.shift[j] == -INFINITY) continue;
      double s = scale * (double)w->scores[i * PANEL + j];
      double max = s > e->max[i] ? s : e->max[i];
      e->sum[i] = e->sum[i] * exp(e->max[i] - max) + exp(s - max);
      e->max[i] = max;
    }
  }
}

/* Half the sum of |weight - exact weight|: 0 is the same, 1 is disjoint. */
static void add_gap(const call *c, tile t, linear_scratch *w, exact_rows *e) {
  double scale = (double)c->plan->desc.scale;
  block_scores(c, t, w);
  for (int i = 0; i < t.rows; i++)
    for (int j = 0; j < PANEL; j++) {
      float a = w->tile.a[i * PANEL + j];
      if (a == -INFINITY) continue;
      double s = scale * (double)w->scores[i * PANEL + j];
      e->gap[i] += fabs((double)a - exp(s - e->max[i]) / e->sum[i]) / 2;
    }
}

static void exact_pass(const call *c, tile t, int64_t last, linear_scratch *w, exact_rows *e) {
  for (int i = 0; i < t.rows; i++) e->max[i] = -INFINITY, e->sum[i] = e->gap[i] = 0;
  for (int64_t index = 0; index <= last; index++) {
    linear_read(c, t.b, t.g, index, w);
    add_exact(c, t, w, e);
  }
}

static void linear_open(const attend_plan *p, int thread, observe_scratch *own) {
  linear_cut(p, plan_thread_arena(p, thread), &own->linear);
}

static void linear_weights(const call *c, tile t, sink to, observe_scratch *own) {
  linear_scratch *w = &own->linear;
  const attend_observation *obs = c->obs;
  int64_t last = last_key_block(c, t), first = 0, end = last + 1;
  bool gaps = obs->softmax_gap && to.slot == TO_STATISTICS;
  factors f;
  exact_rows e;
  linear_queries(c, t, w);
  make_factors(c, t, w, &f);
  if (gaps) exact_pass(c, t, last, w, &e);
  if (c->key_to) {
    first = c->key_from / PANEL;
    end = min64(end, (c->key_to + PANEL - 1) / PANEL);
  }
  for (int64_t index = first; index < end; index++) {
    linear_read(c, t.b, t.g, index, w);
    block_ranks(c, t, &f, w);
    if (gaps) add_gap(c, t, w, &e);
    for (int i = 0; i < t.rows; i++)
      observe_write(c, t, i, to, index * PANEL, 0, w->keys.n, w->tile.a + i * PANEL);
  }
  for (int i = 0; gaps && i < t.rows; i++) obs->softmax_gap[row_index(c, t, i)] = (float)e.gap[i];
}

attend_status linear_observe(call *c) {
  static const weight_source by_features = {linear_open, linear_weights};
  return observe_with(c, &by_features);
}

attend_status observe_tiled(call *c) {
  static const weight_source by_tiles = {tiled_open, tiled_weights};
  return observe_with(c, &by_tiles);
}
