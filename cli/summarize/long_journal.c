/* The work folder of summaries of parts: a line for each, as it is made.
 *
 * A summary is found again by the text that it is of, so that a document that
 * was changed in one place is summarized anew there alone. The first line says
 * which model and which options: others give other summaries. Every line ends
 * with a digest of that and of itself, so that a line that was changed, or is of
 * another journal, is found. A last line that a killed process left half written
 * is cut off.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "folders.h"
#include "json_members.h"
#include "summarize/long_summary.h"
#include "model_path.h"

typedef struct {
  uint64_t key; /* 0: free */
  summary one;
} entry;

struct journal {
  attend_context *ctx;
  char *path;
  FILE *file;
  int lock;
  char model[ATTEND_DIGEST_TEXT], options[ATTEND_DIGEST_TEXT];
  entry *entry; /* [slots], by key */
  size_t slots, used;
  bool failed;
};

/* ---- keys ----------------------------------------------------------------------- */

static uint64_t key_of(const char *text, size_t length) {
  uint64_t word[2];
  attend_digest digest = {0};
  attend_digest_add(&digest, text, length);
  attend_digest_end(&digest, word);
  return word[0] ? word[0] : 1;
}

static void add_text(attend_digest *sum, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static void add_text(attend_digest *sum, const char *format, ...) {
  char text[512];
  va_list args;
  va_start(args, format);
  int n = vsnprintf(text, sizeof text, format, args);
  va_end(args);
  attend_digest_add(sum, text,
                    n < 0                     ? 0
                    : (size_t)n < sizeof text ? (size_t)n
                                              : sizeof text - 1);
}

/* How the words of a part are chosen: they are searched for, never drawn. */
static void digest_options(const summarizer *s, const summary_options *a,
                           char text[ATTEND_DIGEST_TEXT]) {
  const attend_generate_options *o = &s->how;
  attend_digest sum = {0};
  add_text(&sum, "%d %d %d %d %a %d %a %d %d %d %d ", o->max_new, o->min_new,
           o->beams, o->early_stop, (double)o->length_penalty, o->no_repeat,
           (double)o->repetition, o->ignore_end, s->reads, a->least, a->most);
  add_text(&sum, "%d %d ", o->context, (int)o->window);
  attend_digest_add(&sum, s->prefix, strlen(s->prefix));
  attend_digest_text(&sum, text);
}

static void digest_forms(const attend_model *model, attend_digest *sum) {
  for (int role = 0; role < ATTEND_ROLES; role++) {
    const attend_form *f = attend_model_role_form(model, role);
    add_text(sum, "%d %d %d %d %a %a %a %llu %llu %d %d %d %a ", (int)f->kind,
             f->degree, f->features, f->pairs, (double)f->a, (double)f->c,
             (double)f->sigma, (unsigned long long)f->seed,
             (unsigned long long)f->redraw, (int)f->draw, (int)f->map,
             (int)f->ties, (double)f->temperature);
  }
}

static attend_status digest_files(attend_context *ctx, const char *folder,
                                  const char *const *files,
                                  attend_digest *sum) {
  attend_status status = ATTEND_OK;
  for (; *files && !status; files++) {
    char *path = path_of("%s/%s", folder, *files);
    int64_t bytes = file_bytes(path);
    add_text(sum, "%s %lld ", *files, (long long)bytes);
    if (bytes >= 0) status = attend_digest_file(ctx, path, sum);
    free(path);
  }
  return status;
}

/* What computes them: weights, settings and tokenizer; how the weights are kept,
 * and the instruction set, since both change bits; the forms of attention. */
static attend_status digest_model(const summarizer *s, const model_options *o,
                                  char text[ATTEND_DIGEST_TEXT]) {
  const model_opened *m = &s->m;
  attend_digest sum = {0};
  add_text(&sum, "%016llx %d %s ",
           (unsigned long long)attend_checkpoint_digest(m->files),
           (int)o->weights, attend_context_isa(m->ctx));
  digest_forms(m->model, &sum);
  attend_status status = digest_files(m->ctx, m->path, settings_files, &sum);
  if (!status) status = digest_files(m->ctx, m->path, tokenizer_files, &sum);
  attend_digest_text(&sum, text);
  return status;
}

/* ---- lines ---------------------------------------------------------------------- */

/* Every line ends with it, and the digest between. */
static const char BEFORE_DIGEST[] = ", \"digest\": \"", AFTER_DIGEST[] = "\"}";
enum {
  TAIL = sizeof BEFORE_DIGEST + ATTEND_DIGEST_TEXT + sizeof AFTER_DIGEST - 3
};

static void digest_line(const journal *j, const char *line, size_t length,
                        char text[ATTEND_DIGEST_TEXT]) {
  attend_digest sum = {0};
  attend_digest_add(&sum, j->model, sizeof j->model);
  attend_digest_add(&sum, j->options, sizeof j->options);
  attend_digest_add(&sum, line, length);
  attend_digest_text(&sum, text);
}

static bool is_whole(const journal *j, const char *line, size_t length) {
  char tail[TAIL + 1], digest[ATTEND_DIGEST_TEXT];
  if (length < TAIL) return false;
  digest_line(j, line, length - TAIL, digest);
  snprintf(tail, sizeof tail, "%s%s%s", BEFORE_DIGEST, digest, AFTER_DIGEST);
  return !memcmp(line + length - TAIL, tail, TAIL);
}

/* ---- what was kept -------------------------------------------------------------- */

static entry *slot_of(const journal *j, uint64_t key) {
  size_t at = (size_t)key & (j->slots - 1);
  while (j->entry[at].key && j->entry[at].key != key)
    at = (at + 1) & (j->slots - 1);
  return &j->entry[at];
}

static void grow(journal *j) {
  entry *old = j->entry;
  size_t n = j->slots;
  j->slots = n ? 2 * n : 1024;
  j->entry = need(j->slots, sizeof *j->entry);
  for (size_t i = 0; i < n; i++)
    if (old[i].key) *slot_of(j, old[i].key) = old[i];
  free(old);
}

static void keep(journal *j, uint64_t key, const char *text, const summary *x) {
  if (2 * j->used >= j->slots) grow(j);
  entry *e = slot_of(j, key);
  if (e->key) return;
  e->key = key;
  e->one = *x;
  e->one.text = need_copy(text);
  e->one.ids = NULL;
  j->used++;
}

bool journal_find(const journal *j, const char *text, size_t length,
                  summary *one) {
  if (!j || !j->used) return false;
  const entry *e = slot_of(j, key_of(text, length));
  if (!e->key) return false;
  *one = e->one;
  one->text = need_copy(e->one.text);
  return true;
}

/* ---- reading -------------------------------------------------------------------- */

static bool take_line(journal *j, const attend_json *line) {
  const char *key = attend_json_string(attend_json_get(line, "part"), NULL);
  const char *text = attend_json_string(attend_json_get(line, "summary"), NULL);
  int64_t tokens;
  summary x = {0};
  if (!key || !text || !is_hex(key, 16) ||
      !attend_json_integer(attend_json_get(line, "tokens"), &tokens))
    return false;
  x.count = (int)tokens;
  x.log_probability =
      attend_json_number(attend_json_get(line, "log_probability"), 0);
  x.score = x.count ? x.log_probability / x.count : 0;
  keep(j, strtoull(key, NULL, 16), text, &x);
  return true;
}

static int check_first(const journal *j, const attend_json *line) {
  const char *model = attend_json_string(attend_json_get(line, "model"), NULL);
  const char *how = attend_json_string(attend_json_get(line, "options"), NULL);
  if (!model || !how) {
    complain(
        "%s is not the work of attend summarize: choose another folder "
        "for --work",
        j->path);
    return EXIT_FAILED;
  }
  if (!strcmp(model, j->model) && !strcmp(how, j->options)) return EXIT_OK;
  complain(
      "%s is work with %s: give the same ones, or another folder for "
      "--work",
      j->path,
      strcmp(model, j->model)
          ? "another model, tokenizer, --weights, instruction set or form of "
            "attention"
          : "other options");
  return EXIT_USAGE;
}

static int read_line(journal *j, size_t number, const char *line,
                     size_t length) {
  attend_json *root = NULL;
  int code = EXIT_OK;
  bool bad = attend_json_parse(j->ctx, j->path, line, length, &root) != 0;
  if (!bad && number == 1) code = check_first(j, root);
  bad = bad || (!code && !is_whole(j, line, length));
  if (!bad && number > 1) bad = !take_line(j, root);
  attend_json_free(root);
  if (!bad) return code;
  complain(
      "line %zu of %s is damaged: remove it, or choose another folder for "
      "--work",
      number, j->path);
  return EXIT_FAILED;
}

/* *whole: bytes of complete lines. */
static int read_lines(journal *j, const char *bytes, size_t length,
                      size_t *whole) {
  size_t number = 0;
  const char *end;
  *whole = 0;
  while ((end = memchr(bytes + *whole, '\n', length - *whole))) {
    const char *line = bytes + *whole;
    int code = read_line(j, ++number, line, (size_t)(end - line));
    if (code) return code;
    *whole = (size_t)(end - bytes) + 1;
  }
  return EXIT_OK;
}

static int read_all(journal *j, size_t *whole) {
  size_t length = (size_t)file_bytes(j->path), got;
  FILE *f = fopen(j->path, "rb");
  char *bytes = need(length + 1, 1);
  *whole = 0;
  int code = EXIT_OK;
  got = f ? fread(bytes, 1, length, f) : 0;
  if (!f || got != length) {
    complain("%s cannot be read: %s", j->path, strerror(errno));
    code = EXIT_FAILED;
  }
  if (f) fclose(f);
  if (!code) code = read_lines(j, bytes, length, whole);
  free(bytes);
  return code;
}

/* ---- writing -------------------------------------------------------------------- */

static void put_line(journal *j, attend_json_writer *w) {
  char digest[ATTEND_DIGEST_TEXT];
  digest_line(j, w->text, w->length, digest);
  json_text(w, "digest", digest);
  attend_json_close(w, '}');
  if (!j->failed && !attend_json_finish(w))
    j->failed =
        fwrite(w->text, 1, w->length, j->file) != w->length || fflush(j->file);
  attend_json_writer_free(w);
}

void journal_add(journal *j, const char *text, size_t length,
                 const summary *one) {
  char key[17];
  if (!j) return;
  snprintf(key, sizeof key, "%016llx",
           (unsigned long long)key_of(text, length));
  attend_json_writer w = attend_json_writer_text(j->ctx);
  attend_json_open(&w, '{');
  json_text(&w, "part", key);
  json_text(&w, "summary", one->text);
  json_number(&w, "tokens", one->count);
  json_number(&w, "log_probability", one->log_probability);
  put_line(j, &w);
}

static void put_first(journal *j) {
  attend_json_writer w = attend_json_writer_text(j->ctx);
  attend_json_open(&w, '{');
  json_text(&w, "model", j->model);
  json_text(&w, "options", j->options);
  put_line(j, &w);
}

static int open_file(journal *j) {
  size_t whole = 0;
  int code = file_bytes(j->path) > 0 ? read_all(j, &whole) : EXIT_OK;
  if (code) return code;
  j->file = fopen(j->path, "ab");
  if (!j->file || ftruncate(fileno(j->file), (off_t)whole)) {
    complain("%s cannot be written: %s", j->path, strerror(errno));
    return EXIT_FAILED;
  }
  if (!whole) put_first(j);
  return EXIT_OK;
}

int journal_open(const summarizer *s, const summarize_options *o,
                 journal **journal_) {
  const char *folder = o->longer.work;
  *journal_ = NULL;
  if (!folder) return EXIT_OK;
  if (!make_folder(folder)) return EXIT_FAILED;
  journal *j = need(1, sizeof *j);
  char *lock = path_of("%s/.lock", folder);
  j->ctx = s->m.ctx;
  j->path = path_of("%s/parts.jsonl", folder);
  digest_options(s, &o->how, j->options);
  attend_status status = digest_model(s, &o->model, j->model);
  j->lock = status ? -1 : lock_take(lock);
  free(lock);
  int code = status        ? complain_status(j->ctx, status)
             : j->lock < 0 ? EXIT_FAILED
                           : open_file(j);
  if (code)
    journal_close(j);
  else
    *journal_ = j;
  return code;
}

int journal_close(journal *j) {
  if (!j) return EXIT_OK;
  if (j->file) {
    j->failed |= fflush(j->file) || fsync(fileno(j->file));
    j->failed |= fclose(j->file) != 0;
  }
  if (j->failed) complain("%s could not be written whole", j->path);
  int code = j->failed ? EXIT_FAILED : EXIT_OK;
  for (size_t i = 0; i < j->slots; i++) free(j->entry[i].one.text);
  free(j->entry);
  free(j->path);
  if (j->lock >= 0) lock_drop(j->lock);
  free(j);
  return code;
}
