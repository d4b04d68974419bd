/* Logits and hidden states of a session's last call.
 *
 * session.c computes the rows, transformer.c their logits.
 */
#include <math.h>

#include "base/parallel.h"
#include "model/transformer.h"

static int width_of(const attend_session *r) { return r->p.side->shape->width; }

/* ---- logits ---------------------------------------------------------------------- */

/* Rows in head_rows to logits; with a copy head, to log probabilities of generating
 * and copying together. */
static void head_piece(attend_session *r, int rows, float *logits) {
  const attend_config *c = &r->model->config;
  const int ld = head_ld(r->model, r->p.side);
  void *x = r->head_rows, *y = column(&r->p, x, (size_t)r->head_limit * (size_t)ld);
  float *to = r->device_logits ? r->device_logits : logits;
  head_rows h = {rows, ld, x, y, y, x, {to, c->vocab, ATTEND_F32}, NULL};
  stream_enter(&r->ctx->stream);
  const matrix read = head_forward(&r->p, &h);
  if (r->model->copy_q.forward) copy_rows(r, rows, read, to, c->vocab);
  stream_leave(&r->ctx->stream);
  if (to != logits)
    r->ctx->device->read(r->ctx, logits, to, (size_t)rows * (size_t)c->vocab * sizeof *logits);
}

/* The rows that the head reads: of the call, or of each sequence's last token. */
typedef struct {
  const float *x;
  const int32_t *places; /* NULL: all, in order */
  bool last;
} head_source;

static int32_t sequence_of(const attend_session *r, const head_source *s, int i) {
  if (s->last) return i;
  if (r->p.side->encoder) return -1; /* rows of the encoder do not copy */
  return r->p.n ? (s->places ? s->places[i] : i) / r->p.n : 0;
}

static void read_rows(attend_session *r, const head_source *s, int start, int rows) {
  const int ld = padded(width_of(r));
  int32_t index[64];
  for (int at = 0; at < rows; at += 64) {
    int n = (int)min64(64, rows - at);
    for (int i = 0; i < n; i++) {
      int row = start + at + i;
      index[i] = s->places ? s->places[row] : row;
      r->head_of[at + i] = sequence_of(r, s, row);
    }
    r->ctx->device->write(r->ctx, r->head_row + at, index, (size_t)n * sizeof *index);
  }
  OP(r->ctx, gather, .rows = rows, .width = ld, .index = r->head_row,
     .factor = r->model->config.head_factor, .x = s->x, .ldx = ld, .y = r->head_rows,
     .ldy = head_ld(r->model, r->p.side), .y_type = r->p.type);
}

static attend_status logits_of(attend_session *r, int n, head_source s, float *logits) {
  const attend_model *m = r->model;
  const attend_config *c = &m->config;
  const int inputs = m->transform.forward ? m->transform.inputs : m->head.inputs;
  ATTEND_CHECK(r->ctx, m->head.forward,
               "the checkpoint has no head (lm_head), or it was not loaded");
  ATTEND_CHECK(r->ctx, width_of(r) == inputs,
               "the head reads the decoder's rows of %d numbers, not the "
               "encoder's of %d: extend the decoder",
               inputs, width_of(r));
  if (!r->ctx->device->host && !r->device_logits)
    ATTEND_TRY(blocks_add(r->ctx, &r->memory, ON_DEVICE,
                          SIZE_PRODUCT((size_t)r->head_limit, (size_t)c->vocab, sizeof *logits),
                          "logits", &r->device_logits));
  for (int start = 0; start < n; start += r->head_limit) {
    int rows = (int)min64(r->head_limit, n - start);
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

attend_status attend_session_logits(attend_session *r, int n_places, const int32_t *places,
                                    float *logits) {
  ATTEND_CHECK(r->ctx, r->p.n,
               "there is no call to compute logits of, or it was longer than the "
               "%d rows that are computed at once",
               r->limit);
  for (int i = 0; i < n_places; i++) {
    int place = places ? places[i] : i;
    ATTEND_CHECK(r->ctx, place >= 0 && place < r->p.rows,
                 "place %d is not among the %d that the call had", place, r->p.rows);
  }
  ATTEND_TRY(logits_of(r, n_places, (head_source){r->x, places, false}, logits));
  return hook_logits(r, n_places, logits);
}

attend_status attend_session_head(attend_session *r, int rows, const float *hidden, int ld,
                                  bool norm, float *logits) {
  const attend_model *m = r->model;
  r->p.side = m->config.parts & ATTEND_DECODER ? &m->decoder : &m->encoder;
  const int width = width_of(r);
  ATTEND_CHECK(r->ctx, rows >= 0 && ld >= width,
               "%d rows of %d numbers, %d apart: they must not overlap", rows, width, ld);
  ATTEND_TRY(session_reserve(r, (size_t)rows));
  for (int i = 0; i < rows; i++)
    r->ctx->device->write(r->ctx, r->x + (size_t)i * (size_t)padded(width),
                          hidden + (size_t)i * (size_t)ld, (size_t)width * sizeof *hidden);
  r->p.n = 0; /* the rows of the previous call are overwritten */
  if (norm && m->config.final_norm)
    norm_rows(&r->p, &r->p.side->final_norm, rows, width, floats(r->x, width), floats(r->x, width));
  return logits_of(r, rows, (head_source){r->x, NULL, false}, logits);
}

attend_status attend_session_next(attend_session *r, int count, float *logits) {
  ATTEND_CHECK(r->ctx, r->self && r->p.side == &r->model->decoder,
               "only a decoder that has tokens predicts the next one");
  ATTEND_CHECK(r->ctx, count >= 0 && count <= r->batch,
               "%d sequences are more than the %d of the session", count, r->batch);
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
  r->ctx->device->read(r->ctx, r->hidden, r->x, (size_t)r->p.rows * (size_t)*ld * sizeof *r->x);
  return r->hidden;
}
