/* attend/lines.h - .jsonl and .tsv files, record by record.
 *
 *   attend_lines *lines;
 *   attend_line line;
 *   attend_lines_of_file(ctx, in, path, attend_format_of(path), &lines);
 *   while (!(status = attend_lines_next(lines, &line)) && line.text) ...
 *   attend_lines_free(lines);
 *
 * Line ends are \n or \r\n; a byte order mark at the start is skipped, and so are
 * blank lines. Errors name the file and the line.
 */
#ifndef ATTEND_LINES_H
#define ATTEND_LINES_H

#include <stdio.h>

#include "attend/base.h"
#include "attend/json.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
  ATTEND_FORMAT_BY_NAME = 0, /* attend_format_of */
  ATTEND_FORMAT_TEXT,        /* not split into lines */
  ATTEND_FORMAT_JSONL,       /* a JSON value on each line */
  ATTEND_FORMAT_TSV          /* columns with tabs between them */
} attend_format;

/* By the ending: .jsonl and .ndjson, .tsv; anything else is text. */
ATTEND_API attend_format attend_format_of(const char *path);
/* "text", "jsonl", "tsv"; 0 if it is another. */
ATTEND_API bool attend_format_parse(const char *name, attend_format *format);

typedef struct {
  const char *text; /* [length] UTF-8, without the line end; NULL: no more lines */
  size_t length;
  size_t number; /* of the line in the file, from 1 */
} attend_line;

typedef struct attend_lines attend_lines;

/* `in` stays the caller's. `name` is for errors; it is copied. */
ATTEND_API attend_status attend_lines_of_file(attend_context *ctx, FILE *in, const char *name,
                                              attend_format format, attend_lines **lines);
/* Of bytes in memory, which must stay. */
ATTEND_API attend_status attend_lines_of_bytes(attend_context *ctx, const char *bytes,
                                               size_t length, const char *name,
                                               attend_format format, attend_lines **lines);
ATTEND_API void attend_lines_free(attend_lines *lines);

/* The line stays valid until the next call. ATTEND_IO if the file cannot be read, or
 * if a line of .tsv is not UTF-8 (attend_lines_json checks the others). */
ATTEND_API attend_status attend_lines_next(attend_lines *lines, attend_line *line);
/* The current line as JSON. */
ATTEND_API attend_status attend_lines_json(attend_lines *lines, attend_json **root);
/* The column of a line that starts at *at, which moves to the next; *at starts with 0.
 * 0: there are no more. */
ATTEND_API bool attend_line_column(const attend_line *line, size_t *at, const char **text,
                                   size_t *length);
/* Bytes up to the end of the current line. */
ATTEND_API size_t attend_lines_bytes(const attend_lines *lines);

#ifdef __cplusplus
}
#endif
#endif
