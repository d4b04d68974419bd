/* Normalizers, one after the other, between added tokens and pre-tokenizers.
 *
 * Each step reads one aligned_text and writes another; two buffers alternate.
 */
#include <utf8proc.h>

#include "text/tokenizer.h"

/* ---- text with alignments ---------------------------------------------------------- */

static attend_status aligned_too_long(attend_context *ctx) {
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
  if (needed > s->max) return aligned_too_long(ctx);
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
  ctx_free(ctx, s->bytes);
  ctx_free(ctx, s->from);
  ctx_free(ctx, s->to);
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

/* ---- characters that a step leaves alone ------------------------------------------- */

/* Most text is plain to most steps: looking it up costs one bit of a small table, and
 * a step is skipped if the whole text is plain to it.
 *
 * Plain holds in any context, with two exceptions: composition and SentencePiece's
 * table, where only ASCII is plain, and only before ASCII. */

static bool is_ideograph(uint32_t c) {
  return (c >= 0x3400 && c <= 0x4dbf) || (c >= 0x4e00 && c <= 0x9ffc);
}
static bool is_hangul(uint32_t c) { return c >= 0xac00 && c <= 0xd7a3; }

static bool is_in(const plain_set *set, uint32_t c) {
  return plain_has(set, c) || (set->ideographs && is_ideograph(c)) || (set->hangul && is_hangul(c));
}

static size_t plain_end(const plain_set *set, const view *v, size_t at) {
  for (size_t n; at < v->length; at += n) {
    uint32_t c = (unsigned char)v->bytes[at];
    n = 1;
    if (c >= 0x80) n = utf8_next(v->bytes + at, v->length - at, &c);
    if (!is_in(set, c)) break;
  }
  return at;
}

static size_t rough_end(const plain_set *set, const view *v, size_t at) {
  for (size_t n; at < v->length; at += n) {
    uint32_t c;
    n = utf8_next(v->bytes + at, v->length - at, &c);
    if (is_in(set, c)) break;
  }
  return at;
}

/* ---- normalization forms NFC, NFD, NFKC, NFKD -------------------------------------- */

/* utf8proc has the decompositions and the pairs that compose. Canonical ordering and
 * composition are done here, because utf8proc's own pass loses the alignment. */

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

static bool has_no_parts(uint32_t c, bool compat) {
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
static attend_status put_normal_form(attend_context *ctx, scratch *s, const step *st, const view *v,
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

/* ---- SentencePiece's normalization ------------------------------------------------- */

/* A table of replacements (precompiled_charsmap), then the handling of spaces.
 *
 * The table is a double-array trie (Darts): each unit holds a label, an offset to its
 * children and whether a value follows; a value is an offset into zero-terminated
 * strings. It comes from a file, so every index is checked, and the depth is bounded
 * by the longest piece: units may form a cycle. */

static uint32_t unit_label(uint32_t unit) { return unit & (1u << 31 | 0xff); }
static uint32_t unit_offset(uint32_t unit) { return (unit >> 10) << ((unit & (1u << 9)) >> 6); }

/* blob: the size of the array in bytes, the array, the strings. It is not copied and
 * must be aligned to 4. */
attend_status charsmap_check(attend_context *ctx, const char *what, const char *blob, size_t length,
                             charsmap *map) {
  uint32_t bytes;
  *map = (charsmap){0};
  if (!length) return ATTEND_OK;
  if (length < 4) goto malformed;
  memcpy(&bytes, blob, 4);
  if (bytes > length - 4 || bytes % 4 || !bytes) goto malformed;
  map->unit = (const uint32_t *)(const void *)(blob + 4);
  map->units = bytes / 4;
  map->text = blob + 4 + bytes;
  map->length = length - 4 - bytes;
  if (!map->length || map->text[map->length - 1] || !utf8_is_valid(map->text, map->length))
    goto malformed;
  return ATTEND_OK;
malformed:
  return fail(ctx, ATTEND_IO,
              "%s: the table of character replacements does not have the "
              "length it says: get the file anew",
              what);
}

static bool is_inside(char c) { return ((unsigned char)c & 0xc0) == 0x80; }

/* Length of the longest entry that is a prefix of the text, 0 if there is none.
 * Entries that end inside a character are skipped: text stays UTF-8. */
static size_t find_entry(const charsmap *m, const char *s, size_t n, const char **with) {
  size_t best = 0, at = 0;
  if (!m->units) return 0;
  at ^= unit_offset(m->unit[0]);
  for (size_t i = 0; i < n && i < LONGEST_PIECE; i++) {
    unsigned char byte = (unsigned char)s[i];
    at ^= byte;
    if (at >= m->units || unit_label(m->unit[at]) != byte) break;
    uint32_t unit = m->unit[at];
    at ^= unit_offset(unit);
    if (!(unit >> 8 & 1)) continue;
    if (at >= m->units) break;
    uint32_t value = m->unit[at] & 0x7fffffff;
    if (value >= m->length) break;
    if (is_inside(m->text[value]) || (i + 1 < n && is_inside(s[i + 1]))) continue;
    *with = m->text + value;
    best = i + 1;
  }
  return best;
}

/* Whether an entry starts with these bytes. */
static bool has_prefix(const charsmap *m, const char *s, size_t n) {
  if (!m->units) return false;
  size_t at = unit_offset(m->unit[0]);
  for (size_t i = 0; i < n; i++) {
    at ^= (unsigned char)s[i];
    if (at >= m->units || unit_label(m->unit[at]) != (unsigned char)s[i]) return false;
    at ^= unit_offset(m->unit[at]);
  }
  return true;
}

static bool charsmap_leaves(const charsmap *m, unsigned char c) {
  char text[2] = {(char)c, 0};
  const char *with;
  if (find_entry(m, text, 1, &with)) return false;
  for (int next = 0; next < 0x80; next++) {
    text[1] = (char)next;
    if (has_prefix(m, text, 2)) return false;
  }
  return true;
}

/* Whether some unit has a child with that label. Units that are not nodes are checked
 * too, so there may be false positives but no false negatives. */
bool charsmap_holds(const charsmap *m, unsigned char byte) {
  for (size_t i = 1; i < m->units; i++) {
    size_t at = i ^ unit_offset(m->unit[i]) ^ byte;
    if (at < m->units && unit_label(m->unit[at]) == byte) return true;
  }
  return false;
}

static attend_status put_charsmap(attend_context *ctx, const step *st, const view *v,
                                  aligned_text *out) {
  size_t kept = 0;
  for (size_t i = 0, n; i < v->length; i += n) {
    const char *with;
    uint32_t c;
    unsigned char first = (unsigned char)v->bytes[i];
    bool followed = i + 1 < v->length && (unsigned char)v->bytes[i + 1] >= 0x80;
    n = 1;
    if (first < 0x80 && !followed && plain_has(st->plain, first)) continue;
    n = find_entry(&st->map, v->bytes + i, v->length - i, &with);
    if (!n) {
      n = utf8_next(v->bytes + i, v->length - i, &c);
      continue;
    }
    ATTEND_TRY(aligned_copy(ctx, out, v, kept, i));
    ATTEND_TRY(aligned_put(ctx, out, with, strlen(with), view_from(v, i), view_to(v, i + n - 1)));
    kept = i + n;
  }
  return aligned_copy(ctx, out, v, kept, v->length);
}

/* In a chunk that is not the first or last of its text, leading or trailing spaces
 * are inner ones. */
static attend_status put_sp_spaces(attend_context *ctx, const scratch *s, const step *st,
                                   const view *v, aligned_text *out) {
  static const char mark[] = "\xe2\x96\x81";
  const char *space = st->escape ? mark : " ";
  size_t width = strlen(space), start = 0, end = v->length;
  while (st->squeeze && s->first && start < end && v->bytes[start] == ' ') start++;
  while (st->squeeze && s->last && end > start && v->bytes[end - 1] == ' ') end--;
  if (start == end) return ATTEND_OK;
  uint32_t from = view_from(v, start);
  if (st->prefix && s->first) ATTEND_TRY(aligned_put(ctx, out, space, width, from, from));
  for (size_t i = start, next; i < end; i = next + 1) {
    const char *found = memchr(v->bytes + i, ' ', end - i);
    next = found ? (size_t)(found - v->bytes) : end;
    ATTEND_TRY(aligned_copy(ctx, out, v, i, next));
    if (!found) break;
    if (st->squeeze && next > start && v->bytes[next - 1] == ' ') {
      out->to[out->length - 1] = view_to(v, next);
      continue;
    }
    ATTEND_TRY(aligned_put(ctx, out, space, width, view_from(v, next), view_to(v, next)));
  }
  return ATTEND_OK;
}

/* ---- character by character ----------------------------------------------------- */

static uint32_t clean(uint32_t c) {
  if (c == 0 || c == UTF8_REPLACEMENT || is_control(c)) return UTF8_BAD;
  return is_space(c) ? ' ' : c;
}

/* The "nmt" rules of SentencePiece. */
static uint32_t clean_nmt(uint32_t c) {
  if ((c >= 1 && c <= 8) || c == 0xb || (c >= 0xe && c <= 0x1f) || c == 0x7f || c == 0x8f ||
      c == 0x9f)
    return UTF8_BAD;
  if (c == 9 || c == 0xa || c == 0xc || c == 0xd || c == 0x1680 || (c >= 0x200b && c <= 0x200f) ||
      c == 0x2028 || c == 0x2029 || c == 0x2581 || c == 0xfeff || c == UTF8_REPLACEMENT)
    return ' ';
  return c;
}

static uint32_t mapped(step_kind kind, uint32_t c) {
  switch (kind) {
    case STEP_CLEAN:
      return clean(c);
    case STEP_NMT:
      return clean_nmt(c);
    case STEP_LOWERCASE:
      return lower_of(c);
    case STEP_DROP_MARKS:
      return is_mark(c) ? UTF8_BAD : c;
    default:
      return is_nonspacing(c) ? UTF8_BAD : c;
  }
}

/* Unchanged ranges are copied as a whole. */
static attend_status put_mapped(attend_context *ctx, const step *st, const view *v, size_t rough,
                                aligned_text *out) {
  step_kind kind = st->kind;
  size_t kept = 0;
  for (size_t i = rough, n; i < v->length; i = plain_end(st->plain, v, i + n)) {
    uint32_t c;
    n = utf8_next(v->bytes + i, v->length - i, &c);
    uint32_t d = mapped(kind, c);
    if (d == c) continue;
    ATTEND_TRY(aligned_copy(ctx, out, v, kept, i));
    kept = i + n;
    uint32_t from = view_from(v, i), to = view_to(v, i + n - 1);
    if (d != UTF8_BAD) ATTEND_TRY(aligned_put_char(ctx, out, d, from, to));
    if (kind == STEP_LOWERCASE && c == 0x130) /* the one that becomes two */
      ATTEND_TRY(aligned_put_char(ctx, out, 0x307, from, to));
  }
  return aligned_copy(ctx, out, v, kept, v->length);
}

static attend_status put_chinese(attend_context *ctx, const step *st, const view *v, size_t rough,
                                 aligned_text *out) {
  size_t kept = 0;
  for (size_t i = rough, n; i < v->length; i = plain_end(st->plain, v, i + n)) {
    uint32_t c;
    n = utf8_next(v->bytes + i, v->length - i, &c);
    if (!is_chinese(c)) continue;
    uint32_t from = view_from(v, i), to = view_to(v, i + n - 1);
    ATTEND_TRY(aligned_copy(ctx, out, v, kept, i));
    ATTEND_TRY(aligned_put(ctx, out, " ", 1, from, from));
    ATTEND_TRY(aligned_copy(ctx, out, v, i, i + n));
    ATTEND_TRY(aligned_put(ctx, out, " ", 1, to, to));
    kept = i + n;
  }
  return aligned_copy(ctx, out, v, kept, v->length);
}

/* ---- replacing, stripping, prepending -------------------------------------------- */

static attend_status put_instead(attend_context *ctx, const step *st, const view *v, span m,
                                 aligned_text *out) {
  uint32_t from = m.start < v->length ? view_from(v, m.start)
                  : v->length         ? view_to(v, v->length - 1)
                                      : v->base;
  uint32_t to = m.end > m.start ? view_to(v, m.end - 1) : from;
  return aligned_put(ctx, out, st->text.bytes, st->text.length, from, to);
}

/* An empty match right after another match is ignored. */
static attend_status put_replaced(scratch *s, const step *st, const view *v, aligned_text *out) {
  size_t at = 0, kept = 0;
  bool found, again = false;
  while (at <= v->length) {
    span m;
    uint32_t c;
    ATTEND_TRY(pattern_next(s, st->pattern, v->bytes, v->length, at, &m, &found));
    if (!found) break;
    bool empty = m.end == m.start;
    if (!empty || !again || m.start > kept) {
      ATTEND_TRY(aligned_copy(s->ctx, out, v, kept, m.start));
      ATTEND_TRY(put_instead(s->ctx, st, v, m, out));
      kept = m.end;
      again = true;
    }
    at = m.end;
    if (empty) at += at < v->length ? utf8_next(v->bytes + at, v->length - at, &c) : 1;
  }
  return aligned_copy(s->ctx, out, v, kept, v->length);
}

static attend_status put_stripped(attend_context *ctx, const step *st, const view *v,
                                  aligned_text *out) {
  size_t start = 0, end = v->length, n;
  uint32_t c;
  while (st->left && start < end) {
    n = utf8_next(v->bytes + start, end - start, &c);
    if (!is_space(c)) break;
    start += n;
  }
  while (st->right && end > start) {
    size_t last = end - 1;
    while (last > start && ((unsigned char)v->bytes[last] & 0xc0) == 0x80) last--;
    utf8_next(v->bytes + last, end - last, &c);
    if (!is_space(c)) break;
    end = last;
  }
  return aligned_copy(ctx, out, v, start, end);
}

static attend_status put_prepended(attend_context *ctx, const scratch *s, const step *st,
                                   const view *v, aligned_text *out) {
  if (!v->length) return ATTEND_OK;
  uint32_t from = view_from(v, 0);
  if (s->first) ATTEND_TRY(aligned_put(ctx, out, st->text.bytes, st->text.length, from, from));
  return aligned_copy(ctx, out, v, 0, v->length);
}

static bool is_plain(const step *st, uint32_t c) {
  switch (st->kind) {
    case STEP_NFC:
    case STEP_NFKC:
      return c < 0x80;
    case STEP_NFD:
    case STEP_NFKD:
      return has_no_parts(c, st->kind == STEP_NFKD);
    case STEP_CHINESE:
      return true; /* of the table: no ideograph is in it */
    case STEP_CHARSMAP:
      return c < 0x80 && charsmap_leaves(&st->map, (unsigned char)c);
    case STEP_LOWERCASE:
    case STEP_DROP_MARKS:
    case STEP_DROP_NONSPACING:
    case STEP_CLEAN:
    case STEP_NMT:
      return mapped(st->kind, c) == c;
    default:
      return false;
  }
}

attend_status plain_find(attend_tokenizer *t, step *st) {
  plain_set set = {.ideographs = false};
  const char *kept;
  bool decomposes = st->kind == STEP_NFD || st->kind == STEP_NFKD;
  if (st->kind > STEP_NORMALIZERS) return ATTEND_OK;
  for (uint32_t c = 0; c < PLAIN_TABLE; c++)
    set.bits[c >> 6] |= (uint64_t)is_plain(st, c) << (c & 63);
  bool by_one = st->kind >= STEP_LOWERCASE && st->kind <= STEP_NMT;
  set.ideographs = by_one || decomposes;
  set.hangul = by_one || st->kind == STEP_CHINESE;
  ATTEND_TRY(pool_copy(t->ctx, &t->pool, (const char *)&set, sizeof set, &kept));
  st->plain = (const plain_set *)(const void *)kept;
  return ATTEND_OK;
}

/* ---- the list -------------------------------------------------------------------- */

/* rough: the first character that the step may change. */
static attend_status put_step(scratch *s, const step *st, const view *v, size_t rough,
                              aligned_text *out) {
  switch (st->kind) {
    case STEP_NFC:
    case STEP_NFD:
    case STEP_NFKC:
    case STEP_NFKD:
      return put_normal_form(s->ctx, s, st, v, rough, out);
    case STEP_CHINESE:
      return put_chinese(s->ctx, st, v, rough, out);
    case STEP_REPLACE:
      return put_replaced(s, st, v, out);
    case STEP_PREPEND:
      return put_prepended(s->ctx, s, st, v, out);
    case STEP_STRIP:
      return put_stripped(s->ctx, st, v, out);
    case STEP_CHARSMAP:
      return put_charsmap(s->ctx, st, v, out);
    case STEP_SP_SPACES:
      return put_sp_spaces(s->ctx, s, st, v, out);
    default:
      return put_mapped(s->ctx, st, v, rough, out);
  }
}

attend_status check_growth(const scratch *s, size_t bytes) {
  return bytes <= s->capacity ? ATTEND_OK : aligned_too_long(s->ctx);
}

/* Charges the longest intermediate text against the budget: what a later step
 * shortens again was work too. */
attend_status normalize(const attend_tokenizer *t, scratch *s, view v, view *result) {
  int turn = 0;
  size_t longest = v.length;
  for (size_t i = 0; i < t->normalizers.count; i++) {
    const step *st = &t->normalizers.step[i];
    aligned_text *out = &s->text[turn];
    size_t rough = plain_end(st->plain, &v, 0);
    if (v.length && rough == v.length) continue;
    turn = !turn;
    out->length = 0;
    out->max = s->capacity;
    ATTEND_TRY(put_step(s, st, &v, rough, out));
    v = aligned_view(out);
    if (v.length > longest) longest = v.length;
  }
  ATTEND_TRY(check_growth(s, longest));
  s->capacity -= longest;
  *result = v;
  return ATTEND_OK;
}
