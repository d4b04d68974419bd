/* Where a Hugging Face hub's files lie on this machine.
 *
 * `attend pull` fills it, model_path looks into it. The layout is that of the hub's
 * own clients, which find what we pulled and the other way round:
 *
 *   models--OWNER--NAME/blobs/ETAG               the bytes
 *   models--OWNER--NAME/snapshots/COMMIT/FILE    a link to its blob
 *   models--OWNER--NAME/refs/REVISION            the commit it stood for
 *   .locks/models--OWNER--NAME/ETAG.lock         held while a blob is written
 */
#ifndef CLI_HUB_CACHE_H
#define CLI_HUB_CACHE_H

#include "cli.h"

enum { COMMIT_DIGITS = 40 };

typedef struct {
  char *id;       /* OWNER/NAME, or NAME alone */
  char *revision; /* a branch, a tag, a commit; "main" unless it was given */
} hub_spec;

/* Reads OWNER/NAME[@REVISION], with or without "hf:". Complains. */
bool hub_spec_read(const char *given, hub_spec *spec);
void hub_spec_free(hub_spec *spec);

/* HF_HOME, else the cache's huggingface/. NULL after a complaint. */
char *hub_home(void);

typedef struct {
  char *root;   /* of all models: HF_HUB_CACHE, else hub_home()/hub */
  char *folder; /* of this one */
  char *locks;
} hub_cache;

bool hub_cache_open(const hub_spec *spec, hub_cache *cache); /* complains */
void hub_cache_close(hub_cache *cache);

/* The commit that the revision stood for when it was pulled; NULL: never. */
char *hub_cache_commit(const hub_cache *cache, const char *revision);
bool hub_cache_keep_commit(attend_context *ctx, const hub_cache *cache,
                           const char *revision,
                           const char *commit); /* complains */
char *hub_cache_snapshot(const hub_cache *cache, const char *commit);
/* Makes snapshots/COMMIT/NAME lead to the blob. Complains. */
bool hub_cache_link(const hub_cache *cache, const char *commit,
                    const char *name, const char *etag);

#endif
