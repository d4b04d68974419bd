/* Streams of phases, and the pools of threads that run them. A stream queues phases in a
 * pool, or runs each at once, or passes it to the caller's parallel_for.
 *
 * Thread pools that run queued phases. A context has a list of idle pools; a stream takes
 * one while it is open, so calls from several threads never share one.
 *
 * Phases are numbered for the life of a pool. `limit` phases were released,
 * `current` is the first that is not complete; both only grow. The items of a phase
 * are cut into one range a worker. A range is claimed item by item with a
 * compare-and-swap on its slot, which holds the phase and how many items of it were
 * claimed: a slot of an earlier phase counts as none. So nothing is reset between
 * phases, a thread that is not scheduled blocks no other (others claim its items),
 * and a thread that wakes up late finds its phase over.
 *
 * A phase is complete when its last item is: the thread that finishes it advances `current`.
 * Waiting threads spin for a while, which adapts, and then sleep.
 */
#define _GNU_SOURCE
#include "base/parallel.h"

#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Of linux/futex.h, which musl does not have. */
enum { FUTEX_WAIT_PRIVATE = 128, FUTEX_WAKE_PRIVATE = 129 };

enum {
  RING = 128,            /* phases that may be queued */
  TAKEN_BITS = 32,       /* of a slot; the others are the phase */
  STACK_BYTES = 2 << 20, /* of a worker */
  FETCH_PHASES = 2,      /* that a waiting thread fetches for */
  FETCH_BYTES = 512,     /* between looks at whether there is work */
  SPIN_LEAST = 2000,     /* ns */
  SPIN_MOST = 1000000,   /* ns */
  PREEMPTED = 30000      /* longer than a few rounds of spinning take, ns */
};
static const uint64_t TAKEN_MASK = ((uint64_t)1 << TAKEN_BITS) - 1;

typedef struct {
  alignas(64) _Atomic int64_t items; /* read by threads that may be late */
  _Atomic uintptr_t reads;           /* see stream_reads; 0: no hint */
  _Atomic int64_t units;
  _Atomic size_t unit;
  phase_body body; /* from here on read after a claim alone */
  uint64_t end;    /* `done` when it is complete */
  alignas(16) unsigned char args[PHASE_ARGS];
} phase;

typedef struct {
  alignas(64) _Atomic uint64_t claimed; /* phase << TAKEN_BITS | items of it */
} slot;

typedef struct {  /* what a worker knows between its waits */
  int64_t spin;   /* ns to spin before sleeping */
  uint64_t phase; /* the last that it fetched for, */
  size_t fetched; /* and how many bytes */
} waiter;

struct pool {
  alignas(64) _Atomic uint64_t current;
  alignas(64) _Atomic uint64_t limit;
  alignas(64) _Atomic uint64_t done; /* items, of all phases */
  alignas(64) _Atomic int sleepers;
  _Atomic uint32_t change; /* counts changes that wake sleepers */
  _Atomic bool stop;
  struct pool *next;  /* in the context's list */
  struct pools *home; /* whose idle pools it is among */
  int threads;        /* workers, the caller among them */
  int started;        /* threads that run, without the caller */
  bool begun;
  size_t fetch; /* bytes at most for one phase */
  waiter caller;
  uint64_t queued, end; /* phases and items that were ever added */
  slot *slot;           /* [threads] */
  pthread_t *thread;    /* [threads - 1] */
  phase ring[RING];
};

struct pools {
  pthread_mutex_t lock;
  struct pool *idle;
  pid_t process;
};

/* ---- claiming items -------------------------------------------------------------- */

/* The next item of worker w's range in phase p, or -1. The number of items may be
 * read of a later phase if p is over: then `current` is no longer p. */
static int64_t claim(struct pool *x, uint64_t p, int w) {
  int64_t n = atomic_load_explicit(&x->ring[p % RING].items, memory_order_acquire);
  int64_t first = n * w / x->threads;
  uint64_t length = (uint64_t)(n * (w + 1) / x->threads - first);
  uint64_t tag = p << TAKEN_BITS;
  uint64_t seen = atomic_load_explicit(&x->slot[w].claimed, memory_order_acquire);
  for (;;) {
    uint64_t taken = (seen & ~TAKEN_MASK) == tag ? seen & TAKEN_MASK : 0;
    if (taken >= length) return -1;
    if (atomic_load_explicit(&x->current, memory_order_acquire) != p) return -1;
    if (atomic_compare_exchange_weak_explicit(&x->slot[w].claimed, &seen, tag | (taken + 1),
                                              memory_order_acq_rel, memory_order_acquire))
      return first + (int64_t)taken;
  }
}

/* After a change of current, limit or stop. */
static void wake(struct pool *x) {
  if (!atomic_load(&x->sleepers)) return;
  atomic_fetch_add(&x->change, 1);
  syscall(SYS_futex, &x->change, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

/* n items of phase p, which ends at `end`, are done. The thread that does the last
 * continues with the phases of one item that follow: only then must others be woken. */
static void finish(struct pool *x, uint64_t p, uint64_t end, uint64_t n, int worker) {
  uint64_t limit = atomic_load_explicit(&x->limit, memory_order_acquire);
  uint64_t before = atomic_fetch_add_explicit(&x->done, n, memory_order_acq_rel);
  if (before + n != end) return;
  for (p++; p < limit; p++) {
    const phase *f = &x->ring[p % RING];
    if (atomic_load_explicit(&f->items, memory_order_relaxed) != 1) break;
    f->body(f->args, 0, worker);
    atomic_fetch_add_explicit(&x->done, 1, memory_order_relaxed);
  }
  atomic_store(&x->current, p);
  wake(x);
}

/* All that is left of the range of `owner` in phase p; false: nothing was. */
static bool drain(struct pool *x, uint64_t p, int owner, int worker) {
  int64_t item = claim(x, p, owner);
  if (item < 0) return false;
  const phase *f = &x->ring[p % RING];
  uint64_t n = 0, end = f->end;
  do {
    f->body(f->args, item, worker);
    n++;
  } while ((item = claim(x, p, owner)) >= 0);
  finish(x, p, end, n, worker);
  return true;
}

/* One item of another worker's range, so that the rest stays with its owner. */
static bool steal(struct pool *x, uint64_t p, int worker) {
  for (int i = 1; i < x->threads; i++) {
    int64_t item = claim(x, p, (worker + i) % x->threads);
    if (item < 0) continue;
    const phase *f = &x->ring[p % RING];
    uint64_t end = f->end;
    f->body(f->args, item, worker);
    finish(x, p, end, 1, worker);
    return true;
  }
  return false;
}

/* ---- waiting --------------------------------------------------------------------- */

static inline void relax(void) {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

typedef struct {
  uint64_t current, limit;
} moment;

static moment look(struct pool *x) {
  moment m;
  m.limit = atomic_load(&x->limit);
  m.current = atomic_load(&x->current);
  return m;
}

static bool changed(struct pool *x, moment m) {
  moment now = look(x);
  return now.current != m.current || now.limit != m.limit || atomic_load(&x->stop);
}

/* A waker reads `sleepers` after its change; a sleeper checks for changes after it
 * counted itself: at least one of them sees the other. */
static void sleep_until_change(struct pool *x, moment m) {
  atomic_fetch_add(&x->sleepers, 1);
  for (;;) {
    uint32_t seen = atomic_load(&x->change);
    if (changed(x, m)) break;
    syscall(SYS_futex, &x->change, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
  }
  atomic_fetch_sub(&x->sleepers, 1);
}

static int64_t nanoseconds(void) { return (int64_t)(seconds_now() * 1e9); }

/* What is left to fetch of the worker's part of phase w->phase; false: the phase
 * before it is over. Its hint may be overwritten meanwhile, by a later phase's or
 * partly: then other addresses are fetched, which need not exist. */
static bool fetch_part(struct pool *x, uint64_t current, int worker, waiter *w) {
  const phase *f = &x->ring[w->phase % RING];
  int64_t n = atomic_load_explicit(&f->items, memory_order_relaxed);
  int64_t units = atomic_load_explicit(&f->units, memory_order_relaxed);
  size_t unit = atomic_load_explicit(&f->unit, memory_order_relaxed);
  uintptr_t data = atomic_load_explicit(&f->reads, memory_order_relaxed);
  int64_t begin = units * (n * worker / x->threads) / n;
  int64_t end = units * (n * (worker + 1) / x->threads) / n;
  size_t bytes = size_times((size_t)(end - begin), unit);
  if (bytes > x->fetch) bytes = x->fetch;
  data += (size_t)begin * unit;
  for (; w->fetched < bytes; w->fetched += FETCH_BYTES) {
    if (atomic_load_explicit(&x->current, memory_order_relaxed) != current) return false;
    for (size_t i = 0; i < FETCH_BYTES; i += 64)
      __builtin_prefetch((const void *)(data + w->fetched + i), 0, 2);
  }
  return true;
}

/* Into the worker's own cache, what the next phases that say so will read first:
 * memory would be idle while threads wait for the last one. */
static void fetch_next(struct pool *x, moment m, int worker, waiter *w) {
  int left = FETCH_PHASES;
  for (uint64_t p = m.current + 1; p < m.limit && left; p++) {
    const phase *f = &x->ring[p % RING];
    if (!atomic_load_explicit(&f->reads, memory_order_relaxed)) continue;
    left--;
    if (p > w->phase) w->phase = p, w->fetched = 0;
    if (p == w->phase && !fetch_part(x, m.current, worker, w)) return;
  }
}

/* Until something changes. Spins less where spinning threads lose their core,
 * because other programs want it. */
static void idle(struct pool *x, moment m, int worker, waiter *w) {
  fetch_next(x, m, worker, w);
  int64_t *spin = &w->spin;
  int64_t start = nanoseconds(), last = start, now;
  for (;; last = now) {
    for (int i = 0; i < 16; i++) {
      if (changed(x, m)) {
        if (*spin < SPIN_MOST) *spin += *spin / 8;
        return;
      }
      relax();
    }
    now = nanoseconds();
    if (now - last > PREEMPTED) *spin = *spin / 2 < SPIN_LEAST ? SPIN_LEAST : *spin / 2;
    if (now - start >= *spin) break;
  }
  sleep_until_change(x, m);
}

static void work(struct pool *x, int worker, moment m, waiter *w) {
  if (m.current < m.limit && (drain(x, m.current, worker, worker) || steal(x, m.current, worker)))
    return;
  idle(x, m, worker, w);
}

/* ---- threads --------------------------------------------------------------------- */

typedef struct {
  struct pool *pool;
  int worker;
} start;

static void *worker_main(void *argument) {
  start s = *(start *)argument;
  waiter w = {.spin = SPIN_MOST};
  free(argument);
  while (!atomic_load(&s.pool->stop)) work(s.pool, s.worker, look(s.pool), &w);
  return NULL;
}

static bool start_worker(struct pool *x, const pthread_attr_t *attributes) {
  start *s = malloc(sizeof *s);
  if (!s) return false;
  *s = (start){x, x->started + 1};
  if (pthread_create(&x->thread[x->started], attributes, worker_main, s)) {
    free(s);
    return false;
  }
  x->started++;
  return true;
}

/* Where a thread cannot be had, the others do its part. */
static void start_workers(struct pool *x) {
  sigset_t all, before;
  pthread_attr_t attributes;
  x->begun = true;
  if (pthread_attr_init(&attributes)) return;
  pthread_attr_setstacksize(&attributes, STACK_BYTES);
  sigfillset(&all); /* signals are for the program's own threads, */
  const int faults[] = {SIGBUS, SIGSEGV, SIGFPE, SIGILL}; /* but for these */
  for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) sigdelset(&all, faults[i]);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  while (x->started < x->threads - 1 && start_worker(x, &attributes)) continue;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  pthread_attr_destroy(&attributes);
}

/* ---- pools ----------------------------------------------------------------------- */

/* Threads have their memory from the C library, as their stacks: a pool is made when it is first
 * needed, within calls that take nothing from the context's allocator. */
static struct pool *pool_create(struct pools *home, int threads, size_t fetch) {
  struct pool *x;
  size_t slots = (size_t)threads * sizeof *x->slot;
  size_t bytes = sizeof *x + slots + (size_t)threads * sizeof *x->thread;
  x = aligned_alloc(64, round_up(bytes, 64));
  if (!x) return NULL; /* the caller does without */
  memset(x, 0, bytes);
  x->slot = (slot *)(x + 1);
  x->thread = (pthread_t *)((unsigned char *)(x + 1) + slots);
  x->home = home;
  x->threads = threads;
  x->fetch = fetch;
  x->caller.spin = SPIN_MOST;
  atomic_store(&x->current, 1); /* slots begin in phase 0 */
  atomic_store(&x->limit, 1);
  x->queued = 1;
  return x;
}

static void pool_free(struct pool *x) {
  atomic_store(&x->stop, true);
  wake(x);
  for (int i = 0; i < x->started; i++) pthread_join(x->thread[i], NULL);
  free(x);
}

void pools_create(attend_context *ctx) {
  struct pools *all = calloc(1, sizeof *all);
  if (!all) return; /* everything runs in the caller */
  pthread_mutex_init(&all->lock, NULL);
  all->process = getpid();
  ctx->pools = all;
}

void pools_free(attend_context *ctx) {
  struct pools *all = ctx->pools;
  if (!all) return;
  if (all->process == getpid()) { /* else fork() left the threads behind */
    for (struct pool *x = all->idle, *next; x; x = next) {
      next = x->next;
      pool_free(x);
    }
    pthread_mutex_destroy(&all->lock);
  }
  free(all);
}

static struct pool *pool_take(attend_context *ctx, int threads) {
  struct pools *all = ctx->pools;
  struct pool *x, **link;
  if (!all || all->process != getpid()) return NULL;
  pthread_mutex_lock(&all->lock);
  for (link = &all->idle; *link && (*link)->threads != threads;) link = &(*link)->next;
  x = *link;
  if (x)
    *link = x->next;
  else
    x = pool_create(all, threads, ctx->near_bytes / 4);
  pthread_mutex_unlock(&all->lock);
  return x;
}

static void pool_give(struct pool *x) {
  struct pools *all = x->home;
  pthread_mutex_lock(&all->lock);
  x->next = all->idle;
  all->idle = x;
  pthread_mutex_unlock(&all->lock);
}

/* ---- queueing -------------------------------------------------------------------- */

static void pool_run(struct pool *x) {
  for (moment m = look(x); m.current < m.limit; m = look(x)) work(x, 0, m, &x->caller);
}

/* Threads begin while the caller queues more. Those that sleep are woken here if
 * all before was complete, else by the thread that completes it. */
static void release(struct pool *x, uint64_t limit) {
  if (!x->begun) start_workers(x);
  atomic_store(&x->limit, limit);
  if (atomic_load(&x->current) + 1 == limit) wake(x);
}

static void pool_queue(struct pool *x, int64_t n, phase_body body, const void *args, size_t size) {
  if (x->queued - atomic_load_explicit(&x->current, memory_order_relaxed) == RING) pool_run(x);
  phase *f = &x->ring[x->queued % RING];
  x->end += (uint64_t)n;
  f->body = body;
  f->end = x->end;
  if (size) memcpy(f->args, args, size);
  atomic_store_explicit(&f->reads, 0, memory_order_relaxed);
  atomic_store_explicit(&f->items, n, memory_order_release);
  release(x, ++x->queued);
}

/* ---- streams --------------------------------------------------------------------- */

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
  if (!s->pool) return;
  phase *f = &s->pool->ring[(s->pool->queued - 1) % RING];
  atomic_store_explicit(&f->units, units, memory_order_relaxed);
  atomic_store_explicit(&f->unit, unit, memory_order_relaxed);
  atomic_store_explicit(&f->reads, (uintptr_t)data, memory_order_relaxed);
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
