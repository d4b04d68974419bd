/* Texts in and out. */
#include "text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "attend/file.h"
#include "attend/json.h"
#include "folders.h"
#include "options.h"
#include "progress.h"

/* ---- whole texts, and ids -------------------------------------------------------------- */

int text_check(const char *name, const char *text, size_t length) {
  attend_context *ctx;
  if (attend_utf8_span(text, length) == length) return EXIT_OK;
  attend_status status = options_reader(&ctx);
  if (!status) status = attend_text_check(ctx, name, text, length); /* names a binary format */
  if (!status) status = attend_utf8_check(ctx, name, text, length);
  int code = complain_status(ctx, status);
  attend_context_free(ctx);
  return code;
}

void text_waits(FILE *in, const char *for_what) {
  if (isatty(fileno(in))) complain("type %s; Ctrl-D on a line of its own ends", for_what);
}

char *input_all(FILE *in, const char *name, size_t *length, int *code) {
  size_t capacity = 1 << 16, n;
  char *text = need(capacity, 1);
  *length = 0;
  text_waits(in, "the text");
  /* a terminal would be asked for a second Ctrl-D */
  while (!feof(in) && (n = fread(text + *length, 1, capacity - *length - 1, in))) {
    *length += n;
    if (capacity - *length == 1) text = need_more(text, *length, capacity *= 2, 1);
  }
  text[*length] = 0;
  if (ferror(in)) {
    complain("%s cannot be read: %s", name, strerror(errno));
    *code = EXIT_FAILED;
  } else {
    *code = text_check(name, text, *length);
  }
  return text;
}

char *input_file(const char *path, size_t *length) {
  FILE *in = fopen(path, "rb");
  int code = EXIT_OK;
  if (!in) {
    complain("%s cannot be read: %s", path, strerror(errno));
    return NULL;
  }
  char *text = input_all(in, path, length, &code);
  fclose(in);
  if (!code) return text;
  free(text);
  return NULL;
}

char *input_named(const char *path, size_t *length, int *code) {
  char *text;
  *code = EXIT_OK;
  if (strcmp(path, "-")) {
    text = input_file(path, length);
    if (!text) *code = EXIT_FAILED;
    return text;
  }
  text = input_all(stdin, "the standard input", length, code);
  if (!*code) return text;
  free(text);
  return NULL;
}

void id_list_add(id_list *list, int32_t id) {
  if (list->count == list->capacity) {
    list->capacity = 2 * list->capacity + 64;
    list->id = need_more(list->id, (size_t)list->count, (size_t)list->capacity, sizeof *list->id);
  }
  list->id[list->count++] = id;
}

int input_ids(const char *text, id_list *list) {
  static const char between[] = " \t\r\n,[]";
  for (const char *at = text + strspn(text, between); *at; at += strspn(at, between)) {
    char *end;
    long long id = strtoll(at, &end, 10);
    if (end == at || id < 0 || id > INT32_MAX) {
      complain("\"%.20s\" is no id: give numbers, as tokenize prints them", at);
      return EXIT_USAGE;
    }
    id_list_add(list, (int32_t)id);
    at = end;
  }
  return EXIT_OK;
}

/* ---- lines --------------------------------------------------------------------------- */

static bool next_word(line_source *s, const char **text, size_t *length) {
  if (s->next == s->count) return false;
  *text = s->words[s->next++];
  *length = strlen(*text);
  return true;
}

bool line_next(line_source *s, const char **text, size_t *length) {
  if (s->count) return next_word(s, text, length);
  if (s->code || feof(stdin)) return false;
  char name[64];
  errno = 0;
  if (!s->next) text_waits(stdin, "texts, one on each line");
  ssize_t n = getline(&s->line, &s->capacity, stdin);
  if (n < 0) return false;
  snprintf(name, sizeof name, "line %d of the standard input", ++s->next);
  if ((s->code = text_check(name, s->line, (size_t)n))) return false;
  if (n && s->line[n - 1] == '\n') n--;
  if (n && s->line[n - 1] == '\r') n--;
  *text = s->line;
  *length = (size_t)n;
  return true;
}

void line_free(line_source *s) { free(s->line); }

int line_check(const line_source *s) {
  if (s->code) return s->code;
  if (s->count || !ferror(stdin)) return EXIT_OK;
  complain("the standard input cannot be read: %s", strerror(errno));
  return EXIT_FAILED;
}

size_t line_bytes(const line_source *s) {
  struct stat about;
  size_t sum = 0;
  for (int i = 0; i < s->count; i++) sum += strlen(s->words[i]);
  if (s->count) return sum;
  bool file = !fstat(STDIN_FILENO, &about) && S_ISREG(about.st_mode);
  return file ? (size_t)about.st_size : 0;
}

/* ---- files --------------------------------------------------------------------------- */

static const char *name_of(const char *path) {
  return strcmp(path, "-") ? path : "the standard input";
}

size_t text_bytes(char **paths, int count) {
  size_t sum = 0;
  for (int i = 0; i < count; i++) {
    int64_t bytes = file_bytes(paths[i]);
    if (bytes < 0) return 0;
    sum += (size_t)bytes;
  }
  return sum;
}

static int put(const text_source *s, const char *text, size_t length, bool ends) {
  attend_status status = s->put(text, length, ends, s->user);
  return status ? complain_status(s->ctx, status) : EXIT_OK;
}

static int refuse_bytes(size_t at, const char *name) {
  return complain(
      "byte %zu of %s is not UTF-8: convert the text first, as with iconv -f latin1 -t utf-8", at,
      name);
}

/* A character may lie in two chunks: its first bytes wait for the rest. */
static int read_plain(text_source *s, FILE *in, const char *name) {
  enum { CHUNK = 1 << 18, LONGEST = 4 };
  char *chunk = need(CHUNK + LONGEST, 1);
  size_t n, open = 0, done = 0;
  int code = EXIT_OK;
  while (!code && !feof(in) && (n = fread(chunk + open, 1, CHUNK, in))) {
    size_t length = open + n, whole = attend_utf8_span(chunk, length);
    open = length - whole;
    if (open >= LONGEST) {
      code = refuse_bytes(done + whole, name);
      break;
    }
    code = put(s, chunk, whole, false);
    memmove(chunk, chunk + whole, open);
    done += whole;
    progress_bytes(s->done += n, 0);
  }
  free(chunk);
  if (!code && open) code = refuse_bytes(done, name);
  return code ? code : put(s, "", 0, true);
}

static int put_columns(const text_source *s, const attend_line *line) {
  const char *text;
  size_t at = 0, length;
  int code = EXIT_OK;
  while (!code && attend_line_column(line, &at, &text, &length))
    if (length) code = put(s, text, length, true);
  return code;
}

static int put_string(const text_source *s, const attend_json *value, size_t *found) {
  size_t length;
  const char *text = attend_json_string(value, &length);
  if (!text) return EXIT_OK;
  *found += 1;
  return put(s, text, length, true);
}

static int put_fields(const text_source *s, const attend_json *line, size_t *found) {
  int code = EXIT_OK;
  const attend_json *usual = attend_json_get(line, "text");
  for (int i = 0; i < s->fields && !code; i++)
    code = put_string(s, attend_json_get(line, s->field[i]), found);
  if (s->fields) return code;
  if (attend_json_kind_of(line) == ATTEND_JSON_STRING) return put_string(s, line, found);
  if (attend_json_string(usual, NULL)) return put_string(s, usual, found);
  for (size_t i = 0; i < attend_json_count(line) && !code; i++)
    code = put_string(s, attend_json_at(line, i), found);
  return code;
}

static int put_object(const text_source *s, attend_lines *lines, const attend_line *line,
                      const char *name) {
  attend_json *root;
  size_t found = 0;
  attend_status status = attend_lines_json(lines, &root);
  if (status) return complain_status(s->ctx, status);
  int code = put_fields(s, root, &found);
  attend_json_free(root);
  if (code || found) return code;
  complain(
      "%s, line %zu has no string%s: name the fields that are text with "
      "--field",
      name, line->number, s->fields ? " in the fields that were named" : "");
  return EXIT_FAILED;
}

static int put_lines(text_source *s, attend_lines *lines, bool json, const char *name) {
  const size_t before = s->done;
  attend_line line;
  for (;;) {
    attend_status status = attend_lines_next(lines, &line);
    if (status) return complain_status(s->ctx, status);
    progress_bytes(s->done = before + attend_lines_bytes(lines), 0);
    if (!line.text) return EXIT_OK;
    int code = json ? put_object(s, lines, &line, name) : put_columns(s, &line);
    if (code) return code;
  }
}

static int read_lines(text_source *s, FILE *in, const char *name, attend_format format) {
  attend_lines *lines;
  attend_status status = attend_lines_of_file(s->ctx, in, name, format, &lines);
  if (status) return complain_status(s->ctx, status);
  int code = put_lines(s, lines, format == ATTEND_FORMAT_JSONL, name);
  attend_lines_free(lines);
  return code;
}

static int read_stream(text_source *s, FILE *in, const char *path) {
  const char *name = name_of(path);
  attend_format format = s->format ? s->format : attend_format_of(path);
  if (format != ATTEND_FORMAT_TEXT) return read_lines(s, in, name, format);
  errno = 0;
  text_waits(in, "the text");
  int code = read_plain(s, in, name);
  if (code || !ferror(in)) return code;
  complain("%s cannot be read: %s", name, strerror(errno));
  return EXIT_FAILED;
}

static int check_text(const text_source *s, FILE *in, const char *path) {
  char begin[8];
  size_t n = fread(begin, 1, sizeof begin, in);
  rewind(in);
  if (!attend_text_check(s->ctx, path, begin, n)) return EXIT_OK;
  return complain_status(s->ctx, ATTEND_IO);
}

int text_read(text_source *s, const char *path) {
  if (!strcmp(path, "-")) return read_stream(s, stdin, path);
  if (is_folder(path)) {
    complain("%s is a folder: name the files in it", path);
    return EXIT_FAILED;
  }
  FILE *in = fopen(path, "rb");
  if (!in) {
    complain("%s cannot be opened: %s", path, strerror(errno));
    return EXIT_FAILED;
  }
  int code = file_bytes(path) >= 0 ? check_text(s, in, path) : EXIT_OK;
  if (!code) code = read_stream(s, in, path);
  fclose(in);
  return code;
}

static attend_status pass(const char *text, size_t length, bool ends, void *user) {
  (void)text, (void)length, (void)ends, (void)user;
  return ATTEND_OK;
}

int text_check_file(attend_context *ctx, const char *path) {
  text_source s = {.ctx = ctx, .put = pass};
  if (file_bytes(path) < 0 || attend_format_of(path) != ATTEND_FORMAT_TEXT) return EXIT_OK;
  return text_read(&s, path);
}

static attend_status feed(const char *text, size_t length, bool ends, void *user) {
  attend_status status = attend_text_trainer_feed(user, text, length);
  return status || !ends ? status : attend_text_trainer_end(user);
}

int text_train(text_source *s, char **paths, int count, attend_text_trainer *trainer) {
  int code = EXIT_OK;
  s->put = feed;
  s->user = trainer;
  progress_start("reading", text_bytes(paths, count));
  for (int i = 0; i < count && !code; i++) code = text_read(s, paths[i]);
  progress_end();
  return code;
}

/* ---- terminals ----------------------------------------------------------------------- */

int text_width(const char *text) {
  int width = 0;
  for (; *text; text++) width += (*text & 0xc0) != 0x80;
  return width;
}

bool is_colourful(FILE *out) {
  const char *no = getenv("NO_COLOR"), *term = getenv("TERM");
  return isatty(fileno(out)) && !(no && *no) && !(term && !strcmp(term, "dumb"));
}

char *printable(const char *text, size_t length, const char *keep) {
  size_t size = attend_escape(text, length, keep, NULL, 0) + 1;
  char *copy = need(size, 1);
  attend_escape(text, length, keep, copy, size);
  return copy;
}

void put_printable(FILE *out, const char *text, size_t length) {
  if (!isatty(fileno(out))) {
    fwrite(text, 1, length, out);
    return;
  }
  char *safe = printable(text, length, "\n\t");
  fputs(safe, out);
  free(safe);
}

char *text_copy(const char *text, size_t length) {
  char *copy = need(length + 1, 1);
  memcpy(copy, text, length);
  return copy;
}

char *text_on_a_line(const char *text, size_t length) {
  char *copy = text_copy(text, length);
  for (size_t i = 0; i < length; i++)
    if ((unsigned char)copy[i] < 32 || copy[i] == 127) copy[i] = ' ';
  char *safe = printable(copy, length, "");
  free(copy);
  return safe;
}

void text_print_cut(FILE *out, const char *text, int width) {
  int have = text_width(text), shown = have > width ? width - 1 : have;
  const char *end = text;
  for (int n = 0; n < shown; n++) {
    end++;
    while ((*end & 0xc0) == 0x80) end++;
  }
  fwrite(text, 1, (size_t)(end - text), out);
  if (have > width) fputs("…", out);
}

int terminal_columns(FILE *out) {
  struct winsize size;
  return !isatty(fileno(out)) || ioctl(fileno(out), TIOCGWINSZ, &size) ? 0 : size.ws_col;
}

/* ---- HTML -------------------------------------------------------------------------- */

void html_put_n(FILE *f, const char *text, size_t length) {
  size_t size = attend_escape_xml(text, length, NULL, 0);
  char *escaped = need(size + 1, 1);
  attend_escape_xml(text, length, escaped, size + 1);
  fwrite(escaped, 1, size, f);
  free(escaped);
}

void html_put(FILE *f, const char *text) { html_put_n(f, text, strlen(text)); }

int html_write(attend_context *ctx, const char *path, void (*page)(FILE *f, const void *user),
               const void *user) {
  char *text = NULL;
  size_t length = 0;
  FILE *f = open_memstream(&text, &length);
  if (f) page(f, user);
  bool whole = f && !ferror(f);
  whole = f && !fclose(f) && whole;
  attend_status status = whole ? attend_file_write(ctx, path, text, length) : ATTEND_OK;
  free(text);
  if (status) return complain_status(ctx, status);
  if (!whole) complain("there is no memory for the page %s", path);
  return whole ? EXIT_OK : EXIT_FAILED;
}
