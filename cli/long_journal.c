/* The work folder of summaries of parts: a line for each, as it is made.
 *
 * Place: cli/ - see long_summary.h.
 *
 * A summary is found again by the text that it is of, so that a document that
 * was changed in one place is summarized anew there alone. The first line says
 * which model and which options: others give other summaries. A last line that
 * a killed process left half written is cut off.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "folders.h"
#include "json_members.h"
#include "long_summary.h"

typedef struct {
  uint64_t key; /* 0: free */
  summary one;
} entry;

struct journal {
  attend_context *ctx;
  char *path;
  FILE *file;
  int lock;
  char model[17], options[17];
  entry *entry; /* [slots], by key */
  size_t slots, used;
  bool failed;
};

/* ---- keys ----------------------------------------------------------------------- */

static uint64_t stir(uint64_t sum, const void *bytes, size_t length) {
  const unsigned char *b = bytes;
  for (size_t i = 0; i < length; i++)
    sum = (sum ^ b[i]) * UINT64_C(0x100000001b3); /* FNV-1a */
  return sum;
}

static const uint64_t START = UINT64_C(0xcbf29ce484222325);

static uint64_t key_of(const char *text, size_t length) {
  uint64_t key = stir(START, text, length);
  return key ? key : 1;
}

static void put_hex(uint64_t x, char text[17]) {
  snprintf(text, 17, "%016llx", (unsigned long long)x);
}

/* What else the words of a summary depend on. */
static uint64_t options_digest(const summarizer *s, const summary_options *a) {
  const attend_generate_options *o = &s->how;
  char text[512];
  snprintf(text, sizeof text, "%d %d %d %d %a %d %a %d %d %d %d %s", o->max_new,
           o->min_new, o->beams, o->early_stop, (double)o->length_penalty,
           o->no_repeat, (double)o->repetition, o->ignore_end, s->reads,
           a->least, a->most, s->prefix);
  return stir(START, text, strlen(text));
}

static uint64_t model_digest(const summarizer *s) {
  uint64_t weights = attend_checkpoint_digest(s->m.files);
  uint64_t sum = stir(START, &weights, sizeof weights);
  for (int role = 0; role < ATTEND_ROLES; role++) {
    const attend_form *f = attend_model_role_form(s->m.model, role);
    char text[256];
    snprintf(text, sizeof text, "%d %d %d %d %a %a %a %llu %d %d %d %a",
             (int)f->kind, f->degree, f->features, f->pairs, (double)f->a,
             (double)f->c, (double)f->sigma, (unsigned long long)f->seed,
             (int)f->draw, (int)f->map, (int)f->ties, (double)f->temperature);
    sum = stir(sum, text, strlen(text));
  }
  return sum;
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
      strcmp(model, j->model) ? "another model or form of attention"
                              : "other options");
  return EXIT_USAGE;
}

static int read_line(journal *j, size_t number, const char *line,
                     size_t length) {
  attend_json *root = NULL;
  int code = EXIT_OK;
  bool bad = attend_json_parse(j->ctx, j->path, line, length, &root) != 0;
  if (!bad && number == 1)
    code = check_first(j, root);
  else
    bad = bad || !take_line(j, root);
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

static void put_text(journal *j, attend_json_writer *w) {
  if (!j->failed && !attend_json_finish(w))
    j->failed =
        fwrite(w->text, 1, w->length, j->file) != w->length || fflush(j->file);
  attend_json_writer_free(w);
}

void journal_add(journal *j, const char *text, size_t length,
                 const summary *one) {
  char key[17];
  if (!j) return;
  put_hex(key_of(text, length), key);
  attend_json_writer w = attend_json_writer_text(j->ctx);
  attend_json_open(&w, '{');
  json_text(&w, "part", key);
  json_text(&w, "summary", one->text);
  json_number(&w, "tokens", one->count);
  json_number(&w, "log_probability", one->log_probability);
  attend_json_close(&w, '}');
  put_text(j, &w);
}

static void put_first(journal *j) {
  attend_json_writer w = attend_json_writer_text(j->ctx);
  attend_json_open(&w, '{');
  json_text(&w, "model", j->model);
  json_text(&w, "options", j->options);
  attend_json_close(&w, '}');
  put_text(j, &w);
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

int journal_open(const summarizer *s, const summary_options *asked,
                 const char *folder, journal **journal_) {
  *journal_ = NULL;
  if (!folder) return EXIT_OK;
  if (!make_folder(folder)) return EXIT_FAILED;
  journal *j = need(1, sizeof *j);
  char *lock = path_of("%s/.lock", folder);
  j->ctx = s->m.ctx;
  j->path = path_of("%s/parts.jsonl", folder);
  put_hex(model_digest(s), j->model);
  put_hex(options_digest(s, asked), j->options);
  j->lock = lock_take(lock);
  free(lock);
  int code = j->lock < 0 ? EXIT_FAILED : open_file(j);
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
