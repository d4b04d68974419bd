/* Threads: phases in order, every item once, forks, callers with threads. */
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/files.h"
#include "base/parallel.h"
#include "attention_fixtures.h"

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define __SANITIZE_THREAD__ 1
#endif
#endif
#ifdef __SANITIZE_THREAD__ /* which cannot follow threads that start after a fork */
enum { CHILD_THREADS = 1 };
#else
enum { CHILD_THREADS = 4 };
#endif

/* ---- phases ------------------------------------------------------------------ */

enum { ITEMS = 5000, PHASES = 400 };

typedef struct {
  int *cell; /* [ITEMS] how many phases it has seen */
  int phase, threads;
  int *wrong;
} counting;

static void count(const void *args, int64_t i, int worker) {
  const counting *c = args;
  int seen = __atomic_fetch_add(&c->cell[i], 1, __ATOMIC_RELAXED);
  /* The phase before must be over, all of it: its neighbours show that. */
  int next = __atomic_load_n(&c->cell[(i + 997) % ITEMS], __ATOMIC_RELAXED);
  if (seen != c->phase || next < c->phase || next > c->phase + 1 || worker < 0 ||
      worker >= c->threads)
    __atomic_fetch_add(c->wrong, 1, __ATOMIC_RELAXED);
}

static int phases_go_wrong(attend_context *ctx, int threads, bool queued) {
  static int cell[ITEMS];
  int wrong = 0;
  attend_stream s = stream_on(ctx, threads);
  memset(cell, 0, sizeof cell);
  if (queued) stream_enter(&s);
  for (int p = 0; p < PHASES; p++) {
    counting c = {cell, p, threads, &wrong};
    STREAM_ADD(&s, ITEMS, count, c);
  }
  if (queued) stream_leave(&s);
  for (int i = 0; i < ITEMS; i++) wrong += cell[i] != PHASES;
  return wrong;
}

TEST(phases_run_in_order_every_item_once) {
  attend_context *ctx = open_context(NULL, 8, NULL);
  const int threads[] = {1, 2, 3, 8};
  for (int i = 0; i < 4; i++) {
    CHECK_EQ(phases_go_wrong(ctx, threads[i], true), 0);
    CHECK_EQ(phases_go_wrong(ctx, threads[i], false), 0);
  }
  attend_context_free(ctx);
}

static void bump(const void *args, int64_t i, int worker) {
  long *const *sum = args;
  (void)worker;
  __atomic_fetch_add(*sum, (long)i + 1, __ATOMIC_RELAXED);
}

TEST(few_items_and_none) {
  attend_context *ctx = open_context(NULL, 6, NULL);
  attend_stream s = stream_on(ctx, 6);
  long sum = 0, *at = &sum;
  for (int n = 0; n < 20; n++) {
    sum = 0;
    stream_enter(&s);
    STREAM_ADD(&s, n, bump, at);
    stream_enter(&s); /* nested: nothing runs before the outermost leaves */
    STREAM_ADD(&s, n, bump, at);
    stream_leave(&s);
    stream_leave(&s);
    CHECK_EQ((int)sum, n * (n + 1));
  }
  attend_context_free(ctx);
}

/* Hints of what phases read: of data, of addresses that are nobody's, and in more
 * phases than the queue holds. */
TEST(hints_change_nothing) {
  attend_context *ctx = open_context(NULL, 6, NULL);
  attend_stream s = stream_on(ctx, 6);
  static float data[1 << 16];
  const void *const from[] = {data, NULL, (const void *)64, data + 9};
  long sum = 0, *at = &sum;
  stream_reads(&s, data, 6, sizeof data / 6); /* nothing is queued */
  stream_enter(&s);
  for (int p = 0; p < PHASES; p++) {
    STREAM_ADD(&s, p % 7 + 1, bump, at);
    stream_reads(&s, from[p % 4], p % 3 ? 48 : INT32_MAX, (size_t)1 << p % 40);
    if (p % 50 == 0) stream_wait(&s);
  }
  stream_leave(&s);
  long want = 0;
  for (int p = 0; p < PHASES; p++) want += (p % 7 + 1) * (p % 7 + 2) / 2;
  CHECK_EQ((int)sum, (int)want);
  attend_context_free(ctx);
}

/* ---- attention --------------------------------------------------------------- */

static const char *const problem = "softmax:b2h4g2n70d32:causal:bwd";

/* A digest of all outputs. */
static uint64_t run_problem(attend_context *ctx) {
  attend_tensors t = make_tensors(ctx, problem, 7);
  attend_plan *plan;
  attend_digest sum = {0};
  if (attend_plan_create(ctx, &t.desc, &plan)) return 0;
  if (attend_forward(plan, t.q, t.k, t.v, t.o, t.lse)) return 0;
  const attend_desc *d = attend_plan_desc(plan);
  size_t n = (size_t)(d->batch * d->heads * d->q_len * d->dim_v);
  attend_digest_add(&sum, t.o.data, n * sizeof(float));
  attend_plan_free(plan);
  attend_tensors_free(ctx, &t);
  return digest_word(&sum);
}

TEST(a_child_of_fork_computes) {
  attend_context *ctx = open_context(NULL, 4, NULL);
  uint64_t want = run_problem(ctx); /* its threads run */
  CHECK(want != 0);
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    alarm(60);
    attend_context *own = open_context(NULL, CHILD_THREADS, NULL);
    bool same = run_problem(own) == want && run_problem(ctx) == want;
    attend_context_free(own);
    attend_context_free(ctx);
    _exit(same ? 0 : 1);
  }
  int status = -1;
  CHECK(child > 0 && waitpid(child, &status, 0) == child);
  CHECK_EQ(status, 0);
  CHECK(run_problem(ctx) == want);
  attend_context_free(ctx);
}

typedef struct {
  int calls, max;
  bool backwards;
} loops;

/* One by one, in either order: no lane may wait for another. */
static void loop(int n, void (*body)(void *args, int i), void *args, void *user) {
  loops *l = user;
  l->calls++;
  if (n > l->max) l->max = n;
  for (int i = 0; i < n; i++) body(args, l->backwards ? n - 1 - i : i);
}

TEST(a_callers_parallel_for) {
  attend_context *ctx = open_context(NULL, 1, NULL);
  uint64_t want = run_problem(ctx);
  attend_context_free(ctx);
  for (int i = 0; i < 2; i++) {
    loops l = {.backwards = i == 1};
    attend_context_options o = {ATTEND_INIT(attend_context_options), .threads = 5,
                                .parallel_for = loop, .parallel_user = &l};
    OK(ctx, attend_context_create(&o, &ctx));
    CHECK(run_problem(ctx) == want);
    CHECK(l.calls > 0);
    CHECK_EQ(l.max, 5);
    attend_context_free(ctx);
  }
}

/* ---- several callers ----------------------------------------------------------- */

typedef struct {
  attend_context *ctx;
  long sum;
} caller;

static void *call_often(void *args) {
  caller *c = args;
  long sum = 0, *at = &sum;
  for (int i = 0; i < 200; i++) {
    attend_stream s = stream_on(c->ctx, 3);
    STREAM_ADD(&s, 100, bump, at);
  }
  c->sum = sum;
  return NULL;
}

TEST(callers_on_several_threads_do_not_mix) {
  attend_context *ctx = open_context(NULL, 3, NULL);
  pthread_t thread[6];
  caller c[6];
  for (int i = 0; i < 6; i++) {
    c[i] = (caller){ctx, 0};
    CHECK_EQ(pthread_create(&thread[i], NULL, call_often, &c[i]), 0);
  }
  for (int i = 0; i < 6; i++) {
    pthread_join(thread[i], NULL);
    CHECK_EQ((int)c[i].sum, 200 * 5050);
  }
  attend_context_free(ctx);
}
