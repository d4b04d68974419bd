/* What a model costs: counted from the headers of its files and its configuration. */
#include "attend/model.h"

#include <math.h>
#include <string.h>

#include "base/options.h"
#include "model/checkpoint.h"

enum { CONTEXT = 1024, ROWS = 512, HEAD_ROWS = 32, LANES = 16 };

typedef struct {
  const attend_checkpoint *files;
  const attend_config *config;
  attend_form forms[ATTEND_ROLES];
  attend_weights weights;
  attend_dtype activations;
  double encoder, decoder, cross_keys, head; /* operations of the products for one token */
  attend_model_cost cost;
} counting;

static double padded(double n) { return LANES * ceil(n / LANES); }

/* ---- as stored --------------------------------------------------------------------------- */

static attend_stored_part *part_of(attend_model_cost *o, const char *dtype) {
  int i = 0;
  while (i < o->n_stored && strcmp(o->stored[i].dtype, dtype)) i++;
  if (i == ATTEND_MOST_DTYPES) return &o->stored[i - 1];
  if (i == o->n_stored) o->stored[o->n_stored++].dtype = dtype;
  return &o->stored[i];
}

static void count_stored(attend_model_cost *o, const attend_tensor *t) {
  attend_stored_part *part = part_of(o, t->dtype);
  part->tensors++;
  part->parameters += (double)t->count;
  part->bytes += (double)t->bytes;
  o->tensors++;
  o->parameters += (double)t->count;
  o->bytes += (double)t->bytes;
}

static void count_unused(counting *f) {
  const attend_tensor *t;
  for (size_t i = 0; (t = attend_checkpoint_unused(f->files, i)); i++) {
    f->cost.unused++;
    f->cost.unused_bytes += (double)t->bytes;
  }
}

/* ---- to run -------------------------------------------------------------------------------- */

static void add_matrix(counting *f, double outputs, double inputs) {
  static const double size[3] = {4, 2, 1};
  double wide = padded(outputs);
  for (int w = 0; w < 3; w++)
    f->cost.packed[w] += wide * inputs * size[w] + (w == ATTEND_WEIGHTS_I8 ? 8 : 4) * wide;
}

static void add_product(counting *f, const attend_parameter *p) {
  double both = 2 * (double)p->shape[0] * (double)p->shape[1];
  bool encoder = p->encoder || f->config->parts == ATTEND_ENCODER;
  bool keys = !strcmp(p->what, "cross-attention key") || !strcmp(p->what, "cross-attention value");
  add_matrix(f, (double)p->shape[0], (double)p->shape[1]);
  if (p->layer < 0 && !p->encoder)
    f->head += both;
  else if (keys)
    f->cross_keys += both;
  else if (encoder)
    f->encoder += both;
  else
    f->decoder += both;
}

static void add_head(counting *f) {
  const attend_config *c = f->config;
  double width = c->parts == ATTEND_ENCODER ? c->encoder.width : c->decoder.width;
  if (!c->tied || !attend_checkpoint_has_head(f->files)) return;
  add_matrix(f, c->vocab, width); /* a tied head is packed, too */
  f->head += 2.0 * c->vocab * width;
}

static void count_tensors(counting *f) {
  attend_parameter p;
  for (size_t i = 0; attend_checkpoint_get(f->files, i, &p); i++) {
    bool second = !strcmp(p.what, "head") && !p.bias && f->config->tied;
    if (!p.tensor) continue;
    count_stored(&f->cost, p.tensor);
    if (strstr(p.what, "table"))
      f->cost.tables += (double)p.tensor->bytes;
    else if (p.matrix && !second)
      add_product(f, &p);
    else if (!p.bias || strstr(p.what, "norm")) /* others: with matrices */
      for (int w = 0; w < 3; w++) f->cost.packed[w] += 4 * (double)p.tensor->count;
  }
  add_head(f);
}

static double cache_of_a_token(const counting *f, const attend_stack *s) {
  const double element = (double)attend_dtype_size(f->activations);
  return (double)s->layers * s->kv_heads * (s->dim + s->dim_v) * element;
}

enum { STREAM, BUFFERS = 5 }; /* x, which is f32; h, qkv, mix, inside */

/* Each buffer of a run is as wide as the wider side needs it. */
static void widen(const attend_stack *s, int gated, double row[BUFFERS]) {
  double qkv = (double)s->heads * s->dim + (double)s->kv_heads * (s->dim + s->dim_v);
  const double mine[BUFFERS] = {padded(s->width), padded(s->width), padded(qkv),
                                padded((double)s->heads * s->dim_v),
                                padded((double)s->mlp * (1 + gated))};
  for (int i = 0; i < BUFFERS; i++) row[i] = fmax(row[i], mine[i]);
}

/* A sequence that is read in pieces of 512 rows, and logits for it. */
static double work_of(const counting *f) {
  const attend_config *c = f->config;
  double row[BUFFERS] = {0}, sum = 0;
  if (c->encoder.layers) widen(&c->encoder, c->gated, row);
  if (c->decoder.layers) widen(&c->decoder, c->gated, row);
  for (int i = 0; i < BUFFERS; i++)
    sum += row[i] * (double)attend_dtype_size(i == STREAM ? ATTEND_F32 : f->activations);
  return ROWS * sum + HEAD_ROWS * padded(c->vocab) * sizeof(float);
}

/* Bytes per token of one layer's state, measured on an empty state. */
static attend_status count_state(counting *f) {
  const attend_stack *s = &f->config->decoder;
  attend_form form = f->forms[ATTEND_DECODER_SELF];
  attend_plan *plan;
  attend_state *state;
  if (attend_form_features(&form, s->dim) == 0) form = (attend_form){.kind = ATTEND_ELU};
  f->cost.state_form = form;
  attend_desc d = {ATTEND_INIT(attend_desc),
                   .form = form,
                   .dtype = f->activations,
                   .heads = s->heads,
                   .kv_heads = s->kv_heads,
                   .q_len = 1,
                   .dim = s->dim,
                   .dim_v = s->dim_v,
                   .mask.causal = ATTEND_CAUSAL_BOTTOM,
                   .purpose = ATTEND_FOR_EXTEND};
  attend_status status = attend_plan_create(f->files->ctx, &d, &plan);
  if (status) return status;
  status = attend_state_create(plan, &state);
  if (!status) f->cost.state = (double)attend_state_bytes(state) * s->layers;
  if (!status) attend_state_free(state);
  attend_plan_free(plan);
  return status;
}

static attend_status count_memory(counting *f) {
  const attend_config *c = f->config;
  bool decoder = c->parts & ATTEND_DECODER;
  f->cost.cache_token = decoder ? cache_of_a_token(f, &c->decoder) : NAN;
  f->cost.cross_token = c->parts == ATTEND_BOTH ? cache_of_a_token(f, &c->decoder) : NAN;
  f->cost.state = NAN;
  f->cost.work = work_of(f);
  return decoder ? count_state(f) : ATTEND_OK;
}

/* ---- what a token costs --------------------------------------------------------------------- */

/* Attention of all layers: `rows` queries at the end of `keys` keys. */
static attend_status attention_of(const counting *f, attend_role role, int rows, int keys,
                                  attend_cost *cost) {
  const attend_stack *s = role == ATTEND_ENCODER_SELF ? &f->config->encoder : &f->config->decoder;
  const bool causal = role == ATTEND_DECODER_SELF;
  attend_desc d = {ATTEND_INIT(attend_desc),
                   .form = f->forms[role],
                   .dtype = f->activations,
                   .batch = 1,
                   .heads = s->heads,
                   .kv_heads = s->kv_heads,
                   .q_len = rows,
                   .kv_len = keys,
                   .dim = s->dim,
                   .dim_v = s->dim_v,
                   .mask.causal = causal ? ATTEND_CAUSAL_BOTTOM : ATTEND_NOT_CAUSAL};
  if (attend_form_features(&d.form, s->dim) > 0) d.engine = "linear";
  attend_status status = attend_desc_cost(f->files->ctx, &d, cost);
  cost->flops *= s->layers;
  cost->bytes *= s->layers;
  return status;
}

/* Read at once: the weights come from memory once for all tokens. */
static attend_status cost_of_reading(const counting *f, attend_role role, double flops,
                                     attend_token_cost *to) {
  attend_cost cost;
  const int n = f->cost.context;
  ATTEND_TRY(attention_of(f, role, n, n, &cost));
  to->flops = flops + cost.flops / n;
  to->bytes = (f->cost.packed[f->weights] + cost.bytes) / n;
  return ATTEND_OK;
}

static attend_status count_costs(counting *f) {
  const attend_config *c = f->config;
  attend_model_cost *o = &f->cost;
  const double writing = f->decoder + f->head;
  attend_cost self, cross = {0};
  if (c->parts & ATTEND_ENCODER)
    ATTEND_TRY(cost_of_reading(f, ATTEND_ENCODER_SELF, f->encoder + f->cross_keys, &o->encode));
  if (!(c->parts & ATTEND_DECODER)) return ATTEND_OK;
  if (c->parts == ATTEND_DECODER)
    ATTEND_TRY(cost_of_reading(f, ATTEND_DECODER_SELF, f->decoder, &o->read));
  ATTEND_TRY(attention_of(f, ATTEND_DECODER_SELF, 1, o->context, &self));
  if (c->parts == ATTEND_BOTH) ATTEND_TRY(attention_of(f, ATTEND_CROSS, 1, o->context, &cross));
  double weights = o->packed[f->weights];
  if (c->parts == ATTEND_BOTH) /* the encoder does not run while the decoder writes */
    weights *= writing / (writing + f->encoder + f->cross_keys);
  o->write =
      (attend_token_cost){writing + self.flops + cross.flops, weights + self.bytes + cross.bytes};
  return ATTEND_OK;
}

attend_status attend_checkpoint_cost(const attend_checkpoint *files, const attend_form *forms,
                                     attend_weights weights, attend_dtype activations,
                                     attend_model_cost *cost) {
  const attend_config *c = attend_checkpoint_config(files);
  counting f = {.files = files,
                .config = c,
                .weights = weights,
                .activations = activations,
                .cost.size = sizeof f.cost};
  if (forms)
    memcpy(f.forms, forms, sizeof f.forms);
  else
    ATTEND_TRY(attend_config_forms(files->ctx, c, NULL, 0, f.forms));
  f.cost.context = c->positions && c->positions < CONTEXT ? c->positions : CONTEXT;
  count_tensors(&f);
  count_unused(&f);
  ATTEND_TRY(count_memory(&f));
  ATTEND_TRY(count_costs(&f));
  options_write(&f.cost, sizeof f.cost, cost);
  return ATTEND_OK;
}
