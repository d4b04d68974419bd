/* Long answers: work in a thread of its own, events on their way to a reader.
 *
 * Between the server's connections and view_stream.
 *
 * A stream belongs to two: the work, which appends events, and the connection,
 * which takes bytes. Who leaves last frees it. What is under way is bounded:
 * work that is ahead of its reader waits, and progress that nobody has read yet
 * is replaced by newer progress.
 */
#ifndef CLI_VIEW_EVENTS_H
#define CLI_VIEW_EVENTS_H

#include "view/answer.h"

typedef struct events events;
typedef struct stream stream;

/* At most so many works at once. NULL: no memory. */
events *events_open(viewer *v, int most);
/* Tells all work that nobody listens, and lets no more begin. */
void events_stop(events *e);
/* After events_stop and after every stream was left: waits for the threads. */
void events_close(events *e);

/* The body is the stream's from here on. NULL: there are too many, or no
 * memory; the body is the caller's still. */
stream *stream_open(events *e, int socket, const char *name, char *body,
                    size_t length);

enum { STREAM_END = -1, STREAM_BROKEN = -2 };
/* Bytes of text/event-stream; after a second without any it is a comment, so
 * that a reader who left is noticed. most: 3 at least. */
long stream_read(stream *s, char *to, size_t most);
void stream_leave(stream *s);

#endif
