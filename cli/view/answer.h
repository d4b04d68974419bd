/* The requests of the page, as JSON: what viewer/README.md lists.
 *
 * Several threads may call these at once; one thread computes.
 */
#ifndef CLI_VIEW_ANSWER_H
#define CLI_VIEW_ANSWER_H

#include <stdbool.h>
#include <stddef.h>

typedef struct viewer viewer;

typedef struct {
  int status;       /* as HTTP has it: 200, 400, 404, .. */
  const char *type; /* "application/json", "application/octet-stream", .. */
  void *bytes;      /* to be freed by free() */
  size_t length;
} view_reply;

/* Whether there is such a request, and whether its answer is a stream of events. */
bool view_knows(const char *name);
bool view_is_long(const char *name);

/* Asked while a request waits: true cancels it. */
typedef bool (*view_cancelled)(void *user);

/* body: JSON, of untrusted origin. What is wrong with it is in the reply. False:
 * it was cancelled before its computation began. cancelled may be NULL. */
bool view_answer(viewer *v, const char *name, const char *body, size_t length,
                 view_cancelled cancelled, void *user, view_reply *reply);

/* One event of a stream; data is JSON on one line. Called by the thread that computes:
 * must not wait. Other than 0: the client has left, and the work stops. */
typedef int (*view_say)(const char *event, const char *data, void *user);

/* Returns when the work is done; the last event is "done" or "error". */
void view_stream(viewer *v, const char *name, const char *body, size_t length, view_say say,
                 void *user);

#endif
