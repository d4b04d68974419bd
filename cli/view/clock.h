/* The monotonic clock, and waiting on a condition by it. */
#ifndef CLI_VIEW_CLOCK_H
#define CLI_VIEW_CLOCK_H

#include <math.h>
#include <pthread.h>
#include <time.h>

/* In seconds. */
static inline double clock_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static inline void clock_condition(pthread_cond_t *c) {
  pthread_condattr_t how;
  pthread_condattr_init(&how);
  pthread_condattr_setclock(&how, CLOCK_MONOTONIC);
  pthread_cond_init(c, &how);
  pthread_condattr_destroy(&how);
}

/* Until the condition is signalled, or that time. */
static inline void clock_wait(pthread_cond_t *c, pthread_mutex_t *lock, double until) {
  struct timespec t = {.tv_sec = (time_t)until};
  t.tv_nsec = (long)(1e9 * (until - floor(until)));
  pthread_cond_timedwait(c, lock, &t);
}

#endif
