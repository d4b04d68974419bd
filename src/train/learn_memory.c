/* The memory of a lesson: what forward leaves for the way back, and work.
 *
 * Place: train/ - see learner.h. Taken when a lesson is larger than those before;
 * cut twice by the same calls, first to learn the size.
 *
 * A trail is kept for each layer, or, where layers are computed again, one for
 * all of them and each layer's input.
 */
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

/* ---- trails ------------------------------------------------------------------------ */

static void cut_trail(const attend_learner *l, const learn_stack *s, arena *a,
                      learn_trail *t) {
  const attend_stack *w = s->shape;
  size_t rows = (size_t)s->rows, read = (size_t)l->encoder.rows;
  bool crosses = !s->encoder && l->config.parts == ATTEND_BOTH;
  t->self = cut(a, rows, w->width);
  t->qkv = cut(a, rows, qkv_width(w));
  t->mix = cut(a, rows, w->heads * w->dim_v);
  t->lse = arena_cut(a, rows * (size_t)w->heads * sizeof(float));
  t->up = cut(a, rows, w->mlp * (1 + l->config.gated));
  if (l->config.post_norm) t->mlp = cut(a, rows, w->width);
  if (!crosses) return;
  t->cross = cut(a, rows, w->width);
  t->cross_q = cut(a, rows, w->heads * w->dim);
  t->cross_kv = cut(a, read, kv_width(w));
  t->cross_mix = cut(a, rows, w->heads * w->dim_v);
  t->cross_lse = arena_cut(a, rows * (size_t)w->heads * sizeof(float));
}

static void cut_stack(const attend_learner *l, learn_stack *s, arena *a) {
  if (!s->layers) return;
  const attend_stack *w = s->shape;
  size_t rows = (size_t)s->rows;
  learn_trail shared = {0};
  bool again = l->options.recompute;
  if (again) cut_trail(l, s, a, &shared);
  for (int i = 0; i < w->layers; i++) {
    s->trails[i] = shared;
    s->trails[i].x = cut(a, rows, w->width);
    if (!again) cut_trail(l, s, a, &s->trails[i]);
  }
  s->embedded = cut(a, rows, w->width);
  s->last = cut(a, rows, w->width);
  s->hidden = cut(a, rows, w->width);
  s->d_hidden = cut(a, rows, w->width);
  s->position = arena_cut(a, rows * sizeof *s->position);
  s->real = arena_cut(a, (size_t)l->batch * sizeof *s->real);
}

static size_t cut_trails(attend_learner *l, void *block) {
  arena a = {block, 0};
  cut_stack(l, &l->encoder, &a);
  cut_stack(l, &l->decoder, &a);
  return a.used;
}

/* ---- work ---------------------------------------------------------------------------- */

typedef struct {
  size_t rows;
  int width, wide, mix;
} sizes;

static void grow(const attend_learner *l, const learn_stack *s, sizes *z) {
  if (!s->layers) return;
  const attend_stack *w = s->shape;
  if ((size_t)s->rows > z->rows) z->rows = (size_t)s->rows;
  z->width = widest(z->width, w->width);
  z->wide = widest(z->wide, w->mlp * (1 + l->config.gated));
  z->wide = widest(z->wide, qkv_width(w));
  z->mix = widest(z->mix, w->heads * w->dim_v);
  z->mix = widest(z->mix, w->heads * w->dim);
  z->mix = widest(z->mix, w->mlp);
}

static sizes sizes_of(const attend_learner *l) {
  sizes z = {0};
  grow(l, &l->encoder, &z);
  grow(l, &l->decoder, &z);
  return z;
}

static void cut_copy(attend_learner *l, arena *a) {
  learn_copy *c = &l->copy;
  size_t read = (size_t)l->encoder.rows;
  if (!c->k.w) return;
  c->keys = cut(a, read, l->config.copy);
  c->d_keys = cut(a, read, l->config.copy);
  c->queries = cut(a, HEAD_ROWS_AT_ONCE, l->config.copy);
  c->d_queries = cut(a, HEAD_ROWS_AT_ONCE, l->config.copy);
  c->gates = cut(a, HEAD_ROWS_AT_ONCE, 1);
  c->weights = cut(a, HEAD_ROWS_AT_ONCE, l->encoder.length);
}

static size_t cut_work(attend_learner *l, void *block) {
  arena a = {block, 0};
  sizes z = sizes_of(l);
  l->h = cut(&a, z.rows, z.width);
  l->middle = cut(&a, z.rows, z.width);
  l->dh = cut(&a, z.rows, z.width);
  l->wide = cut(&a, z.rows, z.mix);
  l->d_mix = cut(&a, z.rows, z.mix);
  l->d_wide = cut(&a, z.rows, z.wide);
  l->head_rows = cut(&a, 5 * HEAD_ROWS_AT_ONCE, z.width);
  l->logits = cut(&a, HEAD_ROWS_AT_ONCE, l->config.vocab);
  cut_copy(l, &a);
  l->d_bias = arena_cut(
      &a, (size_t)(widest(l->config.buckets, 1) *
                   widest(l->config.encoder.heads, l->config.decoder.heads)) *
              sizeof(float));
  return a.used;
}

/* What the gradient of the largest product, and of norms, needs. */
static size_t need_scratch(const attend_learner *l) {
  sizes z = sizes_of(l);
  size_t most = attend_norm_back_bytes((int)z.rows, z.width);
  const int pairs[][2] = {{z.wide, z.width},
                          {z.width, z.mix},
                          {z.width, z.width},
                          {widest(l->config.copy, 1), z.width}};
  for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
    size_t n = attend_linear_weight_grad_bytes(l->ctx, (int)z.rows, pairs[i][0],
                                               pairs[i][1]);
    if (n > most) most = n;
  }
  size_t n = attend_linear_weight_grad_bytes(l->ctx, HEAD_ROWS_AT_ONCE,
                                             l->config.vocab, z.width);
  return n > most ? n : most;
}

/* ---- plans ------------------------------------------------------------------------------ */

static attend_status plan_role(attend_learner *l, attend_role role,
                               const float *relative, int rows, int keys,
                               const int32_t *real, attend_plan **plan) {
  attend_desc d;
  if (!config_attention(&l->config, l->forms, relative, role, &d))
    return ATTEND_OK;
  d.batch = l->batch;
  d.q_len = rows;
  d.kv_len = keys;
  d.purpose = ATTEND_FOR_BACKWARD;
  d.mask.lengths = role == ATTEND_DECODER_SELF ? NULL : real;
  return attend_plan_create(l->ctx, &d, plan);
}

static attend_status make_plans(attend_learner *l) {
  learn_stack *e = &l->encoder, *d = &l->decoder;
  if (e->layers)
    ATTEND_TRY(plan_role(l, ATTEND_ENCODER_SELF, e->relative.w, e->length,
                         e->length, e->real, &e->plan));
  if (!d->layers) return ATTEND_OK;
  ATTEND_TRY(plan_role(l, ATTEND_DECODER_SELF, d->relative.w, d->length,
                       d->length, NULL, &d->plan));
  return plan_role(l, ATTEND_CROSS, NULL, d->length, e->length, e->real,
                   &d->cross_plan);
}

/* Forms differ in what they hold at once. */
static void count_plans(attend_learner *l) {
  const attend_plan *plans[] = {l->encoder.plan, l->decoder.plan,
                                l->decoder.cross_plan};
  size_t bytes = 0;
  for (size_t i = 0; i < sizeof plans / sizeof *plans; i++)
    if (plans[i]) bytes += attend_plan_workspace(plans[i]);
  if (bytes > l->plan_bytes) l->plan_bytes = bytes;
}

static void free_plans(attend_learner *l) {
  learn_stack *sides[] = {&l->encoder, &l->decoder};
  for (int i = 0; i < 2; i++) {
    attend_plan_free(sides[i]->plan);
    attend_plan_free(sides[i]->cross_plan);
    sides[i]->plan = sides[i]->cross_plan = NULL;
  }
}

/* ---- the room of a lesson ------------------------------------------------------------------ */

void lesson_free(attend_learner *l) {
  free_plans(l);
  give(l->ctx, l->trail_block);
  give(l->ctx, l->work_block);
  give(l->ctx, l->scratch);
  l->trail_block = l->work_block = l->scratch = NULL;
  l->trail_bytes = l->work_bytes = l->scratch_bytes = l->plan_bytes = 0;
  l->room_batch = 0;
}

static attend_status enough(attend_learner *l, size_t bytes, const char *what,
                            void **block, size_t *have) {
  if (bytes <= *have) return ATTEND_OK;
  give(l->ctx, *block);
  *block = NULL;
  *have = 0;
  ATTEND_TRY(take_zeroed(l->ctx, bytes, what, block));
  *have = bytes;
  return ATTEND_OK;
}

/* Another shape is another cut of the same memory, and other plans. */
attend_status lesson_room(attend_learner *l) {
  int n[2] = {l->encoder.length, l->decoder.length};
  if (l->room_batch == l->batch && l->room_length[0] == n[0] &&
      l->room_length[1] == n[1])
    return ATTEND_OK;
  l->room_batch = 0;
  free_plans(l);
  ATTEND_TRY(enough(l, cut_trails(l, NULL), "a lesson's activations",
                    &l->trail_block, &l->trail_bytes));
  ATTEND_TRY(enough(l, cut_work(l, NULL), "a lesson's work", &l->work_block,
                    &l->work_bytes));
  ATTEND_TRY(enough(l, need_scratch(l), "a lesson's work", &l->scratch,
                    &l->scratch_bytes));
  cut_trails(l, l->trail_block);
  cut_work(l, l->work_block);
  ATTEND_TRY(make_plans(l));
  count_plans(l);
  l->room_batch = l->batch;
  l->room_length[0] = n[0];
  l->room_length[1] = n[1];
  return ATTEND_OK;
}
