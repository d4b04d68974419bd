/* The journal of a tree of summaries: parts.jsonl, a line for each summary as it is
 * written.
 *
 * A summary is found again by the digest of its text, so that after an edit only the
 * parts that changed are summarized again. The first line identifies model and
 * options: others give other summaries. Every line ends with a digest of that
 * identity and of the line, which reveals lines that were changed or belong to
 * another journal. An incomplete last line, left by a killed process, is cut off.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tasks/summarize.h"

typedef struct {
  uint64_t key; /* 0: free */
  attend_summary one;
} entry;

struct journal {
  attend_context *ctx;
  char path[LONGEST_PATH];
  FILE *file;
  journal_identity identity;
  entry *entry; /* [slots], by key */
  size_t slots, used;
  attend_status status; /* the first failure of journal_add */
};

/* ---- lines ---------------------------------------------------------------------- */

/* Every line ends with these and the digest between them. */
static const char BEFORE_DIGEST[] = ", \"digest\": \"", AFTER_DIGEST[] = "\"}";
enum { TAIL = sizeof BEFORE_DIGEST + ATTEND_DIGEST_TEXT + sizeof AFTER_DIGEST - 3 };

static void digest_line(const journal_identity *identity, const char *line, size_t length,
                        char text[ATTEND_DIGEST_TEXT]) {
  attend_digest sum = {0};
  attend_digest_add(&sum, identity->model, sizeof identity->model);
  attend_digest_add(&sum, identity->options, sizeof identity->options);
  attend_digest_add(&sum, line, length);
  attend_digest_text(&sum, text);
}

static bool is_whole(const journal *j, const char *line, size_t length) {
  char tail[TAIL + 1], digest[ATTEND_DIGEST_TEXT];
  if (length < TAIL) return false;
  digest_line(&j->identity, line, length - TAIL, digest);
  snprintf(tail, sizeof tail, "%s%s%s", BEFORE_DIGEST, digest, AFTER_DIGEST);
  return !memcmp(line + length - TAIL, tail, TAIL);
}

/* ---- entries -------------------------------------------------------------------- */

static uint64_t key_of(const char *text, size_t length) {
  uint64_t word[2];
  attend_digest digest = {0};
  attend_digest_add(&digest, text, length);
  attend_digest_end(&digest, word);
  return word[0] ? word[0] : 1;
}

static entry *slot_of(const journal *j, uint64_t key) {
  size_t at = (size_t)key & (j->slots - 1);
  while (j->entry[at].key && j->entry[at].key != key) at = (at + 1) & (j->slots - 1);
  return &j->entry[at];
}

static attend_status rehash(journal *j) {
  entry *old = j->entry, *wider;
  size_t n = j->slots, slots = n ? 2 * n : 1024;
  ATTEND_TRY(ctx_alloc_zeroed(j->ctx, size_times(slots, sizeof *wider), "the journal", &wider));
  j->slots = slots;
  j->entry = wider;
  for (size_t i = 0; i < n; i++)
    if (old[i].key) *slot_of(j, old[i].key) = old[i];
  ctx_free(j->ctx, old);
  return ATTEND_OK;
}

static attend_status add_entry(journal *j, uint64_t key, const char *text,
                               const attend_summary *x) {
  char *copy;
  if (2 * j->used >= j->slots) ATTEND_TRY(rehash(j));
  entry *e = slot_of(j, key);
  if (e->key) return ATTEND_OK;
  ATTEND_TRY(text_copy(j->ctx, text, strlen(text), &copy));
  e->key = key;
  e->one = *x;
  e->one.text = copy;
  j->used++;
  return ATTEND_OK;
}

attend_status journal_find(const journal *j, const char *text, size_t length, attend_summary *one,
                           bool *found) {
  char *copy;
  *found = false;
  if (!j || !j->used) return ATTEND_OK;
  const entry *e = slot_of(j, key_of(text, length));
  if (!e->key) return ATTEND_OK;
  ATTEND_TRY(text_copy(j->ctx, e->one.text, strlen(e->one.text), &copy));
  *one = e->one;
  one->text = copy;
  *found = true;
  return ATTEND_OK;
}

/* ---- reading -------------------------------------------------------------------- */

/* 16 hexadecimal digits, or 0. */
static uint64_t read_key(const char *text) {
  bool hex = text && strspn(text, "0123456789abcdef") == 16 && !text[16];
  return hex ? strtoull(text, NULL, 16) : 0;
}

static attend_status read_entry(journal *j, const attend_json *line, bool *damaged) {
  uint64_t key = read_key(attend_json_string(attend_json_get(line, "part"), NULL));
  const char *text = attend_json_string(attend_json_get(line, "summary"), NULL);
  int64_t tokens;
  attend_summary x = {0};
  *damaged = !key || !text || !attend_json_integer(attend_json_get(line, "tokens"), &tokens) ||
             tokens < 0 || tokens > INT32_MAX;
  if (*damaged) return ATTEND_OK;
  x.count = (int)tokens;
  x.log_probability = attend_json_number(attend_json_get(line, "log_probability"), 0);
  x.score = x.count ? x.log_probability / x.count : 0;
  return add_entry(j, key, text, &x);
}

static attend_status check_first(const journal *j, const attend_json *line) {
  const char *model = attend_json_string(attend_json_get(line, "model"), NULL);
  const char *how = attend_json_string(attend_json_get(line, "options"), NULL);
  if (!model || !how)
    return fail(j->ctx, ATTEND_IO,
                "%s is not a journal of summaries: choose another work "
                "directory",
                j->path);
  bool same = !strcmp(model, j->identity.model);
  ATTEND_CHECK(j->ctx, same && !strcmp(how, j->identity.options),
               "%s was written with %s: use the same, or choose another work "
               "directory",
               j->path,
               same ? "other options"
                    : "another model, tokenizer, weight format, instruction "
                      "set or form of attention");
  return ATTEND_OK;
}

/* A line that parses. */
static attend_status check_line(journal *j, size_t number, const char *line, size_t length,
                                const attend_json *root, bool *damaged) {
  if (number == 1) ATTEND_TRY(check_first(j, root));
  *damaged = !is_whole(j, line, length);
  if (*damaged || number == 1) return ATTEND_OK;
  return read_entry(j, root, damaged);
}

static attend_status read_line(journal *j, size_t number, const char *line, size_t length) {
  attend_json *root = NULL;
  bool damaged = false;
  attend_status status = attend_json_parse(j->ctx, j->path, line, length, &root);
  if (!status)
    status = check_line(j, number, line, length, root, &damaged);
  else
    damaged = status != ATTEND_NO_MEMORY;
  attend_json_free(root);
  if (!damaged) return status;
  return fail(j->ctx, ATTEND_IO,
              "line %zu of %s is damaged: remove the line, or choose another "
              "work directory",
              number, j->path);
}

/* *whole: bytes of complete lines. */
static attend_status read_lines(journal *j, const char *bytes, size_t length, size_t *whole) {
  size_t number = 0;
  const char *end;
  while ((end = memchr(bytes + *whole, '\n', length - *whole))) {
    const char *line = bytes + *whole;
    ATTEND_TRY(read_line(j, ++number, line, (size_t)(end - line)));
    *whole = (size_t)(end - bytes) + 1;
  }
  return ATTEND_OK;
}

static attend_status read_all(journal *j, size_t *whole) {
  char *bytes = NULL;
  size_t length = 0;
  *whole = 0;
  attend_status status = file_read_most(j->ctx, j->path, PTRDIFF_MAX, &bytes, &length);
  if (!status) status = read_lines(j, bytes, length, whole);
  ctx_free(j->ctx, bytes);
  return status;
}

/* ---- writing -------------------------------------------------------------------- */

static void put_line(journal *j, json_writer *w) {
  char digest[ATTEND_DIGEST_TEXT] = "";
  if (!w->status) digest_line(&j->identity, w->text, w->length, digest);
  json_member_string(w, "digest", digest);
  json_close(w, '}');
  attend_status status = json_finish(w);
  if (!status && (fwrite(w->text, 1, w->length, j->file) != w->length || fflush(j->file)))
    status = writing_failed(j->ctx, j->path);
  if (!j->status) j->status = status;
  json_writer_free(w);
}

void journal_add(journal *j, const char *text, size_t length, const attend_summary *one) {
  char key[17];
  if (j->status) return; /* an incomplete line must stay the last one */
  snprintf(key, sizeof key, "%016llx", (unsigned long long)key_of(text, length));
  json_writer w = json_writer_text(j->ctx);
  json_open(&w, '{');
  json_member_string(&w, "part", key);
  json_member_string(&w, "summary", one->text);
  json_member_number(&w, "tokens", one->count);
  json_member_number(&w, "log_probability", one->log_probability);
  put_line(j, &w);
}

static void put_first(journal *j) {
  json_writer w = json_writer_text(j->ctx);
  json_open(&w, '{');
  json_member_string(&w, "model", j->identity.model);
  json_member_string(&w, "options", j->identity.options);
  put_line(j, &w);
}

attend_status journal_sync(journal *j) {
  if (!j) return ATTEND_OK;
  if (!j->status && (fflush(j->file) || fsync(fileno(j->file))))
    j->status = writing_failed(j->ctx, j->path);
  return j->status;
}

/* ---- opening -------------------------------------------------------------------- */

/* Locked while it is open: two writers would mix their lines. */
static attend_status open_file(journal *j) {
  size_t whole = 0;
  j->file = fopen(j->path, "ab");
  if (!j->file) return writing_failed(j->ctx, j->path);
  if (flock(fileno(j->file), LOCK_EX | LOCK_NB))
    return fail(j->ctx, ATTEND_IO,
                "%s is in use by another process: wait for it to end, or "
                "choose another work directory",
                j->path);
  ATTEND_TRY(read_all(j, &whole));
  if (ftruncate(fileno(j->file), (off_t)whole)) return writing_failed(j->ctx, j->path);
  if (!whole) put_first(j);
  return j->status;
}

attend_status journal_open(attend_context *ctx, const char *directory,
                           const journal_identity *identity, journal **to) {
  journal *j;
  *to = NULL;
  if (mkdir(directory, 0777) && errno != EEXIST) return writing_failed(ctx, directory);
  ATTEND_TRY(ctx_alloc_zeroed(ctx, sizeof *j, "the journal", &j));
  j->ctx = ctx;
  j->identity = *identity;
  attend_status status = path_inside(ctx, directory, "parts.jsonl", j->path);
  if (!status) status = open_file(j);
  if (status)
    journal_close(j);
  else
    *to = j;
  return status;
}

void journal_close(journal *j) {
  if (!j) return;
  if (j->file) fclose(j->file);
  for (size_t i = 0; i < j->slots; i++) ctx_free(j->ctx, (char *)j->entry[i].one.text);
  ctx_free(j->ctx, j->entry);
  ctx_free(j->ctx, j);
}
