/* A session (llama.cpp's context): activations and KV caches of a batch of sequences.
 *
 * The decoder's buffers are allocated with the session, the encoder's when a longer
 * text comes; nothing is allocated inside a pass. Models are shared and immutable;
 * each session has a context of its own, so that each may run on its own thread.
 */
#include <math.h>
#include <string.h>

#include "base/options.h"
#include "base/parallel.h"
#include "model/transformer.h"

enum {
  ROWS = 512,    /* decoder rows computed at once, over all sequences */
  HEAD_ROWS = 32 /* head rows computed at once, or the batch if that is more */
};

static const attend_stack *decoder_of(const attend_session *r) { return &r->model->config.decoder; }

/* ---- plans and states ------------------------------------------------------------ */

attend_status states_make(attend_context *ctx, attend_plan *plan, int layers, const char *what,
                          attend_state ***states) {
  ATTEND_TRY(ctx_alloc_zeroed(ctx, size_times((size_t)layers, sizeof **states), what, states));
  for (int i = 0; plan && i < layers; i++) ATTEND_TRY(attend_state_create(plan, &(*states)[i]));
  return ATTEND_OK;
}

void states_free(const attend_context *ctx, int layers, attend_state **states) {
  for (int i = 0; states && i < layers; i++) attend_state_free(states[i]);
  ctx_free(ctx, states);
}

static attend_status plan_states(attend_session *r, attend_desc *d, attend_plan **plan) {
  d->dtype = r->p.type;
  d->batch = r->batch;
  d->q_len = r->limit;
  d->purpose = ATTEND_FOR_EXTEND;
  return attend_plan_create(r->ctx, d, plan);
}

static attend_status make_cross(attend_session *r) {
  attend_desc d;
  if (!model_attention(r->model, ATTEND_CROSS, 0, &d)) return ATTEND_OK;
  ATTEND_TRY(plan_states(r, &d, &r->cross_plan));
  return states_make(r->ctx, r->cross_plan, decoder_of(r)->layers, "the caches", &r->cross);
}

static attend_status make_decoder(attend_session *r) {
  const attend_config *c = &r->model->config;
  const int layers = c->decoder.layers;
  attend_desc d;
  ATTEND_TRY(make_cross(r));
  ATTEND_TRY(states_make(r->ctx, NULL, layers, "the caches", &r->self));
  for (int i = 0; i < layers; i++) {
    int kind = layer_kind(c, &r->model->decoder, i);
    model_attention(r->model, ATTEND_DECODER_SELF, i, &d);
    d.mask.causal = ATTEND_CAUSAL_BOTTOM;
    if (!r->decoder_plan[kind]) ATTEND_TRY(plan_states(r, &d, &r->decoder_plan[kind]));
    ATTEND_TRY(attend_state_create(r->decoder_plan[kind], &r->self[i]));
  }
  return ATTEND_OK;
}

static attend_status plan_encoder(attend_session *r, int count, int n) {
  if (r->encoder_plan && r->encoder_batch == count && r->encoder_rows == n) return ATTEND_OK;
  attend_plan_free(r->encoder_plan);
  r->encoder_plan = NULL;
  attend_desc d;
  model_attention(r->model, ATTEND_ENCODER_SELF, 0, &d);
  d.dtype = r->p.type;
  d.batch = count;
  d.q_len = d.kv_len = n;
  ATTEND_TRY(attend_plan_create(r->ctx, &d, &r->encoder_plan));
  r->encoder_batch = count;
  r->encoder_rows = n;
  return ATTEND_OK;
}

/* ---- buffers --------------------------------------------------------------------- */

typedef struct {
  size_t x, qkv, heads, up; /* elements of a row */
} widths;

static size_t max(size_t a, size_t b) { return a > b ? a : b; }

static void widen(const attend_stack *s, int gated, widths *w) {
  if (!s->layers) return;
  int qkv = s->heads * s->dim + s->kv_heads * (s->dim + s->dim_v);
  w->x = max(w->x, (size_t)padded(s->width));
  w->qkv = max(w->qkv, (size_t)padded(qkv));
  w->heads = max(w->heads, (size_t)padded(s->heads * s->dim_v));
  w->up = max(w->up, (size_t)padded(s->mlp * (1 + gated)));
}

static widths widths_of(const attend_session *r) {
  const attend_config *c = &r->model->config;
  widths w = {0};
  widen(&c->encoder, c->gated, &w);
  widen(&c->decoder, c->gated, &w);
  w.x = max(w.x, (size_t)padded(c->embed_width));
  return w;
}

attend_status session_reserve(attend_session *r, size_t rows) {
  static const char what[] = "a session's activations";
  if (rows <= r->capacity) return ATTEND_OK;
  widths w = widths_of(r);
  blocks_free(r->ctx, &r->buffers);
  r->capacity = 0;
  r->p.n = 0;
#define TAKE(place, width, size) \
  ATTEND_TRY(                    \
      blocks_add(r->ctx, &r->buffers, ON_DEVICE, SIZE_PRODUCT(rows, width, size), what, &place))
  const size_t typed = attend_dtype_size(r->p.type);
  TAKE(r->x, w.x, sizeof *r->x);
  TAKE(r->y, w.x, sizeof *r->y);
  TAKE(r->p.h, w.x, typed);
  TAKE(r->at.qkv, w.qkv, typed);
  TAKE(r->at.heads, w.heads, typed);
  TAKE(r->at.up, w.up, typed);
  TAKE(r->ids, 1, sizeof *r->ids);
  TAKE(r->types, 1, sizeof *r->types);
  TAKE(r->p.position, 1, sizeof *r->p.position);
#undef TAKE
  ATTEND_TRY(blocks_add(r->ctx, &r->buffers, ON_HOST, size_times(rows, sizeof *r->position), what,
                        &r->position));
  if (!r->ctx->device->host)
    ATTEND_TRY(blocks_add(r->ctx, &r->buffers, ON_HOST, SIZE_PRODUCT(rows, w.x, sizeof *r->hidden),
                          what, &r->hidden));
  r->at.act = r->at.up;
  r->at.cross_q = r->at.qkv;
  r->at.attended = r->at.cross_attended = r->at.cross_heads = r->at.heads;
  r->capacity = rows;
  return ATTEND_OK;
}

static attend_status make_session(attend_session *r) {
  static const char what[] = "a session";
  size_t b = (size_t)r->batch, rows = (size_t)r->head_limit;
  const widths w = widths_of(r);
  const size_t width = w.x;
  if (r->p.type) ATTEND_TRY(r->ctx->device->reserve(r->ctx, 2 * w.x + w.qkv + w.heads + 2 * w.up));
#define TAKE(place, field, count) \
  ATTEND_TRY(                     \
      blocks_add(r->ctx, &r->memory, place, size_times(count, sizeof *r->field), what, &r->field))
  TAKE(ON_HOST, lengths, b);
  TAKE(ON_HOST, piece, b);
  TAKE(ON_HOST, before, b);
  TAKE(ON_HOST, held, b);
  TAKE(ON_HOST, last_at, b);
  TAKE(ON_HOST, head_of, rows);
  TAKE(ON_DEVICE, head_row, rows);
  TAKE(ON_DEVICE, last, size_times(b, width));
  TAKE(ON_DEVICE, head_rows, SIZE_PRODUCT(2, rows, width));
#undef TAKE
  if (!(r->model->config.parts & ATTEND_DECODER)) return ATTEND_OK;
  ATTEND_TRY(make_decoder(r));
  ATTEND_TRY(copy_make(r));
  return session_reserve(r, size_times(b, (size_t)r->limit));
}

attend_status session_create(attend_context *ctx, attend_model *model,
                             const attend_session_options *options, attend_session **session) {
  attend_session_options o;
  attend_session *r;
  *session = NULL;
  ATTEND_TRY(OPTIONS_READ(ctx, attend_session_options, options, &o));
  ATTEND_CHECK(ctx, o.batch >= 0 && o.rows >= 0 && o.threads >= 0,
               "a session of %d sequences, %d rows at once, %d threads: none may be negative",
               o.batch, o.rows, o.threads);
  ATTEND_CHECK(ctx, (int64_t)o.batch * o.rows <= INT32_MAX,
               "a session of %d sequences, %d rows at once: choose fewer, so "
               "that their product stays below 2^31",
               o.batch, o.rows);
  ATTEND_TRY(ctx_alloc_zeroed(ctx, sizeof *r, "a session", &r));
  r->ctx = &r->own;
  r->model = model;
  r->batch = o.batch ? o.batch : 1;
  r->limit = o.rows ? o.rows : r->batch >= ROWS ? 1 : ROWS / r->batch;
  r->head_limit = r->batch > HEAD_ROWS ? r->batch : HEAD_ROWS;
  r->p = (pass){.ctx = r->ctx, .model = model, .session = r, .type = model->activations};
  attend_status status = context_child(ctx, o.threads, &r->own);
  if (!status) status = make_session(r);
  if (status)
    attend_session_free(r);
  else
    *session = r;
  return status;
}

attend_status attend_session_create(attend_model *model, const attend_session_options *options,
                                    attend_session **session) {
  return session_create(model->ctx, model, options, session);
}

void attend_session_free(attend_session *r) {
  if (!r) return;
  attend_context *parent = r->model->ctx;
  states_free(r->ctx, decoder_of(r)->layers, r->self);
  states_free(r->ctx, decoder_of(r)->layers, r->cross);
  attend_plan *plans[] = {r->decoder_plan[FULL], r->decoder_plan[SLIDING], r->cross_plan,
                          r->encoder_plan};
  for (int i = 0; i < 4; i++) attend_plan_free(plans[i]);
  if (r->recording) r->ctx->device->record_free(r->ctx, r->recording);
  caches_free(r);
  hooks_free(r->ctx, &r->hooks);
  blocks_free(r->ctx, &r->copy.memory);
  blocks_free(r->ctx, &r->buffers);
  blocks_free(r->ctx, &r->memory);
  device_free(r->ctx, r->lse);
  typed_release(r->ctx);
  ctx_free(parent, r);
}

const char *attend_session_message(const attend_session *r) { return r->own.message; }

size_t attend_session_work_bytes(const attend_session *r) {
  size_t bytes = blocks_bytes(r->memory) + blocks_bytes(r->buffers);
  const attend_plan *plans[] = {r->decoder_plan[FULL], r->decoder_plan[SLIDING], r->cross_plan,
                                r->encoder_plan};
  for (int i = 0; i < 4; i++)
    if (plans[i]) bytes += attend_plan_workspace(plans[i]);
  return bytes;
}

/* ---- a pass ---------------------------------------------------------------------- */

void session_begin(attend_session *r, const stack *side, int count, int n) {
  r->p.side = side;
  r->p.count = count;
  r->p.n = n;
  r->p.rows = count * n;
  r->p.plan[FULL] = side->encoder ? r->encoder_plan : r->decoder_plan[FULL];
  r->p.plan[SLIDING] = side->encoder ? NULL : r->decoder_plan[SLIDING];
  r->p.cross_plan = r->cross_plan;
  r->p.self = side->encoder ? r->sums : r->self;
  r->p.cross = r->cross;
  r->p.lengths = r->lengths;
}

void session_embed(attend_session *r, const int32_t *ids, int apart, const int32_t *types) {
  const struct attend_device *d = r->ctx->device;
  const size_t n = (size_t)r->p.n, bytes = (size_t)r->p.rows * sizeof *ids;
  if (n == (size_t)apart) d->write(r->ctx, r->ids, ids, bytes);
  for (size_t b = 0; n != (size_t)apart && b < (size_t)r->p.count; b++)
    d->write(r->ctx, r->ids + b * n, ids + b * (size_t)apart, n * sizeof *ids);
  if (types) d->write(r->ctx, r->types, types, bytes);
  d->write(r->ctx, r->p.position, r->position, bytes);
  embed_forward(&r->p, r->ids, types ? r->types : NULL,
                embeds_apart(r->model, r->p.side) ? r->y : r->x, r->x);
}

/* The residual stream is updated in place; parallel branches need its input too. */
attend_status session_layers(attend_session *r, int layers) {
  activations a = r->at;
  a.x = r->x;
  a.self = a.self_out = r->model->config.parallel ? r->y : r->x;
  a.cross = a.cross_out = a.mlp = a.out = r->x;
  a.self_added = a.cross_added = a.mlp_added = r->y;
  if (r->model->config.parallel) a.mlp_added = r->x;
  for (int i = 0; i < layers; i++) ATTEND_TRY(layer_forward(&r->p, i, &a));
  return ATTEND_OK;
}

/* Denominators, if hooks read them. */
static attend_status reserve_for_hooks(attend_session *r) {
  const attend_config *c = &r->model->config;
  const int heads = c->encoder.heads > c->decoder.heads ? c->encoder.heads : c->decoder.heads;
  device_free(r->ctx, r->lse);
  r->lse = NULL;
  r->p.hooks = r->hooks.n ? &r->hooks : NULL;
  if (!r->p.hooks) return ATTEND_OK;
  return device_alloc(r->ctx,
                      SIZE_PRODUCT((size_t)r->batch, (size_t)heads, (size_t)r->p.n, sizeof *r->lse),
                      "attention that is hooked", &r->lse);
}

/* The threads are entered once for all layers. */
attend_status session_stack(attend_session *r) {
  const stack *s = r->p.side;
  const int layers = s->shape->layers;
  ATTEND_TRY(reserve_for_hooks(r));
  stream_enter(&r->ctx->stream);
  attend_status status = session_layers(r, layers);
  if (!status && r->model->config.final_norm)
    norm_rows(&r->p, &s->final_norm, r->p.rows, s->shape->width, floats(r->x, s->shape->width),
              floats(r->x, s->shape->width));
  if (!status) status = hook_stream(&r->p, ATTEND_AT_RESIDUAL, layers, r->x, HOOK_FORWARD);
  stream_leave(&r->ctx->stream);
  return status;
}

/* ---- the encoder ----------------------------------------------------------------- */

static attend_status check_ids(const attend_session *r, int count, int n, const int32_t *ids,
                               const int32_t *lengths) {
  for (int b = 0; b < count; b++) {
    int real = lengths ? lengths[b] : n;
    ATTEND_CHECK(r->ctx, real >= 0 && real <= n, "sequence %d has %d tokens in a call of %d", b,
                 real, n);
    for (int i = 0; i < real; i++) {
      int32_t id = ids[(size_t)b * (size_t)n + (size_t)i];
      ATTEND_CHECK(r->ctx, id >= 0 && id < r->model->config.vocab,
                   "token %d of sequence %d is %d: the model knows 0 to %d", i, b, id,
                   r->model->config.vocab - 1);
    }
  }
  return ATTEND_OK;
}

static attend_status check_call(const attend_session *r, int count, int n, const int32_t *ids,
                                const int32_t *lengths) {
  ATTEND_CHECK(r->ctx, count >= 1 && count <= r->batch && n >= 1,
               "a call of %d sequences and %d tokens to a session of %d sequences", count, n,
               r->batch);
  ATTEND_CHECK(r->ctx, ids, "ids is NULL: give [%d, %d] tokens", count, n);
  return check_ids(r, count, n, ids, lengths);
}

attend_status check_positions(attend_context *ctx, const attend_config *c, int64_t positions) {
  ATTEND_CHECK(
      ctx, c->position != ATTEND_POSITIONS_LEARNED || !c->positions || positions <= c->positions,
      "%lld tokens are more than the %d positions that the model has", (long long)positions,
      c->positions);
  return ATTEND_OK;
}

static void place_rows(attend_session *r, int count, int n) {
  for (int b = 0; b < count; b++)
    for (int i = 0; i < n; i++) r->position[b * n + i] = (int32_t)(r->before[b] + i);
}

static void set_lengths(attend_session *r, int count, int n, int start, const int32_t *lengths) {
  for (int b = 0; b < r->batch; b++) {
    int real = b >= count ? 0 : lengths ? lengths[b] : start + n;
    r->lengths[b] = (int32_t)max64(0, min64(real - start, n));
  }
}

/* n rows of keys and values from row `start` of r->at.qkv on. */
static attend_status cross_piece(attend_session *r, int i, int start, int n) {
  const attend_stack *s = &r->model->config.decoder;
  const int ld = padded(r->model->decoder.layers[0].cross_kv.outputs);
  void *k = column(&r->p, r->at.qkv, (size_t)start * (size_t)ld);
  void *v = column(&r->p, k, (size_t)(s->kv_heads * s->dim));
  attend_view keys = heads_at(k, r->p.n, ld, s->dim);
  attend_view values = heads_at(v, r->p.n, ld, s->dim_v);
  layer_attention m = {ATTEND_CROSS, r->cross_plan, r->cross[i], i};
  for (int b = 0; b < r->batch; b++) {
    r->piece[b] = (int32_t)max64(0, min64(r->lengths[b] - start, n));
    r->before[b] = start; /* for hooks */
  }
  ATTEND_TRY(hook_keys(&r->p, &m, n, r->piece, keys, values, HOOK_FORWARD));
  ATTEND_TRY(attend_state_append(r->cross_plan, r->cross[i], n, keys, values));
  return hook_keep(&r->p, &m, n, r->piece, keys, values);
}

attend_status cross_fill(attend_session *r) {
  const stack *s = &r->model->decoder;
  const int n = r->p.n;
  attend_plan_set_padding(r->cross_plan, r->piece, NULL);
  for (int i = 0; i < s->shape->layers; i++) {
    const linear_weights *w = &layer_of(s, i)->cross_kv;
    multiply_rows(&r->p, w, r->p.rows, floats(r->x, w->inputs),
                  typed(&r->p, r->at.qkv, padded(w->outputs)));
    for (int start = 0; start < n; start += r->limit)
      ATTEND_TRY(cross_piece(r, i, start, (int)min64(r->limit, n - start)));
  }
  attend_plan_set_padding(r->cross_plan, r->lengths, NULL);
  return ATTEND_OK;
}

attend_status attend_session_encode(attend_session *r, int count, int n, const int32_t *ids,
                                    const int32_t *lengths, const int32_t *types) {
  ATTEND_CHECK(r->ctx, r->model->encoder.layers, "%s has no encoder: extend the decoder instead",
               r->model->config.family);
  ATTEND_TRY(check_call(r, count, n, ids, lengths));
  ATTEND_TRY(check_positions(r->ctx, &r->model->config, n));
  ATTEND_CHECK(r->ctx, (int64_t)r->batch * n <= INT32_MAX,
               "%d tokens of %d sequences are too many at once", n, r->batch);
  ATTEND_TRY(session_reserve(r, (size_t)r->batch * (size_t)n));
  ATTEND_TRY(plan_encoder(r, count, n));
  attend_session_reset(r);
  set_lengths(r, count, n, 0, lengths);
  place_rows(r, count, n);
  attend_plan_set_padding(r->encoder_plan, r->lengths, NULL);
  session_begin(r, &r->model->encoder, count, n);
  session_embed(r, ids, n, types);
  attend_status status = session_stack(r);
  if (!status && r->cross) status = cross_fill(r);
  if (!status) status = copy_fill(r, ids);
  if (status) attend_session_reset(r);
  return status;
}

/* ---- the decoder ----------------------------------------------------------------- */

static void keep_last(attend_session *r) {
  const int width = padded(decoder_of(r)->width);
  for (int b = 0; b < r->p.count; b++) {
    if (!r->lengths[b]) continue;
    size_t row = (size_t)b * (size_t)r->p.n + (size_t)r->lengths[b] - 1;
    OP(r->ctx, gather, .rows = 1, .width = width, .factor = 1, .x = r->x + row * (size_t)width,
       .ldx = width, .y = r->last + (size_t)b * (size_t)width, .ldy = width);
    r->last_at[b] = attend_session_length(r, b);
  }
}

/* n of the call's `whole` tokens, from `start` on. */
static attend_status extend_piece(attend_session *r, int whole, int start, const int32_t *ids,
                                  const int32_t *lengths) {
  const int count = r->p.count, n = r->p.n;
  set_lengths(r, count, n, start, lengths);
  for (int k = 0; k < LAYER_KINDS; k++)
    if (r->decoder_plan[k]) attend_plan_set_padding(r->decoder_plan[k], r->lengths, NULL);
  if (r->cross_plan) attend_plan_set_padding(r->cross_plan, r->lengths, NULL);
  for (int b = 0; b < r->batch; b++) r->before[b] = attend_state_length(r->self[0], b);
  place_rows(r, count, n);
  session_embed(r, ids + start, whole, NULL);
  ATTEND_TRY(session_stack(r));
  keep_last(r);
  return ATTEND_OK;
}

/* Brings all layers of a sequence to one length: `length`, or 0 if a linear state
 * cannot go back. */
static void level(attend_session *r, int b, int64_t length) {
  bool cut = true;
  for (int i = 0; i < decoder_of(r)->layers; i++)
    if (attend_state_length(r->self[i], b) > length)
      cut &= !attend_state_truncate(r->self[i], b, length);
  if (!cut && length) level(r, b, 0);
  if (cut) caches_truncate(r, b, length);
}

/* Restores all sequences to their state before the failed call. */
static void take_back(attend_session *r) {
  char message[sizeof r->own.message];
  memcpy(message, r->own.message, sizeof message);
  for (int b = 0; b < r->batch; b++) level(r, b, r->held[b]);
  fail(r->ctx, ATTEND_OK, "%s", message);
  r->p.n = 0;
}

/* Single tokens follow each other: a device may repeat what the first did. */
static attend_status extend_recorded(attend_session *r, int whole, int start, const int32_t *ids,
                                     const int32_t *lengths) {
  const struct attend_device *d = r->ctx->device;
  if (whole > 1 || r->hooks.n || !d->record_begin)
    return extend_piece(r, whole, start, ids, lengths);
  d->record_begin(r->ctx, &r->recording);
  attend_status status = extend_piece(r, whole, start, ids, lengths);
  d->record_end(r->ctx);
  return status;
}

static attend_status extend_all(attend_session *r, int count, int whole, const int32_t *ids,
                                const int32_t *lengths) {
  for (int start = 0; start < whole; start += r->limit) {
    session_begin(r, &r->model->decoder, count, (int)min64(r->limit, whole - start));
    ATTEND_TRY(extend_recorded(r, whole, start, ids, lengths));
  }
  if (whole > r->limit) r->p.n = 0;
  return ATTEND_OK;
}

attend_status attend_session_extend(attend_session *r, int count, int n, const int32_t *ids,
                                    const int32_t *lengths) {
  ATTEND_CHECK(r->ctx, r->self, "%s has no decoder: encode instead", r->model->config.family);
  ATTEND_TRY(check_call(r, count, n, ids, lengths));
  for (int b = 0; b < r->batch; b++) r->held[b] = attend_state_length(r->self[0], b);
  for (int b = 0; b < count; b++)
    ATTEND_TRY(check_positions(r->ctx, &r->model->config, r->held[b] + (lengths ? lengths[b] : n)));
  ATTEND_TRY(session_reserve(r, (size_t)r->batch * (size_t)r->limit));
  attend_status status = extend_all(r, count, n, ids, lengths);
  if (status) take_back(r);
  return status;
}

/* ---- hooks ----------------------------------------------------------------------- */

attend_status attend_session_set_hooks(attend_session *r, int n, const attend_hook *list) {
  return hooks_set(r->ctx, &r->hooks, n, list);
}

void attend_session_set_stop(attend_session *r, int (*stop)(void *user), void *user) {
  r->stop = stop;
  r->stop_user = user;
}

/* ---- the KV cache: length, reordering for beams, truncating, reset --------------- */

/* Each decoder layer has a state for self-attention and, with an encoder, one for
 * cross-attention (attend_state): a KV cache for softmax, sums for linear forms. */

int64_t attend_session_length(const attend_session *r, int sequence) {
  return r->self ? attend_state_length(r->self[0], sequence) : 0;
}

static attend_status reorder(attend_session *r, attend_state **states, const int32_t *parents) {
  for (int i = 0; states && i < r->model->config.decoder.layers; i++)
    ATTEND_TRY(attend_state_reorder(states[i], parents));
  return ATTEND_OK;
}

static void reorder_last(attend_session *r, const int32_t *parents) {
  const struct attend_device *d = r->ctx->device;
  const int ld = padded(r->model->config.decoder.width);
  d->write(r->ctx, r->head_row, parents, (size_t)r->batch * sizeof *parents);
  OP(r->ctx, gather, .rows = r->batch, .width = ld, .index = r->head_row, .factor = 1, .x = r->last,
     .ldx = ld, .y = r->head_rows, .ldy = ld);
  OP(r->ctx, gather, .rows = r->batch, .width = ld, .factor = 1, .x = r->head_rows, .ldx = ld,
     .y = r->last, .ldy = ld);
  for (int b = 0; b < r->batch; b++) r->held[b] = r->last_at[parents[b]];
  memcpy(r->last_at, r->held, (size_t)r->batch * sizeof *r->last_at);
}

attend_status attend_session_reorder(attend_session *r, const int32_t *parents) {
  ATTEND_CHECK(r->ctx, r->self, "%s has no decoder: there are no sequences to reorder",
               r->model->config.family);
  for (int b = 0; b < r->batch; b++)
    ATTEND_CHECK(r->ctx, parents[b] >= 0 && parents[b] < r->batch,
                 "sequence %d cannot continue sequence %d: choose 0 to %d", b, parents[b],
                 r->batch - 1);
  attend_status status = reorder(r, r->self, parents);
  if (!status) status = reorder(r, r->cross, parents);
  if (!status) status = caches_reorder(r, parents);
  if (status) attend_session_reset(r); /* some layers have new parents, some old */
  if (status) return status;
  reorder_last(r, parents);
  copy_reorder(r, parents);
  return ATTEND_OK;
}

attend_status attend_session_truncate(attend_session *r, int sequence, int64_t length) {
  ATTEND_CHECK(r->ctx, r->self && sequence >= 0 && sequence < r->batch,
               "sequence %d is not one of the %d that the decoder has", sequence,
               r->self ? r->batch : 0);
  for (int i = 0; i < r->model->config.decoder.layers; i++)
    ATTEND_TRY(attend_state_truncate(r->self[i], sequence, length));
  caches_truncate(r, sequence, length);
  return ATTEND_OK;
}

void attend_session_reset(attend_session *r) {
  memset(r->before, 0, (size_t)r->batch * sizeof *r->before);
  for (int i = 0; i < r->model->config.decoder.layers; i++)
    for (int b = 0; r->self && b < r->batch; b++) {
      attend_state_truncate(r->self[i], b, 0);
      if (r->cross) attend_state_truncate(r->cross[i], b, 0);
    }
  copy_reset(r);
  caches_free(r);
  r->p.n = 0;
}

size_t attend_session_cache_bytes(const attend_session *r) {
  size_t bytes = blocks_bytes(r->copy.memory);
  for (int i = 0; r->self && i < r->model->config.decoder.layers; i++) {
    bytes += attend_state_bytes(r->self[i]);
    if (r->cross) bytes += attend_state_bytes(r->cross[i]);
  }
  return bytes;
}
