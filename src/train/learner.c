/* A learner's parameters: read from a checkpoint, or the mean of several, laid out,
 * packed for products, and written as a checkpoint that others can read.
 *
 * What one product takes lies together, in the order of its outputs: q, k and v of
 * a layer are one matrix, whatever their tensors are called. Matrices that a
 * checkpoint stores transposed are transposed on the way in and on the way out.
 */
#include <string.h>

#include "base/files.h"
#include "model/hooks.h"
#include "train/learner.h"

/* ---- where everything lies ------------------------------------------------------ */

attend_group group_of(const parameter *p) {
  bool table = p->slot == TOKENS || p->slot == POSITIONS || p->slot == TYPES ||
               p->slot == RELATIVE;
  return p->rank != 2 ? ATTEND_VECTORS
         : table      ? ATTEND_TABLES
                      : ATTEND_MATRICES;
}

static void add_entry(attend_trainer *l, const parameter *p) {
  l->entries[l->n_entries++] =
      (learn_entry){.p = p, .at = l->count, .count = (size_t)p->tensor->count};
  l->count += (size_t)p->tensor->count;
}

/* A product's biases are one vector: what some of its parts lack stays 0. */
static void add_gap(attend_trainer *l, size_t count) {
  l->gaps[l->n_gaps++] = (learn_entry){.at = l->count, .count = count};
  l->count += count;
}

static attend_status lay_out(attend_model *m, const field *f, attend_parts of,
                             int layer, void *place, void *user) {
  attend_trainer *l = user;
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
        add_gap(l, (size_t)weight->shape[0]);
    }
  return ATTEND_OK;
}

/* ---- reading --------------------------------------------------------------------- */

/* Of what is stored transposed, the most numbers of one. */
static size_t most_transposed(const attend_trainer *l) {
  size_t most = 0;
  for (size_t i = 0; i < l->n_entries; i++)
    if (l->entries[i].p->transposed && l->entries[i].count > most)
      most = l->entries[i].count;
  return most;
}

static void turn(int64_t rows, int64_t columns, const float *from, float *to) {
  for (int64_t i = 0; i < rows; i++)
    for (int64_t j = 0; j < columns; j++)
      to[j * rows + i] = from[i * columns + j];
}

/* The checkpoint has checked how it is stored. work: as large, if it is transposed. */
static void read_tensor(const parameter *p, float *work, float *to) {
  attend_dtype dtype = ATTEND_F32;
  tensor_dtype(p->tensor, &dtype);
  attend_convert_to_f32(dtype, p->tensor->data, (size_t)p->tensor->count,
                        p->transposed ? work : to);
  if (p->transposed) turn(p->shape[1], p->shape[0], work, to);
}

static attend_status read_values(attend_trainer *l) {
  float *work;
  ATTEND_TRY(mirror_make(l->ctx, l->count, "parameters", &l->values));
  ATTEND_TRY(mirror_make(l->ctx, l->count, "gradients", &l->gradients));
  ATTEND_TRY(take(l->ctx, most_transposed(l) * sizeof *work,
                  "a transposed matrix", &work));
  float *values = mirror_out(l->ctx, &l->values);
  for (size_t i = 0; i < l->n_entries; i++)
    read_tensor(l->entries[i].p, work, values + l->entries[i].at);
  mirror_back(l->ctx, &l->values);
  give(l->ctx, work);
  return ATTEND_OK;
}

/* ---- finding them again ------------------------------------------------------------ */

typedef struct {
  float *value, *gradient; /* gradient NULL: it is not learnt */
} pair;

static pair pair_of(const attend_trainer *l, const parameter *p) {
  for (size_t i = 0; p && i < l->n_entries; i++) {
    const learn_entry *e = &l->entries[i];
    if (e->p == p)
      return (pair){l->values.device + e->at,
                    p->fixed ? NULL : l->gradients.device + e->at};
  }
  return (pair){NULL, NULL};
}

/* The matrices of a field lie one after the other: they are one. Their biases lie
 * behind them, the first perhaps a gap. */
static attend_status find_linear(attend_trainer *l, const field *f,
                                 attend_parts of, int layer,
                                 linear_weights *x) {
  for (int i = 0; i < f->slots; i++) {
    enum slot slot = f->slot[i];
    bool tied = slot == HEAD && l->model.config.tied;
    const parameter *p =
        checkpoint_find(l->files, tied ? TOKENS : slot, of, layer, false);
    if (!p) continue;
    pair w = pair_of(l, p);
    pair b = pair_of(l, checkpoint_find(l->files, slot, of, layer, true));
    if (!x->w) x->w = w.value, x->dw = w.gradient;
    if (!x->b && b.value) {
      x->b = b.value - x->outputs;
      if (b.gradient) x->db = b.gradient - x->outputs;
    }
    x->outputs += (int)p->shape[0];
    x->inputs = (int)p->shape[1];
  }
  if (!x->w) return ATTEND_OK;
  ATTEND_TRY(linear_pack(&l->model, x, true));
  l->packed_bytes += attend_linear_bytes(x->go) + attend_linear_bytes(x->back);
  return ATTEND_OK;
}

static attend_status find_field(attend_model *m, const field *f,
                                attend_parts of, int layer, void *place,
                                void *user) {
  attend_trainer *l = user;
  if (f->kind == A_LINEAR) return find_linear(l, f, of, layer, place);
  const parameter *p = checkpoint_find(m->files, f->slot[0], of, layer, false);
  pair w = pair_of(l, p);
  if (f->kind == A_NORM) {
    pair b = pair_of(l, checkpoint_find(m->files, f->slot[0], of, layer, true));
    *(norm_weights *)place =
        (norm_weights){w.value, b.value, w.gradient, b.gradient};
  } else {
    *(table_weights *)place = (table_weights){
        {w.value, ATTEND_F32, p ? (int)p->shape[0] : 0}, w.gradient};
  }
  return ATTEND_OK;
}

/* ---- life ------------------------------------------------------------------------------ */

static attend_status check_options(attend_context *ctx,
                                   const attend_trainer_options *o) {
  ATTEND_CHECK(
      ctx, o->weights != ATTEND_WEIGHTS_I8,
      "a model is learnt with weights of f32, bf16 or mixed, not int8");
  ATTEND_CHECK(ctx, o->dropout >= 0 && o->dropout < 1,
               "a dropout of %g: choose a share from 0 to below 1",
               (double)o->dropout);
  return ATTEND_OK;
}

static attend_status open_side(attend_trainer *l, const stack *s,
                               learn_side *x) {
  if (!s->layers) return ATTEND_OK;
  x->p = (pass){.ctx = l->ctx, .model = &l->model, .side = s};
  return take_zeroed(l->ctx, (size_t)s->shape->layers * sizeof *x->layers,
                     "the layers", &x->layers);
}

static attend_status open_learner(attend_trainer *l) {
  size_t most = l->files->table.count;
  ATTEND_TRY(check_options(l->ctx, &l->options));
  ATTEND_CHECK(l->ctx, attend_checkpoint_has_head(l->files),
               "the checkpoint has no head that gives logits: there is nothing "
               "to learn from");
  ATTEND_TRY(take(l->ctx, 2 * most * sizeof *l->entries, "the parameters",
                  &l->entries));
  l->gaps = l->entries + most;
  ATTEND_TRY(model_open(&l->model));
  ATTEND_TRY(model_each(&l->model, lay_out, l));
  ATTEND_TRY(read_values(l));
  ATTEND_TRY(model_each(&l->model, find_field, l));
  ATTEND_TRY(open_side(l, &l->model.encoder, &l->encoder));
  return open_side(l, &l->model.decoder, &l->decoder);
}

attend_status attend_trainer_create(attend_checkpoint *files,
                                    const attend_trainer_options *options,
                                    attend_trainer **learner) {
  attend_trainer *l;
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
    attend_trainer_free(l);
  else
    *learner = l;
  return status;
}

attend_status attend_trainer_refresh(attend_trainer *l) {
  mirror_back(l->ctx, &l->values);
  return model_repack(&l->model);
}

void attend_trainer_free(attend_trainer *l) {
  if (!l) return;
  lesson_free(l);
  hooks_free(l->ctx, &l->hooks);
  give(l->ctx, l->encoder.layers);
  give(l->ctx, l->decoder.layers);
  model_close(&l->model);
  mirror_free(l->ctx, &l->values);
  mirror_free(l->ctx, &l->gradients);
  give(l->ctx, l->entries);
  give(l->ctx, l);
}

/* ---- looking at them ---------------------------------------------------------------------- */

const attend_config *attend_trainer_config(const attend_trainer *l) {
  return &l->model.config;
}

int attend_trainer_get(const attend_trainer *l, size_t i,
                       attend_trainer_parameter *x) {
  if (i >= l->n_entries) return 0;
  const learn_entry *e = &l->entries[i];
  const parameter *p = e->p;
  *x = (attend_trainer_parameter){
      .name = p->name,
      .rank = p->rank,
      .shape = {p->shape[0], p->rank == 2 ? p->shape[1] : 1},
      .count = p->tensor->count,
      .transposed = p->transposed,
      .group = group_of(p),
      .fixed = p->fixed,
      .value = attend_trainer_values(l, NULL) + e->at,
      .gradient = attend_trainer_gradients(l) + e->at};
  return 1;
}

float *attend_trainer_values(const attend_trainer *l, size_t *count) {
  if (count) *count = l->count;
  return mirror_out(l->ctx, (mirror *)&l->values);
}
float *attend_trainer_gradients(const attend_trainer *l) {
  return mirror_out(l->ctx, (mirror *)&l->gradients);
}
void attend_trainer_zero_grad(attend_trainer *l) {
  mirror_changed(&l->gradients);
  l->ctx->device->zero(l->ctx, l->gradients.device, l->count * sizeof(float));
}

size_t attend_trainer_bytes(const attend_trainer *l) {
  return 2 * l->count * sizeof(float) + l->packed_bytes;
}

size_t attend_trainer_work_bytes(const attend_trainer *l) {
  return l->block_bytes + l->plan_bytes;
}

/* ---- saving ------------------------------------------------------------------------------- */

typedef struct {
  attend_trainer *l;
  attend_dtype dtype;
  float *work; /* [most_transposed] */
} saving;

static attend_status fill(size_t i, void *to, void *user) {
  const saving *s = user;
  const learn_entry *e = &s->l->entries[i];
  const float *from = attend_trainer_values(s->l, NULL) + e->at;
  if (e->p->transposed) {
    turn(e->p->shape[0], e->p->shape[1], from, s->work);
    from = s->work;
  }
  attend_convert_from_f32(s->dtype, from, e->count, to);
  return ATTEND_OK;
}

attend_status learner_save(attend_trainer *l, const char *path,
                           attend_stored stored, attend_digest *digest) {
  const size_t n = l->n_entries, work = most_transposed(l) * sizeof(float);
  saving s = {l, stored == ATTEND_STORED_F32 ? ATTEND_F32 : ATTEND_BF16, NULL};
  attend_tensor *list;
  ATTEND_CHECK(l->ctx,
               stored == ATTEND_STORED_F32 || stored == ATTEND_STORED_BF16,
               "a checkpoint is saved as f32 or bf16");
  ATTEND_TRY(take(l->ctx, n * sizeof *list, "a list", &list));
  for (size_t i = 0; i < n; i++) {
    const parameter *p = l->entries[i].p;
    list[i] = *p->tensor;
    list[i].name = p->name;
    list[i].stored = stored;
    list[i].data = NULL;
  }
  attend_status status = take(l->ctx, work, "a transposed matrix", &s.work);
  if (!status)
    status = tensor_file_make(l->ctx, path, n, list, fill, &s, digest);
  give(l->ctx, s.work);
  give(l->ctx, list);
  return status;
}

attend_status attend_trainer_save(attend_trainer *l, const char *path,
                                  attend_stored stored) {
  return learner_save(l, path, stored, NULL);
}

/* ---- the mean of several checkpoints: what the last steps of a course have in
 * common, without what each of them is off by --------------------------------------- */

/* The parameter of another checkpoint of the same table. */
static const parameter *parameter_in(const attend_trainer *l,
                                     const learn_entry *e,
                                     const attend_checkpoint *c) {
  return &c->table.entry[e->p - l->files->table.entry];
}

static bool is_same(const parameter *p, const parameter *q) {
  return p->slot == q->slot && p->of == q->of && p->layer == q->layer &&
         p->is_bias == q->is_bias && q->tensor && p->rank == q->rank &&
         !memcmp(p->shape, q->shape, sizeof p->shape);
}

static attend_status open_same(const attend_trainer *l, const char *folder,
                               attend_checkpoint **files) {
  ATTEND_TRY(attend_checkpoint_open(l->ctx, folder, files));
  bool same = (*files)->table.count == l->files->table.count;
  for (size_t i = 0; same && i < l->n_entries; i++)
    same = is_same(l->entries[i].p, parameter_in(l, &l->entries[i], *files));
  ATTEND_CHECK(l->ctx, same,
               "%s has not the same tensors as the others: models of one shape "
               "can be averaged",
               folder);
  return ATTEND_OK;
}

/* Sums are double and taken in the order of the list, so that the mean is the same
 * bits everywhere. sum: and as much again, for one tensor and what turns it. */
static void average_entry(attend_trainer *l, const learn_entry *e, int n,
                          attend_checkpoint *const *files, double *sum) {
  float *one = (float *)(sum + e->count), *work = one + e->count;
  float *to = attend_trainer_values(l, NULL) + e->at;
  memset(sum, 0, e->count * sizeof *sum);
  for (int i = 0; i < n; i++) {
    read_tensor(parameter_in(l, e, files[i]), work, one);
    for (size_t j = 0; j < e->count; j++) sum[j] += (double)one[j];
  }
  for (size_t j = 0; j < e->count; j++) to[j] = (float)(sum[j] / n);
}

attend_status attend_trainer_average(attend_trainer *l, int n,
                                     const char *const *folders) {
  attend_checkpoint **files;
  double *sum = NULL;
  size_t largest = 0;
  ATTEND_CHECK(l->ctx, n >= 1, "a mean of %d checkpoints: name one or more", n);
  for (size_t i = 0; i < l->n_entries; i++)
    if (l->entries[i].count > largest) largest = l->entries[i].count;
  ATTEND_TRY(take_zeroed(l->ctx, (size_t)n * sizeof *files, "the checkpoints",
                         &files));
  attend_status status =
      take(l->ctx, 2 * largest * sizeof *sum, "a mean", &sum);
  for (int i = 0; !status && i < n; i++)
    status = open_same(l, folders[i], &files[i]);
  for (size_t i = 0; !status && i < l->n_entries; i++)
    average_entry(l, &l->entries[i], n, files, sum);
  for (int i = 0; i < n; i++) attend_checkpoint_close(files[i]);
  give(l->ctx, files);
  give(l->ctx, sum);
  return status ? status : attend_trainer_refresh(l);
}
