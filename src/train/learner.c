/* A learner's parameters: read from a checkpoint, laid out, packed for products.
 *
 * Place: train/ - see learner.h.
 *
 * What one product takes lies together, in the order of its outputs: q, k and v of
 * a layer are one matrix, whatever their tensors are called. Matrices that a
 * checkpoint stores turned are turned back here.
 */
#include <string.h>

#include "model/hooks.h"
#include "train/learner.h"

/* ---- numbers that callers see ------------------------------------------------------- */

attend_status mirror_make(attend_context *ctx, size_t count, const char *what,
                          mirror *m) {
  size_t bytes = size_times(count, sizeof(float));
  m->count = count;
  ATTEND_TRY(device_take(ctx, bytes, what, &m->device));
  return ctx->device->host ? ATTEND_OK
                           : take_zeroed(ctx, bytes, what, &m->host);
}

void mirror_free(const attend_context *ctx, mirror *m) {
  device_give(ctx, m->device);
  give(ctx, m->host);
}

float *mirror_out(attend_context *ctx, mirror *m) {
  if (!m->host) return m->device;
  if (!m->fresh)
    ctx->device->read(ctx, m->host, m->device, m->count * sizeof(float));
  m->fresh = true;
  return m->host;
}

void mirror_back(attend_context *ctx, mirror *m) {
  if (m->host && m->fresh)
    ctx->device->write(ctx, m->device, m->host, m->count * sizeof(float));
}

/* ---- where everything lies ------------------------------------------------------ */

static const size_t NO_PARAMETER = SIZE_MAX;

static attend_group group_of(const parameter *p) {
  bool table = p->slot == TOKENS || p->slot == POSITIONS || p->slot == TYPES ||
               p->slot == RELATIVE;
  return p->rank != 2 ? ATTEND_VECTORS
         : table      ? ATTEND_TABLES
                      : ATTEND_MATRICES;
}

static void add_entry(attend_learner *l, const parameter *p) {
  learn_entry *e = &l->entries[l->n_entries++];
  *e = (learn_entry){.parameter = (size_t)(p - l->files->table.entry),
                     .at = l->count,
                     .count = (size_t)p->tensor->count,
                     .group = group_of(p),
                     .fixed = p->fixed};
  l->count += e->count;
}

/* A product's biases are one vector: what some of its parts lack stays 0. */
static void add_gap(attend_learner *l, const parameter *weight) {
  learn_entry *e = &l->gaps[l->n_gaps++];
  *e = (learn_entry){.parameter = NO_PARAMETER,
                     .at = l->count,
                     .count = (size_t)weight->shape[0]};
  l->count += e->count;
}

static attend_status lay_out(attend_model *m, const field *f, attend_parts of,
                             int layer, void *place, void *user) {
  attend_learner *l = user;
  bool biased = false;
  (void)place;
  for (int i = 0; i < f->slots; i++)
    biased |= checkpoint_find(m->files, f->slot[i], of, layer, true) != NULL;
  for (int is_bias = 0; is_bias < 1 + biased; is_bias++)
    for (int i = 0; i < f->slots; i++) {
      enum slot slot = f->slot[i];
      const parameter *weight =
          checkpoint_find(m->files, slot, of, layer, false);
      const parameter *p =
          is_bias ? checkpoint_find(m->files, slot, of, layer, true) : weight;
      bool tied = slot == HEAD && !is_bias && m->config.tied;
      if (p && !tied)
        add_entry(l, p);
      else if (!p && is_bias && weight)
        add_gap(l, weight);
    }
  return ATTEND_OK;
}

/* ---- reading --------------------------------------------------------------------- */

static attend_status read_entry(attend_learner *l, const learn_entry *e,
                                float *values) {
  const parameter *p = &l->files->table.entry[e->parameter];
  attend_dtype dtype;
  float *to = values + e->at;
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
  ATTEND_TRY(mirror_make(l->ctx, l->count, "parameters", &l->values));
  ATTEND_TRY(mirror_make(l->ctx, l->count, "gradients", &l->gradients));
  float *values = mirror_out(l->ctx, &l->values);
  for (size_t i = 0; i < l->n_entries; i++)
    ATTEND_TRY(read_entry(l, &l->entries[i], values));
  mirror_back(l->ctx, &l->values);
  return ATTEND_OK;
}

/* ---- finding them again ------------------------------------------------------------ */

typedef struct {
  float *value, *gradient; /* gradient NULL: it is not learnt */
} pair;

static pair pair_of(const attend_learner *l, enum slot slot, attend_parts of,
                    int layer, bool is_bias) {
  const parameter *p = checkpoint_find(l->files, slot, of, layer, is_bias);
  for (size_t i = 0; p && i < l->n_entries; i++) {
    const learn_entry *e = &l->entries[i];
    if (&l->files->table.entry[e->parameter] != p) continue;
    return (pair){l->values.device + e->at,
                  e->fixed ? NULL : l->gradients.device + e->at};
  }
  return (pair){NULL, NULL};
}

/* The matrices of a field lie one after the other: they are one. Their biases lie
 * behind them, the first perhaps a gap. */
static attend_status find_linear(attend_learner *l, const field *f,
                                 attend_parts of, int layer,
                                 linear_weights *x) {
  pair b = {NULL, NULL};
  size_t before = 0; /* outputs before the first bias */
  for (int i = 0; i < f->slots; i++) {
    enum slot slot = f->slot[i];
    bool tied = slot == HEAD && l->model.config.tied;
    const parameter *p =
        checkpoint_find(l->files, tied ? TOKENS : slot, of, layer, false);
    if (!p) continue;
    pair w = pair_of(l, tied ? TOKENS : slot, of, layer, false);
    if (!x->w) x->w = w.value, x->dw = w.gradient;
    if (!b.value) {
      b = pair_of(l, slot, of, layer, true);
      if (b.value) before = (size_t)x->outputs;
    }
    x->outputs += (int)p->shape[0];
    x->inputs = (int)p->shape[1];
  }
  if (b.value) x->b = b.value - before;
  if (b.gradient) x->db = b.gradient - before;
  return x->w ? linear_pack(&l->model, x, true) : ATTEND_OK;
}

static attend_status find_field(attend_model *m, const field *f,
                                attend_parts of, int layer, void *place,
                                void *user) {
  attend_learner *l = user;
  if (f->kind == A_LINEAR) return find_linear(l, f, of, layer, place);
  const enum slot slot = f->slot[0];
  pair w = pair_of(l, slot, of, layer, false);
  if (f->kind == A_NORM) {
    pair b = pair_of(l, slot, of, layer, true);
    *(norm_weights *)place =
        (norm_weights){w.value, b.value, w.gradient, b.gradient};
    return ATTEND_OK;
  }
  const parameter *p = checkpoint_find(m->files, slot, of, layer, false);
  *(table_weights *)place = (table_weights){
      {w.value, ATTEND_F32, p ? (int)p->shape[0] : 0}, w.gradient};
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

static attend_status open_side(attend_learner *l, const stack *s,
                               learn_side *x) {
  if (!s->layers) return ATTEND_OK;
  x->p.side = s;
  return take_zeroed(l->ctx, (size_t)s->shape->layers * sizeof *x->layers,
                     "the layers", &x->layers);
}

static attend_status open_learner(attend_learner *l) {
  size_t most = l->files->table.count;
  ATTEND_TRY(check_options(l->ctx, &l->options));
  ATTEND_CHECK(l->ctx, attend_checkpoint_has_head(l->files),
               "the checkpoint has no head that gives logits: there is nothing "
               "to learn from");
  ATTEND_TRY(take_zeroed(l->ctx, most * sizeof *l->entries, "the parameters",
                         &l->entries));
  ATTEND_TRY(
      take_zeroed(l->ctx, most * sizeof *l->gaps, "the parameters", &l->gaps));
  ATTEND_TRY(model_open(&l->model));
  ATTEND_TRY(model_each(&l->model, lay_out, l));
  ATTEND_TRY(read_values(l));
  ATTEND_TRY(model_each(&l->model, find_field, l));
  ATTEND_TRY(open_side(l, &l->model.encoder, &l->encoder));
  return open_side(l, &l->model.decoder, &l->decoder);
}

attend_status attend_learner_create(attend_checkpoint *files,
                                    const attend_learner_options *options,
                                    attend_learner **learner) {
  attend_learner *l;
  *learner = NULL;
  ATTEND_TRY(take_zeroed(files->ctx, sizeof *l, "a learner", &l));
  l->ctx = files->ctx;
  l->files = files;
  if (options) l->options = *options;
  l->model = (attend_model){.ctx = l->ctx,
                            .files = files,
                            .config = files->config,
                            .weights = l->options.weights};
  attend_status status =
      attend_config_forms(l->ctx, &l->model.config, l->options.form,
                          l->options.roles, l->model.forms);
  if (!status) status = open_learner(l);
  if (status)
    attend_learner_free(l);
  else
    *learner = l;
  return status;
}

attend_status attend_learner_refresh(attend_learner *l) {
  mirror_back(l->ctx, &l->values);
  return model_repack(&l->model);
}

void attend_learner_free(attend_learner *l) {
  if (!l) return;
  lesson_free(l);
  hooks_free(l->ctx, &l->hooks);
  give(l->ctx, l->encoder.layers);
  give(l->ctx, l->decoder.layers);
  model_close(&l->model);
  mirror_free(l->ctx, &l->values);
  mirror_free(l->ctx, &l->gradients);
  give(l->ctx, l->entries);
  give(l->ctx, l->gaps);
  give(l->ctx, l);
}

/* ---- looking at them ---------------------------------------------------------------------- */

const attend_config *attend_learner_config(const attend_learner *l) {
  return &l->model.config;
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
                       .value = attend_learner_values(l, NULL) + e->at,
                       .gradient = attend_learner_gradients(l) + e->at};
  return 1;
}

float *attend_learner_values(const attend_learner *l, size_t *count) {
  if (count) *count = l->count;
  return mirror_out(l->ctx, (mirror *)&l->values);
}
float *attend_learner_gradients(const attend_learner *l) {
  return mirror_out(l->ctx, (mirror *)&l->gradients);
}
void attend_learner_forget(attend_learner *l) {
  mirror_changed(&l->gradients);
  l->ctx->device->zero(l->ctx, l->gradients.device, l->count * sizeof(float));
}

static attend_status add_bytes(attend_model *m, const field *f, attend_parts of,
                               int layer, void *place, void *user) {
  const linear_weights *x = place;
  (void)m, (void)of, (void)layer;
  if (f->kind == A_LINEAR && x->w)
    *(size_t *)user +=
        attend_linear_bytes(x->go) + attend_linear_bytes(x->back);
  return ATTEND_OK;
}

size_t attend_learner_bytes(const attend_learner *l) {
  size_t bytes = 2 * l->count * sizeof(float);
  model_each((attend_model *)&l->model, add_bytes, &bytes);
  return bytes;
}

size_t attend_learner_work_bytes(const attend_learner *l) {
  return l->trail_bytes + l->work_bytes + l->scratch_bytes + l->plan_bytes;
}
