/* Typed members of a JSON object: a member of the wrong type is an error, not a default. */
#include <math.h>
#include <stdio.h>

#include "base/files.h"

enum { SHOWN = 48 }; /* bytes of a value in a sentence */

static void describe(const attend_json *value, char text[SHOWN + 16]) {
  int64_t n;
  size_t size = SHOWN + 16;
  switch (attend_json_kind_of(value)) {
    case ATTEND_JSON_BOOL:
      snprintf(text, size, attend_json_boolean(value, 0) ? "true" : "false");
      return;
    case ATTEND_JSON_NUMBER:
      if (attend_json_integer(value, &n))
        snprintf(text, size, "%lld", (long long)n);
      else
        snprintf(text, size, "%.9g", attend_json_number(value, 0));
      return;
    case ATTEND_JSON_STRING:
      snprintf(text, size, "\"%.*s\"", SHOWN, attend_json_string(value, NULL));
      return;
    case ATTEND_JSON_ARRAY:
      snprintf(text, size, "an array of %zu", attend_json_count(value));
      return;
    case ATTEND_JSON_OBJECT:
      snprintf(text, size, "an object");
      return;
    case ATTEND_JSON_NULL:
    case ATTEND_JSON_NONE:
      break;
  }
  snprintf(text, size, "null");
}

static attend_status refuse(attend_context *ctx, const char *what, const char *name,
                            const attend_json *value, const char *expected) {
  char found[SHOWN + 16];
  describe(value, found);
  return fail(ctx, ATTEND_IO, "%s: %s is %s: expected %s", what, name, found, expected);
}

/* The member if it is there and not null. */
static const attend_json *find(const attend_json *object, const char *name) {
  const attend_json *value = attend_json_get(object, name);
  return json_is_none(value) ? NULL : value;
}

attend_status attend_json_read_integer(attend_context *ctx, const char *what,
                                       const attend_json *object, const char *name, int64_t low,
                                       int64_t high, int64_t *integer) {
  const attend_json *value = find(object, name);
  char expected[96];
  int64_t n;
  if (!value) return ATTEND_OK;
  if (attend_json_integer(value, &n) && n >= low && n <= high) {
    *integer = n;
    return ATTEND_OK;
  }
  bool any = low == INT64_MIN && high == INT64_MAX;
  snprintf(expected, sizeof expected, "a whole number from %lld to %lld", (long long)low,
           (long long)high);
  return refuse(ctx, what, name, value, any ? "a whole number" : expected);
}

attend_status attend_json_read_number(attend_context *ctx, const char *what,
                                      const attend_json *object, const char *name, double low,
                                      double high, double *number) {
  const attend_json *value = find(object, name);
  char expected[96];
  double x = attend_json_number(value, NAN);
  if (!value) return ATTEND_OK;
  if (x >= low && x <= high) {
    *number = x;
    return ATTEND_OK;
  }
  snprintf(expected, sizeof expected, "a number from %g to %g", low, high);
  return refuse(ctx, what, name, value, expected);
}

attend_status attend_json_read_boolean(attend_context *ctx, const char *what,
                                       const attend_json *object, const char *name, bool *truth) {
  const attend_json *value = find(object, name);
  if (value && attend_json_kind_of(value) != ATTEND_JSON_BOOL)
    return refuse(ctx, what, name, value, "true or false");
  *truth = attend_json_boolean(value, *truth);
  return ATTEND_OK;
}

attend_status attend_json_read_string(attend_context *ctx, const char *what,
                                      const attend_json *object, const char *name,
                                      const char **text) {
  const attend_json *value = find(object, name);
  if (value && attend_json_kind_of(value) != ATTEND_JSON_STRING)
    return refuse(ctx, what, name, value, "a string");
  if (value) *text = attend_json_string(value, NULL);
  return ATTEND_OK;
}

attend_status attend_json_read_tree(attend_context *ctx, const char *what,
                                    const attend_json *object, const char *name,
                                    attend_json_kind kind, const attend_json **tree) {
  const attend_json *value = name ? find(object, name) : object;
  bool wrong = value && attend_json_kind_of(value) != kind;
  const char *expected = kind == ATTEND_JSON_OBJECT ? "an object" : "an array";
  *tree = wrong ? NULL : value;
  if (!wrong) return ATTEND_OK;
  return refuse(ctx, what, name ? name : "the document", value, expected);
}
