/* A batch: checks, forward, loss, backward. */
#include <math.h>

#include "base/options.h"
#include "kernels/kernels.h"
#include "model/transformer.h"
#include "train/trainer.h"

/* The tokens of one side. */
typedef struct {
  int length;
  const int32_t *ids, *lengths, *types;
} side_input;

static attend_status check_given(const attend_trainer *tr, const char *what, const side_input *g) {
  const attend_config *c = &tr->model.config;
  ATTEND_CHECK(tr->ctx, g->length >= 1 && g->ids, "a batch needs %s", what);
  ATTEND_TRY(check_positions(tr->ctx, c, g->length));
  for (int i = 0; i < tr->batch->count * g->length; i++)
    ATTEND_CHECK(tr->ctx, g->ids[i] >= 0 && g->ids[i] < c->vocab,
                 "token %d of a batch is %d: the model knows 0 to %d", i, (int)g->ids[i],
                 c->vocab - 1);
  for (int b = 0; g->lengths && b < tr->batch->count; b++)
    ATTEND_CHECK(tr->ctx, g->lengths[b] >= 0 && g->lengths[b] <= g->length,
                 "text %d of a batch has %d tokens of %d", b, (int)g->lengths[b], g->length);
  return ATTEND_OK;
}

static attend_status check_targets(const attend_trainer *tr, const attend_batch *x, int length) {
  ATTEND_CHECK(tr->ctx, x->targets, "a batch needs targets");
  for (int i = 0; i < x->count * length; i++)
    ATTEND_CHECK(tr->ctx, x->targets[i] < tr->model.config.vocab,
                 "target %d of a batch is %d: the model knows 0 to %d", i, (int)x->targets[i],
                 tr->model.config.vocab - 1);
  ATTEND_CHECK(tr->ctx, x->smoothing >= 0 && x->smoothing < 1,
               "a smoothing of %g: choose a share from 0 to below 1", (double)x->smoothing);
  return ATTEND_OK;
}

static void set_shape(const attend_trainer *tr, trainer_side *x, int length) {
  if (!x->layers) return;
  x->p.count = tr->batch->count;
  x->p.n = length;
  x->p.rows = tr->batch->count * length;
}

/* After activations_fit: tokens, their real lengths, dropout. */
static void place_side(attend_trainer *tr, trainer_side *x, const side_input *g) {
  const struct attend_device *d = tr->ctx->device;
  const size_t bytes = (size_t)x->p.rows * sizeof *x->ids;
  if (!x->layers) return;
  for (int b = 0; b < tr->batch->count; b++) x->real[b] = g->lengths ? g->lengths[b] : g->length;
  d->write(tr->ctx, x->ids, g->ids, bytes);
  x->typed = g->types != NULL;
  if (x->typed) d->write(tr->ctx, x->types, g->types, bytes);
  x->p.lengths = x->real;
  x->p.hooks = tr->hooks.n ? &tr->hooks : NULL;
  x->p.drop = tr->batch->no_grad ? 0 : tr->options.dropout;
  x->p.direct = tr->batch->direct;
  x->p.dropout = (attend_random){tr->options.seed, tr->batch->step * 4096};
}

/* Written before anything is queued: a write waits for the device. */
static void list_scored(attend_trainer *tr, const trainer_side *x) {
  const int32_t *targets = tr->batch->targets;
  scored_rows *s = &tr->scored;
  s->count = 0;
  for (int i = 0; i < x->p.rows; i++) {
    if (targets[i] < 0) continue;
    s->row[s->count] = i;
    s->text[s->count] = i / x->p.n;
    s->target[s->count++] = targets[i];
  }
  const size_t bytes = (size_t)s->count * sizeof *s->row;
  tr->ctx->device->write(tr->ctx, s->device_row, s->row, bytes);
  tr->ctx->device->write(tr->ctx, s->device_target, s->target, bytes);
}

static attend_status open_batch(attend_trainer *tr, const attend_batch *x) {
  const bool both = tr->model.config.parts == ATTEND_BOTH;
  const side_input read = {x->length, x->ids, x->lengths, x->types};
  const side_input decoder =
      both ? (side_input){x->decoder_length, x->decoder_ids, x->decoder_lengths, NULL}
           : (side_input){x->length, x->ids, x->lengths, NULL};
  ATTEND_CHECK(tr->ctx, x->count >= 1, "a batch of %d texts: give at least 1", x->count);
  tr->batch = x;
  ATTEND_TRY(check_given(tr, "ids", &read));
  if (both) ATTEND_TRY(check_given(tr, "decoder_ids", &decoder));
  ATTEND_TRY(check_targets(tr, x, decoder.length));
  set_shape(tr, &tr->encoder, read.length);
  set_shape(tr, &tr->decoder, decoder.length);
  ATTEND_TRY(activations_fit(tr));
  place_side(tr, &tr->encoder, &read);
  place_side(tr, &tr->decoder, &decoder);
  list_scored(tr, tr->decoder.layers ? &tr->decoder : &tr->encoder);
  return ATTEND_OK;
}

static const int32_t *types_of(const trainer_side *x) { return x->typed ? x->types : NULL; }

static int ld_of(const trainer_side *x) { return padded(x->p.side->shape->width); }

/* ---- sides ------------------------------------------------------------------------------ */

static attend_status side_forward(attend_trainer *tr, trainer_side *x) {
  if (!x->layers) return ATTEND_OK;
  const stack *s = x->p.side;
  const int layers = s->shape->layers;
  float *first = x->layers[0].x;
  embed_forward(&x->p, x->ids, types_of(x), embeds_apart(&tr->model, s) ? x->embedded : first,
                first);
  for (int i = 0; i < layers; i++) ATTEND_TRY(layer_forward(&x->p, i, &x->layers[i]));
  if (tr->model.config.final_norm)
    norm_rows(&x->p, &s->final_norm, x->p.rows, s->shape->width, floats(x->last, s->shape->width),
              floats(x->hidden, s->shape->width));
  return hook_stream(&x->p, ATTEND_AT_RESIDUAL, layers, x->hidden, HOOK_FORWARD);
}

/* Of a layer whose activations were not kept: all but its output. */
static attend_status recompute_layer(trainer_side *x, int i) {
  activations a = x->layers[i];
  if (a.mlp_added == a.out) a.mlp_added = NULL;
  if (a.mlp == a.out) a.mlp = NULL;
  a.out = NULL;
  x->p.again = true;
  attend_status status = layer_forward(&x->p, i, &a);
  x->p.again = false;
  return status;
}

static attend_status side_backward(attend_trainer *tr, trainer_side *x) {
  const stack *s = x->p.side;
  float *dx = x->d_hidden;
  if (!x->layers) return ATTEND_OK;
  ATTEND_TRY(hook_stream(&x->p, ATTEND_AT_RESIDUAL, s->shape->layers, dx, HOOK_GRADIENTS));
  if (tr->model.config.final_norm)
    norm_rows_backward(&x->p, &s->final_norm, x->p.rows, s->shape->width,
                       floats(x->last, s->shape->width), floats(dx, s->shape->width), false,
                       floats(dx, s->shape->width));
  for (int i = s->shape->layers - 1; i >= 0; i--) {
    if (tr->options.recompute) ATTEND_TRY(recompute_layer(x, i));
    ATTEND_TRY(layer_backward(&x->p, i, &x->layers[i], dx));
  }
  embed_backward(&x->p, x->ids, types_of(x),
                 embeds_apart(&tr->model, s) ? x->embedded : x->layers[0].x, dx);
  return ATTEND_OK;
}

/* ---- copying ---------------------------------------------------------------------------- */

static int key_width(const attend_trainer *tr) { return padded(tr->model.config.copy); }

static void lag_keys(attend_trainer *tr, float *keys, bool backward) {
  OP(tr->ctx, copy_lag, .texts = tr->batch->count, .n = tr->encoder.p.n,
     .width = tr->model.config.copy, .keys = keys, .ld = key_width(tr), .backward = backward);
}

static void copy_open(attend_trainer *tr) {
  const trainer_side *e = &tr->encoder;
  trainer_copy *c = &tr->copy;
  if (!tr->model.copy_k.forward) return;
  multiply_rows(&e->p, &tr->model.copy_k, e->p.rows, floats(e->hidden, e->p.side->shape->width),
                floats(c->keys, tr->model.config.copy));
  lag_keys(tr, c->keys, false);
  tr->ctx->device->zero(tr->ctx, c->d_keys,
                        (size_t)e->p.rows * (size_t)key_width(tr) * sizeof *c->d_keys);
}

static struct copy_texts texts_of(const attend_trainer *tr) {
  const trainer_side *e = &tr->encoder;
  return (struct copy_texts){
      .n = e->p.n, .ld = key_width(tr), .keys = tr->copy.keys, .ids = e->ids, .length = e->real};
}

static float copy_factor(const attend_trainer *tr) {
  return 1 / sqrtf((float)tr->model.config.copy);
}

/* The gradient of the keys joins that of the encoder's output. */
static void copy_close(attend_trainer *tr) {
  trainer_side *e = &tr->encoder;
  if (!tr->model.copy_k.forward) return; /* a model of one side has no encoder */
  lag_keys(tr, tr->copy.d_keys, true);
  const int width = e->p.side->shape->width;
  multiply_backward(&e->p, &tr->model.copy_k, e->p.rows, floats(e->hidden, width),
                    floats(tr->copy.d_keys, tr->model.config.copy), true,
                    floats(e->d_hidden, width));
}

/* ---- the head ---------------------------------------------------------------------------- */

/* A chunk of the scored positions, from `first` on: logits of all of them would be too large. */
typedef struct {
  attend_trainer *tr;
  trainer_side *x;
  head_rows h;
  matrix d; /* gradients of the rows that the head reads */
  float scale;
  int first;
} heading;

static void copy_losses(heading *w, matrix read) {
  attend_trainer *tr = w->tr;
  const pass *p = &w->x->p;
  const int rows = w->h.rows, width = key_width(tr);
  const scored_rows *s = &tr->scored;
  trainer_copy *c = &tr->copy;
  multiply_rows(p, &tr->model.copy_q, rows, read, floats(c->queries, tr->model.config.copy));
  multiply_rows(p, &tr->model.copy_gate, rows, read, floats(c->gates, 1));
  OP(tr->ctx, scale, .rows = rows, .width = width, .factor = copy_factor(tr), .x = c->queries,
     .ldx = width);
  OP(tr->ctx, copy_loss, .texts = texts_of(tr), .rows = rows, .vocab = tr->model.config.vocab,
     .of = s->text + w->first, .q = c->queries, .gate = c->gates, .weight = c->weights,
     .logits = tr->logits.at, .ldl = tr->logits.ld, .targets = s->device_target + w->first,
     .smoothing = tr->batch->smoothing, .scale = w->scale, .loss = s->device_loss + w->first);
}

/* d += the gradient through queries and gates; the keys' gradient is summed. */
static void copy_back_rows(heading *w, matrix read) {
  attend_trainer *tr = w->tr;
  const pass *p = &w->x->p;
  const int rows = w->h.rows, width = key_width(tr);
  trainer_copy *c = &tr->copy;
  OP(tr->ctx, copy_grad, .texts = texts_of(tr), .rows = rows, .n_texts = tr->batch->count,
     .of = tr->scored.text + w->first, .q = c->queries, .weight = c->weights, .dq = c->d_queries,
     .dkeys = c->d_keys);
  OP(tr->ctx, scale, .rows = rows, .width = width, .factor = copy_factor(tr), .x = c->d_queries,
     .ldx = width);
  multiply_backward(p, &tr->model.copy_q, rows, read, floats(c->d_queries, tr->model.config.copy),
                    true, w->d);
  multiply_backward(p, &tr->model.copy_gate, rows, read, floats(c->gates, 1), true, w->d);
}

static attend_status head_chunk(heading *w) {
  attend_trainer *tr = w->tr;
  const scored_rows *s = &tr->scored;
  const attend_config *c = &tr->model.config;
  const pass *p = &w->x->p;
  const head_rows *h = &w->h;
  const int width = w->x->p.side->shape->width;
  OP(tr->ctx, gather, .rows = h->rows, .width = width, .index = s->device_row + w->first,
     .factor = c->head_factor, .x = w->x->hidden, .ldx = ld_of(w->x), .y = h->x, .ldy = h->ld,
     .y_type = p->type);
  const matrix read = head_forward(p, h);
  attend_hooked at = {.point = ATTEND_AT_LOGITS,
                      .role = self_role(p),
                      .shape = {1, 1, h->rows, c->vocab},
                      .view = {tr->logits.at, {0, 0, tr->logits.ld, 1}}};
  const unsigned typed_logits = tr->logits.type ? HOOK_TYPED : 0;
  ATTEND_TRY(hook_at(p, &at, HOOK_FORWARD | typed_logits));
  if (tr->model.copy_q.forward)
    copy_losses(w, read);
  else
    OP(tr->ctx, loss, .rows = h->rows, .width = c->vocab, .x = tr->logits.at, .ldx = tr->logits.ld,
       .x_type = tr->logits.type, .targets = s->device_target + w->first,
       .smoothing = tr->batch->smoothing, .scale = w->scale, .loss = s->device_loss + w->first);
  if (tr->batch->no_grad) return ATTEND_OK;
  ATTEND_TRY(hook_at(p, &at, HOOK_GRADIENTS | typed_logits));
  head_backward(p, h, read, w->d);
  if (tr->model.copy_q.forward) copy_back_rows(w, read);
  head_transform_backward(p, h, w->d);
  OP(tr->ctx, gather, .scatter = true, .rows = h->rows, .width = width,
     .index = s->device_row + w->first, .factor = c->head_factor, .x = w->d.at, .ldx = h->ld,
     .x_type = w->d.type, .y = w->x->d_hidden, .ldy = ld_of(w->x));
  return ATTEND_OK;
}

static void clear_gradient(attend_trainer *tr, trainer_side *x) {
  tr->ctx->device->zero(tr->ctx, x->d_hidden,
                        (size_t)x->p.rows * (size_t)ld_of(x) * sizeof *x->d_hidden);
}

/* Waits for the device. */
static void read_losses(attend_trainer *tr, attend_batch_loss *outcome) {
  const scored_rows *s = &tr->scored;
  tr->ctx->device->read(tr->ctx, s->loss, s->device_loss, (size_t)s->count * sizeof *s->loss);
  for (int i = 0; i < s->count; i++) outcome->loss += (double)s->loss[i];
  outcome->scored = s->count;
}

/* Losses, and the gradient of the hidden states. */
static attend_status head_losses(attend_trainer *tr, trainer_side *x) {
  const attend_batch *batch = tr->batch;
  const int ld = head_ld(&tr->model, x->p.side), count = tr->scored.count;
  const size_t chunk = (size_t)tr->chunk * (size_t)ld;
  void *r = tr->head_rows;
  heading w = {.tr = tr,
               .x = x,
               .h = {.ld = ld,
                     .x = r,
                     .dense = column(&x->p, r, chunk),
                     .shaped = column(&x->p, r, 2 * chunk),
                     .normed = column(&x->p, r, 3 * chunk),
                     .logits = tr->logits,
                     .capped = tr->capped},
               .d = typed(&x->p, column(&x->p, r, 4 * chunk), ld),
               .scale = batch->scale > 0 ? batch->scale
                        : count          ? 1 / (float)count
                                         : 0};
  clear_gradient(tr, x);
  for (; w.first < count; w.first += tr->chunk) {
    w.h.rows = (int)min64(tr->chunk, count - w.first);
    ATTEND_TRY(head_chunk(&w));
  }
  return ATTEND_OK;
}

/* ---- a batch ------------------------------------------------------------------------------ */

static attend_status backward(attend_trainer *tr) {
  trainer_side *e = &tr->encoder, *d = &tr->decoder;
  if (d->layers && e->layers) clear_gradient(tr, e);
  copy_close(tr);
  ATTEND_TRY(side_backward(tr, d));
  ATTEND_TRY(side_backward(tr, e));
  for (size_t i = 0; i < tr->n_gaps; i++)
    tr->ctx->device->zero(tr->ctx, tr->gradients.device + tr->gaps[i].at,
                          tr->gaps[i].count * sizeof(float));
  return ATTEND_OK;
}

attend_status attend_trainer_accumulate(attend_trainer *tr, const attend_batch *given,
                                        attend_batch_loss *outcome) {
  attend_batch batch;
  *outcome = (attend_batch_loss){0};
  ATTEND_TRY(OPTIONS_READ(tr->ctx, attend_batch, given, &batch));
  ATTEND_TRY(open_batch(tr, &batch));
  trainer_side *e = &tr->encoder, *d = &tr->decoder;
  mirror_backward(tr->ctx, &tr->gradients);
  mirror_changed(&tr->gradients);
  ATTEND_TRY(side_forward(tr, e));
  d->p.encoded = e->hidden;
  d->p.d_encoded = e->d_hidden;
  d->p.encoded_n = e->p.n;
  d->p.encoded_lengths = e->real;
  ATTEND_TRY(side_forward(tr, d));
  copy_open(tr);
  ATTEND_TRY(head_losses(tr, d->layers ? d : e));
  if (!batch.no_grad) ATTEND_TRY(backward(tr));
  read_losses(tr, outcome);
  return ATTEND_OK;
}

attend_status attend_trainer_set_hooks(attend_trainer *tr, int n, const attend_hook *list) {
  tr->fit_count = 0; /* tensors that hooks edit have buffers of their own */
  return hooks_set(tr->ctx, &tr->hooks, n, list);
}
