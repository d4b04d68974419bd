/* The memory of a batch: activations that backward reads, and workspaces.
 *
 * One block, reallocated when a batch is larger than those before; the same calls cut it
 * twice, first to find its size.
 *
 * Activations are kept for each layer; with recomputation, one set is shared by all
 * layers and each keeps its input.
 */
#include "model/transformer.h"
#include "train/trainer.h"

static int widest(int a, int b) { return a > b ? a : b; }

static float *cut(arena *a, size_t rows, int width) {
  return arena_cut(a, rows * (size_t)padded(width) * sizeof(float));
}

/* Of the passes' type. */
static void *cut_typed(const attend_trainer *tr, arena *a, size_t rows, int width) {
  return arena_cut(a, rows * (size_t)padded(width) * attend_dtype_size(tr->options.activations));
}

static int kv_width(const attend_stack *s) { return s->kv_heads * (s->dim + s->dim_v); }
static int qkv_width(const attend_stack *s) { return s->heads * s->dim + kv_width(s); }

/* ---- activations ------------------------------------------------------------------- */

static void cut_layer(const attend_trainer *tr, const trainer_side *x, arena *a, activations *t) {
  const attend_config *c = &tr->model.config;
  const attend_stack *w = x->p.side->shape;
  const size_t rows = (size_t)x->p.rows, read = (size_t)tr->encoder.p.rows;
  bool crosses = !x->p.side->encoder && c->parts == ATTEND_BOTH;
  bool after = c->norms == ATTEND_NORM_AFTER || c->norms == ATTEND_NORM_BOTH;
  bool apart =
      hooks_edit(&tr->hooks, ATTEND_AT_HEAD_OUTPUT | ATTEND_AT_PATTERN | ATTEND_AT_DENOMINATOR);
  t->self = t->self_added = cut(a, rows, w->width);
  if (after) t->self_added = cut(a, rows, w->width);
  t->qkv = cut_typed(tr, a, rows, qkv_width(w));
  if (c->qk_norm) t->raw = cut_typed(tr, a, rows, (w->heads + w->kv_heads) * w->dim);
  t->heads = t->attended = cut_typed(tr, a, rows, w->heads * w->dim_v);
  if (apart) t->attended = cut_typed(tr, a, rows, w->heads * w->dim_v);
  t->lse = arena_cut(a, rows * (size_t)w->heads * sizeof(float));
  t->up = cut_typed(tr, a, rows, w->mlp * (1 + c->gated));
  if (after) t->mlp_added = cut(a, rows, w->width);
  if (c->norms == ATTEND_NORM_SUM) t->mlp = t->mlp_added = cut(a, rows, w->width);
  if (!crosses) return;
  t->cross = t->cross_added = cut(a, rows, w->width);
  t->cross_q = cut_typed(tr, a, rows, w->heads * w->dim);
  t->cross_kv = cut_typed(tr, a, read, kv_width(w));
  t->cross_heads = t->cross_attended = cut_typed(tr, a, rows, w->heads * w->dim_v);
  if (apart) t->cross_attended = cut_typed(tr, a, rows, w->heads * w->dim_v);
  t->cross_lse = arena_cut(a, rows * (size_t)w->heads * sizeof(float));
}

static void cut_side(attend_trainer *tr, trainer_side *x, arena *a) {
  if (!x->layers) return;
  const attend_stack *w = x->p.side->shape;
  const size_t rows = (size_t)x->p.rows;
  activations shared = {0};
  bool again = tr->options.recompute;
  if (again) cut_layer(tr, x, a, &shared);
  for (int i = 0; i < w->layers; i++) {
    x->layers[i] = shared;
    x->layers[i].x = cut(a, rows, w->width);
    if (!again) cut_layer(tr, x, a, &x->layers[i]);
  }
  x->embedded = cut(a, rows, embed_width(&tr->model, x->p.side));
  x->last = cut(a, rows, w->width);
  x->hidden = cut(a, rows, w->width);
  x->d_hidden = cut(a, rows, w->width);
  x->p.position = arena_cut(a, rows * sizeof *x->p.position);
  x->ids = arena_cut(a, rows * sizeof *x->ids);
  x->types = arena_cut(a, rows * sizeof *x->types);
}

/* A layer writes its output where the next one reads its input. */
static void join_layers(attend_trainer *tr, trainer_side *x) {
  const attend_config *c = &tr->model.config;
  bool sum = c->norms == ATTEND_NORM_SUM;
  if (!x->layers) return;
  const int layers = x->p.side->shape->layers;
  for (int i = 0; i < layers; i++) {
    activations *t = &x->layers[i];
    bool crosses = t->cross != NULL;
    t->out = i + 1 < layers ? x->layers[i + 1].x : c->final_norm ? x->last : x->hidden;
    t->self_out = sum ? tr->backward.residual_middle : t->self;
    t->cross_out = sum && crosses ? tr->backward.residual_middle : t->cross;
    t->act = tr->act;
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

static void widen(const attend_trainer *tr, const trainer_side *x, sizes *z) {
  if (!x->layers) return;
  const attend_stack *w = x->p.side->shape;
  if ((size_t)x->p.rows > z->rows) z->rows = (size_t)x->p.rows;
  z->width = widest(z->width, w->width);
  z->wide = widest(z->wide, w->mlp * (1 + tr->model.config.gated));
  z->wide = widest(z->wide, qkv_width(w));
  z->act = widest(z->act, w->heads * w->dim_v);
  z->act = widest(z->act, w->heads * w->dim);
  z->act = widest(z->act, w->mlp);
}

/* What the gradient of the largest product, and of norms, needs. */
static size_t scratch_bytes(const attend_trainer *tr, const sizes *z) {
  const attend_config *c = &tr->model.config;
  const int rows = (int)z->rows, heads = widest(c->encoder.heads, c->decoder.heads);
  size_t max = attend_norm_back_bytes(rows, widest(z->width, z->act));
  if (c->qk_norm) /* each head's row */
    max = size_add(max, attend_norm_back_bytes(rows * heads, z->act));
  const int products[][3] = {{rows, z->wide, z->width},
                             {rows, z->width, z->act},
                             {rows, z->width, z->width},
                             {rows, widest(c->copy, 1), z->width},
                             {tr->chunk, c->vocab, z->width}};
  const size_t sorting = embed_backward_bytes(z->rows, z->width);
  if (sorting > max) max = sorting;
  for (size_t i = 0; i < sizeof products / sizeof *products; i++) {
    const int *of = products[i];
    size_t n = attend_linear_weight_grad_bytes(tr->ctx, of[0], of[1], of[2]);
    if (n > max) max = n;
  }
  return max;
}

/* Elements of the rows of one op: an activation's gradient with gates, a product's, the head's. */
static size_t widest_op(const attend_trainer *tr, const sizes *z) {
  const size_t vocab = (size_t)padded(tr->model.config.vocab), width = (size_t)padded(z->width);
  const size_t layer = 2 * ((size_t)padded(z->wide) + (size_t)padded(z->act)) + 2 * width;
  const size_t head = (tr->model.config.logit_cap > 0 ? 2 : 1) * vocab + width;
  return layer > head ? layer : head;
}

static void cut_copy(attend_trainer *tr, arena *a) {
  trainer_copy *c = &tr->copy;
  const int width = tr->model.config.copy;
  size_t read = (size_t)tr->encoder.p.rows;
  if (!tr->model.copy_k.forward) return;
  c->keys = cut(a, read, width);
  c->d_keys = cut(a, read, width);
  const size_t rows = (size_t)tr->chunk;
  c->queries = cut(a, rows, width);
  c->d_queries = cut(a, rows, width);
  c->gates = cut(a, rows, 1);
  c->weights = cut(a, rows, tr->encoder.p.n);
}

static sizes sizes_of(const attend_trainer *tr) {
  sizes z = {.width = tr->model.config.embed_width};
  widen(tr, &tr->encoder, &z);
  widen(tr, &tr->decoder, &z);
  return z;
}

static void cut_work(attend_trainer *tr, arena *a) {
  const attend_config *c = &tr->model.config;
  const int heads = widest(c->encoder.heads, c->decoder.heads);
  const sizes z = sizes_of(tr);
  tr->h = cut_typed(tr, a, z.rows, z.width);
  tr->act = cut_typed(tr, a, z.rows, z.act);
  tr->backward.residual_middle = cut(a, z.rows, z.width);
  tr->backward.dh = cut_typed(tr, a, z.rows, z.width);
  tr->backward.d_act = cut_typed(tr, a, z.rows, z.act);
  tr->backward.d_wide = cut_typed(tr, a, z.rows, z.wide);
  tr->backward.d_bias = cut(a, (size_t)widest(c->buckets, 1), heads);
  tr->backward.scratch = arena_cut(a, scratch_bytes(tr, &z));
  tr->head_rows = cut_typed(tr, a, 5 * (size_t)tr->chunk, z.width);
  tr->logits = floats(NULL, c->vocab);
  if (!tr->model.copy_k.forward) tr->logits.type = tr->options.activations;
  const size_t bytes =
      (size_t)tr->chunk * (size_t)tr->logits.ld * attend_dtype_size(tr->logits.type);
  tr->logits.at = arena_cut(a, bytes);
  if (c->logit_cap > 0) tr->capped = arena_cut(a, bytes);
  scored_rows *s = &tr->scored;
  s->device_row = arena_cut(a, z.rows * sizeof *s->device_row);
  s->device_target = arena_cut(a, z.rows * sizeof *s->device_target);
  s->device_loss = arena_cut(a, z.rows * sizeof *s->device_loss);
  cut_copy(tr, a);
}

static size_t cut_all(attend_trainer *tr, void *block) {
  arena a = {block, 0};
  cut_side(tr, &tr->encoder, &a);
  cut_side(tr, &tr->decoder, &a);
  cut_work(tr, &a);
  return a.used;
}

/* ---- plans ------------------------------------------------------------------------------ */

static attend_status plan_role(attend_trainer *tr, attend_role role, int layer, int rows, int keys,
                               size_t *bytes, attend_plan **plan) {
  attend_desc d;
  if (*plan || !model_attention(&tr->model, role, layer, &d)) return ATTEND_OK;
  d.batch = tr->batch->count;
  d.q_len = rows;
  d.kv_len = keys;
  d.dtype = tr->options.activations;
  d.purpose = ATTEND_FOR_BACKWARD;
  if (role != ATTEND_DECODER_SELF) d.mask.lengths = tr->encoder.real;
  ATTEND_TRY(attend_plan_create(tr->ctx, &d, plan));
  *bytes += attend_plan_workspace(*plan);
  return ATTEND_OK;
}

static attend_status make_plans(attend_trainer *tr, size_t *bytes) {
  pass *e = &tr->encoder.p, *d = &tr->decoder.p;
  if (tr->encoder.layers)
    ATTEND_TRY(plan_role(tr, ATTEND_ENCODER_SELF, 0, e->n, e->n, bytes, &e->plan[FULL]));
  if (!tr->decoder.layers) return ATTEND_OK;
  for (int i = 0; i < d->side->shape->layers; i++)
    ATTEND_TRY(plan_role(tr, ATTEND_DECODER_SELF, i, d->n, d->n, bytes,
                         &d->plan[layer_kind(&tr->model.config, d->side, i)]));
  return plan_role(tr, ATTEND_CROSS, 0, d->n, e->n, bytes, &d->cross_plan);
}

static void free_plans(pass *p) {
  attend_plan **all[] = {&p->plan[FULL], &p->plan[SLIDING], &p->cross_plan};
  for (int i = 0; i < 3; i++) {
    attend_plan_free(*all[i]);
    *all[i] = NULL;
  }
}

/* ---- a batch's shape ---------------------------------------------------------------------- */

void activations_free(attend_trainer *tr) {
  free_plans(&tr->encoder.p);
  free_plans(&tr->decoder.p);
  device_free(tr->ctx, tr->block);
  ctx_free(tr->ctx, tr->real);
}

static attend_status take_block(attend_trainer *tr) {
  const size_t bytes = cut_all(tr, NULL);
  if (bytes > tr->block_bytes) {
    device_free(tr->ctx, tr->block);
    tr->block = NULL;
    tr->block_bytes = 0;
    ATTEND_TRY(device_alloc(tr->ctx, bytes, "activations", &tr->block));
    tr->block_bytes = bytes;
  }
  cut_all(tr, tr->block);
  if (!tr->options.activations) return ATTEND_OK;
  const sizes z = sizes_of(tr);
  return tr->ctx->device->reserve(tr->ctx, widest_op(tr, &z));
}

static attend_status place_rows(attend_trainer *tr, trainer_side *x) {
  const size_t bytes = (size_t)x->p.rows * sizeof *x->p.position;
  int32_t *position;
  if (!x->layers) return ATTEND_OK;
  ATTEND_TRY(ctx_alloc(tr->ctx, bytes, "positions", &position));
  for (int i = 0; i < x->p.rows; i++) position[i] = i % x->p.n;
  tr->ctx->device->write(tr->ctx, x->p.position, position, bytes);
  ctx_free(tr->ctx, position);
  return ATTEND_OK;
}

/* Of the host: lengths of both sides, and the scored positions. */
static attend_status take_lists(attend_trainer *tr) {
  const sizes z = sizes_of(tr);
  const size_t lengths = 2 * (size_t)tr->batch->count;
  scored_rows *s = &tr->scored;
  ctx_free(tr->ctx, tr->real);
  tr->real = NULL;
  ATTEND_TRY(ctx_alloc_zeroed(tr->ctx, (lengths + 4 * z.rows) * sizeof *tr->real,
                              "lengths and targets", &tr->real));
  s->row = tr->real + lengths;
  s->target = s->row + z.rows;
  s->text = s->target + z.rows;
  s->loss = (float *)(s->text + z.rows);
  tr->chunk = (int)min64(tr->ctx->device->head_rows, (int64_t)round_up(z.rows, 256));
  return ATTEND_OK;
}

/* Another shape cuts the same memory anew and needs other plans. */
attend_status activations_fit(attend_trainer *tr) {
  trainer_side *sides[] = {&tr->encoder, &tr->decoder};
  size_t plans = 0; /* forms differ in what they hold at once */
  if (tr->fit_count == tr->batch->count && tr->fit_length[0] == sides[0]->p.n &&
      tr->fit_length[1] == sides[1]->p.n)
    return ATTEND_OK;
  tr->fit_count = 0;
  ATTEND_TRY(take_lists(tr));
  ATTEND_TRY(take_block(tr));
  for (int i = 0; i < 2; i++) {
    trainer_side *x = sides[i];
    free_plans(&x->p);
    join_layers(tr, x);
    x->real = tr->real + i * tr->batch->count;
    x->p.h = tr->h;
    x->p.backward = tr->backward;
    tr->fit_length[i] = x->p.n;
    ATTEND_TRY(place_rows(tr, x));
  }
  ATTEND_TRY(make_plans(tr, &plans));
  if (plans > tr->plan_bytes) tr->plan_bytes = plans;
  tr->fit_count = tr->batch->count;
  return ATTEND_OK;
}
