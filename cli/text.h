/* Texts in and out: from arguments, files and the standard input; to terminals and
 * HTML pages, escaped. */
#ifndef CLI_TEXT_H
#define CLI_TEXT_H

#include <stdio.h>

#include "attend/lines.h"
#include "attend/text_train.h"
#include "cli.h"

/* ---- whole texts, and ids ------------------------------------------------------------ */

/* All of a stream, zero-terminated UTF-8; the caller frees it. Prints an error and sets the
 * exit code. Says on the standard error that it waits if the stream is a terminal. */
char *input_all(FILE *in, const char *name, size_t *length, int *code);
/* All of a file; NULL after an error message. */
char *input_file(const char *path, size_t *length);
/* All of a file, or of the standard input ("-"); NULL after an error message. */
char *input_named(const char *path, size_t *length, int *code);

/* If the stream is a terminal, says on the standard error what it waits for: "the text". */
void text_waits(FILE *in, const char *for_what);
/* An exit code: texts that are not UTF-8 are refused, with the place of the first such byte. */
int text_check(const char *name, const char *text, size_t length);

typedef struct {
  int32_t *id;
  int count, capacity;
} id_list;

void id_list_add(id_list *list, int32_t id);
/* Numbers between spaces, commas and brackets; an exit code. */
int input_ids(const char *text, id_list *list);

/* ---- texts one after another --------------------------------------------------------- */

/* Arguments, or the lines of the standard input. */
typedef struct {
  char **words; /* arguments */
  int count;    /* 0: the lines of the standard input */
  int next;
  int code;   /* of a line that is not UTF-8 */
  char *line; /* the last one, valid until the next call */
  size_t capacity;
} line_source;

/* The next text without its line end; false past the last. */
bool line_next(line_source *s, const char **text, size_t *length);
void line_free(line_source *s);
/* An exit code: whether the standard input was read to its end. */
int line_check(const line_source *s);
/* Bytes of all texts; 0: unknown. */
size_t line_bytes(const line_source *s);

/* Files: plain (one text), .jsonl (an object or a string on each line), .tsv (every
 * column of every line is a text). */
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
/* An exit code: whether a plain file is UTF-8. Other files pass: their lines are checked when
 * they are read, and what is no file is reported then. */
int text_check_file(attend_context *ctx, const char *path);
/* Feeds all files to the trainer of a tokenizer, likewise. */
int text_train(text_source *s, char **paths, int count, attend_text_trainer *trainer);

/* ---- terminals ----------------------------------------------------------------------- */

/* A copy that ends in a zero byte; a copy with control characters escaped, except those
 * in `keep`; one with them replaced, for a line of a table. The caller frees it. */
char *text_copy(const char *text, size_t length);
char *printable(const char *text, size_t length, const char *keep);
char *text_on_a_line(const char *text, size_t length);
/* Writes a text: escaped on a terminal, except line ends and tabs; unchanged
 * elsewhere. */
void put_printable(FILE *out, const char *text, size_t length);
/* At most `width` characters; the last one is … if the text is longer. */
void text_print_cut(FILE *out, const char *text, int width);

/* Characters that a text takes on a terminal; of a line of this stream's terminal, 0 if
 * it is none. */
int text_width(const char *text);
int terminal_columns(FILE *out);
/* Whether to colour what goes to this stream. */
bool is_colourful(FILE *out);

/* ---- HTML ---------------------------------------------------------------------------- */

/* Escaped, for elements and quoted attributes. */
void html_put(FILE *f, const char *text);
void html_put_n(FILE *f, const char *text, size_t length);
/* Writes to a file what `page` writes; an exit code. */
int html_write(attend_context *ctx, const char *path, void (*page)(FILE *f, const void *user),
               const void *user);

#endif
