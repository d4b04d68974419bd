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

#include "attend/find.h"
#include "attend/json.h"
#include "folders.h"
#include "progress.h"
#include "pull/pull.h"
#include "pull/unpack.h"

extern char **environ;

enum { MOST_WORDS = 1 << 20 };

typedef struct {
  char *whole;   /* as npm takes it: NAME, NAME@VERSION, a tarball's path */
  char *name;    /* NULL: a tarball */
  char *version; /* NULL: the newest */
} npm_spec;

typedef struct {
  const pull_request *request;
  npm_spec spec;
  char *root;           /* the cache */
  char *private;        /* a temporary folder in it */
  char *name, *version; /* as the package says */
} npm_run;

/* ---- what to pull ------------------------------------------------------------------ */

static bool is_tarball(const char *text) {
  size_t length = strlen(text);
  return (length > 4 && !strcmp(text + length - 4, ".tgz")) ||
         (length > 7 && !strcmp(text + length - 7, ".tar.gz"));
}

/* The whole path: "OWNER/NAME.tgz" would be a repository's name to npm. */
static int read_tarball(const char *given, npm_spec *spec) {
  char *path = realpath(given, NULL);
  if (path && file_bytes(path) >= 0) {
    spec->whole = need_copy(path);
    free(path);
    return EXIT_OK;
  }
  free(path);
  complain("there is no file %s: check the spelling", given);
  return EXIT_USAGE;
}

/* Only what npm gets without running anything: it would run scripts of a
 * repository or a folder that it makes a package of. */
static int read_spec(attend_context *ctx, const char *given, npm_spec *spec) {
  attend_model_name model;
  const char *whole = given + strlen("npm:");
  if (is_tarball(whole)) return read_tarball(whole, spec);
  attend_status status = attend_model_name_parse(ctx, given, &model);
  if (status) return complain_status(ctx, status);
  *spec = (npm_spec){.whole = need_copy(whole), .name = need_copy(model.name)};
  if (*model.revision && strcmp(model.revision, "latest"))
    spec->version = need_copy(model.revision);
  return EXIT_OK;
}

static void spec_free(npm_spec *spec) {
  free(spec->whole);
  free(spec->name);
  free(spec->version);
}

/* The folder of the package in the cache, in the requested version or else the newest
 * there; NULL: it is not there. */
static char *find_cached(const npm_run *run) {
  char model[ATTEND_PATH_SIZE], package[ATTEND_PATH_SIZE];
  attend_context *ctx = run->request->ctx;
  attend_model_name name;
  if (!run->spec.name) return NULL;
  char *given = path_of("npm:%s", run->spec.whole);
  bool found = !attend_model_name_parse(ctx, given, &name) &&
               !attend_model_cache(ctx, &name, package) && !attend_model_find(ctx, given, model);
  free(given);
  if (!found) return NULL;
  const char *version = model + strlen(package) + 1;
  return path_of("%s/%.*s", package, (int)strcspn(version, "/"), version);
}

/* ---- running npm ----------------------------------------------------------------- */

/* All of a small file; "" if it cannot be read. */
static char *words_in(const char *path) {
  char *text = need(MOST_WORDS + 1, 1);
  FILE *f = fopen(path, "r");
  if (f) {
    text[fread(text, 1, MOST_WORDS, f)] = 0;
    fclose(f);
  }
  return text;
}

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

static int complain_npm(const npm_run *run, const char *errors) {
  char reason[200];
  char *words = words_in(errors);
  npm_reason(words, reason, sizeof reason);
  if (strstr(words, "code E404") || strstr(words, "code ETARGET"))
    complain("npm knows no %s: check the name and the version", run->spec.whole);
  else if (strstr(words, "code EINTEGRITY"))
    complain(
        "%s came with another hash than its registry announced and was "
        "thrown away: pull again",
        run->spec.whole);
  else
    complain("npm could not get %s (%s): check the name and the network", run->spec.whole, reason);
  free(words);
  return EXIT_FAILED;
}

/* Runs npm with its words in files; its exit status, -1 if there is no npm. */
static int spawn_npm(char **arguments, const char *output, const char *errors) {
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

/* The last of `arguments` before NULL is the package. *output: npm's answer. */
static int npm(const npm_run *run, char **arguments, char **output) {
  char *out = path_of("%s/npm.out", run->private);
  char *err = path_of("%s/npm.err", run->private);
  progress_note("npm is at work");
  int status = spawn_npm(arguments, out, err), code = EXIT_OK;
  progress_end();
  *output = NULL;
  if (status < 0) {
    complain(
        "there is no npm to pull packages with: install npm (it comes "
        "with Node.js)");
    code = EXIT_FAILED;
  } else if (status) {
    code = complain_npm(run, err);
  } else {
    *output = words_in(out);
  }
  free(out);
  free(err);
  return code;
}

/* ---- which version ----------------------------------------------------------------- */

/* npm says a string, or several where a range fits several: the last is the
 * newest. */
static char *version_in(attend_context *ctx, const char *text) {
  attend_json *root;
  if (attend_json_parse(ctx, "npm's answer", text, strlen(text), &root)) return NULL;
  const attend_json *at = root;
  if (attend_json_kind_of(at) == ATTEND_JSON_ARRAY && attend_json_count(at))
    at = attend_json_at(at, attend_json_count(at) - 1);
  const char *version = attend_json_string(at, NULL);
  char *copy = version ? need_copy(version) : NULL;
  attend_json_free(root);
  return copy;
}

/* Resolves a range or tag to one version, so that the cache can be checked. */
static int settle_version(npm_run *run) {
  char *arguments[] = {(char *)"npm", (char *)"view",  (char *)"--json",
                       (char *)"--",  run->spec.whole, (char *)"version",
                       NULL};
  char *text;
  int code = npm(run, arguments, &text);
  if (code) return code;
  char *version = version_in(run->request->ctx, text);
  free(text);
  if (!version || strchr(version, '/') || !attend_name_is_safe(version, strlen(version))) {
    complain("npm knows no version of %s: check the name and the version", run->spec.whole);
    free(version);
    return EXIT_FAILED;
  }
  free(run->spec.version);
  free(run->spec.whole);
  run->spec.version = version;
  run->spec.whole = path_of("%s@%s", run->spec.name, version);
  return EXIT_OK;
}

/* ---- fetching ------------------------------------------------------------------------ */

static char *find_tarball(const char *folder) {
  names list;
  char *found = NULL;
  if (!names_below(folder, &list)) return NULL;
  for (size_t i = 0; i < list.count && !found; i++) {
    size_t length = strlen(list.name[i]);
    if (length > 4 && !strcmp(list.name[i] + length - 4, ".tgz"))
      found = path_of("%s/%s", folder, list.name[i]);
  }
  names_free(&list);
  return found;
}

static int fetch(npm_run *run, const char *folder) {
  char *arguments[] = {(char *)"npm",
                       (char *)"pack",
                       (char *)"--ignore-scripts",
                       (char *)"--pack-destination",
                       run->private,
                       (char *)"--",
                       run->spec.whole,
                       NULL};
  char *text;
  int code = npm(run, arguments, &text);
  free(text);
  if (code) return code;
  char *tarball = find_tarball(run->private);
  if (!tarball) complain("npm packed nothing of %s", run->spec.whole);
  bool fine = tarball && make_folder(folder) && unpack(tarball, folder);
  free(tarball);
  return fine ? EXIT_OK : EXIT_FAILED;
}

static char *member_of(const attend_json *root, const char *name) {
  const char *text = attend_json_string(attend_json_get(root, name), NULL);
  return text ? need_copy(text) : NULL;
}

static bool is_package_name(const npm_run *run) {
  attend_model_name name;
  char *given = path_of("npm:%s", run->name);
  bool is = !attend_model_name_parse(run->request->ctx, given, &name) && !*name.revision;
  free(given);
  return is;
}

/* Name and version in package.json; the name becomes a path, so it is checked. */
static bool read_identity(npm_run *run, const char *folder) {
  char *path = path_of("%s/package.json", folder);
  char *text = words_in(path);
  attend_json *root = NULL;
  if (attend_json_parse(run->request->ctx, path, text, strlen(text), &root)) root = NULL;
  free(run->name);
  free(run->version);
  run->name = member_of(root, "name");
  run->version = member_of(root, "version");
  attend_json_free(root);
  free(text);
  free(path);
  return run->name && is_package_name(run) && run->version && !strchr(run->version, '/') &&
         attend_name_is_safe(run->version, strlen(run->version));
}

/* ---- moving into place ----------------------------------------------------------------- */

/* A folder of the user's is filled only if it is empty. */
static bool may_fill(const npm_run *run, const char *to) {
  names list = {0};
  bool empty = !names_below(to, &list) || !list.count;
  names_free(&list);
  if (empty || !run->request->to) return true;
  complain("%s holds something else: choose an empty folder for --to", to);
  return false;
}

static int move_in(npm_run *run, const char *folder, const char *to) {
  char *old = path_of("%s/old", run->private);
  if (!may_fill(run, to) || !make_room(to)) {
    free(old);
    return EXIT_FAILED;
  }
  bool moved = (!rename(to, old) || errno == ENOENT) && !rename(folder, to);
  if (!moved) {
    complain("%s cannot be put in place: %s", to, strerror(errno));
    rename(old, to);
  }
  free(old);
  return moved ? EXIT_OK : EXIT_FAILED;
}

/* Downloads a package and moves it into place. */
static int fetch_into_place(npm_run *run, char **place) {
  char *folder = path_of("%s/package", run->private);
  int code = fetch(run, folder);
  if (!code && !read_identity(run, folder)) {
    complain(
        "%s has no package.json with a name and a version: it is no "
        "package of npm's",
        run->spec.whole);
    code = EXIT_FAILED;
  }
  if (!code) {
    *place = run->request->to ? need_copy(run->request->to)
                              : path_of("%s/%s/%s", run->root, run->name, run->version);
    code = move_in(run, folder, *place);
  }
  free(folder);
  return code;
}

/* ---- pulling ----------------------------------------------------------------------------- */

static int report(npm_run *run, const char *place, bool already, pulled *got) {
  if (!names_below(place, &got->files)) return EXIT_FAILED;
  char model[ATTEND_PATH_SIZE];
  attend_status status = attend_package_model(run->request->ctx, place, model);
  if (status) return complain_status(run->request->ctx, status);
  got->root = need_copy(place);
  got->path = need_copy(model);
  got->version = need_copy(run->version ? run->version : "");
  got->already = need(got->files.count, sizeof *got->already);
  memset(got->already, already, got->files.count * sizeof *got->already);
  return EXIT_OK;
}

/* The requested version, if it is already there, else NULL. */
static char *find_there(npm_run *run) {
  char *place = run->request->to ? need_copy(run->request->to) : find_cached(run);
  bool there = place && run->spec.name && read_identity(run, place) &&
               !strcmp(run->name, run->spec.name) &&
               (!run->spec.version || !strcmp(run->version, run->spec.version));
  if (there) return place;
  free(place);
  return NULL;
}

static int pull_package(npm_run *run, pulled *got) {
  int code = EXIT_OK;
  char *place = run->spec.version || run->request->offline ? find_there(run) : NULL;
  if (!place && !run->request->offline && run->spec.name) {
    code = settle_version(run);
    if (!code) place = find_there(run);
  }
  bool already = place;
  if (!code && !already && run->request->offline) {
    complain("npm:%s has not been pulled: pull without --offline", run->spec.whole);
    code = EXIT_FAILED;
  }
  if (!code && !already) code = fetch_into_place(run, &place);
  if (!code) code = report(run, place, already, got);
  free(place);
  return code;
}

/* The lock holder is alone here: a leftover temporary folder is from an interrupted
 * pull. It is on the same file system as the cache. */
static int pull_locked(npm_run *run, pulled *got) {
  char *path = path_of("%s/.lock", run->root);
  int lock = lock_take(path), code = EXIT_FAILED;
  run->private = run->request->to ? path_of("%s.pulling", run->request->to)
                                  : path_of("%s/.private", run->root);
  if (lock >= 0) {
    remove_folder(run->private);
    if (make_folder(run->private)) code = pull_package(run, got);
    remove_folder(run->private);
  }
  lock_drop(lock);
  free(path);
  free(run->private);
  return code;
}

int pull_from_npm(const char *given, const pull_request *request, pulled *got) {
  npm_run run = {.request = request};
  char root[ATTEND_PATH_SIZE];
  int code = read_spec(request->ctx, given, &run.spec);
  if (code) return code;
  attend_status status = attend_npm_home(request->ctx, root);
  if (status) code = complain_status(request->ctx, status);
  run.root = need_copy(root);
  if (!code) code = pull_locked(&run, got);
  spec_free(&run.spec);
  free(run.root);
  free(run.name);
  free(run.version);
  return code;
}
