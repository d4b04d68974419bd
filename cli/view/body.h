/* The body of a request while it arrives; bounded by itself and in total.
 *
 * A body that is too long is dropped but read to its end, since a client that still
 * sends does not read the refusal; one that is far too long is cut off.
 */
#ifndef CLI_VIEW_BODY_H
#define CLI_VIEW_BODY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

enum { BODY_MOST = 1 << 20, BODY_READ_ON = 8 << 20 };

/* Bytes of all bodies above the small size that each may have. */
typedef struct {
  atomic_size_t held;
  size_t most;
} body_room;

typedef struct {
  char *bytes; /* [length], then a 0; NULL while there are none */
  size_t length, capacity;
  size_t thrown; /* read and dropped */
  int status;    /* 413: too long, 503: no room; else 0 */
} view_body;

/* False: it is time to cut the connection. */
bool body_take(body_room *room, view_body *b, const char *bytes, size_t count);
void body_clear(body_room *room, view_body *b);
/* The bytes now belong to the caller; room is given back all the same. */
char *body_release(body_room *room, view_body *b);

#endif
