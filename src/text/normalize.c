/* Normalizers, one after the other.
 *
 * Between the added tokens and the pre-tokenizers. Each step reads one strand and
 * writes another; two take turns.
 */
#include "text/pattern.h"

/* ---- character by character ----------------------------------------------------- */

static uint32_t clean(uint32_t c) {
  if (c == 0 || c == UTF8_REPLACEMENT || is_control(c)) return UTF8_BAD;
  return is_space(c) ? ' ' : c;
}

/* What the normalizer of SentencePiece's "nmt" rules does by itself. */
static uint32_t clean_nmt(uint32_t c) {
  if ((c >= 1 && c <= 8) || c == 0xb || (c >= 0xe && c <= 0x1f) || c == 0x7f ||
      c == 0x8f || c == 0x9f)
    return UTF8_BAD;
  if (c == 9 || c == 0xa || c == 0xc || c == 0xd || c == 0x1680 ||
      (c >= 0x200b && c <= 0x200f) || c == 0x2028 || c == 0x2029 ||
      c == 0x2581 || c == 0xfeff || c == UTF8_REPLACEMENT)
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

/* Stretches that stay are copied as a whole. */
static attend_status put_mapped(attend_context *ctx, const step *st,
                                const view *v, size_t rough, strand *out) {
  step_kind kind = st->kind;
  size_t kept = 0;
  for (size_t i = rough, n; i < v->length; i = plain_end(st->plain, v, i + n)) {
    uint32_t c;
    n = utf8_next(v->bytes + i, v->length - i, &c);
    uint32_t d = mapped(kind, c);
    if (d == c) continue;
    ATTEND_TRY(strand_copy(ctx, out, v, kept, i));
    kept = i + n;
    uint32_t from = view_from(v, i), to = view_to(v, i + n - 1);
    if (d != UTF8_BAD) ATTEND_TRY(strand_put_char(ctx, out, d, from, to));
    if (kind == STEP_LOWERCASE && c == 0x130) /* the one that becomes two */
      ATTEND_TRY(strand_put_char(ctx, out, 0x307, from, to));
  }
  return strand_copy(ctx, out, v, kept, v->length);
}

static attend_status put_chinese(attend_context *ctx, const step *st,
                                 const view *v, size_t rough, strand *out) {
  size_t kept = 0;
  for (size_t i = rough, n; i < v->length; i = plain_end(st->plain, v, i + n)) {
    uint32_t c;
    n = utf8_next(v->bytes + i, v->length - i, &c);
    if (!is_chinese(c)) continue;
    uint32_t from = view_from(v, i), to = view_to(v, i + n - 1);
    ATTEND_TRY(strand_copy(ctx, out, v, kept, i));
    ATTEND_TRY(strand_put(ctx, out, " ", 1, from, from));
    ATTEND_TRY(strand_copy(ctx, out, v, i, i + n));
    ATTEND_TRY(strand_put(ctx, out, " ", 1, to, to));
    kept = i + n;
  }
  return strand_copy(ctx, out, v, kept, v->length);
}

/* ---- replacing, stripping, prepending -------------------------------------------- */

static attend_status put_instead(attend_context *ctx, const step *st,
                                 const view *v, span m, strand *out) {
  uint32_t from = m.start < v->length ? view_from(v, m.start)
                  : v->length         ? view_to(v, v->length - 1)
                                      : v->base;
  uint32_t to = m.end > m.start ? view_to(v, m.end - 1) : from;
  return strand_put(ctx, out, st->text.bytes, st->text.length, from, to);
}

/* An empty match right behind another is none. */
static attend_status put_replaced(scratch *s, const step *st, const view *v,
                                  strand *out) {
  size_t at = 0, kept = 0;
  bool found, again = false;
  while (at <= v->length) {
    span m;
    uint32_t c;
    ATTEND_TRY(
        pattern_next(s, st->pattern, v->bytes, v->length, at, &m, &found));
    if (!found) break;
    bool empty = m.end == m.start;
    if (!empty || !again || m.start > kept) {
      ATTEND_TRY(strand_copy(s->ctx, out, v, kept, m.start));
      ATTEND_TRY(put_instead(s->ctx, st, v, m, out));
      kept = m.end;
      again = true;
    }
    at = m.end;
    if (empty)
      at += at < v->length ? utf8_next(v->bytes + at, v->length - at, &c) : 1;
  }
  return strand_copy(s->ctx, out, v, kept, v->length);
}

static attend_status put_stripped(attend_context *ctx, const step *st,
                                  const view *v, strand *out) {
  size_t start = 0, end = v->length, n;
  uint32_t c;
  while (st->left && start < end) {
    n = utf8_next(v->bytes + start, end - start, &c);
    if (!is_space(c)) break;
    start += n;
  }
  while (st->right && end > start) {
    size_t last = end - 1;
    while (last > start && ((unsigned char)v->bytes[last] & 0xc0) == 0x80)
      last--;
    utf8_next(v->bytes + last, end - last, &c);
    if (!is_space(c)) break;
    end = last;
  }
  return strand_copy(ctx, out, v, start, end);
}

static attend_status put_prepended(attend_context *ctx, const scratch *s,
                                   const step *st, const view *v, strand *out) {
  if (!v->length) return ATTEND_OK;
  uint32_t from = view_from(v, 0);
  if (s->first)
    ATTEND_TRY(
        strand_put(ctx, out, st->text.bytes, st->text.length, from, from));
  return strand_copy(ctx, out, v, 0, v->length);
}

/* ---- the list -------------------------------------------------------------------- */

/* rough: where the first character stands that the step may touch. */
static attend_status put_step(scratch *s, const step *st, const view *v,
                              size_t rough, strand *out) {
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
  return bytes <= s->room ? ATTEND_OK : strand_too_long(s->ctx);
}

/* Takes as much room as the text is long at its longest: what a step shortens
 * again has been work. */
attend_status normalize(const attend_tokenizer *t, scratch *s, view v,
                        view *result) {
  int turn = 0;
  size_t longest = v.length;
  for (size_t i = 0; i < t->normalizers.count; i++) {
    const step *st = &t->normalizers.step[i];
    strand *out = &s->text[turn];
    size_t rough = plain_end(st->plain, &v, 0);
    if (v.length && rough == v.length) continue;
    turn = !turn;
    out->length = 0;
    out->most = s->room;
    ATTEND_TRY(put_step(s, st, &v, rough, out));
    v = strand_view(out);
    if (v.length > longest) longest = v.length;
  }
  ATTEND_TRY(check_growth(s, longest));
  s->room -= longest;
  *result = v;
  return ATTEND_OK;
}
