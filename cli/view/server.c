/* The server of `attend view`: libmicrohttpd on one side, server.h on the other.
 *
 * An exchange: the headers are checked (guard.h), the body arrives, the response is computed
 * and sent.
 */
#define _GNU_SOURCE /* accept4 */
#include "view/server.h"

#include <errno.h>
#include <microhttpd.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "cli.h"
#include "view/connections.h"
#include "view/guard.h"

/* ---- the body of a request while it arrives ---------------------------------------- */

/* Bounded by itself and in total. A body that is too long is dropped but read to its end,
 * since a client that still sends does not read the refusal; one that is far too long is cut
 * off. */
enum { BODY_MOST = 1 << 20, BODY_READ_ON = 8 << 20 };

/* Bytes of all bodies above the small size that each may have. */
typedef struct {
  atomic_size_t held;
  size_t max;
} body_limit;

typedef struct {
  char *bytes; /* [length], then a 0; NULL while there are none */
  size_t length, capacity;
  size_t dropped; /* bytes read and dropped */
  int status;     /* 413: too long, 503: too much at once; else 0 */
} view_body;

/* Small requests do not count, so that large ones cannot block them. */
enum { SMALL = 1 << 14 };

static size_t counted(size_t capacity) { return capacity > SMALL ? capacity : 0; }

static bool grow(body_limit *limit, view_body *b, size_t length) {
  size_t capacity = SMALL;
  while (capacity < length + 1) capacity *= 2;
  if (b->bytes && capacity <= b->capacity) return true;
  size_t more = counted(capacity) - counted(b->capacity);
  bool fits = atomic_fetch_add(&limit->held, more) + more <= limit->max;
  char *bytes = fits || !more ? realloc(b->bytes, capacity) : NULL;
  if (!bytes) {
    atomic_fetch_sub(&limit->held, more);
    return false;
  }
  b->bytes = bytes;
  b->capacity = capacity;
  return true;
}

static bool drop_bytes(view_body *b, size_t count) {
  b->dropped += count;
  return b->dropped <= BODY_READ_ON;
}

/* The bytes now belong to the caller and no longer count. */
static char *body_release(body_limit *limit, view_body *b) {
  char *bytes = b->bytes;
  atomic_fetch_sub(&limit->held, counted(b->capacity));
  b->bytes = NULL;
  b->capacity = 0;
  return bytes;
}

static void body_clear(body_limit *limit, view_body *b) {
  free(body_release(limit, b));
  b->length = 0;
}

/* False: it is time to cut the connection. */
static bool body_take(body_limit *limit, view_body *b, const char *bytes, size_t count) {
  if (b->status) return drop_bytes(b, count);
  if (count > BODY_MOST - b->length)
    b->status = 413;
  else if (!grow(limit, b, b->length + count))
    b->status = 503;
  if (b->status) {
    body_clear(limit, b);
    return drop_bytes(b, count);
  }
  if (count) memcpy(b->bytes + b->length, bytes, count);
  b->length += count;
  b->bytes[b->length] = 0;
  return true;
}

/* ---- responses ----------------------------------------------------------------------------- */

enum { TAG_SIZE = 24 };

/* ETags of the files, plain and in gzip. */
typedef struct {
  char plain[PAGE_FILES][TAG_SIZE], packed[PAGE_FILES][TAG_SIZE];
} page_tags;

enum { STREAM_BLOCK = 1 << 14 };

typedef struct {
  const char *name, *value;
} header;

static const header every_reply[] = {
    {"Content-Security-Policy",
     "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' "
     "blob: data:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
     "frame-ancestors 'none'"},
    {"X-Content-Type-Options", "nosniff"},
    {"Referrer-Policy", "no-referrer"},
    {"Cross-Origin-Opener-Policy", "same-origin"},
    {"Cross-Origin-Resource-Policy", "same-origin"},
};
enum { EVERY_REPLY = sizeof every_reply / sizeof *every_reply };

static bool add(struct MHD_Response *r, const char *name, const char *value) {
  return MHD_add_response_header(r, name, value) == MHD_YES;
}

/* Queues the response and drops its reference in any case. */
static enum MHD_Result send_reply(struct MHD_Connection *c, int status, const char *type,
                                  const char *cached, struct MHD_Response *r) {
  bool fine = add(r, "Cache-Control", cached);
  if (type) fine = add(r, "Content-Type", type) && fine;
  for (int i = 0; i < EVERY_REPLY; i++)
    fine = add(r, every_reply[i].name, every_reply[i].value) && fine;
  enum MHD_Result sent = MHD_NO;
  if (fine) sent = MHD_queue_response(c, (unsigned)status, r);
  MHD_destroy_response(r);
  return sent;
}

/* ---- the page -------------------------------------------------------------- */

/* FNV-1a. */
static uint64_t hash(const unsigned char *bytes, size_t length) {
  uint64_t h = 0xcbf29ce484222325u;
  for (size_t i = 0; i < length; i++) h = (h ^ bytes[i]) * 0x100000001b3u;
  return h;
}

static void page_tags_make(page_tags *tags) {
  for (int i = 0; i < PAGE_FILES; i++) {
    page_file f = page_data((page_part)i);
    unsigned long long h = hash(f.bytes, f.length);
    snprintf(tags->plain[i], TAG_SIZE, "\"%016llx\"", h);
    snprintf(tags->packed[i], TAG_SIZE, "\"%016llx-gz\"", h);
  }
}

static const char *header_of(struct MHD_Connection *c, const char *name) {
  return MHD_lookup_connection_value(c, MHD_HEADER_KIND, name);
}

static enum MHD_Result respond_page(struct MHD_Connection *c, const page_tags *tags, page_part part,
                                    size_t *bytes) {
  page_file f = page_data(part);
  bool packed = guard_takes_gzip(header_of(c, "Accept-Encoding"));
  const char *tag = packed ? tags->packed[part] : tags->plain[part];
  bool known = guard_has_tag(header_of(c, "If-None-Match"), tag);
  *bytes = known ? 0 : packed ? f.packed_length : f.length;
  struct MHD_Response *r = MHD_create_response_from_buffer(
      *bytes, (void *)(packed ? f.packed : f.bytes), MHD_RESPMEM_PERSISTENT);
  if (!r) return MHD_NO;
  bool fine = add(r, "ETag", tag) && add(r, "Vary", "Accept-Encoding");
  if (packed && !known) fine = add(r, "Content-Encoding", "gzip") && fine;
  if (fine) return send_reply(c, known ? 304 : 200, known ? NULL : f.type, "no-cache", r);
  MHD_destroy_response(r);
  return MHD_NO;
}

/* ---- answers --------------------------------------------------------------- */

static enum MHD_Result respond_answer(struct MHD_Connection *c, view_reply *reply, size_t *bytes) {
  struct MHD_Response *r =
      MHD_create_response_from_buffer(reply->length, reply->bytes, MHD_RESPMEM_MUST_FREE);
  *bytes = reply->length;
  if (!r) return free(reply->bytes), MHD_NO;
  return send_reply(c, reply->status, reply->type, "no-store", r);
}

static enum MHD_Result respond_refusal(struct MHD_Connection *c, int status, const char *sentence,
                                       const char *allow, size_t *bytes) {
  char text[512];
  *bytes = (size_t)snprintf(text, sizeof text, "{\"error\": \"%s\"}\n", sentence);
  struct MHD_Response *r = MHD_create_response_from_buffer(*bytes, text, MHD_RESPMEM_MUST_COPY);
  if (!r) return MHD_NO;
  if (!allow || add(r, "Allow", allow))
    return send_reply(c, status, "application/json", "no-store", r);
  MHD_destroy_response(r);
  return MHD_NO;
}

/* ---- exchanges ----------------------------------------------------------------------------- */

enum {
  HEADERS_MOST = 1 << 15, /* bytes, with what else a connection needs */
  STACK = 1 << 18,        /* of a connection's thread: it computes nothing */
  HOST_NAME = 256,
};

struct view_server {
  viewer *viewer;
  struct MHD_Daemon *daemon;
  view_server_options limits;
  guard_rules rules;
  char machine[HOST_NAME];
  page_tags tags;
  body_limit bodies;
  deadlines *deadlines;
  int listening;
  pthread_t accepting;
  bool accepts; /* accepting was started */
  atomic_bool stopping;
  events *events;
  struct sigaction pipe; /* what SIGPIPE did before */
};

typedef struct {
  deadline *deadline;
  int socket;
  guard_verdict verdict;
  view_body body;
} exchange;

/* ---- headers ------------------------------------------------------- */

static enum MHD_Result note_header(void *user, enum MHD_ValueKind kind, const char *name,
                                   const char *value) {
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

static enum MHD_Result note_argument(void *user, enum MHD_ValueKind kind, const char *name,
                                     const char *value) {
  guard_request *q = user;
  (void)kind;
  if (strcmp(name, "token")) return MHD_YES;
  if (q->token) q->twice = true;
  q->token = value ? value : "";
  return MHD_YES;
}

static exchange *begin_exchange(view_server *s, struct MHD_Connection *c, const char *method,
                                const char *path) {
  guard_request q = {.method = method, .path = path};
  exchange *v = calloc(1, sizeof *v);
  if (!v) return NULL;
  v->deadline = MHD_get_connection_info(c, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
  v->socket = MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
  MHD_get_connection_values(c, MHD_HEADER_KIND, note_header, &q);
  MHD_get_connection_values(c, MHD_GET_ARGUMENT_KIND, note_argument, &q);
  v->verdict = guard_check(&s->rules, &q);
  if (v->verdict.status == 200 && v->verdict.target == TARGET_REQUEST &&
      !view_knows(v->verdict.name)) {
    v->verdict.status = 404;
    v->verdict.sentence = "there is no such request";
  }
  return v;
}

static enum MHD_Result refuse(view_server *s, struct MHD_Connection *c, exchange *v, int status,
                              const char *sentence) {
  size_t bytes;
  enum MHD_Result sent = respond_refusal(c, status, sentence, v->verdict.allow, &bytes);
  deadline_send(s->deadlines, v->deadline, s->limits.arrive_seconds, bytes);
  return sent;
}

static enum MHD_Result refuse_body(view_server *s, struct MHD_Connection *c, exchange *v,
                                   int status) {
  return refuse(s, c, v, status,
                status == 413 ? "the request has more than 1 MiB: shorten the text"
                              : "too many large requests at once: try again");
}

/* Whether a body is announced that will not be read: one that is far too long,
 * or one whose sender waits to hear whether to send it. */
static bool announces_too_much(struct MHD_Connection *c) {
  const char *length = MHD_lookup_connection_value(c, MHD_HEADER_KIND, "Content-Length");
  unsigned long long bytes = length ? strtoull(length, NULL, 10) : 0;
  bool expects = MHD_lookup_connection_value(c, MHD_HEADER_KIND, "Expect");
  return bytes > (expects ? BODY_MOST : BODY_READ_ON);
}

static enum MHD_Result check_headers(view_server *s, struct MHD_Connection *c, exchange *v) {
  if (v->verdict.status != 200) return refuse(s, c, v, v->verdict.status, v->verdict.sentence);
  if (announces_too_much(c)) return refuse_body(s, c, v, 413);
  return MHD_YES;
}

/* ---- long answers ---------------------------------------------------------- */

typedef struct {
  view_server *server;
  deadline *deadline;
  stream *stream;
} stream_reader;

static ssize_t read_stream(void *user, uint64_t at, char *to, size_t max) {
  stream_reader *l = user;
  (void)at;
  deadline_compute(l->server->deadlines, l->deadline);
  long taken = stream_read(l->stream, to, max);
  deadline_send(l->server->deadlines, l->deadline, l->server->limits.idle_seconds, 0);
  if (taken == STREAM_END) return MHD_CONTENT_READER_END_OF_STREAM;
  return taken < 0 ? MHD_CONTENT_READER_END_WITH_ERROR : taken;
}

static void leave_stream(void *user) {
  stream_reader *l = user;
  stream_leave(l->stream);
  free(l);
}

static enum MHD_Result answer_long(view_server *s, struct MHD_Connection *c, exchange *v) {
  stream_reader *l = calloc(1, sizeof *l);
  if (!l) return MHD_NO;
  *l = (stream_reader){.server = s, .deadline = v->deadline};
  l->stream = stream_open(s->events, v->socket, v->verdict.name, v->body.bytes, v->body.length);
  if (!l->stream) {
    free(l);
    return refuse(s, c, v, 503,
                  "too much is being worked on: wait until something ends, or close another page");
  }
  body_release(&s->bodies, &v->body);
  deadline_send(s->deadlines, v->deadline, s->limits.idle_seconds, 0);
  struct MHD_Response *r = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, STREAM_BLOCK,
                                                             read_stream, l, leave_stream);
  if (!r) return leave_stream(l), MHD_NO;
  return send_reply(c, 200, "text/event-stream", "no-store", r);
}

/* ---- answers --------------------------------------------------------------- */

typedef struct {
  view_server *server;
  int socket;
} client;

/* The other side has closed the connection, or the server stops. */
static bool client_has_left(void *user) {
  const client *c = user;
  return c->server->stopping || socket_is_closed(c->socket);
}

static enum MHD_Result answer_request(view_server *s, struct MHD_Connection *c, exchange *v) {
  view_reply reply = {0};
  size_t bytes;
  if (v->body.status) return refuse_body(s, c, v, v->body.status);
  if (!v->body.bytes && (!body_take(&s->bodies, &v->body, "", 0) || v->body.status))
    return refuse_body(s, c, v, 503);
  if (view_is_long(v->verdict.name)) return answer_long(s, c, v);
  deadline_compute(s->deadlines, v->deadline);
  if (!view_answer(s->viewer, v->verdict.name, v->body.bytes, v->body.length, client_has_left,
                   &(client){s, v->socket}, &reply))
    return MHD_NO;
  body_clear(&s->bodies, &v->body);
  enum MHD_Result sent = respond_answer(c, &reply, &bytes);
  deadline_send(s->deadlines, v->deadline, s->limits.arrive_seconds, bytes);
  return sent;
}

static enum MHD_Result answer_page(view_server *s, struct MHD_Connection *c, exchange *v) {
  static const page_part parts[] = {
      [TARGET_PAGE] = PAGE_HTML, [TARGET_SCRIPT] = PAGE_SCRIPT, [TARGET_STYLE] = PAGE_STYLE};
  size_t bytes;
  enum MHD_Result sent = respond_page(c, &s->tags, parts[v->verdict.target], &bytes);
  deadline_send(s->deadlines, v->deadline, s->limits.arrive_seconds, bytes);
  return sent;
}

/* ---- what libmicrohttpd calls ---------------------------------------------- */

/* Called with the headers, then with each chunk of the body, then at its end. */
static enum MHD_Result handle(void *user, struct MHD_Connection *c, const char *path,
                              const char *method, const char *version, const char *bytes,
                              size_t *count, void **of_request) {
  view_server *s = user;
  exchange *v = *of_request;
  (void)version;
  if (!v) {
    *of_request = v = begin_exchange(s, c, method, path);
    return v ? check_headers(s, c, v) : MHD_NO;
  }
  if (*count) {
    bool go_on = body_take(&s->bodies, &v->body, bytes, *count);
    *count = 0;
    return go_on ? MHD_YES : MHD_NO;
  }
  return v->verdict.target == TARGET_REQUEST ? answer_request(s, c, v) : answer_page(s, c, v);
}

static void completed(void *user, struct MHD_Connection *c, void **of_request,
                      enum MHD_RequestTerminationCode how) {
  view_server *s = user;
  exchange *v = *of_request;
  (void)c, (void)how;
  if (!v) return;
  deadline_receive(s->deadlines, v->deadline, s->limits.idle_seconds + s->limits.arrive_seconds);
  body_clear(&s->bodies, &v->body);
  free(v);
  *of_request = NULL;
}

static void connected(void *user, struct MHD_Connection *c, void **of_socket,
                      enum MHD_ConnectionNotificationCode what) {
  view_server *s = user;
  if (what == MHD_CONNECTION_NOTIFY_CLOSED) {
    deadlines_remove(s->deadlines, *of_socket);
    return;
  }
  int socket = MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
  *of_socket = deadlines_add(s->deadlines, socket, s->limits.arrive_seconds);
  if (!*of_socket) shutdown(socket, SHUT_RDWR);
}

/* Addresses are compared as they come: none of ours has anything escaped. */
static size_t leave_escaped(void *user, struct MHD_Connection *c, char *text) {
  (void)user, (void)c;
  return strlen(text);
}

/* ---- start and stop -------------------------------------------------------- */

static int or_default(int given, int otherwise) { return given > 0 ? given : otherwise; }

static void set_limits(view_server *s, const view_server_options *o) {
  s->limits = *o;
  s->limits.most_connections = or_default(o->most_connections, 128);
  s->limits.most_streams = or_default(o->most_streams, 8);
  s->limits.arrive_seconds = or_default(o->arrive_seconds, 10);
  s->limits.idle_seconds = or_default(o->idle_seconds, 10);
  s->bodies.max = o->most_bytes ? o->most_bytes : (size_t)32 << 20;
  s->rules.port = o->port;
  s->rules.remote = o->allow_remote;
  s->rules.machine = s->machine;
  s->rules.token = o->token;
  if (gethostname(s->machine, sizeof s->machine - 1)) *s->machine = 0;
}

/* libmicrohttpd would accept every connection and close those above its limit; here they
 * stay in the backlog until there is a slot. False: the slot is free again. */
static bool accept_one(view_server *s) {
  struct sockaddr_storage from;
  socklen_t length = sizeof from;
  int socket =
      accept4(s->listening, (struct sockaddr *)&from, &length, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (socket >= 0) /* calls connected() */
    return MHD_add_connection(s->daemon, socket, (struct sockaddr *)&from, length) == MHD_YES;
  if (errno != EINTR && errno != ECONNABORTED)
    usleep(50000); /* out of descriptors or memory: try again soon */
  return false;
}

static void *accept_connections(void *user) {
  view_server *s = user;
  while (!s->stopping)
    if (deadlines_take_slot(s->deadlines) && !accept_one(s)) deadlines_remove(s->deadlines, NULL);
  return NULL;
}

/* accept_connections bounds connections. libmicrohttpd must not: at its own limit version
 * 0.9.75 deadlocks. */
static struct MHD_Daemon *start_daemon(view_server *s) {
  unsigned flags = MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_THREAD_PER_CONNECTION | MHD_USE_POLL |
                   MHD_USE_ITC | MHD_USE_NO_LISTEN_SOCKET;
  return MHD_start_daemon(flags, 0, NULL, NULL, handle, s, MHD_OPTION_STRICT_FOR_CLIENT, 1,
                          MHD_OPTION_CONNECTION_LIMIT, 1u << 20, MHD_OPTION_CONNECTION_TIMEOUT,
                          (unsigned)s->limits.idle_seconds, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
                          (size_t)HEADERS_MOST, MHD_OPTION_CONNECTION_MEMORY_INCREMENT,
                          (size_t)4096, MHD_OPTION_THREAD_STACK_SIZE, (size_t)STACK,  //
                          MHD_OPTION_UNESCAPE_CALLBACK, leave_escaped, NULL,
                          MHD_OPTION_NOTIFY_COMPLETED, completed, s,  //
                          MHD_OPTION_NOTIFY_CONNECTION, connected, s, MHD_OPTION_END);
}

/* Threads are born with these signals blocked. */
static bool start_threads(view_server *s, viewer *v) {
  sigset_t ours, before;
  sigemptyset(&ours);
  sigaddset(&ours, SIGINT);
  sigaddset(&ours, SIGTERM);
  sigaddset(&ours, SIGHUP);
  pthread_sigmask(SIG_BLOCK, &ours, &before);
  s->deadlines = deadlines_open(s->limits.most_connections);
  s->events = events_open(v, s->limits.most_streams);
  if (s->deadlines && s->events) s->daemon = start_daemon(s);
  if (s->daemon) s->accepts = !pthread_create(&s->accepting, NULL, accept_connections, s);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return s->accepts;
}

int view_server_start(viewer *v, const view_server_options *o, view_server **server) {
  struct sigaction ignore = {.sa_handler = SIG_IGN};
  view_server_options asked = *o;
  int listening;
  *server = NULL;
  int code = view_listen(o->bind ? o->bind : "127.0.0.1", o->allow_remote, &asked.port, &listening);
  if (code) return code;
  view_server *s = need(1, sizeof *s);
  s->viewer = v;
  s->listening = listening;
  set_limits(s, &asked);
  page_tags_make(&s->tags);
  sigaction(SIGPIPE, &ignore, &s->pipe);
  if (start_threads(s, v)) return *server = s, EXIT_OK;
  complain("the server cannot be started: end other programs and try again");
  view_server_stop(s);
  return EXIT_FAILED;
}

int view_server_port(const view_server *s) { return s->rules.port; }

void view_server_stop(view_server *s) {
  if (!s) return;
  s->stopping = true;
  shutdown(s->listening, SHUT_RDWR); /* ends accept */
  if (s->accepts) pthread_join(s->accepting, NULL);
  close(s->listening);
  if (s->events) events_stop(s->events);
  if (s->daemon) MHD_stop_daemon(s->daemon);
  events_close(s->events);
  deadlines_close(s->deadlines);
  sigaction(SIGPIPE, &s->pipe, NULL);
  free(s);
}
