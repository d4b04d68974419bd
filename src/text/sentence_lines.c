/* How lines are laid out, as far as sentences must know.
 *
 * Asked by sentences.c at every line end.
 *
 * Text comes wrapped, or with a paragraph on each line, and says nowhere which.
 * A greedy wrapper breaks a line because the next word has no room; so where
 * the next line is longer than this one would be with its first word, somebody
 * wanted the line to end. Lines too long for any wrapper are paragraphs.
 */
#include "text/sentences.h"

enum {
  WIDEST = 120, /* characters of a line that was wrapped */
  SLACK = 15,   /* room that wrappers which even out lines leave */
  DEEPER = 2,   /* columns that indent a first line */
  BACK = 1024   /* bytes looked back for the begin of a line */
};

size_t line_end(prose p, size_t at) {
  uint32_t c;
  char byte = p.bytes[at];
  if (byte == '\r') return at + 1 < p.length && p.bytes[at + 1] == '\n' ? 2 : 1;
  if (byte == '\n' || byte == '\v' || byte == '\f') return 1;
  if (byte != '\xe2' && byte != '\xc2') return 0;
  size_t width = prose_char(p, at, &c);
  return c == 0x2028 || c == 0x2029 || c == 0x85 ? width : 0;
}

/* Whether a line end is right before `at`. */
static bool is_behind_end(prose p, size_t at) {
  for (size_t width = 1; width <= 3 && width <= at; width++)
    if (line_end(p, at - width) == width) return true;
  return false;
}

size_t line_start(prose p, size_t at) {
  size_t least = at > BACK ? at - BACK : 0;
  while (at > least && !is_behind_end(p, at)) at--;
  return at;
}

/* ---- what a line looks like ------------------------------------------------------ */

typedef enum { NO_MARKER, WEAK_MARKER, MARKER } marker;

typedef struct {
  size_t text;  /* where it begins behind spaces */
  int indent;   /* columns */
  int first;    /* characters of the first word */
  int width;    /* characters, spaces in front included; WIDEST + 1: more */
  bool letters; /* or digits; false for a rule such as ===== */
} line_shape;

static bool is_end(prose p, size_t at) {
  return at >= p.length || line_end(p, at);
}

static line_shape shape_of(prose p, size_t at) {
  line_shape l = {0};
  uint32_t c;
  int last = 0; /* characters up to the last that is no space */
  for (bool first = true; !is_end(p, at) && l.width <= WIDEST; l.width++) {
    size_t width = prose_char(p, at, &c);
    bool space = is_space(c);
    if (space && !last) l.indent += c == '\t' ? 8 : 1;
    if (!space && !last) l.text = at;
    if (space && last) first = false;
    if (!space && first) l.first++;
    if (!space) last = l.width + 1;
    if (is_letter(c) || is_number(c) || c == UTF8_REPLACEMENT) l.letters = true;
    at += width;
  }
  if (l.width <= WIDEST) l.width = last;
  return l;
}

static bool is_spaced(prose p, size_t at) {
  return at < p.length && (p.bytes[at] == ' ' || p.bytes[at] == '\t');
}

/* "12." "iv)" "(a)" and a space. */
static bool is_numbered(prose p, size_t at) {
  bool open = p.bytes[at] == '(', number = true, roman = true;
  size_t first = at += open;
  for (; at < p.length && at < first + 4; at++) {
    char c = p.bytes[at];
    if (c == ')' || c == '.') break;
    number = number && c >= '0' && c <= '9';
    roman = roman && (c == 'i' || c == 'v' || c == 'x');
  }
  bool letter = at == first + 1 && at < p.length && !(p.bytes[first] & 0x80) &&
                ascii_kinds[(unsigned char)p.bytes[first]] & ASCII_LETTER;
  if (at == first || at >= p.length || !(number || roman || letter))
    return false;
  return (p.bytes[at] == ')' || (p.bytes[at] == '.' && !open)) &&
         is_spaced(p, at + 1);
}

static marker marker_at(prose p, size_t at) {
  uint32_t c;
  if (at >= p.length) return NO_MARKER;
  size_t width = prose_char(p, at, &c), i = at + width;
  if (c == '-' || c == '*' || c == '+' || c == 0x2022 || c == 0x2023 ||
      c == 0x25aa || c == 0xb7)
    return is_spaced(p, i) ? MARKER : NO_MARKER;
  if (c == '#') {
    while (i < p.length && i < at + 6 && p.bytes[i] == '#') i++;
    return is_spaced(p, i) ? MARKER : NO_MARKER;
  }
  if (c == 0x2013 || c == 0x2014)
    return is_spaced(p, i) ? WEAK_MARKER : NO_MARKER;
  return is_numbered(p, at) ? WEAK_MARKER : NO_MARKER;
}

/* ---- whether lines join ----------------------------------------------------------- */

/* Whether what ends at `end` could be all that was to be said. */
static bool is_finished(prose p, size_t start, size_t end) {
  size_t at = end;
  while (at > start && at + BACK > end) {
    uint32_t c = (unsigned char)p.bytes[at - 1];
    size_t width = 1;
    while (c >= 0x80 && width < 4 && width < at - start &&
           (p.bytes[at - width] & 0xc0) == 0x80)
      width++;
    prose_char(p, at - width, &c);
    if (is_stop(c) || c == ':' || c == ';') return true;
    if (!is_space(c) && !is_closer(c)) return false;
    at -= width;
  }
  return false;
}

bool line_joins(prose p, size_t start, size_t line, size_t end) {
  line_shape here = shape_of(p, line);
  line_shape next = shape_of(p, end + line_end(p, end));
  if (!next.width || !next.letters || !here.letters) return false;
  if (here.width > WIDEST || next.width > WIDEST) return false;
  marker m = marker_at(p, next.text);
  bool finished = is_finished(p, start, end);
  if (m == MARKER) return false;
  if (m == WEAK_MARKER && (finished || marker_at(p, start))) return false;
  size_t word = skip_openers(p, next.text);
  word += is_spaced(p, word);
  if (!finished && word < p.length && begins_lower(p, word)) return true;
  if (finished && next.indent >= here.indent + DEEPER) return false;
  return here.width + 1 + next.first + SLACK > next.width - next.indent;
}
