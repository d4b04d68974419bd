/* A value of a JSON tree; tensor_file.c relies on members being adjacent. */
#ifndef BASE_JSON_H
#define BASE_JSON_H

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

#endif
