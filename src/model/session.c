/* A run: the memory of computing with a model, and its caches.
 *
 * Place: model/ - between a model and whoever feeds it tokens. What a call
 * needs is here before it starts: the decoder's buffers are made with the run,
 * the encoder's when a longer text comes.
 */
#include <string.h>

#include "model/transformer.h"

enum {
  ROWS = 512,    /* of all sequences together, at once in the decoder */
  HEAD_ROWS = 32 /* at once in the head, or the batch if that is more */
};

/* ---- plans and states ----------------------------------------------------------------- */

static attend_status make_states(attend_session *r, attend_plan *plan,
                                 attend_state ***states) {
  int layers = r->model->config.decoder.layers;
  ATTEND_TRY(take_zeroed(r->ctx, size_times((size_t)layers, sizeof **states),
                         "the caches", states));
  for (int i = 0; i < layers; i++)
    ATTEND_TRY(attend_state_create(plan, &(*states)[i]));
  return ATTEND_OK;
}

static attend_status plan_states(attend_session *r, attend_desc *d,
                                 attend_plan **plan) {
  d->batch = r->batch;
  d->q_len = r->rows;
  d->purpose = ATTEND_FOR_EXTEND;
  return attend_plan_create(r->ctx, d, plan);
}

static attend_status make_decoder(attend_session *r) {
  attend_desc d;
  if (attend_model_attention(r->model, ATTEND_CROSS, &d)) {
    ATTEND_TRY(plan_states(r, &d, &r->cross_plan));
    ATTEND_TRY(make_states(r, r->cross_plan, &r->cross));
  }
  attend_model_attention(r->model, ATTEND_DECODER_SELF, &d);
  d.mask.causal = ATTEND_CAUSAL_BOTTOM;
  ATTEND_TRY(plan_states(r, &d, &r->self_plan));
  return make_states(r, r->self_plan, &r->self);
}

static attend_status plan_encoder(attend_session *r, int count, int n) {
  if (r->encoder_plan && r->encoder_batch == count && r->encoder_rows == n)
    return ATTEND_OK;
  attend_plan_free(r->encoder_plan);
  r->encoder_plan = NULL;
  attend_desc d;
  attend_model_attention(r->model, ATTEND_ENCODER_SELF, &d);
  d.batch = count;
  d.q_len = d.kv_len = n;
  ATTEND_TRY(attend_plan_create(r->ctx, &d, &r->encoder_plan));
  r->encoder_batch = count;
  r->encoder_rows = n;
  return ATTEND_OK;
}

/* ---- buffers ----------------------------------------------------------------------------- */

typedef struct {
  size_t x, qkv, mix, inside; /* floats of a row */
} widths;

static size_t most(size_t a, size_t b) { return a > b ? a : b; }

static void widen(const attend_stack *s, int gated, widths *w) {
  if (!s->layers) return;
  int qkv = s->heads * s->dim + s->kv_heads * (s->dim + s->dim_v);
  w->x = most(w->x, (size_t)padded(s->width));
  w->qkv = most(w->qkv, (size_t)padded(qkv));
  w->mix = most(w->mix, (size_t)padded(s->heads * s->dim_v));
  w->inside = most(w->inside, (size_t)padded(s->mlp * (1 + gated)));
}

static widths widths_of(const attend_session *r) {
  const attend_config *c = &r->model->config;
  widths w = {0};
  widen(&c->encoder, c->gated, &w);
  widen(&c->decoder, c->gated, &w);
  return w;
}

static void free_room(attend_session *r) {
  void *all[] = {r->x, r->h, r->qkv, r->mix, r->inside, r->position};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) give(r->ctx, all[i]);
  r->x = r->h = r->qkv = r->mix = r->inside = NULL;
  r->position = NULL;
  r->room = 0;
}

attend_status run_room(attend_session *r, size_t rows) {
  static const char what[] = "a run's activations";
  if (rows <= r->room) return ATTEND_OK;
  widths w = widths_of(r);
  free_room(r);
  r->n = 0;
#define TAKE(field, width)                                                    \
  ATTEND_TRY(take_zeroed(r->ctx, SIZE_PRODUCT(rows, width, sizeof *r->field), \
                         what, &r->field))
  TAKE(x, w.x);
  TAKE(h, w.x);
  TAKE(qkv, w.qkv);
  TAKE(mix, w.mix);
  TAKE(inside, w.inside);
  TAKE(position, 1);
#undef TAKE
  r->room = rows;
  return ATTEND_OK;
}

static attend_status make_run(attend_session *r) {
  size_t b = (size_t)r->batch, width = widths_of(r).x;
  ATTEND_TRY(take_zeroed(r->ctx, size_times(b, sizeof *r->lengths), "a run",
                         &r->lengths));
  ATTEND_TRY(take_zeroed(r->ctx, size_times(b, sizeof *r->before), "a run",
                         &r->before));
  ATTEND_TRY(take_zeroed(r->ctx, SIZE_PRODUCT(b, width, sizeof(float)), "a run",
                         &r->last));
  ATTEND_TRY(
      take_zeroed(r->ctx, size_times(b, sizeof *r->held), "a run", &r->held));
  ATTEND_TRY(take_zeroed(r->ctx, size_times(b, sizeof *r->last_at), "a run",
                         &r->last_at));
  ATTEND_TRY(take_zeroed(
      r->ctx, SIZE_PRODUCT(2, (size_t)r->head_room, width, sizeof(float)),
      "a run", &r->head_rows));
  ATTEND_TRY(take_zeroed(r->ctx,
                         size_times((size_t)r->head_room, sizeof *r->head_of),
                         "a run", &r->head_of));
  if (!(r->model->config.parts & ATTEND_DECODER)) return ATTEND_OK;
  ATTEND_TRY(make_decoder(r));
  ATTEND_TRY(copy_make(r));
  return run_room(r, size_times(b, (size_t)r->rows));
}

attend_status attend_session_create(attend_model *model,
                                    const attend_session_options *options,
                                    attend_session **run) {
  attend_session_options o = options ? *options : (attend_session_options){0};
  attend_session *r;
  *run = NULL;
  ATTEND_CHECK(model->ctx, o.batch >= 0 && o.rows >= 0,
               "a run of %d sequences, %d rows at once: neither may be "
               "negative",
               o.batch, o.rows);
  ATTEND_CHECK(model->ctx, (int64_t)o.batch * o.rows <= INT32_MAX,
               "a run of %d sequences, %d rows at once: choose fewer, so that "
               "their product stays below 2^31",
               o.batch, o.rows);
  ATTEND_TRY(take_zeroed(model->ctx, sizeof *r, "a run", &r));
  r->ctx = model->ctx;
  r->model = model;
  r->batch = o.batch ? o.batch : 1;
  r->rows = o.rows ? o.rows : r->batch >= ROWS ? 1 : ROWS / r->batch;
  r->head_room = r->batch > HEAD_ROWS ? r->batch : HEAD_ROWS;
  attend_status status = make_run(r);
  if (status)
    attend_session_free(r);
  else
    *run = r;
  return status;
}

static void free_states(attend_session *r, attend_state **states) {
  for (int i = 0; states && i < r->model->config.decoder.layers; i++)
    attend_state_free(states[i]);
  give(r->ctx, states);
}

void attend_session_free(attend_session *r) {
  if (!r) return;
  free_states(r, r->self);
  free_states(r, r->cross);
  attend_plan_free(r->self_plan);
  attend_plan_free(r->cross_plan);
  attend_plan_free(r->encoder_plan);
  watch_free(r);
  copy_free(r);
  free_room(r);
  give(r->ctx, r->lengths);
  give(r->ctx, r->before);
  give(r->ctx, r->last);
  give(r->ctx, r->last_at);
  give(r->ctx, r->head_rows);
  give(r->ctx, r->head_of);
  give(r->ctx, r->wide);
  give(r->ctx, r->held);
  give(r->ctx, r);
}

/* ---- the encoder ----------------------------------------------------------------------------- */

static attend_status check_ids(const attend_session *r, int count, int n,
                               const int32_t *ids, const int32_t *lengths) {
  for (int b = 0; b < count; b++) {
    int real = lengths ? lengths[b] : n;
    ATTEND_CHECK(r->ctx, real >= 0 && real <= n,
                 "sequence %d has %d tokens in a call of %d", b, real, n);
    for (int i = 0; i < real; i++) {
      int32_t id = ids[(size_t)b * (size_t)n + (size_t)i];
      ATTEND_CHECK(r->ctx, id >= 0 && id < r->model->config.vocab,
                   "token %d of sequence %d is %d: the model knows 0 to %d", i,
                   b, id, r->model->config.vocab - 1);
    }
  }
  return ATTEND_OK;
}

static attend_status check_call(const attend_session *r, int count, int n,
                                const int32_t *ids, const int32_t *lengths) {
  ATTEND_CHECK(r->ctx, count >= 1 && count <= r->batch && n >= 1,
               "a call of %d sequences and %d tokens to a run of %d sequences",
               count, n, r->batch);
  ATTEND_CHECK(r->ctx, ids, "ids is NULL: give [%d, %d] tokens", count, n);
  return check_ids(r, count, n, ids, lengths);
}

static attend_status check_positions(const attend_session *r,
                                     int64_t positions) {
  const attend_config *c = &r->model->config;
  ATTEND_CHECK(
      r->ctx,
      c->position != ATTEND_POSITIONS_LEARNED || positions <= c->positions,
      "%lld tokens are more than the %d positions that the model has",
      (long long)positions, c->positions);
  return ATTEND_OK;
}

static void place_rows(attend_session *r, int count, int n) {
  for (int b = 0; b < count; b++)
    for (int i = 0; i < n; i++)
      r->position[b * n + i] = (int32_t)(r->before[b] + i);
}

static void set_lengths(attend_session *r, int count, int n, int start,
                        const int32_t *lengths) {
  for (int b = 0; b < r->batch; b++) {
    int real = b >= count ? 0 : lengths ? lengths[b] : start + n;
    r->lengths[b] = (int32_t)max64(0, min64(real - start, n));
  }
}

attend_status attend_session_encode(attend_session *r, int count, int n,
                                    const int32_t *ids, const int32_t *lengths,
                                    const int32_t *types) {
  ATTEND_CHECK(r->ctx, r->model->encoder.layers,
               "%s has no encoder: extend the decoder instead",
               r->model->config.family);
  ATTEND_TRY(check_call(r, count, n, ids, lengths));
  ATTEND_TRY(check_positions(r, n));
  ATTEND_CHECK(r->ctx, (int64_t)r->batch * n <= INT32_MAX,
               "%d tokens of %d sequences are too many at once", n, r->batch);
  ATTEND_TRY(run_room(r, (size_t)r->batch * (size_t)n));
  ATTEND_TRY(plan_encoder(r, count, n));
  attend_session_reset(r);
  set_lengths(r, count, n, 0, lengths);
  place_rows(r, count, n);
  attend_plan_set_padding(r->encoder_plan, r->lengths, NULL);
  r->count = count;
  r->n = n;
  r->side = &r->model->encoder;
  embed_rows(r, r->side, ids, types);
  attend_status status = stack_forward(r, r->side);
  if (!status && r->cross) status = cross_fill(r, count, n);
  if (!status) status = copy_fill(r, ids);
  if (status) attend_session_reset(r);
  return status;
}

/* ---- the decoder ------------------------------------------------------------------------------ */

static void keep_last(attend_session *r) {
  size_t ld = (size_t)padded(r->side->shape->width);
  for (int b = 0; b < r->count; b++) {
    if (!r->lengths[b]) continue;
    size_t row = (size_t)b * (size_t)r->n + (size_t)r->lengths[b] - 1;
    memcpy(r->last + (size_t)b * ld, r->x + row * ld, ld * sizeof *r->x);
    r->last_at[b] = attend_session_length(r, b);
  }
}

/* n of the call's `whole` tokens, from `start` on. */
static attend_status extend_piece(attend_session *r, int whole, int start,
                                  const int32_t *ids, const int32_t *lengths) {
  attend_plan_set_padding(r->self_plan, r->lengths, NULL);
  set_lengths(r, r->count, r->n, start, lengths);
  for (int b = 0; b < r->batch; b++)
    r->before[b] = attend_state_length(r->self[0], b);
  place_rows(r, r->count, r->n);
  size_t width = (size_t)r->n;
  int32_t *piece = (int32_t *)r->qkv; /* free until the first layer */
  for (int b = 0; b < r->count; b++)
    memcpy(piece + (size_t)b * width,
           ids + (size_t)b * (size_t)whole + (size_t)start,
           width * sizeof *ids);
  embed_rows(r, r->side, piece, NULL);
  ATTEND_TRY(stack_forward(r, r->side));
  keep_last(r);
  return ATTEND_OK;
}

/* All layers of a sequence at one length: it, or 0 if a linear state has summed
 * too far to go back. */
static void level(attend_session *r, int b, int64_t length) {
  bool cut = true;
  for (int i = 0; i < r->model->config.decoder.layers; i++)
    if (attend_state_length(r->self[i], b) > length)
      cut &= !attend_state_truncate(r->self[i], b, length);
  if (!cut && length) level(r, b, 0);
  if (cut) watch_truncate(r, b, length);
}

/* All sequences as they were before the call, which says what went wrong. */
static void take_back(attend_session *r) {
  char message[sizeof r->ctx->message];
  memcpy(message, r->ctx->message, sizeof message);
  for (int b = 0; b < r->batch; b++) level(r, b, r->held[b]);
  memcpy(r->ctx->message, message, sizeof message);
  r->n = 0;
}

static attend_status extend_all(attend_session *r, int whole,
                                const int32_t *ids, const int32_t *lengths) {
  for (int start = 0; start < whole; start += r->rows) {
    r->n = (int)min64(r->rows, whole - start);
    ATTEND_TRY(extend_piece(r, whole, start, ids, lengths));
  }
  if (whole > r->rows) r->n = 0;
  return ATTEND_OK;
}

attend_status attend_session_extend(attend_session *r, int count, int n,
                                    const int32_t *ids,
                                    const int32_t *lengths) {
  ATTEND_CHECK(r->ctx, r->self, "%s has no decoder: encode instead",
               r->model->config.family);
  ATTEND_TRY(check_call(r, count, n, ids, lengths));
  for (int b = 0; b < r->batch; b++)
    r->held[b] = attend_state_length(r->self[0], b);
  for (int b = 0; b < count; b++)
    ATTEND_TRY(check_positions(r, r->held[b] + (lengths ? lengths[b] : n)));
  ATTEND_TRY(run_room(r, (size_t)r->batch * (size_t)r->rows));
  r->count = count;
  r->side = &r->model->decoder;
  attend_status status = extend_all(r, n, ids, lengths);
  if (status) take_back(r);
  return status;
}

/* ---- what a run holds ---------------------------------------------------------------------------- */

int64_t attend_session_length(const attend_session *r, int sequence) {
  return r->self ? attend_state_length(r->self[0], sequence) : 0;
}

static attend_status reorder(attend_session *r, attend_state **states,
                             const int32_t *parents) {
  for (int i = 0; states && i < r->model->config.decoder.layers; i++)
    ATTEND_TRY(attend_state_reorder(states[i], parents));
  return ATTEND_OK;
}

attend_status attend_session_reorder(attend_session *r,
                                     const int32_t *parents) {
  size_t ld = (size_t)padded(r->model->config.decoder.width);
  ATTEND_CHECK(r->ctx, r->self,
               "%s has no decoder whose sequences have parents",
               r->model->config.family);
  for (int b = 0; b < r->batch; b++)
    ATTEND_CHECK(r->ctx, parents[b] >= 0 && parents[b] < r->batch,
                 "sequence %d cannot continue sequence %d: choose 0 to %d", b,
                 parents[b], r->batch - 1);
  attend_status status = reorder(r, r->self, parents);
  if (!status) status = reorder(r, r->cross, parents);
  if (!status) status = watch_reorder(r, parents);
  if (status)
    attend_session_reset(r); /* some layers have new parents, some old */
  if (status) return status;
  for (int b = 0; b < r->batch; b++) {
    memcpy(r->head_rows + (size_t)b * ld, r->last + (size_t)parents[b] * ld,
           ld * sizeof *r->last);
    r->held[b] = r->last_at[parents[b]];
  }
  copy_reorder(r, parents);
  memcpy(r->last, r->head_rows, (size_t)r->batch * ld * sizeof *r->last);
  memcpy(r->last_at, r->held, (size_t)r->batch * sizeof *r->last_at);
  return ATTEND_OK;
}

attend_status attend_session_truncate(attend_session *r, int sequence,
                                      int64_t length) {
  ATTEND_CHECK(r->ctx, r->self && sequence >= 0 && sequence < r->batch,
               "sequence %d is not one of the %d that the decoder has",
               sequence, r->self ? r->batch : 0);
  for (int i = 0; i < r->model->config.decoder.layers; i++)
    ATTEND_TRY(attend_state_truncate(r->self[i], sequence, length));
  watch_truncate(r, sequence, length);
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
  watch_free(r);
  r->n = 0;
}

size_t attend_session_cache_bytes(const attend_session *r) {
  size_t bytes = copy_bytes(r);
  for (int i = 0; r->self && i < r->model->config.decoder.layers; i++) {
    bytes += attend_state_bytes(r->self[i]);
    if (r->cross) bytes += attend_state_bytes(r->cross[i]);
  }
  return bytes;
}

size_t attend_session_work_bytes(const attend_session *r) {
  widths w = widths_of(r);
  size_t bytes =
      copy_work_bytes(r) +
      r->room * sizeof(float) * (2 * w.x + w.qkv + w.mix + w.inside + 1) +
      ((size_t)r->batch + 2 * (size_t)r->head_room) * w.x * sizeof(float);
  if (r->wide)
    bytes += (size_t)r->head_room * (size_t)padded(r->model->config.vocab) *
             sizeof(float);
  const attend_plan *plans[] = {r->self_plan, r->cross_plan, r->encoder_plan};
  for (int i = 0; i < 3; i++)
    if (plans[i]) bytes += attend_plan_workspace(plans[i]);
  return bytes;
}

void attend_session_watch(attend_session *r, const attend_watch *watch) {
  r->watch = watch ? *watch : (attend_watch){0};
}
