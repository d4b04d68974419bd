/* A batch of inputs through a design, and back: the transformer of model/.
 *
 * Each head is a layer of model/ with one head, no norms and no mlp, and the stream
 * is the features. A head reads those that were there before its design layer: the
 * first qkv.inputs of them. Its `out` is a fixed matrix of 0 and 1 that puts what it
 * gives into features of its own, which were 0, so heads of one design layer run one
 * after the other, and adding is exact. Two buffers take turns as the stream: what
 * a head reads is in both of them when its gradients need it. One-hot embeddings
 * are identity tables. Heads differ in width and ties, so each has a plan.
 *
 * A twin's matrices are [inputs][outputs], products take [outputs][inputs]: in
 * `values` each lies transposed in the same place, so that Qm, Km and Vm of a head are
 * one matrix. Behind them lie the tables, as wide as the stream.
 *
 * Inputs of different lengths ride together: keys past an input's end are masked,
 * and a row's result does not depend on them.
 */
#include "design/design.h"

/* ---- weights -------------------------------------------------------------------------- */

static attend_status pack(design_pass *p, size_t at, int outputs, int inputs, linear_weights *w) {
  *w = (linear_weights){.w = p->values + at,
                        .dw = p->gradients ? p->gradients + at : NULL,
                        .outputs = outputs,
                        .inputs = inputs};
  return linear_pack(&p->model, w, p->gradients);
}

static attend_status pack_out(design_pass *p, const design_head *h, linear_weights *w) {
  const attend_design *d = p->d;
  *w = (linear_weights){.outputs = d->features, .inputs = h->dim_v};
  ATTEND_TRY(ctx_alloc_zeroed(d->ctx, (size_t)(d->features * h->dim_v) * sizeof *w->w,
                              "a head's place", &w->w));
  for (int i = 0; i < h->dim_v; i++) w->w[(h->slot + i) * h->dim_v + i] = 1;
  attend_status status = linear_pack(&p->model, w, p->gradients);
  ctx_free(d->ctx, w->w);
  w->w = NULL; /* no step changes it */
  return status;
}

/* From a twin's parts to values, or the other way. */
static void exchange(const attend_design *d, float *parts, float *values, bool out) {
  const size_t tables = tables_at(d), width = (size_t)d->features;
  for (int i = 0; i < d->n_parts; i++) {
    const attend_design_part *part = &d->parts[i];
    const size_t rows = (size_t)part->rows, columns = (size_t)part->columns;
    const bool transposed = part->at < tables;
    float *at = parts + part->at, *to = values + part->at;
    if (!transposed) to = values + tables + (part->at - tables) / columns * width;
    for (size_t r = 0; r < rows; r++)
      for (size_t c = 0; c < columns; c++, at++) {
        float *value = to + (transposed ? c * rows + r : r * width + c);
        *(out ? at : value) = *(out ? value : at);
      }
  }
}

attend_status pass_weights(design_pass *p, const float *weights) {
  const attend_design *d = p->d;
  float *values;
  size_t bytes = p->count * sizeof *values, tables = tables_at(d);
  ATTEND_TRY(ctx_alloc_zeroed(d->ctx, bytes, "a twin's weights", &values));
  for (size_t i = tables; i < p->count; i += (size_t)d->features + 1) values[i] = 1;
  exchange(d, (float *)weights, values, false);
  p->own.device->write(&p->own, p->values, values, bytes);
  ctx_free(d->ctx, values);
  return model_repack(&p->model);
}

attend_status pass_parts(design_pass *p, const float *from, float *parts) {
  float *values;
  size_t bytes = p->count * sizeof *values;
  ATTEND_TRY(ctx_alloc(p->d->ctx, bytes, "a twin's weights", &values));
  p->own.device->read(&p->own, values, from, bytes);
  exchange(p->d, parts, values, true);
  ctx_free(p->d->ctx, values);
  return ATTEND_OK;
}

/* ---- life ---------------------------------------------------------------------------- */

/* So many floats or numbers for each row, of the device. */
static attend_status take_rows(design_pass *p, int width, void *to) {
  return model_keep(&p->model, (size_t)p->p.rows * (size_t)width * sizeof(float), to);
}

static attend_status take_backward(design_pass *p) {
  const attend_design *d = p->d;
  const int ld = padded(d->features);
  back_work *backward = &p->p.backward;
  int wide = d->answers;
  for (int i = 0; i < d->n_heads; i++)
    if (qkv_width(&d->heads[i]) > wide) wide = qkv_width(&d->heads[i]);
  size_t scratch = attend_linear_weight_grad_bytes(&p->own, p->p.rows, wide, d->features);
  scratch = size_add(scratch, embed_backward_bytes((size_t)p->p.rows, d->features));
  ATTEND_TRY(take_rows(p, ld, &backward->dh));
  ATTEND_TRY(take_rows(p, ld, &backward->d_act)); /* outputs are features */
  ATTEND_TRY(take_rows(p, padded(wide), &backward->d_wide));
  ATTEND_TRY(model_keep(&p->model, scratch, &backward->scratch));
  ATTEND_TRY(take_rows(p, ld, &p->dx));
  ATTEND_TRY(take_rows(p, 1, &p->losses));
  return model_keep(&p->model, p->count * sizeof(float), &p->gradients);
}

static void write_numbers(design_pass *p, int32_t *to, const int32_t *from) {
  p->own.device->write(&p->own, to, from, (size_t)p->p.rows * sizeof *to);
}

static attend_status take_inputs(design_pass *p) {
  size_t rows = (size_t)p->p.rows, ld = (size_t)padded(p->d->answers);
  size_t each = rows * (ld + 2) + (size_t)p->p.count;
  ATTEND_TRY(
      ctx_alloc_zeroed(p->d->ctx, each * sizeof *p->logits, "a batch of inputs", &p->logits));
  p->ids = (int32_t *)(p->logits + rows * ld);
  p->expected = p->ids + rows;
  p->lengths = p->expected + rows;
  ATTEND_TRY(take_rows(p, 1, &p->device_ids));
  ATTEND_TRY(take_rows(p, 1, &p->device_expected));
  ATTEND_TRY(take_rows(p, 1, &p->p.position));
  for (size_t i = 0; i < rows; i++) p->ids[i] = (int32_t)i % p->d->places;
  write_numbers(p, p->p.position, p->ids);
  return ATTEND_OK;
}

static table_weights table(const design_pass *p, int from, int entries) {
  size_t at = tables_at(p->d) + (size_t)(from * p->d->features);
  bool learned = p->gradients && p->learned == p->count;
  return (table_weights){{p->values + at, ATTEND_F32, entries}, learned ? p->gradients + at : NULL};
}

static attend_status open_model(design_pass *p) {
  const attend_design *d = p->d;
  attend_model *m = &p->model;
  m->config = (attend_config){.parts = ATTEND_DECODER,
                              .decoder = {.layers = d->n_heads, .width = d->features},
                              .norms = ATTEND_NORM_NONE,
                              .embed_factor = 1,
                              .vocab = d->answers};
  ATTEND_TRY(model_open(m));
  ATTEND_TRY(model_keep(m, p->count * sizeof *p->values, &p->values));
  m->tokens = table(p, 0, d->tokens);
  if (d->positions != ATTEND_DESIGN_POSITIONS_NONE)
    m->decoder.positions = table(p, d->tokens, d->places);
  return pack(p, readout_part(d)->at, d->answers, d->features, &m->head);
}

/* From the stream `in` to the stream `out`. */
static attend_status open_head(design_pass *p, int i, double sharpness, float *in, float *out) {
  const attend_design *d = p->d;
  const design_head *h = &d->heads[i];
  const bool soft = sharpness > 0;
  layer_weights *w = &p->model.decoder.layers[i];
  activations *to = &p->at[i];
  attend_desc desc = {
      ATTEND_INIT(attend_desc),
      .batch = p->p.count,
      .q_len = d->places,
      .kv_len = d->places,
      .dim = h->dim,
      .dim_v = h->dim_v,
      .scale = soft ? (float)sharpness : 1,
      .form = {.kind = soft ? ATTEND_SOFTMAX : ATTEND_ARGMAX, .ties = h->ties},
      .purpose = p->gradients ? ATTEND_FOR_BACKWARD : 0,
      .mask = {.causal = d->causal ? ATTEND_CAUSAL : ATTEND_NOT_CAUSAL, .lengths = p->lengths}};
  *to = (activations){.x = in, .self_added = out, .self = out, .self_out = out};
  ATTEND_TRY(take_rows(p, padded(qkv_width(h)), &to->qkv));
  ATTEND_TRY(take_rows(p, padded(h->dim_v), &to->heads));
  to->attended = to->heads;
  ATTEND_TRY(take_rows(p, 1, &to->lse));
  ATTEND_TRY(pack(p, head_part(d, i, ATTEND_QUERY_PART)->at, qkv_width(h), h->reads, &w->qkv));
  ATTEND_TRY(pack_out(p, h, &w->out));
  return attend_plan_create(&p->own, &desc, &p->plans[i]);
}

static attend_status open_pass(design_pass *p, const float *weights, double sharpness,
                               bool backward) {
  const attend_design *d = p->d;
  const int ld = padded(d->features);
  float *x[2];
  /* Threads that wait for each other cost more than a small batch takes. */
  bool small = (int64_t)p->p.rows * d->features <= 1 << 17;
  ATTEND_TRY(context_child(d->ctx, small ? 1 : 0, &p->own));
  ATTEND_TRY(take_inputs(p));
  for (int i = 0; i < 2; i++) ATTEND_TRY(take_rows(p, ld, &x[i]));
  p->readout = (head_rows){
      .rows = p->p.rows, .ld = ld, .x = x[d->n_heads % 2], .logits = floats(NULL, d->answers)};
  ATTEND_TRY(take_rows(p, padded(d->answers), &p->readout.logits.at));
  if (backward) ATTEND_TRY(take_backward(p));
  ATTEND_TRY(open_model(p));
  for (int i = 0; i < d->n_heads; i++)
    ATTEND_TRY(open_head(p, i, sharpness, x[i % 2], x[(i + 1) % 2]));
  return pass_weights(p, weights);
}

attend_status pass_create(const attend_design *d, const float *weights, double sharpness, int batch,
                          bool backward, design_pass **to) {
  design_pass *p;
  *to = NULL;
  ATTEND_TRY(ctx_alloc_zeroed(d->ctx, sizeof *p, "a pass", &p));
  p->d = d;
  p->model.ctx = &p->own;
  p->p = (pass){.ctx = &p->own,
                .model = &p->model,
                .side = &p->model.decoder,
                .count = batch,
                .n = d->places,
                .rows = batch * d->places};
  p->count = tables_at(d) + (size_t)(d->embedded * d->features);
  p->learned = d->positions == ATTEND_DESIGN_POSITIONS_ADDED ? p->count : tables_at(d);
  attend_status status = open_pass(p, weights, sharpness, backward);
  if (status)
    pass_free(p);
  else
    *to = p;
  return status;
}

void pass_free(design_pass *p) {
  if (!p) return;
  attend_context *ctx = p->d->ctx;
  for (int i = 0; i < p->d->n_heads; i++) attend_plan_free(p->plans[i]);
  model_close(&p->model);
  ctx_free(ctx, p->logits);
  ctx_free(ctx, p);
}

/* ---- inputs ---------------------------------------------------------------------------- */

void pass_put(design_pass *p, int b, const design_input *x) {
  const attend_design *d = p->d;
  int32_t *ids = p->ids + (size_t)b * (size_t)d->places,
          *expected = p->expected + (size_t)b * (size_t)d->places;
  const int start = d->start >= 0;
  int n = 0;
  for (int i = 0; i < d->places; i++) ids[i] = -1, expected[i] = ATTEND_NO_TARGET;
  if (start) ids[n++] = d->start;
  for (int i = 0; i < x->n; i++) ids[n++] = x->letter[i];
  if (d->end >= 0) ids[n++] = d->end;
  p->lengths[b] = n;
  if (d->at == ATTEND_READOUT_EVERY)
    for (int i = 0; i < x->n; i++) expected[start + i] = x->answer[i];
  else
    expected[d->at == ATTEND_READOUT_FIRST ? 0 : n - 1] = x->answer[0];
}

void pass_put_number(design_pass *p, int b, uint64_t index) {
  design_input x;
  design_number(p->d, index, &x);
  pass_put(p, b, &x);
}

/* ---- forward and backward ------------------------------------------------------------ */

attend_status pass_forward(design_pass *p) {
  float *x = p->at[0].x;
  write_numbers(p, p->device_ids, p->ids);
  embed_forward(&p->p, p->device_ids, NULL, x, x);
  for (int i = 0; i < p->d->n_heads; i++) {
    p->p.plan[FULL] = p->plans[i];
    ATTEND_TRY(layer_forward(&p->p, i, &p->at[i]));
  }
  head_forward(&p->p, &p->readout);
  size_t row = (size_t)padded(p->d->answers) * sizeof *p->logits;
  p->own.device->read(&p->own, p->logits, p->readout.logits.at, (size_t)p->p.rows * row);
  return ATTEND_OK;
}

double pass_loss(design_pass *p) {
  const int rows = p->p.rows;
  int asked = 0;
  double sum = 0;
  for (int r = 0; r < rows; r++) asked += p->expected[r] >= 0;
  if (!asked) asked = 1;
  write_numbers(p, p->device_expected, p->expected);
  OP(&p->own, loss, .rows = rows, .width = p->d->answers, .x = p->readout.logits.at,
     .ldx = p->readout.logits.ld, .targets = p->device_expected, .scale = 1 / (float)asked,
     .loss = p->losses);
  p->own.device->read(&p->own, p->logits, p->losses, (size_t)rows * sizeof *p->losses);
  for (int r = 0; r < rows; r++) sum += (double)p->logits[r];
  return sum / asked;
}

attend_status pass_backward(design_pass *p) {
  p->own.device->zero(&p->own, p->gradients, p->count * sizeof *p->gradients);
  head_backward(&p->p, &p->readout, typed(&p->p, p->readout.x, p->readout.ld),
                floats(p->dx, p->d->features));
  for (int i = p->d->n_heads - 1; i >= 0; i--) {
    p->p.plan[FULL] = p->plans[i];
    ATTEND_TRY(layer_backward(&p->p, i, &p->at[i], p->dx));
  }
  if (p->model.tokens.dw) embed_backward(&p->p, p->device_ids, NULL, NULL, p->dx);
  return ATTEND_OK;
}

/* ---- what it gave --------------------------------------------------------------------- */

attend_status pass_attention(const design_pass *p, int head, int rows, float *weights) {
  const design_head *h = &p->d->heads[head];
  const activations *a = &p->at[head];
  int32_t all[MOST_PLACES];
  int n = p->d->places, ld = padded(qkv_width(h));
  for (int i = 0; i < rows; i++) all[i] = i;
  attend_observation what = {ATTEND_INIT(attend_observation), .rows = all, .n_rows = rows,
                             .weights = weights};
  const float *q = a->qkv;
  return attend_observe(p->plans[head], heads_at(q, n, ld, h->dim),
                        heads_at(q + h->dim, n, ld, h->dim), a->lse, &what);
}

int pass_answer(const attend_design *d, const float *logits, int expected, double *lead) {
  int best = 0, ties = 0;
  double other = -1e300;
  for (int a = 0; a < d->answers; a++) {
    if (logits[a] > logits[best]) best = a;
    if (a != expected && (double)logits[a] > other) other = (double)logits[a];
  }
  for (int a = 0; a < d->answers; a++) ties += logits[a] == logits[best];
  if (lead && expected >= 0) *lead = (double)logits[expected] - other;
  return ties == 1 ? best : ATTEND_UNDECIDED;
}
