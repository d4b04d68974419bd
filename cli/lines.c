/* Texts one after another: arguments, or the lines of the standard input.
 */
#include "lines.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "table.h"
#include "printable.h"

/* ---- reading ------------------------------------------------------------------------ */

static bool next_word(line_source *s, const char **text, size_t *length) {
  if (s->next == s->count) return false;
  *text = s->words[s->next++];
  *length = strlen(*text);
  return true;
}

bool line_next(line_source *s, const char **text, size_t *length) {
  if (s->count) return next_word(s, text, length);
  errno = 0;
  ssize_t n = getline(&s->line, &s->capacity, stdin);
  if (n < 0) return false;
  if (n && s->line[n - 1] == '\n') n--;
  if (n && s->line[n - 1] == '\r') n--;
  *text = s->line;
  *length = (size_t)n;
  return true;
}

void line_free(line_source *s) { free(s->line); }

int line_check(const line_source *s) {
  if (s->count || !ferror(stdin)) return EXIT_OK;
  complain("the standard input cannot be read: %s", strerror(errno));
  return EXIT_FAILED;
}

size_t line_bytes(const line_source *s) {
  struct stat about;
  size_t sum = 0;
  for (int i = 0; i < s->count; i++) sum += strlen(s->words[i]);
  if (s->count) return sum;
  bool file = !fstat(STDIN_FILENO, &about) && S_ISREG(about.st_mode);
  return file ? (size_t)about.st_size : 0;
}

/* ---- showing ------------------------------------------------------------------------ */

char *text_copy(const char *text, size_t length) {
  char *copy = need(length + 1, 1);
  memcpy(copy, text, length);
  return copy;
}

char *text_on_a_line(const char *text, size_t length) {
  char *copy = text_copy(text, length);
  for (size_t i = 0; i < length; i++)
    if ((unsigned char)copy[i] < 32 || copy[i] == 127) copy[i] = ' ';
  char *safe = printable(copy, length, "");
  free(copy);
  return safe;
}

void text_print_cut(FILE *out, const char *text, int width) {
  int have = text_width(text), shown = have > width ? width - 1 : have;
  const char *end = text;
  for (int n = 0; n < shown; n++) {
    end++;
    while ((*end & 0xc0) == 0x80) end++;
  }
  fwrite(text, 1, (size_t)(end - text), out);
  if (have > width) fputs("…", out);
}

int text_room(FILE *out) {
  struct winsize size;
  if (!isatty(fileno(out)) || ioctl(fileno(out), TIOCGWINSZ, &size)) return 0;
  return size.ws_col;
}
