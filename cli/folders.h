/* Places on disk: paths, folders, names from elsewhere, locks.
 *
 * Below the caches of models and the verb that fills them.
 */
#ifndef CLI_FOLDERS_H
#define CLI_FOLDERS_H

#include "cli.h"

/* As printf, into memory that the caller frees. */
char *path_of(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* XDG_CACHE_HOME, else ~/.cache; NULL after a complaint if there is neither. */
char *cache_home(void);

/* Whether a name ends so. */
bool path_ends(const char *name, const char *end);
/* What comes after the last dot of a file's name: "svg"; "": there is none. */
const char *path_ending(const char *path);
bool is_folder(const char *path);
/* Bytes of a regular file, through links; -1 if there is none. */
int64_t file_bytes(const char *path);

/* The folder and those above it. Complains. */
bool make_folder(const char *path);
/* The folder that the file at `path` is to lie in. Complains. */
bool make_room(const char *path);
/* Asked before long work: whether a file can be put at `path`, the folder
 * above it being made. Complains. */
bool can_write(const char *path);
/* A folder and all in it; links are removed, not followed. */
void remove_folder(const char *path);

/* The names of the files below a folder, relative to it, in order. Hidden
 * ones too. Free with names_free. */
typedef struct {
  char **name;
  size_t count, capacity;
} names;
void names_add(names *list, const char *name);
bool names_below(const char *folder, names *list);
void names_free(names *list);

/* Whether a name that somebody else chose stays below the folder it is put
 * in: relative, no "..", no backslash, no control character. */
bool is_tame(const char *name, size_t length);
/* Whether all of it are digits of 0-9a-f, and so many. */
bool is_hex(const char *text, size_t length);

/* Waits for the lock on a file, which is made; -1 after a complaint. It is
 * flock's, as filelock takes it: other programs' pulls wait too. */
int lock_take(const char *path);
void lock_drop(int lock);

#endif
