/* attend view as a server: starts it, prints its address, waits for Ctrl-C. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "view/view.h"
#ifdef ATTEND_HAVE_SERVER
#include "folders.h"
#include "view/server.h"

static void wait_for_end(const sigset_t *ends) {
  int which;
  while (sigwait(ends, &which)) continue;
}

enum { TOKEN_BYTES = 16, ADDRESS = 240 };

typedef char token_hex[2 * TOKEN_BYTES + 1];

static bool make_token(token_hex token) {
  unsigned char bytes[TOKEN_BYTES];
  if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes) {
    complain("the system has no random bytes for a token: try --no-token");
    return false;
  }
  for (int i = 0; i < TOKEN_BYTES; i++) snprintf(token + 2 * i, 3, "%02x", bytes[i]);
  return true;
}

static void write_address(const view_options *o, int port, const char *token,
                          char address[ADDRESS]) {
  const char *host = o->bind ? o->bind : "127.0.0.1";
  bool six = strchr(host, ':') && host[0] != '[';
  snprintf(address, ADDRESS, "http://%s%s%s:%d/%s%s", six ? "[" : "", host, six ? "]" : "", port,
           token ? "?token=" : "", token ? token : "");
}

/* Opens a file that leads to the address, and that its owner alone can read: all
 * users of the machine see what programs are started with. The path, or NULL. */
static char *open_address(const char *address) {
  char *path = browser_file("view");
  FILE *out = path ? fopen(path, "w") : NULL;
  if (!out) return free(path), NULL;
  fprintf(out, "<!doctype html><meta http-equiv=\"refresh\" content=\"0;url=%s\">\n", address);
  fclose(out);
  browser_open(path);
  return path;
}

static void serve_until_end(const view_options *o, const char *address, const sigset_t *ends) {
  printf("attend view: %s\nOpen it in a browser; Ctrl-C ends.\n", address);
  fflush(stdout);
  char *opened = o->open ? open_address(address) : NULL;
  wait_for_end(ends);
  if (opened) unlink(opened);
  free(opened);
}

int view_serve(viewer *v, const view_options *o) {
  token_hex token;
  char address[ADDRESS];
  view_server_options wanted = {.bind = o->bind,
                                .port = o->port,
                                .allow_remote = o->allow_remote,
                                .token = o->no_token ? NULL : token,
                                .most_streams = 64}; /* most of them wait in the queue */
  view_server *server = NULL;
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGINT);
  sigaddset(&ends, SIGTERM);
  sigaddset(&ends, SIGHUP);
  pthread_sigmask(SIG_BLOCK, &ends, NULL);
  if (!o->no_token && !make_token(token)) return EXIT_FAILED;
  attend_status status = attend_viewer_start(v->session);
  v->live = true;
  int code = status ? complain_status(v->ctx, status) : EXIT_OK;
  if (!code) code = view_server_start(v, &wanted, &server);
  if (!code) {
    write_address(o, view_server_port(server), wanted.token, address);
    serve_until_end(o, address, &ends);
    view_server_stop(server);
  }
  attend_viewer_stop(v->session);
  return code;
}
#else
int view_serve(viewer *v, const view_options *o) {
  (void)v;
  (void)o;
  complain(
      "this build has no server: write a page with --out page.html, or "
      "build with ATTEND_VIEW on");
  return EXIT_FAILED;
}
#endif
