/* Texts from files: plain (one text), .jsonl (an object or a string on each line), .tsv
 * (every column of every line is a text).
 */
#ifndef CLI_TEXT_SOURCE_H
#define CLI_TEXT_SOURCE_H

#include "attend/lines.h"
#include "cli.h"

typedef struct {
  attend_context *ctx;
  attend_format format; /* of every file; 0: by its name */
  char **field;         /* of objects; without any: "text", else all strings */
  int fields;
  /* The next part of the current text; `ends`: it is complete. */
  attend_status (*put)(const char *text, size_t length, bool ends, void *user);
  void *user;
  size_t done; /* bytes read so far, of all files */
} text_source;

/* Bytes of the files; 0 if one of them is not a regular file. */
size_t text_bytes(char **paths, int count);
/* Reads a file, or "-", the standard input, with progress. Prints an error and
 * returns an exit code. */
int text_read(text_source *s, const char *path);

#endif
