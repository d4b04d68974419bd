/* The socket that `attend view` listens on.
 *
 * Below the server of `attend view`.
 */
#ifndef CLI_VIEW_LISTEN_H
#define CLI_VIEW_LISTEN_H

#include <stdbool.h>

/* An exit code, after a complaint if it is not 0. *port: 0 for a free one, and
 * then that one. Addresses other than the loopback's need `remote`. */
int view_listen(const char *address, bool remote, int *port, int *listening);

#endif
