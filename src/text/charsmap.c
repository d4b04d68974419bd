/* SentencePiece's normalization: a table of replacements (precompiled_charsmap), then
 * its handling of spaces.
 *
 * The table is a double-array trie (Darts): each unit holds a label, an offset to its
 * children and whether a value follows; a value is an offset into zero-terminated
 * strings. It comes from a file, so every index is checked, and the depth is bounded
 * by the longest piece: units may form a cycle.
 */
#include "text/tokenizer.h"

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

bool charsmap_leaves(const charsmap *m, unsigned char c) {
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

attend_status put_charsmap(attend_context *ctx, const step *st, const view *v, aligned_text *out) {
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

/* ---- spaces ------------------------------------------------------------------- */

/* In a chunk that is not the first or last of its text, leading or trailing spaces
 * are inner ones. */
attend_status put_sp_spaces(attend_context *ctx, const scratch *s, const step *st, const view *v,
                            aligned_text *out) {
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
