/* Asking a server over HTTP.
 *
 * Below the hub's protocol; libcurl is known here alone.
 *
 * Redirects are followed by hand, for two reasons: a token goes to the server
 * it is for and to no other, and what the hub says about a file is in the very
 * answer that redirects. Where a server fails or a connection breaks, it is
 * asked again: three times, with growing waits.
 */
#ifndef CLI_PULL_TRANSFER_H
#define CLI_PULL_TRANSFER_H

#include "cli.h"

typedef struct transfer transfer;

enum { HEADER_SIZE = 128 };

typedef struct {
  long status;         /* of HTTP */
  int64_t length;      /* of the body; -1: not said */
  int64_t linked_size; /* of the file that is redirected to; -1: not said */
  int64_t range;       /* where a partial body starts; -1: not said */
  char etag[HEADER_SIZE], linked_etag[HEADER_SIZE];
  char commit[HEADER_SIZE]; /* of the repository */
  char error[HEADER_SIZE];  /* the hub's name for what is wrong */
  char *location;           /* inside the transfer */
} answer;

/* `home` is the address that the token is for; token may be NULL. */
transfer *transfer_open(const char *home, const char *token);
void transfer_close(transfer *t);

/* All return false after a complaint if no answer came; the status is the
 * caller's to judge. Of a HEAD that is redirected away from home the answer is
 * that of the last server at home. */
bool transfer_head(transfer *t, const char *url, answer *a);
bool transfer_text(transfer *t, const char *url, answer *a, char **text,
                   size_t *length);
/* Appends to the file until it has `size` bytes (-1: until the end), from
 * where it stops now. What was written stays, whatever happens. */
bool transfer_file(transfer *t, const char *url, const char *path, int64_t size,
                   answer *a);

/* A name as a part of an address; with `slashes` they stay. Caller frees. */
char *transfer_escape(transfer *t, const char *name, bool slashes);

#endif
