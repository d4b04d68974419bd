/* Event streams of long requests, between view_stream and the server's connections. */
#include "view/events.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "view/clock.h"
#include "view/guard.h"
#include "view/deadlines.h"

enum { MOST_QUEUED = 1 << 20 };                       /* bytes */
static const double HEARTBEAT = 1, CHECK_EVERY = 0.1; /* seconds */

typedef struct event {
  struct event *next;
  bool progress;
  size_t length, sent;
  char bytes[];
} event;

struct stream {
  events *home;
  pthread_t thread;
  bool used;        /* the place is taken */
  bool ended, left; /* by the work; by the reader */
  bool gone;        /* the reader has left, but does not know it yet */
  bool slow;        /* it does not read as fast as the work goes on */
  int socket;
  char name[GUARD_NAME + 1], *body;
  size_t length;
  event *first, **last;
  size_t queued;
  pthread_cond_t changed;
};

/* Streams are places that are used again, so that their threads can be joined. */
struct events {
  viewer *v;
  pthread_mutex_t lock;
  bool stopped;
  int most;
  stream place[];
};

/* ---- the queue ------------------------------------------------------------- */

/* Data is JSON on one line; should it not be, it still is one event. */
static event *make_event(const char *name, const char *data) {
  static const char form[] = "event: %s\ndata: ";
  size_t head = strlen(name) + sizeof form, body = strlen(data);
  event *e = malloc(sizeof *e + head + body + 3);
  if (!e) return NULL;
  e->next = NULL;
  e->sent = 0;
  e->progress = !strcmp(name, "progress");
  size_t at = (size_t)snprintf(e->bytes, head, form, name);
  for (size_t i = 0; i < body; i++)
    e->bytes[at++] = data[i] == '\n' || data[i] == '\r' ? ' ' : data[i];
  memcpy(e->bytes + at, "\n\n", 2);
  e->length = at + 2;
  return e;
}

static void drop_first(stream *s) {
  event *e = s->first;
  s->queued -= e->length;
  s->first = e->next;
  if (!s->first) s->last = &s->first;
  free(e);
}

static void append(stream *s, event *e) {
  *s->last = e;
  s->last = &e->next;
  s->queued += e->length;
}

/* Takes away progress at the end of the queue that has not begun to be sent. */
static void drop_old_progress(stream *s) {
  event **at = &s->first;
  while (*at && (*at)->next) at = &(*at)->next;
  if (!*at || !(*at)->progress || (*at)->sent) return;
  s->queued -= (*at)->length;
  free(*at);
  *at = NULL;
  s->last = at;
}

/* ---- the work's side ------------------------------------------------------- */

static bool is_unread(const stream *s) { return s->gone || s->slow || s->left || s->home->stopped; }

/* Of what both have left nothing stays but a thread to be joined. */
static void empty(stream *s) {
  if (!s->ended || !s->left) return;
  while (s->first) drop_first(s);
  free(s->body);
  s->body = NULL;
}

/* Called by the thread that computes for all: it never waits. The last event may be
 * of any length. */
static int say(const char *name, const char *data, void *user) {
  stream *s = user;
  event *e = make_event(name, data);
  bool last = !strcmp(name, "done") || !strcmp(name, "error");
  pthread_mutex_lock(&s->home->lock);
  if (e && e->progress) drop_old_progress(s);
  if (e && !last && s->queued + e->length > MOST_QUEUED) s->slow = true;
  bool unread = !e || is_unread(s);
  if (!unread) append(s, e);
  pthread_cond_broadcast(&s->changed);
  pthread_mutex_unlock(&s->home->lock);
  if (unread) free(e);
  return unread;
}

static void *work(void *user) {
  stream *s = user;
  view_stream(s->home->v, s->name, s->body, s->length, say, s);
  pthread_mutex_lock(&s->home->lock);
  s->ended = true;
  empty(s);
  pthread_cond_broadcast(&s->changed);
  pthread_mutex_unlock(&s->home->lock);
  return NULL;
}

/* ---- places ---------------------------------------------------------------- */

/* Makes places that both sides have left free again; under the lock. */
static void clear_places(events *e) {
  for (int i = 0; i < e->most; i++) {
    stream *s = &e->place[i];
    if (!s->used || !s->ended || !s->left) continue;
    pthread_join(s->thread, NULL);
    s->used = false;
  }
}

events *events_open(viewer *v, int most) {
  events *e = calloc(1, sizeof *e + (size_t)most * sizeof *e->place);
  if (!e) return NULL;
  e->v = v;
  e->most = most;
  pthread_mutex_init(&e->lock, NULL);
  for (int i = 0; i < most; i++) clock_condition(&e->place[i].changed);
  return e;
}

void events_stop(events *e) {
  pthread_mutex_lock(&e->lock);
  e->stopped = true;
  for (int i = 0; i < e->most; i++) pthread_cond_broadcast(&e->place[i].changed);
  pthread_mutex_unlock(&e->lock);
}

void events_close(events *e) {
  if (!e) return;
  for (int i = 0; i < e->most; i++) {
    stream *s = &e->place[i];
    pthread_mutex_lock(&e->lock);
    while (s->used && !s->ended) pthread_cond_wait(&s->changed, &e->lock);
    pthread_mutex_unlock(&e->lock);
  }
  clear_places(e);
  for (int i = 0; i < e->most; i++) pthread_cond_destroy(&e->place[i].changed);
  pthread_mutex_destroy(&e->lock);
  free(e);
}

static stream *find_place(events *e) {
  clear_places(e);
  for (int i = 0; i < e->most && !e->stopped; i++)
    if (!e->place[i].used) return &e->place[i];
  return NULL;
}

static void settle(stream *s, events *e, int socket, const char *name) {
  s->home = e;
  s->socket = socket;
  s->ended = s->left = s->gone = s->slow = false;
  s->last = &s->first;
  snprintf(s->name, sizeof s->name, "%s", name);
}

stream *stream_open(events *e, int socket, const char *name, char *body, size_t length) {
  pthread_mutex_lock(&e->lock);
  stream *s = find_place(e);
  if (s) {
    settle(s, e, socket, name);
    s->body = body;
    s->length = length;
    s->used = !pthread_create(&s->thread, NULL, work, s);
    if (!s->used) s->body = NULL;
  }
  pthread_mutex_unlock(&e->lock);
  return s && s->used ? s : NULL;
}

/* ---- the reader's side ----------------------------------------------------- */

static size_t take_bytes(stream *s, char *to, size_t most) {
  size_t taken = 0;
  while (s->first && taken < most) {
    event *e = s->first;
    size_t n = e->length - e->sent < most - taken ? e->length - e->sent : most - taken;
    memcpy(to + taken, e->bytes + e->sent, n);
    e->sent += n;
    taken += n;
    if (e->sent == e->length) drop_first(s);
  }
  pthread_cond_broadcast(&s->changed);
  return taken;
}

/* Until there is something to send, or a heartbeat is due. */
static void wait_for_event(stream *s) {
  double until = clock_now() + HEARTBEAT;
  while (!s->first && !s->ended && !is_unread(s) && clock_now() < until) {
    clock_wait(&s->changed, &s->home->lock, clock_now() + CHECK_EVERY);
    s->gone = socket_is_closed(s->socket);
  }
}

long stream_read(stream *s, char *to, size_t most) {
  static const char beat[] = ":\n\n";
  long taken = STREAM_END;
  pthread_mutex_lock(&s->home->lock);
  wait_for_event(s);
  if (is_unread(s)) {
    taken = STREAM_BROKEN;
  } else if (s->first) {
    taken = (long)take_bytes(s, to, most);
  } else if (!s->ended) {
    taken = sizeof beat - 1;
    memcpy(to, beat, sizeof beat - 1);
  }
  pthread_mutex_unlock(&s->home->lock);
  return taken;
}

void stream_leave(stream *s) {
  pthread_mutex_lock(&s->home->lock);
  s->left = true;
  empty(s);
  pthread_cond_broadcast(&s->changed);
  pthread_mutex_unlock(&s->home->lock);
}
