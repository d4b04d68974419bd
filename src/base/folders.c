/* Folders and locks. */
#include "base/folders.h"

#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/files.h"

bool is_folder(const char *path) {
  struct stat info;
  return !stat(path, &info) && S_ISDIR(info.st_mode);
}

int64_t file_bytes(const char *path) {
  struct stat info;
  return !stat(path, &info) && S_ISREG(info.st_mode) ? info.st_size : -1;
}

/* ---- creating and removing ----------------------------------------------------------- */

static bool make_one(const char *path) {
  if (!mkdir(path, 0777)) return true;
  int why = errno;
  bool there = is_folder(path);
  errno = why;
  return there;
}

/* The folders that end at the slashes of `path`, from the second character on. */
static attend_status make_to_slashes(attend_context *ctx, char *path) {
  for (char *at = *path ? strchr(path + 1, '/') : NULL; at; at = strchr(at + 1, '/')) {
    *at = 0;
    bool made = make_one(path);
    if (!made)
      return fail(ctx, ATTEND_IO, "the folder %.300s cannot be made: %s", path, strerror(errno));
    *at = '/';
  }
  return ATTEND_OK;
}

attend_status folder_make(attend_context *ctx, const char *path) {
  char below[LONGEST_PATH];
  errno = ENAMETOOLONG;
  ATTEND_TRY(path_inside(ctx, path, "", below));
  return make_to_slashes(ctx, below);
}

attend_status folder_make_above(attend_context *ctx, const char *path) {
  char copy[LONGEST_PATH];
  errno = ENAMETOOLONG;
  ATTEND_TRY(path_put(ctx, copy, "%s", path));
  return make_to_slashes(ctx, copy);
}

void folder_remove(const char *path) {
  char *roots[] = {(char *)path, NULL};
  FTS *tree = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
  for (FTSENT *at; tree && (at = fts_read(tree));) {
    if (at->fts_info == FTS_DP)
      rmdir(at->fts_path);
    else if (at->fts_info != FTS_D)
      unlink(at->fts_path);
  }
  if (tree) fts_close(tree);
}

/* ---- locks --------------------------------------------------------------------------- */

/* Some programs delete the lock file when they release it: the locked inode must
 * still be the one at that path. */
static bool is_still_there(int lock, const char *path) {
  struct stat ours, theirs;
  return !fstat(lock, &ours) && !stat(path, &theirs) && ours.st_dev == theirs.st_dev &&
         ours.st_ino == theirs.st_ino;
}

static attend_status wait_for(attend_context *ctx, int lock, const char *path,
                              int (*wait)(void *user), void *user) {
  const struct timespec pause = {0, 100000000};
  while (flock(lock, LOCK_EX | LOCK_NB)) {
    if (errno == EINTR) continue;
    if (errno != EWOULDBLOCK)
      return fail(ctx, ATTEND_IO, "%.300s cannot be locked: %s", path, strerror(errno));
    if (wait(user)) return fail(ctx, ATTEND_STOPPED, "waiting for %.300s was stopped", path);
    nanosleep(&pause, NULL);
  }
  return ATTEND_OK;
}

attend_status lock_take(attend_context *ctx, const char *path, int (*wait)(void *user), void *user,
                        int *lock) {
  *lock = -1;
  ATTEND_TRY(folder_make_above(ctx, path));
  for (;;) {
    int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (file < 0) return writing_failed(ctx, path);
    attend_status status = wait_for(ctx, file, path, wait, user);
    if (!status && is_still_there(file, path)) *lock = file;
    if (*lock >= 0) return ATTEND_OK;
    lock_drop(file);
    ATTEND_TRY(status);
  }
}

void lock_drop(int lock) {
  if (lock >= 0) close(lock);
}
