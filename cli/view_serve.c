/* attend view as a server: starts it, says where it is, waits for Ctrl-C.
 *
 * Place: cli/ - between the verb and view_server.h.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "view.h"
#ifdef ATTEND_HAVE_SERVER
#include "browser.h"
#include "view_server.h"

static void wait_for_end(const sigset_t *ends) {
  int which;
  while (sigwait(ends, &which)) continue;
}

static void say_where(const view_options *o, int port) {
  const char *host = o->bind ? o->bind : "127.0.0.1";
  bool six = strchr(host, ':') && host[0] != '[';
  char address[200];
  snprintf(address, sizeof address, "http://%s%s%s:%d/", six ? "[" : "", host,
           six ? "]" : "", port);
  printf("attend view: %s\nOpen it in a browser; Ctrl-C ends.\n", address);
  fflush(stdout);
  if (o->open) browser_open(address);
}

int view_serve(viewer *v, const view_options *o) {
  view_server_options wanted = {
      .bind = o->bind,
      .port = o->port,
      .allow_remote = o->allow_remote,
      .most_streams = 64}; /* they wait in line, and that costs little */
  view_server *server = NULL;
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGINT);
  sigaddset(&ends, SIGTERM);
  sigaddset(&ends, SIGHUP);
  pthread_sigmask(SIG_BLOCK, &ends, NULL);
  int code = viewer_share(v);
  if (!code) code = view_server_start(v, &wanted, &server);
  if (!code) {
    say_where(o, view_server_port(server));
    wait_for_end(&ends);
    view_server_stop(server);
  }
  viewer_unshare(v);
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
