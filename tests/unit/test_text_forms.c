/* Normal forms of random strings: ours, which keep places, against utf8proc's,
 * which do not. */
#include <utf8proc.h>

#include "tokenizer_fixtures.h"

enum { CHARS = 12 };

/* Letters, marks of many classes, what composes with what comes before. */
static const uint32_t alphabet[] = {
    'a',    'e',    'q',    ' ',    0x300,  0x301,   0x305,  0x308,  0x323,  0x327,  0x328,  0x345,
    0xe9,   0x1e0b, 0x1e69, 0x1ea5, 0x212b, 0xfb01,  0x2460, 0xbd,   0x1100, 0x1161, 0x11a8, 0xac00,
    0xac01, 0xd55c, 0x958,  0x9c7,  0x9be,  0x5d0,   0x5b0,  0x5c1,  0xfb2c, 0x3a9,  0x342,  0x1fb7,
    0x3099, 0x304b, 0xff76, 0xff9e, 0xfdfa, 0x1d15e, 0x4e00, 0xf900, 0x1f44d};
enum { LETTERS = sizeof alphabet / sizeof *alphabet };

static size_t make_string(uint64_t trial, char *text) {
  float u[CHARS];
  size_t n = 0;
  attend_random_uniform((attend_random){3, trial}, 0, CHARS, u);
  for (int i = 0; i < CHARS; i++)
    n += (size_t)utf8proc_encode_char((utf8proc_int32_t)alphabet[(int)(u[i] * (float)LETTERS)],
                                      (utf8proc_uint8_t *)text + n);
  text[n] = 0;
  return n;
}

/* A tokenizer that normalizes and then gives every byte its own id. */
static attend_tokenizer *bytes_behind(attend_context *ctx, const char *form) {
  char json[8192];
  size_t at =
      (size_t)snprintf(json, sizeof json,
                       "{\"normalizer\": {\"type\": \"%s\"}, \"model\": {\"type\": \"BPE\", "
                       "\"byte_fallback\": true, \"merges\": [], \"vocab\": {",
                       form);
  for (int b = 0; b < 256; b++)
    at += (size_t)snprintf(json + at, sizeof json - at, "%s\"<0x%02X>\": %d", b ? ", " : "", b, b);
  snprintf(json + at, sizeof json - at, "}}}");
  return load_text(ctx, json);
}

static void compare_form(const char *form, int options) {
  attend_context *ctx = open_context(NULL, 1, NULL);
  attend_tokenizer *t = bytes_behind(ctx, form);
  attend_encoding *e;
  OK(ctx, attend_encoding_create(t, &e));
  for (uint64_t trial = 0; trial < (light() ? 1000u : 10000u); trial++) {
    char text[4 * CHARS + 1];
    utf8proc_uint8_t *want;
    size_t n = make_string(trial, text);
    utf8proc_ssize_t m = utf8proc_map((const utf8proc_uint8_t *)text, (utf8proc_ssize_t)n, &want,
                                      (utf8proc_option_t)(options | UTF8PROC_STABLE));
    OK(ctx, attend_encode(e, text, n, NULL));
    bool same = m >= 0 && e->count == (size_t)m;
    for (size_t i = 0; i < e->count && same; i++) {
      same = e->id[i] == want[i];
      CHECK(e->start[i] < e->end[i] && e->end[i] <= n);
    }
    if (!same) CHECK_FAIL("another %s of \"%s\"", form, text);
    free(want);
  }
  attend_encoding_free(e);
  attend_tokenizer_free(t);
  attend_context_free(ctx);
}

TEST(nfc) { compare_form("NFC", UTF8PROC_COMPOSE); }
TEST(nfd) { compare_form("NFD", UTF8PROC_DECOMPOSE); }
TEST(nfkc) { compare_form("NFKC", UTF8PROC_COMPOSE | UTF8PROC_COMPAT); }
TEST(nfkd) { compare_form("NFKD", UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT); }
