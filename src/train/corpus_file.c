/* A file of texts, as it lies on the disk.
 *
 * Place: train/ - below corpus_read.c. The file is mapped: one that is larger than
 * the memory can be read too.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
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

static attend_status map_open(attend_context *ctx, const char *path, int file,
                              text_file *f) {
  struct stat info;
  if (fstat(file, &info) || !S_ISREG(info.st_mode))
    return fail(ctx, ATTEND_IO, "%.300s is not a file that can be read", path);
  f->bytes = (size_t)info.st_size;
  if (!f->bytes) return ATTEND_OK;
  void *map = mmap(NULL, f->bytes, PROT_READ, MAP_PRIVATE, file, 0);
  if (map == MAP_FAILED)
    return fail(ctx, ATTEND_IO, "%.300s cannot be read: %s", path,
                strerror(errno));
  f->map = map;
  f->text = map;
  f->length = f->bytes;
  ATTEND_TRY(attend_text_check(ctx, path, f->text, f->length));
  skip_mark(f);
  return ATTEND_OK;
}

attend_status text_file_open(attend_context *ctx, const char *path,
                             text_file *f) {
  *f = (text_file){.text = ""};
  int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0)
    return fail(ctx, ATTEND_IO, "%.300s cannot be opened: %s", path,
                strerror(errno));
  attend_status status = map_open(ctx, path, file, f);
  close(file);
  if (status) text_file_close(f);
  return status;
}

void text_file_close(text_file *f) {
  if (f->map) munmap(f->map, f->bytes);
  *f = (text_file){.text = ""};
}
