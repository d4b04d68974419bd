/* One lesson: checked, read forward, and back. */
#include <math.h>

#include "kernels/kernels.h"
#include "model/hooks.h"
#include "train/learner.h"

/* What one side is given. */
typedef struct {
  int length;
  const int32_t *ids, *lengths, *types;
} given;

static attend_status check_given(const attend_trainer *l, const char *what,
                                 const given *g) {
  const attend_config *c = &l->model.config;
  ATTEND_CHECK(l->ctx, g->length >= 1 && g->ids, "a lesson needs %s", what);
  ATTEND_TRY(check_positions(l->ctx, c, g->length));
  for (int i = 0; i < l->batch * g->length; i++)
    ATTEND_CHECK(l->ctx, g->ids[i] >= 0 && g->ids[i] < c->vocab,
                 "token %d of a lesson is %d: the model knows 0 to %d", i,
                 (int)g->ids[i], c->vocab - 1);
  for (int b = 0; g->lengths && b < l->batch; b++)
    ATTEND_CHECK(l->ctx, g->lengths[b] >= 0 && g->lengths[b] <= g->length,
                 "text %d of a lesson has %d tokens of %d", b,
                 (int)g->lengths[b], g->length);
  return ATTEND_OK;
}

static attend_status check_targets(const attend_trainer *l,
                                   const attend_batch *x, int length) {
  ATTEND_CHECK(l->ctx, x->targets, "a lesson without targets teaches nothing");
  for (int i = 0; i < x->batch * length; i++)
    ATTEND_CHECK(l->ctx, x->targets[i] < l->model.config.vocab,
                 "target %d of a lesson is %d: the model knows 0 to %d", i,
                 (int)x->targets[i], l->model.config.vocab - 1);
  ATTEND_CHECK(l->ctx, x->smoothing >= 0 && x->smoothing < 1,
               "a smoothing of %g: choose a share from 0 to below 1",
               (double)x->smoothing);
  return ATTEND_OK;
}

static void set_shape(const attend_trainer *l, learn_side *x, int length) {
  if (!x->layers) return;
  x->p.count = l->batch;
  x->p.n = length;
  x->p.rows = l->batch * length;
}

/* After the room is there: tokens, how many are real, dropout. */
static void place_side(attend_trainer *l, learn_side *x, const given *g) {
  const struct attend_device *d = l->ctx->device;
  const size_t bytes = (size_t)x->p.rows * sizeof *x->ids;
  if (!x->layers) return;
  for (int b = 0; b < l->batch; b++)
    x->real[b] = g->lengths ? g->lengths[b] : g->length;
  d->write(l->ctx, x->ids, g->ids, bytes);
  x->typed = g->types != NULL;
  if (x->typed) d->write(l->ctx, x->types, g->types, bytes);
  x->p.lengths = x->real;
  x->p.hooks = l->hooks.n ? &l->hooks : NULL;
  x->p.drop = l->lesson->quiet ? 0 : l->options.dropout;
  x->p.dropout = (attend_random){l->options.seed, l->lesson->step * 4096};
}

static attend_status open_lesson(attend_trainer *l, const attend_batch *x) {
  const bool both = l->model.config.parts == ATTEND_BOTH;
  const given read = {x->length, x->ids, x->lengths, x->types};
  const given said =
      both ? (given){x->said, x->decoder_ids, x->decoder_lengths, NULL}
           : (given){x->length, x->ids, x->lengths, NULL};
  ATTEND_CHECK(l->ctx, x->batch >= 1, "a lesson of %d texts: give at least 1",
               x->batch);
  l->batch = x->batch;
  l->lesson = x;
  ATTEND_TRY(check_given(l, "a text", &read));
  if (both) ATTEND_TRY(check_given(l, "what the decoder is given", &said));
  ATTEND_TRY(check_targets(l, x, said.length));
  set_shape(l, &l->encoder, read.length);
  set_shape(l, &l->decoder, said.length);
  ATTEND_TRY(lesson_room(l));
  place_side(l, &l->encoder, &read);
  place_side(l, &l->decoder, &said);
  return ATTEND_OK;
}

static const int32_t *types_of(const learn_side *x) {
  return x->typed ? x->types : NULL;
}

static int ld_of(const learn_side *x) {
  return padded(x->p.side->shape->width);
}

/* ---- sides ------------------------------------------------------------------------------ */

static attend_status side_forward(attend_trainer *l, learn_side *x) {
  if (!x->layers) return ATTEND_OK;
  const stack *s = x->p.side;
  const int layers = s->shape->layers;
  float *first = x->layers[0].x;
  embed_forward(&x->p, x->ids, types_of(x),
                embeds_apart(&l->model, s) ? x->embedded : first, first);
  for (int i = 0; i < layers; i++)
    ATTEND_TRY(layer_forward(&x->p, i, &x->layers[i]));
  if (l->model.config.final_norm)
    norm_rows(&x->p, &s->final_norm, x->p.rows, s->shape->width, x->last,
              x->hidden);
  return hook_stream(&x->p, ATTEND_AT_RESIDUAL, layers, x->hidden,
                     HOOK_FORWARD);
}

/* Where layers were not kept: all but the layer's output. */
static attend_status compute_again(learn_side *x, int i) {
  activations a = x->layers[i];
  if (a.mlp_added == a.out) a.mlp_added = NULL;
  if (a.mlp == a.out) a.mlp = NULL;
  a.out = NULL;
  x->p.again = true;
  attend_status status = layer_forward(&x->p, i, &a);
  x->p.again = false;
  return status;
}

static attend_status side_backward(attend_trainer *l, learn_side *x) {
  const stack *s = x->p.side;
  float *dx = x->d_hidden;
  if (!x->layers) return ATTEND_OK;
  ATTEND_TRY(hook_stream(&x->p, ATTEND_AT_RESIDUAL, s->shape->layers, dx,
                         HOOK_GRADIENTS));
  if (l->model.config.final_norm)
    norm_rows_back(&x->p, &s->final_norm, x->p.rows, s->shape->width, x->last,
                   dx, false, dx);
  for (int i = s->shape->layers - 1; i >= 0; i--) {
    if (l->options.recompute) ATTEND_TRY(compute_again(x, i));
    ATTEND_TRY(layer_backward(&x->p, i, &x->layers[i], dx));
  }
  embed_backward(&x->p, x->ids, types_of(x),
                 embeds_apart(&l->model, s) ? x->embedded : x->layers[0].x, dx);
  return ATTEND_OK;
}

/* ---- copying ---------------------------------------------------------------------------- */

static int key_width(const attend_trainer *l) {
  return padded(l->model.config.copy);
}

static void lag_keys(attend_trainer *l, float *keys, bool back) {
  OP(l->ctx, copy_lag, .texts = l->batch, .n = l->encoder.p.n,
     .width = l->model.config.copy, .keys = keys, .ld = key_width(l),
     .back = back);
}

static void copy_open(attend_trainer *l) {
  const learn_side *e = &l->encoder;
  learn_copy *c = &l->copy;
  if (!l->model.copy_k.go) return;
  multiply_rows(&e->p, &l->model.copy_k, e->p.rows, e->hidden, ld_of(e),
                c->keys, key_width(l));
  lag_keys(l, c->keys, false);
  l->ctx->device->zero(
      l->ctx, c->d_keys,
      (size_t)e->p.rows * (size_t)key_width(l) * sizeof *c->d_keys);
}

static struct copy_texts texts_of(const attend_trainer *l) {
  const learn_side *e = &l->encoder;
  return (struct copy_texts){.n = e->p.n,
                             .ld = key_width(l),
                             .keys = l->copy.keys,
                             .ids = e->ids,
                             .length = e->real};
}

static float copy_factor(const attend_trainer *l) {
  return 1 / sqrtf((float)l->model.config.copy);
}

/* The gradient of the keys joins that of the encoder's output. */
static void copy_close(attend_trainer *l) {
  learn_side *e = &l->encoder;
  if (!l->model.copy_k.go) return; /* a model of one side has no encoder */
  lag_keys(l, l->copy.d_keys, true);
  multiply_back(&e->p, &l->model.copy_k, e->p.rows, e->hidden, ld_of(e),
                l->copy.d_keys, key_width(l), true, e->d_hidden, ld_of(e));
}

/* ---- the head ---------------------------------------------------------------------------- */

/* Some of the places that are scored: logits of all of them are never there at
 * once. */
typedef struct {
  attend_trainer *l;
  learn_side *x;
  head_rows h;
  float *d; /* [HEAD][ld] */
  float scale;
  int32_t row[HEAD_ROWS_AT_ONCE], target[HEAD_ROWS_AT_ONCE];
  int32_t text[HEAD_ROWS_AT_ONCE]; /* that each may copy from */
} heading;

static void copy_losses(heading *w, const float *read) {
  attend_trainer *l = w->l;
  const pass *p = &w->x->p;
  const int rows = w->h.rows, width = key_width(l);
  learn_copy *c = &l->copy;
  multiply_rows(p, &l->model.copy_q, rows, read, w->h.ld, c->queries, width);
  multiply_rows(p, &l->model.copy_gate, rows, read, w->h.ld, c->gates, LANES);
  OP(l->ctx, scale, .rows = rows, .width = width, .factor = copy_factor(l),
     .x = c->queries, .ldx = width);
  for (int i = 0; i < rows; i++) w->text[i] = w->row[i] / w->x->p.n;
  OP(l->ctx, copy_loss, .texts = texts_of(l), .rows = rows,
     .vocab = l->model.config.vocab, .of = w->text, .q = c->queries,
     .gate = c->gates, .weight = c->weights, .logits = l->logits,
     .ldl = padded(l->model.config.vocab), .targets = l->head_target,
     .smoothing = l->lesson->smoothing, .scale = w->scale, .loss = l->losses);
}

/* d += what comes through queries and gates; the keys' gradient is summed. */
static void copy_back_rows(heading *w, const float *read) {
  attend_trainer *l = w->l;
  const pass *p = &w->x->p;
  const int rows = w->h.rows, width = key_width(l);
  learn_copy *c = &l->copy;
  OP(l->ctx, copy_grad, .texts = texts_of(l), .rows = rows, .n_texts = l->batch,
     .of = w->text, .q = c->queries, .weight = c->weights, .dq = c->d_queries,
     .dkeys = c->d_keys);
  OP(l->ctx, scale, .rows = rows, .width = width, .factor = copy_factor(l),
     .x = c->d_queries, .ldx = width);
  multiply_back(p, &l->model.copy_q, rows, read, w->h.ld, c->d_queries, width,
                true, w->d, w->h.ld);
  multiply_back(p, &l->model.copy_gate, rows, read, w->h.ld, c->gates, LANES,
                true, w->d, w->h.ld);
}

static void read_losses(heading *w, attend_batch_loss *outcome) {
  float loss[HEAD_ROWS_AT_ONCE];
  w->l->ctx->device->read(w->l->ctx, loss, w->l->losses,
                          (size_t)w->h.rows * sizeof *loss);
  for (int i = 0; i < w->h.rows; i++) outcome->loss += (double)loss[i];
}

static attend_status head_piece(heading *w, attend_batch_loss *outcome) {
  attend_trainer *l = w->l;
  const attend_config *c = &l->model.config;
  const pass *p = &w->x->p;
  const head_rows *h = &w->h;
  const int ldv = padded(c->vocab), width = w->x->p.side->shape->width;
  const size_t bytes = (size_t)h->rows * sizeof *w->row;
  l->ctx->device->write(l->ctx, l->head_row, w->row, bytes);
  l->ctx->device->write(l->ctx, l->head_target, w->target, bytes);
  OP(l->ctx, gather, .rows = h->rows, .width = width, .index = l->head_row,
     .factor = c->head_factor, .x = w->x->hidden, .ldx = ld_of(w->x), .y = h->x,
     .ldy = h->ld);
  const float *read = head_forward(p, h);
  attend_hooked at = {.point = ATTEND_AT_LOGITS,
                      .role = self_role(p),
                      .shape = {1, 1, h->rows, c->vocab},
                      .view = {l->logits, {0, 0, ldv, 1}}};
  ATTEND_TRY(hook_at(p, &at, HOOK_FORWARD));
  if (l->model.copy_q.go)
    copy_losses(w, read);
  else
    OP(l->ctx, loss, .rows = h->rows, .width = c->vocab, .x = l->logits,
       .ldx = ldv, .targets = l->head_target, .smoothing = l->lesson->smoothing,
       .scale = w->scale, .loss = l->losses);
  read_losses(w, outcome);
  if (l->lesson->quiet) return ATTEND_OK;
  ATTEND_TRY(hook_at(p, &at, HOOK_GRADIENTS));
  head_back(p, h, read, w->d);
  if (l->model.copy_q.go) copy_back_rows(w, read);
  head_transform_back(p, h, w->d);
  OP(l->ctx, gather, .scatter = true, .rows = h->rows, .width = width,
     .index = l->head_row, .factor = c->head_factor, .x = w->d, .ldx = h->ld,
     .y = w->x->d_hidden, .ldy = ld_of(w->x));
  return ATTEND_OK;
}

static void clear_gradient(attend_trainer *l, learn_side *x) {
  l->ctx->device->zero(
      l->ctx, x->d_hidden,
      (size_t)x->p.rows * (size_t)ld_of(x) * sizeof *x->d_hidden);
}

/* Loss, and the gradient of the hidden states. */
static attend_status study_head(attend_trainer *l, learn_side *x,
                                attend_batch_loss *outcome) {
  const attend_batch *lesson = l->lesson;
  const int ld = head_ld(&l->model, x->p.side), rows = x->p.rows;
  const size_t piece = (size_t)HEAD_ROWS_AT_ONCE * (size_t)ld;
  float *r = l->head_rows;
  heading w = {.l = l,
               .x = x,
               .h = {.ld = ld,
                     .x = r,
                     .dense = r + piece,
                     .shaped = r + 2 * piece,
                     .normed = r + 3 * piece,
                     .logits = l->logits,
                     .capped = l->capped,
                     .ldl = padded(l->model.config.vocab)},
               .d = r + 4 * piece};
  clear_gradient(l, x);
  for (int i = 0; i < rows; i++) outcome->scored += lesson->targets[i] >= 0;
  w.scale = lesson->scale > 0     ? lesson->scale
            : outcome->scored > 0 ? 1 / (float)outcome->scored
                                  : 0;
  for (int i = 0; i < rows; i++) {
    if (lesson->targets[i] >= 0) {
      w.row[w.h.rows] = i;
      w.target[w.h.rows++] = lesson->targets[i];
    }
    bool full = w.h.rows == HEAD_ROWS_AT_ONCE || i + 1 == rows;
    if (!full || !w.h.rows) continue;
    ATTEND_TRY(head_piece(&w, outcome));
    w.h.rows = 0;
  }
  return ATTEND_OK;
}

/* ---- a lesson ------------------------------------------------------------------------------ */

static attend_status go_back(attend_trainer *l) {
  learn_side *e = &l->encoder, *d = &l->decoder;
  if (d->layers && e->layers) clear_gradient(l, e);
  copy_close(l);
  ATTEND_TRY(side_backward(l, d));
  ATTEND_TRY(side_backward(l, e));
  for (size_t i = 0; i < l->n_gaps; i++)
    l->ctx->device->zero(l->ctx, l->gradients.device + l->gaps[i].at,
                         l->gaps[i].count * sizeof(float));
  return ATTEND_OK;
}

attend_status attend_trainer_accumulate(attend_trainer *l,
                                        const attend_batch *lesson,
                                        attend_batch_loss *outcome) {
  *outcome = (attend_batch_loss){0};
  ATTEND_TRY(open_lesson(l, lesson));
  learn_side *e = &l->encoder, *d = &l->decoder;
  mirror_back(l->ctx, &l->gradients);
  mirror_changed(&l->gradients);
  ATTEND_TRY(side_forward(l, e));
  d->p.encoded = e->hidden;
  d->p.d_encoded = e->d_hidden;
  d->p.encoded_n = e->p.n;
  d->p.encoded_lengths = e->real;
  ATTEND_TRY(side_forward(l, d));
  copy_open(l);
  ATTEND_TRY(study_head(l, d->layers ? d : e, outcome));
  return lesson->quiet ? ATTEND_OK : go_back(l);
}

attend_status attend_trainer_set_hooks(attend_trainer *l, int n,
                                       const attend_hook *list) {
  l->room_batch = 0; /* what they edit is kept apart */
  return hooks_set(l->ctx, &l->hooks, n, list);
}
