/* The memory of a lesson: what forward leaves for the way back, and work.
 *
 * One block, taken when a lesson is larger than those before; cut twice by the same
 * calls, first to learn the size.
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

static int kv_width(const attend_stack *s) {
  return s->kv_heads * (s->dim + s->dim_v);
}
static int qkv_width(const attend_stack *s) {
  return s->heads * s->dim + kv_width(s);
}

/* ---- activations ------------------------------------------------------------------- */

static void cut_layer(const attend_trainer *l, const learn_side *x, arena *a,
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

static void cut_side(attend_trainer *l, learn_side *x, arena *a) {
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
static void join_layers(attend_trainer *l, learn_side *x) {
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

/* ---- work ---------------------------------------------------------------------------- */

typedef struct {
  size_t rows;
  int width, wide, act;
} sizes;

static void widen(const attend_trainer *l, const learn_side *x, sizes *z) {
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

/* What the gradient of the largest product, and of norms, needs. */
static size_t scratch_bytes(const attend_trainer *l, const sizes *z) {
  const attend_config *c = &l->model.config;
  const int rows = (int)z->rows,
            heads = widest(c->encoder.heads, c->decoder.heads);
  size_t most = attend_norm_back_bytes(rows, widest(z->width, z->act));
  if (c->qk_norm) /* each head's row */
    most = size_add(most, attend_norm_back_bytes(rows * heads, z->act));
  const int products[][3] = {{rows, z->wide, z->width},
                             {rows, z->width, z->act},
                             {rows, z->width, z->width},
                             {rows, widest(c->copy, 1), z->width},
                             {HEAD_ROWS_AT_ONCE, c->vocab, z->width}};
  for (size_t i = 0; i < sizeof products / sizeof *products; i++) {
    const int *of = products[i];
    size_t n = attend_linear_weight_grad_bytes(l->ctx, of[0], of[1], of[2]);
    if (n > most) most = n;
  }
  return most;
}

static void cut_copy(attend_trainer *l, arena *a) {
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

static void cut_work(attend_trainer *l, arena *a) {
  const attend_config *c = &l->model.config;
  const int heads = widest(c->encoder.heads, c->decoder.heads);
  sizes z = {.width = c->embed_width};
  widen(l, &l->encoder, &z);
  widen(l, &l->decoder, &z);
  l->h = cut(a, z.rows, z.width);
  l->act = cut(a, z.rows, z.act);
  l->back.middle = cut(a, z.rows, z.width);
  l->back.dh = cut(a, z.rows, z.width);
  l->back.d_act = cut(a, z.rows, z.act);
  l->back.d_wide = cut(a, z.rows, z.wide);
  l->back.d_bias = cut(a, (size_t)widest(c->buckets, 1), heads);
  l->back.scratch = arena_cut(a, scratch_bytes(l, &z));
  l->head_rows = cut(a, 5 * HEAD_ROWS_AT_ONCE, z.width);
  l->logits = cut(a, HEAD_ROWS_AT_ONCE, c->vocab);
  if (c->logit_cap > 0) l->capped = cut(a, HEAD_ROWS_AT_ONCE, c->vocab);
  l->losses = cut(a, HEAD_ROWS_AT_ONCE, 1);
  l->head_row = arena_cut(a, HEAD_ROWS_AT_ONCE * sizeof *l->head_row);
  l->head_target = arena_cut(a, HEAD_ROWS_AT_ONCE * sizeof *l->head_target);
  cut_copy(l, a);
}

static size_t cut_all(attend_trainer *l, void *block) {
  arena a = {block, 0};
  cut_side(l, &l->encoder, &a);
  cut_side(l, &l->decoder, &a);
  cut_work(l, &a);
  return a.used;
}

/* ---- plans ------------------------------------------------------------------------------ */

static attend_status plan_role(attend_trainer *l, attend_role role, int layer,
                               int rows, int keys, size_t *bytes,
                               attend_plan **plan) {
  attend_desc d;
  if (*plan || !model_attention(&l->model, role, layer, &d)) return ATTEND_OK;
  d.batch = l->batch;
  d.q_len = rows;
  d.kv_len = keys;
  d.purpose = ATTEND_FOR_BACKWARD;
  if (role != ATTEND_DECODER_SELF) d.mask.lengths = l->encoder.real;
  ATTEND_TRY(attend_plan_create(l->ctx, &d, plan));
  *bytes += attend_plan_workspace(*plan);
  return ATTEND_OK;
}

static attend_status make_plans(attend_trainer *l, size_t *bytes) {
  pass *e = &l->encoder.p, *d = &l->decoder.p;
  if (l->encoder.layers)
    ATTEND_TRY(plan_role(l, ATTEND_ENCODER_SELF, 0, e->n, e->n, bytes,
                         &e->plan[FULL]));
  if (!l->decoder.layers) return ATTEND_OK;
  for (int i = 0; i < d->side->shape->layers; i++)
    ATTEND_TRY(plan_role(l, ATTEND_DECODER_SELF, i, d->n, d->n, bytes,
                         &d->plan[layer_kind(&l->model.config, d->side, i)]));
  return plan_role(l, ATTEND_CROSS, 0, d->n, e->n, bytes, &d->cross_plan);
}

static void free_plans(pass *p) {
  attend_plan **all[] = {&p->plan[FULL], &p->plan[SLIDING], &p->cross_plan};
  for (int i = 0; i < 3; i++) {
    attend_plan_free(*all[i]);
    *all[i] = NULL;
  }
}

/* ---- the room of a lesson ------------------------------------------------------------------ */

void lesson_free(attend_trainer *l) {
  free_plans(&l->encoder.p);
  free_plans(&l->decoder.p);
  device_give(l->ctx, l->block);
  give(l->ctx, l->real);
}

static attend_status take_block(attend_trainer *l) {
  const size_t bytes = cut_all(l, NULL);
  if (bytes > l->block_bytes) {
    device_give(l->ctx, l->block);
    l->block = NULL;
    l->block_bytes = 0;
    ATTEND_TRY(device_take(l->ctx, bytes, "a lesson's activations", &l->block));
    l->block_bytes = bytes;
  }
  cut_all(l, l->block);
  return ATTEND_OK;
}

static attend_status place_rows(attend_trainer *l, learn_side *x) {
  const size_t bytes = (size_t)x->p.rows * sizeof *x->p.position;
  int32_t *position;
  if (!x->layers) return ATTEND_OK;
  ATTEND_TRY(take(l->ctx, bytes, "positions", &position));
  for (int i = 0; i < x->p.rows; i++) position[i] = i % x->p.n;
  l->ctx->device->write(l->ctx, x->p.position, position, bytes);
  give(l->ctx, position);
  return ATTEND_OK;
}

/* Another shape is another cut of the same memory, and other plans. */
attend_status lesson_room(attend_trainer *l) {
  learn_side *sides[] = {&l->encoder, &l->decoder};
  size_t plans = 0; /* forms differ in what they hold at once */
  if (l->room_batch == l->batch && l->room_length[0] == sides[0]->p.n &&
      l->room_length[1] == sides[1]->p.n)
    return ATTEND_OK;
  l->room_batch = 0;
  give(l->ctx, l->real);
  l->real = NULL;
  ATTEND_TRY(take_zeroed(l->ctx, 2 * (size_t)l->batch * sizeof *l->real,
                         "lengths", &l->real));
  ATTEND_TRY(take_block(l));
  for (int i = 0; i < 2; i++) {
    learn_side *x = sides[i];
    free_plans(&x->p);
    join_layers(l, x);
    x->real = l->real + i * l->batch;
    x->p.h = l->h;
    x->p.back = l->back;
    l->room_length[i] = x->p.n;
    ATTEND_TRY(place_rows(l, x));
  }
  ATTEND_TRY(make_plans(l, &plans));
  if (plans > l->plan_bytes) l->plan_bytes = plans;
  l->room_batch = l->batch;
  return ATTEND_OK;
}
