/* The page of `attend view`, all but HTTP: its questions and answers, its state, and what a
 * still page keeps.
 *
 * A question is a route (thumbs, tile, run, ..) with its members. The page sends both as
 * JSON (cli/view/request.c); --json and still pages fill in the struct. All answers are
 * computed by attend/viewer.h and written as JSON or binary parts; viewer/README.md has the
 * format.
 */
#ifndef PAGE_PAGE_H
#define PAGE_PAGE_H

#include "base/json_write.h"
#include "attend/train.h"
#include "attend/viewer.h"
#include "pictures/view.h"

enum { VIEW_MODELS = 8 };

typedef struct viewer {
  attend_context *ctx;
  attend_viewer *session;
  attend_training_run *training; /* whose steps model 0 has; NULL: none */
  const view_state *start;       /* what a page opens with; NULL: the defaults */
  const int *kept;               /* [n_kept] the steps of a still page; 0: all */
  int n_kept;
  const attend_viewer_listener *listener; /* of runs that no request asked for; may be NULL */
  const char *command;                    /* that shows the same, live; NULL: not said */
  bool gallery, live;                     /* live: a server answers */
} viewer;

/* The index of the model that has this id, or -1. */
int viewer_model(const viewer *v, const char *id);
/* The training run of a model, or NULL. */
attend_training_run *viewer_training(const viewer *v, int model);
/* Runs a case, with new_tokens (0: none) generated after it. False after a sentence. */
bool viewer_run(viewer *v, const attend_viewer_case *c, int new_tokens,
                const attend_viewer_run **run, char error[VIEW_ERROR]);

view_state view_defaults(void);
bool view_exists(const char *name);
/* NULL, or why a view does not apply to a model: it is tensors. */
const char *view_lacks(const viewer *v, int model, const char *view);
/* False after a sentence. */
bool view_applies(const viewer *v, const view_state *s, char error[VIEW_ERROR]);

/* ---- questions and answers -------------------------------------------------------------- */

typedef struct {
  attend_viewer_head head; /* its run is that of calls without a head, too */
  attend_role side;        /* of tokens as vectors */
  attend_viewer_range range;
  int size, level, x, y, token, other_token, position, top, count, width, model, step;
  attend_pool pool;
  const char *way;                        /* "rollout" or "argmax" */
  const attend_viewer_run *minus, *other; /* NULL: none */
  const char *minus_form;
  attend_viewer_case c;
  attend_viewer_generate_options generate;
  const attend_viewer_run *before; /* the run without changes; NULL: none */
  attend_target target;            /* of a prediction; -1: the model's choice */
  attend_viewer_sweep_options sweep;
  attend_viewer_method method;
  const attend_viewer_listener *listener; /* of long calls; NULL: none */
} view_query;

typedef struct view_result view_result;

typedef struct {
  const char *name;
  bool is_long;
  const char *members; /* their names, sorted; request.c knows how to read them */
  attend_status (*answer)(viewer *v, const view_query *q, view_result *a);
} view_route;

const view_route *view_route_of(const char *name); /* NULL: there is none */
/* As a value of w, parts as nested lists. */
attend_status view_answer_write(viewer *v, const view_route *route, const view_query *q,
                                json_writer *w);
typedef struct {
  bool binary; /* otherwise JSON */
  void *bytes; /* to be freed by free() */
  size_t length;
} view_reply_bytes;

/* As the page gets it. */
attend_status view_answer_reply(viewer *v, const view_route *route, const view_query *q,
                                view_reply_bytes *reply);

/* Values of w. */
void write_run(json_writer *w, const viewer *v, const attend_viewer_run *run);
void write_model(json_writer *w, const viewer *v, int model);
void write_lacks(json_writer *w, const viewer *v, int model);
void write_training(json_writer *w, const viewer *v); /* the training run, or null */
void write_state(json_writer *w, const view_state *s);
void write_step(json_writer *w, const attend_viewer_model *m, const attend_viewer_step *s);

/* The first answer of a page: models, training run, start, gallery. */
void write_hello(json_writer *w, const viewer *v);

/* ---- still pages --------------------------------------------------------------------------- */

enum { VIEW_STILL_BYTES = 32 << 20 }; /* of answers about heads, at most */

/* The answers to what the page will ask about a state, as JSON for a script element, to be
 * freed by free(). Of the `steps` of a training run `kept` had space. key writes the name
 * under which the page looks for the answer to a question. False after a sentence. */
typedef struct {
  int kept, steps;
} view_still_steps;

bool view_still(viewer *v, const view_state *s, int new_tokens,
                void (*key)(const view_route *route, const view_query *q, char *key,
                            size_t capacity),
                char **json, size_t *length, view_still_steps *steps, char error[VIEW_ERROR]);

#endif
