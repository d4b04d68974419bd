/* A learner's parameters: read from a checkpoint, laid out, packed for products.
 *
 * Place: train/ - see learner.h.
 *
 * What one product takes lies together, in the order of its outputs: q, k and v of
 * a layer are one matrix, whatever their tensors are called. Matrices that a
 * checkpoint stores turned are turned back here.
 */
#include <string.h>

#include "train/learner.h"

/* ---- where everything lies ------------------------------------------------------ */

static bool is_tied_head(const attend_learner *l, const parameter *p) {
  return p->slot == HEAD && !p->is_bias && l->config.tied;
}

static attend_group group_of(const parameter *p) {
  bool table = p->slot == TOKENS || p->slot == POSITIONS || p->slot == TYPES ||
               p->slot == RELATIVE;
  return p->rank != 2 ? ATTEND_VECTORS
         : table      ? ATTEND_TABLES
                      : ATTEND_MATRICES;
}

static void add_entry(attend_learner *l, enum slot slot, attend_parts of,
                      int layer, bool is_bias) {
  const parameter *p = checkpoint_find(l->files, slot, of, layer, is_bias);
  if (!p || is_tied_head(l, p)) return;
  learn_entry *e = &l->entries[l->n_entries++];
  e->parameter = (size_t)(p - l->files->table.entry);
  e->at = l->count;
  e->group = group_of(p);
  e->fixed = p->fixed;
  l->count += (size_t)p->tensor->count;
}

static void add_group(attend_learner *l, attend_parts of, int layer, int n,
                      const enum slot *slots) {
  for (int is_bias = 0; is_bias < 2; is_bias++)
    for (int i = 0; i < n; i++) add_entry(l, slots[i], of, layer, is_bias);
}

#define GROUP(l, of, layer, ...)                                           \
  add_group(l, of, layer,                                                  \
            (int)(sizeof((enum slot[]){__VA_ARGS__}) / sizeof(enum slot)), \
            (enum slot[]){__VA_ARGS__})

static void add_stack(attend_learner *l, attend_parts of,
                      const attend_stack *s) {
  GROUP(l, of, -1, PROJECTION);
  GROUP(l, of, -1, POSITIONS);
  GROUP(l, of, -1, TYPES);
  GROUP(l, of, -1, EMBED_NORM);
  GROUP(l, of, -1, RELATIVE);
  for (int i = 0; i < s->layers; i++) {
    GROUP(l, of, i, SELF_NORM);
    GROUP(l, of, i, SELF_QKV);
    GROUP(l, of, i, SELF_Q, SELF_K, SELF_V);
    GROUP(l, of, i, SELF_O);
    GROUP(l, of, i, CROSS_NORM);
    GROUP(l, of, i, CROSS_Q);
    GROUP(l, of, i, CROSS_K, CROSS_V);
    GROUP(l, of, i, CROSS_O);
    GROUP(l, of, i, MLP_NORM);
    GROUP(l, of, i, MLP_GATE, MLP_UP);
    GROUP(l, of, i, MLP_DOWN);
  }
  GROUP(l, of, -1, FINAL_NORM);
}

static void lay_out(attend_learner *l) {
  GROUP(l, 0, -1, TOKENS);
  if (l->config.parts & ATTEND_ENCODER)
    add_stack(l, ATTEND_ENCODER, &l->config.encoder);
  if (l->config.parts & ATTEND_DECODER)
    add_stack(l, ATTEND_DECODER, &l->config.decoder);
  GROUP(l, 0, -1, TRANSFORM);
  GROUP(l, 0, -1, TRANSFORM_NORM);
  GROUP(l, 0, -1, HEAD);
  GROUP(l, 0, -1, COPY_Q);
  GROUP(l, 0, -1, COPY_K);
  GROUP(l, 0, -1, COPY_GATE);
}

/* ---- reading --------------------------------------------------------------------- */

static attend_status read_entry(attend_learner *l, const learn_entry *e) {
  const parameter *p = &l->files->table.entry[e->parameter];
  attend_dtype dtype;
  float *to = l->values + e->at;
  size_t n = (size_t)p->tensor->count;
  ATTEND_CHECK(l->ctx, tensor_dtype(p->tensor, &dtype),
               "%s is stored as %s: a learner reads F32, F16 and BF16", p->name,
               p->tensor->dtype);
  if (!p->turned) {
    attend_convert_to_f32(dtype, p->tensor->data, n, to);
    return ATTEND_OK;
  }
  float *rows;
  ATTEND_TRY(take(l->ctx, n * sizeof *rows, "a turned matrix", &rows));
  attend_convert_to_f32(dtype, p->tensor->data, n, rows);
  size_t outputs = (size_t)p->shape[0], inputs = (size_t)p->shape[1];
  for (size_t o = 0; o < outputs; o++)
    for (size_t i = 0; i < inputs; i++)
      to[o * inputs + i] = rows[i * outputs + o];
  give(l->ctx, rows);
  return ATTEND_OK;
}

static attend_status read_values(attend_learner *l) {
  size_t bytes = l->count * sizeof(float);
  ATTEND_TRY(take(l->ctx, bytes, "parameters", &l->values));
  ATTEND_TRY(take_zeroed(l->ctx, bytes, "gradients", &l->gradients));
  for (size_t i = 0; i < l->n_entries; i++)
    ATTEND_TRY(read_entry(l, &l->entries[i]));
  return ATTEND_OK;
}

/* ---- finding them again ------------------------------------------------------------ */

static const learn_entry *entry_of(const attend_learner *l, enum slot slot,
                                   attend_parts of, int layer, bool is_bias) {
  const parameter *p = checkpoint_find(l->files, slot, of, layer, is_bias);
  for (size_t i = 0; p && i < l->n_entries; i++)
    if (&l->files->table.entry[l->entries[i].parameter] == p)
      return &l->entries[i];
  return NULL;
}

static void find_pair(const attend_learner *l, enum slot slot, attend_parts of,
                      int layer, bool is_bias, float **value, float **grad) {
  const learn_entry *e = entry_of(l, slot, of, layer, is_bias);
  *value = e ? l->values + e->at : NULL;
  *grad = e && !e->fixed ? l->gradients + e->at : NULL;
}

static void find_norm(const attend_learner *l, enum slot slot, attend_parts of,
                      int layer, learn_norm *n) {
  find_pair(l, slot, of, layer, false, &n->w, &n->dw);
  find_pair(l, slot, of, layer, true, &n->b, &n->db);
}

static void find_table(const attend_learner *l, enum slot slot, attend_parts of,
                       learn_table *t) {
  const parameter *p = checkpoint_find(l->files, slot, of, -1, false);
  find_pair(l, slot, of, -1, false, &t->w, &t->dw);
  t->entries = p ? (int)p->shape[0] : 0;
}

static attend_linear_part part_of(const learn_linear *x) {
  return (attend_linear_part){
      .weight = x->w, .dtype = ATTEND_F32, .outputs = x->outputs, .bias = x->b};
}

static attend_status pack_linear(attend_learner *l, learn_linear *x) {
  if (!x->w) return ATTEND_OK;
  attend_linear_part go = part_of(x);
  attend_weights kind = l->options.weights;
  ATTEND_TRY(attend_linear_create(l->ctx, kind, x->inputs, 1, &go, &x->go));
  return attend_linear_create_back(l->ctx, kind, x->inputs, 1, &go, &x->back);
}

/* The matrices of the slots lie one after the other: they are one. */
static attend_status find_linear(attend_learner *l, attend_parts of, int layer,
                                 int n, const enum slot *slots,
                                 learn_linear *x) {
  for (int i = 0; i < n; i++) {
    const parameter *p = checkpoint_find(l->files, slots[i], of, layer, false);
    if (!p) continue;
    if (!x->w) {
      find_pair(l, slots[i], of, layer, false, &x->w, &x->dw);
      find_pair(l, slots[i], of, layer, true, &x->b, &x->db);
    }
    x->outputs += (int)p->shape[0];
    x->inputs = (int)p->shape[1];
  }
  return pack_linear(l, x);
}

#define LINEAR(l, of, layer, to, ...)                                \
  ATTEND_TRY(find_linear(                                            \
      l, of, layer,                                                  \
      (int)(sizeof((enum slot[]){__VA_ARGS__}) / sizeof(enum slot)), \
      (enum slot[]){__VA_ARGS__}, to))

static attend_status find_layer(attend_learner *l, attend_parts of, int i,
                                learn_layer *to) {
  find_norm(l, SELF_NORM, of, i, &to->self_norm);
  find_norm(l, CROSS_NORM, of, i, &to->cross_norm);
  find_norm(l, MLP_NORM, of, i, &to->mlp_norm);
  LINEAR(l, of, i, &to->qkv, SELF_QKV, SELF_Q, SELF_K, SELF_V);
  LINEAR(l, of, i, &to->out, SELF_O);
  LINEAR(l, of, i, &to->cross_q, CROSS_Q);
  LINEAR(l, of, i, &to->cross_kv, CROSS_K, CROSS_V);
  LINEAR(l, of, i, &to->cross_out, CROSS_O);
  LINEAR(l, of, i, &to->up, MLP_GATE, MLP_UP);
  LINEAR(l, of, i, &to->down, MLP_DOWN);
  return ATTEND_OK;
}

static attend_status find_stack(attend_learner *l, attend_parts of,
                                const attend_stack *shape, learn_stack *s) {
  if (!(l->config.parts & of)) return ATTEND_OK;
  s->shape = shape;
  s->encoder = of == ATTEND_ENCODER;
  find_table(l, POSITIONS, of, &s->positions);
  find_table(l, TYPES, of, &s->types);
  find_table(l, RELATIVE, of, &s->relative);
  find_norm(l, EMBED_NORM, of, -1, &s->embed_norm);
  find_norm(l, FINAL_NORM, of, -1, &s->final_norm);
  LINEAR(l, of, -1, &s->projection, PROJECTION);
  size_t layers = (size_t)shape->layers;
  ATTEND_TRY(take_zeroed(l->ctx, layers * sizeof *s->layers, "the layers",
                         &s->layers));
  ATTEND_TRY(take_zeroed(l->ctx, layers * sizeof *s->trails, "the layers",
                         &s->trails));
  for (int i = 0; i < shape->layers; i++)
    ATTEND_TRY(find_layer(l, of, i, &s->layers[i]));
  return ATTEND_OK;
}

static attend_status find_head(attend_learner *l) {
  LINEAR(l, 0, -1, &l->transform, TRANSFORM);
  find_norm(l, TRANSFORM_NORM, 0, -1, &l->transform_norm);
  LINEAR(l, 0, -1, &l->copy.q, COPY_Q);
  LINEAR(l, 0, -1, &l->copy.k, COPY_K);
  LINEAR(l, 0, -1, &l->copy.gate, COPY_GATE);
  if (!l->config.tied) {
    LINEAR(l, 0, -1, &l->head, HEAD);
    return ATTEND_OK;
  }
  const attend_stack *s = l->config.parts & ATTEND_DECODER ? &l->config.decoder
                                                           : &l->config.encoder;
  l->head = (learn_linear){.w = l->tokens.w,
                           .dw = l->tokens.dw,
                           .outputs = l->config.vocab,
                           .inputs = s->width};
  find_pair(l, HEAD, 0, -1, true, &l->head.b, &l->head.db);
  return pack_linear(l, &l->head);
}

static attend_status find_all(attend_learner *l) {
  find_table(l, TOKENS, 0, &l->tokens);
  ATTEND_TRY(find_stack(l, ATTEND_ENCODER, &l->config.encoder, &l->encoder));
  ATTEND_TRY(find_stack(l, ATTEND_DECODER, &l->config.decoder, &l->decoder));
  ATTEND_TRY(find_head(l));
  if (l->config.position != ATTEND_POSITIONS_ROTARY) return ATTEND_OK;
  int dim = l->config.decoder.dim;
  ATTEND_TRY(take(l->ctx, (size_t)(dim / 2 + 1) * sizeof *l->frequency,
                  "frequencies", &l->frequency));
  attend_rope_frequencies(&l->config.rope, dim, l->frequency, &l->stretch);
  return ATTEND_OK;
}

/* ---- life ------------------------------------------------------------------------------ */

static attend_status check_options(attend_context *ctx,
                                   const attend_learner_options *o) {
  ATTEND_CHECK(
      ctx, o->weights != ATTEND_WEIGHTS_I8,
      "a model is learnt with weights of f32, bf16 or mixed, not int8");
  ATTEND_CHECK(ctx, o->dropout >= 0 && o->dropout < 1,
               "a dropout of %g: choose a share from 0 to below 1",
               (double)o->dropout);
  return ATTEND_OK;
}

static attend_status open_learner(attend_learner *l) {
  ATTEND_TRY(check_options(l->ctx, &l->options));
  ATTEND_CHECK(l->ctx, checkpoint_has_head(l->files),
               "the checkpoint has no head that gives logits: there is nothing "
               "to learn from");
  ATTEND_TRY(take_zeroed(l->ctx, l->files->table.count * sizeof *l->entries,
                         "the parameters", &l->entries));
  lay_out(l);
  ATTEND_TRY(read_values(l));
  return find_all(l);
}

attend_status attend_learner_create(attend_checkpoint *files,
                                    const attend_learner_options *options,
                                    attend_learner **learner) {
  attend_learner *l;
  *learner = NULL;
  ATTEND_TRY(take_zeroed(files->ctx, sizeof *l, "a learner", &l));
  l->ctx = files->ctx;
  l->files = files;
  l->config = files->config;
  if (options) l->options = *options;
  attend_status status = attend_config_forms(
      l->ctx, &l->config, l->options.form, l->options.roles, l->forms);
  if (!status) status = open_learner(l);
  if (status)
    attend_learner_free(l);
  else
    *learner = l;
  return status;
}

/* f on every matrix that there is. */
static attend_status each_linear(attend_learner *l,
                                 attend_status (*f)(attend_learner *l,
                                                    learn_linear *x)) {
  learn_stack *sides[] = {&l->encoder, &l->decoder};
  for (int k = 0; k < 2; k++) {
    if (sides[k]->projection.w) ATTEND_TRY(f(l, &sides[k]->projection));
    for (int i = 0; sides[k]->layers && i < sides[k]->shape->layers; i++) {
      learn_layer *w = &sides[k]->layers[i];
      learn_linear *all[] = {&w->qkv,       &w->out, &w->cross_q, &w->cross_kv,
                             &w->cross_out, &w->up,  &w->down};
      for (size_t j = 0; j < sizeof all / sizeof *all; j++)
        if (all[j]->w) ATTEND_TRY(f(l, all[j]));
    }
  }
  learn_linear *ends[] = {&l->transform, &l->copy.q, &l->copy.k, &l->copy.gate,
                          &l->head};
  for (size_t j = 0; j < sizeof ends / sizeof *ends; j++)
    if (ends[j]->w) ATTEND_TRY(f(l, ends[j]));
  return ATTEND_OK;
}

static attend_status free_linear(attend_learner *l, learn_linear *x) {
  (void)l;
  attend_linear_free(x->go);
  attend_linear_free(x->back);
  return ATTEND_OK;
}

static attend_status repack(attend_learner *l, learn_linear *x) {
  attend_linear_part go = part_of(x);
  (void)l;
  ATTEND_TRY(attend_linear_repack(x->go, 1, &go));
  return attend_linear_repack(x->back, 1, &go);
}

attend_status attend_learner_refresh(attend_learner *l) {
  return each_linear(l, repack);
}

void attend_learner_free(attend_learner *l) {
  if (!l) return;
  each_linear(l, free_linear);
  lesson_free(l);
  learn_stack *sides[] = {&l->encoder, &l->decoder};
  for (int k = 0; k < 2; k++) {
    give(l->ctx, sides[k]->layers);
    give(l->ctx, sides[k]->trails);
  }
  give(l->ctx, l->frequency);
  give(l->ctx, l->entries);
  give(l->ctx, l->values);
  give(l->ctx, l->gradients);
  give(l->ctx, l);
}

/* ---- looking at them ---------------------------------------------------------------------- */

const attend_config *attend_learner_config(const attend_learner *l) {
  return &l->config;
}

int attend_learner_get(const attend_learner *l, size_t i, attend_learnt *x) {
  if (i >= l->n_entries) return 0;
  const learn_entry *e = &l->entries[i];
  const parameter *p = &l->files->table.entry[e->parameter];
  *x = (attend_learnt){.name = p->name,
                       .rank = p->rank,
                       .shape = {p->shape[0], p->rank == 2 ? p->shape[1] : 1},
                       .count = p->tensor->count,
                       .turned = p->turned,
                       .group = e->group,
                       .fixed = e->fixed,
                       .value = l->values + e->at,
                       .gradient = l->gradients + e->at};
  return 1;
}

float *attend_learner_values(const attend_learner *l, size_t *count) {
  if (count) *count = l->count;
  return l->values;
}
float *attend_learner_gradients(const attend_learner *l) {
  return l->gradients;
}
void attend_learner_forget(attend_learner *l) {
  memset(l->gradients, 0, l->count * sizeof *l->gradients);
}

static size_t linear_bytes(const learn_linear *x) {
  return x->w ? attend_linear_bytes(x->go) + attend_linear_bytes(x->back) : 0;
}

size_t attend_learner_bytes(const attend_learner *l) {
  size_t bytes = 2 * l->count * sizeof(float);
  const learn_stack *sides[] = {&l->encoder, &l->decoder};
  for (int k = 0; k < 2; k++) {
    bytes += linear_bytes(&sides[k]->projection);
    for (int i = 0; sides[k]->layers && i < sides[k]->shape->layers; i++) {
      const learn_layer *w = &sides[k]->layers[i];
      bytes += linear_bytes(&w->qkv) + linear_bytes(&w->out) +
               linear_bytes(&w->cross_q) + linear_bytes(&w->cross_kv) +
               linear_bytes(&w->cross_out) + linear_bytes(&w->up) +
               linear_bytes(&w->down);
    }
  }
  bytes += linear_bytes(&l->copy.q) + linear_bytes(&l->copy.k) +
           linear_bytes(&l->copy.gate);
  return bytes + linear_bytes(&l->transform) + linear_bytes(&l->head);
}

size_t attend_learner_work_bytes(const attend_learner *l) {
  return l->trail_bytes + l->work_bytes + l->scratch_bytes + l->plan_bytes;
}
