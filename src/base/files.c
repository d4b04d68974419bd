/* Reading whole files; writing files and folders atomically: after a failure the old one
 * is intact.
 *
 * A file is written as a draft in the same directory, synced, and renamed. Every draft is a
 * file of its own, made with O_EXCL: two writers of one path, in one process or in two,
 * never share one, and the last to rename wins whole. A folder of files is written
 * likewise, as .NAME.12345678.part.
 */
#define _GNU_SOURCE /* renameat2 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "attend/file.h"
#include "base/files.h"

/* The bytes that the file had when it was opened; fewer are a failure. */
static attend_status read_bytes(attend_context *ctx, const char *path, int file, size_t length,
                                char *to) {
  enum { PIECE = 1 << 26 };
  for (size_t at = 0; at < length;) {
    size_t left = length - at;
    ssize_t n = read(file, to + at, left < PIECE ? left : PIECE);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail(ctx, ATTEND_IO, "%.300s cannot be read: %s", path, strerror(errno));
    if (!n)
      return fail(ctx, ATTEND_IO,
                  "%.300s was shortened while it was read, from %zu bytes to "
                  "%zu: run again when nothing writes to it",
                  path, length, at);
    at += (size_t)n;
  }
  return ATTEND_OK;
}

static attend_status read_open(attend_context *ctx, const char *path, int file, size_t max,
                               char **bytes, size_t *length) {
  struct stat info;
  if (fstat(file, &info) || !S_ISREG(info.st_mode))
    return fail(ctx, ATTEND_IO, "%.300s is not a file that can be read", path);
  if ((size_t)info.st_size > max)
    return fail(ctx, ATTEND_IO, "%.300s is too large to be read whole", path);
  *length = (size_t)info.st_size;
  ATTEND_TRY(ctx_alloc(ctx, *length + 1, "a file", bytes));
  (*bytes)[*length] = 0;
  attend_status status = read_bytes(ctx, path, file, *length, *bytes);
  if (!status) return ATTEND_OK;
  ctx_free(ctx, *bytes);
  *bytes = NULL;
  return status;
}

attend_status file_read_most(attend_context *ctx, const char *path, size_t max, char **bytes,
                             size_t *length) {
  int file = open(path, O_RDONLY | O_CLOEXEC);
  *bytes = NULL;
  *length = 0;
  if (file < 0) return fail(ctx, ATTEND_IO, "%.300s cannot be opened: %s", path, strerror(errno));
  attend_status status = read_open(ctx, path, file, max, bytes, length);
  close(file);
  return status;
}

attend_status file_read(attend_context *ctx, const char *path, char **bytes, size_t *length) {
  return file_read_most(ctx, path, (size_t)1 << 30, bytes, length);
}

static attend_status digest_open(attend_context *ctx, const char *path, FILE *f,
                                 attend_digest *digest) {
  enum { PIECE = 1 << 20 };
  char *piece;
  size_t n;
  ATTEND_TRY(ctx_alloc(ctx, PIECE, "a piece of a file", &piece));
  while ((n = fread(piece, 1, PIECE, f))) attend_digest_add(digest, piece, n);
  ctx_free(ctx, piece);
  if (!ferror(f)) return ATTEND_OK;
  return fail(ctx, ATTEND_IO, "%.300s cannot be read: %s", path, strerror(errno));
}

attend_status attend_digest_file(attend_context *ctx, const char *path, attend_digest *digest) {
  FILE *f = fopen(path, "rb");
  if (!f) return fail(ctx, ATTEND_IO, "%.300s cannot be opened: %s", path, strerror(errno));
  attend_status status = digest_open(ctx, path, f, digest);
  fclose(f);
  return status;
}

bool name_ends(const char *name, const char *end) {
  size_t n = strlen(name), m = strlen(end);
  return n >= m && !strcmp(name + n - m, end);
}

bool file_beside(const char *folder, const char *name, char *path, size_t size) {
  struct stat info;
  int n = snprintf(path, size, "%s/%s", folder, name);
  return n > 0 && (size_t)n < size && !stat(path, &info) && S_ISREG(info.st_mode);
}

attend_status json_write(json_writer *w, const char *path) {
  attend_status status = json_finish(w);
  if (!status) status = attend_file_write(w->ctx, path, w->text, w->length);
  json_writer_free(w);
  return status;
}

attend_status json_read(attend_context *ctx, const char *path, attend_json **root) {
  char *bytes;
  size_t length;
  *root = NULL;
  ATTEND_TRY(file_read(ctx, path, &bytes, &length));
  attend_status status = attend_json_parse(ctx, path, bytes, length, root);
  ctx_free(ctx, bytes);
  return status;
}

/* ---- formats that are not text, by their first bytes ----------------------------- */

static const struct {
  const char *begins;
  size_t length;
  const char *is;
} binary_formats[] = {{"\x1f\x8b", 2, "packed by gzip; unpack it"},
                      {"\x28\xb5\x2f\xfd", 4, "packed by zstd; unpack it"},
                      {"\xfd"
                       "7zXZ",
                       5, "packed by xz; unpack it"},
                      {"PK\3\4", 4, "a zip archive; unpack it"},
                      {"PAR1\x15", 5, "a Parquet file; write it as .jsonl"},
                      {"\xff\xfe", 2, "UTF-16; write it as UTF-8"},
                      {"\xfe\xff", 2, "UTF-16; write it as UTF-8"}};

attend_status attend_text_check(attend_context *ctx, const char *name, const char *bytes,
                                size_t length) {
  for (size_t i = 0; i < sizeof binary_formats / sizeof *binary_formats; i++)
    if (length >= binary_formats[i].length &&
        !memcmp(bytes, binary_formats[i].begins, binary_formats[i].length))
      return fail(ctx, ATTEND_IO, "%.300s is not text: it is %s first", name, binary_formats[i].is);
  return ATTEND_OK;
}

size_t attend_utf8_span(const char *text, size_t length) {
  const unsigned char *at = (const unsigned char *)text, *end = at + length;
  for (int n; at < end; at += n)
    if (!(n = utf8_length(at, end))) break;
  return (size_t)(at - (const unsigned char *)text);
}

attend_status attend_utf8_check(attend_context *ctx, const char *name, const char *text,
                                size_t length) {
  size_t span = attend_utf8_span(text, length);
  if (span == length) return ATTEND_OK;
  return fail(ctx, ATTEND_IO,
              "byte %zu of %.300s is not UTF-8: convert the text first, as with iconv -f latin1 -t "
              "utf-8",
              span, name);
}

/* ---- writing --------------------------------------------------------------------- */

struct attend_draft {
  attend_context *ctx;
  FILE *file;
  char *path, *draft; /* draft "": the path itself takes the bytes */
  attend_digest digest;
};

attend_status writing_failed(attend_context *ctx, const char *path) {
  return fail(ctx, ATTEND_IO, "%.300s cannot be written: %s", path,
              errno ? strerror(errno) : "the disk may be full");
}

/* The names in a folder must reach the disk, too; a file system that cannot do
 * that for a folder says so, and that is no failure. */
static void folder_sync(const char *folder) {
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

/* ---- names ----------------------------------------------------------------------- */

enum { TRIES = 100, SUFFIX = sizeof ".01234567.part" };

/* Names that differ between processes and moments are only less often taken:
 * exclusive creation is what keeps two writers apart. */
static unsigned guess(int attempt) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return ((unsigned)now.tv_nsec ^ (unsigned)getpid() << 12) + (unsigned)attempt;
}

/* Makes a draft of `path`, beside it and under a name that nothing else has:
 * PATH.12345678.part. `make` creates it exclusively and returns a number that is
 * not negative, or -1 and errno, and so does this. */
static int draft_make(const char *path, char *draft, size_t size, int (*make)(const char *draft)) {
  for (int i = 0; i < TRIES; i++) {
    int n = snprintf(draft, size, "%s.%08x.part", path, guess(i));
    if (n < 0 || (size_t)n >= size) {
      errno = ENAMETOOLONG;
      return -1;
    }
    int made = make(draft);
    if (made >= 0 || errno != EEXIST) return made;
  }
  return -1;
}

static int make_file(const char *draft) {
  return open(draft, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
}

/* ---- drafts ---------------------------------------------------------------------- */

/* A device, a pipe, a descriptor: it takes bytes and is not to be replaced. */
static bool takes_bytes(const char *path) {
  struct stat s;
  if (!strncmp(path, "/dev/std", 8) || !strncmp(path, "/dev/fd/", 8))
    return true; /* of a file, perhaps */
  return !stat(path, &s) && !S_ISREG(s.st_mode) && !S_ISDIR(s.st_mode);
}

static attend_status open_file(attend_draft *d, size_t size) {
  errno = 0;
  if (takes_bytes(d->path)) {
    d->file = fopen(d->path, "ab");
  } else {
    int fd = draft_make(d->path, d->draft, size, make_file);
    d->file = fd < 0 ? NULL : fdopen(fd, "wb");
    if (fd >= 0 && !d->file) close(fd);
    if (fd < 0) d->draft[0] = 0; /* nothing of ours to be removed */
  }
  return d->file ? ATTEND_OK : writing_failed(d->ctx, d->path);
}

attend_status attend_draft_open(attend_context *ctx, const char *path, attend_draft **draft) {
  attend_draft *d;
  size_t length = strlen(path) + 1, size = length + SUFFIX;
  *draft = NULL;
  ATTEND_TRY(ctx_alloc_zeroed(ctx, sizeof *d + length + size, "a draft", &d));
  d->ctx = ctx;
  d->path = memcpy(d + 1, path, length);
  d->draft = d->path + length;
  attend_status status = open_file(d, size);
  if (status)
    attend_draft_drop(d);
  else
    *draft = d;
  return status;
}

FILE *attend_draft_file(attend_draft *d) { return d->file; }

attend_status attend_draft_put(attend_draft *d, const void *bytes, size_t length) {
  errno = 0;
  if (length && fwrite(bytes, 1, length, d->file) != length) return writing_failed(d->ctx, d->path);
  attend_digest_add(&d->digest, bytes, length);
  return ATTEND_OK;
}

attend_status draft_settle(attend_draft *d) {
  errno = 0;
  bool whole = !ferror(d->file) && !fflush(d->file);
  if (whole && d->draft[0]) whole = !fsync(fileno(d->file));
  whole = !fclose(d->file) && whole;
  d->file = NULL;
  return whole ? ATTEND_OK : writing_failed(d->ctx, d->path);
}

attend_status attend_draft_keep(attend_draft *d) {
  attend_status status = d->file ? draft_settle(d) : ATTEND_OK;
  if (!status && d->draft[0] && rename(d->draft, d->path)) status = writing_failed(d->ctx, d->path);
  if (!status && d->draft[0]) {
    sync_place(d->path);
    d->draft[0] = 0;
  }
  attend_draft_drop(d);
  return status;
}

void attend_draft_drop(attend_draft *d) {
  if (!d) return;
  if (d->file) fclose(d->file);
  if (d->draft[0]) unlink(d->draft);
  ctx_free(d->ctx, d);
}

/* ---- files as a whole ------------------------------------------------------------ */

attend_status draft_write(attend_context *ctx, const char *path,
                          attend_status (*put)(attend_draft *draft, void *user), void *user,
                          attend_digest *digest) {
  attend_draft *d;
  ATTEND_TRY(attend_draft_open(ctx, path, &d));
  attend_status status = put(d, user);
  if (!status && digest) *digest = d->digest;
  if (!status) return attend_draft_keep(d);
  attend_draft_drop(d);
  return status;
}

typedef struct {
  const void *bytes;
  size_t length;
} whole;

static attend_status put_whole(attend_draft *draft, void *user) {
  const whole *w = user;
  return attend_draft_put(draft, w->bytes, w->length);
}

attend_status file_write(attend_context *ctx, const char *path, const void *bytes, size_t length,
                         attend_digest *digest) {
  whole w = {bytes, length};
  return draft_write(ctx, path, put_whole, &w, digest);
}

attend_status attend_file_write(attend_context *ctx, const char *path, const void *bytes,
                                size_t length) {
  return file_write(ctx, path, bytes, length, NULL);
}

/* ---- folders --------------------------------------------------------------------- */

attend_status path_put(attend_context *ctx, char path[LONGEST_PATH], const char *format, ...) {
  va_list args;
  va_start(args, format);
  int n = vsnprintf(path, LONGEST_PATH, format, args);
  va_end(args);
  ATTEND_CHECK(ctx, n >= 0 && n < LONGEST_PATH,
               "a path has more than %d bytes: choose a shorter one than %.100s..",
               LONGEST_PATH - 1, path);
  return ATTEND_OK;
}

attend_status path_inside(attend_context *ctx, const char *folder, const char *name,
                          char path[LONGEST_PATH]) {
  return path_put(ctx, path, "%s/%s", folder, name);
}

static attend_status folder_failed(const folder_draft *f, const char *doing) {
  return fail(f->ctx, ATTEND_IO, "%s \"%.300s\" failed: %s", doing, f->path, strerror(errno));
}

static int make_folder(const char *draft) { return mkdir(draft, 0777); }

attend_status folder_draft_open(attend_context *ctx, const char *path, folder_draft *f) {
  char hidden[LONGEST_PATH];
  size_t n = strlen(path);
  while (n > 1 && path[n - 1] == '/') n--;
  f->ctx = ctx;
  snprintf(f->path, sizeof f->path, "%.*s", (int)n, path);
  const char *slash = strrchr(f->path, '/');
  int above = slash ? (int)(slash + 1 - f->path) : 0;
  int length = snprintf(hidden, sizeof hidden, "%.*s.%s", above, f->path, f->path + above);
  ATTEND_CHECK(ctx, n && length > 0 && length + 8 < LONGEST_PATH,
               "\"%.300s\" cannot be the name of a folder", path);
  if (!draft_make(hidden, f->draft, sizeof f->draft, make_folder)) return ATTEND_OK;
  return folder_failed(f, "making a folder beside");
}

/* Only files are removed: "." and ".." are refused by unlinkat. */
void folder_draft_drop(const folder_draft *f) {
  DIR *dir = opendir(f->draft);
  for (struct dirent *e; dir && (e = readdir(dir));) unlinkat(dirfd(dir), e->d_name, 0);
  if (dir) closedir(dir);
  rmdir(f->draft);
}

/* What was there takes the draft's name, in one step where the system can. */
static attend_status exchange(const folder_draft *f) {
  char old[LONGEST_PATH];
#ifdef RENAME_EXCHANGE
  if (!renameat2(AT_FDCWD, f->draft, AT_FDCWD, f->path, RENAME_EXCHANGE)) return ATTEND_OK;
#endif
  snprintf(old, sizeof old, "%.*s.old", LONGEST_PATH - 8, f->draft);
  if (rename(f->path, old)) return folder_failed(f, "moving away");
  if (rename(f->draft, f->path)) {
    attend_status status = folder_failed(f, "renaming to");
    return rename(old, f->path) ? folder_failed(f, "moving back") : status;
  }
  rename(old, f->draft);
  return ATTEND_OK;
}

attend_status folder_draft_keep(const folder_draft *f) {
  struct stat info;
  bool there = !lstat(f->path, &info);
  attend_status status = ATTEND_OK;
  folder_sync(f->draft);
  if (there && !S_ISDIR(info.st_mode)) {
    errno = ENOTDIR;
    status = folder_failed(f, "replacing");
  } else if (there) {
    status = exchange(f);
  } else if (rename(f->draft, f->path)) {
    status = folder_failed(f, "renaming to");
  }
  if (!status) sync_place(f->path);
  if (there || status) folder_draft_drop(f);
  return status;
}
