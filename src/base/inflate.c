/* Decompressing deflate (RFC 1951). Codes are canonical: short ones are found in a table by the
 * next FAST bits, longer ones by counting (as zlib's puff does).
 *
 * The input is untrusted: reads past its end, writes past the output, distances before its
 * beginning and codes that are no tree end the call.
 */
#include "base/inflate.h"

#include <string.h>

enum { FAST = 9, LONGEST = 15, LITERALS = 288, DISTANCES = 32, LENGTH_CODES = 19 };

typedef struct {
  const unsigned char *from, *from_end;
  unsigned char *to, *at, *end;
  uint64_t bits;
  int n_bits; /* in bits */
} stream;

typedef struct {
  uint16_t fast[1 << FAST];    /* symbol * 16 + length, 0: longer */
  uint16_t count[LONGEST + 1]; /* codes of each length */
  uint16_t symbol[LITERALS];   /* by code */
} codes;

/* ---- bits ---------------------------------------------------------------------------- */

/* At least 32 bits, or all that are left. */
static void refill(stream *s) {
  while (s->n_bits <= 56 && s->from < s->from_end) {
    s->bits |= (uint64_t)*s->from++ << s->n_bits;
    s->n_bits += 8;
  }
}

/* n is at most 16. False past the end. */
static bool take(stream *s, int n, unsigned *value) {
  refill(s);
  if (s->n_bits < n) return false;
  *value = (unsigned)(s->bits & ((1u << n) - 1));
  s->bits >>= n;
  s->n_bits -= n;
  return true;
}

/* ---- codes --------------------------------------------------------------------------- */

static unsigned reversed(unsigned code, int length) {
  unsigned r = 0;
  for (int i = 0; i < length; i++) r |= (code >> i & 1) << (length - 1 - i);
  return r;
}

/* False if the lengths are more than a tree holds. Fewer are allowed: a block may use one
 * distance only, and a code that is not there ends the call when it is read. */
static bool make_codes(const uint8_t *length, int n, codes *c) {
  unsigned next[LONGEST + 2] = {0}, at[LONGEST + 2] = {0}, left = 1;
  memset(c, 0, sizeof *c);
  for (int i = 0; i < n; i++) c->count[length[i]]++;
  c->count[0] = 0;
  for (int i = 1; i <= LONGEST; i++) {
    left <<= 1;
    if (c->count[i] > left) return false;
    left -= c->count[i];
    next[i + 1] = (next[i] + c->count[i]) << 1;
    at[i + 1] = at[i] + c->count[i];
  }
  for (int i = 0; i < n; i++) {
    int l = length[i];
    if (!l) continue;
    c->symbol[at[l]++] = (uint16_t)i;
    unsigned code = reversed(next[l]++, l);
    for (unsigned j = code; l <= FAST && j < 1u << FAST; j += 1u << l)
      c->fast[j] = (uint16_t)(i * 16 + l);
  }
  return true;
}

/* The next symbol, or -1. */
static int decode(stream *s, const codes *c) {
  refill(s);
  unsigned fast = c->fast[s->bits & ((1u << FAST) - 1)], code = 0, first = 0, at = 0;
  int length = fast & 15;
  if (fast && length <= s->n_bits) {
    s->bits >>= length;
    s->n_bits -= length;
    return (int)(fast >> 4);
  }
  for (length = 1; length <= LONGEST && length <= s->n_bits; length++) {
    code |= s->bits >> (length - 1) & 1;
    if (code < first + c->count[length]) {
      s->bits >>= length;
      s->n_bits -= length;
      return c->symbol[at + code - first];
    }
    at += c->count[length];
    first = (first + c->count[length]) << 1;
    code <<= 1;
  }
  return -1;
}

/* ---- blocks -------------------------------------------------------------------------- */

static bool copy_back(stream *s, size_t length, size_t distance) {
  if (distance > (size_t)(s->at - s->to) || length > (size_t)(s->end - s->at)) return false;
  const unsigned char *from = s->at - distance; /* may overlap: not memcpy */
  for (size_t i = 0; i < length; i++) s->at[i] = from[i];
  s->at += length;
  return true;
}

/* A symbol from 257 on: a length and a distance. */
static bool read_match(stream *s, int symbol, const codes *distances) {
  static const uint16_t length[29] = {3,  4,  5,  6,   7,   8,   9,   10,  11, 13,
                                      15, 17, 19, 23,  27,  31,  35,  43,  51, 59,
                                      67, 83, 99, 115, 131, 163, 195, 227, 258};
  static const uint8_t length_bits[29] = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2,
                                          2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0};
  static const uint16_t distance[30] = {
      1,   2,   3,   4,   5,   7,    9,    13,   17,   25,   33,   49,   65,    97,    129,
      193, 257, 385, 513, 769, 1025, 1537, 2049, 3073, 4097, 6145, 8193, 12289, 16385, 24577};
  unsigned more, further;
  symbol -= 257;
  if (symbol >= 29 || !take(s, length_bits[symbol], &more)) return false;
  int d = decode(s, distances);
  if (d < 0 || d >= 30 || !take(s, d < 2 ? 0 : d / 2 - 1, &further)) return false;
  return copy_back(s, length[symbol] + more, distance[d] + further);
}

static bool read_symbols(stream *s, const codes *literals, const codes *distances) {
  for (;;) {
    int symbol = decode(s, literals);
    if (symbol < 0) return false;
    if (symbol == 256) return true;
    if (symbol > 256) {
      if (!read_match(s, symbol, distances)) return false;
      continue;
    }
    if (s->at == s->end) return false;
    *s->at++ = (unsigned char)symbol;
  }
}

static bool read_stored(stream *s) {
  unsigned n, check;
  s->bits >>= s->n_bits % 8;
  s->n_bits -= s->n_bits % 8;
  if (!take(s, 16, &n) || !take(s, 16, &check) || n != (check ^ 0xffff)) return false;
  s->from -= s->n_bits / 8; /* what refill read ahead */
  s->bits = 0, s->n_bits = 0;
  if (n > (size_t)(s->from_end - s->from) || n > (size_t)(s->end - s->at)) return false;
  memcpy(s->at, s->from, n);
  s->at += n, s->from += n;
  return true;
}

static bool read_fixed(stream *s) {
  uint8_t length[LITERALS];
  codes literals, distances;
  for (int i = 0; i < LITERALS; i++) length[i] = i < 144 ? 8 : i < 256 ? 9 : i < 280 ? 7 : 8;
  make_codes(length, LITERALS, &literals);
  memset(length, 5, DISTANCES);
  make_codes(length, DISTANCES, &distances);
  return read_symbols(s, &literals, &distances);
}

/* n lengths, with runs of the last one and of zeros. */
static bool read_lengths(stream *s, const codes *c, uint8_t *length, int n) {
  for (int i = 0; i < n;) {
    int symbol = decode(s, c);
    unsigned run;
    if (symbol < 0) return false;
    if (symbol < 16) {
      length[i++] = (uint8_t)symbol;
      continue;
    }
    if ((symbol == 16 && !i) || !take(s, symbol == 16 ? 2 : symbol == 17 ? 3 : 7, &run))
      return false;
    run += symbol == 18 ? 11 : 3;
    if (run > (unsigned)(n - i)) return false;
    memset(length + i, symbol == 16 ? length[i - 1] : 0, run);
    i += (int)run;
  }
  return true;
}

static bool read_dynamic(stream *s) {
  static const uint8_t order[LENGTH_CODES] = {16, 17, 18, 0, 8,  7, 9,  6, 10, 5,
                                              11, 4,  12, 3, 13, 2, 14, 1, 15};
  uint8_t length[LITERALS + DISTANCES] = {0};
  codes literals, distances;
  unsigned n_literals, n_distances, n_lengths, bits;
  if (!take(s, 5, &n_literals) || !take(s, 5, &n_distances) || !take(s, 4, &n_lengths))
    return false;
  n_literals += 257, n_distances += 1, n_lengths += 4;
  if (n_literals > 286 || n_distances > 30) return false;
  for (unsigned i = 0; i < n_lengths; i++) {
    if (!take(s, 3, &bits)) return false;
    length[order[i]] = (uint8_t)bits;
  }
  if (!make_codes(length, LENGTH_CODES, &literals)) return false;
  memset(length, 0, sizeof length);
  return read_lengths(s, &literals, length, (int)(n_literals + n_distances)) &&
         make_codes(length, (int)n_literals, &literals) &&
         make_codes(length + n_literals, (int)n_distances, &distances) &&
         read_symbols(s, &literals, &distances);
}

bool inflate_bytes(const unsigned char *from, size_t from_length, unsigned char *to,
                   size_t length) {
  stream s = {.from = from, .from_end = from + from_length, .to = to, .at = to, .end = to + length};
  for (unsigned last = 0, kind; !last;) {
    if (!take(&s, 1, &last) || !take(&s, 2, &kind)) return false;
    bool ok = kind == 0   ? read_stored(&s)
              : kind == 1 ? read_fixed(&s)
              : kind == 2 ? read_dynamic(&s)
                          : false;
    if (!ok) return false;
  }
  return s.at == s.end;
}

/* ---- CRC-32 -------------------------------------------------------------------------- */

uint32_t crc32_of(const unsigned char *bytes, size_t length) {
  uint32_t table[256], crc = 0xffffffffu;
  for (uint32_t i = 0; i < 256; i++) {
    table[i] = i;
    for (int j = 0; j < 8; j++) table[i] = table[i] >> 1 ^ (table[i] & 1 ? 0xedb88320u : 0);
  }
  for (size_t i = 0; i < length; i++) crc = crc >> 8 ^ table[(crc ^ bytes[i]) & 255];
  return ~crc;
}
