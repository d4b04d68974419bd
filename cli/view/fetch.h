/* Asking a viewer from within the program, and reading its answers.
 *
 * Pictures, pages, --json and the terminal get their numbers by the same questions as
 * the page does.
 */
#ifndef CLI_VIEW_FETCH_H
#define CLI_VIEW_FETCH_H

#include "json_members.h"
#include "view/state.h"

typedef struct {
  view_reply reply;
  attend_json *root;         /* the answer, or the header of a binary one */
  const unsigned char *data; /* of a binary one */
  char error[640];           /* "": none */
} fetched;

/* A question is written like any JSON: question_open, members, fetch. */
attend_json_writer question_open(viewer *v);

/* Asks; false if it was refused, with the sentence in f->error. Ends the
 * writer. Right after any: fetched_free. */
bool fetch(viewer *v, const char *name, attend_json_writer *w, fetched *f);
/* The same for a case, or for what it goes on to write, with progress. */
bool fetch_run(viewer *v, const view_case *c, fetched *f);
bool fetch_generated(viewer *v, const view_case *c, int new_tokens, fetched *f);
void fetched_free(fetched *f);
/* Reads a reply that is there; false if it is a refusal. */
bool fetched_read(viewer *v, fetched *f);

/* A part as floats; the caller frees it. shape gets its rank's numbers, 1 for
 * those it does not have. NULL: there is none. */
float *fetched_part(const fetched *f, const char *name, int shape[4]);
/* The same of one number. */
double fetched_number(const fetched *f, const char *name);

/* A run as others need it. */
typedef struct {
  const attend_json *run, *role; /* RUN, and the ROLE that is looked at */
  const char *id, *role_name;
  int layers, heads, rows, keys;
  int layer, head; /* that are looked at */
} subject;

/* The role, layer and head that a state means in this run; false after a
 * sentence. */
bool subject_read(const fetched *run, const view_state *s, subject *to,
                  char error[640]);
/* A token is followed through self-attention: that of the decoder, where the
 * subject is what it reads. */
subject subject_followed(const subject *s);
/* Starts a question about it: run, role; and with `place` layer and head. */
attend_json_writer question_about(viewer *v, const subject *s, bool place);
/* The tokens of its rows or keys. */
const attend_json *subject_side(const subject *s, bool keys);

#endif
