/* Members of JSON objects, a call each; and a tree, written again.
 *
 * For verbs that answer in JSON.
 */
#ifndef CLI_JSON_MEMBERS_H
#define CLI_JSON_MEMBERS_H

#include "attend/json.h"

/* NULL is null; so is a number that is not finite. */
void json_text(attend_json_writer *w, const char *name, const char *text);
void json_number(attend_json_writer *w, const char *name, double number);
void json_truth(attend_json_writer *w, const char *name, bool truth);
/* A value that was read, as an element or after its member's name. */
void json_tree(attend_json_writer *w, const attend_json *value);

#endif
