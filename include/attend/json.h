/* attend/json.h - reading JSON (RFC 8259).
 *
 *   attend_json *root;
 *   attend_json_parse(ctx, "config.json", text, length, &root);
 *   double width = attend_json_number(attend_json_get(root, "n_embd"), 768);
 *   attend_json_free(root);
 *
 * The reader is strict: no comments, no trailing commas, no duplicate names,
 * no invalid UTF-8. It runs in linear time (plus sorting the names of each
 * object) and constant stack. Every accessor accepts NULL, so that lookups chain and
 * one check at the end is enough.
 */
#ifndef ATTEND_JSON_H
#define ATTEND_JSON_H

#include "attend/base.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { ATTEND_JSON_DEPTH = 256 }; /* deeper nesting is refused */

typedef enum {
  ATTEND_JSON_NONE = 0, /* the kind of a NULL pointer */
  ATTEND_JSON_NULL,
  ATTEND_JSON_BOOL,
  ATTEND_JSON_NUMBER,
  ATTEND_JSON_STRING,
  ATTEND_JSON_ARRAY,
  ATTEND_JSON_OBJECT
} attend_json_kind;

typedef struct attend_json attend_json;

/* `what` names the text in error messages. The text may be freed after the call. */
ATTEND_API attend_status attend_json_parse(attend_context *ctx, const char *what, const char *text,
                                           size_t length, attend_json **root);
ATTEND_API void attend_json_free(attend_json *root); /* the whole tree */

ATTEND_API attend_json_kind attend_json_kind_of(const attend_json *value);
/* Elements of an array, members of an object, otherwise 0. */
ATTEND_API size_t attend_json_count(const attend_json *value);
/* Element or member i in text order; NULL past the last. */
ATTEND_API const attend_json *attend_json_at(const attend_json *value, size_t i);
/* The member of that name, or NULL. */
ATTEND_API const attend_json *attend_json_get(const attend_json *object, const char *name);
/* The name of a member, NULL for other values. length may be NULL. */
ATTEND_API const char *attend_json_name(const attend_json *member, size_t *length);

/* UTF-8 with a terminating zero byte that length does not count; may contain zero
 * bytes. NULL if it is not a string. */
ATTEND_API const char *attend_json_string(const attend_json *value, size_t *length);
ATTEND_API double attend_json_number(const attend_json *value, double otherwise);
ATTEND_API bool attend_json_boolean(const attend_json *value, bool otherwise);
/* True, and *integer set, if the number is an integer that fits int64_t, or an integral
 * double that is exact. */
ATTEND_API bool attend_json_integer(const attend_json *value, int64_t *integer);

/* Typed members of an object. An absent or null member leaves the result unchanged. A
 * member of another type, or a number outside [low, high], is ATTEND_IO with a message
 * that names `what` (a file), the member, the value and the expected type. */
ATTEND_API attend_status attend_json_read_integer(attend_context *ctx, const char *what,
                                                  const attend_json *object, const char *name,
                                                  int64_t low, int64_t high, int64_t *integer);
ATTEND_API attend_status attend_json_read_number(attend_context *ctx, const char *what,
                                                 const attend_json *object, const char *name,
                                                 double low, double high, double *number);
ATTEND_API attend_status attend_json_read_boolean(attend_context *ctx, const char *what,
                                                  const attend_json *object, const char *name,
                                                  bool *truth);
ATTEND_API attend_status attend_json_read_string(attend_context *ctx, const char *what,
                                                 const attend_json *object, const char *name,
                                                 const char **text);
/* An object or an array; *tree is NULL if absent. name NULL: the value itself, which
 * must be of that kind. */
ATTEND_API attend_status attend_json_read_tree(attend_context *ctx, const char *what,
                                               const attend_json *object, const char *name,
                                               attend_json_kind kind, const attend_json **tree);

#ifdef __cplusplus
}
#endif
#endif
