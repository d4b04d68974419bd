/* A line on stderr that says how far a long run is.
 *
 * Place: cli/ - for whatever may take more than two seconds.
 */
#include "progress.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

enum { LINE = 78 }; /* characters, so that it never wraps */

static struct { /* there is one terminal */
  const char *what;
  size_t total;
  double started, shown;
  bool visible;
} line;

double seconds_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void progress_start(const char *what, size_t total) {
  progress_end();
  line.what = what;
  line.total = total;
  line.started = seconds_now();
  line.shown = 0;
}

static void show(const char *text) {
  fprintf(stderr, "\r\033[K%.*s", LINE, text);
  fflush(stderr);
  line.shown = seconds_now();
  line.visible = true;
}

void progress_step(size_t done, const char *now) {
  double time = seconds_now();
  if (!isatty(STDERR_FILENO) || time - line.started < 2 ||
      time - line.shown < 0.1)
    return;
  char text[256];
  snprintf(text, sizeof text, "%s: %zu of %zu %s", line.what, done, line.total,
           now ? now : "");
  show(text);
}

void progress_note(const char *now) {
  if (isatty(STDERR_FILENO)) show(now);
}

void progress_end(void) {
  if (!line.visible) return;
  fputs("\r\033[K", stderr);
  fflush(stderr);
  line.visible = false;
}
