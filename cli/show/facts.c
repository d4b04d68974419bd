/* What can be said about a model without reading its weights.
 *
 * Show; counted from the headers and the configuration.
 *
 * Costs are those of one sequence. A multiplication and an addition count as
 * two operations; bytes are those that must come from memory.
 */
#include "show/facts.h"

#include <math.h>
#include <string.h>

enum { CONTEXT = 1024, ROWS = 512, HEAD_ROWS = 32, LANES = 16 };

const char *parts_name(attend_parts parts) {
  return parts == ATTEND_ENCODER   ? "encoder"
         : parts == ATTEND_DECODER ? "decoder"
                                   : "encoder and decoder";
}

const char *norms_name(attend_norms norms) {
  static const char *const names[] = {"before each branch", "after each sum", "after each branch",
                                      "before and after each branch", "none"};
  return names[norms];
}

const char *positions_name(attend_positions positions) {
  static const char *const names[] = {"learned", "sinusoidal", "rotary", "buckets of distance"};
  return names[positions];
}

const char *weights_name(attend_weights weights) {
  static const char *const names[] = {"f32", "bf16", "int8"};
  return names[weights];
}

static double padded(double n) { return LANES * ceil(n / LANES); }

/* ---- as stored --------------------------------------------------------------------------- */

static stored_as *kind_of(model_facts *f, const char *dtype) {
  for (int i = 0; i < f->n_kinds; i++)
    if (!strcmp(f->kinds[i].dtype, dtype)) return &f->kinds[i];
  if (f->n_kinds == MOST_KINDS) return &f->kinds[MOST_KINDS - 1];
  f->kinds[f->n_kinds].dtype = dtype;
  return &f->kinds[f->n_kinds++];
}

static void count_stored(model_facts *f, const attend_tensor *t) {
  stored_as *kind = kind_of(f, t->dtype);
  kind->tensors++;
  kind->parameters += (double)t->count;
  kind->bytes += (double)t->bytes;
  f->tensors++;
  f->parameters += (double)t->count;
  f->bytes += (double)t->bytes;
}

static void count_unused(model_facts *f) {
  const attend_tensor *t;
  for (size_t i = 0; (t = attend_checkpoint_unused(f->files, i)); i++) {
    f->unused++;
    f->unused_bytes += (double)t->bytes;
  }
}

/* ---- to run -------------------------------------------------------------------------------- */

typedef struct { /* operations of the products for one token */
  double encoder, decoder, cross_keys, head;
} products;

static void add_matrix(model_facts *f, double outputs, double inputs) {
  static const double size[3] = {4, 2, 1};
  double wide = padded(outputs);
  for (int w = 0; w < 3; w++)
    f->packed[w] += wide * inputs * size[w] + (w == ATTEND_WEIGHTS_I8 ? 8 : 4) * wide;
}

static void add_product(model_facts *f, const attend_parameter *p, products *ops) {
  double both = 2 * (double)p->shape[0] * (double)p->shape[1];
  bool encoder = p->encoder || f->config->parts == ATTEND_ENCODER;
  bool keys = !strcmp(p->what, "cross-attention key") || !strcmp(p->what, "cross-attention value");
  add_matrix(f, (double)p->shape[0], (double)p->shape[1]);
  if (p->layer < 0 && !p->encoder)
    ops->head += both;
  else if (keys)
    ops->cross_keys += both;
  else if (encoder)
    ops->encoder += both;
  else
    ops->decoder += both;
}

static void add_head(model_facts *f, products *ops) {
  const attend_config *c = f->config;
  double width = c->parts == ATTEND_ENCODER ? c->encoder.width : c->decoder.width;
  if (!c->tied || !attend_checkpoint_has_head(f->files)) return;
  add_matrix(f, c->vocab, width); /* a tied head is packed, too */
  ops->head += 2.0 * c->vocab * width;
}

static products count_tensors(model_facts *f) {
  attend_parameter p;
  products ops = {0};
  for (size_t i = 0; attend_checkpoint_get(f->files, i, &p); i++) {
    bool second = !strcmp(p.what, "head") && !p.bias && f->config->tied;
    if (!p.tensor) continue;
    count_stored(f, p.tensor);
    if (strstr(p.what, "table"))
      f->tables += (double)p.tensor->bytes;
    else if (p.matrix && !second)
      add_product(f, &p, &ops);
    else if (!p.bias || strstr(p.what, "norm")) /* others: with matrices */
      for (int w = 0; w < 3; w++) f->packed[w] += 4 * (double)p.tensor->count;
  }
  add_head(f, &ops);
  return ops;
}

static double cache_of_a_token(const attend_stack *s) {
  return (double)s->layers * s->kv_heads * (s->dim + s->dim_v) * sizeof(float);
}

enum { BUFFERS = 4 }; /* x and h, qkv, mix, inside */

/* Each buffer of a run is as wide as the wider side needs it. */
static void widen(const attend_stack *s, int gated, double row[BUFFERS]) {
  double qkv = (double)s->heads * s->dim + (double)s->kv_heads * (s->dim + s->dim_v);
  const double mine[BUFFERS] = {2 * padded(s->width), padded(qkv),
                                padded((double)s->heads * s->dim_v),
                                padded((double)s->mlp * (1 + gated))};
  for (int i = 0; i < BUFFERS; i++) row[i] = fmax(row[i], mine[i]);
}

/* A sequence that is read in pieces of 512 rows, and logits for it. */
static double work_of(const attend_config *c) {
  double row[BUFFERS] = {0}, sum = 0;
  if (c->encoder.layers) widen(&c->encoder, c->gated, row);
  if (c->decoder.layers) widen(&c->decoder, c->gated, row);
  for (int i = 0; i < BUFFERS; i++) sum += row[i];
  return (ROWS * sum + HEAD_ROWS * padded(c->vocab)) * sizeof(float);
}

/* Bytes per token of one layer's state, measured on an empty state. */
static attend_status count_state(model_facts *f) {
  const attend_stack *s = &f->config->decoder;
  attend_form form = f->forms[ATTEND_DECODER_SELF];
  attend_plan *plan;
  attend_state *state;
  f->state_form = "this form";
  if (attend_form_features(&form, s->dim) == 0) {
    form = (attend_form){.kind = ATTEND_ELU};
    f->state_form = "elu";
  }
  attend_desc d = {ATTEND_INIT(attend_desc),
                   .form = form,
                   .heads = s->heads,
                   .kv_heads = s->kv_heads,
                   .q_len = 1,
                   .dim = s->dim,
                   .dim_v = s->dim_v,
                   .mask.causal = ATTEND_CAUSAL_BOTTOM,
                   .purpose = ATTEND_FOR_EXTEND};
  attend_status status = attend_plan_create(f->ctx, &d, &plan);
  if (status) return status;
  status = attend_state_create(plan, &state);
  if (!status) f->state = (double)attend_state_bytes(state) * s->layers;
  if (!status) attend_state_free(state);
  attend_plan_free(plan);
  return status;
}

static attend_status count_memory(model_facts *f) {
  const attend_config *c = f->config;
  bool decoder = c->parts & ATTEND_DECODER;
  f->cache_token = decoder ? cache_of_a_token(&c->decoder) : NAN;
  f->cross_token = c->parts == ATTEND_BOTH ? cache_of_a_token(&c->decoder) : NAN;
  f->state = NAN;
  f->work = work_of(c);
  return decoder ? count_state(f) : ATTEND_OK;
}

/* ---- what a token costs --------------------------------------------------------------------- */

/* Attention of all layers: `rows` queries at the end of `keys` keys. */
static attend_status attention_of(const model_facts *f, attend_role role, int rows, int keys,
                                  attend_cost *cost) {
  const attend_stack *s = role == ATTEND_ENCODER_SELF ? &f->config->encoder : &f->config->decoder;
  const bool causal = role == ATTEND_DECODER_SELF;
  attend_desc d = {ATTEND_INIT(attend_desc),
                   .form = f->forms[role],
                   .batch = 1,
                   .heads = s->heads,
                   .kv_heads = s->kv_heads,
                   .q_len = rows,
                   .kv_len = keys,
                   .dim = s->dim,
                   .dim_v = s->dim_v,
                   .mask.causal = causal ? ATTEND_CAUSAL_BOTTOM : ATTEND_NOT_CAUSAL};
  if (attend_form_features(&d.form, s->dim) > 0) d.engine = "linear";
  attend_status status = attend_desc_cost(f->ctx, &d, cost);
  cost->flops *= s->layers;
  cost->bytes *= s->layers;
  return status;
}

static void add_cost(model_facts *f, const char *what, double flops, double bytes) {
  token_cost *c = &f->costs[f->n_costs++];
  attend_machine machine;
  f->measured = attend_machine_load(f->ctx, &machine);
  *c = (token_cost){.what = what, .flops = flops, .bytes = bytes};
  c->limit = (attend_limit){NAN, NAN, NAN, NULL};
  if (f->measured) c->limit = attend_machine_limit(&machine, flops, bytes);
}

/* Read at once: the weights come from memory once for all tokens. */
static attend_status cost_of_reading(model_facts *f, attend_role role, const char *what,
                                     double flops) {
  attend_cost cost;
  double n = f->context;
  attend_status status = attention_of(f, role, f->context, f->context, &cost);
  add_cost(f, what, flops + cost.flops / n, (f->packed[f->weights] + cost.bytes) / n);
  return status;
}

static attend_status count_costs(model_facts *f, const products *ops) {
  const attend_config *c = f->config;
  attend_cost self, cross = {0};
  attend_status status = ATTEND_OK;
  if (c->parts & ATTEND_ENCODER)
    status = cost_of_reading(f, ATTEND_ENCODER_SELF, "encode", ops->encoder + ops->cross_keys);
  if (status || !(c->parts & ATTEND_DECODER)) return status;
  if (c->parts == ATTEND_DECODER)
    status = cost_of_reading(f, ATTEND_DECODER_SELF, "read", ops->decoder);
  if (!status) status = attention_of(f, ATTEND_DECODER_SELF, 1, f->context, &self);
  if (!status && c->parts == ATTEND_BOTH)
    status = attention_of(f, ATTEND_CROSS, 1, f->context, &cross);
  double weights = f->packed[f->weights];
  if (c->parts == ATTEND_BOTH) /* the encoder rests while the decoder writes */
    weights *=
        (ops->decoder + ops->head) / (ops->decoder + ops->head + ops->encoder + ops->cross_keys);
  add_cost(f, "write", ops->decoder + ops->head + self.flops + cross.flops,
           weights + self.bytes + cross.bytes);
  return status;
}

attend_status facts_count(model_facts *f) {
  f->config = attend_checkpoint_config(f->files);
  int positions = f->config->positions;
  f->context = positions && positions < CONTEXT ? positions : CONTEXT;
  products ops = count_tensors(f);
  count_unused(f);
  attend_status status = count_memory(f);
  return status ? status : count_costs(f, &ops);
}
