/* One file of a hub's repository, from the server into the cache.
 *
 * Between the hub's protocol and the layout of its cache.
 */
#ifndef CLI_PULL_BLOB_H
#define CLI_PULL_BLOB_H

#include "pull/hub.h"

/* Makes snapshots/COMMIT/NAME be there; *already: it was. Complains and
 * returns an exit code. Whoever is interrupted leaves blobs/ETAG.incomplete,
 * from which the next one goes on. */
int blob_pull(const hub *h, const hub_cache *cache, const char *name,
              bool *already);

#endif
