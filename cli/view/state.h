/* The state of a page: runs, role, head and settings of the view. A link holds all of
 * it; it comes from options or from a request. viewer/README.md lists its members.
 */
#ifndef CLI_VIEW_STATE_H
#define CLI_VIEW_STATE_H

#include "view/request.h"

enum { STATE_HEADS = 64 };

/* Compared with, where nothing else is said. */
#define VIEW_OTHER_FORM "favor(m=256)"

typedef struct view_state {
  char view[16];
  view_case c, other;
  bool has_other;
  char role[16];   /* "": what the run has first */
  int layer, head; /* -1: not said */
  int heads[STATE_HEADS], n_heads;
  int token, key; /* -1: none */
  char filter[8], pool[8], way[12];
  char form[ATTEND_VIEW_FORM]; /* "": none */
  char sort[24];
} view_state;

view_state state_defaults(void);
bool state_read(request *r, const attend_json *q, view_state *s);
void state_free(view_state *s);
/* NULL: the defaults. */
void state_write(attend_json_writer *w, const view_state *s);
/* The first answer of a page, in gallery.c. */
encoded encode_hello(const viewer *v);
/* Whether there is such a view. */
bool state_has_view(const char *name);

#endif
