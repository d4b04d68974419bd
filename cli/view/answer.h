/* Questions about models and texts, and their answers: what viewer/README.md
 * lists.
 *
 * Between whoever asks (the server, a still page, a picture, the terminal, --json) and
 * the lens. All of them get their numbers here.
 *
 * A viewer may be asked by several threads at once; one at a time computes, and
 * long work lets others in between its steps.
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

/* Whether there is such a request, and whether it is answered by events. */
bool view_knows(const char *name);
bool view_is_long(const char *name);

/* body: JSON, of untrusted origin. What is wrong with it is in the reply. */
void view_answer(viewer *v, const char *name, const char *body, size_t length,
                 view_reply *reply);

/* One event of a long answer; data is JSON on one line. Other than 0: nobody
 * listens any more, and the work stops. */
typedef int (*view_say)(const char *event, const char *data, void *user);

/* Returns when the work is done; the last event is "done" or "error". */
void view_stream(viewer *v, const char *name, const char *body, size_t length,
                 view_say say, void *user);

#endif
