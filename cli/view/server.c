/* The server of `attend view`: the page, questions and long answers, over HTTP.
 *
 * Libmicrohttpd on one side, view_answer.h on the other.
 *
 * A request is a visit: judged by its first lines (view_guard.h), then its body
 * arrives (view_body.h), then it is answered (view_respond.h).
 */
#include "view/server.h"

#include <microhttpd.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cli.h"
#include "view/body.h"
#include "view/door.h"
#include "view/events.h"
#include "view/guard.h"
#include "view/listen.h"
#include "view/respond.h"
#include "view/turns.h"
#include "view/watch.h"

enum {
  HEADERS_MOST = 1 << 15, /* bytes, with what else a connection needs */
  STACK = 1 << 18,        /* of a connection's thread: it computes nothing */
  HOST_NAME = 256,
};

struct view_server {
  struct MHD_Daemon *daemon;
  view_server_options limits;
  guard_rules rules;
  char machine[HOST_NAME];
  page_tags tags;
  body_room room;
  watch *watch;
  door *door;
  turns *turns;
  events *events;
  struct sigaction pipe; /* what SIGPIPE did before */
};

typedef struct {
  watched *watched;
  int socket;
  guard_verdict verdict;
  view_body body;
} visit;

/* ---- the first lines ------------------------------------------------------- */

static enum MHD_Result note_header(void *user, enum MHD_ValueKind kind,
                                   const char *name, const char *value) {
  guard_request *q = user;
  struct {
    const char *name, **value;
  } known[] = {{"Host", &q->host},
               {"Origin", &q->origin},
               {"Sec-Fetch-Site", &q->site},
               {"Content-Type", &q->type},
               {"Authorization", &q->authorization}};
  (void)kind;
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    if (strcasecmp(name, known[i].name)) continue;
    if (*known[i].value) q->twice = true;
    *known[i].value = value ? value : "";
  }
  return MHD_YES;
}

static enum MHD_Result note_argument(void *user, enum MHD_ValueKind kind,
                                     const char *name, const char *value) {
  guard_request *q = user;
  (void)kind;
  if (strcmp(name, "token")) return MHD_YES;
  if (q->token) q->twice = true;
  q->token = value ? value : "";
  return MHD_YES;
}

static visit *begin_visit(view_server *s, struct MHD_Connection *c,
                          const char *method, const char *path) {
  guard_request q = {.method = method, .path = path};
  visit *v = calloc(1, sizeof *v);
  if (!v) return NULL;
  v->watched = MHD_get_connection_info(c, MHD_CONNECTION_INFO_SOCKET_CONTEXT)
                   ->socket_context;
  v->socket =
      MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
  MHD_get_connection_values(c, MHD_HEADER_KIND, note_header, &q);
  MHD_get_connection_values(c, MHD_GET_ARGUMENT_KIND, note_argument, &q);
  v->verdict = guard_judge(&s->rules, &q);
  if (v->verdict.status == 200 && v->verdict.wish == ASKS_QUESTION &&
      !view_knows(v->verdict.name)) {
    v->verdict.status = 404;
    v->verdict.sentence = "there is no such question";
  }
  return v;
}

static enum MHD_Result refuse(view_server *s, struct MHD_Connection *c,
                              visit *v, int status, const char *sentence) {
  size_t bytes;
  enum MHD_Result sent =
      respond_refusal(c, status, sentence, v->verdict.allow, &bytes);
  watch_sends(s->watch, v->watched, s->limits.arrive_seconds, bytes);
  return sent;
}

static enum MHD_Result refuse_body(view_server *s, struct MHD_Connection *c,
                                   visit *v, int status) {
  return refuse(s, c, v, status,
                status == 413
                    ? "the question has more than 1 MiB: shorten the text"
                    : "too many long questions at once: ask again");
}

/* Whether a body is announced that will not be read: one that is far too long,
 * or one whose sender waits to hear whether to send it. */
static bool announces_too_much(struct MHD_Connection *c) {
  const char *length =
      MHD_lookup_connection_value(c, MHD_HEADER_KIND, "Content-Length");
  unsigned long long bytes = length ? strtoull(length, NULL, 10) : 0;
  bool asks = MHD_lookup_connection_value(c, MHD_HEADER_KIND, "Expect");
  return bytes > (asks ? BODY_MOST : BODY_READ_ON);
}

static enum MHD_Result welcome(view_server *s, struct MHD_Connection *c,
                               visit *v) {
  if (v->verdict.status != 200)
    return refuse(s, c, v, v->verdict.status, v->verdict.sentence);
  if (announces_too_much(c)) return refuse_body(s, c, v, 413);
  return MHD_YES;
}

/* ---- long answers ---------------------------------------------------------- */

typedef struct {
  view_server *server;
  watched *watched;
  stream *stream;
} listener;

static ssize_t read_stream(void *user, uint64_t at, char *to, size_t most) {
  listener *l = user;
  (void)at;
  watch_works(l->server->watch, l->watched);
  long taken = stream_read(l->stream, to, most);
  watch_sends(l->server->watch, l->watched, l->server->limits.idle_seconds, 0);
  if (taken == STREAM_END) return MHD_CONTENT_READER_END_OF_STREAM;
  return taken < 0 ? MHD_CONTENT_READER_END_WITH_ERROR : taken;
}

static void leave_stream(void *user) {
  listener *l = user;
  stream_leave(l->stream);
  free(l);
}

static enum MHD_Result answer_long(view_server *s, struct MHD_Connection *c,
                                   visit *v) {
  listener *l = calloc(1, sizeof *l);
  if (!l) return MHD_NO;
  *l = (listener){.server = s, .watched = v->watched};
  l->stream = stream_open(s->events, v->socket, v->verdict.name, v->body.bytes,
                          v->body.length);
  if (!l->stream) {
    free(l);
    return refuse(s, c, v, 503,
                  "too much is being worked on: wait until something ends, or "
                  "close another page");
  }
  body_release(&s->room, &v->body);
  watch_sends(s->watch, v->watched, s->limits.idle_seconds, 0);
  return respond_stream(c, &(respond_source){read_stream, leave_stream, l});
}

/* ---- answers --------------------------------------------------------------- */

static enum MHD_Result answer_question(view_server *s, struct MHD_Connection *c,
                                       visit *v) {
  view_reply reply = {0};
  size_t bytes;
  if (v->body.status) return refuse_body(s, c, v, v->body.status);
  if (!v->body.bytes &&
      (!body_take(&s->room, &v->body, "", 0) || v->body.status))
    return refuse_body(s, c, v, 503);
  if (view_is_long(v->verdict.name)) return answer_long(s, c, v);
  watch_works(s->watch, v->watched);
  if (!turns_ask(s->turns, v->socket, v->verdict.name, v->body.bytes,
                 v->body.length, &reply))
    return MHD_NO;
  body_clear(&s->room, &v->body);
  enum MHD_Result sent = respond_answer(c, &reply, &bytes);
  watch_sends(s->watch, v->watched, s->limits.arrive_seconds, bytes);
  return sent;
}

static enum MHD_Result answer_page(view_server *s, struct MHD_Connection *c,
                                   visit *v) {
  static const page_part parts[] = {[ASKS_PAGE] = PAGE_HTML,
                                    [ASKS_SCRIPT] = PAGE_SCRIPT,
                                    [ASKS_STYLE] = PAGE_STYLE};
  size_t bytes;
  enum MHD_Result sent =
      respond_page(c, &s->tags, parts[v->verdict.wish], &bytes);
  watch_sends(s->watch, v->watched, s->limits.arrive_seconds, bytes);
  return sent;
}

/* ---- what libmicrohttpd calls ---------------------------------------------- */

/* Once with the first lines, then with each piece of the body, then with none:
 * the request is there. */
static enum MHD_Result handle(void *user, struct MHD_Connection *c,
                              const char *path, const char *method,
                              const char *version, const char *bytes,
                              size_t *count, void **of_request) {
  view_server *s = user;
  visit *v = *of_request;
  (void)version;
  if (!v) {
    *of_request = v = begin_visit(s, c, method, path);
    return v ? welcome(s, c, v) : MHD_NO;
  }
  if (*count) {
    bool go_on = body_take(&s->room, &v->body, bytes, *count);
    *count = 0;
    return go_on ? MHD_YES : MHD_NO;
  }
  return v->verdict.wish == ASKS_QUESTION ? answer_question(s, c, v)
                                          : answer_page(s, c, v);
}

static void completed(void *user, struct MHD_Connection *c, void **of_request,
                      enum MHD_RequestTerminationCode how) {
  view_server *s = user;
  visit *v = *of_request;
  (void)c, (void)how;
  if (!v) return;
  watch_waits(s->watch, v->watched,
              s->limits.idle_seconds + s->limits.arrive_seconds);
  body_clear(&s->room, &v->body);
  free(v);
  *of_request = NULL;
}

static void connected(void *user, struct MHD_Connection *c, void **of_socket,
                      enum MHD_ConnectionNotificationCode what) {
  view_server *s = user;
  if (what == MHD_CONNECTION_NOTIFY_CLOSED) {
    watch_remove(s->watch, *of_socket);
    return;
  }
  int socket =
      MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
  *of_socket = watch_add(s->watch, socket, s->limits.arrive_seconds);
  if (!*of_socket) shutdown(socket, SHUT_RDWR);
}

/* Addresses are compared as they come: none of ours has anything escaped. */
static size_t leave_escaped(void *user, struct MHD_Connection *c, char *text) {
  (void)user, (void)c;
  return strlen(text);
}

/* ---- start and stop -------------------------------------------------------- */

static int or_default(int given, int otherwise) {
  return given > 0 ? given : otherwise;
}

static void set_limits(view_server *s, const view_server_options *o) {
  s->limits = *o;
  s->limits.most_connections = or_default(o->most_connections, 128);
  s->limits.most_streams = or_default(o->most_streams, 8);
  s->limits.arrive_seconds = or_default(o->arrive_seconds, 10);
  s->limits.idle_seconds = or_default(o->idle_seconds, 10);
  s->room.most = o->most_held ? o->most_held : (size_t)32 << 20;
  s->rules.port = o->port;
  s->rules.remote = o->allow_remote;
  s->rules.machine = s->machine;
  s->rules.token = o->token;
  if (gethostname(s->machine, sizeof s->machine - 1)) *s->machine = 0;
}

/* libmicrohttpd sets out from here to connected(); the place is taken already. */
static bool enter(int socket, const struct sockaddr *from, socklen_t length,
                  void *user) {
  view_server *s = user;
  return MHD_add_connection(s->daemon, socket, from, length) == MHD_YES;
}

/* The door bounds connections. libmicrohttpd must never do: at its own limit
 * version 0.9.75 locks itself out for good. */
static struct MHD_Daemon *start_daemon(view_server *s) {
  unsigned flags = MHD_USE_INTERNAL_POLLING_THREAD |
                   MHD_USE_THREAD_PER_CONNECTION | MHD_USE_POLL | MHD_USE_ITC |
                   MHD_USE_NO_LISTEN_SOCKET;
  return MHD_start_daemon(
      flags, 0, NULL, NULL, handle, s, MHD_OPTION_STRICT_FOR_CLIENT, 1,
      MHD_OPTION_CONNECTION_LIMIT, 1u << 20, MHD_OPTION_CONNECTION_TIMEOUT,
      (unsigned)s->limits.idle_seconds, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
      (size_t)HEADERS_MOST, MHD_OPTION_CONNECTION_MEMORY_INCREMENT,
      (size_t)4096, MHD_OPTION_THREAD_STACK_SIZE, (size_t)STACK,  //
      MHD_OPTION_UNESCAPE_CALLBACK, leave_escaped, NULL,
      MHD_OPTION_NOTIFY_COMPLETED, completed, s,  //
      MHD_OPTION_NOTIFY_CONNECTION, connected, s, MHD_OPTION_END);
}

/* Threads are born with these signals blocked. */
static bool start_threads(view_server *s, viewer *v, int listening) {
  sigset_t ours, before;
  sigemptyset(&ours);
  sigaddset(&ours, SIGINT);
  sigaddset(&ours, SIGTERM);
  sigaddset(&ours, SIGHUP);
  pthread_sigmask(SIG_BLOCK, &ours, &before);
  s->watch = watch_open(s->limits.most_connections);
  s->turns = turns_open(v);
  s->events = events_open(v, s->limits.most_streams);
  if (s->watch && s->turns && s->events) s->daemon = start_daemon(s);
  if (s->daemon)
    s->door = door_open(listening, s->watch, enter, s);
  else
    close(listening);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return s->door;
}

int view_server_start(viewer *v, const view_server_options *o,
                      view_server **server) {
  struct sigaction ignore = {.sa_handler = SIG_IGN};
  view_server_options asked = *o;
  int listening;
  *server = NULL;
  int code = view_listen(o->bind ? o->bind : "127.0.0.1", o->allow_remote,
                         &asked.port, &listening);
  if (code) return code;
  view_server *s = need(1, sizeof *s);
  set_limits(s, &asked);
  page_tags_make(&s->tags);
  sigaction(SIGPIPE, &ignore, &s->pipe);
  if (start_threads(s, v, listening)) return *server = s, EXIT_OK;
  complain("the server cannot be started: end other programs and try again");
  view_server_stop(s);
  return EXIT_FAILED;
}

int view_server_port(const view_server *s) { return s->rules.port; }

void view_server_stop(view_server *s) {
  if (!s) return;
  door_close(s->door);
  if (s->events) events_stop(s->events);
  if (s->turns) turns_stop(s->turns);
  if (s->daemon) MHD_stop_daemon(s->daemon);
  events_close(s->events);
  turns_close(s->turns);
  watch_close(s->watch);
  sigaction(SIGPIPE, &s->pipe, NULL);
  free(s);
}
