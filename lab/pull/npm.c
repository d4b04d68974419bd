/* npm:PACKAGE: npm downloads and checks the package, we unpack it.
 *
 * npm knows registries, their settings and tokens, and checks a package against the
 * registry's hash. It packs into a temporary folder beside the cache and runs none of
 * the package's scripts. The unpacked package is renamed into place as a whole.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pull/pull.h"

extern char **environ;

typedef struct {
  pull *p;
  /* what was asked for */
  path_text spec;           /* as npm takes it: NAME, NAME@VERSION, a tarball's path */
  attend_model_name wanted; /* name "": a tarball; revision "": any version */
  /* where */
  path_text root;    /* the cache */
  path_text private; /* a temporary folder in it */
  path_text to;      /* instead of the cache, or "" */
  /* of the package, as it says */
  char name[256], version[256];
} npm_pull;

/* ---- what to pull ---------------------------------------------------------------- */

/* The whole path: "OWNER/NAME.tgz" would be a repository's name to npm. */
static attend_status read_tarball(npm_pull *n, const char *given) {
  char *path = realpath(given, NULL);
  attend_status status =
      path && file_bytes(path) >= 0
          ? path_put(n->p->ctx, n->spec, "%s", path)
          : fail(n->p->ctx, ATTEND_INVALID, "there is no file %.300s: check the spelling", given);
  free(path);
  return status;
}

/* Only what npm gets without running anything: it would run scripts of a
 * repository or a folder that it makes a package of. */
static attend_status read_spec(npm_pull *n) {
  attend_context *ctx = n->p->ctx;
  const char *whole = n->p->name + strlen("npm:");
  if (name_ends(whole, ".tgz") || name_ends(whole, ".tar.gz")) return read_tarball(n, whole);
  ATTEND_TRY(attend_model_name_parse(ctx, n->p->name, &n->wanted));
  if (!strcmp(n->wanted.revision, "latest")) *n->wanted.revision = 0;
  return path_put(ctx, n->spec, "%s", whole);
}

/* The folder of the package in the cache, in the requested version or else the newest
 * there; false: it is not there. */
static bool find_cached(const npm_pull *n, path_text place) {
  attend_context *ctx = n->p->ctx;
  path_text model, package, given;
  attend_model_name name;
  if (path_put(ctx, given, "npm:%s", n->spec) || attend_model_name_parse(ctx, given, &name) ||
      attend_model_cache(ctx, &name, package) || attend_model_find(ctx, given, model))
    return false;
  const char *version = model + strlen(package) + 1;
  return !path_put(ctx, place, "%s/%.*s", package, (int)strcspn(version, "/"), version);
}

/* ---- running npm ----------------------------------------------------------------- */

/* The first error line of npm's output, without its prefix. */
static void npm_reason(const char *words, char *reason, size_t size) {
  snprintf(reason, size, "it did not say why");
  for (const char *line = words; *line; line += strspn(line, "\n")) {
    size_t length = strcspn(line, "\n"), frame = 0;
    if (!strncmp(line, "npm error ", 10)) frame = 10;
    if (!strncmp(line, "npm ERR! ", 9)) frame = 9;
    const char *text = line + frame;
    line += length;
    if (!frame || !strncmp(text, "code ", 5) || !strncmp(text, "errno ", 6) ||
        !strncmp(text, "syscall ", 8) || length - frame < 8)
      continue;
    snprintf(reason, size, "%.*s", (int)(length - frame), text);
    return;
  }
}

static attend_status npm_failed(const npm_pull *n, const char *words) {
  attend_context *ctx = n->p->ctx;
  char reason[200];
  npm_reason(words, reason, sizeof reason);
  if (strstr(words, "code E404") || strstr(words, "code ETARGET"))
    return fail(ctx, ATTEND_IO, "npm knows no %.200s: check the name and the version", n->spec);
  if (strstr(words, "code EINTEGRITY"))
    return fail(ctx, ATTEND_IO,
                "%.200s does not have the hash its registry announced and was deleted: pull again",
                n->spec);
  return fail(ctx, ATTEND_IO, "npm could not get %.150s (%s): check the name and the network",
              n->spec, reason);
}

/* Starts npm with its output in files; false: there is no npm. */
static bool spawn_npm(char *const *arguments, const char *output, const char *errors,
                      pid_t *child) {
  const int write_new = O_WRONLY | O_CREAT | O_TRUNC;
  posix_spawn_file_actions_t plan;
  posix_spawn_file_actions_init(&plan);
  posix_spawn_file_actions_addopen(&plan, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&plan, STDOUT_FILENO, output, write_new, 0666);
  posix_spawn_file_actions_addopen(&plan, STDERR_FILENO, errors, write_new, 0666);
  int failed = posix_spawnp(child, "npm", &plan, NULL, arguments, environ);
  posix_spawn_file_actions_destroy(&plan);
  return !failed;
}

/* *good: it exited with 0. */
static attend_status wait_for_npm(pull *p, pid_t child, bool *good) {
  attend_status status = ATTEND_OK;
  int code = -1;
  pid_t ended = 0;
  while (!status && !(ended = waitpid(child, &code, WNOHANG)))
    status = pull_wait(p, "npm is at work");
  if (!ended) {
    kill(child, SIGTERM);
    while (waitpid(child, &code, 0) < 0 && errno == EINTR) continue;
  }
  *good = code == 0;
  return status ? status : pull_report(p); /* Ctrl-C ends both */
}

/* `arguments` end with NULL. *output: what npm prints, freed with ctx_free. */
static attend_status npm(const npm_pull *n, const char *const *arguments, char **output) {
  pull *p = n->p;
  path_text out, err;
  pid_t child;
  bool good;
  size_t length;
  ATTEND_TRY(path_inside(p->ctx, n->private, "npm.out", out));
  ATTEND_TRY(path_inside(p->ctx, n->private, "npm.err", err));
  if (!spawn_npm((char *const *)arguments, out, err, &child))
    return fail(p->ctx, ATTEND_IO,
                "there is no npm to pull packages with: install npm (it comes with Node.js)");
  ATTEND_TRY(wait_for_npm(p, child, &good));
  ATTEND_TRY(file_read(p->ctx, good ? out : err, output, &length));
  if (good) return ATTEND_OK;
  attend_status status = npm_failed(n, *output);
  ctx_free(p->ctx, *output);
  return status;
}

/* ---- which version --------------------------------------------------------------- */

static void take_string(const attend_json *value, char *text, size_t size) {
  const char *string = attend_json_string(value, NULL);
  bool fits = string && strlen(string) < size;
  snprintf(text, size, "%s", fits ? string : "");
}

/* npm prints a string, or several where a range fits several: the last is the
 * newest. */
static attend_status version_in(attend_context *ctx, const char *text, char *version, size_t size) {
  attend_json *root;
  attend_status status = attend_json_parse(ctx, "npm's answer", text, strlen(text), &root);
  *version = 0;
  if (status) return status == ATTEND_NO_MEMORY ? status : ATTEND_OK;
  const attend_json *at = root;
  if (attend_json_kind_of(at) == ATTEND_JSON_ARRAY && attend_json_count(at))
    at = attend_json_at(at, attend_json_count(at) - 1);
  take_string(at, version, size);
  attend_json_free(root);
  return ATTEND_OK;
}

static bool is_version(const char *text) {
  return !strchr(text, '/') && attend_name_is_safe(text, strlen(text));
}

/* Resolves a range or tag to one version, so that the cache can be checked. */
static attend_status settle_version(npm_pull *n) {
  const char *arguments[] = {"npm", "view", "--json", "--", n->spec, "version", NULL};
  attend_context *ctx = n->p->ctx;
  char *text, version[sizeof n->version];
  ATTEND_TRY(npm(n, arguments, &text));
  attend_status status = version_in(ctx, text, version, sizeof version);
  ctx_free(ctx, text);
  ATTEND_TRY(status);
  if (!is_version(version))
    return fail(ctx, ATTEND_IO, "npm knows no version of %.200s: check the name and the version",
                n->spec);
  strcpy(n->wanted.revision, version);
  return path_put(ctx, n->spec, "%s@%s", n->wanted.name, version);
}

/* ---- fetching -------------------------------------------------------------------- */

/* tarball "": there is none. */
static attend_status find_tarball(const npm_pull *n, path_text tarball) {
  attend_context *ctx = n->p->ctx;
  name_list list = {0};
  attend_status status = name_list_below(ctx, &list, n->private);
  *tarball = 0;
  for (size_t i = 0; i < list.count && !status && !*tarball; i++)
    if (name_ends(list.name[i], ".tgz"))
      status = path_inside(ctx, n->private, list.name[i], tarball);
  name_list_free(ctx, &list);
  return status;
}

static attend_status fetch(const npm_pull *n, const char *folder) {
  const char *arguments[] = {
      "npm", "pack", "--ignore-scripts", "--pack-destination", n->private, "--", n->spec, NULL};
  attend_context *ctx = n->p->ctx;
  path_text tarball;
  char *text;
  ATTEND_TRY(npm(n, arguments, &text));
  ctx_free(ctx, text);
  ATTEND_TRY(find_tarball(n, tarball));
  if (!*tarball) return fail(ctx, ATTEND_IO, "npm packed nothing of %.200s", n->spec);
  ATTEND_TRY(folder_make(ctx, folder));
  return pull_unpack(n->p, tarball, folder);
}

/* Name and version in package.json; the name becomes a path, so it is checked. */
static attend_status read_identity(npm_pull *n, const char *folder, bool *found) {
  attend_context *ctx = n->p->ctx;
  attend_model_name name;
  attend_json *root;
  path_text path, given;
  *found = false;
  if (!file_beside(folder, "package.json", path, sizeof path)) return ATTEND_OK;
  attend_status status = json_read(ctx, path, &root);
  if (status) return status == ATTEND_NO_MEMORY ? status : ATTEND_OK;
  take_string(attend_json_get(root, "name"), n->name, sizeof n->name);
  take_string(attend_json_get(root, "version"), n->version, sizeof n->version);
  attend_json_free(root);
  *found = is_version(n->version) && !path_put(ctx, given, "npm:%s", n->name) &&
           !attend_model_name_parse(ctx, given, &name) && !*name.revision;
  return ATTEND_OK;
}

/* ---- moving into place ----------------------------------------------------------- */

/* A folder of the user's is filled only if it is empty. */
static attend_status check_empty(const npm_pull *n) {
  attend_context *ctx = n->p->ctx;
  name_list list = {0};
  ATTEND_TRY(*n->to ? name_list_below(ctx, &list, n->to) : ATTEND_OK);
  bool empty = !list.count;
  name_list_free(ctx, &list);
  if (empty) return ATTEND_OK;
  return fail(ctx, ATTEND_IO, "%.200s holds something else: choose an empty folder for --to",
              n->to);
}

static attend_status move_in(const npm_pull *n, const char *folder, const char *to) {
  attend_context *ctx = n->p->ctx;
  path_text old;
  ATTEND_TRY(check_empty(n));
  ATTEND_TRY(path_inside(ctx, n->private, "old", old));
  ATTEND_TRY(folder_make_above(ctx, to));
  if ((!rename(to, old) || errno == ENOENT) && !rename(folder, to)) return ATTEND_OK;
  attend_status status =
      fail(ctx, ATTEND_IO, "%.300s cannot be put in place: %s", to, strerror(errno));
  rename(old, to);
  return status;
}

/* Downloads a package and moves it into place. */
static attend_status fetch_into_place(npm_pull *n, path_text place) {
  attend_context *ctx = n->p->ctx;
  path_text folder;
  bool found;
  ATTEND_TRY(path_inside(ctx, n->private, "package", folder));
  ATTEND_TRY(fetch(n, folder));
  ATTEND_TRY(read_identity(n, folder, &found));
  if (!found)
    return fail(ctx, ATTEND_IO,
                "%.200s has no package.json with a name and a version: it is no package of npm's",
                n->spec);
  if (*n->to)
    strcpy(place, n->to);
  else
    ATTEND_TRY(path_put(ctx, place, "%s/%s/%s", n->root, n->name, n->version));
  return move_in(n, folder, place);
}

/* ---- pulling --------------------------------------------------------------------- */

static attend_status describe(const npm_pull *n, const char *place, bool already) {
  pull *p = n->p;
  name_list files = {0};
  snprintf(p->result->version, sizeof p->result->version, "%s", n->version);
  ATTEND_TRY(path_put(p->ctx, p->result->root, "%s", place));
  attend_status status = name_list_below(p->ctx, &files, place);
  for (size_t i = 0; i < files.count && !status; i++) status = pull_add(p, files.name[i], already);
  name_list_free(p->ctx, &files);
  return status ? status : attend_package_model(p->ctx, place, p->result->path);
}

/* Whether the requested version is already there. */
static attend_status find_there(npm_pull *n, path_text place, bool *there) {
  const char *version = n->wanted.revision;
  *there = false;
  if (!*n->wanted.name) return ATTEND_OK;
  if (*n->to)
    strcpy(place, n->to);
  else if (!find_cached(n, place))
    return ATTEND_OK;
  ATTEND_TRY(read_identity(n, place, there));
  *there =
      *there && !strcmp(n->name, n->wanted.name) && (!*version || !strcmp(n->version, version));
  return ATTEND_OK;
}

static attend_status pull_package(npm_pull *n) {
  const bool offline = n->p->o.offline;
  path_text place;
  bool there = false;
  if (*n->wanted.revision || offline) ATTEND_TRY(find_there(n, place, &there));
  if (!there && offline)
    return fail(n->p->ctx, ATTEND_IO, "npm:%.200s has not been pulled: pull without --offline",
                n->spec);
  if (!there && *n->wanted.name) {
    ATTEND_TRY(settle_version(n));
    ATTEND_TRY(find_there(n, place, &there));
  }
  if (!there) ATTEND_TRY(fetch_into_place(n, place));
  return describe(n, place, there);
}

static attend_status find_places(npm_pull *n) {
  attend_context *ctx = n->p->ctx;
  ATTEND_TRY(attend_npm_home(ctx, n->root));
  if (!n->p->o.to) return path_inside(ctx, n->root, ".private", n->private);
  ATTEND_TRY(path_trim(ctx, n->p->o.to, n->to));
  return path_put(ctx, n->private, "%s.pulling", n->to);
}

/* The lock holder is alone here: a leftover temporary folder is from an interrupted
 * pull. It is on the same file system as the cache. */
attend_status pull_from_npm(pull *p) {
  npm_pull n = {.p = p};
  path_text path;
  int lock;
  ATTEND_TRY(read_spec(&n));
  ATTEND_TRY(find_places(&n));
  ATTEND_TRY(path_inside(p->ctx, n.root, ".lock", path));
  ATTEND_TRY(pull_lock(p, path, &lock));
  folder_remove(n.private);
  attend_status status = folder_make(p->ctx, n.private);
  if (!status) status = pull_package(&n);
  folder_remove(n.private);
  lock_drop(lock);
  return status;
}
