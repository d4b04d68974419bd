/* Streaming text of a continuation, up to a stop string.
 *
 * A stop string may span tokens. So text that could be its beginning is held back
 * until the next token decides.
 */
#define _GNU_SOURCE /* memmem */
#include <string.h>

#include "generate/generate.h"

attend_status stream_open(attend_context *ctx, const attend_generate_options *o, stream *s) {
  *s = (stream){.ctx = ctx, .stops = o->stops, .n_stops = o->n_stops};
  if (!o->tokenizer) return ATTEND_OK;
  attend_status status = attend_detokenizer_create(o->tokenizer, true, &s->detokenizer);
  return status ? fail(ctx, status, "no memory to decode tokens") : ATTEND_OK;
}

/* The tokenizer's context may be another than the model's. */
static attend_status detokenized(const stream *s, attend_status status) {
  if (!status) return ATTEND_OK;
  return fail(s->ctx, status, "%s", attend_detokenizer_message(s->detokenizer));
}

attend_status stream_prime(stream *s, const int32_t *ids, int count) {
  const char *text;
  size_t length;
  for (int i = 0; s->detokenizer && i < count; i++)
    ATTEND_TRY(detokenized(s, attend_detokenizer_push(s->detokenizer, ids[i], &text, &length)));
  return ATTEND_OK;
}

void stream_close(stream *s) {
  attend_detokenizer_free(s->detokenizer);
  if (s->ctx) ctx_free(s->ctx, s->text);
}

static attend_status append(stream *s, const char *text, size_t length) {
  size_t wanted = size_add(s->length, length) + 1;
  ATTEND_TRY(grow(s->ctx, &s->text, &s->capacity, wanted, 1, "the text"));
  memcpy(s->text + s->length, text, length);
  s->length += length;
  s->text[s->length] = 0;
  return ATTEND_OK;
}

/* The text ends before the first stop string that it holds. */
static void cut_at_stop(stream *s) {
  for (int i = 0; i < s->n_stops; i++) {
    if (!*s->stops[i]) continue;
    const char *at =
        memmem(s->text + s->emitted, s->length - s->emitted, s->stops[i], strlen(s->stops[i]));
    if (!at) continue;
    s->length = (size_t)(at - s->text);
    s->text[s->length] = 0;
    s->stopped = true;
  }
}

/* Length of the suffix that could begin a stop string. */
static size_t undecided(const stream *s) {
  size_t max = 0;
  for (int i = 0; i < s->n_stops; i++) {
    size_t n = strlen(s->stops[i]), left = s->length - s->emitted;
    for (size_t k = n > left ? left : n - (n > 0); k > max; k--)
      if (!memcmp(s->text + s->length - k, s->stops[i], k)) {
        max = k;
        break;
      }
  }
  return max;
}

static void emit(stream *s, bool all, const char **piece, size_t *length) {
  size_t until = s->length - (all || s->stopped ? 0 : undecided(s));
  *piece = s->text ? s->text + s->emitted : "";
  *length = until - s->emitted;
  s->emitted = until;
}

attend_status stream_push(stream *s, int32_t id, const char **piece, size_t *length) {
  const char *text;
  size_t n;
  *piece = "";
  *length = 0;
  if (!s->detokenizer || s->stopped) return ATTEND_OK;
  ATTEND_TRY(detokenized(s, attend_detokenizer_push(s->detokenizer, id, &text, &n)));
  ATTEND_TRY(append(s, text, n));
  cut_at_stop(s);
  emit(s, false, piece, length);
  return ATTEND_OK;
}

attend_status stream_end(stream *s, const char **piece, size_t *length) {
  const char *text;
  size_t n;
  *piece = "";
  *length = 0;
  if (!s->detokenizer) return ATTEND_OK;
  if (!s->stopped) {
    ATTEND_TRY(detokenized(s, attend_detokenizer_finish(s->detokenizer, &text, &n)));
    ATTEND_TRY(append(s, text, n));
    cut_at_stop(s);
  }
  emit(s, true, piece, length);
  return ATTEND_OK;
}
