/* Asking a viewer: the list of requests, and the one thread that computes.
 *
 * view_answer.h itself. A context belongs to one thread, and every request uses all
 * cores anyway: so whoever asks waits in a line. Of two lines the long one moves by
 * one at a time; the quick one is served between the steps of long work.
 *
 * Events go from the computing thread into the asker's list, and the asker says
 * them: whoever listens slowly keeps nobody waiting but himself.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "view/core.h"

typedef struct {
  const char *name;
  bool is_long;
  bool (*answer)(asking *a);
} request;

static const request requests[] = {{"hello", false, answer_hello},
                                   {"course", false, answer_course},
                                   {"run", true, answer_run},
                                   {"generate", true, answer_generate},
                                   {"refine", true, answer_refine},
                                   {"thumbs", false, answer_thumbs},
                                   {"patterns", false, answer_patterns},
                                   {"block", false, answer_block},
                                   {"stats", false, answer_stats},
                                   {"vectors", false, answer_vectors},
                                   {"tile", false, answer_tile},
                                   {"flow", false, answer_flow},
                                   {"compare", false, answer_compare},
                                   {"candidates", false, answer_candidates},
                                   {"embeddings", false, answer_embeddings},
                                   {"positions", false, answer_positions},
                                   {"picture", false, answer_picture}};

static const request *find(const char *name) {
  for (size_t i = 0; i < sizeof requests / sizeof *requests; i++)
    if (!strcmp(requests[i].name, name)) return &requests[i];
  return NULL;
}

bool view_knows(const char *name) { return find(name) != NULL; }
bool view_is_long(const char *name) {
  const request *r = find(name);
  return r && r->is_long;
}

/* ---- one request --------------------------------------------------------------------- */

static void reply_error(asking *a) {
  attend_json_writer w = attend_json_writer_text(a->v->ctx);
  attend_json_open(&w, '{');
  attend_json_member(&w, "error");
  attend_json_put_string(&w, a->error);
  if (a->gone) {
    attend_json_member(&w, "gone");
    attend_json_put_boolean(&w, true);
  }
  attend_json_close(&w, '}');
  free(a->reply->bytes);
  *a->reply = (view_reply){a->status, "application/json", NULL, 0};
  if (!attend_json_finish(&w)) {
    a->reply->bytes = need(w.length + 1, 1);
    a->reply->length = w.length;
    memcpy(a->reply->bytes, w.text, w.length);
  }
  attend_json_writer_free(&w);
}

static void compute(viewer *v, const request *r, const char *body,
                    size_t length, view_say say, void *user,
                    view_reply *reply) {
  asking a = {.v = v, .reply = reply, .say = say, .user = user};
  attend_json *root = NULL;
  *reply = (view_reply){500, "application/json", NULL, 0};
  if (!r)
    ask_fail(&a, 404, "there is no such request");
  else if (ask_status(&a, attend_json_parse(v->ctx, "the request", body, length,
                                            &root))) {
    a.q = root;
    if (attend_json_kind_of(root) != ATTEND_JSON_OBJECT)
      ask_fail(&a, 400, "a request is a JSON object");
    else if (!r->answer(&a))
      ask_fail(&a, 500, "the request was not answered");
  }
  attend_json_free(root);
  if (a.status) reply_error(&a);
}

/* ---- the line ------------------------------------------------------------------------------ */

typedef struct event {
  struct event *next;
  char *name, *data;
} event;

typedef struct job {
  struct job *next;
  const request *r;
  const char *body;
  size_t length;
  view_reply *reply;
  bool begun, done;
  bool gone;            /* nobody listens */
  event *events, *last; /* that were not said yet */
  size_t waiting;       /* bytes of them */
  struct view_queue *queue;
} job;

enum { MOST_WAITING = 4 << 20 };

struct view_queue {
  viewer *v;
  pthread_t thread;
  pthread_mutex_t lock;
  pthread_cond_t work, told;
  job *line[2]; /* quick, long */
  bool ending;
};

static job *first(struct view_queue *q, int line) {
  job *j = q->line[line];
  if (j) q->line[line] = j->next;
  if (j) j->begun = true;
  return j;
}

static void leave_line(struct view_queue *q, job *j) {
  job **at = &q->line[j->r && j->r->is_long];
  while (*at && *at != j) at = &(*at)->next;
  if (*at) *at = j->next;
}

static void append(struct view_queue *q, job *j) {
  job **at = &q->line[j->r && j->r->is_long];
  while (*at) at = &(*at)->next;
  *at = j;
  pthread_cond_signal(&q->work);
}

/* Progress that was not said yet is not worth saying. */
static event *stale(job *j, const char *name) {
  return j->last && !strcmp(name, "progress") &&
                 !strcmp(j->last->name, "progress")
             ? j->last
             : NULL;
}

static int keep_event(const char *name, const char *data, void *user) {
  job *j = user;
  pthread_mutex_lock(&j->queue->lock);
  event *e = stale(j, name);
  if (e) {
    free(e->data);
  } else {
    e = need(1, sizeof *e);
    e->name = need_copy(name);
    if (j->last)
      j->last->next = e;
    else
      j->events = e;
    j->last = e;
    j->waiting += strlen(data);
  }
  e->data = need_copy(data);
  if (j->waiting > MOST_WAITING) j->gone = true;
  int gone = j->gone || j->queue->ending;
  pthread_cond_broadcast(&j->queue->told);
  pthread_mutex_unlock(&j->queue->lock);
  return gone;
}

static void do_job(struct view_queue *q, job *j) {
  bool is_long = j->r && j->r->is_long;
  compute(q->v, j->r, j->body, j->length, is_long ? keep_event : NULL, j,
          j->reply);
  pthread_mutex_lock(&q->lock);
  j->done = true;
  pthread_cond_broadcast(&q->told);
  pthread_mutex_unlock(&q->lock);
}

static void *computing(void *user) {
  struct view_queue *q = user;
  pthread_mutex_lock(&q->lock);
  for (;;) {
    job *j = first(q, 0);
    if (!j) j = first(q, 1);
    if (!j && q->ending) break;
    if (!j) {
      pthread_cond_wait(&q->work, &q->lock);
      continue;
    }
    pthread_mutex_unlock(&q->lock);
    do_job(q, j);
    pthread_mutex_lock(&q->lock);
  }
  pthread_mutex_unlock(&q->lock);
  return NULL;
}

void viewer_yield(viewer *v) {
  struct view_queue *q = v->queue;
  while (q) {
    pthread_mutex_lock(&q->lock);
    job *j = first(q, 0);
    pthread_mutex_unlock(&q->lock);
    if (!j) return;
    do_job(q, j);
  }
}

int viewer_share(viewer *v) {
  struct view_queue *q = need(1, sizeof *q);
  q->v = v;
  pthread_mutex_init(&q->lock, NULL);
  pthread_cond_init(&q->work, NULL);
  pthread_cond_init(&q->told, NULL);
  v->queue = q;
  if (!pthread_create(&q->thread, NULL, computing, q)) return EXIT_OK;
  v->queue = NULL;
  free(q);
  complain("no thread could be started to compute in");
  return EXIT_FAILED;
}

void viewer_unshare(viewer *v) {
  struct view_queue *q = v->queue;
  if (!q) return;
  pthread_mutex_lock(&q->lock);
  q->ending = true;
  pthread_cond_signal(&q->work);
  pthread_mutex_unlock(&q->lock);
  pthread_join(q->thread, NULL);
  pthread_mutex_destroy(&q->lock);
  pthread_cond_destroy(&q->work);
  pthread_cond_destroy(&q->told);
  v->queue = NULL;
  free(q);
}

void viewer_close(viewer *v) {
  if (!v) return;
  viewer_unshare(v);
  while (v->runs) {
    view_run *run = v->runs;
    v->runs = run->next;
    run_free(run);
  }
  models_close(v);
  free(v);
}

/* ---- asking --------------------------------------------------------------------------------- */

/* Says what was kept; with the lock, but not while saying. */
static void say_events(job *j, view_say say, void *user) {
  struct view_queue *q = j->queue;
  while (j->events) {
    event *e = j->events;
    j->events = e->next;
    if (!j->events) j->last = NULL;
    j->waiting -= strlen(e->data) < j->waiting ? strlen(e->data) : j->waiting;
    bool gone = j->gone;
    pthread_mutex_unlock(&q->lock);
    if (!gone && say) gone = say(e->name, e->data, user) != 0;
    free(e->name);
    free(e->data);
    free(e);
    pthread_mutex_lock(&q->lock);
    j->gone |= gone;
  }
}

static void wait_a_little(struct view_queue *q) {
  struct timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_nsec += 200000000;
  until.tv_sec += until.tv_nsec / 1000000000;
  until.tv_nsec %= 1000000000;
  pthread_cond_timedwait(&q->told, &q->lock, &until);
}

/* Whoever stands in line is told so; if he has left, so does his question. */
static bool still_waits(struct view_queue *q, job *j, view_say say,
                        void *user) {
  if (!say || j->begun || j->done) return true;
  pthread_mutex_unlock(&q->lock);
  bool gone = say("progress",
                  "{\"done\":0,\"total\":0,\"what\":\"waiting for others\"}",
                  user) != 0;
  pthread_mutex_lock(&q->lock);
  j->gone |= gone;
  if (!gone || j->begun) return true;
  leave_line(q, j);
  return false;
}

/* False if it was never answered, because nobody waits for it. */
static bool ask_in_line(viewer *v, job *j, view_say say, void *user) {
  struct view_queue *q = j->queue = v->queue;
  bool waits = true;
  pthread_mutex_lock(&q->lock);
  append(q, j);
  while (waits && (!j->done || j->events)) {
    say_events(j, say, user);
    if (j->done) continue;
    wait_a_little(q);
    waits = still_waits(q, j, say, user);
  }
  pthread_mutex_unlock(&q->lock);
  return waits;
}

void view_answer(viewer *v, const char *name, const char *body, size_t length,
                 view_reply *reply) {
  job j = {.r = find(name), .body = body, .length = length, .reply = reply};
  if (v->queue)
    ask_in_line(v, &j, NULL, NULL);
  else
    compute(v, j.r, body, length, NULL, NULL, reply);
}

void view_answer_here(viewer *v, const char *name, const char *body,
                      size_t length, view_say say, view_reply *reply) {
  compute(v, find(name), body, length, say, v, reply);
}

void view_stream(viewer *v, const char *name, const char *body, size_t length,
                 view_say say, void *user) {
  view_reply reply = {0};
  job j = {.r = find(name), .body = body, .length = length, .reply = &reply};
  if (!v->queue)
    compute(v, j.r, body, length, say, user, &reply);
  else if (!ask_in_line(v, &j, say, user))
    return;
  char *line = reply.bytes;
  size_t end = reply.length;
  while (end && (line[end - 1] == '\n' || line[end - 1] == ' ')) end--;
  if (line && end) line[end] = 0;
  say(reply.status == 200 ? "done" : "error", line ? line : "{}", user);
  free(reply.bytes);
}
