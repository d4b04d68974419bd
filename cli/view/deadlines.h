/* Deadlines of connections: slow ones are cut off.
 *
 * A connection receives (a request must arrive in full by a deadline), computes (without
 * one) or sends (the reply must be read by a deadline). One thread checks the clock and
 * shuts down the sockets whose deadline has passed. Single bytes do not move a deadline.
 *
 * While more than half of the slots are taken, a request has one second to arrive.
 */
#ifndef CLI_VIEW_DEADLINES_H
#define CLI_VIEW_DEADLINES_H

#include <stdbool.h>
#include <stddef.h>

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

#endif
