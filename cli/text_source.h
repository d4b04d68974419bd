/* Texts out of files: plain, lines of JSON, columns.
 *
 * For verbs that learn from texts.
 */
#ifndef CLI_TEXT_SOURCE_H
#define CLI_TEXT_SOURCE_H

#include "cli.h"

typedef enum {
  TEXT_BY_NAME = 0, /* .jsonl, .ndjson, .tsv, or plain */
  TEXT_PLAIN,       /* all of it is one text */
  TEXT_JSONL,       /* an object or a string on each line */
  TEXT_TSV          /* lines of columns; each is a text */
} text_format;

/* False if there is no such format: "text", "jsonl", "tsv". */
bool text_format_named(const char *name, text_format *format);

typedef struct {
  attend_context *ctx;
  text_format format;
  char **field; /* of objects; without any: "text", else all strings */
  int fields;
  /* More of the open text; `ends`: with this it is complete. */
  attend_status (*put)(const char *text, size_t length, bool ends, void *user);
  void *user;
  size_t done; /* bytes read so far, of all files */
} text_source;

/* Bytes of the files; 0 if one of them is not a regular file. */
size_t text_bytes(char **paths, int count);
/* Reads a file, or "-", the standard input, and shows progress_bytes. Complains;
 * an exit code. */
int text_read(text_source *s, const char *path);

#endif
