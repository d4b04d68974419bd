/* Paths, folders, lists of names; pages in a browser. */
#include "folders.h"

#include <errno.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

/* ---- folders ----------------------------------------------------------------- */

bool path_ends(const char *name, const char *end) {
  size_t n = strlen(name), m = strlen(end);
  return n >= m && !strcmp(name + n - m, end);
}

const char *path_ending(const char *path) {
  const char *dot = strrchr(path, '.'), *slash = strrchr(path, '/');
  return dot && (!slash || dot > slash) ? dot + 1 : "";
}

bool make_folder(const char *path) {
  attend_status status = folder_make(NULL, path);
  if (status) complain("the folder %s cannot be made: %s", path, strerror(errno));
  return !status;
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
  if (folder_make_above(NULL, path)) {
    complain("the folder of %s cannot be made: %s", path, strerror(errno));
    return false;
  }
  bool folder = is_folder(path), can = !folder && takes_writes(path);
  if (!can) complain("%s cannot be written: %s", path, folder ? "it is a folder" : strerror(errno));
  return can;
}

/* ---- names ------------------------------------------------------------------- */

void names_add(names *list, const char *name) {
  if (list->count == list->capacity) {
    list->capacity = 2 * list->capacity + 16;
    list->name = need_more(list->name, list->count, list->capacity, sizeof *list->name);
  }
  list->name[list->count++] = need_copy(name);
}

void names_free(names *list) {
  for (size_t i = 0; i < list->count; i++) free(list->name[i]);
  free(list->name);
  *list = (names){0};
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
