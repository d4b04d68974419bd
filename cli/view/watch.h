/* Deadlines of connections: whoever is too slow is cut off.
 *
 * Below the server of `attend view`; knows sockets alone.
 *
 * A connection is in one of three states. It waits: a request must arrive in
 * full by a time. It works: an answer is computed, which may take as long as it
 * does. It sends: the other side must take the reply by a time. A thread of its
 * own looks at the clock and shuts down the sockets whose time is over; whoever
 * reads or writes them notices. A byte now and then moves no deadline.
 *
 * Where more than half of the places are taken, a request has one second.
 */
#ifndef CLI_VIEW_WATCH_H
#define CLI_VIEW_WATCH_H

#include <stdbool.h>
#include <stddef.h>

typedef struct watch watch;
typedef struct watched watched;

/* NULL: no memory, or no thread. */
watch *watch_open(int most_connections);
/* After the last connection was removed. */
void watch_close(watch *w);

/* Takes a place, for which it waits a moment. Every place that was taken is
 * given back by watch_remove, be there a connection or NULL. */
bool watch_take_place(watch *w);
/* The socket must stay open until watch_remove. NULL: no memory. */
watched *watch_add(watch *w, int socket, double seconds);
void watch_remove(watch *w, watched *c);

void watch_waits(watch *w, watched *c, double seconds);
void watch_works(watch *w, watched *c);
/* So many seconds, and more for many bytes. */
void watch_sends(watch *w, watched *c, double seconds, size_t bytes);

/* Whether the other side has closed the connection. */
bool socket_is_left(int socket);

#endif
