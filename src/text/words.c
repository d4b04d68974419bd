/* A word to ids, by whichever model, with a memory for words seen before.
 *
 * Between encode.c and the models.
 *
 * The memory is a table with one slot per hash: a newer word pushes out an
 * older one, so it never grows and what comes out never depends on it. Its
 * hash needs no key: words that collide are encoded again, nothing more.
 */
#include "text/tokenizer.h"

attend_status put_token(scratch *s, int32_t id, size_t end) {
  word_tokens *w = &s->word;
  ATTEND_TRY(grow(s->ctx, &w->token, &w->capacity, w->count + 1,
                  sizeof *w->token, "a word"));
  w->token[w->count++] = (word_token){id, (uint32_t)end};
  return ATTEND_OK;
}

static bool has_bytes(const attend_tokenizer *t, const char *bytes,
                      size_t start, size_t end) {
  for (size_t i = start; i < end; i++)
    if (t->vocab.byte[(unsigned char)bytes[i]] < 0) return false;
  return true;
}

attend_status put_unknown(const attend_tokenizer *t, scratch *s,
                          const char *bytes, size_t start, size_t end) {
  word_tokens *w = &s->word;
  if (t->model.byte_fallback && has_bytes(t, bytes, start, end)) {
    for (size_t i = start; i < end; i++)
      ATTEND_TRY(put_token(s, t->vocab.byte[(unsigned char)bytes[i]], i + 1));
    return ATTEND_OK;
  }
  if (t->model.unk < 0) return ATTEND_OK;
  bool again = w->count && w->token[w->count - 1].id == t->model.unk;
  if (!t->model.fuse_unk || !again) return put_token(s, t->model.unk, end);
  w->token[w->count - 1].end = (uint32_t)end;
  return ATTEND_OK;
}

/* ---- the memory --------------------------------------------------------------- */

/* Fewer than 8 bytes as a number, without a loop. */
static uint64_t tail_of(const char *bytes, size_t length) {
  uint32_t a, b;
  if (length >= 4) {
    memcpy(&a, bytes, 4);
    memcpy(&b, bytes + length - 4, 4);
    return (uint64_t)b << 32 | a;
  }
  if (!length) return 0;
  return (unsigned char)bytes[0] | (unsigned char)bytes[length / 2] << 8 |
         (unsigned char)bytes[length - 1] << 16;
}

static uint32_t hash_bytes(const char *bytes, size_t length) {
  uint64_t h = 0x9e3779b97f4a7c15u ^ length, word;
  for (; length >= 8; bytes += 8, length -= 8) {
    memcpy(&word, bytes, 8);
    h = (h ^ word) * 0xff51afd7ed558ccdu;
    h ^= h >> 32;
  }
  h = (h ^ tail_of(bytes, length)) * 0xff51afd7ed558ccdu;
  h ^= h >> 29;
  h *= 0xc4ceb9fe1a85ec53u;
  return (uint32_t)(h >> 32);
}

static attend_status recall(scratch *s, const cached_word *c) {
  word_tokens *w = &s->word;
  ATTEND_TRY(grow(s->ctx, &w->token, &w->capacity, c->count, sizeof *w->token,
                  "a word"));
  for (size_t i = 0; i < c->count; i++)
    w->token[i] = (word_token){c->id[i], c->end[i]};
  w->count = c->count;
  return ATTEND_OK;
}

static void remember(const word_tokens *w, cached_word *c, uint32_t hash,
                     const char *word, size_t length) {
  if (w->count > CACHE_IDS) return;
  c->hash = hash;
  c->length = (unsigned char)length;
  c->count = (unsigned char)w->count;
  memcpy(c->key, word, length);
  for (size_t i = 0; i < c->count && i < CACHE_IDS; i++) {
    c->id[i] = w->token[i].id;
    c->end[i] = (unsigned char)w->token[i].end;
  }
}

static attend_status encode_word(const attend_tokenizer *t, scratch *s,
                                 const char *word, size_t length) {
  if (t->model.kind == MODEL_BPE) return bpe_encode(t, s, word, length);
  if (t->model.kind == MODEL_UNIGRAM) return unigram_encode(t, s, word, length);
  return wordpiece_encode(t, s, word, length);
}

attend_status model_encode(const attend_tokenizer *t, scratch *s,
                           const char *word, size_t length) {
  s->word.count = 0;
  if (!length) return ATTEND_OK;
  bool carries = t->model.kind == MODEL_UNIGRAM && t->model.single;
  if (length > CACHE_KEY || carries) return encode_word(t, s, word, length);
  if (!s->cache)
    ATTEND_TRY(take_zeroed(s->ctx, CACHE_SLOTS * sizeof *s->cache,
                           "remembered words", &s->cache));
  uint32_t hash = hash_bytes(word, length) | 1;
  cached_word *c = &s->cache[hash >> 1 & (CACHE_SLOTS - 1)];
  if (c->hash == hash && c->length == length && !memcmp(c->key, word, length))
    return recall(s, c);
  ATTEND_TRY(encode_word(t, s, word, length));
  remember(&s->word, c, hash, word, length);
  return ATTEND_OK;
}
