/* Writing files so that a failure leaves what was there before.
 *
 * Place: base/ - everything that is kept goes out through here: tensors, settings,
 * pictures, checkpoints.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "attend/file.h"
#include "base/files.h"

attend_status writing_failed(attend_context *ctx, const char *doing,
                             const char *path) {
  return fail(ctx, ATTEND_IO, "%s \"%.300s\" failed: %s", doing, path,
              errno ? strerror(errno) : "the disk may be full");
}

void folder_sync(const char *folder) {
  int at = open(folder, O_RDONLY | O_DIRECTORY);
  if (at < 0) return;
  fsync(at);
  close(at);
}

static void sync_place(const char *path) {
  char folder[LONGEST_PATH];
  const char *slash = strrchr(path, '/');
  size_t n = slash ? (size_t)(slash - path) : 0;
  if (n >= sizeof folder) return;
  snprintf(folder, sizeof folder, "%.*s", (int)n, path);
  folder_sync(slash ? (n ? folder : "/") : ".");
}

static attend_status put_draft(attend_context *ctx, const char *path,
                               const char *draft,
                               attend_status (*put)(FILE *file, void *user),
                               void *user) {
  errno = 0;
  FILE *file = fopen(draft, "wb");
  if (!file) return writing_failed(ctx, "creating a file beside", path);
  attend_status status = put(file, user);
  if (!status && (fflush(file) || fsync(fileno(file))))
    status = writing_failed(ctx, "writing to", path);
  if (fclose(file) && !status) status = writing_failed(ctx, "writing to", path);
  if (!status && rename(draft, path))
    status = writing_failed(ctx, "renaming to", path);
  if (status) remove(draft);
  return status;
}

/* A device, a pipe, a descriptor: it takes bytes and is not to be replaced. */
static bool takes_bytes(const char *path) {
  struct stat s;
  if (!strncmp(path, "/dev/std", 8) || !strncmp(path, "/dev/fd/", 8))
    return true; /* of a file, perhaps */
  return !stat(path, &s) && !S_ISREG(s.st_mode) && !S_ISDIR(s.st_mode);
}

static attend_status put_bytes(attend_context *ctx, const char *path,
                               attend_status (*put)(FILE *file, void *user),
                               void *user) {
  errno = 0;
  FILE *file = fopen(path, "ab");
  if (!file) return writing_failed(ctx, "opening", path);
  attend_status status = put(file, user);
  if (fclose(file) && !status) status = writing_failed(ctx, "writing to", path);
  return status;
}

attend_status draft_write(attend_context *ctx, const char *path,
                          attend_status (*put)(FILE *file, void *user),
                          void *user) {
  char *draft;
  size_t length = strlen(path) + sizeof ".part";
  if (takes_bytes(path)) return put_bytes(ctx, path, put, user);
  ATTEND_TRY(take(ctx, length, "a file's name", &draft));
  snprintf(draft, length, "%s.part", path);
  attend_status status = put_draft(ctx, path, draft, put, user);
  if (!status) sync_place(path);
  give(ctx, draft);
  return status;
}

typedef struct {
  attend_context *ctx;
  const char *path;
  const void *bytes;
  size_t length;
} whole;

static attend_status put_whole(FILE *file, void *user) {
  const whole *w = user;
  if (fwrite(w->bytes, 1, w->length, file) == w->length) return ATTEND_OK;
  return writing_failed(w->ctx, "writing to", w->path);
}

attend_status attend_file_write(attend_context *ctx, const char *path,
                                const void *bytes, size_t length) {
  whole w = {ctx, path, bytes, length};
  return draft_write(ctx, path, put_whole, &w);
}
