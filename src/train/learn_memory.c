/* The memory of a lesson: what forward leaves for the way back, and work.
 *
 * Place: train/ - see learner.h. Taken when a lesson is larger than those before;
 * cut twice by the same calls, first to learn the size.
 *
 * Activations are kept for each layer, or, where layers are computed again, once for
 * all of them, with each layer's input.
 */
#include "model/hooks.h"
#include "train/learner.h"

static int widest(int a, int b) { return a > b ? a : b; }

static float *cut(arena *a, size_t rows, int width) {
  return arena_cut(a, rows * (size_t)padded(width) * sizeof(float));
}

static int qkv_width(const attend_stack *s) {
  return s->heads * s->dim + s->kv_heads * (s->dim + s->dim_v);
}
static int kv_width(const attend_stack *s) {
  return s->kv_heads * (s->dim + s->dim_v);
}

/* ---- activations ------------------------------------------------------------------- */

static void cut_layer(const attend_learner *l, const learn_side *x, arena *a,
                      activations *t) {
  const attend_config *c = &l->model.config;
  const attend_stack *w = x->p.side->shape;
  const size_t rows = (size_t)x->p.rows, read = (size_t)l->encoder.p.rows;
  bool crosses = !x->p.side->encoder && c->parts == ATTEND_BOTH;
  bool after = c->norms == ATTEND_NORM_AFTER || c->norms == ATTEND_NORM_BOTH;
  bool apart = hooks_edit(&l->hooks, ATTEND_AT_HEAD_OUTPUT | ATTEND_AT_PATTERN |
                                         ATTEND_AT_DENOMINATOR);
  t->self = t->self_added = cut(a, rows, w->width);
  if (after) t->self_added = cut(a, rows, w->width);
  t->qkv = cut(a, rows, qkv_width(w));
  if (c->qk_norm) t->raw = cut(a, rows, (w->heads + w->kv_heads) * w->dim);
  t->heads = t->attended = cut(a, rows, w->heads * w->dim_v);
  if (apart) t->attended = cut(a, rows, w->heads * w->dim_v);
  t->lse = arena_cut(a, rows * (size_t)w->heads * sizeof(float));
  t->up = cut(a, rows, w->mlp * (1 + c->gated));
  if (after) t->mlp_added = cut(a, rows, w->width);
  if (c->norms == ATTEND_NORM_SUM)
    t->mlp = t->mlp_added = cut(a, rows, w->width);
  if (!crosses) return;
  t->cross = t->cross_added = cut(a, rows, w->width);
  t->cross_q = cut(a, rows, w->heads * w->dim);
  t->cross_kv = cut(a, read, kv_width(w));
  t->cross_heads = t->cross_attended = cut(a, rows, w->heads * w->dim_v);
  if (apart) t->cross_attended = cut(a, rows, w->heads * w->dim_v);
  t->cross_lse = arena_cut(a, rows * (size_t)w->heads * sizeof(float));
}

static void cut_side(attend_learner *l, learn_side *x, arena *a) {
  if (!x->layers) return;
  const attend_stack *w = x->p.side->shape;
  const size_t rows = (size_t)x->p.rows;
  activations shared = {0};
  bool again = l->options.recompute;
  if (again) cut_layer(l, x, a, &shared);
  for (int i = 0; i < w->layers; i++) {
    x->layers[i] = shared;
    x->layers[i].x = cut(a, rows, w->width);
    if (!again) cut_layer(l, x, a, &x->layers[i]);
  }
  x->embedded = cut(a, rows, embed_width(&l->model, x->p.side));
  x->last = cut(a, rows, w->width);
  x->hidden = cut(a, rows, w->width);
  x->d_hidden = cut(a, rows, w->width);
  x->p.position = arena_cut(a, rows * sizeof *x->p.position);
  x->ids = arena_cut(a, rows * sizeof *x->ids);
  x->types = arena_cut(a, rows * sizeof *x->types);
}

/* What a layer writes for the next one to read. */
static void join_layers(attend_learner *l, learn_side *x) {
  const attend_config *c = &l->model.config;
  bool sum = c->norms == ATTEND_NORM_SUM;
  if (!x->layers) return;
  const int layers = x->p.side->shape->layers;
  for (int i = 0; i < layers; i++) {
    activations *t = &x->layers[i];
    bool crosses = t->cross != NULL;
    t->out = i + 1 < layers  ? x->layers[i + 1].x
             : c->final_norm ? x->last
                             : x->hidden;
    t->self_out = sum ? l->back.middle : t->self;
    t->cross_out = sum && crosses ? l->back.middle : t->cross;
    t->act = l->act;
    if (sum) continue;
    t->mlp = t->out;
    if (!t->mlp_added) t->mlp_added = t->out;
  }
}

static size_t cut_trails(attend_learner *l, void *block) {
  arena a = {block, 0};
  cut_side(l, &l->encoder, &a);
  cut_side(l, &l->decoder, &a);
  return a.used;
}

/* ---- work ---------------------------------------------------------------------------- */

typedef struct {
  size_t rows;
  int width, wide, act;
} sizes;

static void grow(const attend_learner *l, const learn_side *x, sizes *z) {
  if (!x->layers) return;
  const attend_stack *w = x->p.side->shape;
  if ((size_t)x->p.rows > z->rows) z->rows = (size_t)x->p.rows;
  z->width = widest(z->width, w->width);
  z->wide = widest(z->wide, w->mlp * (1 + l->model.config.gated));
  z->wide = widest(z->wide, qkv_width(w));
  z->act = widest(z->act, w->heads * w->dim_v);
  z->act = widest(z->act, w->heads * w->dim);
  z->act = widest(z->act, w->mlp);
}

static sizes sizes_of(const attend_learner *l) {
  sizes z = {.width = l->model.config.embed_width};
  grow(l, &l->encoder, &z);
  grow(l, &l->decoder, &z);
  return z;
}

static void cut_copy(attend_learner *l, arena *a) {
  learn_copy *c = &l->copy;
  const int width = l->model.config.copy;
  size_t read = (size_t)l->encoder.p.rows;
  if (!l->model.copy_k.go) return;
  c->keys = cut(a, read, width);
  c->d_keys = cut(a, read, width);
  c->queries = cut(a, HEAD_ROWS_AT_ONCE, width);
  c->d_queries = cut(a, HEAD_ROWS_AT_ONCE, width);
  c->gates = cut(a, HEAD_ROWS_AT_ONCE, 1);
  c->weights = cut(a, HEAD_ROWS_AT_ONCE, l->encoder.p.n);
}

static size_t cut_work(attend_learner *l, void *block) {
  const attend_config *c = &l->model.config;
  arena a = {block, 0};
  sizes z = sizes_of(l);
  l->h = cut(&a, z.rows, z.width);
  l->act = cut(&a, z.rows, z.act);
  l->back.middle = cut(&a, z.rows, z.width);
  l->back.dh = cut(&a, z.rows, z.width);
  l->back.d_act = cut(&a, z.rows, z.act);
  l->back.d_wide = cut(&a, z.rows, z.wide);
  l->head_rows = cut(&a, 5 * HEAD_ROWS_AT_ONCE, z.width);
  l->logits = cut(&a, HEAD_ROWS_AT_ONCE, c->vocab);
  if (c->logit_cap > 0) l->capped = cut(&a, HEAD_ROWS_AT_ONCE, c->vocab);
  l->losses = cut(&a, HEAD_ROWS_AT_ONCE, 1);
  l->head_row = arena_cut(&a, HEAD_ROWS_AT_ONCE * sizeof *l->head_row);
  l->head_target = arena_cut(&a, HEAD_ROWS_AT_ONCE * sizeof *l->head_target);
  cut_copy(l, &a);
  l->back.d_bias =
      arena_cut(&a, (size_t)(widest(c->buckets, 1) *
                             widest(c->encoder.heads, c->decoder.heads)) *
                        sizeof(float));
  return a.used;
}

/* What the gradient of the largest product, and of norms, needs. */
static size_t need_scratch(const attend_learner *l) {
  const attend_config *c = &l->model.config;
  sizes z = sizes_of(l);
  int heads = widest(c->encoder.heads, c->decoder.heads);
  size_t most = attend_norm_back_bytes((int)z.rows, widest(z.width, z.act));
  if (c->qk_norm) /* each head's row */
    most = size_add(most, attend_norm_back_bytes((int)z.rows * heads, z.act));
  const int pairs[][2] = {{z.wide, z.width},
                          {z.width, z.act},
                          {z.width, z.width},
                          {widest(c->copy, 1), z.width}};
  for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
    size_t n = attend_linear_weight_grad_bytes(l->ctx, (int)z.rows, pairs[i][0],
                                               pairs[i][1]);
    if (n > most) most = n;
  }
  size_t n = attend_linear_weight_grad_bytes(l->ctx, HEAD_ROWS_AT_ONCE,
                                             c->vocab, z.width);
  return n > most ? n : most;
}

/* ---- plans ------------------------------------------------------------------------------ */

static attend_status plan_role(attend_learner *l, attend_role role, int layer,
                               int rows, int keys, const int32_t *real,
                               attend_plan **plan) {
  attend_desc d;
  if (!model_attention(&l->model, role, layer, &d)) return ATTEND_OK;
  d.batch = l->batch;
  d.q_len = rows;
  d.kv_len = keys;
  d.purpose = ATTEND_FOR_BACKWARD;
  d.mask.lengths = role == ATTEND_DECODER_SELF ? NULL : real;
  return attend_plan_create(l->ctx, &d, plan);
}

static attend_status make_plans(attend_learner *l) {
  pass *e = &l->encoder.p, *d = &l->decoder.p;
  if (l->encoder.layers)
    ATTEND_TRY(plan_role(l, ATTEND_ENCODER_SELF, 0, e->n, e->n, l->encoder.real,
                         &e->plan[FULL]));
  if (!l->decoder.layers) return ATTEND_OK;
  for (int i = 0; i < d->side->shape->layers; i++) {
    int kind = layer_kind(&l->model.config, d->side, i);
    if (!d->plan[kind])
      ATTEND_TRY(plan_role(l, ATTEND_DECODER_SELF, i, d->n, d->n, NULL,
                           &d->plan[kind]));
  }
  return plan_role(l, ATTEND_CROSS, 0, d->n, e->n, l->encoder.real,
                   &d->cross_plan);
}

/* f on every plan that there is. */
static void each_plan(attend_learner *l,
                      void (*f)(attend_plan **plan, size_t *bytes),
                      size_t *bytes) {
  pass *sides[] = {&l->encoder.p, &l->decoder.p};
  for (int i = 0; i < 2; i++) {
    attend_plan **all[] = {&sides[i]->plan[FULL], &sides[i]->plan[SLIDING],
                           &sides[i]->cross_plan};
    for (int j = 0; j < 3; j++)
      if (*all[j]) f(all[j], bytes);
  }
}

static void free_plan(attend_plan **plan, size_t *bytes) {
  (void)bytes;
  attend_plan_free(*plan);
  *plan = NULL;
}
static void count_plan(attend_plan **plan, size_t *bytes) {
  *bytes += attend_plan_workspace(*plan);
}

/* ---- the room of a lesson ------------------------------------------------------------------ */

void lesson_free(attend_learner *l) {
  each_plan(l, free_plan, NULL);
  device_give(l->ctx, l->trail_block);
  device_give(l->ctx, l->work_block);
  device_give(l->ctx, l->back.scratch);
  give(l->ctx, l->encoder.real);
  give(l->ctx, l->decoder.real);
  l->encoder.real = l->decoder.real = NULL;
  l->trail_block = l->work_block = l->back.scratch = NULL;
  l->trail_bytes = l->work_bytes = l->scratch_bytes = l->plan_bytes = 0;
  l->room_batch = 0;
}

static attend_status enough(attend_learner *l, size_t bytes, const char *what,
                            void **block, size_t *have) {
  if (bytes <= *have) return ATTEND_OK;
  device_give(l->ctx, *block);
  *block = NULL;
  *have = 0;
  ATTEND_TRY(device_take(l->ctx, bytes, what, block));
  *have = bytes;
  return ATTEND_OK;
}

static attend_status take_lengths(attend_learner *l, learn_side *x) {
  give(l->ctx, x->real);
  x->real = NULL;
  return x->layers ? take_zeroed(l->ctx, (size_t)l->batch * sizeof *x->real,
                                 "lengths", &x->real)
                   : ATTEND_OK;
}

static void set_pass(attend_learner *l, learn_side *x) {
  x->p.ctx = l->ctx;
  x->p.model = &l->model;
  x->p.h = l->h;
  x->p.back = l->back;
}

/* Another shape is another cut of the same memory, and other plans. */
attend_status lesson_room(attend_learner *l) {
  int n[2] = {l->encoder.p.n, l->decoder.p.n};
  if (l->room_batch == l->batch && l->room_length[0] == n[0] &&
      l->room_length[1] == n[1])
    return ATTEND_OK;
  size_t plans = 0;
  l->room_batch = 0;
  each_plan(l, free_plan, NULL);
  ATTEND_TRY(take_lengths(l, &l->encoder));
  ATTEND_TRY(take_lengths(l, &l->decoder));
  ATTEND_TRY(enough(l, cut_trails(l, NULL), "a lesson's activations",
                    &l->trail_block, &l->trail_bytes));
  ATTEND_TRY(enough(l, cut_work(l, NULL), "a lesson's work", &l->work_block,
                    &l->work_bytes));
  ATTEND_TRY(enough(l, need_scratch(l), "a lesson's work", &l->back.scratch,
                    &l->scratch_bytes));
  cut_trails(l, l->trail_block);
  cut_work(l, l->work_block);
  join_layers(l, &l->encoder);
  join_layers(l, &l->decoder);
  set_pass(l, &l->encoder);
  set_pass(l, &l->decoder);
  ATTEND_TRY(make_plans(l));
  each_plan(l, count_plan, &plans); /* forms differ in what they hold at once */
  if (plans > l->plan_bytes) l->plan_bytes = plans;
  l->room_batch = l->batch;
  l->room_length[0] = n[0];
  l->room_length[1] = n[1];
  return ATTEND_OK;
}
