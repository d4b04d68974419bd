/* Connections of the server: the listening socket, deadlines, and event streams between the
 * thread that computes and the one that sends.
 */
#define _GNU_SOURCE /* POLLRDHUP */
#include "view/connections.h"

#include <arpa/inet.h>
#include <errno.h>
#include <math.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"
#include "view/guard.h"

static const double CHECK_EVERY = 0.1; /* seconds */

/* ---- the monotonic clock, and waiting on a condition by it ------------------------------ */

/* In seconds. */
static double clock_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void clock_condition(pthread_cond_t *c) {
  pthread_condattr_t how;
  pthread_condattr_init(&how);
  pthread_condattr_setclock(&how, CLOCK_MONOTONIC);
  pthread_cond_init(c, &how);
  pthread_condattr_destroy(&how);
}

/* Until the condition is signalled, or that time. */
static void clock_wait(pthread_cond_t *c, pthread_mutex_t *lock, double until) {
  struct timespec t = {.tv_sec = (time_t)until};
  t.tv_nsec = (long)(1e9 * (until - floor(until)));
  pthread_cond_timedwait(c, lock, &t);
}

/* ---- deadlines ----------------------------------------------------------------------------- */

static const double HURRY = 1; /* seconds */
enum { SLOWEST = 1 << 18 };    /* bytes a second */

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
  int slots, max; /* taken, and all */
  bool closing;
};

bool socket_is_closed(int socket) {
  struct pollfd p = {.fd = socket, .events = POLLRDHUP};
  return poll(&p, 1, 0) > 0 && (p.revents & (POLLRDHUP | POLLHUP | POLLERR | POLLNVAL));
}

/* ---- the thread ------------------------------------------------------------ */

static void cut_expired(deadlines *w) {
  double now = clock_now();
  bool busy = 2 * w->slots > w->max;
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
  w->max = most_connections;
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

static void set_state(deadlines *w, deadline *c, deadline_state state, double seconds) {
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
  set_state(w, c, RECEIVING, seconds);
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
  if (w->slots >= w->max) clock_wait(&w->freed, &w->lock, clock_now() + CHECK_EVERY);
  bool taken = w->slots < w->max;
  if (taken) w->slots++;
  pthread_mutex_unlock(&w->lock);
  return taken;
}

void deadline_receive(deadlines *w, deadline *c, double seconds) {
  if (c) set_state(w, c, RECEIVING, seconds);
}

void deadline_compute(deadlines *w, deadline *c) {
  if (c) set_state(w, c, COMPUTING, 0);
}

void deadline_send(deadlines *w, deadline *c, double seconds, size_t bytes) {
  if (c) set_state(w, c, SENDING, seconds + (double)bytes / SLOWEST);
}

/* ---- the listening socket ------------------------------------------------------------------ */

/* UNREAD bounds what the system buffers for a slow reader. */
enum { BACKLOG = 1024, UNREAD = 1 << 18 };

typedef struct {
  struct sockaddr_storage at;
  socklen_t length;
  const char *text; /* as it was given */
} address;

static in_port_t *port_of(address *a) {
  if (a->at.ss_family == AF_INET6) return &((struct sockaddr_in6 *)&a->at)->sin6_port;
  return &((struct sockaddr_in *)&a->at)->sin_port;
}

static bool is_loopback(const address *a) {
  const struct in6_addr *six = &((const struct sockaddr_in6 *)&a->at)->sin6_addr;
  const struct in_addr *four = &((const struct sockaddr_in *)&a->at)->sin_addr;
  if (a->at.ss_family == AF_INET) return ntohl(four->s_addr) >> 24 == 127;
  return IN6_IS_ADDR_LOOPBACK(six) || (IN6_IS_ADDR_V4MAPPED(six) && six->s6_addr[12] == 127);
}

/* An address in figures, IPv6 with or without brackets; or localhost. */
static bool read_address(const char *text, address *a) {
  struct addrinfo how = {.ai_flags = AI_NUMERICHOST | AI_PASSIVE, .ai_socktype = SOCK_STREAM},
                  *found = NULL;
  char plain[INET6_ADDRSTRLEN + 32];
  bool brackets = *text == '[' && text[strlen(text) - 1] == ']';
  int length = snprintf(plain, sizeof plain, "%s", text + brackets);
  if (length < 1 || length >= (int)sizeof plain) return false;
  if (brackets) plain[length - 1] = 0;
  a->text = text;
  const char *figures = strcmp(plain, "localhost") ? plain : "127.0.0.1";
  if (getaddrinfo(figures, "0", &how, &found)) return false;
  memcpy(&a->at, found->ai_addr, found->ai_addrlen);
  a->length = found->ai_addrlen;
  freeaddrinfo(found);
  return true;
}

static int complain_port(const address *a, int port, int error) {
  if (error == EADDRINUSE)
    return complain(
        "port %d of %s is in use by another program: choose another port, or port 0 for a free one",
        port, a->text);
  if (error == EACCES)
    return complain("port %d of %s may not be opened: choose one above 1023", port, a->text);
  if (error == EADDRNOTAVAIL)
    return complain("%s is no address of this machine: bind to 127.0.0.1", a->text);
  return complain("port %d of %s cannot be opened (%s): choose another", port, a->text,
                  strerror(error));
}

/* -1 with errno. */
static int open_port(address *a, int *port) {
  int on = 1, off = 0, unread = UNREAD;
  int s = socket(a->at.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (s < 0) return -1;
  *port_of(a) = htons((in_port_t)*port);
  setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  setsockopt(s, SOL_SOCKET, SO_SNDBUF, &unread, sizeof unread);
  if (a->at.ss_family == AF_INET6) setsockopt(s, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  if (!bind(s, (struct sockaddr *)&a->at, a->length) && !listen(s, BACKLOG) &&
      !getsockname(s, (struct sockaddr *)&a->at, &a->length)) {
    *port = ntohs(*port_of(a));
    return s;
  }
  int error = errno;
  close(s);
  errno = error;
  return -1;
}

int view_listen(const char *text, bool remote, int *port, int *listening) {
  address a;
  memset(&a, 0, sizeof a);
  if (!read_address(text, &a)) {
    complain("\"%s\" is no address in figures: bind to 127.0.0.1 or ::1", text);
    return EXIT_USAGE;
  }
  if (!remote && !is_loopback(&a)) {
    complain(
        "%s would let other machines in, over connections that are not "
        "encrypted: bind to 127.0.0.1, or allow it with --allow-remote",
        text);
    return EXIT_USAGE;
  }
  *listening = open_port(&a, port);
  return *listening < 0 ? complain_port(&a, *port, errno) : EXIT_OK;
}

/* ---- event streams ------------------------------------------------------------------------- */

enum { MOST_QUEUED = 1 << 20 };    /* bytes */
static const double HEARTBEAT = 1; /* seconds */

typedef struct event {
  struct event *next;
  bool progress;
  size_t length, sent;
  char bytes[];
} event;

struct stream {
  events *home;
  pthread_t thread;
  bool used;        /* the slot is taken */
  bool ended, left; /* by the work; by the reader */
  bool gone;        /* the reader has left, but does not know it yet */
  bool slow;        /* its queue is full */
  int socket;
  char name[GUARD_NAME + 1], *body;
  size_t length;
  event *first, **last;
  size_t queued;
  pthread_cond_t changed;
};

/* Streams are slots that are used again, so that their threads can be joined. */
struct events {
  viewer *v;
  pthread_mutex_t lock;
  bool stopped;
  int max;
  stream slot[];
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

/* Frees all but the thread, once the work and the reader are done. */
static void clear_stream(stream *s) {
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
  clear_stream(s);
  pthread_cond_broadcast(&s->changed);
  pthread_mutex_unlock(&s->home->lock);
  return NULL;
}

/* ---- slots ---------------------------------------------------------------- */

/* Frees the slots that both sides have left; under the lock. */
static void free_slots(events *e) {
  for (int i = 0; i < e->max; i++) {
    stream *s = &e->slot[i];
    if (!s->used || !s->ended || !s->left) continue;
    pthread_join(s->thread, NULL);
    s->used = false;
  }
}

events *events_open(viewer *v, int max) {
  events *e = calloc(1, sizeof *e + (size_t)max * sizeof *e->slot);
  if (!e) return NULL;
  e->v = v;
  e->max = max;
  pthread_mutex_init(&e->lock, NULL);
  for (int i = 0; i < max; i++) clock_condition(&e->slot[i].changed);
  return e;
}

void events_stop(events *e) {
  pthread_mutex_lock(&e->lock);
  e->stopped = true;
  for (int i = 0; i < e->max; i++) pthread_cond_broadcast(&e->slot[i].changed);
  pthread_mutex_unlock(&e->lock);
}

void events_close(events *e) {
  if (!e) return;
  for (int i = 0; i < e->max; i++) {
    stream *s = &e->slot[i];
    pthread_mutex_lock(&e->lock);
    while (s->used && !s->ended) pthread_cond_wait(&s->changed, &e->lock);
    pthread_mutex_unlock(&e->lock);
  }
  free_slots(e);
  for (int i = 0; i < e->max; i++) pthread_cond_destroy(&e->slot[i].changed);
  pthread_mutex_destroy(&e->lock);
  free(e);
}

static stream *find_slot(events *e) {
  free_slots(e);
  for (int i = 0; i < e->max && !e->stopped; i++)
    if (!e->slot[i].used) return &e->slot[i];
  return NULL;
}

static void reset_stream(stream *s, events *e, int socket, const char *name) {
  s->home = e;
  s->socket = socket;
  s->ended = s->left = s->gone = s->slow = false;
  s->last = &s->first;
  snprintf(s->name, sizeof s->name, "%s", name);
}

stream *stream_open(events *e, int socket, const char *name, char *body, size_t length) {
  pthread_mutex_lock(&e->lock);
  stream *s = find_slot(e);
  if (s) {
    reset_stream(s, e, socket, name);
    s->body = body;
    s->length = length;
    s->used = !pthread_create(&s->thread, NULL, work, s);
    if (!s->used) s->body = NULL;
  }
  pthread_mutex_unlock(&e->lock);
  return s && s->used ? s : NULL;
}

/* ---- the reader's side ----------------------------------------------------- */

static size_t take_bytes(stream *s, char *to, size_t max) {
  size_t taken = 0;
  while (s->first && taken < max) {
    event *e = s->first;
    size_t n = e->length - e->sent < max - taken ? e->length - e->sent : max - taken;
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

long stream_read(stream *s, char *to, size_t max) {
  static const char beat[] = ":\n\n";
  long taken = STREAM_END;
  pthread_mutex_lock(&s->home->lock);
  wait_for_event(s);
  if (is_unread(s)) {
    taken = STREAM_BROKEN;
  } else if (s->first) {
    taken = (long)take_bytes(s, to, max);
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
  clear_stream(s);
  pthread_cond_broadcast(&s->changed);
  pthread_mutex_unlock(&s->home->lock);
}
