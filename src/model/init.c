/* Untrained weights: every parameter of a configuration, drawn from a seed.
 *
 * A checkpoint without files: to train from, to compare trained models with, and to
 * time an architecture without training it.
 *
 * attend_checkpoint_init_pytorch resets layers as PyTorch does: linear weights and
 * biases uniform within 1/sqrt(inputs), embeddings normal, norms 1 and 0.
 * attend_checkpoint_init follows the initialization of the families: see
 * start_spread. The values of a tensor depend on the seed and its index in the table
 * only.
 */
#include <math.h>

#include "model/checkpoint.h"

/* Bias of the copy gate: a new copy head copies with probability of about a quarter. */
static const float COPY_BEGINS = -1;

/* A bias has the range of its layer's weights. */
static int64_t inputs_of(const attend_checkpoint *c, const parameter *p) {
  for (size_t i = 0; i < c->table.count; i++) {
    const parameter *q = &c->table.entry[i];
    if (q->slot == p->slot && q->of == p->of && q->layer == p->layer && q->rank == 2)
      return q->shape[1];
  }
  return 1;
}

/* Uniform within 1/sqrt(inputs); tables normal. */
static void draw_reset(const attend_checkpoint *c, const parameter *p, attend_random r, size_t n,
                       float *to) {
  if (slot_infos[p->slot].kind == A_TABLE) {
    attend_random_normal(r, 0, n, to);
    return;
  }
  float within = 1 / sqrtf((float)inputs_of(c, p));
  attend_random_uniform(r, 0, n, to);
  for (size_t j = 0; j < n; j++) to[j] = (2 * to[j] - 1) * within;
}

/* T5 has no 1/sqrt(dim) in its scores, and a tied head that scales its input down. */
static double bucket_spread(const attend_checkpoint *c, const parameter *p) {
  const attend_stack *s = p->of == ATTEND_DECODER ? &c->config.decoder : &c->config.encoder;
  if (p->slot == TOKENS) return 1;
  double inputs = (double)inputs_of(c, p);
  if (p->slot == SELF_Q || p->slot == CROSS_Q) inputs *= s->dim;
  if (p->slot == RELATIVE) inputs = s->width;
  return 1 / sqrt(inputs);
}

/* Scores of order 1 from the head's input; the gate starts without a preference. */
static double copy_spread(const attend_checkpoint *c, const parameter *p) {
  if (p->slot == COPY_GATE) return 0;
  double spread = 1 / sqrt((double)p->shape[1]);
  return p->slot == COPY_Q ? spread / (double)c->config.head_factor : spread;
}

/* Initial standard deviation: 0.02; with pre-norm, weights that add to the residual
 * stream are scaled down by the number of layers. Projections keep the scale of the
 * embedding table, since positions of that scale are added. */
static double start_spread(const attend_checkpoint *c, const parameter *p) {
  bool adds = p->slot == SELF_O || p->slot == CROSS_O || p->slot == MLP_DOWN;
  int layers = p->of == ATTEND_ENCODER ? c->config.encoder.layers : c->config.decoder.layers;
  if (p->slot >= COPY_Q) return copy_spread(c, p);
  if (c->config.position == ATTEND_POSITIONS_BUCKETS) return bucket_spread(c, p);
  if (p->slot == PROJECTION) return 1 / sqrt((double)p->shape[1]);
  if (!adds || c->config.norms == ATTEND_NORM_SUM) return 0.02;
  return 0.02 / sqrt(2.0 * layers);
}

static void draw_start(const attend_checkpoint *c, const parameter *p, attend_random r, size_t n,
                       float *to) {
  float spread = p->is_bias ? 0 : (float)start_spread(c, p);
  attend_random_normal(r, 0, n, to);
  for (size_t j = 0; j < n; j++) to[j] *= spread;
  if (p->slot == COPY_GATE && p->is_bias) *to = COPY_BEGINS;
}

typedef struct {
  uint64_t seed;
  void (*draw)(const attend_checkpoint *c, const parameter *p, attend_random r, size_t n,
               float *to);
} drawing;

static void describe(parameter *p, attend_tensor *t) {
  t->name = p->name;
  t->stored = ATTEND_STORED_F32;
  t->dtype = "F32";
  t->rank = p->rank;
  t->count = 1;
  for (int i = 0; i < p->rank; i++) {
    t->shape[i] = p->transposed ? p->shape[p->rank - 1 - i] : p->shape[i];
    t->count *= t->shape[i];
  }
  t->bytes = (size_t)t->count * sizeof(float);
  p->tensor = t;
}

/* Nothing to draw: a tied head is the embedding table, and tensors that are not
 * trained (BART's bias of logits) are 0. */
static bool is_drawn(const attend_checkpoint *c, const parameter *p) {
  return !(p->slot == HEAD && !p->is_bias && c->config.tied) && !p->fixed;
}

static attend_status draw_all(attend_checkpoint *c, const void *user) {
  const drawing *how = user;
  ATTEND_TRY(ctx_alloc_zeroed(c->ctx, size_times(c->table.count, sizeof *c->drawn),
                              "untrained weights", &c->drawn));
  for (size_t i = 0; i < c->table.count; i++) {
    parameter *p = &c->table.entry[i];
    parameter_name(p, c->family->prefix, p->name);
    if (is_drawn(c, p)) describe(p, &c->drawn[i]);
  }
  for (size_t i = 0; i < c->table.count; i++) {
    const parameter *p = &c->table.entry[i];
    attend_tensor *t = &c->drawn[i];
    float *floats;
    if (!p->tensor) continue;
    ATTEND_TRY(ctx_alloc(c->ctx, t->bytes, "untrained weights", &floats));
    t->data = floats;
    c->bytes += t->bytes;
    if (slot_infos[p->slot].kind != A_NORM)
      how->draw(c, p, (attend_random){how->seed, i}, (size_t)t->count, floats);
    else
      for (int64_t j = 0; j < t->count; j++) floats[j] = p->is_bias ? 0 : 1;
  }
  return ATTEND_OK;
}

attend_status checkpoint_init(attend_context *ctx, const char *path, uint64_t seed, int positions,
                              bool training, attend_checkpoint **checkpoint) {
  const drawing how = {seed, training ? draw_start : draw_reset};
  return checkpoint_make(ctx, path, NULL, positions, draw_all, &how, checkpoint);
}

attend_status attend_checkpoint_init_pytorch(attend_context *ctx, const char *path, uint64_t seed,
                                             attend_checkpoint **checkpoint) {
  return checkpoint_init(ctx, path, seed, 0, false, checkpoint);
}

attend_status attend_checkpoint_init(attend_context *ctx, const char *path, uint64_t seed,
                                     attend_checkpoint **checkpoint) {
  return checkpoint_init(ctx, path, seed, 0, true, checkpoint);
}
