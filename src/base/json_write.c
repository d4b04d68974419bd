#include <errno.h>
#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/json_write.h"

json_writer json_writer_file(attend_context *ctx, FILE *file) {
  return (json_writer){.ctx = ctx, .file = file, .first = true};
}

json_writer json_writer_text(attend_context *ctx) { return json_writer_file(ctx, NULL); }

void json_indent(json_writer *w, bool indent) { w->indent = indent; }

static void put(json_writer *w, const char *bytes, size_t n) {
  if (w->status || !n) return;
  if (w->file) {
    if (fwrite(bytes, 1, n, w->file) != n)
      w->status = fail(w->ctx, ATTEND_IO, "could not write JSON: %s", strerror(errno));
    return;
  }
  w->status = grow(w->ctx, &w->text, &w->capacity, w->length + n + 1, 1, "the JSON text");
  if (w->status) return;
  memcpy(w->text + w->length, bytes, n);
  w->length += n;
  w->text[w->length] = 0;
}

static void put_line(json_writer *w) {
  put(w, "\n", 1);
  for (int i = 0; i < w->depth; i++) put(w, "  ", 2);
}

/* ---- balance --------------------------------------------------------------------- */

static bool in_object(const json_writer *w) {
  int level = w->depth - 1;
  return w->depth > 0 && w->is_object[level / 8] >> level % 8 & 1;
}

static void refuse(json_writer *w, const char *why) {
  if (!w->status)
    w->status = fail(w->ctx, ATTEND_INVALID, "JSON would not be well-formed: %s", why);
}

static void check_value(json_writer *w) {
  if (w->depth == 0 && !w->first)
    refuse(w, "a document has one value, and a second was written");
  else if (in_object(w) && !w->after_name)
    refuse(w, "a value in an object needs a name before it");
}

static void check_name(json_writer *w) {
  if (!in_object(w))
    refuse(w, "a name was written outside of an object");
  else if (w->after_name)
    refuse(w, "two names follow each other without a value");
}

static void check_close(json_writer *w, char bracket) {
  if (w->depth == 0)
    refuse(w, "a bracket closes what was not opened");
  else if (bracket != (in_object(w) ? '}' : ']'))
    refuse(w, in_object(w) ? "an object must end with }" : "an array must end with ]");
  else if (w->after_name)
    refuse(w, "an object ends with a name that has no value");
}

static void push_level(json_writer *w, char bracket) {
  unsigned char bit = (unsigned char)(1 << w->depth % 8);
  unsigned char *bits = &w->is_object[w->depth / 8];
  *bits = (unsigned char)(bracket == '{' ? *bits | bit : *bits & ~bit);
  w->depth++;
}

/* ---- values ---------------------------------------------------------------------- */

/* What stands between the last value and the next. */
static void separate(json_writer *w) {
  if (!w->first) put(w, ",", 1);
  if (w->depth && w->indent)
    put_line(w);
  else if (!w->first)
    put(w, " ", 1);
  w->first = false;
}

static void begin_value(json_writer *w) {
  check_value(w);
  if (!w->after_name) separate(w);
  w->after_name = false;
}

void json_open(json_writer *w, char bracket) {
  begin_value(w);
  if (bracket != '{' && bracket != '[') refuse(w, "only { and [ open something");
  if (w->depth == ATTEND_JSON_DEPTH) refuse(w, "it is nested too deeply");
  if (w->status) return;
  put(w, &bracket, 1);
  push_level(w, bracket);
  w->first = true;
}

void json_close(json_writer *w, char bracket) {
  check_close(w, bracket);
  if (w->status) return;
  w->depth--;
  if (w->indent && !w->first) put_line(w);
  put(w, &bracket, 1);
  w->first = false;
}

static void put_escaped(json_writer *w, unsigned c) {
  static const char from[] = "\"\\\b\f\n\r\t", to[] = "\"\\bfnrt";
  const char *found = c && c < 0x80 ? strchr(from, (int)c) : NULL;
  char text[8];
  int n = found ? snprintf(text, sizeof text, "\\%c", to[found - from])
                : snprintf(text, sizeof text, "\\u%04x", c);
  put(w, text, (size_t)n);
}

/* DEL and C1 steer terminals as C0 does, although JSON does not ask for their escape. */
static bool is_plain(const unsigned char *s, int length) {
  if (length == 1) return *s >= 0x20 && *s != 0x7f && *s != '"' && *s != '\\';
  return length > 2 || s[0] != 0xc2 || s[1] >= 0xa0;
}

/* What is not UTF-8 becomes U+FFFD, a byte at a time: JSON has nothing else. */
static void put_quoted(json_writer *w, const char *text, size_t n) {
  const unsigned char *s = (const unsigned char *)text;
  size_t plain = 0;
  put(w, "\"", 1);
  for (size_t i = 0; i < n;) {
    int length = utf8_length(s + i, s + n);
    if (length && is_plain(s + i, length)) {
      i += (size_t)length;
      continue;
    }
    put(w, text + plain, i - plain);
    if (length)
      put_escaped(w, s[i + (size_t)length - 1]);
    else
      put(w, "\xef\xbf\xbd", 3);
    i += length ? (size_t)length : 1;
    plain = i;
  }
  put(w, text + plain, n - plain);
  put(w, "\"", 1);
}

void json_member(json_writer *w, const char *name) {
  check_name(w);
  separate(w);
  put_quoted(w, name, strlen(name));
  put(w, ": ", 2);
  w->after_name = true;
}

void json_put_bytes(json_writer *w, const char *text, size_t length) {
  begin_value(w);
  put_quoted(w, text, length);
}

void json_put_string(json_writer *w, const char *text) {
  if (text)
    json_put_bytes(w, text, strlen(text));
  else
    json_put_null(w);
}

void json_put_number(json_writer *w, double number) {
  if (!isfinite(number)) {
    json_put_null(w);
    return;
  }
  char text[40];
  for (int digits = 15; digits <= 17; digits++) {
    snprintf(text, sizeof text, "%.*g", digits, number);
    if (strtod(text, NULL) == number) break;
  }
  char *point = strchr(text, *localeconv()->decimal_point);
  if (point) *point = '.';
  begin_value(w);
  put(w, text, strlen(text));
}

void json_put_integer(json_writer *w, int64_t number) {
  char text[24];
  int n = snprintf(text, sizeof text, "%" PRId64, number);
  begin_value(w);
  put(w, text, (size_t)n);
}

void json_put_boolean(json_writer *w, bool truth) {
  begin_value(w);
  put(w, truth ? "true" : "false", truth ? 4 : 5);
}

void json_put_null(json_writer *w) {
  begin_value(w);
  put(w, "null", 4);
}

void json_put_json(json_writer *w, const char *json, size_t length) {
  if (length && json[length - 1] == '\n') length--;
  begin_value(w);
  put(w, json, length);
}

static void put_elements(json_writer *w, const attend_json *value, bool named) {
  json_open(w, named ? '{' : '[');
  for (size_t i = 0; i < attend_json_count(value); i++) {
    const attend_json *one = attend_json_at(value, i);
    if (named) json_member(w, attend_json_name(one, NULL));
    json_put_value(w, one);
  }
  json_close(w, named ? '}' : ']');
}

void json_put_value(json_writer *w, const attend_json *value) {
  size_t length;
  const char *text = attend_json_string(value, &length);
  attend_json_kind kind = attend_json_kind_of(value);
  if (kind == ATTEND_JSON_OBJECT || kind == ATTEND_JSON_ARRAY)
    put_elements(w, value, kind == ATTEND_JSON_OBJECT);
  else if (kind == ATTEND_JSON_STRING)
    json_put_bytes(w, text, length);
  else if (kind == ATTEND_JSON_NUMBER)
    json_put_number(w, attend_json_number(value, 0));
  else if (kind == ATTEND_JSON_BOOL)
    json_put_boolean(w, attend_json_boolean(value, false));
  else
    json_put_null(w);
}

void json_member_string(json_writer *w, const char *name, const char *text) {
  json_member(w, name);
  json_put_string(w, text);
}

void json_member_number(json_writer *w, const char *name, double number) {
  json_member(w, name);
  json_put_number(w, number);
}

void json_member_integer(json_writer *w, const char *name, int64_t number) {
  json_member(w, name);
  json_put_integer(w, number);
}

void json_member_boolean(json_writer *w, const char *name, bool truth) {
  json_member(w, name);
  json_put_boolean(w, truth);
}

attend_status json_finish(json_writer *w) {
  if (w->depth) refuse(w, "an object or an array was not closed");
  if (!w->depth && w->first) refuse(w, "a document needs a value");
  put(w, "\n", 1);
  if (!w->status && w->file && (fflush(w->file) || ferror(w->file)))
    w->status = fail(w->ctx, ATTEND_IO, "could not write JSON: %s", strerror(errno));
  return w->status;
}

attend_status json_take_text(json_writer *w, char **text, size_t *length) {
  attend_status status = json_finish(w);
  *text = status ? NULL : w->text;
  *length = status ? 0 : w->length;
  if (!status) w->text = NULL;
  json_writer_free(w);
  return status;
}

void json_writer_free(json_writer *w) {
  ctx_free(w->ctx, w->text);
  w->text = NULL;
  w->length = w->capacity = 0;
}
