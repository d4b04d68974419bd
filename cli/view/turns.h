/* Questions take turns: a few threads compute, however many connections ask.
 *
 * Between the server's connections and view_answer.
 *
 * A thread that enters OpenMP brings a team of threads of its own, one for each
 * core. So connections, of which there may be hundreds, do not compute: they
 * wait for one of these. That also lets them have small stacks.
 */
#ifndef CLI_VIEW_TURNS_H
#define CLI_VIEW_TURNS_H

#include "view/answer.h"

typedef struct turns turns;

/* NULL: no memory, or no thread. */
turns *turns_open(viewer *v);
/* Who waits is sent away, and so is who comes. */
void turns_stop(turns *t);
void turns_close(turns *t);

/* Returns when there is an answer. False: there is none, since the other side
 * of the socket has left before its turn came, or since turns were stopped. */
bool turns_ask(turns *t, int socket, const char *name, const char *body,
               size_t length, view_reply *reply);

#endif
