/* Vectors into a safetensors file, row by row.
 *
 * Place: cli/ - embed --out.
 *
 * How many rows there are is known at the end, and the header stands at the
 * beginning: room is left for it. Spaces after its JSON are allowed.
 */
#include "embed_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "attend/json.h"

enum { HEADER = 1024 - 8 }; /* rows then begin at a whole cache line */

static int refuse(const vector_file *f) {
  complain("%s cannot be written: %s", f->path,
           errno ? strerror(errno) : "the disk may be full");
  return EXIT_FAILED;
}

/* Renaming would put a plain file in the place of a device or a pipe. */
static bool is_special(const char *path) {
  struct stat about;
  return !stat(path, &about) && !S_ISREG(about.st_mode);
}

int vector_file_start(vector_file *f, const char *path, int width) {
  static const char room[8 + HEADER];
  size_t size = strlen(path) + 32;
  *f = (vector_file){.path = path, .width = width, .fresh = need(size, 1)};
  snprintf(f->fresh, size, "%s.%ld.part", path, (long)getpid());
  if (is_special(path)) {
    complain("%s is not a plain file: name one to write the vectors to", path);
    return EXIT_FAILED;
  }
  errno = 0;
  f->file = fopen(f->fresh, "wx");
  if (!f->file || fwrite(room, sizeof room, 1, f->file) != 1) return refuse(f);
  return EXIT_OK;
}

int vector_file_add(vector_file *f, const float *vector) {
  size_t width = (size_t)f->width;
  errno = 0;
  if (fwrite(vector, sizeof *vector, width, f->file) != width) return refuse(f);
  f->rows++;
  return EXIT_OK;
}

/* ---- the header ------------------------------------------------------------------------ */

static void put_notes(attend_json_writer *w, const char *const *notes) {
  attend_json_member(w, "__metadata__");
  attend_json_open(w, '{');
  for (; *notes; notes += 2) {
    attend_json_member(w, notes[0]);
    attend_json_put_string(w, notes[1]);
  }
  attend_json_close(w, '}');
}

static void put_pair(attend_json_writer *w, const char *name, size_t a,
                     size_t b) {
  attend_json_member(w, name);
  attend_json_open(w, '[');
  attend_json_put_integer(w, (int64_t)a);
  attend_json_put_integer(w, (int64_t)b);
  attend_json_close(w, ']');
}

static attend_status put_header(const vector_file *f, attend_json_writer *w,
                                const char *const *notes) {
  size_t width = (size_t)f->width;
  attend_json_open(w, '{');
  put_notes(w, notes);
  attend_json_member(w, "embeddings");
  attend_json_open(w, '{');
  attend_json_member(w, "dtype");
  attend_json_put_string(w, "F32");
  put_pair(w, "shape", f->rows, width);
  put_pair(w, "data_offsets", 0, f->rows * width * sizeof(float));
  attend_json_close(w, '}');
  attend_json_close(w, '}');
  return attend_json_finish(w);
}

static int write_header(const vector_file *f, attend_context *ctx,
                        const char *const *notes) {
  unsigned char header[8 + HEADER];
  attend_json_writer w = attend_json_writer_text(ctx);
  attend_status status = put_header(f, &w, notes);
  if (status || w.length > HEADER) {
    attend_json_writer_free(&w);
    complain("%s: its header does not fit", f->path);
    return EXIT_FAILED;
  }
  memset(header, ' ', sizeof header);
  for (int i = 0; i < 8; i++)
    header[i] = (unsigned char)((uint64_t)HEADER >> 8 * i);
  memcpy(header + 8, w.text, w.length);
  attend_json_writer_free(&w);
  errno = 0;
  if (fseek(f->file, 0, SEEK_SET) ||
      fwrite(header, sizeof header, 1, f->file) != 1)
    return refuse(f);
  return EXIT_OK;
}

/* ---- the end ---------------------------------------------------------------------------- */

/* The name, too, must survive a power cut; where a folder cannot be synced
 * nothing more can be done. */
static void sync_folder(const char *path) {
  char *folder = need_copy(path), *slash = strrchr(folder, '/');
  if (slash) slash[slash == folder] = 0;
  int fd = open(slash ? folder : ".", O_RDONLY | O_DIRECTORY);
  if (fd >= 0) {
    fsync(fd);
    close(fd);
  }
  free(folder);
}

int vector_file_finish(vector_file *f, attend_context *ctx,
                       const char *const *notes) {
  int code = write_header(f, ctx, notes);
  if (code) return code;
  errno = 0;
  bool ok = !fflush(f->file) && !fsync(fileno(f->file));
  if (!ok) return refuse(f);
  ok = !fclose(f->file);
  f->file = NULL;
  if (!ok || rename(f->fresh, f->path)) {
    code = refuse(f);
    remove(f->fresh);
    return code;
  }
  sync_folder(f->path);
  return EXIT_OK;
}

void vector_file_drop(vector_file *f) {
  if (f->file) {
    fclose(f->file);
    remove(f->fresh);
  }
  free(f->fresh);
  *f = (vector_file){0};
}
