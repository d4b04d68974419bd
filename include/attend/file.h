/* attend/file.h - tensor files (safetensors), read and written.
 *
 *   attend_tensor_file *file;
 *   attend_tensor_file_open(ctx, "model.safetensors", &file);
 *   const attend_tensor *w = attend_tensor_file_find(file, "wte.weight");
 *   ...
 *   attend_tensor_file_close(file);
 *
 * The file is mapped, not copied: its tensors stay valid until it is closed,
 * and it must not be shortened meanwhile. Everything the header says is
 * checked before the first tensor is handed out: a file that lies about itself
 * is refused with ATTEND_IO and a sentence naming it and the tensor.
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
  const char *dtype; /* the format's name of it: "F32" */
  int rank;          /* 0: one number */
  int64_t shape[ATTEND_TENSOR_RANK];
  int64_t count;    /* elements: the product of the shape */
  const void *data; /* where the file has it: perhaps not aligned */
  size_t bytes;
} attend_tensor;

typedef struct attend_tensor_file attend_tensor_file;

ATTEND_API attend_status attend_tensor_file_open(attend_context *ctx,
                                                 const char *path,
                                                 attend_tensor_file **file);
ATTEND_API void attend_tensor_file_close(attend_tensor_file *file);

ATTEND_API size_t attend_tensor_file_count(const attend_tensor_file *file);
/* Tensor i in the order of the header; NULL past the last. */
ATTEND_API const attend_tensor *attend_tensor_file_get(
    const attend_tensor_file *file, size_t i);
/* NULL if there is none of that name. */
ATTEND_API const attend_tensor *attend_tensor_file_find(
    const attend_tensor_file *file, const char *name);

/* The memory that holds what was read of [from, from + bytes), if that is the
 * file's, may be used for other things: the next look reads it again. */
ATTEND_API void attend_tensor_file_release(const attend_tensor_file *file,
                                           const void *from, size_t bytes);

/* The metadata: names and strings. */
ATTEND_API size_t attend_tensor_file_notes(const attend_tensor_file *file);
ATTEND_API const char *attend_tensor_file_note(const attend_tensor_file *file,
                                               size_t i, const char **text);
ATTEND_API const char *attend_tensor_file_note_find(
    const attend_tensor_file *file, const char *name);

/* Writes tensors (name, stored, rank, shape, data; contiguous) as a file of this
 * format. It is written beside the place, brought to the disk, and renamed when
 * all of it is there, so a failure, or the end of the machine, leaves what was
 * there before. */
ATTEND_API attend_status attend_tensor_file_write(attend_context *ctx,
                                                  const char *path,
                                                  size_t count,
                                                  const attend_tensor *tensors);
/* The same, where tensors without data are made when their turn comes: fill
 * writes tensor i's bytes, and returns other than ATTEND_OK to give up. */
ATTEND_API attend_status attend_tensor_file_make(
    attend_context *ctx, const char *path, size_t count,
    const attend_tensor *tensors,
    attend_status (*fill)(size_t i, void *to, void *user), void *user);
/* The same as attend_tensor_file_write, with notes in the metadata. */
typedef struct {
  const char *name, *text; /* UTF-8; no name twice, and none "format" */
} attend_note;
ATTEND_API attend_status attend_tensor_file_write_noted(
    attend_context *ctx, const char *path, size_t count,
    const attend_tensor *tensors, size_t n_notes, const attend_note *notes);

/* Any file, as safely. What is no file (a device, a pipe) is written to as it is. */
ATTEND_API attend_status attend_file_write(attend_context *ctx,
                                           const char *path, const void *bytes,
                                           size_t length);

/* The same, piece by piece. The draft lies beside the place as PATH.12345678.part,
 * a name that no other writer has, until it is kept: brought to the disk and
 * renamed. Of two writers of one path the last to finish wins, whole. A process
 * that is killed leaves its draft behind; it may be removed. */
typedef struct attend_draft attend_draft;
ATTEND_API attend_status attend_draft_open(attend_context *ctx,
                                           const char *path,
                                           attend_draft **draft);
ATTEND_API attend_status attend_draft_put(attend_draft *draft,
                                          const void *bytes, size_t length);
/* To write to otherwise; stays the draft's. */
ATTEND_API FILE *attend_draft_file(attend_draft *draft);
/* Both end the draft; keeping one that cannot be written whole removes it. */
ATTEND_API attend_status attend_draft_keep(attend_draft *draft);
ATTEND_API void attend_draft_drop(attend_draft *draft);

/* Digests of bytes, 128 bits, that find damage and mixtures but no forgery. One
 * that is all zero begins; the pieces that bytes come in make no difference. */
typedef struct {
  uint64_t h[2], length;
  unsigned char open[16]; /* of a block that is not whole yet */
} attend_digest;
enum { ATTEND_DIGEST_TEXT = 33 };
ATTEND_API void attend_digest_add(attend_digest *digest, const void *bytes,
                                  size_t length);
/* Of all that was added; more may be. As numbers, or 32 hexadecimal digits. */
ATTEND_API void attend_digest_end(const attend_digest *digest,
                                  uint64_t word[2]);
ATTEND_API void attend_digest_text(const attend_digest *digest,
                                   char text[ATTEND_DIGEST_TEXT]);
/* Adds all of a file. */
ATTEND_API attend_status attend_digest_file(attend_context *ctx,
                                            const char *path,
                                            attend_digest *digest);

/* ATTEND_IO, with a sentence that says what it is, if the first bytes of a file are
 * surely not those of a text: packed, UTF-16, Parquet. */
ATTEND_API attend_status attend_text_check(attend_context *ctx,
                                           const char *name, const char *bytes,
                                           size_t length);

/* Bytes of one element, and the format's name of the kind: "F32". */
ATTEND_API size_t attend_stored_size(attend_stored stored);
ATTEND_API const char *attend_stored_name(attend_stored stored);

#ifdef __cplusplus
}
#endif
#endif
