/* Encoding: text to ids.
 *
 * segments.c splits a text into added tokens and words. Here the model (BPE,
 * WordPiece, unigram) turns words into ids, and the template (the post-processor)
 * adds special tokens.
 */
#include "base/options.h"
#include "text/tokenizer.h"

typedef struct {
  attend_encoding public; /* first member: the public part */
  const attend_tokenizer *t;
  attend_context own;
  scratch s;
  int32_t *id, *type;
  size_t *start, *end;
  signed char *part;
  size_t capacity;
} encoding;

/* ---- what a call writes -------------------------------------------------------------- */

attend_status scratch_start(attend_context *ctx, scratch *s) {
  memset(s, 0, sizeof *s);
  s->ctx = ctx;
  s->first = s->last = true;
  s->clean.max = SIZE_MAX; /* at most three times its text */
  return pattern_scratch(s);
}

void scratch_begin(scratch *s, size_t length) {
  s->capacity = MOST_GROWTH * length + MOST_PREFIXES;
  s->work = WORK_EACH * length + WORK_FREE;
}

void scratch_free(scratch *s) {
  aligned_free(s->ctx, &s->clean);
  for (int i = 0; i < 4; i++) aligned_free(s->ctx, &s->text[i]);
  void *blocks[] = {s->spans[0], s->spans[1], s->cuts,       s->glyphs, s->symbols,
                    s->heap,     s->arrivals, s->word.token, s->cache,  s->raw};
  for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) ctx_free(s->ctx, blocks[i]);
  pattern_scratch_free(s);
}

attend_status attend_encoding_create(const attend_tokenizer *tokenizer, attend_encoding **result) {
  encoding *e;
  *result = NULL;
  ATTEND_TRY(ctx_alloc_zeroed(tokenizer->ctx, sizeof *e, "an encoding", &e));
  e->t = tokenizer;
  attend_status status = context_child(tokenizer->ctx, 1, &e->own);
  if (!status) status = scratch_start(&e->own, &e->s);
  if (status)
    attend_encoding_free(&e->public);
  else
    *result = &e->public;
  return status;
}

void attend_encoding_free(attend_encoding *result) {
  encoding *e = (encoding *)result;
  if (!e) return;
  scratch_free(&e->s);
  ctx_free(&e->own, e->id);
  ctx_free(&e->own, e->type);
  ctx_free(&e->own, e->start);
  ctx_free(&e->own, e->end);
  ctx_free(&e->own, e->part);
  ctx_free(e->t->ctx, e);
}

const char *attend_encoding_message(const attend_encoding *result) {
  return ((const encoding *)result)->own.message;
}

/* ---- a text ---------------------------------------------------------------------------- */

static attend_status put_raw(void *user, int32_t id, uint32_t start, uint32_t end) {
  encoding *e = user;
  scratch *s = &e->s;
  ATTEND_TRY(grow(&e->own, &s->raw, &s->raw_capacity, s->raw_count + 1, sizeof *s->raw, "ids"));
  s->raw[s->raw_count++] = (raw_token){id, start, end};
  return ATTEND_OK;
}

static attend_status encode_word(encoding *e, const view *v, span in) {
  scratch *s = &e->s;
  ATTEND_TRY(model_encode(e->t, s, v->bytes + in.start, in.end - in.start));
  ATTEND_TRY(grow(&e->own, &s->raw, &s->raw_capacity, s->raw_count + s->word.count, sizeof *s->raw,
                  "ids"));
  uint32_t start = in.start;
  for (size_t i = 0; i < s->word.count; i++) {
    uint32_t end = in.start + s->word.token[i].end;
    s->raw[s->raw_count++] =
        (raw_token){s->word.token[i].id, view_from(v, start), view_to(v, end - 1)};
    start = end;
  }
  return ATTEND_OK;
}

static attend_status encode_words(void *user, const view *v, const span *words, size_t count) {
  for (size_t i = 0; i < count; i++) ATTEND_TRY(encode_word(user, v, words[i]));
  return ATTEND_OK;
}

static attend_status encode_text(encoding *e, const char *text, size_t length) {
  const segment_sink sink = {encode_words, put_raw, e};
  return segment_text(e->t, &e->s, text, length, &sink);
}

/* ---- templates and truncation ------------------------------------------------------------ */

static const template plain = {{TEMPLATE_A}, {0}, 1, 0, {1, 0}};
static const template plain_pair = {{TEMPLATE_A, TEMPLATE_B}, {0, 1}, 2, 0, {1, 1}};

static const template *template_for(const attend_tokenizer *t, const attend_encode_options *o) {
  const template *needed = o->pair ? &t->pair : &t->single;
  if (needed->count && !o->no_special) return needed;
  return o->pair ? &plain_pair : &plain;
}

/* Ids of texts of a and b tokens, each as often as the template names it. Both were
 * in memory, so TEMPLATE_MOST times as many fit 64 bits. */
static uint64_t ids_of(const template *around, size_t a, size_t b) {
  return (uint64_t)a * (uint64_t)around->times[0] + (uint64_t)b * (uint64_t)around->times[1];
}

static size_t at_most(size_t n, size_t max) { return n < max ? n : max; }

/* Truncates the longer text first until both are equal; an odd remainder goes to the
 * first. */
static void truncate_pair(const template *around, size_t capacity, size_t *a, size_t *b) {
  size_t low = 0, high = (*a > *b ? *a : *b) + 1;
  while (high - low > 1) {
    size_t level = low + (high - low) / 2;
    bool fits = ids_of(around, at_most(*a, level), at_most(*b, level)) <= capacity;
    *(fits ? &low : &high) = level;
  }
  size_t less_a = at_most(*a, low), less_b = at_most(*b, low);
  size_t more_a = at_most(*a, low + 1), more_b = at_most(*b, low + 1);
  if (ids_of(around, more_a, less_b) <= capacity) less_a = more_a;
  if (ids_of(around, less_a, more_b) <= capacity) less_b = more_b;
  *a = less_a;
  *b = less_b;
}

static attend_status make_room(encoding *e, uint64_t needed) {
  attend_context *ctx = &e->own;
  size_t count = (size_t)needed;
  if (needed > SIZE_MAX)
    return fail(ctx, ATTEND_NO_MEMORY, "no memory for %llu ids", (unsigned long long)needed);
  if (count <= e->capacity) return ATTEND_OK;
  size_t c[5] = {e->capacity, e->capacity, e->capacity, e->capacity, e->capacity};
  ATTEND_TRY(grow(ctx, &e->id, &c[0], count, sizeof *e->id, "ids"));
  ATTEND_TRY(grow(ctx, &e->type, &c[1], count, sizeof *e->type, "ids"));
  ATTEND_TRY(grow(ctx, &e->start, &c[2], count, sizeof *e->start, "ids"));
  ATTEND_TRY(grow(ctx, &e->end, &c[3], count, sizeof *e->end, "ids"));
  ATTEND_TRY(grow(ctx, &e->part, &c[4], count, 1, "ids"));
  e->capacity = c[0];
  return ATTEND_OK;
}

static void put_out(encoding *e, raw_token r, int32_t type, int part) {
  size_t at = e->public.count++;
  e->id[at] = r.id;
  e->type[at] = type;
  e->start[at] = r.start;
  e->end[at] = r.end;
  e->part[at] = (signed char)part;
}

/* Trims white space at both ends. */
static void trim(const char *text, size_t *start, size_t *end) {
  uint32_t c;
  while (*start < *end) {
    int n = utf8_read(text + *start, *end - *start, &c);
    if (n < 0 || !is_space(c)) break;
    *start += (size_t)n;
  }
  while (*end > *start) {
    size_t last = *end - 1;
    while (last > *start && ((unsigned char)text[last] & 0xc0) == 0x80) last--;
    if (utf8_read(text + last, *end - last, &c) < 0 || !is_space(c)) break;
    *end = last;
  }
}

static void put_part(encoding *e, size_t first, size_t count, int32_t type, int part,
                     const char *text) {
  size_t from = e->public.count;
  for (size_t i = 0; i < count; i++) put_out(e, e->s.raw[first + i], type, part);
  if (!e->t->trim) return;
  for (size_t i = 0; i < count; i++) {
    const raw_token *r = &e->s.raw[first + i];
    size_t at = from + i;
    /* tokens that share a long range are trimmed once */
    bool again = i && r->start == r[-1].start && r->end == r[-1].end;
    if (again) {
      e->start[at] = e->start[at - 1];
      e->end[at] = e->end[at - 1];
    } else {
      trim(text, &e->start[at], &e->end[at]);
    }
  }
}

static void publish(encoding *e) {
  e->public.id = e->id;
  e->public.type = e->type;
  e->public.start = e->start;
  e->public.end = e->end;
  e->public.part = e->part;
}

static attend_status assemble(encoding *e, const attend_encode_options *o, const char *text,
                              size_t first_b) {
  const template *around = template_for(e->t, o);
  size_t specials = (size_t)around->specials;
  size_t a = first_b, b = e->s.raw_count - first_b, all = a + b;
  if (o->max_length && o->max_length < specials)
    return fail(&e->own, ATTEND_INVALID,
                "a max_length of %zu leaves no room beside %zu special "
                "tokens: raise it, or encode without them",
                o->max_length, specials);
  if (o->max_length) truncate_pair(around, o->max_length - specials, &a, &b);
  ATTEND_TRY(make_room(e, ids_of(around, a, b) + specials + 1)); /* never NULL */
  for (int i = 0; i < around->count; i++) {
    int32_t id = around->id[i], type = around->type[i];
    if (id == TEMPLATE_A)
      put_part(e, 0, a, type, 0, text);
    else if (id == TEMPLATE_B)
      put_part(e, first_b, b, type, 1, o->pair);
    else
      put_out(e, (raw_token){id, 0, 0}, type, -1);
  }
  e->public.dropped = all - a - b;
  publish(e);
  return ATTEND_OK;
}

attend_status attend_encode(attend_encoding *result, const char *text, size_t length,
                            const attend_encode_options *options) {
  encoding *e = (encoding *)result;
  attend_encode_options o;
  e->public.count = e->public.dropped = e->s.raw_count = 0;
  ATTEND_TRY(OPTIONS_READ(e->s.ctx, attend_encode_options, options, &o));
  ATTEND_TRY(encode_text(e, text, length));
  size_t first_b = e->s.raw_count;
  if (o.pair) ATTEND_TRY(encode_text(e, o.pair, o.pair_length));
  return assemble(e, &o, text, first_b);
}

/* ---- words and their cache ----------------------------------------------- */

/* A word to ids, by the tokenizer's model, with a cache of words seen before.
 *
 * The cache is a table with one slot per hash: a new word replaces the old one, so it
 * never grows, and results do not depend on it. Its hash needs no key: a collision
 * only costs encoding a word again. */

attend_status put_token(scratch *s, int32_t id, size_t end) {
  word_tokens *w = &s->word;
  ATTEND_TRY(grow(s->ctx, &w->token, &w->capacity, w->count + 1, sizeof *w->token, "a word"));
  w->token[w->count++] = (word_token){id, (uint32_t)end};
  return ATTEND_OK;
}

static bool has_bytes(const attend_tokenizer *t, const char *bytes, size_t start, size_t end) {
  for (size_t i = start; i < end; i++)
    if (t->vocab.byte[(unsigned char)bytes[i]] < 0) return false;
  return true;
}

attend_status put_unknown(const attend_tokenizer *t, scratch *s, const char *bytes, size_t start,
                          size_t end) {
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

/* ---- the cache ---------------------------------------------------------------- */

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
  ATTEND_TRY(grow(s->ctx, &w->token, &w->capacity, c->count, sizeof *w->token, "a word"));
  for (size_t i = 0; i < c->count; i++) w->token[i] = (word_token){c->id[i], c->end[i]};
  w->count = c->count;
  return ATTEND_OK;
}

static void remember(const word_tokens *w, cached_word *c, uint32_t hash, const char *word,
                     size_t length) {
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

static attend_status apply_model(const attend_tokenizer *t, scratch *s, const char *word,
                                 size_t length) {
  if (t->model.kind == MODEL_BPE) return bpe_encode(t, s, word, length);
  if (t->model.kind == MODEL_UNIGRAM) return unigram_encode(t, s, word, length);
  return wordpiece_encode(t, s, word, length);
}

attend_status model_encode(const attend_tokenizer *t, scratch *s, const char *word, size_t length) {
  s->word.count = 0;
  if (!length) return ATTEND_OK;
  bool carries = t->model.kind == MODEL_UNIGRAM && t->model.single;
  if (length > CACHE_KEY || carries) return apply_model(t, s, word, length);
  if (!s->cache)
    ATTEND_TRY(
        ctx_alloc_zeroed(s->ctx, CACHE_SLOTS * sizeof *s->cache, "remembered words", &s->cache));
  uint32_t hash = hash_bytes(word, length) | 1;
  cached_word *c = &s->cache[hash >> 1 & (CACHE_SLOTS - 1)];
  if (c->hash == hash && c->length == length && !memcmp(c->key, word, length)) return recall(s, c);
  ATTEND_TRY(apply_model(t, s, word, length));
  remember(&s->word, c, hash, word, length);
  return ATTEND_OK;
}
