/* What a state of the page shows: its runs, and the role, layer and head of one.
 *
 * Pictures, still pages, --json and the terminal start here; their numbers come from
 * attend/view.h.
 */
#ifndef CLI_VIEW_SUBJECT_H
#define CLI_VIEW_SUBJECT_H

#include "view/state.h"

enum { SUBJECT_ERROR = 640 };

/* Runs a case, or one and so many new tokens, with progress on a terminal unless a
 * server answers. False after a sentence in error. */
bool run_case(viewer *v, const view_case *c, const attend_view_run **run,
              char error[SUBJECT_ERROR]);
bool run_generated(viewer *v, const view_case *c, int new_tokens, const attend_view_run **run,
                   char error[SUBJECT_ERROR]);
/* The runs of a state; the view generate has new tokens. *other NULL: it has none. */
bool run_state(viewer *v, const view_state *s, int new_tokens, const attend_view_run **run,
               const attend_view_run **other, char error[SUBJECT_ERROR]);

typedef struct {
  const attend_view_run *run;
  attend_role role;
  attend_lens_shape s; /* of the role */
  int layer, head;
} subject;

/* The role, layer and head that a state means in this run; false after a sentence. */
bool subject_read(const attend_view_run *run, const view_state *s, subject *to,
                  char error[SUBJECT_ERROR]);
attend_view_head subject_head(const subject *s, const char *form);
/* A token is followed through self-attention: cross-attention's is the decoder's. */
attend_view_head subject_followed(const subject *s);
/* The tokens of its rows or keys. */
const attend_view_side *subject_side(const subject *s, bool keys);
/* The sentence of a failed call; true if it did not fail. */
bool subject_status(const viewer *v, attend_status status, char error[SUBJECT_ERROR]);

/* A head in full, or in cells where it is larger than that. */
enum { SUBJECT_CELLS = 256 };
int subject_level(const subject *s);

#endif
