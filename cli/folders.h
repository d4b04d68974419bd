/* Paths, folders, lists of names; pages in a browser. */
#ifndef CLI_FOLDERS_H
#define CLI_FOLDERS_H

#include "base/folders.h"
#include "cli.h"

/* printf into memory that the caller frees. */
char *path_of(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Whether a name ends so. */
bool path_ends(const char *name, const char *end);
/* The extension: "svg"; "" if there is none. */
const char *path_ending(const char *path);

/* folder_make, with an error message. */
bool make_folder(const char *path);
/* Whether a file can be written at `path`; creates its folder. For checks before long
 * work. */
bool can_write(const char *path);

/* Free with names_free. */
typedef struct {
  char **name;
  size_t count, capacity;
} names;
void names_add(names *list, const char *name); /* a copy of it */
void names_free(names *list);

/* Opens a page in the user's browser. No browser is no failure: the address is printed. */
void browser_open(const char *address);

/* An empty temporary file /tmp/attend-NAME-XXXXXX.html; the caller frees the path.
 * NULL after an error message. */
char *browser_file(const char *name);

#endif
