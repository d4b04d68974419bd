/* Reading whole files, and writing atomically. Checkpoints are mapped (attend/file.h). */
#ifndef BASE_FILES_H
#define BASE_FILES_H

#include "attend/file.h"
#include "attend/json.h"
#include "base/base.h"
#include "base/json_write.h"

enum { LONGEST_PATH = 4096 };

/* A file as a whole, with a zero byte behind; freed with give. Of at most so many
 * bytes, or of 1 GiB. */
attend_status file_read_most(attend_context *ctx, const char *path, size_t max, char **bytes,
                             size_t *length);
attend_status file_read(attend_context *ctx, const char *path, char **bytes, size_t *length)
    FOR_LAB(file_read);
/* Whether a name ends so. */
bool name_ends(const char *name, const char *end) FOR_LAB(name_ends);
/* folder/name; false if it does not fit or there is no such file. */
bool file_beside(const char *folder, const char *name, char *path, size_t size)
    FOR_LAB(file_beside);
attend_status json_read(attend_context *ctx, const char *path, attend_json **root)
    FOR_LAB(json_read);
/* There is no such value, or it is null. */
static inline bool json_is_none(const attend_json *value) {
  attend_json_kind kind = attend_json_kind_of(value);
  return kind == ATTEND_JSON_NONE || kind == ATTEND_JSON_NULL;
}

/* Ends a document that was written into memory, as a file. */
attend_status json_write(json_writer *w, const char *path);

/* A file by attend_draft_open: `put` writes it. *digest is its digest; may be
 * NULL, here and below. */
attend_status draft_write(attend_context *ctx, const char *path,
                          attend_status (*put)(attend_draft *draft, void *user), void *user,
                          attend_digest *digest);
attend_status file_write(attend_context *ctx, const char *path, const void *bytes, size_t length,
                         attend_digest *digest);
attend_status tensor_file_make(attend_context *ctx, const char *path, size_t count,
                               const attend_tensor *tensors,
                               attend_status (*fill)(size_t i, void *to, void *user), void *user,
                               attend_digest *digest);
/* The first 64 bits of a digest. */
static inline uint64_t digest_word(const attend_digest *digest) {
  uint64_t word[2];
  attend_digest_end(digest, word);
  return word[0];
}
/* All of a draft is on the disk, and nothing more can be put: the first half of
 * attend_draft_keep, for files that take their names together. */
attend_status draft_settle(attend_draft *draft);
/* ATTEND_IO, and why: as errno says, or 0: the disk may be full. */
attend_status writing_failed(attend_context *ctx, const char *path) FOR_LAB(writing_failed);

/* A folder of files that is written whole or not at all: under the draft's name,
 * which no other writer shares, until it is kept or dropped. */
typedef struct {
  attend_context *ctx;
  char path[LONGEST_PATH], draft[LONGEST_PATH];
} folder_draft;
attend_status folder_draft_open(attend_context *ctx, const char *path, folder_draft *folder);
/* The folder's list of names is brought to the disk and the folder renamed; files are by then, as
 * file_write does. A folder that was there is replaced. On failure the draft is dropped. */
attend_status folder_draft_keep(const folder_draft *folder);
void folder_draft_drop(const folder_draft *folder);
/* printf into a path. */
attend_status path_put(attend_context *ctx, char path[LONGEST_PATH], const char *format, ...)
    FOR_LAB(path_put) __attribute__((format(printf, 3, 4)));
/* folder/name, which need not be there. */
attend_status path_inside(attend_context *ctx, const char *folder, const char *name,
                          char path[LONGEST_PATH]) FOR_LAB(path_inside);

#endif
