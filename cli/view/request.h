/* A request of the page while it is answered: its JSON is decoded member by member;
 * what is wrong becomes a status and a sentence.
 */
#ifndef CLI_VIEW_REQUEST_H
#define CLI_VIEW_REQUEST_H

#include "view/encode.h"

typedef struct {
  viewer *v;
  const attend_json *q;
  view_reply *reply;
  view_say say; /* long ones */
  void *user;
  int model;  /* whose tokens a long one says */
  int status; /* 0: all is well so far */
  bool gone;  /* the run was dropped */
  char error[640];
} request;

/* False, so that a check is one line. The first failure is the one replied. */
bool request_fail(request *r, int status, const char *sentence, ...)
    __attribute__((format(printf, 3, 4)));
bool request_status(request *r, attend_status status); /* true if it is ok */

bool request_text(request *r, const char *name, const char *otherwise, const char **text);
bool request_integer(request *r, const char *name, int64_t low, int64_t high, int64_t otherwise,
                     int *number);
/* A case; q is its object. */
bool request_case(request *r, const attend_json *q, view_case *c);

bool request_reply(request *r, const encoded *e);

/* hello, in gallery.c; picture, in picture.c. */
bool answer_hello(request *r);
bool answer_picture(request *r);
/* Reads which steps the training run has now; false if there are none any more. */
bool request_steps(request *r);

#endif
