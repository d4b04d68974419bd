/* Where a Hugging Face hub's files lie on this machine.
 *
 * `attend pull` fills it, model_path looks into it.
 */
#include "pull/hub_cache.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "folders.h"

/* ---- names ------------------------------------------------------------------- */

/* One part of an id, by the hub's rules: they also keep "--" unambiguous in
 * the name of the folder. */
static bool is_part(const char *part, size_t length) {
  if (!length || length > 96 || strchr("-.", part[0]) ||
      strchr("-.", part[length - 1]))
    return false;
  for (size_t i = 0; i < length; i++) {
    char c = part[i];
    bool word = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
                (c >= 'A' && c <= 'Z') || c == '_';
    if (!word && c != '-' && c != '.') return false;
    if (!word && i + 1 < length && part[i + 1] == c) return false;
  }
  return true;
}

static bool is_id(const char *id) {
  const char *slash = strchr(id, '/');
  if (!slash) return is_part(id, strlen(id));
  return is_part(id, (size_t)(slash - id)) &&
         is_part(slash + 1, strlen(slash + 1));
}

bool hub_spec_read(const char *given, hub_spec *spec) {
  const char *rest = strncmp(given, "hf:", 3) ? given : given + 3;
  const char *at = strchr(rest, '@');
  const char *revision = at ? at + 1 : "main";
  spec->id = path_of("%.*s", (int)(at ? at - rest : (int)strlen(rest)), rest);
  spec->revision = need_copy(revision);
  if (is_id(spec->id) && is_tame(revision, strlen(revision)) &&
      !strchr(revision, ' '))
    return true;
  complain(
      "\"%s\" names no model: write hf:OWNER/NAME or "
      "hf:OWNER/NAME@REVISION",
      given);
  hub_spec_free(spec);
  return false;
}

void hub_spec_free(hub_spec *spec) {
  free(spec->id);
  free(spec->revision);
  *spec = (hub_spec){0};
}

/* ---- folders ----------------------------------------------------------------- */

/* The value of a variable as a path; NULL if it is not set. */
static char *path_in(const char *variable) {
  const char *path = getenv(variable), *home = getenv("HOME");
  if (!path || !*path) return NULL;
  if (home && (!strcmp(path, "~") || !strncmp(path, "~/", 2)))
    return path_of("%s%s", home, path + 1);
  return need_copy(path);
}

char *hub_home(void) {
  char *home = path_in("HF_HOME");
  if (home) return home;
  char *cache = cache_home();
  if (cache) home = path_of("%s/huggingface", cache);
  free(cache);
  return home;
}

static char *hub_root(void) {
  char *root = path_in("HF_HUB_CACHE");
  if (root) return root;
  char *home = hub_home();
  if (home) root = path_of("%s/hub", home);
  free(home);
  return root;
}

/* Paths are printed for other programs to use from other folders. */
static char *from_the_top(char *path) {
  if (!path || path[0] == '/') return path;
  char *here = getcwd(NULL, 0);
  char *whole = path_of("%s/%s", here ? here : ".", path);
  free(here);
  free(path);
  return whole;
}

bool hub_cache_open(const hub_spec *spec, hub_cache *cache) {
  const char *slash = strchr(spec->id, '/');
  char *name = slash ? path_of("models--%.*s--%s", (int)(slash - spec->id),
                               spec->id, slash + 1)
                     : path_of("models--%s", spec->id);
  *cache = (hub_cache){.root = from_the_top(hub_root())};
  if (cache->root) {
    cache->folder = path_of("%s/%s", cache->root, name);
    cache->locks = path_of("%s/.locks/%s", cache->root, name);
  }
  free(name);
  return cache->root;
}

void hub_cache_close(hub_cache *cache) {
  free(cache->root);
  free(cache->folder);
  free(cache->locks);
  *cache = (hub_cache){0};
}

/* ---- commits ----------------------------------------------------------------- */

char *hub_cache_commit(const hub_cache *cache, const char *revision) {
  char commit[COMMIT_DIGITS + 2] = {0};
  if (is_hex(revision, COMMIT_DIGITS)) return need_copy(revision);
  char *path = path_of("%s/refs/%s", cache->folder, revision);
  FILE *f = fopen(path, "r");
  free(path);
  if (!f) return NULL;
  size_t length = fread(commit, 1, sizeof commit - 1, f);
  fclose(f);
  commit[strcspn(commit, "\r\n")] = 0;
  return length && is_hex(commit, COMMIT_DIGITS) ? need_copy(commit) : NULL;
}

bool hub_cache_keep_commit(attend_context *ctx, const hub_cache *cache,
                           const char *revision, const char *commit) {
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

bool hub_cache_link(const hub_cache *cache, const char *commit,
                    const char *name, const char *etag) {
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
