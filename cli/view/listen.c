/* The listening socket of `attend view`, and the thread that accepts connections. */
#define _GNU_SOURCE /* accept4 */
#include "view/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cli.h"

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
    complain(
        "port %d of %s is in use by another program: choose another port, or "
        "port 0 for a free one",
        port, a->text);
  else if (error == EACCES)
    complain("port %d of %s may not be opened: choose one above 1023", port, a->text);
  else if (error == EADDRNOTAVAIL)
    complain("%s is no address of this machine: bind to 127.0.0.1", a->text);
  else
    complain("port %d of %s cannot be opened (%s): choose another", port, a->text, strerror(error));
  return EXIT_FAILED;
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

/* ---- accepting ----------------------------------------------------------------- */

struct acceptor {
  int listening;
  deadlines *deadlines;
  acceptor_enter enter;
  void *user;
  atomic_bool closing;
  pthread_t thread;
};

static bool accept_one(acceptor *d) {
  struct sockaddr_storage from;
  socklen_t length = sizeof from;
  int s = accept4(d->listening, (struct sockaddr *)&from, &length, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (s >= 0) return d->enter(s, (struct sockaddr *)&from, length, d->user);
  if (errno != EINTR && errno != ECONNABORTED)
    usleep(50000); /* out of descriptors or memory: try again soon */
  return false;
}

static void *accept_loop(void *user) {
  acceptor *d = user;
  while (!d->closing)
    if (deadlines_take_slot(d->deadlines) && !accept_one(d)) deadlines_remove(d->deadlines, NULL);
  return NULL;
}

acceptor *acceptor_open(int listening, deadlines *w, acceptor_enter enter, void *user) {
  acceptor *d = calloc(1, sizeof *d);
  if (d) {
    *d = (acceptor){listening, w, enter, user, false, 0};
    if (!pthread_create(&d->thread, NULL, accept_loop, d)) return d;
  }
  free(d);
  close(listening);
  return NULL;
}

void acceptor_close(acceptor *d) {
  if (!d) return;
  d->closing = true;
  shutdown(d->listening, SHUT_RDWR); /* ends accept */
  pthread_join(d->thread, NULL);
  close(d->listening);
  free(d);
}
