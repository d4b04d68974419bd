/* Vectors into a safetensors file, row by row.
 *
 * The header has the number of rows, which is known at the end: space is reserved for it
 * and padded with spaces, as the format allows.
 */
#include "embed/file.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "attend/json.h"

enum { HEADER = 1024 - 8 }; /* rows begin at a cache line */

static int refuse(attend_context *ctx, attend_status status) {
  return status ? complain_status(ctx, status) : EXIT_OK;
}

/* The header is written last, at the beginning: devices and pipes cannot seek. */
static bool is_special(const char *path) {
  struct stat about;
  return !stat(path, &about) && !S_ISREG(about.st_mode);
}

int vector_file_start(vector_file *f, attend_context *ctx, const char *path, int width) {
  static const char reserved[8 + HEADER];
  *f = (vector_file){.ctx = ctx, .path = path, .width = width};
  if (is_special(path)) {
    complain("%s is not a plain file: name one to write the vectors to", path);
    return EXIT_FAILED;
  }
  attend_status status = attend_draft_open(ctx, path, &f->draft);
  if (!status) status = attend_draft_put(f->draft, reserved, sizeof reserved);
  return refuse(ctx, status);
}

int vector_file_add(vector_file *f, const float *vector) {
  size_t bytes = (size_t)f->width * sizeof *vector;
  f->rows++;
  return refuse(f->ctx, attend_draft_put(f->draft, vector, bytes));
}

/* ---- the header ------------------------------------------------------------------------ */

static void put_metadata(attend_json_writer *w, const char *const *metadata) {
  attend_json_member(w, "__metadata__");
  attend_json_open(w, '{');
  for (; *metadata; metadata += 2) {
    attend_json_member(w, metadata[0]);
    attend_json_put_string(w, metadata[1]);
  }
  attend_json_close(w, '}');
}

static void put_pair(attend_json_writer *w, const char *name, size_t a, size_t b) {
  attend_json_member(w, name);
  attend_json_open(w, '[');
  attend_json_put_integer(w, (int64_t)a);
  attend_json_put_integer(w, (int64_t)b);
  attend_json_close(w, ']');
}

static attend_status put_header(const vector_file *f, attend_json_writer *w,
                                const char *const *metadata) {
  size_t width = (size_t)f->width;
  attend_json_open(w, '{');
  put_metadata(w, metadata);
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

static int write_header(const vector_file *f, const char *const *metadata) {
  unsigned char header[8 + HEADER];
  attend_json_writer w = attend_json_writer_text(f->ctx);
  attend_status status = put_header(f, &w, metadata);
  if (status || w.length > HEADER) {
    attend_json_writer_free(&w);
    complain("%s: its header does not fit", f->path);
    return EXIT_FAILED;
  }
  memset(header, ' ', sizeof header);
  for (int i = 0; i < 8; i++) header[i] = (unsigned char)((uint64_t)HEADER >> 8 * i);
  memcpy(header + 8, w.text, w.length);
  attend_json_writer_free(&w);
  rewind(attend_draft_file(f->draft));
  return refuse(f->ctx, attend_draft_put(f->draft, header, sizeof header));
}

int vector_file_finish(vector_file *f, const char *const *metadata) {
  int code = write_header(f, metadata);
  if (code) return code;
  attend_status status = attend_draft_keep(f->draft);
  f->draft = NULL;
  return refuse(f->ctx, status);
}

void vector_file_drop(vector_file *f) {
  attend_draft_drop(f->draft);
  *f = (vector_file){0};
}
