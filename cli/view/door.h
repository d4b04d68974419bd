/* Lets connections in, one after the other, while there is a place for them.
 *
 * Below the server of `attend view`.
 *
 * libmicrohttpd would accept whatever comes and close what is too much; here
 * they wait outside, and whoever is slow inside is cut off (view_watch.h).
 */
#ifndef CLI_VIEW_DOOR_H
#define CLI_VIEW_DOOR_H

#include <stdbool.h>
#include <sys/socket.h>

#include "view/watch.h"

/* The socket belongs to whoever is called. False: it was closed at once, and its
 * place is free again. */
typedef bool (*door_enter)(int socket, const struct sockaddr *from,
                           socklen_t length, void *user);
typedef struct door door;

/* The listening socket is the door's from here on, even where it fails. NULL:
 * no memory, or no thread. */
door *door_open(int listening, watch *w, door_enter enter, void *user);
/* Nobody enters once it returns. Accepts NULL. */
void door_close(door *d);

#endif
