/* Reading whole files: configurations, vocabularies, corpora. */
#include "base/files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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

static attend_status read_open(attend_context *ctx, const char *path, int file, size_t most,
                               char **bytes, size_t *length) {
  struct stat info;
  if (fstat(file, &info) || !S_ISREG(info.st_mode))
    return fail(ctx, ATTEND_IO, "%.300s is not a file that can be read", path);
  if ((size_t)info.st_size > most)
    return fail(ctx, ATTEND_IO, "%.300s is too large to be read whole", path);
  *length = (size_t)info.st_size;
  ATTEND_TRY(take(ctx, *length + 1, "a file", bytes));
  (*bytes)[*length] = 0;
  attend_status status = read_bytes(ctx, path, file, *length, *bytes);
  if (!status) return ATTEND_OK;
  give(ctx, *bytes);
  *bytes = NULL;
  return status;
}

attend_status file_read_most(attend_context *ctx, const char *path, size_t most, char **bytes,
                             size_t *length) {
  int file = open(path, O_RDONLY | O_CLOEXEC);
  *bytes = NULL;
  *length = 0;
  if (file < 0) return fail(ctx, ATTEND_IO, "%.300s cannot be opened: %s", path, strerror(errno));
  attend_status status = read_open(ctx, path, file, most, bytes, length);
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
  ATTEND_TRY(take(ctx, PIECE, "a piece of a file", &piece));
  while ((n = fread(piece, 1, PIECE, f))) attend_digest_add(digest, piece, n);
  give(ctx, piece);
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

attend_status json_write(attend_json_writer *w, const char *path) {
  attend_status status = attend_json_finish(w);
  if (!status) status = attend_file_write(w->ctx, path, w->text, w->length);
  attend_json_writer_free(w);
  return status;
}

attend_status json_read(attend_context *ctx, const char *path, attend_json **root) {
  char *bytes;
  size_t length;
  *root = NULL;
  ATTEND_TRY(file_read(ctx, path, &bytes, &length));
  attend_status status = attend_json_parse(ctx, path, bytes, length, root);
  give(ctx, bytes);
  return status;
}

/* ---- formats that are not text, by their first bytes --------------------------- */

static const struct {
  const char *begins;
  size_t length;
  const char *is;
} binary_formats[] = {{"\x1f\x8b", 2, "packed by gzip: unpack it"},
                      {"\x28\xb5\x2f\xfd", 4, "packed by zstd: unpack it"},
                      {"\xfd"
                       "7zXZ",
                       5, "packed by xz: unpack it"},
                      {"PK\3\4", 4, "a zip archive: unpack it"},
                      {"PAR1\x15", 5, "a Parquet file: write it as .jsonl"},
                      {"\xff\xfe", 2, "UTF-16: write it as UTF-8"},
                      {"\xfe\xff", 2, "UTF-16: write it as UTF-8"}};

attend_status attend_text_check(attend_context *ctx, const char *name, const char *bytes,
                                size_t length) {
  for (size_t i = 0; i < sizeof binary_formats / sizeof *binary_formats; i++)
    if (length >= binary_formats[i].length &&
        !memcmp(bytes, binary_formats[i].begins, binary_formats[i].length))
      return fail(ctx, ATTEND_IO, "%.300s is no text, but %s first", name, binary_formats[i].is);
  return ATTEND_OK;
}
