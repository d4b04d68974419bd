/* Text of unknown origin in the HTML pages that verbs write. */
#include "html.h"

#include <stdlib.h>
#include <string.h>

#include "cli.h"

void html_put_n(FILE *f, const char *text, size_t length) {
  size_t size = attend_escape_xml(text, length, NULL, 0);
  char *escaped = need(size + 1, 1);
  attend_escape_xml(text, length, escaped, size + 1);
  fwrite(escaped, 1, size, f);
  free(escaped);
}

void html_put(FILE *f, const char *text) { html_put_n(f, text, strlen(text)); }
