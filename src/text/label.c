/* A token as people read it: spaces, line ends and single bytes that a vocabulary writes in a
 * code of its own (Ġ, Ċ, ▁, <0xE2>, ##) become signs that say what they are.
 */
#define _GNU_SOURCE /* memmem */
#include <stdio.h>
#include <string.h>

#include "text/tokenizer.h"

static const char SPACE_MARK[] = "\xe2\x96\x81"; /* SentencePiece's, U+2581 */

enum { SIGN = 16 }; /* bytes of one character's sign, its end included */

typedef struct {
  char *text;
  size_t size, length;
} label;

/* Only whole signs: a label that is too long is cut between characters. */
static bool add(label *to, const char *sign, size_t length) {
  bool fits = to->length + length + 1 <= to->size;
  if (!fits) return false;
  memcpy(to->text + to->length, sign, length);
  to->length += length;
  to->text[to->length] = 0;
  return true;
}

static bool is_unseen(uint32_t c) {
  return c < 0x20 || (c >= 0x7f && c < 0xa0) || (c >= 0x200b && c <= 0x200f) ||
         (c >= 0x2028 && c <= 0x202e) || c == 0xfeff;
}

/* The character at s, of `n` bytes; those that no screen shows are named. */
static bool add_character(label *to, const char *s, size_t n, uint32_t c) {
  char sign[SIGN];
  const char *known = c == ' ' ? "␣" : c == '\n' ? "↵" : c == '\t' ? "⇥" : c == '\r' ? "␍" : NULL;
  if (known) return add(to, known, strlen(known));
  if (!is_unseen(c)) return add(to, s, n);
  return add(to, sign, (size_t)snprintf(sign, sizeof sign, "⟨U+%04X⟩", (unsigned)c));
}

/* Bytes that are no character, or a part of one: "⟨E2⟩⟨80⟩". */
static bool add_bytes(label *to, const char *s, size_t n) {
  for (size_t i = 0; i < n; i++) {
    char sign[SIGN];
    int length = snprintf(sign, sizeof sign, "⟨%02X⟩", (unsigned)(unsigned char)s[i]);
    if (!add(to, sign, (size_t)length)) return false;
  }
  return true;
}

static void add_text(label *to, const char *s, size_t n) {
  for (size_t i = 0; i < n;) {
    uint32_t c;
    int length = utf8_read(s + i, n - i, &c);
    size_t bytes = length > 0 ? (size_t)length : c == UTF8_OPEN ? n - i : (size_t)-length;
    if (!(length > 0 ? add_character(to, s + i, bytes, c) : add_bytes(to, s + i, bytes))) return;
    i += bytes;
  }
}

/* ---- what a vocabulary's spelling stands for --------------------------------------------- */

static bool starts(chars s, const char *with, size_t length) {
  return length && s.length > length && !memcmp(s.bytes, with, length);
}

static bool is_marked(const attend_tokenizer *t, chars s) {
  return starts(s, " ", 1) ||
         (!t->model.byte_level && starts(s, SPACE_MARK, sizeof SPACE_MARK - 1));
}

static void drop(chars *s, size_t n) {
  s->bytes += n;
  s->length -= n;
}

/* SentencePiece writes spaces as U+2581. */
static void add_pieces(label *to, chars s) {
  const size_t mark = sizeof SPACE_MARK - 1;
  while (s.length) {
    const char *next = memmem(s.bytes, s.length, SPACE_MARK, mark);
    size_t n = next ? (size_t)(next - s.bytes) : s.length;
    add_text(to, s.bytes, n);
    drop(&s, n);
    if (!next) return;
    add(to, "␣", strlen("␣"));
    drop(&s, mark);
  }
}

static void add_piece(const attend_tokenizer *t, label *to, chars s) {
  const chars prefix = t->model.prefix, suffix = t->model.suffix;
  if (is_marked(t, s)) {
    add(to, "·", strlen("·"));
    drop(&s, *s.bytes == ' ' ? 1 : sizeof SPACE_MARK - 1);
  } else if (starts(s, prefix.bytes, prefix.length)) {
    add(to, "–", strlen("–"));
    drop(&s, prefix.length);
  }
  bool ends = starts(s, s.bytes, suffix.length) &&
              !memcmp(s.bytes + s.length - suffix.length, suffix.bytes, suffix.length);
  if (ends) s.length -= suffix.length;
  if (t->model.byte_level)
    add_text(to, s.bytes, s.length);
  else
    add_pieces(to, s);
}

size_t attend_tokenizer_label(const attend_tokenizer *t, int32_t id, char *text, size_t size) {
  label to = {text, size, 0};
  chars s = {NULL, 0};
  if (!size) return 0;
  *text = 0;
  s.bytes = attend_tokenizer_piece(t, id, &s.length);
  if (!s.bytes) {
    snprintf(text, size, "%d", (int)id);
    return strlen(text);
  }
  int byte = t->model.byte_level ? -1 : byte_piece(s.bytes, s.length);
  char one = (char)byte;
  if (t->model.byte_level) s = t->vocab.piece[id].key;
  if (byte >= 0)
    add_text(&to, &one, 1);
  else
    add_piece(t, &to, s);
  if (!to.length) add(&to, "∅", strlen("∅"));
  return to.length;
}

size_t attend_piece_label(const char *token, size_t length, char *text, size_t size) {
  label to = {text, size, 0};
  chars s = {token, length};
  bool spaced = starts(s, " ", 1), marked = starts(s, SPACE_MARK, sizeof SPACE_MARK - 1);
  if (!size) return 0;
  *text = 0;
  if (spaced || marked) {
    add(&to, "·", strlen("·"));
    drop(&s, spaced ? 1 : sizeof SPACE_MARK - 1);
  } else if (starts(s, "##", 2)) {
    add(&to, "–", strlen("–"));
    drop(&s, 2);
  }
  add_pieces(&to, s);
  if (!to.length) add(&to, "∅", strlen("∅"));
  return to.length;
}
