/* Parallel work: a stream of phases, run in order by a pool of threads.
 *
 * A phase is a function applied to items 0 .. n-1 in
 * any order, by any worker; the phases of a stream run one after the other. While a
 * stream is open, phases are queued and one entry into the pool runs them all,
 * beginning while more are queued: what a phase reads or writes belongs to it until
 * stream_wait or stream_leave returns. A stream that is not open runs each phase at
 * once.
 *
 * Results must not depend on how items are spread over workers. `worker` numbers
 * the workspace that an item may use: 0 .. threads-1, one item at a time each.
 */
#ifndef BASE_PARALLEL_H
#define BASE_PARALLEL_H

#include "base/base.h"

static inline attend_stream stream_on(attend_context *ctx, int threads) {
  return (attend_stream){ctx, threads, NULL, 0};
}

/* Bytes of arguments, which are copied. */
enum { PHASE_ARGS = 576, LOOP_ARGS = PHASE_ARGS - 32 };

/* Runs body(args, i, worker) for i in [0, n). Item i belongs to the same worker every
 * time; others take it only if they have done their own. */
void stream_add(attend_stream *s, int64_t n, phase_body body, const void *args, size_t size);
#define STREAM_ADD(s, n, body, args)                                    \
  do {                                                                  \
    _Static_assert(sizeof(args) <= PHASE_ARGS, "too many for a phase"); \
    stream_add(s, n, body, &(args), sizeof(args));                      \
  } while (0)

/* What the phase that was added last will read, for threads to fetch while they
 * wait for the phases before it: item i of n reads units [units i/n, units (i+1)/n)
 * of `unit` bytes. A hint; nothing depends on it. */
void stream_reads(attend_stream *s, const void *data, int64_t units, size_t unit);

void stream_enter(attend_stream *s); /* queue from here on; may be nested */
void stream_wait(attend_stream *s);  /* run what is queued */
void stream_leave(attend_stream *s); /* the outermost runs what is queued */
/* Around a callback, which may use the context: runs what is queued and closes
 * the stream; what it returns opens it again as deep as it was. */
int stream_suspend(attend_stream *s);
void stream_resume(attend_stream *s, int depth);

/* One loop, by all of the context's threads, or as one item by one of them if
 * `threads` is 1; queued while the context's stream is open, else at once. */
void parallel_for(attend_context *ctx, int threads, int64_t n, phase_body body, const void *args,
                  size_t size) FOR_LAB(parallel_for);
#define PARALLEL_FOR(ctx, threads, n, body, args)                     \
  do {                                                                \
    _Static_assert(sizeof(args) <= LOOP_ARGS, "too many for a loop"); \
    parallel_for(ctx, threads, n, body, &(args), sizeof(args));       \
  } while (0)

/* ---- of a context ---------------------------------------------------------------- */

void pools_create(attend_context *ctx);
void pools_free(attend_context *ctx);

#endif
