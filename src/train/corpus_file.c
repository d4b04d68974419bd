/* A file of texts, read whole.
 *
 * Place: train/ - below corpus_read.c. It is read and not mapped: whoever shortens
 * a mapped file ends the process that looks at it. Its ids, which stay, take about
 * as much memory as its bytes, which do not.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "attend/file.h"
#include "train/corpus.h"

/* Some editors put a mark before the first character, which is none. */
static void skip_mark(text_file *f) {
  if (f->length < 3 || memcmp(f->text, "\xef\xbb\xbf", 3)) return;
  f->text += 3;
  f->length -= 3;
}

/* The bytes that the file had when it was opened; fewer are a failure. */
static attend_status read_all(attend_context *ctx, const char *path, int file,
                              text_file *f) {
  enum { PIECE = 1 << 26 };
  for (size_t at = 0; at < f->bytes;) {
    size_t left = f->bytes - at;
    ssize_t n = read(file, f->all + at, left < PIECE ? left : PIECE);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0)
      return fail(ctx, ATTEND_IO, "%.300s cannot be read: %s", path,
                  strerror(errno));
    if (!n)
      return fail(ctx, ATTEND_IO,
                  "%.300s was shortened while it was read, from %zu bytes to "
                  "%zu: run again when nothing writes to it",
                  path, f->bytes, at);
    at += (size_t)n;
  }
  return ATTEND_OK;
}

static attend_status read_open(attend_context *ctx, const char *path, int file,
                               text_file *f) {
  struct stat info;
  if (fstat(file, &info) || !S_ISREG(info.st_mode))
    return fail(ctx, ATTEND_IO, "%.300s is not a file that can be read", path);
  f->bytes = (size_t)info.st_size;
  if (!f->bytes) return ATTEND_OK;
  ATTEND_TRY(take(ctx, f->bytes, "a file of texts", &f->all));
  ATTEND_TRY(read_all(ctx, path, file, f));
  f->text = f->all;
  f->length = f->bytes;
  ATTEND_TRY(attend_text_check(ctx, path, f->text, f->length));
  skip_mark(f);
  return ATTEND_OK;
}

attend_status text_file_open(attend_context *ctx, const char *path,
                             text_file *f) {
  *f = (text_file){.text = "", .ctx = ctx};
  int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0)
    return fail(ctx, ATTEND_IO, "%.300s cannot be opened: %s", path,
                strerror(errno));
  attend_status status = read_open(ctx, path, file, f);
  close(file);
  if (status) text_file_close(f);
  return status;
}

void text_file_close(text_file *f) {
  give(f->ctx, f->all);
  *f = (text_file){.text = ""};
}
