/* Escaping untrusted text for a terminal. */
#include "printable.h"

#include <stdlib.h>
#include <unistd.h>

#include "cli.h"

char *printable(const char *text, size_t length, const char *keep) {
  size_t size = attend_escape(text, length, keep, NULL, 0) + 1;
  char *copy = need(size, 1);
  attend_escape(text, length, keep, copy, size);
  return copy;
}

void put_printable(FILE *out, const char *text, size_t length) {
  if (!isatty(fileno(out))) {
    fwrite(text, 1, length, out);
    return;
  }
  char *safe = printable(text, length, "\n\t");
  fputs(safe, out);
  free(safe);
}
