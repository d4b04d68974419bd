/* The journal of long summaries, parts.jsonl. Each line gets the digest that it must
 * have where the input has "=" in its place: without it no line would be read. What
 * is refused is refused with nothing kept; what is taken is found again after the
 * journal was closed and opened. */
#include "fuzz.h"

#include "../../src/tasks/summarize_journal.c"

static const journal_identity identity = {"model", "options"};

static const char *directory(void) {
  static char path[300];
  snprintf(path, sizeof path, "%s", fuzz_path("."));
  return path;
}

/* ---- the file -------------------------------------------------------------------- */

static bool put_signed(FILE *to, const char *line, size_t length) {
  char digest[ATTEND_DIGEST_TEXT];
  if (length && line[length - 1] == '=') {
    length--;
    digest_line(&identity, line, length, digest);
    fprintf(to, "%.*s%s%s%s\n", (int)length, line, BEFORE_DIGEST, digest, AFTER_DIGEST);
    return true;
  }
  fwrite(line, 1, length, to);
  fputc('\n', to);
  return false;
}

/* The input's lines after a first line that is right, unless it has its own. How
 * many of them have the right digest. */
static size_t put_journal(const uint8_t *bytes, size_t length) {
  FILE *to = fopen(fuzz_path("parts.jsonl"), "wb");
  char first[200];
  size_t good = 0;
  MUST(to);
  int n = snprintf(first, sizeof first, "{\"model\": \"%s\", \"options\": \"%s\"=", identity.model,
                   identity.options);
  if (!length || bytes[0] != '!') put_signed(to, first, (size_t)n);
  const char *at = (const char *)bytes, *last = at + length, *end;
  while (at < last && (end = memchr(at, '\n', (size_t)(last - at)))) {
    good += put_signed(to, at, (size_t)(end - at));
    at = end + 1;
  }
  if (at < last) fwrite(at, 1, (size_t)(last - at), to);
  MUST(!fclose(to));
  return good;
}

/* Whether the journal has a summary of "a part". */
static bool has_part(attend_context *ctx, const journal *j) {
  attend_summary one;
  bool found;
  MUST(!journal_find(j, "a part", 6, &one, &found));
  if (found) ctx_free(ctx, (char *)one.text);
  return found;
}

static void check_again(attend_context *ctx) {
  attend_summary one = {.text = "a summary", .count = 3, .log_probability = -2};
  journal *j;
  MUST(!journal_open(ctx, directory(), &identity, &j));
  journal_add(j, "a part", 6, &one);
  MUST(!journal_sync(j));
  size_t used = j->used;
  bool had = has_part(ctx, j);
  journal_close(j);
  MUST(!journal_open(ctx, directory(), &identity, &j));
  MUST(j->used == used + !had);
  MUST(has_part(ctx, j));
  journal_close(j);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length) {
  attend_context *ctx = fuzz_context(length);
  journal *j;
  size_t live = fuzz_live;
  size_t good = put_journal(bytes, length);
  if (journal_open(ctx, directory(), &identity, &j)) {
    MUST(!j && *attend_message(ctx));
  } else {
    MUST(j->used <= good);
    journal_close(j);
    check_again(ctx);
  }
  MUST(fuzz_live == live);
  return 0;
}
