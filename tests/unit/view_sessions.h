/* Sessions of attend/viewer.h over a model of the goldens. */
#ifndef TESTS_VIEW_SESSIONS_H
#define TESTS_VIEW_SESSIONS_H

#include "attend/viewer.h"
#include "base/base.h"
#include "golden_models.h"

typedef struct {
  attend_context *ctx;
  attend_viewer *v;
} session;

/* most_bytes of runs; 0: the default. */
static inline session open_session(const char *model, size_t most_bytes) {
  session s = {0};
  attend_viewer_options o = {ATTEND_INIT(attend_viewer_options)};
  o.most_bytes = most_bytes;
  s.ctx = open_context(NULL, 2, NULL);
  OK(s.ctx, attend_viewer_create(s.ctx, &o, &s.v));
  OK(s.ctx, attend_viewer_add(s.v, &(attend_viewer_source){ATTEND_INIT(attend_viewer_source),
                                                           .path = model_path(model, NULL)}));
  return s;
}

static inline void close_session(session *s) {
  attend_viewer_free(s->v);
  attend_context_free(s->ctx);
}

static inline void refused(const session *s, attend_status status, const char *part) {
  CHECK_EQ(status, ATTEND_INVALID);
  CHECK_SAYS(attend_message(s->ctx), part);
}

typedef attend_status (*session_use)(attend_viewer *v);

static inline attend_status whole_session(attend_context *ctx, session_use use) {
  attend_viewer *v = NULL;
  attend_viewer_source source = {ATTEND_INIT(attend_viewer_source),
                                 .path = model_path("gpt2", NULL)};
  attend_status status = attend_viewer_create(ctx, NULL, &v);
  if (!status) status = attend_viewer_add(v, &source);
  if (!status) status = use(v);
  attend_viewer_free(v);
  return status;
}

/* Of a session's allocations about `tries` fail, one after another: each is a status, and nothing
 * is lost. tries 0: all. */
static inline void allocations_may_fail_in(session_use use, long tries) {
  ledger memory = {0};
  attend_context *ctx = open_context(NULL, 1, &memory);
  OK(ctx, whole_session(ctx, use));
  long before = memory.taken, live = memory.live;
  OK(ctx, whole_session(ctx, use));
  long last = memory.taken - before, stride = tries ? last / tries + 1 : 1;
  CHECK(last > 100);
  for (long n = 1; n <= last; n += stride) {
    memory.fail_at = memory.taken + n;
    attend_status status = whole_session(ctx, use);
    memory.fail_at = 0;
    if (status != ATTEND_NO_MEMORY) CHECK_FAIL("failure %ld gives status %d", n, (int)status);
    if (memory.live != live) CHECK_FAIL("failure %ld loses %ld blocks", n, memory.live - live);
  }
  attend_context_free(ctx);
}

#endif
