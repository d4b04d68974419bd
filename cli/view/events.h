/* Event streams of long requests, between view_stream and the server's connections.
 *
 * A stream has two sides: the request, which appends events, and the connection, which
 * reads bytes; the last one to leave frees it. The events that wait are bounded: unread
 * progress is replaced by newer progress, and a reader that is too slow is cut off.
 */
#ifndef CLI_VIEW_EVENTS_H
#define CLI_VIEW_EVENTS_H

#include "view/answer.h"

typedef struct events events;
typedef struct stream stream;

/* At most so many streams at once. NULL: no memory. */
events *events_open(viewer *v, int most);
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
long stream_read(stream *s, char *to, size_t most);
void stream_leave(stream *s);

#endif
