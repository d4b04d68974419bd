/* Text with alignments: growing and copying. */
#include "text/aligned_text.h"

attend_status aligned_too_long(attend_context *ctx) {
  return fail(ctx, ATTEND_UNSUPPORTED,
              "the tokenizer's normalizer or pre-tokenizer makes more than %d "
              "bytes of each byte of the text: look at its steps Replace, "
              "Prepend, Precompiled and Metaspace",
              MOST_GROWTH);
}

/* The three arrays grow together. After a failure some may be longer than the
 * capacity, which is harmless. */
static attend_status aligned_grow(attend_context *ctx, aligned_text *s, size_t more) {
  size_t needed = s->length + more;
  if (needed > INT32_MAX) /* offsets are 32 bits wide */
    return fail(ctx, ATTEND_INVALID,
                "the text grows beyond %d bytes when it is normalized: encode "
                "less at a time",
                INT32_MAX);
  if (needed > s->most) return aligned_too_long(ctx);
  size_t a = s->capacity, b = s->capacity, c = s->capacity;
  ATTEND_TRY(grow(ctx, &s->bytes, &a, needed, 1, "a text"));
  ATTEND_TRY(grow(ctx, &s->from, &b, needed, sizeof *s->from, "a text"));
  ATTEND_TRY(grow(ctx, &s->to, &c, needed, sizeof *s->to, "a text"));
  s->capacity = a;
  return ATTEND_OK;
}

static inline attend_status aligned_reserve(attend_context *ctx, aligned_text *s, size_t more) {
  if (more <= s->capacity - s->length) return ATTEND_OK;
  return aligned_grow(ctx, s, more);
}

attend_status aligned_put(attend_context *ctx, aligned_text *s, const char *bytes, size_t length,
                          uint32_t from, uint32_t to) {
  ATTEND_TRY(aligned_reserve(ctx, s, length));
  for (size_t i = 0; i < length; i++) {
    s->bytes[s->length + i] = bytes[i];
    s->from[s->length + i] = from;
    s->to[s->length + i] = to;
  }
  s->length += length;
  return ATTEND_OK;
}

attend_status aligned_copy(attend_context *ctx, aligned_text *s, const view *v, size_t start,
                           size_t end) {
  ATTEND_TRY(aligned_reserve(ctx, s, end - start));
  size_t n = end - start, at = s->length;
  uint32_t base = v->base + (uint32_t)start;
  if (!n) return ATTEND_OK;
  memcpy(s->bytes + at, v->bytes + start, n);
  if (v->from) {
    memcpy(s->from + at, v->from + start, n * sizeof *s->from);
    memcpy(s->to + at, v->to + start, n * sizeof *s->to);
  } else {
    for (size_t i = 0; i < n; i++) s->from[at + i] = base + (uint32_t)i;
    for (size_t i = 0; i < n; i++) s->to[at + i] = base + (uint32_t)i + 1;
  }
  s->length += n;
  return ATTEND_OK;
}

attend_status aligned_put_char(attend_context *ctx, aligned_text *s, uint32_t c, uint32_t from,
                               uint32_t to) {
  char bytes[4];
  return aligned_put(ctx, s, bytes, (size_t)utf8_write(c, bytes), from, to);
}

void aligned_free(const attend_context *ctx, aligned_text *s) {
  give(ctx, s->bytes);
  give(ctx, s->from);
  give(ctx, s->to);
  *s = (aligned_text){0};
}

attend_status aligned_put_lossy(attend_context *ctx, aligned_text *s, const char *text,
                                size_t length) {
  view whole = {text, NULL, NULL, length, 0};
  uint32_t c;
  size_t kept = 0, i = 0;
  while (i < length) {
    int n = utf8_read(text + i, length - i, &c);
    if (n > 0) {
      i += (size_t)n;
      continue;
    }
    ATTEND_TRY(aligned_copy(ctx, s, &whole, kept, i));
    kept = i + (size_t)-n;
    ATTEND_TRY(aligned_put_char(ctx, s, UTF8_REPLACEMENT, (uint32_t)i, (uint32_t)kept));
    i = kept;
  }
  return aligned_copy(ctx, s, &whole, kept, length);
}
