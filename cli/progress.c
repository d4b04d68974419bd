/* A progress line on stderr, and Ctrl-C. */
#include "progress.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "table.h"

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
  char *safe = printable(text, strlen(text), "");
  fprintf(stderr, "\r\033[K%.*s", LINE, safe);
  free(safe);
  fflush(stderr);
  line.shown = seconds_now();
  line.visible = true;
}

static bool is_due(void) {
  double time = seconds_now();
  return isatty(STDERR_FILENO) && time - line.started >= 2 && time - line.shown >= 0.1;
}

void progress_step(size_t done, const char *now) {
  if (!is_due()) return;
  char text[256];
  snprintf(text, sizeof text, "%s: %zu of %zu %s", line.what, done, line.total, now ? now : "");
  show(text);
}

enum { BAR = 20 }; /* characters */

static int bar_width(double share) { return (int)(share * BAR); }

static const char full_bar[] = "====================";

/* Not before 2 % are done: an estimate would be a guess. */
void progress_share(double share, const char *now) {
  if (!is_due()) return;
  char text[256], left[32];
  double seconds = seconds_now() - line.started;
  if (share > 1) share = 1;
  snprintf(text, sizeof text, "%.28s [%-*.*s] %3.0f %%%s%.40s", line.what, BAR, bar_width(share),
           full_bar, 100 * share, now ? ", " : "", now ? now : "");
  format_cell(CELL_SECONDS, seconds / share - seconds, left, sizeof left);
  size_t n = strlen(text);
  if (share > 0.02) snprintf(text + n, sizeof text - n, ", %s left", left);
  show(text);
}

/* "[=====>    ]  50 % of 1.5 GiB", or how much there is. */
static void put_bar(size_t done, char *text, size_t size) {
  char bytes[32];
  format_cell(CELL_BYTES, (double)(line.total ? line.total : done), bytes, sizeof bytes);
  if (!line.total) {
    snprintf(text, size, "%s", bytes);
    return;
  }
  double part = done < line.total ? (double)done / (double)line.total : 1;
  snprintf(text, size, "[%-*.*s] %3.0f %% of %s", BAR, bar_width(part), full_bar, 100 * part,
           bytes);
}

void progress_bytes(size_t done, size_t before) {
  if (!is_due()) return;
  char text[256], bar[96], speed[32];
  double seconds = seconds_now() - line.started;
  put_bar(done, bar, sizeof bar);
  format_cell(CELL_BYTES, (double)(done - before) / seconds, speed, sizeof speed);
  snprintf(text, sizeof text, "%.28s %s, %s/s", line.what, bar, speed);
  show(text);
}

void progress_note(const char *now) {
  if (isatty(STDERR_FILENO)) show(now);
}

int progress_report(double done, const char *what, void *user) {
  (void)user;
  if (isnan(done))
    progress_note(what);
  else
    progress_share(done, what);
  return is_interrupted();
}

void progress_end(void) {
  if (!line.visible) return;
  fputs("\r\033[K", stderr);
  fflush(stderr);
  line.visible = false;
}

/* ---- Ctrl-C ------------------------------------------------------------------- */

static volatile sig_atomic_t noted;
static struct timespec first;

/* One key press may be delivered twice, by way of a wrapper such as timeout(1):
 * within a quarter of a second it counts once. */
static void note(int number) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  if (!noted) first = now;
  double since = (double)(now.tv_sec - first.tv_sec) + 1e-9 * (double)(now.tv_nsec - first.tv_nsec);
  if (noted && since > 0.25) {
    signal(number, SIG_DFL);
    raise(number);
  }
  noted = 1;
}

static void watch(int number) {
  struct sigaction action = {.sa_handler = note, .sa_flags = SA_RESTART};
  sigemptyset(&action.sa_mask);
  sigaction(number, &action, NULL);
}

void interrupt_watch(void) { watch(SIGINT); }

void interrupt_watch_ends(void) {
  struct sigaction now;
  watch(SIGTERM);
  if (!sigaction(SIGHUP, NULL, &now) && now.sa_handler != SIG_IGN) watch(SIGHUP);
}

bool is_interrupted(void) { return noted; }
