/* Writing the Hugging Face cache: references, snapshots and links to blobs. */
#include "pull/hub_cache.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "folders.h"

int hub_cache_open(attend_context *ctx, const attend_model_name *model, hub_cache *cache) {
  char folder[ATTEND_PATH_SIZE];
  *cache = (hub_cache){0};
  attend_status status = attend_model_cache(ctx, model, folder);
  if (status) return complain_status(ctx, status);
  const char *name = strrchr(folder, '/') + 1;
  cache->folder = need_copy(folder);
  cache->root = path_of("%.*s", (int)(name - 1 - folder), folder);
  cache->locks = path_of("%s/.locks/%s", cache->root, name);
  return EXIT_OK;
}

void hub_cache_close(hub_cache *cache) {
  free(cache->root);
  free(cache->folder);
  free(cache->locks);
  *cache = (hub_cache){0};
}

bool hub_cache_keep_commit(attend_context *ctx, const hub_cache *cache, const char *revision,
                           const char *commit) {
  if (!strcmp(revision, commit)) return true;
  char *path = path_of("%s/refs/%s", cache->folder, revision);
  bool room = make_room(path);
  bool kept = room && !attend_file_write(ctx, path, commit, strlen(commit));
  if (room && !kept) complain("%s", attend_message(ctx));
  free(path);
  return kept;
}

char *hub_cache_snapshot(const hub_cache *cache, const char *commit) {
  return path_of("%s/snapshots/%s", cache->folder, commit);
}

/* ---- links ------------------------------------------------------------------- */

/* ../../blobs/ETAG, and one more .. for each folder in the name. */
static char *target_of(const char *name, const char *etag) {
  char *target = path_of("../../blobs/%s", etag);
  for (const char *at = strchr(name, '/'); at; at = strchr(at + 1, '/')) {
    char *deeper = path_of("../%s", target);
    free(target);
    target = deeper;
  }
  return target;
}

bool hub_cache_link(const hub_cache *cache, const char *commit, const char *name,
                    const char *etag) {
  char *path = path_of("%s/snapshots/%s/%s", cache->folder, commit, name);
  char *fresh = path_of("%s.%ld", path, (long)getpid());
  char *target = target_of(name, etag);
  bool room = make_room(path);
  bool linked = room && !symlink(target, fresh) && !rename(fresh, path);
  if (room && !linked) {
    complain("the link %s cannot be made: %s", path, strerror(errno));
    unlink(fresh);
  }
  free(path);
  free(fresh);
  free(target);
  return linked;
}
