/* Writing JSON (RFC 8259) to a file or into memory. cli/ includes it too.
 *
 *   json_writer w = json_writer_file(ctx, stdout);
 *   json_open(&w, '{');
 *   json_member_string(&w, "name", name);
 *   json_close(&w, '}');
 *   attend_status status = json_finish(&w);
 *   json_writer_free(&w);
 *
 * The writer keeps its first failure and ignores later calls, so that only json_finish needs
 * checking.
 */
#ifndef BASE_JSON_WRITE_H
#define BASE_JSON_WRITE_H

#include <stdio.h>

#include "attend/json.h"
#include "base/for_lab.h"

typedef struct {
  attend_context *ctx;
  FILE *file; /* or NULL: to text */
  char *text; /* ends in a zero byte */
  size_t length, capacity;
  int depth;
  unsigned char is_object[ATTEND_JSON_DEPTH / 8]; /* a bit a level */
  bool indent, first, after_name;
  attend_status status; /* the first failure */
} json_writer;

json_writer json_writer_file(attend_context *ctx, FILE *file) FOR_LAB(json_writer_file);
json_writer json_writer_text(attend_context *ctx) FOR_LAB(json_writer_text);
/* One value a line, indented by two spaces a level; default: one line. */
void json_indent(json_writer *w, bool indent) FOR_LAB(json_indent);

void json_open(json_writer *w, char bracket) FOR_LAB(json_open);
void json_close(json_writer *w, char bracket) FOR_LAB(json_close);
/* The name of the member that the next call writes. */
void json_member(json_writer *w, const char *name) FOR_LAB(json_member);
/* Bytes that are not UTF-8 are written as U+FFFD; NULL is null. */
void json_put_string(json_writer *w, const char *text) FOR_LAB(json_put_string);
void json_put_bytes(json_writer *w, const char *text, size_t length) FOR_LAB(json_put_bytes);
/* The shortest of 15, 16 or 17 digits that reads back as the same double; null
 * where it is not finite. */
void json_put_number(json_writer *w, double number) FOR_LAB(json_put_number);
void json_put_integer(json_writer *w, int64_t number) FOR_LAB(json_put_integer);
void json_put_boolean(json_writer *w, bool truth) FOR_LAB(json_put_boolean);
void json_put_null(json_writer *w) FOR_LAB(json_put_null);
/* A parsed value, with all that is in it. */
void json_put_value(json_writer *w, const attend_json *value) FOR_LAB(json_put_value);
/* A value that is JSON text already, without the newline that ends a document. */
void json_put_json(json_writer *w, const char *json, size_t length) FOR_LAB(json_put_json);
/* A member with its value. */
void json_member_string(json_writer *w, const char *name, const char *text)
    FOR_LAB(json_member_string);
void json_member_number(json_writer *w, const char *name, double number)
    FOR_LAB(json_member_number);
void json_member_integer(json_writer *w, const char *name, int64_t number)
    FOR_LAB(json_member_integer);
void json_member_boolean(json_writer *w, const char *name, bool truth) FOR_LAB(json_member_boolean);

/* Ends the document with a newline, flushes the file and returns the first failure.
 * Calls that do not form a document (a value without a name in an object, a name
 * elsewhere, a mismatched bracket, a second top-level value, an unclosed container) are
 * ATTEND_INVALID. The text is valid until json_writer_free. */
attend_status json_finish(json_writer *w) FOR_LAB(json_finish);
/* json_finish, and the text is the caller's, to be freed with give; NULL on failure. Frees the
 * writer. */
attend_status json_take_text(json_writer *w, char **text, size_t *length) FOR_LAB(json_take_text);
void json_writer_free(json_writer *w) FOR_LAB(json_writer_free);

#endif
