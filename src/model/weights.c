/* A model: the checkpoint's weights, packed for the kernels.
 *
 * Each tensor is read once and packed, and its file pages are released, so that
 * loading needs little more memory than the packed weights. Embedding tables stay in
 * the mapped file: a lookup touches only the rows it reads.
 */
#include <stddef.h>
#include <string.h>

#include "base/options.h"
#include "model/transformer.h"

/* ---- what holds weights ---------------------------------------------------------- */

#define KIND(x) \
  _Generic((x), linear_weights : A_LINEAR, norm_weights : A_NORM, table_weights : A_TABLE)
#define X(slot, of, member, what) {KIND(((of *)0)->member), offsetof(of, member), what},
const slot_info slot_infos[SLOTS] = {SLOT_LIST(X)};
#undef X

typedef struct {
  attend_model *m;
  field_visit visit;
  void *user;
} visiting;

/* The members of the owner that hold slots from `slot` up to `end`. */
static attend_status visit_slots(const visiting *v, enum slot slot, enum slot end, attend_parts of,
                                 int layer, void *owner) {
  while (slot < end) {
    field f = {.kind = slot_infos[slot].kind, .at = slot_infos[slot].at};
    while (slot < end && slot_infos[slot].at == f.at) f.slot[f.slots++] = slot++;
    ATTEND_TRY(v->visit(v->m, &f, of, layer, (char *)owner + f.at, v->user));
  }
  return ATTEND_OK;
}

static attend_status visit_side(const visiting *v, stack *s) {
  attend_parts of = s->encoder ? ATTEND_ENCODER : ATTEND_DECODER;
  if (!s->layers) return ATTEND_OK;
  ATTEND_TRY(visit_slots(v, PROJECTION, SELF_NORM, of, -1, s));
  for (int i = 0; i < s->groups; i++)
    ATTEND_TRY(visit_slots(v, SELF_NORM, FINAL_NORM, of, i, &s->layers[i]));
  return visit_slots(v, FINAL_NORM, TRANSFORM, of, -1, s);
}

attend_status model_each(attend_model *m, field_visit visit, void *user) {
  visiting v = {m, visit, user};
  ATTEND_TRY(visit_slots(&v, TOKENS, PROJECTION, 0, -1, m));
  ATTEND_TRY(visit_side(&v, &m->encoder));
  ATTEND_TRY(visit_side(&v, &m->decoder));
  return visit_slots(&v, TRANSFORM, SLOTS, 0, -1, m);
}

/* ---- sides and rotations --------------------------------------------------------- */

attend_status model_keep(attend_model *m, size_t bytes, void *block) {
  m->bytes += bytes;
  return blocks_add(m->ctx, &m->kept, ON_DEVICE, bytes, "weights", block);
}

static attend_status open_side(attend_model *m, attend_parts of, const attend_stack *shape,
                               stack *s) {
  const attend_config *c = &m->config;
  if (!(c->parts & of)) return ATTEND_OK;
  s->shape = shape;
  s->encoder = of == ATTEND_ENCODER;
  s->groups = c->layer_groups ? c->layer_groups : shape->layers;
  return blocks_add(m->ctx, &m->kept, ON_HOST, size_times((size_t)s->groups, sizeof *s->layers),
                    "the layers", &s->layers);
}

static attend_status open_rotation(attend_model *m, const attend_rope *rope, rotation *r) {
  const attend_config *c = &m->config;
  bool decodes = c->parts & ATTEND_DECODER;
  int dim = decodes ? c->decoder.dim : c->encoder.dim;
  int rotary = c->rotary ? c->rotary : dim;
  size_t bytes = (size_t)(rotary / 2 + 1) * sizeof(double);
  double *host;
  ATTEND_TRY(ctx_alloc_zeroed(m->ctx, bytes, "frequencies", &host));
  attend_status status = model_keep(m, bytes, &r->frequency);
  if (!status) {
    attend_rope_frequencies(rope, rotary, host, &r->stretch);
    m->ctx->device->write(m->ctx, r->frequency, host, bytes);
  }
  ctx_free(m->ctx, host);
  return status;
}

attend_status model_open(attend_model *m) {
  const attend_config *c = &m->config;
  bool own = c->norms == ATTEND_NORM_AFTER || c->norms == ATTEND_NORM_BOTH;
  if (c->parts == ATTEND_BOTH && (own || c->parallel))
    return fail(m->ctx, ATTEND_UNSUPPORTED,
                "an encoder-decoder has norms before its branches or after the sum, and no "
                "parallel branches");
  ATTEND_TRY(open_side(m, ATTEND_ENCODER, &c->encoder, &m->encoder));
  ATTEND_TRY(open_side(m, ATTEND_DECODER, &c->decoder, &m->decoder));
  if (c->position != ATTEND_POSITIONS_ROTARY) return ATTEND_OK;
  ATTEND_TRY(open_rotation(m, &c->rope, &m->rope[FULL]));
  bool apart = c->rope_sliding.theta > 0;
  if (!apart) m->rope[SLIDING] = m->rope[FULL];
  return apart ? open_rotation(m, &c->rope_sliding, &m->rope[SLIDING]) : ATTEND_OK;
}

static attend_status free_field(attend_model *m, const field *f, attend_parts of, int layer,
                                void *place, void *user) {
  linear_weights *x = place;
  (void)m, (void)of, (void)layer, (void)user;
  if (f->kind == A_LINEAR) {
    attend_linear_free(x->forward);
    attend_linear_free(x->backward);
  }
  return ATTEND_OK;
}

void model_close(attend_model *m) {
  model_each(m, free_field, NULL);
  blocks_free(m->ctx, &m->kept);
}

/* ---- small tensors --------------------------------------------------------------- */

typedef struct {
  const attend_model_options *options;
  size_t done, total; /* bytes of tensors */
} loading;

static size_t float_bytes(const attend_tensor *t) {
  return size_times((size_t)t->count, sizeof(float));
}

static void to_floats(const attend_tensor *t, float *to) {
  attend_dtype dtype = ATTEND_F32;
  tensor_dtype(t, &dtype);
  attend_convert_to_f32(dtype, t->data, (size_t)t->count, to);
}

/* As f32, on the device. */
static attend_status read_floats(attend_model *m, const parameter *p, const float **floats) {
  const size_t bytes = float_bytes(p->tensor);
  float *host;
  ATTEND_TRY(model_keep(m, bytes, floats));
  ATTEND_TRY(ctx_alloc(m->ctx, bytes, "weights", &host));
  to_floats(p->tensor, host);
  m->ctx->device->write(m->ctx, (void *)*floats, host, bytes);
  ctx_free(m->ctx, host);
  return ATTEND_OK;
}

static attend_status read_norm(attend_model *m, enum slot slot, attend_parts of, int number,
                               norm_weights *w) {
  const parameter *p = checkpoint_find(m->files, slot, of, number, false);
  if (p) ATTEND_TRY(read_floats(m, p, &w->w));
  p = checkpoint_find(m->files, slot, of, number, true);
  return p ? read_floats(m, p, &w->b) : ATTEND_OK;
}

/* Lookup tables stay in the mapped file if the device can read it; score biases are f32. */
static attend_status read_table(attend_model *m, enum slot slot, attend_parts of,
                                table_weights *t) {
  const parameter *p = checkpoint_find(m->files, slot, of, -1, false);
  if (!p) return ATTEND_OK;
  t->t.data = p->tensor->data;
  tensor_dtype(p->tensor, &t->t.dtype);
  t->t.entries = (int)p->shape[0];
  if (slot == RELATIVE) {
    t->t.dtype = ATTEND_F32;
    return read_floats(m, p, (const float **)&t->t.data);
  }
  if (m->ctx->device->host) return ATTEND_OK;
  ATTEND_TRY(model_keep(m, p->tensor->bytes, &t->t.data));
  m->ctx->device->write(m->ctx, (void *)t->t.data, p->tensor->data, p->tensor->bytes);
  return ATTEND_OK;
}

/* A host copy of the score biases, for attend_model_attention. */
static attend_status host_table(attend_model *m, stack *s) {
  const attend_table *t = &s->relative.t;
  if (!t->data) return ATTEND_OK;
  size_t bytes = (size_t)t->entries * (size_t)s->shape->heads * sizeof(float);
  ATTEND_TRY(blocks_add(m->ctx, &m->kept, ON_HOST, bytes, "weights", &s->relative_host));
  m->ctx->device->read(m->ctx, (void *)s->relative_host, t->data, bytes);
  return ATTEND_OK;
}

/* ---- linear layers --------------------------------------------------------------- */

typedef struct {
  int count, inputs;
  attend_linear_part part[MOST_PARTS];
  const attend_tensor *from[MOST_PARTS];
  blocks copies; /* biases, and tensors that are not aligned */
} parts;

/* Tensors of a file may be unaligned; packing needs aligned elements. */
static attend_status align(attend_model *m, parts *x, const attend_tensor *t,
                           attend_linear_part *part) {
  void *copy;
  if ((uintptr_t)part->weight % attend_dtype_size(part->dtype) == 0) return ATTEND_OK;
  ATTEND_TRY(
      blocks_add(m->ctx, &x->copies, ON_HOST, t->bytes, "a tensor that is not aligned", &copy));
  part->weight = memcpy(copy, t->data, t->bytes);
  return ATTEND_OK;
}

static attend_status add_part(attend_model *m, parts *x, enum slot slot, const parameter *bias,
                              attend_parts of, int number) {
  const parameter *p = checkpoint_find(m->files, slot, of, number, false);
  if (!p) return ATTEND_OK;
  attend_linear_part *part = &x->part[x->count];
  x->from[x->count++] = p->tensor;
  x->inputs = (int)p->shape[1];
  part->weight = p->tensor->data;
  tensor_dtype(p->tensor, &part->dtype);
  part->outputs = (int)p->shape[0];
  part->packed = checkpoint_release;
  part->user = m->files;
  part->output_stride = p->transposed ? 1 : (ptrdiff_t)p->shape[1];
  part->input_stride = p->transposed ? (ptrdiff_t)p->shape[0] : 1;
  ATTEND_TRY(align(m, x, p->tensor, part));
  if (!bias) return ATTEND_OK;
  ATTEND_TRY(
      blocks_add(m->ctx, &x->copies, ON_HOST, float_bytes(bias->tensor), "a bias", &part->bias));
  to_floats(bias->tensor, (float *)part->bias);
  return ATTEND_OK;
}

static attend_status say_progress(attend_model *m, loading *l, const parts *x) {
  for (int i = 0; i < x->count; i++) {
    l->done += x->from[i]->bytes;
    checkpoint_release(x->from[i]->data, x->from[i]->bytes, m->files);
  }
  double done = (double)l->done / (double)l->total;
  if (!l->options->progress || !l->options->progress(done, NULL, l->options->user))
    return ATTEND_OK;
  return fail(m->ctx, ATTEND_STOPPED, "loading was stopped");
}

/* Number of layers that share the weights of a group. */
static int layers_sharing(const attend_model *m, attend_parts of, int group) {
  const stack *s = of == ATTEND_ENCODER ? &m->encoder : &m->decoder;
  int count = 0;
  for (int i = 0; group >= 0 && i < s->shape->layers; i++)
    count += layer_of(s, i) == &s->layers[group];
  return group < 0 ? 1 : count;
}

static attend_status pack_parts(attend_model *m, loading *l, parts *x, int layers,
                                linear_weights *to) {
  if (x->count == 0) return ATTEND_OK;
  ATTEND_TRY(
      m->ctx->device->pack(m->ctx, m->weights, false, x->inputs, x->count, x->part, &to->forward));
  to->inputs = x->inputs;
  to->outputs = attend_linear_outputs(to->forward);
  m->bytes += attend_linear_bytes(to->forward);
  m->flops += 2.0 * to->inputs * to->outputs * layers;
  return say_progress(m, l, x);
}

static attend_status read_linear(attend_model *m, loading *l, const field *f, attend_parts of,
                                 int number, linear_weights *to) {
  parts x = {0};
  attend_status status = ATTEND_OK;
  for (int i = 0; i < f->slots && !status; i++) {
    enum slot slot = f->slot[i];
    const parameter *bias = checkpoint_find(m->files, slot, of, number, true);
    if (slot == HEAD && m->config.tied) slot = TOKENS;
    status = add_part(m, &x, slot, bias, of, number);
  }
  if (!status) status = pack_parts(m, l, &x, layers_sharing(m, of, number), to);
  blocks_free(m->ctx, &x.copies);
  return status;
}

/* ---- linear layers in memory ----------------------------------------------------- */

static attend_linear_part part_of(const linear_weights *x) {
  return (attend_linear_part){
      .weight = x->w, .dtype = ATTEND_F32, .outputs = x->outputs, .bias = x->b};
}

attend_status linear_pack(attend_model *m, linear_weights *x, bool backward) {
  const struct attend_device *d = m->ctx->device;
  attend_linear_part part = part_of(x);
  ATTEND_TRY(d->pack(m->ctx, m->weights, false, x->inputs, 1, &part, &x->forward));
  if (!backward) return ATTEND_OK;
  return d->pack(m->ctx, m->weights, true, x->inputs, 1, &part, &x->backward);
}

static attend_status repack_field(attend_model *m, const field *f, attend_parts of, int layer,
                                  void *place, void *user) {
  linear_weights *x = place;
  (void)of, (void)layer, (void)user;
  if (f->kind != A_LINEAR || !x->w) return ATTEND_OK;
  attend_linear_part part = part_of(x);
  ATTEND_TRY(m->ctx->device->repack(m->ctx, x->forward, 1, &part));
  return x->backward ? m->ctx->device->repack(m->ctx, x->backward, 1, &part) : ATTEND_OK;
}

attend_status model_repack(attend_model *m) { return model_each(m, repack_field, NULL); }

/* ---- the whole ------------------------------------------------------------------- */

static attend_status read_field(attend_model *m, const field *f, attend_parts of, int number,
                                void *place, void *user) {
  loading *l = user;
  bool head = f->slot[0] >= TRANSFORM;
  if (head && (l->options->no_head || !attend_checkpoint_has_head(m->files))) return ATTEND_OK;
  if (f->kind == A_NORM) return read_norm(m, f->slot[0], of, number, place);
  if (f->kind == A_TABLE) return read_table(m, f->slot[0], of, place);
  return read_linear(m, l, f, of, number, place);
}

static attend_status read_all(attend_model *m, const attend_model_options *options) {
  loading l = {options, 0, 0};
  for (size_t i = 0; i < m->files->table.count; i++) {
    const parameter *p = &m->files->table.entry[i];
    if (p->tensor && p->rank == 2) l.total += p->tensor->bytes;
  }
  ATTEND_TRY(model_open(m));
  ATTEND_TRY(model_each(m, read_field, &l));
  ATTEND_TRY(host_table(m, &m->encoder));
  return host_table(m, &m->decoder);
}

attend_status attend_model_create(attend_checkpoint *checkpoint,
                                  const attend_model_options *options, attend_model **model) {
  attend_model_options o;
  attend_model *m;
  *model = NULL;
  ATTEND_TRY(OPTIONS_READ(checkpoint->ctx, attend_model_options, options, &o));
  ATTEND_CHECK(checkpoint->ctx, o.activations == ATTEND_F32 || o.activations == ATTEND_BF16,
               "a model's activations are f32 or bf16");
  ATTEND_TRY(ctx_alloc_zeroed(checkpoint->ctx, sizeof *m, "a model", &m));
  m->ctx = checkpoint->ctx;
  m->files = checkpoint;
  m->config = checkpoint->config;
  m->weights = o.weights;
  m->activations = o.activations;
  m->form = o.form ? *o.form : m->config.form;
  attend_status status = attend_config_forms(m->ctx, &m->config, o.form, o.roles, m->forms);
  if (!status) status = read_all(m, &o);
  if (status)
    attend_model_free(m);
  else
    *model = m;
  return status;
}

attend_status attend_model_with_roles(const attend_model *model, const attend_form *form,
                                      unsigned roles, attend_model **other) {
  attend_form forms[ATTEND_ROLES];
  *other = NULL;
  ATTEND_TRY(attend_config_forms(model->ctx, &model->config, form, roles, forms));
  ATTEND_TRY(ctx_alloc(model->ctx, sizeof **other, "a model", other));
  **other = *model;
  (*other)->form = *form;
  memcpy((*other)->forms, forms, sizeof forms);
  (*other)->borrowed = true;
  return ATTEND_OK;
}

attend_status attend_model_with_form(const attend_model *model, const attend_form *form,
                                     attend_model **other) {
  return attend_model_with_roles(model, form, 0, other);
}

void attend_model_free(attend_model *m) {
  if (!m) return;
  if (!m->borrowed) model_close(m);
  if (!m->borrowed && m->owns_files) attend_checkpoint_free(m->files);
  ctx_free(m->ctx, m);
}

attend_context *attend_model_context(const attend_model *m) { return m->ctx; }
const attend_config *attend_model_config(const attend_model *m) { return &m->config; }
const attend_form *attend_model_form(const attend_model *m) { return &m->form; }
const attend_form *attend_model_role_form(const attend_model *m, attend_role role) {
  return &m->forms[role];
}

int model_attention(const attend_model *m, attend_role role, int layer, attend_desc *desc) {
  const attend_config *c = &m->config;
  const bool encoder = role == ATTEND_ENCODER_SELF;
  const attend_stack *s = encoder ? &c->encoder : &c->decoder;
  const stack *side = encoder ? &m->encoder : &m->decoder;
  if (!(roles_of(c->parts) & 1u << role)) return 0;
  *desc = (attend_desc){ATTEND_INIT(attend_desc), .form = m->forms[role],  .heads = s->heads,
                        .kv_heads = s->kv_heads,  .dim = s->dim,           .dim_v = s->dim_v,
                        .scale = c->score_factor, .soft_cap = c->score_cap};
  if (role == ATTEND_DECODER_SELF) {
    desc->mask.causal = ATTEND_CAUSAL;
    if (layer_kind(c, side, layer) == SLIDING) desc->mask.window = c->window;
  }
  if (role != ATTEND_CROSS && side->relative.t.data)
    desc->bias = (attend_bias){.kind = ATTEND_BUCKETS,
                               .table = side->relative.t.data,
                               .buckets = c->buckets,
                               .max_distance = c->max_distance,
                               .one_sided = !encoder};
  return 1;
}

bool attend_model_attention(const attend_model *m, attend_role role, int layer, attend_desc *desc) {
  const stack *s = role == ATTEND_ENCODER_SELF ? &m->encoder : &m->decoder;
  attend_desc d;
  if (OPTIONS_READ(m->ctx, attend_desc, desc, &d)) return false;
  if (!model_attention(m, role, layer, &d)) return false;
  if (d.bias.table) d.bias.table = s->relative_host;
  options_write(&d, sizeof d, desc);
  return true;
}

size_t attend_model_bytes(const attend_model *m) { return m->bytes; }
double attend_model_flops(const attend_model *m) { return m->flops; }
