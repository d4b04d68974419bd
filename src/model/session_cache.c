/* The KV cache of a session: length, reordering for beams, truncating, reset.
 *
 * Each decoder layer has a state for self-attention and, with an encoder, one for
 * cross-attention (attend/state.h): a KV cache for softmax, sums for linear forms.
 */
#include <string.h>

#include "base/parallel.h"
#include "model/hooks.h"

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
  ATTEND_CHECK(r->ctx, r->self, "%s has no decoder whose sequences have parents",
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
