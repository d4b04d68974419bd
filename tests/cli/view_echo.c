/* The server of `attend view` with a viewer whose answers are known beforehand:
 *
 *   view_echo [NAME=NUMBER | bind=ADDRESS | token=TEXT | remote]...
 *
 * prints the port, serves until its input ends, stops, and prints what it was
 * asked. Questions: echo (its body, reversed), bytes (as many as the body says),
 * slow (3 seconds); long: run (five times progress, a token, done), endless (a
 * token every 10 ms), flood (as much as is taken, without end).
 */
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "view/server.h"

struct viewer {
  atomic_int answers, begun, ended, unheard;
};

/* ---- what attend.c has for the program ------------------------------------- */

int complain(const char *sentence, ...) {
  va_list args;
  fputs("attend: ", stderr);
  va_start(args, sentence);
  vfprintf(stderr, sentence, args);
  va_end(args);
  fputc('\n', stderr);
  return EXIT_FAILED;
}

void *need(size_t count, size_t size) {
  void *block = calloc(count, size);
  if (!block) exit(EXIT_FAILED);
  return block;
}

/* ---- the viewer ------------------------------------------------------------ */

static bool among(const char *name, const char *const *names) {
  while (*names && strcmp(name, *names)) names++;
  return *names;
}

bool view_is_long(const char *name) {
  static const char *const names[] = {"run", "endless", "flood", NULL};
  return among(name, names);
}

bool view_knows(const char *name) {
  static const char *const names[] = {"echo", "bytes", "slow", NULL};
  return among(name, names) || view_is_long(name);
}

static void answer_echo(const char *body, size_t length, view_reply *r) {
  char *bytes = need(length + 1, 1);
  for (size_t i = 0; i < length; i++) bytes[i] = body[length - 1 - i];
  *r = (view_reply){200, "application/octet-stream", bytes, length};
}

static void answer_bytes(const char *body, view_reply *r) {
  size_t length = strtoul(body, NULL, 10);
  unsigned char *bytes = need(length + 1, 1);
  for (size_t i = 0; i < length; i++) bytes[i] = (unsigned char)(i * 31 + i / 256);
  *r = (view_reply){200, "application/octet-stream", bytes, length};
}

bool view_answer(viewer *v, const char *name, const char *body, size_t length,
                 view_cancelled cancelled, void *user, view_reply *reply) {
  (void)cancelled, (void)user;
  v->answers++;
  if (strlen(body) > length) exit(EXIT_FAILED); /* no 0 at its end */
  if (!strcmp(name, "slow")) sleep(3);
  if (!strcmp(name, "bytes"))
    answer_bytes(body, reply);
  else
    answer_echo(body, length, reply);
  return true;
}

static int say_run(view_say say, void *user) {
  char text[64];
  for (int i = 1; i <= 5; i++) {
    snprintf(text, sizeof text, "{\"done\": %d, \"total\": 5}", i);
    if (say("progress", text, user)) return 1;
  }
  return say("token", "{\"text\": \"a\\nb\"}", user) || say("done", "{\"run\":\n 1}", user);
}

static int say_without_end(view_say say, void *user, const char *data, unsigned pause) {
  while (!say("token", data, user)) usleep(pause);
  return 1;
}

void view_stream(viewer *v, const char *name, const char *body, size_t length, view_say say,
                 void *user) {
  enum { LONG_DATA = 60000 };
  int unheard;
  (void)body, (void)length;
  v->begun++;
  if (!strcmp(name, "run")) {
    unheard = say_run(say, user);
  } else if (!strcmp(name, "endless")) {
    unheard = say_without_end(say, user, "{}", 10000);
  } else {
    char *data = memset(need(LONG_DATA + 1, 1), 'x', LONG_DATA);
    unheard = say_without_end(say, user, data, 0);
    free(data);
  }
  v->unheard += unheard;
  v->ended++;
}

/* ---- the program ----------------------------------------------------------- */

static void read_option(const char *text, view_server_options *o) {
  const struct {
    const char *name;
    int *value;
  } numbers[] = {{"port=", &o->port},
                 {"connections=", &o->most_connections},
                 {"streams=", &o->most_streams},
                 {"arrive=", &o->arrive_seconds},
                 {"idle=", &o->idle_seconds}};
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
    size_t n = strlen(numbers[i].name);
    if (!strncmp(text, numbers[i].name, n)) *numbers[i].value = atoi(text + n);
  }
  if (!strncmp(text, "held=", 5)) o->most_bytes = strtoul(text + 5, NULL, 10);
  if (!strncmp(text, "bind=", 5)) o->bind = text + 5;
  if (!strncmp(text, "token=", 6)) o->token = text + 6;
  if (!strcmp(text, "remote")) o->allow_remote = true;
}

int main(int argc, char **argv) {
  view_server_options o = {0};
  view_server *server;
  viewer v = {0};
  for (int i = 1; i < argc; i++) read_option(argv[i], &o);
  int code = view_server_start(&v, &o, &server);
  if (code) return code;
#ifdef ATTEND_SANITIZED
  const char *deadline = "sanitized";
#else
  const char *deadline = "plain";
#endif
  printf("%d %s\n", view_server_port(server), deadline);
  fflush(stdout);
  while (getchar() != EOF) continue;
  view_server_stop(server);
  printf("answers=%d begun=%d ended=%d unheard=%d\n", v.answers, v.begun, v.ended, v.unheard);
  return EXIT_OK;
}
