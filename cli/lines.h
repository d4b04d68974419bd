/* Texts one after another: arguments, or the lines of the standard input. Showing texts
 * in a line of a terminal.
 */
#ifndef CLI_LINES_H
#define CLI_LINES_H

#include <stdio.h>

#include "cli.h"

typedef struct {
  char **words; /* arguments */
  int count;    /* 0: the lines of the standard input */
  int next;
  char *line; /* the last one, valid until the next call */
  size_t capacity;
} line_source;

/* The next text without its line end; false past the last. */
bool line_next(line_source *s, const char **text, size_t *length);
void line_free(line_source *s);
/* Complains if the standard input could not be read to its end. */
int line_check(const line_source *s);
/* Bytes of all texts; 0: not known. */
size_t line_bytes(const line_source *s);

/* A copy that ends in a zero byte. */
char *text_copy(const char *text, size_t length);
/* The same with control characters replaced, for a line of a table. The caller frees
 * it. */
char *text_on_a_line(const char *text, size_t length);
/* At most `width` characters; the last one is … if the text is longer. */
void text_print_cut(FILE *out, const char *text, int width);
/* Characters of a line of this stream's terminal; 0: it is not a terminal. */
int text_room(FILE *out);

#endif
