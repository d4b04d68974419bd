/* A model: the checkpoint's weights, packed for computing.
 *
 * Place: model/ - after the checkpoint, before a run.
 *
 * Each tensor is read once, packed, and its file pages let go, so that loading
 * needs the memory of the packed weights and little more. Embedding tables stay
 * in the mapped file: a lookup touches the rows it reads.
 */
#include <string.h>

#include "model/transformer.h"

typedef struct {
  attend_model *m;
  const attend_model_options *options;
  size_t done, total; /* bytes of tensors */
} loading;

/* ---- small tensors ------------------------------------------------------------------ */

static attend_status keep(attend_model *m, size_t bytes, void *block) {
  ATTEND_TRY(take(m->ctx, bytes, "weights", block));
  m->kept[m->n_kept++] = *(void **)block;
  m->bytes += bytes;
  return ATTEND_OK;
}

static attend_status read_floats(loading *l, const parameter *p,
                                 float **floats) {
  attend_dtype dtype = ATTEND_F32;
  tensor_dtype(p->tensor, &dtype);
  size_t n = (size_t)p->tensor->count;
  ATTEND_TRY(keep(l->m, n * sizeof **floats, floats));
  attend_convert_to_f32(dtype, p->tensor->data, n, *floats);
  return ATTEND_OK;
}

static attend_status read_norm(loading *l, enum slot slot, attend_parts of,
                               int number, norm *w) {
  const attend_checkpoint *c = l->m->files;
  const parameter *p = checkpoint_find(c, slot, of, number, false);
  if (p) ATTEND_TRY(read_floats(l, p, (float **)&w->weight));
  p = checkpoint_find(c, slot, of, number, true);
  if (p) ATTEND_TRY(read_floats(l, p, (float **)&w->bias));
  return ATTEND_OK;
}

static void read_table(const loading *l, enum slot slot, attend_parts of,
                       attend_table *t) {
  const parameter *p = checkpoint_find(l->m->files, slot, of, -1, false);
  if (!p) return;
  t->data = p->tensor->data;
  tensor_dtype(p->tensor, &t->dtype);
  t->entries = (int)p->shape[0];
}

/* ---- linear layers ------------------------------------------------------------------- */

enum { MOST_PARTS = 3 };

typedef struct {
  int count, inputs;
  attend_linear_part part[MOST_PARTS];
  const parameter *from[MOST_PARTS];
  float *bias[MOST_PARTS];
  void *aligned[MOST_PARTS];
} parts;

/* A file may put a tensor at any byte; the packing wants whole elements. */
static attend_status align(loading *l, parts *x, int i) {
  attend_linear_part *part = &x->part[i];
  if ((uintptr_t)part->weight % attend_dtype_size(part->dtype) == 0)
    return ATTEND_OK;
  size_t bytes = x->from[i]->tensor->bytes;
  ATTEND_TRY(
      take(l->m->ctx, bytes, "a tensor that is not aligned", &x->aligned[i]));
  memcpy(x->aligned[i], part->weight, bytes);
  part->weight = x->aligned[i];
  return ATTEND_OK;
}

static attend_status add_part(loading *l, parts *x, enum slot slot,
                              attend_parts of, int number) {
  const attend_checkpoint *c = l->m->files;
  const parameter *p = checkpoint_find(c, slot, of, number, false);
  const parameter *bias = checkpoint_find(c, slot, of, number, true);
  if (!p) return ATTEND_OK;
  int i = x->count++;
  attend_linear_part *part = &x->part[i];
  x->from[i] = p;
  x->inputs = (int)p->shape[1];
  part->weight = p->tensor->data;
  tensor_dtype(p->tensor, &part->dtype);
  part->outputs = (int)p->shape[0];
  part->packed = checkpoint_release;
  part->user = l->m->files;
  part->output_stride = p->turned ? 1 : (ptrdiff_t)p->shape[1];
  part->input_stride = p->turned ? (ptrdiff_t)p->shape[0] : 1;
  ATTEND_TRY(align(l, x, i));
  if (!bias) return ATTEND_OK;
  attend_dtype dtype = ATTEND_F32;
  tensor_dtype(bias->tensor, &dtype);
  ATTEND_TRY(take(l->m->ctx,
                  size_times((size_t)bias->tensor->count, sizeof(float)),
                  "a bias", &x->bias[i]));
  attend_convert_to_f32(dtype, bias->tensor->data, (size_t)bias->tensor->count,
                        x->bias[i]);
  part->bias = x->bias[i];
  return ATTEND_OK;
}

static attend_status say_progress(loading *l, const parts *x) {
  for (int i = 0; i < x->count; i++) {
    l->done += x->from[i]->tensor->bytes;
    checkpoint_release(x->from[i]->tensor->data, x->from[i]->tensor->bytes,
                       l->m->files);
  }
  if (!l->options->progress ||
      !l->options->progress(l->done, l->total, l->options->user))
    return ATTEND_OK;
  return fail(l->m->ctx, ATTEND_INVALID, "loading was stopped");
}

static attend_status pack_parts(loading *l, parts *x, attend_linear **linear) {
  if (x->count == 0) return ATTEND_OK;
  ATTEND_TRY(attend_linear_create(l->m->ctx, l->m->weights, x->inputs, x->count,
                                  x->part, linear));
  l->m->bytes += attend_linear_bytes(*linear);
  l->m->flops += 2.0 * x->inputs * attend_linear_outputs(*linear);
  return say_progress(l, x);
}

static attend_status make_linear(loading *l, const enum slot *slots, int n,
                                 attend_parts of, int number,
                                 attend_linear **linear) {
  parts x = {0};
  attend_status status = ATTEND_OK;
  for (int i = 0; i < n && !status; i++)
    status = add_part(l, &x, slots[i], of, number);
  if (!status) status = pack_parts(l, &x, linear);
  for (int i = 0; i < x.count; i++) {
    give(l->m->ctx, x.bias[i]);
    give(l->m->ctx, x.aligned[i]);
  }
  return status;
}

#define LINEAR(l, of, number, to, ...)                                       \
  make_linear(l, (const enum slot[]){__VA_ARGS__},                           \
              (int)(sizeof((enum slot[]){__VA_ARGS__}) / sizeof(enum slot)), \
              of, number, to)

static attend_status read_layer(loading *l, attend_parts of, int i, layer *to) {
  ATTEND_TRY(read_norm(l, SELF_NORM, of, i, &to->self_norm));
  ATTEND_TRY(read_norm(l, CROSS_NORM, of, i, &to->cross_norm));
  ATTEND_TRY(read_norm(l, MLP_NORM, of, i, &to->mlp_norm));
  if (checkpoint_find(l->m->files, SELF_QKV, of, i, false))
    ATTEND_TRY(LINEAR(l, of, i, &to->qkv, SELF_QKV));
  else
    ATTEND_TRY(LINEAR(l, of, i, &to->qkv, SELF_Q, SELF_K, SELF_V));
  ATTEND_TRY(LINEAR(l, of, i, &to->out, SELF_O));
  ATTEND_TRY(LINEAR(l, of, i, &to->cross_q, CROSS_Q));
  ATTEND_TRY(LINEAR(l, of, i, &to->cross_kv, CROSS_K, CROSS_V));
  ATTEND_TRY(LINEAR(l, of, i, &to->cross_out, CROSS_O));
  ATTEND_TRY(LINEAR(l, of, i, &to->up, MLP_GATE, MLP_UP));
  return LINEAR(l, of, i, &to->down, MLP_DOWN);
}

/* ---- the parts ------------------------------------------------------------------------ */

static attend_status read_stack(loading *l, attend_parts of,
                                const attend_stack *shape, stack *s) {
  if (!(l->m->config.parts & of)) return ATTEND_OK;
  s->shape = shape;
  read_table(l, POSITIONS, of, &s->positions);
  read_table(l, TYPES, of, &s->types);
  ATTEND_TRY(read_norm(l, EMBED_NORM, of, -1, &s->embed_norm));
  ATTEND_TRY(read_norm(l, FINAL_NORM, of, -1, &s->final_norm));
  const parameter *p = checkpoint_find(l->m->files, RELATIVE, of, -1, false);
  if (p) ATTEND_TRY(read_floats(l, p, &s->relative));
  ATTEND_TRY(LINEAR(l, of, -1, &s->projection, PROJECTION));
  ATTEND_TRY(take_zeroed(l->m->ctx,
                         size_times((size_t)shape->layers, sizeof *s->layers),
                         "the layers", &s->layers));
  for (int i = 0; i < shape->layers; i++)
    ATTEND_TRY(read_layer(l, of, i, &s->layers[i]));
  return ATTEND_OK;
}

/* A tied head is the embedding table, with the head's own bias. */
static attend_status read_head(loading *l) {
  attend_model *m = l->m;
  if (l->options->no_head || !checkpoint_has_head(m->files)) return ATTEND_OK;
  ATTEND_TRY(LINEAR(l, 0, -1, &m->transform, TRANSFORM));
  ATTEND_TRY(read_norm(l, TRANSFORM_NORM, 0, -1, &m->transform_norm));
  ATTEND_TRY(LINEAR(l, 0, -1, &m->copy_q, COPY_Q));
  ATTEND_TRY(LINEAR(l, 0, -1, &m->copy_k, COPY_K));
  ATTEND_TRY(LINEAR(l, 0, -1, &m->copy_gate, COPY_GATE));
  if (!m->config.tied) return LINEAR(l, 0, -1, &m->head, HEAD);
  parts x = {0};
  attend_status status = add_part(l, &x, TOKENS, 0, -1);
  const parameter *bias = checkpoint_find(m->files, HEAD, 0, -1, true);
  if (!status && bias) {
    float *floats;
    status = read_floats(l, bias, &floats);
    x.part[0].bias = floats;
  }
  if (!status) status = pack_parts(l, &x, &m->head);
  give(m->ctx, x.aligned[0]);
  return status;
}

static attend_status read_rotary(attend_model *m) {
  const attend_config *c = &m->config;
  if (c->position != ATTEND_POSITIONS_ROTARY) return ATTEND_OK;
  ATTEND_TRY(keep(m, (size_t)c->decoder.dim / 2 * sizeof *m->frequency,
                  &m->frequency));
  attend_rope_frequencies(&c->rope, c->decoder.dim, m->frequency, &m->stretch);
  return ATTEND_OK;
}

static attend_status read_all(loading *l) {
  attend_model *m = l->m;
  for (size_t i = 0; i < m->files->table.count; i++) {
    const parameter *p = &m->files->table.entry[i];
    if (p->tensor && p->rank == 2) l->total += p->tensor->bytes;
  }
  ATTEND_TRY(take_zeroed(m->ctx,
                         size_times(m->files->table.count + 1, sizeof *m->kept),
                         "a model", &m->kept));
  read_table(l, TOKENS, 0, &m->tokens);
  ATTEND_TRY(read_rotary(m));
  ATTEND_TRY(read_stack(l, ATTEND_ENCODER, &m->config.encoder, &m->encoder));
  ATTEND_TRY(read_stack(l, ATTEND_DECODER, &m->config.decoder, &m->decoder));
  return read_head(l);
}

attend_status attend_model_create(attend_checkpoint *checkpoint,
                                  const attend_model_options *options,
                                  attend_model **model) {
  static const attend_model_options none = {0};
  attend_model *m;
  *model = NULL;
  if (!options) options = &none;
  ATTEND_TRY(take_zeroed(checkpoint->ctx, sizeof *m, "a model", &m));
  m->ctx = checkpoint->ctx;
  m->files = checkpoint;
  m->config = checkpoint->config;
  m->weights = options->weights;
  m->form = options->form ? *options->form : m->config.form;
  loading l = {m, options, 0, 0};
  attend_status status = attend_config_forms(m->ctx, &m->config, options->form,
                                             options->roles, m->forms);
  if (!status) status = read_all(&l);
  if (status)
    attend_model_free(m);
  else
    *model = m;
  return status;
}

attend_status attend_model_with_roles(const attend_model *model,
                                      const attend_form *form, unsigned roles,
                                      attend_model **other) {
  attend_form forms[ATTEND_ROLES];
  *other = NULL;
  ATTEND_TRY(
      attend_config_forms(model->ctx, &model->config, form, roles, forms));
  ATTEND_TRY(take(model->ctx, sizeof **other, "a model", other));
  **other = *model;
  (*other)->form = *form;
  memcpy((*other)->forms, forms, sizeof forms);
  (*other)->borrowed = true;
  return ATTEND_OK;
}

attend_status attend_model_with_form(const attend_model *model,
                                     const attend_form *form,
                                     attend_model **other) {
  return attend_model_with_roles(model, form, 0, other);
}

static void free_stack(attend_context *ctx, stack *s) {
  for (int i = 0; s->layers && i < s->shape->layers; i++) {
    layer *l = &s->layers[i];
    attend_linear *all[] = {l->qkv,       l->out, l->cross_q, l->cross_kv,
                            l->cross_out, l->up,  l->down};
    for (size_t j = 0; j < sizeof all / sizeof *all; j++)
      attend_linear_free(all[j]);
  }
  attend_linear_free(s->projection);
  give(ctx, s->layers);
}

void attend_model_free(attend_model *m) {
  if (!m) return;
  if (m->borrowed) {
    give(m->ctx, m);
    return;
  }
  free_stack(m->ctx, &m->encoder);
  free_stack(m->ctx, &m->decoder);
  attend_linear_free(m->transform);
  attend_linear_free(m->head);
  attend_linear_free(m->copy_q);
  attend_linear_free(m->copy_k);
  attend_linear_free(m->copy_gate);
  for (size_t i = 0; i < m->n_kept; i++) give(m->ctx, m->kept[i]);
  give(m->ctx, m->kept);
  give(m->ctx, m);
}

attend_context *attend_model_context(const attend_model *m) { return m->ctx; }
const attend_config *attend_model_config(const attend_model *m) {
  return &m->config;
}
const attend_form *attend_model_form(const attend_model *m) { return &m->form; }
const attend_form *attend_model_role_form(const attend_model *m,
                                          attend_role role) {
  return &m->forms[role];
}

int attend_model_attention(const attend_model *m, attend_role role,
                           attend_desc *desc) {
  const stack *s = role == ATTEND_ENCODER_SELF ? &m->encoder : &m->decoder;
  return config_attention(&m->config, m->forms, s->relative, role, desc);
}

size_t attend_model_bytes(const attend_model *m) { return m->bytes; }
double attend_model_flops(const attend_model *m) { return m->flops; }
