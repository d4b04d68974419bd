/* Any bytes, cut into sentences: in order, without overlap, only white space
 * left out. Cut behind a paragraph, the rest gives the same sentences. */
#include "fuzz.h"
#include "text/unicode.h"

static void check_gap(const char *text, size_t from, size_t to) {
  uint32_t c;
  while (from < to) {
    int width = utf8_read(text + from, to - from, &c);
    MUST(width > 0 && is_space(c));
    from += (size_t)width;
  }
}

static void check_rest(const char *text, size_t n, attend_sentence s) {
  size_t cut = s.start + s.length;
  attend_sentence t = {0};
  while (attend_sentence_next(text, n, &s)) {
    MUST(attend_sentence_next(text + cut, n - cut, &t));
    MUST(t.start + cut == s.start && t.length == s.length);
    MUST(t.ends_paragraph == s.ends_paragraph);
  }
  MUST(!attend_sentence_next(text + cut, n - cut, &t));
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length) {
  const char *text = (const char *)bytes;
  size_t at = 0;
  bool cut = false, ended = true;
  for (attend_sentence s = {0}; attend_sentence_next(text, length, &s);) {
    MUST(s.length && s.start >= at && s.length <= length - s.start);
    check_gap(text, at, s.start);
    at = s.start + s.length;
    ended = s.ends_paragraph;
    if (ended && !cut) check_rest(text, length, s);
    cut = cut || ended;
  }
  check_gap(text, at, length);
  MUST(ended);
  return 0;
}
