/* The verb view: requests of the page, and the outputs. */
#ifndef CLI_VIEW_VIEW_H
#define CLI_VIEW_VIEW_H

#include "model_open.h"
#include "page/page.h"
#include "view/server.h"

/* ---- requests: request.c ----------------------------------------------------------------------- */

/* A request of the page while its JSON is read; an error becomes a status and a sentence. */
typedef struct {
  viewer *v;
  const attend_json *q;
  view_query query;
  int layers, rows, keys; /* largest layer, lengths: set by the members role and side */
  view_reply *reply;
  view_say say; /* long ones */
  void *user;
  int status; /* 0: all is well so far */
  bool gone;  /* the run was dropped */
  char error[VIEW_ERROR];
} request;

/* False, so that a check is one line. The first failure is the one replied. */
bool request_fail(request *r, int status, const char *sentence, ...)
    __attribute__((format(printf, 3, 4)));
bool request_text(request *r, const char *name, const char *otherwise, const char **text);
bool request_integer(request *r, const char *name, int64_t low, int64_t high, int64_t otherwise,
                     int *number);
/* Its strings live as long as the request. */
bool request_state(request *r, const attend_json *q, view_state *s);
/* How a still page finds the answer to a question: its name and members. */
void request_key(const view_route *route, const view_query *q, char *key, size_t capacity);
/* The request picture, in output.c. */
bool answer_picture(request *r);

/* ---- outputs -------------------------------------------------------------------------------------- */

typedef struct {
  options common;
  model_options model; /* --attention, --weights */
  text_list tensors;
  const char *tokens, *key_tokens, *mask; /* of tensors */
  bool is_signed;
  text_list models, runs;        /* of runs, what attend train made, one at most */
  const char *step, *other_step; /* as given: a number, best, last; or NULL */
  view_state state;
  const char *other_model;                            /* --against model=; NULL: the same */
  const char *other_layer, *other_head, *other_token; /* --against layer=, ..; NULL: not given */
  char *other_text;                                   /* a pair as one text, for the other model */
  char attention[ATTEND_VIEWER_FORM];
  const char *texts[2];
  const char *file; /* that the text is in */
  const char *out;
  bool terminal, gallery, open, allow_remote, no_token, dark;
  const char *bind;
  int port, width, new_tokens;
  size_t megabytes; /* of recorded runs; 0: the default */
} view_options;

/* The form of --json, --out, --terminal; without them, serves. An exit code. */
int view_show(viewer *v, const view_options *o);
int view_write_still(viewer *v, const view_options *o);
/* A file, written beside its place first; - is the output. */
int view_write_bytes(attend_context *ctx, const char *path, const void *bytes, size_t length);
/* The page in one file with its answers, JSON in a script element of that id: "still",
 * "design". */
int view_write_page(attend_context *ctx, const char *path, const char *id, const char *answers,
                    size_t length);

#endif
