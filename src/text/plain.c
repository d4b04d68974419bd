/* Characters that a normalizer leaves alone.
 *
 * Beside normalize.c. Most text is plain to most steps: a look into a small table is
 * all that it costs, and a step to which a whole text is plain is left out.
 *
 * Plain means wherever it stands, save for what composes and for
 * SentencePiece's table: there only ASCII is plain, and only before ASCII.
 */
#include "text/tokenizer.h"

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
  ATTEND_TRY(
      pool_copy(t->ctx, &t->pool, (const char *)&set, sizeof set, &kept));
  st->plain = (const plain_set *)(const void *)kept;
  return ATTEND_OK;
}

static bool is_in(const plain_set *set, uint32_t c) {
  return plain_has(set, c) || (set->ideographs && is_ideograph(c)) ||
         (set->hangul && is_hangul(c));
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
