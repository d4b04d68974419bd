/* Safetensors: reading, mapped and checked, and writing; numpy_file.c reads .npy and .npz.
 *
 * The format: 8 bytes of header length, little-endian; a JSON object that maps
 * names to {dtype, shape, data_offsets} and "__metadata__" to strings; then
 * the data, which the tensors fill without gap or overlap. The file is
 * untrusted: every offset is checked against its size.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "attend/file.h"
#include "base/files.h"
#include "base/json.h"
#include "base/tensor_file.h"

enum { LONGEST_HEADER = 100 << 20 }; /* the limit of the format's own reader */

static const struct {
  const char *name;
  size_t size;
} stored_kinds[] = {
    [ATTEND_STORED_BOOL] = {"BOOL", 1},       [ATTEND_STORED_U8] = {"U8", 1},
    [ATTEND_STORED_I8] = {"I8", 1},           [ATTEND_STORED_F8_E5M2] = {"F8_E5M2", 1},
    [ATTEND_STORED_F8_E4M3] = {"F8_E4M3", 1}, [ATTEND_STORED_I16] = {"I16", 2},
    [ATTEND_STORED_U16] = {"U16", 2},         [ATTEND_STORED_F16] = {"F16", 2},
    [ATTEND_STORED_BF16] = {"BF16", 2},       [ATTEND_STORED_I32] = {"I32", 4},
    [ATTEND_STORED_U32] = {"U32", 4},         [ATTEND_STORED_F32] = {"F32", 4},
    [ATTEND_STORED_I64] = {"I64", 8},         [ATTEND_STORED_U64] = {"U64", 8},
    [ATTEND_STORED_F64] = {"F64", 8}};

enum { STORED_KINDS = sizeof stored_kinds / sizeof *stored_kinds };

size_t attend_stored_size(attend_stored stored) {
  return (unsigned)stored < STORED_KINDS ? stored_kinds[stored].size : 0;
}

const char *attend_stored_name(attend_stored stored) {
  return (unsigned)stored < STORED_KINDS ? stored_kinds[stored].name : NULL;
}

/* ---- one tensor ------------------------------------------------------------------ */

static attend_status refuse(const attend_tensor_file *f, const attend_tensor *t, const char *why) {
  return fail(f->ctx, ATTEND_IO, "%s: tensor \"%.100s\" %s", f->path, t->name, why);
}

static attend_status read_dtype(const attend_tensor_file *f, attend_tensor *t,
                                const attend_json *entry) {
  const char *name = attend_json_string(attend_json_get(entry, "dtype"), NULL);
  if (!name) return refuse(f, t, "has no dtype");
  for (int i = 0; i < STORED_KINDS; i++) {
    if (strcmp(name, stored_kinds[i].name)) continue;
    t->stored = (attend_stored)i;
    t->dtype = stored_kinds[i].name;
    return ATTEND_OK;
  }
  return refuse(f, t, "has a dtype that is not supported");
}

static attend_status read_shape(const attend_tensor_file *f, attend_tensor *t,
                                const attend_json *entry) {
  const attend_json *shape = attend_json_get(entry, "shape");
  if (attend_json_kind_of(shape) != ATTEND_JSON_ARRAY) return refuse(f, t, "has no shape");
  if (attend_json_count(shape) > ATTEND_TENSOR_RANK)
    return refuse(f, t, "has more than 8 dimensions");
  t->rank = (int)attend_json_count(shape);
  t->count = 1;
  for (int i = 0; i < t->rank; i++) {
    int64_t n;
    if (!attend_json_integer(attend_json_at(shape, (size_t)i), &n) || n < 0)
      return refuse(f, t, "has a dimension that is not a whole number");
    t->shape[i] = n;
    if (__builtin_mul_overflow(t->count, n, &t->count))
      return refuse(f, t, "has a shape whose product overflows");
  }
  return ATTEND_OK;
}

static attend_status read_offsets(const attend_tensor_file *f, attend_tensor *t,
                                  const attend_json *entry) {
  const attend_json *offsets = attend_json_get(entry, "data_offsets");
  size_t data = f->size - 8 - f->header;
  int64_t begin, end, bytes;
  if (attend_json_count(offsets) != 2 || !attend_json_integer(attend_json_at(offsets, 0), &begin) ||
      !attend_json_integer(attend_json_at(offsets, 1), &end))
    return refuse(f, t, "has no data_offsets of two whole numbers");
  if (begin < 0 || end < begin) return refuse(f, t, "has data_offsets that run backwards");
  if ((uint64_t)end > data) return refuse(f, t, "lies beyond the end of the file");
  if (__builtin_mul_overflow(t->count, (int64_t)attend_stored_size(t->stored), &bytes) ||
      bytes != end - begin)
    return refuse(f, t, "has data_offsets that do not fit its shape and dtype");
  t->data = f->map + 8 + f->header + begin;
  t->bytes = (size_t)bytes;
  return ATTEND_OK;
}

static attend_status read_tensor(const attend_tensor_file *f, attend_tensor *t,
                                 const attend_json *entry) {
  size_t length;
  t->name = attend_json_name(entry, &length);
  if (strlen(t->name) != length) return refuse(f, t, "has a zero byte in its name");
  if (attend_json_kind_of(entry) != ATTEND_JSON_OBJECT)
    return refuse(f, t, "is not described by an object");
  if (attend_json_count(entry) != 3)
    return refuse(f, t, "must have dtype, shape and data_offsets and no more");
  ATTEND_TRY(read_dtype(f, t, entry));
  ATTEND_TRY(read_shape(f, t, entry));
  return read_offsets(f, t, entry);
}

/* ---- the whole header ------------------------------------------------------------ */

static attend_status read_notes(attend_tensor_file *f, const attend_json *notes) {
  if (attend_json_kind_of(notes) != ATTEND_JSON_OBJECT)
    return fail(f->ctx, ATTEND_IO, "%s: its metadata is not an object", f->path);
  for (size_t i = 0; i < attend_json_count(notes); i++)
    if (!attend_json_string(attend_json_at(notes, i), NULL))
      return fail(f->ctx, ATTEND_IO, "%s: its metadata \"%.100s\" is not a string", f->path,
                  attend_json_name(attend_json_at(notes, i), NULL));
  f->notes = notes;
  return ATTEND_OK;
}

static attend_status read_entries(attend_tensor_file *f) {
  size_t members = attend_json_count(f->root);
  ATTEND_TRY(
      ctx_alloc_zeroed(f->ctx, members * sizeof *f->tensor, "the list of tensors", &f->tensor));
  for (size_t i = 0; i < members; i++) {
    const attend_json *entry = attend_json_at(f->root, i);
    if (!strcmp(attend_json_name(entry, NULL), "__metadata__")) {
      ATTEND_TRY(read_notes(f, entry));
      continue;
    }
    ATTEND_TRY(read_tensor(f, &f->tensor[f->count], entry));
    f->count++;
  }
  return ATTEND_OK;
}

/* By address; what is empty before what starts at the same place. */
static int by_data(const void *a, const void *b) {
  const attend_tensor *s = *(const attend_tensor *const *)a;
  const attend_tensor *t = *(const attend_tensor *const *)b;
  if (s->data != t->data) return s->data < t->data ? -1 : 1;
  return (s->bytes > t->bytes) - (s->bytes < t->bytes);
}

static attend_status check_contiguous(const attend_tensor_file *f, const attend_tensor **sorted) {
  const unsigned char *at = f->map + 8 + f->header;
  for (size_t i = 0; i < f->count; i++) sorted[i] = &f->tensor[i];
  qsort(sorted, f->count, sizeof *sorted, by_data);
  for (size_t i = 0; i < f->count; i++) {
    const unsigned char *data = sorted[i]->data;
    if (data < at) return refuse(f, sorted[i], "overlaps another");
    if (data > at) return refuse(f, sorted[i], "has a hole before it");
    at += sorted[i]->bytes;
  }
  if (at == f->map + f->size) return ATTEND_OK;
  return fail(f->ctx, ATTEND_IO, "%s: %zu bytes after the last tensor belong to no tensor", f->path,
              (size_t)(f->map + f->size - at));
}

static attend_status check_whole(attend_tensor_file *f) {
  const attend_tensor **sorted;
  ATTEND_TRY(
      ctx_alloc(f->ctx, (f->count + 1) * sizeof *sorted, "the order of the tensors", &sorted));
  attend_status status = check_contiguous(f, sorted);
  ctx_free(f->ctx, sorted);
  return status;
}

static attend_status read_header(attend_tensor_file *f) {
  uint64_t length = 0;
  for (int i = 7; i >= 0; i--) length = length << 8 | f->map[i];
  if (length > LONGEST_HEADER)
    return fail(f->ctx, ATTEND_IO,
                "%s: its header claims %llu bytes, more than any tensor file has: it is not one",
                f->path, (unsigned long long)length);
  if (length > f->size - 8)
    return fail(f->ctx, ATTEND_IO,
                "%s: its header claims %llu bytes of a file of %zu: it was cut off", f->path,
                (unsigned long long)length, f->size);
  f->header = (size_t)length;
  char what[256];
  snprintf(what, sizeof what, "the header of %.200s", f->path);
  ATTEND_TRY(attend_json_parse(f->ctx, what, (char *)f->map + 8, f->header, &f->root));
  if (attend_json_kind_of(f->root) != ATTEND_JSON_OBJECT)
    return fail(f->ctx, ATTEND_IO, "%s: its header is not an object", f->path);
  ATTEND_TRY(read_entries(f));
  return check_whole(f);
}

/* ---- opening --------------------------------------------------------------------- */

static attend_status map_descriptor(attend_tensor_file *f, int fd) {
  struct stat info;
  if (fstat(fd, &info))
    return fail(f->ctx, ATTEND_IO, "could not read %s: %s", f->path, strerror(errno));
  if (!S_ISREG(info.st_mode)) return fail(f->ctx, ATTEND_IO, "%s is not a file", f->path);
  if (info.st_size < 8 || (uint64_t)info.st_size > SIZE_MAX)
    return fail(f->ctx, ATTEND_IO, "%s has %lld bytes: a tensor file has at least 8", f->path,
                (long long)info.st_size);
  f->size = (size_t)info.st_size;
  void *map = mmap(NULL, f->size, PROT_READ, MAP_PRIVATE, fd, 0);
  if (map == MAP_FAILED)
    return fail(f->ctx, ATTEND_IO, "could not map %s: %s", f->path, strerror(errno));
  f->map = map;
  return ATTEND_OK;
}

static attend_status map_file(attend_tensor_file *f) {
  int fd = open(f->path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return fail(f->ctx, ATTEND_IO, "could not open %s: %s", f->path, strerror(errno));
  attend_status status = map_descriptor(f, fd);
  close(fd);
  return status;
}

attend_status attend_tensor_file_open(attend_context *ctx, const char *path,
                                      attend_tensor_file **file) {
  attend_tensor_file *f;
  *file = NULL;
  ATTEND_TRY(ctx_alloc_zeroed(ctx, sizeof *f, "a tensor file", &f));
  f->ctx = ctx;
  f->path = path;
  attend_status status = map_file(f);
  if (!status) status = numpy_file_is(f) ? numpy_file_read(f) : read_header(f);
  f->path = NULL;
  if (status)
    attend_tensor_file_free(f);
  else
    *file = f;
  return status;
}

void attend_tensor_file_free(attend_tensor_file *file) {
  if (!file) return;
  attend_json_free(file->root);
  ctx_free(file->ctx, file->tensor);
  for (tensor_block *next; file->blocks; file->blocks = next) {
    next = file->blocks->next;
    ctx_free(file->ctx, file->blocks);
  }
  if (file->map) munmap(file->map, file->size);
  ctx_free(file->ctx, file);
}

/* ---- questions ------------------------------------------------------------------- */

size_t attend_tensor_file_count(const attend_tensor_file *file) { return file->count; }

const attend_tensor *attend_tensor_file_get(const attend_tensor_file *file, size_t i) {
  return i < file->count ? &file->tensor[i] : NULL;
}

/* A member's place among the header's members is its tensor's, or one more
 * where the metadata came before it. */
const attend_tensor *attend_tensor_file_find(const attend_tensor_file *file, const char *name) {
  for (size_t i = 0; !file->root && i < file->count; i++)
    if (!strcmp(file->tensor[i].name, name)) return &file->tensor[i];
  const attend_json *entry = attend_json_get(file->root, name);
  if (!entry || entry == file->notes) return NULL;
  size_t place = (size_t)(entry - file->root->child);
  return &file->tensor[place - (file->notes && file->notes < entry)];
}

/* Pages at the ends may hold others' tensors; they are let go as well, since the
 * file still has them. */
void attend_tensor_file_release(const attend_tensor_file *file, const void *from, size_t bytes) {
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  const unsigned char *data = from;
  if (data < file->map || data >= file->map + file->size) return;
  size_t first = (size_t)(data - file->map) / page * page;
  size_t end = (size_t)(data - file->map) + bytes;
  madvise(file->map + first, end - first, MADV_DONTNEED);
}

size_t attend_tensor_file_notes(const attend_tensor_file *file) {
  return attend_json_count(file->notes);
}

const char *attend_tensor_file_note(const attend_tensor_file *file, size_t i, const char **text) {
  const attend_json *note = attend_json_at(file->notes, i);
  if (text) *text = attend_json_string(note, NULL);
  return attend_json_name(note, NULL);
}

const char *attend_tensor_file_note_find(const attend_tensor_file *file, const char *name) {
  return attend_json_string(attend_json_get(file->notes, name), NULL);
}

/* ---- writing --------------------------------------------------------------------- */

typedef struct {
  attend_context *ctx;
  const char *path;
  size_t count;
  const attend_tensor *tensors;
  attend_status (*fill)(size_t i, void *to, void *user);
  void *user;
  size_t n_notes;
  const attend_note *notes;
  attend_digest *digest; /* output: of the file; or NULL */
} writing;

static int64_t elements(const attend_tensor *t) {
  int64_t count = 1;
  for (int i = 0; i < t->rank; i++) count *= t->shape[i];
  return count;
}

static size_t tensor_bytes(const attend_tensor *t) {
  return (size_t)elements(t) * attend_stored_size(t->stored);
}

static void put_entry(json_writer *w, const attend_tensor *t, size_t at) {
  json_member(w, t->name);
  json_open(w, '{');
  json_member(w, "dtype");
  json_put_string(w, attend_stored_name(t->stored));
  json_member(w, "shape");
  json_open(w, '[');
  for (int i = 0; i < t->rank; i++) json_put_integer(w, t->shape[i]);
  json_close(w, ']');
  json_member(w, "data_offsets");
  json_open(w, '[');
  json_put_integer(w, (int64_t)at);
  json_put_integer(w, (int64_t)(at + tensor_bytes(t)));
  json_close(w, ']');
  json_close(w, '}');
}

/* What Hugging Face's readers want to see. */
static void put_notes(const writing *of, json_writer *w) {
  json_member(w, "__metadata__");
  json_open(w, '{');
  json_member(w, "format");
  json_put_string(w, "pt");
  for (size_t i = 0; i < of->n_notes; i++) {
    json_member(w, of->notes[i].name);
    json_put_string(w, of->notes[i].text);
  }
  json_close(w, '}');
}

/* The header, filled up with spaces so that the data is aligned. */
static attend_status put_header(const writing *w, attend_draft *draft) {
  json_writer json = json_writer_text(w->ctx);
  size_t at = 0;
  json_open(&json, '{');
  put_notes(w, &json);
  for (size_t i = 0; i < w->count; i++) {
    put_entry(&json, &w->tensors[i], at);
    at += tensor_bytes(&w->tensors[i]);
  }
  json_close(&json, '}');
  attend_status status = json_finish(&json);
  if (!status) {
    static const char spaces[8] = "        ";
    size_t padded = round_up(json.length, 8);
    unsigned char length[8];
    for (int i = 0; i < 8; i++) length[i] = (unsigned char)((uint64_t)padded >> (8 * i));
    status = attend_draft_put(draft, length, 8);
    if (!status) status = attend_draft_put(draft, json.text, json.length);
    if (!status) status = attend_draft_put(draft, spaces, padded - json.length);
  }
  json_writer_free(&json);
  return status;
}

static size_t largest_made(const writing *w) {
  size_t max = 0;
  for (size_t i = 0; i < w->count; i++)
    if (!w->tensors[i].data && tensor_bytes(&w->tensors[i]) > max)
      max = tensor_bytes(&w->tensors[i]);
  return max;
}

static attend_status put_tensors(const writing *w, attend_draft *draft, void *made) {
  for (size_t i = 0; i < w->count; i++) {
    size_t bytes = tensor_bytes(&w->tensors[i]);
    const void *data = w->tensors[i].data;
    if (!data && bytes) ATTEND_TRY(w->fill(i, made, w->user));
    ATTEND_TRY(attend_draft_put(draft, data ? data : made, bytes));
  }
  return ATTEND_OK;
}

static attend_status check_written(const writing *w) {
  for (size_t i = 0; i < w->count; i++) {
    const attend_tensor *t = &w->tensors[i];
    ATTEND_CHECK(
        w->ctx,
        t->name && attend_stored_name(t->stored) && t->rank >= 0 && t->rank <= ATTEND_TENSOR_RANK,
        "tensor %zu of \"%.200s\" has no name, or a kind or rank that the format does not have", i,
        w->path);
    ATTEND_CHECK(w->ctx, t->data || w->fill || !tensor_bytes(t),
                 "tensor %s of \"%.200s\" has no data", t->name, w->path);
  }
  return ATTEND_OK;
}

static attend_status put_all(attend_draft *draft, void *user) {
  const writing *w = user;
  void *made;
  ATTEND_TRY(put_header(w, draft));
  ATTEND_TRY(ctx_alloc(w->ctx, largest_made(w), "a tensor to be written", &made));
  attend_status status = put_tensors(w, draft, made);
  ctx_free(w->ctx, made);
  return status;
}

static attend_status write_file(const writing *w) {
  ATTEND_TRY(check_written(w));
  return draft_write(w->ctx, w->path, put_all, (void *)w, w->digest);
}

attend_status attend_tensor_file_write(attend_context *ctx, const char *path, size_t count,
                                       const attend_tensor *tensors) {
  return attend_tensor_file_write_noted(ctx, path, count, tensors, 0, NULL);
}

attend_status tensor_file_make(attend_context *ctx, const char *path, size_t count,
                               const attend_tensor *tensors,
                               attend_status (*fill)(size_t i, void *to, void *user), void *user,
                               attend_digest *digest) {
  writing w = {.ctx = ctx,
               .path = path,
               .count = count,
               .tensors = tensors,
               .fill = fill,
               .user = user,
               .digest = digest};
  return write_file(&w);
}

attend_status attend_tensor_file_make(attend_context *ctx, const char *path, size_t count,
                                      const attend_tensor *tensors,
                                      attend_status (*fill)(size_t i, void *to, void *user),
                                      void *user) {
  return tensor_file_make(ctx, path, count, tensors, fill, user, NULL);
}

attend_status attend_tensor_file_write_noted(attend_context *ctx, const char *path, size_t count,
                                             const attend_tensor *tensors, size_t n_notes,
                                             const attend_note *notes) {
  writing w = {.ctx = ctx,
               .path = path,
               .count = count,
               .tensors = tensors,
               .n_notes = n_notes,
               .notes = notes};
  return write_file(&w);
}
