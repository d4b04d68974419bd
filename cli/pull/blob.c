/* One file of a hub's repository, from the server into the cache.
 *
 * A blob gets its name only once its hash is verified and its bytes are on disk.
 */
#include "pull/blob.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "progress.h"
#include "pull/digest.h"

static int check_hash(const hub *h, const char *name, const char *etag, const char *path) {
  char hex[SHA256_DIGITS + 1] = "";
  bool large = strlen(etag) == SHA256_DIGITS;
  if (file_bytes(path) > 1 << 28) progress_note("checking the hash");
  bool read = large ? digest_sha256(path, hex) : digest_git(path, hex);
  progress_end();
  if (!read) return EXIT_FAILED;
  if (!strcmp(hex, etag)) return EXIT_OK;
  unlink(path);
  complain(
      "%s came from %s with another hash than announced and was thrown "
      "away: pull again",
      name, h->endpoint);
  return EXIT_FAILED;
}

static int fetch(const hub *h, const char *name, const hub_file *file, const char *blob) {
  char *path = path_of("%s.incomplete", blob);
  int code = make_room(path) ? hub_fetch(h, name, file, path) : EXIT_FAILED;
  if (!code) code = check_hash(h, name, file->etag, path);
  if (!code && rename(path, blob)) {
    complain("%s cannot be written: %s", blob, strerror(errno));
    code = EXIT_FAILED;
  }
  if (code && file_bytes(path) == 0) unlink(path);
  free(path);
  return code;
}

/* After waiting for the lock, the blob may already be there. */
static int pull_locked(const hub *h, const hub_cache *cache, const char *name,
                       const hub_file *file) {
  char *blob = path_of("%s/blobs/%s", cache->folder, file->etag);
  char *path = path_of("%s/%s.lock", cache->locks, file->etag);
  int lock = lock_take(path), code = lock < 0 ? EXIT_FAILED : EXIT_OK;
  int64_t bytes = file_bytes(blob);
  if (!code && (bytes < 0 || (file->size >= 0 && bytes != file->size)))
    code = fetch(h, name, file, blob);
  if (!code && !hub_cache_link(cache, h->commit, name, file->etag)) code = EXIT_FAILED;
  lock_drop(lock);
  free(blob);
  free(path);
  return code;
}

int blob_pull(const hub *h, const hub_cache *cache, const char *name, bool *already) {
  hub_file file;
  char *folder = hub_cache_snapshot(cache, h->commit);
  char *path = path_of("%s/%s", folder, name);
  *already = file_bytes(path) >= 0;
  free(folder);
  free(path);
  if (*already) return EXIT_OK;
  if (!h->line) {
    complain("%s of %s is not in %s: pull without --offline", name, h->model->name, cache->root);
    return EXIT_FAILED;
  }
  int code = hub_ask(h, name, &file);
  return code ? code : pull_locked(h, cache, name, &file);
}
