/* Deadlines of connections: whoever is too slow is cut off.
 *
 * Below the server of `attend view`; knows sockets alone.
 */
#define _GNU_SOURCE /* POLLRDHUP */
#include "view/watch.h"

#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "view/clock.h"

static const double LOOK_EVERY = 0.1, HURRY = 1; /* seconds */
enum { SLOWEST = 1 << 18 };                      /* bytes a second */

typedef enum { WAITS, WORKS, SENDS } watched_state;

struct watched {
  watched *before, *after;
  int socket;
  watched_state state;
  double since, until;
  bool cut;
};

struct watch {
  pthread_mutex_t lock;
  pthread_cond_t changed, freed; /* one was added; one was removed */
  pthread_t thread;
  watched *first;
  int places, most; /* taken, and all */
  bool closing;
};

bool socket_is_left(int socket) {
  struct pollfd p = {.fd = socket, .events = POLLRDHUP};
  return poll(&p, 1, 0) > 0 &&
         (p.revents & (POLLRDHUP | POLLHUP | POLLERR | POLLNVAL));
}

/* ---- the thread ------------------------------------------------------------ */

static void cut_late(watch *w) {
  double now = clock_now();
  bool crowded = 2 * w->places > w->most;
  for (watched *c = w->first; c; c = c->after) {
    double until = c->until;
    if (crowded && c->state == WAITS) until = fmin(until, c->since + HURRY);
    if (c->cut || c->state == WORKS || now < until) continue;
    shutdown(c->socket, SHUT_RDWR);
    c->cut = true;
  }
}

static void *look(void *user) {
  watch *w = user;
  pthread_mutex_lock(&w->lock);
  while (!w->closing) {
    if (w->first)
      clock_wait(&w->changed, &w->lock, clock_now() + LOOK_EVERY);
    else
      pthread_cond_wait(&w->changed, &w->lock);
    cut_late(w);
  }
  pthread_mutex_unlock(&w->lock);
  return NULL;
}

static void discard(watch *w) {
  pthread_cond_destroy(&w->freed);
  pthread_cond_destroy(&w->changed);
  pthread_mutex_destroy(&w->lock);
  free(w);
}

watch *watch_open(int most_connections) {
  watch *w = calloc(1, sizeof *w);
  if (!w) return NULL;
  w->most = most_connections;
  pthread_mutex_init(&w->lock, NULL);
  clock_condition(&w->changed);
  clock_condition(&w->freed);
  if (!pthread_create(&w->thread, NULL, look, w)) return w;
  discard(w);
  return NULL;
}

void watch_close(watch *w) {
  if (!w) return;
  pthread_mutex_lock(&w->lock);
  w->closing = true;
  pthread_cond_signal(&w->changed);
  pthread_mutex_unlock(&w->lock);
  pthread_join(w->thread, NULL);
  discard(w);
}

/* ---- connections ----------------------------------------------------------- */

static void enter(watch *w, watched *c, watched_state state, double seconds) {
  pthread_mutex_lock(&w->lock);
  c->state = state;
  c->since = clock_now();
  c->until = c->since + seconds;
  pthread_mutex_unlock(&w->lock);
}

watched *watch_add(watch *w, int socket, double seconds) {
  watched *c = calloc(1, sizeof *c);
  if (!c) return NULL;
  c->socket = socket;
  enter(w, c, WAITS, seconds);
  pthread_mutex_lock(&w->lock);
  c->after = w->first;
  if (c->after) c->after->before = c;
  w->first = c;
  pthread_cond_signal(&w->changed);
  pthread_mutex_unlock(&w->lock);
  return c;
}

void watch_remove(watch *w, watched *c) {
  pthread_mutex_lock(&w->lock);
  if (c) *(c->before ? &c->before->after : &w->first) = c->after;
  if (c && c->after) c->after->before = c->before;
  w->places--;
  pthread_cond_signal(&w->freed);
  pthread_mutex_unlock(&w->lock);
  free(c);
}

bool watch_take_place(watch *w) {
  pthread_mutex_lock(&w->lock);
  if (w->places >= w->most)
    clock_wait(&w->freed, &w->lock, clock_now() + LOOK_EVERY);
  bool taken = w->places < w->most;
  if (taken) w->places++;
  pthread_mutex_unlock(&w->lock);
  return taken;
}

void watch_waits(watch *w, watched *c, double seconds) {
  if (c) enter(w, c, WAITS, seconds);
}

void watch_works(watch *w, watched *c) {
  if (c) enter(w, c, WORKS, 0);
}

void watch_sends(watch *w, watched *c, double seconds, size_t bytes) {
  if (c) enter(w, c, SENDS, seconds + (double)bytes / SLOWEST);
}
