/* Paths, folders, lists of files, locks. */
#include "folders.h"

#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "progress.h"

extern char **environ;

char *path_of(const char *format, ...) {
  va_list args;
  if (!format) return need_copy(""); /* for sanitizers */
  va_start(args, format);
  int length = vsnprintf(NULL, 0, format, args);
  va_end(args);
  char *path = need((size_t)length + 1, 1);
  va_start(args, format);
  vsnprintf(path, (size_t)length + 1, format, args);
  va_end(args);
  return path;
}

char *without_slashes(const char *path) {
  char *copy = need_copy(path);
  size_t length = strlen(copy);
  while (length > 1 && copy[length - 1] == '/') copy[--length] = 0;
  return copy;
}

/* ---- folders ----------------------------------------------------------------- */

bool path_ends(const char *name, const char *end) {
  size_t n = strlen(name), m = strlen(end);
  return n >= m && !strcmp(name + n - m, end);
}

const char *path_ending(const char *path) {
  const char *dot = strrchr(path, '.'), *slash = strrchr(path, '/');
  return dot && (!slash || dot > slash) ? dot + 1 : "";
}

bool is_folder(const char *path) {
  struct stat info;
  return !stat(path, &info) && S_ISDIR(info.st_mode);
}

int64_t file_bytes(const char *path) {
  struct stat info;
  return !stat(path, &info) && S_ISREG(info.st_mode) ? info.st_size : -1;
}

/* Creates everything up to `end`, or all of it. */
static bool make_up_to(const char *path, const char *end) {
  char *folder = need_copy(path);
  bool made = true;
  if (end) folder[end - path] = 0;
  for (char *at = folder; made && at; at = strchr(at + 1, '/')) {
    if (at == folder) continue;
    *at = 0;
    made = !mkdir(folder, 0777) || errno == EEXIST;
    *at = '/';
  }
  if (made) made = !mkdir(folder, 0777) || is_folder(folder);
  if (!made) complain("the folder %s cannot be made: %s", folder, strerror(errno));
  free(folder);
  return made;
}

bool make_folder(const char *path) { return make_up_to(path, NULL); }

bool make_room(const char *path) {
  const char *slash = strrchr(path, '/');
  return !slash || slash == path || make_up_to(path, slash);
}

/* Special files are written to directly; regular files are renamed into place. */
static bool takes_writes(const char *path) {
  struct stat s;
  if (!stat(path, &s) && !S_ISREG(s.st_mode)) return !access(path, W_OK);
  const char *slash = strrchr(path, '/');
  char *folder = need_copy(slash ? path : ".");
  if (slash) folder[slash == path ? 1 : slash - path] = 0;
  bool does = !access(folder, W_OK);
  free(folder);
  return does;
}

bool can_write(const char *path) {
  if (!make_room(path)) return false;
  bool folder = is_folder(path), can = !folder && takes_writes(path);
  if (!can) complain("%s cannot be written: %s", path, folder ? "it is a folder" : strerror(errno));
  return can;
}

void remove_folder(const char *path) {
  char *roots[] = {(char *)path, NULL};
  FTS *walk = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
  FTSENT *at;
  while (walk && (at = fts_read(walk))) {
    if (at->fts_info == FTS_DP)
      rmdir(at->fts_path);
    else if (at->fts_info != FTS_D)
      unlink(at->fts_path);
  }
  if (walk) fts_close(walk);
}

/* ---- names ------------------------------------------------------------------- */

char *names_take(names *list, char *name) {
  if (list->count == list->capacity) {
    list->capacity = 2 * list->capacity + 16;
    list->name = need_more(list->name, list->count, list->capacity, sizeof *list->name);
  }
  return list->name[list->count++] = name;
}

void names_add(names *list, const char *name) { names_take(list, need_copy(name)); }

static int by_name(const void *a, const void *b) {
  return strcmp(*(char *const *)a, *(char *const *)b);
}

bool names_below(const char *folder, names *list) {
  char *roots[] = {(char *)folder, NULL};
  FTS *walk = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
  FTSENT *at;
  *list = (names){0};
  if (!walk) return false;
  while ((at = fts_read(walk)))
    if (at->fts_info == FTS_F || at->fts_info == FTS_SL)
      names_add(list, at->fts_path + strlen(folder) + 1);
  fts_close(walk);
  if (list->count) qsort(list->name, list->count, sizeof *list->name, by_name);
  return true;
}

void names_free(names *list) {
  for (size_t i = 0; i < list->count; i++) free(list->name[i]);
  free(list->name);
  *list = (names){0};
}

bool is_hex(const char *text, size_t length) {
  return strlen(text) == length && strspn(text, "0123456789abcdef") == length;
}

/* ---- locks ------------------------------------------------------------------- */

/* Some programs delete the lock file when they release it: the locked inode must
 * still be the one at that path. */
static bool is_still_there(int lock, const char *path) {
  struct stat ours, theirs;
  return !fstat(lock, &ours) && !stat(path, &theirs) && ours.st_dev == theirs.st_dev &&
         ours.st_ino == theirs.st_ino;
}

static bool wait_for(int lock) {
  if (!flock(lock, LOCK_EX | LOCK_NB)) return true;
  if (errno != EWOULDBLOCK) return false;
  progress_note("waiting for another pull of the same");
  bool got = !flock(lock, LOCK_EX);
  progress_end();
  return got;
}

int lock_take(const char *path) {
  if (!make_room(path)) return -1;
  for (;;) {
    int lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (lock < 0 || !wait_for(lock)) {
      complain("%s cannot be locked: %s", path, strerror(errno));
      lock_drop(lock);
      return -1;
    }
    if (is_still_there(lock, path)) return lock;
    lock_drop(lock);
  }
}

void lock_drop(int lock) {
  if (lock >= 0) close(lock);
}

/* ---- pages in a browser ------------------------------------------------------ */

void browser_open(const char *address) {
  char program[] = "xdg-open", *words[] = {program, (char *)address, NULL};
  pid_t child;
  if (posix_spawnp(&child, words[0], NULL, NULL, words, environ))
    complain("no browser could be started: open %s yourself", address);
}

char *browser_file(const char *name) {
  char *path = path_of("/tmp/attend-%s-XXXXXX.html", name);
  int file = mkstemps(path, 5);
  if (file >= 0) {
    close(file);
    return path;
  }
  complain("no file can be made in /tmp for the page: use --out page.html");
  free(path);
  return NULL;
}
