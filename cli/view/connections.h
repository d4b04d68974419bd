/* Connections of the server (server.h): sockets, deadlines, event streams. */
#ifndef CLI_VIEW_CONNECTIONS_H
#define CLI_VIEW_CONNECTIONS_H

#include <sys/socket.h>

#include "view/server.h"

/* ---- deadlines: slow connections are cut off ----------------------------------------------- */

/* A connection receives (a request must arrive in full by a deadline), computes (without
 * one) or sends (the reply must be read by a deadline). One thread checks the clock and
 * shuts down the sockets whose deadline has passed. Single bytes do not move a deadline.
 * While more than half of the slots are taken, a request has one second to arrive. */

typedef struct deadlines deadlines;
typedef struct deadline deadline;

/* NULL: no memory, or no thread. */
deadlines *deadlines_open(int most_connections);
/* After the last connection was removed. */
void deadlines_close(deadlines *w);

/* Takes a slot, for which it waits a moment. Every slot taken is given back by
 * deadlines_remove, with its connection or with NULL. */
bool deadlines_take_slot(deadlines *w);
/* The socket must stay open until deadlines_remove. NULL: no memory. */
deadline *deadlines_add(deadlines *w, int socket, double seconds);
void deadlines_remove(deadlines *w, deadline *c);

void deadline_receive(deadlines *w, deadline *c, double seconds);
void deadline_compute(deadlines *w, deadline *c);
/* So many seconds, and more for many bytes. */
void deadline_send(deadlines *w, deadline *c, double seconds, size_t bytes);

/* Whether the other side has closed the connection. */
bool socket_is_closed(int socket);

/* ---- the listening socket ------------------------------------------------------------------ */

/* An exit code, after a complaint if it is not 0. *port: 0 for a free one, and
 * then that one. Addresses other than the loopback's need `remote`. */
int view_listen(const char *address, bool remote, int *port, int *listening);

/* ---- event streams of long requests -------------------------------------------------------- */

/* A stream has two sides: the request, which appends events, and the connection, which
 * reads bytes; the last one to leave frees it. The events that wait are bounded: unread
 * progress is replaced by newer progress, and a reader that is too slow is cut off. */

typedef struct events events;
typedef struct stream stream;

/* At most so many streams at once. NULL: no memory. */
events *events_open(viewer *v, int max);
/* Cancels all requests and opens no more streams. */
void events_stop(events *e);
/* After events_stop and after every stream was left: waits for the threads. */
void events_close(events *e);

/* The body is the stream's from here on. NULL: there are too many, or no
 * memory; the body is the caller's still. */
stream *stream_open(events *e, int socket, const char *name, char *body, size_t length);

enum { STREAM_END = -1, STREAM_BROKEN = -2 };
/* Bytes of text/event-stream; after a second without any it is a comment, so
 * that a reader who left is noticed. most: 3 at least. */
long stream_read(stream *s, char *to, size_t max);
void stream_leave(stream *s);

#endif
