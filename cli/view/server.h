/* The server of `attend view`: the page, its requests and event streams, over HTTP.
 *
 * Threads: one for each connection, which moves bytes and waits for the one thread that
 * computes (attend/view.h); one for each event stream (events.h); one that accepts
 * connections (listen.h), and one that cuts off slow ones (deadlines.h). All of them
 * leave SIGINT, SIGTERM and SIGHUP to the thread that started the server. SIGPIPE is
 * ignored while there is a server.
 */
#ifndef CLI_VIEW_SERVER_H
#define CLI_VIEW_SERVER_H

#include "view/answer.h"

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
