/* The server of `attend view`: the page, its requests and event streams, over HTTP.
 *
 * Threads: one for each connection, which moves bytes and waits for the one thread that
 * computes (attend/viewer.h); one for each event stream and one that cuts off slow connections
 * (connections.h); one that accepts them. All of them leave SIGINT, SIGTERM and SIGHUP
 * to the thread that started the server. SIGPIPE is ignored while there is a server.
 */
#ifndef CLI_VIEW_SERVER_H
#define CLI_VIEW_SERVER_H

#include <stdbool.h>
#include <stddef.h>

typedef struct viewer viewer;

/* ---- what it serves: request.c --------------------------------------------------------- */

typedef struct {
  int status;       /* as HTTP has it: 200, 400, 404, .. */
  const char *type; /* "application/json", "application/octet-stream", .. */
  void *bytes;      /* to be freed by free() */
  size_t length;
} view_reply;

/* Whether there is such a request, and whether its answer is a stream of events. Several
 * threads may call these and the following at once. */
bool view_knows(const char *name);
bool view_is_long(const char *name);

/* Asked while a request waits: true cancels it. */
typedef bool (*view_cancelled)(void *user);

/* body: JSON, of untrusted origin. What is wrong with it is in the reply. False: it was
 * cancelled before its computation began. cancelled may be NULL. */
bool view_answer(viewer *v, const char *name, const char *body, size_t length,
                 view_cancelled cancelled, void *user, view_reply *reply);

/* One event of a stream; data is JSON on one line. Called by the thread that computes: must
 * not wait. Other than 0: the client has left, and the work stops. */
typedef int (*view_say)(const char *event, const char *data, void *user);

/* Returns when the work is done; the last event is "done" or "error". */
void view_stream(viewer *v, const char *name, const char *body, size_t length, view_say say,
                 void *user);

/* ---- the page, embedded in the program: page_data.c ---------------------------------------- */

typedef struct {
  const char *type;            /* as Content-Type has it */
  const unsigned char *bytes;  /* [length] */
  const unsigned char *packed; /* [packed_length] the same in gzip */
  size_t length, packed_length;
} page_file;

typedef enum { PAGE_HTML, PAGE_SCRIPT, PAGE_STYLE, PAGE_FILES } page_part;

page_file page_data(page_part part);

/* ---- the server --------------------------------------------------------------------------------- */

/* Zero means default. */
typedef struct {
  const char *bind;     /* NULL: 127.0.0.1 */
  int port;             /* 0: a free one */
  bool allow_remote;    /* addresses other than loopback may be bound */
  const char *token;    /* that requests must have; NULL: none. Not copied */
  int most_connections; /* 128; more wait */
  int most_streams;     /* 8 long answers at once; more are refused */
  int arrive_seconds;   /* 10, for a request to arrive in full */
  int idle_seconds;     /* 10 (2 at least), without a byte in either direction */
  size_t most_bytes;    /* 32 MiB, of bodies of requests in all */
} view_server_options;

typedef struct view_server view_server;

/* An exit code, after a complaint if it is not 0. */
int view_server_start(viewer *v, const view_server_options *o, view_server **server);
int view_server_port(const view_server *s);
/* Ends connections and waits for all threads. Accepts NULL. */
void view_server_stop(view_server *s);

#endif
