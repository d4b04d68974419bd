/* HTTP requests. Only transfer.c includes libcurl.
 *
 * Redirects are followed by hand, for two reasons: a token is sent only to the server
 * it is for, and the hub's metadata of a file is in the redirecting response itself.
 * After a server error or a broken connection the request is retried three times,
 * with growing delays.
 */
#ifndef CLI_PULL_TRANSFER_H
#define CLI_PULL_TRANSFER_H

#include "cli.h"

typedef struct transfer transfer;

enum { HEADER_SIZE = 128 };

typedef struct {
  long status;         /* of HTTP */
  int64_t length;      /* of the body; -1: unknown */
  int64_t linked_size; /* of the redirect's target; -1: unknown */
  int64_t range;       /* where a partial body starts; -1: unknown */
  char etag[HEADER_SIZE], linked_etag[HEADER_SIZE];
  char commit[HEADER_SIZE]; /* of the repository */
  char error[HEADER_SIZE];  /* the hub's error code */
  char *location;           /* inside the transfer */
} answer;

/* `home` is the server that the token is for; token may be NULL. */
transfer *transfer_open(const char *home, const char *token);
void transfer_close(transfer *t);

/* All return false after an error message if there was no response; callers check the
 * status. For a HEAD that is redirected to another server, the answer is that of the
 * last response from home. */
bool transfer_head(transfer *t, const char *url, answer *a);
bool transfer_text(transfer *t, const char *url, answer *a, char **text, size_t *length);
/* Appends to the file until it has `size` bytes (-1: until the end), resuming where
 * it ends now. Bytes once written stay. */
bool transfer_file(transfer *t, const char *url, const char *path, int64_t size, answer *a);

/* A name escaped for a URL; with `slashes` they stay. The caller frees it. */
char *transfer_escape(transfer *t, const char *name, bool slashes);

#endif
