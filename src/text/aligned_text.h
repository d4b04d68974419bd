/* Text with alignments: every byte knows which bytes of the original it stands for.
 *
 * Normalizers and pre-tokenizers rewrite it; tokens get their offsets from it (Hugging
 * Face's NormalizedString).
 *
 * Every byte carries the range [from, to) of the original that it stands for. Bytes
 * that a step inserted (a prefix mark) carry an empty range. A view without ranges is
 * the original itself, from `base` on.
 */
#ifndef TEXT_ALIGNED_TEXT_H
#define TEXT_ALIGNED_TEXT_H

#include <string.h>

#include "base/base.h"
#include "text/unicode.h"

typedef struct {
  uint32_t start, end;
} span;

typedef struct {
  const char *bytes;
  const uint32_t *from, *to; /* [length], or NULL: base + i, base + i + 1 */
  size_t length;
  uint32_t base;
} view;

typedef struct { /* a view with room to grow */
  char *bytes;
  uint32_t *from, *to;
  size_t length, capacity;
  size_t most; /* that it may grow to; what it has already it may use */
} aligned_text;

static inline uint32_t view_from(const view *v, size_t i) {
  return v->from ? v->from[i] : v->base + (uint32_t)i;
}
static inline uint32_t view_to(const view *v, size_t i) {
  return v->to ? v->to[i] : v->base + (uint32_t)i + 1;
}
static inline view view_slice(const view *v, size_t start, size_t end) {
  view s = {v->bytes ? v->bytes + start : NULL, v->from ? v->from + start : NULL,
            v->to ? v->to + start : NULL, end - start, v->base + (uint32_t)start};
  return s;
}
static inline view aligned_view(const aligned_text *s) {
  return (view){s->bytes, s->from, s->to, s->length, 0};
}

/* What steps may make of a text: so many times its bytes, and some for
 * prefixes. NFKD makes 33 bytes of the 3 of U+FDFA, and no character grows
 * more. */
enum { MOST_GROWTH = 32, MOST_PREFIXES = 1 << 16 };
/* Fails: steps have made more of a text. */
attend_status aligned_too_long(attend_context *ctx);

/* Appends bytes that all stand for the same range. */
attend_status aligned_put(attend_context *ctx, aligned_text *s, const char *bytes, size_t length,
                          uint32_t from, uint32_t to);
/* Appends bytes [start, end) of a view, ranges and all. */
attend_status aligned_copy(attend_context *ctx, aligned_text *s, const view *v, size_t start,
                           size_t end);
attend_status aligned_put_char(attend_context *ctx, aligned_text *s, uint32_t c, uint32_t from,
                               uint32_t to);
void aligned_free(const attend_context *ctx, aligned_text *s);

/* Appends the text with malformed bytes replaced as Rust and Python do. */
attend_status aligned_put_lossy(attend_context *ctx, aligned_text *s, const char *text,
                                size_t length);

#endif
