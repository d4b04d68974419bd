/* Writing members of JSON objects, and copying a parsed value. */
#ifndef CLI_JSON_MEMBERS_H
#define CLI_JSON_MEMBERS_H

#include "attend/json.h"

/* NULL and non-finite numbers become null. */
void json_text(attend_json_writer *w, const char *name, const char *text);
void json_number(attend_json_writer *w, const char *name, double number);
void json_truth(attend_json_writer *w, const char *name, bool truth);
/* Copies a parsed value, as an element or after its member's name. */
void json_tree(attend_json_writer *w, const attend_json *value);

#endif
