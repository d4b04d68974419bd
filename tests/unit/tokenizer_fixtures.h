/* For tests of tokenizers: golden files, and synthetic ones. */
#ifndef TESTS_TOKENIZER_FIXTURES_H
#define TESTS_TOKENIZER_FIXTURES_H

#include <sys/stat.h>
#include <unistd.h>

#include "attend/json.h"
#include "attend/text.h"
#include "attention_fixtures.h"

static inline const char *token_path(const char *name) {
  static char path[4096];
  const char *golden = getenv("ATTEND_GOLDEN");
  snprintf(path, sizeof path, "%s/tokens/%s", golden ? golden : "tests/golden", name);
  return path;
}

static inline attend_tokenizer *load_path(attend_context *ctx, const char *path) {
  attend_tokenizer *t;
  if (attend_tokenizer_load(ctx, path, &t)) {
    CHECK_FAIL("%s: %s", path, attend_message(ctx));
    printf("%s\n", attend_message(ctx));
    exit(1);
  }
  return t;
}

/* A scratch folder of this process. */
static inline const char *scratch_folder(void) {
  static char folder[64];
  if (!*folder) {
    snprintf(folder, sizeof folder, "/tmp/attend-tokens-XXXXXX");
    if (!mkdtemp(folder)) exit(1);
  }
  mkdir(folder, 0700); /* a test that is done removes it */
  return folder;
}

static inline const char *scratch_file(const char *name) {
  static char path[256];
  snprintf(path, sizeof path, "%s/%s", scratch_folder(), name);
  return path;
}

static inline const char *write_file(const char *name, const void *bytes, size_t length) {
  const char *path = scratch_file(name);
  FILE *f = fopen(path, "wb");
  if (!f || fwrite(bytes, 1, length, f) != length || fclose(f)) exit(1);
  return path;
}

static inline void remove_files(const char *const names[]) {
  for (int i = 0; names[i]; i++) unlink(scratch_file(names[i]));
  rmdir(scratch_folder());
}

/* A tokenizer.json given as text, and the ids of a text, as "1 2 3". */
static inline attend_tokenizer *load_text(attend_context *ctx, const char *json) {
  const char *path = write_file("made.json", json, strlen(json));
  attend_tokenizer *t = load_path(ctx, path);
  unlink(path);
  rmdir(scratch_folder());
  return t;
}

static inline void check_ids(attend_context *ctx, attend_encoding *e, const char *text,
                             const char *want) {
  char got[4096] = "";
  OK(ctx, attend_encode(e, text, strlen(text), NULL));
  for (size_t i = 0; i < e->count; i++) {
    size_t used = strlen(got);
    snprintf(got + used, sizeof got - used, "%s%d", used ? " " : "", (int)e->id[i]);
  }
  if (strcmp(got, want)) CHECK_FAIL("\"%s\" is [%s], not [%s]", text, got, want);
}

#endif
