/* Deadlines of connections: slow ones are cut off. */
#define _GNU_SOURCE /* POLLRDHUP */
#include "view/deadlines.h"

#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "view/clock.h"

static const double CHECK_EVERY = 0.1, HURRY = 1; /* seconds */
enum { SLOWEST = 1 << 18 };                       /* bytes a second */

typedef enum { RECEIVING, COMPUTING, SENDING } deadline_state;

struct deadline {
  deadline *before, *after;
  int socket;
  deadline_state state;
  double since, until;
  bool cut;
};

struct deadlines {
  pthread_mutex_t lock;
  pthread_cond_t changed, freed; /* one was added; one was removed */
  pthread_t thread;
  deadline *first;
  int slots, most; /* taken, and all */
  bool closing;
};

bool socket_is_closed(int socket) {
  struct pollfd p = {.fd = socket, .events = POLLRDHUP};
  return poll(&p, 1, 0) > 0 && (p.revents & (POLLRDHUP | POLLHUP | POLLERR | POLLNVAL));
}

/* ---- the thread ------------------------------------------------------------ */

static void cut_expired(deadlines *w) {
  double now = clock_now();
  bool busy = 2 * w->slots > w->most;
  for (deadline *c = w->first; c; c = c->after) {
    double until = c->until;
    if (busy && c->state == RECEIVING) until = fmin(until, c->since + HURRY);
    if (c->cut || c->state == COMPUTING || now < until) continue;
    shutdown(c->socket, SHUT_RDWR);
    c->cut = true;
  }
}

static void *check_deadlines(void *user) {
  deadlines *w = user;
  pthread_mutex_lock(&w->lock);
  while (!w->closing) {
    if (w->first)
      clock_wait(&w->changed, &w->lock, clock_now() + CHECK_EVERY);
    else
      pthread_cond_wait(&w->changed, &w->lock);
    cut_expired(w);
  }
  pthread_mutex_unlock(&w->lock);
  return NULL;
}

static void discard(deadlines *w) {
  pthread_cond_destroy(&w->freed);
  pthread_cond_destroy(&w->changed);
  pthread_mutex_destroy(&w->lock);
  free(w);
}

deadlines *deadlines_open(int most_connections) {
  deadlines *w = calloc(1, sizeof *w);
  if (!w) return NULL;
  w->most = most_connections;
  pthread_mutex_init(&w->lock, NULL);
  clock_condition(&w->changed);
  clock_condition(&w->freed);
  if (!pthread_create(&w->thread, NULL, check_deadlines, w)) return w;
  discard(w);
  return NULL;
}

void deadlines_close(deadlines *w) {
  if (!w) return;
  pthread_mutex_lock(&w->lock);
  w->closing = true;
  pthread_cond_signal(&w->changed);
  pthread_mutex_unlock(&w->lock);
  pthread_join(w->thread, NULL);
  discard(w);
}

/* ---- connections ----------------------------------------------------------- */

static void enter(deadlines *w, deadline *c, deadline_state state, double seconds) {
  pthread_mutex_lock(&w->lock);
  c->state = state;
  c->since = clock_now();
  c->until = c->since + seconds;
  pthread_mutex_unlock(&w->lock);
}

deadline *deadlines_add(deadlines *w, int socket, double seconds) {
  deadline *c = calloc(1, sizeof *c);
  if (!c) return NULL;
  c->socket = socket;
  enter(w, c, RECEIVING, seconds);
  pthread_mutex_lock(&w->lock);
  c->after = w->first;
  if (c->after) c->after->before = c;
  w->first = c;
  pthread_cond_signal(&w->changed);
  pthread_mutex_unlock(&w->lock);
  return c;
}

void deadlines_remove(deadlines *w, deadline *c) {
  pthread_mutex_lock(&w->lock);
  if (c) *(c->before ? &c->before->after : &w->first) = c->after;
  if (c && c->after) c->after->before = c->before;
  w->slots--;
  pthread_cond_signal(&w->freed);
  pthread_mutex_unlock(&w->lock);
  free(c);
}

bool deadlines_take_slot(deadlines *w) {
  pthread_mutex_lock(&w->lock);
  if (w->slots >= w->most) clock_wait(&w->freed, &w->lock, clock_now() + CHECK_EVERY);
  bool taken = w->slots < w->most;
  if (taken) w->slots++;
  pthread_mutex_unlock(&w->lock);
  return taken;
}

void deadline_receive(deadlines *w, deadline *c, double seconds) {
  if (c) enter(w, c, RECEIVING, seconds);
}

void deadline_compute(deadlines *w, deadline *c) {
  if (c) enter(w, c, COMPUTING, 0);
}

void deadline_send(deadlines *w, deadline *c, double seconds, size_t bytes) {
  if (c) enter(w, c, SENDING, seconds + (double)bytes / SLOWEST);
}
