/* Questions take turns: a few threads compute, however many connections ask.
 *
 * Between the server's connections and view_answer.
 */
#include "view/turns.h"

#include <pthread.h>
#include <stdlib.h>

#include "view/watch.h"

/* One computes at a time; the others have a cheap answer at hand meanwhile. */
enum { THREADS = 4 };

/* On the stack of who asks. */
typedef struct turn {
  struct turn *next;
  const char *name, *body;
  size_t length;
  int socket;
  view_reply *reply;
  bool ended, answered;
  pthread_cond_t end;
} turn;

struct turns {
  viewer *v;
  pthread_mutex_t lock;
  pthread_cond_t came;
  turn *first, **last;
  bool stopped;
  pthread_t thread[THREADS];
  int threads;
};

static turn *take(turns *t) {
  turn *q = t->first;
  t->first = q->next;
  if (!t->first) t->last = &t->first;
  return q;
}

static void finish(turn *q, bool answered) {
  q->ended = true;
  q->answered = answered;
  pthread_cond_signal(&q->end);
}

static void serve(turns *t, turn *q) {
  pthread_mutex_unlock(&t->lock);
  bool here = !socket_is_left(q->socket);
  if (here) view_answer(t->v, q->name, q->body, q->length, q->reply);
  pthread_mutex_lock(&t->lock);
  finish(q, here);
}

static void *answer(void *user) {
  turns *t = user;
  pthread_mutex_lock(&t->lock);
  while (!t->stopped) {
    if (t->first)
      serve(t, take(t));
    else
      pthread_cond_wait(&t->came, &t->lock);
  }
  pthread_mutex_unlock(&t->lock);
  return NULL;
}

turns *turns_open(viewer *v) {
  turns *t = calloc(1, sizeof *t);
  if (!t) return NULL;
  t->v = v;
  t->last = &t->first;
  pthread_mutex_init(&t->lock, NULL);
  pthread_cond_init(&t->came, NULL);
  while (t->threads < THREADS &&
         !pthread_create(&t->thread[t->threads], NULL, answer, t))
    t->threads++;
  if (t->threads) return t;
  turns_close(t);
  return NULL;
}

void turns_stop(turns *t) {
  pthread_mutex_lock(&t->lock);
  t->stopped = true;
  while (t->first) finish(take(t), false);
  pthread_cond_broadcast(&t->came);
  pthread_mutex_unlock(&t->lock);
}

void turns_close(turns *t) {
  if (!t) return;
  turns_stop(t);
  for (int i = 0; i < t->threads; i++) pthread_join(t->thread[i], NULL);
  pthread_cond_destroy(&t->came);
  pthread_mutex_destroy(&t->lock);
  free(t);
}

bool turns_ask(turns *t, int socket, const char *name, const char *body,
               size_t length, view_reply *reply) {
  turn q = {.name = name, .body = body, .length = length, .reply = reply};
  q.socket = socket;
  pthread_cond_init(&q.end, NULL);
  pthread_mutex_lock(&t->lock);
  q.ended = t->stopped;
  if (!q.ended) {
    *t->last = &q;
    t->last = &q.next;
    pthread_cond_signal(&t->came);
  }
  while (!q.ended) pthread_cond_wait(&q.end, &t->lock);
  pthread_mutex_unlock(&t->lock);
  pthread_cond_destroy(&q.end);
  return q.answered;
}
