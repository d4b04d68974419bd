/* Texts from files: plain, .jsonl, .tsv. */
#include "text_source.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attend/file.h"
#include "attend/json.h"
#include "attend/lines.h"
#include "folders.h"
#include "progress.h"

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

/* ---- formats --------------------------------------------------------------------- */

static int put(const text_source *s, const char *text, size_t length, bool ends) {
  attend_status status = s->put(text, length, ends, s->user);
  return status ? complain_status(s->ctx, status) : EXIT_OK;
}

static int read_plain(text_source *s, FILE *in) {
  enum { CHUNK = 1 << 18 };
  char *chunk = need(CHUNK, 1);
  size_t n;
  int code = EXIT_OK;
  while (!code && (n = fread(chunk, 1, CHUNK, in))) {
    code = put(s, chunk, n, false);
    progress_bytes(s->done += n, 0);
  }
  free(chunk);
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

/* ---- files ----------------------------------------------------------------------- */

static int read_stream(text_source *s, FILE *in, const char *path) {
  const char *name = name_of(path);
  attend_format format = s->format ? s->format : attend_format_of(path);
  if (format != ATTEND_FORMAT_TEXT) return read_lines(s, in, name, format);
  errno = 0;
  int code = read_plain(s, in);
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
