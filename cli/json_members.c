/* Writing members of JSON objects. */
#include "json_members.h"

void json_text(attend_json_writer *w, const char *name, const char *text) {
  attend_json_member(w, name);
  if (text)
    attend_json_put_string(w, text);
  else
    attend_json_put_null(w);
}

void json_number(attend_json_writer *w, const char *name, double number) {
  attend_json_member(w, name);
  attend_json_put_number(w, number);
}

void json_truth(attend_json_writer *w, const char *name, bool truth) {
  attend_json_member(w, name);
  attend_json_put_boolean(w, truth);
}

static void put_elements(attend_json_writer *w, const attend_json *value, bool named) {
  attend_json_open(w, named ? '{' : '[');
  for (size_t i = 0; i < attend_json_count(value); i++) {
    const attend_json *one = attend_json_at(value, i);
    if (named) attend_json_member(w, attend_json_name(one, NULL));
    json_tree(w, one);
  }
  attend_json_close(w, named ? '}' : ']');
}

void json_tree(attend_json_writer *w, const attend_json *value) {
  size_t length;
  const char *text = attend_json_string(value, &length);
  attend_json_kind kind = attend_json_kind_of(value);
  if (kind == ATTEND_JSON_OBJECT || kind == ATTEND_JSON_ARRAY)
    put_elements(w, value, kind == ATTEND_JSON_OBJECT);
  else if (kind == ATTEND_JSON_STRING)
    attend_json_put_bytes(w, text, length);
  else if (kind == ATTEND_JSON_NUMBER)
    attend_json_put_number(w, attend_json_number(value, 0));
  else if (kind == ATTEND_JSON_BOOL)
    attend_json_put_boolean(w, attend_json_boolean(value, false));
  else
    attend_json_put_null(w);
}
