/* Streams: phases that are queued, run at once, or passed to the caller's parallel_for.
 * threads.c has the threads.
 */
#include "base/parallel.h"

#include <stdalign.h>
#include <stdatomic.h>

#include "base/threads.h"

void stream_enter(attend_stream *s) {
  if (s->depth++ || s->threads <= 1 || s->ctx->parallel_for) return;
  s->pool = pool_take(s->ctx, s->threads);
}

void stream_wait(attend_stream *s) {
  if (s->pool) pool_run(s->pool);
}

void stream_leave(attend_stream *s) {
  if (--s->depth) return;
  stream_wait(s);
  if (s->pool) pool_give(s->pool);
  s->pool = NULL;
}

int stream_suspend(attend_stream *s) {
  int depth = s->depth;
  if (!depth) return 0;
  s->depth = 1;
  stream_leave(s);
  return depth;
}

void stream_resume(attend_stream *s, int depth) {
  if (depth) stream_enter(s);
  s->depth = depth;
}

void stream_reads(attend_stream *s, const void *data, int64_t units, size_t unit) {
  if (s->pool) pool_reads(s->pool, data, units, unit);
}

static void run_alone(int64_t n, phase_body body, const void *args) {
  for (int64_t i = 0; i < n; i++) body(args, i, 0);
}

typedef struct {
  phase_body body;
  const void *args;
  int64_t n;
  _Atomic int64_t next;
} lanes;

/* Takes items until there are none; lanes may run together or one by one. */
static void run_lane(void *args, int lane) {
  lanes *x = args;
  for (int64_t i; (i = atomic_fetch_add(&x->next, 1)) < x->n;) x->body(x->args, i, lane);
}

/* By the caller's threads, or by the calling one. */
static void run_now(const attend_stream *s, int64_t n, phase_body body, const void *args) {
  const attend_context *ctx = s->ctx;
  if (!ctx->parallel_for || s->threads <= 1 || n == 1) {
    run_alone(n, body, args);
    return;
  }
  lanes x = {.body = body, .args = args, .n = n};
  int count = n < s->threads ? (int)n : s->threads;
  ctx->parallel_for(count, run_lane, &x, ctx->parallel_user);
}

void stream_add(attend_stream *s, int64_t n, phase_body body, const void *args, size_t size) {
  if (n <= 0) return;
  if (n == 1 && !s->depth) {
    body(args, 0, 0);
    return;
  }
  stream_enter(s);
  if (s->pool)
    pool_queue(s->pool, n, body, args, size);
  else
    run_now(s, n, body, args);
  stream_leave(s);
}

typedef struct {
  phase_body body;
  int64_t n;
  alignas(16) unsigned char args[LOOP_ARGS];
} whole_loop;

static void run_whole(const void *args, int64_t item, int worker) {
  const whole_loop *w = args;
  (void)item, (void)worker;
  run_alone(w->n, w->body, w->args);
}

/* A loop that is not worth several threads, within a queue. */
static void queue_whole(attend_stream *s, int64_t n, phase_body body, const void *args,
                        size_t size) {
  whole_loop w = {body, n, {0}};
  memcpy(w.args, args, size);
  STREAM_ADD(s, 1, run_whole, w);
}

void parallel_for(attend_context *ctx, int threads, int64_t n, phase_body body, const void *args,
                  size_t size) {
  attend_stream *open = &ctx->stream;
  attend_stream now = stream_on(ctx, threads > 1 ? ctx->threads : 1);
  if (!open->pool)
    stream_add(&now, n, body, args, size);
  else if (threads > 1 || n == 1)
    stream_add(open, n, body, args, size);
  else if (n > 0)
    queue_whole(open, n, body, args, size);
}
