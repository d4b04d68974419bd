/* Escaping untrusted text (names, tokens, generated text) for a terminal. */
#ifndef CLI_PRINTABLE_H
#define CLI_PRINTABLE_H

#include <stddef.h>
#include <stdio.h>

/* A copy with control characters escaped, except those in `keep`; to be freed. */
char *printable(const char *text, size_t length, const char *keep);
/* Writes a text: escaped on a terminal, except line ends and tabs; unchanged
 * elsewhere. */
void put_printable(FILE *out, const char *text, size_t length);

#endif
