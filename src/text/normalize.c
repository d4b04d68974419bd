/* Normalizers, one after the other, between added tokens and pre-tokenizers.
 *
 * Each step reads one aligned_text and writes another; two buffers alternate.
 */
#include "text/pattern.h"
#include "text/tokenizer.h"

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

uint32_t mapped(step_kind kind, uint32_t c) {
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
  return bytes <= s->room ? ATTEND_OK : aligned_too_long(s->ctx);
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
    out->most = s->room;
    ATTEND_TRY(put_step(s, st, &v, rough, out));
    v = aligned_view(out);
    if (v.length > longest) longest = v.length;
  }
  ATTEND_TRY(check_growth(s, longest));
  s->room -= longest;
  *result = v;
  return ATTEND_OK;
}

/* ---- characters that a step leaves alone --------------------------------- */

/* Most text is plain to most steps: looking it up costs one bit of a small table, and
 * a step is skipped if the whole text is plain to it.
 *
 * Plain holds in any context, with two exceptions: composition and SentencePiece's
 * table, where only ASCII is plain, and only before ASCII. */

static bool is_ideograph(uint32_t c) {
  return (c >= 0x3400 && c <= 0x4dbf) || (c >= 0x4e00 && c <= 0x9ffc);
}
static bool is_hangul(uint32_t c) { return c >= 0xac00 && c <= 0xd7a3; }

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

static bool is_in(const plain_set *set, uint32_t c) {
  return plain_has(set, c) || (set->ideographs && is_ideograph(c)) || (set->hangul && is_hangul(c));
}

size_t plain_end(const plain_set *set, const view *v, size_t at) {
  for (size_t n; at < v->length; at += n) {
    uint32_t c = (unsigned char)v->bytes[at];
    n = 1;
    if (c >= 0x80) n = utf8_next(v->bytes + at, v->length - at, &c);
    if (!is_in(set, c)) break;
  }
  return at;
}

size_t rough_end(const plain_set *set, const view *v, size_t at) {
  for (size_t n; at < v->length; at += n) {
    uint32_t c;
    n = utf8_next(v->bytes + at, v->length - at, &c);
    if (is_in(set, c)) break;
  }
  return at;
}
