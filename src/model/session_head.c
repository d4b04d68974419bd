/* What a session gives: logits, hidden states; and what it holds.
 *
 * session.c computes the rows, head.c their logits.
 */
#include <math.h>
#include <string.h>

#include "base/parallel.h"
#include "model/hooks.h"

static int width_of(const attend_session *r) { return r->p.side->shape->width; }

/* ---- logits --------------------------------------------------------------------------------- */

/* Rows in head_rows -> logits; or log p, where words are copied from what their
 * sequences have read. */
static void head_piece(attend_session *r, int rows, float *logits) {
  const attend_config *c = &r->model->config;
  const int ld = head_ld(r->model, r->p.side);
  float *x = r->head_rows, *y = x + (size_t)r->head_room * (size_t)ld;
  float *to = r->device_logits ? r->device_logits : logits;
  head_rows h = {rows, ld, x, y, y, x, to, NULL, c->vocab};
  stream_enter(&r->ctx->stream);
  const float *read = head_forward(&r->p, &h);
  if (r->model->copy_q.go) copy_rows(r, rows, read, ld, to, c->vocab);
  stream_leave(&r->ctx->stream);
  if (to != logits)
    r->ctx->device->read(r->ctx, logits, to,
                         (size_t)rows * (size_t)c->vocab * sizeof *logits);
}

/* Which rows the head reads: of the call, of each sequence's last token. */
typedef struct {
  const float *x;
  const int32_t *places; /* NULL: all, in order */
  bool last;
} head_source;

static int32_t sequence_of(const attend_session *r, const head_source *s,
                           int i) {
  if (s->last) return i;
  if (r->p.side->encoder) return -1; /* the encoder's rows copy from none */
  return r->p.n ? (s->places ? s->places[i] : i) / r->p.n : 0;
}

static void read_rows(attend_session *r, const head_source *s, int start,
                      int rows) {
  const int ld = padded(width_of(r));
  int32_t index[64];
  for (int at = 0; at < rows; at += 64) {
    int n = (int)min64(64, rows - at);
    for (int i = 0; i < n; i++) {
      int row = start + at + i;
      index[i] = s->places ? s->places[row] : row;
      r->head_of[at + i] = sequence_of(r, s, row);
    }
    r->ctx->device->write(r->ctx, r->head_row + at, index,
                          (size_t)n * sizeof *index);
  }
  OP(r->ctx, gather, .rows = rows, .width = ld, .index = r->head_row,
     .factor = r->model->config.head_factor, .x = s->x, .ldx = ld,
     .y = r->head_rows, .ldy = head_ld(r->model, r->p.side));
}

static attend_status logits_of(attend_session *r, int n, head_source s,
                               float *logits) {
  const attend_model *m = r->model;
  const attend_config *c = &m->config;
  const int inputs = m->transform.go ? m->transform.inputs : m->head.inputs;
  ATTEND_CHECK(r->ctx, m->head.go,
               "the checkpoint has no head that gives logits, or it was not "
               "loaded");
  ATTEND_CHECK(r->ctx, width_of(r) == inputs,
               "the head reads the decoder's rows of %d numbers, not the "
               "encoder's of %d: extend the decoder",
               inputs, width_of(r));
  if (!r->ctx->device->host && !r->device_logits)
    ATTEND_TRY(own(
        r->ctx, &r->memory, ON_DEVICE,
        SIZE_PRODUCT((size_t)r->head_room, (size_t)c->vocab, sizeof *logits),
        "logits", &r->device_logits));
  for (int start = 0; start < n; start += r->head_room) {
    int rows = (int)min64(r->head_room, n - start);
    read_rows(r, &s, start, rows);
    head_piece(r, rows, logits + (size_t)start * (size_t)c->vocab);
  }
  return ATTEND_OK;
}

static attend_status hook_logits(attend_session *r, int rows, float *logits) {
  const int vocab = r->model->config.vocab;
  attend_hooked at = {.point = ATTEND_AT_LOGITS,
                      .role = self_role(&r->p),
                      .shape = {1, 1, rows, vocab},
                      .lengths = r->lengths,
                      .view = {logits, {(ptrdiff_t)rows * vocab, 0, vocab, 1}}};
  r->p.hooks = r->hooks.n ? &r->hooks : NULL;
  return hook_at(&r->p, &at, HOOK_FORWARD | HOOK_ON_HOST);
}

attend_status attend_session_logits(attend_session *r, int n_places,
                                    const int32_t *places, float *logits) {
  ATTEND_CHECK(r->ctx, r->p.n,
               "there is no call to give logits of, or it was longer than the "
               "%d rows that are computed at once",
               r->limit);
  for (int i = 0; i < n_places; i++) {
    int place = places ? places[i] : i;
    ATTEND_CHECK(r->ctx, place >= 0 && place < r->p.rows,
                 "place %d is not among the %d that the call had", place,
                 r->p.rows);
  }
  ATTEND_TRY(
      logits_of(r, n_places, (head_source){r->x, places, false}, logits));
  return hook_logits(r, n_places, logits);
}

attend_status attend_session_head(attend_session *r, int rows,
                                  const float *hidden, int ld, float *logits) {
  const attend_model *m = r->model;
  r->p.side = m->config.parts & ATTEND_DECODER ? &m->decoder : &m->encoder;
  const int width = width_of(r);
  ATTEND_CHECK(r->ctx, rows >= 0 && ld >= width,
               "%d rows of %d numbers, %d apart: they must not overlap", rows,
               width, ld);
  ATTEND_TRY(session_room(r, (size_t)rows));
  for (int i = 0; i < rows; i++)
    r->ctx->device->write(r->ctx, r->x + (size_t)i * (size_t)padded(width),
                          hidden + (size_t)i * (size_t)ld,
                          (size_t)width * sizeof *hidden);
  r->p.n = 0; /* the rows of the call before are gone */
  return logits_of(r, rows, (head_source){r->x, NULL, false}, logits);
}

attend_status attend_session_next(attend_session *r, int count, float *logits) {
  ATTEND_CHECK(r->ctx, r->self && r->p.side == &r->model->decoder,
               "only a decoder that was given tokens says what comes next");
  ATTEND_CHECK(r->ctx, count >= 0 && count <= r->batch,
               "%d sequences are more than the %d of the session", count,
               r->batch);
  ATTEND_TRY(logits_of(r, count, (head_source){r->last, NULL, true}, logits));
  size_t vocab = (size_t)r->model->config.vocab;
  for (int b = 0; b < count; b++) {
    if (r->last_at[b] && r->last_at[b] == attend_session_length(r, b)) continue;
    for (size_t i = 0; i < vocab; i++) logits[(size_t)b * vocab + i] = NAN;
  }
  return hook_logits(r, count, logits);
}

const float *attend_session_hidden(const attend_session *r, int *ld) {
  if (!r->p.n) return NULL;
  *ld = padded(width_of(r));
  if (!r->hidden) return r->x;
  r->ctx->device->read(r->ctx, r->hidden, r->x,
                       (size_t)r->p.rows * (size_t)*ld * sizeof *r->x);
  return r->hidden;
}

/* ---- what a session holds -------------------------------------------------------------------- */

int64_t attend_session_length(const attend_session *r, int sequence) {
  return r->self ? attend_state_length(r->self[0], sequence) : 0;
}

static attend_status reorder(attend_session *r, attend_state **states,
                             const int32_t *parents) {
  for (int i = 0; states && i < r->model->config.decoder.layers; i++)
    ATTEND_TRY(attend_state_reorder(states[i], parents));
  return ATTEND_OK;
}

static void reorder_last(attend_session *r, const int32_t *parents) {
  const struct attend_device *d = r->ctx->device;
  const int ld = padded(r->model->config.decoder.width);
  d->write(r->ctx, r->head_row, parents, (size_t)r->batch * sizeof *parents);
  OP(r->ctx, gather, .rows = r->batch, .width = ld, .index = r->head_row,
     .factor = 1, .x = r->last, .ldx = ld, .y = r->head_rows, .ldy = ld);
  OP(r->ctx, gather, .rows = r->batch, .width = ld, .factor = 1,
     .x = r->head_rows, .ldx = ld, .y = r->last, .ldy = ld);
  for (int b = 0; b < r->batch; b++) r->held[b] = r->last_at[parents[b]];
  memcpy(r->last_at, r->held, (size_t)r->batch * sizeof *r->last_at);
}

attend_status attend_session_reorder(attend_session *r,
                                     const int32_t *parents) {
  ATTEND_CHECK(r->ctx, r->self,
               "%s has no decoder whose sequences have parents",
               r->model->config.family);
  for (int b = 0; b < r->batch; b++)
    ATTEND_CHECK(r->ctx, parents[b] >= 0 && parents[b] < r->batch,
                 "sequence %d cannot continue sequence %d: choose 0 to %d", b,
                 parents[b], r->batch - 1);
  attend_status status = reorder(r, r->self, parents);
  if (!status) status = reorder(r, r->cross, parents);
  if (!status) status = caches_reorder(r, parents);
  if (status)
    attend_session_reset(r); /* some layers have new parents, some old */
  if (status) return status;
  reorder_last(r, parents);
  copy_reorder(r, parents);
  return ATTEND_OK;
}

attend_status attend_session_truncate(attend_session *r, int sequence,
                                      int64_t length) {
  ATTEND_CHECK(r->ctx, r->self && sequence >= 0 && sequence < r->batch,
               "sequence %d is not one of the %d that the decoder has",
               sequence, r->self ? r->batch : 0);
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
