/* One file of a hub's repository, from the server into the cache. */
#ifndef CLI_PULL_BLOB_H
#define CLI_PULL_BLOB_H

#include "pull/hub.h"

/* Ensures that snapshots/COMMIT/NAME exists; *already: it did. Prints an error and
 * returns an exit code. An interrupted download leaves blobs/ETAG.incomplete, which
 * the next one resumes. */
int blob_pull(const hub *h, const hub_cache *cache, const char *name, bool *already);

#endif
