/* Folders: creating with their parents, removing, locking. cli/ includes it too. */
#ifndef BASE_FOLDERS_H
#define BASE_FOLDERS_H

#include "attend/base.h"
#include "base/for_lab.h"

bool is_folder(const char *path) FOR_LAB(is_folder);
/* Size of a regular file, following links; -1 if there is none. */
int64_t file_bytes(const char *path) FOR_LAB(file_bytes);

/* Creates the folder and its parents; errno says why it fails. ctx may be NULL, here and
 * below. */
attend_status folder_make(attend_context *ctx, const char *path) FOR_LAB(folder_make);
/* Creates the parent folders of a file. */
attend_status folder_make_above(attend_context *ctx, const char *path) FOR_LAB(folder_make_above);
/* Removes a folder and all in it, or a file; links are removed, not followed. */
void folder_remove(const char *path) FOR_LAB(folder_remove);

/* Takes an exclusive flock on a file, which is created with its folders. (The filelock
 * package uses flock too.) While someone else holds it, calls `wait` ten times a second;
 * other than 0 ends the call with ATTEND_STOPPED. *lock is -1 on failure. */
attend_status lock_take(attend_context *ctx, const char *path, int (*wait)(void *user), void *user,
                        int *lock) FOR_LAB(lock_take);
/* -1: none. */
void lock_drop(int lock) FOR_LAB(lock_drop);

#endif
