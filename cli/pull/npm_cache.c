/* Where models that came as npm packages lie on this machine.
 *
 * `attend pull` fills it, model_path looks into it.
 */
#define _GNU_SOURCE /* strverscmp */
#include "pull/npm_cache.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "folders.h"

/* ---- names ------------------------------------------------------------------- */

static bool is_word(const char *word, size_t length) {
  if (!length || strchr("-._", word[0])) return false;
  return strspn(word,
                "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                "0123456789-._~") >= length;
}

bool is_npm_name(const char *name) {
  const char *slash = strchr(name, '/');
  if (!is_tame(name, strlen(name))) return false;
  if (name[0] != '@') return !slash && is_word(name, strlen(name));
  return slash && is_word(name + 1, (size_t)(slash - name - 1)) &&
         is_word(slash + 1, strlen(slash + 1));
}

static bool is_tarball(const char *text) {
  size_t length = strlen(text);
  return (length > 4 && !strcmp(text + length - 4, ".tgz")) ||
         (length > 7 && !strcmp(text + length - 7, ".tar.gz"));
}

/* A version, a range or a tag; npm would take addresses in its place. */
static bool is_version(const char *text) {
  if (!*text) return false;
  for (; *text; text++)
    if ((unsigned char)*text < 32 || strchr(":/\\\177", *text)) return false;
  return true;
}

/* The whole path: "OWNER/NAME.tgz" would be a repository's name to npm. */
static bool read_tarball(const char *given, npm_spec *spec) {
  char *path = realpath(given, NULL);
  if (path && file_bytes(path) >= 0) {
    spec->whole = need_copy(path);
    free(path);
    return true;
  }
  free(path);
  complain("there is no file %s: check the spelling", given);
  return false;
}

static bool read_name(const char *given, npm_spec *spec) {
  const char *at = *given ? strchr(given + 1, '@') : NULL;
  char *name =
      at ? path_of("%.*s", (int)(at - given), given) : need_copy(given);
  *spec = (npm_spec){.whole = need_copy(given), .name = name};
  if (!is_npm_name(name) || (at && !is_version(at + 1))) return false;
  if (at && strcmp(at + 1, "latest")) spec->version = need_copy(at + 1);
  return true;
}

/* Only what npm gets without running anything: it would run scripts of a
 * repository or a folder that it makes a package of. */
bool npm_spec_read(const char *given, npm_spec *spec) {
  const char *whole = strncmp(given, "npm:", 4) ? given : given + 4;
  *spec = (npm_spec){0};
  if (is_tarball(whole)) return read_tarball(whole, spec);
  if (read_name(whole, spec)) return true;
  complain(
      "\"%s\" names no package: write npm:PACKAGE, npm:PACKAGE@VERSION or "
      "npm:FILE.tgz",
      given);
  npm_spec_free(spec);
  return false;
}

void npm_spec_free(npm_spec *spec) {
  free(spec->whole);
  free(spec->name);
  free(spec->version);
  *spec = (npm_spec){0};
}

/* ---- versions ---------------------------------------------------------------- */

char *npm_cache_root(void) {
  char *cache = cache_home();
  char *root = cache ? path_of("%s/attend/npm", cache) : NULL;
  free(cache);
  return root;
}

/* Before a release come its trials, 2.0.0-rc.1: a release goes before them. */
static bool is_newer(const char *a, const char *b) {
  bool trial_a = strchr(a, '-'), trial_b = strchr(b, '-');
  return trial_a != trial_b ? trial_b : strverscmp(a, b) > 0;
}

static char *newest_in(const char *folder) {
  DIR *d = opendir(folder);
  struct dirent *entry;
  char *best = NULL;
  while (d && (entry = readdir(d))) {
    const char *name = entry->d_name;
    if (name[0] == '.' || (best && !is_newer(name, best))) continue;
    free(best);
    best = need_copy(name);
  }
  if (d) closedir(d);
  return best;
}

char *npm_cache_find(const npm_spec *spec) {
  char *root = spec->name ? npm_cache_root() : NULL;
  if (!root) return NULL;
  char *package = path_of("%s/%s", root, spec->name);
  char *version = spec->version ? need_copy(spec->version) : newest_in(package);
  char *folder = NULL;
  if (version && !strchr(version, '/') && is_tame(version, strlen(version)))
    folder = path_of("%s/%s", package, version);
  if (folder && !is_folder(folder)) {
    free(folder);
    folder = NULL;
  }
  free(root);
  free(package);
  free(version);
  return folder;
}

/* ---- the model in a package ---------------------------------------------------- */

static int depth_of(const char *name) {
  int depth = 0;
  for (; (name = strchr(name, '/')); name++) depth++;
  return depth;
}

static bool is_config(const char *name) {
  const char *slash = strrchr(name, '/');
  return !strcmp(slash ? slash + 1 : name, "config.json");
}

/* Parts of a model have a config.json of their own, below the model's. */
char *npm_model_folder(const char *package) {
  names list;
  const char *best = NULL;
  int depth = 0, ties = 0;
  if (!names_below(package, &list)) return need_copy(package);
  for (size_t i = 0; i < list.count; i++) {
    int d = depth_of(list.name[i]);
    if (!is_config(list.name[i]) || (best && d > depth)) continue;
    ties = best && d == depth ? ties + 1 : 0;
    best = list.name[i];
    depth = d;
  }
  char *folder =
      best && !ties && depth
          ? path_of("%s/%.*s", package, (int)(strrchr(best, '/') - best), best)
          : need_copy(package);
  names_free(&list);
  return folder;
}
