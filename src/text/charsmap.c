/* SentencePiece's normalization: a table of replacements, then its spaces.
 *
 * Place: text/ - two normalizers. The table is a double-array trie (Darts):
 * each unit holds a label, an offset to its children and whether a value
 * follows; a value is a place among strings that end in zero bytes. It comes
 * from a file, so every index is checked on the way.
 */
#include "text/tokenizer.h"

static uint32_t unit_label(uint32_t unit) { return unit & (1u << 31 | 0xff); }
static uint32_t unit_offset(uint32_t unit) {
  return (unit >> 10) << ((unit & (1u << 9)) >> 6);
}

/* blob: bytes of the array, the array, the strings. It is copied nowhere and
 * must be aligned to 4. */
attend_status charsmap_check(attend_context *ctx, const char *what,
                             const char *blob, size_t length, charsmap *map) {
  uint32_t bytes;
  *map = (charsmap){0};
  if (!length) return ATTEND_OK;
  if (length < 4) goto lies;
  memcpy(&bytes, blob, 4);
  if (bytes > length - 4 || bytes % 4 || !bytes) goto lies;
  map->unit = (const uint32_t *)(const void *)(blob + 4);
  map->units = bytes / 4;
  map->text = blob + 4 + bytes;
  map->length = length - 4 - bytes;
  if (!map->length || map->text[map->length - 1] ||
      !utf8_is_valid(map->text, map->length))
    goto lies;
  return ATTEND_OK;
lies:
  return fail(ctx, ATTEND_IO,
              "%s: the table of character replacements does not have the "
              "length it says: get the file anew",
              what);
}

static bool is_inside(char c) { return ((unsigned char)c & 0xc0) == 0x80; }

/* The longest entry that starts the text: its length, 0 if there is none. What
 * ends or starts inside a character is no entry: text stays UTF-8. */
static size_t find_entry(const charsmap *m, const char *s, size_t n,
                         const char **with) {
  size_t best = 0, at = 0;
  if (!m->units) return 0;
  at ^= unit_offset(m->unit[0]);
  for (size_t i = 0; i < n; i++) {
    unsigned char byte = (unsigned char)s[i];
    at ^= byte;
    if (at >= m->units || unit_label(m->unit[at]) != byte) break;
    uint32_t unit = m->unit[at];
    at ^= unit_offset(unit);
    if (!(unit >> 8 & 1)) continue;
    if (at >= m->units) break;
    uint32_t value = m->unit[at] & 0x7fffffff;
    if (value >= m->length) break;
    if (is_inside(m->text[value]) || (i + 1 < n && is_inside(s[i + 1])))
      continue;
    *with = m->text + value;
    best = i + 1;
  }
  return best;
}

attend_status put_charsmap(attend_context *ctx, const charsmap *map,
                           const view *v, strand *out) {
  for (size_t i = 0, n; i < v->length; i += n) {
    const char *with;
    uint32_t c;
    n = find_entry(map, v->bytes + i, v->length - i, &with);
    if (n) {
      ATTEND_TRY(strand_put(ctx, out, with, strlen(with), view_from(v, i),
                            view_to(v, i + n - 1)));
      continue;
    }
    n = utf8_next(v->bytes + i, v->length - i, &c);
    ATTEND_TRY(strand_copy(ctx, out, v, i, i + n));
  }
  return ATTEND_OK;
}

/* ---- spaces ------------------------------------------------------------------- */

attend_status put_sp_spaces(attend_context *ctx, const step *st, const view *v,
                            strand *out) {
  static const char mark[] = "\xe2\x96\x81";
  const char *space = st->escape ? mark : " ";
  size_t width = strlen(space), start = 0, end = v->length;
  while (st->squeeze && start < end && v->bytes[start] == ' ') start++;
  while (st->squeeze && end > start && v->bytes[end - 1] == ' ') end--;
  if (start == end) return ATTEND_OK;
  uint32_t from = view_from(v, start);
  if (st->prefix) ATTEND_TRY(strand_put(ctx, out, space, width, from, from));
  for (size_t i = start; i < end; i++) {
    if (v->bytes[i] != ' ') {
      ATTEND_TRY(strand_copy(ctx, out, v, i, i + 1));
      continue;
    }
    if (st->squeeze && v->bytes[i - 1] == ' ') {
      out->to[out->length - 1] = view_to(v, i);
      continue;
    }
    ATTEND_TRY(
        strand_put(ctx, out, space, width, view_from(v, i), view_to(v, i)));
  }
  return ATTEND_OK;
}
