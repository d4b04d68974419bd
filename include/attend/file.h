/* attend/file.h - tensor files: safetensors, read and written; NumPy's .npy and .npz, read.
 *
 *   attend_tensor_file *file;
 *   attend_tensor_file_open(ctx, "model.safetensors", &file);
 *   const attend_tensor *w = attend_tensor_file_find(file, "wte.weight");
 *   ...
 *   attend_tensor_file_free(file);
 *
 * The file is memory-mapped: its tensors are valid until it is closed, and it must not
 * be truncated meanwhile. Opening validates the whole header against the file size; an
 * inconsistent file is ATTEND_IO, and the message names the file and the tensor.
 *
 * The format is recognised by the first bytes. The array of a .npy file is named "array".
 * Arrays in Fortran's order are converted to C's; strings have one more dimension, of codes:
 * '<U5' [T] is U32 [T, 5] and 'S5' [T] is U8 [T, 5], filled up with zeros. Objects (pickles)
 * are refused.
 */
#ifndef ATTEND_FILE_H
#define ATTEND_FILE_H

#include <stdio.h>

#include "attend/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum { /* as stored: little-endian */
               ATTEND_STORED_BOOL = 0,
               ATTEND_STORED_U8,
               ATTEND_STORED_I8,
               ATTEND_STORED_F8_E5M2,
               ATTEND_STORED_F8_E4M3,
               ATTEND_STORED_I16,
               ATTEND_STORED_U16,
               ATTEND_STORED_F16,
               ATTEND_STORED_BF16,
               ATTEND_STORED_I32,
               ATTEND_STORED_U32,
               ATTEND_STORED_F32,
               ATTEND_STORED_I64,
               ATTEND_STORED_U64,
               ATTEND_STORED_F64
} attend_stored;

enum { ATTEND_TENSOR_RANK = 8 }; /* the most dimensions a tensor may have */

typedef struct {
  const char *name;
  attend_stored stored;
  const char *dtype; /* the safetensors name: "F32" */
  int rank;          /* 0: a scalar */
  int64_t shape[ATTEND_TENSOR_RANK];
  int64_t count;    /* elements: the product of the shape */
  const void *data; /* in the mapped file, any alignment; or decompressed */
  size_t bytes;
} attend_tensor;

typedef struct attend_tensor_file attend_tensor_file;

ATTEND_API attend_status attend_tensor_file_open(attend_context *ctx, const char *path,
                                                 attend_tensor_file **file);
ATTEND_API void attend_tensor_file_free(attend_tensor_file *file);

ATTEND_API size_t attend_tensor_file_count(const attend_tensor_file *file);
/* Tensor i in header order; NULL past the last. */
ATTEND_API const attend_tensor *attend_tensor_file_get(const attend_tensor_file *file, size_t i);
/* NULL if there is none of that name. */
ATTEND_API const attend_tensor *attend_tensor_file_find(const attend_tensor_file *file,
                                                        const char *name);

/* Drops the resident pages of [from, from + bytes) if they belong to the file; later
 * accesses read them from disk again. */
ATTEND_API void attend_tensor_file_release(const attend_tensor_file *file, const void *from,
                                           size_t bytes);

/* The metadata ("__metadata__"): count, entry i, and lookup by name. */
ATTEND_API size_t attend_tensor_file_notes(const attend_tensor_file *file);
ATTEND_API const char *attend_tensor_file_note(const attend_tensor_file *file, size_t i,
                                               const char **text);
ATTEND_API const char *attend_tensor_file_note_find(const attend_tensor_file *file,
                                                    const char *name);

/* Writes tensors (name, stored, rank, shape, data; contiguous) as safetensors. The file
 * is written under a temporary name, synced and renamed: after a failure or a crash the
 * old file is intact. */
ATTEND_API attend_status attend_tensor_file_write(attend_context *ctx, const char *path,
                                                  size_t count, const attend_tensor *tensors);
/* The same with tensors whose data is NULL: fill produces the bytes of tensor i, or
 * returns a failure. */
ATTEND_API attend_status attend_tensor_file_make(
    attend_context *ctx, const char *path, size_t count, const attend_tensor *tensors,
    attend_status (*fill)(size_t i, void *to, void *user), void *user);
/* attend_tensor_file_write with entries in the metadata. */
typedef struct {
  const char *name, *text; /* UTF-8; names unique and not "format" */
} attend_note;
ATTEND_API attend_status attend_tensor_file_write_noted(attend_context *ctx, const char *path,
                                                        size_t count, const attend_tensor *tensors,
                                                        size_t n_notes, const attend_note *notes);

/* Replaces any file atomically. Devices and pipes are written directly. */
ATTEND_API attend_status attend_file_write(attend_context *ctx, const char *path, const void *bytes,
                                           size_t length);

/* The same incrementally. The draft is PATH.12345678.part, unique to this writer, until
 * attend_draft_keep syncs and renames it. Of two writers of one path the last to finish
 * wins. A killed process leaves its draft behind; it may be removed. */
typedef struct attend_draft attend_draft;
ATTEND_API attend_status attend_draft_open(attend_context *ctx, const char *path,
                                           attend_draft **draft);
ATTEND_API attend_status attend_draft_put(attend_draft *draft, const void *bytes, size_t length);
/* The stream to write to; owned by the draft. */
ATTEND_API FILE *attend_draft_file(attend_draft *draft);
/* Both end the draft; a failed keep removes it. */
ATTEND_API attend_status attend_draft_keep(attend_draft *draft);
ATTEND_API void attend_draft_drop(attend_draft *draft);

/* 128-bit digest (MurmurHash3): detects corruption, not forgery. Start from zeros; the
 * result does not depend on how the bytes are split over calls. */
typedef struct {
  uint64_t h[2], length;
  unsigned char open[16]; /* the incomplete block */
} attend_digest;
enum { ATTEND_DIGEST_TEXT = 33 };
ATTEND_API void attend_digest_add(attend_digest *digest, const void *bytes, size_t length);
/* The digest so far, as numbers or 32 hexadecimal digits. */
ATTEND_API void attend_digest_end(const attend_digest *digest, uint64_t word[2]);
ATTEND_API void attend_digest_text(const attend_digest *digest, char text[ATTEND_DIGEST_TEXT]);
/* Adds all of a file. */
ATTEND_API attend_status attend_digest_file(attend_context *ctx, const char *path,
                                            attend_digest *digest);

/* ATTEND_IO, with a message that names the format, if the first bytes of a file are
 * those of a binary format: gzip, zstd, xz, zip, Parquet, UTF-16. */
ATTEND_API attend_status attend_text_check(attend_context *ctx, const char *name, const char *bytes,
                                           size_t length);
/* Bytes before the first one that is not UTF-8; length: there is none. */
ATTEND_API size_t attend_utf8_span(const char *text, size_t length);
/* ATTEND_IO, with a message that names the first byte that is not UTF-8. */
ATTEND_API attend_status attend_utf8_check(attend_context *ctx, const char *name, const char *text,
                                           size_t length);

/* Bytes of an element, and the safetensors name: "F32". */
ATTEND_API size_t attend_stored_size(attend_stored stored);
ATTEND_API const char *attend_stored_name(attend_stored stored);

#ifdef __cplusplus
}
#endif
#endif
