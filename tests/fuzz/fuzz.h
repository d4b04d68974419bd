/* What the fuzzers stand on: a context that counts memory, files in memory, a
 * tokenizer put to use.
 *
 * What must not happen aborts, and the fuzzer keeps the input that did it.
 */
#ifndef TESTS_FUZZ_H
#define TESTS_FUZZ_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "attend/file.h"
#include "attend/json.h"
#include "attend/text.h"
#include "base/base.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

#define MUST(condition)                                             \
  do {                                                              \
    if (condition) break;                                           \
    fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
    abort();                                                        \
  } while (0)

/* ---- memory ---------------------------------------------------------------- */

/* What an input may take: a floor for tables of fixed size, and so much for
 * each of its bytes. */
enum { FUZZ_FLOOR = 48 << 20, FUZZ_EACH = 2048, FUZZ_HEAD = 64 };

static size_t fuzz_live, fuzz_most;

static inline void *fuzz_take(size_t bytes, void *user) {
  (void)user;
  fuzz_live += bytes;
  MUST(fuzz_live <= fuzz_most);
  char *block = aligned_alloc(64, (bytes + FUZZ_HEAD + 63) / 64 * 64);
  MUST(block);
  memcpy(block, &bytes, sizeof bytes);
  return block + FUZZ_HEAD;
}

static inline void fuzz_give(void *block, void *user) {
  size_t bytes;
  (void)user;
  if (!block) return;
  memcpy(&bytes, (char *)block - FUZZ_HEAD, sizeof bytes);
  fuzz_live -= bytes;
  free((char *)block - FUZZ_HEAD);
}

/* Readers need no kernels, and theirs is made by hand. */
static inline attend_context *fuzz_open_context(void) {
  static attend_context blank = {.allocator = {fuzz_take, fuzz_give, NULL}, .threads = 1};
  attend_context *ctx = &blank;
#ifdef FUZZ_WHOLE
  attend_context_options o = {ATTEND_INIT(attend_context_options), .isa = "scalar", .threads = 1};
  o.allocator = blank.allocator;
  MUST(!attend_context_create(&o, &ctx));
#endif
  return ctx;
}

static inline attend_context *fuzz_context(size_t length) {
  static attend_context *ctx;
  fuzz_most = FUZZ_FLOOR + FUZZ_EACH * length;
  if (!ctx) ctx = fuzz_open_context();
  return ctx;
}

/* ---- files ----------------------------------------------------------------- */

static inline const char *fuzz_path(const char *name) {
  static char folder[200], path[300];
  if (!*folder) {
    const char *where = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%s/attend-fuzz-XXXXXX", where && *where ? where : "/dev/shm");
    MUST(mkdtemp(folder));
  }
  snprintf(path, sizeof path, "%s/%s", folder, name);
  return path;
}

static inline const char *fuzz_file(const char *name, const void *bytes, size_t length) {
  const char *path = fuzz_path(name);
  FILE *f = fopen(path, "wb");
  MUST(f);
  MUST(fwrite(bytes, 1, length, f) == length);
  MUST(!fclose(f));
  return path;
}

/* ---- tokenizers ------------------------------------------------------------ */

static inline void fuzz_check_encoding(const attend_tokenizer *t, const attend_encoding *e,
                                       size_t length, const attend_encode_options *o) {
  MUST(!o->max_length || e->count <= o->max_length);
  for (size_t i = 0; i < e->count; i++) {
    size_t of = e->part[i] == 1 ? o->pair_length : length;
    MUST(e->id[i] >= 0 && e->id[i] < attend_tokenizer_count(t));
    MUST(attend_tokenizer_piece(t, e->id[i], NULL));
    MUST(e->start[i] <= e->end[i] && e->end[i] <= of);
    MUST(e->part[i] >= -1 && e->part[i] <= 1 && e->type[i] >= 0);
    (void)attend_tokenizer_is_special(t, e->id[i]);
  }
}

/* What a decoder says piece by piece is what it says at once; it may fail where
 * its steps make too much of a token. */
static inline void fuzz_check_decoding(attend_context *ctx, attend_detokenizer *d,
                                       const attend_encoding *e) {
  char *joined = NULL;
  size_t total = 0, capacity = 0, n;
  const char *text;
  attend_status status = ATTEND_OK;
  for (size_t i = 0; i <= e->count && !status; i++) {
    status = i < e->count ? attend_detokenizer_push(d, e->id[i], &text, &n)
                          : attend_detokenizer_finish(d, &text, &n);
    if (status) break;
    if (total + n >= capacity) joined = realloc(joined, capacity = 2 * (total + n + 1));
    MUST(joined);
    memcpy(joined + total, text, n);
    total += n;
  }
  if (status) MUST(*attend_message(ctx));
  MUST(attend_decode(d, e->id, e->count, &text, &n) == status);
  if (!status) MUST(n == total && !memcmp(text, joined, n) && !text[n]);
  free(joined);
}

/* An encoding may fail where a step makes too much of a text, where a regular
 * expression takes too many steps, or where max_length is too short. */
static inline void fuzz_encode(attend_context *ctx, const attend_tokenizer *t, attend_encoding *e,
                               attend_detokenizer *d, const char *text, attend_encode_options o) {
  size_t n = strlen(text);
  if (attend_encode(e, text, n, &o)) {
    MUST(*attend_message(ctx));
    return;
  }
  fuzz_check_encoding(t, e, n, &o);
  fuzz_check_decoding(ctx, d, e);
}

/* Alone and as one of a pair, whole and cut off. The last text is long enough
 * for what takes time as its square or worse. */
static inline void fuzz_use(attend_context *ctx, const attend_tokenizer *t) {
  static char run[4097];
  static const char *const texts[] = {
      "", "Hello, world!  It's 1 234.5 ab\n",
      ("\xe2\x96\x81 caf\xc3\xa9 e\xcc\x81 \xe5\x8c\x97\xe4\xba\xac "
       "\xf0\x9f\x91\x8d\xef\xac\x81 \xff\xc3 \xc4\xb0<s>[CLS]</s>ab"),
      "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", run};
  attend_encoding *e;
  attend_detokenizer *d;
  memset(run, 'a', sizeof run - 1);
  MUST(!attend_encoding_create(t, &e));
  MUST(!attend_detokenizer_create(t, false, &d));
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    const char *other = texts[(i + 1) % 4];
    attend_encode_options o = {ATTEND_INIT(attend_encode_options), .pair = other,
                               .pair_length = strlen(other)};
    fuzz_encode(ctx, t, e, d, texts[i],
                (attend_encode_options){ATTEND_INIT(attend_encode_options)});
    fuzz_encode(ctx, t, e, d, texts[i], o);
    o.max_length = 7;
    fuzz_encode(ctx, t, e, d, texts[i], o);
  }
  attend_detokenizer_free(d);
  attend_encoding_free(e);
}

/* Loads the file or folder, and if it loads uses it; gives all memory back. */
static inline void fuzz_tokenizer(attend_context *ctx, const char *path) {
  attend_tokenizer *t;
  size_t live = fuzz_live;
  attend_status status = attend_tokenizer_load(ctx, path, &t);
  MUST((status == ATTEND_OK) == (t != NULL));
  if (status) MUST(*attend_message(ctx));
  if (!status) fuzz_use(ctx, t);
  attend_tokenizer_free(t);
  MUST(fuzz_live == live);
}

#endif
