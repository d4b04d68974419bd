/* Unicode normalization forms NFC, NFD, NFKC, NFKD, with alignments to the original.
 *
 * utf8proc has the decompositions and the pairs that compose. Canonical ordering and
 * composition are done here, because utf8proc's own pass loses the alignment.
 */
#include <utf8proc.h>

#include "text/tokenizer.h"

enum { LONGEST_DECOMPOSITION = 32 }; /* U+FDFA has 18 */

static int order_of(uint32_t c) {
  return c < 0x300 ? 0 : utf8proc_get_property((utf8proc_int32_t)c)->combining_class;
}

static attend_status put_glyph(attend_context *ctx, scratch *s, size_t *count, glyph g) {
  ATTEND_TRY(grow(ctx, &s->glyphs, &s->glyph_capacity, *count + 1, sizeof *s->glyphs, "a text"));
  g.order = order_of(g.c);
  s->glyphs[(*count)++] = g;
  return ATTEND_OK;
}

/* Ideographs, the most frequent characters beyond ASCII, do not decompose. */
static bool has_parts(uint32_t c) { return c >= 0xa0 && !(c >= 0x3400 && c <= 0x9fff); }

static size_t parts_of(uint32_t c, bool compat, utf8proc_int32_t parts[LONGEST_DECOMPOSITION]) {
  int options = UTF8PROC_DECOMPOSE | (compat ? UTF8PROC_COMPAT : 0);
  int boundary = 0;
  utf8proc_ssize_t k = 1;
  parts[0] = (utf8proc_int32_t)c;
  if (has_parts(c))
    k = utf8proc_decompose_char((utf8proc_int32_t)c, parts, LONGEST_DECOMPOSITION, options,
                                &boundary);
  return k < 0 || k > LONGEST_DECOMPOSITION ? 1 : (size_t)k;
}

bool has_no_parts(uint32_t c, bool compat) {
  utf8proc_int32_t parts[LONGEST_DECOMPOSITION];
  return parts_of(c, compat, parts) == 1 && parts[0] == (utf8proc_int32_t)c && !order_of(c);
}

static attend_status decompose(attend_context *ctx, scratch *s, bool compat, const view *v,
                               size_t *count) {
  for (size_t i = 0, n; i < v->length; i += n) {
    utf8proc_int32_t parts[LONGEST_DECOMPOSITION];
    uint32_t c;
    n = utf8_next(v->bytes + i, v->length - i, &c);
    glyph g = {c, view_from(v, i), view_to(v, i + n - 1), 0};
    size_t k = parts_of(c, compat, parts);
    for (size_t j = 0; j < k; j++) {
      g.c = (uint32_t)parts[j];
      ATTEND_TRY(put_glyph(ctx, s, count, g));
    }
  }
  return ATTEND_OK;
}

/* Canonical ordering: a stable sort by combining class. Runs are short in real text;
 * very long ones are sorted in parts, so that time stays linear. */
static void sort_marks(glyph *g, size_t n) {
  for (size_t i = 1; i < n; i++) {
    glyph x = g[i];
    size_t j = i;
    for (; j && g[j - 1].order > x.order; j--) g[j] = g[j - 1];
    g[j] = x;
  }
}

static void reorder(glyph *g, size_t count) {
  enum { LONGEST_RUN = 256 };
  for (size_t i = 0; i < count;) {
    if (!g[i].order) {
      i++;
      continue;
    }
    size_t end = i;
    while (end < count && g[end].order && end - i < LONGEST_RUN) end++;
    sort_marks(g + i, end - i);
    i = end;
  }
}

/* What may compose with the character before it: marks, the later letters of a Hangul
 * syllable, the vowels of Kirat Rai. */
static bool is_joining(uint32_t b) {
  return is_mark(b) || (b >= 0x1161 && b <= 0x11c2) || (b >= 0x16d63 && b <= 0x16d6a);
}

/* The character that two compose to, or 0. */
static uint32_t composed(uint32_t a, uint32_t b) {
  utf8proc_int32_t pair[2] = {(utf8proc_int32_t)a, (utf8proc_int32_t)b};
  if (!is_joining(b)) return 0;
  utf8proc_ssize_t n = utf8proc_normalize_utf32(pair, 2, UTF8PROC_COMPOSE | UTF8PROC_STABLE);
  return n == 1 ? (uint32_t)pair[0] : 0;
}

static size_t compose(glyph *g, size_t count) {
  size_t kept = 0, starter = SIZE_MAX;
  for (size_t i = 0; i < count; i++) {
    int last = kept ? g[kept - 1].order : 0;
    bool beside = starter != SIZE_MAX && starter + 1 == kept;
    bool open = starter != SIZE_MAX && (beside || last < g[i].order);
    uint32_t c = open ? composed(g[starter].c, g[i].c) : 0;
    if (c) {
      g[starter].c = c;
      if (g[i].from < g[starter].from) g[starter].from = g[i].from;
      if (g[i].to > g[starter].to) g[starter].to = g[i].to;
      continue;
    }
    if (!g[i].order) starter = kept;
    g[kept++] = g[i];
  }
  return kept;
}

static attend_status put_glyphs(attend_context *ctx, scratch *s, step_kind form, const view *v,
                                aligned_text *out) {
  size_t count = 0;
  bool compat = form == STEP_NFKC || form == STEP_NFKD;
  ATTEND_TRY(decompose(ctx, s, compat, v, &count));
  reorder(s->glyphs, count);
  if (form == STEP_NFC || form == STEP_NFKC) count = compose(s->glyphs, count);
  for (size_t i = 0; i < count; i++)
    ATTEND_TRY(aligned_put_char(ctx, out, s->glyphs[i].c, s->glyphs[i].from, s->glyphs[i].to));
  return ATTEND_OK;
}

/* Plain text is copied. Only its last character, which is ASCII, may compose with
 * what follows. */
attend_status put_normal_form(attend_context *ctx, scratch *s, const step *st, const view *v,
                              size_t rough, aligned_text *out) {
  bool joins = st->kind == STEP_NFC || st->kind == STEP_NFKC;
  for (size_t i = 0, end; i < v->length; i = end) {
    size_t plain = i ? plain_end(st->plain, v, i) : rough;
    end = rough_end(st->plain, v, plain);
    if (joins && plain > i && end > plain) plain--;
    view rest = view_slice(v, plain, end);
    ATTEND_TRY(aligned_copy(ctx, out, v, i, plain));
    if (rest.length) ATTEND_TRY(put_glyphs(ctx, s, st->kind, &rest, out));
  }
  return ATTEND_OK;
}
