/* Small tokenizer files that demand excessive time or memory, and the limits on both,
 * enforced by an alarm and an allocator. */
#ifndef TESTS_BOMBS_H
#define TESTS_BOMBS_H

#include <stdarg.h>

#include "base/base.h"
#include "tokenizer_fixtures.h"

/* ---- limits ------------------------------------------------------------------ */

/* Twenty times the intended limits, for sanitizers and emulators. */
enum { MOST_SECONDS = 40, MOST_BYTES = 256 << 20, HEAD = 64 };

static size_t live_bytes;

static inline void *scant_take(size_t bytes, void *user) {
  (void)user;
  if (live_bytes + bytes > MOST_BYTES) return NULL;
  char *block = aligned_alloc(64, (bytes + HEAD + 63) / 64 * 64);
  if (!block) return NULL;
  memcpy(block, &bytes, sizeof bytes);
  live_bytes += bytes;
  return block + HEAD;
}

static inline void scant_give(void *block, void *user) {
  size_t bytes;
  (void)user;
  if (!block) return;
  memcpy(&bytes, (char *)block - HEAD, sizeof bytes);
  live_bytes -= bytes;
  free((char *)block - HEAD);
}

static inline attend_context *open_scant(void) {
  attend_context_options o = {ATTEND_INIT(attend_context_options), .isa = "scalar", .threads = 1};
  attend_context *ctx;
  o.allocator = (attend_allocator){scant_take, scant_give, NULL};
  if (attend_context_create(&o, &ctx)) exit(1);
  alarm(MOST_SECONDS);
  return ctx;
}

static inline void close_scant(attend_context *ctx) {
  alarm(0);
  attend_context_free(ctx);
  CHECK_EQ(live_bytes, 0);
}

/* ---- files ------------------------------------------------------------------- */

typedef struct {
  char *text;
  size_t length, capacity;
} sheet;

static void put(sheet *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
static inline void put(sheet *s, const char *format, ...) {
  char line[2048];
  va_list args;
  va_start(args, format);
  size_t n = (size_t)vsnprintf(line, sizeof line, format, args);
  va_end(args);
  if (n >= sizeof line) exit(1);
  if (s->length + n + 1 > s->capacity) {
    s->capacity = 2 * s->capacity + sizeof line;
    s->text = realloc(s->text, s->capacity);
    if (!s->text) exit(1);
  }
  memcpy(s->text + s->length, line, n + 1);
  s->length += n;
}

static inline void put_run(sheet *s, const char *what, size_t times) {
  for (size_t i = 0; i < times; i++) put(s, "%s", what);
}

/* Loads it and gives the sheet back. NULL, and a sentence, if it is refused. */
static inline attend_tokenizer *load_sheet(attend_context *ctx, const char *name, sheet *s) {
  attend_tokenizer *t;
  const char *path = write_file(name, s->text, s->length);
  attend_status status = attend_tokenizer_load(ctx, path, &t);
  CHECK(status != ATTEND_NO_MEMORY);
  unlink(path);
  rmdir(scratch_folder());
  free(s->text);
  *s = (sheet){0};
  return status ? NULL : t;
}

static const char letters[] =
    "\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0, \"b\": 1, \"c\": 2, "
    "\"ab\": 3}, \"merges\": [\"a b\"]}";

/* Encodes n times `letter`; false: refused, with a sentence. */
static inline bool encodes(attend_context *ctx, const attend_tokenizer *t, const char *part,
                           size_t times, size_t *count) {
  attend_encoding *e;
  sheet text = {0};
  put_run(&text, part, times);
  OK(ctx, attend_encoding_create(t, &e));
  attend_status status = attend_encode(e, text.text, text.length, NULL);
  CHECK(status != ATTEND_NO_MEMORY);
  *count = e->count;
  attend_encoding_free(e);
  free(text.text);
  return !status;
}

#endif
