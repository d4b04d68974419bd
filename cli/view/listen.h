/* The listening socket of `attend view`, and the thread that accepts connections.
 *
 * libmicrohttpd would accept every connection and close those above its limit; here they
 * stay in the backlog until there is a slot, and slow ones are cut off (deadlines.h).
 */
#ifndef CLI_VIEW_LISTEN_H
#define CLI_VIEW_LISTEN_H

#include <stdbool.h>
#include <sys/socket.h>

#include "view/deadlines.h"

/* An exit code, after a complaint if it is not 0. *port: 0 for a free one, and
 * then that one. Addresses other than the loopback's need `remote`. */
int view_listen(const char *address, bool remote, int *port, int *listening);

/* Called with each connection, whose slot is taken. The socket is the callee's. False:
 * it was closed at once, and the slot is free again. */
typedef bool (*acceptor_enter)(int socket, const struct sockaddr *from, socklen_t length,
                               void *user);
typedef struct acceptor acceptor;

/* Owns the listening socket, even where it fails. NULL: no memory, or no thread. */
acceptor *acceptor_open(int listening, deadlines *w, acceptor_enter enter, void *user);
/* No connection is accepted once it returns. Accepts NULL. */
void acceptor_close(acceptor *d);

#endif
