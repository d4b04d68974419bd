/* Lets connections in, one after the other, while there is a place for them.
 *
 * Below the server of `attend view`.
 */
#define _GNU_SOURCE /* accept4 */
#include "view/door.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

struct door {
  int listening;
  watch *watch;
  door_enter enter;
  void *user;
  atomic_bool closing;
  pthread_t thread;
};

static bool let_in(door *d) {
  struct sockaddr_storage from;
  socklen_t length = sizeof from;
  int s = accept4(d->listening, (struct sockaddr *)&from, &length,
                  SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (s >= 0) return d->enter(s, (struct sockaddr *)&from, length, d->user);
  if (errno != EINTR && errno != ECONNABORTED)
    usleep(50000); /* no file or no memory is free: one may be soon */
  return false;
}

static void *keep_door(void *user) {
  door *d = user;
  while (!d->closing)
    if (watch_take_place(d->watch) && !let_in(d)) watch_remove(d->watch, NULL);
  return NULL;
}

door *door_open(int listening, watch *w, door_enter enter, void *user) {
  door *d = calloc(1, sizeof *d);
  if (d) {
    *d = (door){listening, w, enter, user, false, 0};
    if (!pthread_create(&d->thread, NULL, keep_door, d)) return d;
  }
  free(d);
  close(listening);
  return NULL;
}

void door_close(door *d) {
  if (!d) return;
  d->closing = true;
  shutdown(d->listening, SHUT_RDWR); /* ends accept */
  pthread_join(d->thread, NULL);
  close(d->listening);
  free(d);
}
