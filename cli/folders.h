/* Paths, folders, lists of files, locks; pages in a browser. */
#ifndef CLI_FOLDERS_H
#define CLI_FOLDERS_H

#include "cli.h"

/* printf into memory that the caller frees. */
char *path_of(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* A copy without the slashes at its end, to be freed; "/" stays. */
char *without_slashes(const char *path);
/* Whether a name ends so. */
bool path_ends(const char *name, const char *end);
/* The extension: "svg"; "" if there is none. */
const char *path_ending(const char *path);
bool is_folder(const char *path);
/* Size of a regular file, following links; -1 if there is none. */
int64_t file_bytes(const char *path);

/* Creates the folder and its parents. False after an error message, here and below. */
bool make_folder(const char *path);
/* Creates the parent folders of a file. */
bool make_room(const char *path);
/* Whether a file can be written at `path`; creates its folder. For checks before long
 * work. */
bool can_write(const char *path);
/* Removes a folder recursively, without following links. */
void remove_folder(const char *path);

/* The files below a folder, relative to it, sorted, hidden ones included. Free with
 * names_free. */
typedef struct {
  char **name;
  size_t count, capacity;
} names;
void names_add(names *list, const char *name); /* a copy of it */
/* Takes ownership of the name, and returns it. */
char *names_take(names *list, char *name);
bool names_below(const char *folder, names *list);
void names_free(names *list);

/* Whether it consists of so many lower-case hexadecimal digits. */
bool is_hex(const char *text, size_t length);

/* Takes an exclusive flock on a file, which is created; -1 after an error message.
 * The filelock package uses flock too: other clients' pulls wait as well. */
int lock_take(const char *path);
void lock_drop(int lock);

/* Opens a page in the user's browser. No browser is no failure: the address is printed. */
void browser_open(const char *address);

/* An empty temporary file /tmp/attend-NAME-XXXXXX.html; the caller frees the path.
 * NULL after an error message. */
char *browser_file(const char *name);

#endif
