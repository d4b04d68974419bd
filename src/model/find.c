/* Models by name: folders, models that ship, the caches of the hub and of npm.
 *
 * Layout of the hub's cache, shared with Hugging Face's own clients:
 *
 *   models--OWNER--NAME/snapshots/COMMIT/FILE    the files
 *   models--OWNER--NAME/refs/REVISION            the commit that a revision stands for
 *
 * and of npm's, which is ours: PACKAGE/VERSION/ holds the unpacked package.
 */
#define _GNU_SOURCE /* strverscmp */
#include "attend/model.h"

#include <dirent.h>
#include <fts.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/files.h"
#include "base/folders.h"
#include "model/transformer.h"

enum { COMMIT_DIGITS = 40, MOST_NAME = 1024, MOST_PART = 200 };

typedef char path_text[ATTEND_PATH_SIZE];
_Static_assert((int)ATTEND_PATH_SIZE == (int)LONGEST_PATH, "paths are of one size");

/* ---- paths ----------------------------------------------------------------------- */

static bool has_config(const char *folder) {
  path_text path;
  return file_beside(folder, "config.json", path, sizeof path);
}

static bool is_safe_part(const char *part, size_t length) {
  if (!length || length > MOST_PART) return false;
  if (part[0] == '.' && (length == 1 || (length == 2 && part[1] == '.'))) return false;
  for (size_t i = 0; i < length; i++) {
    unsigned char c = (unsigned char)part[i];
    if (c < 32 || c == 127 || c == '\\') return false;
  }
  return true;
}

bool attend_name_is_safe(const char *name, size_t length) {
  if (length > MOST_NAME) return 0;
  for (size_t at = 0;; at++) {
    const char *slash = memchr(name + at, '/', length - at);
    size_t end = slash ? (size_t)(slash - name) : length;
    if (!is_safe_part(name + at, end - at)) return 0;
    if (!slash) return 1;
    at = end;
  }
}

/* ---- names ----------------------------------------------------------------------- */

/* One part of a hub id, by the hub's rules: they also keep "--" unambiguous in the
 * name of the folder. */
static bool is_hub_part(const char *part, size_t length) {
  if (!length || length > 96 || strchr("-.", part[0]) || strchr("-.", part[length - 1]))
    return false;
  for (size_t i = 0; i < length; i++) {
    char c = part[i];
    bool word =
        (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
    if (!word && c != '-' && c != '.') return false;
    if (!word && i + 1 < length && part[i + 1] == c) return false;
  }
  return true;
}

static bool is_hub_name(const char *id) {
  const char *slash = strchr(id, '/');
  if (!slash) return is_hub_part(id, strlen(id));
  return is_hub_part(id, (size_t)(slash - id)) && is_hub_part(slash + 1, strlen(slash + 1));
}

static bool is_hub_revision(const char *text) {
  return attend_name_is_safe(text, strlen(text)) && !strchr(text, ' ');
}

static bool is_npm_part(const char *part, size_t length) {
  if (!length || strchr("-._", part[0])) return false;
  return strspn(part, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~") >=
         length;
}

static bool is_npm_name(const char *name) {
  const char *slash = strchr(name, '/');
  if (!attend_name_is_safe(name, strlen(name))) return false;
  if (name[0] != '@') return !slash && is_npm_part(name, strlen(name));
  return slash && is_npm_part(name + 1, (size_t)(slash - name - 1)) &&
         is_npm_part(slash + 1, strlen(slash + 1));
}

/* A version, a range or a tag; npm would take addresses in its place. */
static bool is_npm_version(const char *text) {
  if (!*text) return false;
  for (; *text; text++)
    if ((unsigned char)*text < 32 || strchr(":/\\\177", *text)) return false;
  return true;
}

static const struct {
  const char *prefix, *what, *form;
  bool (*is_name)(const char *), (*is_revision)(const char *);
} sources[] = {
    [ATTEND_SOURCE_FOLDER] = {"", NULL, NULL, NULL, NULL},
    [ATTEND_SOURCE_SHIPPED] = {"attend:", NULL, NULL, NULL, NULL},
    [ATTEND_SOURCE_HUB] = {"hf:", "model", "hf:OWNER/NAME or hf:OWNER/NAME@REVISION", is_hub_name,
                           is_hub_revision},
    [ATTEND_SOURCE_NPM] = {"npm:", "package", "npm:PACKAGE, npm:PACKAGE@VERSION or npm:FILE.tgz",
                           is_npm_name, is_npm_version}};

static attend_model_source source_of(const char *text) {
  for (int i = ATTEND_SOURCE_NPM; i > ATTEND_SOURCE_FOLDER; i--)
    if (!strncmp(text, sources[i].prefix, strlen(sources[i].prefix))) return (attend_model_source)i;
  return ATTEND_SOURCE_FOLDER;
}

attend_status attend_model_name_parse(attend_context *ctx, const char *text,
                                      attend_model_name *name) {
  attend_model_source source = source_of(text);
  const char *rest = text + strlen(sources[source].prefix);
  /* a package's scope begins with @ */
  const char *at = *rest && sources[source].is_name ? strchr(rest + 1, '@') : NULL;
  size_t length = at ? (size_t)(at - rest) : strlen(rest);
  *name = (attend_model_name){.source = source};
  bool fits = length < sizeof name->name && (!at || strlen(at + 1) < sizeof name->revision);
  if (fits) memcpy(name->name, rest, length);
  if (fits && at) strcpy(name->revision, at + 1);
  if (fits && !sources[source].is_name) return ATTEND_OK;
  if (fits && sources[source].is_name(name->name) &&
      (!at || sources[source].is_revision(name->revision)))
    return ATTEND_OK;
  if (!sources[source].what)
    return fail(ctx, ATTEND_INVALID, "the path of a model has %zu bytes: too many", length);
  return fail(ctx, ATTEND_INVALID, "\"%.200s\" names no %s: write %s", text, sources[source].what,
              sources[source].form);
}

/* ---- where the caches are -------------------------------------------------------- */

static attend_status cache_home(attend_context *ctx, path_text path) {
  const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
  if (cache && cache[0] == '/') return path_put(ctx, path, "%s", cache);
  if (home && *home) return path_put(ctx, path, "%s/.cache", home);
  return fail(ctx, ATTEND_IO, "there is no place for a cache: set HOME or XDG_CACHE_HOME");
}

/* The value of a variable as an absolute path, "~" expanded; "" if it is not set. */
static attend_status path_in(attend_context *ctx, const char *variable, path_text path) {
  const char *value = getenv(variable), *home = getenv("HOME");
  path_text here;
  *path = 0;
  if (!value || !*value) return ATTEND_OK;
  if (home && (!strcmp(value, "~") || !strncmp(value, "~/", 2)))
    return path_put(ctx, path, "%s%s", home, value + 1);
  if (value[0] == '/' || !getcwd(here, sizeof here)) return path_put(ctx, path, "%s", value);
  return path_put(ctx, path, "%s/%s", here, value);
}

attend_status attend_hub_home(attend_context *ctx, path_text path) {
  path_text cache;
  ATTEND_TRY(path_in(ctx, "HF_HOME", path));
  if (*path) return ATTEND_OK;
  ATTEND_TRY(cache_home(ctx, cache));
  return path_put(ctx, path, "%s/huggingface", cache);
}

static attend_status hub_root(attend_context *ctx, path_text path) {
  path_text home;
  ATTEND_TRY(path_in(ctx, "HF_HUB_CACHE", path));
  if (*path) return ATTEND_OK;
  ATTEND_TRY(attend_hub_home(ctx, home));
  return path_put(ctx, path, "%s/hub", home);
}

attend_status attend_npm_home(attend_context *ctx, path_text path) {
  path_text cache;
  ATTEND_TRY(cache_home(ctx, cache));
  return path_put(ctx, path, "%s/attend/npm", cache);
}

attend_status attend_model_cache(attend_context *ctx, const attend_model_name *name,
                                 path_text path) {
  path_text root;
  ATTEND_CHECK(ctx, sources[name->source].is_name,
               "\"%.200s\" is in no cache: only models of hf: and npm: are", name->name);
  if (name->source == ATTEND_SOURCE_NPM) {
    ATTEND_TRY(attend_npm_home(ctx, root));
    return path_put(ctx, path, "%s/%s", root, name->name);
  }
  const char *slash = strchr(name->name, '/');
  ATTEND_TRY(hub_root(ctx, root));
  if (!slash) return path_put(ctx, path, "%s/models--%s", root, name->name);
  return path_put(ctx, path, "%s/models--%.*s--%s", root, (int)(slash - name->name), name->name,
                  slash + 1);
}

/* ---- the hub's cache ------------------------------------------------------------- */

static bool is_commit(const char *text) {
  return strlen(text) == COMMIT_DIGITS && strspn(text, "0123456789abcdef") == COMMIT_DIGITS;
}

/* The commit that a revision stood for when it was pulled. */
static bool read_commit(const char *ref, char commit[COMMIT_DIGITS + 2]) {
  FILE *f = fopen(ref, "r");
  if (!f) return false;
  commit[fread(commit, 1, COMMIT_DIGITS + 1, f)] = 0;
  fclose(f);
  commit[strcspn(commit, "\r\n")] = 0;
  return is_commit(commit);
}

static attend_status find_in_hub(attend_context *ctx, const char *text,
                                 const attend_model_name *name, path_text path) {
  const char *revision = *name->revision ? name->revision : "main";
  char commit[COMMIT_DIGITS + 2] = "";
  path_text folder, ref;
  ATTEND_TRY(attend_model_cache(ctx, name, folder));
  ATTEND_TRY(path_put(ctx, ref, "%s/refs/%s", folder, revision));
  bool known = is_commit(revision) || read_commit(ref, commit);
  ATTEND_TRY(path_put(ctx, path, "%s/snapshots/%s", folder, *commit ? commit : revision));
  if (known && is_folder(path)) return ATTEND_OK;
  *strrchr(folder, '/') = 0;
  return fail(ctx, ATTEND_IO, "%.150s is not in %.150s: run attend pull %.150s", text, folder,
              text);
}

/* ---- npm's cache ----------------------------------------------------------------- */

/* A release is newer than its pre-releases, 2.0.0-rc.1. */
static bool is_newer(const char *a, const char *b) {
  bool pre_a = strchr(a, '-'), pre_b = strchr(b, '-');
  return pre_a != pre_b ? pre_b : strverscmp(a, b) > 0;
}

static void newest_in(const char *folder, char version[MOST_NAME]) {
  DIR *d = opendir(folder);
  struct dirent *entry;
  *version = 0;
  while (d && (entry = readdir(d))) {
    const char *name = entry->d_name;
    if (name[0] != '.' && (!*version || is_newer(name, version)))
      snprintf(version, MOST_NAME, "%s", name);
  }
  if (d) closedir(d);
}

/* Parts of a model have a config.json of their own, below the model's. */
attend_status attend_package_model(attend_context *ctx, const char *package, path_text path) {
  char *roots[] = {(char *)package, NULL};
  FTS *tree = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
  FTSENT *at;
  int level = 0, ties = 0;
  attend_status status = path_put(ctx, path, "%s", package);
  while (!status && tree && (at = fts_read(tree))) {
    bool file = at->fts_info == FTS_F || at->fts_info == FTS_SL;
    if (!file || strcmp(at->fts_name, "config.json")) continue;
    if (level && at->fts_level > level) continue;
    ties = at->fts_level == level ? ties + 1 : 0;
    level = at->fts_level;
    status =
        path_put(ctx, path, "%.*s", (int)(at->fts_pathlen - at->fts_namelen - 1), at->fts_path);
  }
  if (tree) fts_close(tree);
  return status || !ties ? status : path_put(ctx, path, "%s", package);
}

static attend_status find_in_npm(attend_context *ctx, const char *text,
                                 const attend_model_name *name, path_text path) {
  char version[MOST_NAME];
  path_text package, folder;
  ATTEND_CHECK(ctx, !name_ends(name->name, ".tgz") && !name_ends(name->name, ".tar.gz"),
               "%.150s is not the name of a package: run attend pull %.150s, and give "
               "the folder that it prints",
               text, text);
  ATTEND_TRY(attend_model_cache(ctx, name, package));
  if (*name->revision && strcmp(name->revision, "latest"))
    snprintf(version, sizeof version, "%s", name->revision);
  else
    newest_in(package, version);
  ATTEND_TRY(path_put(ctx, folder, "%s/%s", package, version));
  if (attend_name_is_safe(version, strlen(version)) && is_folder(folder))
    return attend_package_model(ctx, folder, path);
  return fail(ctx, ATTEND_IO, "%.200s has not been pulled: run attend pull %.200s", text, text);
}

/* ---- models that ship ------------------------------------------------------------ */

/* The file that holds this code: the program, or the shared library. */
static bool loaded_from(path_text path) {
  char entry[ATTEND_PATH_SIZE + 128];
  FILE *maps = fopen("/proc/self/maps", "r");
  uintptr_t here = (uintptr_t)&loaded_from, from, to;
  bool found = false;
  while (maps && !found && fgets(entry, sizeof entry, maps)) {
    char *name = strchr(entry, '/');
    if (sscanf(entry, "%" SCNxPTR "-%" SCNxPTR, &from, &to) != 2 || !name) continue;
    name[strcspn(name, "\n")] = 0;
    found = from <= here && here < to;
    if (found) snprintf(path, ATTEND_PATH_SIZE, "%s", name);
  }
  if (maps) fclose(maps);
  return found;
}

/* Folder i of those that may hold them; false: there are no more. */
static bool shipped_folder(int i, path_text folder) {
  static const char *const places[] = {"../share/attend/models", "../models",
                                       "../../share/attend/models", "../../models"};
  const char *given = getenv("ATTEND_MODELS");
  path_text file = "";
  *folder = 0;
  if (i > 4 || (i && !loaded_from(file))) return false;
  if (i) *strrchr(file, '/') = 0;
  int n = i ? snprintf(folder, ATTEND_PATH_SIZE, "%s/%s", file, places[i - 1])
            : snprintf(folder, ATTEND_PATH_SIZE, "%s", given ? given : "");
  if (n >= ATTEND_PATH_SIZE) *folder = 0;
  return true;
}

static void list_shipped(const char *folder, char *text, size_t size) {
  DIR *dir = opendir(folder);
  for (struct dirent *e; dir && (e = readdir(dir));) {
    path_text path;
    size_t used = strlen(text);
    int n = snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
    if (e->d_name[0] == '.' || n >= ATTEND_PATH_SIZE || !has_config(path)) continue;
    n = snprintf(text + used, size - used, "%sattend:%s", used ? ", " : "", e->d_name);
    if (n < 0 || (size_t)n >= size - used) text[used] = 0;
  }
  if (dir) closedir(dir);
}

static attend_status find_shipped(attend_context *ctx, const char *text,
                                  const attend_model_name *name, path_text path) {
  path_text folder;
  char all[256] = "";
  bool safe = attend_name_is_safe(name->name, strlen(name->name));
  for (int i = 0; safe && shipped_folder(i, folder); i++) {
    ATTEND_TRY(path_put(ctx, path, "%s/%s", folder, name->name));
    if (*folder && has_config(path)) return ATTEND_OK;
  }
  for (int i = 0; !*all && shipped_folder(i, folder); i++)
    if (*folder) list_shipped(folder, all, sizeof all);
  return fail(ctx, ATTEND_IO, "%.100s does not come with this program: %s%s", text,
              *all ? "these do: " : "",
              *all ? all : "no models were found beside it (ATTEND_MODELS says where they are)");
}

/* ---- finding and opening --------------------------------------------------------- */

/* `attend train` writes its best step, and its last, below its folder. */
static attend_status find_folder(attend_context *ctx, const char *text,
                                 const attend_model_name *name, path_text path) {
  static const char *const places[] = {"", "/best", "/last"};
  (void)text;
  for (int i = 0; i < 3; i++) {
    ATTEND_TRY(path_put(ctx, path, "%s%s", name->name, places[i]));
    if (has_config(path)) return ATTEND_OK;
  }
  return path_put(ctx, path, "%s", name->name);
}

attend_status attend_model_find(attend_context *ctx, const char *text, path_text path) {
  static attend_status (*const find[])(attend_context *, const char *, const attend_model_name *,
                                       char *) = {[ATTEND_SOURCE_FOLDER] = find_folder,
                                                  [ATTEND_SOURCE_SHIPPED] = find_shipped,
                                                  [ATTEND_SOURCE_HUB] = find_in_hub,
                                                  [ATTEND_SOURCE_NPM] = find_in_npm};
  attend_model_name name;
  *path = 0;
  ATTEND_TRY(attend_model_name_parse(ctx, text, &name));
  return find[name.source](ctx, text, &name, path);
}

/* ---- what the caches hold -------------------------------------------------------- */

typedef struct {
  attend_context *ctx;
  bool (*each)(const char *name, void *user);
  void *user;
  bool ended;
} listing;

/* A name that leads to no model is left out: the cache also holds datasets, and downloads that
 * were interrupted. */
static void list_name(listing *l, const char *name) {
  path_text path;
  if (!l->ended && !attend_model_find(l->ctx, name, path)) l->ended = !l->each(name, l->user);
}

/* models--OWNER--NAME as hf:OWNER/NAME: parts of a name never contain "--". */
static void list_hub(listing *l, const char *folder, const char *entry) {
  static const char begin[] = "models--";
  char name[MOST_NAME];
  (void)folder;
  if (strncmp(entry, begin, sizeof begin - 1)) return;
  const char *owner = entry + sizeof begin - 1, *rest = strstr(owner, "--");
  int n = rest ? snprintf(name, sizeof name, "hf:%.*s/%s", (int)(rest - owner), owner, rest + 2)
               : snprintf(name, sizeof name, "hf:%s", owner);
  if (n < MOST_NAME) list_name(l, name);
}

static int is_visible(const struct dirent *e) { return e->d_name[0] != '.'; }

static void list_folder(listing *l, const char *folder,
                        void (*put)(listing *l, const char *folder, const char *entry)) {
  struct dirent **entries;
  int n = scandir(folder, &entries, is_visible, alphasort);
  if (n < 0) return; /* nothing was pulled */
  for (int i = 0; i < n; i++) {
    put(l, folder, entries[i]->d_name);
    free(entries[i]);
  }
  free(entries);
}

static void list_scoped(listing *l, const char *scope, const char *entry) {
  char name[MOST_NAME];
  if (snprintf(name, sizeof name, "npm:%s/%s", strrchr(scope, '/') + 1, entry) < MOST_NAME)
    list_name(l, name);
}

static void list_npm(listing *l, const char *folder, const char *entry) {
  char name[MOST_NAME];
  path_text scope;
  if (*entry == '@') {
    if (!path_put(l->ctx, scope, "%s/%s", folder, entry)) list_folder(l, scope, list_scoped);
  } else if (snprintf(name, sizeof name, "npm:%s", entry) < MOST_NAME) {
    list_name(l, name);
  }
}

attend_status attend_models_pulled(attend_context *ctx, bool (*each)(const char *name, void *user),
                                   void *user) {
  listing l = {ctx, each, user, false};
  path_text folder;
  ATTEND_TRY(hub_root(ctx, folder));
  list_folder(&l, folder, list_hub);
  ATTEND_TRY(attend_npm_home(ctx, folder));
  list_folder(&l, folder, list_npm);
  return ATTEND_OK;
}

attend_status attend_open(attend_context *ctx, const char *name, attend_model **model) {
  path_text path;
  attend_checkpoint *files;
  *model = NULL;
  ATTEND_TRY(attend_model_find(ctx, name, path));
  ATTEND_TRY(attend_checkpoint_open(ctx, path, &files));
  attend_status status = attend_model_create(files, NULL, model);
  if (status)
    attend_checkpoint_free(files);
  else
    (*model)->owns_files = true;
  return status;
}
