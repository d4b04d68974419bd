/* Texts out of files: plain, lines of JSON, columns. */
#include "text_source.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attend/file.h"
#include "attend/json.h"
#include "folders.h"
#include "progress.h"

bool text_format_named(const char *name, text_format *format) {
  static const char *const formats[] = {
      [TEXT_PLAIN] = "text", [TEXT_JSONL] = "jsonl", [TEXT_TSV] = "tsv"};
  for (int i = TEXT_PLAIN; i <= TEXT_TSV; i++) {
    if (strcmp(formats[i], name)) continue;
    *format = (text_format)i;
    return true;
  }
  return false;
}

static text_format format_of(const text_source *s, const char *path) {
  if (s->format != TEXT_BY_NAME) return s->format;
  if (path_ends(path, ".jsonl") || path_ends(path, ".ndjson"))
    return TEXT_JSONL;
  return path_ends(path, ".tsv") ? TEXT_TSV : TEXT_PLAIN;
}

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

static int put(const text_source *s, const char *text, size_t length,
               bool ends) {
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

static int read_columns(const text_source *s, char *line, size_t length) {
  int code = EXIT_OK;
  for (size_t at = 0, end; at <= length && !code; at = end + 1) {
    const char *tab = memchr(line + at, '\t', length - at);
    end = tab ? (size_t)(tab - line) : length;
    if (end > at) code = put(s, line + at, end - at, true);
  }
  return code;
}

static int put_string(const text_source *s, const attend_json *value,
                      size_t *found) {
  size_t length;
  const char *text = attend_json_string(value, &length);
  if (!text) return EXIT_OK;
  *found += 1;
  return put(s, text, length, true);
}

static int put_fields(const text_source *s, const attend_json *line,
                      size_t *found) {
  int code = EXIT_OK;
  const attend_json *usual = attend_json_get(line, "text");
  for (int i = 0; i < s->fields && !code; i++)
    code = put_string(s, attend_json_get(line, s->field[i]), found);
  if (s->fields) return code;
  if (attend_json_kind_of(line) == ATTEND_JSON_STRING)
    return put_string(s, line, found);
  if (attend_json_string(usual, NULL)) return put_string(s, usual, found);
  for (size_t i = 0; i < attend_json_count(line) && !code; i++)
    code = put_string(s, attend_json_at(line, i), found);
  return code;
}

static int read_object(const text_source *s, const char *line, size_t length,
                       const char *where) {
  attend_json *root;
  size_t found = 0;
  attend_status status = attend_json_parse(s->ctx, where, line, length, &root);
  if (status) return complain_status(s->ctx, status);
  int code = put_fields(s, root, &found);
  attend_json_free(root);
  if (code || found) return code;
  complain("%s has no string%s: name the fields that are text with --field",
           where, s->fields ? " in the fields that were named" : "");
  return EXIT_FAILED;
}

static int read_lines(text_source *s, FILE *in, const char *name, bool json) {
  char *line = NULL;
  size_t capacity = 0;
  ssize_t n;
  int code = EXIT_OK;
  for (size_t number = 1; !code && (n = getline(&line, &capacity, in)) > 0;
       number++) {
    size_t length = (size_t)n;
    progress_bytes(s->done += length, 0);
    while (length && (line[length - 1] == '\n' || line[length - 1] == '\r'))
      length--;
    if (!length) continue;
    char *where = path_of("line %zu of %s", number, name);
    code = json ? read_object(s, line, length, where)
                : read_columns(s, line, length);
    free(where);
  }
  free(line);
  return code;
}

/* ---- files ----------------------------------------------------------------------- */

static int read_stream(text_source *s, FILE *in, const char *path) {
  const char *name = name_of(path);
  text_format format = format_of(s, path);
  errno = 0;
  int code = format == TEXT_PLAIN
                 ? read_plain(s, in)
                 : read_lines(s, in, name, format == TEXT_JSONL);
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
