/* The journal of summarize --work, parts.jsonl. Each line gets the digest that it
 * must have where the input has "=" in its place: without it no line would be
 * read. What is refused is refused with nothing kept; what is taken is found again
 * after the journal was closed and opened. */
#include "program.h"

#include "../../cli/summarize/long_journal.c"

/* ---- what the program has elsewhere -------------------------------------------- */

const char *const settings_files[] = {NULL};
const char *const tokenizer_files[] = {NULL};
uint64_t attend_checkpoint_digest(const attend_checkpoint *c) {
  (void)c;
  return 7;
}
const attend_form *attend_model_role_form(const attend_model *m,
                                          attend_role role) {
  static const attend_form form;
  (void)m;
  (void)role;
  return &form;
}

static const char *folder(void) {
  static char path[300];
  snprintf(path, sizeof path, "%s", fuzz_path("."));
  return path;
}

/* ---- the file -------------------------------------------------------------------- */

/* Of the journal that this program would begin. */
static journal identity(const summarizer *s, const summarize_options *o) {
  journal j = {0};
  digest_options(s, &o->how, j.options);
  MUST(!digest_model(s, &o->model, j.model));
  return j;
}

static bool put_signed(FILE *to, const journal *j, const char *line,
                       size_t length) {
  char digest[ATTEND_DIGEST_TEXT];
  if (length && line[length - 1] == '=') {
    length--;
    digest_line(j, line, length, digest);
    fprintf(to, "%.*s%s%s%s\n", (int)length, line, BEFORE_DIGEST, digest,
            AFTER_DIGEST);
    return true;
  }
  fwrite(line, 1, length, to);
  fputc('\n', to);
  return false;
}

/* The input's lines after a first line that is right, unless it has its own. How
 * many of them have the right digest. */
static size_t put_journal(const journal *j, const uint8_t *bytes,
                          size_t length) {
  FILE *to = fopen(fuzz_path("parts.jsonl"), "wb");
  char first[200];
  size_t good = 0;
  MUST(to);
  int n = snprintf(first, sizeof first,
                   "{\"model\": \"%s\", \"options\": \"%s\"=", j->model,
                   j->options);
  if (!length || bytes[0] != '!') put_signed(to, j, first, (size_t)n);
  const char *at = (const char *)bytes, *last = at + length, *end;
  while (at < last && (end = memchr(at, '\n', (size_t)(last - at)))) {
    good += put_signed(to, j, at, (size_t)(end - at));
    at = end + 1;
  }
  if (at < last) fwrite(at, 1, (size_t)(last - at), to);
  MUST(!fclose(to));
  return good;
}

static void check_again(const summarizer *s, const summarize_options *o) {
  char text[] = "a summary";
  summary one = {.text = text, .count = 3, .log_probability = -2}, found;
  journal *j;
  MUST(!journal_open(s, o, &j));
  journal_add(j, "a part", 6, &one);
  size_t used = j->used;
  bool had = journal_find(j, "a part", 6, &found);
  if (had) free(found.text);
  MUST(!journal_close(j));
  MUST(!journal_open(s, o, &j));
  MUST(j->used == used + !had);
  MUST(journal_find(j, "a part", 6, &found));
  free(found.text);
  MUST(!journal_close(j));
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length) {
  attend_context *ctx = fuzz_context(length);
  char none[] = "";
  summarizer s = {.m = {.ctx = ctx, .path = (char *)folder()}, .prefix = none};
  summarize_options o = {.longer.work = (char *)folder()};
  journal *j, mine = identity(&s, &o);
  size_t live = fuzz_live;
  size_t good = put_journal(&mine, bytes, length);
  if (journal_open(&s, &o, &j)) {
    MUST(!j);
  } else {
    MUST(j->used <= good);
    MUST(!journal_close(j));
    check_again(&s, &o);
  }
  MUST(fuzz_live == live);
  return 0;
}
