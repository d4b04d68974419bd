/* GPT-2's alphabet: every byte as a character that can be printed.
 *
 * Vocabularies of byte-level models are written in it. Printable Latin-1 stands for
 * itself; the other 68 bytes are U+0100 and on, in order.
 */
#include "text/tokenizer.h"

static bool is_itself(unsigned b) {
  return (b >= '!' && b <= '~') || (b >= 0xa1 && b <= 0xac) ||
         (b >= 0xae && b <= 0xff);
}

uint32_t byte_char(unsigned char byte) {
  if (is_itself(byte)) return byte;
  uint32_t c = 0x100;
  for (unsigned b = 0; b < byte; b++) c += !is_itself(b);
  return c;
}

/* -1: the character stands for no byte. */
static int byte_of(uint32_t c) {
  if (c < 0x100) return is_itself(c) ? (int)c : -1;
  if (c <= 0x120) return (int)c - 0x100;        /* 00 to 20 */
  if (c <= 0x142) return (int)c - 0x121 + 0x7f; /* 7f to a0 */
  return c == 0x143 ? 0xad : -1;
}

bool bytes_of_piece(const char *name, size_t length, char *out, size_t *n) {
  *n = 0;
  for (size_t i = 0; i < length;) {
    uint32_t c;
    i += utf8_next(name + i, length - i, &c);
    int byte = byte_of(c);
    if (byte < 0) return false;
    out[(*n)++] = (char)byte;
  }
  return true;
}
