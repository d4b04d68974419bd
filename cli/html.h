/* Text of unknown origin in the HTML pages that verbs write. */
#ifndef CLI_HTML_H
#define CLI_HTML_H

#include <stdio.h>

/* Escaped, for elements and quoted attributes. */
void html_put(FILE *f, const char *text);
void html_put_n(FILE *f, const char *text, size_t length);

#endif
