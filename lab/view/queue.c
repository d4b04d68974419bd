/* The one queue of a viewer and the one thread that works on it.
 *
 * A context belongs to one thread, and every call uses all cores anyway: callers wait.
 * Of two lines the long one moves one task at a time; quick tasks also run between the
 * steps of a long call.
 */
#define _GNU_SOURCE /* clock_gettime */
#include <pthread.h>
#include <time.h>

#include "view/session.h"

typedef struct task {
  struct task *next;
  const attend_viewer_task *of;
  bool begun, done;
} task;

struct view_queue {
  pthread_t thread;
  pthread_mutex_t lock;
  pthread_cond_t added, finished;
  task *line[2]; /* quick, long */
  bool ending;
};

static task *first(struct view_queue *q, int line) {
  task *t = q->line[line];
  if (t) q->line[line] = t->next;
  if (t) t->begun = true;
  return t;
}

static void append(struct view_queue *q, task *t) {
  task **at = &q->line[t->of->is_long];
  while (*at) at = &(*at)->next;
  *at = t;
  pthread_cond_signal(&q->added);
}

static void cancel(struct view_queue *q, task *t) {
  task **at = &q->line[t->of->is_long];
  while (*at && *at != t) at = &(*at)->next;
  if (*at) *at = t->next;
}

/* ---- the thread ------------------------------------------------------------------------ */

static void work_on(struct view_queue *q, task *t) {
  t->of->work(t->of->user);
  pthread_mutex_lock(&q->lock);
  t->done = true;
  pthread_cond_broadcast(&q->finished);
  pthread_mutex_unlock(&q->lock);
}

static void *work(void *user) {
  struct view_queue *q = user;
  pthread_mutex_lock(&q->lock);
  for (;;) {
    task *t = first(q, 0);
    if (!t) t = first(q, 1);
    if (!t && q->ending) break;
    if (!t) {
      pthread_cond_wait(&q->added, &q->lock);
      continue;
    }
    pthread_mutex_unlock(&q->lock);
    work_on(q, t);
    pthread_mutex_lock(&q->lock);
  }
  pthread_mutex_unlock(&q->lock);
  return NULL;
}

static void queue_yield(attend_viewer *v) {
  struct view_queue *q = v->queue;
  while (q) {
    pthread_mutex_lock(&q->lock);
    task *t = first(q, 0);
    pthread_mutex_unlock(&q->lock);
    if (!t) return;
    work_on(q, t);
  }
}

static bool queue_ending(const attend_viewer *v) {
  struct view_queue *q = v->queue;
  if (!q) return false;
  pthread_mutex_lock(&q->lock);
  bool ending = q->ending;
  pthread_mutex_unlock(&q->lock);
  return ending;
}

int job_progress(view_job *j, double done, const char *what) {
  const attend_viewer_listener *l = &j->listener;
  if (!l->size) return 0;
  queue_yield(j->v);
  double now = seconds_now();
  if (now - j->reported < 0.1) return 0;
  j->reported = now;
  if (queue_ending(j->v)) return 1;
  return l->progress ? l->progress(done, what, l->user) : 0;
}

static void queue_free(attend_viewer *v) {
  struct view_queue *q = v->queue;
  pthread_mutex_destroy(&q->lock);
  pthread_cond_destroy(&q->added);
  pthread_cond_destroy(&q->finished);
  v->queue = NULL;
  ctx_free(v->ctx, q);
}

attend_status attend_viewer_start(attend_viewer *v) {
  struct view_queue *q;
  ATTEND_CHECK(v->ctx, !v->queue, "this viewer has its thread already");
  ATTEND_TRY(ctx_alloc_zeroed(v->ctx, sizeof *q, "the queue of a viewer", &q));
  pthread_mutex_init(&q->lock, NULL);
  pthread_cond_init(&q->added, NULL);
  pthread_cond_init(&q->finished, NULL);
  v->queue = q;
  if (!pthread_create(&q->thread, NULL, work, q)) return ATTEND_OK;
  queue_free(v);
  return fail(v->ctx, ATTEND_NO_MEMORY, "no thread could be started to compute in");
}

void attend_viewer_stop(attend_viewer *v) {
  struct view_queue *q = v->queue;
  if (!q) return;
  pthread_mutex_lock(&q->lock);
  q->ending = true;
  pthread_cond_signal(&q->added);
  pthread_mutex_unlock(&q->lock);
  pthread_join(q->thread, NULL);
  queue_free(v);
}

/* ---- callers ---------------------------------------------------------------------------- */

static void wait_a_little(struct view_queue *q) {
  struct timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_nsec += 200000000;
  until.tv_sec += until.tv_nsec / 1000000000;
  until.tv_nsec %= 1000000000;
  pthread_cond_timedwait(&q->finished, &q->lock, &until);
}

/* Whether the task stays in its line; unlocked while the caller is asked. */
static bool still_waits(struct view_queue *q, task *t) {
  if (t->begun || !t->of->waiting) return true;
  pthread_mutex_unlock(&q->lock);
  bool cancelled = t->of->waiting(t->of->user) != 0;
  pthread_mutex_lock(&q->lock);
  if (!cancelled || t->begun) return true;
  cancel(q, t);
  return false;
}

bool attend_viewer_call(attend_viewer *v, const attend_viewer_task *of) {
  struct view_queue *q = v->queue;
  task t = {.of = of};
  bool waits = true;
  if (!q) {
    of->work(of->user);
    return true;
  }
  pthread_mutex_lock(&q->lock);
  append(q, &t);
  while (waits && !t.done) {
    wait_a_little(q);
    if (!t.done) waits = still_waits(q, &t);
  }
  pthread_mutex_unlock(&q->lock);
  return waits;
}
