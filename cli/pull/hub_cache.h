/* The Hugging Face cache, as `attend pull` fills it.
 *
 * The layout is that of the hub's own clients: each finds what the other pulled.
 * attend_model_find (attend/find.h) reads it.
 *
 *   models--OWNER--NAME/blobs/ETAG               the bytes
 *   models--OWNER--NAME/snapshots/COMMIT/FILE    a link to its blob
 *   models--OWNER--NAME/refs/REVISION            the commit it stands for
 *   .locks/models--OWNER--NAME/ETAG.lock         held while a blob is written
 */
#ifndef CLI_HUB_CACHE_H
#define CLI_HUB_CACHE_H

#include "attend/find.h"
#include "cli.h"

enum { COMMIT_DIGITS = 40 };

typedef struct {
  char *root;   /* of all models */
  char *folder; /* of this one */
  char *locks;
} hub_cache;

/* Prints an error and returns an exit code. */
int hub_cache_open(attend_context *ctx, const attend_model_name *model, hub_cache *cache);
void hub_cache_close(hub_cache *cache);

/* Writes refs/REVISION. False after an error message, here and below. */
bool hub_cache_keep_commit(attend_context *ctx, const hub_cache *cache, const char *revision,
                           const char *commit);
char *hub_cache_snapshot(const hub_cache *cache, const char *commit);
/* Makes snapshots/COMMIT/NAME a link to the blob. */
bool hub_cache_link(const hub_cache *cache, const char *commit, const char *name, const char *etag);

#endif
