/* Creating a lens, and attention weights by blocks and bands. One head is one attention
 * problem: its rows of the trace are views, and attend_observe recomputes the requested
 * weights.
 */
#include "base/options.h"
#include "lens/lens.h"

#include <math.h>
#include <string.h>

/* ---- creating -------------------------------------------------------------------- */

static bool describe_model(attend_role role, int layer, attend_desc *desc, void *model) {
  return attend_model_attention(model, role, layer, desc);
}

/* A model's patterns are recorded in parts: they are computed again. */
static bool has_patterns(const attend_lens *l, attend_role role, attend_hooked *pattern) {
  return l->describe != describe_model &&
         attend_trace_get(l->trace, ATTEND_AT_PATTERN, role, 0, pattern);
}

static bool has_values(const attend_lens *l, attend_role role) {
  attend_hooked v;
  return l->describe == describe_model || attend_trace_get(l->trace, ATTEND_AT_VALUE, role, 0, &v);
}

static attend_status read_given(role_lens *r, const attend_lens *l, const attend_desc *d,
                                const attend_hooked *pattern, int real_keys) {
  int heads = pattern->shape[1], keys = pattern->shape[3];
  bool vectors = d->dim > 0;
  r->shape = (attend_lens_shape){.layers = attend_trace_layers(l->trace, pattern->role),
                                 .heads = heads,
                                 .kv_heads = vectors && d->kv_heads ? d->kv_heads : heads,
                                 .rows = pattern->shape[2],
                                 .keys = keys,
                                 .dim = d->dim,
                                 .dim_v = d->dim_v,
                                 .scale = d->scale  ? d->scale
                                          : vectors ? 1 / sqrtf((float)d->dim)
                                                    : 0,
                                 .causal = d->mask.causal != ATTEND_NOT_CAUSAL,
                                 .window = d->mask.window,
                                 .real_keys = real_keys > 0 && real_keys < keys ? real_keys : keys,
                                 .is_signed = attend_form_signed(&d->form),
                                 .given = true};
  return ATTEND_OK;
}

static attend_status read_shape(attend_lens *l, attend_role role, int real_keys) {
  attend_desc d = {ATTEND_INIT(attend_desc)};
  attend_hooked q, k;
  role_lens *r = &l->role[role];
  int padded = role == ATTEND_DECODER_SELF ? 0 : real_keys;
  if (!l->describe(role, 0, &d, l->described)) return ATTEND_OK;
  if (l->describe != describe_model) padded = d.mask.lengths ? *d.mask.lengths : 0;
  d.mask.lengths = NULL;
  if (!l->other && has_patterns(l, role, &q)) return read_given(r, l, &d, &q, padded);
  if (!attend_trace_get(l->trace, ATTEND_AT_QUERY, role, 0, &q) ||
      !attend_trace_get(l->trace, ATTEND_AT_KEY, role, 0, &k))
    return ATTEND_OK;
  if (l->other && d.form.kind == ATTEND_CUSTOM) d.form = l->form;
  ATTEND_TRY(attend_desc_complete(l->ctx, &d));
  r->shape =
      (attend_lens_shape){.layers = attend_trace_layers(l->trace, role),
                          .heads = d.heads,
                          .kv_heads = d.kv_heads,
                          .rows = q.shape[2],
                          .keys = k.shape[2],
                          .dim = d.dim,
                          .dim_v = has_values(l, role) ? d.dim_v : 0,
                          .scale = d.scale,
                          .causal = d.mask.causal != ATTEND_NOT_CAUSAL,
                          .window = d.mask.window,
                          .real_keys = padded > 0 && padded < k.shape[2] ? padded : k.shape[2],
                          .is_signed = attend_form_signed(l->other ? &l->form : &d.form),
                          .biased = d.bias.kind != ATTEND_NO_BIAS};
  r->length = r->shape.real_keys;
  if (!l->other) return ATTEND_OK;
  return ctx_alloc_zeroed(l->ctx, (size_t)(r->shape.layers * d.heads) * sizeof *r->direct, "a lens",
                          &r->direct);
}

attend_status attend_lens_create(const attend_model *model, const attend_trace *trace,
                                 const attend_form *form, int real_keys, attend_lens **lens) {
  return attend_lens_create_described(attend_model_context(model), trace, describe_model,
                                      (void *)model, form, real_keys, lens);
}

attend_status attend_lens_create_described(attend_context *ctx, const attend_trace *trace,
                                           attend_describe describe, void *user,
                                           const attend_form *form, int real_keys,
                                           attend_lens **lens) {
  attend_lens *l;
  *lens = NULL;
  ATTEND_TRY(ctx_alloc_zeroed(ctx, sizeof *l, "a lens", &l));
  l->ctx = ctx;
  l->describe = describe;
  l->described = user;
  l->trace = trace;
  l->other = form != NULL;
  if (form) l->form = *form;
  attend_status status = ATTEND_OK;
  for (int i = 0; i < ATTEND_ROLES && !status; i++)
    status = read_shape(l, (attend_role)i, real_keys);
  if (status)
    attend_lens_free(l);
  else
    *lens = l;
  return status;
}

void attend_lens_free(attend_lens *l) {
  if (!l) return;
  for (int i = 0; i < ATTEND_ROLES; i++) {
    role_lens *r = &l->role[i];
    for (int j = 0; r->direct && j < r->shape.layers * r->shape.heads; j++)
      ctx_free(l->ctx, r->direct[j]);
    ctx_free(l->ctx, r->direct);
    ctx_free(l->ctx, r->column);
    attend_plan_free(r->plan);
  }
  ctx_free(l->ctx, l->lse);
  ctx_free(l->ctx, l->edits);
  ctx_free(l->ctx, l);
}

attend_status attend_lens_set_hooks(attend_lens *l, int n, const attend_hook *hooks) {
  attend_hook *own;
  ATTEND_TRY(ctx_alloc(l->ctx, size_times((size_t)n, sizeof *own), "hooks of a lens", &own));
  ctx_free(l->ctx, l->edits);
  l->edits = own;
  l->n_edits = 0;
  for (int i = 0; i < n; i++) {
    attend_hook *h = &own[l->n_edits];
    ATTEND_TRY(OPTIONS_READ(l->ctx, attend_hook, (const char *)hooks + (size_t)i * hooks->size, h));
    l->n_edits += h->edit && h->points & ATTEND_AT_PATTERN;
  }
  return ATTEND_OK;
}

void attend_lens_set_progress(attend_lens *l, attend_progress progress, void *user) {
  l->progress = progress;
  l->user = user;
}

attend_status lens_step(const attend_lens *l, double done) {
  if (!l->progress || !l->progress(done, NULL, l->user)) return ATTEND_OK;
  return fail(l->ctx, ATTEND_STOPPED, "stopped before it was done");
}

bool attend_lens_role(const attend_lens *l, attend_role role, attend_lens_shape *shape) {
  if ((unsigned)role >= ATTEND_ROLES || !l->role[role].shape.layers) return 0;
  *shape = l->role[role].shape;
  return 1;
}

/* ---- one head -------------------------------------------------------------------- */

static attend_status check_place(const attend_lens *l, attend_head_id at) {
  ATTEND_CHECK(l->ctx, (unsigned)at.role < ATTEND_ROLES && l->role[at.role].shape.layers,
               "the run has no such attention: %s", attend_role_name(at.role));
  const attend_lens_shape *s = &l->role[at.role].shape;
  ATTEND_CHECK(l->ctx, at.layer >= 0 && at.layer < s->layers && at.head >= 0 && at.head < s->heads,
               "layer %d, head %d: the %s has layers 0 to %d and heads 0 to %d", at.layer, at.head,
               attend_role_name(at.role), s->layers - 1, s->heads - 1);
  return ATTEND_OK;
}

/* A call that was stopped or failed leaves layers of different lengths. */
static attend_status check_tensor(const attend_lens *l, const attend_hooked *s) {
  const attend_lens_shape *r = &l->role[s->role].shape;
  bool key = s->point == ATTEND_AT_KEY || s->point == ATTEND_AT_VALUE;
  int width = s->point == ATTEND_AT_DENOMINATOR                          ? 1
              : s->point == ATTEND_AT_PATTERN                            ? r->keys
              : s->point == ATTEND_AT_QUERY || s->point == ATTEND_AT_KEY ? r->dim
                                                                         : r->dim_v;
  int heads = key ? r->kv_heads : r->heads, rows = key ? r->keys : r->rows;
  ATTEND_CHECK(l->ctx, s->shape[1] == heads && s->shape[2] >= rows && s->shape[3] == width,
               "the trace's %s of layer %d is %d x %d x %d instead of %d x %d "
               "x %d: clear it and record one whole run of this model",
               attend_point_name(s->point), s->layer, s->shape[1], s->shape[2], s->shape[3], heads,
               rows, width);
  return ATTEND_OK;
}

static attend_status head_view(const attend_lens *l, attend_point what, attend_head_id at, int head,
                               attend_view *view) {
  attend_hooked s;
  ATTEND_CHECK(l->ctx, attend_trace_get(l->trace, what, at.role, at.layer, &s),
               "the trace holds no %s of layer %d: record it", attend_point_name(what), at.layer);
  ATTEND_TRY(check_tensor(l, &s));
  *view = attend_input(s.view);
  view->data = (float *)view->data + head * view->stride[1];
  return ATTEND_OK;
}

/* poly has two engines, whose denominators differ by what cancels in them: a
 * run's own weights are computed on the one that its states took. */
static attend_status ask_engine(const attend_lens *l, attend_role role, attend_desc *d) {
  attend_desc state = *d;
  attend_plan *plan;
  if (l->other || role == ATTEND_ENCODER_SELF || d->form.kind != ATTEND_POLY) return ATTEND_OK;
  state.purpose = ATTEND_FOR_EXTEND;
  state.q_len = 1;
  if (role == ATTEND_DECODER_SELF) state.mask.causal = ATTEND_CAUSAL_BOTTOM;
  ATTEND_TRY(attend_plan_create(l->ctx, &state, &plan));
  d->engine = attend_plan_engine(plan);
  attend_plan_free(plan);
  return ATTEND_OK;
}

/* Layers differ in their windows, heads in a dense bias. */
static attend_status make_plan(attend_lens *l, attend_head_id at) {
  role_lens *r = &l->role[at.role];
  attend_desc d = {ATTEND_INIT(attend_desc)};
  l->describe(at.role, at.layer, &d, l->described);
  bool dense = d.bias.kind == ATTEND_DENSE;
  if (r->plan && !dense && attend_plan_desc(r->plan)->mask.window == d.mask.window)
    return ATTEND_OK;
  attend_plan_free(r->plan);
  r->plan = NULL;
  if (d.bias.kind == ATTEND_BUCKETS && !r->column)
    ATTEND_TRY(
        ctx_alloc_zeroed(l->ctx, (size_t)d.bias.buckets * sizeof(float), "a lens", &r->column));
  d.bias.table = r->column;
  if (dense) d.bias.dense.data = (float *)d.bias.dense.data + at.head * d.bias.dense.stride[1];
  if (l->other) d.form = l->form;
  d.heads = d.kv_heads = 1;
  d.q_len = r->shape.rows;
  d.kv_len = r->shape.keys;
  if (r->length < d.kv_len) d.mask.lengths = &r->length;
  ATTEND_TRY(ask_engine(l, at.role, &d));
  return attend_plan_create(l->ctx, &d, &r->plan);
}

static void read_column(const attend_lens *l, attend_head_id at) {
  attend_desc d = {ATTEND_INIT(attend_desc)};
  float *column = l->role[at.role].column;
  if (!column) return;
  l->describe(at.role, at.layer, &d, l->described);
  for (int i = 0; i < d.bias.buckets; i++) column[i] = d.bias.table[i * d.heads + at.head];
}

static int key_head(const attend_lens *l, attend_head_id at) {
  const attend_lens_shape *s = &l->role[at.role].shape;
  return at.head / (s->heads / s->kv_heads);
}

static attend_status reserve_lse(attend_lens *l, int rows) {
  if (rows <= l->lse_capacity) return ATTEND_OK;
  ctx_free(l->ctx, l->lse);
  l->lse = NULL;
  l->lse_capacity = 0;
  ATTEND_TRY(ctx_alloc(l->ctx, (size_t)rows * sizeof *l->lse, "a lens", &l->lse));
  l->lse_capacity = rows;
  return ATTEND_OK;
}

/* Another form on the recorded queries, keys and values: what the head would
 * have given [T][M], and its denominators [T]. */
static attend_status run_direct(attend_lens *l, attend_head_id at, float **direct) {
  role_lens *r = &l->role[at.role];
  size_t rows = (size_t)r->shape.rows, wide = (size_t)r->shape.dim_v;
  attend_view q, k, v;
  *direct = r->direct[at.layer * r->shape.heads + at.head];
  if (*direct) return ATTEND_OK;
  ATTEND_TRY(head_view(l, ATTEND_AT_QUERY, at, at.head, &q));
  ATTEND_TRY(head_view(l, ATTEND_AT_KEY, at, key_head(l, at), &k));
  ATTEND_TRY(head_view(l, ATTEND_AT_VALUE, at, key_head(l, at), &v));
  ATTEND_TRY(ctx_alloc(l->ctx, rows * (wide + 1) * sizeof **direct, "a lens", direct));
  attend_status status =
      attend_forward(r->plan, q, k, v, attend_bhtd(*direct), *direct + rows * wide);
  if (status)
    ctx_free(l->ctx, *direct);
  else
    r->direct[at.layer * r->shape.heads + at.head] = *direct;
  return status;
}

attend_status lens_enter(attend_lens *l, attend_head_id at) {
  ATTEND_TRY(check_place(l, at));
  role_lens *r = &l->role[at.role];
  attend_view lse = {0};
  attend_hooked recorded;
  ATTEND_TRY(reserve_lse(l, r->shape.rows));
  if (r->shape.given &&
      !attend_trace_get(l->trace, ATTEND_AT_DENOMINATOR, at.role, at.layer, &recorded)) {
    for (int i = 0; i < r->shape.rows; i++) l->lse[i] = NAN;
    return ATTEND_OK;
  }
  if (!r->shape.given) ATTEND_TRY(make_plan(l, at));
  read_column(l, at);
  if (l->other) {
    float *direct;
    ATTEND_TRY(run_direct(l, at, &direct));
    memcpy(l->lse, direct + (size_t)r->shape.rows * (size_t)r->shape.dim_v,
           (size_t)r->shape.rows * sizeof *l->lse);
    return ATTEND_OK;
  }
  ATTEND_TRY(head_view(l, ATTEND_AT_DENOMINATOR, at, at.head, &lse));
  for (int i = 0; i < r->shape.rows; i++) l->lse[i] = ((float *)lse.data)[i * lse.stride[2]];
  return ATTEND_OK;
}

attend_status attend_lens_vectors(attend_lens *l, attend_head_id at, attend_view *q, attend_view *k,
                                  attend_view *v, attend_view *out) {
  ATTEND_TRY(lens_enter(l, at));
  if (q) ATTEND_TRY(head_view(l, ATTEND_AT_QUERY, at, at.head, q));
  if (k) ATTEND_TRY(head_view(l, ATTEND_AT_KEY, at, key_head(l, at), k));
  if (v) ATTEND_TRY(head_view(l, ATTEND_AT_VALUE, at, key_head(l, at), v));
  if (!out) return ATTEND_OK;
  if (!l->other) return head_view(l, ATTEND_AT_HEAD_OUTPUT, at, at.head, out);
  int wide = l->role[at.role].shape.dim_v;
  float *direct;
  ATTEND_TRY(run_direct(l, at, &direct));
  *out = (attend_view){direct, {0, 0, wide, 1}};
  return ATTEND_OK;
}

attend_status attend_lens_denominators(attend_lens *l, attend_head_id at, float *lse) {
  ATTEND_TRY(lens_enter(l, at));
  memcpy(lse, l->lse, (size_t)l->role[at.role].shape.rows * sizeof *lse);
  return ATTEND_OK;
}

/* ---- bands ----------------------------------------------------------------------- */

typedef struct {
  const band *b;
  float *weights;
} filling;

static void fill(const attend_weight_span *s, void *user) {
  const filling *f = user;
  memcpy(f->weights + (size_t)s->slot * (size_t)f->b->keys + s->key - f->b->key, s->weights,
         (size_t)s->n * sizeof *s->weights);
}

static attend_status copy_band(const attend_lens *l, const band *b, float *weights) {
  attend_view pattern;
  size_t keys = (size_t)b->keys;
  ATTEND_TRY(head_view(l, ATTEND_AT_PATTERN, b->at, b->at.head, &pattern));
  const float *from = (float *)pattern.data + b->key;
  for (int i = 0; i < b->n; i++)
    memcpy(weights + (size_t)i * keys, from + b->rows[i] * pattern.stride[2],
           keys * sizeof *weights);
  return ATTEND_OK;
}

static attend_status observe_band(attend_lens *l, const band *b, float *weights) {
  attend_view q, k;
  filling f = {b, weights};
  attend_observation look = {ATTEND_INIT(attend_observation),
                             .rows = b->rows,
                             .n_rows = b->n,
                             .each = fill,
                             .user = &f,
                             .key_from = b->key,
                             .key_to = (int64_t)b->key + b->keys};
  if (l->role[b->at.role].shape.given) return copy_band(l, b, weights);
  memset(weights, 0, (size_t)b->n * (size_t)b->keys * sizeof *weights);
  if (b->n == 0 || b->keys == 0) return ATTEND_OK;
  ATTEND_TRY(head_view(l, ATTEND_AT_QUERY, b->at, b->at.head, &q));
  ATTEND_TRY(head_view(l, ATTEND_AT_KEY, b->at, key_head(l, b->at), &k));
  return attend_observe(l->role[b->at.role].plan, q, k, l->lse, &look);
}

/* ---- edited weights --------------------------------------------------------------- */

static bool edits_layer(const attend_hook *h, attend_head_id at) {
  bool found = !h->n_layers;
  for (int i = 0; i < h->n_layers; i++) found |= h->layers[i] == at.layer;
  return found && (!h->roles || h->roles & 1u << at.role);
}

static bool is_edited(const attend_lens *l, attend_head_id at) {
  bool edited = false;
  for (int i = 0; i < l->n_edits && !l->other; i++) edited |= edits_layer(&l->edits[i], at);
  return edited;
}

/* An edit gets one row of every head; those of other heads are 0 and are not read. */
static void edit_row(const attend_lens *l, attend_head_id at, int64_t row, float *all) {
  const attend_lens_shape *s = &l->role[at.role].shape;
  const attend_hooked t = {.point = ATTEND_AT_PATTERN,
                           .role = at.role,
                           .layer = at.layer,
                           .shape = {1, s->heads, 1, s->keys},
                           .first = &row,
                           .view = {all, {(ptrdiff_t)s->heads * s->keys, s->keys, s->keys, 1}}};
  for (int i = 0; i < l->n_edits; i++)
    if (edits_layer(&l->edits[i], at)) l->edits[i].edit(&t, all, l->edits[i].user);
}

static attend_status edit_band(attend_lens *l, const band *b, float *weights) {
  const attend_lens_shape *s = &l->role[b->at.role].shape;
  const size_t keys = (size_t)s->keys, heads = (size_t)s->heads;
  float *all;
  ATTEND_TRY(ctx_alloc(l->ctx, heads * keys * sizeof *all, "edited weights", &all));
  float *own = all + (size_t)b->at.head * keys;
  attend_status status = ATTEND_OK;
  for (int i = 0; i < b->n && !status; i++) {
    band one = {b->at, &b->rows[i], 1, 0, s->keys};
    memset(all, 0, heads * keys * sizeof *all);
    status = observe_band(l, &one, own);
    if (!status) edit_row(l, b->at, b->rows[i], all);
    memcpy(weights + (size_t)i * (size_t)b->keys, own + b->key, (size_t)b->keys * sizeof *own);
  }
  ctx_free(l->ctx, all);
  return status;
}

attend_status lens_band(attend_lens *l, const band *b, float *weights) {
  return is_edited(l, b->at) ? edit_band(l, b, weights) : observe_band(l, b, weights);
}

static attend_status check_range(const attend_lens *l, const char *what, int from, int n, int all) {
  ATTEND_CHECK(l->ctx, from >= 0 && n >= 0 && n <= all && from <= all - n,
               "%d %s from %d on were requested: there are %d", n, what, from, all);
  return ATTEND_OK;
}

attend_status attend_lens_block(attend_lens *l, attend_head_id at, int row, int rows, int key,
                                int keys, float *weights) {
  int32_t *list;
  ATTEND_TRY(lens_enter(l, at));
  const attend_lens_shape *s = &l->role[at.role].shape;
  ATTEND_TRY(check_range(l, "rows", row, rows, s->rows));
  ATTEND_TRY(check_range(l, "keys", key, keys, s->keys));
  ATTEND_TRY(ctx_alloc(l->ctx, (size_t)rows * sizeof *list, "rows", &list));
  for (int i = 0; i < rows; i++) list[i] = row + i;
  band b = {at, list, rows, key, keys};
  attend_status status = lens_band(l, &b, weights);
  ctx_free(l->ctx, list);
  return status;
}

typedef struct {
  const attend_row_stats *stats;
  int keys;
} row_measures;

/* Of weights that are edited or given. */
static void measure_row(int row, const float *weights, const float *others, void *with) {
  const row_measures *m = with;
  const attend_row_stats *s = m->stats;
  int top = 0;
  (void)others;
  for (int j = 1; j < m->keys; j++)
    if (weights[j] > weights[top]) top = j;
  if (s->top) s->top[row] = weights[top] > 0 ? top : -1;
  if (s->top_weight) s->top_weight[row] = weights[top];
  if (s->entropy) s->entropy[row] = (float)lens_entropy(weights, m->keys);
  for (int j = 0; j < m->keys && s->mass; j++) s->mass[j] += weights[j];
}

static attend_status measure_rows(attend_lens *l, attend_head_id at, attend_row_stats *stats) {
  const attend_lens_shape *s = &l->role[at.role].shape;
  row_measures m = {stats, s->keys};
  int32_t *rows;
  if (stats->mass) memset(stats->mass, 0, (size_t)s->keys * sizeof *stats->mass);
  ATTEND_TRY(ctx_alloc(l->ctx, (size_t)s->rows * sizeof *rows, "rows", &rows));
  for (int i = 0; i < s->rows; i++) rows[i] = i;
  attend_status status = lens_each_row(l, NULL, at, s->rows, rows, measure_row, &m);
  ctx_free(l->ctx, rows);
  return status;
}

attend_status attend_lens_stats(attend_lens *l, attend_head_id at, const attend_row_stats *wanted) {
  attend_view q, k;
  attend_row_stats o, *stats = &o;
  void *unasked = NULL; /* observe returns keys and weights together */
  ATTEND_TRY(OPTIONS_READ(l->ctx, attend_row_stats, wanted, &o));
  ATTEND_TRY(lens_enter(l, at));
  if (is_edited(l, at) || l->role[at.role].shape.given) return measure_rows(l, at, stats);
  ATTEND_TRY(head_view(l, ATTEND_AT_QUERY, at, at.head, &q));
  ATTEND_TRY(head_view(l, ATTEND_AT_KEY, at, key_head(l, at), &k));
  if (!stats->top != !stats->top_weight)
    ATTEND_TRY(ctx_alloc(l->ctx, (size_t)l->role[at.role].shape.rows * sizeof(int32_t),
                         "the heaviest keys", &unasked));
  attend_observation look = {ATTEND_INIT(attend_observation),
                             .top = stats->top || stats->top_weight,
                             .top_index = stats->top ? stats->top : unasked,
                             .top_weight = stats->top_weight ? stats->top_weight : unasked,
                             .entropy = stats->entropy,
                             .mass = stats->mass};
  attend_status status = attend_observe(l->role[at.role].plan, q, k, l->lse, &look);
  ctx_free(l->ctx, unasked);
  return status;
}

/* ---- which rows ------------------------------------------------------------------ */

static int64_t cut(int i, int n, int parts) { return (int64_t)i * n / parts; }

attend_status lens_rows(attend_lens *l, int row, int rows, int cells, int keys, double most_pairs,
                        int32_t **list, int *n) {
  double allowed = most_pairs > 0 ? most_pairs / (keys > 0 ? keys : 1) : rows;
  if (cells > rows) cells = rows;
  if (cells < 1) cells = 1;
  int each = allowed >= rows ? rows : (int)(allowed / cells);
  if (each < 1) each = 1;
  ATTEND_TRY(ctx_alloc(l->ctx, (size_t)rows * sizeof **list, "rows", list));
  *n = 0;
  for (int i = 0; i < cells; i++) {
    int from = (int)cut(i, rows, cells), to = (int)cut(i + 1, rows, cells);
    int some = to - from < each ? to - from : each;
    int first = from + (to - from - some) / 2;
    for (int j = 0; j < some; j++) (*list)[(*n)++] = row + first + j;
  }
  return ATTEND_OK;
}

attend_status lens_each_row(attend_lens *l, attend_lens *other, attend_head_id at, int n,
                            const int32_t *rows, row_visit f, void *with) {
  ATTEND_TRY(lens_enter(l, at));
  if (other) ATTEND_TRY(lens_enter(other, at));
  int keys = l->role[at.role].shape.keys, max = band_rows(keys);
  size_t wide = (size_t)keys, floats = (size_t)(n < max ? n : max) * wide;
  float *weights;
  ATTEND_TRY(ctx_alloc(l->ctx, (other ? 2 : 1) * floats * sizeof *weights,
                       "weights that are looked at", &weights));
  float *others = other ? weights + floats : NULL;
  attend_status status = ATTEND_OK;
  for (int i = 0; i < n && !status; i += max) {
    band b = {at, rows + i, n - i < max ? n - i : max, 0, keys};
    status = lens_band(l, &b, weights);
    if (!status && other) status = lens_band(other, &b, others);
    for (size_t j = 0; j < (size_t)b.n && !status; j++)
      f(b.rows[j], weights + j * wide, others ? others + j * wide : NULL, with);
    if (!status && i + max < n) status = lens_step(l, (double)i / n);
  }
  ctx_free(l->ctx, weights);
  return status;
}

double lens_entropy(const float *weights, int n) {
  double sum = 0;
  for (int j = 0; j < n; j++)
    if (weights[j] > 0) sum -= (double)weights[j] * log((double)weights[j]);
  return sum;
}
