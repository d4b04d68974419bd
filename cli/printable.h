/* Texts from files and models, for a terminal.
 *
 * Under everything that prints names, tokens and generated text.
 */
#ifndef CLI_PRINTABLE_H
#define CLI_PRINTABLE_H

#include <stddef.h>
#include <stdio.h>

/* A copy without control characters but for those in `keep`; to be freed. */
char *printable(const char *text, size_t length, const char *keep);
/* To a terminal escaped but for line ends and tabs; elsewhere as it is. */
void put_printable(FILE *out, const char *text, size_t length);

#endif
