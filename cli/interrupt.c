/* Ctrl-C: the first requests a stop, the second kills. For verbs that print or save
 * partial results.
 */
#include "interrupt.h"

#include <signal.h>
#include <time.h>

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
