/* Words and how often they occur.
 *
 * What a text is to a trainer.
 */
#include "text/trainer.h"

static size_t slot_of(const tally *t, const char *text, size_t length,
                      uint32_t hash) {
  size_t mask = t->slots - 1, at = hash & mask;
  for (; t->slot[at]; at = (at + 1) & mask) {
    const tally_word *w = &t->word[t->slot[at] - 1];
    if (w->hash == hash && w->text.length == length &&
        !memcmp(w->text.bytes, text, length))
      break;
  }
  return at;
}

static attend_status widen(attend_context *ctx, tally *t) {
  size_t slots = t->slots ? 2 * t->slots : 1 << 12;
  uint32_t *fresh;
  ATTEND_TRY(take_zeroed(ctx, slots * sizeof *fresh, "words", &fresh));
  if (!t->slots) t->hash = hash_key_draw();
  give(ctx, t->slot);
  t->slot = fresh;
  t->slots = slots;
  for (size_t i = 0; i < t->count; i++) {
    size_t at = t->word[i].hash & (slots - 1);
    while (t->slot[at]) at = (at + 1) & (slots - 1);
    t->slot[at] = (uint32_t)(i + 1);
  }
  return ATTEND_OK;
}

static attend_status put_word(attend_context *ctx, tally *t, const char *text,
                              size_t length, uint32_t hash, uint64_t times) {
  tally_word w = {{NULL, length}, times, hash};
  if (t->count >= UINT32_MAX / 4)
    return fail(ctx, ATTEND_UNSUPPORTED,
                "the text has more than %u different words: learn from less",
                UINT32_MAX / 4);
  ATTEND_TRY(grow(ctx, &t->word, &t->capacity, t->count + 1, sizeof *t->word,
                  "words"));
  ATTEND_TRY(pool_copy(ctx, &t->pool, text, length, &w.text.bytes));
  t->word[t->count++] = w;
  return ATTEND_OK;
}

attend_status tally_add(attend_context *ctx, tally *t, const char *text,
                        size_t length, uint64_t times) {
  if (2 * t->count >= t->slots) ATTEND_TRY(widen(ctx, t));
  uint32_t hash = (uint32_t)hash_keyed(t->hash, text, length);
  size_t at = slot_of(t, text, length, hash);
  if (t->slot[at]) {
    t->word[t->slot[at] - 1].times += times;
    return ATTEND_OK;
  }
  ATTEND_TRY(put_word(ctx, t, text, length, hash, times));
  t->slot[at] = (uint32_t)t->count;
  return ATTEND_OK;
}

attend_status tally_join(attend_context *ctx, tally *t, tally *other) {
  for (size_t i = 0; i < other->count; i++) {
    const tally_word *w = &other->word[i];
    ATTEND_TRY(tally_add(ctx, t, w->text.bytes, w->text.length, w->times));
  }
  tally_free(ctx, other);
  return ATTEND_OK;
}

void tally_free(const attend_context *ctx, tally *t) {
  give(ctx, t->word);
  give(ctx, t->slot);
  pool_free(ctx, &t->pool);
  *t = (tally){0};
}
