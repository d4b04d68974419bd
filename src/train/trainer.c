/* A trainer's parameters: read from a checkpoint or averaged over several, packed for
 * products, and written as a checkpoint that other libraries read.
 *
 * The weights of one product are contiguous, in the order of its outputs: q, k and v of
 * a layer are one matrix, whatever their tensors are called. Matrices that a checkpoint
 * stores transposed are transposed when read and when written.
 */
#include <math.h>
#include <string.h>

#include "base/files.h"
#include "base/options.h"
#include "model/transformer.h"
#include "train/trainer.h"

/* ---- layout --------------------------------------------------------------------- */

attend_group group_of(const parameter *p) {
  bool table = p->slot == TOKENS || p->slot == POSITIONS || p->slot == TYPES || p->slot == RELATIVE;
  return p->rank != 2 ? ATTEND_VECTORS : table ? ATTEND_TABLES : ATTEND_MATRICES;
}

static void add_entry(attend_trainer *tr, const parameter *p) {
  tr->entries[tr->n_entries++] =
      (trainer_entry){.p = p, .at = tr->count, .count = (size_t)p->tensor->count};
  tr->count += (size_t)p->tensor->count;
}

/* A product's biases are one vector: parts without a bias stay 0. */
static void add_gap(attend_trainer *tr, size_t count) {
  tr->gaps[tr->n_gaps++] = (trainer_entry){.at = tr->count, .count = count};
  tr->count += count;
}

static attend_status lay_out(attend_model *m, const field *f, attend_parts of, int layer,
                             void *place, void *user) {
  attend_trainer *tr = user;
  bool biased = false;
  (void)place;
  for (int i = 0; i < f->slots; i++)
    biased |= checkpoint_find(m->files, f->slot[i], of, layer, true) != NULL;
  for (int is_bias = 0; is_bias < 1 + biased; is_bias++)
    for (int i = 0; i < f->slots; i++) {
      enum slot slot = f->slot[i];
      const parameter *weight = checkpoint_find(m->files, slot, of, layer, false);
      const parameter *p = is_bias ? checkpoint_find(m->files, slot, of, layer, true) : weight;
      bool tied = slot == HEAD && !is_bias && m->config.tied;
      if (p && !tied)
        add_entry(tr, p);
      else if (!p && is_bias && weight)
        add_gap(tr, (size_t)weight->shape[0]);
    }
  return ATTEND_OK;
}

/* ---- reading --------------------------------------------------------------------- */

/* Numbers of the largest matrix that is stored transposed. */
static size_t most_transposed(const attend_trainer *tr) {
  size_t max = 0;
  for (size_t i = 0; i < tr->n_entries; i++)
    if (tr->entries[i].p->transposed && tr->entries[i].count > max) max = tr->entries[i].count;
  return max;
}

static void transpose(int64_t rows, int64_t columns, const float *from, float *to) {
  for (int64_t i = 0; i < rows; i++)
    for (int64_t j = 0; j < columns; j++) to[j * rows + i] = from[i * columns + j];
}

/* The checkpoint has checked how it is stored. work: as large, if it is transposed. */
static void read_tensor(const parameter *p, float *work, float *to) {
  attend_dtype dtype = ATTEND_F32;
  tensor_dtype(p->tensor, &dtype);
  attend_convert_to_f32(dtype, p->tensor->data, (size_t)p->tensor->count,
                        p->transposed ? work : to);
  if (p->transposed) transpose(p->shape[1], p->shape[0], work, to);
}

static attend_status read_values(attend_trainer *tr) {
  float *work;
  ATTEND_TRY(mirror_make(tr->ctx, tr->count, "parameters", &tr->values));
  ATTEND_TRY(mirror_make(tr->ctx, tr->count, "gradients", &tr->gradients));
  ATTEND_TRY(ctx_alloc(tr->ctx, most_transposed(tr) * sizeof *work, "a transposed matrix", &work));
  float *values = mirror_out(tr->ctx, &tr->values);
  for (size_t i = 0; i < tr->n_entries; i++)
    read_tensor(tr->entries[i].p, work, values + tr->entries[i].at);
  mirror_backward(tr->ctx, &tr->values);
  ctx_free(tr->ctx, work);
  return ATTEND_OK;
}

/* ---- the model's fields ------------------------------------------------------------ */

typedef struct {
  float *value, *gradient; /* gradient NULL: it is not trained */
} pair;

static pair pair_of(const attend_trainer *tr, const parameter *p) {
  for (size_t i = 0; p && i < tr->n_entries; i++) {
    const trainer_entry *e = &tr->entries[i];
    if (e->p == p)
      return (pair){tr->values.device + e->at, p->fixed ? NULL : tr->gradients.device + e->at};
  }
  return (pair){NULL, NULL};
}

/* The matrices of a field lie one after the other: they are one. Their biases lie
 * behind them, the first perhaps a gap. */
static attend_status find_linear(attend_trainer *tr, const field *f, attend_parts of, int layer,
                                 linear_weights *x) {
  for (int i = 0; i < f->slots; i++) {
    enum slot slot = f->slot[i];
    bool tied = slot == HEAD && tr->model.config.tied;
    const parameter *p = checkpoint_find(tr->files, tied ? TOKENS : slot, of, layer, false);
    if (!p) continue;
    pair w = pair_of(tr, p);
    pair b = pair_of(tr, checkpoint_find(tr->files, slot, of, layer, true));
    if (!x->w) x->w = w.value, x->dw = w.gradient;
    if (!x->b && b.value) {
      x->b = b.value - x->outputs;
      if (b.gradient) x->db = b.gradient - x->outputs;
    }
    x->outputs += (int)p->shape[0];
    x->inputs = (int)p->shape[1];
  }
  if (!x->w) return ATTEND_OK;
  ATTEND_TRY(linear_pack(&tr->model, x, true));
  tr->packed_bytes += attend_linear_bytes(x->forward) + attend_linear_bytes(x->backward);
  return ATTEND_OK;
}

static attend_status find_field(attend_model *m, const field *f, attend_parts of, int layer,
                                void *place, void *user) {
  attend_trainer *tr = user;
  if (f->kind == A_LINEAR) return find_linear(tr, f, of, layer, place);
  const parameter *p = checkpoint_find(m->files, f->slot[0], of, layer, false);
  pair w = pair_of(tr, p);
  if (f->kind == A_NORM) {
    pair b = pair_of(tr, checkpoint_find(m->files, f->slot[0], of, layer, true));
    *(norm_weights *)place = (norm_weights){w.value, b.value, w.gradient, b.gradient};
  } else {
    *(table_weights *)place =
        (table_weights){{w.value, ATTEND_F32, p ? (int)p->shape[0] : 0}, w.gradient};
  }
  return ATTEND_OK;
}

/* ---- life ------------------------------------------------------------------------------ */

static attend_status check_options(attend_context *ctx, const attend_trainer_options *o) {
  ATTEND_CHECK(ctx, o->weights != ATTEND_WEIGHTS_I8,
               "a model is trained with weights of f32, bf16 or mixed, not int8");
  ATTEND_CHECK(ctx, o->activations == ATTEND_F32 || o->activations == ATTEND_BF16,
               "a trainer's activations are f32 or bf16");
  ATTEND_CHECK(ctx, o->dropout >= 0 && o->dropout < 1,
               "a dropout of %g: choose a share from 0 to below 1", (double)o->dropout);
  return ATTEND_OK;
}

static attend_status open_side(attend_trainer *tr, const stack *s, trainer_side *x) {
  if (!s->layers) return ATTEND_OK;
  x->p = (pass){.ctx = tr->ctx, .model = &tr->model, .side = s, .type = tr->options.activations};
  return ctx_alloc_zeroed(tr->ctx, (size_t)s->shape->layers * sizeof *x->layers, "the layers",
                          &x->layers);
}

static attend_status open_trainer(attend_trainer *tr) {
  size_t max = tr->files->table.count;
  ATTEND_TRY(check_options(tr->ctx, &tr->options));
  ATTEND_CHECK(tr->ctx, attend_checkpoint_has_head(tr->files),
               "the checkpoint has no head that gives logits: there is no loss "
               "to train with");
  ATTEND_TRY(ctx_alloc(tr->ctx, 2 * max * sizeof *tr->entries, "the parameters", &tr->entries));
  tr->gaps = tr->entries + max;
  ATTEND_TRY(model_open(&tr->model));
  ATTEND_TRY(model_each(&tr->model, lay_out, tr));
  ATTEND_TRY(read_values(tr));
  ATTEND_TRY(model_each(&tr->model, find_field, tr));
  ATTEND_TRY(open_side(tr, &tr->model.encoder, &tr->encoder));
  return open_side(tr, &tr->model.decoder, &tr->decoder);
}

attend_status attend_trainer_create(attend_checkpoint *files, const attend_trainer_options *options,
                                    attend_trainer **trainer) {
  attend_trainer *tr;
  *trainer = NULL;
  ATTEND_TRY(ctx_alloc_zeroed(files->ctx, sizeof *tr, "a trainer", &tr));
  tr->ctx = files->ctx;
  tr->files = files;
  attend_status status = OPTIONS_READ(tr->ctx, attend_trainer_options, options, &tr->options);
  tr->model = (attend_model){
      .ctx = tr->ctx, .files = files, .config = files->config, .weights = tr->options.weights};
  if (!status)
    status = attend_config_forms(tr->ctx, &tr->model.config, tr->options.form, tr->options.roles,
                                 tr->model.forms);
  if (!status) status = open_trainer(tr);
  if (status)
    attend_trainer_free(tr);
  else
    *trainer = tr;
  return status;
}

attend_status attend_trainer_refresh(attend_trainer *tr) {
  mirror_backward(tr->ctx, &tr->values);
  return model_repack(&tr->model);
}

void attend_trainer_free(attend_trainer *tr) {
  if (!tr) return;
  activations_free(tr);
  hooks_free(tr->ctx, &tr->hooks);
  ctx_free(tr->ctx, tr->encoder.layers);
  ctx_free(tr->ctx, tr->decoder.layers);
  model_close(&tr->model);
  mirror_free(tr->ctx, &tr->values);
  mirror_free(tr->ctx, &tr->gradients);
  ctx_free(tr->ctx, tr->entries);
  ctx_free(tr->ctx, tr);
}

/* ---- accessors ---------------------------------------------------------------------------- */

const attend_config *attend_trainer_config(const attend_trainer *tr) { return &tr->model.config; }

bool attend_trainer_get(const attend_trainer *tr, size_t i, attend_trainer_parameter *x) {
  if (i >= tr->n_entries) return 0;
  const trainer_entry *e = &tr->entries[i];
  const parameter *p = e->p;
  *x = (attend_trainer_parameter){.name = p->name,
                                  .rank = p->rank,
                                  .shape = {p->shape[0], p->rank == 2 ? p->shape[1] : 1},
                                  .count = p->tensor->count,
                                  .transposed = p->transposed,
                                  .group = group_of(p),
                                  .fixed = p->fixed,
                                  .value = attend_trainer_values(tr, NULL) + e->at,
                                  .gradient = attend_trainer_gradients(tr) + e->at};
  return 1;
}

/* ---- one head's gradients ---------------------------------------------------------- */

/* A block of a matrix: of a field of several slots, whose matrices lie one below the other. */
typedef struct {
  int row, rows, column, columns;
} slice;

/* NaN: there is no such matrix, or it has no gradient. */
static double gradient_norm(const attend_trainer *tr, enum slot slot, attend_parts of, int layer,
                            slice s) {
  const parameter *p = checkpoint_find(tr->files, slot, of, layer, false);
  const float *all = attend_trainer_gradients(tr);
  double sum = 0;
  for (size_t i = 0; p && !p->fixed && i < tr->n_entries; i++) {
    if (tr->entries[i].p != p) continue;
    const int columns = s.columns ? s.columns : (int)p->shape[1];
    for (int y = s.row; y < s.row + (s.rows ? s.rows : (int)p->shape[0]); y++) {
      const float *row = all + tr->entries[i].at + (size_t)y * (size_t)p->shape[1] + s.column;
      for (int x = 0; x < columns; x++) sum += (double)row[x] * (double)row[x];
    }
    return sqrt(sum);
  }
  return NAN;
}

attend_status attend_trainer_head_gradient(const attend_trainer *tr, attend_role role, int layer,
                                           int head, attend_head_gradient *g) {
  const attend_config *c = &tr->model.config;
  const attend_parts of = role == ATTEND_ENCODER_SELF ? ATTEND_ENCODER : ATTEND_DECODER;
  const attend_stack *s = of == ATTEND_ENCODER ? &c->encoder : &c->decoder;
  const bool cross = role == ATTEND_CROSS;
  ATTEND_CHECK(tr->ctx,
               roles_of(c->parts) & 1u << role && layer >= 0 && layer < s->layers && head >= 0 &&
                   head < s->heads,
               "the model has no head %d of layer %d in that role", head, layer);
  const int at = c->layer_groups ? layer * c->layer_groups / s->layers : layer;
  const int D = s->dim, M = s->dim_v ? s->dim_v : D, G = s->kv_heads ? s->kv_heads : s->heads,
            kv = head * G / s->heads;
  const slice q = {.row = head * D, .rows = D}, k = {.row = kv * D, .rows = D},
              v = {.row = kv * M, .rows = M}, o = {.column = head * M, .columns = M};
  const bool fused = !cross && checkpoint_find(tr->files, SELF_QKV, of, at, false);
  const int rows_k = s->heads * D, rows_v = rows_k + G * D; /* where they begin in the fused one */
  *g = (attend_head_gradient){
      .q = gradient_norm(tr,
                         cross   ? CROSS_Q
                         : fused ? SELF_QKV
                                 : SELF_Q,
                         of, at, q),
      .k = gradient_norm(tr,
                         cross   ? CROSS_K
                         : fused ? SELF_QKV
                                 : SELF_K,
                         of, at, (slice){.row = k.row + (fused ? rows_k : 0), .rows = D}),
      .v = gradient_norm(tr,
                         cross   ? CROSS_V
                         : fused ? SELF_QKV
                                 : SELF_V,
                         of, at, (slice){.row = v.row + (fused ? rows_v : 0), .rows = M}),
      .o = gradient_norm(tr, cross ? CROSS_O : SELF_O, of, at, o)};
  return ATTEND_OK;
}

float *attend_trainer_values(const attend_trainer *tr, size_t *count) {
  if (count) *count = tr->count;
  return mirror_out(tr->ctx, (mirror *)&tr->values);
}
float *attend_trainer_gradients(const attend_trainer *tr) {
  return mirror_out(tr->ctx, (mirror *)&tr->gradients);
}
void attend_trainer_zero_grad(attend_trainer *tr) {
  mirror_changed(&tr->gradients);
  tr->ctx->device->zero(tr->ctx, tr->gradients.device, tr->count * sizeof(float));
}

size_t attend_trainer_bytes(const attend_trainer *tr) {
  return 2 * tr->count * sizeof(float) + tr->packed_bytes;
}

size_t attend_trainer_work_bytes(const attend_trainer *tr) {
  return tr->block_bytes + tr->plan_bytes;
}

/* ---- saving ------------------------------------------------------------------------------- */

typedef struct {
  attend_trainer *tr;
  attend_dtype dtype;
  float *work; /* [most_transposed] */
} saving;

static attend_status fill(size_t i, void *to, void *user) {
  const saving *s = user;
  const trainer_entry *e = &s->tr->entries[i];
  const float *from = attend_trainer_values(s->tr, NULL) + e->at;
  if (e->p->transposed) {
    transpose(e->p->shape[0], e->p->shape[1], from, s->work);
    from = s->work;
  }
  attend_convert_from_f32(s->dtype, from, e->count, to);
  return ATTEND_OK;
}

attend_status trainer_save(attend_trainer *tr, const char *path, attend_stored stored,
                           attend_digest *digest) {
  const size_t n = tr->n_entries, work = most_transposed(tr) * sizeof(float);
  saving s = {tr, stored == ATTEND_STORED_F32 ? ATTEND_F32 : ATTEND_BF16, NULL};
  attend_tensor *list;
  ATTEND_CHECK(tr->ctx, stored == ATTEND_STORED_F32 || stored == ATTEND_STORED_BF16,
               "a checkpoint is saved as f32 or bf16");
  ATTEND_TRY(ctx_alloc(tr->ctx, n * sizeof *list, "a list", &list));
  for (size_t i = 0; i < n; i++) {
    const parameter *p = tr->entries[i].p;
    list[i] = *p->tensor;
    list[i].name = p->name;
    list[i].stored = stored;
    list[i].data = NULL;
  }
  attend_status status = ctx_alloc(tr->ctx, work, "a transposed matrix", &s.work);
  if (!status) status = tensor_file_make(tr->ctx, path, n, list, fill, &s, digest);
  ctx_free(tr->ctx, s.work);
  ctx_free(tr->ctx, list);
  return status;
}

attend_status attend_trainer_save(attend_trainer *tr, const char *path, attend_stored stored) {
  return trainer_save(tr, path, stored, NULL);
}

/* ---- averaging checkpoints -------------------------------------------------------- */

/* The parameter of another checkpoint of the same table. */
static const parameter *parameter_in(const attend_trainer *tr, const trainer_entry *e,
                                     const attend_checkpoint *c) {
  return &c->table.entry[e->p - tr->files->table.entry];
}

static bool is_same(const parameter *p, const parameter *q) {
  return p->slot == q->slot && p->of == q->of && p->layer == q->layer && p->is_bias == q->is_bias &&
         q->tensor && p->rank == q->rank && !memcmp(p->shape, q->shape, sizeof p->shape);
}

static attend_status open_same(const attend_trainer *tr, const char *folder,
                               attend_checkpoint **files) {
  ATTEND_TRY(attend_checkpoint_open(tr->ctx, folder, files));
  bool same = (*files)->table.count == tr->files->table.count;
  for (size_t i = 0; same && i < tr->n_entries; i++)
    same = is_same(tr->entries[i].p, parameter_in(tr, &tr->entries[i], *files));
  ATTEND_CHECK(tr->ctx, same,
               "%s has not the same tensors as the others: models of one shape "
               "can be averaged",
               folder);
  return ATTEND_OK;
}

/* Sums are double and taken in the order of the list, so that the mean is the same
 * bits everywhere. sum: and as much again, for one tensor and its transpose. */
static void average_entry(attend_trainer *tr, const trainer_entry *e, int n,
                          attend_checkpoint *const *files, double *sum) {
  float *one = (float *)(sum + e->count), *work = one + e->count;
  float *to = attend_trainer_values(tr, NULL) + e->at;
  memset(sum, 0, e->count * sizeof *sum);
  for (int i = 0; i < n; i++) {
    read_tensor(parameter_in(tr, e, files[i]), work, one);
    for (size_t j = 0; j < e->count; j++) sum[j] += (double)one[j];
  }
  for (size_t j = 0; j < e->count; j++) to[j] = (float)(sum[j] / n);
}

attend_status attend_trainer_average(attend_trainer *tr, int n, const char *const *folders) {
  attend_checkpoint **files;
  double *sum = NULL;
  size_t largest = 0;
  ATTEND_CHECK(tr->ctx, n >= 1, "a mean of %d checkpoints: name one or more", n);
  for (size_t i = 0; i < tr->n_entries; i++)
    if (tr->entries[i].count > largest) largest = tr->entries[i].count;
  ATTEND_TRY(ctx_alloc_zeroed(tr->ctx, (size_t)n * sizeof *files, "the checkpoints", &files));
  attend_status status = ctx_alloc(tr->ctx, 2 * largest * sizeof *sum, "a mean", &sum);
  for (int i = 0; !status && i < n; i++) status = open_same(tr, folders[i], &files[i]);
  for (size_t i = 0; !status && i < tr->n_entries; i++)
    average_entry(tr, &tr->entries[i], n, files, sum);
  for (int i = 0; i < n; i++) attend_checkpoint_free(files[i]);
  ctx_free(tr->ctx, files);
  ctx_free(tr->ctx, sum);
  return status ? status : attend_trainer_refresh(tr);
}
