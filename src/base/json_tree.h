/* The values of a JSON tree: json_parse.c builds them, json_tree.c accesses them, and
 * tensor_file.c relies on members being adjacent.
 */
#ifndef BASE_JSON_TREE_H
#define BASE_JSON_TREE_H

#include "attend/json.h"
#include "base/base.h"

struct attend_json {
  unsigned char kind;
  bool truth, exact; /* exact: integer holds the number */
  uint32_t count, name_length;
  const char *name; /* of a member */
  union {
    struct {
      double number;
      int64_t integer;
    };
    struct {
      const char *text;
      size_t length;
    };
    struct {
      const attend_json *child; /* [count], in the order of the text */
      const uint32_t *sorted;   /* [count], by name; NULL for few or arrays */
    };
  };
};

/* Sorts the names of an object into *index, with as much again behind it for
 * scratch, and steps over what it keeps. Returns a member whose name comes
 * twice, or NULL. */
const attend_json *json_index(attend_json *object, uint32_t **index);

/* Bytes of the well-formed UTF-8 character at s, 0 if it is not one: no
 * overlong forms, no surrogates, nothing above U+10FFFF. */
int utf8_length(const unsigned char *s, const unsigned char *end) FOR_LAB(utf8_length);

#endif
